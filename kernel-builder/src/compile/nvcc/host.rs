//! The host's side of a unit, once for all architectures.
//!
//! Owns: C++ to assembler text, which does not depend on the device's code, and from there to the object.
//! Never: waits for machine code; only the last step does.

use std::collections::BTreeSet;
use std::sync::mpsc::Receiver;

use kernel_plan::steps::{self, Steps};

use super::super::CompileError;
use super::devices::preprocess;
use super::workshop::Workshop;
use crate::base::digest::Digest;
use crate::base::files;

/// The host compiler's output.
const ASSEMBLY: &str = "unit.s";

/// The host's side.
pub(super) struct Host<'a> {
    workshop: &'a Workshop<'a>,
    steps: &'a Steps,
    module: &'a str,
}

impl<'a> Host<'a> {
    pub(super) fn new(workshop: &'a Workshop<'a>, steps: &'a Steps, module: &'a str) -> Self {
        Self { workshop, steps, module }
    }

    /// Compiles to assembler text, once the launch code is there; the files that preprocessing read.
    pub(super) fn to_assembly(&self, launches: &Receiver<()>) -> Result<BTreeSet<String>, CompileError> {
        let Self { workshop, steps, module } = *self;
        let host = &steps.host;
        let (text, files) = preprocess(workshop, &host.preprocess, &host.text, "host")?;
        let key =
            workshop.key("cudafe++", &host.cudafe).field("text", text.to_string()).field("module", module);
        workshop.remember_as(key, "cudafe++", &host.cudafe, &[&host.source], || {
            let restore = || restore(workshop, &host.source);
            workshop.run_lighter("cudafe++", &host.cudafe, &host.text, &[&host.source], restore)
        })?;
        // Gone without a word: a device step failed, and its error is the one to show.
        launches.recv().map_err(|_| CompileError::Stopped)?;
        files::write(&workshop.folder.join(&steps.embed), steps::embedding(&steps.fat))?;
        let phases = steps::host_phases(&host.compile, ASSEMBLY);
        let (mut to_text, _) = phases.ok_or(CompileError::Stopped)?;
        let mut key = workshop.key("host", &to_text);
        to_text.args.push(format!("-ffile-prefix-map={}=.", workshop.folder.display()));
        for name in [&host.source, &host.stub, &steps.embed] {
            key = key.field(name, Digest::blake3(&files::read(&workshop.folder.join(name))?).to_string());
        }
        workshop.remember(key, "host compiler", &to_text, &[ASSEMBLY])?;
        Ok(files)
    }
}

/// Makes of `cudafe++`'s output for a lighter text what it is for the text itself; whether that could be done.
fn restore(workshop: &Workshop<'_>, source: &str) -> Result<bool, CompileError> {
    let place = workshop.folder.join(source);
    let restored = steps::restored(&files::read(&place)?);
    Ok(restored.map(|text| files::write(&place, text)).transpose()?.is_some())
}

/// The object, of the assembler text and the file with the device's code.
pub(super) fn assemble(workshop: &Workshop<'_>, steps: &Steps) -> Result<(), CompileError> {
    let Some((_, to_object)) = steps::host_phases(&steps.host.compile, ASSEMBLY) else { return Ok(()) };
    let said = workshop.run("assemble", &to_object)?;
    workshop.say(&said);
    Ok(())
}
