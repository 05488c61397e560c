//! The cpu backend: the host's C++ compiler.
//!
//! Owns: the flags of C++ kernels. Never: assumes more of the processor than x86-64 itself; kernels dispatch at run time.

use crate::kit::Toolchain;
use crate::plan::CommandLine;
use crate::spec::build::Kernel;
use crate::units::BackendId;
use crate::variant::{Os, Toolkit};

use super::darwin;
use super::host_command::host_command;
use super::interface::{Backend, Link};
use super::link::link_command;
use super::source::Source;

/// The host compiler alone.
#[derive(Debug)]
pub struct Cpu;

impl Backend for Cpu {
    fn id(&self) -> BackendId {
        BackendId::Cpu
    }

    fn compile(&self, source: &Source<'_>) -> CommandLine {
        let extra =
            source.kernel.iter().flat_map(|kernel| kernel.cxx_flags.iter().map(|flag| flag.value.clone()));
        host_command(source, extra)
    }

    fn macros(&self) -> &'static [&'static str] {
        &["CPU_KERNEL"]
    }

    fn torch_libraries(&self) -> &'static [&'static str] {
        &["-lc10", "-ltorch_cpu", "-ltorch"]
    }

    fn toolkit_libraries(&self, _kit: &Toolchain) -> Vec<String> {
        Vec::new()
    }

    fn capabilities(&self, _kernel: &Kernel, _toolkit: Toolkit) -> Vec<String> {
        Vec::new()
    }

    fn link(&self, link: &Link<'_>) -> CommandLine {
        if link.os == Os::Darwin {
            darwin::link_command(self, Toolkit::Cpu, link, &[])
        } else {
            link_command(self, link)
        }
    }
}
