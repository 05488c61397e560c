//! Drawn cases: the same for a seed, within bounds, and refused with the reason.
//!
//! Owns: nothing. Never: part of the program.

use std::collections::BTreeSet;

use kernel_plan::diagnostic::SourceFile;

use super::super::{Options, refuse_unknown, select};
use super::*;
use crate::exit::StageError as _;

const NORM: &str = r#"
    format = 1
    name = "norm"
    constraints = ["hidden % groups == 0"]
    [axes]
    rows = { type = "var" }
    hidden = { type = "var", min = 8, multiple-of = 4 }
    two = { type = "const", value = 2 }
    [dtypes]
    T = ["f32", "bf16"]
    [inputs]
    x = { shape = ["rows", "two", "hidden"], dtype = "T" }
    weight = { shape = ["hidden"], dtype = "T", optional = true }
    [scalars]
    groups = { type = "int", default = 1 }
    [outputs]
    y = { shape = ["rows", "two", "hidden"], dtype = "T" }
    [reference]
    file = "reference.py"
    function = "norm"
    [call]
    function = "norm"
    [tolerance]
    accumulate = "f32"
    length = "hidden"
    roundings = 1
    [workload.small]
    axes = { rows = 8, hidden = 64 }
    [workload.plain]
    axes = { rows = 8, hidden = 64 }
    without = ["weight"]
    scalars = { groups = 64 }
    devices = ["cuda"]
"#;

fn read(text: &str) -> OpSpec {
    let (op, problems) = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text));
    op.unwrap_or_else(|| panic!("{problems:?}"))
}

fn draw(seed: u64, count: usize) -> Draw {
    Draw { seed, count }
}

fn ids(cases: &[Case]) -> Vec<&str> {
    cases.iter().map(|case| case.id.as_str()).collect()
}

fn length(case: &Case, axis: &str) -> u64 {
    case.axes[&axis.parse::<PythonName>().unwrap()]
}

#[test]
fn a_seed_gives_these_cases_on_every_machine() {
    let found = cases(&read(NORM), Device::Cuda, draw(7, 6)).unwrap();
    insta::assert_snapshot!(ids(&found).join("\n"), @r"
    drawn-7-59x15892/T=f32
    drawn-7-2999x3584/T=bf16
    drawn-7-4763x952/T=f32
    drawn-7-121x1872/T=bf16
    drawn-7-213x3824/T=f32
    drawn-7-81x7996/T=bf16
    ");
}

#[test]
fn cases_are_new_within_bounds_and_of_all_dtypes() {
    let op = read(NORM);
    for (device, seed) in [(Device::Cuda, 1), (Device::Cuda, 2), (Device::Cpu, 3)] {
        let found = cases(&op, device, draw(seed, 200)).unwrap();
        assert_eq!(found.len(), 200);
        assert_eq!(ids(&found).into_iter().collect::<BTreeSet<_>>().len(), 200);
        for (number, case) in found.iter().enumerate() {
            let (rows, hidden) = (length(case, "rows"), length(case, "hidden"));
            assert!((1..=ROWS).contains(&rows) && hidden >= 8 && hidden.is_multiple_of(4), "{}", case.id);
            assert!(case.id.ends_with(["T=f32", "T=bf16"][number % 2]), "{}", case.id);
            let bytes: u64 = case.inputs.iter().chain(&case.outputs).map(|tensor| tensor.bytes()).sum();
            assert!(bytes <= most_bytes(device) && op.admits(case) && case.drawn, "{}", case.id);
            assert!(!case.held_out && case.inputs.iter().all(|input| !input.omitted), "{}", case.id);
            assert_eq!(case.scalars[0].value.to_string(), "1");
            assert_eq!(super::seed(case), Some(seed));
        }
        let rows: Vec<u64> = found.iter().map(|case| length(case, "rows")).collect();
        let odd = rows.iter().filter(|rows| *rows % 2 == 1).count();
        assert!((60..180).contains(&odd), "{odd} of 200 are odd");
        assert!(rows.iter().any(|rows| *rows < 8) && rows.iter().any(|rows| *rows > 10_000), "{rows:?}");
        let of_models = sizes::all_sizes(Kind::Hidden);
        let usual = found.iter().filter(|case| of_models.contains(&length(case, "hidden"))).count();
        assert!(usual > 100, "{usual} of 200 have the width of a model");
    }
}

#[test]
fn more_cases_begin_with_the_same_ones_and_other_seeds_have_others() {
    let op = read(NORM);
    let (few, many) =
        (cases(&op, Device::Cuda, draw(7, 5)).unwrap(), cases(&op, Device::Cuda, draw(7, 40)).unwrap());
    assert_eq!(few, many[..5]);
    let lengths = |seed| {
        let found = cases(&op, Device::Cuda, draw(seed, 20)).unwrap();
        found.into_iter().map(|case| case.axes).collect::<Vec<_>>()
    };
    assert_ne!(lengths(7), lengths(8));
}

#[test]
fn a_search_does_not_see_what_is_measured() {
    let op = read(NORM);
    let measured = cases(&op, Device::Cpu, draw(7, 20)).unwrap();
    let searched = cases_to_search(&op, Device::Cpu, draw(7, 20)).unwrap();
    assert_eq!(searched.len(), 20);
    let shared = searched.iter().filter(|case| measured.iter().any(|other| other.axes == case.axes));
    assert!(shared.count() <= 1, "{:?} {:?}", ids(&measured), ids(&searched));
    // Either can be measured by its name.
    assert!(named(&op, Device::Cpu, searched[0].workload.as_str()).contains(&searched[0]));
}

#[test]
fn a_case_is_found_by_its_name() {
    let op = read(NORM);
    let found = cases(&op, Device::Cuda, draw(7, 3)).unwrap();
    let name = found[1].workload.to_string();
    let options = Options { workloads: vec![name.clone(), name.clone()], ..Options::default() };
    let again = select(&op, Device::Cuda, &options).unwrap();
    assert!(again.len() == 2 && again.contains(&found[1]), "both dtypes: {:?}", ids(&again));
    for unknown in
        ["drawn-7-8", "drawn-7-8x9", "drawn-7-08x64", "drawn-x-8x64", "drawn-07-8x64", "drawn-7-8x64x2"]
    {
        let options = Options { workloads: vec![unknown.to_owned()], ..Options::default() };
        let error = select(&op, Device::Cuda, &options).unwrap_err();
        assert!(matches!(error, BenchError::UnknownWorkload { .. }), "{unknown}");
    }
}

#[test]
fn optional_inputs_are_left_out_where_constraints_ask_for_it() {
    let op = read(&NORM.replace("\"hidden % groups == 0\"", "\"not given(weight)\""));
    let found = cases(&op, Device::Cuda, draw(7, 4)).unwrap();
    assert!(found.iter().all(|case| case.inputs[1].omitted) && found.len() == 4);
}

#[test]
fn constraints_between_axes_are_met() {
    let op = read(&NORM.replace("\"hidden % groups == 0\"", "\"hidden == 8 * rows\""));
    let found = cases(&op, Device::Cuda, draw(7, 10)).unwrap();
    assert!(found.len() == 10 && found.iter().all(|case| length(case, "hidden") == 8 * length(case, "rows")));
}

#[test]
fn lengths_that_do_not_suffice_give_fewer_cases() {
    let few = NORM.replace("rows = { type = \"var\" }", "rows = { type = \"var\", max = 2 }");
    let few = few.replace("min = 8, multiple-of = 4", "min = 8, max = 12, multiple-of = 4");
    let few = few.replace("rows = 8, hidden = 64", "rows = 2, hidden = 8");
    assert_eq!(cases(&read(&few), Device::Cuda, draw(7, 50)).unwrap().len(), 6);
}

#[test]
fn an_operation_without_a_case_is_refused_with_the_reason() {
    let refused = |text: &str| {
        let op = read(text);
        let options = Options { drawn: Some(draw(7, 3)), ..Options::default() };
        let early = refuse_unknown(&op, &options).unwrap_err();
        let error = select(&op, Device::Cuda, &options).unwrap_err();
        assert!(matches!(early, BenchError::NothingDrawn { .. }) && !error.refuses() && error.exit() == 16);
        error.to_string()
    };
    let never = refused(&NORM.replace("\"hidden % groups == 0\"", "\"hidden < 8\""));
    assert_eq!(
        never,
        "no case of `norm` can be drawn for cuda: no draft satisfies the constraint `hidden < 8`"
    );
    let huge = NORM.replace("min = 8,", "min = 4000000000,").replace("hidden = 64", "hidden = 4000000000");
    assert_eq!(
        refused(&huge),
        "no case of `norm` can be drawn for cuda: every draft has more than 1024 MiB of tensors"
    );
    let fixed = NORM.replace("{ type = \"var\" }", "{ type = \"const\", value = 8 }");
    let fixed =
        fixed.replace("{ type = \"var\", min = 8, multiple-of = 4 }", "{ type = \"const\", value = 64 }");
    let fixed = fixed.replace("axes = { rows = 8, hidden = 64 }", "axes = {}");
    assert_eq!(refused(&fixed), "no case of `norm` can be drawn for cuda: no axis has a length that varies");
}

#[test]
fn a_device_without_workloads_has_no_cases() {
    let only_cuda = read(&NORM.replace("[workload.small]", "[workload.small]\n    devices = [\"cuda\"]"));
    assert_eq!(cases(&only_cuda, Device::Cpu, draw(7, 2)).unwrap(), []);
    assert_eq!(cases(&only_cuda, Device::Cuda, draw(7, 2)).unwrap().len(), 2);
}

#[test]
fn every_example_has_drawn_cases() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let mut read_files = 0;
    for path in crate::base::files::walk(folder.as_ref(), |_| true).unwrap() {
        let name = path.file_name().unwrap_or_default();
        if !matches!(name.to_str(), Some("op.toml" | "backward.toml")) {
            continue;
        }
        read_files += 1;
        let op = read(&crate::base::files::read_text(&std::path::Path::new(folder).join(&path)).unwrap());
        for device in Device::ALL {
            let found = cases(&op, *device, draw(7, 10)).unwrap();
            let has_workloads = !op.cases(Purpose::Bench, *device).is_empty();
            assert_eq!(found.len(), if has_workloads { 10 } else { 0 }, "{} on {device}", path.display());
        }
    }
    assert!(read_files > 5);
}
