//! Device code reads the candidate's folder and the toolkit, and no file of the user.

use std::os::unix::fs::symlink;

use super::device_code::{CACHE, SOURCE, project, with_cache};
use super::sandbox::Sandbox;

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
