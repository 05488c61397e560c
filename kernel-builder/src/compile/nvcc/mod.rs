//! Compiles one CUDA source by the steps that nvcc would run, each remembered by the content of its inputs.
//!
//! What is gained over one nvcc process: the host's side is done once, architectures whose preprocessed text is equal
//! share the C++ front end, all of it fills the pool, a change of the list of architectures or of host code alone
//! compiles only what it touches, and an older toolkit's headers and assembler can be put in place of nvcc's own
//! (docs/decisions/0010 and 0011).
//!
//! Owns: the order of the steps, and when nvcc is run as it is. Never: decides a flag.

use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::Instant;

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::Unit;
use kernel_plan::steps::{self, NvccFallback, Steps};

use super::label::Label;
use super::log::{Log, run_logged};
use super::shell_line::shell_line;
use super::{CompileError, Shop, flags, naming};
use crate::base::digest::DigestBuilder;
use crate::base::files;

mod devices;
mod host;
pub(super) mod manner;
mod pack;
mod texts;
mod workshop;

use manner::{WHOLE, manner};
use workshop::Workshop;

/// Compiles a CUDA source to its object and writes the list of the files that were read, as nvcc would.
///
/// # Errors
/// A step failed; or nvcc cannot be taken apart and the toolkit has none of its own.
pub(super) fn compile(
    shop: &Shop<'_>,
    variant: &str,
    unit: &Unit,
    kit: &Toolchain,
) -> Result<Log, CompileError> {
    let lent = kit.cuda.as_ref().is_some_and(|cuda| cuda.front.is_some());
    if manner() == "whole" && !lent {
        return whole(shop, variant, unit);
    }
    match by_steps(shop, variant, unit, kit)? {
        Ok(log) => Ok(log),
        Err(cause) if lent => Err(CompileError::NotBySteps {
            unit: unit.name.clone(),
            variant: variant.to_owned(),
            cause,
            version: kit.cuda.as_ref().map(|cuda| cuda.version.clone()).unwrap_or_default(),
        }),
        Err(cause) => {
            shop.report.note(format!("{}: nvcc runs as a whole, because {cause}", unit.name));
            whole(shop, variant, unit)
        }
    }
}

fn whole(shop: &Shop<'_>, variant: &str, unit: &Unit) -> Result<Log, CompileError> {
    let label = Label { variant, unit: &unit.name, step: WHOLE };
    run_logged(shop, label, &unit.command, &unit.object)
}

/// The steps, or why there are none.
fn by_steps(
    shop: &Shop<'_>,
    variant: &str,
    unit: &Unit,
    kit: &Toolchain,
) -> Result<Result<Log, NvccFallback>, CompileError> {
    let Some(cuda) = &kit.cuda else { return Ok(Err(NvccFallback::Lacks("a toolkit"))) };
    if let Some(front) = &cuda.front
        && !unit.command.args.iter().any(|arg| arg.starts_with("-gencode") || arg.starts_with("-arch"))
    {
        return Ok(Err(NvccFallback::Archs(front.version.clone())));
    }
    let started = Instant::now();
    let folder = files::scratch()?;
    let workshop = Workshop::new(shop, variant, unit, kit, cuda, folder.path());
    let question = match steps::question(&unit.command) {
        Ok(question) => question,
        Err(unclear) => return Ok(Err(unclear)),
    };
    let answer = workshop.ask(&question)?;
    let steps = match steps::read(&answer) {
        Ok(steps) => workshop.renamed(steps.for_kit(cuda)),
        Err(unclear) => return Ok(Err(unclear)),
    };
    let object = shop.project.join(&unit.object);
    files::remove_file(&object)?;
    let dependencies = run(&workshop, &steps)?;
    files::copy(&folder.path().join(steps::UNIT), &object)?;
    if workshop.is_free_of_name() {
        naming::note_free(shop, unit, &files::read(&object)?)?;
    }
    files::write(&shop.project.join(&unit.depfile), texts::depfile(&unit.object, &dependencies))?;
    let text = workshop.log();
    workshop.keep_log(&format!("{}\n{text}", shell_line(&unit.command)))?;
    Ok(Ok(Log { text, took: started.elapsed() }))
}

/// Runs the steps; gives back the files that preprocessing read.
fn run(workshop: &Workshop<'_>, steps: &Steps) -> Result<Vec<String>, CompileError> {
    // Not those that say which torch it is for: an extension is for one.
    let macros = workshop
        .unit
        .command
        .args
        .iter()
        .filter(|arg| (arg.starts_with("-D") || arg.starts_with("-U")) && !flags::is_for_framework(arg));
    let digest = macros.fold(DigestBuilder::new("module"), |id, arg| id.field("macro", arg));
    let digest = digest.field("source", &workshop.unit.name).finish();
    let module = steps::module_id(&workshop.unit.name, &digest.to_string());
    files::write(&workshop.folder.join(&steps.module_id), &module)?;
    let host = host::Host::new(workshop, steps, &module);
    let (stub, launches) = std::sync::mpsc::channel();
    let seat = Mutex::new(Some(launches));
    let to_assembly = || {
        let launches = seat.lock().unwrap_or_else(PoisonError::into_inner).take();
        launches.map_or(Err(CompileError::Stopped), |launches| host.to_assembly(&launches))
    };
    std::thread::scope(|scope| {
        let host = Builder::new().spawn_scoped(scope, to_assembly);
        let devices = devices::compile(workshop, steps, &module, stub);
        // Where there was no thread to be had, the launch code is there by now.
        let host = match host {
            Ok(host) => host.join().unwrap_or(Err(CompileError::Stopped)),
            Err(_) => to_assembly(),
        };
        // The device's error is the one to show: without it the host's side would have had its launch code.
        let mut read = devices?;
        read.extend(host?);
        workshop.run("fatbinary", &steps.fatbinary)?;
        host::assemble(workshop, steps)?;
        Ok(Vec::from_iter(read))
    })
}
