//! Compiles one unit, or finds what an earlier run made of the same inputs.
//!
//! Owns: what an object depends on. Never: decides a flag.

use std::path::Path;
use std::time::Duration;

use kernel_plan::kit::{DeviceKit, Toolchain};
use kernel_plan::plan::{CommandLine, Unit};

use super::cache;
use super::log::run_logged;
use super::slots::Label;
use super::{CompileError, Shop};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};

/// Whether nothing has to be compiled: the unit is in the cache, and is put in its place.
pub(super) fn reuse(shop: &Shop<'_>, key: &Digest, unit: &Unit) -> Result<bool, FileError> {
    match shop.cache.look_up(key, shop.project) {
        Some(hit) => shop.cache.restore(&hit.object, &shop.project.join(&unit.object)),
        None => Ok(false),
    }
}

/// Names what a unit's object is made from, but for the headers.
pub(super) fn unit_key(unit: &Unit, kit: &Toolchain, project: &Path) -> Result<Digest, FileError> {
    let source = files::read(&project.join(&unit.name))?;
    let cuda = kit.cuda.as_ref().map_or("", |cuda| cuda.id.as_str());
    Ok(command_fields(DigestBuilder::new("compile-unit-1"), &unit.command)
        .field("cxx", &kit.cxx.id)
        .field("cuda", cuda)
        .field("device", kit.device.as_ref().map_or("", DeviceKit::id))
        .field("framework", kit.framework.id())
        .field("source", source)
        .finish())
}

/// The fields of a command that decide what it makes.
pub(super) fn command_fields(builder: DigestBuilder, command: &CommandLine) -> DigestBuilder {
    let builder = builder.field("program", command.program.display().to_string());
    let builder = command.args.iter().fold(builder, |builder, arg| builder.field("arg", arg));
    command.env.iter().fold(builder, |builder, (name, value)| builder.field(name, value))
}

/// Compiles the unit and keeps its object; how long it took.
pub(super) fn compile(
    shop: &Shop<'_>,
    variant: &str,
    unit: &Unit,
    key: &Digest,
) -> Result<Duration, CompileError> {
    let label = Label { variant, unit: &unit.name, step: "compile" };
    let log = run_logged(shop, label, &unit.command, &unit.object)?;
    let depfile = files::read_text(&shop.project.join(&unit.depfile))?;
    let dependencies = cache::parse_depfile(&depfile);
    shop.cache.store(key, shop.project, &shop.project.join(&unit.object), &dependencies, &log.text)?;
    Ok(log.took)
}
