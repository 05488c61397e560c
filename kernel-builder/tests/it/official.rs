//! What Hugging Face's own parser says to our files, where a Python with the package `kernels` is there.
//!
//! Owns: the official parser as a child process, one answer a line. Never: judges an answer.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use kernel_plan::diagnostic::{Severity, SourceFile};
use kernel_plan::spec::build::{BuildSpec, KernelPin};
use kernel_plan::spec::parse_build;
use kernel_plan::units::{BackendId, PythonDependency};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::sandbox::{Sandbox, finish};

mod corpus;
mod generated;
mod mutated;
mod updated;

/// A Python that imports `kernels`: KERNELWRIGHT_PYTHON, else python3. With `None` it was said why the test skips.
///
/// # Panics
/// There is none, and KERNELWRIGHT_REQUIRE_OFFICIAL is set.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("KERNELWRIGHT_PYTHON").map(PathBuf::from);
    let candidates = named.into_iter().chain([PathBuf::from("python3")]);
    let found = candidates.into_iter().find(|python| {
        let mut command = Command::new(python);
        command.args(["-c", "import kernels._rust"]);
        command.output().is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        let reason = "no Python imports `kernels`; set KERNELWRIGHT_PYTHON to one that does";
        assert!(std::env::var_os("KERNELWRIGHT_REQUIRE_OFFICIAL").is_none(), "{reason}");
        eprintln!("skipped: {reason}");
    }
    found
}

/// What a build.toml means, as far as the official parser tells it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Meaning {
    /// `general.backends`, as written.
    backends: Vec<String>,
    /// For every backend that exists, the kernels that a variant for it depends on.
    kernels: BTreeMap<String, Vec<Pinned>>,
}

/// A kernel of the hub with what it is pinned to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Pinned {
    repo: String,
    version: Option<u64>,
    revision: Option<String>,
}

/// One line of the child: the meaning, or the error.
#[derive(Debug, Deserialize)]
struct Answer {
    meaning: Option<Meaning>,
    error: Option<String>,
}

/// The official parser, one process for many texts.
struct Official {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Official {
    /// Says what its `Build` has, then reads a text as JSON from each line and answers with all of that.
    const PROGRAM: &str = "
import json, pathlib, sys, tempfile
from kernels._rust import Backend, Build, General, KernelVersion

def pinned(depend):
    version = depend.version
    numbered = isinstance(version, KernelVersion.Version)
    return {
        'repo': depend.repo_id,
        'version': version.version if numbered else None,
        'revision': None if numbered else version.revision,
    }

def public(kind):
    return [name for name in dir(kind) if not name.startswith('_')]

print(json.dumps(public(Build) + public(General)), flush=True)
names = ['cann', 'cpu', 'cuda', 'metal', 'neuron', 'rocm', 'tpu', 'xpu']
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / 'build.toml'
    for line in sys.stdin:
        path.write_bytes(json.loads(line).encode())
        try:
            build = Build.open(folder)
        except ValueError as error:
            answer = {'error': str(error)}
        else:
            kernels = {
                name: [pinned(depend) for depend in build.all_kernel_depends(Backend.from_str(name))]
                for name in names
            }
            answer = {'meaning': {'backends': [str(b) for b in build.general.backends], 'kernels': kernels}}
        print(json.dumps(answer), flush=True)
";

    /// Starts it. `None`: there is no such Python here, and that was said.
    fn start() -> Option<Self> {
        let mut command = Command::new(python()?);
        // It warns of every file of edition 4 on standard error.
        command
            .args(["-c", Self::PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the Python that just ran starts");
        let questions = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut official = Self { child, questions, answers };
        let public: Vec<String> = official.line();
        assert_eq!(
            public,
            ["all_kernel_depends", "general", "open", "backends"],
            "another version of `kernels` tells more or less: compare that, too"
        );
        Some(official)
    }

    /// What it says to a text.
    fn read(&mut self, text: &str) -> Result<Meaning, String> {
        let question = serde_json::to_string(text).expect("a string is JSON");
        writeln!(self.questions, "{question}").expect("the official parser listens");
        let answer: Answer = self.line();
        answer.meaning.ok_or_else(|| answer.error.unwrap_or_default())
    }

    fn line<T: DeserializeOwned>(&mut self) -> T {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the official parser answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"))
    }
}

impl Drop for Official {
    fn drop(&mut self) {
        // A test that fails must not leave it behind; that it has ended already is no error.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What our parser says to a text: the meaning, or the codes of its errors with their messages.
fn ours(text: &str) -> Result<Meaning, Vec<(&'static str, String)>> {
    let (spec, problems) = parse_build(SourceFile::new("build.toml", text));
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    let errors: Vec<_> = errors.map(|problem| (problem.code, problem.message.clone())).collect();
    match spec {
        Some(spec) if errors.is_empty() => Ok(meaning(&spec)),
        _ => Err(errors),
    }
}

fn meaning(spec: &BuildSpec) -> Meaning {
    let backends = spec.general.backends.iter().map(|backend| backend.to_string()).collect();
    let kernels = BackendId::ALL.iter().map(|backend| {
        let depends = spec.general.kernel_depends_of(*backend).map(|depend| Pinned {
            repo: depend.repo_id.to_string(),
            version: match &depend.pin {
                KernelPin::Version(version) => Some(*version),
                KernelPin::Revision(_) => None,
            },
            revision: match &depend.pin {
                KernelPin::Version(_) => None,
                KernelPin::Revision(revision) => Some(revision.to_string()),
            },
        });
        (backend.to_string(), depends.collect())
    });
    Meaning { backends, kernels: kernels.collect() }
}

/// How the two parsers differ on a text, in words; `None`: they agree, or ours is stricter by `named` codes alone.
fn difference(official: &mut Official, text: &str, named: &[&str]) -> Option<String> {
    match (official.read(text), ours(text)) {
        (Ok(theirs), Ok(ours)) if theirs == ours => None,
        (Ok(theirs), Ok(ours)) => Some(format!("another meaning\nofficial: {theirs:?}\nours:     {ours:?}")),
        (Err(_), Err(errors)) if !errors.is_empty() => None,
        (Err(error), Ok(_)) => Some(format!("refused by the official parser alone: {error}")),
        (Ok(_), Err(errors)) => {
            let unnamed: Vec<_> = errors.iter().filter(|(code, _)| !named.contains(code)).collect();
            (errors.is_empty() || !unnamed.is_empty()).then(|| format!("refused by ours alone: {unnamed:?}"))
        }
        (Err(error), Err(_)) => Some(format!("ours gives neither a spec nor a problem; official: {error}")),
    }
}

#[test]
fn the_official_parser_accepts_every_template() {
    let Some(mut official) = Official::start() else { return };
    let sandbox = Sandbox::new();
    for (name, backends) in sandbox.projects_of_every_template() {
        let meaning = official.read(&sandbox.read(&format!("work/{name}/build.toml")));
        let mut found = meaning.unwrap_or_else(|error| panic!("{name}: {error}")).backends;
        found.sort();
        assert_eq!(found.join(","), backends, "{name}");
    }
}

#[test]
fn the_client_knows_the_python_packages_that_we_allow() {
    /// Prints the names for all backends, then a list by backend.
    const READ: &str = "
import json, pathlib, kernels
known = json.loads((pathlib.Path(kernels.__file__).parent / 'python_depends.json').read_text())
print(json.dumps({'general': list(known['general']), **{k: list(v) for k, v in known['backends'].items()}}))
";
    let Some(python) = python() else { return };
    let read = finish(Command::new(python).args(["-c", READ]));
    let known: BTreeMap<String, Vec<String>> =
        serde_json::from_str(&read.stdout).unwrap_or_else(|error| panic!("{error}: {}", read.stderr));
    let allowed = |backend| -> Vec<String> {
        let mut names: Vec<_> = PythonDependency::allowed(backend).map(|one| one.to_string()).collect();
        names.sort();
        names
    };
    let sorted = |section: &str| {
        let mut names = known.get(section).cloned().unwrap_or_default();
        names.sort();
        names
    };
    assert_eq!(allowed(None), sorted("general"));
    for backend in BackendId::ALL {
        assert_eq!(allowed(Some(*backend)), sorted(backend.as_str()), "{backend}");
    }
}
