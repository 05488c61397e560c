//! `check-abi` on libraries that the system's compiler makes: pairs of which a gate refuses one and takes the other, which
//! `gates` goes through; what is declared, and what is said.
//!
//! Owns: the sources of the libraries. Never: loads one.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::sandbox::{Ended, Sandbox};

/// A library that one gate refuses, and one that differs in nothing else.
pub(crate) struct Pair {
    /// The gate's code.
    pub(crate) code: &'static str,
    /// What its refusal says.
    pub(crate) words: &'static str,
    /// Options of `check-abi` for the one that is refused, and for its twin.
    pub(crate) options: [&'static [&'static str]; 2],
    pub(crate) bad: Made,
    pub(crate) good: Made,
}

/// What a library is made of, beside the least that Python would import.
#[derive(Default)]
pub(crate) struct Made {
    source: String,
    flags: Vec<String>,
    stubs: Vec<(&'static str, &'static str)>,
    /// The module's name, where it is not `_k`.
    module: Option<&'static str>,
}

impl Made {
    pub(crate) fn source(source: &str) -> Self {
        Self { source: source.to_owned(), ..Self::default() }
    }

    fn flags(flags: &[&str]) -> Self {
        Self { flags: flags.iter().map(|flag| (*flag).to_owned()).collect(), ..Self::default() }
    }

    /// A call of `f`, which a library of this name has under this version.
    fn needs(library: &'static str, version: &'static str) -> Self {
        let source = "int f(void); int g(void) { return f(); }\n".to_owned();
        Self { source, stubs: vec![(library, version)], ..Self::default() }
    }

    pub(crate) fn named(self, module: &'static str) -> Self {
        Self { module: Some(module), ..self }
    }

    pub(crate) fn link(&self, folder: &Path) -> PathBuf {
        std::fs::create_dir_all(folder).expect("a folder");
        let module = self.module.unwrap_or("_k");
        let source = folder.join("k.c");
        let entry = format!("int PyInit_{module}(void) {{ return 0; }}\n");
        std::fs::write(&source, format!("{entry}{}", self.source)).expect("a source");
        let library = folder.join(format!("{module}.abi3.so"));
        let mut line = cc();
        line.args(["-shared", "-fPIC", "-nostdlib", "-fvisibility=hidden"]);
        line.args(["-DPUBLIC=__attribute__((visibility(\"default\")))", "-include"]);
        let visible = folder.join("visible.h");
        std::fs::write(&visible, format!("PUBLIC int PyInit_{module}(void);\n")).expect("a header");
        line.arg(&visible).arg(&source).arg("-o").arg(&library).args(&self.flags);
        for (soname, version) in &self.stubs {
            line.arg(stub(folder, soname, version));
        }
        done(&mut line);
        library
    }
}

/// The system's C compiler.
fn cc() -> Command {
    Command::new("cc")
}

pub(crate) fn done(line: &mut Command) {
    let output = line.output().expect("the system's compiler");
    assert!(output.status.success(), "{line:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// A library that has `f`, under a version where one is given.
fn stub(folder: &Path, soname: &str, version: &str) -> PathBuf {
    let (source, script) = (folder.join("f.c"), folder.join("f.map"));
    let library = folder.join(format!("stub-{soname}"));
    std::fs::write(&source, "int f(void) { return 1; }\n").expect("a source");
    std::fs::write(&script, format!("{version} {{ global: f; }};\n")).expect("a script");
    let mut line = cc();
    line.args(["-shared", "-fPIC", "-nostdlib"]).arg(&source).arg("-o").arg(&library);
    line.arg(format!("-Wl,-soname,{soname}"));
    if !version.is_empty() {
        line.arg(format!("-Wl,--version-script={}", script.display()));
    }
    done(&mut line);
    library
}

/// `check-abi` on a copy of a library.
pub(crate) fn check(sandbox: &Sandbox, library: &Path, options: &[&str]) -> Ended {
    let mut arguments = vec!["check-abi", library.to_str().expect("a path")];
    arguments.extend(options);
    sandbox.run(&arguments)
}

/// A container of one PTX text and one cubin, as an assembler source.
fn fatbin(ptx: u32, cubin: u32) -> String {
    let entry = |kind: u16, arch: u32, payload: &[u8]| {
        let mut bytes = Vec::new();
        bytes.extend(kind.to_le_bytes());
        bytes.extend(0x0101u16.to_le_bytes());
        bytes.extend(64u32.to_le_bytes());
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.extend([0; 12]);
        bytes.extend(arch.to_le_bytes());
        bytes.resize(64, 0);
        bytes.extend(payload);
        bytes
    };
    let mut text = format!(".version 9.0\n.target sm_{ptx}\n.address_size 64\n").into_bytes();
    text.resize(text.len().next_multiple_of(8), 0);
    // A cubin without a section: its header names the architecture.
    let mut elf = b"\x7fELF\x02\x01\x01\x33\x07".to_vec();
    elf.resize(16, 0);
    elf.extend([2u16, 190].map(u16::to_le_bytes).concat());
    elf.extend(1u32.to_le_bytes());
    elf.extend([0u8; 24]);
    elf.extend(cubin.to_le_bytes());
    elf.extend([64u16, 0, 0, 64, 0, 0].map(u16::to_le_bytes).concat());
    let entries = [entry(1, ptx, &text), entry(2, cubin, &elf)].concat();
    let mut all = 0xba55_ed50u32.to_le_bytes().to_vec();
    all.extend([1u16, 16].map(u16::to_le_bytes).concat());
    all.extend((entries.len() as u64).to_le_bytes());
    all.extend(entries);
    let bytes: Vec<String> = all.iter().map(u8::to_string).collect();
    format!("__asm__(\".pushsection .nv_fatbin,\\\"a\\\"\\n.byte {}\\n.popsection\\n\");\n", bytes.join(","))
}

pub(crate) fn pairs() -> Vec<Pair> {
    let pair = |code, words, bad, good| Pair { code, words, options: [&[], &[]], bad, good };
    let calls = |name: &str| Made::source(&format!("int {name}(void); int g(void) {{ return {name}(); }}\n"));
    vec![
        pair(
            "verify::manylinux",
            "needs GLIBC_2.34, newer than manylinux_2_28",
            Made::needs("libc.so.6", "GLIBC_2.34"),
            Made::needs("libc.so.6", "GLIBC_2.17"),
        ),
        pair(
            "verify::manylinux",
            "GLIBC_PRIVATE",
            Made::needs("libc.so.6", "GLIBC_PRIVATE"),
            Made::needs("libc.so.6", "GLIBC_2.2.5"),
        ),
        pair(
            "verify::manylinux",
            "needs GLIBCXX_3.4.29",
            Made::needs("libstdc++.so.6", "GLIBCXX_3.4.29"),
            Made::needs("libstdc++.so.6", "GLIBCXX_3.4.22"),
        ),
        pair(
            "verify::needed",
            "libfancy.so.3",
            Made::needs("libfancy.so.3", ""),
            Made::needs("libm.so.6", ""),
        ),
        pair(
            "verify::search_paths",
            "`$ORIGIN/lib` (RPATH, RUNPATH)",
            Made::flags(&["-Wl,-rpath,$ORIGIN/lib"]),
            Made::default(),
        ),
        pair("verify::portability", "-z noexecstack", Made::flags(&["-Wl,-z,execstack"]), Made::default()),
        pair("verify::python_abi", "`PyFrame_GetBack`", calls("PyFrame_GetBack"), calls("PyLong_FromLong")),
        pair(
            "verify::python_abi",
            "`PyModule_AddObjectRef` (of Python 3.10)",
            calls("PyModule_AddObjectRef"),
            calls("PyModule_AddObject"),
        ),
        Pair {
            options: [&["--torch-stable-abi", "2.10"]; 2],
            ..pair(
                "verify::torch_abi",
                "`torch_from_blob` (of torch 2.11)",
                calls("torch_from_blob"),
                calls("torch_library_impl"),
            )
        },
        Pair {
            options: [&["--torch-stable-abi", "2.11"]; 2],
            ..pair(
                "verify::torch_abi",
                "uses C++ of torch: `_ZN2at4_ops5empty4callE`",
                calls("_ZN2at4_ops5empty4callE"),
                calls("torch_from_blob"),
            )
        },
        pair(
            "verify::symbols",
            "exports `helper`",
            Made::source("PUBLIC int helper(void) { return 1; }\n"),
            Made::source("int helper(void) { return 1; }\n"),
        ),
        pair(
            "verify::symbols",
            "STB_GNU_UNIQUE",
            Made::source(
                "__asm__(\".data\\n.globl once\\n.type once, %gnu_unique_object\\nonce: .quad 1\\n.text\");\n",
            ),
            Made::source("__asm__(\".data\\n.local once\\nonce: .quad 1\\n.text\");\n"),
        ),
        pair(
            "verify::symbols",
            "uses `norm::scale`, which neither its sources",
            calls("_ZN4norm5scaleEv"),
            Made::source("int norm(void) { return 1; }\n"),
        ),
        Pair {
            options: [&["--arch", "8.0,9.0+PTX"]; 2],
            ..pair(
                "verify::archs",
                "not in the binary: compute_90, sm_80, sm_90; not declared: compute_100, sm_86",
                Made::source(&fatbin(100, 86)),
                Made::source(&(fatbin(90, 80) + &fatbin(90, 90))),
            )
        },
        Pair {
            options: [OTHER, OWN],
            ..pair("verify::portability", "for another CPU", Made::default(), Made::default())
        },
        Pair {
            options: [OWN, OWN],
            ..pair(
                "verify::archs",
                "in the binary but not declared",
                Made::source(&fatbin(90, 90)),
                Made::default(),
            )
        },
    ]
}

const X86: &[&str] = &["--variant", "torch-stable-abi211-cpu-x86_64-linux"];
const ARM: &[&str] = &["--variant", "torch-stable-abi211-cpu-aarch64-linux"];
/// The processor that tests run on, and one that they do not.
const OWN: &[&str] = if cfg!(target_arch = "x86_64") { X86 } else { ARM };
const OTHER: &[&str] = if cfg!(target_arch = "x86_64") { ARM } else { X86 };

#[test]
fn what_lies_beside_a_file_says_what_it_is_held_against() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("work/dist/build/torch-stable-abi210-cu130-x86_64-linux");
    let library = Made::source(&(fatbin(90, 80) + &fatbin(90, 90))).link(&folder);
    for name in ["k.c", "visible.h"] {
        std::fs::remove_file(folder.join(name)).expect("a file");
    }
    let metadata = |id: &str, archs: &str| {
        let text = format!(r#"{{"id": "{id}", "backend": {{"type": "cuda", "archs": {archs}}}}}"#);
        std::fs::write(folder.join("metadata.json"), text).expect("a file");
    };
    metadata("_k", r#"["8.0", "9.0+PTX"]"#);
    let json = |options: &[&str]| {
        let mut arguments = vec!["check-abi", "dist", "--message-format", "json"];
        arguments.extend(options);
        sandbox.run(&arguments)
    };
    let taken = json(&[]);
    let result = taken.event("result");
    assert_eq!((taken.code, &result["ok"]), (0, &true.into()), "{result}");
    assert_eq!(result["files"][0]["declared"]["variant"], "torch-stable-abi210-cu130-x86_64-linux");
    let names: Vec<_> = result["files"][0]["checks"].as_array().expect("a list").iter().collect();
    assert!(names.iter().all(|check| check["outcome"] == "passed"), "{result}");
    metadata("_k", r#"["8.0"]"#);
    json(&[]).refused_json("verify::archs");
    metadata("_other", r#"["8.0", "9.0+PTX"]"#);
    json(&[]).refused_json("verify::symbols");
    // What `build` leaves beside the folder of a variant says the same.
    std::fs::remove_file(folder.join("metadata.json")).expect("a file");
    let build = |archs: &str| {
        let text = format!(r#"{{"id": "_k", "backend": "cuda", "capabilities": {archs}}}"#);
        std::fs::write(folder.with_extension("json"), text).expect("a file");
    };
    build(r#"["8.0", "9.0+PTX"]"#);
    assert_eq!(json(&[]).code, 0, "{}", json(&[]).stdout);
    build(r#"["8.0"]"#);
    json(&[]).refused_json("verify::archs");
    std::fs::remove_file(folder.with_extension("json")).expect("a file");
    // Nothing beside it: what is found is told, and judged by nobody.
    let told = sandbox.run(&["check-abi", library.to_str().expect("a path")]);
    assert_eq!(told.code, 0, "{}", told.stderr);
    assert!(
        told.stdout.contains("compute_90, sm_80, sm_90; there are no declared capabilities to compare with"),
        "{}",
        told.stdout
    );
}

impl Ended {
    /// Fails unless the program said this code in JSON, and ended as a refusal.
    #[track_caller]
    fn refused_json(&self, code: &str) {
        assert_eq!(self.code, 15, "{}", self.stdout);
        let result = self.event("result");
        assert_eq!(result["ok"], false);
        assert_eq!(self.event("error")["code"], code, "{}", self.stdout);
    }
}

#[test]
fn libraries_of_one_process_are_held_against_each_other() {
    let sandbox = Sandbox::new();
    let one = Made::default().link(&sandbox.path("work/one"));
    let other = Made::source("int more(void) { return 2; }\nint (*table[])(void) = { more };\n")
        .link(&sandbox.path("work/other"));
    let copy = sandbox.path("work/copy.abi3.so");
    std::fs::copy(&one, &copy).expect("a copy");
    let together = |files: &[&Path]| {
        let mut arguments = vec!["check-abi"];
        arguments.extend(files.iter().map(|file| file.to_str().expect("a path")));
        sandbox.run(&arguments)
    };
    for library in [&one, &other] {
        assert_eq!(together(&[library]).code, 0);
    }
    assert_eq!(together(&[&one, &copy]).code, 0, "two copies are one library");
    together(&[&one, &other]).refused(15, &["verify::clash", "are both the module `_k`"]);
    for library in [&one, &other] {
        done(Command::new("strip").arg("--strip-all").arg(library));
    }
    together(&[&one, &other]).refused(15, &["verify::clash", "are both the module `_k`"]);
}

#[test]
fn what_is_no_library_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write("work/text.so", "#!/bin/sh\n");
    sandbox.run(&["check-abi", "text.so"]).refused(15, &["verify::portability", "it is not an ELF file"]);
    sandbox.write("work/empty/readme.md", "nothing\n");
    sandbox.run(&["check-abi", "empty"]).refused(15, &["verify::no_library", "no library found in `empty`"]);
    sandbox.run(&["check-abi", "gone.so"]).refused(1, &["gone.so"]);
    sandbox.run(&["check-abi"]).refused(2, &["FILE"]);
    sandbox.run(&["check-abi", "x.so", "--arch", "banana"]).refused(2, &["banana"]);
}
