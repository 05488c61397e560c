//! How long `kernelwright check` takes on a project of 50 files: `cargo bench --package kernel-builder --bench check`.
//!
//! Owns: the project, generated into a temporary folder; reading and judging it in this process, and as the whole
//! program. Never: asserts a time; bench/check.py makes the record.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark stands outside and uses the same doors as a person"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kernel_builder::pipeline::project;

/// Kernel sections, each with a source and a header.
const KERNELS: usize = 16;
/// Python files that are shipped.
const MODULES: usize = 10;
/// Lines of code in each source, about those of a real one.
const LINES: usize = 250;
/// Timed runs of each of the two.
const RUNS: usize = 500;
/// Untimed runs before them take this long.
const WARM_UP: Duration = Duration::from_secs(1);

/// Writes a file and the folders above it.
fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().expect("a folder above")).expect("a new folder");
    std::fs::write(path, text).expect("a new file");
}

/// A project of 50 files without a problem.
fn project(root: &Path) {
    let mut build = "[general]\nname = \"fast-norm\"\nversion = 1\nedition = 5\nlicense = \"MIT\"\n\
                     backends = [\"cuda\"]\n\n[torch]\nstable-abi = \"2.11\"\n\
                     src = [\"torch-ext/torch_binding.cpp\", \"torch-ext/torch_binding.h\"]\n"
        .to_owned();
    let line =
        "    output[row * hidden + column] = input[row * hidden + column] * scale; // 'scaled' by \"s\"\n";
    let body = |name: &str| format!("/* {name} */\nvoid {name}() {{\n{}}}\n", line.repeat(LINES));
    let mut includes = "#include <torch/csrc/stable/library.h>\n".to_owned();
    for index in 0..KERNELS {
        let (source, header) = (format!("norm_cuda/part{index}.cu"), format!("norm_cuda/part{index}.h"));
        build += &format!(
            "\n[kernel.part{index}]\nbackend = \"cuda\"\ndepends = []\nsrc = [\"{source}\", \"{header}\"]\n\
             cuda-capabilities = [\"8.0\", \"9.0a\", \"10.0\", \"12.0+PTX\"]\n"
        );
        let own =
            format!("#include \"part{index}.h\"\n#include \"../common/rows.h\"\n#include <cuda_bf16.h>\n");
        write(root, &source, &(own + &body(&format!("part{index}"))));
        write(root, &header, &format!("#pragma once\n#include <cstdint>\nvoid part{index}();\n"));
        includes += &format!("#include \"../{header}\"\n");
    }
    write(root, "build.toml", &build);
    write(root, "common/rows.h", &format!("#pragma once\n{}", body("rows")));
    write(root, "torch-ext/torch_binding.h", "#pragma once\n#include <torch/csrc/stable/tensor.h>\n");
    let register = "STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {}\n";
    let binding = format!("#include \"torch_binding.h\"\n{includes}{}{register}", body("binding"));
    write(root, "torch-ext/torch_binding.cpp", &binding);
    let statement = "    value = torch.where(mask, value, 0)  # 'masked' by \"m\"\n".repeat(LINES);
    for index in 0..MODULES {
        let name = if index == 0 { "__init__".to_owned() } else { format!("module{index}") };
        let text = format!("import torch\n\nfrom ._ops import ops\n\n\ndef f(value, mask):\n{statement}");
        write(root, &format!("torch-ext/fast_norm/{name}.py"), &text);
    }
    let others = ["CARD.md", "README.md", "example.py", "flake.nix"];
    for path in others {
        write(root, path, "x\n");
    }
}

/// Times `work` and prints one JSON object: the median and its 95% interval in milliseconds.
fn time(name: &str, mut work: impl FnMut()) {
    let mut timed = || {
        let started = Instant::now();
        work();
        started.elapsed()
    };
    let warm = Instant::now();
    while warm.elapsed() < WARM_UP {
        timed();
    }
    let mut times: Vec<Duration> = (0..RUNS).map(|_| timed()).collect();
    times.sort_unstable();
    let at = |rank: f64| times[rank.clamp(0.0, (RUNS - 1) as f64) as usize].as_secs_f64() * 1e3;
    // The ranks between which the median of the population lies in 95% of samples, whatever the distribution.
    let (middle, reach) = (RUNS as f64 / 2.0, 0.98 * (RUNS as f64).sqrt());
    let (median, low, high) = (at(middle), at((middle - reach).floor()), at((middle + reach).ceil()));
    println!(
        "{}",
        serde_json::json!({"name": name, "runs": RUNS, "median": median, "low": low, "high": high})
    );
}

fn main() {
    let root = tempfile::tempdir().expect("a temporary folder");
    project(root.path());
    let read = project::read(root.path()).expect("a readable project");
    let files = read.project.expect("a project").files.len();
    assert!(files == 50 && read.problems.is_empty(), "{files} files: {:?}", read.problems);
    time("read and judge", || {
        std::hint::black_box(project::read(root.path())).ok();
    });
    time("the whole process", || {
        let mut program = Command::new(env!("CARGO_BIN_EXE_kernelwright"));
        let ended = program.arg("check").arg(root.path()).stdout(Stdio::null()).status();
        assert!(ended.expect("the program starts").success());
    });
}
