//! The state that machine code can keep between launches, and the clocks that it reads.
//!
//! Owns: reading variables, unresolved functions and a few instructions of a cubin. Never: judges them.
//!
//! Instructions have 128 bits since compute capability 7.0. The lowest 12 bits are the opcode with its form, of which 9 are
//! the opcode. Bits 72 to 79 of a read of a special register name the register. An operand in constant memory has its bank
//! in bits 54 to 58 and its offset below. Bank 4 holds the addresses of variables, which the driver puts in by relocations.
//! The numbers were read off `nvdisasm -hex` for sm_75, sm_80, sm_90a, sm_100 and sm_120, which agree.

use std::collections::{BTreeMap, BTreeSet};

use object::read::elf::{ElfFile64, ElfSection64};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget};

use super::code_error::CodeError;
use super::cubin::{self, CubinError};
use crate::base::files;
use crate::compile::nvrtc::Code;

/// Reads of special registers: S2R, CS2R, S2UR, CS2UR.
const READS_REGISTER: [u16; 4] = [0x919, 0x805, 0x9c3, 0x8cb];
/// `SR_CLOCKLO`, `SR_CLOCKHI`, `SR_GLOBALTIMERLO`, `SR_GLOBALTIMERHI`.
const CLOCKS: std::ops::RangeInclusive<u8> = 0x50..=0x53;
/// TEX, TLD4, TLD, TXD, TXQ, SULD, SUST, SURED, without their forms.
const TEXTURES: [u16; 8] = [0x160, 0x163, 0x166, 0x16c, 0x16f, 0x199, 0x19d, 0x19f];
/// The bank of constant memory with the addresses of variables, and the bytes of an address.
const ADDRESSES: u64 = 4;
const ADDRESS: u64 = 8;
/// The section of that bank.
const ADDRESS_SECTION: &str = ".nv.constant4";
/// LDC, ULDC and LDCU.
const LOADS_CONSTANT: [u16; 3] = [0xb82, 0xab9, 0x7ac];
/// The forms of other instructions that have an operand in constant memory, and the register that is always zero.
const CONSTANT_FORMS: [u16; 2] = [3, 5];
const ZERO: u64 = 0xff;
/// The first architecture with instructions of 128 bits.
const VOLTA: u32 = 70;
/// Functions of the driver that give out or take back memory of the device's heap.
const HEAP: [&str; 2] = ["malloc", "free"];
/// The function of the driver behind `printf`.
const PRINT: &str = "vprintf";

/// Machine code's memory and clocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// `__device__` and `__managed__` variables without an initializer that the code addresses: memory that every launch
    /// finds as the last one left it.
    pub(crate) kept: Vec<Variable>,
    /// All other variables: those with an initializer, tables, string literals, constants, and those of headers that the code
    /// does not seem to address. It could write them; nothing in the file says whether it does.
    pub(crate) data: Vec<Variable>,
    /// Kernels that read a clock.
    pub(crate) clocks: BTreeSet<String>,
    /// Kernels that use textures or surfaces.
    pub(crate) textures: BTreeSet<String>,
    /// Whether it allocates or frees memory on the device.
    pub(crate) allocates: bool,
    /// Whether it calls `printf`.
    pub(crate) prints: bool,
}

/// A variable in the device's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    /// The mangled name, by which the driver finds it; the section's if no symbol names the memory.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

impl State {
    /// Reads a cubin.
    ///
    /// # Errors
    /// It is not an ELF file, or an older one than can be read.
    pub(crate) fn of_cubin(bytes: &[u8]) -> Result<Self, CubinError> {
        let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(bytes)?;
        let mut found = Self::default();
        let mut addressed = BTreeSet::new();
        let is_readable = cubin::architecture(bytes)? >= VOLTA;
        for section in file.sections().filter(|_| is_readable) {
            if let Some(kernel) = section.name().unwrap_or_default().strip_prefix(".text.") {
                let code = section.data()?;
                addressed.extend(found.read_code(kernel, code));
            }
        }
        let addressed = names_at(&file, &addressed);
        for section in file.sections() {
            let name = section.name().unwrap_or_default();
            let is_kept = match name {
                ".nv.global" => true,
                ".nv.global.init" | ".nv.constant3" => false,
                _ => continue,
            };
            for variable in variables(&file, &section) {
                let list = if is_kept && (addressed.contains(&variable.name) || !is_readable) {
                    &mut found.kept
                } else {
                    &mut found.data
                };
                list.push(variable);
            }
        }
        let undefined = file.symbols().filter(ObjectSymbol::is_undefined);
        let undefined: Vec<&str> = undefined.filter_map(|symbol| symbol.name().ok()).collect();
        found.allocates = undefined.iter().any(|name| HEAP.contains(name));
        found.prints = undefined.contains(&PRINT);
        Ok(found)
    }

    /// Adds what other machine code keeps and reads.
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.kept.extend(other.kept);
        self.kept.sort_by(|one, other| one.name.cmp(&other.name));
        self.kept.dedup();
        self.data.extend(other.data);
        self.clocks.extend(other.clocks);
        self.textures.extend(other.textures);
        self.allocates |= other.allocates;
        self.prints |= other.prints;
        self
    }

    /// Notes what the instructions of a kernel do, and gives the places in the bank of addresses that they read.
    fn read_code(&mut self, kernel: &str, code: &[u8]) -> BTreeSet<u64> {
        let mut addressed = BTreeSet::new();
        for instruction in code.chunks_exact(16) {
            let opcode = u16::from_le_bytes([instruction[0], instruction[1]]) & 0xfff;
            if READS_REGISTER.contains(&opcode) && CLOCKS.contains(&instruction[9]) {
                self.clocks.insert(kernel.to_owned());
            }
            if TEXTURES.contains(&(opcode & 0x1ff)) {
                self.textures.insert(kernel.to_owned());
            }
            addressed.extend(address_read(instruction, opcode));
        }
        addressed
    }
}

/// The place in the bank of addresses that an instruction reads, if it does and the place is in the instruction.
fn address_read(instruction: &[u8], opcode: u16) -> Option<u64> {
    let low = instruction[..8].iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let is_indexed = opcode == LOADS_CONSTANT[0] && low >> 24 & 0xff != ZERO;
    if low >> 54 & 0x1f != ADDRESSES || is_indexed {
        return None;
    }
    let offset = match LOADS_CONSTANT.iter().position(|load| *load == opcode) {
        Some(2) => low >> 37 & 0x1ffff,
        Some(_) => low >> 38 & 0xffff,
        None if CONSTANT_FORMS.contains(&(opcode >> 9)) => (low >> 40 & 0x3fff) * 4,
        None => return None,
    };
    Some(offset / ADDRESS * ADDRESS)
}

/// The state of all machine code of a candidate.
///
/// # Errors
/// A file cannot be read, or is not machine code.
pub(crate) fn examine(code: &Code) -> Result<State, CodeError> {
    code.cubins.iter().try_fold(State::default(), |all, cubin| {
        let bytes = files::read(&cubin.path)?;
        Ok(all.with(State::of_cubin(&bytes).map_err(CodeError::MachineCode)?))
    })
}

/// The symbols whose addresses lie at these places.
fn names_at(file: &ElfFile64<'_, LittleEndian>, places: &BTreeSet<u64>) -> BTreeSet<String> {
    let Some(section) = file.section_by_name(ADDRESS_SECTION) else { return BTreeSet::new() };
    let names: BTreeMap<u64, String> = section
        .relocations()
        .filter_map(|(place, relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else { return None };
            Some((place, file.symbol_by_index(index).ok()?.name().ok()?.to_owned()))
        })
        .collect();
    names.into_iter().filter(|(place, _)| places.contains(place)).map(|(_, name)| name).collect()
}

/// The variables of a section; the section itself where memory has no name.
fn variables(
    file: &ElfFile64<'_, LittleEndian>,
    section: &ElfSection64<'_, '_, LittleEndian>,
) -> Vec<Variable> {
    let index = section.index();
    let inside = file.symbols().filter(|symbol| symbol.section_index() == Some(index) && symbol.size() > 0);
    let named: Vec<Variable> = inside
        .filter_map(|symbol| Some(Variable { name: symbol.name().ok()?.to_owned(), bytes: symbol.size() }))
        .collect();
    if named.is_empty() && section.size() > 0 {
        let name = section.name().unwrap_or_default().to_owned();
        return vec![Variable { name, bytes: section.size() }];
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction with an opcode and a special register.
    fn instruction(opcode: u16, register: u8) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&(opcode | 0x7000).to_le_bytes());
        bytes[9] = register;
        bytes
    }

    fn of_code(instructions: &[[u8; 16]]) -> State {
        let mut state = State::default();
        let _addressed = state.read_code("k", &instructions.concat());
        state
    }

    #[test]
    fn clocks_are_found_and_other_registers_are_not() {
        for opcode in READS_REGISTER {
            for register in CLOCKS {
                assert_eq!(of_code(&[instruction(opcode, register)]).clocks.len(), 1);
            }
            // `SR_TID.X`, `SR_CTAID.X`, `SR_VIRTUALSMID`.
            for register in [0x21, 0x25, 0x43] {
                assert_eq!(of_code(&[instruction(opcode, register)]), State::default());
            }
        }
        assert_eq!(of_code(&[instruction(0x981, 0x50)]), State::default(), "a load has other fields there");
    }

    #[test]
    fn textures_are_found_in_every_form() {
        for opcode in [0xb60, 0xf60, 0xb66, 0xf99, 0xb9d, 0x59f] {
            assert_eq!(of_code(&[instruction(opcode, 0)]).textures.len(), 1, "{opcode:x}");
        }
        assert_eq!(of_code(&[instruction(0x981, 0), instruction(0x986, 0)]), State::default());
    }

    #[test]
    fn reads_of_addresses_are_found_in_every_form() {
        let read = |low: u64| address_read(&low.to_le_bytes(), (low & 0xfff) as u16);
        // IMAD.MOV.U32, ULDC.64, LDC.64, LDCU.64.
        assert_eq!(read(0x0100_0a00_ff0a_7624), Some(0x28));
        assert_eq!(read(0x0100_0b00_ff0b_7624), Some(0x28), "the other half of the same address");
        assert_eq!(read(0x0100_0400_000a_7ab9), Some(0x10));
        assert_eq!(read(0x0100_1800_ff16_7b82), Some(0x60));
        assert_eq!(read(0x0100_0800_ff06_77ac), Some(0x40));
        // An index in a register, another bank, no operand in constant memory.
        assert_eq!(read(0x0100_0000_0002_7b82), None);
        assert_eq!(read(0x00c0_1800_ff16_7b82), None);
        assert_eq!(read(0x0100_0a00_ff0a_7981), None);
    }

    #[test]
    fn a_text_is_not_a_cubin() {
        assert!(State::of_cubin(b"no cubin").is_err());
    }
}
