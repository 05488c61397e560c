//! Reads build.toml, edition 5; edition 4 is upgraded in memory.
//!
//! Owns: its keys, and what is wrong with one file by itself.
//! Never: looks at other files; those rules are in `rules`.

use std::ops::Range;
use std::sync::Arc;

use toml::de::DeValue;

use crate::diagnostic::{Problem, SourceFile};
use crate::units::{BackendId, FileExtension, GitRef, SectionName};

use super::build::{
    BackendDepends, BuildSpec, Framework, General, Hub, Kernel, KernelDepend, KernelPin, StableAbi, Torch,
    TorchNoarch, TvmFfi, VersionRange,
};
use super::edition::{self, Edition};
use super::read::{self, Node, Table};
use super::{Spanned, codes, values};

/// Reads build.toml and reports everything that is wrong with it, in file order.
///
/// The spec is there as soon as every value that it needs could be read; it is fit for building only when
/// `diagnostic::has_errors` says no, and until then serves to find more problems.
pub fn parse_build(file: Arc<SourceFile>) -> (Option<BuildSpec>, Vec<Problem>) {
    read::document(&file, |root| build(root, &file))
}

fn build(mut root: Table<'_>, file: &Arc<SourceFile>) -> Option<BuildSpec> {
    let mut general =
        root.require_table("general", "[general] with name, version, edition, license and backends");
    if let Some(general) = &mut general {
        check_edition(general, &root)?;
    }
    let framework = framework(&mut root);
    let kernels: Vec<Option<Kernel>> = match root.node("kernel") {
        Some(node) => node.table().map_or_else(|| vec![None], self::kernels),
        None => Vec::new(),
    };
    let general = general.and_then(|general| self::general(general, &kernels));
    root.finish();
    Some(BuildSpec {
        file: Arc::clone(file),
        general: general?,
        framework: framework?,
        unread_kernels: kernels.iter().filter(|kernel| kernel.is_none()).count(),
        kernels: kernels.into_iter().flatten().collect(),
    })
}

/// Reports another edition. `None` where the rest of the file is another language.
fn check_edition(general: &mut Table<'_>, root: &Table<'_>) -> Option<()> {
    let node = general.node("edition");
    let Some(found) = edition::find(root.toml()) else {
        // A type or a number that no edition has; the rest is read as if it were 5.
        if let Some(zero) = node.and_then(|node| node.read::<u64>()) {
            let problem = Problem::error(codes::EDITION, "build.toml has no edition 0");
            general.report(problem.help("write `edition = 5`"), &zero.span, "no such edition");
        }
        return Some(());
    };
    match (found.edition, node) {
        (Edition::Five, _) => Some(()),
        (Edition::Newer(number), _) => {
            let message =
                format!("build.toml uses edition {number}, but this version of kernelwright reads edition 5");
            let problem = Problem::error(codes::EDITION, message)
                .help("update kernelwright, or write `edition = 5` if the file follows edition 5");
            general.report(problem, &found.place, "a newer edition");
            None
        }
        (Edition::Four, None) => {
            edition_missing(general, root, &found.place);
            Some(())
        }
        (older, _) => {
            let message =
                format!("build.toml uses {older}, but this version of kernelwright reads edition 5");
            let problem =
                Problem::error(codes::EDITION, message).help(format!("{UPDATE}; {}", changes(older)));
            general.report(problem, &found.place, found.marker);
            (older == Edition::Four).then_some(())
        }
    }
}

/// The command that upgrades a file.
const UPDATE: &str = "run `kernelwright update DIR` to convert it to edition 5";

/// What separates an old edition from edition 5, for an author who would rather write it.
const fn changes(edition: Edition) -> &'static str {
    match edition {
        Edition::One => {
            "or by hand: list `general.backends`, and give each kernel a `backend` instead of a `language`"
        }
        Edition::Two => "or by hand: list `general.backends`, and put the CUDA bounds under [general.cuda]",
        Edition::Three => {
            "or by hand: add `version`, `license` and `edition = 5` to `general`, and one of the sections \
             [torch], [torch-noarch] and [tvm-ffi]"
        }
        Edition::Four | Edition::Five | Edition::Newer(_) => "or by hand: write `edition = 5`",
    }
}

/// A file of edition 4, or one of edition 5 that does not say so.
fn edition_missing(general: &Table<'_>, root: &Table<'_>, place: &Range<usize>) {
    let problem = match edition::newest_key(root.toml()) {
        Some((key, newest)) => {
            let message = format!("`general` has no `edition`, but `{key}` requires edition 5");
            Problem::error(codes::MISSING_KEY, message)
                .at(general.file(), place, "`edition` is missing")
                .at(general.file(), &newest, "a key of edition 5")
                .help("add `edition = 5` under [general]")
        }
        None => {
            Problem::warning(codes::EDITION_UPGRADED, "build.toml uses edition 4 and is read as edition 5")
                .at(general.file(), place, "no `edition`, as in edition 4")
                .help(format!("{UPDATE}, or add `edition = 5` under [general]; nothing else changes"))
        }
    };
    general.push(problem);
}

/// `[general]`. What it has to say and does not gets a value that breaks no rule, so that the rest is judged as well.
fn general(mut table: Table<'_>, kernels: &[Option<Kernel>]) -> Option<General> {
    let place = table.place();
    let name = table.require("name", "name = \"fast-norm\"");
    let version = table.require("version", "version = 1");
    let license = table.require("license", "license = \"Apache-2.0\"");
    let backends = table.require_list("backends", "backends = [\"cuda\", \"cpu\"]");
    let upstream = table.get("upstream");
    let source = table.get("source");
    let python_depends = table.list("python-depends");
    let kernel_depends = kernel_depends(&mut table);
    let hub = table.table("hub").map(hub).unwrap_or_default();
    let mut cuda = VersionRange::default();
    let mut backend_depends = Vec::new();
    for (key, backend) in [
        ("cuda", BackendId::Cuda),
        ("neuron", BackendId::Neuron),
        ("tpu", BackendId::Tpu),
        ("xpu", BackendId::Xpu),
    ] {
        let Some(mut section) = table.table(key) else { continue };
        if backend == BackendId::Cuda {
            cuda = version_range(&mut section);
        }
        let python = section.list("python-depends");
        let kernels = if backend == BackendId::Tpu { Vec::new() } else { self::kernel_depends(&mut section) };
        section.finish();
        backend_depends.push(BackendDepends { backend, python, kernels });
    }
    table.finish();
    Some(General {
        is_named: name.is_some(),
        name: match name {
            Some(name) => name,
            None => Spanned::new("unnamed".parse().ok()?, place.clone()),
        },
        version: version.unwrap_or_else(|| Spanned::new(0, place.clone())),
        license: match license {
            Some(license) => license,
            None => Spanned::new("unknown".parse().ok()?, place.clone()),
        },
        backends: backends.unwrap_or_else(|| Spanned::new(backends_of(kernels), place)),
        upstream,
        source,
        python_depends,
        kernel_depends,
        hub,
        cuda,
        backend_depends,
    })
}

/// The backends of the kernels, each once.
fn backends_of(kernels: &[Option<Kernel>]) -> Vec<Spanned<BackendId>> {
    let mut backends: Vec<Spanned<BackendId>> = Vec::new();
    for kernel in kernels.iter().flatten() {
        if backends.iter().all(|known| known.value != kernel.backend.value) {
            backends.push(kernel.backend.clone());
        }
    }
    backends
}

fn hub(mut table: Table<'_>) -> Hub {
    let hub = Hub { repo_id: table.get("repo-id"), branch: table.get("branch") };
    table.finish();
    hub
}

fn kernel_depends(table: &mut Table<'_>) -> Vec<KernelDepend> {
    let items = table.node("kernel-depends").and_then(|node| node.items()).unwrap_or_default();
    items.iter().filter_map(|item| kernel_depend(item.table()?)).collect()
}

fn kernel_depend(mut table: Table<'_>) -> Option<KernelDepend> {
    let repo_id = table.require("repo-id", "{ repo-id = \"owner/kernel\", version = 1 }");
    let pin = match (table.node("version"), table.node("revision")) {
        (Some(version), None) => version.read::<u64>().map(|version| KernelPin::Version(version.value)),
        (None, Some(revision)) => {
            revision.read::<GitRef>().map(|revision| KernelPin::Revision(revision.value))
        }
        (version, _) => {
            let found = if version.is_some() { "both" } else { "neither" };
            let message =
                format!("a kernel dependency needs a `version` or a `revision`; this one has {found}");
            let problem = Problem::error(codes::KERNEL_PIN, message)
                .help("for example: { repo-id = \"owner/kernel\", version = 1 }");
            table.report(problem, &table.place(), "exactly one of the two");
            None
        }
    };
    table.finish();
    Some(KernelDepend { repo_id: repo_id?, pin: pin? })
}

/// `minver` and `maxver` of a section.
fn version_range(table: &mut Table<'_>) -> VersionRange {
    let range = VersionRange { min: table.get("minver"), max: table.get("maxver") };
    if let (Some(min), Some(max)) = (&range.min, &range.max)
        && min.value > max.value
    {
        let message = format!("the version range is empty: {} is above {}", min.value, max.value);
        let problem = Problem::error(codes::EMPTY_RANGE, message)
            .at(table.file(), &min.span, "the lower bound")
            .at(table.file(), &max.span, "the upper bound")
            .help("`maxver` is inclusive and must not be below `minver`");
        table.push(problem);
    }
    range
}

/// The one section that says what the kernel plugs into.
fn framework(root: &mut Table<'_>) -> Option<Framework> {
    let nodes = [root.node("torch"), root.node("torch-noarch"), root.node("tvm-ffi")];
    let is_there =
        nodes.iter().any(Option::is_some) || root.has_slip_of(&["torch-noarch", "tvm-ffi", "torch"]);
    let [torch, noarch, tvm_ffi] = nodes.map(|node| node.and_then(|node| node.table()));
    let places: Vec<_> = [("[torch]", &torch), ("[torch-noarch]", &noarch), ("[tvm-ffi]", &tvm_ffi)]
        .into_iter()
        .filter_map(|(name, table)| Some((name, table.as_ref()?.place())))
        .collect();
    match places.as_slice() {
        // A section that is misspelled or no table has been told, or will be.
        [] if is_there => {}
        [] => {
            let problem = Problem::error(codes::NO_FRAMEWORK, "the file has no framework section").help(
                "add [torch] for compiled code, [torch-noarch] for a kernel in Python only, or [tvm-ffi]",
            );
            root.report(problem, &root.place(), "none of [torch], [torch-noarch] and [tvm-ffi]");
        }
        [_] => {}
        [(_, first), rest @ ..] => {
            let mut problem =
                Problem::error(codes::SEVERAL_FRAMEWORKS, "the file has more than one framework section")
                    .help("keep one of [torch], [torch-noarch] and [tvm-ffi]")
                    .at(root.file(), first, "the first");
            for (_, place) in rest {
                problem = problem.at(root.file(), place, "another");
            }
            root.push(problem);
        }
    }
    // All are read, so that the problems of each are told.
    let torch = torch.map(self::torch).map(Framework::Torch);
    let noarch = noarch.map(torch_noarch).map(Framework::TorchNoarch);
    let tvm_ffi = tvm_ffi.and_then(self::tvm_ffi).map(Framework::TvmFfi);
    torch.or(noarch).or(tvm_ffi)
}

fn torch(mut table: Table<'_>) -> Torch {
    let torch = Torch {
        src: table.list("src"),
        include: table.list("include"),
        pyext: pyext(&mut table),
        cxx_flags: table.list("cxx-flags"),
        versions: version_range(&mut table),
        stable_abi: table.node("stable-abi").and_then(|node| stable_abi(&node)),
    };
    table.finish();
    torch
}

fn torch_noarch(mut table: Table<'_>) -> TorchNoarch {
    let noarch = TorchNoarch {
        pyext: pyext(&mut table),
        cuda_capabilities: table.list("cuda_capabilities"),
        rocm_archs: table.list("rocm_archs"),
    };
    table.finish();
    noarch
}

fn tvm_ffi(mut table: Table<'_>) -> Option<TvmFfi> {
    let src = table.require_list("src", "src = [\"tvm-ffi-ext/binding.cpp\"]");
    let include = table.list("include");
    let pyext = pyext(&mut table);
    let cxx_flags = table.list("cxx-flags");
    table.finish();
    Some(TvmFfi { src: src?.value, include, pyext, cxx_flags })
}

/// The extensions of shipped files.
fn pyext(table: &mut Table<'_>) -> Vec<FileExtension> {
    match table.get::<Vec<Spanned<FileExtension>>>("pyext") {
        Some(list) => list.value.into_iter().map(|extension| extension.value).collect(),
        None => FileExtension::defaults(),
    }
}

fn stable_abi(node: &Node<'_>) -> Option<StableAbi> {
    match node.value() {
        DeValue::String(_) => node.read().map(StableAbi::All),
        DeValue::Table(_) => {
            let mut table = node.table()?;
            let mut floors = Vec::new();
            for backend in BackendId::ALL {
                if let Some(version) = table.get(backend.as_str()) {
                    floors.push((*backend, version));
                }
            }
            table.finish();
            Some(StableAbi::PerBackend(floors))
        }
        _ => node.wrong_type(
            "a version, or a table with a version per backend",
            "\"2.11\", or { cuda = \"2.11\" }",
        ),
    }
}

/// Every `[kernel.NAME]`, `None` for those that could not be read.
fn kernels(table: Table<'_>) -> Vec<Option<Kernel>> {
    let sections = table.entries();
    // `[kernel]` for `[kernel.NAME]`: one mistake, however many keys there are.
    if let Some((key, _)) = sections.iter().find(|(key, node)| {
        matches!(key.value.as_str(), "backend" | "depends" | "src")
            && !matches!(node.value(), DeValue::Table(_))
    }) {
        let message = format!("`[kernel]` has a `{}`, but a kernel section needs a name", key.value);
        let problem = Problem::error(codes::WRONG_TYPE, message)
            .help("write [kernel.NAME] with a name that you choose, as in [kernel.norm_cuda]");
        table.report(problem, &table.place(), "a kernel without a name");
        return vec![None];
    }
    sections
        .into_iter()
        .map(|(key, node)| {
            let name = values::name(&key, &node, codes::SECTION_NAME);
            kernel(name, node.table()?)
        })
        .collect()
}

/// One `[kernel.NAME]`. The keys of one backend are unknown keys for the others.
fn kernel(name: Option<Spanned<SectionName>>, mut table: Table<'_>) -> Option<Kernel> {
    let backend = table.require::<BackendId>("backend", "backend = \"cuda\"");
    let mut compiled = true;
    if let Some(backend) = &backend
        && matches!(backend.value, BackendId::Cann | BackendId::Neuron | BackendId::Tpu)
    {
        let message = format!("kernels for `{}` cannot be compiled", backend.value);
        let problem = Problem::error(codes::BAD_VALUE, message).help(
            "a kernel section is for cpu, cuda, metal, rocm or xpu; other backends support Python only",
        );
        table.report(problem, &backend.span, "no compiled code for this backend");
        compiled = false;
    }
    let depends = table.require("depends", "depends = [\"torch\"]");
    let src = table.require_list("src", "src = [\"norm_cuda/norm.cu\"]");
    let include = table.list("include");
    let cxx_flags = table.list("cxx-flags");
    // Without a readable backend every backend's keys are accepted: one problem is enough.
    let is = |id| backend.as_ref().is_none_or(|backend| backend.value == id);
    let (mut cuda_capabilities, mut cuda_flags, mut cuda_minver) = (Vec::new(), Vec::new(), None);
    if is(BackendId::Cuda) {
        cuda_capabilities = table.list("cuda-capabilities");
        cuda_flags = table.list("cuda-flags");
        cuda_minver = table.get("cuda-minver");
    }
    let (mut rocm_archs, mut hip_flags) = (Vec::new(), Vec::new());
    if is(BackendId::Rocm) {
        rocm_archs = table.list("rocm-archs");
        hip_flags = table.list("hip-flags");
    }
    let sycl_flags = if is(BackendId::Xpu) { table.list("sycl-flags") } else { Vec::new() };
    table.finish();
    Some(Kernel {
        name: name?,
        backend: backend.filter(|_| compiled)?,
        depends: depends?.value,
        src: src?.value,
        include,
        cxx_flags,
        cuda_capabilities,
        cuda_flags,
        cuda_minver,
        rocm_archs,
        hip_flags,
        sycl_flags,
    })
}
