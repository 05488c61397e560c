//! What kind of work a command does, and what it takes before anybody has seen this very step run.
//!
//! Owns: the kinds, the measured defaults. Never: decides what may run.

use kernel_plan::plan::CommandLine;
use serde::{Deserialize, Serialize};

use super::label::Label;

/// Kinds of processes, by what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Headers into one text.
    Preprocess,
    /// C++ of the host.
    Compile,
    /// nvcc's split of a source into host and device parts (`cudafe++`).
    Front,
    /// Device code to PTX (`cicc`).
    Device,
    /// PTX to machine code (`ptxas`).
    Assemble,
    /// A compiler of device code that does all of it in children of its own (`nvcc`, `hipcc`, `icpx`).
    Whole,
    /// A shared library.
    Link,
    /// What packs or copies.
    Pack,
}

/// What a process is expected to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    /// Wall-clock seconds of one slot.
    pub(super) seconds: f64,
    /// Resident bytes at the peak, with all that it starts.
    pub(super) memory: u64,
}

impl Kind {
    /// The kind of a command, by its program and its arguments.
    pub(super) fn classify(label: Label<'_>, command: &CommandLine) -> Self {
        let has = |wanted: &str| command.args.iter().any(|arg| arg == wanted);
        match command.program.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
            "cudafe++" => Self::Front,
            "cicc" => Self::Device,
            "ptxas" => Self::Assemble,
            "fatbinary" | "nvlink" | "as" | "ar" | "objcopy" => Self::Pack,
            _ if label.unit == "link" || has("-shared") => Self::Link,
            _ if has("-E") || has("-M") => Self::Preprocess,
            "nvcc" | "hipcc" | "icpx" | "xcrun" => Self::Whole,
            _ => Self::Compile,
        }
    }

    /// The name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Preprocess => "preprocess",
            Self::Compile => "compile",
            Self::Front => "front",
            Self::Device => "device",
            Self::Assemble => "assemble",
            Self::Whole => "whole",
            Self::Link => "link",
            Self::Pack => "pack",
        }
    }

    /// What it is, for people.
    pub(super) fn means(self) -> &'static str {
        match self {
            Self::Preprocess => "preprocessing of headers",
            Self::Compile => "host C++",
            Self::Front => "CUDA split into host and device (cudafe++)",
            Self::Device => "device code to PTX (cicc)",
            Self::Assemble => "PTX to machine code (ptxas)",
            Self::Whole => "a whole device compiler",
            Self::Link => "shared libraries",
            Self::Pack => "packing",
        }
    }

    /// What such a process takes where nothing is known of it. Measured with torch 2.11 and CUDA 13.0; the figures are in
    /// docs/testing.md. For memory it is the upper end of what was seen: too much delays a compiler by seconds, too
    /// little makes the machine swap.
    pub(super) fn usual(self) -> Cost {
        let (seconds, mebibytes) = match self {
            Self::Preprocess => (3.0, 256),
            Self::Compile => (30.0, 1536),
            Self::Front => (8.0, 2048),
            Self::Device => (15.0, 2816),
            Self::Assemble => (5.0, 512),
            Self::Whole => (60.0, 2816),
            Self::Link => (1.0, 256),
            Self::Pack => (0.2, 128),
        };
        Cost { seconds, memory: mebibytes << 20 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_by_its_program() {
        let label = Label { variant: "v", unit: "a.cu", step: "compile" };
        let of = |program: &str, args: &[&str]| {
            Kind::classify(label, &CommandLine::new(program).args(args.iter().copied()))
        };
        assert_eq!(of("/x/nvvm/bin/cicc", &[]), Kind::Device);
        assert_eq!(of("nvcc", &["-c", "a.cu"]), Kind::Whole);
        assert_eq!(of("nvcc", &["-E", "a.cu"]), Kind::Preprocess);
        assert_eq!(of("g++", &["-c", "a.cpp"]), Kind::Compile);
        assert_eq!(of("g++", &["-shared", "a.o"]), Kind::Link);
        assert_eq!(Kind::classify(Label { unit: "link", ..label }, &CommandLine::new("nvcc")), Kind::Link);
    }
}
