//! Which instruction multiplies matrices fastest on an architecture, and what a kernel of nothing else does.
//!
//! Owns: the kernels of `resources/ceilings/`, how many products they make, and what their sums must be.
//! Never: starts one.

use crate::compile::nvrtc::Source;

const WGMMA: &str = concat!(
    include_str!("../../../resources/ceilings/operands.cuh"),
    include_str!("../../../resources/ceilings/wgmma.cu")
);
const MMA: &str = concat!(
    include_str!("../../../resources/ceilings/operands.cuh"),
    include_str!("../../../resources/ceilings/mma.cu")
);

/// Threads of a block in both.
pub(super) const BLOCK: u32 = 256;
/// Bytes that a block leaves: two sums of every thread.
pub(super) const LEFT: u64 = 8 * BLOCK as u64;

/// Operands whose products are measured.
pub(super) struct Kind {
    /// As op.toml calls it; `tf32` is no dtype of a tensor.
    pub(super) dtype: &'static str,
    /// As the kernels call it.
    name: &'static str,
    /// As instructions call it.
    word: &'static str,
    /// Products that are added for one element of the result by one instruction.
    depth: u64,
    /// Whether sums are integers.
    pub(super) integer: bool,
}

/// Sums are of 32 bits in all of them.
pub(super) const KINDS: [Kind; 5] = [
    Kind { dtype: "bf16", name: "Bf16", word: "bf16", depth: 16, integer: false },
    Kind { dtype: "f16", name: "F16", word: "f16", depth: 16, integer: false },
    Kind { dtype: "tf32", name: "Tf32", word: "tf32", depth: 8, integer: false },
    Kind { dtype: "f8e4m3", name: "E4m3", word: "e4m3", depth: 32, integer: false },
    Kind { dtype: "i8", name: "S8", word: "s8", depth: 32, integer: true },
];

/// The instruction of an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instruction {
    /// Of four warps, operands in shared memory: compute capability 9.0.
    Wgmma,
    /// Of one warp, operands in registers. On 9.0 and 10.x it is there for old programs, and slower than the machine is.
    Mma,
}

impl Instruction {
    /// That of a capability for a kind; why there is none.
    pub(super) fn choose(capability: (u32, u32), kind: &Kind) -> Result<Self, String> {
        let here = format!("compute capability {}.{}", capability.0, capability.1);
        match capability {
            (8, ..9) if kind.dtype == "f8e4m3" => Err(format!("{here} does not multiply 8-bit floats")),
            (8 | 12, _) => Ok(Self::Mma),
            (9, 0) => Ok(Self::Wgmma),
            (10 | 11, _) => Err(format!("{here} multiplies by tcgen05, which this version does not issue")),
            (..8, _) => Err(format!("{here} does not multiply {} with sums of 32 bits", kind.dtype)),
            _ => Err(format!("this version does not know {here}")),
        }
    }

    /// The instruction as PTX has it.
    pub(super) fn ptx(self, kind: &Kind) -> String {
        let sum = if kind.integer { "s32" } else { "f32" };
        let Kind { word, depth, .. } = kind;
        match self {
            Self::Wgmma => format!("wgmma.mma_async.m64n256k{depth}.{sum}.{word}.{word}"),
            Self::Mma => format!("mma.sync.m16n8k{depth}.{sum}.{word}.{word}.{sum}"),
        }
    }

    /// The text, and the kernel in it.
    pub(super) fn source(self, kind: &Kind) -> (Source, String) {
        let (text, name) = match self {
            Self::Wgmma => (WGMMA, "wgmma.cu"),
            Self::Mma => (MMA, "mma.cu"),
        };
        let source = Source { text: text.to_owned(), name: name.to_owned(), include: vec![], root: None };
        (source, format!("ceiling::products<ceiling::{}>", kind.name))
    }

    /// Blocks that fill so many multiprocessors.
    pub(super) fn blocks(self, multiprocessors: u32) -> u32 {
        match self {
            // 154 registers a thread: a second block would not fit beside the first.
            Self::Wgmma => multiprocessors,
            Self::Mma => 2 * multiprocessors,
        }
    }

    /// Turns of the loop for about ten milliseconds.
    pub(super) fn turns(self) -> u32 {
        match self {
            Self::Wgmma => 1 << 12,
            Self::Mma => 1 << 15,
        }
    }

    /// Multiplications and additions of a block.
    pub(super) fn operations(self, kind: &Kind, turns: u32) -> f64 {
        let turns = u64::from(turns);
        let products = match self {
            Self::Wgmma => 2 * (16 * turns + 1) * 64 * 256,
            Self::Mma => 8 * 8 * turns * 16 * 8,
        };
        (2 * products * kind.depth) as f64
    }

    /// What every thread leaves when all operands are one.
    pub(super) fn sum(self, kind: &Kind, turns: u32) -> u32 {
        let products = match self {
            Self::Wgmma => 16 * turns + 1,
            Self::Mma => 8 * turns,
        };
        let sum = products * kind.depth as u32;
        if kind.integer { sum } else { (sum as f32).to_bits() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(dtype: &str) -> &'static Kind {
        KINDS.iter().find(|kind| kind.dtype == dtype).unwrap()
    }

    #[test]
    fn every_architecture_has_its_instruction_or_a_reason() {
        let of = |capability, dtype| Instruction::choose(capability, kind(dtype));
        for (capability, dtype, expected) in [
            ((8, 0), "bf16", Ok(Instruction::Mma)),
            ((8, 9), "f8e4m3", Ok(Instruction::Mma)),
            ((9, 0), "f8e4m3", Ok(Instruction::Wgmma)),
            ((12, 0), "i8", Ok(Instruction::Mma)),
            ((8, 6), "f8e4m3", Err("compute capability 8.6 does not multiply 8-bit floats")),
            (
                (10, 3),
                "bf16",
                Err("compute capability 10.3 multiplies by tcgen05, which this version does not issue"),
            ),
            ((7, 5), "bf16", Err("compute capability 7.5 does not multiply bf16 with sums of 32 bits")),
            ((13, 0), "bf16", Err("this version does not know compute capability 13.0")),
        ] {
            assert_eq!(of(capability, dtype), expected.map_err(str::to_owned), "{capability:?} {dtype}");
        }
        assert_eq!(Instruction::Wgmma.ptx(kind("i8")), "wgmma.mma_async.m64n256k32.s32.s8.s8");
        assert_eq!(Instruction::Mma.ptx(kind("tf32")), "mma.sync.m16n8k8.f32.tf32.tf32.f32");
    }

    #[test]
    fn what_is_counted_is_in_the_texts() {
        for (instruction, text) in [(Instruction::Wgmma, WGMMA), (Instruction::Mma, MMA)] {
            for kind in &KINDS {
                let ptx = instruction.ptx(kind);
                let shape =
                    ptx.split('.').find(|part| part.starts_with("m1") || part.starts_with("m6")).unwrap();
                let (_, types) = ptx.split_once(&format!("{shape}.")).unwrap();
                let named = |line: &str| line.contains(shape) && line.contains(types);
                assert!(text.lines().any(named), "{ptx}");
                assert!(text.contains(&format!("struct {} {{", kind.name)), "{}", kind.name);
            }
        }
        // 64 x 256 x 16, twice that many operations, 17 products, two groups.
        assert_eq!(Instruction::Wgmma.operations(kind("bf16"), 1), 2.0 * 17.0 * 64.0 * 256.0 * 16.0 * 2.0);
        assert_eq!(Instruction::Mma.operations(kind("bf16"), 1), 8.0 * 8.0 * 16.0 * 8.0 * 16.0 * 2.0);
        assert_eq!(Instruction::Wgmma.sum(kind("i8"), 3), 49 * 32);
        assert_eq!(Instruction::Mma.sum(kind("bf16"), 3), 384f32.to_bits());
    }
}
