//! `publish` to a folder: nothing of anybody else's is touched, and the same content twice is no change.

use super::sandbox::{Sandbox, tree};

/// A project with a bundle in `build/`, as `package` leaves it.
fn packaged() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    sandbox.write("work/fast-norm/build/CARD.md", "# fast-norm\n");
    sandbox.write("work/fast-norm/build/torch-cpu/metadata.json", "{}\n");
    sandbox.write("work/fast-norm/build/torch-cpu/__init__.py", "answer = 42\n");
    sandbox
}

#[test]
fn without_a_bundle_the_next_step_is_named() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let sent = sandbox.run(&["publish", "fast-norm", "--to", "dist"]);
    sent.refused(18, &["publish::no_bundle", "kernelwright package"]);
}

#[test]
fn a_folder_without_a_kernel_is_no_success() {
    let sandbox = packaged();
    sandbox.run(&["load", "nowhere"]).refused(21, &["load::nothing", "kernelwright publish --to"]);
    sandbox.run(&["load", "fast-norm", "--example", "gone.py"]).refused(1, &["gone.py"]);
}

#[test]
fn a_foreign_folder_is_left_alone() {
    let sandbox = packaged();
    sandbox.write("work/thesis/chapter-1.txt", "years of work\n");
    let sent = sandbox.run(&["publish", "fast-norm", "--to", "thesis"]);
    sent.refused(18, &["publish::foreign_folder", "thesis"]);
    assert_eq!(tree(&sandbox.path("work/thesis")), ["chapter-1.txt"]);
}

#[test]
fn the_folder_of_another_kernel_is_left_alone() {
    let sandbox = packaged();
    assert_eq!(sandbox.run(&["publish", "fast-norm", "--to", "dist"]).code, 0);
    sandbox.project("slow-norm", "cpu");
    sandbox.write("work/slow-norm/build/CARD.md", "# slow-norm\n");
    sandbox.run(&["publish", "slow-norm", "--to", "dist"]).refused(18, &["publish::other_kernel"]);
    assert_eq!(sandbox.read("work/dist/README.md"), "# fast-norm\n");
}

#[test]
fn the_layout_is_the_hubs_and_a_second_time_changes_nothing() {
    let sandbox = packaged();
    let publish = || sandbox.run(&["publish", "fast-norm", "--to", "dist", "--message-format", "json"]);
    assert_eq!(publish().event("result")["receipt"]["changed"], true);
    let files = tree(&sandbox.path("work/dist"));
    assert_eq!(
        files,
        [
            ".kernelwright.json",
            "README.md",
            "benchmarks/benchmark.py",
            "build/torch-cpu/__init__.py",
            "build/torch-cpu/metadata.json",
        ]
    );
    assert_eq!(publish().event("result")["receipt"]["changed"], false);
    sandbox.write("work/dist/build/torch-cpu/__init__.py", "answer = 43\n");
    assert_eq!(publish().event("result")["receipt"]["changed"], true);
    assert_eq!(sandbox.read("work/dist/build/torch-cpu/__init__.py"), "answer = 42\n");
}
