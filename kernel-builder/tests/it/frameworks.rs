//! Builds of what is no PyTorch extension: Python alone, and kernels with header libraries.

use std::process::Command;

use super::build_fakes::{GOOD, fakes};
use super::sandbox::{Ended, Sandbox, finish, tree};

/// A project of Python alone, for CUDA and the processor, with a file of data and one that is not shipped.
fn python_alone() -> Sandbox {
    let sandbox = Sandbox::new();
    let toml = r#"[general]
name = "plus-one"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda", "rocm"]

[torch-noarch]
pyext = ["py", "json"]
cuda_capabilities = ["8.0", "9.0"]
rocm_archs = ["gfx942"]
"#;
    sandbox.write("work/plus-one/build.toml", toml);
    let package = "work/plus-one/torch-ext/plus_one";
    let module =
        "from ._ops import add_op_namespace_prefix, ops\n\nname = add_op_namespace_prefix(\"plus_one\")\n";
    sandbox.write(&format!("{package}/__init__.py"), module);
    sandbox.write(&format!("{package}/tuned/a100.json"), "{}\n");
    sandbox.write(&format!("{package}/notes.txt"), "not shipped\n");
    // No tool is needed, so none must be looked for.
    for tool in ["g++", "c++", "clang++", "python3", "python"] {
        sandbox.fake(tool, "echo 'nothing is compiled' >&2; exit 1");
    }
    sandbox
}

fn build(sandbox: &Sandbox) -> Ended {
    sandbox.run(&["build", "plus-one", "--message-format", "json"])
}

#[test]
fn python_alone_is_put_together_without_any_tool() {
    let sandbox = python_alone();
    let built = build(&sandbox);
    assert_eq!(built.code, 0, "{}", built.stderr);
    let artifacts = built.event("result")["artifacts"].clone();
    let of = |at: usize, key: &str| artifacts[at][key].clone();
    assert_eq!((of(0, "variant"), of(0, "capabilities")), ("torch-cpu".into(), serde_json::json!([])));
    assert_eq!(
        (of(1, "variant"), of(1, "capabilities")),
        ("torch-cuda".into(), serde_json::json!(["8.0", "9.0"]))
    );
    assert_eq!(
        (of(2, "variant"), of(2, "capabilities")),
        ("torch-rocm".into(), serde_json::json!(["gfx942"]))
    );
    assert_eq!(of(1, "library"), serde_json::Value::Null);
    let told = sandbox.run(&["build", "plus-one"]).stdout;
    assert!(told.contains("torch-cpu       Python  no gates: no library\n"), "{told}");
    let folder = sandbox.path("work/plus-one/.kernelwright/artifacts/torch-cuda");
    assert_eq!(tree(&folder), ["__init__.py", "_ops.py", "tuned/a100.json"]);
    let id = of(1, "id");
    let id = id.as_str().expect("a name");
    assert!(id.starts_with("_plus_one_cuda_"), "{id}");
    sandbox.write("work/plus-one/torch-ext/plus_one/__init__.py", "name = None\n");
    let again = build(&sandbox).event("result")["artifacts"][1]["id"].clone();
    assert_ne!(again, id, "another kernel has another name");
}

/// Imports variants side by side, with a torch that has operators and nothing else.
const IMPORT: &str = r#"
import importlib.util, sys
from pathlib import Path
from types import ModuleType

class Operators:
    def __getattr__(self, name):
        return "operators of " + name

sys.modules["torch"] = ModuleType("torch")
sys.modules["torch"].ops = Operators()
for folder in map(Path, sys.argv[1:]):
    name = folder.name.replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(module.ops, module.name)
"#;

#[test]
fn variants_of_one_kernel_do_not_share_a_namespace() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no Python");
        return;
    }
    let sandbox = python_alone();
    let artifacts = build(&sandbox).event("result")["artifacts"].clone();
    let folder = |variant: &str| sandbox.path("work/plus-one/.kernelwright/artifacts").join(variant);
    let imported = finish(
        Command::new("python3").args(["-I", "-c", IMPORT]).args([folder("torch-cpu"), folder("torch-cuda")]),
    );
    let line = |at: usize| {
        let id = artifacts[at]["id"].as_str().expect("a name");
        format!("operators of {id} {id}::plus_one\n")
    };
    assert_eq!(imported.stdout, line(0) + &line(1), "{}", imported.stderr);
}

/// A project whose kernel for the processor depends on `dependency`.
fn depending(dependency: &str) -> Sandbox {
    let sandbox = fakes(GOOD);
    let toml = sandbox.read("work/fast-norm/build.toml");
    let changed = toml.replace("depends = []", &format!("depends = [\"{dependency}\"]"));
    assert_ne!(toml, changed);
    sandbox.write("work/fast-norm/build.toml", &changed);
    sandbox
}

fn planned(sandbox: &Sandbox, more: &[&str]) -> Ended {
    let mut arguments = vec!["build", "fast-norm", "--toolchain", "system", "--plan"];
    arguments.extend(more);
    sandbox.run(&arguments)
}

fn cutlass(sandbox: &Sandbox, folder: &str, version: [u32; 3]) {
    let text = format!(
        "#define CUTLASS_MAJOR {}\n#define CUTLASS_MINOR {}\n#define CUTLASS_PATCH {}\n",
        version[0], version[1], version[2]
    );
    sandbox.write(&format!("work/{folder}/include/cutlass/version.h"), &text);
}

#[test]
fn a_cutlass_that_no_wheel_holds_is_told_with_the_way_out() {
    let sandbox = depending("cutlass_3_9");
    planned(&sandbox, &[])
        .refused(13, &["toolchain::unknown_part", "3.5, 3.6, 3.8, 4.4, 4.5", "--cutlass-dir"]);
    cutlass(&sandbox, "mine", [3, 9, 2]);
    let found = planned(&sandbox, &["--cutlass-dir", "mine"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    let include = sandbox.path("work/mine/include");
    let kernel = found.stdout.lines().find(|line| line.contains("rms_norm.cpp")).expect("a kernel");
    let binding = found.stdout.lines().find(|line| line.contains("torch_binding.cpp")).expect("a binding");
    let seen = format!("-isystem {}", include.display());
    assert!(kernel.contains(&seen) && !binding.contains(&seen), "{}", found.stdout);
    let mut command = sandbox.command(&["build", "fast-norm", "--toolchain", "system", "--plan"]);
    assert_eq!(finish(command.env("KERNELWRIGHT_CUTLASS_DIR", "mine")).code, 0);
}

#[test]
fn a_folder_with_another_cutlass_is_refused() {
    let sandbox = depending("cutlass_4_0");
    cutlass(&sandbox, "mine", [3, 9, 2]);
    let refused = planned(&sandbox, &["--cutlass-dir", "mine"]);
    refused.refused(13, &["toolchain::wrong_library", "is not CUTLASS 4.0", "version.h says 3.9.2"]);
    let named = planned(&sandbox, &["--dependency-dir", "cutlass_4_0=mine"]);
    named.refused(13, &["toolchain::wrong_library", "is not CUTLASS 4.0"]);
    planned(&sandbox, &["--cutlass-dir", "gone"]).refused(13, &["toolchain::wrong_library", "gone"]);
    planned(&sandbox, &["--dependency-dir", "cutlas=mine"]).refused(2, &["valid values: torch"]);
}

#[test]
fn a_library_that_nobody_packages_is_asked_for() {
    let sandbox = depending("metal-cpp");
    planned(&sandbox, &[]).refused(13, &["toolchain::library_missing", "--dependency-dir metal-cpp=DIR"]);
}
