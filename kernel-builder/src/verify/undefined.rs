//! C++ names that a library uses and nothing defines.
//!
//! A shared library links although a source was left out, and fails only where it is loaded. Which names torch, tvm-ffi and
//! the C++ library bring follows from their namespaces, so what is missing can be told without loading.
//!
//! Owns: the outermost namespace of a mangled name (Itanium C++ ABI, "Mangling"). Never: judges names of C, which any
//! library of the system may have.

use std::collections::BTreeSet;

/// Namespaces of what is in the process: torch and what is linked into it, tvm-ffi, the C++ library, SYCL.
const BROUGHT: &[&str] = &[
    "at",
    "c10",
    "c10d",
    "caffe2",
    "torch",
    "torch_xpu",
    "libkineto",
    "onnx_torch",
    "google",
    "pybind11",
    "tvm",
    "std",
    "__gnu_cxx",
    "__cxxabiv1",
    "sycl",
    "oneapi",
    "dnnl",
    "hip_impl",
];

/// How the global functions of torch's own Python module begin.
const GLOBAL: &str = "THP";

/// Those of these names that are in no namespace of what a process has, as a person writes them.
pub(crate) fn missing(undefined: &BTreeSet<String>) -> BTreeSet<String> {
    let paths = undefined.iter().filter_map(|name| read(name));
    paths.filter(|path| !path.is_brought()).map(|path| path.parts.join("::")).collect()
}

/// The outermost namespace, or class, of a mangled name.
pub(crate) fn namespace(name: &str) -> Option<&str> {
    read(name).filter(|name| name.nested).map(|name| name.parts[0])
}

/// The beginning of a mangled name.
struct Name<'n> {
    /// Whether the first part is a namespace or a class.
    nested: bool,
    /// As far as they are plain; at least one.
    parts: Vec<&'n str>,
}

impl Name<'_> {
    fn is_brought(&self) -> bool {
        if self.nested { BROUGHT.contains(&self.parts[0]) } else { self.parts[0].starts_with(GLOBAL) }
    }
}

/// Nothing for what is no C++ name, and for names that begin with an abbreviation (`St`, `Sa`) or are operators of the whole
/// program: those are the C++ library's.
fn read(name: &str) -> Option<Name<'_>> {
    let rest = name.strip_prefix("_Z")?;
    // Tables, types and guards belong to a name.
    let kinds = ["TV", "TI", "TS", "TT", "TH", "TW", "GV"];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind)).unwrap_or(rest);
    let (mut rest, nested) = match rest.strip_prefix('N') {
        Some(rest) => (rest.trim_start_matches(['r', 'V', 'K', 'R', 'O']), true),
        None => (rest, false),
    };
    let mut parts = Vec::new();
    while rest.starts_with(|first: char| first.is_ascii_digit()) && (nested || parts.is_empty()) {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let length: usize = rest[..digits].parse().ok()?;
        let end = digits.checked_add(length)?;
        parts.push(rest.get(digits..end)?);
        rest = &rest[end..];
    }
    (!parts.is_empty()).then_some(Name { nested, parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, want: Option<&str>) {
        let found = missing(&[name.to_owned()].into());
        assert_eq!(found.first().map(String::as_str), want, "{name}");
    }

    #[test]
    fn what_no_source_defines_is_named() {
        check("_Z12missing_herei", Some("missing_here"));
        check("_ZN4norm6detail5scaleEPfi", Some("norm::detail::scale"));
        check("_ZNK4norm5State3getEv", Some("norm::State::get"));
        check("_ZTVN4norm5StateE", Some("norm::State"));
        check("_ZTI5State", Some("State"));
        check("_ZN4normlsERSoi", Some("norm"));
        check("_ZN4norm5scaleIN3c104HalfEEEvPT_", Some("norm::scale"));
        // A function template of the global namespace, with one of torch's types.
        check("_Z6launchIN3c104HalfEEvPT_", Some("launch"));
    }

    #[test]
    fn what_a_process_has_is_not() {
        for name in [
            "_ZN2at4_ops5empty4callE",
            "_ZNK3c1010TensorImpl5sizesEv",
            "_ZTIN3c105ErrorE",
            "_ZN5torch7LibraryC1E",
            "_ZN3c10lsERSoNS_10DeviceTypeE",
            "_ZN3c10eqERKNS_6ScalarES2_",
            "_ZN3tvm3ffi5ErrorE",
            "_ZNSt6vectorIiE4pushEv",
            "_ZSt9terminatev",
            "_ZTVN10__cxxabiv117__class_type_infoE",
            "_Znwm",
            "_ZdlPvm",
            "_ZN4sycl3_V15queueE",
            "_Z16THPVariable_WrapN2at10TensorBaseE",
            "aoti_torch_empty_strided",
            "cudaLaunchKernel",
            "_Z",
            "_Z99short",
            "_Z99999999999999999999999short",
            "_ZN",
        ] {
            check(name, None);
        }
    }
}
