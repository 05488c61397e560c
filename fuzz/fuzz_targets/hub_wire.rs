//! Any bytes as what a client sends a hub: an address or the body of a commit. Read without a panic, and no path of
//! what is accepted leaves its kernel.
#![no_main]

use kernel_hub::name::{FilePath, RefName, Revision};
use kernel_hub::wire::commit::{self, Content, Limits, Operation};
use kernel_hub::wire::lines::Span;
use kernel_hub::wire::range::{self, RequestedRange};
use kernel_hub::wire::route::{self, Ask, Route};
use kernel_hub::wire::xet;

const LIMITS: Limits = Limits { operations: 16, inline: 1024 };
const SIZE: u64 = 1000;

fn inside(path: &FilePath) {
    let path = path.as_str();
    assert!(!path.starts_with('/') && !path.contains(['\\', '\0', '\n']) && path.len() <= 1024, "{path:?}");
    let fine = |part: &str| !part.is_empty() && part.len() <= 255 && ![".", "..", ".git"].contains(&part);
    assert!(path.split('/').all(fine), "{path:?}");
}

/// The name of a ref is one file of its folder, and comes back from it.
fn one_file(name: &RefName) {
    let file = name.file_name();
    assert!(!file.is_empty() && !file.contains(['/', '\\', '\0']) && !file.starts_with('.') && file.len() <= 255, "{file:?}");
    assert_eq!(RefName::of_file_name(&file).as_ref(), Some(name));
}

fn named(revision: &Revision) {
    match revision {
        Revision::Commit(id) => assert!(id.as_str().len() == 40),
        Revision::Named(name) | Revision::Branch(name) | Revision::Tag(name) => one_file(name),
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(commit) = commit::parse(std::io::Cursor::new(bytes), &LIMITS) {
        assert!(!commit.operations.is_empty() && commit.operations.len() <= LIMITS.operations);
        for operation in &commit.operations {
            match operation {
                Operation::Put { path, content } => {
                    inside(path);
                    let end = |span: &Span| span.start + span.length;
                    match content {
                        Content::Bytes(content) => assert!(content.len() as u64 <= LIMITS.inline),
                        Content::Base64(span) | Content::Text(span) => assert!(end(span) <= bytes.len() as u64),
                    }
                }
                Operation::Link { path, .. } | Operation::Delete(path) | Operation::DeleteFolder(path) => inside(path),
            }
        }
    }
    let _either = xet::name_of(&mut &bytes[..]);
    let _either = xet::Shard::new(bytes).map(|shard| shard.count());
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A seed is a line of a file: METHOD TARGET, or a range.
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (method, target) = text.split_once(' ').unwrap_or(("GET", text));
    if let Ok(Route::Kernel(repo, ask)) = route::parse(method, target) {
        for name in [repo.org(), repo.name()] {
            assert!(!name.is_empty() && !name.contains(['/', '\\', '\0']) && !name.starts_with('.'), "{name:?}");
        }
        match ask {
            Ask::Resolve(revision, path) => {
                named(&revision);
                inside(&path);
            }
            Ask::Tree { revision, folder, .. } => {
                named(&revision);
                folder.iter().for_each(inside);
            }
            Ask::CreateBranch(name) | Ask::DeleteBranch(name) | Ask::DeleteTag(name) | Ask::Commit(name) => {
                one_file(&name);
            }
            Ask::Info(Some(revision))
            | Ask::PathsInfo(revision)
            | Ask::Commits(revision)
            | Ask::CreateTag(revision)
            | Ask::Preupload(revision) => named(&revision),
            Ask::Info(None) | Ask::Refs(_) | Ask::AuthCheck(_) | Ask::LfsBatch | Ask::XetWrite | Ask::XetRead => {}
        }
    }
    // What a body of a form is read as; no more of it is kept than was sent.
    let kept: usize = route::pairs(text).flatten().map(|(key, value)| key.len() + value.len()).sum();
    assert!(kept <= text.len());
    if let RequestedRange::Part { start, length } = range::parse(Some(text), SIZE) {
        assert!(length > 0 && start + length <= SIZE);
    }
});
