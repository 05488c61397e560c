//! Projects with files that are not files: named pipes, sockets, devices, links that lead nowhere.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::build_fakes::{GOOD, build, fakes};
use super::sandbox::Sandbox;

/// Every verb that reads a project, with the arguments behind its folder.
const VERBS: [&[&str]; 8] = [
    &["check"],
    &["build", "--toolchain", "system"],
    &["build", "--plan", "--toolchain", "system"],
    &["build", "--to", "../out", "--toolchain", "system"],
    &["verify"],
    &["package"],
    &["make"],
    &["variants"],
];

fn pipe(path: &Path) {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a named pipe");
}

#[track_caller]
fn every_verb_refuses(sandbox: &Sandbox, words: &[&str]) {
    for verb in VERBS {
        let mut arguments = vec![verb[0], "fast-norm"];
        arguments.extend(&verb[1..]);
        let refused = sandbox.run(&arguments);
        assert_eq!(refused.code, 10, "{verb:?}: {}{}", refused.stdout, refused.stderr);
        for word in words {
            let said = format!("{}{}", refused.stdout, refused.stderr);
            assert!(said.contains(word), "{verb:?}: `{word}` is not in:\n{said}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused_by_every_verb_at_once() {
    let sandbox = fakes(GOOD);
    let folder = sandbox.path("work/fast-norm/fast_norm_cpu");
    // A header that nothing lists: `build` reads all of them.
    let header = folder.join("odd.h");
    pipe(&header);
    every_verb_refuses(&sandbox, &["spec::unreadable_source", "fast_norm_cpu/odd.h", "named pipe"]);
    std::fs::remove_file(&header).expect("a pipe");
    symlink("odd.h", &header).expect("a link");
    every_verb_refuses(&sandbox, &["spec::unreadable_source", "leads back to itself"]);
    std::fs::remove_file(&header).expect("a link");
    symlink("gone.h", &header).expect("a link");
    every_verb_refuses(&sandbox, &["spec::unreadable_source", "does not exist"]);
    std::fs::remove_file(&header).expect("a link");
    // A source that is listed, and a file that is shipped.
    let source = folder.join("rms_norm.cpp");
    let text = std::fs::read(&source).expect("a source");
    std::fs::remove_file(&source).expect("a source");
    symlink("/dev/zero", &source).expect("a link");
    every_verb_refuses(&sandbox, &["spec::unreadable_source", "a device"]);
    std::fs::remove_file(&source).expect("a link");
    std::fs::write(&source, text).expect("a source");
    let module = sandbox.path("work/fast-norm/torch-ext/fast_norm/odd.py");
    let _listening = UnixListener::bind(&module).expect("a socket");
    every_verb_refuses(&sandbox, &["spec::unreadable_source", "a socket"]);
    std::fs::remove_file(&module).expect("a socket");
    assert_eq!(build(&sandbox, &[]).code, 0);
}

#[test]
fn a_pipe_that_no_source_is_disturbs_nobody() {
    let sandbox = fakes(GOOD);
    pipe(&sandbox.path("work/fast-norm/pipe"));
    symlink("nowhere", sandbox.path("work/fast-norm/fast_norm_cpu/dangling")).expect("a link");
    let built = build(&sandbox, &["--to", "../out"]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    assert_eq!(build(&sandbox, &[]).code, 0);
}

#[test]
fn names_with_spaces_and_letters_of_any_script_build() {
    let sandbox = fakes(GOOD);
    let (from, to) = (sandbox.path("work/fast-norm"), sandbox.path("work/мой kernel ü"));
    std::fs::rename(from, &to).expect("a project");
    std::fs::rename(to.join("fast_norm_cpu/rms_norm.cpp"), to.join("fast_norm_cpu/rms norm é.cpp"))
        .expect("a source");
    let path = "work/мой kernel ü/build.toml";
    sandbox.write(path, &sandbox.read(path).replace("rms_norm.cpp", "rms norm é.cpp"));
    let built = sandbox.run(&["build", "мой kernel ü", "--toolchain", "system"]);
    assert_eq!(built.code, 0, "{}", built.stderr);
}

#[test]
fn a_source_that_vanishes_during_the_build_is_named() {
    // The compiler of the first source removes the second one.
    let sandbox = fakes("make_object \"$@\"; rm -f fast_norm_cpu/rms_norm.cpp");
    let script = sandbox.read("bin/g++");
    let vanishes =
        "if [ -n \"$text\" ]; then rm -f fast_norm_cpu/rms_norm.cpp torch-ext/torch_binding.cpp; exit 1; fi";
    let script = script.replacen("if [ -n \"$text\" ]", &format!("{vanishes}\nif [ -n \"$text\" ]"), 1);
    sandbox.write("bin/g++", &script);
    let built = build(&sandbox, &["--jobs", "1"]);
    assert_eq!(built.code, 14, "{}", built.stderr);
    assert!(
        built.stderr.contains("torch_binding.cpp") || built.stderr.contains("rms_norm.cpp"),
        "{}",
        built.stderr
    );
}
