//! build.toml: every key is read to the value that is written, and edition 4 means what edition 5 does.
//!
//! A spec is written back as TOML and compared with the file as the TOML crate reads it, so that a key which is
//! forgotten, mixed up or changed on the way shows.
#![expect(clippy::disallowed_methods, reason = "the corpus is files of the repository")]

use std::fmt::Display;
use std::path::Path;

use kernel_plan::diagnostic::{Severity, SourceFile};
use kernel_plan::spec::build::{
    BackendDepends, BuildSpec, Framework, General, Kernel, KernelDepend, KernelPin, StableAbi, VersionRange,
};
use kernel_plan::spec::{Edition, Spanned, codes, edition, parse_build};
use kernel_plan::units::{BackendId, FileExtension};
use toml::{Table, Value};

use crate::project::part;

/// The files of `tests/spec/corpus/valid` with their names.
fn corpus() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/spec/corpus/valid");
    let paths = std::fs::read_dir(folder).expect("the corpus is there");
    let read = |path: &Path| std::fs::read_to_string(path).expect("a readable file");
    let mut files: Vec<_> = paths
        .map(|entry| entry.expect("a readable entry").path())
        .map(|path| (path.file_stem().expect("a name").display().to_string(), read(&path)))
        .collect();
    files.sort();
    files
}

/// The spec of a text without an error.
#[track_caller]
fn sound(name: &str, text: &str) -> BuildSpec {
    let (spec, problems) = parse_build(SourceFile::new("build.toml", text));
    let errors: Vec<_> = problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
    spec.unwrap_or_else(|| panic!("{name}: no spec"))
}

/// A table under construction; what is empty or absent is left out.
struct Section(Table);

impl Section {
    fn put(mut self, key: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            self.0.insert(key.to_owned(), value.into());
        }
        self
    }

    fn text(self, key: &str, value: Option<&Spanned<impl Display>>) -> Self {
        self.put(key, value.map(|value| value.value.to_string()))
    }

    fn texts<T: Display>(self, key: &str, values: &[Spanned<T>]) -> Self {
        let list: Vec<_> = values.iter().map(|value| value.value.to_string()).collect();
        self.put(key, (!list.is_empty()).then_some(list))
    }

    fn pyext(self, values: &[FileExtension]) -> Self {
        let list: Vec<_> = values.iter().map(ToString::to_string).collect();
        self.put("pyext", Some(list))
    }

    fn range(self, range: &VersionRange) -> Self {
        self.text("minver", range.min.as_ref()).text("maxver", range.max.as_ref())
    }

    fn kernels(self, depends: &[KernelDepend]) -> Self {
        let list: Vec<_> = depends
            .iter()
            .map(|depend| {
                let section = Section(Table::new()).text("repo-id", Some(&depend.repo_id));
                match &depend.pin {
                    KernelPin::Version(version) => section.put("version", i64::try_from(*version).ok()).0,
                    KernelPin::Revision(revision) => section.put("revision", Some(revision.to_string())).0,
                }
            })
            .collect();
        self.put("kernel-depends", (!list.is_empty()).then_some(list))
    }
}

fn general(general: &General) -> Table {
    let hub = Section(Table::new())
        .text("repo-id", general.hub.repo_id.as_ref())
        .text("branch", general.hub.branch.as_ref());
    let mut section = Section(Table::new())
        .text("name", Some(&general.name))
        .put("version", i64::try_from(general.version.value).ok())
        .put("edition", Some(5))
        .text("license", Some(&general.license))
        .texts("backends", &general.backends)
        .text("upstream", general.upstream.as_ref())
        .text("source", general.source.as_ref())
        .texts("python-depends", &general.python_depends)
        .kernels(&general.kernel_depends)
        .put("hub", Some(hub.0));
    for BackendDepends { backend, python, kernels } in &general.backend_depends {
        let mut own = Section(Table::new()).texts("python-depends", python).kernels(kernels);
        if *backend == BackendId::Cuda {
            own = own.range(&general.cuda);
        }
        section = section.put(backend.as_str(), Some(own.0));
    }
    section.0
}

fn framework(framework: &Framework) -> (&'static str, Table) {
    let section = Section(Table::new());
    match framework {
        Framework::Torch(torch) => {
            let abi = torch.stable_abi.as_ref().map(|abi| match abi {
                StableAbi::All(version) => Value::String(version.to_string()),
                StableAbi::PerBackend(floors) => Value::Table(
                    floors
                        .iter()
                        .map(|(backend, floor)| (backend.to_string(), Value::String(floor.to_string())))
                        .collect(),
                ),
            });
            let section = section.texts("src", &torch.src).texts("include", &torch.include);
            let section = section.pyext(&torch.pyext).texts("cxx-flags", &torch.cxx_flags);
            ("torch", section.range(&torch.versions).put("stable-abi", abi).0)
        }
        Framework::TorchNoarch(noarch) => {
            let section = section.pyext(&noarch.pyext).texts("cuda_capabilities", &noarch.cuda_capabilities);
            ("torch-noarch", section.texts("rocm_archs", &noarch.rocm_archs).0)
        }
        Framework::TvmFfi(tvm_ffi) => {
            let section = section.texts("src", &tvm_ffi.src).texts("include", &tvm_ffi.include);
            ("tvm-ffi", section.pyext(&tvm_ffi.pyext).texts("cxx-flags", &tvm_ffi.cxx_flags).0)
        }
    }
}

fn kernel(kernel: &Kernel) -> Table {
    let depends: Vec<_> = kernel.depends.iter().map(|depend| depend.as_str()).collect();
    Section(Table::new())
        .text("backend", Some(&kernel.backend))
        .put("depends", (!depends.is_empty()).then_some(depends))
        .texts("src", &kernel.src)
        .texts("include", &kernel.include)
        .texts("cxx-flags", &kernel.cxx_flags)
        .texts("cuda-capabilities", &kernel.cuda_capabilities)
        .texts("cuda-flags", &kernel.cuda_flags)
        .text("cuda-minver", kernel.cuda_minver.as_ref())
        .texts("rocm-archs", &kernel.rocm_archs)
        .texts("hip-flags", &kernel.hip_flags)
        .texts("sycl-flags", &kernel.sycl_flags)
        .0
}

/// The file that would be read as `spec`.
fn written(spec: &BuildSpec) -> Table {
    let (name, section) = framework(&spec.framework);
    let kernels: Table =
        spec.kernels.iter().map(|one| (one.name.to_string(), Value::Table(kernel(one)))).collect();
    let file = Section(Table::new()).put("general", Some(general(&spec.general))).put(name, Some(section));
    file.put("kernel", Some(kernels)).0
}

/// The file as TOML has it, of edition 5, with what is shipped when nothing is said.
fn plain(text: &str) -> Table {
    let mut file: Table = text.parse().expect("a valid file is TOML");
    let mut fill = |section: &str, key: &str, value: Value| {
        if let Some(table) = file.get_mut(section).and_then(Value::as_table_mut) {
            table.entry(key).or_insert(value);
        }
    };
    fill("general", "edition", Value::from(5));
    for framework in ["torch", "torch-noarch", "tvm-ffi"] {
        fill(framework, "pyext", Value::from(vec!["py", "pyi"]));
    }
    file
}

/// Without empty lists and tables, which mean what their absence does, but for `pyext` and `stable-abi`.
fn without_empty(value: Value) -> Option<Value> {
    match value {
        Value::Table(table) => {
            let kept = |key: &str| matches!(key, "pyext" | "stable-abi" | "torch" | "torch-noarch");
            let table: Table = table
                .into_iter()
                .filter_map(|(key, value)| {
                    if kept(&key) && (value.is_array() || value.as_table().is_some_and(Table::is_empty)) {
                        return Some((key, value));
                    }
                    Some((key, without_empty(value)?))
                })
                .collect();
            (!table.is_empty()).then_some(Value::Table(table))
        }
        Value::Array(list) if list.is_empty() => None,
        other => Some(other),
    }
}

#[test]
fn every_key_is_read_to_what_is_written() {
    let ok = [
        ("every_key", include_str!("../spec/ok/every_key.toml")),
        ("noarch", include_str!("../spec/ok/noarch.toml")),
        ("rms_norm", include_str!("../spec/ok/rms_norm.toml")),
        ("tvm_ffi", include_str!("../spec/ok/tvm_ffi.toml")),
    ];
    let own = ok.iter().map(|(name, text)| {
        let file = part(text, "build.toml").expect("the part is there");
        ((*name).to_owned(), file.text.clone())
    });
    for (name, text) in own.chain(corpus()) {
        let spec = sound(&name, &text);
        let there = without_empty(Value::Table(plain(&text)));
        assert_eq!(without_empty(Value::Table(written(&spec))), there, "{name}");
        let order: Vec<_> = spec.kernels.iter().map(|kernel| kernel.name.to_string()).collect();
        let kernels = plain(&text).get("kernel").and_then(Value::as_table).cloned().unwrap_or_default();
        assert_eq!(order, kernels.keys().cloned().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn edition_4_means_what_edition_5_does() {
    let mut compared = 0;
    for (name, text) in corpus() {
        let older = text.replacen("edition = 5\n", "", 1);
        let (spec, problems) = parse_build(SourceFile::new("build.toml", older.as_str()));
        if older == text || edition(&older) != Some(Edition::Four) {
            continue;
        }
        let found: Vec<_> = problems.iter().map(|problem| (problem.code, problem.severity)).collect();
        if found == [(codes::MISSING_KEY, Severity::Error)] {
            // It has a key of edition 5, so it is no file of edition 4.
            continue;
        }
        assert_eq!(found, [(codes::EDITION_UPGRADED, Severity::Warning)], "{name}");
        let spec = spec.unwrap_or_else(|| panic!("{name}: no spec"));
        assert_eq!(written(&spec), written(&sound(&name, &text)), "{name}");
        compared += 1;
    }
    assert!(compared > 20, "only {compared} files could be compared");
}

#[test]
fn dependencies_of_a_backend_follow_those_for_all() {
    let file = part(include_str!("../spec/ok/every_key.toml"), "build.toml").expect("the part is there");
    let general = sound("every_key", &file.text).general;
    let python = |backend| -> Vec<_> { general.python_depends_of(backend).map(|one| one.as_str()).collect() };
    assert_eq!(python(BackendId::Cuda), ["einops", "helion", "tvm-ffi", "nvidia-cutlass-dsl"]);
    assert_eq!(python(BackendId::Rocm), ["einops", "helion", "tvm-ffi"]);
    let kernels = |backend| -> Vec<_> {
        general.kernel_depends_of(backend).map(|depend| depend.repo_id.name().to_owned()).collect()
    };
    assert_eq!(kernels(BackendId::Xpu), ["activation", "rotary", "xpu-only"]);
    assert_eq!(kernels(BackendId::Tpu), ["activation", "rotary"]);
}

#[test]
fn tvm_ffi_has_its_own_folder_and_sources() {
    let file = part(include_str!("../spec/ok/tvm_ffi.toml"), "build.toml").expect("the part is there");
    let spec = sound("tvm_ffi", &file.text);
    assert!(spec.torch().is_none());
    assert_eq!(spec.framework.folder(), "tvm-ffi-ext");
    assert_eq!(spec.framework.src().len(), 2);
    assert_eq!(spec.framework.include()[0].as_str(), "csrc");
    let shipped = |path: &str| {
        let path = path.parse().expect("a path");
        spec.framework.pyext().iter().any(|extension| extension.is_of(&path))
    };
    assert!(shipped("tvm-ffi-ext/ffi_norm/__init__.py") && shipped("a/table.json"));
    assert!(!shipped("a/py") && !shipped("a/b.pyi") && !shipped("a/bpy"));
}
