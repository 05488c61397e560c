//! The program as cargo's subcommand: `cargo kernelwright verify` in a crate is `kernelwright verify` for its kernels.
//!
//! Owns: which command lines such a line stands for. Never: runs one; reads Cargo.toml itself, which kernelwright-build does.

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// The name of the subcommand, which cargo passes as the first argument.
const NAME: &str = "kernelwright";
/// The arguments of commands that are a folder: with a build.toml, or with an op.toml.
const PROJECT: &str = "dir";
const TASK: &str = "task";
/// The option of commands that take kernels without a build.toml.
const DEVICE: &str = "device";
/// Commands that make sense for several kernels in turn, unless an option names one file or folder for the results.
const SEVERAL: [&str; 8] = ["bench", "build", "check", "fill", "generate", "lint", "screen", "verify"];
const RESULTS: [&str; 3] = ["html", "report", "to"];

/// The command lines that a line stands for, each beginning with the program's name. A line from cargo that names no folder
/// is one for each kernel of the crate in `here` or above it; any other line is itself.
///
/// # Errors
/// The crate lists no kernels, or its Cargo.toml is wrong.
pub(super) fn lines(
    words: Vec<OsString>,
    here: &Path,
    command: impl Fn() -> Command,
) -> Result<Vec<Vec<OsString>>, clap::Error> {
    if words.get(1).is_none_or(|word| word != NAME) {
        return Ok(vec![words]);
    }
    let mut line = words;
    line.remove(1);
    // The caller parses the line again, and reports what is wrong with it.
    let Ok(matches) = command().try_get_matches_from(&line) else { return Ok(vec![line]) };
    let Some((verb, given)) = matches.subcommand() else { return Ok(vec![line]) };
    let known = command();
    let Some(known) = known.find_subcommand(verb) else { return Ok(vec![line]) };
    let is_kernel = ["build.toml", "op.toml"].iter().any(|name| here.join(name).is_file());
    let argument = [PROJECT, TASK].into_iter().find(|id| is_about_here(known, given, id));
    let Some(argument) = argument.filter(|_| !is_kernel) else { return Ok(vec![line]) };
    let Some(folder) = here.ancestors().find(|folder| folder.join("Cargo.toml").is_file()) else {
        return Ok(vec![line]);
    };
    let wrong = |text: String| command().error(ErrorKind::MissingRequiredArgument, text);
    let kernels = kernelwright_build::kernels(folder)
        .map_err(|error| wrong(format!("{error}\nOr name a kernel: cargo kernelwright {verb} DIR")))?;
    if kernels.is_empty() {
        let text = format!("{} lists no kernels of its own", folder.join("Cargo.toml").display());
        return Err(wrong(format!("{text}\nName a kernel: cargo kernelwright {verb} DIR")));
    }
    let names_results = RESULTS.iter().any(|id| is_given(given, id));
    if kernels.len() > 1 && (names_results || !SEVERAL.contains(&verb)) {
        let names: Vec<String> = kernels.iter().map(|kernel| kernel.display().to_string()).collect();
        return Err(wrong(format!("this is for one kernel; name one of {}", names.join(", "))));
    }
    let takes_device = known.get_arguments().any(|one| one.get_id() == DEVICE);
    let mut lines = Vec::new();
    for kernel in kernels {
        let is_project = kernel.join("build.toml").is_file();
        if argument == PROJECT && !is_project && !takes_device {
            return Err(wrong(format!(
                "`{verb}` is for kernels with a build.toml, and {} has none\n\
                 `cargo build` compiles it; `cargo kernelwright verify` and `bench` judge and measure it",
                kernel.display()
            )));
        }
        let mut line = line.clone();
        if takes_device && !is_project && !given.get_flag(DEVICE) {
            line.push(format!("--{DEVICE}").into());
        }
        line.push(kernel.into());
        lines.push(line);
    }
    Ok(lines)
}

/// Whether a command takes a kernel's folder as this argument, and was given none.
fn is_about_here(known: &Command, given: &ArgMatches, argument: &str) -> bool {
    let takes =
        known.get_arguments().any(|one| one.get_id() == argument && one.get_default_values() == ["."]);
    takes && given.value_source(argument) == Some(ValueSource::DefaultValue)
}

/// Whether an option that the command may have was given.
fn is_given(given: &ArgMatches, option: &str) -> bool {
    let has = given.try_contains_id(option).unwrap_or(false);
    has && given.value_source(option) == Some(ValueSource::CommandLine)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::base::files;
    use crate::cli::Cli;

    fn of(words: &[&str], here: &Path) -> Result<Vec<Vec<String>>, String> {
        let words = words.iter().map(OsString::from).collect();
        let lines = lines(words, here, Cli::command).map_err(|error| error.to_string())?;
        let text = |line: Vec<OsString>| line.into_iter().map(|word| word.into_string().unwrap()).collect();
        Ok(lines.into_iter().map(text).collect())
    }

    /// A workspace whose member `model` has two kernels: one is a package too, the other is device code alone.
    fn workspace() -> tempfile::TempDir {
        let folder = files::scratch().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            files::create_dirs(path.parent().unwrap()).unwrap();
            files::write(&path, text.as_bytes()).unwrap();
        };
        write("Cargo.toml", "[workspace]\nmembers = [\"model\"]\n");
        let kernels = "kernels = [\"norm\", \"../gate\"]";
        write(
            "model/Cargo.toml",
            &format!("[package]\nname = \"model\"\n[package.metadata.kernelwright]\n{kernels}\n"),
        );
        write("model/src/lib.rs", "");
        write("model/norm/op.toml", "");
        write("model/norm/build.toml", "");
        write("gate/op.toml", "");
        folder
    }

    #[test]
    fn a_line_that_is_not_from_cargo_stays() {
        let folder = workspace();
        let line = ["kernelwright", "check"];
        assert_eq!(of(&line, &folder.path().join("model")).unwrap(), [line]);
    }

    #[test]
    fn a_crate_has_a_line_for_each_kernel_also_from_a_folder_in_it() {
        let folder = workspace();
        for here in ["model", "model/src"] {
            let found = of(&["c", "kernelwright", "verify", "--fresh"], &folder.path().join(here)).unwrap();
            let model = folder.path().join("model").display().to_string();
            let [norm, gate] = [format!("{model}/norm"), format!("{model}/../gate")];
            let gate = ["c", "verify", "--fresh", "--device", gate.as_str()].map(str::to_owned).to_vec();
            assert_eq!(found, [["c", "verify", "--fresh", norm.as_str()].map(str::to_owned).to_vec(), gate]);
        }
    }

    #[test]
    fn what_names_a_folder_or_needs_none_is_one_line() {
        let folder = workspace();
        let here = folder.path().join("model");
        for words in [
            &["verify", "norm"][..],
            &["doctor"],
            &["new", "me/x", "--template", "softmax"],
            &["verify", "--wrong"],
        ] {
            let line = [&["c", "kernelwright"], words].concat();
            assert_eq!(of(&line, &here).unwrap(), [[&["c"], words].concat()]);
        }
        assert_eq!(of(&["c", "kernelwright", "check"], &here.join("norm")).unwrap(), [["c", "check"]]);
        assert_eq!(of(&["c", "kernelwright"], &here).unwrap(), [["c"]]);
    }

    #[test]
    fn a_device_that_was_asked_for_is_not_asked_for_again() {
        let folder = workspace();
        let found = of(&["c", "kernelwright", "bench", "--device"], &folder.path().join("model")).unwrap();
        assert!(
            found.iter().all(|line| line.iter().filter(|word| *word == "--device").count() == 1),
            "{found:?}"
        );
    }

    #[test]
    fn what_needs_a_package_says_so_of_device_code() {
        let folder = workspace();
        let here = folder.path().join("model");
        let error = of(&["c", "kernelwright", "build"], &here).unwrap_err();
        assert!(error.contains("`build` is for kernels with a build.toml"), "{error}");
        assert!(error.contains("gate has none"), "{error}");
        // A search needs an op.toml alone.
        let found = of(&["c", "kernelwright", "lint"], &here).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|line| line.len() == 3), "{found:?}");
    }

    #[test]
    fn what_is_for_one_kernel_asks_which() {
        let folder = workspace();
        for words in [
            &["mcp"][..],
            &["export", "--to", "out"],
            &["reproduce", "r.jsonl"],
            &["bench", "--html", "p.html"],
        ] {
            let line = [&["c", "kernelwright"], words].concat();
            let error = of(&line, &folder.path().join("model")).unwrap_err();
            assert!(error.contains("this is for one kernel; name one of"), "{words:?}: {error}");
        }
    }

    #[test]
    fn a_crate_without_kernels_is_told() {
        let folder = workspace();
        let error = of(&["c", "kernelwright", "verify"], folder.path()).unwrap_err();
        assert!(error.contains("no [package.metadata.kernelwright]"), "{error}");
        assert!(error.contains("cargo kernelwright verify DIR"), "{error}");
    }
}
