//! The step `rust`: a crate with kernels outside of the workspace, and the packages of the crates that it uses.
//!
//! Owns: in which ways the example is built. Never: needs a GPU; tests of the two crates are those of the step `test`.

use std::process::Command;

use super::run::Run;
use crate::repo;
use crate::talk::Talk;

/// The manifest of the example.
const EXAMPLE: &str = "examples/rust/rms-norm-cudarc/Cargo.toml";
/// Its folder of builds, outside of that of the workspace, whose features are others.
const TARGET: &str = "target/rust";
/// The crates that users depend on.
const CRATES: [&str; 2] = ["kernelwright-build", "kernelwright-runtime"];

/// Builds and tests the example with the program of this checkout, then without kernels, and packs the crates.
pub(crate) fn run(run: &Run<'_>) -> Result<Vec<String>, String> {
    let program = run.site.ready.kernelwright(&[])?.get_program().to_owned();
    run.whole(|talk| {
        let example = |task: &str| {
            let mut command = repo::cargo();
            command.args([task, "--manifest-path", EXAMPLE, "--target-dir", TARGET, "--locked", "--quiet"]);
            command.env("KERNELWRIGHT_PROGRAM", &program).current_dir(&run.site.root);
            command
        };
        talk.run(&mut example("test"))?;
        talk.run(example("check").env("KERNELWRIGHT_STUBS", "1"))?;
        refuses_a_missing_program(example("check"), talk)?;
        let mut package = repo::cargo();
        package.args(["package", "--locked", "--allow-dirty", "--quiet", "--target-dir", TARGET]);
        package.args(CRATES.iter().flat_map(|name| ["--package", name]));
        talk.run(package.current_dir(&run.site.root))
    })
}

/// A build script whose program is missing ends with what to do, and not with a panic.
fn refuses_a_missing_program(mut command: Command, talk: &mut Talk) -> Result<(), String> {
    let (text, outcome) = talk.heard(command.env("KERNELWRIGHT_PROGRAM", "nowhere/kernelwright"));
    if outcome.is_ok() {
        return Err("the example was built without the program".to_owned());
    }
    if !text.contains("KERNELWRIGHT_PROGRAM, which is `nowhere/kernelwright`") || text.contains("panicked") {
        return Err("a build without the program does not say what is missing".to_owned());
    }
    Ok(())
}
