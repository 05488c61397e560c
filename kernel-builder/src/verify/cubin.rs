//! What a kernel uses of a multiprocessor, as the cubin says.
//!
//! Owns: reading `.nv.info` and the shared-memory sections. Never: judges the numbers.
//!
//! `.nv.info` is a list of records: format (1 without a value, 2 and 3 with two bytes, 4 with a size and bytes),
//! attribute, value. The attributes read here hold a symbol's index and numbers, four bytes each; their numbers are
//! those of `cuobjdump -elf` (EIATTR_REGCOUNT, EIATTR_FRAME_SIZE), and the results agree with `cuobjdump -res-usage`.

use std::collections::{BTreeMap, BTreeSet};

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SymbolIndex};
use serde::Serialize;
use thiserror::Error;

/// EIATTR_PARAM_CBANK: the symbol of the section with a kernel's parameters, their place and size.
const PARAMETERS: u8 = 0x0a;
const FRAME_SIZE: u8 = 0x11;
const REGISTER_COUNT: u8 = 0x2f;

/// Machine code that cannot be read.
#[derive(Debug, Error)]
pub(crate) enum CubinError {
    #[error(transparent)]
    Elf(#[from] object::Error),
    #[error("a record that ends early")]
    CutOff,
    #[error("a record of format {0}")]
    Format(u8),
}

/// The resources of one kernel (or device function) on one architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Usage {
    /// The mangled name.
    pub kernel: String,
    /// Registers for each thread.
    pub registers: u32,
    /// Bytes of local memory for each thread: arrays that are indexed at run time, and spilled registers.
    pub stack: u32,
    /// Bytes of static shared memory for each block, as the section has it.
    pub shared: u64,
}

/// The architecture that the machine code is for, without its suffix: ELF header flags, bits 8 to 15, or 0 to 7 before
/// version 8 of the format.
pub(crate) fn architecture(cubin: &[u8]) -> Result<u32, CubinError> {
    let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(cubin)?;
    let flags = file.elf_header().e_flags.get(LittleEndian).0;
    let version = file.elf_header().e_ident.abi_version;
    Ok(if version >= 8 { flags >> 8 & 0xff } else { flags & 0xff })
}

/// The resources of every kernel in a cubin, by name.
pub(crate) fn usages(cubin: &[u8]) -> Result<Vec<Usage>, CubinError> {
    let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(cubin)?;
    let mut found: BTreeMap<String, Usage> = BTreeMap::new();
    let mut counted = BTreeSet::new();
    let info = match file.section_by_name(".nv.info") {
        Some(section) => section.data()?,
        None => return Ok(vec![]),
    };
    for (attribute, symbol, value) in records(info)? {
        let Ok(symbol) = file.symbol_by_index(SymbolIndex(symbol as usize)) else { continue };
        let kernel = symbol.name()?.to_owned();
        let usage =
            found.entry(kernel.clone()).or_insert(Usage { kernel, registers: 0, stack: 0, shared: 0 });
        match attribute {
            REGISTER_COUNT => {
                usage.registers = value;
                counted.insert(usage.kernel.clone());
            }
            FRAME_SIZE => usage.stack = value,
            _ => {}
        }
    }
    for section in file.sections() {
        let name = section.name().unwrap_or_default();
        if let Some(usage) = name.strip_prefix(".nv.shared.").and_then(|kernel| found.get_mut(kernel)) {
            usage.shared = section.size();
        }
    }
    // Helpers of the compiler's own (division, say) have a frame but no count: their registers are the caller's.
    found.retain(|name, _| counted.contains(name));
    Ok(found.into_values().collect())
}

/// The attributes of one kernel, without the symbol that one of them names: its number depends on the other symbols.
///
/// # Errors
/// They are in another form than those of the compilers that are known.
pub(super) fn without_symbols(attributes: &[u8]) -> Result<Vec<u8>, CubinError> {
    let mut left = attributes.to_vec();
    let mut place = 0;
    while place + 4 <= left.len() {
        let size = size_of_record(&left[place..place + 4])?;
        if left[place + 1] == PARAMETERS {
            left.get_mut(place + 4..place + 8).ok_or(CubinError::CutOff)?.fill(0);
        }
        place += 4 + size;
    }
    Ok(left)
}

/// Bytes after the first four of a record.
fn size_of_record(head: &[u8]) -> Result<usize, CubinError> {
    match head[0] {
        4 => Ok(usize::from(u16::from_le_bytes([head[2], head[3]]))),
        1..=3 => Ok(0),
        format => Err(CubinError::Format(format)),
    }
}

/// The records that hold a symbol and a number: attribute, symbol, number.
fn records(info: &[u8]) -> Result<Vec<(u8, u32, u32)>, CubinError> {
    let word = |place: usize| -> Result<u32, CubinError> {
        let bytes = info.get(place..place + 4).ok_or(CubinError::CutOff)?;
        Ok(bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    };
    let mut found = Vec::new();
    let mut place = 0;
    while place + 4 <= info.len() {
        let attribute = info[place + 1];
        let size = size_of_record(&info[place..place + 4])?;
        if size == 8 && matches!(attribute, FRAME_SIZE | REGISTER_COUNT) {
            found.push((attribute, word(place + 4)?, word(place + 8)?));
        }
        place += 4 + size;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_symbol_is_left_out() {
        let attributes =
            |symbol: u8| vec![3, 0x1b, 0xff, 0, 4, PARAMETERS, 8, 0, symbol, 0, 0, 0, 0x10, 2, 0x20, 0];
        assert_eq!(without_symbols(&attributes(20)).unwrap(), without_symbols(&attributes(21)).unwrap());
        let mut larger = attributes(20);
        larger[14] = 0x28;
        assert_ne!(without_symbols(&attributes(20)).unwrap(), without_symbols(&larger).unwrap());
        assert!(without_symbols(&attributes(20)[..10]).is_err());
    }

    #[test]
    fn reads_records_of_every_format() {
        let mut info = vec![1, 0x0d, 0, 0, 3, 0x1b, 0xff, 0];
        info.extend([4, REGISTER_COUNT, 8, 0, 7, 0, 0, 0, 40, 0, 0, 0]);
        info.extend([4, 0x0a, 4, 0, 1, 2, 3, 4]);
        info.extend([4, FRAME_SIZE, 8, 0, 7, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(records(&info).unwrap(), [(REGISTER_COUNT, 7, 40), (FRAME_SIZE, 7, 256)]);
        assert!(records(&info[..info.len() - 1]).is_err());
        assert!(records(&[9, 0, 0, 0]).is_err());
    }
}
