//! Host units by content: a source is preprocessed, and compiled only where the same text has not been compiled before.
//!
//! The key holds the text with its paths mapped, the flags that the preprocessor leaves, and the compiler. So a source
//! that includes nothing of torch is compiled once for all torch releases, and a folder, a cache or a machine may be
//! another one.
//!
//! Owns: that key. Never: decides a flag, starts a compiler while another thread makes the same object.

use std::path::{Path, PathBuf};

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::{CommandLine, Unit};

use super::cache::{CacheEntry, Dependency, parse_depfile};
use super::flags::{self, PathMaps};
use super::label::Label;
use super::log::{self, run_logged};
use super::naming::{self, position};
use super::outside;
use super::product::{Origin, Product};
use super::unit_key::machine;
use super::{CompileError, Shop};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files;

/// Pulls a file into the object that neither the text nor the dependency file has.
const PULLED_IN: &[&[u8]] =
    &[b".incbin", b".include \\\"", b".include\\\"", b".include\\t", b".include \"", b".include\t\""];

/// Becomes the time of change of a file, which the direct way does not look at when the content is the same.
const TIME_OF_FILE: &[u8] = b"__TIMESTAMP__";

/// Preprocesses the unit and compiles its text, or finds what that came to; with what the direct way may keep of it.
pub(super) fn compile(
    shop: &Shop<'_>,
    label: Label<'_>,
    unit: &Unit,
    kit: &Toolchain,
) -> Result<(Origin, Option<Product>), CompileError> {
    let Shop { project, cache, .. } = *shop;
    let object = project.join(&unit.object);
    let preprocessed = preprocess(shop, label, unit)?;
    shop.read.note(label.variant, &unit.name, preprocessed.files.iter().cloned());
    shop.read.note(label.variant, &unit.name, outside::pulled_in(project, &preprocessed.text));
    let Some(observed) = preprocessed.observed.filter(|_| whole(&preprocessed.text)) else {
        run_logged(shop, label, &unit.command, &unit.object)?;
        return Ok((Origin::Compiled, None));
    };
    let content = content_key(unit, kit, &preprocessed.text);
    let free = naming::is_free(&preprocessed.text);
    drop(preprocessed.text);
    let (made, fresh) = cache.once_told::<CompileError>(&content, || {
        let log = run_logged(shop, label, &unit.command, &unit.object)?;
        let lasting = cache.still(project, &observed);
        Ok(CacheEntry { bytes: files::read(&object)?, log: log.text, lasting })
    })?;
    if !fresh {
        files::write(&object, &made.bytes)?;
        log::keep(shop, label, &unit.command, &made.log)?;
    }
    if free {
        naming::note_free(shop, unit, &made.bytes)?;
    }
    let lasts = made.lasting && !mentions(project, &preprocessed.files, &[TIME_OF_FILE]);
    let CacheEntry { bytes, log, .. } = made;
    let product = lasts.then_some(Product { bytes, log, files: preprocessed.files, observed });
    Ok((if fresh { Origin::Compiled } else { Origin::Known }, product))
}

/// A unit's text.
struct Preprocessed {
    text: Vec<u8>,
    files: Vec<PathBuf>,
    /// The files as they were; absent where one was written while the preprocessor read.
    observed: Option<Vec<Dependency>>,
}

fn preprocess(shop: &Shop<'_>, label: Label<'_>, unit: &Unit) -> Result<Preprocessed, CompileError> {
    let Shop { project, cache, .. } = *shop;
    let place = format!("{}.ii", unit.object);
    let depfile = project.join(&unit.depfile);
    // Written by this file system's clock, which the time of change of every file is compared with.
    files::write(&depfile, "")?;
    let (_, since) = files::stamp(&depfile)?;
    let command =
        CommandLine { args: flags::preprocessing(&unit.command.args, &place), ..unit.command.clone() };
    run_logged(shop, Label { step: "preprocess", ..label }, &command, &place)?;
    let text = files::read(&project.join(&place))?;
    files::remove_file(&project.join(&place))?;
    let files = parse_depfile(&files::read_text(&depfile)?);
    let observed = cache.observe(project, &files, since);
    Ok(Preprocessed { text, files, observed })
}

/// Whether the object follows from the text alone.
fn whole(text: &[u8]) -> bool {
    !PULLED_IN.iter().any(|word| position(text, word).is_some())
}

/// Whether the object of a unit whose text nobody looks at depends on more than the content of these files, as far as the
/// project's own say.
pub(super) fn depends_on_more(project: &Path, files: &[PathBuf]) -> bool {
    mentions(project, files, &[PULLED_IN, &[TIME_OF_FILE]].concat())
}

/// Files that the project's sources include through the assembler.
pub(super) fn pulled_in(project: &Path, files: &[PathBuf]) -> Vec<PathBuf> {
    let own = files.iter().filter(|path| path.is_relative());
    let texts = own.filter_map(|path| files::read(&project.join(path)).ok());
    texts.flat_map(|text| outside::pulled_in(project, &text)).collect()
}

/// Whether one of the project's own files has one of these words.
fn mentions(project: &Path, files: &[PathBuf], words: &[&[u8]]) -> bool {
    let own = files.iter().filter(|path| path.is_relative());
    own.filter_map(|path| files::read(&project.join(path)).ok())
        .any(|text| words.iter().any(|word| position(&text, word).is_some()))
}

fn content_key(unit: &Unit, kit: &Toolchain, text: &[u8]) -> Digest {
    let args = &unit.command.args;
    let language = Path::new(&unit.name).extension().map(|ending| ending.as_encoded_bytes());
    let mut builder = DigestBuilder::new("host-unit-1")
        .field("cxx", &kit.cxx.id)
        .field("language", language.unwrap_or_default());
    for word in flags::left_after_preprocessing(args, &unit.name) {
        builder = builder.field("arg", word);
    }
    for (name, value) in &unit.command.env {
        builder = builder.field(name, value);
    }
    if flags::asks_the_machine(args) {
        builder = builder.field("machine", machine());
    }
    builder.field("text", PathMaps::from_args(args).apply(text)).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_source_pulls_in_is_seen_without_its_text() {
        let project = files::scratch().unwrap();
        let name = [PathBuf::from("a.cu")];
        let depends = |text: &str| {
            files::write(&project.path().join("a.cu"), text).unwrap();
            depends_on_more(project.path(), &name)
        };
        assert!(depends("asm(\".incbin \\\"data.bin\\\"\");") && depends("auto t = __TIMESTAMP__;"));
        assert!(!depends("#include \"a.h\"\n"));
    }

    #[test]
    fn what_the_assembler_pulls_in_is_seen() {
        assert!(whole(b"int f() { return set.included_; }"));
        assert!(!whole(b"asm(\".incbin \\\"data.bin\\\"\");"));
        assert!(!whole(b"asm(\".include \\\"more.s\\\"\");"));
    }
}
