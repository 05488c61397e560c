//! The library loads on other machines than this one.
//!
//! Owns: the policy (manylinux_2_28, PEP 600; the libraries that torch or the driver bring; Python's and torch's stable
//! ABIs). Never: looks at code.

use std::path::{Path, PathBuf};

use kernel_plan::units::Version;
use kernel_plan::variant::{Abi, Cpu, Framework, Variant};
use serde_json::json;

use super::super::elf::{self, Demand, Interface};
use super::super::evidence::{CheckResult, Outcome};
use super::super::findings::first_few;
use super::super::{Subject, VerifyError, python_abi, torch_abi, undefined};
use crate::base::causes::chain;
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

/// Namespaces of torch: in its stable ABI there are C functions alone.
const TORCH: &[&str] = &["at", "c10", "torch"];

/// Abilities of the loader, which a library asks for by a version of this beginning; the first came with glibc 2.36.
const LOADER: &str = "GLIBC_ABI_";
const FIRST_LOADER: u32 = 36;

/// Distributions by the C library they have, newest first.
const HOSTS: &[(u32, &str)] = &[
    (39, "Ubuntu 24.04, Fedora 40, Debian 13 and newer"),
    (36, "Debian 12, Fedora 37 and newer"),
    (35, "Ubuntu 22.04 and newer"),
    (34, "RHEL 9, Amazon Linux 2023 and newer"),
    (31, "Ubuntu 20.04, Debian 11 and newer"),
    (28, "RHEL 8, Debian 10 and newer"),
];

/// What a library is judged by.
#[derive(Debug, Clone, Copy)]
pub(in crate::verify) struct Promise<'a> {
    /// Libraries that this kind of package finds loaded.
    pub(in crate::verify) brought: &'a [&'a str],
    /// Whether its name says that every Python loads it.
    pub(in crate::verify) any_python: bool,
    /// The oldest torch, where its name says that every one from there on loads it.
    pub(in crate::verify) any_torch: Option<Version>,
    /// The processor that it is for.
    pub(in crate::verify) cpu: Option<Cpu>,
}

impl Promise<'_> {
    /// What the name of a library, and that of the variant that it is of, promise.
    pub(in crate::verify) fn new(library: &Path, variant: Option<Variant>) -> Self {
        let framework = variant.and_then(|variant| Some(variant.compiled()?.framework));
        let torch = variant.and_then(|variant| variant.torch());
        Self {
            brought: if matches!(framework, Some(Framework::TvmFfi(_))) { &[TVM_FFI] } else { &[] },
            any_python: library.to_string_lossy().ends_with(".abi3.so"),
            any_torch: torch.filter(|torch| torch.abi == Abi::Stable).map(|torch| torch.version),
            cpu: variant.and_then(|variant| Some(variant.compiled()?.cpu)),
        }
    }
}

/// Processor, segments, symbol versions, search paths, needed libraries, Python's and torch's symbols: of the library,
/// and of every other one that lies in the package.
pub(crate) fn check(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    let artifact = subject.artifact;
    let Some(library) = &artifact.library else { return Ok(vec![]) };
    let variant: Option<Variant> = artifact.variant.parse().ok();
    let mut results = Vec::new();
    for path in libraries(&artifact.dir, library)? {
        let promise = Promise::new(&path, variant);
        let found = judged(&files::read(&path)?, promise, subject.options.require_portable);
        let place = path.strip_prefix(&artifact.dir).unwrap_or(&path).display();
        results.extend(found.into_iter().map(|mut check| {
            if path != *library {
                check.summary = format!("`{place}`: {}", check.summary);
            }
            check
        }));
    }
    Ok(results)
}

/// The library of a package first, then what else in it the loader would take.
fn libraries(package: &Path, library: &Path) -> Result<Vec<PathBuf>, VerifyError> {
    let mut found = vec![library.to_owned()];
    if files::is_dir(package) {
        for path in files::walk(package, |_| true)?.into_iter().map(|name| package.join(name)) {
            if path != library && elf::is_elf(&files::read(&path)?) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// The verdict on the bytes of one library: a result a gate.
pub(in crate::verify) fn judged(bytes: &[u8], promise: Promise<'_>, strict: bool) -> Vec<CheckResult> {
    match elf::interface(bytes) {
        Ok(interface) => gates(&interface, promise, strict),
        Err(error) => {
            let summary = format!("the library cannot be judged: {}", chain(&error));
            vec![CheckResult::new("portability", CODE, Outcome::Refused, summary, json!({}))]
        }
    }
}

fn gates(interface: &Interface, promise: Promise<'_>, strict: bool) -> Vec<CheckResult> {
    let gate = |name, code, complaints: Vec<String>, fine: String, facts| {
        let refused = !complaints.is_empty();
        let outcome = if refused { Outcome::Refused } else { Outcome::Passed };
        CheckResult::new(name, code, outcome, if refused { complaints.join("; ") } else { fine }, facts)
    };
    let mut results = vec![
        manylinux(interface, strict),
        gate(
            "portability",
            CODE,
            process(interface, promise),
            "makes no unusual demands on a process".to_owned(),
            json!({}),
        ),
        gate(
            "needed",
            "verify::needed",
            needed(interface, promise),
            needs(interface),
            json!({ "needed": interface.needed }),
        ),
        gate(
            "search paths",
            "verify::search_paths",
            search_paths(interface),
            "none (RPATH, RUNPATH)".to_owned(),
            json!({ "search_paths": interface.search_paths }),
        ),
    ];
    if promise.any_python {
        let fine = "what it uses of Python is in the stable ABI of 3.9".to_owned();
        let complaints = python_abi::complaints(&interface.undefined);
        results.push(gate("Python ABI", "verify::python_abi", complaints, fine, json!({})));
    }
    if let Some(floor) = promise.any_torch {
        let fine = format!("what it uses of torch is in the stable ABI of {floor}");
        let complaints = torch(interface, floor);
        results.push(gate(
            "torch ABI",
            "verify::torch_abi",
            complaints,
            fine,
            json!({ "from": floor.to_string() }),
        ));
    }
    results
}

fn manylinux(interface: &Interface, strict: bool) -> CheckResult {
    let result = |outcome, summary: String| {
        let facts = json!({ "versions": interface.versions });
        CheckResult::new("manylinux", "verify::manylinux", outcome, summary, facts)
    };
    if interface.versions.contains("GLIBC_PRIVATE") {
        let text = "uses private names of glibc (GLIBC_PRIVATE), which other releases may not have";
        return result(Outcome::Refused, text.to_owned());
    }
    let newer: Vec<_> = interface.versions.iter().filter(|version| is_newer(version)).cloned().collect();
    if newer.is_empty() {
        let text = "loads on manylinux_2_28 hosts (RHEL 8, Debian 10, Ubuntu 20.04 and newer)";
        return result(Outcome::Passed, text.to_owned());
    }
    let text = format!(
        "needs {}, newer than manylinux_2_28: loads on {}, because it was built on such a host",
        newer.join(", "),
        hosts(interface),
    );
    result(if strict { Outcome::Refused } else { Outcome::Warned }, text)
}

/// What is wrong with what it asks of a process beside libraries.
fn process(interface: &Interface, promise: Promise<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some((cpu, machine)) = promise.cpu.map(|cpu| (cpu, machine(cpu)))
        && interface.machine != machine
    {
        wrong.push(format!(
            "is for another CPU (ELF machine {}, but {cpu} is {machine}), so {cpu} cannot load it",
            interface.machine
        ));
    }
    wrong.extend(interface.demands.iter().map(|demand| words(*demand).to_owned()));
    if !interface.redirected.is_empty() {
        wrong.push(format!(
            "makes the loader load {} (DT_AUXILIARY, DT_FILTER, DT_AUDIT)",
            interface.redirected.join(", ")
        ));
    }
    wrong
}

fn search_paths(interface: &Interface) -> Vec<String> {
    if interface.search_paths.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "looks for libraries in `{}` (RPATH, RUNPATH), where other machines have something else or nothing; link \
         without -rpath",
        interface.search_paths.join(":")
    )]
}

fn needed(interface: &Interface, promise: Promise<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let (paths, names): (Vec<&str>, Vec<&str>) =
        interface.needed.iter().map(String::as_str).partition(|name| name.contains('/'));
    if !paths.is_empty() {
        wrong.push(format!(
            "needs {} by its path on the build machine; link it with -l, or give it a soname",
            paths.join(", ")
        ));
    }
    let known = |name: &&str| {
        LIBRARIES.contains(name)
            || promise.brought.contains(name)
            || LIBRARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let unknown: Vec<_> = names.into_iter().filter(|name| !known(name)).collect();
    if !unknown.is_empty() {
        wrong.push(format!(
            "needs {}, which neither the system nor the framework provides",
            unknown.join(", ")
        ));
    }
    wrong
}

fn needs(interface: &Interface) -> String {
    match interface.needed.as_slice() {
        [] => "needs no library".to_owned(),
        needed => format!("the system or the framework provides {}", needed.join(", ")),
    }
}

fn torch(interface: &Interface, floor: Version) -> Vec<String> {
    let mut wrong = torch_abi::complaints(&interface.undefined, floor);
    let is_cpp = |name: &&String| undefined::namespace(name).is_some_and(|outer| TORCH.contains(&outer));
    let of_torch = interface.undefined.iter().filter(is_cpp);
    let of_torch: Vec<_> = of_torch.map(|name| format!("`{name}`")).collect();
    if !of_torch.is_empty() {
        wrong.push(format!(
            "is for torch's stable ABI but uses C++ of torch: {}; other releases of torch may not have it: use \
             torch::stable, or remove `stable-abi` from build.toml",
            first_few(&of_torch)
        ));
    }
    wrong
}

/// `e_machine` (ELF's registry).
fn machine(cpu: Cpu) -> u16 {
    match cpu {
        Cpu::X86_64 => 62,
        Cpu::Aarch64 => 183,
    }
}

fn words(demand: Demand) -> &'static str {
    match demand {
        Demand::ExecutableStack => {
            "needs an executable stack, which hardened systems and glibc 2.41 refuse; link with -z noexecstack, and \
             end assembly with `.section .note.GNU-stack`"
        }
        Demand::WritableCode => {
            "has text relocations (DT_TEXTREL), which hardened systems refuse; compile with -fPIC"
        }
        Demand::NotOpened => {
            "is marked as an executable, or as closed to dlopen (DF_1_PIE, DF_1_NOOPEN); link with -shared"
        }
    }
}

/// Whether a symbol version, `GLIBC_2.34`, is newer than the policy allows; unknown families are not.
fn is_newer(version: &str) -> bool {
    if version.starts_with(LOADER) {
        return true;
    }
    let Some((family, number)) = version.rsplit_once('_') else { return false };
    let parts: Vec<u32> = number.split('.').map_while(|part| part.parse().ok()).collect();
    NEWEST.iter().any(|(name, newest)| *name == family && parts.as_slice() > *newest)
}

/// The hosts that have the C library that is asked for.
fn hosts(interface: &Interface) -> String {
    let minor = |version: &String| {
        let number = version.strip_prefix("GLIBC_2.").and_then(|rest| rest.split('.').next()?.parse().ok());
        number.or_else(|| version.starts_with(LOADER).then_some(FIRST_LOADER))
    };
    let minor: u32 = interface.versions.iter().filter_map(minor).max().unwrap_or(0);
    match HOSTS.iter().rev().find(|(has, _)| *has >= minor) {
        Some((_, hosts)) => (*hosts).to_owned(),
        None => format!("hosts with glibc 2.{minor} or newer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a library for any Python, any torch and x86-64 is judged.
    const ANY: Promise<'_> =
        Promise { brought: &[], any_python: true, any_torch: Some(Version::new(2, 11)), cpu: None };
    /// As one of which nothing is known.
    const NONE: Promise<'_> = Promise { brought: &[], any_python: false, any_torch: None, cpu: None };

    /// The worst outcome of all gates, with what that gate says.
    fn judged(interface: &Interface, promise: Promise<'_>, strict: bool) -> (Outcome, String) {
        let results = gates(interface, promise, strict);
        let of = |wanted| results.iter().find(|check| check.outcome == wanted);
        let worst = of(Outcome::Refused).or_else(|| of(Outcome::Warned)).unwrap_or(&results[0]);
        (worst.outcome, worst.summary.clone())
    }

    #[track_caller]
    fn refused(interface: &Interface, promise: Promise<'_>, words: &str) {
        let (outcome, text) = judged(interface, promise, false);
        assert_eq!(outcome, Outcome::Refused, "{text}");
        assert!(text.contains(words), "{text}");
    }

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
        assert_eq!(judged(&old, ANY, true).0, Outcome::Passed);
        let new = interface(&[], &["GLIBC_2.34", "GLIBCXX_3.4.29"]);
        let (outcome, text) = judged(&new, ANY, false);
        assert_eq!(outcome, Outcome::Warned);
        assert!(text.contains("GLIBCXX_3.4.29, GLIBC_2.34") && text.contains("RHEL 9"), "{text}");
        assert_eq!(judged(&new, ANY, true).0, Outcome::Refused);
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
        assert!(judged(&foreign, NONE, false).1.contains("libfancy.so.3, which"));
        let tvm_ffi = interface(&[TVM_FFI], &[]);
        assert_eq!(judged(&tvm_ffi, NONE, false).0, Outcome::Refused);
        assert_eq!(judged(&tvm_ffi, Promise { brought: &[TVM_FFI], ..NONE }, false).0, Outcome::Passed);
        let path = Interface { search_paths: vec!["/home/me/lib".to_owned()], ..Interface::default() };
        assert_eq!(judged(&path, NONE, false).0, Outcome::Refused);
        let undefined = ["PyModule_Create2", "PyFrame_GetBack"].map(str::to_owned).into();
        let python = Interface { undefined, ..Interface::default() };
        assert_eq!(judged(&python, ANY, false).0, Outcome::Refused);
        assert_eq!(judged(&python, NONE, false).0, Outcome::Passed);
    }

    #[test]
    fn another_processor_is_refused() {
        let arm = Interface { machine: 183, ..Interface::default() };
        refused(&arm, Promise { cpu: Some(Cpu::X86_64), ..NONE }, "for another CPU (ELF machine 183");
        assert_eq!(judged(&arm, Promise { cpu: Some(Cpu::Aarch64), ..NONE }, true).0, Outcome::Passed);
    }

    #[test]
    fn what_hardened_systems_do_not_load_is_refused() {
        for (demand, words) in [
            (Demand::ExecutableStack, "-z noexecstack"),
            (Demand::WritableCode, "-fPIC"),
            (Demand::NotOpened, "-shared"),
        ] {
            refused(&Interface { demands: [demand].into(), ..Interface::default() }, NONE, words);
        }
    }

    #[test]
    fn a_library_by_its_path_is_refused_even_where_its_name_is_known() {
        let needed = |name: &str| interface(&[name], &[]);
        refused(&needed("/usr/lib/libc.so.6"), NONE, "needs /usr/lib/libc.so.6 by its path");
        refused(&needed("libcuda.so.1/../../tmp/evil.so"), NONE, "by its path");
        let origin = Interface { search_paths: vec!["$ORIGIN/../lib".to_owned()], ..Interface::default() };
        refused(&origin, NONE, "`$ORIGIN/../lib` (RPATH, RUNPATH)");
        let filter = Interface { redirected: vec!["libx.so".to_owned()], ..Interface::default() };
        refused(&filter, NONE, "libx.so (DT_AUXILIARY");
    }

    #[test]
    fn versions_that_are_no_numbers() {
        refused(&interface(&[], &["GLIBC_PRIVATE"]), NONE, "GLIBC_PRIVATE");
        let relr = interface(&[], &["GLIBC_2.2.5", "GLIBC_ABI_DT_RELR"]);
        let (outcome, text) = judged(&relr, NONE, false);
        assert_eq!(outcome, Outcome::Warned, "{text}");
        assert!(text.contains("GLIBC_ABI_DT_RELR") && text.contains("Debian 12"), "{text}");
        assert_eq!(judged(&relr, NONE, true).0, Outcome::Refused);
    }

    #[test]
    fn cpp_of_torch_is_not_its_stable_interface() {
        let undefined =
            ["_ZN2at4_ops5empty4callE", "_ZTIN3c105ErrorE", "aoti_torch_new_tensor_handle", "_ZNSt6vectorE"];
        let library = Interface { undefined: undefined.map(str::to_owned).into(), ..Interface::default() };
        refused(&library, ANY, "`_ZN2at4_ops5empty4callE`, `_ZTIN3c105ErrorE`; other releases of torch");
        assert_eq!(judged(&library, NONE, true).0, Outcome::Passed, "the full ABI is that C++");
        let later = Interface { undefined: ["torch_tag_core".to_owned()].into(), ..Interface::default() };
        refused(&later, ANY, "is for torch 2.11 and newer but uses `torch_tag_core` (of torch 2.12)");
        let floor = Promise { any_torch: Some(Version::new(2, 12)), ..ANY };
        assert_eq!(judged(&later, floor, true).0, Outcome::Passed);
    }

    #[test]
    fn a_second_library_in_the_package_is_found() {
        let folder = files::scratch().unwrap();
        let library = folder.path().join("_k.abi3.so");
        files::write(&library, "\u{7f}ELF").unwrap();
        files::write(&folder.path().join("data/more.bin"), "\u{7f}ELF").unwrap();
        files::write(&folder.path().join("__init__.py"), "").unwrap();
        let found = libraries(folder.path(), &library).unwrap();
        assert_eq!(found, [library, folder.path().join("data/more.bin")]);
    }
}
