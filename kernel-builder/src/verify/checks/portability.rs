//! The library loads on other machines than this one.
//!
//! Owns: the policy (manylinux_2_28, PEP 600; the libraries that torch or the driver bring). Never: looks at code.

use serde_json::json;

use super::super::elf::{self, Interface};
use super::super::evidence::{CheckResult, Outcome};
use super::super::{Subject, VerifyError};
use crate::base::files;

const CODE: &str = "verify::portability";

/// Newest symbol versions of manylinux_2_28 for x86-64 (auditwheel's policy file).
const NEWEST: &[(&str, &[u32])] =
    &[("GLIBC", &[2, 28]), ("GLIBCXX", &[3, 4, 24]), ("CXXABI", &[1, 3, 11]), ("GCC", &[7, 0, 0])];

/// What every host has, and what torch loads before any extension.
const LIBRARIES: &[&str] = &[
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "librt.so.1",
    "libpthread.so.0",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libgomp.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libc10.so",
    "libc10_cuda.so",
    "libtorch.so",
    "libtorch_cpu.so",
    "libtorch_cuda.so",
    "libc10_hip.so",
    "libtorch_hip.so",
    "libc10_xpu.so",
    "libtorch_xpu.so",
    "libtorch_python.so",
];
/// What tvm_ffi loads before any of its modules.
const TVM_FFI: &str = "libtvm_ffi.so";
/// The runtimes that torch's wheels depend on, of any major version: CUDA's and its driver, SYCL's and what Intel's
/// compiler adds. HIP's is none of them: its name differs between torch's wheels and ROCm.
const LIBRARY_PREFIXES: &[&str] = &[
    "libcudart.so.",
    "libcublas.so.",
    "libcublasLt.so.",
    "libcuda.so.",
    "libsycl.so.",
    "libimf.so",
    "libsvml.so",
    "libirng.so",
    "libintlc.so.",
    "libdnnl.so.",
];

/// What a module without Python.h may still need: the making of a module in the stable ABI (PEP 384).
const PYTHON: &[&str] = &[
    "PyModule_Create2",
    "PyModule_FromDefAndSpec2",
    "PyModuleDef_Init",
    "PyModule_AddStringConstant",
    "PyErr_SetString",
    "PyExc_RuntimeError",
    "PyExc_ImportError",
    "_Py_NoneStruct",
];

/// Distributions by the C library they have, newest first.
const HOSTS: &[(u32, &str)] = &[
    (39, "Ubuntu 24.04, Fedora 40, Debian 13 and newer"),
    (36, "Debian 12, Fedora 37 and newer"),
    (35, "Ubuntu 22.04 and newer"),
    (34, "RHEL 9, Amazon Linux 2023 and newer"),
    (31, "Ubuntu 20.04, Debian 11 and newer"),
    (28, "RHEL 8, Debian 10 and newer"),
];

/// Symbol versions, search paths, needed libraries and Python symbols.
pub(crate) fn check(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    let Some(library) = &subject.artifact.library else { return Ok(vec![]) };
    let stable = library.to_string_lossy().ends_with(".abi3.so");
    let result = |outcome, summary: String, facts| {
        vec![CheckResult::new("portability", CODE, outcome, summary, facts)]
    };
    let interface = match elf::interface(&files::read(library)?) {
        Ok(interface) => interface,
        Err(reason) => {
            let summary = format!("the library cannot be read: {reason}");
            return Ok(result(Outcome::Refused, summary, json!({})));
        }
    };
    let brought = if subject.artifact.is_tvm_ffi() { &[TVM_FFI][..] } else { &[] };
    let (outcome, summary) = judged(&interface, brought, stable, subject.options.require_portable);
    let facts = json!({
        "needed": interface.needed, "search_paths": interface.search_paths, "versions": interface.versions,
    });
    Ok(result(outcome, summary, facts))
}

fn judged(
    interface: &Interface,
    brought: &[&str],
    stable: bool,
    require_portable: bool,
) -> (Outcome, String) {
    let wrong = wrong(interface, brought, stable);
    if !wrong.is_empty() {
        return (Outcome::Refused, wrong.join("; "));
    }
    let newer: Vec<_> = interface.versions.iter().filter(|version| is_newer(version)).cloned().collect();
    if newer.is_empty() {
        return (
            Outcome::Passed,
            "loads on manylinux_2_28 hosts (RHEL 8, Debian 10, Ubuntu 20.04 and newer)".to_owned(),
        );
    }
    let text = format!(
        "needs {}, newer than manylinux_2_28: loads on {}, because it was built on such a host",
        newer.join(", "),
        hosts(interface),
    );
    (if require_portable { Outcome::Refused } else { Outcome::Warned }, text)
}

/// What is wrong on every host; `brought` are libraries that this kind of package finds loaded.
fn wrong(interface: &Interface, brought: &[&str], stable: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    if !interface.search_paths.is_empty() {
        wrong.push(format!(
            "looks for libraries in {}, a path of the build machine",
            interface.search_paths.join(":")
        ));
    }
    let known = |name: &&String| {
        LIBRARIES.contains(&name.as_str())
            || brought.contains(&name.as_str())
            || LIBRARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let unknown: Vec<_> = interface.needed.iter().filter(|name| !known(name)).cloned().collect();
    if !unknown.is_empty() {
        wrong
            .push(format!("needs {}, which neither the system nor the framework brings", unknown.join(", ")));
    }
    let python = |name: &&String| {
        (name.starts_with("Py") || name.starts_with("_Py")) && !PYTHON.contains(&name.as_str())
    };
    let beyond: Vec<_> = interface.undefined.iter().filter(python).cloned().collect();
    if stable && !beyond.is_empty() {
        wrong.push(format!("is named .abi3.so but uses {} of Python", beyond.join(", ")));
    }
    wrong
}

/// Whether a symbol version, `GLIBC_2.34`, is newer than the policy allows; unknown families are not.
fn is_newer(version: &str) -> bool {
    let Some((family, number)) = version.rsplit_once('_') else { return false };
    let parts: Vec<u32> = number.split('.').map_while(|part| part.parse().ok()).collect();
    NEWEST.iter().any(|(name, newest)| *name == family && parts.as_slice() > *newest)
}

/// The hosts that have the C library that is asked for.
fn hosts(interface: &Interface) -> String {
    let minor = interface
        .versions
        .iter()
        .filter_map(|version| version.strip_prefix("GLIBC_2.")?.split('.').next()?.parse::<u32>().ok())
        .max()
        .unwrap_or(0);
    match HOSTS.iter().rev().find(|(has, _)| *has >= minor) {
        Some((_, hosts)) => (*hosts).to_owned(),
        None => format!("hosts with glibc 2.{minor} or newer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(needed: &[&str], versions: &[&str]) -> Interface {
        Interface {
            needed: needed.iter().map(|name| (*name).to_owned()).collect(),
            versions: versions.iter().map(|name| (*name).to_owned()).collect(),
            ..Interface::default()
        }
    }

    #[test]
    fn old_symbols_pass_and_new_ones_name_their_hosts() {
        let old =
            interface(&["libc.so.6", "libtorch.so"], &["GLIBC_2.17", "GLIBCXX_3.4.22", "CXXABI_1.3.11"]);
        assert_eq!(judged(&old, &[], true, true).0, Outcome::Passed);
        let new = interface(&[], &["GLIBC_2.34", "GLIBCXX_3.4.29"]);
        let (outcome, text) = judged(&new, &[], true, false);
        assert_eq!(outcome, Outcome::Warned);
        assert!(text.contains("GLIBCXX_3.4.29, GLIBC_2.34") && text.contains("RHEL 9"), "{text}");
        assert_eq!(judged(&new, &[], true, true).0, Outcome::Refused);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(!is_newer("GLIBC_2.4"));
        assert!(is_newer("GLIBC_2.28.1"));
        assert!(is_newer("GLIBCXX_3.4.100"));
        assert!(!is_newer("GLIBC_PRIVATE"));
        assert!(!is_newer("LIBFOO_9"));
    }

    #[test]
    fn foreign_libraries_paths_and_python_are_refused() {
        let foreign = interface(&["libfancy.so.3", "libcudart.so.13"], &[]);
        assert!(judged(&foreign, &[], false, false).1.contains("libfancy.so.3, which"));
        let tvm_ffi = interface(&[TVM_FFI], &[]);
        assert_eq!(judged(&tvm_ffi, &[], false, false).0, Outcome::Refused);
        assert_eq!(judged(&tvm_ffi, &[TVM_FFI], false, false).0, Outcome::Passed);
        let path = Interface { search_paths: vec!["/home/me/lib".to_owned()], ..Interface::default() };
        assert_eq!(judged(&path, &[], false, false).0, Outcome::Refused);
        let undefined = ["PyModule_Create2", "PyFrame_GetBack"].map(str::to_owned).into();
        let python = Interface { undefined, ..Interface::default() };
        assert_eq!(judged(&python, &[], true, false).0, Outcome::Refused);
        assert_eq!(judged(&python, &[], false, false).0, Outcome::Passed);
    }

    #[test]
    fn what_is_no_library_is_an_error() {
        assert!(elf::interface(b"#!/bin/sh").is_err());
        assert!(elf::interface(&[]).is_err());
    }
}
