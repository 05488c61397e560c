//! The kit of this machine's own compiler: a library that uses much of C++ is linked with it, checked and loaded.

use std::path::{Path, PathBuf};

use kernel_plan::backend::{Backend, Cpu, Link};
use kernel_plan::kit::{FrameworkKit, Toolchain, TorchKit};
use kernel_plan::variant::Os;

use super::*;

/// Uses streams, shared pointers, threads, timed waits, files, exceptions and mathematics; its entry point prints.
const PROBE: &str = r#"
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

std::string visible_but_not_exported(double value) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(3) << std::pow(value, 2.5) + std::exp(value);
    return out.str();
}

extern "C" __attribute__((visibility("default"))) void* PyInit_probe() {
    auto shared = std::make_shared<std::string>("shared " + std::to_string(7));
    std::mutex mutex;
    std::condition_variable_any condition;
    std::condition_variable plain;
    std::string waited = "late";
    std::thread other([copy = shared, &waited] { waited = *copy; });
    other.join();
    std::unique_lock<std::mutex> lock(mutex);
    const auto status = plain.wait_for(lock, std::chrono::milliseconds(2));
    std::string caught;
    try {
        if (std::filesystem::exists("/")) {
            throw std::runtime_error("thrown");
        }
    } catch (const std::exception& error) {
        caught = error.what();
    }
    try {
        (void)std::stoi("not a number");
    } catch (const std::invalid_argument& error) {
        caught += std::string(" ") + error.what();
    }
    std::cout << visible_but_not_exported(2.0) << ' ' << waited << ' ' << caught << ' ' << std::strtol("42", nullptr, 10)
              << ' ' << (status == std::cv_status::timeout) << std::endl;
    return nullptr;
}
"#;

/// Loads the library named by its argument and calls the entry point.
const LOADER: &str = r#"
#include <cstdio>
#include <dlfcn.h>
int main(int, char** arguments) {
    void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) { std::puts(dlerror()); return 1; }
    void* entry = dlsym(library, "PyInit_probe");
    if (!entry) { std::puts(dlerror()); return 1; }
    reinterpret_cast<void* (*)()>(entry)();
    return 0;
}
"#;

/// This machine's compiler; without one there is nothing to test.
#[expect(clippy::disallowed_macros, reason = "a skipped test says why")]
fn compiler() -> Option<Compiler> {
    let Ok(program) = which::which("g++") else {
        eprintln!("skipped: no g++ on PATH");
        return None;
    };
    Some(Compiler { program, version: "g++".to_owned(), id: "0123".to_owned() })
}

fn compile(cxx: &Compiler, folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let object = folder.join(format!("{name}.o"));
    files::write(&folder.join(format!("{name}.cpp")), source).unwrap();
    let line = CommandLine::new(&cxx.program)
        .args(["-std=c++17", "-O2", "-fPIC"])
        .args(flags.iter().copied())
        .args(["-c".to_owned(), format!("{name}.cpp"), "-o".to_owned()])
        .path(&object)
        .cwd(folder);
    run(&line, name).unwrap();
    object
}

/// A toolchain with empty torch libraries in `folder`.
fn toolchain(cxx: &Compiler, folder: &Path, portable: Option<PortableKit>) -> Toolchain {
    for name in ["libc10.so", "libtorch_cpu.so", "libtorch.so"] {
        link_stub(folder, name, &stub::render(&[]), cxx).unwrap();
    }
    let framework = FrameworkKit::Torch(TorchKit {
        version: "2.11.0".to_owned(),
        include: Vec::new(),
        stubs: folder.join("stubs"),
        id: "0".to_owned(),
    });
    let extension_include = folder.to_owned();
    let libraries = Vec::new();
    Toolchain {
        cxx: cxx.clone(),
        cuda: None,
        device: None,
        framework,
        libraries,
        extension_include,
        portable,
    }
}

fn link(kit: &Toolchain, object: &Path, output: &Path) {
    let text = |path: &Path| path.display().to_string();
    let (objects, output) = ([text(object)], text(output));
    let link = Link { objects: &objects, output: &output, kit, os: Os::Linux };
    run(&Cpu.link(&link), "the library").unwrap();
}

fn exported(library: &Path) -> Vec<String> {
    let symbols = symbols::read(library, &files::read(library).unwrap()).unwrap().symbols;
    symbols.into_iter().filter(|symbol| symbol.defined).map(|symbol| symbol.name).collect()
}

#[test]
fn a_portable_library_wants_nothing_new_and_loads() {
    let Some(cxx) = compiler() else { return };
    let root = files::scratch().unwrap();
    let folder = root.path();
    let portable = provide(&folder.join("cache"), &cxx).unwrap();
    let kit = toolchain(&cxx, folder, Some(portable.clone()));
    let object = compile(&cxx, folder, "probe", PROBE, &[]);
    let library = folder.join("probe.abi3.so");
    link(&kit, &object, &library);
    assert_eq!(beyond(&library, &portable).unwrap(), []);
    assert_eq!(exported(&library), ["PyInit_probe"]);
    let loader = folder.join("loader");
    let main = compile(&cxx, folder, "loader", LOADER, &[]);
    run(&CommandLine::new(&cxx.program).path(&main).args(["-ldl", "-o"]).path(&loader), "the loader")
        .unwrap();
    let line = CommandLine::new(&loader)
        .path(&library)
        .env("LD_LIBRARY_PATH", kit.framework.stubs().display().to_string());
    let done = process::run(&line, Limits::wall(Duration::from_secs(30))).unwrap();
    assert_eq!(done.stdout_text(), "13.046 shared 7 thrown stoi 42 1\n", "{}", done.stderr_text());
    assert!(done.ending.success());
}

#[test]
fn what_is_too_new_is_named() {
    let Some(cxx) = compiler() else { return };
    let root = files::scratch().unwrap();
    let folder = root.path();
    let portable = provide(&folder.join("cache"), &cxx).unwrap();
    let newer = files::read_text(&portable.newer).unwrap();
    let Some(version) = newer.lines().find_map(|line| line.strip_prefix("gettid ")) else {
        // This machine's own glibc is older than 2.30.
        return;
    };
    let source = "extern \"C\" int gettid(); extern \"C\" int PyInit_new() { return gettid(); }\n";
    let object = compile(&cxx, folder, "new", source, &[]);
    let library = folder.join("new.so");
    let want = [Need { symbol: Some("gettid".to_owned()), version: version.to_owned() }];
    for kit in [Some(portable.clone()), None] {
        link(&toolchain(&cxx, folder, kit), &object, &library);
        assert_eq!(beyond(&library, &portable).unwrap(), want);
    }
}

/// Of every library that is cut, a name of a version that old systems lack.
#[test]
fn every_family_of_versions_is_looked_at() {
    let Some(cxx) = compiler() else { return };
    let root = files::scratch().unwrap();
    let folder = root.path();
    let portable = provide(&folder.join("cache"), &cxx).unwrap();
    let source = "extern \"C\" int newer(); extern \"C\" int PyInit_new() { return newer(); }\n";
    let object = compile(&cxx, folder, "new", source, &[]);
    for (newest, newer) in [
        ("GLIBC_2.28", "GLIBC_2.29"),
        ("GLIBCXX_3.4.24", "GLIBCXX_3.4.25"),
        ("CXXABI_1.3.11", "CXXABI_1.3.12"),
        ("GCC_7.0.0", "GCC_8.0.0"),
    ] {
        let of = |version: &str| {
            let symbol = symbols::Symbol {
                name: "newer".to_owned(),
                version: Some(version.to_owned()),
                kind: symbols::Kind::Function,
                weak: false,
                defined: true,
                retired: false,
                size: 1,
            };
            link_stub(folder, "libnewer.so.1", &stub::render(&[symbol]), &cxx).unwrap();
            let library = folder.join("new.so");
            let line = CommandLine::new(&cxx.program)
                .args(["-shared", "-nostdlib", "-o"])
                .path(&library)
                .path(&object)
                .path(&folder.join("stubs/libnewer.so.1"));
            run(&line, "the library").unwrap();
            beyond(&library, &portable).unwrap()
        };
        assert_eq!(of(newest), []);
        assert_eq!(of(newer), [Need { symbol: Some("newer".to_owned()), version: newer.to_owned() }]);
    }
}

#[test]
fn a_second_call_makes_nothing() {
    let Some(cxx) = compiler() else { return };
    let root = files::scratch().unwrap();
    let first = provide(root.path(), &cxx).unwrap();
    let stamp = files::stamp(&first.shim).unwrap();
    assert_eq!(provide(root.path(), &cxx).unwrap(), first);
    assert_eq!(files::stamp(&first.shim).unwrap(), stamp);
    // Without the memo the same content gives the same kit.
    files::remove_dir(&root.path().join("portable/compilers")).unwrap();
    assert_eq!(provide(root.path(), &cxx).unwrap(), first);
    assert_eq!(files::stamp(&first.shim).unwrap(), stamp);
}

#[test]
fn a_compiler_without_libraries_is_refused() {
    let root = files::scratch().unwrap();
    let program = root.path().join("g++");
    // Prints back a name that it does not know, as g++ does.
    files::write(&program, "#!/bin/sh\necho \"${1#-print-file-name=}\"\n").unwrap();
    files::make_executable(&program).unwrap();
    let cxx = Compiler { program, version: "fake".to_owned(), id: "0".to_owned() };
    let error = provide(root.path(), &cxx).unwrap_err();
    assert!(error.to_string().ends_with("has no file `libstdc++.so.6`"), "{error}");
    assert!(!files::exists(&root.path().join("portable")));
}
