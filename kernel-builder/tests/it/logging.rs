//! The log: what is in it, where it goes, and what must not be in it.

use std::process::Command;

use super::fake_hub::{FakeHub, Fault, TOKEN};
use super::publishing_hub::{online, packaged};
use super::sandbox::{Ended, Sandbox, finish};

/// A line of the log begins with the time.
fn logged(text: &str) -> Vec<&str> {
    let is_line = |line: &&str| line.starts_with("20") && line.get(10..11) == Some("T");
    text.lines().filter(is_line).collect()
}

fn with(command: &mut Command, variables: &[(&str, &str)]) -> Ended {
    finish(command.envs(variables.iter().copied()))
}

#[test]
fn nothing_is_logged_unless_somebody_asks_and_data_stays_as_it_is() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let plain = sandbox.run(&["check", "fast-norm"]);
    assert_eq!(logged(&plain.stderr), [""; 0]);
    for words in [["check", "fast-norm", "-v"], ["-vv", "check", "fast-norm"]] {
        let told = sandbox.run(&words);
        assert_eq!((told.code, &told.stdout), (0, &plain.stdout), "{}", told.stderr);
        let first = logged(&told.stderr)[0].to_owned();
        assert!(
            first.contains("INFO") && first.contains("INFO kernelwright: kernelwright 0.1.0 in "),
            "{first}"
        );
        assert!(first.ends_with(&words.join(" ")), "{first}");
    }
    let json = sandbox.run(&["check", "fast-norm", "-vv", "--message-format", "json"]);
    assert!(!logged(&json.stderr).is_empty());
    for line in json.stdout.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("data alone");
    }
    let by_variable = with(&mut sandbox.command(&["check", "fast-norm"]), &[("KERNELWRIGHT_LOG", "warn")]);
    assert_eq!(logged(&by_variable.stderr), [""; 0], "nothing was worth a warning");
}

#[test]
fn a_filter_that_is_none_is_a_usage_error() {
    let sandbox = Sandbox::new();
    let ended = with(&mut sandbox.command(&["templates"]), &[("KERNELWRIGHT_LOG", "http=loud")]);
    ended.refused(2, &["base::log", "KERNELWRIGHT_LOG is not a valid log filter: `http=loud`", "http=debug"]);
    let ended = sandbox.run(&["templates", "--log-file", "/proc/nothing/log"]);
    ended.refused(1, &["base::file", "/proc/nothing"]);
}

#[test]
fn a_file_gets_all_of_it_and_standard_error_none() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let plain = sandbox.run(&["check", "fast-norm"]);
    let ended = sandbox.run(&["check", "fast-norm", "--log-file", "logs/a.log"]);
    assert_eq!((ended.code, &ended.stderr), (0, &plain.stderr));
    let first = sandbox.read("work/logs/a.log");
    assert!(!logged(&first).is_empty(), "{first}");
    // It is appended to.
    with(&mut sandbox.command(&["check", "fast-norm"]), &[("KERNELWRIGHT_LOG_FILE", "logs/a.log")]);
    let both = sandbox.read("work/logs/a.log");
    assert!(both.starts_with(&first) && both.len() > first.len());
}

#[test]
fn commands_are_logged_with_folder_time_and_ending() {
    let sandbox = Sandbox::new();
    sandbox.fake("git", "echo git version 2.0");
    let ended = sandbox.run(&["doctor", "-v"]);
    let lines = logged(&ended.stderr);
    let git = lines.iter().find(|line| line.contains("git --version")).expect("it was asked");
    assert!(git.contains(" INFO process: returned 0 after ") && git.contains("(in "), "{git}");
    assert!(!ended.stderr.contains("DEBUG"), "{}", ended.stderr);
    // A filter by target leaves the rest out.
    let some = with(&mut sandbox.command(&["doctor"]), &[("KERNELWRIGHT_LOG", "process=debug")]);
    let lines = logged(&some.stderr);
    assert!(
        lines.iter().any(|line| line.contains("DEBUG process: starting git --version")),
        "{}",
        some.stderr
    );
    assert!(lines.iter().all(|line| line.contains(" process: ")), "{}", some.stderr);
}

#[test]
fn requests_are_logged_with_status_bytes_time_and_tries() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.fail("GET /api/kernels", &[Fault::Answer(503, "Retry-After: 0", "busy")]);
    let ended = finish(&mut online(&sandbox, &hub, &["hub", "search", "norm", "-v"]));
    let lines = logged(&ended.stderr);
    let has = |words: &[&str]| lines.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(
        has(&["INFO http: GET http://127.0.0.1:", "/api/kernels", " 503, 4 B received, 0 B sent, "]),
        "{}",
        ended.stderr
    );
    assert!(
        has(&["WARN http: http://127.0.0.1:", " again in ", ", try 2: the server answered 503"]),
        "{}",
        ended.stderr
    );
    assert!(has(&["INFO http: GET ", " 200, "]), "{}", ended.stderr);
}

#[test]
fn no_secret_is_in_the_fullest_log() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.state().keyed = true;
    let index = "https://someone:indexpassword@packages.example/simple?key=querysecret";
    let proxy_free = [
        ("PIP_INDEX_URL", index),
        ("SOME_API_KEY", "anothersecretvalue"),
        ("HUGGING_FACE_HUB_TOKEN", "hf_asecondtoken"),
    ];
    // By the environment.
    let words = ["publish", "fast-norm", "--to", "hf:me/fast-norm", "-vv"];
    let published = with(&mut online(&sandbox, &hub, &words), &proxy_free);
    assert_eq!(published.code, 0, "{}", published.stderr);
    assert!(logged(&published.stderr).len() > 5, "{}", published.stderr);
    // By a file, and in an address on the command line.
    sandbox.write("work/token", &format!("{TOKEN}\n"));
    let address = "http://someone:flagpassword@127.0.0.1:1/x?token=flagquery";
    let mut by_file = online(&sandbox, &hub, &["hub", "search", address, "-vv"]);
    by_file.env_remove("HF_TOKEN").env("HF_TOKEN_PATH", sandbox.work().join("token"));
    let searched = finish(&mut by_file);
    // In the address of the hub, which is refused.
    let endpoint = "http://someone:endpointpassword@127.0.0.1:1";
    let refused =
        with(&mut online(&sandbox, &hub, &["hub", "search", "x", "-vv"]), &[("HF_ENDPOINT", endpoint)]);
    assert_eq!(refused.code, 22, "{}", refused.stderr);
    let secrets = [
        TOKEN,
        "hf_asecondtoken",
        "indexpassword",
        "querysecret",
        "anothersecretvalue",
        "flagpassword",
        "flagquery",
        "endpointpassword",
    ];
    for ended in [&published, &searched, &refused] {
        let log = logged(&ended.stderr).join("\n");
        assert!(log.contains("kernelwright 0.1.0"), "{}", ended.stderr);
        for secret in secrets {
            assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
        }
    }
    let log = logged(&searched.stderr).join("\n");
    assert!(log.contains("http://***@127.0.0.1:1/x?token=***"), "{log}");
}
