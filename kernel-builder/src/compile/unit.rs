//! Compiles one unit, or finds what an earlier run made of the same inputs.
//!
//! Owns: what an object depends on. Never: decides a flag.

use std::path::{Path, PathBuf};

use kernel_plan::kit::{DeviceKit, Toolchain};
use kernel_plan::plan::{CommandLine, Unit};

use super::cache::{Dependency, parse_depfile};
use super::log::{self, run_logged};
use super::nvcc;
use super::slots::Label;
use super::{CompileError, Shop, content, flags, share};
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

/// What a compiler made of a unit, to be kept for later.
pub(super) struct Product {
    pub(super) bytes: Vec<u8>,
    /// What it said.
    pub(super) log: String,
    /// What it read, by name.
    pub(super) files: Vec<PathBuf>,
    /// What it read, as it was.
    pub(super) observed: Vec<Dependency>,
}

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

/// Names what a unit's object is made from, but for the content of headers.
pub(super) fn unit_key(shop: &Shop<'_>, unit: &Unit, kit: &Toolchain) -> Result<Digest, FileError> {
    let words: Vec<&str> = unit.command.args.iter().map(String::as_str).collect();
    key_of(shop, "compile-unit-2", unit, &words, kit, kit.framework.id())
}

/// The same with these words of the command and this identity of the framework.
pub(super) fn key_of(
    shop: &Shop<'_>,
    purpose: &str,
    unit: &Unit,
    words: &[&str],
    kit: &Toolchain,
    framework: &str,
) -> Result<Digest, FileError> {
    let project = shop.project;
    let source = files::read(&project.join(&unit.name))?;
    let cuda = kit.cuda.as_ref().map_or("", |cuda| cuda.id.as_str());
    let args = &unit.command.args;
    let mut builder = fields(DigestBuilder::new(purpose), &unit.command, words)
        .field("cxx", &kit.cxx.id)
        .field("cuda", cuda)
        .field("device", kit.device.as_ref().map_or("", DeviceKit::id))
        .field("nvcc", nvcc::manner())
        .field("framework", framework)
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
    let words: Vec<&str> = command.args.iter().map(String::as_str).collect();
    fields(builder, command, &words)
}

fn fields(builder: DigestBuilder, command: &CommandLine, words: &[&str]) -> DigestBuilder {
    let builder = builder.field("program", command.program.display().to_string());
    let builder = words.iter().fold(builder, |builder, arg| builder.field("arg", arg));
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
        shop.read.note_depfile(shop, variant, unit);
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
    let log = if nvcc::drives(unit, kit) {
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
