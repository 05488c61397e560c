//! Any text as build.toml: read without a panic, and every problem points into the text.
#![no_main]

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::parse_build;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (spec, problems) = parse_build(SourceFile::new("build.toml", text));
    assert!(spec.is_some() || !problems.is_empty(), "neither a spec nor a problem");
    for (span, _) in problems.iter().flat_map(|problem| &problem.labels) {
        assert!(text.get(span.clone()).is_some(), "{span:?} is not a range of the text");
    }
});
