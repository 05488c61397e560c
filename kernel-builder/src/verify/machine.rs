//! What the machine has, for the evidence.
//!
//! Owns: the names of the processor and of the GPU's driver, and whether there is a GPU. Never: runs anything.

use std::path::Path;

use crate::base::files;
use crate::base::nvml::Driver;

/// The processor's name, as the kernel has it.
pub(super) fn cpu_model() -> Option<String> {
    let text = files::read_text(Path::new("/proc/cpuinfo")).ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The version of NVIDIA's driver; `None` without one.
pub(super) fn nvidia_driver() -> Option<String> {
    if gpu_present() { Driver::open()?.version() } else { None }
}

/// Whether the driver of an NVIDIA GPU is loaded; cheap, so that nothing is run to find out.
pub(crate) fn gpu_present() -> bool {
    ["/dev/nvidiactl", "/dev/dxg"].iter().any(|device| files::exists(Path::new(device)))
}
