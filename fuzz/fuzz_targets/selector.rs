//! Any text as a selector: what is read prints back to the same tree, and problems point into the text.
#![no_main]

use kernel_plan::variant::Selector;

libfuzzer_sys::fuzz_target!(|text: &str| match Selector::parse(text) {
    Ok(selector) => {
        let printed = selector.to_string();
        assert_eq!(Selector::parse(&printed).ok(), Some(selector), "`{text}` became `{printed}`");
    }
    Err(problem) => {
        for (span, _) in &problem.labels {
            assert!(text.get(span.clone()).is_some(), "{span:?} is not a range of the text");
        }
    }
});
