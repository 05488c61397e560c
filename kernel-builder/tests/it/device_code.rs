//! Device code alone, compiled by NVRTC and by nvcc: the same kernels, from the same words of op.toml.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use super::sandbox::{Ended, Sandbox, finish};

/// A cache whose wheels are used.
pub(crate) const CACHE: &str = "KERNELWRIGHT_TORCH_CACHE";

/// A kernel of a template in a namespace, and one without a mangled name.
pub(crate) const SOURCE: &str = r#"#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "scale.cuh"

namespace mine {
template <typename T, int width, bool twice>
__global__ void scale(T* out, const T* input, int count) {
  const int i = blockIdx.x * width + threadIdx.x;
  if (i < count) out[i] = static_cast<T>(static_cast<float>(input[i]) * FACTOR * (twice ? 2 : 1));
}
}  // namespace mine

extern "C" __global__ void count_up(int* counter) { atomicAdd(counter, STEP); }
"#;

const OP: &str = r#"format = 1
name = "scale"

[axes]
rows = { type = "var", min = 1 }

[dtypes]
T = ["bf16", "f16", "f32"]

[inputs]
input = { shape = ["rows"], dtype = "T" }

[outputs]
out = { shape = ["rows"], dtype = "T" }

[reference]
file = "reference.py"
function = "scale"

[call]
function = "scale"

[tolerance]
accumulate = "f32"
length = 1
roundings = 1

[launch]
source = "scale.cu"

[launch.define]
STEP = 3

[launch.workspace.counter]
dtype = "i32"
shape = [1]
zero = true

[[launch.kernel]]
entry = "mine::scale"
template = ["T", 128, "rows > 100"]
grid = ["ceil_div(rows, 128)"]
block = [128]
args = ["out", "input", { i32 = "rows" }]

[[launch.kernel]]
entry = "count_up"
grid = [1]
block = [1]
args = ["counter"]

[workload.few]
axes = { rows = 7 }

[workload.many]
axes = { rows = 700 }
"#;

pub(crate) fn project(sandbox: &Sandbox) {
    sandbox.write("work/scale/op.toml", OP);
    sandbox.write("work/scale/scale.cu", SOURCE);
    sandbox.write("work/scale/scale.cuh", "#define FACTOR 3\n");
    sandbox.write("work/scale/reference.py", "def scale(input):\n    return input * 3\n");
}

fn check<'a>(evidence: &'a Value, name: &str) -> &'a Value {
    let checks = evidence["checks"].as_array().expect("a list");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name} in {evidence}"))
}

fn evidence(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&sandbox.read("work/scale/.kernelwright/verdicts/device.json")).expect("JSON")
}

/// A sandbox with the wheels of another cache.
pub(crate) fn with_cache(cache: &OsStr) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("cache")).expect("a new folder");
    for folder in ["wheels", "index", "cuda"] {
        let there = Path::new(cache).join(folder);
        std::os::unix::fs::symlink(there, sandbox.path("cache").join(folder)).expect("a link");
    }
    sandbox
}

#[test]
fn both_compilers_make_the_same_kernels() {
    let Some(cache) = std::env::var_os(CACHE) else {
        eprintln!("skipped: {CACHE} names no cache with the wheels of CUDA");
        return;
    };
    let kernels = |compiler: &str| {
        let sandbox = with_cache(&cache);
        project(&sandbox);
        let ended = sandbox.run(&["verify", "--device", "--compiler", compiler, "scale"]);
        if ended.code == 13 {
            return Err(ended.stderr);
        }
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let evidence = evidence(&sandbox);
        assert_eq!(check(&evidence, "compile")["facts"]["compiler"], compiler);
        let kernels = check(&evidence, "resources")["facts"]["kernels"].as_array().expect("a list").clone();
        let name = |kernel: &Value| format!("{} {}", kernel["arch"], kernel["kernel"]);
        Ok(kernels.iter().map(name).collect::<BTreeSet<String>>())
    };
    match (kernels("nvrtc"), kernels("nvcc")) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one, other);
            // Three dtypes, two truths and the plain one, for each of the usual architectures.
            assert_eq!(one.len(), 4 * 7, "{one:?}");
            assert!(one.contains("\"sm_90a\" \"_ZN4mine5scaleI6__halfLi128ELb1EEEvPT_PKS2_i\""), "{one:?}");
        }
        (one, other) => {
            let why = [one.err(), other.err()].into_iter().flatten().collect::<String>();
            eprintln!("skipped: the cache lacks a compiler: {why}");
        }
    }
}

/// Numbers below a bound, the same ones in every run (xorshift, Marsaglia 2003).
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        for shift in [13_i32, -7, 17] {
            self.0 ^= if shift > 0 { self.0 << shift } else { self.0 >> -shift };
        }
        (self.0 % bound as u64) as usize
    }
}

/// A value for every value hole of a template, drawn.
fn drawn(template: &Value, draws: &mut Draws) -> Vec<(String, String)> {
    let holes = template["hole"].as_array().expect("a list").iter().filter(|hole| hole["kind"] == "value");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    holes
        .map(|hole| {
            let values = hole["values"].as_array().expect("a list");
            (text(&hole["name"]), text(&values[draws.below(values.len())]))
        })
        .collect()
}

#[test]
fn every_template_compiles_with_drawn_values() {
    let Some(cache) = std::env::var_os(CACHE) else {
        eprintln!("skipped: {CACHE} names no cache with the wheels of CUDA");
        return;
    };
    let sandbox = with_cache(&cache);
    let listed = sandbox.run(&["templates", "--message-format", "json"]).event("result");
    let mut draws = Draws(0x9e37_79b9_7f4a_7c15);
    let mut compiled = 0;
    for (place, listed) in listed["templates"].as_array().expect("a list").iter().enumerate() {
        let name = listed["name"].as_str().expect("a text");
        let shown = sandbox.run(&["templates", name, "--message-format", "json"]).event("result");
        if drawn(&shown["template"], &mut draws).is_empty() {
            continue;
        }
        let new = |set: &[(String, String)]| {
            let set = set.iter().flat_map(|(name, value)| ["--set".to_owned(), format!("{name}={value}")]);
            let named = format!("me/{name}");
            let words = ["new", &named, "--template", name, "--no-git"].map(str::to_owned);
            let arguments: Vec<String> = words.into_iter().chain(set).collect();
            let made = sandbox.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(made.code, 0, "{arguments:?}: {}", made.stderr);
        };
        // One that every CUDA compiles for, and another by turns.
        let some = ["[\"8.0\"]", "[\"9.0a\"]", "[\"8.0\", \"10.0\"]", "[\"8.0\", \"12.0\"]"][place % 4];
        // Values that no device can be started with together are drawn anew; code that does not compile is a defect.
        let set = (0..5).find_map(|_| {
            let set = drawn(&shown["template"], &mut draws);
            new(&set);
            let file = format!("work/{name}/build.toml");
            let text = sandbox.read(&file);
            let all = "[\"8.0\", \"9.0a\", \"10.0\", \"12.0+PTX\"]";
            assert!(text.contains(all), "{text}");
            sandbox.write(&file, &text.replace(all, some));
            let ended = sandbox.run(&["verify", "--device", name]);
            if ended.code == 13 {
                eprintln!("skipped: the cache lacks a compiler: {}", ended.stderr);
                return Some(None);
            }
            let started = !ended.stderr.contains("verify::launch");
            assert!(ended.code == 0 || !started, "{name} for {some} with {set:?}: {}", ended.stderr);
            std::fs::remove_dir_all(sandbox.work().join(name)).expect("a folder");
            started.then_some(Some(set))
        });
        let Some(set) = set.unwrap_or_else(|| panic!("{name}: none of 5 settings can be started")) else {
            return;
        };
        eprintln!("{name} for {some} with {set:?}");
        compiled += 1;
    }
    assert!(compiled >= 10, "{compiled} templates compiled with drawn values");
}

/// An nvcc that writes down how it was called, and gives each wanted kernel the name that its place has.
pub(crate) const NVCC: &str = r#"
case "$1" in --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0 ;; esac
echo "$*" >> "$HOME/calls"
last= out= text=
for word; do
  case "$last" in -o) out=$word ;; -ptx|-cubin) text=$word ;; esac
  last=$word
done
if grep -q BROKEN "$text"; then echo 'scale.cu(3): error: identifier "BROKEN" is undefined' >&2; exit 2; fi
case "$*" in
  *-ptx*)
    sed -n 's/^__device__ auto \(.*\) = .*/.visible .entry name_\1()/p' "$text" > "$out"
    sed -n 's/^__device__ auto \(.*\) = .*/.global .align 8 .u64 \1 = name_\1;/p' "$text" >> "$out" ;;
  *)
    grep -q ' = name_' "$text" && exit 3
    # The header of an ELF file without sections, for sm_90.
    printf '\177\105\114\106\002\001\001\101\010\000\000\000\000\000\000\000\002\000\276\000\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\132\000\000\100\000\000\000\000\000\100\000\000\000\000\000' > "$out"
    cat "$text" >> "$out" ;;
esac
"#;

#[test]
fn nvcc_is_asked_for_ptx_then_for_machine_code_and_once() {
    let sandbox = Sandbox::new();
    project(&sandbox);
    sandbox.script("toolkit/bin/nvcc", NVCC);
    sandbox.write("toolkit/include/cuda_runtime.h", "");
    sandbox.write("toolkit/lib64/libcudart.so.13", "");
    sandbox.fake("g++", "echo 'g++ (Fake) 1.0'");
    let verify = || -> Ended {
        finish(
            sandbox
                .command(&["verify", "--device", "--compiler", "nvcc", "scale"])
                .env("CUDA_HOME", sandbox.path("toolkit"))
                .env("CUDA_VISIBLE_DEVICES", ""),
        )
    };
    let ended = verify();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let calls = sandbox.read("home/calls");
    assert_eq!(calls.lines().count(), 8, "two for each architecture: {calls}");
    let first = calls.lines().next().unwrap_or_default();
    for word in ["-arch=sm_80", "-std=c++17", "-lineinfo", "-DSTEP=3", "-I/", "-ccbin", "-isystem"] {
        assert!(first.contains(word), "{word}: {first}");
    }
    assert_eq!(
        check(&evidence(&sandbox), "compile")["summary"],
        "7 kernels for sm_80, sm_90a, sm_100, sm_120"
    );
    verify();
    assert_eq!(sandbox.read("home/calls"), calls, "the second time the cache has everything");
    sandbox.write("work/scale/scale.cu", &SOURCE.replace("count_up", "BROKEN"));
    verify().refused(15, &["compile::device_code", "scale.cu(3): error: identifier \"BROKEN\" is undefined"]);
}

#[test]
fn a_file_beside_op_toml_is_judged_by_its_own_name() {
    let sandbox = Sandbox::new();
    project(&sandbox);
    sandbox.write("work/scale/backward.toml", &OP.replace("name = \"scale\"", "name = \"scale_backward\""));
    sandbox.script("toolkit/bin/nvcc", NVCC);
    sandbox.write("toolkit/include/cuda_runtime.h", "");
    sandbox.write("toolkit/lib64/libcudart.so.13", "");
    sandbox.fake("g++", "echo 'g++ (Fake) 1.0'");
    let verify = |named: &str| -> Ended {
        let mut command = sandbox.command(&["verify", "--device", "--compiler", "nvcc", named]);
        finish(command.env("CUDA_HOME", sandbox.path("toolkit")).env("CUDA_VISIBLE_DEVICES", ""))
    };
    let ended = verify("scale/backward.toml");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("device-scale_backward"), "{}", ended.stdout);
    let kept = |name: &str| sandbox.path(&format!("work/scale/.kernelwright/verdicts/{name}.json")).exists();
    assert!(kept("device-scale_backward") && !kept("device"));
    // The folder's own file by its name is what the folder is.
    assert_eq!(verify("scale/op.toml").code, 0);
    assert!(kept("device"));
    // One that is not there, or is wrong, is told by its own name, and the one of the folder is not taken for it.
    verify("scale/backwards.toml").refused(10, &["spec::unreadable", "backwards.toml"]);
    sandbox.write("work/scale/backward.toml", &OP.replace("accumulate", "acumulate"));
    verify("scale/backward.toml").refused(10, &["spec::unknown_key", "scale/backward.toml"]);
    sandbox.run(&["lint", "scale/backward.toml"]).refused(10, &["spec::unknown_key", "scale/backward.toml"]);
}
