//! Which torch a build is for, and how few of them serve many builds.
//!
//! Owns: what a build asks of a torch, the choice among those that serve here. Never: fetches one, runs anything.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use kernel_plan::units::{BackendId, Version};
use kernel_plan::variant::{Abi, Framework, Noarch, Toolkit, Torch, Variant};

use crate::compile::artifact::Artifact;
use crate::toolchain::python::{self, TorchBuild};

/// The code of checks that were skipped because the judge has a torch that the build is not for.
pub const OTHER_TORCH: &str = "verify::other_torch";

/// Whether a variant is for a torch, `torch.__version__`: the full ABI is for one release, the stable one for that
/// release and later ones; the CUDA runtime that torch brings must be of the same major version. What is for no torch in
/// particular is for all.
pub fn suits(variant: &str, torch: &str) -> bool {
    let variant = variant.parse::<Variant>().ok();
    if let Some(built) = variant.and_then(|variant| variant.cuda()) {
        match (python::cuda_of(torch), torch.split_once('+')) {
            (Some(there), _) if there.major != built.major => return false,
            (None, Some((_, "cpu"))) => return false,
            _ => {}
        }
    }
    let needs = variant.and_then(|variant| variant.torch());
    let (Some(needs), Some(there)) = (needs, python::line_of(torch)) else { return true };
    takes(there, needs)
}

/// Whether a release of torch takes what is built for one: the full ABI is its own, the stable one that of all later ones.
fn takes(there: Version, needs: Torch) -> bool {
    match needs.abi {
        Abi::Stable => there >= needs.version,
        Abi::Full(_) => there == needs.version,
    }
}

/// Why no torch serves a build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoTorch {
    /// The name of the build is none of a variant.
    #[error("its name is not that of a variant")]
    UnknownVariant,
    /// No wheel of torch is for the backend.
    #[error("the package index has no torch for {0}")]
    Backend(String),
    /// The release is unknown here, or has no wheel for this Python.
    #[error("the package index has no such torch for this Python, or this version does not know it")]
    Release,
    /// The only wheel of the release is for another CUDA.
    #[error("torch {line} of the package index is built for CUDA {cuda}, which does not support {toolkit}")]
    Index {
        /// The release.
        line: Version,
        /// What it is built for.
        cuda: Version,
        /// What the build needs.
        toolkit: String,
    },
    /// The torch of this machine is for something else.
    #[error("torch {line} here does not support {toolkit}")]
    Here {
        /// The release.
        line: Version,
        /// What the build needs.
        toolkit: String,
    },
    /// None of several.
    #[error("no torch from {first} on that runs here supports {toolkit}")]
    Several {
        /// The oldest.
        first: Version,
        /// What the build needs.
        toolkit: String,
    },
}

/// Those of `builds` that an artifact is for and whose CUDA the client takes it for, oldest first; or why none is.
/// `builds` are in that order.
///
/// # Errors
/// What the artifact wants and no torch has, as the end of a sentence.
pub fn serving(artifact: &Artifact, builds: &[TorchBuild]) -> Result<Vec<Version>, NoTorch> {
    let variant: Variant = artifact.variant.parse().map_err(|_| NoTorch::UnknownVariant)?;
    let framework = variant.compiled().map(|compiled| compiled.framework);
    let of_torch = |build: &&TorchBuild| match framework {
        Some(Framework::Torch(torch)) => takes(build.line, torch),
        Some(Framework::TvmFfi(_)) | None => true,
    };
    let of_torch: Vec<&TorchBuild> = builds.iter().filter(of_torch).collect();
    let for_cuda = |own: Version| {
        let runs = |cuda: Version| cuda.major == own.major && cuda.minor >= own.minor;
        of_torch.iter().filter(|build| build.cuda.is_some_and(runs)).map(|build| build.line).collect()
    };
    let lines: Vec<Version> = match (variant, variant.toolkit()) {
        (_, Some(Toolkit::Cuda(own))) => for_cuda(own),
        (_, Some(Toolkit::Cpu)) | (Variant::Noarch(Noarch::For(BackendId::Cpu | BackendId::Cuda)), _) => {
            of_torch.iter().map(|build| build.line).collect()
        }
        _ => return Err(NoTorch::Backend(artifact.backend.clone())),
    };
    if !lines.is_empty() {
        return Ok(lines);
    }
    let toolkit = variant.toolkit().map_or_else(|| artifact.backend.clone(), |toolkit| toolkit.to_string());
    Err(match of_torch.as_slice() {
        [] => NoTorch::Release,
        [TorchBuild { line, cuda: Some(cuda), installed: false }] => {
            NoTorch::Index { line: *line, cuda: *cuda, toolkit }
        }
        [TorchBuild { line, .. }] => NoTorch::Here { line: *line, toolkit },
        [first, ..] => NoTorch::Several { first: first.line, toolkit },
    })
}

/// A torch for each of several builds, of as few as serve them all: the installed one where it serves, and else of those
/// that serve most the oldest. `served` has for each build the torches that it is for, oldest first; without any it gets
/// none.
pub fn fewest(served: &[Vec<Version>], installed: Option<Version>) -> Vec<Option<Version>> {
    let alone = served.iter().filter_map(|lines| match lines.as_slice() {
        [only] => Some(*only),
        _ => None,
    });
    let mut chosen: BTreeSet<Version> = alone.chain(installed).collect();
    loop {
        let open = || served.iter().filter(|lines| !lines.iter().any(|line| chosen.contains(line)));
        let count = |line: &Version| open().filter(|lines| lines.contains(line)).count();
        let wanted: BTreeSet<Version> = open().flatten().copied().collect();
        let Some(best) = wanted.into_iter().max_by_key(|line| (count(line), Reverse(*line))) else { break };
        chosen.insert(best);
    }
    let choose = |lines: &Vec<Version>| {
        let installed = installed.filter(|line| lines.contains(line));
        installed.or_else(|| lines.iter().find(|line| chosen.contains(line)).copied())
    };
    served.iter().map(choose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Digest;

    #[test]
    fn a_build_is_for_its_torch() {
        for (variant, torch, want) in [
            ("torch-stable-abi211-cpu-x86_64-linux", "2.11.0+cpu", true),
            ("torch-stable-abi211-cpu-x86_64-linux", "2.15.0+cu132", true),
            ("torch-stable-abi212-cpu-x86_64-linux", "2.11.0", false),
            ("torch212-cxx11-cpu-x86_64-linux", "2.12.1+cu130", true),
            ("torch212-cxx11-cpu-x86_64-linux", "2.13.0+cu130", false),
            ("torch-stable-abi210-cu130-x86_64-linux", "2.10.0+cu128", false),
            ("torch-stable-abi210-cu126-x86_64-linux", "2.10.0+cu128", true),
            ("torch-stable-abi212-cu132-x86_64-linux", "2.15.0+cu130", true),
            ("torch-stable-abi210-cu130-x86_64-linux", "2.11.0+cpu", false),
            ("torch-stable-abi210-cu130-x86_64-linux", "2.11.0", true),
            ("tvm-ffi01-cpu-x86_64-linux", "2.13.0", true),
            ("torch-cuda", "2.13.0", true),
        ] {
            assert_eq!(suits(variant, torch), want, "{variant} {torch}");
        }
    }

    fn artifact(variant: &str) -> Artifact {
        let backend = ["cpu", "cuda", "rocm"].into_iter().find(|backend| variant.contains(backend));
        Artifact {
            variant: variant.to_owned(),
            backend: backend.unwrap_or("cuda").to_owned(),
            dir: "artifact".into(),
            id: "_norm_0".to_owned(),
            library: None,
            capabilities: vec![],
            digest: Digest::blake3(b"artifact"),
            commit: None,
            tools: Default::default(),
            outside: vec![],
        }
    }

    fn build(line: (u32, u32), cuda: Option<(u32, u32)>, installed: bool) -> TorchBuild {
        let version = |(major, minor)| Version::new(major, minor);
        TorchBuild { line: version(line), cuda: cuda.map(version), installed }
    }

    fn index() -> Vec<TorchBuild> {
        let cuda = [(10, (12, 8)), (11, (13, 0)), (12, (13, 0)), (13, (13, 0)), (14, (13, 0)), (15, (13, 2))];
        cuda.into_iter().map(|(minor, cuda)| build((2, minor), Some(cuda), false)).collect()
    }

    fn torches(variants: &[&str], builds: &[TorchBuild]) -> Vec<String> {
        let served: Vec<Vec<Version>> =
            variants.iter().map(|variant| serving(&artifact(variant), builds).unwrap_or_default()).collect();
        let installed = builds.iter().find(|build| build.installed).map(|build| build.line);
        let chosen = fewest(&served, installed);
        chosen.into_iter().map(|line| line.map_or_else(String::new, |line| line.to_string())).collect()
    }

    #[test]
    fn few_torches_serve_many_builds() {
        let needed = [
            "torch-stable-abi210-cpu-x86_64-linux",
            "torch-stable-abi210-cu126-x86_64-linux",
            "torch-stable-abi210-cu130-x86_64-linux",
        ];
        assert_eq!(torches(&needed, &index()), ["2.10", "2.10", "2.11"]);
        let newer = "torch-stable-abi211-cu132-x86_64-linux";
        assert_eq!(torches(&[&needed[..], &[newer]].concat(), &index()), ["2.10", "2.10", "2.15", "2.15"]);
        // A full ABI has one torch, and the others share it.
        let full = "torch213-cxx11-cpu-x86_64-linux";
        assert_eq!(torches(&[needed[0], needed[2], full], &index()), ["2.13", "2.13", "2.13"]);
        assert_eq!(torches(&["torch-cuda", "torch211-cxx11-rocm71-x86_64-linux"], &index()), ["2.10", ""]);
    }

    #[test]
    fn an_installed_torch_is_preferred_where_it_serves() {
        let mut builds = index();
        builds[3] = build((2, 13), None, true);
        let variants = ["torch-stable-abi210-cpu-x86_64-linux", "torch-stable-abi210-cu130-x86_64-linux"];
        assert_eq!(torches(&variants, &builds), ["2.13", "2.11"]);
        assert_eq!(torches(&variants[..1], &index()), ["2.10"]);
    }

    #[test]
    fn what_no_torch_is_for_says_why() {
        let why = |variant: &str| serving(&artifact(variant), &index()).expect_err(variant).to_string();
        let other = why("torch212-cxx11-cu126-x86_64-linux");
        assert_eq!(
            other,
            "torch 2.12 of the package index is built for CUDA 13.0, which does not support cu126"
        );
        let none = why("torch-stable-abi211-cu126-x86_64-linux");
        assert_eq!(none, "no torch from 2.11 on that runs here supports cu126");
        assert!(why("torch211-cxx11-rocm71-x86_64-linux").ends_with("no torch for rocm"));
        assert!(why("torch29-cxx11-cpu-x86_64-linux").contains("no such torch"));
    }
}
