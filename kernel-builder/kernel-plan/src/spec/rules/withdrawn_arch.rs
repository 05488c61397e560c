//! An architecture of AMD's that its compiler has lost: it is left out, and there are no GPUs that miss it.
//!
//! Never: judges one that the compiler never had; the compiler says so.

use crate::diagnostic::Problem;
use crate::spec::build::Kernel;
use crate::spec::{Spanned, codes, hipcc};
use crate::units::{BackendId, RocmArch};

use crate::spec::project::Project;

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    project.build.kernels_of(BackendId::Rocm).flat_map(|kernel| judge(project, kernel)).collect()
}

fn judge(project: &Project<'_>, kernel: &Kernel) -> Vec<Problem> {
    let file = &project.build.file;
    let withdrawn: Vec<_> = kernel.rocm_archs.iter().filter(|arch| !hipcc::compiles(&arch.value)).collect();
    if let (Some(first), true) = (withdrawn.first(), withdrawn.len() == kernel.rocm_archs.len()) {
        let message = format!("no architecture of kernel `{}` is supported by ROCm 7", kernel.name.value);
        let problem = Problem::error(codes::WITHDRAWN_ARCH, message).at(
            file,
            &first.span,
            "no other architecture is listed",
        );
        return vec![problem.help("write \"gfx942\"")];
    }
    let warn = |arch: &&Spanned<RocmArch>| {
        let message = format!("`{}` was never sold, and ROCm 7 does not support it", arch.value);
        Problem::warning(codes::WITHDRAWN_ARCH, message)
            .at(file, &arch.span, "ignored")
            .help("remove it; the GPUs that were sold use \"gfx942\"")
    };
    withdrawn.iter().map(warn).collect()
}
