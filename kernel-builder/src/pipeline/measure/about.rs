//! What a record says of a candidate beside its times: sources, flags, machine code.
//!
//! Owns: which files of a project make a claim. Never: measures.

use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files;
use crate::bench::{About, Candidate};
use crate::compile::artifact::Artifact;
use crate::exit::Failure;
use crate::pipeline::project::Project;

/// What is known of a built variant before it is measured.
pub(crate) fn of(project: &Project, artifact: &Artifact) -> Result<About, Failure> {
    let flags = project
        .build
        .kernels
        .iter()
        .filter(|kernel| kernel.backend.value.to_string() == artifact.backend)
        .flat_map(|kernel| {
            [&kernel.cxx_flags, &kernel.cuda_flags, &kernel.hip_flags, &kernel.sycl_flags]
                .into_iter()
                .flatten()
        })
        .chain(project.build.framework.cxx_flags());
    let mut own: Vec<String> = Vec::new();
    for flag in flags {
        // Of several sections that say the same, one is told.
        if !own.contains(&flag.value) {
            own.push(flag.value.clone());
        }
    }
    let source = source(project, &artifact.backend)?;
    let candidate = Candidate::of_artifact(artifact, Some(source), own);
    Ok(About { candidate: Some(candidate), ..About::default() })
}

/// The digest over what makes a claim about a backend: build.toml, op.toml with its reference, the sources of that
/// backend and of the binding, and the Python that is shipped. Tests, cards and benchmarks are no part of it.
pub(crate) fn source(project: &Project, backend: &str) -> Result<Digest, Failure> {
    let kernels = project.build.kernels.iter().filter(|kernel| kernel.backend.value.to_string() == backend);
    let listed = kernels.flat_map(|kernel| &kernel.src).chain(project.build.framework.src());
    let mut names: Vec<String> = listed.map(|path| path.value.as_str().to_owned()).collect();
    names.extend(project.python_files().iter().map(|path| path.as_str().to_owned()));
    names.push("build.toml".to_owned());
    if let Some(op) = &project.op {
        names.extend(["op.toml".to_owned(), op.reference.file.value.as_str().to_owned()]);
    }
    names.sort();
    names.dedup();
    let mut builder = DigestBuilder::new("claim-1");
    for name in names {
        builder = builder.field(&name, files::read(&project.dir.join(&name))?);
    }
    Ok(builder.finish())
}
