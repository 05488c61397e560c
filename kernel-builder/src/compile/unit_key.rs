//! Keys of units: everything that an object follows from.
//!
//! Owns: which words, tools and files are part of a key. Never: looks anything up.

use std::path::{Path, PathBuf};

use kernel_plan::kit::{DeviceKit, Toolchain};
use kernel_plan::plan::{CommandLine, Unit};

use super::flags;
use super::nvcc::manner::manner;
use super::shop::Shop;
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};

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
        .field("nvcc", manner())
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
