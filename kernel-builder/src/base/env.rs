//! The environment variables and folders that the program looks at, each named once.
//!
//! Owns: reading the environment.
//! Never: changes it.
#![expect(clippy::disallowed_methods, reason = "this module is the door to the environment")]

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Where downloads, toolchains and compiled objects are kept.
pub const CACHE: &str = "KERNELWRIGHT_CACHE";
/// What the compile cache may hold, e.g. `10G`.
pub const CACHE_LIMIT: &str = "KERNELWRIGHT_CACHE_LIMIT";
/// A folder of compiled objects that several machines share.
pub const REMOTE_CACHE: &str = "KERNELWRIGHT_REMOTE_CACHE";
/// Set to refuse every download.
pub const OFFLINE: &str = "KERNELWRIGHT_OFFLINE";
/// The Python that runs the harness, pip and the client; the active one when unset.
pub const PYTHON: &str = "KERNELWRIGHT_PYTHON";
/// Folders with wheels, or with what is taken of them, in place of the package index; `:` between them.
pub const WHEELS: &str = "KERNELWRIGHT_WHEELS";
/// The dynamic loader that programs of wheels are given, where none is at the place that they name.
pub const LOADER: &str = "KERNELWRIGHT_LOADER";
/// The commit that sources outside of git are of, with `-dirty` where they differ from it.
pub const COMMIT: &str = "KERNELWRIGHT_COMMIT";
/// The C++ compiler, as everywhere.
pub const CXX: &str = "CXX";
/// The CUDA toolkit of the system provider, as everywhere.
pub const CUDA_HOME: &str = "CUDA_HOME";
/// Folders with CUTLASS, one for each release, in place of those in wheels; `:` between them.
pub const CUTLASS_DIR: &str = "KERNELWRIGHT_CUTLASS_DIR";
/// ROCm's folder, as everywhere; the first that is set.
pub const ROCM_HOMES: &[&str] = &["ROCM_PATH", "HIP_PATH"];
/// The folder of Intel's oneAPI, as its own scripts set it.
pub const ONEAPI_ROOT: &str = "ONEAPI_ROOT";
/// `whole`: nvcc compiles a CUDA source in one process instead of being driven step by step.
pub const NVCC: &str = "KERNELWRIGHT_NVCC";
/// Files with certificate authorities that package index clients are told to trust; downloads trust them as well.
pub const CERTIFICATES: &[&str] = &["PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
/// The hub that kernels are published to and looked for on, as for the stock client.
pub const HUB: &str = "HF_ENDPOINT";
/// Tokens of the hub, as the stock client looks for them: the first that is set.
pub const HUB_TOKENS: &[&str] = &["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];
/// A file with the token.
pub const HUB_TOKEN_PATH: &str = "HF_TOKEN_PATH";
/// The stock client's folder, which holds `token`.
pub const HUB_HOME: &str = "HF_HOME";
/// The stock client's own switches to stay off the network.
pub const HUB_OFFLINE: &[&str] = &["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"];
/// The stock client's switch: no token where none was asked for.
pub const HUB_NO_IMPLICIT_TOKEN: &str = "HF_HUB_DISABLE_IMPLICIT_TOKEN";
/// Log filter: a level, or targets with levels.
pub const LOG: &str = "KERNELWRIGHT_LOG";
/// The file that the log is appended to, in place of standard error.
pub const LOG_FILE: &str = "KERNELWRIGHT_LOG_FILE";
/// The socket of ssh-agent, as everywhere; `ssh-keygen` asks it for a key.
pub const SSH_AGENT: &str = "SSH_AUTH_SOCK";
/// Set in continuous integration; prompts and bars are off there.
pub const CI: &str = "CI";

/// Which GPUs a process sees, and in which order.
pub const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// What every child process inherits; all else is scrubbed.
pub const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "TERM",
    "LD_LIBRARY_PATH",
    VISIBLE_DEVICES,
    "XDG_CACHE_HOME",
];

/// How a name begins by which nixpkgs' linker is told to leave RPATH alone; behind it stands what is compiled for.
const NO_SEARCH_PATHS: &str = "NIX_DONT_SET_RPATH_";

/// Prefixes and names that a package index client (pip, uv) needs beside [`INHERITED`]: its own settings and proxies.
const INDEX_PREFIXES: &[&str] = &["PIP_", "UV_"];
const INDEX_NAMES: &[&str] = &[
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NETRC",
    "XDG_CONFIG_HOME",
];

/// The value of one variable, when it is set, not empty and valid Unicode.
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// All variables with their values, except values that are not Unicode.
pub(super) fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.to_string_lossy().into_owned(), value.into_string().ok()?)))
}

/// The variables that every child process inherits, with their values.
pub fn inherited() -> Vec<(OsString, OsString)> {
    let listed = INHERITED.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    let begins = |name: &OsString| name.as_encoded_bytes().starts_with(NO_SEARCH_PATHS.as_bytes());
    listed.chain(std::env::vars_os().filter(|(name, _)| begins(name))).collect()
}

/// The variables that configure a package index client, to be added to its command line.
pub fn index_client() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| {
            INDEX_NAMES.contains(&name.as_str())
                || INDEX_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        })
        .collect()
}

/// The variables that this program looks at, with their values, for a child that is this program again.
pub fn settings() -> Vec<(String, String)> {
    let single = [
        CACHE,
        CACHE_LIMIT,
        REMOTE_CACHE,
        OFFLINE,
        PYTHON,
        WHEELS,
        LOADER,
        COMMIT,
        CXX,
        CUDA_HOME,
        CUTLASS_DIR,
        ONEAPI_ROOT,
        NVCC,
        CI,
    ];
    let names = single.iter().chain(ROCM_HOMES).chain(CERTIFICATES);
    names.filter_map(|name| Some(((*name).to_owned(), text(name)?))).chain(index_client()).collect()
}

/// The folder the program was started in; `.` where it no longer exists.
pub fn current_dir() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."))
}

/// This program's own file, to start it again in another role.
pub fn own_program() -> PathBuf {
    // It can only be unknown where /proc is not mounted; then the name on PATH is the best guess.
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("kernelwright"))
}

/// The words behind this program's name.
pub(super) fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// The command line, with the program's name.
pub fn words() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// The role that this process was started in by another one of this program: the word behind `--worker`.
pub fn worker_role() -> Option<String> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == "--worker").then(|| arguments.next()?.into_string().ok())?
}

/// Arguments after the worker's role.
pub fn worker_words() -> Vec<OsString> {
    std::env::args_os().skip(3).collect()
}

/// `path` as an absolute path, without looking at the file system.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| current_dir().join(path))
}

/// The cache: `KERNELWRIGHT_CACHE`, else `XDG_CACHE_HOME/kernelwright`, else `~/.cache/kernelwright`.
pub fn cache_dir() -> PathBuf {
    if let Some(dir) = text(CACHE) {
        return absolute(Path::new(&dir));
    }
    match (text("XDG_CACHE_HOME"), text("HOME")) {
        (Some(base), _) => PathBuf::from(base).join("kernelwright"),
        (None, Some(home)) => PathBuf::from(home).join(".cache/kernelwright"),
        (None, None) => std::env::temp_dir().join("kernelwright-cache"),
    }
}

/// The folder for data of this user that other programs read: `XDG_DATA_HOME`, else `~/.local/share`.
pub fn data_dir() -> Option<PathBuf> {
    let given = text("XDG_DATA_HOME").map(|dir| absolute(Path::new(&dir)));
    given.or_else(|| Some(PathBuf::from(text("HOME")?).join(".local/share")))
}

/// The file that the stock client's `hf auth login` keeps the token in: `HF_TOKEN_PATH`, else `token` of `HF_HOME`, else of
/// `huggingface` in the user's caches.
pub fn hub_token_file() -> Option<PathBuf> {
    let home = || text("HOME").map(PathBuf::from);
    // The stock client knows `~` here, too.
    let path = |text: String| match (text.strip_prefix("~/"), home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    };
    if let Some(file) = text(HUB_TOKEN_PATH) {
        return Some(path(file));
    }
    let caches = || text("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(home()?.join(".cache")));
    let folder = text(HUB_HOME).map(path).or_else(|| Some(caches()?.join("huggingface")));
    Some(folder?.join("token"))
}

/// Whether a variable says yes, as the stock client reads it: `1`, `ON`, `YES`, `TRUE`.
pub fn says_yes(name: &str) -> bool {
    text(name).is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_ascii_uppercase().as_str()))
}

/// The folder for short-lived files.
pub fn temp_dir() -> PathBuf {
    std::env::temp_dir()
}

/// Whether a person may be asked: input and error output are terminals and this is no CI.
pub fn interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && text(CI).is_none()
}

/// Whether progress bars can be drawn.
pub fn draws_bars() -> bool {
    std::io::stderr().is_terminal() && text(CI).is_none() && text("TERM").as_deref() != Some("dumb")
}

/// Whether talk has colours: on a terminal that shows them, unless NO_COLOR is set.
pub fn paints() -> bool {
    std::io::stderr().is_terminal() && text("NO_COLOR").is_none() && text("TERM").as_deref() != Some("dumb")
}

/// How many processors Nix gives to this build, where it is one of Nix's and has not all of them.
pub fn given_cores() -> Option<usize> {
    text("NIX_BUILD_CORES")?.parse().ok().filter(|cores| *cores > 0)
}

/// The number of processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
