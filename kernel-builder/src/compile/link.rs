//! Links a variant and assembles its package.
//!
//! Owns: what a library depends on; the extension's name in the objects. Never: decides a flag.

use std::path::Path;
use std::time::Duration;

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::{Step, Unit, VariantPlan};

use super::artifact::{self, Artifact};
use super::cache::CacheEntry;
use super::label::Label;
use super::log::run_logged;
use super::outside::{self, UnnamedInputs};
use super::progress::{PendingUnit, ProgressBoard, done};
use super::timeline::UnitOutcome;
use super::unit_key::command_fields;
use super::{CompileError, Job, Shop, naming};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files;
use crate::toolchain::portable;

/// Links a variant whose units are all there, and assembles its package.
pub(super) fn finish(shop: &Shop<'_>, job: &Job, board: &ProgressBoard) -> Result<Artifact, CompileError> {
    let Shop { project, cache, .. } = *shop;
    let Job { plan, kit, .. } = job;
    let UnnamedInputs { extension, outside } =
        kit.as_ref().map(|kit| outside::unnamed_inputs(shop, job, kit)).unwrap_or_default();
    let renamed = extension.map(|extension| outside::renamed(plan, &extension));
    let plan = renamed.as_ref().unwrap_or(plan);
    let library = if let (Some(kit), Some(link)) = (kit, &plan.link) {
        let place = format!(".kernelwright/objects/{}/{}", plan.id, plan.library);
        let mut key = command_fields(DigestBuilder::new("link-1"), link)
            .field("cxx", &kit.cxx.id)
            .field("framework", kit.framework.id())
            .field("system", kit.portable.as_ref().map_or_else(installed_libraries, |kit| kit.id.clone()));
        for step in &plan.before_link {
            key = command_fields(key, &step.command);
        }
        for unit in &plan.units {
            name_object(shop, unit, plan, board)?;
            key =
                key.field("object", Digest::blake3(&files::read(&project.join(unit.linked()))?).to_string());
        }
        let mut took = None;
        let (made, fresh) = cache.once_told::<CompileError>(&key.finish(), || {
            for Step { name, command, output } in &plan.before_link {
                let label = Label { variant: &plan.id, unit: name, step: "link" };
                run_logged(shop, label, command, output)?;
            }
            let label = Label { variant: &plan.id, unit: "link", step: "link" };
            let log = run_logged(shop, label, link, &place)?;
            refuse_newer(&project.join(&place), plan, kit)?;
            took = Some(log.took);
            Ok(CacheEntry { bytes: files::read(&project.join(&place))?, log: log.text, lasting: true })
        })?;
        if !fresh {
            files::write_if_changed(&project.join(&place), made.bytes)?;
        }
        if let Some(took) = took {
            done(shop.report, "linked", &plan.id, &plan.library, took, false);
        }
        Some(project.join(place))
    } else {
        None
    };
    let commit = job.commit.clone();
    artifact::assemble(plan, project, library, commit, job.kit.as_ref(), outside).map_err(Into::into)
}

/// What stands for the system's libraries where the library is linked with them: the list that the dynamic linker keeps,
/// which every installation writes anew.
fn installed_libraries() -> String {
    files::stamp(Path::new("/etc/ld.so.cache")).map(|stamp| format!("{stamp:?}")).unwrap_or_default()
}

/// Refuses a library that asks for names which systems of the manylinux_2_28 age do not have. The linker cannot: torch's
/// names are undefined as well.
fn refuse_newer(library: &Path, plan: &VariantPlan, kit: &Toolchain) -> Result<(), CompileError> {
    let Some(portable) = &kit.portable else { return Ok(()) };
    let needs: Vec<String> = portable::beyond(library, portable)?.iter().map(ToString::to_string).collect();
    if needs.is_empty() { Ok(()) } else { Err(CompileError::TooNew { variant: plan.id.clone(), needs }) }
}

/// Puts the extension's name into the object of a unit that carries it. Where the compiler has taken the name apart, so
/// that it cannot be replaced, the unit is compiled once more with the real name: that counts as a unit of its own.
fn name_object(
    shop: &Shop<'_>,
    unit: &Unit,
    plan: &VariantPlan,
    board: &ProgressBoard,
) -> Result<(), CompileError> {
    let Shop { project, cache, .. } = *shop;
    let Some(named) = &unit.named else { return Ok(()) };
    let bytes = files::read(&project.join(&unit.object))?;
    if let Some(bytes) = naming::rename(&bytes, &plan.extension) {
        files::write_if_changed(&project.join(named), bytes)?;
        return Ok(());
    }
    if cache.has(&naming::free_key(shop, unit, &bytes)?) {
        files::write_if_changed(&project.join(named), bytes)?;
        return Ok(());
    }
    let command = naming::with_real_name(&unit.command, &plan.extension, &unit.object, named);
    // The object that could not be renamed stands for the sources: the same one gives the same result.
    let key = command_fields(DigestBuilder::new("named-unit-1"), &command).field("object", bytes).finish();
    let (made, fresh) = cache.once_told::<CompileError>(&key, || {
        let expected = shop.slots.timeline().took(&plan.id, &unit.name).map(|(seconds, _)| seconds);
        board.expect(&plan.id, &unit.name, PendingUnit { class: unit.name.clone(), expected });
        shop.report.note(format!(
            "{} is compiled a second time for {}: the compiler splits the extension's name, so the first \
             object could not be renamed",
            unit.name, plan.id
        ));
        let label = Label { variant: &plan.id, unit: &unit.name, step: "compile again" };
        let made = run_logged(shop, label, &command, named);
        let (fate, took) = made
            .as_ref()
            .map_or((UnitOutcome::Failed, Duration::ZERO), |log| (UnitOutcome::Compiled, log.took));
        board.unit(&plan.id, &unit.name, fate, took.as_secs_f64());
        let log = made?;
        Ok(CacheEntry { bytes: files::read(&project.join(named))?, log: log.text, lasting: true })
    })?;
    if !fresh {
        files::write_if_changed(&project.join(named), made.bytes)?;
    }
    Ok(())
}
