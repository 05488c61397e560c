//! Chooses the rows that a project is built for.
//!
//! Owns: the choice, and the decision on every row: what its users need, or everything that its sources can serve.
//! Never: looks at what this machine has installed; the provision says.

use std::collections::{BTreeMap, BTreeSet};

use crate::backend::backend_of;
use crate::diagnostic::Problem;
use crate::spec::BuildSpec;
use crate::spec::build::{self, Kernel};
use crate::units::{BackendId, Version};

use super::toolkit::compiled_with;
use super::{
    Abi, Compiled, Framework, Matrix, Missing, Provider, Provision, Refusal, Row, Toolkit, Torch, Variant,
    codes,
};

/// How many of the rows that the sources can serve are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What the users of a kernel need: with the stable ABI one build for all torch releases, each CUDA toolkit of the
    /// newest torch, and an older toolkit where no build of another one does the same.
    Needed,
    /// Every row that the sources can serve, whoever else serves its users.
    Everything,
}

/// One row with what was decided about it.
#[derive(Debug, Clone)]
pub struct Explained<'m> {
    /// The row.
    pub row: &'m Row,
    /// The decision.
    pub decision: Decision,
}

/// What becomes of a row for one project on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is built here, with the toolchain of this provider.
    Built(Provider),
    /// It is right for the project, and this is missing here.
    Elsewhere(Missing),
    /// It is not for the project.
    Out(Refusal),
}

/// The variants to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedVariants {
    /// Those that can be built here, in the order of the matrix; at least one.
    pub variants: Vec<Variant>,
    /// How many more are right for the project and cannot be built here.
    pub elsewhere: usize,
}

/// The rows of `matrix` that `spec` is built for where `provision` is what there is.
///
/// # Errors
/// No row is right, or none that is can be built here; the problem lists the reasons.
pub fn select(
    spec: &BuildSpec,
    matrix: &Matrix,
    provision: &Provision,
    extent: Extent,
) -> Result<SelectedVariants, Problem> {
    let explained = explain(spec, matrix, provision, extent);
    let built = |row: &Explained<'_>| matches!(row.decision, Decision::Built(_));
    let variants: Vec<_> =
        explained.iter().filter(|row| built(row)).map(|row| row.row.variant.value).collect();
    let elsewhere = explained.iter().filter(|row| matches!(row.decision, Decision::Elsewhere(_))).count();
    if !variants.is_empty() {
        return Ok(SelectedVariants { variants, elsewhere });
    }
    let name = &spec.general.name.value;
    let (code, message, help) = if elsewhere == 0 {
        (codes::NOTHING_SELECTED, format!("no variant matches `{name}`"), "reasons")
    } else {
        let message = format!("no variant of `{name}` can be built on this machine");
        (codes::NOT_BUILDABLE, message, "variants that match the project, and what is missing")
    };
    let told =
        explained.iter().filter(|row| elsewhere == 0 || matches!(row.decision, Decision::Elsewhere(_)));
    let reasons = reasons(told).join("\n");
    Err(Problem::error(code, message)
        .at(&spec.file, &spec.general.backends.span, "the backends of the project")
        .help(format!("{help}:\n{reasons}")))
}

/// Every reason once, with how many rows it keeps from being built and the first of them, in the order of the rows.
pub fn reasons<'e, 'm: 'e>(explained: impl IntoIterator<Item = &'e Explained<'m>>) -> Vec<String> {
    let mut groups: Vec<(String, usize, Variant)> = Vec::new();
    for row in explained {
        let reason = match &row.decision {
            Decision::Built(_) => continue,
            Decision::Elsewhere(missing) => missing.to_string(),
            Decision::Out(refusal) => refusal.to_string(),
        };
        match groups.iter_mut().find(|(known, _, _)| *known == reason) {
            Some((_, count, _)) => *count += 1,
            None => groups.push((reason, 1, row.row.variant.value)),
        }
    }
    let line = |(reason, count, first): (String, usize, Variant)| match count {
        1 => format!("{first}: {reason}"),
        _ => format!("{first} and {} more: {reason}", count - 1),
    };
    groups.into_iter().map(line).collect()
}

/// What is decided about every row of `matrix`, in file order.
pub fn explain<'m>(
    spec: &BuildSpec,
    matrix: &'m Matrix,
    provision: &Provision,
    extent: Extent,
) -> Vec<Explained<'m>> {
    let right: Vec<Option<Refusal>> =
        matrix.rows.iter().map(|row| refuse_alone(spec, &row.variant.value, extent)).collect();
    let judged: Vec<_> = matrix.rows.iter().map(|row| provision.judge(row)).collect();
    let candidates: Vec<(&Compiled, bool)> = matrix
        .rows
        .iter()
        .zip(&right)
        .zip(&judged)
        .filter(|((_, refusal), _)| extent == Extent::Needed && refusal.is_none())
        .filter_map(|((row, _), judged)| Some((row.variant.value.compiled()?, judged.is_ok())))
        .collect();
    let coverage = Coverage::new(spec, matrix);
    let rows = matrix.rows.iter().zip(right).zip(judged);
    rows.map(|((row, refusal), judged)| {
        let covered = || {
            let compiled = row.variant.value.compiled()?;
            // What can be built here is never left out for the sake of what cannot.
            let others = candidates.iter().filter(|(_, here)| *here || judged.is_err());
            let covers = others.map(|(other, _)| *other).filter(|other| coverage.covers(other, compiled));
            covers.min().map(|other| Refusal::Covered(Variant::Compiled(*other).id()))
        };
        let decision = match (refusal.or_else(covered), judged) {
            (Some(refusal), _) => Decision::Out(refusal),
            (None, Ok(provider)) => Decision::Built(provider),
            (None, Err(missing)) => Decision::Elsewhere(missing),
        };
        Explained { row, decision }
    })
    .collect()
}

/// What decides whether one build can stand for another.
struct Coverage {
    /// What is compiled with each toolkit.
    works: BTreeMap<Toolkit, Work>,
    /// The CUDA versions that the newest torch is published for. Each is built itself: who has it gets the code of its
    /// own compiler.
    current: BTreeSet<Version>,
}

impl Coverage {
    fn new(spec: &BuildSpec, matrix: &Matrix) -> Self {
        let toolkits: BTreeSet<_> =
            matrix.rows.iter().filter_map(|row| row.variant.value.toolkit()).collect();
        let works = toolkits.into_iter().map(|toolkit| (toolkit, work(spec, toolkit))).collect();
        let newest = matrix.torch_versions().last().copied();
        let current = matrix.rows.iter().map(|row| row.variant.value);
        let current = current.filter(|variant| variant.torch().map(|torch| torch.version) == newest);
        Self { works, current: current.filter_map(|variant| variant.cuda()).collect() }
    }

    /// Whether the build of `other` loads wherever the one of `row` would, and holds the same code: the client takes a
    /// stable build for an older torch, and a build for a lower minor version of the same CUDA.
    fn covers(&self, other: &Compiled, row: &Compiled) -> bool {
        if other == row || (other.cpu, other.os) != (row.cpu, row.os) {
            return false;
        }
        let framework = match (other.framework, row.framework) {
            (Framework::Torch(left), Framework::Torch(right)) if left.abi == Abi::Stable => {
                right.abi == Abi::Stable && left.version <= right.version
            }
            (left, right) => left == right,
        };
        let toolkit = match (other.toolkit, row.toolkit) {
            (left, right) if left == right => true,
            (Toolkit::Cuda(left), Toolkit::Cuda(right)) => {
                left.major == right.major
                    && left.minor < right.minor
                    && !self.current.contains(&right)
                    && self.works.get(&other.toolkit) == self.works.get(&row.toolkit)
            }
            _ => false,
        };
        framework && toolkit
    }
}

/// What is compiled with one toolkit: the kernel sections, each with the capabilities that it gets there.
type Work = Vec<(String, Vec<String>)>;

fn work(spec: &BuildSpec, toolkit: Toolkit) -> Work {
    let kernels = spec.kernels_of(toolkit.id()).filter(|kernel| compiled_with(kernel, toolkit));
    let capabilities = |kernel: &Kernel| {
        backend_of(toolkit).map(|backend| backend.capabilities(kernel, toolkit)).unwrap_or_default()
    };
    kernels.map(|kernel| (kernel.name.value.to_string(), capabilities(kernel))).collect()
}

/// Why a row is not for the project, whatever other rows there are.
fn refuse_alone(spec: &BuildSpec, variant: &Variant, extent: Extent) -> Option<Refusal> {
    let backend = variant.backend()?;
    if !spec.declares(backend) {
        return Some(Refusal::Undeclared(backend));
    }
    let compiled = match variant {
        Variant::Compiled(compiled) => compiled,
        Variant::Noarch(_) if matches!(spec.framework, build::Framework::TorchNoarch(_)) => return None,
        // Of a project with [torch], a backend without a kernel is Python alone.
        Variant::Noarch(_) if spec.torch().is_some() => {
            let compiled = spec.kernels_of(backend).next().is_some();
            return compiled.then_some(Refusal::HasKernel(backend));
        }
        Variant::Noarch(_) => return Some(Refusal::Framework("[tvm-ffi]", "Python alone")),
    };
    let framework = match (spec.torch(), &compiled.framework) {
        (Some(section), Framework::Torch(torch)) => {
            refuse_torch(section, *torch, compiled.toolkit.id(), extent)
        }
        (Some(_), Framework::TvmFfi(_)) => Some(Refusal::Framework("[torch]", "tvm-ffi")),
        (None, _) if matches!(spec.framework, build::Framework::TorchNoarch(_)) => {
            Some(Refusal::Framework("[torch-noarch]", "compiled code"))
        }
        (None, Framework::Torch(_)) => Some(Refusal::Framework("[tvm-ffi]", "torch")),
        (None, Framework::TvmFfi(_)) => None,
    };
    framework.or_else(|| refuse_kernels(spec, compiled))
}

/// What `[torch]` says about a row.
fn refuse_torch(section: &build::Torch, torch: Torch, backend: BackendId, extent: Extent) -> Option<Refusal> {
    match (torch.abi, section.stable_abi.as_ref().and_then(|abi| abi.floor(backend))) {
        (Abi::Full(_), Some(_)) if extent == Extent::Needed => return Some(Refusal::WantsStable(backend)),
        (Abi::Stable, None) => return Some(Refusal::WantsFull(backend)),
        // Sources that ask for the stable headers of a release do not compile with those of an older one either.
        (_, Some(floor)) if torch.version < floor => return Some(Refusal::BelowFloor(floor)),
        (_, Some(_)) | (Abi::Full(_), None) => {}
    }
    (!section.versions.contains(torch.version)).then_some(Refusal::TorchRange(torch.version))
}

/// What the kernel sections and `[general.cuda]` say about a row.
fn refuse_kernels(spec: &BuildSpec, compiled: &Compiled) -> Option<Refusal> {
    let backend = compiled.toolkit.id();
    if spec.kernels_of(backend).next().is_none() {
        return Some(Refusal::NoKernel(backend));
    }
    let Toolkit::Cuda(cuda) = compiled.toolkit else { return None };
    if !spec.general.cuda.contains(cuda) {
        return Some(Refusal::CudaRange(cuda));
    }
    let left = spec.kernels_of(BackendId::Cuda).any(|kernel| compiled_with(kernel, compiled.toolkit));
    if left {
        return None;
    }
    let least = spec.kernels_of(BackendId::Cuda).filter_map(|kernel| kernel.cuda_minver.as_ref());
    least.map(|least| least.value).min().map(Refusal::CudaMinver)
}
