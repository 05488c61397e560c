//! The state that machine code can keep between launches, and the clocks that it reads.
//!
//! Owns: reading variables, unresolved functions and a few instructions of a cubin. Never: judges them.
//!
//! Instructions have 128 bits since compute capability 7.0. The lowest 12 bits are the opcode with its form, of which 9 are
//! the opcode; bits 72 to 79 of a read of a special register name the register. The numbers were read off `nvdisasm -hex`
//! for sm_75, sm_80, sm_90a, sm_100 and sm_120, which agree.

use std::collections::BTreeSet;

use object::read::elf::{ElfFile64, ElfSection64};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};

use super::cubin;
use crate::base::files;
use crate::compile::nvrtc::Code;

/// Reads of special registers: S2R, CS2R, S2UR, CS2UR.
const READS_REGISTER: [u16; 4] = [0x919, 0x805, 0x9c3, 0x8cb];
/// `SR_CLOCKLO`, `SR_CLOCKHI`, `SR_GLOBALTIMERLO`, `SR_GLOBALTIMERHI`.
const CLOCKS: std::ops::RangeInclusive<u8> = 0x50..=0x53;
/// TEX, TLD4, TLD, TXD, TXQ, SULD, SUST, SURED, without their forms.
const TEXTURES: [u16; 8] = [0x160, 0x163, 0x166, 0x16c, 0x16f, 0x199, 0x19d, 0x19f];
/// The first architecture with instructions of 128 bits.
const VOLTA: u32 = 70;
/// Functions of the driver that give out or take back memory of the device's heap.
const HEAP: [&str; 2] = ["malloc", "free"];
/// The function of the driver behind `printf`.
const PRINT: &str = "vprintf";

/// Machine code's memory and clocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// `__device__` and `__managed__` variables without an initializer: memory that every launch finds as the last one
    /// left it.
    pub(crate) kept: Vec<Variable>,
    /// Data that the driver copies to the device with the code: variables with an initializer, tables, string literals.
    /// Code can write it; nothing in the file says whether it does.
    pub(crate) data: Vec<Data>,
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
    /// The mangled name; the section's where no symbol names the memory.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// A section of initialized data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) section: String,
    pub(crate) bytes: u64,
    /// Names with their offsets, by which the driver can be asked for the address.
    pub(crate) symbols: Vec<(String, u64)>,
}

impl State {
    /// Reads a cubin.
    ///
    /// # Errors
    /// It is not an ELF file, or an older one than can be read; the reason.
    pub(crate) fn of_cubin(bytes: &[u8]) -> Result<Self, String> {
        let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(bytes).map_err(|error| error.to_string())?;
        let mut found = Self::default();
        let is_readable = cubin::architecture(bytes)? >= VOLTA;
        for section in file.sections() {
            let name = section.name().unwrap_or_default();
            match name {
                ".nv.global" => found.kept.extend(variables(&file, &section)),
                ".nv.global.init" | ".nv.constant3" => found.data.extend(data(&file, &section)),
                _ if is_readable => {
                    if let Some(kernel) = name.strip_prefix(".text.") {
                        found.read_code(kernel, section.data().map_err(|error| error.to_string())?);
                    }
                }
                _ => {}
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

    fn read_code(&mut self, kernel: &str, code: &[u8]) {
        for instruction in code.chunks_exact(16) {
            let opcode = u16::from_le_bytes([instruction[0], instruction[1]]) & 0xfff;
            if READS_REGISTER.contains(&opcode) && CLOCKS.contains(&instruction[9]) {
                self.clocks.insert(kernel.to_owned());
            }
            if TEXTURES.contains(&(opcode & 0x1ff)) {
                self.textures.insert(kernel.to_owned());
            }
        }
    }
}

/// The state of all machine code of a candidate.
///
/// # Errors
/// A file cannot be read, or is not machine code; the reason.
pub(crate) fn of(code: &Code) -> Result<State, String> {
    code.cubins.iter().try_fold(State::default(), |all, cubin| {
        let bytes = files::read(&cubin.path).map_err(|error| error.to_string())?;
        let state = State::of_cubin(&bytes);
        Ok(all.with(state.map_err(|reason| format!("the machine code cannot be read: {reason}"))?))
    })
}

type Section<'data, 'file> = ElfSection64<'data, 'file, LittleEndian>;

/// The named places of a section: name, offset, size.
fn places(
    file: &ElfFile64<'_, LittleEndian>,
    section: &Section<'_, '_>,
) -> impl Iterator<Item = (String, u64, u64)> {
    let index = section.index();
    let inside = file.symbols().filter(move |symbol| symbol.section_index() == Some(index));
    inside.filter_map(|symbol| {
        let name = symbol.name().ok().filter(|name| !name.is_empty() && !name.starts_with('.'))?;
        Some((name.to_owned(), symbol.address(), symbol.size()))
    })
}

/// The variables of a section; the section itself where memory has no name.
fn variables(file: &ElfFile64<'_, LittleEndian>, section: &Section<'_, '_>) -> Vec<Variable> {
    let named = places(file, section).filter(|(_, _, bytes)| *bytes > 0);
    let named: Vec<Variable> = named.map(|(name, _, bytes)| Variable { name, bytes }).collect();
    if named.is_empty() && section.size() > 0 {
        let name = section.name().unwrap_or_default().to_owned();
        return vec![Variable { name, bytes: section.size() }];
    }
    named
}

fn data(file: &ElfFile64<'_, LittleEndian>, section: &Section<'_, '_>) -> Option<Data> {
    let symbols = places(file, section).map(|(name, offset, _)| (name, offset)).collect();
    let name = section.name().unwrap_or_default().to_owned();
    (section.size() > 0).then(|| Data { section: name, bytes: section.size(), symbols })
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
        state.read_code("k", &instructions.concat());
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
    fn a_text_is_not_a_cubin() {
        assert!(State::of_cubin(b"no cubin").is_err());
    }
}
