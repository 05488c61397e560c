//! `check` on every fixture of diagnostics prints its snapshot: the same files that kernel-plan's tests write.

use std::path::{Path, PathBuf};

use super::sandbox::{Sandbox, finish};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of the fixtures, sorted.
fn fixtures() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("tests/spec/err")).expect("the folder of fixtures").flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<_> =
        folders.map(|entry| entry.file_name().into_string().expect("a name in UTF-8")).collect();
    names.sort();
    names
}

/// Without the blanks at the ends of lines and of the text, which snapshots do not keep.
fn plain(text: &str) -> String {
    text.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_fixture_is_told_as_its_snapshot_says() {
    let sandbox = Sandbox::new();
    let fixtures = fixtures();
    assert!(fixtures.len() > 40, "there are {} fixtures", fixtures.len());
    for name in fixtures {
        let folder = format!("tests/spec/err/{name}");
        let snapshot = std::fs::read_to_string(root().join(format!("{folder}.snap"))).expect("a snapshot");
        let (_, want) = snapshot.split_once("\n---\n").expect("the end of insta's header");
        let mut command = sandbox.command(&["check", &folder]);
        command.current_dir(root()).env("LANG", "C.UTF-8");
        let checked = finish(&mut command);
        assert_eq!(plain(&checked.stdout), plain(want), "{folder}");
        if root().join(&folder).join("build.toml").exists() {
            let code = if want.contains("\n  × ") { 10 } else { 0 };
            assert_eq!((checked.code, checked.stderr.as_str()), (code, ""), "{folder}");
        } else {
            checked.refused(10, &["spec::no_project"]);
        }
    }
}
