//! The folders of header libraries that a person names, for every verb that builds.
//!
//! Owns: the options, and which libraries a toolkit's kernels ask for. Never: looks into a folder.

use std::path::PathBuf;

use clap::Args;
use kernel_plan::kit::LibraryKit;
use kernel_plan::spec::build::Dependency;
use kernel_plan::variant::{Toolkit, compiled_with};

use crate::base::env;
use crate::exit::Failure;
use crate::pipeline::project::Project;
use crate::toolchain::Supply;
use crate::toolchain::libraries::{self, Folders};

/// Where header libraries are, in place of the wheels that hold them.
#[derive(Debug, Clone, Args)]
pub(crate) struct LibraryDirs {
    /// Folder with a CUTLASS repository; can be repeated, once for each release
    #[arg(long, value_name = "DIR")]
    pub(crate) cutlass_dir: Vec<PathBuf>,
    /// Folder for an entry of `depends`, such as `sycl_tla=/opt/sycl-tla`
    #[arg(long, value_name = "NAME=DIR", value_parser = named)]
    pub(crate) dependency_dir: Vec<(Dependency, PathBuf)>,
}

fn named(text: &str) -> Result<(Dependency, PathBuf), String> {
    let (name, folder) = text.split_once('=').ok_or("write it as NAME=DIR")?;
    Ok((
        name.parse().map_err(|error: kernel_plan::units::UnitError| error.to_string())?,
        env::absolute(folder.as_ref()),
    ))
}

/// The header libraries of a project's kernels for one toolkit.
pub(crate) fn of(
    project: &Project,
    toolkit: Toolkit,
    dirs: &LibraryDirs,
    supply: &Supply<'_>,
) -> Result<Vec<LibraryKit>, Failure> {
    let kernels = project.build.kernels_of(toolkit.id()).filter(|kernel| compiled_with(kernel, toolkit));
    let mut wanted: Vec<Dependency> =
        kernels.flat_map(|kernel| kernel.depends.iter().map(|dependency| dependency.value)).collect();
    wanted.sort_by_key(|dependency| dependency.as_str());
    wanted.dedup();
    let mut cutlass = dirs.cutlass_dir.clone();
    if cutlass.is_empty() {
        let said = env::text(env::CUTLASS_DIR).unwrap_or_default();
        cutlass.extend(said.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from));
    }
    let folders = Folders { cutlass, named: dirs.dependency_dir.clone() };
    Ok(libraries::libraries(supply, &wanted, &folders)?)
}
