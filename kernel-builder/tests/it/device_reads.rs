//! Device code reads the candidate's folder and the toolkit, and no file of the user.

use std::os::unix::fs::symlink;

use super::device_code::{CACHE, NVCC, SOURCE, project, with_cache};
use super::sandbox::{Ended, Sandbox, finish};

const SECRET: &str = "hunter2 is the password";

#[test]
fn a_source_that_is_a_link_out_of_the_project_is_refused() {
    let sandbox = Sandbox::new();
    project(&sandbox);
    sandbox.write("secret", SECRET);
    let source = sandbox.path("work/scale/scale.cu");
    std::fs::remove_file(&source).expect("a source");
    symlink(sandbox.path("secret"), &source).expect("a link");
    for verb in [&["verify", "--device", "scale"][..], &["bench", "--device", "scale"], &["screen", "scale"]]
    {
        sandbox.run(verb).refused(10, &["verify::source_outside", "scale.cu"]);
    }
}

#[test]
fn no_way_of_naming_a_file_makes_a_compiler_quote_it() {
    let Some(cache) = std::env::var_os(CACHE) else {
        eprintln!("skipped: {CACHE} names no cache with the wheels of CUDA");
        return;
    };
    let sandbox = with_cache(&cache);
    project(&sandbox);
    sandbox.write("secret", SECRET);
    let secret = sandbox.path("secret").display().to_string();
    symlink(&secret, sandbox.path("work/scale/link.h")).expect("a link");
    let ways = [
        format!("#include \"{secret}\""),
        "#include \"../../secret\"".to_owned(),
        "#include \"link.h\"".to_owned(),
        format!("#include_next <{secret}>"),
        format!("#define NAME \"{secret}\"\n#include NAME"),
        format!("#define TEXT(x) #x\n#define NAME(x) TEXT(x)\n#include NAME({secret})"),
        "#define NAME \"link.h\"\n#include NAME".to_owned(),
        format!("#line 1 \"{secret}\"\n#error x"),
        format!("# 1 \"{secret}\"\n#error x"),
        format!("#inc\\\u{b}\nlude \"{secret}\""),
        format!("#\0include \"{secret}\""),
        format!("#include_next <../../../../../../../..{secret}>"),
    ];
    for compiler in ["nvrtc", "nvcc"] {
        for way in &ways {
            sandbox.write("work/scale/scale.cu", &format!("{way}\n{SOURCE}"));
            let ended = sandbox.run(&["verify", "--device", "--compiler", compiler, "scale"]);
            if ended.code == 13 {
                eprintln!("skipped: the cache lacks a compiler: {}", ended.stderr);
                return;
            }
            ended.refused(15, &["compile::device_code"]);
            let evidence = sandbox.read("work/scale/.kernelwright/verdicts/device.json");
            assert!(
                !ended.stderr.contains("hunter2") && !evidence.contains("hunter2"),
                "{compiler}, {way}: {evidence}"
            );
        }
        // The candidate's own files may be named by a macro.
        let own = "#define NAME \"scale.cuh\"\n#include NAME\n";
        sandbox.write(
            "work/scale/scale.cu",
            &format!("{own}{}", SOURCE.replace("#include \"scale.cuh\"\n", "")),
        );
        let ended = sandbox.run(&["verify", "--device", "--compiler", compiler, "scale"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
}

/// A project with this compiler, and a way to verify it.
fn with_nvcc(script: &str) -> (Sandbox, impl Fn(&Sandbox) -> Ended) {
    let sandbox = Sandbox::new();
    project(&sandbox);
    sandbox.script("toolkit/bin/nvcc", script);
    sandbox.write("toolkit/include/cuda_runtime.h", "");
    sandbox.write("toolkit/lib64/libcudart.so.13", "");
    sandbox.fake("g++", "echo 'g++ (Fake) 1.0'");
    let verify = |sandbox: &Sandbox| {
        let mut line = sandbox.command(&["verify", "--device", "--compiler", "nvcc", "scale"]);
        finish(line.env("CUDA_HOME", sandbox.path("toolkit")).env("CUDA_VISIBLE_DEVICES", ""))
    };
    (sandbox, verify)
}

#[test]
fn machine_code_depends_on_files_that_a_macro_names() {
    let (sandbox, verify) = with_nvcc(NVCC);
    sandbox.write("work/scale/scale.cu", &format!("#define T \"table.inc\"\n#include T\n{SOURCE}"));
    sandbox.write("work/scale/table.inc", "one\n");
    let first = verify(&sandbox);
    if first.stderr.contains("Landlock") {
        eprintln!("skipped: this operating system cannot confine a process");
        return;
    }
    assert_eq!(first.code, 0, "{}", first.stderr);
    let calls = || sandbox.read("home/calls").lines().count();
    let before = calls();
    assert_eq!(verify(&sandbox).code, 0);
    assert_eq!(calls(), before, "nothing changed");
    sandbox.write("work/scale/table.inc", "two\n");
    assert_eq!(verify(&sandbox).code, 0);
    assert_eq!(calls(), 2 * before);
}

#[test]
fn a_compiler_that_cannot_be_started_is_not_the_fault_of_the_source() {
    // Its interpreter goes after the toolkit was looked at.
    let gone = "case \"$1\" in --version)\n  echo again >> \"$HOME/asked\"\n  \
                if [ \"$(wc -l < \"$HOME/asked\")\" -ge 2 ]; then printf '#!/nowhere/sh\\n' > \"$0\"; fi\n  \
                echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit 0 ;;\nesac\nexit 1\n";
    let (sandbox, verify) = with_nvcc(gone);
    let ended = verify(&sandbox);
    assert_eq!(sandbox.read("home/asked").lines().count(), 2);
    ended.refused(13, &["compile::device_start", "toolkit/bin/nvcc", "No such file", "not the source"]);
    assert!(!sandbox.path("work/scale/.kernelwright/verdicts/device.json").exists());
}
