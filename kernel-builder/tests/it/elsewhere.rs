//! Building for a builder that only executes: `lock`, `build --to`, `layout`, with fake compilers.

use super::build_fakes::{COMPLAINS, GOOD, VARIANT, build, fakes};
use super::sandbox::{Sandbox, tree};

#[test]
fn a_build_elsewhere_leaves_the_project_as_it_is() {
    let sandbox = fakes(GOOD);
    let project = sandbox.path("work/fast-norm");
    let before = tree(&project);
    let to = sandbox.path("out");
    let built = build(&sandbox, &["--to", to.to_str().expect("a path")]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    assert_eq!(tree(&project), before);
    let made = tree(&to);
    assert!(made.contains(&format!("{VARIANT}.json")), "{made:?}");
    assert!(made.contains(&format!("{VARIANT}/_ops.py")), "{made:?}");
    // Two builds of the same are the same, so nothing in them says where they were made.
    let again = sandbox.path("again");
    assert_eq!(build(&sandbox, &["--to", again.to_str().expect("a path")]).code, 0);
    for file in &made {
        let [one, other] = [&to, &again].map(|folder| std::fs::read(folder.join(file)).expect("a file"));
        assert_eq!(one, other, "{file}");
    }
}

#[test]
fn what_fails_elsewhere_leaves_nothing() {
    let sandbox = fakes(COMPLAINS);
    let to = sandbox.path("out");
    build(&sandbox, &["--to", to.to_str().expect("a path")]).refused(14, &["compile::unit", "warp"]);
    assert!(!to.exists());
}

#[test]
fn a_layout_has_metadata_and_no_card() {
    let sandbox = fakes(GOOD);
    assert_eq!(build(&sandbox, &["--to", "../out"]).code, 0);
    let commit = "0123456789012345678901234567890123456789";
    let layout = |more: &[&str], said: &str| {
        let arguments: Vec<&str> =
            ["layout", "fast-norm", "--from", "../out"].iter().chain(more).copied().collect();
        super::sandbox::finish(sandbox.command(&arguments).env("KERNELWRIGHT_COMMIT", said))
    };
    layout(&["--from", "../nowhere", "--to", "../hub"], commit)
        .refused(17, &["package::no_build", "nowhere"]);
    layout(&["--alone", "--from", "../out", "--to", "../hub"], commit).refused(17, &["package::not_alone"]);
    assert!(!sandbox.path("hub").exists());
    let laid = layout(&["--to", "../hub"], commit);
    assert_eq!(laid.code, 0, "{}", laid.stderr);
    let files = tree(&sandbox.path("hub"));
    assert!(files.contains(&format!("{VARIANT}/metadata.json")), "{files:?}");
    assert!(
        !files.iter().any(|file| file.contains("CARD") || file == &format!("{VARIANT}.json")),
        "{files:?}"
    );
    let origin = |text: &str| {
        let metadata: serde_json::Value = serde_json::from_str(text).expect("metadata");
        (
            metadata["provenance"]["kernel"]["commit"].clone(),
            metadata["provenance"]["kernel"]["dirty"].clone(),
        )
    };
    let text = sandbox.read(&format!("hub/{VARIANT}/metadata.json"));
    assert_eq!(origin(&text), (commit.into(), false.into()));
    // Alone, and of a tree that differs from the commit.
    assert_eq!(layout(&["--alone", "--to", "../one"], &format!("{commit}-dirty")).code, 0);
    assert_eq!(origin(&sandbox.read("one/metadata.json")), (commit.into(), true.into()));
}

#[test]
fn a_lock_that_lists_other_variants_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let check = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["lock", "--check", "fast-norm", "--variant", VARIANT].iter().chain(more).copied().collect();
        sandbox.run(&arguments)
    };
    check(&[]).refused(11, &["plan::stale_lock", "lacks", VARIANT]);
    let lock = |id: &str| format!("format = 1\n\n[[variant]]\nid = \"{id}\"\nwheels = []\n");
    sandbox.write("work/fast-norm/kernelwright.lock", &lock(VARIANT));
    assert_eq!(check(&[]).code, 0);
    sandbox.write("work/fast-norm/kernelwright.lock", &lock("torch999-cxx11-cpu-x86_64-linux"));
    check(&[]).refused(11, &["plan::stale_lock", "lacks", "lists, and should not, torch999-cxx11-cpu"]);
    let fewer = || sandbox.run(&["lock", "--check", "--fewer", "fast-norm"]);
    fewer().refused(11, &["lists, and should not, torch999-cxx11-cpu"]);
    sandbox.write("work/fast-norm/kernelwright.lock", &lock(VARIANT));
    assert_eq!(fewer().code, 0);
    sandbox.write("work/fast-norm/kernelwright.lock", "format = 1\nvariants = 3\n");
    check(&[]).refused(13, &["toolchain::bad_lock"]);
}

#[test]
fn what_the_lock_lacks_is_not_exported() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let export = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["toolchain", "export", "--to", "../trees", "fast-norm"].iter().chain(more).copied().collect();
        sandbox.run(&arguments)
    };
    export(&["--only", "torch-1-2"]).refused(13, &["toolchain::not_in_lock", "torch-1-2"]);
    export(&["--variant", VARIANT]).refused(13, &["toolchain::not_in_lock", VARIANT]);
}
