//! What was measured, as it was made: sources, compilers, and the machine code that runs.
//!
//! Owns: the candidate's part of a record, and which machine code of several a device runs.
//! Never: reads a binary itself; `verify` does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::files;
use crate::compile::artifact::Artifact;
use crate::compile::nvrtc::{Cubin, Tool};
use crate::verify::machine_code::{self, MachineCode};

use super::sass::{self, Sass};

/// What was measured, as it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Whether it has host code of its own.
    pub kind: CandidateKind,
    /// Digest over build.toml, op.toml and every source: the same claim has the same one.
    pub source: Option<Digest>,
    /// The C++ compiler, as it signed the library; `nvrtc` or `nvcc` for device code.
    pub compiler: Option<String>,
    /// The flags that the project adds.
    pub flags: Vec<String>,
    /// The machine code that the device runs, one entry a source; all of it where the device did not say which.
    pub code: Vec<Code>,
    /// Of device code: the tunables of this case, and where they come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<Setting>,
}

/// The tunables of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Each with its value, as text.
    pub tuning: BTreeMap<String, String>,
    /// `the defaults of [tune]`, or a file of `tuned/` and its workload.
    pub from: String,
}

/// Whether a candidate has host code of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CandidateKind {
    /// A built package: host code, registered operators, or Python.
    Extension,
    /// Device code that is launched by `[launch]` of op.toml.
    Device,
}

/// The machine code of one source for one architecture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Code {
    /// `sm_90a`.
    pub arch: String,
    /// The assembler with its version.
    pub compiler: Option<String>,
    /// What the assembler was told.
    pub flags: Vec<String>,
    /// Its kernels.
    pub kernels: Vec<KernelFacts>,
}

/// One kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelFacts {
    /// The mangled name.
    pub kernel: String,
    /// Registers of each thread.
    pub registers: u32,
    /// Bytes of local memory of each thread: spilled registers and arrays that are indexed at run time.
    pub local: u32,
    /// Bytes of static shared memory of each block.
    pub shared: u64,
    /// What its code does; absent without a disassembler.
    pub sass: Option<Sass>,
}

impl Candidate {
    /// What a built package says of itself. What cannot be read is absent: `verify` has refused what is damaged.
    pub fn of_artifact(artifact: &Artifact, source: Option<Digest>, flags: Vec<String>) -> Self {
        let library = artifact.library.as_ref().and_then(|library| files::read(library).ok());
        let code = match artifact.backend.as_str() {
            "cuda" => library.as_deref().and_then(|library| machine_code::of_library(library).ok()),
            _ => None,
        };
        let program = sass::find();
        let code = code.unwrap_or_default().into_iter().map(|code| {
            let sass =
                program.as_deref().map(|program| sass::facts(program, &code.cubin)).unwrap_or_default();
            Code::new(code, sass)
        });
        Self {
            kind: CandidateKind::Extension,
            source,
            compiler: library.as_deref().and_then(machine_code::host_compiler),
            flags,
            code: code.collect(),
            setting: None,
        }
    }

    /// What is known of device code: its digest with that of the setting it was compiled with, and its machine code for
    /// one architecture.
    pub(super) fn of_device(source: Digest, arch: &str, tool: Tool, cubins: &[Cubin]) -> Self {
        let program = sass::find();
        let code = cubins.iter().filter_map(|cubin| {
            let bytes = files::read(&cubin.path).ok()?;
            let code = machine_code::of_cubin(format!("sm_{arch}"), bytes).ok()?;
            let sass =
                program.as_deref().map(|program| sass::facts(program, &code.cubin)).unwrap_or_default();
            Some(Code::new(code, sass))
        });
        Self {
            kind: CandidateKind::Device,
            source: Some(source),
            compiler: Some(tool.name().to_owned()),
            flags: tool.options().map(str::to_owned).to_vec(),
            code: code.collect(),
            setting: None,
        }
    }

    /// The candidate with the machine code alone that a device of this compute capability runs; with all of it where the
    /// capability is not known.
    pub(super) fn on(&self, capability: Option<(u32, u32)>) -> Self {
        let Some(capability) = capability else { return self.clone() };
        let best = self.code.iter().filter_map(|code| preference(&code.arch, capability)).max();
        let runs = |code: &&Code| best.is_some() && preference(&code.arch, capability) == best;
        Self { code: self.code.iter().filter(runs).cloned().collect(), ..self.clone() }
    }

    /// Every kernel of the machine code.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelFacts> {
        self.code.iter().flat_map(|code| &code.kernels)
    }
}

impl Code {
    fn new(code: MachineCode, mut sass: BTreeMap<String, Sass>) -> Self {
        let MachineCode { arch, compiler, flags, usages, cubin: _ } = code;
        let kernels = usages.into_iter().map(|usage| KernelFacts {
            sass: sass.remove(&usage.kernel),
            kernel: usage.kernel,
            registers: usage.registers,
            local: usage.stack,
            shared: usage.shared,
        });
        Self { arch, compiler, flags, kernels: kernels.collect() }
    }
}

/// How gladly a device takes code for an architecture, `None` when it cannot: code of the same major number and no
/// higher minor one runs (CUDA C++ Programming Guide, "Binary compatibility"), with the suffix `a` on that capability
/// alone; of several the driver takes the highest, and of those the most particular.
fn preference(arch: &str, (major, minor): (u32, u32)) -> Option<(u32, u8)> {
    let name = arch.strip_prefix("sm_")?;
    let suffix = name.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let number: u32 = name[..name.len() - suffix.len()].parse().ok()?;
    let own = major * 10 + minor;
    match suffix {
        "a" => (number == own).then_some((number, 2)),
        "f" => (number / 10 == major && number <= own).then_some((number, 1)),
        "" => (number / 10 == major && number <= own).then_some((number, 0)),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A candidate with one kernel, for the tests of what consumes records.
    pub(in crate::bench) fn example() -> Candidate {
        let sass = Sass {
            digest: Digest::blake3(b"code"),
            instructions: 210,
            opcodes: BTreeMap::from([("FFMA".to_owned(), 64), ("HMMA".to_owned(), 8)]),
            mma: BTreeMap::from([("HMMA.16816.F32.BF16".to_owned(), 8)]),
        };
        let kernel = KernelFacts {
            kernel: "rms_norm_rows".to_owned(),
            registers: 32,
            local: 0,
            shared: 128,
            sass: Some(sass),
        };
        Candidate {
            kind: CandidateKind::Extension,
            source: Some(Digest::blake3(b"source")),
            compiler: Some("GCC: (GNU) 13.3.0".to_owned()),
            flags: vec!["-O3".to_owned()],
            code: vec![Code {
                arch: "sm_90a".to_owned(),
                compiler: Some("ptxas, Cuda compilation tools, release 13.0, V13.0.88".to_owned()),
                flags: vec!["-arch".to_owned(), "sm_90a".to_owned()],
                kernels: vec![kernel],
            }],
            setting: None,
        }
    }

    #[test]
    fn a_device_runs_the_code_that_fits_best() {
        let code = |arch: &str| Code { arch: arch.to_owned(), ..example().code[0].clone() };
        let all = ["sm_80", "sm_86", "sm_90", "sm_90a", "sm_90a", "sm_100f", "sm_120"];
        let candidate = Candidate { code: all.map(code).to_vec(), ..example() };
        let archs = |capability| {
            let on = candidate.on(capability);
            on.code.iter().map(|code| code.arch.clone()).collect::<Vec<_>>()
        };
        assert_eq!(archs(Some((9, 0))), ["sm_90a", "sm_90a"]);
        assert_eq!(archs(Some((8, 9))), ["sm_86"]);
        assert_eq!(archs(Some((10, 3))), ["sm_100f"]);
        assert_eq!(archs(Some((12, 1))), ["sm_120"]);
        assert_eq!(archs(Some((7, 5))), [""; 0]);
        assert_eq!(archs(None).len(), all.len());
    }
}
