//! `selftest`: what it says where nothing can be judged, and one cheat and one honest kernel for real where a Python with
//! torch is in the cache.

use std::path::PathBuf;

use super::sandbox::{Sandbox, finish};

/// The machine's own cache, where it holds a Python with torch.
fn cache_with_torch() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = of("KERNELWRIGHT_CACHE")
        .or_else(|| of("XDG_CACHE_HOME").map(|folder| folder.join("kernelwright")))
        .or_else(|| of("HOME").map(|home| home.join(".cache/kernelwright")))?;
    let entries = std::fs::read_dir(cache.join("python")).ok()?;
    let with_torch = |path: PathBuf| path.is_dir() && path.display().to_string().contains("-torch2.");
    entries.flatten().any(|entry| with_torch(entry.path())).then_some(cache)
}

#[test]
fn a_cheat_is_caught_and_an_honest_kernel_passes() {
    let Some(cache) = cache_with_torch() else {
        eprintln!(
            "skipped: no Python with torch in the cache; `cargo xtask kernel make examples/rms-norm` fetches one"
        );
        return;
    };
    let sandbox = Sandbox::new();
    let arguments = ["selftest", "returns-nan", "uses-operators", "device-gemm", "--message-format", "json"];
    let run = finish(sandbox.command(&arguments).env("KERNELWRIGHT_CACHE", cache));
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    let result = run.event("result");
    let totals = serde_json::json!({ "cheats": 1, "caught": 1, "honest": 1, "passed": 1, "not_run": 1 });
    assert_eq!(result["totals"], totals, "{result}");
    let caught = result["rows"].as_array().into_iter().flatten().find(|row| row["name"] == "returns-nan");
    assert_eq!(caught.map(|row| row["caught_by"].clone()), Some("verify::numerics".into()), "{result}");
}

#[test]
fn what_cannot_be_judged_here_is_no_success() {
    let sandbox = Sandbox::new();
    sandbox.fake("python3", "exit 1");
    // A kernel of Python alone, and a GPU that nobody asked for.
    let run = sandbox.run(&["selftest", "returns-nan", "device-gemm"]);
    run.refused(15, &["selftest::nothing_run", "none of the 2 kernels was judged"]);
    assert!(run.stdout.contains("not run: 1 (needs --gpu): device-gemm"), "{}", run.stdout);
    assert!(run.stdout.contains("caught: 0 of 0 cheats"), "{}", run.stdout);
}

#[test]
fn the_suite_can_be_listed_and_names_are_looked_up() {
    let sandbox = Sandbox::new();
    let listed = sandbox.run(&["selftest", "--list"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(
        listed.stdout.lines().any(|line| line.starts_with("device-hangs ") && line.ends_with("verify::hang"))
    );
    let device = sandbox.run(&["selftest", "--list", "--through-agent"]);
    let has = |name: &str| device.stdout.lines().any(|line| line.starts_with(&format!("{name} ")));
    assert!(has("device-hangs") && !has("skips-tail") && !has("device-row-norm"), "{}", device.stdout);
    let none = sandbox.run(&["selftest", "--through-agent", "device-hangs"]);
    none.refused(15, &["selftest::nothing_run"]);
    sandbox.run(&["selftest", "no-such-cheat"]).refused(2, &["selftest::unknown_name", "--list"]);
}
