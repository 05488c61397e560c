//! The architectures of AMD GPUs.
//!
//! Owns: how they are written (LLVM, User Guide for AMDGPU Backend: processors and target ids).
//! Never: knows which ROCm release compiles for which of them.

use std::fmt;
use std::str::FromStr;

use super::{UnitError, unit_error};

checked_text!(
    /// An entry of `rocm-archs`: `gfx90a`, `gfx1100`, `gfx12-generic`, `gfx942:sramecc+:xnack-`.
    RocmArch,
    "a ROCm architecture",
    "write it as in \"gfx942\", \"gfx1100\", \"gfx90a:xnack+\" or \"gfx11-generic\"",
    |text| {
        let mut parts = text.split(':');
        let processor = parts.next().and_then(|processor| processor.strip_prefix("gfx"));
        let features: Vec<_> = parts.collect();
        processor.is_some_and(|processor| is_processor(processor) || is_generic(processor))
            && features.iter().all(|feature| matches!(*feature, "sramecc+" | "sramecc-" | "xnack+" | "xnack-"))
            // As in a target id: each at most once, in the order of the alphabet.
            && features.windows(2).all(|pair| pair[0].starts_with("sramecc") && pair[1].starts_with("xnack"))
    }
);

impl RocmArch {
    /// The processor without the features of a target id: `gfx90a`.
    pub fn processor(&self) -> &str {
        self.0.split_once(':').map_or(&self.0, |(processor, _)| processor)
    }
}

/// What follows `gfx`: the major version in one or two decimal digits, then minor and stepping in one hexadecimal each.
fn is_processor(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (major, rest) = bytes.split_at(bytes.len().saturating_sub(2));
    (1..=2).contains(&major.len())
        && major[0] != b'0'
        && major.iter().all(u8::is_ascii_digit)
        && rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Code for a family: `9-generic`, `9-4-generic`, `10-3-generic`.
fn is_generic(text: &str) -> bool {
    let Some(family) = text.strip_suffix("-generic") else { return false };
    let number = |part: &str| super::plain_number(part).is_some() && part.len() <= 2;
    match family.split_once('-') {
        Some((major, minor)) => number(major) && number(minor),
        None => number(family),
    }
}
