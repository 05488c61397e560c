//! Codes of checks that were skipped.
//!
//! Owns: these codes. Never: decides whether a check is skipped.

/// The code of checks that were skipped because there is no GPU.
pub const NO_GPU: &str = "verify::no_gpu";

/// The code of checks that were skipped because there is no Python with torch.
pub const NO_PYTHON: &str = "verify::no_python";

/// The code of checks that were skipped because the package was not loaded.
pub const NOT_LOADED: &str = "verify::not_loaded";
