//! Mistakes that newcomers make with every command, and the messages that must be enough to mend them.
//!
//! Owns: the list of mistakes; the messages are snapshots, read by a person. Never: tests what a command does when it is used
//! well.

use super::sandbox::Sandbox;

/// A mistake: what somebody changed before, if anything, and what they typed.
struct Mistake {
    /// A file of the project, a text in it, and the text that stands in its place.
    edit: Option<(&'static str, &'static str, &'static str)>,
    /// The words behind `kernelwright`.
    typed: &'static str,
}

const fn typed(typed: &'static str) -> Mistake {
    Mistake { edit: None, typed }
}

const fn edited(file: &'static str, from: &'static str, to: &'static str, typed: &'static str) -> Mistake {
    Mistake { edit: Some((file, from, to)), typed }
}

/// Names and folders that do not exist, and commands for another place.
const STARTING: &[Mistake] = &[
    typed("mkae norm"),
    typed("make norm --fsat"),
    typed("build norms"),
    typed("build"),
    typed("generate notes.txt"),
    typed("make --from gone.py:layer_scale"),
    typed("new fast-norm --template rms-norm"),
    typed("new me/Fast_Norm --template rms-norm"),
    typed("new me/fast-norm --template rmsnorm"),
    typed("new me/norm --template rms-norm"),
    typed("new me/fast-norm --template rms-norm --set bytes=7"),
    typed("new me/fast-norm --template rms-norm --set byte=16"),
    typed("new me/fast-norm --template rms-norm --backends cuda,cpuu"),
    typed("new me/fast-norm"),
    typed("templates rmsnorm"),
    typed("explain verify::num"),
    typed("man mkae"),
    typed("completions tcsh"),
    typed("completions"),
    typed("serve"),
];

/// Files with mistakes in them.
const SPECIFICATIONS: &[Mistake] = &[
    edited("build.toml", "backends", "backendz", "check norm"),
    edited("build.toml", "name = \"norm\"", "name = \"norm", "check norm"),
    edited("build.toml", "\"cuda\"", "\"cdua\"", "check norm"),
    edited("build.toml", "edition = 5", "edition = 6", "build norm"),
    edited("op.toml", "[axes]", "[axis]", "check norm"),
    edited("op.toml", "format = 1", "format = 2", "verify norm"),
    edited("op.toml", "reference.py", "refrence.py", "lint norm"),
    typed("check norm --tag 1"),
    typed("lint norm/tests"),
    typed("lock norm --check"),
    typed("import notes.txt"),
    typed("export norm --to"),
    typed("schema opp"),
    typed("update norm/build.tml"),
];

/// Variants, builds and libraries.
const BUILDING: &[Mistake] = &[
    typed("build norm --variant torch29-cpu"),
    typed("build norm --backend gpu"),
    typed("build norm --selector cuda>13"),
    typed("build norm --jobs 0"),
    typed("variants norm --selector torch=2.11"),
    typed("verify norm --prebuilt"),
    typed("package norm --prebuilt"),
    typed("check-abi norm"),
    typed("verify-build norm"),
    typed("embed norm"),
    typed("layout norm"),
    typed("toolchain fetch --torch 2.9"),
    typed("toolchain gc --older-than soon"),
    typed("selftest nope"),
];

/// Measurements, agents and hubs.
const MEASURING: &[Mistake] = &[
    typed("bench norm --workload nope"),
    typed("bench norm --regime colder"),
    typed("report gone.jsonl --output page.html"),
    typed("report gone.jsonl"),
    typed("reproduce gone.jsonl norm"),
    typed("profile nomodel"),
    typed("inject model.py norm"),
    typed("fill norm"),
    typed("mcp norms"),
    typed("explain agents"),
    typed("publish norm --to hf"),
    typed("publish norm"),
    typed("sign norm --key signing-key"),
    typed("load norm"),
    typed("hub show norm"),
    typed("hub search norm"),
];

/// Makes each mistake in a project of its own, and puts the messages below the commands.
#[track_caller]
fn messages(mistakes: &[Mistake]) -> String {
    let mut text = String::new();
    for Mistake { edit, typed } in mistakes {
        let sandbox = Sandbox::new();
        let made = sandbox.run(&["new", "me/norm", "--template", "rms-norm-strided", "--no-git"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        sandbox.write("work/notes.txt", "what I tried\n");
        if let Some((file, from, to)) = edit {
            let path = format!("work/norm/{file}");
            let before = sandbox.read(&path);
            assert!(before.contains(from), "{path} has no {from}");
            sandbox.write(&path, &before.replacen(from, to, 1));
            text.push_str(&format!("# {file}: {to}\n"));
        }
        let words: Vec<&str> = typed.split(' ').collect();
        let ended = sandbox.run(&words);
        assert!(
            !matches!(ended.code, 0 | 101),
            "{typed}: {}\n{}\n{}",
            ended.code,
            ended.stdout,
            ended.stderr
        );
        // The problems of a specification are data, all else is talk.
        let message = format!("{}{}", ended.stdout, ended.stderr);
        assert!(
            [
                "help:",
                "tip:",
                "possible values",
                "Usage:",
                "is required for",
                "is not in",
                "write it as",
                "write a number"
            ]
            .iter()
            .any(|way| message.contains(way)),
            "{typed}: nothing says what to do:\n{message}"
        );
        // Paths begin where the command was typed.
        let here = sandbox.work().display().to_string();
        let message = message.replace(&format!("{here}/"), "").replace(&here, "[HERE]");
        text.push_str(&format!("$ kernelwright {typed}\n"));
        for line in message.lines().filter(|line| !line.trim().is_empty()) {
            // How to get the help is the same everywhere.
            if !line.starts_with("For more information") {
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        text.push_str(&format!("exit code {}\n\n", ended.code));
    }
    text
}

#[test]
fn mistakes_at_the_start_are_answered() {
    insta::assert_snapshot!(messages(STARTING));
}

#[test]
fn mistakes_in_files_are_answered() {
    insta::assert_snapshot!(messages(SPECIFICATIONS));
}

#[test]
fn mistakes_in_building_are_answered() {
    insta::assert_snapshot!(messages(BUILDING));
}

#[test]
fn mistakes_in_measuring_are_answered() {
    insta::assert_snapshot!(messages(MEASURING));
}
