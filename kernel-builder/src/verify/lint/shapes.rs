//! What the workloads of an operation leave out, seen without running anything.
//!
//! Owns: the findings about lengths, sizes and optional inputs. Pure. Never: looks at a value.

use std::collections::BTreeSet;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Axis, AxisKind, Case, CaseTensor, Device, Purpose};
use kernel_plan::units::PythonName;

use super::{FindingCase, LintFinding};
use crate::base::report;

/// Below this, a timed call measures its launch.
const SMALL: u64 = 1 << 20;
/// Above this, a case and its float64 results fit into few machines.
const LARGE: u64 = 64 << 30;

/// Every finding about the workloads.
pub(super) fn findings(op: &OpSpec) -> Vec<LintFinding> {
    let mut found: Vec<_> = op.axes.iter().filter_map(|axis| round_lengths(op, axis)).collect();
    found.extend(one_shape(op));
    for device in Device::ALL {
        found.extend(small(op, *device));
        found.extend(unverified(op, *device));
    }
    found.extend(large(op));
    found.extend(never_passed(op));
    found
}

fn finding(code: &str, about: Option<&str>, summary: String, help: &str) -> LintFinding {
    let about = about.map(str::to_owned);
    LintFinding { code: code.to_owned(), about, summary, help: help.to_owned(), cases: vec![] }
}

fn bytes(case: &Case) -> u64 {
    let passed = case.inputs.iter().filter(|input| !input.omitted);
    passed.chain(&case.outputs).map(CaseTensor::bytes).fold(0, u64::saturating_add)
}

/// A variable axis whose verified lengths are all round, though others are allowed: tails and masks are never tried.
fn round_lengths(op: &OpSpec, axis: &Axis) -> Option<LintFinding> {
    let AxisKind::Var { multiple_of, min, max } = axis.kind else { return None };
    let name = &axis.name.value;
    let verified = op.workloads.iter().filter(|workload| workload.purposes.contains(&Purpose::Verify));
    let lengths: BTreeSet<u64> = verified.filter_map(|workload| workload.axes.get(name)).copied().collect();
    let round = |length: &u64| {
        let steps = length / multiple_of.max(1);
        steps == 0 || steps.is_power_of_two() || steps.is_multiple_of(8)
    };
    let fixed = max.is_some_and(|max| max == min.unwrap_or(0));
    if lengths.is_empty() || fixed || !lengths.iter().all(round) {
        return None;
    }
    let shown: Vec<String> = lengths.iter().map(u64::to_string).collect();
    let summary = format!(
        "`{name}` is only ever {}: a kernel that skips the remainder after its vectors and blocks passes",
        shown.join(", "),
    );
    let help = "verify a length that no power of two divides, as 1000 or 4097; or say `multiple-of`";
    Some(finding("lint::round_lengths", Some(name.as_str()), summary, help))
}

/// All workloads for one purpose have the same lengths.
fn one_shape(op: &OpSpec) -> Vec<LintFinding> {
    let has_choice = op.axes.iter().any(|axis| matches!(axis.kind, AxisKind::Var { .. }));
    let of = |purpose: Purpose| {
        let used = op.workloads.iter().filter(|workload| workload.purposes.contains(&purpose));
        let shapes: BTreeSet<_> = used.map(|workload| &workload.axes).collect();
        (has_choice && shapes.len() == 1).then(|| {
            let verb = purpose.as_str();
            let summary = format!(
                "every workload for {verb} has the same lengths: a kernel that is right or fast only there passes"
            );
            let help = "add a workload of other lengths, preferably a held-out one";
            finding("lint::one_shape", Some(verb), summary, help)
        })
    };
    [Purpose::Verify, Purpose::Bench].into_iter().filter_map(of).collect()
}

/// Nothing that is timed moves enough to be measured.
fn small(op: &OpSpec, device: Device) -> Option<LintFinding> {
    let largest = op.cases(Purpose::Bench, device).iter().map(bytes).max()?;
    (largest < SMALL).then(|| {
        let summary = format!(
            "the largest workload for bench on {device} moves {}: its time is mostly that of the call",
            report::bytes(largest),
        );
        let help = "add a workload of the size that is used in practice, at least 1 MiB";
        finding("lint::small_workloads", Some(device.as_str()), summary, help)
    })
}

/// Something is timed on a device, and nothing verified there.
fn unverified(op: &OpSpec, device: Device) -> Option<LintFinding> {
    let lacks = op.cases(Purpose::Verify, device).is_empty() && !op.cases(Purpose::Bench, device).is_empty();
    lacks.then(|| {
        let summary = format!("workloads are timed on {device}, but none is verified there");
        let help = "add \"verify\" to `for` of a workload on this device";
        finding("lint::unverified", Some(device.as_str()), summary, help)
    })
}

/// Cases that few machines hold.
fn large(op: &OpSpec) -> Option<LintFinding> {
    let mut cases: Vec<Case> = Vec::new();
    for device in Device::ALL {
        for purpose in [Purpose::Verify, Purpose::Bench] {
            cases.extend(op.cases(purpose, *device));
        }
    }
    let needed = |case: &Case| {
        let outputs = case.outputs.iter().map(|output| output.elements().saturating_mul(8));
        outputs.fold(bytes(case), u64::saturating_add)
    };
    let beyond: Vec<&Case> = cases.iter().filter(|case| needed(case) > LARGE).collect();
    let first = beyond.first()?;
    let summary = format!(
        "`{}` needs {} with its results in float64: the oracle cannot judge it on most machines",
        first.id,
        report::bytes(needed(first)),
    );
    let help = "verify a smaller workload, or split it";
    let names: BTreeSet<&str> = beyond.iter().map(|case| case.id.as_str()).collect();
    let cases = names.into_iter().map(|case| FindingCase { case: case.to_owned(), figure: 1.0 }).collect();
    Some(LintFinding { cases, ..finding("lint::large_workloads", None, summary, help) })
}

/// Optional inputs that no verified workload passes.
fn never_passed(op: &OpSpec) -> Vec<LintFinding> {
    let verified = || op.workloads.iter().filter(|workload| workload.purposes.contains(&Purpose::Verify));
    let optional = op.inputs.iter().filter(|input| input.optional).map(|input| &input.tensor.name.value);
    let is_out = |name: &PythonName| {
        verified().all(|workload| workload.without.iter().any(|left| left.value == *name))
    };
    optional
        .filter(|name| verified().next().is_some() && is_out(name))
        .map(|name| {
            let summary = format!("no verified workload passes `{name}`: a kernel that ignores it passes");
            let help = "add a workload without it in `without`";
            finding("lint::never_passed", Some(name.as_str()), summary, help)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;

    use super::*;

    const OP: &str = r#"
        format = 1
        name = "scale"
        [axes]
        rows = { type = "var" }
        [inputs]
        x = { shape = ["rows"], dtype = "f32" }
        bias = { shape = ["rows"], dtype = "f32", optional = true }
        [outputs]
        y = { shape = ["rows"], dtype = "f32" }
        [reference]
        file = "reference.py"
        function = "scale"
        [call]
        function = "scale"
        [tolerance]
        accumulate = "f32"
        length = 1
        roundings = 1
    "#;

    #[track_caller]
    fn check(workloads: &str, wanted: &[&str]) {
        let (op, problems) =
            kernel_plan::spec::parse_op(SourceFile::new("op.toml", format!("{OP}{workloads}").as_str()));
        assert!(problems.is_empty(), "{problems:?}");
        let found = findings(&op.unwrap());
        let codes: Vec<_> = found
            .iter()
            .map(|finding| format!("{} {}", finding.code, finding.about.as_deref().unwrap_or("-")))
            .collect();
        assert_eq!(codes, wanted, "{found:#?}");
    }

    #[test]
    fn a_task_with_odd_and_large_shapes_is_clean() {
        check(
            "[workload.odd]\naxes = { rows = 1001 }\n[workload.large]\naxes = { rows = 1048576 }\nwithout = [\"bias\"]",
            &[],
        );
    }

    #[test]
    fn one_small_power_of_two_says_little() {
        check(
            "[workload.only]\naxes = { rows = 4096 }\nwithout = [\"bias\"]",
            &[
                "lint::round_lengths rows",
                "lint::one_shape verify",
                "lint::one_shape bench",
                "lint::small_workloads cpu",
                "lint::small_workloads cuda",
                "lint::never_passed bias",
            ],
        );
    }

    #[test]
    fn what_is_timed_is_verified_and_fits() {
        check(
            "[workload.odd]\naxes = { rows = 3 }\nfor = [\"verify\"]\ndevices = [\"cpu\"]\n\
             [workload.huge]\naxes = { rows = 8000000000 }\nfor = [\"bench\"]\ndevices = [\"cuda\"]",
            &[
                "lint::one_shape verify",
                "lint::one_shape bench",
                "lint::unverified cuda",
                "lint::large_workloads -",
            ],
        );
    }
}
