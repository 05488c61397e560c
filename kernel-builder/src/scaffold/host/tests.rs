//! Every template has a host side for either framework, whose launcher has an instance for every call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::host::{self, HostPlan};
use kernel_plan::spec::expr::Value;
use kernel_plan::spec::launch::TemplateValue;
use kernel_plan::spec::op::{Axis, AxisKind, Case, Device, Purpose};
use kernel_plan::spec::{self, OpSpec, parse_build, parse_op};

use super::{Framework, Identity, Sources, is_source, render};
use crate::base::random::SplitMix;
use crate::scaffold::{Answers, FileSet, Template, template};

/// The operators of every template that leaves its host side to the generator.
fn operators() -> Vec<(String, OpSpec)> {
    let mut found = vec![];
    for template in template::all().unwrap() {
        let answers = template::sample(&template, "fast-one".parse().unwrap());
        let set = template::render(&template, &answers).unwrap();
        if set.get(Framework::Torch.binding()).is_some() {
            continue;
        }
        for file in ["op.toml", "backward.toml"] {
            let Some(text) = set.get(file) else { continue };
            let text = String::from_utf8(text.to_vec()).unwrap();
            let (op, problems) = parse_op(SourceFile::new(file, text));
            let op = op.unwrap_or_else(|| panic!("{problems:?}"));
            // Gradients that PyTorch's operators compute have no code.
            if op.launch.is_some() {
                found.push((format!("{}/{file}", template.name), op));
            }
        }
    }
    assert!(found.len() > 30);
    found
}

/// A length that the axis allows: mostly small, at times large, often round.
fn length(axis: &Axis, random: &mut SplitMix) -> u64 {
    let AxisKind::Var { multiple_of, min, max } = axis.kind else { return 0 };
    let bits = random.next() % 18;
    let drawn = random.next() % (1 << bits) + 1;
    let round = if random.next().is_multiple_of(2) { drawn } else { drawn.next_multiple_of(64) };
    (round * multiple_of).max(min.unwrap_or(0)).min(max.unwrap_or(u64::MAX))
}

/// Whether the code of a setting has the instance of the kernel at `place`.
fn has(
    plan: &HostPlan,
    setting: usize,
    place: usize,
    case: &Case,
    op: &OpSpec,
    template: &[TemplateValue],
) -> bool {
    let dtypes = op.dtypes.iter().map(|variable| {
        let dtype = case.dtypes[&variable.name.value];
        format!("int64_t(Element::k{})", dtype.as_str().to_ascii_uppercase())
    });
    let values = template.iter().filter_map(|value| match value {
        TemplateValue::Value(Value::Integer(number)) => Some(number.to_string()),
        TemplateValue::Value(Value::Boolean(truth)) => Some(i64::from(*truth).to_string()),
        TemplateValue::Type(_) => None,
    });
    let key: Vec<String> = dtypes.chain(values).collect();
    let launch = plan.launch.as_ref().unwrap();
    let space = launch.settings[setting].space;
    launch.spaces[space].instances[place].iter().any(|instance| instance.key == key)
}

#[test]
fn every_call_of_every_template_has_its_instances() {
    let mut random = SplitMix(7);
    for (name, op) in operators() {
        let plan = host::plan(&op, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let launch = op.launch.as_ref().unwrap();
        let cases = op.cases(Purpose::Verify, Device::Cuda);
        let mut defaults = op.tune.all_defaults();
        defaults.dedup();
        assert_eq!(plan.launch.as_ref().unwrap().settings.len(), defaults.len(), "{name}");
        let mut started = 0;
        for turn in 0..200 {
            let mut case = cases[turn % cases.len()].clone();
            // The first ones are the workloads themselves.
            if turn >= cases.len() {
                for axis in op.axes.iter().filter(|axis| matches!(axis.kind, AxisKind::Var { .. })) {
                    case.axes.insert(axis.name.value.clone(), length(axis, &mut random));
                }
            }
            // GPUs of some capabilities have other defaults, and so other settings.
            let setting = turn % defaults.len();
            // A drawn call may be larger than any GPU.
            let Ok(concrete) = launch.evaluate(&case, &defaults[setting]) else { continue };
            for kernel in concrete.kernels {
                started += 1;
                let fits = has(&plan, setting, kernel.place, &case, &op, &kernel.template);
                assert!(
                    fits,
                    "{name}: no {} for {:?} {:?}",
                    kernel.name_expression(),
                    case.axes,
                    case.dtypes
                );
            }
        }
        assert!(started > 50, "{name}: {started}");
    }
}

/// All files of a new project of the template, or none where its binding is its own.
fn project(template: &Template, framework: Framework) -> Option<FileSet> {
    let answers = Answers { framework, ..template::sample(template, "fast-one".parse().unwrap()) };
    let set = template::render(template, &answers).unwrap();
    if set.get(Framework::Torch.binding()).is_some() {
        return None;
    }
    Some(with_host_side(&set, template, &answers))
}

/// The files of a rendered template, and the host side for them.
fn with_host_side(set: &FileSet, template: &Template, answers: &Answers) -> FileSet {
    let text = |name: &str| set.get(name).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
    let parse = |name: &str| text(name).map(|text| parse_op(SourceFile::new(name, text)).0.unwrap());
    let (op, backward) = (parse("op.toml").unwrap(), parse("backward.toml"));
    let reference = text(op.reference.file.value.as_str()).unwrap();
    let sources = Sources {
        op: &op,
        backward: backward.as_ref(),
        regions: vec![],
        reference: &reference,
        gradients: None,
        layers: set.iter().any(|(path, _)| path.ends_with("layers.py")),
        settings: [&[], &[]],
    };
    let identity = Identity {
        owner: answers.owner.clone(),
        name: answers.name.to_string(),
        module: answers.name.module(),
        license: answers.license.clone(),
        backends: answers.backends.clone(),
        framework: answers.framework,
        year: answers.year,
        template: template.name.clone(),
    };
    let host = render(&sources, &identity, set).unwrap();
    let mut whole = FileSet::default();
    for (path, bytes) in host.initial.iter().chain(host.generated.iter()).chain(set.iter()) {
        whole.insert(path, bytes).unwrap();
    }
    whole
}

/// Every template whose host side is generated, for a framework.
fn projects(framework: Framework) -> Vec<(String, FileSet)> {
    let all = template::all().unwrap();
    let projects = all.iter().filter_map(|it| Some((it.name.clone(), project(it, framework)?)));
    let projects: Vec<_> = projects.collect();
    assert!(projects.len() > 20);
    projects
}

/// One test, since what is rendered takes longer than looking at it.
#[test]
fn every_template_has_a_whole_project_for_either_framework() {
    let [torch, tvm_ffi] = Framework::ALL.map(projects);
    for (framework, projects) in Framework::ALL.into_iter().zip([&torch, &tvm_ffi]) {
        for (name, files) in projects {
            speaks_of_what_it_has(name, files, framework);
        }
    }
    let injectable = |(name, files): &(String, FileSet)| {
        let there = files.get("torch-ext/fast_one/_inject/__init__.py").is_some();
        let package = text(files, "torch-ext/fast_one/__init__.py");
        assert_eq!(package.contains("def inject(") && package.contains("\"inject\""), there, "{name}");
        there.then(|| name.clone())
    };
    let names: Vec<String> = torch.iter().filter_map(injectable).collect();
    // Nothing that has tensors of integers or overwrites one.
    for (name, expected) in [
        ("group-norm", true),
        ("row-sum", true),
        ("elementwise", true),
        ("rms-norm", true),
        ("swiglu", true),
        ("add-rms-norm", false),
        ("add-rms-norm-separate", true),
        ("cross-entropy", false),
        ("rope", false),
        ("quantize-rows-int8", false),
    ] {
        assert_eq!(names.iter().any(|known| known == name), expected, "{name} of {names:?}");
    }
    for ((name, torch), (_, tvm_ffi)) in torch.iter().zip(&tvm_ffi) {
        differ_in_their_binding_alone(name, torch, tvm_ffi);
        carves_where_it_is_told_to(name, torch);
        exports_every_operator(name, tvm_ffi);
    }
}

fn text(files: &FileSet, path: &str) -> String {
    String::from_utf8(files.get(path).unwrap_or_else(|| panic!("no {path}")).to_vec()).unwrap()
}

/// build.toml lists what there is to compile and nothing else, and every header of the project that a source includes is
/// there.
fn speaks_of_what_it_has(name: &str, files: &FileSet, framework: Framework) {
    let (build, problems) = parse_build(SourceFile::new("build.toml", text(files, "build.toml")));
    assert!(problems.is_empty(), "{name}: {problems:?}");
    let build = build.unwrap();
    assert_eq!(Framework::from_build(&build.framework), Some(framework), "{name}");
    let binding = match &build.framework {
        spec::build::Framework::Torch(torch) => &torch.src,
        spec::build::Framework::TvmFfi(tvm_ffi) => &tvm_ffi.src,
        spec::build::Framework::TorchNoarch(_) => panic!("{name}"),
    };
    let kernels = build.kernels.iter().flat_map(|kernel| &kernel.src);
    let listed: BTreeSet<PathBuf> =
        binding.iter().chain(kernels).map(|path| PathBuf::from(path.value.as_str())).collect();
    let there: BTreeSet<PathBuf> =
        files.iter().map(|(path, _)| path.to_owned()).filter(|path| is_source(path)).collect();
    assert_eq!(listed, there, "{name}");
    let layers = format!("{}/fast_one/layers.py", framework.folder());
    assert_eq!(files.get(&layers).is_some(), files.get("tests/replaced.py").is_some(), "{name}");
    for path in &there {
        let folder = path.parent().unwrap();
        let source = text(files, &path.display().to_string());
        let own = source.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
        for header in own.filter(|header| *header != "registration.h") {
            let asked = match header.strip_prefix("../") {
                Some(rest) => folder.parent().unwrap().join(rest),
                None => folder.join(header),
            };
            assert!(there.contains(&asked), "{name}: {} includes {header}", path.display());
        }
    }
}

/// What runs on a device or a processor knows no framework; what does is in the framework's folder.
fn differ_in_their_binding_alone(name: &str, torch: &FileSet, tvm_ffi: &FileSet) {
    let outside = |files: &FileSet, framework: Framework| -> BTreeMap<PathBuf, Vec<u8>> {
        let own = |path: &Path| {
            path.starts_with(framework.folder()) || path.starts_with("tests") || path.ends_with("build.toml")
        };
        let others = files.iter().filter(|(path, _)| !own(path));
        others.map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect()
    };
    assert!(outside(torch, Framework::Torch) == outside(tvm_ffi, Framework::TvmFfi), "{name}");
    for (path, bytes) in tvm_ffi.iter().filter(|(path, _)| is_source(path)) {
        let source = String::from_utf8_lossy(bytes);
        assert!(!source.contains("torch/") && !source.contains("torch::"), "{name}: {}", path.display());
    }
}

/// A launcher sets the carveout of every kernel for which op.toml has one, and of no other.
fn carves_where_it_is_told_to(name: &str, files: &FileSet) {
    for file in ["op.toml", "backward.toml"].into_iter().filter(|file| files.get(file).is_some()) {
        let op = parse_op(SourceFile::new(file, text(files, file))).0.unwrap();
        let Some(launch) = &op.launch else { continue };
        let told = launch.kernels.iter().filter(|kernel| kernel.carveout.is_some()).count();
        let launcher = format!("{}_launch.cpp", op.name.value);
        let (_, bytes) = files.iter().find(|(path, _)| path.ends_with(&launcher)).unwrap();
        let launcher = String::from_utf8_lossy(bytes);
        assert_eq!(launcher.matches("start::prefer(failure, function, ").count(), told, "{name}/{file}");
    }
}

/// Gradients without code are those of the reference, and no binding knows their operator.
#[test]
fn a_gradient_may_be_left_to_pytorch() {
    let template = template::all().unwrap().into_iter().find(|template| template.name == "gemm").unwrap();
    for framework in [Framework::Torch, Framework::TvmFfi] {
        let answers = Answers { framework, ..template::sample(&template, "fast-one".parse().unwrap()) };
        let mut set = template::render(&template, &answers).unwrap();
        let gradient = text(&set, "backward.toml");
        let (meaning, _) = gradient.split_once("\n[let]\n").unwrap();
        set.insert("backward.toml", meaning).unwrap();
        let files = with_host_side(&set, &template, &answers);
        assert!(!text(&files, framework.binding()).contains("gemm_backward"));
        let package = text(&files, &format!("{}/fast_one/__init__.py", framework.folder()));
        let called = "ops.gemm_backward if hasattr(ops, \"gemm_backward\") else _gemm_backward_in_pytorch";
        assert!(package.contains(called) && package.contains("def _gemm_backward_in_pytorch("), "{package}");
    }
}

/// A function for every operator and backend that has code, and an operator of PyTorch for each.
fn exports_every_operator(name: &str, files: &FileSet) {
    let binding = text(files, Framework::TvmFfi.binding());
    let operators = text(files, "tvm-ffi-ext/fast_one/_operators.py");
    for file in ["op.toml", "backward.toml"].into_iter().filter(|file| files.get(file).is_some()) {
        let op = parse_op(SourceFile::new(file, text(files, file))).0.unwrap();
        for (backend, has) in [("cuda", op.launch.is_some()), ("cpu", op.cpu.is_some())] {
            let exported = format!("TVM_FFI_DLL_EXPORT_TYPED_FUNC({}_{backend}, ", op.name.value);
            assert_eq!(binding.contains(&exported), has, "{name}: {exported}");
        }
        let defined = format!("_register(\"{}\", \"(", op.name.value);
        let has_code = op.launch.is_some() || op.cpu.is_some();
        assert_eq!(operators.contains(&defined), has_code, "{name}: {defined}");
    }
}
