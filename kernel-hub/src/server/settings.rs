//! How a hub is run: what may be asked of it, how much and for how long.
//!
//! Owns: every limit, with its default. Never: reads a command line; `main` does.

use std::time::Duration;

use crate::auth::Anonymous;
use crate::wire::commit;

/// Destination of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogTo {
    /// One line of JSON per response, on standard error.
    Stderr,
    /// No access log.
    None,
}

/// Whose kernels clients may run without `trust_remote_code`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trusted {
    /// Everybody's who may write here.
    All,
    /// Those of these organizations.
    Only(Vec<String>),
}

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What those without a token may.
    pub anonymous: Anonymous,
    /// Whose kernels are trusted.
    pub trusted: Trusted,
    /// What clients call this hub, when it stands behind another server: `https://hub.example.org`, no slash at its end.
    pub public_url: Option<String>,
    /// Files from this size on go by LFS; without it binary ones do, and text from [`Self::TEXT_BY_LFS`].
    pub lfs_from: Option<u64>,
    /// Bytes of one commit, its files by LFS not counted.
    pub commit_bytes: u64,
    /// Files of one commit.
    pub commit_files: usize,
    /// Bytes of one file by LFS.
    pub file_bytes: u64,
    /// Connections at a time; more wait.
    pub connections: usize,
    /// Seconds until the head of a request must be there, and between two on one connection.
    pub head_timeout: Duration,
    /// A connection with a request in work on which nothing moved for so long is closed.
    pub stall_timeout: Duration,
    /// So long answers may take to end after a signal.
    pub stop_timeout: Duration,
    /// The access log.
    pub log: LogTo,
}

impl Settings {
    /// Text from this size on goes by LFS.
    pub const TEXT_BY_LFS: u64 = 1024 * 1024;
    /// Bytes of bodies that are neither commits nor files.
    pub const SMALL_BODY: u64 = 4 * 1024 * 1024;
    /// Commits whose bodies are in memory at a time; more wait.
    pub const COMMITS_AT_A_TIME: usize = 8;

    /// The limits of a commit's body.
    pub fn commit_limits(&self) -> commit::Limits {
        commit::Limits { operations: self.commit_files, inline: self.commit_bytes }
    }

    /// How a file is to be sent.
    pub fn goes_by_lfs(&self, size: u64, sample: &[u8]) -> bool {
        match self.lfs_from {
            Some(from) => size >= from,
            None => size >= Self::TEXT_BY_LFS || !is_text(sample),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            anonymous: Anonymous::Read,
            trusted: Trusted::All,
            public_url: None,
            lfs_from: None,
            commit_bytes: 64 * 1024 * 1024,
            commit_files: 5000,
            file_bytes: 16 * 1024 * 1024 * 1024,
            connections: 1024,
            head_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            stop_timeout: Duration::from_secs(20),
            log: LogTo::Stderr,
        }
    }
}

/// Whether the beginning of a file is UTF-8 without control characters but blanks; it may end within a letter.
fn is_text(sample: &[u8]) -> bool {
    let text = match std::str::from_utf8(sample) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            let whole = sample.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(whole).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.chars().any(|letter| letter.is_control() && !letter.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_files_go_by_lfs_and_text_does_not() {
        let settings = Settings::default();
        assert!(!settings.goes_by_lfs(10, "x = 'ü'\n\t".as_bytes()));
        assert!(!settings.goes_by_lfs(10, &"ü".as_bytes()[..1]));
        assert!(settings.goes_by_lfs(10, b"\x7fELF\x02\x01\x01\0"));
        assert!(settings.goes_by_lfs(10, b"\xff\xfe"));
        assert!(settings.goes_by_lfs(Settings::TEXT_BY_LFS, b"x"));
        let large = Settings { lfs_from: Some(100), ..settings };
        assert!(!large.goes_by_lfs(99, b"\0") && large.goes_by_lfs(100, b"x"));
    }
}
