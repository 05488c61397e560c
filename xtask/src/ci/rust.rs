//! The step `rust`: crates with kernels outside of the workspace, and the packages of the crates that they use.
//!
//! Owns: in which ways the examples are built, a crate of `new --rust` that uses a published kernel. Never: needs a GPU; tests
//! of the two crates are those of the step `test`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::run::Run;
use crate::repo;
use crate::talk::Talk;

/// The manifest of the example.
const EXAMPLE: &str = "examples/rust/rms-norm-cudarc/Cargo.toml";
/// Its programs with a mistake in a call, and the errors of the compiler: a dtype that the operation does not have, dtypes that
/// differ, an output that is also an input.
const WRONG: [(&str, &str); 3] =
    [("wrong_dtype", "error[E0277]"), ("wrong_mixed", "error[E0308]"), ("wrong_shared", "error[E0502]")];
/// The example with candle, and what stands in for nvcc where only its types are checked.
const CANDLE: &str = "examples/rust/candle-block/Cargo.toml";
const STAND_IN: &str = "examples/rust/candle-block/stand-in";
/// Their folder of builds, outside of that of the workspace, whose features are others.
const TARGET: &str = "target/rust";
/// The crates that users depend on.
const CRATES: [&str; 2] = ["kernelwright-build", "kernelwright-runtime"];

/// The kernel that is published, and its only variant.
const PUBLISHED: &str = "row-sum";
const VARIANT: &str = "torch-stable-abi210-cu130-x86_64-linux";

/// Builds and tests the examples with the program of this checkout, a new crate with a published kernel, and packs the crates.
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
        for (name, error) in WRONG {
            let mut check = example("check");
            check.args(["--example", name, "--features", "wrong"]).env("KERNELWRIGHT_STUBS", "1");
            refuses(check, error, talk)?;
        }
        refuses_a_missing_program(example("check"), talk)?;
        with_candle(&program, &run.site.root, talk)?;
        published(run, talk)?;
        let mut package = repo::cargo();
        package.args(["package", "--locked", "--allow-dirty", "--quiet", "--target-dir", TARGET]);
        package.args(CRATES.iter().flat_map(|name| ["--package", name]));
        talk.run(package.current_dir(&run.site.root))
    })
}

/// The example with candle: its tests on the processor, and the types of its code for a GPU.
fn with_candle(program: &OsStr, root: &Path, talk: &mut Talk) -> Result<(), String> {
    let cargo = |words: &[&str]| {
        let mut command = repo::cargo();
        command.args(words).args(["--manifest-path", CANDLE, "--target-dir", TARGET, "--locked", "--quiet"]);
        command.env("KERNELWRIGHT_PROGRAM", program).current_dir(root);
        command
    };
    talk.run(&mut cargo(&["test"]))?;
    let stand_in = root.join(STAND_IN);
    let mut check = cargo(&["check", "--all-targets", "--features", "cuda"]);
    check.env("CUDA_HOME", &stand_in).env("NVCC", stand_in.join("bin/nvcc")).env("CUDA_COMPUTE_CAP", "90");
    // The kernels of the example are the program's, which must not take the stand-in for a toolkit.
    talk.run(check.env("KERNELWRIGHT_STUBS", "1"))
}

/// A crate of `new --rust` builds and passes its tests. Then it uses a published kernel: the machine code in its build is that
/// of the library that Python loads, and a library with other bytes is refused.
fn published(run: &Run<'_>, talk: &mut Talk) -> Result<(), String> {
    let folder = run.site.ready.scratch("rust")?;
    let crate_dir = folder.join("fast-sum");
    let shown = |path: &Path| path.display().to_string();
    let kernelwright = |words: &[&str]| run.site.ready.kernelwright(words);
    talk.run(&mut kernelwright(&[
        "new",
        "--rust",
        "fast-sum",
        &shown(&crate_dir),
        "--crates",
        "kernel-rust",
        "--no-git",
    ])?)?;
    // The folder is in that of the repository, whose workspace it does not belong to.
    edit(&crate_dir.join("Cargo.toml"), |text| format!("{text}\n[workspace]\n"))?;
    let program = kernelwright(&[])?.get_program().to_owned();
    let cargo = |words: &[&str]| {
        let mut command = repo::cargo();
        command.args(words).args(["--quiet", "--target-dir"]).arg(run.site.root.join(TARGET));
        command.env("KERNELWRIGHT_PROGRAM", &program).current_dir(&crate_dir);
        command
    };
    talk.run(&mut cargo(&["test", "--all-targets"]))?;

    let project = folder.join(PUBLISHED);
    let place = folder.join("published").join(PUBLISHED);
    talk.run(&mut kernelwright(&[
        "new",
        &format!("ci/{PUBLISHED}"),
        &shown(&project),
        "--template",
        PUBLISHED,
        "--no-git",
    ])?)?;
    edit(&project.join("build.toml"), |text| {
        let lines = text.lines().map(|line| match line.split_once(" = ") {
            Some(("cuda-capabilities", _)) => "cuda-capabilities = [\"9.0\"]",
            _ => line,
        });
        lines.map(|line| format!("{line}\n")).collect()
    })?;
    talk.run(&mut kernelwright(&["package", &shown(&project), "--variant", VARIANT])?)?;
    talk.run(&mut kernelwright(&["publish", &shown(&project), "--to", &shown(&place)])?)?;
    edit(&crate_dir.join("Cargo.toml"), |text| {
        let table = format!(
            "[package.metadata.kernelwright.dependencies]\n{PUBLISHED} = {{ version = \"1\", from = \"../published/{PUBLISHED}\" }}\n"
        );
        format!("{text}\n{table}")
    })?;
    refuses(cargo(&["check"]), "run `cargo kernelwright pin`", talk)?;
    talk.run(&mut kernelwright(&["pin", &shown(&crate_dir)])?)?;
    talk.run(&mut cargo(&["test"]))?;
    let built = newest(&run.site.root.join(TARGET).join("debug/build"), "fast-sum-")?;
    let variant = place.join("build").join(VARIANT);
    same_code(&built.join("out/kernelwright/row_sum-0.sm_90.cubin"), &variant.join("launchers.json"), talk)?;

    let library = library(&variant)?;
    let mut bytes = fs::read(&library).map_err(|error| format!("{}: {error}", library.display()))?;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&library, bytes).map_err(|error| format!("{}: {error}", library.display()))?;
    refuses(cargo(&["check"]), "hash mismatch for", talk)
}

/// That a command fails, says this, and does not panic.
fn refuses(mut command: Command, message: &str, talk: &mut Talk) -> Result<(), String> {
    let (text, outcome) = talk.heard(&mut command);
    match outcome {
        Ok(()) => Err(format!("a build passed that must fail with `{message}`")),
        Err(_) if text.contains(message) && !text.contains("panicked") => Ok(()),
        Err(_) => Err(format!("a build failed without the message `{message}`")),
    }
}

/// That launchers.json, which has the digests of the code in the library, has that of a file.
fn same_code(file: &Path, launchers: &Path, talk: &mut Talk) -> Result<(), String> {
    let (text, outcome) = talk.heard(Command::new("sha256sum").arg(file));
    outcome?;
    let digest = text.split_whitespace().next().filter(|word| word.len() == 64).unwrap_or("no digest");
    let launchers =
        fs::read_to_string(launchers).map_err(|error| format!("{}: {error}", launchers.display()))?;
    if launchers.contains(digest) {
        Ok(())
    } else {
        Err(format!("{} is not code of the library", file.display()))
    }
}

/// The folder that was changed last, of those whose names begin so.
fn newest(folder: &Path, begin: &str) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let entries = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(begin));
    let with_code = entries.map(|entry| entry.path().join("out")).filter(|path| path.is_dir());
    let found = with_code.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    found
        .and_then(|path| Some(path.parent()?.to_owned()))
        .ok_or_else(|| format!("no build of {begin} in {}", folder.display()))
}

/// The library of a variant.
fn library(variant: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(variant).map_err(|error| format!("{}: {error}", variant.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths
        .find(|path| path.extension().is_some_and(|ending| ending == "so"))
        .ok_or("a package has no library".to_owned())
}

/// Changes the text of a file.
fn edit(path: &Path, change: impl FnOnce(&str) -> String) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(told)?;
    fs::write(path, change(&text)).map_err(told)
}

/// A build script whose program is missing ends with what to do, and not with a panic.
fn refuses_a_missing_program(mut command: Command, talk: &mut Talk) -> Result<(), String> {
    command.env("KERNELWRIGHT_PROGRAM", "nowhere/kernelwright");
    refuses(command, "KERNELWRIGHT_PROGRAM, which is `nowhere/kernelwright`", talk)
}
