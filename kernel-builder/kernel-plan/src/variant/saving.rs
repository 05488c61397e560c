//! What torch's stable ABI would save a project that does without it.
//!
//! Owns: counting the builds with and without. Never: says whether the sources allow it; `spec::full_abi` does.

use serde::Serialize;

use crate::spec::build::{Framework, StableAbi};
use crate::spec::{BuildSpec, Spanned};
use crate::units::{BackendId, Version};

use super::{Decision, Extent, Matrix, Provision, explain};

/// The builds of one backend that users of machines like this one need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Saving {
    /// As the project is: one for each torch.
    pub builds: usize,
    /// The oldest torch that it is built for, which the stable ABI would be asked of.
    pub floor: Version,
    /// With the stable ABI from there on.
    pub stable: usize,
}

/// What the stable ABI would save for one backend. `None`: the project has it there, or compiles nothing for torch there.
pub fn saving(
    spec: &BuildSpec,
    matrix: &Matrix,
    provision: &Provision,
    backend: BackendId,
) -> Option<Saving> {
    let section = spec.torch()?;
    if section.stable_abi.as_ref().is_some_and(|abi| abi.floor(backend).is_some()) {
        return None;
    }
    let floor = matrix.torch_versions().into_iter().find(|version| section.versions.contains(*version))?;
    let mut stable = spec.clone();
    if let Framework::Torch(torch) = &mut stable.framework {
        torch.stable_abi = Some(StableAbi::All(Spanned::new(floor, 0..0)));
    }
    let count = |spec: &BuildSpec| {
        let explained = explain(spec, matrix, provision, Extent::Needed);
        let wanted = explained.iter().filter(|row| {
            let compiled = row.row.variant.compiled();
            compiled.is_some_and(|compiled| {
                compiled.toolkit.id() == backend
                    && (compiled.cpu, compiled.os) == (provision.cpu, provision.os)
                    && !matches!(row.decision, Decision::Out(_))
            })
        });
        wanted.count()
    };
    let saving = Saving { builds: count(spec), floor, stable: count(&stable) };
    (saving.builds > 0).then_some(saving)
}
