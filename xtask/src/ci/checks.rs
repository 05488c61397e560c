//! The steps `test`, `fuzz`, `with-torch`, `harness`, `site`, `agents` and `tracing`: the repository's own tests.
//!
//! Owns: what they run with. Never: repeats the list of `cargo xtask test`; that is in test.rs.

use std::process::Command;

use super::run::Run;
use crate::{repo, test};

/// The parts of names of the tests that need a torch, wheels of CUDA, or a torch and the stock client.
const WITH_TORCH: &[&str] = &[
    "lint::",
    "device_code::",
    "oracle::",
    "kept::",
    "a_reference_chooses",
    "device_reads::",
    "clients::get_kernel",
    "its_device_code_compiles",
    "one_compiler_takes_text_after_text",
];

/// The part of the names of the tests that trace functions with torch.
const TRACING: &str = "tracing_tests::";

/// The tests, with the official packages. This program runs itself, so that its output can be read.
pub(crate) fn test(run: &Run<'_>) -> Result<Vec<String>, String> {
    let official = run.site.ready.official()?;
    let this = std::env::current_exe().map_err(|error| format!("failed to find this program: {error}"))?;
    run.whole(|talk| {
        let mut command = Command::new(this);
        command.arg("test").env("PYTHONPATH", official).env("KERNELWRIGHT_REQUIRE_OFFICIAL", "1");
        let (text, outcome) = talk.heard(&mut command);
        run.remember(&text);
        outcome
    })
}

/// The fuzz targets compile.
pub(crate) fn fuzz(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.whole(|talk| {
        let mut check = repo::cargo();
        check.args(["check", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target", "--quiet"]);
        talk.run(check.current_dir(&run.site.root))
    })
}

/// The tests that the step `test` skips without a filled cache.
pub(crate) fn with_torch(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.site.ready.client()?;
    run.site.ready.torch()?;
    run.whole(|talk| {
        let mut command = repo::cargo();
        if test::has_nextest() {
            // The same packages and targets as in the step `test`, so that nothing is compiled differently.
            let names: Vec<String> = WITH_TORCH.iter().map(|part| format!("test(~{part})")).collect();
            let filter = format!("binary(=it) & ({})", names.join(" | "));
            command.args(["nextest", "run", "--workspace", "--no-fail-fast", "--profile", test::profile()]);
            command.args(["--filterset", &filter]);
        } else {
            command.args(["test", "--quiet", "--workspace", "--test", "it", "--"]).args(WITH_TORCH);
        }
        command.env("KERNELWRIGHT_TORCH_CACHE", repo::cache()).current_dir(&run.site.root);
        let (text, outcome) = talk.heard(&mut command);
        run.remember(&text);
        outcome
    })
}

/// A real coding agent with a scripted model; successive commits take turns.
pub(crate) fn agents(run: &Run<'_>) -> Result<Vec<String>, String> {
    let this = std::env::current_exe().map_err(|error| format!("failed to find this program: {error}"))?;
    run.whole(|talk| talk.run(Command::new(this).args(["test", "agents"]).current_dir(&run.site.root)))
}

/// The folder of the Python that judges, with the settings of these tools.
const HARNESS: &str = "kernel-builder/harness";
/// The folder of the Python that measures models, which has no tests of its own.
const MODELS: &str = "kernel-builder/e2e";

/// The tools for Python, each with torch where it can be imported.
const HARNESS_CHECKS: &[&[&str]] = &[
    &["ruff", "format", "--check", "."],
    &["ruff", "check", "."],
    &["basedpyright"],
    &["pytest", "--quiet"],
];

/// The Python of the harness: its layout, its types, its own tests.
pub(crate) fn harness(run: &Run<'_>) -> Result<Vec<String>, String> {
    let tools = run.site.ready.python_tools()?;
    run.site.ready.torch()?;
    let site = run.site.ready.site("2.11")?;
    let path = std::env::join_paths([&tools, &site]).map_err(|error| error.to_string())?;
    run.whole(|talk| {
        let of_models =
            HARNESS_CHECKS.iter().filter(|check| check[0] != "pytest").map(|check| (MODELS, check));
        let outcomes =
            HARNESS_CHECKS.iter().map(|check| (HARNESS, check)).chain(of_models).map(|(folder, check)| {
                let mut command = Command::new("python3");
                command.arg("-m").args(*check).env("PYTHONPATH", &path).env("PYTHONDONTWRITEBYTECODE", "1");
                talk.run(command.current_dir(run.site.root.join(folder)))
            });
        // Each of them runs, whatever the others say.
        outcomes.collect::<Vec<_>>().into_iter().collect()
    })
}

/// The documentation as a site, by MkDocs.
pub(crate) fn site(run: &Run<'_>) -> Result<Vec<String>, String> {
    let mut build = mkdocs(run)?;
    run.whole(|talk| talk.run(&mut build))
}

/// The command that writes the site to target/site.
///
/// # Errors
/// MkDocs cannot be installed.
pub(super) fn mkdocs(run: &Run<'_>) -> Result<Command, String> {
    let mut command = Command::new("python3");
    command
        .args(["-m", "mkdocs", "build", "--strict", "--clean"])
        .env("PYTHONPATH", run.site.ready.site_tools()?);
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(&run.site.root);
    Ok(command)
}

/// The tests that trace functions; without `KERNELWRIGHT_SITE`, as in the step `test`, they skip.
pub(crate) fn tracing(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.site.ready.torch()?;
    let site = run.site.ready.site("2.11")?;
    run.whole(|talk| {
        let mut command = repo::cargo();
        if test::has_nextest() {
            command.args(["nextest", "run", "--workspace", "--no-fail-fast", "--profile", test::profile()]);
            command.args(["--filterset", &format!("test(~{TRACING})")]);
        } else {
            command.args(["test", "--quiet", "--workspace", "--lib", "--", TRACING]);
        }
        command.env("KERNELWRIGHT_SITE", site).current_dir(&run.site.root);
        let (text, outcome) = talk.heard(&mut command);
        run.remember(&text);
        outcome
    })
}
