//! Plans of what is no PyTorch extension: tvm-ffi, Python alone, kernels with header libraries.

use std::collections::BTreeSet;

use kernel_plan::backend::{Naming, plan, plan_python};
use kernel_plan::kit::{FrameworkKit, LibraryKit, Toolchain, TvmFfiKit};
use kernel_plan::plan::VariantPlan;
use kernel_plan::spec::BuildSpec;
use kernel_plan::units::RelPath;
use kernel_plan::variant::Variant;

use crate::{argv, project};

fn toolchain() -> Toolchain {
    Toolchain {
        framework: FrameworkKit::TvmFfi(TvmFfiKit {
            version: "0.1.15".to_owned(),
            include: vec!["/tvm_ffi/include".into()],
            stubs: "/stubs".into(),
            id: "c2".to_owned(),
        }),
        libraries: vec![LibraryKit {
            name: "cutlass_4_5".to_owned(),
            version: "4.5.0".to_owned(),
            include: vec!["/cutlass/include".into(), "/cutlass/tools/util/include".into()],
            id: "c3".to_owned(),
        }],
        ..argv::toolchain(None)
    }
}

fn spec(text: &str) -> BuildSpec {
    project::read(text).build.expect("a spec")
}

/// Every command of the tvm-ffi project for one variant, one argument a line.
fn commands(variant: &str) -> String {
    let build = spec(include_str!("../spec/ok/tvm_ffi.toml"));
    let users: BTreeSet<RelPath> = ["tvm-ffi-ext/binding.cpp".parse().expect("a path")].into();
    let naming = Naming { extension: "_ffi_norm_cpu_0123456789", users: &users };
    let variant: Variant = variant.parse().expect("an id");
    let planned = plan(&build, &variant, &toolchain(), &naming, Vec::new()).expect("a plan");
    assert_eq!(planned.package, "tvm-ffi-ext/ffi_norm");
    assert_eq!(planned.library, "_ffi_norm_cpu_0123456789.so");
    let commands = planned.units.iter().map(|unit| &unit.command).chain(&planned.link);
    commands.map(|line| format!("{}\n{}\n", line.program.display(), line.args.join("\n"))).collect()
}

#[test]
fn a_tvm_ffi_library_for_the_cpu() {
    insta::assert_snapshot!(commands("tvm-ffi01-cpu-x86_64-linux"));
}

#[test]
fn a_tvm_ffi_library_for_cuda_with_cutlass() {
    let text = commands("tvm-ffi01-cu130-x86_64-linux");
    insta::assert_snapshot!(text);
    let units: Vec<&str> = text.split("/usr/bin/g++\n").collect();
    let binding = units.iter().find(|unit| unit.contains("binding.cpp\n")).expect("a binding");
    assert!(!binding.contains("-isystem\n/cutlass"), "only the kernel that depends on it sees it");
}

fn python(text: &str, variant: &str) -> Option<VariantPlan> {
    let file: RelPath = "torch-ext/triton_norm/__init__.py".parse().expect("a path");
    plan_python(&spec(text), &variant.parse().expect("an id"), "_triton_norm_0123456789", vec![file])
}

#[test]
fn python_alone_runs_nothing_and_says_its_architectures() {
    let text = include_str!("../spec/ok/noarch.toml");
    let archs = |variant: &str| python(text, variant).map(|plan| plan.capabilities);
    assert_eq!(archs("torch-cuda"), Some(vec!["9.0".to_owned()]));
    assert_eq!(archs("torch-rocm"), Some(vec!["gfx942".to_owned()]));
    assert_eq!(archs("torch-xpu"), Some(Vec::new()));
    assert_eq!(archs("torch211-cxx11-cpu-x86_64-linux"), None);
    let planned = python(text, "torch-cuda").expect("a plan");
    assert_eq!((planned.units.len(), planned.link), (0, None));
    assert_eq!(planned.package, "torch-ext/triton_norm");
}
