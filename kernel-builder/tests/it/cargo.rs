//! `cargo kernelwright`: cargo starts `cargo-kernelwright`, which becomes the program, in a crate that lists kernels.

use std::process::Command;

use super::sandbox::Sandbox;

/// A crate with two kernels, in a workspace that it inherits one key from.
fn crate_with_kernels() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in ["norm", "gate"] {
        let template = if name == "norm" { "rms-norm" } else { "swiglu" };
        let made = sandbox.run(&["new", &format!("me/{name}"), "--template", template, "--no-git"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
    }
    sandbox.write(
        "work/Cargo.toml",
        "[workspace.metadata.kernelwright]\nkernels = [\"norm\", \"gate\"]\n[workspace]\n",
    );
    let section = "[package.metadata.kernelwright]\nkernels.workspace = true\n";
    sandbox.write("work/model/Cargo.toml", &format!("[package]\nname = \"model\"\n\n{section}"));
    sandbox.write("work/model/src/lib.rs", "");
    sandbox
}

#[test]
fn cargo_finds_the_program_beside_its_own() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_cargo-kernelwright")).args(["kernelwright", "--version"]).output();
    let output = output.expect("it starts");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("kernelwright "), "{output:?}");
}

#[test]
fn a_crate_s_kernels_are_checked_one_after_the_other() {
    let sandbox = crate_with_kernels();
    let check = |sandbox: &Sandbox| {
        let mut line = sandbox.command(&["kernelwright", "check"]);
        super::sandbox::finish(line.current_dir(sandbox.path("work/model/src")))
    };
    let checked = check(&sandbox);
    assert_eq!(
        (checked.code, checked.stdout.as_str()),
        (0, "no problems\nno problems\n"),
        "{}",
        checked.stderr
    );
    // The second is looked at though the first has problems, and the line fails.
    sandbox.write("work/norm/build.toml", "[general]\n");
    let checked = check(&sandbox);
    assert_eq!(checked.code, 10, "{}", checked.stderr);
    assert!(
        checked.stdout.ends_with(
            "warning
no problems
"
        ),
        "{}",
        checked.stdout
    );
    sandbox.write("work/Cargo.toml", "[workspace]\n");
    check(&sandbox).refused(2, &["Cargo.toml:5", "`kernels` is inherited", "cargo kernelwright check DIR"]);
}
