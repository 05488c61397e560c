//! Where the steps of one unit run, and how one of them is run or remembered.
//!
//! Owns: the folder of the steps, the names of paths in what they make, the log. Never: knows what a step is for.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use kernel_plan::kit::{CudaKit, Toolchain};
use kernel_plan::plan::{CommandLine, Unit};
use kernel_plan::steps::{self, Steps};

use super::super::compiler_message;
use super::super::label::Label;
use super::super::shell_line::shell_line;
use super::super::slots::QUESTION;
use super::super::unit_key::command_fields;
use super::super::{CompileError, Shop, naming};
use super::pack::{pack, unpack};
use super::texts::{Names, PROJECT};
use crate::base::digest::DigestBuilder;
use crate::base::files::{self, FileError};
use crate::base::process::Ending;

/// The place of one unit's steps.
pub(super) struct Workshop<'a> {
    pub(super) shop: &'a Shop<'a>,
    pub(super) unit: &'a Unit,
    pub(super) cuda: &'a CudaKit,
    /// Where the steps run and leave what they make.
    pub(super) folder: &'a Path,
    pub(super) names: Names,
    variant: &'a str,
    host_compiler: &'a str,
    said: Mutex<Vec<String>>,
    /// Whether a preprocessed text has the extension's name.
    named: AtomicBool,
}

impl<'a> Workshop<'a> {
    pub(super) fn new(
        shop: &'a Shop<'a>,
        variant: &'a str,
        unit: &'a Unit,
        kit: &'a Toolchain,
        cuda: &'a CudaKit,
        folder: &'a Path,
    ) -> Self {
        let names = Names::new(named_places(shop.project, kit, cuda));
        let said = Mutex::default();
        let named = AtomicBool::new(false);
        Self { shop, unit, cuda, folder, names, variant, host_compiler: &kit.cxx.id, said, named }
    }

    /// Looks for the extension's name in a preprocessed text.
    pub(super) fn look_for_name(&self, text: &[u8]) {
        self.named.fetch_or(!naming::is_free(text), Ordering::Relaxed);
    }

    /// Whether no text that was looked at has the extension's name.
    pub(super) fn is_free_of_name(&self) -> bool {
        !self.named.load(Ordering::Relaxed)
    }

    /// The steps with names instead of the project's folder in what ends up in texts.
    pub(super) fn renamed(&self, mut steps: Steps) -> Steps {
        let compilers = steps.devices.iter_mut().map(|device| &mut device.cicc);
        for command in compilers.chain([&mut steps.host.cudafe, &mut steps.fatbinary]) {
            for arg in &mut command.args {
                *arg = self.names.name(arg).unwrap_or_else(|| arg.clone());
            }
        }
        steps
    }

    /// Starts the key of a step: what it is, its command, and the tools.
    pub(super) fn key(&self, step: &str, command: &CommandLine) -> DigestBuilder {
        let key = DigestBuilder::new("nvcc-step-1")
            .field("step", step)
            .field("cuda", &self.cuda.id)
            .field("cxx", self.host_compiler);
        command.args.iter().fold(key, |key, arg| key.field("arg", self.names.all_named(arg)))
    }

    /// What nvcc answers to a question; remembered, since it follows from the question.
    pub(super) fn ask(&self, question: &CommandLine) -> Result<String, CompileError> {
        let key = self.question_key("ask", question).finish();
        let answer = self.shop.cache.once(&key, || -> Result<Vec<u8>, CompileError> {
            Ok(self.start(QUESTION, &question.clone().cwd(self.shop.project))?.into_bytes())
        })?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Starts the key of an answer. Where the project and the tools lie is in the answer, so it is in the key: what is
    /// asked elsewhere, or after the cache was moved, is another question.
    pub(super) fn question_key(&self, step: &str, question: &CommandLine) -> DigestBuilder {
        let key = DigestBuilder::new("nvcc-question-1")
            .field("step", step)
            .field("cuda", &self.cuda.id)
            .field("root", self.cuda.root.display().to_string())
            .field("cxx", self.host_compiler)
            .field("project", self.shop.project.display().to_string());
        command_fields(key, question)
    }

    /// Runs a step in its folder.
    pub(super) fn run(&self, step: &str, command: &CommandLine) -> Result<String, CompileError> {
        self.start(step, &command.clone().cwd(self.folder))
    }

    /// Runs a command in its own folder; what it printed.
    pub(super) fn start(&self, step: &str, command: &CommandLine) -> Result<String, CompileError> {
        let label = Label { variant: self.variant, unit: &self.unit.name, step };
        let finished = self.shop.slots.run(label, command)?;
        let text = format!("{}{}", finished.stdout_text(), finished.stderr_text());
        if finished.ending.success() {
            return Ok(text);
        }
        Err(self.refused(step, command, &text, finished.ending)?)
    }

    /// The complaint of a step that failed, with its log.
    fn refused(
        &self,
        step: &str,
        command: &CommandLine,
        said: &str,
        ending: Ending,
    ) -> Result<CompileError, CompileError> {
        let said = self.names.undone(said);
        let commands = format!("{}\n# {step}\n{}", shell_line(&self.unit.command), shell_line(command));
        let log = self.keep_log(&format!("{commands}\n{said}"))?;
        let Unit { name, .. } = self.unit;
        Ok(Box::new(compiler_message::read(name, self.variant, &said, ending, &log, self.shop.project))
            .into())
    }

    /// Runs a step that makes the files `made`, or puts those of an earlier run in their place.
    pub(super) fn remember(
        &self,
        key: DigestBuilder,
        step: &str,
        command: &CommandLine,
        made: &[&str],
    ) -> Result<(), CompileError> {
        self.remember_as(key, step, command, made, || self.run(step, command))
    }

    /// [`Workshop::remember`], where `make` runs the command in a way of its own; it gives back what was said.
    pub(super) fn remember_as(
        &self,
        key: DigestBuilder,
        step: &str,
        command: &CommandLine,
        made: &[&str],
        make: impl FnOnce() -> Result<String, CompileError>,
    ) -> Result<(), CompileError> {
        let key = key.finish();
        let make = || -> Result<Vec<u8>, CompileError> {
            let said = make()?;
            // cicc's front end reports errors and returns success; cicc as a whole returns one.
            if made.iter().any(|name| !self.has(name)) {
                return Err(self.refused(step, command, &said, Ending::Exit(1))?);
            }
            let mut parts = vec![said.into_bytes()];
            for name in made {
                parts.push(files::read(&self.folder.join(name))?);
            }
            Ok(pack(parts.iter().map(Vec::as_slice)))
        };
        let packed = self.shop.cache.once(&key, make)?;
        let parts = unpack(&packed).filter(|parts| parts.len() == made.len() + 1).unwrap_or_default();
        if let Some((said, contents)) = parts.split_first() {
            self.say(&String::from_utf8_lossy(said));
            for (name, content) in made.iter().zip(contents) {
                files::write(&self.folder.join(name), content)?;
            }
        }
        Ok(())
    }

    /// Runs a C++ front end on a text that it reads faster ([`steps::lighter`]), and on the text itself where there is
    /// no such text, where that one is refused, and where `fits` says that what was made of it shows it.
    pub(super) fn run_lighter(
        &self,
        step: &str,
        command: &CommandLine,
        text: &str,
        made: &[&str],
        fits: impl FnOnce() -> Result<bool, CompileError>,
    ) -> Result<String, CompileError> {
        let place = self.folder.join(text);
        let whole = files::read(&place)?;
        if let Some(lighter) = steps::lighter(&whole) {
            files::write(&place, lighter)?;
            let said = match self.run(step, command) {
                Err(CompileError::Refused(_)) => None,
                said => Some(said?),
            };
            let fits = said.is_some() && made.iter().all(|name| self.has(name)) && fits()?;
            files::write(&place, whole)?;
            if let Some(said) = said.filter(|said| fits && !said.contains(steps::LIGHTER)) {
                return Ok(said);
            }
            for name in made {
                files::remove_file(&self.folder.join(name))?;
            }
        }
        self.run(step, command)
    }

    /// Whether a step has made this file.
    pub(super) fn has(&self, name: &str) -> bool {
        files::exists(&self.folder.join(name))
    }

    /// Adds to what the unit's compilers said.
    pub(super) fn say(&self, said: &str) {
        if !said.trim().is_empty() {
            self.said.lock().unwrap_or_else(PoisonError::into_inner).push(self.names.undone(said));
        }
    }

    /// What all steps said, each thing once: a warning of a header comes with every architecture.
    pub(super) fn log(&self) -> String {
        let mut said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        said.sort();
        said.dedup();
        said.concat()
    }

    /// Writes the log of the unit; where it is.
    pub(super) fn keep_log(&self, text: &str) -> Result<PathBuf, FileError> {
        let name = self.unit.name.replace('/', "__");
        let log = self.shop.project.join(format!(".kernelwright/logs/{}/{name}.log", self.variant));
        files::write(&log, text)?;
        Ok(log)
    }
}

/// Folders of this machine, and what stands for them in texts and objects.
fn named_places(project: &Path, kit: &Toolchain, cuda: &CudaKit) -> Vec<(String, String)> {
    let text = |path: &Path| path.display().to_string();
    let toolkit = format!("/usr/local/cuda-{}", cuda.version);
    let mut pairs = vec![(text(project), PROJECT.to_owned()), (text(&cuda.root), toolkit.clone())];
    if let Some(front) = &cuda.front {
        pairs.push((text(&front.root), format!("/usr/local/cuda-{}", front.version)));
    }
    pairs.push((text(&kit.extension_include), "/registration".to_owned()));
    let headers =
        kit.framework.include().first().map(|folder| (text(folder), "/framework/include".to_owned()));
    pairs.extend(headers);
    pairs
}
