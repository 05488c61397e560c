//! What nvcc does with one source, as steps that can be run, cached and shared one by one.
//!
//! nvcc is a driver: it runs the host's preprocessor once an architecture and once for the host, `cudafe++` on the host's
//! text, `cicc` and `ptxas` on each architecture's, `fatbinary` on what they made, and the host compiler on the rest.
//! `--dryrun` prints these commands with every flag in its place, so no flag of nvcc's needs to be known here.
//!
//! Owns: the question to nvcc, the reading of its answer, what an older toolkit changes in the commands.
//! Never: guesses. An answer of another shape is [`NvccFallback`], and the caller runs nvcc as it is.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::kit::CudaKit;
use crate::plan::CommandLine;

mod alike;
mod cicc;
mod dryrun;
mod flags;
mod lighter;
mod tokens;
mod words;

pub use alike::Program;
pub use cicc::{Phases, phases_question, read_phases};
pub use dryrun::read;
pub use flags::question;
pub use lighter::{LIGHTER, lighter, restored};

/// What every file that the steps make is called, up to its ending.
pub const UNIT: &str = "unit.o";

/// The commands that make one object. Files that they make have bare names that begin with [`UNIT`]: all but the
/// preprocessor run in a folder of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// One for each virtual architecture, in the order of the command line.
    pub devices: Vec<Device>,
    /// The host's side.
    pub host: Host,
    /// Puts the code of all architectures into one file.
    pub fatbinary: CommandLine,
    /// That file.
    pub fat: String,
    /// The C text that nvcc's host code includes to embed it.
    pub embed: String,
    /// Names the unit in the symbols of its device code.
    pub module_id: String,
}

/// What is done for one virtual architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// e.g. `compute_90a`.
    pub arch: String,
    /// Preprocesses the source; runs in the project's folder.
    pub preprocess: CommandLine,
    /// The preprocessed source.
    pub text: String,
    /// Compiles it to PTX.
    pub cicc: CommandLine,
    /// The PTX.
    pub ptx: String,
    /// The launch code of the kernels, C text that the host's code includes.
    pub stub: String,
    /// Assembles it, once for each real architecture.
    pub assemble: Vec<Assemble>,
}

/// PTX to machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assemble {
    /// e.g. `sm_90a`.
    pub arch: String,
    /// The command.
    pub ptxas: CommandLine,
    /// The machine code.
    pub cubin: String,
}

/// What is done once a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Preprocesses the source for the host; runs in the project's folder.
    pub preprocess: CommandLine,
    /// The preprocessed source.
    pub text: String,
    /// Takes device code out of it.
    pub cudafe: CommandLine,
    /// What is left, C++ for the host compiler.
    pub source: String,
    /// The name under which that includes the launch code.
    pub stub: String,
    /// Compiles it to an object.
    pub compile: CommandLine,
}

/// Why nvcc is run as it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NvccFallback {
    /// The flag changes what nvcc makes, not only how.
    #[error("only nvcc supports `{0}`")]
    Flag(String),
    /// A line of the answer that no step has.
    #[error("nvcc --dryrun printed an unknown line: {0}")]
    Line(String),
    /// None of the architectures is known to the compiler, which would take its default.
    #[error("nvcc {0} supports none of its architectures")]
    Archs(String),
    /// A step is missing, or there is one too many.
    #[error("nvcc --dryrun did not print {0}")]
    Lacks(&'static str),
}

impl Steps {
    /// The commands with the headers, the assembler and the version of an older toolkit, whose compiler is another's.
    #[must_use]
    pub fn for_kit(mut self, kit: &CudaKit) -> Self {
        let Some(front) = &kit.front else { return self };
        let root = real_prefix(&front.root);
        for device in &mut self.devices {
            older(&mut device.preprocess, &root, kit, front.build);
            for assemble in &mut device.assemble {
                assemble.ptxas.program = kit.root.join("bin/ptxas");
            }
        }
        older(&mut self.host.preprocess, &root, kit, front.build);
        older(&mut self.host.compile, &root, kit, front.build);
        self
    }
}

fn real_prefix(root: &Path) -> String {
    format!("{}/", root.display())
}

/// Replaces the toolkit's own include folders and the version that headers ask for.
fn older(command: &mut CommandLine, front: &str, kit: &CudaKit, build: u32) {
    let (major, minor) = kit.version.split_once('.').unwrap_or((&kit.version, "0"));
    let mut args = Vec::with_capacity(command.args.len());
    let mut given = command.args.drain(..).peekable();
    while let Some(arg) = given.next() {
        if arg.strip_prefix("-I").is_some_and(|folder| folder.starts_with(front)) {
            args.push(format!("-I{}", kit.root.join("include").display()));
        } else if arg == "-isystem" && given.peek().is_some_and(|folder| folder.starts_with(front)) {
            given.next();
        } else {
            args.push(match arg.split_once('=') {
                Some((name @ ("-D__CUDACC_VER_MAJOR__" | "-D__CUDA_API_VER_MAJOR__"), _)) => {
                    format!("{name}={major}")
                }
                Some((name @ ("-D__CUDACC_VER_MINOR__" | "-D__CUDA_API_VER_MINOR__"), _)) => {
                    format!("{name}={minor}")
                }
                Some((name @ "-D__CUDACC_VER_BUILD__", _)) => format!("{name}={build}"),
                _ => arg,
            });
        }
    }
    drop(given);
    command.args = args;
}

/// PTX that an older assembler and driver read: the same text under an older version. They refuse what that version
/// does not have.
pub fn older_ptx(text: &str, version: &str) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    if let Some(line) = lines.iter_mut().find(|line| line.starts_with(".version ")) {
        *line = format!(".version {version}");
    }
    lines.join("\n")
}

/// The name that device symbols of a unit carry, for a unit that is compiled with these flags: it must differ between
/// the units of a library, and be the same in every run.
pub fn module_id(source: &str, digest: &str) -> String {
    let name: String = Path::new(source)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
        .collect();
    let half = |from: usize| digest.get(from..from + 8).unwrap_or("00000000");
    format!("_{}_{}_{name}_{}", half(0), name.len(), half(8))
}

/// C text that embeds the file `fat` where nvcc's text would spell it out: the section, the symbol and the record that
/// the CUDA runtime registers (`fatbinary_section.h` of the toolkit has the record's type).
pub fn embedding(fat: &str) -> String {
    format!(
        r#"#include "fatbinary_section.h"
__asm__(".section .nv_fatbin, \"a\"\n.balign 8\nfatbinData:\n.incbin \"{fat}\"\n.text\n");
#ifdef __cplusplus
extern "C" {{
#endif
extern const unsigned long long fatbinData[];
static const __fatBinC_Wrapper_t __fatDeviceText
    __attribute__((aligned(8), section(".nvFatBinSegment"))) = {{0x466243b1, 1, fatbinData, 0}};
#ifdef __cplusplus
}}
#endif
"#
    )
}

/// The host compiler's command, split: to assembler text, which does not depend on the device code, and from it to the
/// object, which does.
pub fn host_phases(compile: &CommandLine, assembly: &str) -> Option<(CommandLine, CommandLine)> {
    let mut to_text = compile.clone();
    let at = to_text.args.iter().position(|arg| arg == "-c")?;
    to_text.args[at] = "-S".to_owned();
    let out = to_text.args.iter().position(|arg| arg == "-o")? + 1;
    let object = std::mem::replace(to_text.args.get_mut(out)?, assembly.to_owned());
    let for_assembler =
        |arg: &&String| arg.starts_with("-Wa,") || arg.starts_with("-m") || arg.starts_with("-g");
    let to_object = CommandLine::new(PathBuf::from(&compile.program))
        .args(compile.args.iter().filter(for_assembler).cloned())
        .args(["-x", "assembler", "-c", assembly, "-o"])
        .arg(object);
    Some((to_text, to_object))
}
