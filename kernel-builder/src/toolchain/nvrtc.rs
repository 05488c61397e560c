//! NVIDIA's compiler as a library, with the headers that device code includes.
//!
//! Owns: where it is looked for, and in which order. Never: loads it.
//!
//! An installed toolkit is taken first, then what an installed torch brought with it, then wheels of the index. Where
//! the library is newer than the GPU's driver does not matter: machine code is made for one architecture.

use std::path::{Path, PathBuf};

use super::error::ToolchainError;
use super::fetch::{self, Request};
use super::index::Target;
use super::interpreter::{self, Interpreter, Question};
use super::pins;
use super::state;
use super::supply::{self};
use super::system;
use super::taking::WheelCollector;
use crate::base::digest::DigestBuilder;
use crate::base::files;
use crate::base::session::Session;

/// The release whose wheels are fetched.
pub(super) const RELEASE: &str = "13.0";
/// Folders of a toolkit that hold libraries.
const LIBRARIES: [&str; 3] = ["lib64", "targets/x86_64-linux/lib", "lib"];

/// A library with its headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvrtcKit {
    /// `libnvrtc.so...`.
    pub library: PathBuf,
    /// `libnvrtc-builtins.so...`, which the library looks for by name.
    pub builtins: Option<PathBuf>,
    /// Folders to search for headers, in order.
    pub include: Vec<PathBuf>,
    /// Identity of all of it, hexadecimal.
    pub id: String,
}

/// Finds the compiler, or fetches it.
///
/// # Errors
/// It is nowhere, and the index cannot be reached.
pub fn obtain(session: &Session) -> Result<NvrtcKit, ToolchainError> {
    if let Some(kit) = installed() {
        return Ok(kit);
    }
    let python = interpreter::active(session, Question::Identity)?;
    match beside_torch(&python) {
        Some(kit) => Ok(kit),
        None => from_wheels(session, &python),
    }
}

fn installed() -> Option<NvrtcKit> {
    let nvcc = system::real(&system::find_nvcc()?);
    let root = nvcc.parent()?.parent()?;
    LIBRARIES.iter().find_map(|folder| kit(&root.join(folder), vec![root.join("include")]))
}

/// torch for CUDA 13 has the library and all headers in one folder.
fn beside_torch(python: &Interpreter) -> Option<NvrtcKit> {
    let site = python.has_torch()?.parent()?.to_owned();
    let root = site.join("nvidia/cu13");
    let include = root.join("include");
    files::exists(&include.join("cuda_fp16.h")).then(|| kit(&root.join("lib"), vec![include]))?
}

fn from_wheels(session: &Session, python: &Interpreter) -> Result<NvrtcKit, ToolchainError> {
    supply::in_use(session);
    let taking = WheelCollector::unlocked(session);
    let pins = pins::load();
    let cuda = pins.cuda(RELEASE)?;
    let library = cuda.nvrtc.clone().expect("the table has the library for this release: tested below");
    let headers = cuda.wheels.iter().filter(|part| part.take.iter().all(|take| !take.ends_with("/cu13/")));
    let mut requests = vec![Request { part: library, why: "the CUDA compiler as a library" }];
    requests.extend(headers.map(|part| Request { part: part.clone(), why: "CUDA headers" }));
    let stored = fetch::obtain(&taking, python, Target::Machine, &requests)?;
    let include = stored.iter().skip(1).map(|stored| stored.files.join("nvidia/cu13/include")).collect();
    let folder = stored.first().map(|stored| stored.files.join("nvidia/cu13/lib")).unwrap_or_default();
    kit(&folder, include).ok_or_else(|| ToolchainError::UnknownPart {
        name: "libnvrtc.so".to_owned(),
        version: RELEASE.to_owned(),
        known: String::new(),
    })
}

/// What lies in these folders; nothing where the library does not.
fn kit(libraries: &Path, include: Vec<PathBuf>) -> Option<NvrtcKit> {
    let names = files::walk(libraries, |_| false).unwrap_or_default();
    let names: Vec<String> = names.iter().map(|name| name.display().to_string()).collect();
    // The longest name is the file itself; the shorter ones are links to it.
    let named = |prefix: &str| {
        let mine =
            |name: &&String| name.starts_with(prefix) && !name.contains(".alt.") && !name.ends_with(".a");
        let longest = names.iter().filter(mine).max_by_key(|name| name.len());
        longest.map(|name| libraries.join(name))
    };
    let (library, builtins) = (named("libnvrtc.so")?, named("libnvrtc-builtins.so"));
    let beside = include.iter().map(|folder| folder.join("cccl"));
    let include: Vec<PathBuf> =
        include.iter().cloned().chain(beside).filter(|folder| files::is_dir(folder)).collect();
    let watched = [Some(library.clone()), builtins.clone()].into_iter().flatten();
    let watched = watched.chain(include.iter().map(|folder| folder.join("cuda_bf16.h")));
    let id = watched.fold(DigestBuilder::new("nvrtc"), |id, path| {
        id.field("file", format!("{:?}", state::stamp_of(&path)))
    });
    Some(NvrtcKit { library, builtins, include, id: id.finish().short(32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_in_the_table() {
        let pins = pins::load();
        let part = pins.cuda(RELEASE).unwrap().nvrtc.clone().unwrap();
        assert!(
            part.holds("nvidia/cu13/lib/libnvrtc.so.13")
                && part.holds("nvidia/cu13/lib/libnvrtc-builtins.so.13.0")
        );
        assert!(!part.holds("nvidia/cu13/lib/libnvrtc.alt.so.13"));
    }

    #[test]
    fn the_file_is_taken_and_not_its_links() {
        let folder = files::scratch().unwrap();
        for name in [
            "libnvrtc.so",
            "libnvrtc.so.13",
            "libnvrtc.so.13.0.88",
            "libnvrtc.alt.so.13.0.88",
            "libnvrtc_static.a",
        ] {
            files::write(&folder.path().join(name), "").unwrap();
        }
        let found = kit(folder.path(), vec![folder.path().to_owned()]).unwrap();
        assert_eq!(found.library, folder.path().join("libnvrtc.so.13.0.88"));
        assert_eq!((found.builtins, found.include), (None, vec![folder.path().to_owned()]));
        assert_eq!(kit(&folder.path().join("nowhere"), vec![]), None);
    }
}
