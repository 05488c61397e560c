//! Which Python modules are there when a kernel is loaded.
//!
//! Owns: the names of the standard library, of what torch brings, and of the dependencies that build.toml may name.
//! Never: decides whether a dependency may be named; a rule does.

use crate::units::BackendId;

/// The standard library, without names that begin with `_`: `sys.stdlib_module_names` of Python 3.9 to 3.14.
const STANDARD: &[&str] = &[
    "abc",
    "aifc",
    "annotationlib",
    "argparse",
    "array",
    "ast",
    "asynchat",
    "asyncio",
    "asyncore",
    "atexit",
    "audioop",
    "base64",
    "bdb",
    "binascii",
    "binhex",
    "bisect",
    "builtins",
    "bz2",
    "cProfile",
    "calendar",
    "cgi",
    "cgitb",
    "chunk",
    "cmath",
    "cmd",
    "code",
    "codecs",
    "codeop",
    "collections",
    "colorsys",
    "compileall",
    "compression",
    "concurrent",
    "configparser",
    "contextlib",
    "contextvars",
    "copy",
    "copyreg",
    "crypt",
    "csv",
    "ctypes",
    "curses",
    "dataclasses",
    "datetime",
    "dbm",
    "decimal",
    "difflib",
    "dis",
    "distutils",
    "doctest",
    "dummy_threading",
    "email",
    "encodings",
    "ensurepip",
    "enum",
    "errno",
    "faulthandler",
    "fcntl",
    "filecmp",
    "fileinput",
    "fnmatch",
    "formatter",
    "fractions",
    "ftplib",
    "functools",
    "gc",
    "genericpath",
    "getopt",
    "getpass",
    "gettext",
    "glob",
    "graphlib",
    "grp",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http",
    "imaplib",
    "imghdr",
    "imp",
    "importlib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "keyword",
    "lib2to3",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "mailbox",
    "mailcap",
    "marshal",
    "math",
    "mimetypes",
    "mmap",
    "modulefinder",
    "msilib",
    "msvcrt",
    "multiprocessing",
    "netrc",
    "nis",
    "nntplib",
    "nt",
    "ntpath",
    "nturl2path",
    "numbers",
    "opcode",
    "operator",
    "optparse",
    "os",
    "ossaudiodev",
    "parser",
    "pathlib",
    "pdb",
    "pickle",
    "pickletools",
    "pipes",
    "pkgutil",
    "platform",
    "plistlib",
    "poplib",
    "posix",
    "posixpath",
    "pprint",
    "profile",
    "pstats",
    "pty",
    "pwd",
    "py_compile",
    "pyclbr",
    "pydoc",
    "pydoc_data",
    "pyexpat",
    "queue",
    "quopri",
    "random",
    "re",
    "readline",
    "reprlib",
    "resource",
    "rlcompleter",
    "runpy",
    "sched",
    "secrets",
    "select",
    "selectors",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "site",
    "smtpd",
    "smtplib",
    "sndhdr",
    "socket",
    "socketserver",
    "spwd",
    "sqlite3",
    "sre_compile",
    "sre_constants",
    "sre_parse",
    "ssl",
    "stat",
    "statistics",
    "string",
    "stringprep",
    "struct",
    "subprocess",
    "sunau",
    "symbol",
    "symtable",
    "sys",
    "sysconfig",
    "syslog",
    "tabnanny",
    "tarfile",
    "telnetlib",
    "tempfile",
    "termios",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "tkinter",
    "token",
    "tokenize",
    "tomllib",
    "trace",
    "traceback",
    "tracemalloc",
    "tty",
    "turtle",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib",
    "uu",
    "uuid",
    "venv",
    "warnings",
    "wave",
    "weakref",
    "webbrowser",
    "winreg",
    "winsound",
    "wsgiref",
    "xdrlib",
    "xml",
    "xmlrpc",
    "zipapp",
    "zipfile",
    "zipimport",
    "zlib",
    "zoneinfo",
];

/// What comes with torch on every backend, and the client that loads kernels.
const WITH_TORCH: &[&str] = &["functorch", "kernels", "torch", "torchgen"];

/// What comes with torch on some backends: Triton, and what torch itself needs to reach the device.
const WITH_BACKEND: &[(&str, &[BackendId])] = &[
    ("jax", &[BackendId::Tpu]),
    ("torch_neuronx", &[BackendId::Neuron]),
    ("torch_npu", &[BackendId::Cann]),
    ("torch_tpu", &[BackendId::Tpu]),
    ("triton", &[BackendId::Cuda, BackendId::Rocm, BackendId::Xpu]),
];

/// The dependencies of `python-depends` by the modules that they are imported as: the backend that may name them, or
/// every one. Source: python_depends.json of the `kernels` client 0.17.2.
const DEPENDENCIES: &[(&str, &[&str], Option<BackendId>)] = &[
    ("einops", &["einops"], None),
    ("helion", &["helion"], None),
    ("tvm-ffi", &["tvm_ffi"], None),
    // CuTe DSL is built on NVIDIA's Python bindings and installs them.
    ("nvidia-cutlass-dsl", &["cutlass", "cuda"], Some(BackendId::Cuda)),
    ("nki", &["nki"], Some(BackendId::Neuron)),
];

/// Whether every Python that loads a kernel of these backends has the module (its first part).
pub(crate) fn is_always_there(module: &str, declares: impl Fn(BackendId) -> bool) -> bool {
    module.starts_with('_')
        || STANDARD.contains(&module)
        || WITH_TORCH.contains(&module)
        || WITH_BACKEND
            .iter()
            .any(|(name, on)| *name == module && on.iter().any(|backend| declares(*backend)))
}

/// The dependency that brings a module, and the backend whose section names it.
pub(crate) fn dependency_of(module: &str) -> Option<(&'static str, Option<BackendId>)> {
    let found = DEPENDENCIES.iter().find(|(_, modules, _)| modules.contains(&module));
    found.map(|(name, _, backend)| (*name, *backend))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules() {
        let there =
            |module: &str, backend: BackendId| is_always_there(module, |declared| declared == backend);
        for module in ["os", "typing", "__future__", "_thread", "torch", "tomllib"] {
            assert!(there(module, BackendId::Cpu), "{module}");
        }
        assert!(there("triton", BackendId::Rocm) && !there("triton", BackendId::Cpu));
        assert!(!there("numpy", BackendId::Cuda) && !there("einops", BackendId::Cuda));
        assert_eq!(dependency_of("cutlass"), Some(("nvidia-cutlass-dsl", Some(BackendId::Cuda))));
        assert_eq!(dependency_of("numpy"), None);
    }
}
