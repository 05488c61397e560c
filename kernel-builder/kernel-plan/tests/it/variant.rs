//! Ids follow from axes and back, and a project gets the rows that it asks for.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::{BuildSpec, parse_build};
use kernel_plan::units::Version;
use kernel_plan::variant::{Abi, Cpu, Matrix, Os, Toolkit, Torch, Variant, explain, select};
use proptest::prelude::*;

use crate::project::{VARIANTS, render};

fn matrix() -> Matrix {
    Matrix::parse(VARIANTS).unwrap_or_else(|problems| panic!("{}", render(&problems)))
}

#[test]
fn the_rows_of_the_repository_follow_from_their_axes() {
    let matrix = matrix();
    assert!(!matrix.rows.is_empty());
    for row in &matrix.rows {
        let id = row.variant.id();
        assert_eq!(format!("\"{id}\""), matrix.file.text[row.variant.span.clone()]);
        assert_eq!(id.as_str().parse::<Variant>().expect("an id"), row.variant.value);
        assert_eq!(matrix.row(&row.variant).expect("its row").providers, row.providers);
    }
}

#[test]
fn foreign_ids_are_refused() {
    for text in [
        "",
        "torch-cuda",
        "torch-universal",
        "torch211-cu130-x86_64-linux",
        "torch211-cxx11-cu130-x86_64-linux-x",
        "torch211-cxx11-cu130-x86_64-windows",
        "torch-stable-abi211-cxx11-cpu-x86_64-linux",
        "torch-stable-abi-cpu-x86_64-linux",
        "torch211-cxx11-rocm71-x86_64-linux",
        "tvm-ffi01-cu130-x86_64-linux",
    ] {
        assert!(text.parse::<Variant>().is_err(), "`{text}` was accepted");
    }
}

/// A project for `backends`, with `torch` in [torch] and a kernel for each of `kernels`.
fn project(backends: &str, torch: &str, kernels: &[&str]) -> BuildSpec {
    let mut text = format!(
        "[general]\nname = \"norm\"\nversion = 1\nedition = 5\nlicense = \"MIT\"\nbackends = [{backends}]\n{torch}\n"
    );
    for kernel in kernels {
        text += &format!("[kernel.{kernel}]\nbackend = \"{kernel}\"\ndepends = []\nsrc = [\"a.cpp\"]\n");
    }
    let (build, problems) = parse_build(SourceFile::new("build.toml", text));
    assert!(problems.is_empty(), "{}", render(&problems));
    build.expect("a spec")
}

#[track_caller]
fn check(build: &BuildSpec, want: &[&str]) {
    let chosen = select(build, &matrix(), Cpu::X86_64).map_err(|problem| render(&[problem]));
    let ids: Vec<_> =
        chosen.unwrap_or_else(|text| panic!("{text}")).iter().map(|row| row.id().to_string()).collect();
    assert_eq!(ids, want);
}

#[test]
fn the_abi_decides_which_rows() {
    let both = ["cpu", "cuda"];
    check(
        &project("\"cpu\", \"cuda\"", "[torch]\nstable-abi = \"2.11\"", &both),
        &["torch-stable-abi211-cpu-x86_64-linux", "torch-stable-abi211-cu130-x86_64-linux"],
    );
    check(
        &project("\"cpu\", \"cuda\"", "[torch]", &both),
        &["torch211-cxx11-cpu-x86_64-linux", "torch211-cxx11-cu130-x86_64-linux"],
    );
    check(
        &project("\"cpu\", \"cuda\"", "[torch]\nstable-abi = { cuda = \"2.9\" }", &both),
        &["torch-stable-abi211-cu130-x86_64-linux", "torch211-cxx11-cpu-x86_64-linux"],
    );
}

#[test]
fn a_backend_needs_a_declaration_and_a_kernel() {
    check(&project("\"cpu\"", "[torch]", &["cpu", "cuda"]), &["torch211-cxx11-cpu-x86_64-linux"]);
    check(&project("\"cpu\", \"cuda\"", "[torch]", &["cuda"]), &["torch211-cxx11-cu130-x86_64-linux"]);
}

#[test]
fn every_row_is_explained() {
    let table = [
        ("[torch]\nminver = \"2.12\"", Cpu::X86_64),
        ("[torch]\nmaxver = \"2.10\"\nstable-abi = \"2.9\"", Cpu::X86_64),
        ("[torch]\nstable-abi = \"2.13\"", Cpu::X86_64),
        ("[torch-noarch]", Cpu::X86_64),
        ("[torch]", Cpu::Aarch64),
        ("[general.cuda]\nmaxver = \"12.8\"\n[torch]", Cpu::X86_64),
    ];
    let mut text = String::new();
    for (torch, cpu) in table {
        let build = project("\"cuda\"", torch, &["cuda"]);
        assert!(select(&build, &matrix(), cpu).is_err(), "{torch}");
        text += &format!("{}, {cpu}\n", torch.replace('\n', " "));
        for row in explain(&build, &matrix(), cpu) {
            text += &format!("  {}: {}\n", row.variant.id(), row.refusal.expect("a reason"));
        }
    }
    insta::assert_snapshot!("explain", text);
}

#[test]
fn of_several_stable_rows_the_oldest_that_is_allowed_serves_all() {
    let row = |torch: &str| {
        let digits = torch.replace('.', "");
        format!(
            "[[variant]]\nid = \"torch-stable-abi{digits}-cpu-x86_64-linux\"\ntorch = \"{torch}\"\nabi = \"stable\"\n\
             backend = \"cpu\"\ncpu = \"x86_64\"\nos = \"linux\"\nproviders = [\"wheels\"]\n"
        )
    };
    let matrix = Matrix::parse(&["2.9", "2.13", "2.11"].map(row).concat()).expect("three rows");
    let build = project("\"cpu\"", "[torch]\nstable-abi = \"2.10\"", &["cpu"]);
    let chosen = select(&build, &matrix, Cpu::X86_64).expect("a row");
    assert_eq!(
        chosen.iter().map(|row| row.id().to_string()).collect::<Vec<_>>(),
        ["torch-stable-abi211-cpu-x86_64-linux"]
    );
}

fn variants() -> impl Strategy<Value = Variant> {
    let version = (1u32..10, 0u32..100).prop_map(|(major, minor)| Version::new(major, minor));
    let cuda = (10u32..100, 0u32..10).prop_map(|(major, minor)| Toolkit::Cuda(Version::new(major, minor)));
    let toolkit = prop_oneof![Just(Toolkit::Cpu), cuda];
    (version, prop::sample::select(Abi::ALL), toolkit, prop::sample::select(Cpu::ALL)).prop_map(
        |(version, abi, backend, cpu)| Variant {
            framework: Torch { version, abi },
            backend,
            cpu,
            os: Os::Linux,
        },
    )
}

proptest! {
    #[test]
    fn an_id_is_its_axes(variant in variants()) {
        prop_assert_eq!(variant.id().as_str().parse::<Variant>().expect("an id"), variant);
    }

    #[test]
    fn different_axes_have_different_ids(left in variants(), right in variants()) {
        prop_assert_eq!(left == right, left.id() == right.id());
    }
}
