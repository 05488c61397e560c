//! The header beside a listed binding belongs in the list too: builds that copy only what is listed miss it.
//!
//! Never: reads a source to see what it includes.

use crate::diagnostic::Problem;
use crate::spec::build::Framework;
use crate::spec::codes;
use crate::units::RelPath;

use crate::spec::project::Project;

/// What a header may end in.
const HEADERS: &[&str] = &["h", "hpp", "cuh"];

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let (src, section) = match &project.build.framework {
        Framework::Torch(torch) => (&torch.src, "torch"),
        Framework::TvmFfi(tvm_ffi) => (&tvm_ffi.src, "tvm-ffi"),
        Framework::TorchNoarch(_) => return Vec::new(),
    };
    let unlisted = src.iter().filter_map(|source| {
        let stem = source.as_str().strip_suffix(".cpp")?;
        let header = HEADERS.iter().find_map(|extension| {
            let header: RelPath = format!("{stem}.{extension}").parse().ok()?;
            project.files.contains(&header).then_some(header)
        })?;
        let listed = src.iter().any(|other| other.value == header);
        (!listed).then_some((source, header))
    });
    unlisted
        .map(|(source, header)| {
            Problem::warning(codes::UNLISTED_HEADER, format!("`{section}.src` does not list `{header}`"))
                .at(&project.build.file, &source.span, "its header is in the same folder")
                .help(format!(
                    "add \"{header}\" to `{section}.src`; a sandboxed build copies only the listed files"
                ))
        })
        .collect()
}
