//! Every gate has something that it refuses and a twin that it takes, both as they were linked and stripped.
//!
//! Owns: the four cases of each gate, and that none is missing: the gates are those of docs/reference/evidence.md.
//! Never: loads a library.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use super::abi::{self, Made, Pair};
use super::packaged::{INIT, NORMS, PACKAGE, SCHEMA, bundle, library_of, package_in, publish};
use super::sandbox::{Ended, Sandbox};

const FORMATS: &str = include_str!("../../../docs/reference/evidence.md");
/// What stands above the table of gates there.
const HEAD: &str = "\n| gate | refuses |\n|---|---|\n";

/// What a gate is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sample {
    Bad,
    Good,
}

/// How a library was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Linked,
    Stripped,
}

const SAMPLES: [Sample; 2] = [Sample::Bad, Sample::Good];
const FORMS: [Form; 2] = [Form::Linked, Form::Stripped];

/// One question to one gate.
struct Case {
    gate: &'static str,
    sample: Sample,
    form: Form,
    /// How a refusal ends, and what it says beside the gate's code.
    refusal: (i32, &'static str),
    ask: Box<dyn Fn(&Sandbox) -> Ended>,
}

impl Form {
    /// Leaves a library in this form; one that was linked has a table of symbols that a stripped one has not.
    fn leave(self, library: &Path) {
        if self == Self::Stripped {
            abi::done(Command::new("strip").arg("--strip-all").arg(library));
        }
        let bytes = std::fs::read(library).expect("a library");
        let has_table = bytes.windows(8).any(|name| name == b".symtab\0");
        assert_eq!(has_table, self == Self::Linked, "{}", library.display());
    }
}

/// What one library of a pair is asked.
fn alone(pair: &Pair, sample: Sample, form: Form, sandbox: &Sandbox) -> Ended {
    let (made, options) = match sample {
        Sample::Bad => (&pair.bad, pair.options[0]),
        Sample::Good => (&pair.good, pair.options[1]),
    };
    let library = made.link(&sandbox.path(&format!("work/{sample:?}/{form:?}")));
    form.leave(&library);
    abi::check(sandbox, &library, options)
}

/// Two libraries of one module, and of two.
fn together(sample: Sample, form: Form, sandbox: &Sandbox) -> Ended {
    let link = |name: &str| -> PathBuf {
        let source = "int more(void) { return 2; }\nint (*table[])(void) = { more };\n";
        let module = Made::source(source);
        let library = match (sample, name) {
            (Sample::Good, "other") => module.named("_other").link(&sandbox.path("work/other")),
            (_, "other") => module.link(&sandbox.path("work/other")),
            _ => Made::default().link(&sandbox.path("work/one")),
        };
        form.leave(&library);
        library
    };
    let [one, other] = ["one", "other"].map(link);
    let paths = [&one, &other].map(|library| library.to_str().expect("a path"));
    sandbox.run(&[&["check-abi"], paths.as_slice()].concat())
}

/// A new build of a published kernel, whose library has another schema.
fn published_again(sample: Sample, form: Form, sandbox: &Sandbox) -> Ended {
    package_in(sandbox);
    form_of_package(sandbox, SCHEMA, form);
    let first = publish(sandbox);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let schema = match sample {
        Sample::Bad => SCHEMA.replace("float eps", "int eps"),
        Sample::Good => SCHEMA.replace("float eps", "float eps, int k=1"),
    };
    form_of_package(sandbox, &schema, form);
    publish(sandbox)
}

/// Writes the package with a library that has this schema, in this form.
fn form_of_package(sandbox: &Sandbox, schema: &str, form: Form) {
    bundle(sandbox, INIT, NORMS, schema, 1);
    form.leave(&sandbox.path(&format!("{PACKAGE}/_k.abi3.so")));
}

/// A library with a token in its data, and with the words alone.
fn with_token(sample: Sample, form: Form, sandbox: &Sandbox) -> Ended {
    package_in(sandbox);
    let token = match sample {
        Sample::Bad => format!("hf_{}", "aB3dE5gH7j".repeat(4)),
        Sample::Good => "hf_your_token".to_owned(),
    };
    let source = format!("int PyInit__k(void) {{ return 0; }}\nconst char *token = \"{token}\";\n");
    let library = sandbox.path(&format!("{PACKAGE}/_k.abi3.so"));
    library_of(sandbox, &source, &library);
    form.leave(&library);
    publish(sandbox)
}

/// A second library, that an editor left behind or that belongs there.
fn left_behind(sample: Sample, form: Form, sandbox: &Sandbox) -> Ended {
    package_in(sandbox);
    form_of_package(sandbox, SCHEMA, form);
    let name = match sample {
        Sample::Bad => "_k.abi3.so.orig",
        Sample::Good => "_k.copy.abi3.so",
    };
    let folder = sandbox.path(PACKAGE);
    std::fs::copy(folder.join("_k.abi3.so"), folder.join(name)).expect("a copy");
    publish(sandbox)
}

/// What makes a case of the gates that look at more than one library.
type Ask = fn(Sample, Form, &Sandbox) -> Ended;

const OTHERS: &[(&str, (i32, &str), Ask)] = &[
    ("verify::clash", (15, "are both the module `_k`"), together),
    ("publish::api_break", (18, "the operator `rms_norm` takes other arguments"), published_again),
    ("package::secret", (17, "a Hugging Face token"), with_token),
    ("package::stray", (17, "_k.abi3.so.orig"), left_behind),
];

/// The gates that docs/reference/evidence.md lists.
fn documented() -> BTreeSet<&'static str> {
    let (_, table) = FORMATS.split_once(HEAD).expect("a table of gates");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let codes: BTreeSet<&str> = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect();
    assert!(codes.len() > 8, "{codes:?}");
    codes
}

/// Every case there is.
fn cases() -> Vec<Case> {
    let forms = || SAMPLES.into_iter().flat_map(|sample| FORMS.map(|form| (sample, form)));
    let mut cases = Vec::new();
    for pair in abi::pairs() {
        let (gate, refusal, pair) = (pair.code, (15, pair.words), Rc::new(pair));
        cases.extend(forms().map(|(sample, form)| {
            let pair = Rc::clone(&pair);
            Case {
                gate,
                sample,
                form,
                refusal,
                ask: Box::new(move |sandbox| alone(&pair, sample, form, sandbox)),
            }
        }));
    }
    for &(gate, refusal, ask) in OTHERS {
        cases.extend(forms().map(|(sample, form)| Case {
            gate,
            sample,
            form,
            refusal,
            ask: Box::new(move |sandbox| ask(sample, form, sandbox)),
        }));
    }
    cases
}

/// Goes through the cases that this is true of.
fn try_all(of: impl Fn(&Case) -> bool) {
    let cases: Vec<Case> = cases().into_iter().filter(of).collect();
    assert!(cases.len() >= SAMPLES.len() * FORMS.len());
    for Case { gate, sample, form, refusal: (code, words), ask } in cases {
        let ended = ask(&Sandbox::new());
        match sample {
            Sample::Bad => ended.refused(code, &[gate, words]),
            Sample::Good => {
                assert_eq!(ended.code, 0, "{gate} {words} {form:?}:\n{}\n{}", ended.stdout, ended.stderr);
            }
        }
    }
}

/// The gates that look at one library; the rest is in the test after the next.
fn of_one(case: &Case) -> bool {
    case.gate.starts_with("verify::") && case.gate != "verify::clash"
}

#[test]
fn gates_refuse_a_library_and_take_its_twin_linked() {
    try_all(|case| of_one(case) && case.form == Form::Linked);
}

#[test]
fn gates_refuse_a_library_and_take_its_twin_stripped() {
    try_all(|case| of_one(case) && case.form == Form::Stripped);
}

#[test]
fn gates_refuse_a_package_and_take_its_twin_stripped_and_not() {
    try_all(|case| !of_one(case));
}

#[test]
fn every_gate_has_its_four_cases() {
    let tried: BTreeSet<_> = cases().iter().map(|case| (case.gate, case.sample, case.form)).collect();
    let gates = documented();
    for gate in &gates {
        for (sample, form) in SAMPLES.into_iter().flat_map(|sample| FORMS.map(|form| (sample, form))) {
            assert!(
                tried.contains(&(*gate, sample, form)),
                "{gate} is shown nothing {sample:?} and {form:?}"
            );
        }
    }
    let known: BTreeSet<&str> = tried.iter().map(|(gate, ..)| *gate).collect();
    assert_eq!(known, gates, "docs/reference/evidence.md lists other gates than are tried");
}

#[test]
fn check_abi_has_no_gate_that_is_not_listed() {
    let sandbox = Sandbox::new();
    let [one, other] = ["one", "other"].map(|name| Made::default().named(name).link(&sandbox.path(name)));
    let paths = [&one, &other].map(|library| library.to_str().expect("a path"));
    let options = ["check-abi", "--message-format", "json", "--torch-stable-abi", "2.10", "--arch", "8.0"];
    let result = sandbox.run(&[options.as_slice(), paths.as_slice()].concat()).event("result");
    let checks = result["files"][0]["checks"].as_array().expect("checks").iter().chain([&result["together"]]);
    let codes: BTreeSet<&str> = checks.filter_map(|check| check["code"].as_str()).collect();
    let documented = documented();
    assert!(codes.len() > 7, "{codes:?}");
    for code in codes {
        assert!(documented.contains(code), "{code} is in no row of the table of gates");
    }
}
