//! The step `translation`: functions of tests/translation, and drawn ones, as code for the processor beside PyTorch.
//!
//! Owns: how many are tried in a run, and which. Never: compares a result; check.py does.

use std::process::Command;

use super::history;
use super::run::Run;
use crate::repo;

/// Functions that are drawn in a run.
const DRAWN: &str = "8";
/// The parts of the functions of the files, of which successive commits take turns.
const PARTS: usize = 6;
/// Seconds after which no further functions begin.
const SECONDS: &str = "70";

/// Builds the translator and lets check.py try it; the number of commits is the seed.
pub(crate) fn run(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.site.ready.torch()?;
    let site = run.site.ready.site("2.11")?;
    let seed = history::commits(&run.site.root)?;
    run.whole(|talk| {
        let mut build = repo::cargo();
        build.args(["build", "--quiet", "--workspace", "--example", "translate"]);
        talk.run(build.current_dir(&run.site.root))?;
        let mut check = Command::new("python3");
        check.args(["tests/translation/check.py", "--drawn", DRAWN, "--seconds", SECONDS]);
        check.arg("--emit").arg(repo::beside_this_one("examples/translate")?);
        check.args(["--seed", &seed.to_string(), "--share", &format!("{}/{PARTS}", seed % PARTS)]);
        check.env("PYTHONPATH", site).env("PYTHONDONTWRITEBYTECODE", "1");
        talk.run(check.current_dir(&run.site.root))
    })
}
