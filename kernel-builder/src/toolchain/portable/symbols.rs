//! Reads the dynamic symbols of a library with their versions (System V ABI; LSB Core, "Symbol Versioning").
//!
//! Owns: the one place that walks dynsym, versym, verdef and verneed. Never: writes a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use object::elf::{self, FileHeader64};
use object::endian::Endianness;
use object::read::elf::{FileHeader, Sym};

use super::error::PortableError;
use super::version::{Age, age};

/// What a symbol names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Code, also the resolver of an indirect function.
    Function,
    /// Data.
    Object,
    /// A variable of a thread.
    ThreadLocal,
    /// The library does not say.
    Untyped,
}

/// One dynamic symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: String,
    /// Defined here with this version, or wanted in it; absent where none is written.
    pub(super) version: Option<String>,
    pub(super) kind: Kind,
    pub(super) weak: bool,
    pub(super) defined: bool,
    /// Defined for programs that were linked long ago only: a linker does not take it.
    pub(super) retired: bool,
    /// Bytes.
    pub(super) size: u64,
}

/// The dynamic symbols of one library, without those that only carry a version's name.
#[derive(Debug, Clone)]
pub(super) struct Library {
    pub(super) symbols: Vec<Symbol>,
    pub(super) is_arm: bool,
}

/// Reads a 64-bit shared library.
pub(super) fn read(path: &Path, data: &[u8]) -> Result<Library, PortableError> {
    parse(data).map_err(|cause| PortableError::NotElf { path: path.to_owned(), cause })
}

fn parse(data: &[u8]) -> object::read::Result<Library> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let table = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
    let versions = sections.versions(endian, data)?.unwrap_or_default();
    let mut symbols = Vec::new();
    for (index, symbol) in table.enumerate().skip(1) {
        let version_index = versions.version_index(endian, index);
        let version = versions.version(version_index.index())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if symbol.st_bind() == elf::STB_LOCAL || symbol.st_shndx(endian) == elf::SHN_ABS {
            continue;
        }
        symbols.push(Symbol {
            name: text(symbol.name(endian, table.strings())?),
            version: version.map(|version| text(version.name())),
            kind: match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => Kind::Function,
                elf::STT_OBJECT | elf::STT_COMMON => Kind::Object,
                elf::STT_TLS => Kind::ThreadLocal,
                _ => Kind::Untyped,
            },
            weak: symbol.st_bind() == elf::STB_WEAK,
            defined: !symbol.is_undefined(endian),
            retired: version_index.is_hidden(),
            size: symbol.st_size(endian),
        });
    }
    Ok(Library { symbols, is_arm: header.e_machine(endian) == elf::EM_AARCH64 })
}

/// Every version that a library wants of another one, as (file, version), from `.gnu.version_r`.
pub(super) fn required_versions(path: &Path, data: &[u8]) -> Result<Vec<(String, String)>, PortableError> {
    let read = || -> object::read::Result<Vec<(String, String)>> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        let Some((mut needs, link)) = sections.gnu_verneed(endian, data)? else { return Ok(Vec::new()) };
        let strings = sections.strings(endian, data, link)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut found = Vec::new();
        while let Some((need, mut versions)) = needs.next()? {
            let file = text(need.file(endian, strings)?);
            while let Some(version) = versions.next()? {
                found.push((file.clone(), text(version.name(endian, strings)?)));
            }
        }
        Ok(found)
    };
    read().map_err(|cause| PortableError::NotElf { path: path.to_owned(), cause })
}

/// What a library exports, cut at the caps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PortableExports {
    /// Each name once, with the newest version that old systems have, sorted by name.
    pub(super) kept: Vec<Symbol>,
    /// Names that old systems lack, with the version in which they came.
    pub(super) newer: BTreeMap<String, String>,
}

/// Leaves out names that are retired in every version.
pub(super) fn without_retired(symbols: Vec<Symbol>) -> Vec<Symbol> {
    let current: BTreeSet<String> =
        symbols.iter().filter(|symbol| !symbol.retired).map(|symbol| symbol.name.clone()).collect();
    symbols.into_iter().filter(|symbol| current.contains(&symbol.name)).collect()
}

/// Keeps of every exported name the newest version within the caps.
pub(super) fn cut(symbols: &[Symbol]) -> PortableExports {
    let mut kept: BTreeMap<&str, (Vec<u32>, &Symbol)> = BTreeMap::new();
    let mut newer = BTreeMap::new();
    for symbol in symbols.iter().filter(|symbol| symbol.defined) {
        let Some(version) = &symbol.version else { continue };
        match age(version) {
            Age::Old(numbers) => {
                let known = kept.get(symbol.name.as_str());
                if known.is_none_or(|(best, _)| *best < numbers) {
                    kept.insert(&symbol.name, (numbers, symbol));
                }
            }
            Age::Newer => {
                newer.insert(symbol.name.clone(), version.clone());
            }
            Age::Other => {}
        }
    }
    newer.retain(|name, _| !kept.contains_key(name.as_str()));
    PortableExports { kept: kept.into_values().map(|(_, symbol)| symbol.clone()).collect(), newer }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exported(name: &str, version: &str) -> Symbol {
        Symbol {
            name: name.to_owned(),
            version: Some(version.to_owned()),
            kind: Kind::Function,
            weak: false,
            defined: true,
            retired: false,
            size: 8,
        }
    }

    #[test]
    fn the_newest_version_within_the_caps_is_kept() {
        let symbols = [
            exported("memcpy", "GLIBC_2.2.5"),
            exported("memcpy", "GLIBC_2.14"),
            exported("pow", "GLIBC_2.29"),
            exported("pow", "GLIBC_2.2.5"),
            exported("gettid", "GLIBC_2.30"),
            exported("secret", "GLIBC_PRIVATE"),
        ];
        let cut = cut(&symbols);
        let kept: Vec<_> =
            cut.kept.iter().map(|symbol| (symbol.name.as_str(), symbol.version.as_deref())).collect();
        assert_eq!(kept, [("memcpy", Some("GLIBC_2.14")), ("pow", Some("GLIBC_2.2.5"))]);
        assert_eq!(cut.newer.into_iter().collect::<Vec<_>>(), [("gettid".into(), "GLIBC_2.30".into())]);
    }

    #[test]
    fn a_name_is_retired_when_every_version_is() {
        let retired = |name: &str, version: &str| Symbol { retired: true, ..exported(name, version) };
        let symbols = vec![
            retired("pow", "GLIBC_2.2.5"),
            exported("pow", "GLIBC_2.29"),
            retired("__cpu_model", "GCC_4.8.0"),
        ];
        assert_eq!(without_retired(symbols.clone()), symbols[..2]);
    }
}
