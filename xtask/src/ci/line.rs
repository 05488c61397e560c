//! Steps that are one command: the whole line on the example, the hub, the release, Nix, the comparison of device code.
//!
//! Owns: the commands. Never: looks into them.

use std::process::Command;

use super::ready::EXAMPLE;
use super::run::Run;
use crate::{crosscheck as comparison, repo};

/// A model of a file, and the function that makes it.
const MODEL: &str = "tests/e2e/block.py:make";

/// A part of it: the product with a sigmoid.
const PART: &str = "block";

/// The function of the README's first command, whose kernel has this name.
const FUNCTION: (&str, &str) = ("tests/translation/models.py:layer_scale", "layer-scale");

/// The whole line, on the example and from a function.
pub(crate) fn make(run: &Run<'_>) -> Result<Vec<String>, String> {
    let (from, name) = FUNCTION;
    run.whole(|talk| {
        run.site.ready.example()?;
        let dir = run.site.ready.scratch("function")?.join(name);
        let mut command =
            run.site.ready.kernelwright(&["make", "--from", from, "--backend", "cpu", "--no-bench"])?;
        talk.run(command.arg(dir))
    })
}

/// A second run of an unchanged project does nothing again. Its budget is the check: it took long when something was not
/// remembered.
pub(crate) fn again(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.site.ready.example()?;
    run.whole(|talk| talk.run(&mut run.site.ready.kernelwright(&["make", EXAMPLE])?))
}

/// A stranger's model: its parts as projects, what the example replaces, then with the example and the kernel of a part in it.
pub(crate) fn model(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.site.ready.example()?;
    let small = ["--backend", "cpu", "--dtype", "f32"];
    let without = ["--rounds", "3", "--without", "compile", "--without", "compile-max"];
    run.whole(|talk| {
        let parts = run.site.ready.scratch("parts")?;
        let mut profile =
            run.site.ready.kernelwright(&[&["profile", MODEL][..], &small, &["--to"]].concat())?;
        talk.run(profile.arg(&parts))?;
        let mut inject = run.site.ready.kernelwright(&["inject", MODEL, EXAMPLE])?;
        talk.run(inject.args(small))?;
        let mut bench = run.site.ready.kernelwright(&["bench", "--e2e", MODEL, EXAMPLE])?;
        talk.run(bench.arg(parts.join(PART)).args(small).args(without))
    })
}

/// Another torch, in the cache.
pub(crate) fn torch(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.whole(|_| run.site.ready.torch())
}

/// A hub of one's own.
pub(crate) fn hub(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.site.ready.client()?;
    run.whole(|talk| talk.run(&mut script(run, "hub")?))
}

/// The workflow of a project, from a tag to a release.
pub(crate) fn release(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.site.ready.client()?;
    run.whole(|talk| talk.run(&mut script(run, "release")?))
}

/// Real Nix.
pub(crate) fn nix(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.site.ready.client()?;
    run.whole(|talk| talk.run(&mut script(run, "nix")?))
}

/// Device code for CUDA 12, of every release that is compared.
pub(crate) fn crosscheck(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.whole(|_| match comparison::check(comparison::RELEASES)? {
        true => Ok(()),
        false => Err("device code for CUDA 12 differs from that of NVIDIA's compiler".to_owned()),
    })
}

/// A script of .ci. It uses the programs that are built here.
fn script(run: &Run<'_>, name: &str) -> Result<Command, String> {
    run.site.ready.kernelwright(&[])?;
    let mut command = Command::new(run.site.root.join(".ci").join(name));
    repo::forget_cargo(&mut command);
    command.current_dir(&run.site.root);
    Ok(command)
}
