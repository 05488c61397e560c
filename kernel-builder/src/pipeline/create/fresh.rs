//! A fresh project: its files, and the first commit of its repository.
//!
//! Owns: the order in which a project is put together. Never: asks a person; overwrites a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use kernel_plan::plan::CommandLine;
use kernel_plan::units::KernelName;

use crate::base::date;
use crate::base::process::{self, Limits, ProcessError};
use crate::base::session::Session;
use crate::exit::Failure;
use crate::scaffold::host::{Framework, Identity};
use crate::scaffold::{Answers, Ci, FileSet, Template, adopt, template};

use super::generate;
use super::tracing::{ReferenceProject, TemplateMatch};

/// Whose a kernel is that a function's project is for, until its build.toml says otherwise.
const OWNER: &str = "me";

/// Writes the project of a function to a folder, which must be new or empty; returns its files.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn of_function(
    found: &ReferenceProject,
    name: KernelName,
    dir: &Path,
    session: &Session,
) -> Result<FileSet, Failure> {
    let template = found.template(&name)?;
    let answers = Answers {
        owner: OWNER.to_owned(),
        name,
        license: Answers::LICENSE.to_owned(),
        backends: template.backends.clone(),
        framework: Framework::default(),
        year: date::this_year(),
        set: BTreeMap::new(),
    };
    let project = FreshProject {
        template: &template,
        matched: found.matched(),
        answers: &answers,
        ci: None,
        commits: true,
    };
    project.create(dir, session)
}

/// A project that is to be created.
#[derive(Debug)]
pub(crate) struct FreshProject<'a> {
    /// The template to create it from.
    pub(crate) template: &'a Template,
    /// The person's function that the template serves.
    pub(crate) matched: Option<&'a TemplateMatch>,
    /// Name, licence and what is set.
    pub(crate) answers: &'a Answers,
    /// The workflow that it gets.
    pub(crate) ci: Option<Ci>,
    /// Whether it gets a repository with a first commit.
    pub(crate) commits: bool,
}

impl FreshProject<'_> {
    /// Writes all files to a folder, which must be new or empty, and returns them.
    ///
    /// # Errors
    /// An answer does not fit the template, or a file cannot be written.
    pub(crate) fn create(&self, dir: &Path, session: &Session) -> Result<FileSet, Failure> {
        let set = self.files()?;
        set.write_to(dir)?;
        if self.commits {
            first_commit(dir, session)?;
        }
        Ok(set)
    }

    fn files(&self) -> Result<FileSet, Failure> {
        let Self { template, answers, .. } = *self;
        let mut set = template::render(template, answers)?;
        if let Some(TemplateMatch { template, fit, function, text }) = self.matched {
            adopt::adopt(template, fit, function, text, &mut set)?;
        }
        let mut set = generate::complete(set, template, &identity(template, answers))?;
        self.ci.map_or(Ok(()), |ci| ci.add_to(&mut set))?;
        Ok(set)
    }
}

/// Whose project the host side is of.
fn identity(template: &Template, answers: &Answers) -> Identity {
    Identity {
        owner: answers.owner.clone(),
        name: answers.name.to_string(),
        module: answers.name.module(),
        license: answers.license.clone(),
        backends: answers.backends.clone(),
        framework: answers.framework,
        year: answers.year,
        template: template.name.clone(),
    }
}

/// `git init`, `git add`, `git commit`, unless the folder is inside a repository; no git, or no identity, is no failure.
pub(crate) fn first_commit(dir: &Path, session: &Session) -> Result<(), Failure> {
    let git = |arguments: &[&str]| {
        let line = CommandLine::new("git").args(arguments.iter().copied()).cwd(dir);
        process::run(&line, Limits::wall(Duration::from_secs(60)))
    };
    let inside = match git(&["rev-parse", "--is-inside-work-tree"]) {
        Ok(done) => done.ending.success(),
        Err(ProcessError::Missing { .. }) => {
            session.report.note("git not found, so no repository was created");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    if inside {
        return Ok(());
    }
    git(&["init", "--quiet", "--initial-branch", "main"])?;
    git(&["add", "--all"])?;
    let committed = git(&["commit", "--quiet", "--message", "Start from a kernelwright template"])?;
    if !committed.ending.success() {
        let reason = committed.stderr_text();
        let reason = reason.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        session
            .report
            .note(format!("created a git repository, but the first commit failed: {}", reason.trim()));
    }
    Ok(())
}
