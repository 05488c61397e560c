//! Definitions of flashinfer-bench to op.toml and back: nothing is lost but what docs/reference/flashinfer-bench.md says.
#![expect(clippy::disallowed_methods, reason = "the definitions are files beside the tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernel_plan::diagnostic::{Problem, Severity, SourceFile, has_errors};
use kernel_plan::exchange::{Choice, Exported, Imported, Published, export, import};
use kernel_plan::spec::{OpSpec, parse_op};
use serde_json::Value;

use crate::project::render;

/// Every definition beside the tests, with its workloads.
fn definitions() -> Vec<(Arc<SourceFile>, Arc<SourceFile>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exchange");
    let read = |path: PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
        SourceFile::new(name, std::fs::read_to_string(path).expect("a readable file"))
    };
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("the folder is there").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .map(|path| (read(path.clone()), read(path.with_extension("jsonl"))))
        .collect()
}

#[track_caller]
pub(crate) fn imported(definition: &str, workloads: &str) -> (Imported, Vec<Problem>) {
    let (definition, workloads) =
        (SourceFile::new("d.json", definition), SourceFile::new("w.jsonl", workloads));
    let (imported, problems) = import(&definition, Some(&workloads));
    (imported.unwrap_or_else(|| panic!("{}", render(&problems))), problems)
}

/// op.toml without a problem of any kind.
#[track_caller]
pub(crate) fn op(text: &str) -> OpSpec {
    let (op, problems) = parse_op(SourceFile::new("op.toml", text));
    assert_eq!(render(&problems), "", "{text}");
    op.expect("no problem, so a spec")
}

#[track_caller]
pub(crate) fn exported(op: &OpSpec, reference: &str, choice: &Choice) -> (Vec<Exported>, Vec<Problem>) {
    let (exported, problems) = export(op, &SourceFile::new("reference.py", reference), choice);
    assert!(!has_errors(&problems), "{}", render(&problems));
    (exported, problems)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn every_definition_comes_back_as_it_was() {
    let definitions = definitions();
    assert!(definitions.len() >= 8, "{}", definitions.len());
    for (definition, workloads) in definitions {
        let (made, _) = imported(&definition.text, &workloads.text);
        let (back, _) = exported(&op(&made.op_toml), &made.reference, &Choice::default());
        let [back] = back.as_slice() else { panic!("{}: {} definitions", definition.name, back.len()) };
        let wanted: Value = serde_json::from_str(&definition.text).expect("JSON");
        let found: Value = serde_json::from_str(&back.definition).expect("JSON");
        assert_eq!(found, wanted, "{}", definition.name);
        // The order of arguments is part of the meaning, and is not compared above.
        for key in ["axes", "inputs", "outputs"] {
            let keys = |value: &Value| {
                value[key].as_object().map(|object| object.keys().cloned().collect::<Vec<_>>())
            };
            assert_eq!(keys(&found), keys(&wanted), "{} {key}", definition.name);
        }
        assert_eq!(lines(&back.workloads), lines(&workloads.text), "{}", definition.name);
        let (again, _) = imported(&back.definition, &back.workloads);
        assert_eq!(again, made, "{}", definition.name);
    }
}

#[test]
fn a_definition_becomes_an_op_toml_that_people_can_read() {
    for name in ["gqa_paged_decode_h32_kv8_d128_ps16", "moe_routing_e256_topk8"] {
        let found = definitions().into_iter().find(|(file, _)| file.name.starts_with(name));
        let (definition, workloads) = found.expect("it is there");
        let (made, problems) = imported(&definition.text, &workloads.text);
        let text = format!("{}\n{}\n{}", made.op_toml, made.reference, render(&problems));
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, text) });
    }
}

/// Two type variables, an input that may be left out, one that is overwritten, bounds, and a workload to be kept back.
const RICH: &str = r#"
format = 1
name = "scale_add"
[axes]
rows = { type = "var", multiple-of = 4, min = 4, max = 4096 }
columns = { type = "const", value = 64 }
[dtypes]
T = ["bf16", "f64", "f32"]
U = ["i32", "i64"]
[inputs]
x = { shape = ["rows", "columns"], dtype = "T", strided = true }
bias = { shape = ["columns"], dtype = "T", optional = true }
state = { shape = ["rows"], dtype = "U" }
[scalars]
scale = { type = "float", default = 2.0, min = 0.0 }
steps = { type = "int", default = 3 }
[outputs]
out = { shape = ["rows", "columns"], dtype = "T" }
state_out = { shape = ["rows"], dtype = "U", inplace = "state" }
[reference]
file = "reference.py"
function = "scale_add"
[call]
function = "scale_add"
[tolerance]
accumulate = "f32"
length = "2 * columns"
roundings = 2
[workload.open]
axes = { rows = 8 }
[workload.narrow]
axes = { rows = 4 }
dtypes = { T = ["f32"] }
scalars = { scale = 0.5 }
[workload.kept-back]
axes = { rows = 12 }
held-out = true
[workload.without-bias]
axes = { rows = 16 }
without = ["bias"]
[flashinfer]
op-type = "norm"
tags = ["fused"]
[flashinfer.axes]
rows = "tokens"
[flashinfer.scalars]
steps = "int32"
[flashinfer.uuids]
open = "6F9619FF"
"#;

const REFERENCE: &str =
    "def scale_add(x, bias, state, *, scale, steps):\n    return x * scale + bias, state + steps\n";

#[test]
fn each_choice_of_dtypes_is_a_definition() {
    let (all, problems) = exported(&op(RICH), REFERENCE, &Choice::default());
    let names: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.count)).collect();
    let wanted = [
        ("scale_add_bf16_i32", 1),
        ("scale_add_bf16_i64", 1),
        ("scale_add_f32_i32", 2),
        ("scale_add_f32_i64", 2),
    ];
    assert_eq!(names, wanted);
    assert!(problems.iter().all(|problem| problem.severity != Severity::Error));
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!("export_of_a_rich_op", format!("{}{}\n{}", all[2].definition, all[2].workloads, render(&problems)));
    });
}

#[test]
fn a_choice_narrows_the_export() {
    let both = ["bf16", "f32"].map(|dtype| ("T".parse().unwrap(), dtype.parse().unwrap())).to_vec();
    let (all, _) = exported(&op(RICH), REFERENCE, &Choice { dtypes: both, ..Choice::default() });
    assert_eq!(all.len(), 4);
    let choice = Choice {
        dtypes: vec![
            ("T".parse().unwrap(), "f32".parse().unwrap()),
            ("U".parse().unwrap(), "i32".parse().unwrap()),
        ],
        workloads: Published::All,
    };
    let (all, _) = exported(&op(RICH), REFERENCE, &choice);
    let names: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.count)).collect();
    assert_eq!(names, [("scale_add_f32_i32", 3)]);
}

#[test]
fn an_exported_definition_is_exported_the_same_again() {
    let choice = Choice { dtypes: vec![("U".parse().unwrap(), "i32".parse().unwrap())], ..Choice::default() };
    for one in exported(&op(RICH), REFERENCE, &choice).0 {
        let (made, _) = imported(&one.definition, &one.workloads);
        let (again, _) = exported(&op(&made.op_toml), &made.reference, &Choice::default());
        assert_eq!(again, [one]);
    }
}

#[test]
fn workloads_are_a_list_or_lines_of_either_kind() {
    let (definition, workloads) =
        definitions().into_iter().find(|(file, _)| file.name.starts_with("rms")).unwrap();
    let traces = lines(&workloads.text);
    let plain: Vec<_> = traces.iter().map(|trace| trace["workload"].clone()).collect();
    let (wanted, _) = imported(&definition.text, &workloads.text);
    let spread = serde_json::to_string_pretty(&plain).unwrap();
    let bare: String = plain.iter().map(|workload| format!("{workload}\r\n\n")).collect();
    // Every result of a solution repeats its workload.
    let repeated = workloads.text.repeat(3).replace("\"solution\": null", "\"solution\": \"fast\"");
    let alone = serde_json::to_string_pretty(&traces[0]).unwrap();
    assert_eq!(imported(&definition.text, &alone).0.workloads, 1);
    for text in [&spread, &bare, &repeated] {
        assert_eq!(imported(&definition.text, text).0, wanted, "{text}");
    }
    let other = workloads.text.replace("\"definition\": \"rmsnorm_h4096\"", "\"definition\": \"another\"");
    let (made, problems) = imported(&definition.text, &(other + &workloads.text));
    assert_eq!(made, wanted);
    assert!(
        render(&problems).contains("2 workloads belong to definitions other than"),
        "{}",
        render(&problems)
    );
}

#[test]
fn without_workloads_the_file_says_so() {
    let (definition, _) =
        definitions().into_iter().find(|(file, _)| file.name.starts_with("gemm_n")).unwrap();
    let (made, problems) = import(&definition, None);
    let text = made.expect("a definition alone is enough").op_toml;
    assert!(text.contains("# [workload.small]\n# axes = { M = ... }"), "{text}");
    assert!(problems.iter().any(|problem| problem.message.contains("no workload")));
    let (_, problems) = parse_op(SourceFile::new("op.toml", text));
    assert_eq!(problems.iter().map(|problem| problem.code).collect::<Vec<_>>(), ["spec::no_workload"]);
}

#[test]
fn bounds_that_a_workload_breaks_stay_constraints() {
    let (definition, workloads) =
        definitions().into_iter().find(|(file, _)| file.name.starts_with("gemm_n")).unwrap();
    let (made, _) = imported(&definition.text, &workloads.text.replace("{\"M\": 16}", "{\"M\": 15}"));
    assert!(made.op_toml.contains("M = { type = \"var\", min = 8, max = 65536 }"), "{}", made.op_toml);
    assert!(made.op_toml.contains("constraints = [\"M % 8 == 0\"]"), "{}", made.op_toml);
}
