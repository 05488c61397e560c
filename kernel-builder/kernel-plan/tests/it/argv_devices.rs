//! The exact commands for rocm, xpu and metal, and for cpu on macOS, of a project that uses every key they have.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use kernel_plan::backend::{Naming, plan};
use kernel_plan::kit::{
    Compiler, DeviceKit, FrameworkKit, HipifyKit, MetalKit, PortableKit, RocmKit, Toolchain, TorchKit, XpuKit,
};
use kernel_plan::plan::{CommandLine, VariantPlan};
use kernel_plan::variant::Variant;

use crate::project;

const PROJECT: &str = include_str!("../spec/ok/devices.toml");

fn toolchain(cxx: &str, device: Option<DeviceKit>, portable: Option<PortableKit>) -> Toolchain {
    let cxx =
        Compiler { program: format!("/usr/bin/{cxx}").into(), version: cxx.to_owned(), id: "c0".to_owned() };
    let framework = FrameworkKit::Torch(TorchKit {
        version: "2.11.0".to_owned(),
        include: vec!["/torch/include".into()],
        stubs: "/torch/stubs".into(),
        id: "c2".to_owned(),
    });
    let extension_include = "/registration".into();
    Toolchain { cxx, cuda: None, device, framework, libraries: Vec::new(), extension_include, portable }
}

fn rocm() -> DeviceKit {
    DeviceKit::Rocm(RocmKit {
        version: "7.1".to_owned(),
        hipcc: "/rocm/bin/hipcc".into(),
        root: "/rocm".into(),
        include: vec!["/rocm/include".into()],
        builtins: Some("/rocm/libclang_rt.builtins.a".into()),
        hipify: HipifyKit {
            torch: "2.11.0".to_owned(),
            python: "/usr/bin/python3".into(),
            script: "/registration/hipify.py".into(),
            package: "/torch/utils/hipify".into(),
        },
        id: "c4".to_owned(),
    })
}

fn xpu(ahead_of_time: bool) -> DeviceKit {
    DeviceKit::Xpu(XpuKit {
        version: "2025.3".to_owned(),
        icpx: "/oneapi/bin/icpx".into(),
        root: "/oneapi".into(),
        include: vec!["/oneapi/dnnl/include".into()],
        onednn: Some("/oneapi/dnnl/lib/libdnnl.so".into()),
        ahead_of_time,
        id: "c5".to_owned(),
    })
}

fn metal() -> DeviceKit {
    DeviceKit::Metal(MetalKit {
        version: "26.1".to_owned(),
        xcrun: "/usr/bin/xcrun".into(),
        include: vec!["/metallib".into()],
        embedder: "/metallib/kernelwright_metallib.S".into(),
        id: "c6".to_owned(),
    })
}

fn planned(variant: &str, toolchain: &Toolchain) -> VariantPlan {
    let build = project::read(PROJECT).build.expect("a spec");
    let variant: Variant = variant.parse().expect("an id");
    let users = BTreeSet::from(["torch-ext/torch_binding.cpp".parse().expect("a path")]);
    let naming = Naming { extension: "_devices_0123456789", users: &users };
    plan(&build, &variant, toolchain, &naming, Vec::new()).expect("a backend that compiles it")
}

/// Every command in the order in which they run, one argument a line.
fn commands(variant: &str, toolchain: &Toolchain) -> String {
    let plan = planned(variant, toolchain);
    let mut text = String::new();
    let mut put = |what: &str, command: &CommandLine| {
        assert!(command.cwd.is_none());
        let env: String = command.env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let (program, args) = (command.program.display(), command.args.join("\n  "));
        writeln!(text, "# {what}\n{env}{program}\n  {args}").expect("text");
    };
    for command in &plan.prepare {
        put("before the units", command);
    }
    for unit in &plan.units {
        put(&unit.name, &unit.command);
    }
    for step in &plan.before_link {
        put(&step.name, &step.command);
    }
    put("link", plan.link.as_ref().expect("a link"));
    text.replace(&format!(".kernelwright/objects/{variant}"), "$O")
}

#[test]
fn rocm_translates_and_compiles_for_the_architectures_that_are_named() {
    insta::assert_snapshot!(commands(
        "torch-stable-abi211-rocm71-x86_64-linux",
        &toolchain("g++", Some(rocm()), None)
    ));
}

#[test]
fn rocm_has_default_architectures_and_says_what_the_library_is_for() {
    let text = PROJECT.replace("rocm-archs = [\"gfx942\", \"gfx90a:xnack+\"]\n", "");
    assert_ne!(text, PROJECT);
    let build = project::read(&text).build.expect("a spec");
    let variant: Variant = "torch-stable-abi211-rocm72-x86_64-linux".parse().expect("an id");
    let naming = Naming { extension: "_devices_0123456789", users: &BTreeSet::new() };
    let toolchain = toolchain("g++", Some(rocm()), None);
    let planned = plan(&build, &variant, &toolchain, &naming, Vec::new()).expect("a plan");
    let expected = [
        "gfx1030", "gfx1100", "gfx1101", "gfx1200", "gfx1201", "gfx906", "gfx908", "gfx90a", "gfx942",
        "gfx950",
    ];
    assert_eq!(planned.capabilities, expected);
    let device = planned.units.iter().find(|unit| unit.name.ends_with(".hip")).expect("a source for hipcc");
    for arch in expected {
        assert!(device.command.args.contains(&format!("--offload-arch={arch}")), "{arch}");
    }
}

#[test]
fn what_is_translated_is_the_same_for_every_variant_of_a_torch() {
    let toolchain = toolchain("g++", Some(rocm()), None);
    let of = |variant: &str| planned(variant, &toolchain).prepare;
    let stable = of("torch-stable-abi211-rocm71-x86_64-linux");
    assert_eq!(stable.len(), 1);
    assert_eq!(stable, of("torch-stable-abi211-rocm72-x86_64-linux"));
}

#[test]
fn xpu_compiles_ahead_of_time_where_that_is_possible() {
    insta::assert_snapshot!(commands(
        "torch-stable-abi211-xpu20253-x86_64-linux",
        &toolchain("g++", Some(xpu(true)), None)
    ));
    let later =
        planned("torch-stable-abi211-xpu20253-x86_64-linux", &toolchain("g++", Some(xpu(false)), None));
    let every = later.units.iter().map(|unit| &unit.command).chain(&later.link);
    assert!(every.flat_map(|command| &command.args).all(|arg| !arg.contains("spir64_gen")));
}

#[test]
fn metal_embeds_its_shaders() {
    insta::assert_snapshot!(commands(
        "torch-stable-abi211-metal-aarch64-darwin",
        &toolchain("clang++", Some(metal()), None)
    ));
}

#[test]
fn a_cpu_library_for_macos_is_a_bundle() {
    insta::assert_snapshot!(commands(
        "torch-stable-abi211-cpu-aarch64-darwin",
        &toolchain("clang++", None, None)
    ));
}

#[test]
fn rocm_links_portably_and_without_a_runtime_of_its_own() {
    let made = |name: &str| PathBuf::from("/portable").join(name);
    let portable = PortableKit {
        stubs: made("stubs"),
        loader: "ld-linux-x86-64.so.2".to_owned(),
        shim: made("libshim.a"),
        exports: made("exports.map"),
        newer: made("newer.txt"),
        crti: made("crti.o"),
        crtn: made("crtn.o"),
        crtbegin: made("crtbeginS.o"),
        crtend: made("crtendS.o"),
        libstdcxx: made("libstdc++.a"),
        libgcc: made("libgcc.a"),
        libc_nonshared: made("libc_nonshared.a"),
        id: "c3".to_owned(),
    };
    let plan =
        planned("torch-stable-abi211-rocm71-x86_64-linux", &toolchain("g++", Some(rocm()), Some(portable)));
    let args = plan.link.expect("a link").args;
    assert!(args.contains(&"-Wl,--version-script=/portable/exports.map".to_owned()), "{args:?}");
    assert!(args.contains(&"-ltorch_hip".to_owned()) && !args.iter().any(|arg| arg.contains("amdhip64")));
    let at = |wanted: &str| args.iter().position(|arg| arg == wanted).expect("an argument");
    assert!(at("/rocm/libclang_rt.builtins.a") < at("/portable/libgcc.a"), "{args:?}");
}
