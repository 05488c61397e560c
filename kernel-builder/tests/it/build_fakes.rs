//! `build` with compilers that do as they are told: succeed, complain, crash, lie, hang.
//!
//! The tools are shell scripts; the program finds them as it finds real ones, with `--toolchain system`.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};

use super::sandbox::{COMPILER_WORDS, Ended, Sandbox, tree};

/// What the fake compiler does with a kernel source; the binding always compiles. `$source`, `$out` and `$dep` are set.
pub(crate) const GOOD: &str = "make_object";
pub(crate) const COMPLAINS: &str =
    "echo \"$source:3:1: error: 'warp' was not declared in this scope\" >&2; exit 1";
const CRASHES: &str = "echo half > \"$out\"; kill -SEGV $$";
const LIES: &str = "exit 0";

pub(crate) const VARIANT: &str = "torch-stable-abi210-cpu-x86_64-linux";

/// What a link makes: a library with an entry point, by this machine's own compiler.
pub(crate) const LIBRARY: &str = "make_library '' ''";

/// A cpu project, a compiler that does `kernel` with kernel sources, and a Python that says that it has torch.
pub(crate) fn fakes(kernel: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    compiler(&sandbox, kernel, LIBRARY);
    sandbox.write("torch/include/torch/headeronly/version.h", "\n");
    sandbox.fake("python3", &format!("echo '{}'", sandbox.python_with_torch("2.10.0", "torch")));
    sandbox
}

/// `kernel` is what it does with a kernel source, `library` what with objects.
pub(crate) fn compiler(sandbox: &Sandbox, kernel: &str, library: &str) {
    let script = format!(
        r#"case " $* " in
  *" --version "*) echo "g++ (Fake) 1.0"; exit 0 ;;
  *" -print-prog-name="*) echo none; exit 0 ;;
esac
{COMPILER_WORDS}make_object() {{ echo "object: $*" > "$out"; echo "$out: $source" > "$dep"; }}
make_library() {{
  printf '%s\n' "$1" ".globl PyInit_$(basename "$out" .abi3.so)" "PyInit_$(basename "$out" .abi3.so): ret" |
    cc -shared -nostdlib -Wl,--hash-style=gnu -Wl,-z,noexecstack $2 -x assembler - -o "$out"
}}
if [ -z "$source" ]; then {library}; exit 0; fi
echo "$source" >> "{log}"
case "$source" in
  torch-ext/*) make_object "$@" ;;
  *) {kernel} ;;
esac"#,
        log = sandbox.path("compiled.log").display()
    );
    // The functions of the script see its arguments only when they are handed on.
    sandbox.fake("g++", &script.replace("*) make_object ;;", "*) make_object \"$@\" ;;"));
}

pub(crate) fn build(sandbox: &Sandbox, more: &[&str]) -> Ended {
    let arguments: Vec<&str> =
        ["build", "fast-norm", "--toolchain", "system"].iter().chain(more).copied().collect();
    sandbox.run(&arguments)
}

/// The sources that the compiler was started for, in order.
pub(crate) fn compiled(sandbox: &Sandbox) -> Vec<String> {
    let mut sources: Vec<String> = std::fs::read_to_string(sandbox.path("compiled.log"))
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    sources.sort();
    sources
}

/// Objects and libraries that lie in the project.
pub(crate) fn objects(sandbox: &Sandbox) -> Vec<String> {
    let state = sandbox.path("work/fast-norm/.kernelwright");
    let files = if state.is_dir() { tree(&state) } else { Vec::new() };
    files.into_iter().filter(|file| file.ends_with(".o") || file.ends_with(".so")).collect()
}

#[test]
fn makes_a_package_and_does_nothing_the_second_time() {
    let sandbox = fakes(GOOD);
    let built = build(&sandbox, &[]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    assert_eq!(compiled(&sandbox), ["fast_norm_cpu/rms_norm.cpp", "torch-ext/torch_binding.cpp"]);
    let package = tree(&sandbox.path(&format!("work/fast-norm/.kernelwright/artifacts/{VARIANT}")));
    let library = package.iter().find(|file| file.ends_with(".abi3.so")).expect("a library");
    assert!(library.starts_with("_fast_norm_cpu_"), "{library}");
    assert!(
        ["__init__.py", "_ops.py"].iter().all(|file| package.iter().any(|there| there == file)),
        "{package:?}"
    );
    let again = build(&sandbox, &["--message-format", "json"]);
    assert_eq!(compiled(&sandbox).len(), 2, "nothing is compiled again");
    let library = again.event("result")["artifacts"][0]["library"].as_str().map(str::to_owned);
    assert!(library.is_some_and(|path| path.ends_with(".abi3.so")));
}

#[test]
fn a_changed_source_compiles_its_own_unit_alone() {
    let sandbox = fakes(GOOD);
    assert_eq!(build(&sandbox, &[]).code, 0);
    let source = "work/fast-norm/fast_norm_cpu/rms_norm.cpp";
    let text = sandbox.read(source);
    sandbox.write(source, &format!("{text}// changed\n"));
    sandbox.write("compiled.log", "");
    assert_eq!(build(&sandbox, &[]).code, 0);
    assert_eq!(compiled(&sandbox), ["fast_norm_cpu/rms_norm.cpp"]);
    // The text that was there first is still in the cache.
    sandbox.write(source, &text);
    sandbox.write("compiled.log", "");
    assert_eq!(build(&sandbox, &[]).code, 0);
    assert!(compiled(&sandbox).is_empty(), "{:?}", compiled(&sandbox));
}

#[test]
fn a_complaint_is_shown_with_the_line_it_points_at() {
    let sandbox = fakes(COMPLAINS);
    let line = sandbox
        .read("work/fast-norm/fast_norm_cpu/rms_norm.cpp")
        .lines()
        .nth(2)
        .expect("a third line")
        .to_owned();
    let built = build(&sandbox, &[]);
    built.refused(14, &["compile::unit", "'warp' was not declared", "rms_norm.cpp", line.trim_end(), ".log"]);
    let log =
        sandbox.read(&format!("work/fast-norm/.kernelwright/logs/{VARIANT}/fast_norm_cpu__rms_norm.cpp.log"));
    assert!(log.contains("g++") && log.contains("'warp' was not declared"), "{log}");
}

#[test]
fn a_compiler_that_crashes_leaves_no_object_and_the_next_run_continues() {
    let sandbox = fakes(CRASHES);
    build(&sandbox, &[]).refused(14, &["compile::unit", "SIGSEGV"]);
    assert!(!objects(&sandbox).iter().any(|file| file.contains("rms_norm.cpp")), "{:?}", objects(&sandbox));
    assert!(!sandbox.path("work/fast-norm/.kernelwright/artifacts").exists());
    compiler(&sandbox, GOOD, LIBRARY);
    assert_eq!(build(&sandbox, &[]).code, 0);
}

#[test]
fn a_compiler_that_says_yes_and_makes_nothing_is_not_believed() {
    let sandbox = fakes(LIES);
    build(&sandbox, &[]).refused(14, &["fast_norm_cpu__rms_norm.cpp"]);
    assert!(!sandbox.path("work/fast-norm/.kernelwright/artifacts").exists());
}

#[test]
fn what_a_gate_refuses_is_not_left_for_anything_to_package() {
    let sandbox = fakes(GOOD);
    assert_eq!(build(&sandbox, &[]).code, 0);
    let artifacts = sandbox.path("work/fast-norm/.kernelwright/artifacts");
    assert!(artifacts.join(VARIANT).is_dir());
    let unique = "make_library '.data\n.globl once\n.type once, @gnu_unique_object\nonce: .quad 1\n.text' ''";
    let foreign = "cc -shared -nostdlib -x c /dev/null -Wl,-soname,libfancy.so.3 -o \"$out.fancy\"; \
                   make_library '' \"-Wl,--no-as-needed $out.fancy\"; rm \"$out.fancy\"";
    // Code for GPUs in a build for the processor, here a container that ends early.
    let fatbin =
        "make_library '.section .nv_fatbin,\"a\"; .long 0xba55ed50; .short 1, 16; .quad 8, 0; .text' ''";
    for (library, code, words) in [
        (
            "echo library > \"$out\"",
            "verify::portability",
            "the library cannot be judged: it is not an ELF file",
        ),
        ("make_library '' -Wl,-z,execstack", "verify::portability", "-z noexecstack"),
        ("make_library '' -Wl,-rpath,/home/me/lib", "verify::search_paths", "/home/me/lib"),
        (foreign, "verify::needed", "libfancy.so.3"),
        (unique, "verify::symbols", "STB_GNU_UNIQUE"),
        ("make_library '.globl helper; helper: ret' ''", "verify::symbols", "exports `helper`"),
        (fatbin, "verify::archs", "the device code cannot be read"),
        ("cc -shared -nostdlib -x c /dev/null -o \"$out\"", "verify::symbols", "REGISTER_EXTENSION"),
    ] {
        compiler(&sandbox, GOOD, library);
        // The compiler says that it is the same one, so what it made before is forgotten.
        std::fs::remove_dir_all(sandbox.path("cache")).expect("a cache");
        let refused = build(&sandbox, &[]);
        refused.refused(15, &[code, words, ".kernelwright/gates"]);
        assert!(!artifacts.join(VARIANT).exists() && !artifacts.join(format!("{VARIANT}.json")).exists());
        build(&sandbox, &["--prebuilt"]).refused(11, &["plan::not_built"]);
        // The verdict is remembered with what it is about: the second run says the same.
        build(&sandbox, &[]).refused(15, &[code, words]);
    }
    compiler(&sandbox, GOOD, LIBRARY);
    std::fs::remove_dir_all(sandbox.path("cache")).expect("a cache");
    let built = build(&sandbox, &["--message-format", "json"]).event("result");
    let gates = built["variants"][0]["gates"].as_array().expect("a list").clone();
    let names: Vec<_> = gates.iter().map(|gate| gate["name"].as_str().expect("a text")).collect();
    let all = ["manylinux", "portability", "needed", "search paths", "Python ABI", "torch ABI", "symbols"];
    assert_eq!(names, all, "{built}");
    assert!(gates.iter().all(|gate| gate["outcome"] == "passed"), "{built}");
    assert!(artifacts.join(VARIANT).is_dir());
}

#[test]
fn ctrl_c_ends_every_compiler_and_leaves_nothing_half_written() {
    let sandbox = fakes("");
    let pipe = sandbox.path("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).expect("a named pipe");
    // A compiler with a child of its own, both of which hold the pipe open.
    compiler(
        &sandbox,
        &format!("exec 3> '{}'; echo half > \"$out\"; echo started >&3; sleep 600; exit 1", pipe.display()),
        LIBRARY,
    );
    let mut child = sandbox
        .command(&["build", "fast-norm", "--toolchain", "system"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Opening waits for the compiler, reading for its line; reading to the end waits until nobody holds the pipe.
    let mut lines = BufReader::new(std::fs::File::open(&pipe).expect("the pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    assert_eq!(line, "started\n");
    kill_process(Pid::from_child(&child), Signal::INT).expect("the program is there");
    let code = child.wait().expect("it ends").code();
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
    assert_eq!(code, Some(130), "{stderr}");
    assert_eq!(
        stderr.matches("interrupted").count(),
        2,
        "one message, which is its code and its text:\n{stderr}"
    );
    assert!(stderr.contains("of 2 units are done and kept; run the same command to continue"), "{stderr}");
    lines.read_to_string(&mut line).expect("the end of the pipe");
    assert!(!objects(&sandbox).iter().any(|file| file.contains("rms_norm.cpp")), "{:?}", objects(&sandbox));
    assert!(!sandbox.path("work/fast-norm/.kernelwright/artifacts").exists());
    compiler(&sandbox, GOOD, LIBRARY);
    assert_eq!(build(&sandbox, &[]).code, 0);
}

#[test]
fn the_plan_is_printed_and_not_run() {
    let sandbox = fakes(GOOD);
    let planned = build(&sandbox, &["--plan"]);
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    for word in [VARIANT, "g++", "-DTORCH_TARGET_VERSION=0x020a000000000000", "-shared"] {
        assert!(planned.stdout.contains(word), "`{word}` is not in:\n{}", planned.stdout);
    }
    assert!(compiled(&sandbox).is_empty() && objects(&sandbox).is_empty());
    let plan = build(&sandbox, &["--plan", "--message-format", "json"]).event("result")["plan"].clone();
    assert_eq!(plan[0]["units"].as_array().map(Vec::len), Some(2), "{plan}");
}

#[test]
fn a_missing_tool_is_named_with_the_command_that_helps() {
    let sandbox = fakes(GOOD);
    let run = |arguments: &[&str], name: &str, value: &str| {
        let mut command = sandbox.command(arguments);
        super::sandbox::finish(command.env(name, value))
    };
    let system = ["build", "fast-norm", "--toolchain", "system"];
    run(&system, "CXX", "no-such-compiler").refused(13, &["toolchain::compiler_missing", "apt install g++"]);
    run(&system, "KERNELWRIGHT_PYTHON", "no-such-python").refused(13, &["toolchain::python_missing"]);
    // With downloads off and an empty cache, what is missing is said before anything is compiled.
    sandbox.run(&["build", "fast-norm"]).refused(13, &["toolchain::offline", "torch"]);
    assert!(compiled(&sandbox).is_empty());
}
