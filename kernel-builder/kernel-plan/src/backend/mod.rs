//! What each backend means: its compiler lines, its libraries, its macros.
//!
//! Owns: the decision which command builds which source of a variant.
//! Never: runs a command, looks whether a file exists.

use crate::kit::Toolchain;
use crate::plan::{Unit, VariantPlan};
use crate::spec::Spanned;
use crate::spec::build::{self, BuildSpec, Kernel};
use crate::units::{BackendId, RelPath};
use crate::variant::{Framework, Noarch, Toolkit, Variant, compiled_with};

mod cpu;
mod cuda;
mod darwin;
mod host_command;
mod interface;
mod link;
mod metal;
mod rocm;
mod sections;
mod source;
mod units;
mod xpu;

use interface::is_device;
use units::Units;

pub use cpu::Cpu;
pub use cuda::Cuda;
pub use interface::{Backend, Link};
pub use metal::Metal;
pub use rocm::Rocm;
pub use source::{Source, Translated};
pub use units::Naming;
pub use xpu::Xpu;

/// Every backend that can be built, in the order in which build.toml's documentation lists them.
pub const BACKENDS: &[&dyn Backend] = &[&Cpu, &Cuda, &Metal, &Rocm, &Xpu];

/// Plans one variant: every unit and the link, in the order of build.toml. `None`: nothing here compiles it.
///
/// `python` are the files of the Python package, relative to the project. Nothing is looked up on disk; the commands
/// run in the project's folder.
pub fn plan(
    spec: &BuildSpec,
    variant: &Variant,
    kit: &Toolchain,
    naming: &Naming<'_>,
    python: Vec<RelPath>,
) -> Option<VariantPlan> {
    let compiled = variant.compiled()?;
    let (framework, toolkit, os) = (compiled.framework, compiled.toolkit, compiled.os);
    let backend = backend_of(toolkit)?;
    let id = variant.id();
    let folder = format!(".kernelwright/objects/{id}");
    let kernels: Vec<&Kernel> =
        spec.kernels_of(backend.id()).filter(|kernel| compiled_with(kernel, toolkit)).collect();
    let joined = sections::sources(&kernels);
    let sources = sections::with_binding(spec.framework.src(), &joined, |path| compiles(backend, path));
    let paths: Vec<&RelPath> = sources.iter().map(|(path, _)| *path).collect();
    let units = Units {
        spec,
        compiled,
        kit,
        backend,
        naming,
        kernels: &kernels,
        folder: &folder,
        common: units::common_flags(framework, backend, kit, &paths),
        stems: sections::stems(paths),
    };
    let prepare = units.prepare(&sources).into_iter().collect();
    let units: Vec<Unit> = sources.iter().map(|(path, kernel)| units.unit(path, *kernel)).collect();
    let (capabilities, left_out) = reached(backend, &kernels, toolkit, kit);
    let extension = naming.extension;
    let library = match framework {
        Framework::Torch(_) => format!("{extension}.abi3.so"),
        // Opened by tvm_ffi, and no module of Python.
        Framework::TvmFfi(_) => format!("{extension}.so"),
    };
    let before_link = backend.before_link(&units, &format!("{folder}/device"), kit);
    let made = before_link.last().map(|step| step.output.clone());
    let objects: Vec<String> = units
        .iter()
        .map(|unit| unit.linked().to_owned())
        .filter(|object| object.ends_with(".o"))
        .chain(made)
        .collect();
    let link = backend.link(&Link { objects: &objects, output: &format!("{folder}/{library}"), kit, os });
    let cuda = kit.cuda.as_ref().filter(|_| backend.id() == BackendId::Cuda);
    Some(VariantPlan {
        variant: *variant,
        backend: backend.id(),
        id: id.to_string(),
        package: package(spec),
        extension: extension.to_owned(),
        library,
        prepare,
        units,
        before_link,
        link: Some(link),
        python,
        capabilities,
        route: cuda.map(|cuda| cuda.route(&left_out)),
    })
}

/// Capabilities of all sections: those that the toolchain generates code for, and those that it does not.
fn reached(
    backend: &dyn Backend,
    kernels: &[&Kernel],
    toolkit: Toolkit,
    kit: &Toolchain,
) -> (Vec<String>, Vec<String>) {
    let mut capabilities: Vec<String> =
        kernels.iter().flat_map(|kernel| backend.capabilities(kernel, toolkit)).collect();
    capabilities.sort();
    capabilities.dedup();
    let cuda = kit.cuda.as_ref().filter(|_| backend.id() == BackendId::Cuda);
    let reached =
        |text: &String| cuda.is_none_or(|cuda| text.parse().is_ok_and(|capability| cuda.reaches(capability)));
    capabilities.into_iter().partition(reached)
}

/// Whether a file of `src` is compiled, and does not only travel along.
fn compiles(backend: &dyn Backend, path: &RelPath) -> bool {
    path.extension().is_some_and(|ending| HOST_ENDINGS.contains(&ending)) || is_device(backend, path)
}

/// Plans a variant of Python only: nothing is run, and its files are the package. `None`: the variant is compiled.
///
/// The `extension` is the name under which such a variant registers operators, where it does.
pub fn plan_python(
    spec: &BuildSpec,
    variant: &Variant,
    extension: &str,
    python: Vec<RelPath>,
) -> Option<VariantPlan> {
    let Variant::Noarch(Noarch::For(backend)) = *variant else { return None };
    let mut capabilities = match (&spec.framework, backend) {
        (build::Framework::TorchNoarch(noarch), BackendId::Cuda) => texts(&noarch.cuda_capabilities),
        (build::Framework::TorchNoarch(noarch), BackendId::Rocm) => texts(&noarch.rocm_archs),
        _ => Vec::new(),
    };
    capabilities.sort();
    capabilities.dedup();
    Some(VariantPlan {
        variant: *variant,
        backend,
        id: variant.id().to_string(),
        package: package(spec),
        extension: extension.to_owned(),
        library: String::new(),
        prepare: Vec::new(),
        units: Vec::new(),
        before_link: Vec::new(),
        link: None,
        python,
        capabilities,
        route: None,
    })
}

fn texts<T: ToString>(values: &[Spanned<T>]) -> Vec<String> {
    values.iter().map(|value| value.value.to_string()).collect()
}

/// The folder of the project that becomes the Python package.
fn package(spec: &BuildSpec) -> String {
    format!("{}/{}", spec.framework.folder(), spec.general.name.module())
}

/// The backend of a toolkit; `None`: nothing here compiles with it.
pub(crate) fn backend_of(toolkit: Toolkit) -> Option<&'static dyn Backend> {
    BACKENDS.iter().copied().find(|backend| backend.id() == toolkit.id())
}

/// Endings of the sources that every backend compiles; headers are listed in `src` so that they travel with the
/// project.
const HOST_ENDINGS: &[&str] = &["cpp", "cc", "cxx", "c"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_has_every_file() {
        let names: Vec<&str> = BACKENDS.iter().map(|backend| backend.id().as_str()).collect();
        assert_eq!(names, ["cpu", "cuda", "metal", "rocm", "xpu"]);
    }
}
