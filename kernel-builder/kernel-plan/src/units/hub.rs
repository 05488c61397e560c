//! What a project says about the world around it: repositories, branches, the license, packages, shipped files.
//!
//! Owns: their grammars, and which Python packages a kernel may depend on.
//! Never: asks the hub or a repository whether they exist.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::{BackendId, RelPath, UnitError, unit_error};

checked_text!(
    /// A repository of the hub, `owner/name`. Each part has letters, digits, `-`, `_` and `.`, at most 96 of them;
    /// `-` and `.` neither begin, end nor double one, and the name does not end in `.git`
    /// (huggingface_hub, utils/_validators.py).
    RepoId,
    "a hub repository name",
    "write it as OWNER/NAME, with letters, digits, `-`, `_` and `.`, as in \"kernels-community/activation\"",
    |text| {
        let part = |part: &str| {
            (1..=96).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
                && !part.starts_with(['-', '.'])
                && !part.ends_with(['-', '.'])
        };
        text.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name))
            && !text.contains("--")
            && !text.contains("..")
            && !text.ends_with(".git")
    }
);

impl RepoId {
    /// The user or organisation.
    pub fn owner(&self) -> &str {
        self.0.split_once('/').map_or("", |(owner, _)| owner)
    }

    /// The repository without its owner.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }
}

checked_text!(
    /// The name of a branch or tag, or a commit (git-check-ref-format(1)).
    GitRef,
    "a branch, tag or commit",
    "git does not allow spaces, `~ ^ : ? * [ \\`, `..`, `@{`, or parts that begin with `.` or end in `.lock`",
    |text| {
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
        text.split('/').all(part)
            && text != "@"
            && !text.starts_with('-')
            && !text.ends_with('.')
            && !text.contains("..")
            && !text.contains("@{")
            && !text.contains(|found: char| found.is_control() || found.is_whitespace())
            && !text.contains(['~', '^', ':', '?', '*', '[', '\\'])
    }
);

checked_text!(
    /// A license: free text, usually an SPDX expression.
    License,
    "a license",
    "name it in one line, preferably with its SPDX identifier: \"Apache-2.0\", \"MIT OR BSD-3-Clause\"",
    |text| !text.trim().is_empty() && !text.contains(char::is_control)
);

checked_text!(
    /// How the name of a shipped file ends, without the dot before it: `py`, `json`, `tar.gz`.
    FileExtension,
    "a file extension",
    "write it without the leading dot, as in \"json\"",
    |text| {
        text.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+'))
        })
    }
);

impl FileExtension {
    /// What is shipped where a project does not say: Python and its stubs.
    pub fn defaults() -> Vec<Self> {
        vec![Self("py".to_owned()), Self("pyi".to_owned())]
    }

    /// Whether `path` ends in a dot and this extension.
    pub fn is_of(&self, path: &RelPath) -> bool {
        path.file_name().strip_suffix(self.as_str()).is_some_and(|stem| stem.ends_with('.'))
    }
}

/// The address of a git repository: a URL, or `user@host:path` as ssh and scp write it.
///
/// What is read here the official parser reads as well (huggingface/kernels, kernels-data/src/config/git_url.rs); it
/// is more lenient: with URLs that git cannot use (without a host, with spaces) and with hosts beyond ASCII.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GitUrl(String);

impl GitUrl {
    /// The schemes that a URL may have.
    pub(crate) const SCHEMES: &[&str] = &["https", "http", "git", "ssh", "git+ssh", "git+https", "git+http"];

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for GitUrl {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let is_plain = !text.contains(|found: char| found.is_whitespace() || found.is_control());
        let is_address = match text.split_once("://") {
            Some((scheme, rest)) => {
                GitUrl::SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) && is_authority(rest)
            }
            None => is_remote(text),
        };
        if is_plain && is_address && !text.contains('\\') {
            return Ok(Self(text.to_owned()));
        }
        let want = format!(
            "write a URL ({}), as in \"https://github.com/owner/name\", or \"git@github.com:owner/name.git\"",
            GitUrl::SCHEMES.join(", ")
        );
        Err(unit_error(text, "a git repository address", want))
    }
}

impl fmt::Display for GitUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

serialize_as_string!(GitUrl);

/// What follows `://`: `[user[:password]@]host[:port]`, then a path or nothing.
fn is_authority(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or(text);
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if authority.matches('@').count() > 1 || authority.starts_with('@') {
        return false;
    }
    // In `[::1]:22` only the last colon is before a port.
    match host_and_port.rsplit_once(':').filter(|(_, after)| !after.ends_with(']')) {
        Some((host, port)) => {
            !port.is_empty()
                && port.bytes().all(|byte| byte.is_ascii_digit())
                && port.parse::<u16>().is_ok()
                && is_host(host)
        }
        None => is_host(host_and_port),
    }
}

/// `user@host:path`. Without `user@`, the host would be taken for the scheme of a URL.
fn is_remote(text: &str) -> bool {
    let Some((place, path)) = text.split_once(':') else { return false };
    let Some((user, host)) = place.split_once('@') else { return false };
    !user.is_empty()
        && !user.contains(['/', '?', '#', '[', ']'])
        && is_host(host)
        && !path.is_empty()
        && !path.starts_with('/')
}

/// A name in ASCII, or an address; what ends in a number has to be an address (url.spec.whatwg.org, host parsing).
fn is_host(text: &str) -> bool {
    if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    // Punycode would have to be decoded to be judged.
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--"))
    };
    let ends_in_number =
        text.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit()));
    text.split('.').all(is_label) && (!ends_in_number || text.parse::<Ipv4Addr>().is_ok())
}

named_values!(
    /// A Python package that a kernel may depend on: the client refuses to load a kernel with any other
    /// (huggingface/kernels, kernels-data/src/python_dependencies.json).
    PythonDependency, "a Python package that a kernel may depend on", {
        /// Einstein-inspired tensor notation.
        Einops = "einops",
        /// PyTorch's kernel language.
        Helion = "helion",
        /// The interface of TVM.
        TvmFfi = "tvm-ffi",
        /// The CuTe and CUTLASS languages of NVIDIA.
        NvidiaCutlassDsl = "nvidia-cutlass-dsl",
        /// The kernel interface of AWS Neuron.
        Nki = "nki",
        /// Intel's library of primitives.
        Onednn = "onednn",
    }
);

impl PythonDependency {
    /// The one backend whose section may list it; `None`: it belongs under `[general]` itself.
    pub const fn backend(self) -> Option<BackendId> {
        match self {
            Self::Einops | Self::Helion | Self::TvmFfi => None,
            Self::NvidiaCutlassDsl => Some(BackendId::Cuda),
            Self::Nki => Some(BackendId::Neuron),
            Self::Onednn => Some(BackendId::Xpu),
        }
    }

    /// The modules that come with it, by their first part; empty where it brings none.
    pub const fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Einops => &["einops"],
            Self::Helion => &["helion"],
            Self::TvmFfi => &["tvm_ffi"],
            // CuTe DSL is built on NVIDIA's Python bindings and installs them.
            Self::NvidiaCutlassDsl => &["cutlass", "cuda"],
            Self::Nki => &["nki"],
            // A library for C++; nothing says that Python can import it.
            Self::Onednn => &[],
        }
    }

    /// Where each may be listed, for people: `[general]: einops, ..; [general.cuda]: ..`.
    pub(crate) fn homes() -> String {
        let backends = BackendId::ALL.iter().copied().map(Some);
        let home = |backend: Option<BackendId>| {
            let names: Vec<_> = Self::allowed(backend).map(Self::as_str).collect();
            let section = backend.map_or_else(String::new, |backend| format!(".{backend}"));
            (!names.is_empty()).then(|| format!("[general{section}]: {}", names.join(", ")))
        };
        [None].into_iter().chain(backends).filter_map(home).collect::<Vec<_>>().join("; ")
    }

    /// Those that may be listed for `backend`, or under `[general]` itself.
    pub fn allowed(backend: Option<BackendId>) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |depend| depend.backend() == backend)
    }
}
