//! Any text as op.toml: read, its cases listed and its launch evaluated without a panic; problems point into the text.
#![no_main]

use kernel_plan::diagnostic::{SourceFile, has_errors};
use kernel_plan::spec::op::{Device, Purpose};
use kernel_plan::spec::parse_op;

/// A file can name more combinations of dtypes than anyone can list.
const MOST_CASES: usize = 256;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (spec, problems) = parse_op(SourceFile::new("op.toml", text));
    assert!(spec.is_some() || !problems.is_empty(), "neither a spec nor a problem");
    for (span, _) in problems.iter().flat_map(|problem| &problem.labels) {
        assert!(text.get(span.clone()).is_some(), "{span:?} is not a range of the text");
    }
    let Some(spec) = spec else { return };
    let combinations = |dtypes: &[Vec<_>]| dtypes.iter().map(Vec::len).try_fold(1, usize::checked_mul);
    for workload in &spec.workloads {
        let dtypes: Vec<Vec<_>> = workload.dtypes.iter().map(|(_, dtypes)| dtypes.clone()).collect();
        if combinations(&dtypes).is_none_or(|count| count > MOST_CASES) {
            return;
        }
    }
    let tuning = spec.tune.default_tuning();
    for device in [Device::Cpu, Device::Cuda] {
        for case in spec.cases(Purpose::Verify, device) {
            if let Some(Err(error)) = spec.launch.as_ref().map(|launch| launch.evaluate(&case, &tuning)) {
                // An error without a place in the file could not be shown.
                assert!(has_errors(&problems) || text.get(error.span()).is_some(), "{error:?}");
            }
        }
    }
});
