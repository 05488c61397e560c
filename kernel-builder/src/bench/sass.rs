//! What machine code does, by NVIDIA's disassembler where there is one.
//!
//! Owns: finding `nvdisasm`, asking it, counting opcodes, and the digest under which the same code is the same.
//! Never: judges; decodes machine code itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::plan::CommandLine;
use serde::{Deserialize, Serialize};

use crate::base::digest::{Digest, DigestBuilder};
use crate::base::process::{self, Limits};
use crate::base::{env, files};

const PROGRAM: &str = "nvdisasm";

/// What machine code does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sass {
    /// Of the text without addresses, labels' numbers and the kernel's name: equal code has an equal one.
    pub digest: Digest,
    /// Instructions.
    pub instructions: u64,
    /// How many of each opcode, without modifiers.
    pub opcodes: BTreeMap<String, u64>,
    /// Matrix instructions with all modifiers, which name their dtypes: `HMMA.16816.F32.BF16`.
    pub mma: BTreeMap<String, u64>,
}

/// Where the disassembler is: CUDA_HOME, else PATH, else the folder of NVIDIA's installer.
pub(super) fn find() -> Option<PathBuf> {
    let inside = |home: PathBuf| Some(home.join("bin").join(PROGRAM)).filter(|path| files::exists(path));
    env::text(env::CUDA_HOME)
        .map(PathBuf::from)
        .and_then(inside)
        .or_else(|| process::find(PROGRAM))
        .or_else(|| inside(PathBuf::from("/usr/local/cuda")))
}

/// What each kernel of a cubin does; empty when the disassembler cannot read it, since an older one does not know every
/// architecture.
pub(super) fn facts(program: &Path, cubin: &[u8]) -> BTreeMap<String, Sass> {
    let ask = || {
        let folder = files::scratch().ok()?;
        let path = folder.path().join("kernels.cubin");
        files::write(&path, cubin).ok()?;
        let line = CommandLine::new(program).arg("-c").arg(path.display().to_string());
        let done =
            process::run(&line, Limits { output: 1 << 30, ..Limits::wall(Duration::from_secs(120)) }).ok()?;
        done.ending.success().then(|| done.stdout_text())
    };
    ask().map(|listing| read(&listing)).unwrap_or_default()
}

/// Reads a listing of `nvdisasm -c`: a section `.text.KERNEL` for each kernel, labels at the margin, instructions after
/// their address in a comment.
fn read(listing: &str) -> BTreeMap<String, Sass> {
    let mut found = BTreeMap::new();
    let mut sections = listing.split("//---------------------").skip(1);
    let code = |section: &&str| section.trim_start().starts_with(".text.");
    for section in sections.by_ref().filter(code) {
        let name =
            section.trim_start().trim_start_matches(".text.").split_whitespace().next().unwrap_or_default();
        found.insert(name.to_owned(), of_kernel(name, section));
    }
    found
}

fn of_kernel(name: &str, section: &str) -> Sass {
    let mut opcodes: BTreeMap<String, u64> = BTreeMap::new();
    let mut mma: BTreeMap<String, u64> = BTreeMap::new();
    let mut labels: Vec<String> = Vec::new();
    let mut text = String::new();
    let mut instructions = 0;
    for line in section.lines().skip(1).map(str::trim) {
        if let Some(label) = line.strip_suffix(':').filter(|label| label.starts_with(".L_")) {
            text += &format!("{}:\n", numbered(label, &mut labels));
            continue;
        }
        let Some((_, instruction)) = line.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) else {
            continue;
        };
        let instruction = instruction.trim().trim_end_matches(';').trim();
        let Some(opcode) = instruction.split_whitespace().find(|word| !word.starts_with('@')) else {
            continue;
        };
        let base = opcode.split('.').next().unwrap_or(opcode);
        instructions += 1;
        *opcodes.entry(base.to_owned()).or_default() += 1;
        if base.ends_with("MMA") {
            *mma.entry(opcode.to_owned()).or_default() += 1;
        }
        text += &placeless(instruction, name, &mut labels);
        text.push('\n');
    }
    Sass { digest: DigestBuilder::new("sass-1").field("text", &text).finish(), instructions, opcodes, mma }
}

/// The instruction without what depends on its place: labels by the order in which they are seen, and no kernel's name.
fn placeless(instruction: &str, name: &str, labels: &mut Vec<String>) -> String {
    let mut text = String::new();
    let mut rest = instruction;
    while let Some(at) = rest.find(".L_") {
        let length = rest[at + 3..]
            .find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
            .map_or(rest.len() - at, |length| length + 3);
        text += &rest[..at];
        text += &numbered(&rest[at..at + length], labels);
        rest = &rest[at + length..];
    }
    (text + rest).replace(&format!("({name})"), "(kernel)")
}

fn numbered(label: &str, labels: &mut Vec<String>) -> String {
    let at = labels.iter().position(|known| known == label).unwrap_or_else(|| {
        labels.push(label.to_owned());
        labels.len() - 1
    });
    format!(".L{at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(name: &str, address: u32, label: &str) -> String {
        format!(
            "\t.target\tsm_90a\n\n//--------------------- .nv.info --------------\n\t.byte 4\n\n\
             //--------------------- .text.{name}                 ------\n\t.section\t.text.{name},\"ax\",@progbits\n\
             {name}:\n.text.{name}:\n\
             \x20       /*{:04x}*/                   LDC R1, c[0x0][0x28] ;\n\
             {label}:\n\
             \x20       /*{:04x}*/              @!P0 HMMA.16816.F32.BF16 R8, R4, R2, R8 ;\n\
             \x20       /*{:04x}*/                   HFMA2.MMA R0, -RZ, RZ, 0, 0 ;\n\
             \x20       /*{:04x}*/              @!P0 BRA `({label}) ;\n\
             \x20       /*{:04x}*/                   MOV R2, 32@lo({name}) ;\n\
             .L_x_77:\n",
            address,
            address + 16,
            address + 32,
            address + 48,
            address + 64,
        )
    }

    #[test]
    fn opcodes_are_counted() {
        let found = read(&listing("_Z2mmPf", 0, ".L_x_9"));
        let sass = &found["_Z2mmPf"];
        assert_eq!((found.len(), sass.instructions), (1, 5));
        let counted: Vec<_> = sass.opcodes.iter().map(|(opcode, count)| (opcode.as_str(), *count)).collect();
        assert_eq!(counted, [("BRA", 1), ("HFMA2", 1), ("HMMA", 1), ("LDC", 1), ("MOV", 1)]);
        // HFMA2.MMA is a multiplication of pairs and has nothing to do with matrices.
        assert_eq!(sass.mma.keys().collect::<Vec<_>>(), ["HMMA.16816.F32.BF16"]);
    }

    #[test]
    fn the_same_code_at_another_place_is_the_same() {
        let digest = |text: &str| read(text).into_values().next().unwrap().digest;
        let one = digest(&listing("_Z2mmPf", 0, ".L_x_9"));
        assert_eq!(one, digest(&listing("_Z5otherPf", 0x400, ".L_x_123")));
        assert_ne!(one, digest(&listing("_Z2mmPf", 0, ".L_x_9").replace("F32.BF16", "F32")));
    }

    #[test]
    fn a_listing_of_something_else_has_no_kernels() {
        assert!(read("nvdisasm fatal   : Unsupported architecture\n").is_empty());
    }

    #[test]
    fn without_a_disassembler_nothing_is_told() {
        assert!(facts(Path::new("/no/such/nvdisasm"), b"no cubin").is_empty());
    }
}
