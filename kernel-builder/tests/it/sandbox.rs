//! A home of its own for every test, and the program in it.
//!
//! Owns: the environment that the program sees, how its end is read. Never: asserts what it says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A temporary folder with a home, a cache and a place for fake programs.
pub(crate) struct Sandbox {
    root: TempDir,
}

/// The beginning of a fake compiler: what it is asked for, in `out`, `dep` and `source`. It preprocesses without a look
/// into the text.
pub(crate) const COMPILER_WORDS: &str = r#"
out= dep= source= last= text=
for word; do
  case "$last" in -o) out=$word ;; -MF) dep=$word ;; -c) source=$word ;; -E) text=$word ;; esac
  last=$word
done
if [ -n "$text" ]; then cat "$text" > "$out"; echo "$out: $text" > "$dep"; exit 0; fi
"#;

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code.
    pub(crate) code: i32,
    /// Data.
    pub(crate) stdout: String,
    /// Talk.
    pub(crate) stderr: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let sandbox = Self { root };
        for folder in ["home", "bin", "work"] {
            std::fs::create_dir(sandbox.root.path().join(folder)).expect("a new folder");
        }
        sandbox.write("home/.gitconfig", "[user]\nname = Test\nemail = test@example.com\n");
        sandbox
    }

    /// The folder that the program is started in.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// A path in the sandbox.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// Writes a file, with the folders above it.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder above")).expect("a new folder");
        std::fs::write(path, text).expect("a new file");
    }

    /// The text of a file.
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Puts a shell script on `PATH`, before everything else.
    pub(crate) fn fake(&self, name: &str, script: &str) {
        self.script(&format!("bin/{name}"), script);
    }

    /// Writes a shell script that can be started.
    pub(crate) fn script(&self, path: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        self.write(path, &format!("#!/bin/sh\n{script}\n"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.path(path), mode).expect("an executable file");
    }

    /// What a Python says of itself that has this release of torch, which lies in `folder` of the sandbox: one line.
    pub(crate) fn python_with_torch(&self, release: &str, folder: &str) -> String {
        let root = self.root.path().display().to_string();
        serde_json::json!({
            "program": format!("{root}/bin/python3"), "version": "3.11.7", "tag": "cp311-x86_64", "headers": "",
            "sites": [root], "torch": release, "torch_dir": format!("{root}/{folder}"), "numpy": true,
            "client": null, "why": "",
        })
        .to_string()
    }

    /// The program with these arguments, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let inherited = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kernelwright"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", format!("{}:{inherited}", self.path("bin").display()))
            .env("HOME", self.path("home"))
            .env("KERNELWRIGHT_CACHE", self.path("cache"))
            .env("KERNELWRIGHT_OFFLINE", "1")
            .env("COLUMNS", "110")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        finish(&mut self.command(arguments))
    }

    /// A project made by the program from a template, in `work/<name>`.
    pub(crate) fn project(&self, name: &str, backends: &str) -> PathBuf {
        self.project_of("rms-norm-strided", name, backends);
        self.work().join(name)
    }

    /// A project of every template for every choice of backends, in `work/<name>`: the names, and the backends as they
    /// were given.
    pub(crate) fn projects_of_every_template(&self) -> Vec<(String, &'static str)> {
        let listed = self.run(&["templates", "--message-format", "json"]).event("result");
        let templates = listed["templates"].as_array().expect("a list");
        assert!(!templates.is_empty());
        let mut made = Vec::new();
        for template in templates {
            let has = template["backends"].as_array().expect("a list");
            let template = template["name"].as_str().expect("a name");
            let offered =
                |backends: &str| backends.split(',').all(|backend| has.iter().any(|known| known == backend));
            for backends in ["cpu", "cuda", "cpu,cuda"].into_iter().filter(|backends| offered(backends)) {
                let name = format!("k-{template}-{}", backends.replace(',', "-"));
                self.project_of(template, &name, backends);
                made.push((name, backends));
            }
        }
        made
    }

    fn project_of(&self, template: &str, name: &str, backends: &str) {
        let full = format!("me/{name}");
        let made = self.run(&["new", &full, "--template", template, "--backends", backends, "--no-git"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
    }
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Ended {
    let output = command.output().expect("the program starts");
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Ended {
    /// Standard output as JSON lines; nothing else may be there.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The one line with this `event`.
    #[track_caller]
    pub(crate) fn event(&self, event: &str) -> Value {
        let found = self.events().into_iter().find(|line| line["event"] == event);
        found.unwrap_or_else(|| panic!("no `{event}` in:\n{}\n{}", self.stdout, self.stderr))
    }

    /// Fails unless the program ended with `code` and said all of `words` on standard error.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in:\n{}", self.stderr);
        }
    }
}

/// Every file below a folder, relative to it, sorted; `.git` left out.
pub(crate) fn tree(folder: &Path) -> Vec<String> {
    let (mut found, mut pending) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(place) = pending.pop() {
        for entry in std::fs::read_dir(&place).expect("a readable folder").flatten() {
            let path = entry.path();
            if path.is_dir() && entry.file_name() != ".git" {
                pending.push(path);
            } else if path.is_file() {
                found.push(path.strip_prefix(folder).expect("below the folder").display().to_string());
            }
        }
    }
    found.sort();
    found
}
