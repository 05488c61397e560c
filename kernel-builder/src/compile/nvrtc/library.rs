//! NVRTC, NVIDIA's compiler as a library, loaded from the path where it lies.
//!
//! Owns: the functions and their order (CUDA Toolkit documentation, "NVRTC"). Never: chooses options.
//!
//! It is loaded by path and not through a crate's search, because the library of a wheel lies where no loader looks; the
//! twelve functions that are used have had the same form since CUDA 8.

use crate::base::causes::chain;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::{Library, Symbol};

use super::unit::Form;

type Program = *mut c_void;
type Status = c_int;

/// NVRTC in this process.
pub(super) struct Nvrtc {
    library: Library,
    /// Kept loaded: NVRTC looks for it by name when it first compiles.
    _builtins: Option<Library>,
}

/// What a compilation gave.
pub(super) struct Compiled {
    /// The machine code, or PTX.
    pub(super) code: Vec<u8>,
    /// The mangled name of every name expression, in their order.
    pub(super) names: Vec<String>,
    /// Warnings.
    pub(super) log: String,
}

/// What the compiler says against a source.
#[derive(Debug)]
pub(super) struct SourceErrors {
    /// What failed, as NVRTC calls it.
    pub(super) status: String,
    /// Errors and warnings with places.
    pub(super) log: String,
}

impl Nvrtc {
    /// Loads the library at `path`, and its builtins beside it.
    pub(super) fn load(path: &Path, builtins: Option<&Path>) -> Result<Self, libloading::Error> {
        // SAFETY: both are NVIDIA's libraries, whose initialisers do nothing but set up tables.
        unsafe {
            let builtins = builtins.map(|path| Library::new(path)).transpose()?;
            Ok(Self { library: Library::new(path)?, _builtins: builtins })
        }
    }

    fn symbol<F>(&self, name: &CStr) -> Result<Symbol<'_, F>, SourceErrors> {
        // SAFETY: each caller names a function together with its type in nvrtc.h.
        unsafe { self.library.get::<F>(name.to_bytes_with_nul()) }.map_err(|error| SourceErrors {
            status: "a function is missing in the library".to_owned(),
            log: chain(&error),
        })
    }

    /// Its version, e.g. 13.0.
    pub(super) fn version(&self) -> Result<(i32, i32), SourceErrors> {
        let version: Symbol<'_, unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status> =
            self.symbol(c"nvrtcVersion")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: it writes two integers.
        self.done(unsafe { version(&raw mut major, &raw mut minor) })?;
        Ok((major, minor))
    }

    /// Compiles a text.
    pub(super) fn compile(
        &self,
        text: &str,
        name: &str,
        options: &[String],
        expressions: &[String],
        form: Form,
    ) -> Result<Compiled, SourceErrors> {
        let program = Source::new(self, text, name)?;
        for expression in expressions {
            let expression = c_string(expression)?;
            let add: Symbol<'_, unsafe extern "C" fn(Program, *const c_char) -> Status> =
                self.symbol(c"nvrtcAddNameExpression")?;
            // SAFETY: the program lives, and the library copies the text.
            self.done(unsafe { add(program.handle, expression.as_ptr()) })?;
        }
        let options: Vec<CString> =
            options.iter().map(|option| c_string(option)).collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let compile: Symbol<'_, unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status> =
            self.symbol(c"nvrtcCompileProgram")?;
        // SAFETY: the options outlive the call.
        let status = unsafe { compile(program.handle, pointers.len() as c_int, pointers.as_ptr()) };
        let log = program.text(c"nvrtcGetProgramLogSize", c"nvrtcGetProgramLog").unwrap_or_default();
        let log = String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).to_owned();
        self.done(status).map_err(|rejected| SourceErrors { log: log.clone(), ..rejected })?;
        let mut names = Vec::new();
        for expression in expressions {
            names.push(program.lowered(expression)?);
        }
        let code = match form {
            Form::Cubin => program.text(c"nvrtcGetCUBINSize", c"nvrtcGetCUBIN"),
            Form::Ptx => program.text(c"nvrtcGetPTXSize", c"nvrtcGetPTX"),
        };
        Ok(Compiled { code: code?, names, log })
    }

    fn done(&self, status: Status) -> Result<(), SourceErrors> {
        if status == 0 {
            return Ok(());
        }
        let words: Symbol<'_, unsafe extern "C" fn(Status) -> *const c_char> =
            self.symbol(c"nvrtcGetErrorString")?;
        // SAFETY: it returns a constant string for every number.
        let text = unsafe { CStr::from_ptr(words(status)) };
        Err(SourceErrors { status: text.to_string_lossy().into_owned(), log: String::new() })
    }
}

/// A program that NVRTC holds.
struct Source<'a> {
    nvrtc: &'a Nvrtc,
    handle: Program,
}

impl<'a> Source<'a> {
    fn new(nvrtc: &'a Nvrtc, text: &str, name: &str) -> Result<Self, SourceErrors> {
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> Status;
        let create: Symbol<'_, Create> = nvrtc.symbol(c"nvrtcCreateProgram")?;
        let (text, name) = (c_string(text)?, c_string(name)?);
        let mut handle = ptr::null_mut();
        // SAFETY: the library copies both texts and writes one handle; there are no headers in memory.
        nvrtc.done(unsafe {
            create(&raw mut handle, text.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null())
        })?;
        Ok(Self { nvrtc, handle })
    }

    /// What two functions hand out: first the size, then the bytes.
    fn text(&self, size: &CStr, bytes: &CStr) -> Result<Vec<u8>, SourceErrors> {
        let size: Symbol<'_, unsafe extern "C" fn(Program, *mut usize) -> Status> =
            self.nvrtc.symbol(size)?;
        let take: Symbol<'_, unsafe extern "C" fn(Program, *mut c_char) -> Status> =
            self.nvrtc.symbol(bytes)?;
        let mut count = 0usize;
        // SAFETY: it writes one number.
        self.nvrtc.done(unsafe { size(self.handle, &raw mut count) })?;
        let mut taken = vec![0u8; count];
        // SAFETY: there is room for as many bytes as it said.
        self.nvrtc.done(unsafe { take(self.handle, taken.as_mut_ptr().cast()) })?;
        Ok(taken)
    }

    fn lowered(&self, expression: &str) -> Result<String, SourceErrors> {
        let lowered: Symbol<'_, unsafe extern "C" fn(Program, *const c_char, *mut *const c_char) -> Status> =
            self.nvrtc.symbol(c"nvrtcGetLoweredName")?;
        let text = c_string(expression)?;
        let mut name = ptr::null();
        // SAFETY: it writes the address of a string that lives as long as the program.
        self.nvrtc.done(unsafe { lowered(self.handle, text.as_ptr(), &raw mut name) })?;
        // SAFETY: as above.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        let destroy =
            self.nvrtc.symbol::<unsafe extern "C" fn(*mut Program) -> Status>(c"nvrtcDestroyProgram");
        if let Ok(destroy) = destroy {
            // SAFETY: nobody else has the handle.
            let _destroyed = unsafe { destroy(&raw mut self.handle) };
        }
    }
}

fn c_string(text: &str) -> Result<CString, SourceErrors> {
    CString::new(text).map_err(|_| SourceErrors {
        status: "the source contains a zero byte".to_owned(),
        log: String::new(),
    })
}
