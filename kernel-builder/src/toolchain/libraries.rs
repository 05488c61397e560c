//! Header libraries that kernels list under `depends`: from a folder that a person named, else from a wheel.
//!
//! Owns: which is used, and that a folder is the release that it is used for. Never: changes such a folder.

use std::path::{Path, PathBuf};

use kernel_plan::kit::LibraryKit;
use kernel_plan::spec::build::Dependency;
use kernel_plan::units::Version;

use super::error::ToolchainError;
use super::parts;
use super::supply::Supply;
use super::taking::WheelCollector;
use crate::base::digest::DigestBuilder;
use crate::base::files;

/// The folders that a person named.
#[derive(Debug, Clone, Default)]
pub struct Folders {
    /// Each is the CUTLASS that its own `version.h` says.
    pub cutlass: Vec<PathBuf>,
    /// Each is for one entry of `depends`.
    pub named: Vec<(Dependency, PathBuf)>,
}

/// Where a library that no wheel holds is published, and a header that says that a folder is it.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("sycl_tla", "the GitHub repository intel/sycl-tla", "include/cutlass/cutlass.h"),
    ("metal-cpp", "Apple's developer pages on metal-cpp", "Metal/Metal.hpp"),
];

/// The headers of every library in `wanted`.
///
/// # Errors
/// A library is in no wheel and no folder was named for it; a folder is not what it was named for.
pub fn libraries(
    supply: &Supply<'_>,
    wanted: &[Dependency],
    folders: &Folders,
) -> Result<Vec<LibraryKit>, ToolchainError> {
    let cutlass: Vec<Folder> =
        folders.cutlass.iter().map(|folder| Folder::cutlass(folder)).collect::<Result<_, _>>()?;
    let asked: Vec<Version> = wanted.iter().filter_map(|dependency| dependency.cutlass()).collect();
    if let Some(idle) = cutlass.iter().find(|folder| !asked.contains(&folder.line))
        && !asked.is_empty()
    {
        let asked: Vec<String> = asked.iter().map(|version| format!("CUTLASS {version}")).collect();
        return Err(ToolchainError::WrongLibrary {
            folder: idle.path.clone(),
            wanted: asked.join(" or "),
            problem: format!("its include/cutlass/version.h says {}", idle.version),
        });
    }
    let taking = supply.taking();
    let of = |dependency: &Dependency| library(&taking, *dependency, &cutlass, folders);
    let kits = wanted.iter().map(of).filter_map(Result::transpose).collect::<Result<_, _>>()?;
    supply.settle(&taking.locked_wheels())?;
    Ok(kits)
}

/// One library; nothing for `torch`, which comes with the framework.
fn library(
    session: &WheelCollector<'_>,
    dependency: Dependency,
    cutlass: &[Folder],
    folders: &Folders,
) -> Result<Option<LibraryKit>, ToolchainError> {
    let name = dependency.as_str();
    let named = folders.named.iter().find(|(of, _)| *of == dependency).map(|(_, folder)| folder);
    if let Some(line) = dependency.cutlass() {
        let found = match named {
            Some(folder) => Some(Folder::cutlass(folder)?),
            None => cutlass.iter().find(|folder| folder.line == line).cloned(),
        };
        let Some(folder) = found else {
            let headers = parts::obtain(session, "cutlass", &line.to_string())?;
            let parts::Headers { version, include, id } = headers;
            return Ok(Some(LibraryKit { name: name.to_owned(), version, include, id }));
        };
        if folder.line != line {
            return Err(ToolchainError::WrongLibrary {
                wanted: format!("CUTLASS {line}"),
                problem: format!("its include/cutlass/version.h says {}", folder.version),
                folder: folder.path,
            });
        }
        let include = ["include", "tools/util/include"].map(|place| folder.path.join(place));
        let include = include.into_iter().filter(|folder| files::is_dir(folder)).collect();
        return identified(name, folder.version, include).map(Some);
    }
    let Some((_, from, marker)) = ELSEWHERE.iter().find(|(library, _, _)| *library == name) else {
        return Ok(None);
    };
    let Some(folder) = named else {
        return Err(ToolchainError::NoLibrary { name: name.to_owned(), from: (*from).to_owned() });
    };
    if !files::exists(&folder.join(marker)) {
        return Err(ToolchainError::WrongLibrary {
            folder: folder.clone(),
            wanted: name.to_owned(),
            problem: format!("{marker} is missing"),
        });
    }
    let include = if marker.starts_with("include/") {
        ["include", "tools/util/include"].map(|place| folder.join(place)).to_vec()
    } else {
        vec![folder.clone()]
    };
    let include = include.into_iter().filter(|folder| files::is_dir(folder)).collect();
    identified(name, String::new(), include).map(Some)
}

/// A kit of folders that may change at any time: its identity is that of every header.
fn identified(name: &str, version: String, include: Vec<PathBuf>) -> Result<LibraryKit, ToolchainError> {
    let mut id = DigestBuilder::new("library").field("name", name);
    for folder in &include {
        for file in files::walk(folder, |_| true)? {
            id = id.field(&file.display().to_string(), files::read(&folder.join(&file))?);
        }
    }
    Ok(LibraryKit { name: name.to_owned(), version, include, id: id.finish().to_string() })
}

/// A folder with a CUTLASS.
#[derive(Debug, Clone)]
struct Folder {
    path: PathBuf,
    line: Version,
    version: String,
}

impl Folder {
    fn cutlass(path: &Path) -> Result<Self, ToolchainError> {
        let path = crate::base::env::absolute(path);
        let wrong = |problem: &str| ToolchainError::WrongLibrary {
            folder: path.clone(),
            wanted: "CUTLASS".to_owned(),
            problem: problem.to_owned(),
        };
        let text = files::read_text(&path.join("include/cutlass/version.h"))
            .map_err(|_| wrong("failed to read its include/cutlass/version.h"))?;
        let (line, version) =
            release(&text).ok_or_else(|| wrong("its include/cutlass/version.h has no version"))?;
        Ok(Self { path, line, version })
    }
}

/// The release line and the version that CUTLASS's `version.h` defines.
fn release(text: &str) -> Option<(Version, String)> {
    let number = |name: &str| -> Option<u32> {
        let mut words = text.lines().map(str::split_whitespace).find_map(|mut words| {
            (words.next() == Some("#define") && words.next() == Some(name)).then_some(words)
        })?;
        words.next()?.parse().ok()
    };
    let (major, minor) = (number("CUTLASS_MAJOR")?, number("CUTLASS_MINOR")?);
    let patch = number("CUTLASS_PATCH")?;
    Some((Version::new(major, minor), format!("{major}.{minor}.{patch}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::report::{MessageFormat, Report};
    use crate::base::session::Session;

    const HEADER: &str = "#define CUTLASS_MAJOR 3\n#define CUTLASS_MINOR 9\n#define CUTLASS_PATCH 2\n";

    #[test]
    fn reads_the_version_of_cutlass() {
        assert_eq!(release(HEADER), Some((Version::new(3, 9), "3.9.2".to_owned())));
        assert_eq!(release("#define CUTLASS_MAJOR 3\n"), None);
    }

    fn dependency(name: &str) -> Dependency {
        name.parse().unwrap()
    }

    /// What `wanted` comes to, with nothing in the cache and no network.
    fn found(wanted: &[&str], folders: &Folders, cache: &Path) -> Result<Vec<LibraryKit>, ToolchainError> {
        let report = Report::new(MessageFormat::Human, true);
        let session = Session { report, cache: cache.to_owned(), offline: true, jobs: 1 };
        let wanted: Vec<Dependency> = wanted.iter().map(|name| dependency(name)).collect();
        libraries(&Supply::without_project(&session), &wanted, folders)
    }

    #[test]
    fn a_folder_is_the_release_that_it_says() {
        let scratch = files::scratch().unwrap();
        let folder = scratch.path().join("cutlass");
        files::write(&folder.join("include/cutlass/version.h"), HEADER).unwrap();
        let folders = Folders { cutlass: vec![folder.clone()], named: Vec::new() };
        let kits = found(&["torch", "cutlass_3_9"], &folders, scratch.path()).unwrap();
        assert_eq!(kits.len(), 1);
        assert_eq!((kits[0].version.as_str(), kits[0].include.len()), ("3.9.2", 1));
        files::write(&folder.join("tools/util/include/a.h"), "").unwrap();
        let again = found(&["cutlass_3_9"], &folders, scratch.path()).unwrap();
        assert_eq!(again[0].include.len(), 2);
        assert_ne!(again[0].id, kits[0].id);
        let other = found(&["cutlass_4_0"], &folders, scratch.path()).unwrap_err().to_string();
        assert!(other.contains("is not CUTLASS 4.0") && other.contains("says 3.9.2"), "{other}");
        let named = Folders { named: vec![(dependency("cutlass_2_10"), folder)], ..Folders::default() };
        let other = found(&["cutlass_2_10"], &named, scratch.path()).unwrap_err().to_string();
        assert!(other.contains("is not CUTLASS 2.10"), "{other}");
    }

    #[test]
    fn what_no_wheel_holds_is_asked_for() {
        let scratch = files::scratch().unwrap();
        let none = Folders::default();
        let missing = found(&["cutlass_4_0"], &none, scratch.path()).unwrap_err().to_string();
        assert!(missing.contains("cutlass 4.0") && missing.contains("4.4, 4.5"), "{missing}");
        let missing = found(&["metal-cpp"], &none, scratch.path()).unwrap_err();
        assert!(format!("{:?}", miette::Report::new(missing)).contains("--dependency-dir metal-cpp=DIR"));
        let metal = scratch.path().join("metal-cpp");
        let folders = Folders { named: vec![(dependency("metal-cpp"), metal.clone())], ..none };
        assert!(found(&["metal-cpp"], &folders, scratch.path()).is_err());
        files::write(&metal.join("Metal/Metal.hpp"), "").unwrap();
        assert_eq!(found(&["metal-cpp"], &folders, scratch.path()).unwrap()[0].include, [metal]);
    }
}
