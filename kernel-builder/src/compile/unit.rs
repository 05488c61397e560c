//! Compiles one unit, or finds what an earlier run made of the same inputs.
//!
//! Owns: what an object depends on. Never: decides a flag.

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::Unit;

use super::cache::parse_depfile;
use super::label::Label;
use super::log::{self, run_logged};
use super::nvcc;
use super::product::{Origin, Product};
use super::{CompileError, Shop, content, flags, share};
use crate::base::digest::Digest;
use crate::base::files::{self, FileError};

/// Whether nothing has to be started: the unit is in the cache, and is put in its place with what the compiler said.
pub(super) fn reuse(
    shop: &Shop<'_>,
    variant: &str,
    key: &Digest,
    unit: &Unit,
    kit: &Toolchain,
) -> Result<bool, FileError> {
    if flags::beyond_the_object(&unit.command.args).is_some() {
        return Ok(false);
    }
    let label = Label { variant, unit: &unit.name, step: "compile" };
    tracing::debug!(target: "cache", "looking for {} of {variant}: {key}", unit.name);
    if let Some(hit) = shop.cache.look_up(key, shop.project)
        && shop.cache.restore(&hit.object, &shop.project.join(&unit.object))?
    {
        log::keep(shop, label, &unit.command, &hit.log)?;
        shop.read.note(variant, &unit.name, hit.paths());
        return Ok(true);
    }
    match share::key(shop, unit, kit)? {
        Some(shared) => share::take(shop, label, unit, kit, &shared, key),
        None => Ok(false),
    }
}

/// Compiles the unit and keeps its object.
pub(super) fn compile(
    shop: &Shop<'_>,
    variant: &str,
    unit: &Unit,
    kit: &Toolchain,
    key: &Digest,
) -> Result<Origin, CompileError> {
    let label = Label { variant, unit: &unit.name, step: "compile" };
    if flags::beyond_the_object(&unit.command.args).is_some() {
        run_logged(shop, label, &unit.command, &unit.object)?;
        shop.read.note_depfile(shop.project, variant, unit);
        return Ok(Origin::Compiled);
    }
    let shared = share::key(shop, unit, kit)?;
    let turn = shared.as_ref().and_then(|shared| Some((shared, shop.cache.turn_for_all(shared)?)));
    let Some((shared, turn)) = turn else {
        let (origin, product) = make(shop, label, unit, kit)?;
        keep(shop, key, product.as_ref())?;
        return Ok(origin);
    };
    if share::take(shop, label, unit, kit, shared, key)? {
        return Ok(Origin::Known);
    }
    let made = make(shop, label, unit, kit);
    let product = made.as_ref().ok().and_then(|(_, product)| product.as_ref());
    share::give(shop, label, kit, shared, turn, product)?;
    let (origin, product) = made?;
    keep(shop, key, product.as_ref())?;
    Ok(origin)
}

fn keep(shop: &Shop<'_>, key: &Digest, product: Option<&Product>) -> Result<(), FileError> {
    let Some(Product { bytes, log, observed, .. }) = product else { return Ok(()) };
    shop.cache.remember(key, bytes, observed.clone(), log, String::new())
}

/// Compiles the unit; what can be kept of it.
fn make(
    shop: &Shop<'_>,
    label: Label<'_>,
    unit: &Unit,
    kit: &Toolchain,
) -> Result<(Origin, Option<Product>), CompileError> {
    if unit.command.program == kit.cxx.program {
        return content::compile(shop, label, unit, kit);
    }
    let depfile = shop.project.join(&unit.depfile);
    // Written by this file system's clock, which the time of change of every file is compared with.
    files::write(&depfile, "")?;
    let (_, since) = files::stamp(&depfile)?;
    let log = if nvcc::manner::drives(unit, kit) {
        nvcc::compile(shop, label.variant, unit, kit)?
    } else {
        run_logged(shop, label, &unit.command, &unit.object)?
    };
    let files = parse_depfile(&files::read_text(&depfile)?);
    shop.read.note(label.variant, &unit.name, files.iter().cloned());
    shop.read.note(label.variant, &unit.name, content::pulled_in(shop.project, &files));
    let observed = shop.cache.observe(shop.project, &files, since);
    let Some(observed) = observed.filter(|_| !content::depends_on_more(shop.project, &files)) else {
        return Ok((Origin::Compiled, None));
    };
    let bytes = files::read(&shop.project.join(&unit.object))?;
    Ok((Origin::Compiled, Some(Product { bytes, log: log.text, files, observed })))
}
