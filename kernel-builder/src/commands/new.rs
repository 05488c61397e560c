//! `new`: a complete kernel project from a template.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use inquire::validator::Validation;
use inquire::{InquireError, MultiSelect, Select, Text};
use kernel_plan::translate::Choices;
use kernel_plan::units::{KernelName, UnitError};
use serde_json::json;

use crate::base::causes::{Cause, chain};
use crate::base::process::ProcessError;
use crate::base::session::Session;
use crate::base::{date, env};
use crate::exit::Failure;
use crate::pipeline::create::fresh::FreshProject;
use crate::pipeline::create::tracing::{self, ReferencePath, ReferenceProject, TemplateChoice};
use crate::pipeline::create::{fresh, published, told};
use crate::scaffold::host::Framework;
use crate::scaffold::{Answers, Ci, ScaffoldError, Template, rust_crate, template};

/// Create a kernel project from a template or a PyTorch function
///
/// The project has device code, a reference, a binding, a Python package, tests, a benchmark, an example, a card and
/// a flake. In a terminal, the command asks for missing arguments. It creates a git repository with a first
/// commit, unless the folder is inside a repository. First it searches the hub, for at most three seconds, for an
/// existing kernel.
///
/// With `--from`, it looks for a template that computes the same as your function or module. Your function is traced
/// by torch.export and compared with each template's reference in float64, on random inputs of several shapes. Its
/// parameters may have any names and order. If no template matches, the function is translated: the project then has
/// kernels written for it, and `plan.md` lists them. The file may define `example_inputs()`, which returns the
/// arguments of a call, and `example_module()`, which returns an instance.
///
/// With `--rust`, the project is a crate: a kernel that its build script compiles, a test against a reference in Rust,
/// and a criterion benchmark.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright new me/fast-norm --template rms-norm --backends cpu,cuda
  kernelwright new me/my-norm --from reference.py:norm
  kernelwright new me/my-loss --from loss.py --split log_probs
  kernelwright new me/my-softmax --template softmax --set bytes=8
  kernelwright new me/my-glu --template swiglu --framework tvm-ffi
  cargo kernelwright new --rust fast-sum")]
pub struct Args {
    /// Owner and name of the kernel, as on the Hub; with `--rust`, the name of the crate
    #[arg(value_name = "OWNER/NAME")]
    name: Option<String>,
    /// Folder to write to; default: the kernel's name
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Template to start from; `kernelwright templates` lists them
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Find the template for this function or module; with `--template`, check that template only
    #[arg(long, value_name = "FILE.py[:NAME]")]
    from: Option<String>,
    /// Translate the function, even if a template matches it
    #[arg(long, requires = "from", conflicts_with = "template")]
    translate: bool,
    /// Write this step of the function to memory before it is used, so that kernels end there; names are those in `plan.md`;
    /// can be repeated; implies `--translate`
    #[arg(long, value_name = "STEP", value_delimiter = ',', requires = "from", conflicts_with = "template")]
    split: Vec<String>,
    /// Compute this step where it is used, not in a kernel of its own; can be repeated; implies `--translate`
    #[arg(long, value_name = "STEP", value_delimiter = ',', requires = "from", conflicts_with = "template")]
    fuse: Vec<String>,
    /// Value for a hole of the template; `kernelwright templates NAME` lists the holes; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Backends to write code for, separated by commas; default: all that the template has
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    backends: Vec<String>,
    /// Framework for the binding
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    framework: Framework,
    /// Licence of the kernel, as an SPDX identifier
    #[arg(long, value_name = "SPDX", default_value = Answers::LICENSE)]
    license: String,
    /// Also write a CI workflow that checks, builds, signs and publishes the kernel
    #[arg(long, value_name = "SERVICE", value_enum)]
    ci: Option<Ci>,
    /// Create a Rust crate, not a Python package
    #[arg(long, conflicts_with_all = ["template", "from", "set", "backends", "framework", "ci"])]
    rust: bool,
    /// Take kernelwright-build and kernelwright-runtime from this folder, which is `kernel-rust` of the repository; default:
    /// from git
    #[arg(long, value_name = "DIR", requires = "rust")]
    crates: Option<PathBuf>,
    /// Do not create a git repository
    #[arg(long)]
    no_git: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    if args.rust {
        return rust(args, session);
    }
    let (owner, name) = match &args.name {
        Some(name) => split_name(name)?,
        None => split_name(&ask_name()?)?,
    };
    let template = match (&args.template, &args.from) {
        (Some(name), _) => Some(template::find(name)?),
        (None, Some(_)) => None,
        (None, None) => Some(ask_template()?),
    };
    let found = match &args.from {
        None => None,
        Some(words) => {
            let choices = Choices { split: args.split.clone(), fuse: args.fuse.clone() };
            let among = match template.clone() {
                Some(template) => TemplateChoice::One(Box::new(template)),
                None if args.translate || !choices.is_empty() => TemplateChoice::None(choices),
                None => TemplateChoice::All(template::all()?),
            };
            Some(tracing::find(&ReferencePath::parse(words), among, session)?)
        }
    };
    let template = match (template, &found) {
        (_, Some(found)) => found.template(&name)?,
        (Some(template), None) => template,
        (None, None) => ask_template()?,
    };
    let matched = found.as_ref().and_then(ReferenceProject::matched);
    let asked = published::ask(published::of_op(template.ops.first().unwrap_or(&template.name)), session);
    let backends = if args.backends.is_empty() { ask_backends(&template)? } else { args.backends.clone() };
    // The template's order, so that the same answers in another order give the same project.
    let mut ordered: Vec<String> =
        template.backends.iter().filter(|backend| backends.contains(backend)).cloned().collect();
    ordered.extend(backends.into_iter().filter(|backend| !template.backends.contains(backend)));
    let set: BTreeMap<String, String> = args.set.iter().cloned().collect();
    let answers = Answers {
        owner,
        name,
        license: args.license.clone(),
        backends: ordered,
        framework: args.framework,
        year: date::this_year(),
        set,
    };
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(answers.name.as_str()));
    let project =
        FreshProject { template: &template, matched, answers: &answers, ci: args.ci, commits: !args.no_git };
    let set = project.create(&dir, session)?;
    asked.tell(session);
    let written: Vec<String> = set.iter().map(|(path, _)| path.display().to_string()).collect();
    let told = found.as_ref().map(told::sentences).unwrap_or_default();
    let human = format!(
        "{told}{} files in {}\n\nnext:\n  kernelwright make {}\n",
        written.len(),
        dir.display(),
        dir.display()
    );
    let from = found.as_ref().map(told::facts);
    let data = json!({ "dir": dir, "template": template.name, "framework": args.framework.section(), "files": written, "set": answers.set, "from": from });
    session.report.result("new", &data, &human);
    Ok(())
}

/// Creates a crate.
fn rust(args: &Args, session: &Session) -> Result<(), Failure> {
    const USAGE: &str = "cargo kernelwright new --rust NAME";
    let text = args.name.as_deref().ok_or_else(|| missing("the crate's name", USAGE))?;
    let name = match text.split_once('/') {
        Some(_) => split_name(text)?.1,
        None => named(text, text)?,
    };
    let set = rust_crate::files(&name, &args.license, args.crates.as_deref())?;
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(name.as_str()));
    set.write_to(&dir)?;
    if !args.no_git {
        fresh::first_commit(&dir, session)?;
    }
    let written: Vec<String> = set.iter().map(|(path, _)| path.display().to_string()).collect();
    let (count, shown) = (written.len(), dir.display());
    let human = format!("{count} files in {shown}\n\nnext:\n  cd {shown}\n  cargo test\n");
    session.report.result("new", &json!({ "dir": dir, "rust": true, "files": written }), &human);
    Ok(())
}

/// `bytes=8` → its two parts.
fn setting(words: &str) -> Result<(String, String), String> {
    match words.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

/// `me/fast-norm` → its two parts, each judged.
fn split_name(text: &str) -> Result<(String, KernelName), ScaffoldError> {
    let bad = |cause: Cause| ScaffoldError::BadName { name: text.to_owned(), cause };
    let (owner, name) = text.split_once('/').ok_or_else(|| bad("the `/` is missing".into()))?;
    let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if owner.is_empty()
        || !owner.chars().all(fine)
        || owner.starts_with(['-', '.'])
        || owner.ends_with(['-', '.'])
    {
        return Err(bad(format!("`{owner}` is not a valid owner name").into()));
    }
    Ok((owner.to_owned(), named(text, name)?))
}

/// The name in `whole`.
fn named(whole: &str, name: &str) -> Result<KernelName, ScaffoldError> {
    name.parse()
        .map_err(|error: UnitError| ScaffoldError::BadName { name: whole.to_owned(), cause: error.into() })
}

fn missing(what: &'static str, help: &str) -> Failure {
    ScaffoldError::MissingAnswer { what, help: help.to_owned() }.into()
}

fn ask_name() -> Result<String, Failure> {
    const USAGE: &str = "kernelwright new OWNER/NAME --template rms-norm";
    if !env::interactive() {
        return Err(missing("the kernel's name", USAGE));
    }
    let judge = |text: &str| {
        Ok(match split_name(text) {
            Ok(_) => Validation::Valid,
            Err(error) => Validation::Invalid(chain(&error).into()),
        })
    };
    Text::new("Owner and name of the kernel:")
        .with_help_message("as on the Hub: me/fast-norm")
        .with_validator(judge)
        .prompt()
        .map_err(|error| gave_up(&error, "the kernel's name", USAGE))
}

fn ask_template() -> Result<Template, Failure> {
    let templates = template::all()?;
    let names: Vec<String> = templates.iter().map(|template| template.name.clone()).collect();
    let help = format!("--template NAME, one of: {}", names.join(", "));
    if !env::interactive() {
        return Err(missing("the template", &help));
    }
    let lines: Vec<String> =
        templates.iter().map(|template| format!("{}: {}", template.name, template.description)).collect();
    let chosen = Select::new("Start from:", lines.clone())
        .prompt()
        .map_err(|error| gave_up(&error, "the template", &help))?;
    let at = lines.iter().position(|line| *line == chosen).unwrap_or(0);
    Ok(templates[at].clone())
}

fn ask_backends(template: &Template) -> Result<Vec<String>, Failure> {
    if !env::interactive() || template.backends.len() < 2 {
        return Ok(template.backends.clone());
    }
    let all: Vec<usize> = (0..template.backends.len()).collect();
    let chosen = MultiSelect::new("Backends:", template.backends.clone())
        .with_default(&all)
        .prompt()
        .map_err(|error| gave_up(&error, "the backends", "--backends cpu,cuda"))?;
    Ok(if chosen.is_empty() { template.backends.clone() } else { chosen })
}

fn gave_up(error: &InquireError, what: &'static str, help: &str) -> Failure {
    match error {
        InquireError::OperationCanceled | InquireError::OperationInterrupted => {
            ProcessError::Interrupted.into()
        }
        _ => missing(what, help),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged() {
        assert_eq!(split_name("me/fast-norm").unwrap().1.as_str(), "fast-norm");
        for bad in ["fast-norm", "/x", "me/", "me/Fast", "me/a b", "../up/x"] {
            assert!(split_name(bad).is_err(), "{bad}");
        }
    }
}
