//! The schemas against the parsers: what is read fits, and a mistake of structure does not.
#![expect(
    clippy::disallowed_methods,
    reason = "the corpus, templates and examples are files of the repository"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use kernel_plan::diagnostic::{Problem, SourceFile, has_errors};
use kernel_plan::spec::{self, codes, schema};
use kernel_plan::units::{
    Capability, FileExtension, GitRef, GitUrl, KernelName, License, RelPath, RepoId, RocmArch, SectionName,
    Version,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::project;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

static BUILD: LazyLock<Value> = LazyLock::new(|| value(&schema::build()));

fn value(schema: &str) -> Value {
    serde_json::from_str(schema).expect("a schema is JSON")
}

fn validator(schema: &str) -> Validator {
    jsonschema::draft7::options().build(&value(schema)).expect("a schema of draft 7")
}

/// A TOML text as JSON, as editors hand it to a validator. `None`: no TOML.
fn json(text: &str) -> Option<Value> {
    serde_json::to_value(toml::from_str::<toml::Table>(text).ok()?).ok()
}

/// What is wrong with a text by a schema.
fn refusals(validator: &Validator, text: &str) -> Vec<String> {
    let Some(value) = json(text) else { return vec!["no TOML".to_owned()] };
    validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The texts of a folder by their names without `.toml`.
fn folder(path: &str) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(root().join(path)).expect("a readable folder");
    let files = entries.map(|entry| entry.expect("a readable entry").path());
    files
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .map(|path| {
            let name = path.file_stem().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
            (name, std::fs::read_to_string(&path).expect("a text"))
        })
        .collect()
}

/// The files of this name in the folders below some folders.
fn projects(parents: &[&str], name: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for parent in parents {
        for entry in std::fs::read_dir(root().join(parent)).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if let Ok(text) = std::fs::read_to_string(path.join(name)) {
                found.push((path, text));
            }
        }
    }
    found
}

/// What is wrong with a build.toml of the corpus that a schema cannot see, or sees as an editor may not.
const UNSEEN: &[&str] = &[
    // JSON has one kind of number: 5.0 is 5.
    "edition-is-float",
    "version-is-a-float",
    // Two values, each sound by itself.
    "edition-4-with-stable-abi-by-backend",
    "ours-cuda-range-empty",
    "ours-kernel-for-an-undeclared-backend",
    "ours-torch-range-empty",
    // TOML 1.1: an editor's own parser sees it, or reads it.
    "toml-1-1-comma-at-the-end-of-inline-table",
    "toml-1-1-escape",
    "toml-1-1-line-break-in-inline-table",
    // A pattern for these would be unreadable.
    "ours-upstream-not-ascii",
    "source-with-bad-port",
];

#[test]
fn what_is_read_as_build_toml_fits_the_schema() {
    let validator = validator(&schema::build());
    let fixtures = projects(&["tests/spec/err", "tests/variant/err", "examples"], "build.toml");
    let sound =
        fixtures.into_iter().filter(|(path, _)| !has_errors(&project::read_folder(path, "project").problems));
    let sound = sound.map(|(path, text)| (path.display().to_string(), text));
    let read: Vec<_> = folder("tests/spec/corpus/valid").into_iter().chain(sound).collect();
    assert!(read.len() > 55, "only {} files", read.len());
    for (name, text) in read {
        assert_eq!(refusals(&validator, &text), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn what_is_refused_does_not_fit() {
    let validator = validator(&schema::build());
    let unseen: BTreeSet<String> = folder("tests/spec/corpus/invalid")
        .into_iter()
        .filter(|(_, text)| refusals(&validator, text).is_empty())
        .map(|(name, _)| name)
        .collect();
    assert_eq!(unseen, UNSEEN.iter().map(|name| (*name).to_owned()).collect());
}

/// Each table of a file with the keys that its parser knows there, by the problems of a file with `zzz` in all of them.
fn known_keys(problems: &[Problem]) -> BTreeMap<String, BTreeSet<String>> {
    let unknown = problems.iter().filter(|problem| problem.code == codes::UNKNOWN_KEY);
    let known = unknown.map(|problem| {
        let (_, place) = problem.message.split_once(" in ").expect("the place of the key");
        let keys =
            problem.help.as_deref().and_then(|help| help.strip_prefix("valid keys: ")).expect("the keys");
        let keys =
            if keys == "none" { BTreeSet::new() } else { keys.split(", ").map(str::to_owned).collect() };
        (place.trim_matches(['`', '[', ']']).to_owned(), keys)
    });
    known.collect()
}

/// The keys of a table in a schema.
fn schema_keys(schema: &Value, pointer: &str) -> BTreeSet<String> {
    let table = schema.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
    assert_eq!(table["additionalProperties"], false, "{pointer}");
    table["properties"].as_object().expect("properties").keys().cloned().collect()
}

#[test]
fn the_keys_of_build_toml_are_those_of_the_schema() {
    let schema = value(&schema::build());
    let mut text =
        "zzz = 1\n[general]\nzzz = 1\nedition = 5\nbackends = [\"cpu\"]\nname = \"x-y\"\nversion = 1\n\
                    license = \"MIT\"\n[torch.stable-abi]\nzzz = 1\n"
            .to_owned();
    for section in [
        "general.hub",
        "general.cuda",
        "general.neuron",
        "general.tpu",
        "general.xpu",
        "torch-noarch",
        "tvm-ffi",
    ] {
        text += &format!("[{section}]\nzzz = 1\n");
    }
    text = text.replace("[torch.stable-abi]", "[torch]\nzzz = 1\n[torch.stable-abi]");
    text = text.replace("license = ", "kernel-depends = [{ zzz = 1 }]\nlicense = ");
    let backends = ["cpu", "cuda", "metal", "rocm", "xpu"];
    for backend in backends {
        text += &format!("[kernel.{backend}]\nbackend = \"{backend}\"\nzzz = 1\n");
    }
    let known = known_keys(&spec::parse_build(SourceFile::new("build.toml", text)).1);
    for (place, pointer) in [
        ("the file", ""),
        ("general", "/properties/general"),
        ("general.kernel-depends", "/properties/general/properties/kernel-depends/items"),
        ("general.hub", "/properties/general/properties/hub"),
        ("general.cuda", "/properties/general/properties/cuda"),
        ("general.neuron", "/properties/general/properties/neuron"),
        ("general.tpu", "/properties/general/properties/tpu"),
        ("general.xpu", "/properties/general/properties/xpu"),
        ("torch", "/properties/torch"),
        ("torch.stable-abi", "/properties/torch/properties/stable-abi/oneOf/1"),
        ("torch-noarch", "/properties/torch-noarch"),
        ("tvm-ffi", "/properties/tvm-ffi"),
    ] {
        assert_eq!(known.get(place), Some(&schema_keys(&schema, pointer)), "{place}");
    }
    assert_eq!(known.len(), 12 + backends.len(), "{:?}", known.keys());
    // A key of a kernel is one of its backend: the schema refuses the others by name.
    let validator = validator(&schema::build());
    let kernels = schema["properties"]["kernel"]["patternProperties"].as_object().expect("kernels by name");
    let every = schema_keys(kernels.values().next().expect("a kernel"), "");
    for backend in backends {
        let allowed = every.iter().filter(|key| {
            let text = format!(
                "[kernel.x]\nbackend = \"{backend}\"\n{}",
                if *key == "backend" { String::new() } else { format!("{key} = 1") }
            );
            let at = format!("/kernel/x/{key}");
            let value = json(&text).expect("TOML");
            let refused = |error: jsonschema::ValidationError<'_>| {
                error.instance_path().as_str() == at && error.to_string().starts_with("False schema")
            };
            !validator.iter_errors(&value).any(refused)
        });
        assert_eq!(known.get(&format!("kernel.{backend}")), Some(&allowed.cloned().collect()), "{backend}");
    }
}

/// Mistakes of structure in an op.toml that a schema does not see.
const UNSEEN_IN_OP: &[&str] = &[];

#[test]
fn op_toml_fits_the_schema_where_it_is_read() {
    let validator = validator(&schema::op());
    let structure =
        [codes::UNKNOWN_KEY, codes::WRONG_TYPE, codes::MISSING_KEY, codes::EMPTY_LIST, codes::OP_FORMAT];
    let (mut read, mut unseen) = (0, Vec::new());
    for (path, text) in projects(&["tests/spec/err", "tests/variant/err", "examples", "templates"], "op.toml")
    {
        let problems = spec::parse_op(SourceFile::new("op.toml", text.clone())).1;
        let refusals = refusals(&validator, &text);
        if !has_errors(&problems) {
            assert_eq!(refusals, Vec::<String>::new(), "{}", path.display());
            read += 1;
        } else if refusals.is_empty() && problems.iter().any(|problem| structure.contains(&problem.code)) {
            unseen.push(path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned());
        }
    }
    for file in ["every_key", "rms_norm"] {
        let text = std::fs::read_to_string(
            root().join(format!("kernel-builder/kernel-plan/tests/spec/ok/{file}.toml")),
        );
        let text = project::part(&text.expect("a text"), "op.toml").expect("its op.toml").text.clone();
        assert_eq!(refusals(&validator, &text), Vec::<String>::new(), "{file}");
        read += 1;
    }
    assert!(read > 8, "only {read} files");
    unseen.sort();
    assert_eq!(unseen, UNSEEN_IN_OP);
}

#[test]
fn the_keys_of_op_toml_are_those_of_the_schema() {
    let schema = value(&schema::op());
    let text = r#"
        format = 1
        zzz = 1
        [axes]
        rows = { type = "var", zzz = 1 }
        head = { type = "const", value = 1, zzz = 1 }
        [inputs]
        input = { shape = ["rows"], dtype = "f32", zzz = 1 }
        [scalars]
        eps = { type = "float", default = 1.0, zzz = 1 }
        [outputs]
        out = { shape = ["rows"], dtype = "f32", zzz = 1 }
        [reference]
        zzz = 1
        [gradient]
        backward = true
        zzz = 1
        [call]
        zzz = 1
        [tolerance]
        zzz = 1
        [tune.block]
        zzz = 1
        [launch]
        zzz = 1
        workspace.w.zzz = 1
        tensor-map.m.zzz = 1
        [[launch.kernel]]
        args = [{ zzz = 1 }]
        zzz = 1
        [cpu]
        zzz = 1
        [flashinfer]
        stored.small.input.zzz = 1
        zzz = 1
        [workload.small]
        axes = { rows = 1 }
        zzz = 1
    "#;
    let known = known_keys(&spec::parse_op(SourceFile::new("op.toml", text)).1);
    let named = |table: &str| format!("{table}/patternProperties/^[A-Za-z_][A-Za-z0-9_]*$");
    let launch = "/properties/launch";
    for (place, pointer) in [
        ("the file", String::new()),
        ("inputs.input", named("/properties/inputs")),
        ("scalars.eps", named("/properties/scalars")),
        ("outputs.out", named("/properties/outputs")),
        ("reference", "/properties/reference".to_owned()),
        ("gradient", "/properties/gradient".to_owned()),
        ("call", "/properties/call".to_owned()),
        ("tolerance", "/properties/tolerance".to_owned()),
        ("tune.block", "/properties/tune/additionalProperties".to_owned()),
        ("launch", launch.to_owned()),
        ("launch.workspace.w", named(&format!("{launch}/properties/workspace"))),
        ("launch.tensor-map.m", named(&format!("{launch}/properties/tensor-map"))),
        ("launch.kernel", format!("{launch}/properties/kernel/items")),
        ("launch.kernel.args", format!("{launch}/properties/kernel/items/properties/args/items/oneOf/1")),
        ("cpu", "/properties/cpu".to_owned()),
        ("flashinfer", "/properties/flashinfer".to_owned()),
        (
            "flashinfer.stored.small.input",
            "/properties/flashinfer/properties/stored/patternProperties/^[a-z0-9][-a-z0-9_.]*$\
             /patternProperties/^[A-Za-z_][A-Za-z0-9_]*$"
                .to_owned(),
        ),
        ("workload.small", "/properties/workload/patternProperties/^[a-z0-9][-a-z0-9_.]*$".to_owned()),
    ] {
        assert_eq!(known.get(place), Some(&schema_keys(&schema, &pointer)), "{place}");
    }
    // Those of an axis depend on its type.
    let of_axes = ["axes.rows", "axes.head"].map(|axis| known.get(axis).expect("an axis"));
    let every: BTreeSet<_> = of_axes.into_iter().flatten().cloned().collect();
    assert_eq!(every, schema_keys(&schema, &named("/properties/axes")));
    assert_eq!(known.len(), 20, "{:?}", known.keys());
    let validator = validator(&schema::op());
    for (kind, refused) in [("const", &["multiple-of", "min", "max", "leading"] as &[_]), ("var", &["value"])]
    {
        for key in every.iter().filter(|key| *key != "type") {
            let some = if key == "leading" { "true" } else { "1" };
            let value = json(&format!("axes.a = {{ type = \"{kind}\", {key} = {some} }}")).expect("TOML");
            let at = format!("/axes/a/{key}");
            let seen = validator.iter_errors(&value).any(|error| error.instance_path().as_str() == at);
            assert_eq!(seen, refused.contains(&key.as_str()), "{kind} {key}");
        }
    }
}

/// Whether a text is one of a kind, by its type and by the schema at a key of build.toml.
fn both<T: std::str::FromStr>(pointer: &str, text: &str) -> (bool, bool) {
    static AT: LazyLock<Mutex<BTreeMap<String, Validator>>> = LazyLock::new(Mutex::default);
    let mut validators = AT.lock().unwrap_or_else(PoisonError::into_inner);
    let validator = validators.entry(pointer.to_owned()).or_insert_with(|| {
        let at = BUILD.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
        jsonschema::draft7::new(at).expect("a schema of draft 7")
    });
    (text.parse::<T>().is_ok(), validator.is_valid(&Value::from(text)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Where a pattern can say the whole grammar, it does.
    #[test]
    fn patterns_are_grammars(name in "[a-z0-9A-Z_-]{0,5}", version in "[0-9]{0,5}[.]?[0-9a-c+]{0,5}", capability in "[0-9]{1,2}[.][0-9]{0,2}[afg]?([+]PTX)?", path in "[./a:\\\\]{0,8}", ending in "[a.+ -]{0,6}") {
        let kernel = "/properties/kernel/patternProperties/^[_A-Za-z0-9][-_A-Za-z0-9]*$/properties";
        for (typed, fits) in [
            both::<KernelName>("/properties/general/properties/name", &name),
            both::<Version>("/properties/torch/properties/minver", &version),
            both::<Capability>(&format!("{kernel}/cuda-capabilities/items"), &capability),
            both::<RelPath>(&format!("{kernel}/src/items"), &path),
            both::<FileExtension>("/properties/torch/properties/pyext/items", &ending),
        ] {
            prop_assert_eq!(typed, fits, "{} {} {} {} {}", name, version, capability, path, ending);
        }
        let section = format!("[kernel.{name}]\nbackend = \"cpu\"\ndepends = []\nsrc = [\"a\"]\n");
        if let Some(value) = json(&section) {
            let fits = jsonschema::draft7::is_valid(&BUILD["properties"]["kernel"], &value["kernel"]);
            prop_assert_eq!(name.parse::<SectionName>().is_ok(), fits, "{}", name);
        }
    }

    /// Elsewhere, what is read fits at least.
    #[test]
    fn patterns_refuse_nothing_that_is_read(
        license in "[ -~\\t]{0,6}",
        repository in "[a-z._-]{0,4}/[a-z._-]{0,4}([.]git)?",
        reference in "[a-z@{}~^:?*/. -]{0,8}([.]lock)?",
        url in "(https?|GIT|git[+]ssh|ftp)://([a-z]{1,2}@)?[a-z.\\[\\]:0-9]{0,6}(/[a-z #?]{0,4})?|[a-z]{0,2}@?[a-z.0-9]{0,5}:[a-z/~]{0,4}",
        arch in "gfx[0-9a-f-]{0,5}(-generic)?(:sramecc[+-])?(:xnack[+-])?",
    ) {
        let general = "/properties/general/properties";
        for (what, (typed, fits)) in [
            (&license, both::<License>(&format!("{general}/license"), &license)),
            (&repository, both::<RepoId>(&format!("{general}/hub/properties/repo-id"), &repository)),
            (&reference, both::<GitRef>(&format!("{general}/hub/properties/branch"), &reference)),
            (&url, both::<GitUrl>(&format!("{general}/source"), &url)),
            (&arch, both::<RocmArch>("/properties/torch-noarch/properties/rocm_archs/items", &arch)),
        ] {
            prop_assert!(fits || !typed, "{}", what);
        }
    }
}
