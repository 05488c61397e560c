//! Any text as a definition of flashinfer-bench: refused with a place in it, or made into an op.toml without an error.
#![no_main]

use kernel_plan::diagnostic::{SourceFile, has_errors};
use kernel_plan::exchange;
use kernel_plan::spec::parse_op;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (imported, problems) = exchange::import(&SourceFile::new("definition.json", text), None);
    for (span, _) in problems.iter().flat_map(|problem| &problem.labels) {
        assert!(text.get(span.clone()).is_some(), "{span:?} is not a range of the text");
    }
    match imported {
        Some(imported) if !has_errors(&problems) => {
            let (op, found) = parse_op(SourceFile::new("op.toml", imported.op_toml.as_str()));
            assert!(op.is_some() && !has_errors(&found), "{found:?}\n{}", imported.op_toml);
        }
        _ => assert!(has_errors(&problems), "neither an op.toml nor an error"),
    }
});
