//! What the sources of this crate promise about themselves.
#![expect(clippy::disallowed_methods, reason = "the sources are files beside the tests")]

use std::path::Path;

use kernel_plan::spec::rules::RULES;

#[test]
fn every_rule_is_a_file_and_a_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/spec/rules");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of rules is there")
        .map(|entry| entry.expect("a readable entry").file_name().into_string().expect("UTF-8"))
        .filter_map(|name| name.strip_suffix(".rs").filter(|name| *name != "mod").map(str::to_owned))
        .collect();
    files.sort();
    let missing: Vec<_> = files
        .iter()
        .filter(|file| !RULES.iter().any(|rule| rule.name == **file))
        .map(|file| format!("    Rule {{ name: \"{file}\", check: {file}::check }},"))
        .collect();
    assert!(missing.is_empty(), "add to RULES in spec/rules/mod.rs:\n{}", missing.join("\n"));
    assert_eq!(files, RULES.iter().map(|rule| rule.name).collect::<Vec<_>>(), "RULES is sorted by name");
}

#[test]
fn codes_are_written_down_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name != "codes.rs") {
                let text = std::fs::read_to_string(&path).expect("a readable source");
                for stage in ["\"spec::", "\"variant::"] {
                    assert!(!text.contains(stage), "{}: use the constant in codes.rs", path.display());
                }
            }
        }
    }
}
