//! `lock`: writes into `kernelwright.lock` what each variant is built from, for builders that plan nothing, such as Nix.

use std::collections::BTreeSet;

use clap::Args as ClapArgs;
use kernel_plan::kit::Compiler;
use kernel_plan::variant::Chosen;
use miette::Diagnostic;
use serde_json::json;
use thiserror::Error;

use crate::base::session::Session;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::build;
use crate::pipeline::build::libraries;
use crate::pipeline::project::selection::{Selection, select};
use crate::pipeline::project::{self, Project, ProjectDir};
use crate::toolchain::{self, LockedVariant, Provider, Supply, Variants};

/// Write the variants and their inputs to kernelwright.lock
///
/// For builders that do not plan: Nix builds the listed variants, each from the wheels listed with it (docs/nix.md).
/// Missing wheels are fetched. Entries for other kinds of machines are kept.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright lock my-norm
  kernelwright lock --check --fewer    in CI")]
pub(crate) struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    /// Write and fetch nothing; fail if the lock file does not list the project's variants
    #[arg(long)]
    check: bool,
    /// With --check, accept a lock file with fewer variants, such as one written with selection options
    #[arg(long, requires = "check")]
    fewer: bool,
    /// Also record this machine's C++ compiler; `--locked` then refuses another one on this kind of machine
    #[arg(long, conflicts_with = "check")]
    compiler: bool,
}

/// The lock lists other variants than it should.
#[derive(Debug, Error, Diagnostic)]
#[error("the kernelwright.lock of `{project}` {}", told(missing, left))]
#[diagnostic(code(plan::stale_lock), help("run `kernelwright lock` in the project, and commit the file"))]
pub(crate) struct Stale {
    /// The project's name.
    project: String,
    /// Variants that it lacks.
    missing: Vec<String>,
    /// Variants that it should not have.
    left: Vec<String>,
}

/// A variant is compiled here with more than wheels.
#[derive(Debug, Error, Diagnostic)]
#[error("`{variant}` is compiled here by {installed}, which a builder that has wheels alone lacks")]
#[diagnostic(
    code(plan::installed_compiler),
    help("lock where no nvcc is found: with CUDA_HOME unset and a PATH without it")
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

fn told(missing: &[String], left: &[String]) -> String {
    let says = |what: &str, ids: &[String]| (!ids.is_empty()).then(|| format!("{what} {}", ids.join(", ")));
    let all = [says("lacks", missing), says("lists, and should not,", left)];
    all.into_iter().flatten().collect::<Vec<_>>().join("; it ")
}

impl StageError for Stale {
    fn exit(&self) -> u8 {
        exit::PLAN
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let before = toolchain::locked_variants(&project.dir)?;
    if args.check {
        return check(&project, &before, args, session);
    }
    let (rows, cxx) = rows(&project, &args.selection, session)?;
    let keys: BTreeSet<String> = rows.iter().flat_map(|row| row.wheels.iter().cloned()).collect();
    let trees = toolchain::trees(&project.dir, &keys, session)?;
    let (now, mut changed) = toolchain::lock_variants(&project.dir, &before, rows, trees)?;
    let cxx = cxx.filter(|_| args.compiler);
    if let Some(cxx) = &cxx {
        changed |= toolchain::lock_compiler(&project.dir, cxx)?;
    }
    let ids: Vec<&str> = now.rows.iter().map(|row| row.id.as_str()).collect();
    let human = ids.iter().map(|id| format!("{id}\n")).collect::<String>();
    let compiler = cxx.map(|cxx| cxx.described());
    let data = json!({ "variants": now.rows, "compiler": compiler, "changed": changed });
    session.report.result("lock", &data, &human);
    Ok(())
}

/// The selected variants that are built of wheels, or of Python alone, with the wheels of each; these are locked. And the C++
/// compiler, where there is something to compile.
fn rows(
    project: &Project,
    selection: &Selection,
    session: &Session,
) -> Result<(BTreeSet<LockedVariant>, Option<Compiler>), Failure> {
    let Chosen { variants, .. } = select(project, selection, session)?;
    let (mut rows, mut cxx) = (BTreeSet::new(), None);
    for variant in &variants {
        let supply = Supply::of(&project.dir, selection.locked, session)?;
        if let Some(compiled) = variant.compiled() {
            let want = build::want(variant, compiled, Provider::Wheels);
            if want.device.is_some() {
                let id = variant.id();
                session.report.note(format!(
                    "{id} is built with installed tools, which no wheel has: it is not locked"
                ));
                continue;
            }
            let kit = supply.resolve(&want)?;
            cxx = Some(kit.cxx);
            if let Some(cuda) = kit.cuda.filter(|cuda| cuda.installed) {
                let (variant, installed) = (variant.id().to_string(), cuda.nvcc.display().to_string());
                return Err(Installed { variant, installed }.into());
            }
            libraries::of(project, compiled.toolkit, &selection.libraries, &supply)?;
        }
        rows.insert(LockedVariant { id: variant.id().to_string(), wheels: supply.wheels() });
        supply.close()?;
    }
    Ok((rows, cxx))
}

/// Compares the ids alone: that needs no wheel.
fn check(project: &Project, before: &Variants, args: &Args, session: &Session) -> Result<(), Failure> {
    // Also one that other builds serve may have been chosen.
    let selection = Selection { all: args.fewer || args.selection.all, ..args.selection.clone() };
    let Chosen { variants, .. } = select(project, &selection, session)?;
    let device = |variant: &&kernel_plan::variant::Variant| {
        variant
            .compiled()
            .is_some_and(|compiled| build::want(variant, compiled, Provider::Wheels).device.is_some())
    };
    let right: BTreeSet<String> =
        variants.iter().filter(|variant| !device(variant)).map(|variant| variant.id().to_string()).collect();
    let own = |row: &&LockedVariant| !row.is_foreign();
    let there: BTreeSet<String> = before.rows.iter().filter(own).map(|row| row.id.clone()).collect();
    let lacks = right.difference(&there).filter(|_| !args.fewer || there.is_empty());
    let missing: Vec<String> = lacks.cloned().collect();
    let left: Vec<String> = there.difference(&right).cloned().collect();
    if !missing.is_empty() || !left.is_empty() {
        return Err(Stale { project: project.build.general.name.to_string(), missing, left }.into());
    }
    let human = "the lock lists the variants that are right for the project\n";
    session.report.result("lock", &json!({ "variants": before.rows, "changed": false }), human);
    Ok(())
}
