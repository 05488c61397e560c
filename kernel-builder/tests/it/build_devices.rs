//! `build` for rocm and xpu with fakes of their compilers, and the reasons where there are none.
//!
//! A fake compiler writes its arguments down and makes an object of text; the program finds it as it finds a real one.

use std::path::PathBuf;
use std::process::Command;

use super::sandbox::{COMPILER_WORDS, Sandbox, finish, tree};

const ROCM: &str = "torch-stable-abi211-rocm71-x86_64-linux";
const XPU: &str = "torch-stable-abi211-xpu20253-x86_64-linux";

/// A compiler that writes down how it was called, and makes what it is asked for.
const COMPILER: &str = r#"
echo "${0##*/} $*" >> "@LOG@"
case " $* " in
  *" --version "*) echo "@VERSION@"; exit 0 ;;
  *" -print-prog-name=cc1plus "*) echo cc1plus; exit 0 ;;
  *" --print-libgcc-file-name "*) echo "@BUILTINS@"; exit 0 ;;
esac
@WORDS@if [ -n "$source" ]; then
  echo "made by ${0##*/}: $*" > "$out"
  cat "$source" >> "$out" || exit 1
  echo "$out: $source" > "$dep"
  exit 0
fi
# A library with an entry point, by this machine's own compiler.
case "$out" in
  *.abi3.so)
    entry=PyInit_$(basename "$out" .abi3.so)
    printf '%s\n' ".globl $entry" "$entry: ret" |
      cc -shared -nostdlib -Wl,--hash-style=gnu -Wl,-z,noexecstack -x assembler - -o "$out" ;;
  *) echo empty > "$out" ;;
esac
"#;

/// What stands for `torch.utils.hipify`: it replaces one word, and says for which package it was asked.
const PYTHON: &str = r#"
case "$*" in
  *hipify.py*) ;;
  *) echo '@ANSWER@'; exit 0 ;;
esac
echo "python3 $*" >> "@LOG@"
to= last= sources=
for word; do
  case "$last" in
    --to) to=$word ;;
    --include|--package) ;;
    *) case "$word" in *.cu) sources="$sources $word" ;; esac ;;
  esac
  last=$word
done
for source in $sources; do
  mkdir -p "$to/${source%/*}"
  sed 's/cudaStream_t/hipStream_t/g' "$source" > "$to/$source.hip"
done
"#;

/// A project with a kernel for rocm and one for xpu, a host compiler and a Python that says that it has torch.
fn devices() -> Sandbox {
    let sandbox = Sandbox::new();
    let project = "work/norm";
    let file = |path: &str, text: &str| sandbox.write(&format!("{project}/{path}"), text);
    file("build.toml", BUILD);
    file(
        "torch-ext/torch_binding.cpp",
        "#include \"registration.h\"\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n",
    );
    file("torch-ext/norm/__init__.py", "from ._ops import ops\n");
    file("norm_cuda/norm.cu", "void norm(cudaStream_t stream);\n");
    file("norm_xpu/norm.cpp", "void norm(int queue);\n");
    sandbox.write("torch/include/torch/headeronly/version.h", "\n");
    sandbox.write("torch/utils/hipify/__init__.py", "\n");
    let answer = sandbox.python_with_torch("2.11.0", "torch");
    let log = sandbox.path("called.log").display().to_string();
    sandbox.write("torch/version.py", "__version__ = '2.11.0+cu130'\n");
    sandbox.fake("python3", &PYTHON.replace("@ANSWER@", &answer).replace("@LOG@", &log));
    compiler(&sandbox, "bin/g++", "g++ (Fake) 1.0");
    sandbox
}

const BUILD: &str = r#"
[general]
name = "norm"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["rocm", "xpu", "metal"]

[torch]
src = ["torch-ext/torch_binding.cpp"]
stable-abi = "2.11"

[kernel.norm-rocm]
backend = "rocm"
depends = []
src = ["norm_cuda/norm.cu"]
include = ["norm_cuda"]
rocm-archs = ["gfx90a"]
hip-flags = ["-munsafe-fp-atomics"]

[kernel.norm-xpu]
backend = "xpu"
depends = []
src = ["norm_xpu/norm.cpp"]
sycl-flags = ["-fsycl-max-parallel-link-jobs=1"]

[kernel.norm-metal]
backend = "metal"
depends = []
src = ["norm_xpu/norm.cpp"]
"#;

fn compiler(sandbox: &Sandbox, place: &str, version: &str) {
    let script = COMPILER
        .replace("@WORDS@", COMPILER_WORDS)
        .replace("@LOG@", &sandbox.path("called.log").display().to_string())
        .replace("@VERSION@", version)
        .replace("@BUILTINS@", &sandbox.path("builtins.a").display().to_string());
    sandbox.script(place, &script);
}

fn rocm(sandbox: &Sandbox, version: &str) -> PathBuf {
    compiler(sandbox, "rocm/bin/hipcc", "HIP version: 0.0");
    sandbox.write("rocm/.info/version", version);
    sandbox.write("rocm/include/hip/hip_runtime.h", "\n");
    sandbox.path("rocm")
}

fn command(sandbox: &Sandbox, more: &[&str]) -> Command {
    let arguments: Vec<&str> =
        ["build", "norm", "--toolchain", "system"].iter().chain(more).copied().collect();
    sandbox.command(&arguments)
}

/// The calls of one program that have `word` among their arguments.
fn calls(sandbox: &Sandbox, program: &str, word: &str) -> Vec<String> {
    let log = std::fs::read_to_string(sandbox.path("called.log")).unwrap_or_default();
    let of = |line: &&str| line.split(' ').next() == Some(program) && line.contains(word);
    log.lines().filter(of).map(str::to_owned).collect()
}

#[test]
fn a_rocm_kernel_is_translated_compiled_and_linked() {
    let sandbox = devices();
    let home = rocm(&sandbox, "7.1.0-20\n");
    sandbox.write("builtins.a", "!<arch>\n");
    let built = finish(command(&sandbox, &["--variant", ROCM]).env("ROCM_PATH", &home));
    assert_eq!(built.code, 0, "{}", built.stderr);
    let [translated] = &calls(&sandbox, "python3", "hipify.py")[..] else { panic!("one translation") };
    assert!(translated.contains(&format!("--package {}", sandbox.path("torch/utils/hipify").display())));
    let [device] = &calls(&sandbox, "hipcc", " -c ")[..] else { panic!("one unit of hipcc") };
    for word in ["--offload-arch=gfx90a", "-munsafe-fp-atomics", "-D__HIP_PLATFORM_AMD__=1", "norm.cu.hip"] {
        assert!(device.contains(word), "{word}: {device}");
    }
    // The source stays as it is; what hipcc saw was the translation.
    assert!(sandbox.read("work/norm/norm_cuda/norm.cu").contains("cudaStream_t"));
    let object = sandbox.read(&format!("work/norm/.kernelwright/objects/{ROCM}/norm_cuda__norm.cu.o"));
    assert!(object.contains("hipStream_t") && !object.contains("cudaStream_t"), "{object}");
    let linked = calls(&sandbox, "g++", "abi3.so");
    assert!(
        linked.iter().any(|line| line.contains("-ltorch_hip") && line.contains("builtins.a")),
        "{linked:?}"
    );
    let package = tree(&sandbox.path(&format!("work/norm/.kernelwright/artifacts/{ROCM}")));
    assert!(
        package.iter().any(|file| file.starts_with("_norm_rocm_") && file.ends_with(".abi3.so")),
        "{package:?}"
    );
}

#[test]
fn a_changed_cuda_source_is_translated_and_compiled_again() {
    let sandbox = devices();
    let home = rocm(&sandbox, "7.1.0\n");
    let build = || {
        sandbox.write("called.log", "");
        let built = finish(command(&sandbox, &["--variant", ROCM]).env("ROCM_PATH", &home));
        assert_eq!(built.code, 0, "{}", built.stderr);
        calls(&sandbox, "hipcc", " -c ").len()
    };
    assert_eq!(build(), 1);
    assert_eq!(build(), 0, "nothing changed");
    sandbox.write("work/norm/norm_cuda/norm.cu", "void norm(cudaStream_t other);\n");
    assert_eq!(build(), 1);
}

#[test]
fn a_translation_that_fails_is_told_and_nothing_is_compiled() {
    let sandbox = devices();
    let home = rocm(&sandbox, "7.1.0\n");
    let python = sandbox.read("bin/python3");
    sandbox.fake("python3", &python.replace("echo \"python3 $*\"", "echo 'no such word' >&2; exit 1; echo"));
    let built = finish(command(&sandbox, &["--variant", ROCM]).env("ROCM_PATH", &home));
    built.refused(14, &["no such word", "prepare.log"]);
    assert!(calls(&sandbox, "hipcc", " -c ").is_empty());
}

#[test]
fn an_xpu_kernel_is_compiled_and_linked_by_icpx() {
    let sandbox = devices();
    compiler(&sandbox, "bin/icpx", "Intel(R) oneAPI DPC++/C++ Compiler 2025.3.0 (2025.3.0.20251010)");
    sandbox.fake("ocloc", "exit 0");
    let built = finish(&mut command(&sandbox, &["--variant", XPU]));
    assert_eq!(built.code, 0, "{}", built.stderr);
    let units = calls(&sandbox, "icpx", " -c ");
    assert_eq!(units.len(), 2, "the binding too: {units:?}");
    assert_eq!(units.iter().filter(|line| line.contains("-fsycl-targets=spir64_gen,spir64")).count(), 1);
    let [linked] = &calls(&sandbox, "icpx", "abi3.so")[..] else { panic!("one link") };
    assert!(linked.contains("-Xsycl-target-backend=spir64_gen -device pvc,xe-lpg,ats-m150"), "{linked}");
    assert!(linked.contains("-lc10_xpu"), "{linked}");
}

#[test]
fn what_is_missing_is_named() {
    let sandbox = devices();
    // Nothing but the fakes is on PATH: a machine may well have the real ones.
    let lonely = |variant: &str, name: &str, value: PathBuf| {
        let mut command = command(&sandbox, &["--variant", variant]);
        finish(command.env("PATH", sandbox.path("bin")).env(name, value))
    };
    let nowhere = || sandbox.path("nowhere");
    let missing = lonely(ROCM, "ROCM_PATH", nowhere());
    missing.refused(
        11,
        &["variant::not_buildable", "hipcc not found in ROCM_PATH", "icpx not found in ONEAPI_ROOT"],
    );
    let home = rocm(&sandbox, "6.4.1\n");
    let older = lonely(ROCM, "ROCM_PATH", home);
    older.refused(11, &["the installed ROCm is 6.4, not 7.1"]);
    let metal = "torch-stable-abi211-metal-aarch64-darwin";
    lonely(metal, "ONEAPI_ROOT", nowhere())
        .refused(11, &[metal, "it needs a machine with aarch64 and darwin"]);
    // Where something can be built, the one that was asked for is named alone.
    compiler(&sandbox, "bin/icpx", "Intel(R) oneAPI DPC++/C++ Compiler 2025.3.0");
    lonely(metal, "ONEAPI_ROOT", nowhere()).refused(11, &["plan::not_buildable", "aarch64 and darwin", XPU]);
}

#[test]
fn the_full_abi_needs_a_torch_that_was_built_for_the_device() {
    let sandbox = devices();
    let home = rocm(&sandbox, "7.1.0\n");
    let text = sandbox.read("work/norm/build.toml").replace("stable-abi = \"2.11\"\n", "");
    sandbox.write("work/norm/build.toml", &text);
    let full = "torch211-cxx11-rocm71-x86_64-linux";
    let with_home = |more: &[&str]| finish(command(&sandbox, more).env("ROCM_PATH", &home));
    with_home(&["--variant", full]).refused(11, &["built for rocm", "2.11.0+cu130, without them"]);
    sandbox.write("torch/include/c10/hip/impl/hip_cmake_macros.h", "\n");
    sandbox.write("torch/version.py", "__version__ = '2.11.0+rocm7.1'\n");
    let built = with_home(&["--variant", full]);
    assert_eq!(built.code, 0, "{}", built.stderr);
}

#[test]
fn an_incomplete_rocm_is_told() {
    let sandbox = devices();
    let home = rocm(&sandbox, "7.1.0\n");
    std::fs::remove_file(home.join("include/hip/hip_runtime.h")).expect("a file");
    let built = finish(command(&sandbox, &["--variant", ROCM]).env("ROCM_PATH", &home));
    built.refused(13, &["toolchain::device_broken", "hip_runtime.h"]);
}
