//! An installed compiler, and what it says of itself.
//!
//! Owns: asking it once. Never: knows which one a variant needs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::plan::CommandLine;
use kernel_plan::units::Version;
use serde::{Deserialize, Serialize};

use super::error::ToolchainError;
use super::state::{self, Stamp};
use crate::base::digest::DigestBuilder;
use crate::base::process::{self, Limits};
use crate::base::session::Session;

/// A compiler that was found.
#[derive(Debug)]
pub(super) struct DeviceCompiler {
    /// The program, absolute.
    pub(super) program: PathBuf,
    /// The folder above `bin`.
    pub(super) root: PathBuf,
    /// The version of its toolkit.
    pub(super) version: Version,
}

/// An answer with what it depends on.
#[derive(Serialize, Deserialize)]
struct Remembered {
    text: String,
    stamp: Option<Stamp>,
}

/// What a compiler says of itself, asked once as long as it does not change.
pub(super) fn output_of(
    session: &Session,
    name: &'static str,
    program: &Path,
    args: &[&str],
) -> Result<String, ToolchainError> {
    let key = DigestBuilder::new("device-said").field("program", program.as_os_str().as_encoded_bytes());
    let key = args.iter().fold(key, |key, arg| key.field("arg", arg)).finish().short(16);
    let file = session.cache.join("state").join(format!("device-{key}.json"));
    let stamp = state::stamp_of(program);
    if let Some(known) = state::load::<Remembered>(&file)
        && known.stamp == stamp
    {
        return Ok(known.text);
    }
    let line = CommandLine::new(program).args(args.iter().copied());
    let done = process::run(&line, Limits::wall(Duration::from_secs(60)))?;
    if !done.ending.success() {
        let problem = state::last_words(&done);
        return Err(ToolchainError::BrokenDevice { name, program: program.to_owned(), problem });
    }
    let text = done.stdout_text();
    state::save(&file, &Remembered { text: text.clone(), stamp })?;
    Ok(text)
}

/// The first `MAJOR.MINOR` of a text.
pub(super) fn version_in(text: &str) -> Option<Version> {
    text.split(|letter: char| !letter.is_ascii_digit() && letter != '.').find_map(|word| {
        let mut parts = word.split('.').filter(|part| !part.is_empty());
        format!("{}.{}", parts.next()?, parts.next()?).parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_versions() {
        let of = |text: &str| version_in(text).map(|version| version.to_string());
        assert_eq!(
            of("HIP version: 7.1.52802-26aae437f6\nAMD clang version 20.0.0git").as_deref(),
            Some("7.1")
        );
        assert_eq!(of("7.2.0-43\n").as_deref(), Some("7.2"));
        let icpx = "Intel(R) oneAPI DPC++/C++ Compiler 2025.3.1 (2025.3.1.20251023)\nTarget: x86_64";
        assert_eq!(of(icpx).as_deref(), Some("2025.3"));
        assert_eq!(of("26.1"), Some("26.1".to_owned()));
        assert_eq!(of("no version"), None);
    }
}
