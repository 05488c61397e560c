//! The machine code of a library, by architecture, with what made it.
//!
//! Owns: putting together what the container, the cubins and their notes say. Never: judges any of it.

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection};

use super::code_error::CodeError;
use super::cubin::{self, CubinError, Usage};
use super::fatbin::Kind;
use super::{checks, elf};

/// The machine code of one source for one architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MachineCode {
    /// `sm_90a`.
    pub(crate) arch: String,
    /// The assembler with its version, as it signed: `ptxas, Cuda compilation tools, release 13.0, V13.0.88`.
    pub(crate) compiler: Option<String>,
    /// What the assembler was told.
    pub(crate) flags: Vec<String>,
    /// What each kernel uses.
    pub(crate) usages: Vec<Usage>,
    /// The ELF file.
    pub(crate) cubin: Vec<u8>,
}

/// All machine code in a library.
///
/// # Errors
/// The library or its device code cannot be read.
pub(crate) fn of_library(library: &[u8]) -> Result<Vec<MachineCode>, CodeError> {
    let entries = checks::archs::entries(library)?.into_iter().filter(|entry| entry.kind == Kind::Cubin);
    entries.map(|entry| Ok(of_cubin(format!("sm_{}", entry.arch), entry.payload)?)).collect()
}

/// One cubin for an architecture.
///
/// # Errors
/// It is not machine code.
pub(crate) fn of_cubin(arch: String, cubin: Vec<u8>) -> Result<MachineCode, CubinError> {
    let usages = cubin::usages(&cubin)?;
    let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(cubin.as_slice())?;
    let note = file.section_by_name(".note.nv.tkinfo").and_then(|section| section.data().ok());
    let (compiler, flags) = note.map(signed).unwrap_or_default();
    Ok(MachineCode { arch, compiler, flags, usages, cubin })
}

/// Code of one source for one architecture, machine code or PTX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceCode {
    /// Which of the two it is.
    pub(crate) kind: Kind,
    /// The architecture without a prefix: `90a`.
    pub(crate) arch: String,
    /// The mangled names of its kernels.
    pub(crate) names: Vec<String>,
    /// The ELF file, or the text.
    pub(crate) bytes: Vec<u8>,
}

/// All code of a library that a GPU runs or a driver compiles, in the order of the file.
///
/// # Errors
/// The library or its device code cannot be read.
pub(crate) fn device_code(library: &[u8]) -> Result<Vec<DeviceCode>, CodeError> {
    let entries = checks::archs::entries(library)?.into_iter();
    entries
        .map(|entry| {
            let names = match entry.kind {
                Kind::Cubin => cubin::usages(&entry.payload)?.into_iter().map(|usage| usage.kernel).collect(),
                Kind::Ptx => entry_points(&String::from_utf8_lossy(&entry.payload)),
            };
            Ok(DeviceCode { kind: entry.kind, arch: entry.arch, names, bytes: entry.payload })
        })
        .collect()
}

/// The kernels of a PTX text: `.visible .entry NAME(`.
fn entry_points(ptx: &str) -> Vec<String> {
    let after = ptx.lines().filter_map(|line| line.trim_start().strip_prefix(".visible .entry "));
    after.filter_map(|rest| Some(rest.split(['(', ' ']).next()?.to_owned())).collect()
}

/// What decides what a cubin does and how fast: two that are equal in it are the same kernels. Nothing if it is no ELF file,
/// or has no code.
///
/// Names, notes and lines of the source are left out. So are variables of the file, unless code may read them: a compiler
/// keeps each constant of a namespace, used or not, under a name with a hash of the source.
pub(crate) fn essence(cubin: &[u8]) -> Option<Essence> {
    let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(cubin).ok()?;
    let named = file.sections().map(|section| {
        let data = section.data().ok()?;
        Some((section.name().ok()?.to_owned(), section.size(), data.to_vec()))
    });
    let mut sections: Vec<(String, u64, Vec<u8>)> = named.collect::<Option<_>>()?;
    let code: Vec<&[u8]> = sections
        .iter()
        .filter(|(name, ..)| name.starts_with(TEXT))
        .map(|(.., data)| data.as_slice())
        .collect();
    if code.is_empty() {
        return None;
    }
    let with_variables = code.iter().any(|code| may_read_variables(code));
    sections.retain(|(name, ..)| is_of_kernel(name) || with_variables && is_of_variables(name));
    for (name, _, data) in &mut sections {
        if name.starts_with(INFO) {
            *data = cubin::without_symbols(data).ok()?;
        } else if name == SYMBOLS {
            data.chunks_exact_mut(SYMBOL).for_each(|symbol| symbol[..4].fill(0));
        }
    }
    Some(Essence { usages: cubin::usages(cubin).ok()?, sections })
}

/// See [`essence`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Essence {
    usages: Vec<Usage>,
    /// Name, size and bytes, of which memory without values has none.
    sections: Vec<(String, u64, Vec<u8>)>,
}

const TEXT: &str = ".text.";
const INFO: &str = ".nv.info.";
const SYMBOLS: &str = ".symtab";
/// Bytes of a symbol, whose first four say where its name is.
const SYMBOL: usize = 24;

/// Whether a section depends on the kernels alone: their code, its relocations, parameters, literals, attributes and shared
/// memory.
fn is_of_kernel(section: &str) -> bool {
    [TEXT, ".rela.text.", ".rel.text.", ".nv.constant0.", ".nv.constant2.", INFO, ".nv.shared."]
        .iter()
        .any(|start| section.starts_with(start))
}

/// Whether a section has variables of the file, or says where they are.
fn is_of_variables(section: &str) -> bool {
    [".nv.global", ".nv.constant", ".rela.nv.constant", SYMBOLS]
        .iter()
        .any(|start| section.starts_with(start))
}

/// Whether an instruction may read constant bank 3, of `__constant__` variables, or 4, of the addresses of all others. Bits
/// 54 to 58 of an instruction of 16 bytes name the bank where it has one (seen for sm_80 to sm_120), and are anything else
/// where it has none; so the answer may be yes without need.
fn may_read_variables(code: &[u8]) -> bool {
    code.chunks_exact(16).any(|instruction| matches!(instruction[6] >> 6 | (instruction[7] & 7) << 2, 3 | 4))
}

/// The C++ compiler of a library, as it signed: `GCC: (Ubuntu 13.3.0) 13.3.0`.
pub(crate) fn host_compiler(library: &[u8]) -> Option<String> {
    let comment = elf::section(library, ".comment").ok()??;
    let texts = texts_of(comment);
    // Objects of the C library are signed too, often by an older one: the last is that of what was linked last.
    texts.into_iter().next_back()
}

/// The assembler and its flags from the note that it leaves: after some numbers, its name, version, build and flags as
/// texts that each end in a zero byte (seen in cubins of CUDA 12.6 to 13.2).
fn signed(note: &[u8]) -> (Option<String>, Vec<String>) {
    let texts = texts_of(note);
    let Some(at) = texts.iter().position(|text| text.contains("release ")) else { return (None, Vec::new()) };
    let name = at.checked_sub(1).map_or("", |before| texts[before].as_str());
    // Numbers in front of the name may end in a letter; a program's name is all that is left then.
    let compiler = if name.is_empty() { texts[at].clone() } else { format!("{name}, {}", texts[at]) };
    let flags = texts.get(at + 2).map(|flags| flags.split_whitespace().map(str::to_owned).collect());
    (Some(compiler), flags.unwrap_or_default())
}

/// The texts of four printable letters or more that end in a zero byte.
fn texts_of(bytes: &[u8]) -> Vec<String> {
    bytes
        .split(|byte| *byte == 0)
        .filter(|part| part.len() >= 4 && part.iter().all(|byte| (b' '..=b'~').contains(byte)))
        .map(|part| String::from_utf8_lossy(part).trim().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assembler_signs() {
        let note = b"\x0c\0\0\0\x8c\0\0\0\xd0\x07\0\0NVIDIA Corp\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x07\0\0\x006\0\0\0`\0\0\0\0\
            ptxas\0Cuda compilation tools, release 13.0, V13.0.88\0Build cuda_13.0.r13.0/compiler.36424714_0\0\
            -arch sm_90a -m 64 \0";
        let (compiler, flags) = signed(note);
        assert_eq!(compiler.as_deref(), Some("ptxas, Cuda compilation tools, release 13.0, V13.0.88"));
        assert_eq!(flags, ["-arch", "sm_90a", "-m", "64"]);
        assert_eq!(signed(b"nothing of the kind\0"), (None, vec![]));
        assert_eq!(signed(b""), (None, vec![]));
    }

    #[test]
    fn notes_lines_and_variables_are_no_part_of_a_kernel() {
        for (section, of_kernel, of_variables) in [
            (".text._Z1fv", true, false),
            (".nv.constant0._Z1fv", true, true),
            (".nv.info._Z1fv", true, false),
            (".nv.info", false, false),
            (".nv.constant4", false, true),
            (".nv.global.init", false, true),
            (".note.nv.tkinfo", false, false),
            (".rela.debug_line", false, false),
            (".nv_debug_line_sass", false, false),
        ] {
            assert_eq!(
                (is_of_kernel(section), is_of_variables(section)),
                (of_kernel, of_variables),
                "{section}"
            );
        }
        assert_eq!(essence(b"no cubin"), None);
    }

    #[test]
    fn code_that_reads_a_variable_is_found() {
        // `LDC.64 R2, c[0x4][0x0]` and `LDC R1, c[0x0][0x28]`, for sm_90.
        let reads = 0x0100_0000_ff02_7b82_u64.to_le_bytes();
        let of_parameters = 0x0000_0a00_ff01_7b82_u64.to_le_bytes();
        let instruction = |low: [u8; 8]| [low, [0; 8]].concat();
        assert!(may_read_variables(&instruction(reads)));
        assert!(!may_read_variables(&instruction(of_parameters)));
    }

    #[test]
    fn kernels_of_ptx_are_its_entries() {
        let text = ".version 9.0\n.target sm_120\n\t// .globl _Z1fv\n.visible .entry _Z1fv(\n.param .u64 a\n)\n\
                    .visible .entry _Z1gv()\n.visible .func h()\n";
        assert_eq!(entry_points(text), ["_Z1fv", "_Z1gv"]);
    }

    #[test]
    fn a_library_without_device_code_has_none() {
        assert!(of_library(b"no library").is_err());
        assert!(of_cubin("sm_90".to_owned(), b"no cubin".to_vec()).is_err());
    }
}
