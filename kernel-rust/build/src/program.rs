//! The program `kernelwright`.
//!
//! Owns: where it is looked for, its command line, the lines that it prints. Never: knows Cargo.toml.

#![expect(
    clippy::disallowed_methods,
    reason = "this crate is not part of the program and does not use its base"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::Error;
use crate::location;
use crate::manifest::Settings;
use crate::outside::Environment;

/// Names the program.
pub(crate) const VARIABLE: &str = "KERNELWRIGHT_PROGRAM";
const NAME: &str = if cfg!(windows) { "kernelwright.exe" } else { "kernelwright" };

/// The answer of a run.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) ops: Vec<String>,
    pub(crate) reads: Vec<PathBuf>,
    pub(crate) bytes: u64,
    pub(crate) warnings: Vec<String>,
}

/// Finds the program: the variable, the search path, cargo's folder of programs.
///
/// # Errors
/// It is in none of them.
pub(crate) fn find(environment: &Environment) -> Result<PathBuf, Error> {
    if let Some(named) = environment.value(VARIABLE) {
        let program = PathBuf::from(named);
        return if program.is_file() {
            Ok(program)
        } else {
            Err(Error::NoProgram { looked: format!("{VARIABLE}, which is `{}`", program.display()) })
        };
    }
    let path = environment.value("PATH").cloned().unwrap_or_default();
    let home = environment.value("HOME").map(|home| Path::new(home).join(".cargo"));
    let cargo = environment.value("CARGO_HOME").map(PathBuf::from).or(home);
    let folders = std::env::split_paths(&path).chain(cargo.map(|cargo| cargo.join("bin")));
    let program = folders.map(|folder| folder.join(NAME)).find(|program| program.is_file());
    program.ok_or_else(|| Error::NoProgram { looked: "PATH and the bin folder of cargo".to_owned() })
}

/// Which code is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Machine code and PTX.
    Compiled,
    /// None.
    Stubs,
}

/// The arguments of a run.
fn arguments(
    settings: &Settings,
    (out, lock): (&Path, &Path),
    code: Code,
    environment: &Environment,
) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["--message-format".into(), "json".into()];
    // Cargo says how many processes it leaves to a build script.
    if let Some(jobs) = environment.value("NUM_JOBS") {
        all.extend(["--jobs".into(), jobs.clone()]);
    }
    if environment.value("CARGO_NET_OFFLINE").is_some_and(|value| value == "true") {
        all.push("--offline".into());
    }
    all.push("embed".into());
    all.extend(settings.kernels.iter().map(|kernel| kernel.clone().into_os_string()));
    for dependency in &settings.dependencies {
        all.extend(["--dependency".into(), dependency.into()]);
    }
    if !settings.dependencies.is_empty() {
        all.extend(["--lock".into(), lock.as_os_str().to_owned()]);
    }
    all.extend(["--out-dir".into(), out.as_os_str().to_owned()]);
    if code == Code::Stubs {
        all.push("--stubs".into());
        return all;
    }
    for arch in &settings.archs {
        all.extend(["--arch".into(), arch.into()]);
    }
    if let Some(compiler) = &settings.compiler {
        all.extend(["--compiler".into(), compiler.into()]);
    }
    all
}

/// Runs the program, with the folder for its results and the lock file of published kernels.
///
/// # Errors
/// It cannot be started, does not know the command, or finds something wrong.
pub(crate) fn run(
    program: &Path,
    settings: &Settings,
    (out, lock): (&Path, &Path),
    code: Code,
    environment: &Environment,
) -> Result<Answer, Error> {
    let done = Command::new(program)
        .args(arguments(settings, (out, lock), code, environment))
        .envs(&environment.variables)
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| Error::Start { program: program.to_owned(), cause })?;
    let answer = String::from_utf8_lossy(&done.stdout);
    let lines: Vec<Value> = answer.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let printed = || String::from_utf8_lossy(&done.stderr).into_owned();
    understood(&lines, done.status.success(), settings, || Error::OtherProgram {
        program: program.to_owned(),
        output: printed()
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("it printed nothing")
            .to_owned(),
    })
}

/// The answer in the lines of a run.
fn understood(
    lines: &[Value],
    succeeded: bool,
    settings: &Settings,
    other: impl FnOnce() -> Error,
) -> Result<Answer, Error> {
    let is = |line: &&Value, event: &str| line["event"] == event;
    let problems: Vec<String> =
        lines.iter().filter(|line| is(line, "error")).map(|line| problem(line, settings)).collect();
    if !problems.is_empty() {
        return Err(Error::Kernels { problems });
    }
    let result = lines.iter().find(|line| is(line, "result") && line["command"] == "embed");
    let Some(result) = result.filter(|_| succeeded) else { return Err(other()) };
    let texts = |key: &str| {
        let list = result[key].as_array().into_iter().flatten();
        list.filter_map(|value| value.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let warnings = lines.iter().filter(|line| is(line, "warning"));
    Ok(Answer {
        ops: texts("ops"),
        reads: texts("reads").into_iter().map(PathBuf::from).collect(),
        bytes: result["bytes"].as_u64().unwrap_or_default(),
        warnings: warnings.filter_map(|line| line["text"].as_str().map(str::to_owned)).collect(),
    })
}

/// A problem for people: with the source where the program shows it, else the message and what to do.
fn problem(line: &Value, settings: &Settings) -> String {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let rendered = text("rendered");
    // A frame round lines of the file, with its name and the place.
    if rendered.contains("\u{256d}\u{2500}[") {
        return rendered.trim().to_owned();
    }
    let find = |name: &str| {
        let folders = settings
            .kernels
            .iter()
            .map(|kernel| if kernel.is_file() { kernel.parent() } else { Some(kernel.as_path()) });
        folders.flatten().map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    let help = text("help").lines().map(|line| location::with_path(line, find));
    std::iter::once(text("message").to_owned()).chain(help).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            kernels: vec!["/k/norm".into()],
            archs: vec!["9.0a".to_owned(), "12.0+PTX".to_owned()],
            compiler: Some("nvcc".to_owned()),
            stubs: None,
            dependencies: vec!["gate@1=hf:me/gate".to_owned()],
        }
    }

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment {
            variables: variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect(),
        }
    }

    #[track_caller]
    fn check(code: Code, variables: &[(&str, &str)], expected: &str) {
        let line =
            arguments(&settings(), (Path::new("/out"), Path::new("/k.lock")), code, &environment(variables));
        let line: Vec<String> = line.into_iter().map(|word| word.into_string().unwrap()).collect();
        assert_eq!(line.join(" "), expected);
    }

    #[test]
    fn the_command_line_follows_from_settings_and_cargo() {
        check(
            Code::Compiled,
            &[("NUM_JOBS", "2")],
            "--message-format json --jobs 2 embed /k/norm --dependency gate@1=hf:me/gate --lock /k.lock --out-dir /out --arch 9.0a --arch 12.0+PTX --compiler nvcc",
        );
        check(
            Code::Stubs,
            &[("CARGO_NET_OFFLINE", "true")],
            "--message-format json --offline embed /k/norm --dependency gate@1=hf:me/gate --lock /k.lock --out-dir /out --stubs",
        );
    }

    fn answer(lines: &str, succeeded: bool) -> Result<Answer, String> {
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let other = || Error::OtherProgram { program: "kw".into(), output: "unknown".to_owned() };
        understood(&lines, succeeded, &settings(), other).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_is_a_result_or_the_problems() {
        let result =
            r#"{"event":"result","command":"embed","ops":["norm"],"reads":["/k/norm/op.toml"],"bytes":7}"#;
        let warning = r#"{"event":"warning","text":"tuned/x.toml is ignored"}"#;
        let found = answer(&format!("{warning}\n{result}"), true).unwrap();
        assert_eq!((found.ops, found.bytes), (vec!["norm".to_owned()], 7));
        assert_eq!((found.reads, found.warnings.len()), (vec![PathBuf::from("/k/norm/op.toml")], 1));
        let error = r#"{"event":"error","message":"does not compile","help":"a.cu(3): error: x\n1 error","rendered":"plain"}"#;
        assert_eq!(answer(error, false).unwrap_err(), "does not compile\na.cu(3): error: x\n1 error");
        let framed =
            "{\"event\":\"error\",\"message\":\"m\",\"rendered\":\"m\\n \u{256d}\u{2500}[op.toml:3:1]\"}";
        assert!(answer(framed, false).unwrap_err().contains("op.toml:3:1"));
        assert!(answer("", false).unwrap_err().contains("cannot build kernels for Rust (unknown)"));
        // A result of a program that then failed is none.
        assert!(answer(result, false).is_err());
    }

    #[test]
    fn a_program_that_is_named_must_be_there() {
        let error = find(&environment(&[(VARIABLE, "/nowhere/kernelwright")])).unwrap_err().to_string();
        assert!(error.contains("KERNELWRIGHT_PROGRAM, which is `/nowhere/kernelwright`"), "{error}");
        let error =
            find(&environment(&[("PATH", "/nowhere"), ("HOME", "/nowhere")])).unwrap_err().to_string();
        assert!(
            error.contains("PATH and the bin folder of cargo") && error.contains("KERNELWRIGHT_STUBS=1"),
            "{error}"
        );
    }
}
