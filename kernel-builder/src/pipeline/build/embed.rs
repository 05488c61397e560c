//! Compiles the device code of operations into a folder, with a Rust module that starts it.
//!
//! Published kernels join them with the code of their packages.
//!
//! Owns: the architectures, what is compiled side by side, the names of the files, which files a result depends on.
//! Never: writes outside of the folder; says how a program includes it (`kernelwright-build` does).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kernel_plan::host::rust::{self, RustPlan};
use kernel_plan::units::{Capability, CapabilitySuffix};
use miette::Diagnostic;
use thiserror::Error;

use crate::base::files;
use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{env, interrupt};
use crate::compile::nvrtc::{Compiler, Cubin, Form, NvrtcError, Source, Tool, Unit};
use crate::exit::{self, Failure, StageError};
use crate::pipeline::build::published::{self, Dependency, Lock, PublishedOp, Wanted};
use crate::pipeline::create::generate;
use crate::pipeline::judge;
use crate::pipeline::project::OpFile;
use crate::pipeline::project::device;
use crate::scaffold::ScaffoldError;
use crate::scaffold::launchers::{self, Image};

/// The architectures of a project whose build.toml names none: those of the usual GPUs, and PTX for later ones.
const USUAL: [&str; 4] = ["8.0", "9.0", "10.0", "12.0+PTX"];
/// The module that includes those of all operations.
pub(crate) const MODULE: &str = "kernels.rs";

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    /// Folders with an op.toml, or files of that format.
    pub(crate) kernels: Vec<PathBuf>,
    /// Published kernels.
    pub(crate) dependencies: Vec<Dependency>,
    /// Their lock file.
    pub(crate) lock: PathBuf,
    /// The folder for the results.
    pub(crate) out: PathBuf,
    /// For which GPUs; those of build.toml if none are named.
    pub(crate) archs: Vec<Capability>,
    /// The compiler.
    pub(crate) tool: Tool,
    /// Whether code is compiled.
    pub(crate) code: Code,
}

/// The content of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Machine code and PTX.
    Compiled,
    /// None: every call is refused. For documentation, and for machines without a compiler.
    Stubs,
}

/// The result.
#[derive(Debug, Default)]
pub(crate) struct Embedded {
    /// The files that were made, in the folder.
    pub(crate) files: Vec<String>,
    /// Files and folders that the result depends on, absolute.
    pub(crate) reads: BTreeSet<PathBuf>,
    /// Bytes of machine code and PTX.
    pub(crate) bytes: u64,
    /// Operations, in the order of the request.
    pub(crate) ops: Vec<String>,
}

/// Why something cannot be embedded.
#[derive(Debug, Error, Diagnostic)]
enum EmbedError {
    /// Two operations would be one module.
    #[error("two kernels are called `{op}`: {first} and {second}")]
    #[diagnostic(
        code(compile::same_op),
        help("change `name` in one op.toml; each one becomes a Rust module of that name")
    )]
    SameOp { op: String, first: String, second: String },
    /// PTX that no later GPU runs.
    #[error("`{capability}` adds PTX that does not run on any later GPU")]
    #[diagnostic(
        code(compile::bound_ptx),
        help(
            "write `{plain}+PTX`: PTX with the suffix `{suffix}` runs only on the GPUs of its machine code"
        )
    )]
    BoundPtx { capability: Capability, plain: String, suffix: &'static str },
}

impl StageError for EmbedError {
    fn exit(&self) -> u8 {
        exit::COMPILE
    }
}

/// One operation.
struct Kernel {
    plan: RustPlan,
    /// op.toml, as the request named it.
    file: PathBuf,
    source: Source,
    targets: Vec<(Capability, Form)>,
}

/// One compilation: the places of operation, part and target.
type Place = (usize, usize, usize);

/// Compiles the operations and writes their modules.
///
/// # Errors
/// An operation that no module can be generated for, or device code that does not compile.
pub(crate) fn embed(request: &Request, session: &Session) -> Result<Embedded, Failure> {
    let mut embedded = Embedded::default();
    let mut kernels: Vec<Kernel> = vec![];
    for path in &request.kernels {
        kernels.push(read(path, request, &mut embedded, session)?);
    }
    let published = published(request, &mut embedded, session)?;
    let own = kernels.iter().map(|kernel| (&kernel.plan.op, kernel.file.display().to_string()));
    different(own.chain(published.iter().map(|one| (&one.plan.op, one.origin.clone()))))?;
    // Before anything is compiled: a file may be in the way.
    files::create_dirs(&request.out)?;
    let images = match request.code {
        // Published kernels alone need no compiler.
        Code::Compiled if !kernels.is_empty() => compile(&kernels, request, session)?,
        Code::Compiled | Code::Stubs => BTreeMap::new(),
    };
    let mut whole = String::new();
    for (place, kernel) in kernels.iter().enumerate() {
        let mut listed = vec![];
        for ((_, part, target), cubin) in images.iter().filter(|((of, ..), _)| *of == place) {
            let target = kernel.targets[*target];
            let image = image(&kernel.plan.op, *part, target, &cubin.names);
            embedded.bytes += write(&request.out, &image, target.1, files::read(&cubin.path)?)?;
            embedded.files.push(image.file.clone());
            listed.push(image);
        }
        let file = kernel.file.file_name().unwrap_or_default().to_string_lossy();
        whole += &launchers::render(&kernel.plan, &file, &listed)?;
        embedded.ops.push(kernel.plan.op.clone());
    }
    for PublishedOp { plan, origin, code } in published {
        let mut listed = vec![];
        for one in code {
            let image = image(&plan.op, one.part, one.target, &one.names);
            embedded.bytes += write(&request.out, &image, one.target.1, one.bytes)?;
            embedded.files.push(image.file.clone());
            listed.push(image);
        }
        whole += &launchers::render(&plan, &origin, &listed)?;
        embedded.ops.push(plan.op);
    }
    // Written if it is another one, so that cargo does not compile the crate anew for nothing.
    files::write_if_changed(&request.out.join(MODULE), whole)?;
    embedded.files.push(MODULE.to_owned());
    remove_stale(&request.out, &embedded.files)?;
    Ok(embedded)
}

/// The operations of published kernels.
fn published(
    request: &Request,
    embedded: &mut Embedded,
    session: &Session,
) -> Result<Vec<PublishedOp>, Failure> {
    if request.dependencies.is_empty() {
        return Ok(vec![]);
    }
    embedded.reads.insert(request.lock.clone());
    let lock = Lock::read(&request.lock)?;
    let wanted = if request.code == Code::Stubs { Wanted::Functions } else { Wanted::Code };
    let mut found = vec![];
    for dependency in &request.dependencies {
        let ops =
            published::operations(dependency, (&lock, &request.lock), wanted, &mut embedded.reads, session)?;
        for op in ops.iter().filter(|_| wanted == Wanted::Code) {
            let targets: Vec<(Capability, Form)> = op.code.iter().map(|one| one.target).collect();
            let missing: Vec<String> =
                request.archs.iter().filter(|arch| !serves(&targets, **arch)).map(|it| it.number()).collect();
            if !missing.is_empty() {
                session.report.warn(format!("{} has no code for {}", op.origin, missing.join(", ")));
            }
        }
        found.extend(ops);
    }
    Ok(found)
}

/// Whether a GPU of a capability runs some of this code, as the runtime chooses it.
fn serves(targets: &[(Capability, Form)], gpu: Capability) -> bool {
    targets.iter().any(|(target, form)| match (form, target.suffix) {
        (Form::Ptx, _) => (target.major, target.minor) <= (gpu.major, gpu.minor),
        (Form::Cubin, CapabilitySuffix::A) => (target.major, target.minor) == (gpu.major, gpu.minor),
        (Form::Cubin, _) => target.major == gpu.major && target.minor <= gpu.minor,
    })
}

/// That no two operations have one name.
fn different<'a>(ops: impl Iterator<Item = (&'a String, String)>) -> Result<(), EmbedError> {
    let mut known: BTreeMap<&String, String> = BTreeMap::new();
    for (op, origin) in ops {
        if let Some(first) = known.insert(op, origin.clone()) {
            return Err(EmbedError::SameOp { op: op.clone(), first, second: origin });
        }
    }
    Ok(())
}

fn read(
    path: &Path,
    request: &Request,
    embedded: &mut Embedded,
    session: &Session,
) -> Result<Kernel, Failure> {
    let project = device::read_code(path, session)?;
    let file = project.dir.join(&project.op_name);
    let targets = targets(&project.dir, request, session)?;
    let settings = generate::measured(&OpFile::at(path).path(), &project.op, session)?;
    let plan = rust::plan(&project.op, &settings)
        .map_err(|cause| ScaffoldError::Host { file: file.display().to_string(), cause })?;
    let inside = |name: &str| project.dir.join(name);
    embedded.reads.insert(file.clone());
    embedded.reads.insert(inside(&project.source.name));
    // They may not exist yet; the result changes if they are added.
    embedded.reads.extend([inside("build.toml"), inside("tuned")]);
    for (name, _) in project.source.headers()? {
        let places =
            project.source.include.iter().chain(&project.source.root).map(|folder| folder.join(&name));
        embedded.reads.extend(places.filter(|place| files::exists(place)));
    }
    Ok(Kernel { plan, file, source: project.source, targets })
}

/// The targets: machine code for every capability, and PTX if one of them asks for it.
fn targets(folder: &Path, request: &Request, session: &Session) -> Result<Vec<(Capability, Form)>, Failure> {
    let mut archs = request.archs.clone();
    if archs.is_empty() {
        archs = device::capabilities(folder, session)?;
    }
    if archs.is_empty() {
        archs = USUAL.iter().filter_map(|text| text.parse().ok()).collect();
    }
    let mut targets = vec![];
    for capability in archs {
        if capability.ptx && capability.suffix != CapabilitySuffix::None {
            let plain = format!("{}.{}", capability.major, capability.minor);
            let suffix = capability.suffix.as_str();
            return Err(EmbedError::BoundPtx { capability, plain, suffix }.into());
        }
        let machine = (Capability { ptx: false, ..capability }, Form::Cubin);
        let virtual_machine = capability.ptx.then_some((capability, Form::Ptx));
        for target in std::iter::once(machine).chain(virtual_machine) {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    Ok(targets)
}

/// Compiles every part of every operation for every target, as many at a time as the session allows.
fn compile(
    kernels: &[Kernel],
    request: &Request,
    session: &Session,
) -> Result<BTreeMap<Place, Cubin>, Failure> {
    let mut places: VecDeque<Place> = VecDeque::new();
    for (place, kernel) in kernels.iter().enumerate() {
        let parts = 0..kernel.plan.parts.len();
        places.extend(
            parts.flat_map(|part| (0..kernel.targets.len()).map(move |target| (place, part, target))),
        );
    }
    let compiler = judge::device::compiler(request.tool, session)?;
    let queue = Mutex::new(places);
    let done = Mutex::new(BTreeMap::new());
    let failed: Mutex<Vec<(Place, NvrtcError)>> = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..session.jobs {
            scope.spawn(|| {
                while let Some(place) = next(&queue) {
                    match compile_at(kernels, place, &compiler, session) {
                        Ok(cubin) => {
                            done.lock().unwrap_or_else(PoisonError::into_inner).insert(place, cubin);
                        }
                        Err(error) => {
                            failed.lock().unwrap_or_else(PoisonError::into_inner).push((place, error))
                        }
                    }
                }
            });
        }
    });
    interrupt::check()?;
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_by_key(|(place, _)| *place);
    // A mistake in a source is reported once, not for every architecture.
    let mut told: Vec<(usize, String)> = vec![];
    let mut failure: Option<Failure> = None;
    for ((kernel, ..), error) in failed {
        let text = error.to_string();
        if told.contains(&(kernel, text.clone())) {
            continue;
        }
        told.push((kernel, text));
        match &mut failure {
            None => failure = Some(error.into()),
            Some(failure) => failure.join(error.into()),
        }
    }
    failure.map_or_else(|| Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner)), Err)
}

fn next(queue: &Mutex<VecDeque<Place>>) -> Option<Place> {
    if interrupt::requested() {
        return None;
    }
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

fn compile_at(
    kernels: &[Kernel],
    (kernel, part, target): Place,
    compiler: &Compiler,
    session: &Session,
) -> Result<Cubin, NvrtcError> {
    let started = Instant::now();
    let kernel = &kernels[kernel];
    let (capability, form) = kernel.targets[target];
    let part_plan = &kernel.plan.parts[part];
    let cubin = compiler.compile(&Unit {
        source: kernel.source.clone(),
        defines: part_plan.defines.clone(),
        arch: capability.digits(),
        form,
        expressions: part_plan.expressions.clone(),
    })?;
    let subject = format!("{} for {}", kernel.plan.op, described(capability, form));
    let count = part_plan.expressions.len();
    session.report.emit(&Event::Done {
        action: "compiled",
        subject: &subject,
        detail: &format!("{count} {}", if count == 1 { "kernel" } else { "kernels" }),
        seconds: started.elapsed().as_secs_f64(),
        cached: cubin.seconds.is_none(),
    });
    Ok(cubin)
}

/// `9.0a`, `PTX 9.0`.
fn described(capability: Capability, form: Form) -> String {
    match form {
        Form::Cubin => capability.number(),
        Form::Ptx => format!("PTX {}", capability.number()),
    }
}

fn image(op: &str, part: usize, (capability, form): (Capability, Form), names: &[String]) -> Image {
    let digits = capability.digits();
    Image {
        part,
        major: capability.major,
        minor: capability.minor,
        reach: match (form, capability.suffix) {
            (Form::Ptx, _) => "Later",
            (Form::Cubin, CapabilitySuffix::None) => "Onward",
            (Form::Cubin, CapabilitySuffix::A) => "Exact",
            (Form::Cubin, CapabilitySuffix::F) => "Family",
        },
        file: match form {
            Form::Cubin => format!("{op}-{part}.sm_{digits}.cubin"),
            Form::Ptx => format!("{op}-{part}.compute_{digits}.ptx"),
        },
        functions: names.to_vec(),
    }
}

/// Writes the code into the folder; gives its size.
fn write(out: &Path, image: &Image, form: Form, mut bytes: Vec<u8>) -> Result<u64, Failure> {
    if form == Form::Ptx {
        // The driver reads a text up to a zero byte. Compilers end theirs with none or with one.
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        bytes.push(0);
    }
    files::write_if_changed(&out.join(&image.file), &bytes)?;
    Ok(bytes.len() as u64)
}

/// Removes the code of an earlier run that this one did not make: of another architecture, or of more parts.
fn remove_stale(out: &Path, made: &[String]) -> Result<(), Failure> {
    for file in files::walk(out, |_| false)? {
        let is_code = file.extension().is_some_and(|ending| ending == "cubin" || ending == "ptx");
        let name = file.display().to_string();
        if is_code && !made.contains(&name) {
            files::remove_file(&out.join(file))?;
        }
    }
    Ok(())
}

/// The folder for the results, absolute.
pub(crate) fn folder(out: &Path) -> PathBuf {
    env::absolute(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::causes::chain;
    use crate::base::report::{MessageFormat, Report};

    const OP: &str = include_str!("../../../../examples/rms-norm-device/op.toml");

    /// A folder with two kernels of the same operation, and a session without a network.
    struct Place {
        folder: tempfile::TempDir,
        session: Session,
    }

    impl Place {
        fn new() -> Self {
            let folder = files::scratch().unwrap();
            for kernel in ["one", "two"] {
                files::write(&folder.path().join(kernel).join("op.toml"), OP).unwrap();
                files::write(&folder.path().join(kernel).join("rms_norm.cu"), "#include \"row.cuh\"\n")
                    .unwrap();
                files::write(&folder.path().join(kernel).join("row.cuh"), "").unwrap();
            }
            let report = Report::new(MessageFormat::Json, true);
            let session = Session { report, cache: folder.path().join("cache"), offline: true, jobs: 1 };
            Self { folder, session }
        }

        fn embed(&self, kernels: &[&str], archs: &[&str]) -> Result<Embedded, Failure> {
            let request = Request {
                kernels: kernels.iter().map(|name| self.folder.path().join(name)).collect(),
                dependencies: vec![],
                lock: self.folder.path().join("rust-kernels.lock"),
                out: self.folder.path().join("out"),
                archs: archs.iter().map(|text| text.parse().unwrap()).collect(),
                tool: Tool::Nvrtc,
                code: Code::Stubs,
            };
            embed(&request, &self.session)
        }

        #[track_caller]
        fn refused(&self, kernels: &[&str], archs: &[&str], message: &str) {
            let failure = self.embed(kernels, archs).unwrap_err();
            assert_eq!(failure.exit, exit::COMPILE);
            assert_eq!(chain(&*failure.reports[0]), message);
        }
    }

    #[test]
    fn a_module_depends_on_everything_that_was_read() {
        let place = Place::new();
        let stale = place.folder.path().join("out/rms_norm-9.sm_80.cubin");
        files::write(&stale, "of an earlier run").unwrap();
        let embedded = place.embed(&["one"], &[]).unwrap();
        assert_eq!((embedded.ops, embedded.bytes), (vec!["rms_norm".to_owned()], 0));
        assert_eq!(embedded.files, [MODULE]);
        for name in ["op.toml", "rms_norm.cu", "row.cuh", "build.toml", "tuned"] {
            let path = place.folder.path().join("one").join(name);
            assert!(embedded.reads.contains(&path), "{name}: {:?}", embedded.reads);
        }
        let module = files::read_text(&place.folder.path().join("out").join(MODULE)).unwrap();
        assert!(module.contains("pub fn rms_norm<T: DtypeT>(") && !files::exists(&stale));
    }

    #[test]
    fn kernels_of_one_name_are_refused() {
        let place = Place::new();
        let at = |name: &str| place.folder.path().join(name).join("op.toml").display().to_string();
        let message = format!("two kernels are called `rms_norm`: {} and {}", at("one"), at("two"));
        place.refused(&["one", "two"], &[], &message);
    }

    #[test]
    fn ptx_that_no_later_gpu_runs_is_refused() {
        let message = "`9.0a+PTX` adds PTX that does not run on any later GPU";
        Place::new().refused(&["one"], &["8.0", "9.0a+PTX"], message);
    }

    #[test]
    fn machine_code_is_made_once_and_ptx_where_it_is_asked_for() {
        let place = Place::new();
        let request = |archs: &[&str]| Request {
            kernels: vec![],
            dependencies: vec![],
            lock: PathBuf::new(),
            out: PathBuf::new(),
            archs: archs.iter().map(|text| text.parse().unwrap()).collect(),
            tool: Tool::Nvrtc,
            code: Code::Compiled,
        };
        let names = |archs: &[&str]| {
            let targets = targets(place.folder.path(), &request(archs), &place.session).unwrap();
            let names = targets.iter().map(|(capability, form)| described(*capability, *form));
            names.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(names(&["8.0", "8.0+PTX", "9.0a"]), "8.0, PTX 8.0, 9.0a");
        assert_eq!(names(&[]), "8.0, 9.0, 10.0, 12.0, PTX 12.0");
    }
}
