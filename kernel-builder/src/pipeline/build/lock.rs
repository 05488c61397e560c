//! Writes into `kernelwright.lock` what each variant is built from, for builders that plan nothing, such as Nix.

use std::collections::BTreeSet;

use kernel_plan::kit::Compiler;
use kernel_plan::variant::SelectedVariants;
use miette::Diagnostic;
use thiserror::Error;

use crate::base::session::Session;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::build;
use crate::pipeline::project::Project;
use crate::pipeline::project::selection::{Selection, select};
use crate::toolchain::{self, LockedVariant, Provider, Supply, Variants};

/// The lock lists other variants than it should.
#[derive(Debug, Error, Diagnostic)]
#[error("kernelwright.lock of `{project}` is out of date: {}", what_is_stale(missing, left))]
#[diagnostic(code(plan::stale_lock), help("run `kernelwright lock` in the project, and commit the file"))]
pub(crate) struct StaleLock {
    /// The project's name.
    project: String,
    /// Variants that it lacks.
    missing: Vec<String>,
    /// Variants that it should not have.
    left: Vec<String>,
}

/// A variant is compiled here with more than wheels.
#[derive(Debug, Error, Diagnostic)]
#[error(
    "`{variant}` uses the installed compiler {installed}, so a machine that has only wheels cannot build it"
)]
#[diagnostic(
    code(plan::installed_compiler),
    help("run `kernelwright lock` without an installed nvcc: unset CUDA_HOME and remove nvcc from PATH")
)]
pub(crate) struct Installed {
    /// The variant.
    variant: String,
    /// The compiler.
    installed: String,
}

impl StageError for Installed {
    fn exit(&self) -> u8 {
        exit::PLAN
    }
}

fn what_is_stale(missing: &[String], left: &[String]) -> String {
    let says = |what: &str, ids: &[String]| (!ids.is_empty()).then(|| format!("{what} {}", ids.join(", ")));
    let all = [says("missing", missing), says("unexpected", left)];
    all.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

impl StageError for StaleLock {
    fn exit(&self) -> u8 {
        exit::PLAN
    }
}

/// What beside wheels a lock pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pins {
    /// Nothing.
    Wheels,
    /// The C++ compiler of this machine.
    Compiler,
}

/// What a lock came to.
pub(crate) struct Locked {
    /// Every variant that it lists now.
    pub(crate) variants: Variants,
    /// The compiler that it pins.
    pub(crate) compiler: Option<Compiler>,
    /// Whether the file changed.
    pub(crate) changed: bool,
}

/// Writes the selected variants with their wheels into the lock.
///
/// # Errors
/// A variant is not built of wheels alone, or one could not be fetched.
pub(crate) fn lock(
    project: &Project,
    selection: &Selection,
    pins: Pins,
    session: &Session,
) -> Result<Locked, Failure> {
    let before = toolchain::locked_variants(&project.dir)?;
    let (rows, cxx) = rows(project, selection, session)?;
    let keys: BTreeSet<String> = rows.iter().flat_map(|row| row.wheels.iter().cloned()).collect();
    let trees = toolchain::trees(&project.dir, &keys, session)?;
    let (variants, mut changed) = toolchain::lock_variants(&project.dir, &before, rows, trees)?;
    let compiler = cxx.filter(|_| pins == Pins::Compiler);
    if let Some(cxx) = &compiler {
        changed |= toolchain::lock_compiler(&project.dir, cxx)?;
    }
    Ok(Locked { variants, compiler, changed })
}

/// The selected variants that are built of wheels, or of Python alone, with the wheels of each; these are locked. And the C++
/// compiler, where there is something to compile.
fn rows(
    project: &Project,
    selection: &Selection,
    session: &Session,
) -> Result<(BTreeSet<LockedVariant>, Option<Compiler>), Failure> {
    let SelectedVariants { variants, .. } = select(project, selection, session)?;
    let (mut rows, mut cxx) = (BTreeSet::new(), None);
    for variant in &variants {
        let supply = Supply::open(&project.dir, selection.locked, session)?;
        if let Some(compiled) = variant.compiled() {
            let want = build::want(variant, compiled, Provider::Wheels);
            if want.device.is_some() {
                let id = variant.id();
                session.report.note(format!(
                    "{id} is not locked: its build needs installed tools that no wheel provides"
                ));
                continue;
            }
            let kit = supply.resolve(&want)?;
            cxx = Some(kit.cxx);
            if let Some(cuda) = kit.cuda.filter(|cuda| cuda.installed) {
                let (variant, installed) = (variant.id().to_string(), cuda.nvcc.display().to_string());
                return Err(Installed { variant, installed }.into());
            }
            build::libraries(project, compiled.toolkit, &selection.libraries, &supply)?;
        }
        rows.insert(LockedVariant { id: variant.id().to_string(), wheels: supply.wheels() });
        supply.close()?;
    }
    Ok((rows, cxx))
}

/// Which locks a check accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepts {
    /// One that lists all variants that are right for the project.
    Whole,
    /// Also one that lists some of them.
    Fewer,
}

/// The variants of a lock, if they are those that are right for the project. Compares the ids alone: that needs no wheel.
///
/// # Errors
/// [`StaleLock`].
pub(crate) fn check(
    project: &Project,
    selection: &Selection,
    accepts: Accepts,
    session: &Session,
) -> Result<Variants, Failure> {
    let before = toolchain::locked_variants(&project.dir)?;
    let fewer = accepts == Accepts::Fewer;
    // Also one that other builds serve may have been chosen.
    let selection = Selection { all: fewer || selection.all, ..selection.clone() };
    let SelectedVariants { variants, .. } = select(project, &selection, session)?;
    let device = |variant: &&kernel_plan::variant::Variant| {
        variant
            .compiled()
            .is_some_and(|compiled| build::want(variant, compiled, Provider::Wheels).device.is_some())
    };
    let right: BTreeSet<String> =
        variants.iter().filter(|variant| !device(variant)).map(|variant| variant.id().to_string()).collect();
    let is_own = |row: &&LockedVariant| !row.is_foreign();
    let there: BTreeSet<String> = before.rows.iter().filter(is_own).map(|row| row.id.clone()).collect();
    let lacks = right.difference(&there).filter(|_| !fewer || there.is_empty());
    let missing: Vec<String> = lacks.cloned().collect();
    let left: Vec<String> = there.difference(&right).cloned().collect();
    if !missing.is_empty() || !left.is_empty() {
        return Err(StaleLock { project: project.build.general.name.to_string(), missing, left }.into());
    }
    Ok(before)
}
