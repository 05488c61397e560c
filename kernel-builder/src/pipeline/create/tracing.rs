//! Lets harness/trace.py hold a person's reference against the templates, in a child process.
//!
//! Owns: the run, and what is told when it fails. Never: decides what fits; `scaffold::fit` does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use heck::ToKebabCase;
use kernel_plan::translate::Choices;
use kernel_plan::units::{KernelName, UnitError};

use crate::base::files::FileError;
use crate::base::process::{self, Ending, Limits};
use crate::base::report::ProgressKind;
use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::Failure;
use crate::protocol::Opening;
use crate::protocol::trace::TraceJob;
use crate::scaffold::fit::{self, Fit, Unfit};
use crate::scaffold::hole::{self, Kind};
use crate::scaffold::report::Report;
use crate::scaffold::serves::{self, Served};
use crate::scaffold::translated::{self, Translated, Untranslatable};
use crate::scaffold::{ScaffoldError, Template};
use crate::toolchain::Extras;
use crate::toolchain::python::{self, Torch};

const HARNESS: [(&str, &str); 18] = [
    ("trace.py", include_str!("../../../harness/trace.py")),
    ("attempts.py", include_str!("../../../harness/attempts.py")),
    ("bounds.py", include_str!("../../../harness/bounds.py")),
    ("calls.py", include_str!("../../../harness/calls.py")),
    ("derivatives.py", include_str!("../../../harness/derivatives.py")),
    ("dropout.py", include_str!("../../../harness/dropout.py")),
    ("effects.py", include_str!("../../../harness/effects.py")),
    ("exported.py", include_str!("../../../harness/exported.py")),
    ("gradients.py", include_str!("../../../harness/gradients.py")),
    ("graphs.py", include_str!("../../../harness/graphs.py")),
    ("loading.py", include_str!("../../../harness/loading.py")),
    ("subject.py", include_str!("../../../harness/subject.py")),
    ("translation.py", include_str!("../../../harness/translation.py")),
    ("variations.py", include_str!("../../../harness/variations.py")),
    ("casting.py", include_str!("../../../harness/casting.py")),
    ("protocol.py", include_str!("../../../harness/protocol.py")),
    ("protocol_trace.py", include_str!("../../../harness/protocol_trace.py")),
    ("wire.py", include_str!("../../../harness/wire.py")),
];
/// How long the person's function may take for all calls.
const WALL: Duration = Duration::from_secs(900);

/// A reference as it was given: `FILE.py`, or `FILE.py:NAME`.
#[derive(Debug, Clone)]
pub(crate) struct ReferencePath {
    pub(crate) file: PathBuf,
    pub(crate) name: Option<String>,
}

impl ReferencePath {
    /// Reads the words of `--from`.
    pub(crate) fn parse(words: &str) -> Self {
        match words.rsplit_once(':') {
            Some((file, name)) if !name.is_empty() && !name.contains(['/', '\\']) => {
                Self { file: file.into(), name: Some(name.to_owned()) }
            }
            _ => Self { file: words.into(), name: None },
        }
    }

    /// The function's or class's name, else the file's, as kernels are spelled: `GatedNorm` is `gated-norm`.
    pub(crate) fn kernel_name(&self) -> Result<KernelName, ScaffoldError> {
        let stem = || self.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = self.name.clone().or_else(stem).unwrap_or_default();
        let spelled = name.to_kebab_case();
        spelled
            .parse()
            .map_err(|error: UnitError| ScaffoldError::BadName { name: spelled, cause: error.into() })
    }
}

/// A reference that a template serves.
#[derive(Debug)]
pub(crate) struct TemplateMatch {
    /// The template.
    pub(crate) template: Template,
    /// How it serves it.
    pub(crate) fit: Fit,
    /// The function or class.
    pub(crate) function: String,
    /// The text of the person's file.
    pub(crate) text: String,
}

/// What a reference becomes.
#[derive(Debug)]
pub(crate) enum ReferenceProject {
    /// A project of a template.
    Matched(Box<TemplateMatch>),
    /// A project of its own: its translation, with why no template serves, if any was looked at.
    Translated(Box<Translated>, Option<Unfit>),
}

impl ReferenceProject {
    /// The template of the project, which is named `name`.
    ///
    /// # Errors
    /// The files of a translation are not those of a template.
    pub(crate) fn template(&self, name: &KernelName) -> Result<Template, ScaffoldError> {
        match self {
            Self::Matched(matched) => Ok(matched.template.clone()),
            Self::Translated(translated, _) => translated.template(&name.module()),
        }
    }

    /// The match, unless it is a translation.
    pub(crate) fn matched(&self) -> Option<&TemplateMatch> {
        match self {
            Self::Matched(matched) => Some(matched),
            Self::Translated(..) => None,
        }
    }
}

/// Where a kernel for a reference is looked for.
#[derive(Debug)]
pub(crate) enum TemplateChoice {
    /// In all templates, and then it is translated.
    All(Vec<Template>),
    /// Nowhere: it is translated, with these choices of a person's.
    None(Choices),
    /// In this template alone.
    One(Box<Template>),
}

/// Finds the template that serves a reference, or translates it.
pub(crate) fn find(
    given: &ReferencePath,
    among: TemplateChoice,
    session: &Session,
) -> Result<ReferenceProject, Failure> {
    let (templates, translates, choices) = match among {
        TemplateChoice::All(templates) => (templates, true, None),
        TemplateChoice::None(choices) => (Vec::new(), true, Some(choices)),
        TemplateChoice::One(template) => (vec![*template], false, None),
    };
    let path = env::absolute(&given.file);
    let text = files::read_text(&path)?;
    let served = templates
        .into_iter()
        .filter(|template| template.traced)
        .map(serves::served)
        .collect::<Result<Vec<_>, _>>()?;
    let report = trace(given, &path, &served, translates, session)?;
    let shown = given.file.display().to_string();
    if let Some(unusable) = report.unusable {
        let problem = unusable.reason.clone();
        let error = unusable.error(&shown, &path.display().to_string()).map(ScaffoldError::from);
        return Err(error.unwrap_or(ScaffoldError::Untraceable { file: shown, problem, cause: None }).into());
    }
    if let Some(choices) = choices {
        return match translated(&report, &text, &choices) {
            Ok(translated) => Ok(ReferenceProject::Translated(Box::new(translated), None)),
            Err(untranslatable) => Err(untranslated(&report.name, &shown, &untranslatable, None).into()),
        };
    }
    match fit::judge(&report, &served) {
        Ok(fit) => {
            let template = served.into_iter().find(|served| served.template.name == fit.template);
            let template = template.map(|served| served.template).ok_or_else(|| {
                let name = fit.template.clone();
                ScaffoldError::UnknownTemplate { name, hint: "it was not asked for".to_owned() }
            })?;
            Ok(ReferenceProject::Matched(Box::new(TemplateMatch {
                template,
                fit,
                function: report.name,
                text,
            })))
        }
        Err(unfit) if translates => {
            // Of a function that a template nearly serves, only the calls were looked at.
            let report = match (&report.translation, &report.untranslated) {
                (None, None) => trace(given, &path, &[], true, session)?,
                _ => report,
            };
            match translated(&report, &text, &Choices::default()) {
                Ok(translated) => Ok(ReferenceProject::Translated(Box::new(translated), Some(unfit))),
                Err(untranslatable) => {
                    // What is near has not been looked for where there was a graph to translate.
                    let unfit = match fit::judge(&trace(given, &path, &served, false, session)?, &served) {
                        Err(nearer) => nearer,
                        Ok(_) => unfit,
                    };
                    Err(untranslated(&report.name, &shown, &untranslatable, Some(&unfit)).into())
                }
            }
        }
        Err(unfit) if unfit.ops.is_empty() && report.error.is_some() => {
            let problem = format!("its inputs cannot be guessed, and {}", unfit.why);
            Err(ScaffoldError::Untraceable { file: shown, problem, cause: None }.into())
        }
        Err(unfit) => Err(refusal(&report.name, unfit, &served).into()),
    }
}

fn translated(report: &Report, text: &str, choices: &Choices) -> Result<Translated, Untranslatable> {
    if let Some(translation) = &report.translation {
        return translated::translate(translation, text, choices);
    }
    Err(report.untranslated.as_ref().map_or_else(
        || Untranslatable { what: "torch.export makes no graph of it".to_owned(), help: None },
        Untranslatable::from,
    ))
}

/// That there is neither a template nor a translation, with what to do.
fn untranslated(
    name: &str,
    file: &str,
    untranslatable: &Untranslatable,
    unfit: Option<&Unfit>,
) -> ScaffoldError {
    let near = match unfit {
        Some(Unfit { nearest: Some(nearest), step: Some(step), why, .. }) => {
            format!("the nearest template is {nearest}: {why}. {step}")
        }
        Some(Unfit { nearest: Some(nearest), step: None, why, .. }) => format!(
            "the nearest template is {nearest}: {why}; `kernelwright templates {nearest}` shows what you can change in it"
        ),
        Some(_) => "`kernelwright templates` lists all templates".to_owned(),
        None => "without `--translate`, `--split` and `--fuse`, `new` also looks for a template".to_owned(),
    };
    let help = untranslatable.help.map_or_else(|| near.clone(), |help| format!("{help}; {near}"));
    ScaffoldError::Untranslated {
        name: name.to_owned(),
        file: file.to_owned(),
        what: untranslatable.what.clone(),
        help,
    }
}

/// Runs the harness.
fn trace(
    given: &ReferencePath,
    path: &Path,
    served: &[Served],
    translates: bool,
    session: &Session,
) -> Result<Report, Failure> {
    let folder = files::scratch()?;
    let job = job(folder.path(), path, &[given.name.as_deref()], served)?;
    let job = TraceJob { translates, ..job };
    let extras = Extras { client: false, tvm_ffi: false };
    let python = python::runtime(session, Torch::Preferably(crate::pipeline::project::TORCH), extras)?;
    let line = python.command().path(&folder.path().join("trace.py")).cwd(folder.path());
    let what = format!("tracing {}", given.file.display());
    let shows = |what: &str| session.report.progress(what, ProgressKind::Count, None);
    let (mut progress, mut at, mut answer) = (shows(&what), None, None);
    // Standard output of the person's file leads elsewhere, so no nonce tells answers from what it prints.
    let input = Opening::line("", job);
    let ended =
        process::converse(&line, Limits::wall(WALL), input.as_bytes(), &mut |line| match step(line) {
            Some(step) => {
                progress = shows(&format!("{what}: {step}"));
                at = Some(step);
            }
            None => answer = Some(serde_json::from_str::<Report>(line)),
        })?;
    drop(progress);
    let (problem, cause) = match answer {
        Some(Ok(report)) if ended.ending.success() => return Ok(report),
        Some(Err(error)) => ("the process that traces it sent an invalid answer".to_owned(), Some(error)),
        _ if ended.ending == Ending::Deadline => {
            let at = at.map_or_else(String::new, |step| format!(" while {step}"));
            (format!("it took more than {} s{at}; use a shorter example", WALL.as_secs()), None)
        }
        _ => {
            let output = ended.stderr_text();
            let last =
                output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
            (format!("the process that traces it {}: {last}", ended.ending), None)
        }
    };
    Err(ScaffoldError::Untraceable { file: given.file.display().to_string(), problem, cause }.into())
}

/// The step that a line of the harness reports; `None` for a report.
pub(crate) fn step(line: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Step {
        doing: String,
    }
    serde_json::from_str::<Step>(line).ok().map(|step| step.doing)
}

/// Unpacks the harness and the references of the templates, and writes the job for these names of a file.
pub(crate) fn job(
    folder: &Path,
    path: &Path,
    names: &[Option<&str>],
    served: &[Served],
) -> Result<TraceJob, FileError> {
    for (name, text) in HARNESS {
        files::write(&folder.join(name), text)?;
    }
    let mut templates = Vec::new();
    for served in served {
        let reference = folder.join(&served.template.name).join("reference.py");
        files::write(
            &reference,
            served.files.get(served.op.reference.file.value.as_str()).unwrap_or_default(),
        )?;
        templates.push(served.job(&reference.display().to_string()));
    }
    let names = names.iter().map(|name| name.map(str::to_owned)).collect();
    Ok(TraceJob { file: path.display().to_string(), names, threads: 1, translates: false, templates })
}

/// That nothing fits, with what to do.
fn refusal(name: &str, unfit: Unfit, served: &[Served]) -> ScaffoldError {
    let Unfit { ops, nearest, why, step } = unfit;
    let nearest = nearest.and_then(|name| served.iter().find(|served| served.template.name == name));
    let help = match (nearest, step) {
        (Some(nearest), Some(step)) => format!("the nearest is {}: {why}. {step}", nearest.template.name),
        (None, _) => format!("{why}. `kernelwright templates` lists all templates"),
        (Some(nearest), None) => {
            let template = &nearest.template.name;
            let code: Vec<String> = nearest
                .template
                .holes
                .iter()
                .filter_map(|hole| match &hole.kind {
                    Kind::Code { file, .. } => Some(format!("`{}` in {}", hole.name, hole::last_part(file))),
                    Kind::Value | Kind::Choice { .. } | Kind::Kernel { .. } => None,
                })
                .collect();
            let holes = if code.is_empty() {
                "change its op.toml, reference and device code".to_owned()
            } else {
                format!("change its op.toml and reference, and fill its code: {}", code.join(", "))
            };
            format!(
                "the nearest is {template}: {why}. Start from it with `kernelwright new OWNER/NAME --template {template}`, \
                 {holes}; `kernelwright templates {template}` has the contracts"
            )
        }
    };
    ScaffoldError::NothingFits { name: name.to_owned(), ops, help }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_after_the_file() {
        for (words, file, name) in [
            ("a/reference.py", "a/reference.py", None),
            ("reference.py:softmax", "reference.py", Some("softmax")),
            ("C:/x/reference.py", "C:/x/reference.py", None),
            ("reference.py:", "reference.py:", None),
        ] {
            let given = ReferencePath::parse(words);
            assert_eq!((given.file.to_str(), given.name.as_deref()), (Some(file), name), "{words}");
        }
    }

    #[test]
    fn a_kernel_is_named_like_its_function_or_file() {
        for (words, name) in [
            ("models.py:gated_norm", "gated-norm"),
            ("a/models.py:GatedNorm", "gated-norm"),
            ("b:c/models.py:_norm", "norm"),
            ("a/my_loss.py", "my-loss"),
        ] {
            assert_eq!(ReferencePath::parse(words).kernel_name().unwrap().as_str(), name, "{words}");
        }
        for words in ["models.py:f", "models.py:_", "models.py:größe", "2.py"] {
            assert!(ReferencePath::parse(words).kernel_name().is_err(), "{words}");
        }
    }
}
