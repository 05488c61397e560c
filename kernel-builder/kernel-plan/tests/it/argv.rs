//! The exact commands of a fixed toolchain: units and links.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kernel_plan::backend::{Naming, plan};
use kernel_plan::kit::{Compiler, CudaKit, FrameworkKit, PortableKit, Toolchain, TorchKit};
use kernel_plan::variant::Variant;

use crate::project;

/// A toolchain whose every path says what it is.
pub(crate) fn toolchain(portable: Option<PortableKit>) -> Toolchain {
    let cxx = Compiler { program: "/usr/bin/g++".into(), version: "g++ 12".to_owned(), id: "c0".to_owned() };
    let cuda = CudaKit {
        version: "13.0".to_owned(),
        nvcc: "/cuda/bin/nvcc".into(),
        root: "/cuda".into(),
        include: vec!["/cuda/include".into()],
        cudart: "/cuda/lib/libcudart.so.13".into(),
        front: None,
        installed: false,
        id: "c1".to_owned(),
    };
    let framework = FrameworkKit::Torch(TorchKit {
        version: "2.11.0".to_owned(),
        include: vec!["/torch/include".into()],
        stubs: "/torch/stubs".into(),
        id: "c2".to_owned(),
    });
    let libraries = Vec::new();
    Toolchain {
        cxx,
        cuda: Some(cuda),
        device: None,
        framework,
        libraries,
        extension_include: "/registration".into(),
        portable,
    }
}

fn portable() -> PortableKit {
    let made = |name: &str| PathBuf::from("/portable").join(name);
    let system = |name: &str| PathBuf::from("/usr/lib").join(name);
    PortableKit {
        stubs: made("stubs"),
        loader: "ld-linux-x86-64.so.2".to_owned(),
        shim: made("libshim.a"),
        exports: made("exports.map"),
        newer: made("newer.txt"),
        crti: system("crti.o"),
        crtn: system("crtn.o"),
        crtbegin: system("crtbeginS.o"),
        crtend: system("crtendS.o"),
        libstdcxx: system("libstdc++.a"),
        libgcc: system("libgcc.a"),
        libc_nonshared: system("libc_nonshared.a"),
        id: "c3".to_owned(),
    }
}

/// The link of the rms-norm project for one variant, one argument a line.
fn link(variant: &str, portable: Option<PortableKit>) -> String {
    let build = project::read(include_str!("../spec/ok/rms_norm.toml")).build.expect("a spec");
    let variant: Variant = variant.parse().expect("an id");
    let naming = Naming { extension: "_rms_norm_0123", users: &BTreeSet::new() };
    let planned = plan(&build, &variant, &toolchain(portable), &naming, Vec::new());
    let link = planned.and_then(|plan| plan.link).expect("a backend that compiles it");
    assert!(link.env.is_empty() && link.cwd.is_none());
    format!("{}\n{}", link.program.display(), link.args.join("\n"))
}

#[test]
fn a_portable_cpu_library() {
    insta::assert_snapshot!(link("torch-stable-abi211-cpu-x86_64-linux", Some(portable())));
}

#[test]
fn a_portable_cuda_library() {
    insta::assert_snapshot!(link("torch-stable-abi211-cu130-x86_64-linux", Some(portable())));
}

#[test]
fn a_library_for_systems_like_this_one() {
    insta::assert_snapshot!(link("torch-stable-abi211-cpu-x86_64-linux", None));
}

#[test]
fn a_host_unit_names_no_place_of_a_tool() {
    let build = project::read(include_str!("../spec/ok/rms_norm.toml")).build.expect("a spec");
    let variant: Variant = "torch-stable-abi211-cpu-x86_64-linux".parse().expect("an id");
    let naming = Naming { extension: "_rms_norm_0123", users: &BTreeSet::new() };
    let planned = plan(&build, &variant, &toolchain(None), &naming, Vec::new()).expect("a plan");
    let command = &planned.units[0].command;
    assert_eq!(command.env.iter().collect::<Vec<_>>(), [(&"SOURCE_DATE_EPOCH".to_owned(), &"0".to_owned())]);
    insta::assert_snapshot!(format!("{}\n{}", command.program.display(), command.args.join("\n")));
}

#[test]
fn a_source_that_the_binding_and_a_section_list_is_compiled_once_as_the_sections() {
    let text = include_str!("../spec/ok/rms_norm.toml");
    let listed = text.replacen("src = [", "src = [\"rms_norm_cpu/rms_norm.cpp\", ", 1);
    assert_ne!(listed, text);
    let units = |text: &str| {
        let build = project::read(text).build.expect("a spec");
        let variant: Variant = "torch-stable-abi211-cpu-x86_64-linux".parse().expect("an id");
        let naming = Naming { extension: "_rms_norm_0123", users: &BTreeSet::new() };
        plan(&build, &variant, &toolchain(None), &naming, Vec::new()).expect("a plan").units
    };
    assert_eq!(units(&listed), units(text));
}
