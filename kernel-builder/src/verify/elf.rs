//! What a shared library asks of the process that loads it, and what it shows there.
//!
//! Owns: reading the dynamic section, the version requirements and the dynamic symbols. Works on stripped files.
//! Never: says what is allowed.

use std::collections::BTreeSet;

use object::elf;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};

/// The dynamic interface of a library.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Interface {
    /// `DT_NEEDED`.
    pub needed: Vec<String>,
    /// `DT_RPATH` and `DT_RUNPATH`.
    pub search_paths: Vec<String>,
    /// Symbol versions that other libraries must have: `GLIBC_2.17`.
    pub versions: BTreeSet<String>,
    /// Symbols that other libraries must have.
    pub undefined: BTreeSet<String>,
    /// Symbols that other libraries can use.
    pub exported: BTreeSet<String>,
    /// The same, of which the loader takes one of another library instead where there is one: code of headers.
    pub weak: BTreeSet<String>,
    /// Symbols of which a process has one for all libraries, however these were loaded (GNU extension).
    pub unique: BTreeSet<String>,
}

/// Reads a library's interface; the reason when it is no 64-bit little-endian ELF file.
pub(crate) fn interface(bytes: &[u8]) -> Result<Interface, String> {
    let file = parse(bytes)?;
    let table = file.elf_dynamic_table().map_err(|error| error.to_string())?;
    let mut found = Interface::default();
    for entry in &table {
        let into = match entry.tag {
            elf::DT_NEEDED => &mut found.needed,
            elf::DT_RPATH | elf::DT_RUNPATH => &mut found.search_paths,
            _ => continue,
        };
        into.push(text(table.string(entry).map_err(|error| error.to_string())?));
    }
    found.versions = versions(&file, bytes).map_err(|error| error.to_string())?;
    found.undefined = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined() && !symbol.is_weak())
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .filter(|name| !name.is_empty())
        .collect();
    for symbol in file.dynamic_symbols().filter(|symbol| !symbol.is_undefined()) {
        let raw = symbol.elf_symbol();
        let into = match raw.st_bind() {
            // The name of a symbol version is a symbol as well, of no address.
            _ if raw.st_shndx.get(LittleEndian) == elf::SHN_ABS => continue,
            elf::STB_GLOBAL => &mut found.exported,
            elf::STB_WEAK => &mut found.weak,
            elf::STB_GNU_UNIQUE => &mut found.unique,
            _ => continue,
        };
        into.extend(symbol.name().ok().filter(|name| !name.is_empty()).map(str::to_owned));
    }
    Ok(found)
}

/// The bytes of a section, when the file has it.
pub(crate) fn section<'a>(bytes: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, String> {
    let file = parse(bytes)?;
    let section = file.section_by_name(name);
    section.map(|section| section.data().map_err(|error| error.to_string())).transpose()
}

fn parse(bytes: &[u8]) -> Result<ElfFile64<'_, LittleEndian>, String> {
    ElfFile64::parse(bytes).map_err(|error| error.to_string())
}

fn versions(file: &ElfFile64<'_, LittleEndian>, bytes: &[u8]) -> object::Result<BTreeSet<String>> {
    let (endian, table) = (LittleEndian, file.elf_section_table());
    let mut found = BTreeSet::new();
    let Some((mut needs, strings)) = table.gnu_verneed(endian, bytes)? else { return Ok(found) };
    let strings = table.strings(endian, bytes, strings)?;
    while let Some((_, mut versions)) = needs.next()? {
        while let Some(version) = versions.next()? {
            found.insert(text(version.name(endian, strings)?));
        }
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
