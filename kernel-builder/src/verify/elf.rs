//! What a shared library asks of the process that loads it, and what it shows there.
//!
//! Owns: reading the dynamic section, the version requirements and the dynamic symbols. Works on stripped files.
//! Never: says what is allowed.
//!
//! The loader finds these tables by addresses in the dynamic segment, and knows no sections. They are read by section
//! here, so a file is refused whose sections are gone, or are not what the loader reads.

use std::collections::BTreeSet;

use object::elf::{self, DynamicTag, SectionType};
use object::read::elf::{Dynamic, DynamicTable, ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};
use thiserror::Error;

/// A file of the kind that is read here.
type File<'a> = ElfFile64<'a, LittleEndian>;

/// `EI_CLASS` of 64 bits and `EI_DATA` of little-endian numbers, which follow the magic number.
const CLASS_AND_DATA: &[u8] = &[2, 1];

/// An ELF file that cannot be read, or that hides what it has.
#[derive(Debug, Error)]
pub(crate) enum ElfError {
    #[error("it is not an ELF file")]
    OtherFormat,
    #[error("it is not a 64-bit little-endian ELF file")]
    OtherClass,
    #[error("it is not a shared library, but an object file, an executable or a core")]
    OtherKind,
    #[error("it has no dynamic segment, so it is not a shared library")]
    NoDynamicSegment,
    #[error("it is truncated: a segment extends past the end")]
    SegmentCutOff,
    #[error("it is damaged or truncated: a table of the loader extends past the end")]
    TableCutOff,
    #[error(
        "its section headers are missing, so its imports and exports cannot be read; use `strip`, which keeps them, not \
         `sstrip`"
    )]
    NoSections,
    #[error("its section headers describe other tables than the loader reads")]
    OtherTables,
    #[error("it is damaged or truncated")]
    Damaged(#[from] object::Error),
}

/// The dynamic interface of a library.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Interface {
    /// `e_machine`: the processor.
    pub machine: u16,
    /// `DT_NEEDED`.
    pub needed: Vec<String>,
    /// `DT_AUXILIARY`, `DT_FILTER`, `DT_AUDIT`, `DT_DEPAUDIT`: other ways to have a library loaded.
    pub redirected: Vec<String>,
    /// `DT_RPATH` and `DT_RUNPATH`.
    pub search_paths: Vec<String>,
    /// What it wants of the process, beyond libraries.
    pub demands: BTreeSet<Demand>,
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

/// What a library wants of the process that loads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Demand {
    /// Stacks that code can be run from: `PT_GNU_STACK` with the flag, or none on x86-64.
    ExecutableStack,
    /// Code that is written to when it is loaded: `DT_TEXTREL`.
    WritableCode,
    /// Not to be loaded by `dlopen`: `DF_1_PIE`, `DF_1_NOOPEN`.
    NotOpened,
}

/// Reads a library's interface.
///
/// # Errors
/// It is not a shared library of 64 bits, is damaged, or hides what it has.
pub(crate) fn interface(bytes: &[u8]) -> Result<Interface, ElfError> {
    let file = parse(bytes)?;
    let header = file.elf_header();
    if header.e_type(LittleEndian) != elf::ET_DYN {
        return Err(ElfError::OtherKind);
    }
    let table = file.elf_dynamic_table()?;
    sections_are_what_is_loaded(&file, bytes, &table)?;
    let mut found = Interface { machine: header.e_machine(LittleEndian).0, ..Interface::default() };
    found.demands = demands(&file, &table);
    for entry in &table {
        let into = match entry.tag {
            elf::DT_NEEDED => &mut found.needed,
            elf::DT_AUXILIARY | elf::DT_FILTER | elf::DT_AUDIT | elf::DT_DEPAUDIT => &mut found.redirected,
            elf::DT_RPATH | elf::DT_RUNPATH => &mut found.search_paths,
            // What the linker asks for with it, unless it is told not to (glibc 2.36).
            elf::DT_RELR => {
                found.versions.insert("GLIBC_ABI_DT_RELR".to_owned());
                continue;
            }
            _ => continue,
        };
        into.push(text(table.string(entry)?));
    }
    found.versions.extend(versions(&file, bytes)?);
    for symbol in file.dynamic_symbols() {
        let raw = symbol.elf_symbol();
        let into = match raw.st_bind() {
            elf::STB_GLOBAL if symbol.is_undefined() => &mut found.undefined,
            _ if symbol.is_undefined() => continue,
            // The name of a symbol version is a symbol as well, of no address.
            _ if raw.st_shndx.get(LittleEndian) == elf::SHN_ABS && symbol.address() == 0 => continue,
            elf::STB_GLOBAL => &mut found.exported,
            elf::STB_WEAK => &mut found.weak,
            elf::STB_GNU_UNIQUE => &mut found.unique,
            _ => continue,
        };
        let name = text(symbol.name_bytes()?);
        into.extend((!name.is_empty()).then_some(name));
    }
    Ok(found)
}

/// The bytes of a section, when the file has it.
pub(crate) fn section<'a>(bytes: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, ElfError> {
    let file = parse(bytes)?;
    let section = file.section_by_name(name);
    Ok(section.map(|section| section.data()).transpose()?)
}

/// Whether a file is of this format, by its first bytes.
pub(crate) fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&elf::ELFMAG)
}

fn parse(bytes: &[u8]) -> Result<File<'_>, ElfError> {
    if !is_elf(bytes) {
        return Err(ElfError::OtherFormat);
    }
    if bytes.get(elf::ELFMAG.len()..).is_none_or(|rest| !rest.starts_with(CLASS_AND_DATA)) {
        return Err(ElfError::OtherClass);
    }
    Ok(File::parse(bytes)?)
}

fn demands(file: &File<'_>, table: &DynamicTable<'_, elf::FileHeader64<LittleEndian>>) -> BTreeSet<Demand> {
    let flagged =
        |tag: DynamicTag, flag: u64| table.iter().any(|entry| entry.tag == tag && entry.val & flag != 0);
    let marked = table.iter().any(|entry| entry.tag == elf::DT_TEXTREL);
    let stack = file.elf_program_headers().iter().find(|part| part.p_type(LittleEndian) == elf::PT_GNU_STACK);
    let executable = match stack {
        Some(part) => part.p_flags(LittleEndian).0 & elf::PF_X.0 != 0,
        None => file.elf_header().e_machine(LittleEndian) == elf::EM_X86_64,
    };
    let code = marked || flagged(elf::DT_FLAGS, elf::DF_TEXTREL.0);
    let closed = flagged(elf::DT_FLAGS_1, elf::DF_1_PIE.0 | elf::DF_1_NOOPEN.0);
    [(executable, Demand::ExecutableStack), (code, Demand::WritableCode), (closed, Demand::NotOpened)]
        .into_iter()
        .filter_map(|(there, demand)| there.then_some(demand))
        .collect()
}

/// The tables that are read by section are those that the loader reads by address, and all of them are in the file.
fn sections_are_what_is_loaded(
    file: &File<'_>,
    bytes: &[u8],
    table: &DynamicTable<'_, elf::FileHeader64<LittleEndian>>,
) -> Result<(), ElfError> {
    let parts = file.elf_program_headers();
    for part in parts {
        part.data(LittleEndian, bytes).map_err(|()| ElfError::SegmentCutOff)?;
    }
    let dynamic = parts
        .iter()
        .find(|part| part.p_type(LittleEndian) == elf::PT_DYNAMIC)
        .ok_or(ElfError::NoDynamicSegment)?;
    if table.is_empty() || file.elf_dynamic_symbol_table().is_empty() {
        return Err(ElfError::NoSections);
    }
    let sections = file.elf_section_table();
    let of_kind = |kind: SectionType| sections.iter().find(|section| section.sh_type(LittleEndian) == kind);
    let linked = |kind: SectionType| {
        let index = of_kind(kind)?.link(LittleEndian);
        sections.section(index).ok()
    };
    let same = |section: Option<&elf::SectionHeader64<LittleEndian>>, address: u64| {
        section.is_some_and(|section| {
            section.sh_addr(LittleEndian) == address
                && offset(parts, address) == Some(section.sh_offset(LittleEndian))
        })
    };
    let mut agree = same(of_kind(elf::SHT_DYNAMIC), dynamic.p_vaddr(LittleEndian));
    // The loader reads on to the end of the segment, and finds symbols by their numbers, however short a section is said to be.
    agree &= of_kind(elf::SHT_DYNAMIC).map(|section| section.sh_size(LittleEndian))
        == Some(dynamic.p_filesz(LittleEndian));
    agree &= symbols_in_use(parts, bytes, table)? <= file.elf_dynamic_symbol_table().len() as u64;
    for Dynamic { tag, val, .. } in table {
        agree &= match tag {
            elf::DT_SYMTAB => same(of_kind(elf::SHT_DYNSYM), val),
            elf::DT_STRTAB => same(linked(elf::SHT_DYNSYM), val) && same(linked(elf::SHT_DYNAMIC), val),
            elf::DT_VERNEED => same(of_kind(elf::SHT_GNU_VERNEED), val),
            _ => true,
        };
    }
    if agree { Ok(()) } else { Err(ElfError::OtherTables) }
}

/// Where in the file the byte at an address comes from.
fn offset(parts: &[elf::ProgramHeader64<LittleEndian>], address: u64) -> Option<u64> {
    let loaded = parts.iter().filter(|part| part.p_type(LittleEndian) == elf::PT_LOAD);
    loaded
        .filter_map(|part| {
            let from_start = address.checked_sub(part.p_vaddr(LittleEndian))?;
            let inside = from_start < part.p_filesz(LittleEndian);
            inside.then(|| part.p_offset(LittleEndian).checked_add(from_start))?
        })
        .next()
}

/// How many symbols the loader may come to: those that relocations name, and those that its hash tables have.
fn symbols_in_use(
    parts: &[elf::ProgramHeader64<LittleEndian>],
    bytes: &[u8],
    table: &DynamicTable<'_, elf::FileHeader64<LittleEndian>>,
) -> Result<u64, ElfError> {
    let value = |tag: DynamicTag| table.iter().find(|entry| entry.tag == tag).map(|entry| entry.val);
    let at = |address: u64, size: u64| -> Result<&[u8], ElfError> {
        let start = offset(parts, address).and_then(|start| usize::try_from(start).ok());
        let rest = start.and_then(|start| bytes.get(start..));
        let part = rest.and_then(|rest| rest.get(..usize::try_from(size).ok()?));
        part.ok_or(ElfError::TableCutOff)
    };
    // Addresses are whatever the file says.
    let word = |address: u64, further: u64| {
        Ok::<_, ElfError>(u64::from(number(at(address.saturating_add(further), 4)?)))
    };
    let mut used = 0;
    for (place, size) in [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ)] {
        let (Some(address), Some(size)) = (value(place), value(size)) else { continue };
        // Entries of 24 bytes, with the symbol in the upper half of the second word.
        let symbols = at(address, size)?.chunks_exact(24).map(|entry| u64::from(number(&entry[12..16])));
        used = symbols.map(|symbol| symbol + 1).chain([used]).max().unwrap_or(used);
    }
    if let Some(address) = value(elf::DT_HASH) {
        used = used.max(word(address, 4)?);
    }
    if let Some(address) = value(elf::DT_GNU_HASH) {
        let (buckets, first, filter) = (word(address, 0)?, word(address, 4)?, word(address, 8)?);
        let start = address.saturating_add(16 + 8 * filter);
        let last = at(start, 4 * buckets)?.chunks_exact(4).map(|bucket| u64::from(number(bucket))).max();
        // A chain ends with an odd number; the last bucket's is the last of all.
        if let Some(mut symbol) = last.filter(|last| *last >= first && *last > 0) {
            while word(start, 4 * (buckets + symbol - first))? & 1 == 0 {
                symbol += 1;
            }
            used = used.max(symbol + 1);
        }
    }
    Ok(used)
}

/// A number of four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn versions(file: &File<'_>, bytes: &[u8]) -> object::Result<BTreeSet<String>> {
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

#[cfg(test)]
#[path = "elf_tests.rs"]
mod tests;
