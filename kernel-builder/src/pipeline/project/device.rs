//! Device code of a project: kernels that `[launch]` of op.toml starts, without host code, so without a build either.
//!
//! Owns: reading op.toml alone, and which architectures the code is for. Never: compiles or judges.

use std::path::{Path, PathBuf};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::build::{Framework, Kernel};
use kernel_plan::spec::launch::Launch;
use kernel_plan::units::Capability;
use miette::Diagnostic;
use thiserror::Error;

use crate::agent::tuned::Settings;
use crate::base::session::Session;
use crate::base::{disk, env, files};
use crate::compile::nvrtc::Source;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::project::{self, OpFile};

/// The architectures that code is compiled for where build.toml names none.
const ARCHS: [&str; 4] = ["80", "90a", "100", "120"];
/// The name of a device candidate beside those of variants.
pub(crate) const NAME: &str = "device";

/// op.toml has no `[launch]`.
#[derive(Debug, Error, Diagnostic)]
#[error("`{}` has no [launch], which says how to start its device code", op.display())]
#[diagnostic(
    code(spec::no_launch),
    help(
        "add [launch] (docs/reference/op-toml.md has the keys); to judge a build, run `verify` or `bench` without \
         `--device`; to judge a region of [forward], name its own file: `verify --device DIR/NAME_1.toml`"
    )
)]
struct NoLaunch {
    op: PathBuf,
}

/// The source of device code is a link out of the project.
#[derive(Debug, Error, Diagnostic)]
#[error("`{name}` is a link to `{}`, which is outside of the project", real.display())]
#[diagnostic(
    code(verify::source_outside),
    help(
        "copy the file into the project: device code can include only files of the project and the toolkit"
    )
)]
struct SourceOutside {
    name: String,
    real: PathBuf,
}

impl StageError for SourceOutside {
    fn exit(&self) -> u8 {
        exit::SPEC
    }
}

impl StageError for NoLaunch {
    fn exit(&self) -> u8 {
        exit::SPEC
    }
}

/// A folder with an op.toml that says how device code is started.
pub(crate) struct DeviceProject {
    /// Its folder, absolute.
    pub(crate) dir: PathBuf,
    /// The file of `op`: `op.toml`, or the name of one beside it.
    pub(crate) op_name: String,
    /// op.toml, or the file beside it.
    pub(crate) op: OpSpec,
    /// The code.
    pub(crate) source: Source,
    /// What it is compiled for.
    pub(crate) archs: Vec<String>,
    /// The tunables of every call.
    pub(crate) settings: Settings,
}

/// Reads a folder or an op file, without what it is compiled for: sources that build.toml lists may be missing.
pub(crate) fn read_code(dir: &Path, session: &Session) -> Result<DeviceProject, Failure> {
    let file = OpFile::at(dir);
    let op = file.read("judge device code", session)?;
    let Some(launch) = &op.launch else { return Err(NoLaunch { op: file.path() }.into()) };
    let folder = env::absolute(&file.folder);
    let source = source(&folder, launch)?;
    let settings = Settings::defaults(&op);
    Ok(DeviceProject { dir: folder, op_name: file.name, op, source, archs: vec![], settings })
}

/// Reads a folder or an op file; a build.toml is needed for nothing but the architectures.
pub(crate) fn read(dir: &Path, session: &Session) -> Result<DeviceProject, Failure> {
    let project = read_code(dir, session)?;
    Ok(DeviceProject { archs: archs(&project.dir, session)?, ..project })
}

impl DeviceProject {
    /// Whether `op` is another file than the op.toml of the folder: what is kept of it has its operation's name.
    pub(crate) fn is_beside(&self) -> bool {
        self.op_name != "op.toml"
    }

    /// What its evidence is kept and told as. Device code of a file beside op.toml has its operation's name, too.
    pub(crate) fn title(&self) -> String {
        if self.is_beside() { format!("{NAME}-{}", self.op.name.value) } else { NAME.to_owned() }
    }
}

fn source(folder: &Path, launch: &Launch) -> Result<Source, Failure> {
    let path = folder.join(launch.source.value.as_str());
    let name = launch.source.value.to_string();
    // A link may lead out of the project, and what the compiler says quotes the source.
    let real = disk::real(&path);
    if files::exists(&path) && !real.starts_with(disk::real(folder)) {
        return Err(SourceOutside { name, real }.into());
    }
    let text = files::read_text(&path)?;
    let beside = path.parent().map(Path::to_owned);
    Ok(Source { text, name, include: beside.into_iter().collect(), root: Some(folder.to_owned()) })
}

/// The capabilities that build.toml lists for its CUDA kernels; the usual ones where it lists none, or is not there.
fn archs(folder: &Path, session: &Session) -> Result<Vec<String>, Failure> {
    let mut listed: Vec<String> = capabilities(folder, session)?.iter().map(|it| it.digits()).collect();
    listed.sort();
    listed.dedup();
    Ok(if listed.is_empty() { ARCHS.map(str::to_owned).to_vec() } else { listed })
}

/// The capabilities that build.toml lists for its CUDA kernels; none where it lists none, or is not there.
pub(crate) fn capabilities(folder: &Path, session: &Session) -> Result<Vec<Capability>, Failure> {
    let mut listed: Vec<Capability> = vec![];
    if files::exists(&folder.join("build.toml")) {
        let build = project::load(folder, session)?.build;
        let of_kernels = build.kernels.iter().flat_map(|kernel: &Kernel| &kernel.cuda_capabilities);
        let noarch = match &build.framework {
            Framework::TorchNoarch(noarch) => noarch.cuda_capabilities.as_slice(),
            _ => &[],
        };
        listed.extend(of_kernels.chain(noarch).map(|capability| capability.value));
    }
    listed.sort();
    listed.dedup();
    Ok(listed)
}
