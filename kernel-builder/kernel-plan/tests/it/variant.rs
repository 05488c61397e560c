//! Ids follow from axes and back, and a project gets the rows that it asks for.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::{BuildSpec, parse_build};
use kernel_plan::units::{BackendId, VariantId, Version};
use kernel_plan::variant::preference::{Environment, rank};
use kernel_plan::variant::{
    Abi, Compiled, Cpu, Decision, Extent, Framework, Matrix, Noarch, Offer, Os, Provider, Provision, Refusal,
    Tag, Toolkit, Torch, Variant, explain, select,
};
use proptest::prelude::*;

use crate::project::{VARIANTS, provision, render};

pub(crate) fn matrix() -> Matrix {
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

/// The CUDA versions that torch is published for; see the sources in variants.toml.
#[test]
fn the_repository_has_every_torch_with_its_cuda() {
    let published: [(u32, &[(u32, u32)]); 6] = [
        (10, &[(12, 6), (12, 8), (13, 0)]),
        (11, &[(12, 6), (12, 8), (13, 0)]),
        (12, &[(12, 6), (13, 0), (13, 2)]),
        (13, &[(12, 6), (13, 0), (13, 2)]),
        (14, &[(12, 6), (13, 0), (13, 2)]),
        (15, &[(13, 0), (13, 2)]),
    ];
    let matrix = matrix();
    let mut wanted = Vec::new();
    for (minor, cudas) in published {
        for abi in [Abi::Stable, Abi::Full(Tag::Cxx11)] {
            for cpu in Cpu::ALL.iter().copied() {
                let framework = Framework::Torch(Torch { version: Version::new(2, minor), abi });
                let toolkits = cudas.iter().map(|(major, minor)| Toolkit::Cuda(Version::new(*major, *minor)));
                wanted.extend(
                    toolkits.chain([Toolkit::Cpu]).map(|toolkit| {
                        Variant::Compiled(Compiled { framework, toolkit, cpu, os: Os::Linux })
                    }),
                );
            }
        }
    }
    let there: Vec<_> = matrix.rows.iter().map(|row| row.variant.value).collect();
    let missing: Vec<_> = wanted.iter().filter(|variant| !there.contains(variant)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let extra = there.iter().filter(|variant| {
        variant.torch().is_some()
            && variant.compiled().is_some_and(|compiled| compiled.os == Os::Linux)
            && matches!(variant.backend(), Some(BackendId::Cpu | BackendId::Cuda))
            && !wanted.contains(variant)
    });
    assert_eq!(extra.count(), 0);
    assert_eq!(matrix.torch_versions().len(), 6);
    assert_eq!(matrix.cuda_versions().len(), 4);
}

#[test]
fn every_kind_of_row_is_there() {
    let matrix = matrix();
    for backend in BackendId::ALL {
        let noarch = Variant::Noarch(Noarch::For(*backend));
        assert!(matrix.row(&noarch).is_some(), "no Python-only row for {backend}");
    }
    for id in [
        "tvm-ffi01-cu130-x86_64-linux",
        "torch212-metal-aarch64-darwin",
        "torch213-cxx11-xpu20260-x86_64-linux",
    ] {
        assert!(matrix.row(&id.parse().expect("an id")).is_some(), "no row {id}");
    }
}

#[test]
fn foreign_ids_are_refused() {
    for text in [
        "",
        "torch",
        "torch-",
        "torch-cann",
        "torch-gpu",
        "torch-cuda-x86_64-linux",
        "torch211-cxx11-cu130-x86_64-linux-x",
        "torch211-cxx11-cu130-x86_64-beos",
        "torch211-cxx11-cu130-riscv64-linux",
        "torch211-cxx14-cu130-x86_64-linux",
        "torch2-cxx11-cpu-x86_64-linux",
        "torch-stable-abi211-cxx11-cpu-x86_64-linux",
        "torch-stable-abi-cpu-x86_64-linux",
        "torch211-cxx11-rocm-x86_64-linux",
        "torch211-cxx11-cu1-x86_64-linux",
        "torch211-cxx11-cu0130-x86_64-linux",
        "torch2011-cxx11-cpu-x86_64-linux",
        "tvm-ffi0-cu130-x86_64-linux",
        "tvm-ffi01-cu130",
    ] {
        assert!(text.parse::<Variant>().is_err(), "`{text}` was accepted");
    }
}

#[test]
fn ids_of_old_and_other_folders_are_read() {
    for text in [
        "torch-universal",
        "torch-npu",
        "torch29-cxx98-cu126-x86_64-linux",
        "torch213-cu130-x86_64-linux",
        "torch213-cu130-x86_64-windows",
        "torch213-cxx11-neuron-x86_64-linux",
        "torch213-cxx11-cann85-aarch64-linux",
    ] {
        assert_eq!(text.parse::<Variant>().expect("an id").to_string(), text);
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
    let chosen = select(build, &matrix(), &provision(), Extent::Needed).map_err(|problem| render(&[problem]));
    let chosen = chosen.unwrap_or_else(|text| panic!("{text}"));
    let ids: Vec<_> = chosen.variants.iter().map(ToString::to_string).collect();
    assert_eq!(ids, want);
}

/// What is right for a project, built here or not, among the rows for Linux on x86_64 and those without a machine.
fn right(build: &BuildSpec) -> Vec<String> {
    let matrix = matrix();
    let explained = explain(build, &matrix, &provision(), Extent::Needed);
    let right = explained.iter().filter(|row| !matches!(row.decision, Decision::Out(_)));
    let here = right.filter(|row| {
        let machine = row.row.variant.compiled().map(|compiled| (compiled.cpu, compiled.os));
        machine.is_none_or(|machine| machine == (Cpu::X86_64, Os::Linux))
    });
    here.map(|row| row.row.variant.to_string()).collect()
}

#[test]
fn what_is_built_here_is_what_this_version_has_toolchains_for() {
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
    check(
        &project("\"cpu\", \"cuda\"", "[torch]", &["cuda"]),
        &["torch211-cxx11-cu130-x86_64-linux", "torch-cpu"],
    );
}

#[test]
fn a_backend_without_a_kernel_is_python_alone() {
    let build = project("\"cpu\", \"cuda\", \"cann\"", "[torch]\nstable-abi = \"2.11\"", &["cpu"]);
    assert_eq!(right(&build), ["torch-stable-abi211-cpu-x86_64-linux", "torch-cuda", "torch-npu"]);
    let build = project("\"rocm\", \"cuda\"", "[torch-noarch]", &[]);
    assert_eq!(right(&build), ["torch-cuda", "torch-rocm"]);
}

/// A PC with Linux and a toolchain for every torch and every CUDA that has a row.
fn everything() -> Provision {
    let (torch, cuda) = (matrix().torch_versions(), matrix().cuda_versions());
    let (torch, cuda) = (torch.into_iter().collect(), cuda.into_iter().collect());
    Provision {
        offers: vec![Offer { provider: Provider::System, tvm_ffi: vec![], torch, cuda }],
        ..provision()
    }
}

/// Blackwell is none of CUDA 12.6, as in the example rms-norm.
const BLACKWELL: &str = "backend = \"cuda\"\ncuda-capabilities = [\"8.0\", \"9.0a\", \"12.0+PTX\"]";

fn reread(build: &BuildSpec, old: &str, new: &str) -> BuildSpec {
    let (build, problems) = parse_build(SourceFile::new("build.toml", build.file.text.replace(old, new)));
    assert!(problems.is_empty(), "{}", render(&problems));
    build.expect("a spec")
}

/// What is built where every toolchain is.
fn built(build: &BuildSpec, extent: Extent) -> Vec<String> {
    let chosen = select(build, &matrix(), &everything(), extent).map_err(|problem| render(&[problem]));
    let chosen = chosen.unwrap_or_else(|text| panic!("{text}"));
    chosen.variants.iter().map(ToString::to_string).collect()
}

#[test]
fn the_stable_abi_and_one_build_a_toolkit_are_what_users_need() {
    let stable = project("\"cpu\", \"cuda\"", "[torch]\nstable-abi = \"2.10\"", &["cpu", "cuda"]);
    let needed = [
        "torch-stable-abi210-cpu-x86_64-linux",
        "torch-stable-abi210-cu126-x86_64-linux",
        "torch-stable-abi210-cu128-x86_64-linux",
        "torch-stable-abi210-cu130-x86_64-linux",
        "torch-stable-abi212-cu132-x86_64-linux",
    ];
    assert_eq!(built(&reread(&stable, "backend = \"cuda\"", BLACKWELL), Extent::Needed), needed);
    // Code that CUDA 12.6 compiles as well is not built with 12.8.
    let hopper = "backend = \"cuda\"\ncuda-capabilities = [\"9.0a\"]";
    let hopper = reread(&stable, "backend = \"cuda\"", hopper);
    assert_eq!(built(&hopper, Extent::Needed), [needed[0], needed[1], needed[3], needed[4]]);
}

#[test]
fn everything_that_the_sources_can_serve_is_every_torch_with_every_toolkit() {
    let both = ["cpu", "cuda"];
    let of = |torch: &str| built(&project("\"cpu\", \"cuda\"", torch, &both), Extent::Everything);
    // Every row for this machine: 6 torch with 2 or 3 toolkits and cpu, in both ABIs.
    let all = of("[torch]\nstable-abi = \"2.10\"");
    assert_eq!(all.len(), 46);
    let of_abi = |stable: bool| all.iter().filter(|id| id.starts_with("torch-stable") == stable).count();
    assert_eq!((of_abi(true), of_abi(false)), (23, 23));
    // What build.toml says of torch holds, and so does the floor, for the full ABI as well.
    let newer = of("[torch]\nstable-abi = \"2.14\"");
    assert_eq!(newer.iter().filter(|id| id.contains("cu132")).count(), 4, "{newer:?}");
    assert!(newer.iter().all(|id| id.contains("214") || id.contains("215")), "{newer:?}");
    let one = of("[torch]\nminver = \"2.13\"\nmaxver = \"2.13\"\nstable-abi = \"2.10\"");
    assert!(one.len() == 8 && one.iter().all(|id| id.contains("213")), "{one:?}");
    // Sources that promise nothing are not built with the stable ABI.
    let full = of("[torch]");
    assert!(full.len() == 23 && !full.iter().any(|id| id.contains("stable")), "{full:?}");
    // One backend with the promise, one without.
    let mixed = of("[torch]\nstable-abi = { cuda = \"2.10\" }");
    assert_eq!(mixed.len(), 46 - 6);
}

/// Who can load anything of `--all` can load something of what is needed, and the other way round.
#[test]
fn the_needed_rows_serve_everyone_that_all_rows_serve() {
    for torch in ["[torch]", "[torch]\nstable-abi = \"2.10\"", "[torch]\nstable-abi = \"2.12\""] {
        let build = project("\"cpu\", \"cuda\"", torch, &["cpu", "cuda"]);
        let variants = |extent| -> Vec<Variant> {
            select(&build, &matrix(), &everything(), extent).expect("some").variants
        };
        let (needed, all) = (variants(Extent::Needed), variants(Extent::Everything));
        assert!(needed.iter().all(|variant| all.contains(variant)), "{torch}");
        for (minor, toolkit) in (9..17).flat_map(|minor| {
            let toolkits = ["cpu", "cuda=12.6", "cuda=12.8", "cuda=13.0", "cuda=13.1", "cuda=13.2"];
            toolkits.into_iter().map(move |toolkit| (minor, toolkit))
        }) {
            let environment: Environment = format!("torch=2.{minor},{toolkit}").parse().expect("one");
            let loads = |variants: &[Variant]| !rank(variants, &environment).accepted.is_empty();
            assert_eq!(loads(&needed), loads(&all), "{torch}: {minor} {toolkit}");
        }
    }
}

#[test]
fn an_older_toolkit_serves_what_the_newest_torch_is_not_published_for() {
    // Without a list, CUDA 12.8 compiles for GPUs that 12.6 does not know, so both are wanted.
    let build = project("\"cuda\"", "[torch]\nminver = \"2.11\"\nmaxver = \"2.12\"", &["cuda"]);
    let all = [
        "torch211-cxx11-cu126-x86_64-linux",
        "torch211-cxx11-cu128-x86_64-linux",
        "torch211-cxx11-cu130-x86_64-linux",
        "torch212-cxx11-cu126-x86_64-linux",
        "torch212-cxx11-cu130-x86_64-linux",
        "torch212-cxx11-cu132-x86_64-linux",
    ];
    assert_eq!(right(&build), all);
    let listed = |capabilities: &str| {
        let new = format!("depends = []\ncuda-capabilities = [{capabilities}]");
        right(&reread(&build, "depends = []", &new))
    };
    assert_eq!(listed("\"8.0\", \"12.0\""), all);
    assert_eq!(listed("\"8.0\", \"9.0a\""), [all[0], all[2], all[3], all[4], all[5]]);
}

#[test]
fn a_kernel_that_needs_a_newer_cuda_is_not_served_by_an_older_one() {
    let build = project("\"cuda\"", "[torch]\nminver = \"2.12\"\nmaxver = \"2.12\"", &["cuda"]);
    let build = reread(&build, "depends = []", "depends = []\ncuda-minver = \"13.1\"");
    assert_eq!(right(&build), ["torch212-cxx11-cu132-x86_64-linux"]);
}

#[test]
fn every_row_is_explained() {
    let aarch64 = Provision { cpu: Cpu::Aarch64, ..provision() };
    let table = [
        ("[torch]\nminver = \"2.12\"", provision()),
        ("[torch]\nmaxver = \"2.10\"\nstable-abi = \"2.9\"", provision()),
        ("[torch]\nstable-abi = \"2.13\"", provision()),
        ("[torch-noarch]", provision()),
        ("[torch]", aarch64),
        ("[general.cuda]\nmaxver = \"12.8\"\n[torch]", provision()),
    ];
    // The columns are one torch on one machine, so that the list can be read.
    let shown = |variant: &Variant| match variant.compiled() {
        Some(compiled) => {
            variant.backend() == Some(BackendId::Cuda)
                && compiled.os == Os::Linux
                && compiled.torch().is_none_or(|torch| torch.version == Version::new(2, 12))
        }
        None => variant.backend() == Some(BackendId::Cuda),
    };
    let matrix = matrix();
    let mut text = String::new();
    for (torch, provision) in table {
        let build = project("\"cuda\"", torch, &["cuda"]);
        text += &format!("{}, {}\n", torch.replace('\n', " "), provision.cpu);
        let explained = explain(&build, &matrix, &provision, Extent::Needed);
        for row in explained.iter().filter(|row| shown(&row.row.variant.value)) {
            let why = match &row.decision {
                Decision::Built(provider) => format!("with {provider}"),
                Decision::Elsewhere(missing) => format!("elsewhere: {missing}"),
                Decision::Out(refusal) => format!("out: {refusal}"),
            };
            text += &format!("  {}: {why}\n", row.row.variant.value);
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
    let matrix = Matrix::parse(&["2.9", "2.13", "2.12", "2.11", "2.10"].map(row).concat()).expect("the rows");
    let decided = |floor: &str| {
        let build = project("\"cpu\"", &format!("[torch]\nstable-abi = \"{floor}\""), &["cpu"]);
        let explained = explain(&build, &matrix, &provision(), Extent::Needed);
        let short = |decision: &Decision| match decision {
            Decision::Built(_) => "built",
            Decision::Elsewhere(_) => "elsewhere",
            Decision::Out(_) => "out",
        };
        explained.iter().map(|row| short(&row.decision)).collect::<Vec<_>>()
    };
    assert_eq!(decided("2.11"), ["out", "out", "out", "built", "out"]);
    assert_eq!(decided("2.12"), ["out", "out", "elsewhere", "out", "out"]);
    // What can be built here stays, although one for an older torch, which cannot, would serve it.
    assert_eq!(decided("2.10"), ["out", "out", "out", "built", "elsewhere"]);
}

/// Every client that could load a row which another one covers still finds a row that is built.
#[test]
fn what_is_left_out_loses_no_client() {
    let matrix = matrix();
    let stable = "[torch]\nstable-abi = \"2.11\"";
    let mut left_out = 0;
    for torch in ["[torch]", stable, "[general.cuda]\nminver = \"12.8\"\n[torch]"] {
        let build = project("\"cpu\", \"cuda\"", torch, &["cpu", "cuda"]);
        let explained = explain(&build, &matrix, &provision(), Extent::Needed);
        let of = |wanted: &dyn Fn(&Decision) -> bool| -> Vec<Variant> {
            let rows = explained.iter().filter(|row| wanted(&row.decision));
            rows.map(|row| row.row.variant.value).collect()
        };
        let covered = of(&|decision| matches!(decision, Decision::Out(Refusal::Covered(_))));
        let right = of(&|decision| !matches!(decision, Decision::Out(_)));
        for (minor, cuda, cpu) in (9..17).flat_map(|minor| {
            let cudas = ["12.6", "12.8", "12.9", "13.0", "13.2", "13.9"];
            cudas.into_iter().flat_map(move |cuda| Cpu::ALL.iter().map(move |cpu| (minor, cuda, cpu)))
        }) {
            let text = format!("torch=2.{minor},cuda={cuda},arch={cpu}");
            let environment: Environment = text.parse().expect("an environment");
            let loads = |variants: &[Variant]| rank(variants, &environment).accepted.len();
            left_out += loads(&covered);
            assert!(loads(&covered) == 0 || loads(&right) > 0, "{torch}: {text}");
        }
    }
    assert!(left_out > 0, "nothing was covered");
}

#[test]
fn a_row_that_another_provider_has_is_not_built() {
    let text = VARIANTS.replace("[\"wheels\", \"system\", \"nix\"]", "[\"nix\"]");
    let matrix = Matrix::parse(&text).expect("the rows");
    let problem = select(&project("\"cpu\"", "[torch]", &["cpu"]), &matrix, &provision(), Extent::Needed)
        .expect_err("nothing");
    assert_eq!(problem.code, "variant::not_buildable");
    assert!(problem.help.expect("help").contains("another provider: nix"));
    assert!(!provision().offers.iter().any(|offer| offer.provider == Provider::Nix));
}

pub(crate) fn variants() -> impl Strategy<Value = Variant> {
    let version = (0u32..10, 0u32..100).prop_map(|(major, minor)| Version::new(major, minor));
    let release = (1u32..3000, 0u32..10).prop_map(|(major, minor)| Version::new(major, minor));
    let toolkit = (prop::sample::select(BackendId::ALL), release).prop_map(|(backend, version)| {
        Toolkit::new(backend, None).or_else(|| Toolkit::new(backend, Some(version))).expect("one of them")
    });
    let abis = [Abi::Stable, Abi::Full(Tag::None), Abi::Full(Tag::Cxx11), Abi::Full(Tag::Cxx98)];
    let framework = prop_oneof![
        4 => (version.clone(), prop::sample::select(abis.to_vec()))
            .prop_map(|(version, abi)| Framework::Torch(Torch { version, abi })),
        1 => version.prop_map(Framework::TvmFfi),
    ];
    let compiled = (framework, toolkit, prop::sample::select(Cpu::ALL), prop::sample::select(Os::ALL));
    prop_oneof![
        6 => compiled.prop_map(|(framework, toolkit, cpu, os)| {
            Variant::Compiled(Compiled { framework, toolkit, cpu, os })
        }),
        1 => prop::sample::select(BackendId::ALL).prop_map(|backend| Variant::Noarch(Noarch::For(backend))),
        1 => Just(Variant::Noarch(Noarch::Universal)),
    ]
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

    #[test]
    fn what_reads_as_an_id_prints_as_it_was(text in "(torch|tvm|-|stable|abi|ffi|cxx11|cu|rocm|xpu|cpu|[0-9]{1,4}|x86_64|linux){1,12}|\\PC*") {
        if let Ok(variant) = text.parse::<Variant>() {
            prop_assert_eq!(variant.to_string(), text.as_str());
            prop_assert_eq!(text.parse::<VariantId>().expect("an id"), variant.id());
        }
    }
}

#[test]
fn a_tvm_ffi_project_gets_the_rows_of_tvm_ffi() {
    let framework = "[tvm-ffi]\nsrc = [\"tvm-ffi-ext/a.cpp\"]";
    let build = project("\"cpu\", \"cuda\", \"rocm\"", framework, &["cpu", "cuda"]);
    assert_eq!(
        right(&build),
        ["cpu", "cu126", "cu130", "cu132"].map(|toolkit| format!("tvm-ffi01-{toolkit}-x86_64-linux"))
    );
    let mut without = provision();
    without.offers.iter_mut().for_each(|offer| offer.tvm_ffi.clear());
    let problem = select(&build, &matrix(), &without, Extent::Needed).expect_err("nothing");
    assert_eq!(problem.code, "variant::not_buildable");
    assert!(problem.help.expect("help").contains("this version has no headers of tvm-ffi 0.1"));
}
