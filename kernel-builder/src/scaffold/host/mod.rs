//! The host side of a kernel: every file that follows from op.toml.
//!
//! Owns: which files there are, and their texts. Never: reads or writes a project; decides nothing that
//! `kernel_plan::host` can.

use std::path::Path;

use kernel_plan::host::{self, DeviceSettings, HostError, HostPlan, TensorPlan};
use kernel_plan::spec::OpSpec;
use minijinja::value::merge_maps;
use minijinja::{Environment, UndefinedBehavior, Value, context};

use super::{FileSet, ScaffoldError, template};

mod cases;
pub(super) mod framework;

pub(super) use cases::to_value;
pub use framework::Framework;

/// Whose project it is: what build.toml says.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The user or organisation on the hub.
    pub owner: String,
    /// The kernel's name: `rms-norm`.
    pub name: String,
    /// The Python module: `rms_norm`.
    pub module: String,
    /// The licence, as an SPDX identifier.
    pub license: String,
    /// The backends, in order.
    pub backends: Vec<String>,
    /// What the binding is for.
    pub framework: Framework,
    /// For the card.
    pub year: i64,
    /// The template, for the card.
    pub template: String,
}

/// What a project has that its host side is generated from.
#[derive(Debug)]
pub struct Sources<'a> {
    /// op.toml.
    pub op: &'a OpSpec,
    /// backward.toml, where there is one.
    pub backward: Option<&'a OpSpec>,
    /// The operators of `[forward]`, each with the settings of its devices.
    pub regions: Vec<(&'a OpSpec, &'a [DeviceSettings])>,
    /// The reference of op.toml.
    pub reference: &'a str,
    /// That of backward.toml, where it is another file.
    pub gradients: Option<&'a str>,
    /// Whether the package has layers.
    pub layers: bool,
    /// The settings of devices, for the operator and for its backward.
    pub settings: [&'a [DeviceSettings]; 2],
}

/// The generated files.
#[derive(Debug)]
pub struct Host {
    /// Those that follow from op.toml alone, and are written anew whenever it changes.
    pub generated: FileSet,
    /// Those that a project begins with, and that are its own from then on.
    pub initial: FileSet,
}

/// A file of the generator: its name, its text.
macro_rules! resource {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/resources/host/", $name)))
    };
}

const ELEMENTS: (&str, &str) = resource!("elements.h");
const START: (&str, &str) = resource!("start.h");
const ALIGNED: (&str, &str) = resource!("aligned.h");
const EXPRESSIONS: (&str, &str) = resource!("expressions.h");
const TENSOR_MAP: (&str, &str) = resource!("tensor_map.h");
const ARGUMENTS: (&str, &str) = resource!("arguments.h");
const TORCH_TENSORS: (&str, &str) = resource!("torch_tensors.h");
const TVM_FFI_TENSORS: (&str, &str) = resource!("tvm_ffi_tensors.h");
const PARALLEL: (&str, &str) = resource!("parallel.h");
const CALL: (&str, &str) = resource!("call.h.j2");
const PIECES: (&str, &str) = resource!("pieces.cpp.j2");
const LAUNCH_HEADER: (&str, &str) = resource!("launch.h.j2");
const LAUNCH: (&str, &str) = resource!("launch.cpp.j2");
const INSTANCES: (&str, &str) = resource!("instances.cu.j2");
const TORCH_BINDING_HEADER: (&str, &str) = resource!("torch_binding.h.j2");
const TORCH_BINDING: (&str, &str) = resource!("torch_binding.cpp.j2");
const TVM_FFI_BINDING: (&str, &str) = resource!("tvm_ffi_binding.cpp.j2");
const OPERATORS: (&str, &str) = resource!("operators.py.j2");
const PACKAGE: (&str, &str) = resource!("package.py.j2");
const DISPATCH: (&str, &str) = resource!("dispatch.py.j2");
/// What puts an operation into a model: a package of its own within the kernel's.
pub(crate) const INJECT: [(&str, &str); 11] = [
    resource!("inject/__init__.py"),
    resource!("inject/blocks.py"),
    resource!("inject/functions.py"),
    resource!("inject/matching.py"),
    resource!("inject/modules.py"),
    resource!("inject/operation.py"),
    resource!("inject/places.py"),
    resource!("inject/regions.py"),
    resource!("inject/rewriting.py"),
    resource!("inject/text.py"),
    resource!("inject/trace.py"),
];
const BUILD: (&str, &str) = resource!("build.toml.j2");
const FLAKE: (&str, &str) = resource!("flake.nix.j2");
const CARD: (&str, &str) = resource!("CARD.md.j2");
const EXAMPLE: (&str, &str) = resource!("example.py.j2");
const BENCHMARK: (&str, &str) = resource!("benchmark.py.j2");
const TEST: (&str, &str) = resource!("test.py.j2");

/// Parts of files, which both frameworks' files include; their last line break is the including file's.
const PARTS: [(&str, &str); 4] = [
    ("enqueue.cpp", resource!("enqueue.cpp.j2").1),
    ("calls.h", resource!("calls.h.j2").1),
    ("spec.cpp", resource!("spec.cpp.j2").1),
    ("fakes.py", resource!("fakes.py.j2").1),
];

/// Renders the host side. `present` are the files that the template brings, for the lists of build.toml.
///
/// # Errors
/// What op.toml asks for and a generated host side does not do.
pub fn render(sources: &Sources<'_>, identity: &Identity, present: &FileSet) -> Result<Host, ScaffoldError> {
    let plan = |op: &OpSpec, settings: &[DeviceSettings]| {
        host::plan(op, settings).map_err(|cause| ScaffoldError::Host { file: op.file.name.clone(), cause })
    };
    let forward = plan(sources.op, sources.settings[0])?;
    let backward = sources.backward.map(|op| {
        let plan = host::plan_of_gradient(op, sources.settings[1]);
        plan.map_err(|cause| ScaffoldError::Host { file: op.file.name.clone(), cause })
    });
    let backward = backward.transpose()?;
    let regions = sources.regions.iter().map(|(op, settings)| plan(op, settings));
    let regions = regions.collect::<Result<Vec<HostPlan>, _>>()?;
    let hung = hang(sources.op, &forward, backward.as_ref())?;
    // The operators that have code, and the files that say so.
    let mut plans: Vec<(&HostPlan, &str)> = Vec::new();
    if !forward.forward {
        plans.push((&forward, "op.toml"));
        plans.extend(backward.iter().map(|plan| (plan, "backward.toml")));
    }
    let referenced: Vec<&HostPlan> = plans.iter().map(|(plan, _)| *plan).collect();
    // Gradients may be left to PyTorch's operators.
    plans.retain(|(plan, _)| plan.launch.is_some() || plan.cpu.is_some());
    plans.extend(regions.iter().zip(sources.regions.iter().map(|(op, _)| last_part(&op.file.name))));
    // A backward operator may have no code for a backend; PyTorch's operators compute it there.
    let mut needed = plans.iter().filter(|(_, file)| *file != "backward.toml");
    needed.try_for_each(|(plan, file)| check_backends(plan, file, identity))?;
    let engine = engine()?;
    let mut generated = FileSet::default();
    let module = identity.module.as_str();
    let has = |backend: &str| identity.backends.iter().any(|chosen| chosen == backend);
    for (plan, file) in &plans {
        let variables =
            context! { op => cases::to_value(plan), file => *file, cpu => plan.cpu.is_some() && has("cpu") };
        let op = &plan.op;
        if let Some(launch) = plan.launch.as_ref().filter(|_| has("cuda")) {
            let folder = format!("{module}_cuda");
            let device = context! { cpu => false, ..variables.clone() };
            put(&mut generated, &engine, &format!("{folder}/{op}_call.h"), CALL, &device)?;
            put(&mut generated, &engine, &format!("{folder}/{op}_launch.h"), LAUNCH_HEADER, &device)?;
            put(&mut generated, &engine, &format!("{folder}/{op}_launch.cpp"), LAUNCH, &device)?;
            for (place, space) in launch.spaces.iter().enumerate() {
                let variables = context! { place, space => cases::to_value(space), ..device.clone() };
                let path = format!("{folder}/{op}_instances_{place}.cu");
                put(&mut generated, &engine, &path, INSTANCES, &variables)?;
            }
            generated.insert(format!("{folder}/{}", ELEMENTS.0), ELEMENTS.1)?;
            generated.insert(format!("{folder}/{}", EXPRESSIONS.0), EXPRESSIONS.1)?;
            generated.insert(format!("{folder}/{}", START.0), START.1)?;
            generated.insert(format!("{folder}/{}", ALIGNED.0), ALIGNED.1)?;
            if launch.has_tensor_maps {
                generated.insert(format!("{folder}/{}", TENSOR_MAP.0), TENSOR_MAP.1)?;
            }
        }
        if plan.cpu.is_some() && has("cpu") {
            let folder = format!("{module}_cpu");
            put(&mut generated, &engine, &format!("{folder}/{op}_call.h"), CALL, &variables)?;
            put(&mut generated, &engine, &format!("{folder}/{op}_pieces.cpp"), PIECES, &variables)?;
            generated.insert(format!("{folder}/{}", ELEMENTS.0), ELEMENTS.1)?;
            generated.insert(format!("{folder}/{}", EXPRESSIONS.0), EXPRESSIONS.1)?;
        }
    }
    let title = template::title(&identity.name);
    let injected = is_injectable(&forward);
    let whole = context! {
        ops => cases::to_value(plans.iter().map(|(plan, _)| plan).collect::<Vec<_>>()),
        referenced => cases::to_value(&referenced),
        op => cases::completed(&forward),
        backward => cases::to_value(&hung),
        layers => sources.layers,
        modules => ["_pytorch", if sources.gradients.is_some() { "_gradients" } else { "_pytorch" }],
        axes => forward.python.axes.clone(),
        name => identity.name.clone(),
        module,
        owner => identity.owner.clone(),
        repo_id => format!("{}/{}", identity.owner, identity.name),
        license => identity.license.clone(),
        backends => identity.backends.clone(),
        title,
        year => identity.year,
        template => identity.template.clone(),
        framework => identity.framework.section(),
        operators => identity.framework.operators(),
        injected,
    };
    binding(&mut generated, &engine, identity, &whole)?;
    let folder = identity.framework.folder();
    put(&mut generated, &engine, &format!("{folder}/{module}/__init__.py"), PACKAGE, &whole)?;
    if !forward.forward {
        put(&mut generated, &engine, &format!("{folder}/{module}/dispatch.py"), DISPATCH, &whole)?;
        generated.insert(format!("{folder}/{module}/_pytorch.py"), sources.reference)?;
    }
    if injected {
        for (name, text) in INJECT {
            generated.insert(format!("{folder}/{module}/_{name}"), text)?;
        }
    }
    if let Some(text) = sources.gradients {
        generated.insert(format!("{folder}/{module}/_gradients.py"), text)?;
    }
    let listed = |folder: &str| {
        let files = generated.iter().chain(present.iter()).map(|(path, _)| path);
        let mut inside: Vec<String> = files
            .filter(|path| path.starts_with(folder) && is_source(path))
            .map(|path| path.display().to_string())
            .collect();
        inside.sort();
        inside.dedup();
        inside
    };
    let tests = cases::tests(sources.op, &forward);
    let first = context! {
        binding_files => listed(folder),
        cuda_files => listed(&format!("{module}_cuda")),
        cpu_files => listed(&format!("{module}_cpu")),
        ..merge_maps([tests, whole])
    };
    let mut initial = FileSet::default();
    for (path, file) in [
        ("build.toml".to_owned(), BUILD),
        ("flake.nix".to_owned(), FLAKE),
        ("CARD.md".to_owned(), CARD),
        ("example.py".to_owned(), EXAMPLE),
        ("benchmarks/benchmark.py".to_owned(), BENCHMARK),
        (format!("tests/test_{module}.py"), TEST),
    ] {
        put(&mut initial, &engine, &path, file, &first)?;
    }
    Ok(Host { generated, initial })
}

/// Whether code of a model can be what the operation computes: its tensors are of floating point, have the first one's dtype or
/// always the same, the first one is always there, and it writes to none.
fn is_injectable(plan: &HostPlan) -> bool {
    let [first, others @ ..] = plan.inputs.as_slice() else { return false };
    let is_alike =
        |other: &TensorPlan| other.is_float && (other.variable.is_none() || other.variable == first.variable);
    !plan.forward
        && !plan.outputs.is_empty()
        && plan.returned.len() == plan.outputs.len()
        && plan.outputs.iter().all(is_alike)
        && first.is_float
        && !first.optional
        && others.iter().all(is_alike)
        && plan.function != INJECTS
}

/// The function of a package that puts its operation into a model.
const INJECTS: &str = "inject";

/// The binding of the project's framework.
fn binding(
    set: &mut FileSet,
    engine: &Environment<'_>,
    identity: &Identity,
    variables: &Value,
) -> Result<(), ScaffoldError> {
    let framework = identity.framework;
    let folder = framework.folder();
    let (source, tensors) = match framework {
        Framework::Torch => {
            put(set, engine, &format!("{folder}/torch_binding.h"), TORCH_BINDING_HEADER, variables)?;
            (TORCH_BINDING, TORCH_TENSORS)
        }
        Framework::TvmFfi => {
            if identity.backends.iter().any(|backend| backend == "cpu") {
                set.insert(format!("{folder}/{}", PARALLEL.0), PARALLEL.1)?;
            }
            let operators = format!("{folder}/{}/{}.py", identity.module, framework.operators());
            put(set, engine, &operators, OPERATORS, variables)?;
            (TVM_FFI_BINDING, TVM_FFI_TENSORS)
        }
    };
    put(set, engine, framework.binding(), source, variables)?;
    set.insert(format!("{folder}/tensors.h"), tensors.1)?;
    set.insert(format!("{folder}/{}", ARGUMENTS.0), ARGUMENTS.1)
}

/// What a compiler reads.
pub(crate) fn is_source(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| ["h", "cuh", "cu", "cpp"].iter().any(|known| extension == *known))
}

/// The file's name without its folders.
fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Every backend of a project needs code for it.
fn check_backends(plan: &HostPlan, file: &str, identity: &Identity) -> Result<(), ScaffoldError> {
    for backend in &identity.backends {
        let section = match backend.as_str() {
            "cuda" if plan.launch.is_none() => "[launch]",
            "cpu" if plan.cpu.is_none() => "[cpu]",
            _ => continue,
        };
        let cause = HostError::Unsupported {
            what: format!("the backend `{backend}` is asked for and there is no {section}"),
        };
        return Err(ScaffoldError::Host { file: file.to_owned(), cause });
    }
    Ok(())
}

/// How autograd calls the backward operator, where `[gradient]` promises a gradient.
fn hang(
    op: &OpSpec,
    forward: &HostPlan,
    backward: Option<&HostPlan>,
) -> Result<Option<host::BackwardPlan>, ScaffoldError> {
    let Some(gradient) = &op.gradient else { return Ok(None) };
    let impossible = |problem: &'static str| {
        let cause = HostError::Gradient { problem };
        ScaffoldError::Host { file: "op.toml".to_owned(), cause }
    };
    let backward = backward.ok_or_else(|| impossible("there is no backward.toml that computes it"))?;
    if forward.outputs.iter().any(|output| output.inplace) {
        return Err(impossible("PyTorch takes none of an operation that overwrites an argument"));
    }
    let computed = |input: &str| {
        let name = forward.same_gradients.get(input).map_or(input, String::as_str);
        backward.outputs.iter().any(|output| output.name == format!("grad_{name}"))
    };
    if let Some(lacking) = gradient.inputs.iter().find(|input| !computed(input.value.as_str())) {
        let cause = HostError::NoGradient { input: lacking.value.to_string() };
        return Err(ScaffoldError::Host { file: "backward.toml".to_owned(), cause });
    }
    let hung = host::backward(forward, backward);
    hung.map(Some).map_err(|cause| ScaffoldError::Host { file: "backward.toml".to_owned(), cause })
}

fn engine() -> Result<Environment<'static>, ScaffoldError> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_syntax(template::syntax("host")?);
    engine.add_filter("lower_first", |text: String| {
        let mut letters = text.chars();
        letters.next().map(|first| first.to_lowercase().to_string() + letters.as_str()).unwrap_or_default()
    });
    for (name, text) in PARTS {
        engine
            .add_template(name, text.trim_end())
            .map_err(|cause| ScaffoldError::Render { file: name.to_owned(), cause })?;
    }
    Ok(engine)
}

fn put(
    set: &mut FileSet,
    engine: &Environment<'_>,
    path: &str,
    (name, text): (&str, &str),
    variables: &Value,
) -> Result<(), ScaffoldError> {
    let text = engine
        .render_str(text, variables)
        .map_err(|cause| ScaffoldError::Render { file: name.to_owned(), cause })?;
    set.insert(path, text)
}

#[cfg(test)]
mod tests;
