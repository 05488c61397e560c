//! `build --check-reproducible`: builds twice and compares the bytes.
//!
//! The builds are of copies of the project, in folders of other names, with other numbers of jobs, and with caches of
//! their own in which the tools are links to those of the real one: nothing that was compiled before is used.
//!
//! Owns: the copies, the comparison. Never: changes the project, but for what differs, which is left to be looked at.

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;

use crate::base::files::{self, FileError};
use crate::base::report::{Event, Report};
use crate::base::session::Session;
use crate::compile::artifact::Artifact;
use crate::compile::difference::{self, Difference};
use crate::exit::{self, Failure, StageError};
use crate::pipeline::build;
use crate::pipeline::project::selection::Selection;
use crate::pipeline::project::{self, Project};

/// What is not the same twice.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum NotReproducible {
    /// A file with other bytes.
    #[error("{variant}: {} differs between two builds: {place}{}", file.display(), shown(texts.as_ref()))]
    #[diagnostic(
        code(compile::not_reproducible),
        help("likely cause: {explanation}; both files are in {}", kept.display())
    )]
    Bytes {
        /// The variant.
        variant: String,
        /// The file in the package.
        file: PathBuf,
        /// Where in it.
        place: String,
        /// What stands there.
        texts: Option<(String, String)>,
        /// What is likely behind it.
        explanation: String,
        /// Where both are left.
        kept: PathBuf,
    },
    /// A file that one build has and the other has not.
    #[error("{variant}: only one of two builds has {}", file.display())]
    #[diagnostic(
        code(compile::not_reproducible),
        help(
            "a library is named after the digest of its files: one of these files changes during the build"
        )
    )]
    Missing {
        /// The variant.
        variant: String,
        /// The file in the package.
        file: PathBuf,
    },
}

impl StageError for NotReproducible {
    fn exit(&self) -> u8 {
        exit::COMPILE
    }
}

fn shown(texts: Option<&(String, String)>) -> String {
    texts.map(|(one, other)| format!(", `{one}` and `{other}`")).unwrap_or_default()
}

/// Builds the selected variants twice; every file that differs is told, then the whole fails once.
pub(crate) fn check(
    project: &Project,
    selection: &Selection,
    session: &Session,
) -> Result<Reproduced, Failure> {
    // What is missing is fetched, and what cannot be built is told, before anything is copied.
    build::jobs(project, selection, session)?;
    let scratch = files::scratch()?;
    let name = project.build.general.name.as_str();
    let other_jobs = if session.jobs > 1 { session.jobs.div_ceil(2).min(session.jobs - 1) } else { 2 };
    let trials = [
        Trial { folder: scratch.path().join("first").join(name), jobs: session.jobs },
        Trial { folder: scratch.path().join("second time/in another folder"), jobs: other_jobs },
    ];
    let mut made = Vec::new();
    for (count, trial) in ["first", "second"].into_iter().zip(&trials) {
        session
            .report
            .emit(&Event::Stage { name: "build", subject: &format!("{name} for the {count} time") });
        made.push(trial.build(project, selection, session)?);
    }
    let [second, first] = [made.pop().unwrap_or_default(), made.pop().unwrap_or_default()];
    let mut compared = ComparedBuilds::default();
    let mut failure = Failure::already_reported(exit::SUCCESS);
    for (one, other) in first.iter().zip(&second) {
        let folders = [&trials[0], &trials[1]].map(|trial| trial.folder.display().to_string());
        for problem in compared.variant(one, other, folders, &project.dir)? {
            failure.join(problem.into());
        }
    }
    if failure.exit != exit::SUCCESS {
        return Err(failure);
    }
    let variants = first.into_iter().map(|artifact| artifact.variant).collect();
    Ok(Reproduced { variants, files: compared.files, bytes: compared.bytes })
}

/// Builds that came out the same twice.
pub(crate) struct Reproduced {
    /// The variants.
    pub(crate) variants: Vec<String>,
    /// How many files were compared.
    pub(crate) files: usize,
    /// How many bytes they have.
    pub(crate) bytes: usize,
}

/// A build of a copy of the project, with nothing that was compiled before.
pub(crate) struct Trial {
    /// Where the copy goes.
    pub(crate) folder: PathBuf,
    /// How many compilers run at a time.
    pub(crate) jobs: usize,
}

impl Trial {
    /// Copies the project and builds the selected variants.
    pub(crate) fn build(
        &self,
        project: &Project,
        selection: &Selection,
        session: &Session,
    ) -> Result<Vec<Artifact>, Failure> {
        project.copy_to(&self.folder)?;
        let cache = self.folder.with_extension("cache");
        files::link_entries(&session.cache, &cache, &["compile", "state"])?;
        let session = Session {
            report: Report::new(session.report.format(), true),
            cache,
            offline: session.offline,
            jobs: self.jobs,
        };
        build::build(&project::load(&self.folder, &session)?, selection, &session)
    }
}

/// What was compared so far.
#[derive(Debug, Default)]
struct ComparedBuilds {
    files: usize,
    bytes: usize,
}

impl ComparedBuilds {
    /// Compares the packages of one variant, file by file.
    fn variant(
        &mut self,
        one: &Artifact,
        other: &Artifact,
        folders: [String; 2],
        project: &Path,
    ) -> Result<Vec<NotReproducible>, FileError> {
        let variant = &one.variant;
        let [names, others] = [files::walk(&one.dir, |_| true)?, files::walk(&other.dir, |_| true)?];
        let mut problems = Vec::new();
        let of_one = names.iter().filter(|file| !others.contains(file));
        for file in of_one.chain(others.iter().filter(|file| !names.contains(file))) {
            problems.push(NotReproducible::Missing { variant: variant.clone(), file: file.clone() });
        }
        for file in names.iter().filter(|file| others.contains(file)) {
            let [left, right] = [files::read(&one.dir.join(file))?, files::read(&other.dir.join(file))?];
            self.files += 1;
            self.bytes += left.len();
            let found = difference::between(&left, &right, [folders[0].as_str(), folders[1].as_str()]);
            if let Some(Difference { place, texts, explanation }) = found {
                let kept = project.join(".kernelwright/reproducible").join(variant);
                files::write(&kept.join("first").join(file), left)?;
                files::write(&kept.join("second").join(file), right)?;
                let (variant, file) = (variant.clone(), file.clone());
                problems.push(NotReproducible::Bytes { variant, file, place, texts, explanation, kept });
            }
        }
        Ok(problems)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::digest::Digest;

    #[test]
    fn a_file_that_only_one_build_has_is_told_whichever_it_is() {
        let root = files::scratch().unwrap();
        let artifact = |name: &str, extra: &[&str]| {
            let dir = root.path().join(name);
            for file in [&["__init__.py"], extra].concat() {
                files::write(&dir.join(file), "x = 1\n").unwrap();
            }
            Artifact {
                variant: "torch-cpu".to_owned(),
                backend: "cpu".to_owned(),
                dir,
                id: "_k".to_owned(),
                library: None,
                capabilities: vec![],
                digest: Digest::blake3(b""),
                commit: None,
                tools: BTreeMap::new(),
                outside: vec![],
            }
        };
        let (plain, more) = (artifact("plain", &[]), artifact("more", &["more.py"]));
        let told = |one: &Artifact, other: &Artifact| {
            let folders = [String::new(), String::new()];
            ComparedBuilds::default().variant(one, other, folders, root.path()).unwrap().len()
        };
        assert_eq!([told(&plain, &plain), told(&plain, &more), told(&more, &plain)], [0, 1, 1]);
    }
}
