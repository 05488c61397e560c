//! Which architectures AMD's compiler has withdrawn.
//!
//! Owns: the list. Never: knows which ROCm releases a project is built with; the matrix does, and begins with 7.0.

use crate::units::RocmArch;

/// Early forms of gfx942 that were never sold; Clang has lost them (llvm/llvm-project#126762, pytorch/pytorch#172275) and
/// ends with an error when one is asked for.
const WITHDRAWN: &[&str] = &["gfx940", "gfx941"];

/// Whether the compilers of ROCm 7 and later are asked for this architecture.
pub(crate) fn compiles(arch: &RocmArch) -> bool {
    !WITHDRAWN.contains(&arch.processor())
}
