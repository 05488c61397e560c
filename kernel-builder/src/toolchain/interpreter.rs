//! The active Python: which one it is and what it imports.
//!
//! Owns: finding it, asking it, remembering the answer while nothing changed.
//! Never: installs anything into it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::plan::CommandLine;
use serde::{Deserialize, Serialize};

use super::error::ToolchainError;
use super::state;
use crate::base::causes::Cause;
use crate::base::digest::DigestBuilder;
use crate::base::process::{self, Ending, Limits};
use crate::base::session::Session;
use crate::base::{env, files};

/// Printed by the interpreter itself; `full` also imports torch, which takes seconds.
const PROBE: &str = r#"
import importlib.util, json, sys, sysconfig, platform
def spec(name):
    try:
        return importlib.util.find_spec(name)
    except Exception:
        return None
out = {
    "program": sys.executable,
    "version": "%d.%d.%d" % sys.version_info[:3],
    "tag": "cp%d%d-%s" % (sys.version_info[0], sys.version_info[1], platform.machine()),
    "headers": sysconfig.get_path("include"),
    "sites": [entry for entry in sys.path if entry],
    "torch": None, "torch_dir": None, "numpy": spec("numpy") is not None, "client": None, "tvm_ffi": None,
    "why": "",
}
if spec("torch") is None:
    out["why"] = "torch is not installed there"
elif sys.argv[1] == "full":
    try:
        import torch
        out["torch"] = str(torch.__version__)
        out["torch_dir"] = torch.__path__[0]
    except Exception as error:
        out["why"] = "torch does not import: %s" % error
    import importlib.metadata
    for key, module, package in (("client", "kernels", "kernels"), ("tvm_ffi", "tvm_ffi", "apache-tvm-ffi")):
        try:
            out[key] = importlib.metadata.version(package) if spec(module) is not None else None
        except Exception:
            pass
print("\n" + json.dumps(out))
"#;

/// What is asked of an interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Which interpreter it is: milliseconds.
    Identity,
    /// Whether it imports torch too: seconds, once.
    Packages,
}

/// An interpreter as it described itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Interpreter {
    /// `sys.executable`: the program behind a version manager's shim.
    pub(super) program: PathBuf,
    /// `3.11.7`.
    pub(super) version: String,
    /// What wheels it takes: `cp311-x86_64`.
    pub(super) tag: String,
    /// Where its C headers would be.
    pub(super) headers: PathBuf,
    /// Where it looks for packages.
    sites: Vec<PathBuf>,
    /// `torch.__version__`, when it imports.
    pub(super) torch: Option<String>,
    /// The folder of the torch package.
    pub(super) torch_dir: Option<PathBuf>,
    /// Whether numpy is there.
    pub(super) numpy: bool,
    /// The version of the `kernels` client, when it is there.
    pub(super) client: Option<String>,
    /// The version of tvm_ffi, when it is there.
    #[serde(default)]
    pub(super) tvm_ffi: Option<String>,
    /// Why torch does not import.
    pub(super) why: String,
}

impl Interpreter {
    /// The folder of the torch package, whether or not it imports.
    pub(super) fn has_torch(&self) -> Option<PathBuf> {
        self.sites
            .iter()
            .map(|site| site.join("torch"))
            .find(|folder| files::exists(&folder.join("version.py")))
    }
}

/// An answer with the times of the folders that it depends on.
#[derive(Serialize, Deserialize)]
struct Remembered {
    interpreter: Interpreter,
    stamps: Vec<(PathBuf, u64, i64)>,
}

/// The active interpreter: KERNELWRIGHT_PYTHON, else `python3`, else `python`.
pub(super) fn active(session: &Session, question: Question) -> Result<Interpreter, ToolchainError> {
    let found = find()?;
    let file = session.cache.join("state").join(format!("python-{}.json", key(&found, question)));
    if let Some(known) = state::load::<Remembered>(&file)
        && known.stamps.iter().all(|stamp| state::stamp_of(&stamp.0).as_ref() == Some(stamp))
    {
        tracing::debug!(target: "cache", "{} as it described itself earlier: hit", found.display());
        return Ok(known.interpreter);
    }
    let interpreter = ask(&found, question)?;
    let watched = interpreter.sites.iter().chain([&found, &interpreter.program]);
    let stamps = watched.filter_map(|path| state::stamp_of(path)).collect();
    state::save(&file, &Remembered { interpreter: interpreter.clone(), stamps })?;
    Ok(interpreter)
}

/// Where the active interpreter is, without starting it.
pub(super) fn find() -> Result<PathBuf, ToolchainError> {
    if let Some(asked) = env::text(env::PYTHON) {
        tracing::debug!(target: "toolchain", "Python is {asked}, by {}", env::PYTHON);
        return process::find(&asked).ok_or(ToolchainError::NoSuchPython { asked });
    }
    ["python3", "python"].into_iter().find_map(process::find).ok_or(ToolchainError::NoPython)
}

fn key(found: &Path, question: Question) -> String {
    let place = if is_script(found) { env::current_dir() } else { PathBuf::new() };
    DigestBuilder::new("python-probe")
        .field("program", found.as_os_str().as_encoded_bytes())
        // The shim of a version manager chooses by the folder it is started in.
        .field("place", place.as_os_str().as_encoded_bytes())
        .field("question", format!("{question:?}"))
        .field("probe", PROBE)
        .finish()
        .short(16)
}

fn is_script(program: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 2];
    files::open(program).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && start == *b"#!"
}

fn ask(program: &Path, question: Question) -> Result<Interpreter, ToolchainError> {
    let mode = if question == Question::Packages { "full" } else { "light" };
    let line = CommandLine::new(program).args(["-I", "-c", PROBE, mode]);
    let done = process::run(&line, Limits::wall(Duration::from_secs(180)))?;
    let broken = |cause: Cause| ToolchainError::BrokenPython { program: program.to_owned(), cause };
    if done.ending == Ending::Deadline {
        return Err(broken("no answer in 180 s".into()));
    }
    let text = done.stdout_text();
    let Some(answer) = text.lines().rev().find(|line| line.starts_with('{')) else {
        return Err(broken(state::last_words(&done).into()));
    };
    serde_json::from_str(answer).map_err(|error| broken(error.into()))
}
