//! Any bytes as what a client sends a hub: an address or the body of a commit. Read without a panic, and no path of
//! what is accepted leaves its kernel.
#![no_main]

use kernel_hub::name::FilePath;
use kernel_hub::wire::commit::{self, Limits, Operation};
use kernel_hub::wire::range::{self, Wanted};
use kernel_hub::wire::route::{self, Ask, Route};

const LIMITS: Limits = Limits { operations: 16, inline: 1024 };
const SIZE: u64 = 1000;

fn inside(path: &FilePath) {
    let path = path.as_str();
    assert!(!path.starts_with('/') && !path.contains(['\\', '\0', '\n']) && path.len() <= 1024, "{path:?}");
    assert!(path.split('/').all(|part| !part.is_empty() && part != "." && part != ".."), "{path:?}");
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(commit) = commit::parse(bytes, &LIMITS) {
        assert!(!commit.operations.is_empty() && commit.operations.len() <= LIMITS.operations);
        for operation in &commit.operations {
            match operation {
                Operation::Put { path, content } => {
                    inside(path);
                    assert!(content.len() as u64 <= LIMITS.inline);
                }
                Operation::Link { path, .. } | Operation::Delete(path) | Operation::DeleteFolder(path) => inside(path),
            }
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A seed is a line of a file: METHOD TARGET, or a range.
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (method, target) = text.split_once(' ').unwrap_or(("GET", text));
    if let Ok(Route::Kernel(repo, ask)) = route::parse(method, target) {
        for name in [repo.org(), repo.name()] {
            assert!(!name.is_empty() && !name.contains(['/', '\\', '\0']) && !name.starts_with('.'), "{name:?}");
        }
        match ask {
            Ask::Resolve(_, path) => inside(&path),
            Ask::Tree { folder: Some(folder), .. } => inside(&folder),
            _ => {}
        }
    }
    if let Wanted::Part { start, length } = range::parse(Some(text), SIZE) {
        assert!(length > 0 && start + length <= SIZE);
    }
});
