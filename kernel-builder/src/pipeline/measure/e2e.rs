//! Measures a whole model with verified packages in it and without.
//!
//! Owns: which model is meant, which builds go into it, the process that measures. Never: times; e2e/ does.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

pub(crate) mod pages;
pub(crate) mod replaced;
pub(crate) mod shares;
mod table;

pub(crate) use table::table;

use crate::base::process::{Dialogue, DialogueEvent};
use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::{self, Failure, StageError};
use crate::pipeline::judge::Judging;
use crate::pipeline::project::selection::Selection;
use crate::pipeline::{build, judge, project};
use crate::scaffold::host;
use crate::toolchain::python::{self, Torch};
use crate::toolchain::{Extras, PythonRuntime};

/// The programs that run in the Python of the model.
const PROGRAMS: [(&str, &str); 14] = [
    ("e2e.py", include_str!("../../../e2e/e2e.py")),
    ("compare.py", include_str!("../../../e2e/compare.py")),
    ("components.py", include_str!("../../../e2e/components.py")),
    ("job.py", include_str!("../../../e2e/job.py")),
    ("model.py", include_str!("../../../e2e/model.py")),
    ("part_file.py", include_str!("../../../e2e/part_file.py")),
    ("parts.py", include_str!("../../../e2e/parts.py")),
    ("packages.py", include_str!("../../../e2e/packages.py")),
    ("phases.py", include_str!("../../../e2e/phases.py")),
    ("replaced.py", include_str!("../../../e2e/replaced.py")),
    ("said.py", include_str!("../../../e2e/said.py")),
    ("shares.py", include_str!("../../../e2e/shares.py")),
    ("small_steps.py", include_str!("../../../e2e/small_steps.py")),
    ("times.py", include_str!("../../../e2e/times.py")),
];
/// The sizes of public architectures.
const MODELS: [(&str, &str); 8] = [
    ("flux-dev", include_str!("../../../e2e/models/flux-dev.toml")),
    ("gemma-3-4b", include_str!("../../../e2e/models/gemma-3-4b.toml")),
    ("llama-1b-training", include_str!("../../../e2e/models/llama-1b-training.toml")),
    ("llama-3.1-8b", include_str!("../../../e2e/models/llama-3.1-8b.toml")),
    ("ltx-video", include_str!("../../../e2e/models/ltx-video.toml")),
    ("qwen3-30b-a3b", include_str!("../../../e2e/models/qwen3-30b-a3b.toml")),
    ("qwen3-8b", include_str!("../../../e2e/models/qwen3-8b.toml")),
    ("vit-l", include_str!("../../../e2e/models/vit-l.toml")),
];
/// A word of the process: a model of many layers is compiled in minutes.
const ANSWER: Duration = Duration::from_secs(1800);
/// The torch that is taken if the active Python has none.
const LINE: &str = "2.11";
/// Lines of the error output that are shown.
const LAST_WORDS: usize = 15;

/// Why a model was not measured.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum ModelError {
    /// No file, folder or name.
    #[error("there is no model `{model}`")]
    #[diagnostic(
        code(bench::no_model),
        help(
            "name one of {}; a folder with a config.json; or FILE.py:FUNCTION, where the function returns a module and \
             the arguments of a call",
            MODELS.map(|(name, _)| name).join(", ")
        )
    )]
    Unknown {
        /// The name that was given.
        model: String,
    },
    /// A project has no build for the torch of the model.
    #[error("`{}` has no build for torch {torch}", kernel.display())]
    #[diagnostic(
        code(bench::model_build),
        help(
            "name another variant with --variant, or set KERNELWRIGHT_PYTHON to a Python with another torch"
        )
    )]
    NoBuild {
        /// The project.
        kernel: PathBuf,
        /// The model's torch.
        torch: String,
    },
    /// The process says why.
    #[error("{problem}")]
    #[diagnostic(code(bench::model))]
    Refused {
        /// Why.
        problem: String,
        /// The next step.
        #[help]
        help: String,
    },
    /// An exception, or a crash.
    #[error("measuring `{model}` {ending}:\n{output}")]
    #[diagnostic(
        code(bench::model_failed),
        help(
            "the message above is that of the model or its library; what was measured is kept, and is not measured again"
        )
    )]
    Failed {
        /// The model.
        model: String,
        /// How the process ended.
        ending: String,
        /// Its last output.
        output: String,
    },
    /// The packages make the model worse.
    #[error(
        "with the kernels, the results of `{model}` are off by {kernels:.2e} of their norm from float32, and without \
         them by {eager:.2e}"
    )]
    #[diagnostic(
        code(bench::model_numbers),
        help(
            "up to twice the error of the model as it is are accepted; leave out one kernel at a time to find the one"
        )
    )]
    Numbers {
        /// The model.
        model: String,
        /// The error with the packages.
        kernels: f64,
        /// The error of the model as it is.
        eager: f64,
    },
}

impl StageError for ModelError {
    fn exit(&self) -> u8 {
        exit::BENCH
    }
}

/// A measurement of a model.
#[derive(Debug)]
pub(crate) struct ModelRun {
    /// A name of [`MODELS`], a folder with a config.json, or `FILE.py:FUNCTION`.
    pub(crate) model: String,
    /// Kernel projects, and folders of packages.
    pub(crate) kernels: Vec<PathBuf>,
    /// Takes the sizes of a small model.
    pub(crate) small: bool,
    /// `bf16`, `f16` or `f32`.
    pub(crate) dtype: String,
    /// How often every contender has its turn.
    pub(crate) rounds: u16,
    /// Whether torch.compile is a contender.
    pub(crate) compile: bool,
    /// Whether torch.compile with a search (max-autotune) is one.
    pub(crate) search: bool,
    /// Only these phases; all if empty.
    pub(crate) phases: Vec<String>,
}

/// The job of the process, as e2e/job.py reads it.
#[derive(Debug, Serialize)]
struct Job<'a> {
    model: &'a str,
    facts: Option<Value>,
    path: String,
    function: Option<&'a str>,
    packages: Vec<String>,
    small: bool,
    dtype: &'a str,
    device: &'a str,
    rounds: u16,
    compile: bool,
    search: bool,
    phases: &'a [String],
    record: String,
    fresh: bool,
}

impl<'a> Job<'a> {
    /// A job without packages.
    fn new(
        model: &'a str,
        from: Source<'a>,
        small: bool,
        dtype: &str,
        on_gpu: bool,
        phases: &'a [String],
    ) -> Result<Self, Failure> {
        let (facts, path, function) = match from {
            Source::Sizes(text) => (Some(sizes(text)?), PathBuf::new(), None),
            Source::Function(file, function) => (None, file, Some(function)),
            Source::Folder(folder) => (None, folder, None),
        };
        Ok(Self {
            model,
            facts,
            path: path.display().to_string(),
            function,
            packages: Vec::new(),
            small,
            dtype: match dtype {
                "f16" => "float16",
                "f32" => "float32",
                _ => "bfloat16",
            },
            device: if on_gpu { "cuda" } else { "cpu" },
            rounds: 0,
            compile: false,
            search: false,
            phases,
            record: String::new(),
            fresh: true,
        })
    }
}

/// A line of the process.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Said {
    Line { line: Value, cached: bool },
    Text { said: String },
    Refused { refused: String, help: String },
}

/// The source of a model.
#[derive(Debug, PartialEq, Eq)]
enum Source<'a> {
    Sizes(&'static str),
    Function(PathBuf, &'a str),
    Folder(PathBuf),
}

fn source(model: &str) -> Result<Source<'_>, ModelError> {
    if let Some((_, text)) = MODELS.iter().find(|(name, _)| *name == model) {
        return Ok(Source::Sizes(text));
    }
    if let Some((file, function)) = model.rsplit_once(':').filter(|(file, _)| Path::new(file).is_file()) {
        return Ok(Source::Function(env::absolute(Path::new(file)), function));
    }
    let folder = env::absolute(Path::new(model));
    if folder.join("config.json").is_file() {
        return Ok(Source::Folder(folder));
    }
    Err(ModelError::Unknown { model: model.to_owned() })
}

/// Builds and judges the projects, and measures the model; a line for each phase, as e2e/e2e.py writes them.
///
/// # Errors
/// The model does not exist, a project does not build or is refused, or the model cannot be measured.
pub(crate) fn measure(
    run: &ModelRun,
    selection: &Selection,
    judging: &Judging,
    session: &Session,
) -> Result<Vec<Value>, Failure> {
    let from = source(&run.model)?;
    let python = python(session)?;
    let on_gpu = selection.backend.as_deref() != Some("cpu") && has_gpu(&python);
    let job = Job {
        packages: packages(&run.kernels, selection, on_gpu, judging, &python, session)?,
        rounds: run.rounds,
        compile: run.compile,
        search: run.search,
        record: record(&run.kernels).display().to_string(),
        fresh: judging.fresh,
        ..Job::new(&run.model, from, run.small, &run.dtype, on_gpu, &run.phases)?
    };
    let mut since = Instant::now();
    let told = |line: &Value, cached: bool| {
        session.report.emit(&Event::Done {
            action: "measured",
            subject: line["phase"].as_str().unwrap_or_default(),
            detail: "",
            seconds: since.elapsed().as_secs_f64(),
            cached,
        });
        since = Instant::now();
    };
    process("e2e.py", &job, &python, told, session)
}

/// Whether the model runs on a GPU.
fn has_gpu(python: &PythonRuntime) -> bool {
    python::has_nvidia_driver() && python::cuda_of(&python.torch).is_some()
}

/// The file of the lines: in the first project, else here.
pub(crate) fn record(kernels: &[PathBuf]) -> PathBuf {
    let project = kernels.iter().find(|kernel| kernel.join("build.toml").is_file());
    env::absolute(project.map_or(Path::new("."), PathBuf::as_path)).join(".kernelwright/e2e.jsonl")
}

/// The Python that runs the model: the active one if it has a torch, else one of the cache.
fn python(session: &Session) -> Result<PythonRuntime, Failure> {
    Ok(python::runtime(session, Torch::Preferably(LINE), Extras::default())?)
}

/// The folders of the packages of some kernels.
fn packages(
    kernels: &[PathBuf],
    selection: &Selection,
    on_gpu: bool,
    judging: &Judging,
    python: &PythonRuntime,
    session: &Session,
) -> Result<Vec<String>, Failure> {
    let folder = |kernel: &PathBuf| package(kernel, selection, on_gpu, judging, python, session);
    kernels.iter().map(|kernel| Ok(folder(kernel)?.display().to_string())).collect()
}

/// The folder of a kernel's package: that which is named, or the build of a project for this torch, which is judged.
fn package(
    kernel: &Path,
    selection: &Selection,
    on_gpu: bool,
    judging: &Judging,
    python: &PythonRuntime,
    session: &Session,
) -> Result<PathBuf, Failure> {
    if kernel.join("__init__.py").is_file() {
        let shown = kernel.display();
        session.report.note(format!("{shown} is a package, and is not judged again"));
        return Ok(env::absolute(kernel));
    }
    let project = project::load(kernel, session)?;
    let mut own = selection.clone();
    own.backend = Some(if on_gpu { "cuda" } else { "cpu" }.to_owned());
    if own.variants.is_empty() && own.selector.is_none() {
        own.all = true;
        own.selector = Some(for_torch(&python.torch, on_gpu));
    }
    let artifacts = build::build(&project, &own, session)?;
    let (verified, _) = judge::accepted(&project, artifacts, judge::extras(&project), judging, session)?;
    let fits =
        verified.iter().find(|artifact| crate::verify::suits(&artifact.inner().variant, &python.torch));
    match fits {
        Some(artifact) => Ok(env::absolute(&artifact.inner().dir)),
        None => Err(ModelError::NoBuild { kernel: kernel.to_owned(), torch: python.torch.clone() }.into()),
    }
}

/// The variants for a torch; of both ABIs the stable one.
fn for_torch(version: &str, on_gpu: bool) -> String {
    let line = python::line_of(version).map(|line| format!("torch:{line}"));
    let cuda = python::cuda_of(version).filter(|_| on_gpu).map(|cuda| format!("cuda:{cuda}"));
    let words: Vec<String> = line.into_iter().chain(cuda).chain(["abi:stable".to_owned()]).collect();
    words.join(" and ")
}

/// A model's sizes as JSON.
fn sizes(text: &str) -> Result<Value, Failure> {
    let problem = |error: &dyn std::fmt::Display| ModelError::Refused {
        problem: format!("a file of sizes cannot be read: {error}"),
        help: "this is a defect of the program".to_owned(),
    };
    let table: toml::Table = toml::from_str(text).map_err(|error| problem(&error))?;
    Ok(serde_json::to_value(table).map_err(|error| problem(&error))?)
}

/// Runs a program, and tells what it says; `told` gets each line, and whether it was known.
fn process(
    program: &str,
    job: &Job<'_>,
    python: &PythonRuntime,
    mut told: impl FnMut(&Value, bool),
    session: &Session,
) -> Result<Vec<Value>, Failure> {
    let folder = files::scratch()?;
    for (name, text) in PROGRAMS.into_iter().chain(host::INJECT) {
        files::write(&folder.path().join(name), text)?;
    }
    let text = serde_json::to_string(job).unwrap_or_default();
    let line = python.command().path(&folder.path().join(program)).arg(&text);
    let mut dialogue = Dialogue::start(&line)?;
    let mut lines = Vec::new();
    loop {
        let text = match dialogue.hear(ANSWER)? {
            DialogueEvent::Line(text) => text,
            DialogueEvent::Ended(ending) if ending.success() => return Ok(lines),
            DialogueEvent::Ended(ending) => {
                return Err(failed(job.model, &ending.to_string(), &mut dialogue).into());
            }
            DialogueEvent::Silence => {
                let ending = format!("said nothing for {} minutes", ANSWER.as_secs() / 60);
                return Err(failed(job.model, &ending, &mut dialogue).into());
            }
        };
        // Libraries print lines of their own.
        match serde_json::from_str::<Said>(&text) {
            Ok(Said::Text { said }) => session.report.note(&said),
            Ok(Said::Refused { refused, help }) => {
                return Err(ModelError::Refused { problem: refused, help }.into());
            }
            Ok(Said::Line { line, cached }) => {
                told(&line, cached);
                lines.push(line);
            }
            Err(_) => tracing::info!(target: "bench", "{text}"),
        }
    }
}

fn failed(model: &str, ending: &str, dialogue: &mut Dialogue) -> ModelError {
    let said = dialogue.stderr_end();
    let lines: Vec<&str> = said.lines().collect();
    let output = lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n");
    ModelError::Failed { model: model.to_owned(), ending: ending.to_owned(), output }
}

/// Refuses a model whose results are too far from float32 with the packages. Its times are shown before that.
///
/// # Errors
/// The two errors.
pub(crate) fn refuse_worse(model: &str, lines: &[Value]) -> Result<(), ModelError> {
    let Some(line) = lines.iter().find(|line| line["within"] == false) else { return Ok(()) };
    let error = |contender: &str| line[contender]["error"].as_f64().unwrap_or(f64::NAN);
    Err(ModelError::Numbers { model: model.to_owned(), kernels: error("kernels"), eager: error("eager") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_architecture_has_sizes_and_phases() {
        for (name, text) in MODELS {
            let sizes = sizes(text).expect(name);
            for key in ["library", "class", "kind"] {
                assert!(sizes[key].is_string(), "{name}: {key}");
            }
            let phases = sizes["phases"].as_object().expect(name);
            assert!(!phases.is_empty() && sizes["small"].is_object(), "{name}");
        }
    }

    #[test]
    fn a_model_is_a_name_a_folder_or_a_function() {
        let folder = tempfile::tempdir().expect("a folder");
        files::write(&folder.path().join("config.json"), "{}").expect("a file");
        files::write(&folder.path().join("mine.py"), "").expect("a file");
        let file = folder.path().join("mine.py");
        let of_function = format!("{}:make", file.display());
        assert!(matches!(source("qwen3-8b"), Ok(Source::Sizes(_))));
        assert_eq!(source(&of_function).ok(), Some(Source::Function(file, "make")));
        let shown = folder.path().display().to_string();
        assert_eq!(source(&shown).ok(), Some(Source::Folder(folder.path().to_owned())));
        let unknown = source("qwen9").map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(unknown, Err("there is no model `qwen9`".to_owned()));
    }

    #[test]
    fn of_both_abis_the_stable_one_is_built() {
        assert_eq!(for_torch("2.11.0+cu130", true), "torch:2.11 and cuda:13.0 and abi:stable");
        assert_eq!(for_torch("2.11.0+cu130", false), "torch:2.11 and abi:stable");
    }

    #[test]
    fn a_larger_error_with_kernels_is_refused() {
        let line = |within: bool| json!({ "phase": "numbers", "eager": { "error": 1e-3 }, "kernels": { "error": 3e-3 }, "within": within });
        assert!(refuse_worse("mine", &[line(true), json!({ "phase": "forward" })]).is_ok());
        let error = refuse_worse("mine", &[line(false)]).expect_err("an error").to_string();
        assert_eq!(
            error,
            "with the kernels, the results of `mine` are off by 3.00e-3 of their norm from float32, and without them by 1.00e-3"
        );
    }

    #[test]
    fn what_the_process_says_is_read() {
        let read = |text: &str| serde_json::from_str::<Said>(text).ok();
        assert!(matches!(read(r#"{"said": "making it"}"#), Some(Said::Text { .. })));
        assert!(matches!(read(r#"{"refused": "no", "help": "do"}"#), Some(Said::Refused { .. })));
        assert!(matches!(
            read(r#"{"line": {"phase": "numbers"}, "cached": true}"#),
            Some(Said::Line { cached: true, .. })
        ));
        assert!(read("Loading checkpoint shards").is_none());
    }
}
