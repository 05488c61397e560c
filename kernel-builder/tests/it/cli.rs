//! The command line itself: help, usage errors, what is generated from it.

use super::sandbox::{Sandbox, finish, tree};

/// In the order of the help.
const VERBS: &[&str] = &[
    "new",
    "templates",
    "generate",
    "check",
    "lint",
    "update",
    "import",
    "export",
    "variants",
    "lock",
    "build",
    "verify",
    "screen",
    "fill",
    "mcp",
    "candidates",
    "submit",
    "skill",
    "bench",
    "reproduce",
    "report",
    "selftest",
    "package",
    "pin",
    "layout",
    "check-abi",
    "verify-build",
    "sign",
    "profile",
    "inject",
    "publish",
    "hub",
    "load",
    "serve",
    "make",
    "toolchain",
    "doctor",
    "gpu",
    "embed",
    "explain",
    "schema",
    "completions",
    "man",
];

#[test]
fn help_is_data_and_fits_its_width() {
    // What it says word for word is docs/reference/cli.md, which `cargo xtask test` compares.
    let sandbox = Sandbox::new();
    for verb in VERBS {
        let help = sandbox.run(&[verb, "--help"]);
        assert_eq!((help.code, help.stderr.as_str()), (0, ""), "{verb}");
        assert!(help.stdout.contains(&format!("Usage: kernelwright {verb}")), "{}", help.stdout);
        let widest = help.stdout.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|width| width <= 110), "{verb}: {widest:?}");
    }
}

#[test]
fn the_help_lists_every_verb_once_in_groups() {
    let help = Sandbox::new().run(&["--help"]).stdout;
    let groups =
        help.split("<COMMAND>\n\n").nth(1).and_then(|rest| rest.split("Options:").next()).expect("groups");
    let mut listed: Vec<&str> = groups
        .lines()
        .filter_map(|line| line.strip_prefix("  ").and_then(|line| line.split_whitespace().next()))
        .collect();
    listed.sort_unstable();
    let mut verbs = VERBS.to_vec();
    verbs.sort_unstable();
    assert_eq!(listed, verbs);
    let headings = groups.lines().filter(|line| line.ends_with(':')).count();
    assert!((6..=10).contains(&headings), "{groups}");
}

#[test]
fn a_code_is_explained_and_a_slip_is_answered() {
    let sandbox = Sandbox::new();
    let help = sandbox.run(&["explain", "verify::guard"]);
    assert_eq!((help.code, help.stderr.as_str()), (0, ""));
    assert!(help.stdout.starts_with("verify::guard\n") && help.stdout.contains("\nFix. "), "{}", help.stdout);
    let json = sandbox.run(&["explain", "guard", "--message-format", "json"]);
    assert!(json.stdout.contains("\"code\":\"verify::guard\""), "{}", json.stdout);
    let slip = sandbox.run(&["explain", "verify::guards"]);
    assert_eq!((slip.code, slip.stdout.as_str()), (2, ""));
    assert!(slip.stderr.contains("similar: verify::guard"), "{}", slip.stderr);
}

#[test]
fn alone_it_shows_roads_and_no_data() {
    let sandbox = Sandbox::new();
    for arguments in [&[][..], &["--quiet"]] {
        let alone = sandbox.run(arguments);
        assert_eq!((alone.code, alone.stdout.as_str()), (2, ""));
        assert!(alone.stderr.contains("kernelwright new me/my-norm --from mine.py:norm"), "{}", alone.stderr);
        assert!(alone.stderr.contains("kernelwright --help"), "{}", alone.stderr);
    }
}

#[test]
fn what_is_typed_wrong_is_a_usage_error() {
    let sandbox = Sandbox::new();
    sandbox.run(&["make", "--fsat"]).refused(2, &["unexpected argument '--fsat'", "--help"]);
    sandbox.run(&["mkae"]).refused(2, &["unrecognized subcommand 'mkae'", "make"]);
    sandbox.run(&["publish"]).refused(2, &["--to <DIR|hf[:OWNER/NAME]>"]);
    sandbox.run(&["build", "--jobs", "0"]).refused(2, &["--jobs"]);
    sandbox.run(&["man", "mkae"]).refused(2, &["`mkae` is not a command"]);
}

#[test]
fn version_is_the_crates() {
    let version = Sandbox::new().run(&["--version"]);
    assert_eq!(version.stdout, format!("kernelwright {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_and_pages_know_every_verb() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.run(&["completions", shell]);
        assert_eq!((script.code, script.stderr.as_str()), (0, ""));
        assert!(VERBS.iter().all(|verb| script.stdout.contains(verb)), "{shell}");
    }
    let page = sandbox.run(&["man"]);
    assert!(page.stdout.contains(".TH kernelwright"), "{}", page.stdout);
    let page = sandbox.run(&["man", "make"]);
    assert!(
        page.stdout.contains("get_local_kernel") || page.stdout.contains("every stage"),
        "{}",
        page.stdout
    );
}

#[test]
fn scripts_and_pages_are_installed_where_shells_and_man_look() {
    let sandbox = Sandbox::new();
    let done = sandbox.run(&["completions", "--install"]);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    assert!(done.stdout.contains("fpath=(") && done.stdout.contains("MANPATH="), "{}", done.stdout);
    let share = "home/.local/share";
    for (file, word) in [
        ("bash-completion/completions/kernelwright", "complete -F"),
        ("fish/vendor_completions.d/kernelwright.fish", "complete -c kernelwright"),
        ("zsh/site-functions/_kernelwright", "#compdef kernelwright"),
        ("man/man1/kernelwright.1", ".TH kernelwright"),
        ("man/man1/kernelwright-hub-search.1", "Find kernels"),
    ] {
        assert!(sandbox.read(&format!("{share}/{file}")).contains(word), "{file}");
    }
    let pages = tree(&sandbox.path(&format!("{share}/man/man1")));
    assert!(VERBS.iter().all(|verb| pages.contains(&format!("kernelwright-{verb}.1"))), "{pages:?}");
    // A folder of its own, which may also be the only one that is known.
    let mut elsewhere = sandbox.command(&["completions", "--install", "--message-format", "json"]);
    let done = finish(elsewhere.env_remove("HOME").env("XDG_DATA_HOME", sandbox.path("data")));
    let files = done.event("result")["files"].as_array().map(Vec::len);
    assert_eq!(files, Some(pages.len() + 3));
    let nowhere = finish(sandbox.command(&["completions", "--install"]).env_remove("HOME"));
    nowhere.refused(2, &["set HOME or XDG_DATA_HOME"]);
}

#[test]
fn a_closed_pipe_is_the_readers_wish() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["completions", "bash"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("the program starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn doctor_looks_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let examined = sandbox.run(&["doctor", "--message-format", "json"]);
    assert_eq!(examined.code, 0, "{}", examined.stderr);
    assert!(examined.event("result")["findings"].is_array());
    // What was found may be remembered; fetched is nothing.
    assert!(!sandbox.path("cache/wheels").exists() && tree(&sandbox.work()).is_empty());
}

#[test]
fn a_machine_that_shows_no_gpu_says_why() {
    let sandbox = Sandbox::new();
    let ask = |format: &str| {
        let mut line = sandbox.command(&["gpu", "--message-format", format]);
        finish(line.env("CUDA_VISIBLE_DEVICES", "-1"))
    };
    let human = ask("human");
    assert_eq!((human.code, human.stderr.as_str()), (0, ""));
    assert!(human.stdout.starts_with("no NVIDIA GPU: "), "{}", human.stdout);
    let result = ask("json").event("result");
    assert_eq!((&result["command"], &result["gpus"]), (&"gpu".into(), &serde_json::json!([])));
    assert!(result["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{result}");
}

#[test]
fn serve_becomes_the_hub_beside_it_and_names_the_way_to_get_one() {
    let sandbox = Sandbox::new();
    // A copy, so that no hub of this build lies beside it.
    std::fs::create_dir_all(sandbox.path("bin")).expect("a folder");
    let program = sandbox.path("bin/kernelwright");
    std::fs::copy(sandbox.command(&[]).get_program(), &program).expect("a copy");
    let serve = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command
            .env_clear()
            .env("PATH", "/nowhere")
            .env("HOME", sandbox.path("home"))
            .arg("serve")
            .args(arguments);
        finish(&mut command)
    };
    serve(&["kernels", "--bind", "127.0.0.1:0"])
        .refused(1, &["serve::absent", "cargo install --path kernel-hub"]);
    sandbox.script("bin/kernelwright-hub", "#!/bin/sh\necho \"$@\"\nexit 7\n");
    let served = serve(&["kernels", "--log", "none", "--quiet"]);
    assert_eq!((served.code, served.stdout.as_str()), (7, "kernels --log none --quiet\n"));
}
