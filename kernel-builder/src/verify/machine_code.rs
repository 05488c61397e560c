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

/// The sections of a cubin by name, without the compiler's notes and lines of the source: what two compilations of one kernel
/// have in common. Nothing if it is no ELF file, or has no code.
pub(crate) fn parts(cubin: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(cubin).ok()?;
    let named = file.sections().map(|section| {
        let data = section.data().ok()?;
        Some((section.name().ok()?.to_owned(), data.to_vec()))
    });
    let all: Vec<(String, Vec<u8>)> = named.collect::<Option<_>>()?;
    let has_code = all.iter().any(|(name, _)| name.starts_with(".text."));
    has_code.then(|| all.into_iter().filter(|(name, _)| is_of_kernel(name)).collect())
}

/// Whether a section depends on the kernel alone.
fn is_of_kernel(section: &str) -> bool {
    !section.starts_with(".note") && !section.contains("debug")
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
    fn notes_and_lines_are_no_part_of_a_kernel() {
        for (section, is_part) in [
            (".text._Z1fv", true),
            (".nv.constant0._Z1fv", true),
            (".note.nv.tkinfo", false),
            (".debug_line", false),
            (".rela.debug_line", false),
            (".nv_debug_line_sass", false),
        ] {
            assert_eq!(is_of_kernel(section), is_part, "{section}");
        }
        assert_eq!(parts(b"no cubin"), None);
    }

    #[test]
    fn a_library_without_device_code_has_none() {
        assert!(of_library(b"no library").is_err());
        assert!(of_cubin("sm_90".to_owned(), b"no cubin".to_vec()).is_err());
    }
}
