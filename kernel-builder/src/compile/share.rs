//! One object for all releases of a framework: a source that asks nothing of torch is known by its command without the
//! words that say which torch it is for.
//!
//! That nothing of it is asked is shown, not assumed: by the files that were read when the object was made, and by the
//! names that those files look for, which are compared with the folders of the framework at hand at every hit.
//!
//! Owns: which units can be shared, that proof, who makes a shared object. Never: decides a flag, starts a compiler.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use kernel_plan::kit::{DeviceKit, Toolchain};
use kernel_plan::plan::Unit;

use super::cache::{DirectHit, KeyClaim, TextQueries, foreign_text, own_text};
use super::flags::{self, FRAMEWORK_MACROS};
use super::label::Label;
use super::log;
use super::nvcc::manner::{self, WHOLE};
use super::product::Product;
use super::unit_key;
use super::{CompileError, Shop};
use crate::base::digest::Digest;
use crate::base::files::{self, FileError};

/// Files of a project that are looked at before anything is compiled. Only a guess hangs on it.
const LOOKED_AT: usize = 64;

/// Where compilers keep their own headers and those of the system.
pub(super) const SYSTEM: &[&str] = &["/usr/include/", "/usr/lib/", "/usr/lib64/", "/usr/local/include/"];

/// What a unit is known by for all releases. `None`: its command or its files say that it depends on the one at hand.
pub(super) fn key(shop: &Shop<'_>, unit: &Unit, kit: &Toolchain) -> Result<Option<Digest>, FileError> {
    // Not nvcc as a whole, for what `give` says; other compilers are not known well enough.
    let known =
        unit.command.program == kit.cxx.program || (manner::drives(unit, kit) && manner::manner() != "whole");
    let Some(words) = flags::without_framework(&unit.command.args, unit, kit.framework.include()) else {
        return Ok(None);
    };
    if !known || seems_to_depend(shop, unit, kit, &words) {
        return Ok(None);
    }
    unit_key::key_of(shop, "shared-unit-1", unit, &words, kit, "").map(Some)
}

/// A guess that spares the wait for a proof: whether the source, or a header of the project that it names, has a watched
/// macro or names a file of the framework.
fn seems_to_depend(shop: &Shop<'_>, unit: &Unit, kit: &Toolchain, words: &[&str]) -> bool {
    let folders: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix("-I")).collect();
    let mut open = vec![PathBuf::from(&unit.name)];
    let mut known = BTreeSet::new();
    while let Some(path) = open.pop() {
        if known.len() == LOOKED_AT || !known.insert(path.clone()) {
            continue;
        }
        let Some(asks) = asks_of(shop, &path, kit) else { continue };
        if asks.watched || asks.unclear || !lacks(shop, kit, asks.names.iter().map(String::as_str)) {
            return true;
        }
        let beside = path.parent().unwrap_or(Path::new(""));
        for name in &asks.names {
            let places = std::iter::once(beside).chain(folders.iter().map(Path::new));
            let mut places = places.map(|folder| folder.join(name)).filter(|place| place.is_relative());
            open.extend(places.find(|place| files::exists(&shop.project.join(place))));
        }
    }
    false
}

/// Takes the object from another release's variant; whether there was one. `direct` is the way that finds it next time.
pub(super) fn take(
    shop: &Shop<'_>,
    label: Label<'_>,
    unit: &Unit,
    kit: &Toolchain,
    key: &Digest,
    direct: &Digest,
) -> Result<bool, FileError> {
    let holds = |names: &str| lacks(shop, kit, names.lines());
    let Some(hit) = shop.cache.look_up_where(key, shop.project, holds) else { return Ok(false) };
    let DirectHit { object, log, .. } = &hit;
    if !shop.cache.restore(object, &shop.project.join(&unit.object))? {
        return Ok(false);
    }
    log::keep(shop, label, &unit.command, log)?;
    shop.read.note(label.variant, &unit.name, hit.paths());
    shop.cache.remember_hit(direct, hit)?;
    Ok(true)
}

/// Keeps what was made for all releases, where it is for all of them, and lets those who wait go on.
pub(super) fn give(
    shop: &Shop<'_>,
    label: Label<'_>,
    kit: &Toolchain,
    key: &Digest,
    turn: KeyClaim<'_>,
    product: Option<&Product>,
) -> Result<(), CompileError> {
    // nvcc as a whole, where its steps could not be told, draws names from the object's.
    let whole = shop.slots.timeline().ran(label.variant, label.unit, WHOLE);
    let product = product.filter(|_| !whole);
    let shown = product.and_then(|product| Some((product, names_asked(shop, kit, &product.files)?)));
    let Some((product, names)) = shown else {
        turn.apart();
        return Ok(());
    };
    let Product { bytes, observed, log, .. } = product;
    shop.cache.remember(key, bytes, observed.clone(), log, names)?;
    drop(turn);
    Ok(())
}

/// The names that these files look for, one a line; nothing where the object may depend on the framework.
fn names_asked(shop: &Shop<'_>, kit: &Toolchain, read: &[PathBuf]) -> Option<String> {
    let mut names = BTreeSet::new();
    let mut computed = false;
    for path in read {
        if is_below(&shop.project.join(path), kit.framework.include()) {
            return None;
        }
        let asks = asks_of(shop, path, kit)?;
        if asks.watched || asks.unclear {
            return None;
        }
        names.extend(asks.names.iter().cloned());
        computed |= asks.computed;
    }
    if computed {
        // What stands behind a macro may be put together of pieces; but it was found by the end of some path.
        names.extend(read.iter().flat_map(|path| endings(path)));
    }
    // A name with a line end in it is no name that a line can hold.
    let plain = !read.is_empty() && names.iter().all(|name| !name.contains('\n'));
    let text = names.into_iter().collect::<Vec<_>>().join("\n");
    (plain && lacks(shop, kit, text.lines())).then_some(text)
}

/// What a file asks. The system's and the toolkit's are read as foreign ones.
fn asks_of(shop: &Shop<'_>, path: &Path, kit: &Toolchain) -> Option<Arc<TextQueries>> {
    let place = shop.project.join(path);
    let mut toolkits: Vec<PathBuf> = kit.device.iter().flat_map(DeviceKit::include).cloned().collect();
    if let Some(cuda) = &kit.cuda {
        toolkits.push(cuda.root.clone());
        toolkits.extend(cuda.include.iter().cloned());
        toolkits.extend(cuda.front.iter().map(|front| front.root.clone()));
    }
    let text = place.to_string_lossy();
    let inside = place.starts_with(shop.project);
    let system = SYSTEM.iter().any(|folder| text.starts_with(folder)) || is_below(&place, &toolkits);
    let read = if system && !inside { foreign_text } else { own_text };
    shop.cache.asks(&place, |text| read(text, FRAMEWORK_MACROS))
}

/// Whether a path begins like one of the folders; by letters, since that is how compilers map paths.
fn is_below(place: &Path, folders: &[PathBuf]) -> bool {
    let place = place.to_string_lossy();
    folders.iter().any(|folder| place.starts_with(&*folder.to_string_lossy()))
}

/// Every name by which a file can have been found in some folder: `a/b/c.h`, `b/c.h`, `c.h`.
fn endings(path: &Path) -> Vec<String> {
    let parts: Vec<_> = path
        .components()
        .filter(|part| !matches!(part, Component::RootDir | Component::Prefix(_)))
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    (0..parts.len()).map(|at| parts[at..].join("/")).collect()
}

/// Whether no folder of the framework has a file by one of these names: then none of them is found there, and none that
/// is found elsewhere is hidden, wherever the folders stand in the order.
fn lacks<'n>(shop: &Shop<'_>, kit: &Toolchain, names: impl Iterator<Item = &'n str>) -> bool {
    let folders: Vec<_> =
        kit.framework.include().iter().map(|folder| (folder, shop.cache.entries_of(folder))).collect();
    let has = |name: &str| {
        let first = name.split('/').next().unwrap_or_default();
        folders.iter().any(|(folder, entries)| {
            let there = |entries: &Arc<BTreeSet<String>>| entries.contains(&first.to_ascii_lowercase());
            let possible = first.starts_with('.') || entries.as_ref().is_none_or(there);
            // Compilers pass over a folder by that name.
            let place = folder.join(name);
            possible && files::exists(&place) && !files::is_dir(&place)
        })
    };
    // One that begins at the root is the same file for all.
    !names.filter(|name| !name.starts_with('/')).any(has)
}
