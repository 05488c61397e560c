//! Candidates that are whole kernels, as folders.
//!
//! Owns: reading one out of a folder, writing one into a folder from which it is compiled. Never: takes a link for a file;
//! decides what is part of one, which `agent::kernel` does.

use std::collections::BTreeMap;
use std::path::Path;

use crate::agent::kernel::{KernelRefusal, MOST_BYTES, Origin, Proposal, ProposedKernel, folder_of, is_code};
use crate::base::files::{self, FileError, UnfollowedFile};
use crate::compile::nvrtc::Source;
use crate::exit::Failure;
use crate::pipeline::project::device::DeviceProject;

/// The project's side of its candidates.
///
/// # Errors
/// The reference cannot be read.
pub(crate) fn origin(project: &DeviceProject) -> Result<Option<Origin>, FileError> {
    let reference = files::read(&project.dir.join(project.op.reference.file.value.as_str()))?;
    Ok(Origin::new(&project.op, &project.op_name, reference))
}

/// The candidate in a folder that is laid out as the project is.
///
/// # Errors
/// The folder cannot be read. What makes it no candidate is the inner error.
pub(crate) fn read(dir: &Path, origin: &Origin) -> Result<Result<ProposedKernel, KernelRefusal>, Failure> {
    Ok(proposal(dir, origin)?.and_then(|proposal| origin.propose(proposal)))
}

/// The device code in a folder that this program wrote.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn code(dir: &Path, origin: &Origin) -> Result<BTreeMap<String, Vec<u8>>, FileError> {
    let mut found = BTreeMap::new();
    for path in files::walk_unfollowed(dir, |_| true)? {
        if let Some(name) = path.to_str().filter(|name| is_code(&origin.folder, name)) {
            found.insert(name.to_owned(), files::read(&dir.join(name))?);
        }
    }
    Ok(found)
}

fn proposal(dir: &Path, origin: &Origin) -> Result<Result<Proposal, KernelRefusal>, FileError> {
    let visible = |folder: &Path| {
        let name = folder.file_name().unwrap_or_default().as_encoded_bytes();
        !name.starts_with(b".")
    };
    let mut proposal = Proposal::default();
    let mut code = BTreeMap::new();
    let mut total = 0;
    for path in files::walk_unfollowed(dir, visible)? {
        let Some(name) = path.to_str() else { continue };
        // A link to a folder could be the folder of the code.
        let is_part = is_code(&origin.folder, name)
            || name == origin.folder
            || origin.folder.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
        let (is_op, is_reference) = (name == origin.op_name, name == origin.reference.0);
        if !is_part && !is_op && !is_reference {
            continue;
        }
        let limit = if is_op || is_reference { 1 << 20 } else { MOST_BYTES as u64 };
        let bytes = match files::read_alone(&dir.join(&path), limit)? {
            UnfollowedFile::Bytes(bytes) => bytes,
            UnfollowedFile::Link => return Ok(Err(KernelRefusal::link(name))),
            UnfollowedFile::Irregular => return Ok(Err(KernelRefusal::irregular(name))),
            UnfollowedFile::TooLong => return Ok(Err(KernelRefusal::long_file(name))),
        };
        if is_op {
            match String::from_utf8(bytes) {
                Ok(text) => proposal.op = Some(text),
                Err(_) => return Ok(Err(KernelRefusal::op_toml("it is not UTF-8"))),
            }
        } else if is_reference {
            proposal.reference = Some(bytes);
        } else {
            total += bytes.len();
            // A folder of gigabytes is not held in memory; what is part of a candidate is found out later.
            if total > 64 * MOST_BYTES {
                return Ok(Err(KernelRefusal::long_file(name)));
            }
            code.insert(name.to_owned(), bytes);
        }
    }
    proposal.files = code;
    Ok(Ok(proposal))
}

/// Writes a candidate into `folder`, in which nothing else is then, and gives what is compiled: it can read this folder and
/// no other of the project.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn lay_out(proposed: &ProposedKernel, folder: &Path) -> Result<Source, FileError> {
    let wanted = proposed.kernel.files();
    if files::is_dir(folder) {
        for path in files::walk_unfollowed(folder, |_| true)? {
            if path.to_str().is_none_or(|name| !wanted.contains_key(name)) {
                files::remove_file(&folder.join(path))?;
            }
        }
    }
    for (name, text) in wanted {
        files::write_if_changed(&folder.join(name), text)?;
    }
    Ok(Source {
        text: wanted.get(&proposed.source).cloned().unwrap_or_default(),
        name: proposed.source.clone(),
        include: vec![folder.join(folder_of(&proposed.source))],
        root: Some(folder.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use kernel_plan::diagnostic::SourceFile;

    use super::*;

    fn origin(folder: &str) -> Origin {
        let text = include_str!("../../../../examples/rms-norm-device/op.toml");
        let source =
            if folder.is_empty() { "rms_norm.cu".to_owned() } else { format!("{folder}/rms_norm.cu") };
        let text = text.replace("source = \"rms_norm.cu\"", &format!("source = \"{source}\""));
        let op = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap();
        Origin::new(&op, "op.toml", b"reference".to_vec()).unwrap()
    }

    struct Place(tempfile::TempDir);

    impl Place {
        fn new(files: &[(&str, &str)]) -> Self {
            let place = Self(files::scratch().unwrap());
            for (name, text) in files {
                files::write(&place.at(name), text).unwrap();
            }
            place
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join("candidate").join(name)
        }

        fn read(&self, folder: &str) -> Result<Vec<String>, &'static str> {
            let found = read(&self.at(""), &origin(folder)).unwrap();
            found
                .map(|proposed| proposed.kernel.files().keys().cloned().collect())
                .map_err(|refused| refused.code)
        }
    }

    #[test]
    fn the_code_of_the_folder_is_the_candidate() {
        let place = Place::new(&[
            ("k/rms_norm.cu", "#include \"row.cuh\""),
            ("k/row.cuh", ""),
            ("k/launch.cpp", "row.cuh"),
            ("reference.py", "reference"),
            ("TASK.md", ""),
            ("other/row.cuh", ""),
        ]);
        assert_eq!(place.read("k"), Ok(vec!["k/rms_norm.cu".to_owned(), "k/row.cuh".to_owned()]));
        files::write(&place.at("reference.py"), "easier").unwrap();
        assert_eq!(place.read("k"), Err("agent::frozen"));
        assert_eq!(
            Place::new(&[("rms_norm.cu", "x"), (".git/x.cu", "rms_norm.cu")]).read(""),
            Ok(vec!["rms_norm.cu".to_owned()])
        );
        assert_eq!(Place::new(&[("README.md", "x")]).read(""), Err("agent::no_source"));
    }

    #[test]
    fn no_link_leads_to_a_file_of_the_users() {
        let secret = Place::new(&[("secret", "password"), ("k/rms_norm.cu", "password")]);
        let link = |from: &Place, to: &str, name: &str| symlink(secret.at(to), from.at(name)).unwrap();
        let place = Place::new(&[("k/rms_norm.cu", "x")]);
        link(&place, "secret", "k/row.cuh");
        assert_eq!(place.read("k"), Err("agent::link"));
        let place = Place::new(&[("README.md", "x")]);
        link(&place, "k", "k");
        assert_eq!(place.read("k"), Err("agent::link"));
        let place = Place::new(&[("README.md", "x")]);
        link(&place, "", "deep");
        assert_eq!(place.read("deep/k"), Err("agent::link"));
        let place = Place::new(&[("rms_norm.cu", "x")]);
        link(&place, "secret", "op.toml");
        assert_eq!(place.read(""), Err("agent::link"));
    }

    #[test]
    fn a_folder_holds_one_candidate_at_a_time() {
        let origin = origin("k");
        let propose = |files: &[(&str, &str)]| {
            let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
            origin.propose(Proposal { files: files.collect(), ..Proposal::default() }).unwrap()
        };
        let folder = files::scratch().unwrap();
        lay_out(&propose(&[("k/rms_norm.cu", "row.cuh"), ("k/row.cuh", "1")]), folder.path()).unwrap();
        let source = lay_out(&propose(&[("k/rms_norm.cu", "2")]), folder.path()).unwrap();
        assert_eq!(
            files::walk_unfollowed(folder.path(), |_| true).unwrap(),
            [PathBuf::from("k/rms_norm.cu")]
        );
        assert_eq!((source.text.as_str(), source.name.as_str()), ("2", "k/rms_norm.cu"));
        assert_eq!(
            (source.include, source.root),
            (vec![folder.path().join("k")], Some(folder.path().to_owned()))
        );
    }
}
