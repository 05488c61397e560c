//! The step `pages`: the HTML pages of `kernelwright report`, and the documentation as a site, in a real browser.
//!
//! Owns: where the browser comes from. Never: knows what a good page is; tests/pages/ does.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use super::checks;
use super::run::Run;

/// The file that `.ci/run` locks while apt installs Chromium, beside the other steps.
const INSTALLING: &str = "target/ci/chromium.lock";
/// Checks the pages of `report`.
const REPORT: &str = "tests/pages/check.py";
/// Checks the site, which MkDocs writes to this folder.
const SITE: &str = "tests/pages/site.py";
const SITE_FOLDER: &str = "target/site";
/// Names of browsers that can run without a window, as in tests/pages/check.py.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// The pages of committed records, the broken pages that the check must refuse, the pictures of pages, and the site.
pub(crate) fn run(run: &Run<'_>) -> Result<Vec<String>, String> {
    if let Ok(file) = File::open(run.site.root.join(INSTALLING)) {
        file.lock_shared().map_err(|error| format!("failed to wait for {INSTALLING}: {error}"))?;
    }
    let Some(browser) = browser() else {
        println!("skipped: no browser found on PATH ({})", BROWSERS.join(", "));
        return Ok(Vec::new());
    };
    let tools = run.site.ready.page_tools()?;
    let program = run.site.ready.kernelwright(&[])?.get_program().to_owned();
    let mut site = checks::mkdocs(run)?;
    run.whole(|talk| {
        let check = |script: &str| {
            let mut command = Command::new("python3");
            command.arg(script).arg("--browser").arg(&browser);
            command.env("PYTHONPATH", &tools).env("PYTHONDONTWRITEBYTECODE", "1");
            command.current_dir(&run.site.root);
            command
        };
        talk.run(check(REPORT).arg("--self-test"))?;
        talk.run(check(REPORT).arg("--program").arg(&program))?;
        talk.run(&mut site)?;
        talk.run(check(SITE).arg(SITE_FOLDER))?;
        let mut picture = Command::new("python3");
        picture.args(["bench/page_picture.py", "--check", "--program"]).arg(&program);
        talk.run(picture.current_dir(&run.site.root))
    })
}

/// The first browser on PATH.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places = BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}
