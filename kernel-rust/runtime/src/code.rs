//! The machine code of an operation: which of it a GPU runs, and what is loaded.
//!
//! Owns: the choice by compute capability, the modules of every context, the functions in them. Never: unloads a module; the
//! context of a loaded one lives as long as the program.

use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use cudarc::driver::sys::{self, CUdevice_attribute};
use cudarc::driver::{CudaContext, CudaStream, DriverError, result};

use crate::error::{Error, Problem};
use crate::function::Function;

/// On which GPUs machine code runs, by its architecture (CUDA C++ programming guide, "Compute capabilities").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// `sm_80`: GPUs of the same major version, from this minor version on.
    Onward,
    /// `sm_100f`: the family, which are GPUs of the same major version from this minor version on.
    Family,
    /// `sm_90a`: GPUs of just this capability.
    Exact,
    /// PTX of `compute_80`, which the driver compiles: GPUs of this capability and all later ones.
    Later,
}

/// What an image was compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Major version of the compute capability.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Other GPUs that run it.
    pub reach: Reach,
}

impl Target {
    /// How well it suits a GPU, more is better; `None` if it does not run there.
    fn fit(self, major: u32, minor: u32) -> Option<(u32, u32, u32)> {
        let same = self.major == major;
        let kind = match self.reach {
            Reach::Exact => (same && self.minor == minor).then_some(3),
            Reach::Family => (same && self.minor <= minor).then_some(2),
            Reach::Onward => (same && self.minor <= minor).then_some(1),
            Reach::Later => ((self.major, self.minor) <= (major, minor)).then_some(0),
        }?;
        Some(if self.reach == Reach::Later { (0, self.major, self.minor) } else { (1, self.minor, kind) })
    }
}

/// `9.0a`, `9.0+PTX`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.reach {
            Reach::Onward => "",
            Reach::Family => "f",
            Reach::Exact => "a",
            Reach::Later => "+PTX",
        };
        write!(f, "{}.{}{suffix}", self.major, self.minor)
    }
}

/// Compiled code of one part of an operation for one target. A part is some instances of one set of macros.
#[derive(Debug)]
pub struct Image {
    /// The place of the part.
    pub part: usize,
    /// What it was compiled for.
    pub target: Target,
    /// A cubin, or PTX.
    pub bytes: &'static [u8],
    /// The names of its functions, in the order of the instances of the part.
    pub names: &'static [&'static str],
}

/// Bytes at an address that suits machine code.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Aligned<B: ?Sized>(pub B);

/// An instance of a kernel.
#[derive(Debug)]
pub struct Instance {
    /// Dtypes, then template arguments.
    pub key: &'static [i64],
    /// The part that it was compiled with.
    pub part: usize,
    /// Its place among the names of an image of that part.
    pub function: usize,
}

/// A GPU that settings were measured on.
#[derive(Debug)]
pub struct TunedGpu {
    /// Its name.
    pub name: &'static str,
    /// Compute capability times ten.
    pub capability: u32,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
}

/// The code of an operation, and what of it is loaded. Generated code has one as a static.
pub struct Kernels {
    op: &'static str,
    images: &'static [Image],
    /// Sets of macros, each with the instances of every kernel, ascending by key.
    spaces: &'static [&'static [&'static [Instance]]],
    tuned: &'static [TunedGpu],
    loaded: RwLock<Vec<&'static Loaded>>,
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets: Vec<String> = self.images.iter().map(|image| image.target.to_string()).collect();
        f.debug_struct("Kernels").field("op", &self.op).field("images", &targets).finish_non_exhaustive()
    }
}

/// The code of an operation in one context.
pub struct Loaded {
    context: Arc<CudaContext>,
    tuned: Option<usize>,
    /// The most dynamic shared memory of a block, in bytes.
    shared: i32,
    /// By part.
    modules: Vec<Module>,
}

struct Module {
    image: &'static Image,
    handle: OnceLock<Result<Handle, DriverError>>,
    functions: Vec<OnceLock<Result<Function, DriverError>>>,
}

/// A module that is loaded for good.
#[derive(Clone, Copy)]
struct Handle(NonNull<sys::CUmod_st>);

// SAFETY: the driver's functions on modules may be called from any thread whose context is the module's.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Kernels {
    /// The code of an operation.
    #[must_use]
    pub const fn new(
        op: &'static str,
        images: &'static [Image],
        spaces: &'static [&'static [&'static [Instance]]],
        tuned: &'static [TunedGpu],
    ) -> Self {
        Self { op, images, spaces, tuned, loaded: RwLock::new(Vec::new()) }
    }

    /// What is loaded in the context of a stream; chooses the code at the first call in each context.
    ///
    /// # Errors
    /// No code for this GPU, a build without kernels, or an error of the driver.
    pub fn on(&self, stream: &CudaStream) -> Result<&'static Loaded, Error> {
        let loaded = self.in_context(stream.context())?;
        stream.context().bind_to_thread()?;
        Ok(loaded)
    }

    /// Loads the code into a context, so that no later call does it: before a graph is captured, or to find out early
    /// that there is none for this GPU.
    ///
    /// # Errors
    /// As [`Self::on`], and code that the driver does not take.
    pub fn load(&self, context: &Arc<CudaContext>) -> Result<(), Error> {
        let loaded = self.in_context(context)?;
        context.bind_to_thread()?;
        for module in &loaded.modules {
            module.handle().map_err(|cause| self.refused(module, cause))?;
        }
        Ok(())
    }

    fn in_context(&self, context: &Arc<CudaContext>) -> Result<&'static Loaded, Error> {
        let is_here = |loaded: &&&'static Loaded| loaded.context.cu_ctx() == context.cu_ctx();
        let known = self.loaded.read().unwrap_or_else(PoisonError::into_inner).iter().find(is_here).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let mut all = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster.
        if let Some(known) = all.iter().find(is_here).copied() {
            return Ok(known);
        }
        let loaded: &'static Loaded = Box::leak(Box::new(self.choose(context)?));
        all.push(loaded);
        Ok(loaded)
    }

    fn choose(&self, context: &Arc<CudaContext>) -> Result<Loaded, Error> {
        if self.images.is_empty() {
            return Err(Error::Stub { op: self.op });
        }
        let number = |attribute| context.attribute(attribute);
        let (major, minor) = context.compute_capability()?;
        let (major, minor) = (major.unsigned_abs(), minor.unsigned_abs());
        let multiprocessors = number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let shared = number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let parts = self.images.iter().map(|image| image.part + 1).max().unwrap_or(0);
        let mut modules = Vec::with_capacity(parts);
        for part in 0..parts {
            let image = fitting(self.images, part, major, minor).ok_or_else(|| Error::NoCode {
                op: self.op,
                capability: format!("{major}.{minor}"),
                present: present(self.images),
            })?;
            let functions = image.names.iter().map(|_| OnceLock::new()).collect();
            modules.push(Module { image, handle: OnceLock::new(), functions });
        }
        let tuned = nearest(self.tuned, major * 10 + minor, multiprocessors.unsigned_abs());
        Ok(Loaded { context: Arc::clone(context), tuned, shared, modules })
    }

    /// The instance of a kernel.
    ///
    /// # Errors
    /// None was compiled for this key, or the driver does not take the code.
    pub(crate) fn function(
        &self,
        loaded: &'static Loaded,
        space: usize,
        kernel: usize,
        key: &[i64],
    ) -> Result<&'static Function, FunctionError> {
        let instances =
            self.spaces.get(space).and_then(|space| space.get(kernel)).copied().unwrap_or_default();
        let missing = || FunctionError::Problem(Problem::NoInstance { key: key.to_vec() });
        let place = instances.binary_search_by(|known| known.key.cmp(key)).map_err(|_| missing())?;
        let Instance { part, function: number, .. } = instances[place];
        let module = loaded.modules.get(part).ok_or_else(missing)?;
        let (slot, name) =
            module.functions.get(number).zip(module.image.names.get(number)).ok_or_else(missing)?;
        let function = slot.get_or_init(|| {
            let handle = module.handle()?;
            let name =
                CString::new(*name).map_err(|_| DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE))?;
            // SAFETY: the module is loaded and stays so.
            let function = unsafe { result::module::get_function(handle.0.as_ptr(), name) }?;
            Function::new(function)
        });
        match function {
            Ok(function) => Ok(function),
            Err(cause) if module.handle().is_err() => Err(FunctionError::Load(self.refused(module, *cause))),
            Err(cause) => Err(FunctionError::Problem(Problem::Driver(*cause))),
        }
    }

    fn refused(&self, module: &Module, cause: DriverError) -> Error {
        let mut driver = 0;
        // SAFETY: it writes one number. A driver that does not say its version has version 0 in the message.
        let _unknown = unsafe { sys::cuDriverGetVersion(&raw mut driver) };
        Error::Load { op: self.op, target: module.image.target.to_string(), driver, cause }
    }

    /// The operation.
    pub(crate) fn op(&self) -> &'static str {
        self.op
    }
}

/// Why there is no function.
pub(crate) enum FunctionError {
    /// The code is not loaded.
    Load(Error),
    /// The kernel is not in it.
    Problem(Problem),
}

impl Loaded {
    /// The place of the GPU whose settings are for this one: of the same compute capability, with the nearest number of
    /// multiprocessors.
    #[must_use]
    pub fn tuned(&self) -> Option<usize> {
        self.tuned
    }

    /// The most dynamic shared memory of a block, in bytes.
    pub(crate) fn shared(&self) -> i32 {
        self.shared
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets: Vec<String> =
            self.modules.iter().map(|module| module.image.target.to_string()).collect();
        f.debug_struct("Loaded")
            .field("modules", &targets)
            .field("tuned", &self.tuned)
            .finish_non_exhaustive()
    }
}

impl Module {
    /// The loaded module. The caller's thread has its context.
    fn handle(&self) -> Result<Handle, DriverError> {
        *self.handle.get_or_init(|| {
            // SAFETY: the image is what a compiler made, whole, and PTX ends with a zero byte; the generator sees to both.
            let module = unsafe { result::module::load_data(self.image.bytes.as_ptr().cast()) }?;
            NonNull::new(module).map(Handle).ok_or(DriverError(sys::CUresult::CUDA_ERROR_INVALID_IMAGE))
        })
    }
}

/// The image of a part that suits a GPU best.
fn fitting(images: &[Image], part: usize, major: u32, minor: u32) -> Option<&Image> {
    let fitting = images.iter().filter(|image| image.part == part);
    let fitting = fitting.filter_map(|image| Some((image.target.fit(major, minor)?, image)));
    fitting.max_by_key(|(fit, _)| *fit).map(|(_, image)| image)
}

fn present(images: &[Image]) -> String {
    let mut names: Vec<String> = Vec::new();
    for image in images {
        let name = image.target.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

fn nearest(tuned: &[TunedGpu], capability: u32, multiprocessors: u32) -> Option<usize> {
    let places = tuned.iter().enumerate().filter(|(_, known)| known.capability == capability);
    places.min_by_key(|(_, known)| known.multiprocessors.abs_diff(multiprocessors)).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(part: usize, text: &str) -> Image {
        let (version, reach) = match text.split_at(3) {
            (version, "") => (version, Reach::Onward),
            (version, "a") => (version, Reach::Exact),
            (version, "f") => (version, Reach::Family),
            (version, _) => (version, Reach::Later),
        };
        let (major, minor) = version.split_once('.').unwrap();
        let target = Target { major: major.parse().unwrap(), minor: minor.parse().unwrap(), reach };
        assert_eq!(target.to_string(), text);
        Image { part, target, bytes: b"", names: &[] }
    }

    #[track_caller]
    fn check(present: &[&str], gpu: (u32, u32), expected: Option<&str>) {
        let images: Vec<Image> = present.iter().map(|text| image(0, text)).collect();
        let found = fitting(&images, 0, gpu.0, gpu.1).map(|image| image.target.to_string());
        assert_eq!(found.as_deref(), expected, "{present:?} on {gpu:?}");
    }

    #[test]
    fn a_gpu_gets_the_code_that_is_nearest_to_it() {
        let usual = ["8.0", "8.6", "9.0a", "8.0+PTX"];
        check(&usual, (8, 0), Some("8.0"));
        check(&usual, (8, 9), Some("8.6"));
        check(&usual, (9, 0), Some("9.0a"));
        check(&usual, (7, 5), None);
        // Code of another major version does not run, but PTX does.
        check(&usual, (12, 0), Some("8.0+PTX"));
        check(&["8.0", "9.0a"], (12, 0), None);
        // Code for just this GPU is better than code for all from it on, which is better than PTX.
        check(&["9.0", "9.0a", "9.0+PTX"], (9, 0), Some("9.0a"));
        check(&["9.0+PTX", "9.0"], (9, 0), Some("9.0"));
        check(&["8.0+PTX", "9.0+PTX"], (9, 0), Some("9.0+PTX"));
        // A machine code of an architecture alone is not for its neighbors.
        check(&["9.0a"], (9, 1), None);
        check(&["8.6"], (8, 0), None);
    }

    #[test]
    fn every_part_has_images_of_its_own() {
        let images = [image(0, "9.0a"), image(1, "8.0")];
        assert!(fitting(&images, 0, 9, 0).is_some() && fitting(&images, 1, 9, 0).is_none());
        assert_eq!(present(&[image(0, "8.0"), image(1, "8.0"), image(0, "9.0+PTX")]), "8.0, 9.0+PTX");
    }

    #[test]
    fn settings_come_from_the_gpu_that_is_most_alike() {
        let tuned = |capability, multiprocessors| TunedGpu { name: "", capability, multiprocessors };
        let known = [tuned(90, 132), tuned(90, 114), tuned(80, 108)];
        assert_eq!(nearest(&known, 90, 132), Some(0));
        assert_eq!(nearest(&known, 90, 78), Some(1));
        assert_eq!(nearest(&known, 80, 1), Some(2));
        assert_eq!(nearest(&known, 100, 148), None);
    }
}
