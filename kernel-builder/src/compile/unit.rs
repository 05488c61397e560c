//! Compiles one unit, or finds what an earlier run made of the same inputs.
//!
//! Owns: what an object depends on. Never: decides a flag.

use std::path::{Path, PathBuf};

use kernel_plan::kit::{DeviceKit, Toolchain};
use kernel_plan::plan::{CommandLine, Unit};

use super::cache::parse_depfile;
use super::log::{self, run_logged};
use super::nvcc;
use super::slots::Label;
use super::{CompileError, Shop, content, flags};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};

/// Where the object of a unit came from that was not found by its files alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A process of this unit.
    Compiled,
    /// Another variant, project or machine, which compiled the same text.
    Known,
}

/// Whether nothing has to be started: the unit is in the cache, and is put in its place with what the compiler said.
pub(super) fn reuse(shop: &Shop<'_>, variant: &str, key: &Digest, unit: &Unit) -> Result<bool, FileError> {
    if flags::beyond_the_object(&unit.command.args).is_some() {
        return Ok(false);
    }
    let Some(hit) = shop.cache.look_up(key, shop.project) else { return Ok(false) };
    if !shop.cache.restore(&hit.object, &shop.project.join(&unit.object))? {
        return Ok(false);
    }
    log::keep(shop, Label { variant, unit: &unit.name, step: "compile" }, &unit.command, &hit.log)?;
    Ok(true)
}

/// Names what a unit's object is made from, but for the content of headers.
pub(super) fn unit_key(shop: &Shop<'_>, unit: &Unit, kit: &Toolchain) -> Result<Digest, FileError> {
    let project = shop.project;
    let source = files::read(&project.join(&unit.name))?;
    let cuda = kit.cuda.as_ref().map_or("", |cuda| cuda.id.as_str());
    let args = &unit.command.args;
    let mut builder = command_fields(DigestBuilder::new("compile-unit-2"), &unit.command)
        .field("cxx", &kit.cxx.id)
        .field("cuda", cuda)
        .field("device", kit.device.as_ref().map_or("", DeviceKit::id))
        .field("nvcc", nvcc::manner())
        .field("framework", kit.framework.id())
        .field("source", source);
    if flags::asks_the_machine(args) {
        builder = builder.field("machine", machine());
    }
    if flags::has_debug_info(args) {
        builder = builder.field("folder", project.as_os_str().as_encoded_bytes());
    }
    // A new file can hide one that was read before, or be what `__has_include` asks for.
    for folder in searched(unit) {
        builder = builder.field("names", shop.cache.names_below(&project.join(folder)));
    }
    Ok(builder.finish())
}

/// Folders of the project in which the compiler looks for what a source includes.
fn searched(unit: &Unit) -> Vec<PathBuf> {
    let beside = Path::new(&unit.name).parent().unwrap_or(Path::new("")).to_owned();
    let mut folders = vec![beside];
    let args = &unit.command.args;
    for (at, arg) in args.iter().enumerate() {
        for flag in ["-I", "-iquote", "-isystem"] {
            let joined = arg.strip_prefix(flag).filter(|rest| !rest.is_empty());
            let behind = (arg == flag).then(|| args.get(at + 1).map(String::as_str)).flatten();
            folders.extend(joined.or(behind).map(PathBuf::from).filter(|folder| folder.is_relative()));
        }
    }
    folders.sort();
    folders.dedup();
    folders
}

/// The processor, as far as compilers look at it for `-march=native`.
pub(super) fn machine() -> String {
    const TELLING: &[&str] =
        &["vendor_id", "cpu family", "model", "stepping", "flags", "CPU implementer", "CPU part", "Features"];
    let text = files::read_text(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let first = text.split("\n\n").next().unwrap_or_default();
    let told = first
        .lines()
        .filter(|line| line.split_once(':').is_some_and(|(name, _)| TELLING.contains(&name.trim())));
    told.collect::<Vec<_>>().join("\n")
}

/// The fields of a command that decide what it makes.
pub(super) fn command_fields(builder: DigestBuilder, command: &CommandLine) -> DigestBuilder {
    let builder = builder.field("program", command.program.display().to_string());
    let builder = command.args.iter().fold(builder, |builder, arg| builder.field("arg", arg));
    command.env.iter().fold(builder, |builder, (name, value)| builder.field(name, value))
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
        return Ok(Origin::Compiled);
    }
    if unit.command.program == kit.cxx.program {
        return content::compile(shop, label, unit, kit, key);
    }
    let depfile = shop.project.join(&unit.depfile);
    // Written by this file system's clock, which the time of change of every file is compared with.
    files::write(&depfile, "")?;
    let (_, since) = files::stamp(&depfile)?;
    let log = if nvcc::drives(unit, kit) {
        nvcc::compile(shop, variant, unit, kit)?
    } else {
        run_logged(shop, label, &unit.command, &unit.object)?
    };
    let read = parse_depfile(&files::read_text(&depfile)?);
    if let Some(observed) = shop.cache.observe(shop.project, &read, since) {
        let object = files::read(&shop.project.join(&unit.object))?;
        shop.cache.remember(key, &object, observed, &log.text)?;
    }
    Ok(Origin::Compiled)
}
