//! Builds that read more than the project, and what is left of earlier ones.

use super::build_fakes::{GOOD, LIBRARY, VARIANT, build, compiled, compiler, fakes};
use super::sandbox::{Sandbox, tree};

const OBJECTS: &str = "work/fast-norm/.kernelwright/objects";

/// A compiler whose preprocessor includes `../common/x.h` into kernel sources, as a compiler tells it.
fn with_common_header() -> Sandbox {
    let sandbox = fakes(GOOD);
    sandbox.write("work/common/x.h", "#define X 1\n");
    let script = sandbox.read("bin/g++");
    let includes = "if [ -n \"$text\" ]; then case \"$text\" in fast_norm_cpu/*) \
                    cat \"$text\" ../common/x.h > \"$out\"; echo \"$out: $text fast_norm_cpu/../../common/x.h\" > \"$dep\"; \
                    exit 0 ;; esac; fi\n";
    sandbox.write(
        "bin/g++",
        &script.replacen("if [ -n \"$text\" ]", &format!("{includes}if [ -n \"$text\" ]"), 1),
    );
    sandbox
}

fn id(sandbox: &Sandbox) -> String {
    let text = sandbox.read(&format!("work/fast-norm/.kernelwright/artifacts/{VARIANT}.json"));
    let artifact: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    artifact["id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_header_outside_of_the_project_is_told_is_part_of_the_id_and_is_not_packaged() {
    let sandbox = with_common_header();
    let first = build(&sandbox, &[]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(
        first.stderr.contains("files outside of the project: fast_norm_cpu/../../common/x.h"),
        "{}",
        first.stderr
    );
    let one = id(&sandbox);
    // From the cache it is the same, and is told again.
    let again = build(&sandbox, &[]);
    assert!(again.stderr.contains("common/x.h"), "{}", again.stderr);
    assert_eq!(id(&sandbox), one);
    sandbox.write("work/common/x.h", "#define X 22\n");
    assert_eq!(build(&sandbox, &[]).code, 0);
    let other = id(&sandbox);
    assert_ne!(other, one, "other bytes have another name");
    let libraries: Vec<String> =
        tree(&sandbox.path(OBJECTS)).into_iter().filter(|file| file.ends_with(".so")).collect();
    assert_eq!(libraries, [format!("{VARIANT}/{other}.abi3.so")], "the older library is gone");
    sandbox.write("work/common/x.h", "#define X 1\n");
    assert_eq!(build(&sandbox, &[]).code, 0);
    assert_eq!(id(&sandbox), one);
    sandbox
        .run(&["package", "fast-norm", "--toolchain", "system"])
        .refused(17, &["package::outside", "common/x.h", "git submodule"]);
    let artifacts = sandbox.path("work/fast-norm/.kernelwright/artifacts");
    sandbox
        .run(&["layout", "fast-norm", "--from", artifacts.to_str().expect("a path"), "--to", "../hub"])
        .refused(17, &["package::outside", "common/x.h"]);
}

#[test]
fn a_build_of_the_project_alone_says_nothing_of_it() {
    let sandbox = fakes(GOOD);
    let built = build(&sandbox, &[]);
    assert!(!built.stderr.contains("outside of the project"), "{}", built.stderr);
    assert!(
        !sandbox
            .read(&format!("work/fast-norm/.kernelwright/artifacts/{VARIANT}.json"))
            .contains("\"outside\"")
    );
}

#[test]
fn objects_that_no_build_refers_to_go() {
    let sandbox = fakes(GOOD);
    assert_eq!(build(&sandbox, &[]).code, 0);
    let source = "work/fast-norm/fast_norm_cpu/rms_norm.cpp";
    sandbox.write(&format!("{OBJECTS}/torch29-cxx11-cpu-x86_64-linux/old.abi3.so"), "");
    sandbox.write(&format!("{OBJECTS}/{VARIANT}/gone__source.cpp.o"), "");
    sandbox.write(source, &format!("{}// changed\n", sandbox.read(source)));
    assert_eq!(build(&sandbox, &[]).code, 0);
    let objects = tree(&sandbox.path(OBJECTS));
    assert_eq!(objects.iter().filter(|file| file.ends_with(".so")).count(), 1, "{objects:?}");
    assert!(!objects.iter().any(|file| file.contains("gone__source")), "{objects:?}");
    assert!(!sandbox.path(&format!("{OBJECTS}/torch29-cxx11-cpu-x86_64-linux")).exists());
}

/// A compiler whose objects of the binding do not hold the extension's name; `text` is added to what it preprocesses.
fn nameless(text: &str) -> Sandbox {
    let sandbox = fakes(GOOD);
    compiler(&sandbox, GOOD, LIBRARY);
    let script = sandbox.read("bin/g++");
    let script =
        script.replacen("torch-ext/*) make_object \"$@\" ;;", "torch-ext/*) make_object plain ;;", 1);
    let script =
        script.replacen("cat \"$text\" > \"$out\";", &format!("{{ cat \"$text\"; {text}; }} > \"$out\";"), 1);
    sandbox.write("bin/g++", &script);
    sandbox
}

fn compiled_bindings(sandbox: &Sandbox) -> usize {
    compiled(sandbox).iter().filter(|source| source.starts_with("torch-ext/")).count()
}

#[test]
fn a_text_without_the_name_is_compiled_once() {
    let sandbox = nameless("true");
    assert_eq!(build(&sandbox, &[]).code, 0);
    assert_eq!(compiled_bindings(&sandbox), 1);
    // Neither is it when the name changes with another source.
    let source = "work/fast-norm/fast_norm_cpu/rms_norm.cpp";
    sandbox.write(source, &format!("{}// changed\n", sandbox.read(source)));
    assert_eq!(build(&sandbox, &[]).code, 0);
    assert_eq!(compiled_bindings(&sandbox), 1);
}

#[test]
fn a_second_compilation_is_counted_and_named() {
    // The text has the name, and the object does not: a compiler may have computed with it.
    let sandbox = nameless("echo \"$*\"");
    let built = build(&sandbox, &["--message-format", "json"]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    assert_eq!(compiled_bindings(&sandbox), 2);
    let said = format!("{}{}", built.stdout, built.stderr);
    assert!(said.contains("torch-ext/torch_binding.cpp is compiled a second time"), "{said}");
    let events = built.events();
    let progress = events.iter().rfind(|line| line["event"] == "progress").expect("progress");
    assert_eq!((&progress["done"], &progress["total"]), (&3.into(), &3.into()), "{progress}");
}
