//! Any text as an older build.toml: what comes of an update is of the new edition, and a second one leaves it alone.
#![no_main]

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::{Edition, edition, update};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let file = SourceFile::new("build.toml", text);
    match update(&file, None) {
        Ok(updated) => {
            assert_eq!(edition(&updated.text), Some(Edition::Five), "{:?}", updated.text);
            let again = update(&SourceFile::new("build.toml", updated.text.as_str()), None).expect("a second time");
            assert_eq!(again.text, updated.text);
            assert!(again.changes.is_empty());
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            for (span, _) in problems.iter().flat_map(|problem| &problem.labels) {
                assert!(text.get(span.clone()).is_some(), "{span:?} is not a range of the text");
            }
        }
    }
});
