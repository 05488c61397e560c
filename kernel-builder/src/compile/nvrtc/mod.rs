//! Device code alone, compiled by NVRTC or by nvcc: a text becomes machine code for one architecture.
//!
//! Owns: the processes that compile, the options, the cache by content. Never: decides what is compiled, or by which.
//!
//! A source is compiled once for each architecture, set of macros and set of kernels; the machine code lies in the cache
//! under the digest of all that it depends on, the compiler and the headers beside the source included.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kernel_plan::plan::CommandLine;
use serde::{Deserialize, Serialize};

use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};
use crate::base::process::{Dialogue, DialogueEvent};
use crate::base::{confine, env};
use crate::toolchain::nvcc::NvccKit;
use crate::toolchain::nvrtc::NvrtcKit;

mod by_nvcc;
mod code;
mod confined;
mod directives;
mod error;
mod headers;
mod inside;
mod library;
mod seen;
mod unit;
mod worker;

pub(crate) use code::Code;
pub use confined::{ROLE as CONFINED, run as run_confined};
pub use error::NvrtcError;
use inside::Folders;
use seen::DependencySnapshot;
use unit::PATIENCE;
pub use unit::Tool;
pub(crate) use unit::{Cubin, Form, Source, Unit};
use worker::{CompileAnswer, Job, Opening};
pub use worker::{ROLE, serve};

/// A folder of the scratch folder with nothing in it.
const EMPTY: &str = "empty";
/// Sources that are remembered at a time.
const MOST: usize = 256;
/// Folders of the cache that hold toolkits.
const TOOLKITS: [&str; 2] = ["wheels", "cuda"];
/// Headers that device code names and NVRTC does not have: those of the C++ library, forwarded to CUDA's, and what
/// device code takes from the driver's.
const LIBRARY: [(&str, &str); 11] = [
    ("array", include_str!("../../../resources/nvrtc/array")),
    ("climits", include_str!("../../../resources/nvrtc/climits")),
    ("cmath", include_str!("../../../resources/nvrtc/cmath")),
    ("cstddef", include_str!("../../../resources/nvrtc/cstddef")),
    ("cstdint", include_str!("../../../resources/nvrtc/cstdint")),
    ("cuda.h", include_str!("../../../resources/nvrtc/cuda.h")),
    ("limits", include_str!("../../../resources/nvrtc/limits")),
    ("stddef.h", include_str!("../../../resources/nvrtc/stddef.h")),
    ("stdint.h", include_str!("../../../resources/nvrtc/stdint.h")),
    ("type_traits", include_str!("../../../resources/nvrtc/type_traits")),
    ("utility", include_str!("../../../resources/nvrtc/utility")),
];

/// A compiler that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kit {
    /// The library.
    Nvrtc(NvrtcKit),
    /// The driver.
    Nvcc(NvccKit),
}

impl Kit {
    /// Its folders of headers.
    fn include(&self) -> &[PathBuf] {
        match self {
            Self::Nvrtc(kit) => &kit.include,
            Self::Nvcc(kit) => &kit.include,
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::Nvrtc(kit) => &kit.id,
            Self::Nvcc(kit) => &kit.id,
        }
    }
}

/// Processes that compile, as many as ask at a time.
pub(crate) struct Compiler {
    kit: Kit,
    folder: PathBuf,
    /// Folder with the parts of toolkits.
    toolkits: Vec<PathBuf>,
    /// Whether the kernel keeps compilers to the folders that they may read.
    confines: bool,
    /// Holds what the processes keep between two texts: precompiled headers.
    scratch: tempfile::TempDir,
    idle: Mutex<Vec<Process>>,
    started: Mutex<u32>,
    /// The files of sources that were compiled.
    seen: Mutex<BTreeMap<Digest, Arc<DependencySnapshot>>>,
}

/// One process with its precompiled headers: processes that share a folder wait for each other.
struct Process {
    dialogue: Dialogue,
    /// The files that it may read.
    readable: Vec<PathBuf>,
    headers: PathBuf,
    /// Whether the library knows precompiled headers.
    precompiles: bool,
    /// The options that it was asked with, and how often.
    asked: BTreeMap<Digest, u32>,
}

#[derive(Serialize, Deserialize)]
struct CachedNames {
    names: Vec<String>,
    log: String,
}

impl Compiler {
    /// A compiler that keeps machine code below `cache`; no process runs before there is something to do.
    ///
    /// # Errors
    /// When nothing can be written.
    pub(crate) fn new(kit: Kit, cache: &Path) -> Result<Self, NvrtcError> {
        let scratch = files::scratch()?;
        for (name, text) in LIBRARY {
            files::write(&scratch.path().join("include").join(name), text)?;
        }
        // No source is looked for where this program was started.
        files::create_dirs(&scratch.path().join(EMPTY))?;
        let folder = cache.join("cubin");
        let toolkits = TOOLKITS.iter().map(|name| cache.join(name)).collect();
        let confines = confine::is_possible();
        Ok(Self {
            kit,
            folder,
            toolkits,
            confines,
            scratch,
            idle: Mutex::default(),
            started: Mutex::default(),
            seen: Mutex::default(),
        })
    }

    /// Which program it is.
    pub(crate) fn tool(&self) -> Tool {
        match &self.kit {
            Kit::Nvrtc(_) => Tool::Nvrtc,
            Kit::Nvcc(_) => Tool::Nvcc,
        }
    }

    /// Which program it is, and which one of them.
    pub(crate) fn id(&self) -> String {
        format!("{} {}", self.tool().name(), self.kit.id().get(..12).unwrap_or(self.kit.id()))
    }

    /// Compiles a unit, or finds it in the cache. Callable from many threads; each has a process of its own meanwhile.
    ///
    /// # Errors
    /// What the compiler says against the source; that it crashed or did not end; that it cannot be loaded.
    pub(crate) fn compile(&self, unit: &Unit) -> Result<Cubin, NvrtcError> {
        let seen = self.dependencies(&unit.source)?;
        if !seen.refused.is_empty() {
            return Err(NvrtcError::Rejected {
                name: unit.source.name.clone(),
                status: "includes a file outside of the project and the toolkit".to_owned(),
                log: seen.refused.join("\n"),
            });
        }
        let digest = self.key(unit, &seen);
        let path = self.folder.join(format!("{digest}.cubin"));
        let beside = path.with_extension("json");
        if let Some(CachedNames { names, log }) = read_names(&path, &beside) {
            files::used(&path);
            return Ok(Cubin { path, digest, names, log, seconds: None });
        }
        let done = match &self.kit {
            Kit::Nvrtc(kit) => self.by_library(kit, unit, &path)?,
            Kit::Nvcc(kit) => by_nvcc::compile(kit, unit, &path, self.confinement(unit))?,
        };
        if let Some(status) = done.failed {
            return Err(NvrtcError::Rejected { name: unit.source.name.clone(), status, log: done.log });
        }
        let kept = CachedNames { names: done.names.clone(), log: done.log.clone() };
        files::write(&beside, serde_json::to_vec(&kept).unwrap_or_default())?;
        Ok(Cubin { path, digest, names: done.names, log: done.log, seconds: Some(done.seconds) })
    }

    fn by_library(&self, kit: &NvrtcKit, unit: &Unit, cubin: &Path) -> Result<CompileAnswer, NvrtcError> {
        let mut process = self.take(kit, self.readable(unit))?;
        let job = Job {
            text: unit.source.text.clone(),
            name: unit.source.name.clone(),
            options: process.with_headers(self.options(kit, unit))?,
            expressions: unit.expressions.clone(),
            form: unit.form,
            // In a folder that it may read: a file is written through a handle that reads, too.
            cubin: process.headers.join("made.cubin"),
        };
        let done = process.ask(&job, unit)?;
        if done.failed.is_none() {
            files::write(cubin, files::read(&job.cubin)?)?;
        }
        self.give_back(process);
        Ok(done)
    }

    fn options(&self, kit: &NvrtcKit, unit: &Unit) -> Vec<String> {
        let mut options = vec![format!("--gpu-architecture={}", unit.form.architecture(&unit.arch))];
        options.extend(Tool::Nvrtc.options().map(str::to_owned));
        options.extend(unit.defines.iter().map(|(name, value)| format!("--define-macro={name}={value}")));
        let own = self.scratch.path().join("include");
        let folders = unit.source.include.iter().chain([&own]).chain(&kit.include);
        options.extend(folders.map(|folder| format!("--include-path={}", folder.display())));
        options
    }

    /// Paths that a compiler of this unit may read, besides the system's files.
    fn readable(&self, unit: &Unit) -> Vec<PathBuf> {
        let own = unit.source.root.iter().chain(&unit.source.include);
        own.chain(self.kit.include())
            .chain(&self.toolkits)
            .cloned()
            .chain([self.scratch.path().to_owned()])
            .collect()
    }

    /// The same where it is enforced.
    fn confinement(&self, unit: &Unit) -> Option<Vec<PathBuf>> {
        self.confines.then(|| self.readable(unit))
    }

    /// The digest of everything that the machine code depends on.
    fn key(&self, unit: &Unit, seen: &DependencySnapshot) -> Digest {
        let mut key = DigestBuilder::new("cubin")
            .field("compiler", self.kit.id())
            .field("library", LIBRARY.map(|(_, text)| text).concat())
            .field("options", self.tool().options().concat())
            .field("arch", &unit.arch)
            .field("name", &unit.source.name)
            .field("text", &unit.source.text);
        // Machine code is named as before there was another form.
        if unit.form == Form::Ptx {
            key = key.field("form", "ptx");
        }
        for (name, value) in &unit.defines {
            key = key.field("define", format!("{name}={value}"));
        }
        for expression in &unit.expressions {
            key = key.field("kernel", expression);
        }
        key.field("reads", seen.digest.to_string()).finish()
    }

    fn take(&self, kit: &NvrtcKit, readable: Vec<PathBuf>) -> Result<Process, NvrtcError> {
        {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = idle.iter().rposition(|process| process.readable == readable) {
                return Ok(idle.swap_remove(at));
            }
        }
        let number = {
            let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            *started += 1;
            *started
        };
        let headers = self.scratch.path().join(format!("headers-{number}"));
        files::create_dirs(&headers)?;
        let mut dialogue = Dialogue::start(&self.line(&headers))?;
        let (library, builtins) = (kit.library.clone(), kit.builtins.clone());
        let confined = self.confines.then(|| readable.clone());
        let opening = Opening { library, builtins, readable: confined };
        dialogue.say(&serde_json::to_string(&opening).unwrap_or_default());
        let opened = match dialogue.hear(PATIENCE)? {
            DialogueEvent::Line(line) => {
                let name = kit.library.display().to_string();
                Ok(serde_json::from_str::<CompileAnswer>(&line)
                    .map_err(|cause| NvrtcError::Garbled { name, cause })?)
            }
            DialogueEvent::Silence => Err("it did not answer in time".to_owned()),
            DialogueEvent::Ended(ending) => Err(format!("it {ending} {}", dialogue.stderr_end())),
        };
        if let Ok(CompileAnswer { unconfined: Some(reason), .. }) = opened {
            let problem = format!("failed to confine it: {reason}");
            return Err(NvrtcError::NotStarted { compiler: kit.library.clone(), problem });
        }
        match opened.and_then(|done| done.failed.map_or(Ok(done.version), Err)) {
            Ok(version) => {
                let precompiles = version.is_some_and(|version| version >= PRECOMPILES);
                Ok(Process { dialogue, readable, headers, precompiles, asked: BTreeMap::new() })
            }
            Err(problem) => Err(NvrtcError::Library { library: kit.library.clone(), problem }),
        }
    }

    /// The command of a process that keeps its precompiled headers in `headers`.
    fn line(&self, headers: &Path) -> CommandLine {
        let line = CommandLine::new(env::own_program()).args(["--worker", ROLE]);
        // The library reads its temporary files again, so they must be where it may read.
        line.cwd(self.scratch.path().join(EMPTY)).env("TMPDIR", headers.display().to_string())
    }

    fn give_back(&self, process: Process) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
    }
}

/// The first version that keeps precompiled headers.
const PRECOMPILES: (i32, i32) = (12, 8);

impl Process {
    /// The options, with precompiled headers from the second time on that they are the same: headers are precompiled for
    /// one set of options, and for one that does not come again that would be in vain.
    fn with_headers(&mut self, mut options: Vec<String>) -> Result<Vec<String>, NvrtcError> {
        let digest = Digest::blake3(options.join("\n").as_bytes());
        let asked = self.asked.entry(digest).or_default();
        *asked += 1;
        if self.precompiles && *asked > 1 {
            let folder = self.headers.join(digest.short(16));
            files::create_dirs(&folder)?;
            let folder = format!("--pch-dir={}", folder.display());
            options.extend(["--pch".to_owned(), "--pch-messages=false".to_owned(), folder]);
        }
        Ok(options)
    }

    fn ask(&mut self, job: &Job, unit: &Unit) -> Result<CompileAnswer, NvrtcError> {
        self.dialogue.say(&serde_json::to_string(job).unwrap_or_default());
        match self.dialogue.hear(PATIENCE)? {
            DialogueEvent::Line(line) => serde_json::from_str(&line)
                .map_err(|cause| NvrtcError::Garbled { name: unit.source.name.clone(), cause }),
            DialogueEvent::Silence => {
                Err(NvrtcError::Endless { name: unit.source.name.clone(), seconds: PATIENCE.as_secs() })
            }
            DialogueEvent::Ended(ending) => {
                Err(NvrtcError::Crashed { name: unit.source.name.clone(), ending: ending.to_string() })
            }
        }
    }
}

fn read_names(path: &Path, beside: &Path) -> Option<CachedNames> {
    // The machine code is written first, so where the text is, both are.
    let text = files::read_text(beside).ok().filter(|_| files::exists(path))?;
    serde_json::from_str(&text).ok()
}

impl Compiler {
    /// Looks at the files of a source, or remembers them if they did not change.
    fn dependencies(&self, source: &Source) -> Result<Arc<DependencySnapshot>, FileError> {
        let mut id = DigestBuilder::new("source").field("name", &source.name).field("text", &source.text);
        for folder in source.root.iter().chain(&source.include) {
            id = id.field("folder", folder.as_os_str().as_encoded_bytes());
        }
        let id = id.field("root", if source.root.is_some() { "yes" } else { "no" }).finish();
        let known = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some(seen) = known
            && seen.is_current(source)?
        {
            return Ok(seen);
        }
        let scratch = [self.scratch.path().to_owned(), self.scratch.path().join(EMPTY)];
        let compiler = Folders { toolkit: self.kit.include(), scratch: &scratch };
        let followed = inside::follow(source, compiler);
        let mut refused = followed.outside.clone();
        // The operating system sees to the others, if it can.
        if !self.confines {
            refused.extend(followed.unclear.iter().cloned());
            refused.extend(inside::unclear_macros(source, &followed));
        }
        let seen = Arc::new(DependencySnapshot::new(source, followed, refused)?);
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.clear();
        }
        if seen.is_settled() {
            all.insert(id, Arc::clone(&seen));
        } else {
            all.remove(&id);
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str, root: Option<&Path>) -> Source {
        let (text, name) = (text.to_owned(), "f.cu".to_owned());
        Source {
            text,
            name,
            include: root.into_iter().map(Path::to_owned).collect(),
            root: root.map(Path::to_owned),
        }
    }

    fn unit() -> Unit {
        Unit {
            source: source("extern \"C\" __global__ void f() {}", None),
            defines: vec![("WIDTH".to_owned(), "4".to_owned())],
            arch: "90".to_owned(),
            form: Form::Cubin,
            expressions: vec!["f".to_owned()],
        }
    }

    fn compiler(cache: &Path) -> Compiler {
        let kit =
            NvrtcKit { library: "nowhere.so".into(), builtins: None, include: vec![], id: "1".to_owned() };
        Compiler::new(Kit::Nvrtc(kit), cache).unwrap()
    }

    #[test]
    fn temporary_files_lie_where_the_confined_library_may_read() {
        let folder = files::scratch().unwrap();
        let compiler = compiler(folder.path());
        let headers = compiler.scratch.path().join("headers-1");
        let line = compiler.line(&headers);
        let temporary = Path::new(&line.env["TMPDIR"]);
        assert_eq!(temporary, headers);
        let readable = compiler.readable(&unit());
        assert!(readable.iter().any(|place| temporary.starts_with(place)), "{readable:?}");
    }

    #[test]
    fn whatever_changes_the_code_changes_the_key() {
        let folder = files::scratch().unwrap();
        let compiler = compiler(folder.path());
        let headers = folder.path().join("project");
        files::write(&headers.join("a.cuh"), "one").unwrap();
        files::write(&headers.join("README.md"), "one").unwrap();
        let unit = Unit { source: source("text", Some(&headers)), ..unit() };
        let key_of = |compiler: &Compiler, unit: &Unit| {
            compiler.key(unit, &compiler.dependencies(&unit.source).unwrap())
        };
        let key = key_of(&compiler, &unit);
        let others = [
            Unit { source: source("other", Some(&headers)), ..unit.clone() },
            Unit { arch: "90a".to_owned(), ..unit.clone() },
            Unit { defines: vec![], ..unit.clone() },
            Unit { form: Form::Ptx, ..unit.clone() },
            Unit { expressions: vec!["g".to_owned()], ..unit.clone() },
        ];
        for other in &others {
            assert_ne!(key_of(&compiler, other), key, "{other:?}");
        }
        let nvcc = NvccKit { nvcc: "nvcc".into(), cxx: "g++".into(), include: vec![], id: "1".to_owned() };
        let nvcc = Compiler::new(Kit::Nvcc(nvcc), folder.path()).unwrap();
        assert_ne!(key_of(&nvcc, &unit), key);
        files::write(&headers.join("README.md"), "two").unwrap();
        assert_eq!(key_of(&compiler, &unit), key);
        files::write(&headers.join("a.cuh"), "two").unwrap();
        assert_ne!(key_of(&compiler, &unit), key);
        // A file that only a macro names.
        files::write(&headers.join("table.inc"), "one").unwrap();
        let text = "#define T \"table.inc\"\n#include T\n";
        let unit = Unit { source: source(text, Some(&headers)), ..unit };
        let key = key_of(&compiler, &unit);
        files::write(&headers.join("table.inc"), "two").unwrap();
        assert_ne!(key_of(&compiler, &unit), key);
    }

    #[test]
    fn code_that_names_a_file_of_the_users_is_refused_before_it_is_looked_for() {
        let folder = files::scratch().unwrap();
        let mut compiler = compiler(folder.path());
        let root = folder.path().join("project");
        files::write(&root.join("row.cuh"), "").unwrap();
        let refusal = |compiler: &Compiler, text: &str| {
            let unit = Unit { source: source(text, Some(&root)), ..unit() };
            match compiler.compile(&unit) {
                Err(NvrtcError::Rejected { log, .. }) => Some(log),
                _ => None,
            }
        };
        let log = refusal(&compiler, "#include \"row.cuh\"\n#include \"/etc/passwd\"\n").expect("a refusal");
        assert!(
            log.contains("f.cu(2): error: `#include` of `/etc/passwd`") && !log.contains("root"),
            "{log}"
        );
        let text = "#define NAME \"row.cuh\"\n#include NAME\n";
        compiler.confines = true;
        assert_eq!(refusal(&compiler, text), None, "the kernel sees to it");
        compiler.confines = false;
        assert!(refusal(&compiler, text).is_some_and(|log| log.contains("f.cu(2)")));
    }

    #[test]
    fn what_the_cache_has_needs_no_compiler() {
        let folder = files::scratch().unwrap();
        let compiler = compiler(folder.path());
        let key = compiler.key(&unit(), &compiler.dependencies(&unit().source).unwrap());
        let path = compiler.folder.join(format!("{key}.cubin"));
        files::write(&path, "machine code").unwrap();
        files::write(&path.with_extension("json"), r#"{"names":["f"],"log":""}"#).unwrap();
        let cubin = compiler.compile(&unit()).unwrap();
        assert_eq!((cubin.path, cubin.names, cubin.seconds), (path, vec!["f".to_owned()], None));
    }
}
