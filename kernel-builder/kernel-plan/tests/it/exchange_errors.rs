//! What is said about definitions and workloads that are wrong, and about operations that cannot be exported.

use std::collections::BTreeSet;

use kernel_plan::diagnostic::{Problem, SourceFile};
use kernel_plan::exchange::{Choice, codes, export, import};
use kernel_plan::spec::parse_op;

use crate::project::render;

const DEFINITION: &str = include_str!("../exchange/rmsnorm_h4096.json");
const WORKLOADS: &str = include_str!("../exchange/rmsnorm_h4096.jsonl");

/// A code, what else the case is called, and the first occurrence of a text with its replacement.
type Edit = (&'static str, &'static str, &'static str, &'static str);

const OF_DEFINITIONS: &[Edit] = &[
    ("syntax", "", "\"tags\": [", "\"tags\": [,"),
    ("syntax", "surrogate", "\"status:draft\"", "\"\\ud800\""),
    ("missing_key", "", "  \"op_type\": \"rmsnorm\",\n", ""),
    ("wrong_type", "", "\"batch_size\",", "17,"),
    ("wrong_type", "length", "\"value\": 4096", "\"value\": \"4096\""),
    ("bad_value", "dtype", "\"bfloat16\"", "\"bfloat\""),
    ("bad_value", "name", "\"weight\"", "\"lambda\""),
    ("bad_value", "length", "\"value\": 4096", "\"value\": -1"),
    ("bad_value", "axis", "\"var\"", "\"variable\""),
    ("duplicate", "", "\"weight\": {", "\"hidden_states\": {"),
    ("duplicate", "output", "\"output\": {", "\"weight\": {"),
    ("unknown_axis", "", "\"batch_size\",", "\"batchsize\","),
    ("unsupported", "dtype", "\"bfloat16\"", "\"float4_e2m1\""),
    ("unsupported", "axis", "\"type\": \"var\"", "\"type\": \"expr\", \"expression\": \"2 * n\""),
    ("unsupported", "argument", "\"weight\": {", "\"run\": {"),
    ("unsupported", "tensor", "\"outputs\": {", "\"outputs\": {}, \"other\": {"),
    ("run", "", "def run(", "def rmsnorm("),
    ("dropped", "", "\"op_type\"", "\"author\": \"me\", \"op_type\""),
];

const OF_WORKLOADS: &[Edit] = &[
    ("syntax", "workload", "}\n", "\n"),
    ("missing_key", "workload", "\"uuid\": \"6f1c-01\", ", ""),
    ("workload", "", "{\"batch_size\": 7}", "{\"batch_sizes\": 7}"),
    ("workload", "const", "{\"batch_size\": 7}", "{\"batch_size\": 7, \"hidden_size\": 5120}"),
    ("workload", "scalar", "\"value\": 1e-06", "\"value\": true"),
    ("workload", "number", "{\"type\": \"random\"}", "{\"type\": \"scalar\", \"value\": 1}"),
    ("bad_value", "overflow", "\"value\": 1e-06", "\"value\": 1e999"),
    ("duplicate", "uuid", "6f1c-02", "6f1c-01"),
    ("unsupported", "input", "{\"type\": \"random\"}", "{\"type\": \"custom\"}"),
];

const OP: &str = "format = 1\nname = \"f\"\n[axes]\nn = { type = \"var\" }\n[dtypes]\nT = [\"f32\"]\n[inputs]\n\
    x = { shape = [\"n\"], dtype = \"T\" }\n[scalars]\na = { type = \"float\", default = 1.0 }\n[outputs]\n\
    y = { shape = [\"n\"], dtype = \"T\" }\n[reference]\nfile = \"reference.py\"\nfunction = \"f\"\n[call]\n\
    function = \"f\"\n[tolerance]\naccumulate = \"f32\"\nlength = \"n\"\nroundings = 1\n[workload.w]\naxes = { n = 1 }\n";

const OF_OPERATIONS: &[Edit] = &[
    ("unsupported", "f64", "shape = [\"n\"], dtype = \"T\"", "shape = [\"n\"], dtype = \"f64\""),
    ("nothing", "", "T = [\"f32\"]", "T = [\"f64\"]"),
    ("bad_value", "file", "name = \"f\"", "name = \"f\"\nflashinfer = { name = \"../f\" }"),
    ("bad_value", "scalar", "name = \"f\"", "name = \"f\"\nflashinfer = { scalars = { a = \"int32\" } }"),
    ("run", "order", "function = \"f\"", "function = \"run\""),
    ("run", "argument", "x = { shape", "f = { shape"),
    ("run", "taken", "name = \"f\"", "name = \"g\""),
];

fn edited(text: &str, edit: &Edit) -> String {
    assert!(text.contains(edit.2), "`{}` is not in:\n{text}", edit.2);
    text.replacen(edit.2, edit.3, 1)
}

fn problems_of(definition: &str, workloads: &str) -> Vec<Problem> {
    let definition = SourceFile::new("rmsnorm_h4096.json", definition);
    let workloads = SourceFile::new("rmsnorm_h4096.jsonl", workloads);
    let (_, problems) = import(&definition, Some(&workloads));
    // What is assumed has a test of its own.
    problems.into_iter().filter(|problem| problem.code != codes::ASSUMED).collect()
}

/// Every case: the code, its name, its problems.
fn cases() -> Vec<(&'static str, String, Vec<Problem>)> {
    let name =
        |edit: &Edit| if edit.1.is_empty() { edit.0.to_owned() } else { format!("{}-{}", edit.0, edit.1) };
    let mut cases = Vec::new();
    for edit in OF_DEFINITIONS {
        cases.push((edit.0, name(edit), problems_of(&edited(DEFINITION, edit), WORKLOADS)));
    }
    for edit in OF_WORKLOADS {
        cases.push((edit.0, name(edit), problems_of(DEFINITION, &edited(WORKLOADS, edit))));
    }
    for edit in OF_OPERATIONS {
        let (op, problems) = parse_op(SourceFile::new("op.toml", edited(OP, edit)));
        assert_eq!(render(&problems), "", "{}", name(edit));
        let run = if edit.0 == "run" { "\n\ndef run(x):\n    return x\n" } else { "" };
        let reference = format!("def f(x, *, a):\n    return x * a\n{run}");
        let (made, problems) =
            export(&op.unwrap(), &SourceFile::new("reference.py", reference), &Choice::default());
        assert!(made.is_empty(), "{}", name(edit));
        cases.push((edit.0, name(edit), problems));
    }
    cases
}

#[test]
fn every_case_shows_its_code() {
    for (code, name, problems) in cases() {
        let code = format!("exchange::{code}");
        assert!(problems.iter().any(|problem| problem.code == code), "{name}:\n{}", render(&problems));
        insta::with_settings!({ snapshot_path => "../exchange/err", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name.as_str(), render(&problems));
        });
    }
}

#[test]
fn every_code_has_a_case() {
    let shown: BTreeSet<_> = cases().iter().map(|(code, ..)| format!("exchange::{code}")).collect();
    let assumed = BTreeSet::from([codes::ASSUMED.to_owned()]);
    let all: BTreeSet<_> = codes::CODES.iter().map(|code| (*code).to_owned()).collect();
    assert_eq!(shown.union(&assumed).cloned().collect::<BTreeSet<_>>(), all);
}

#[test]
fn every_problem_says_what_to_do() {
    for (_, name, problems) in cases() {
        for problem in problems {
            assert!(problem.help.is_some(), "{name}: `{problem}` has no help");
            assert!(!problem.message.ends_with('.'), "{name}: `{problem}` ends with a full stop");
            assert!(
                !problem.message.starts_with(char::is_uppercase),
                "{name}: `{problem}` starts upper-case"
            );
        }
    }
}
