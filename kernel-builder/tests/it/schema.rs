//! `schema`: what is printed is what editors are given, and what the templates make fits it.

use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;

use super::sandbox::Sandbox;

fn printed(sandbox: &Sandbox, file: &str) -> String {
    let printed = sandbox.run(&["schema", file]);
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
    printed.stdout
}

fn validator(sandbox: &Sandbox, file: &str) -> Validator {
    let schema: Value = serde_json::from_str(&printed(sandbox, file)).expect("JSON");
    jsonschema::draft7::new(&schema).expect("a schema of draft 7")
}

#[track_caller]
fn fits(validator: &Validator, path: &Path) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let value: toml::Table = toml::from_str(&text).expect("TOML");
    let value = serde_json::to_value(value).expect("JSON");
    let refusals: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert_eq!(refusals, Vec::<String>::new(), "{}", path.display());
}

#[test]
fn the_committed_copies_are_what_is_printed() {
    let sandbox = Sandbox::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema");
    for file in ["build", "op"] {
        let copy = std::fs::read_to_string(folder.join(format!("{file}.schema.json"))).expect("a copy");
        assert!(printed(&sandbox, file) == copy, "run `cargo xtask codegen` and commit docs/schema");
    }
    assert_eq!(sandbox.run(&["schema", "flake"]).code, 2);
}

#[test]
fn every_template_and_example_fits() {
    let sandbox = Sandbox::new();
    let (build, op) = (validator(&sandbox, "build"), validator(&sandbox, "op"));
    for (name, _) in sandbox.projects_of_every_template() {
        fits(&build, &sandbox.work().join(&name).join("build.toml"));
        fits(&op, &sandbox.work().join(&name).join("op.toml"));
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for entry in std::fs::read_dir(examples).expect("the examples").flatten() {
        for (validator, file) in [(&build, "build.toml"), (&op, "op.toml")] {
            if entry.path().join(file).is_file() {
                fits(validator, &entry.path().join(file));
            }
        }
    }
}
