//! Stand-ins for the NVIDIA libraries that PyTorch links with, for machines that have no NVIDIA driver.
//!
//! Owns: finding out which symbols are lacking, and the C source that defines them.
//! Never: used where there is a GPU.
//!
//! PyTorch's Linux wheel is built with CUDA, and its libraries cannot be loaded without those they name as needed:
//! more than 2 GB that do nothing on a machine without a GPU. Python loads with all symbols bound at once, so an empty
//! library does not do; a stand-in defines what the loaded ones lack. Each function says its name and aborts: nothing
//! is ever computed by a stand-in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::plan::CommandLine;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSymbol};

use super::compiler;
use super::error::ToolchainError;
use super::portable::PortableError;
use crate::base::process::{self, Limits};
use crate::base::{env, files};

/// Changes when the generated source changes, so that older stand-ins are not used.
pub(super) const VERSION: &str = "2";

/// The C++ and C libraries of every system: never stood in for, and a stand-in must not hide what they define.
const SYSTEM: &[&str] = &[
    "libstdc++.so.6",
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// The library that CUDA extensions look for what is PyTorch's own; gets all that is lacking.
const TORCH_CUDA: &str = "libtorch_cuda.so";

/// Called while PyTorch's Python module is loaded; returns a reference to a hook, which is assigned to.
const HOOK: &str = "_ZN4c10d15get_gil_checkerEv";

/// A constructor that is called while PyTorch 2.15's Python module is loaded, for the default of an argument. All its
/// members may be zero, and its class is described in the module itself.
const OPTIONS: &str = "_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb";

/// Builds stand-ins into `folder` (torch/lib) for every library that those in `real` need and that is not among them.
/// `headers` is torch/include, whose C shims say what a CUDA extension may ask of PyTorch's CUDA library.
pub(super) fn build(folder: &Path, real: &[PathBuf], headers: &Path) -> Result<(), ToolchainError> {
    let program = compiler::find()?;
    let mut symbols = Symbols::default();
    for path in real {
        symbols.read(path)?;
    }
    for name in SYSTEM {
        if let Some(path) = system_library(&program, name)? {
            symbols.define(&path)?;
        }
    }
    symbols.lacking.extend(shims(headers)?);
    let lacking: Vec<&String> = symbols
        .lacking
        .difference(&symbols.defined)
        // The interpreter's own; it defines them when it loads the module.
        .filter(|name| !name.starts_with("Py") && !name.starts_with("_Py"))
        .collect();
    compiler::library(&program, TORCH_CUDA, &source(&lacking), &folder.join(TORCH_CUDA))?;
    let others = stood_in(&symbols.needed, real);
    others.iter().try_for_each(|name| compiler::library(&program, name, "", &folder.join(name)))
}

/// The libraries that are needed, and neither there nor part of every system.
fn stood_in<'a>(needed: &'a BTreeSet<String>, real: &[PathBuf]) -> Vec<&'a str> {
    let here = |name: &str| real.iter().any(|path| path.file_name().is_some_and(|file| file == name));
    let lacks = |name: &&str| *name != TORCH_CUDA && !SYSTEM.contains(name) && !here(name);
    needed.iter().map(String::as_str).filter(lacks).collect()
}

fn system_library(program: &Path, name: &str) -> Result<Option<PathBuf>, ToolchainError> {
    let line = CommandLine::new(program).arg(format!("-print-file-name={name}"));
    let done = process::run(&line, Limits::wall(Duration::from_secs(30)))?;
    let path = env::absolute(Path::new(done.stdout_text().trim()));
    Ok(files::exists(&path).then_some(path))
}

#[derive(Default)]
struct Symbols {
    defined: BTreeSet<String>,
    lacking: BTreeSet<String>,
    /// The libraries that those that were read ask for.
    needed: BTreeSet<String>,
}

impl Symbols {
    fn read(&mut self, path: &Path) -> Result<(), ToolchainError> {
        self.needed.extend(needed(path)?);
        self.scan(path, |symbols, name, defined| {
            let set = if defined { &mut symbols.defined } else { &mut symbols.lacking };
            set.insert(name.to_owned());
        })
    }

    fn define(&mut self, path: &Path) -> Result<(), ToolchainError> {
        self.scan(path, |symbols, name, defined| {
            if defined {
                symbols.defined.insert(name.to_owned());
            }
        })
    }

    fn scan(
        &mut self,
        path: &Path,
        mut each: impl FnMut(&mut Self, &str, bool),
    ) -> Result<(), ToolchainError> {
        // The largest library is 450 MB; only its pages with symbols are read.
        let broken = |cause| unreadable(path, cause);
        let cache = object::ReadCache::new(files::open(path)?);
        let library = object::File::parse(&cache).map_err(broken)?;
        for symbol in library.dynamic_symbols() {
            // A weak symbol may stay undefined.
            if symbol.is_undefined() && symbol.is_weak() {
                continue;
            }
            let name = symbol.name().map_err(broken)?;
            each(self, name, !symbol.is_undefined());
        }
        Ok(())
    }
}

/// The libraries that one asks for (DT_NEEDED).
fn needed(path: &Path) -> Result<Vec<String>, ToolchainError> {
    let cache = object::ReadCache::new(files::open(path)?);
    let read = || -> object::Result<Vec<String>> {
        let library = ElfFile64::<LittleEndian, _>::parse(&cache)?;
        let table = library.elf_dynamic_table()?;
        let asked = table.iter().filter(|entry| entry.tag == object::elf::DT_NEEDED);
        asked.map(|entry| Ok(String::from_utf8_lossy(table.string(entry)?).into_owned())).collect()
    };
    read().map_err(|cause| unreadable(path, cause))
}

fn unreadable(path: &Path, cause: object::Error) -> ToolchainError {
    ToolchainError::BrokenRuntime { cause: PortableError::NotElf { path: path.to_owned(), cause }.into() }
}

/// The functions of PyTorch's stable C interface for CUDA, by the headers that declare them.
fn shims(headers: &Path) -> Result<BTreeSet<String>, ToolchainError> {
    let mut found = BTreeSet::new();
    for folder in ["inductor/aoti_torch/c", "inductor/aoti_torch/generated", "stable/c"] {
        let folder = headers.join("torch/csrc").join(folder);
        if !files::is_dir(&folder) {
            continue;
        }
        for file in files::walk(&folder, |_| false)? {
            found.extend(shim_names(&files::read_text(&folder.join(file))?));
        }
    }
    Ok(found)
}

fn shim_names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let is_shim = |word: &&str| {
        (word.starts_with("aoti_torch_") || word.starts_with("torch_")) && word.contains("cuda")
    };
    words.filter(is_shim).map(str::to_owned).collect()
}

/// C source that defines every name: functions that abort, and C++ type descriptions, which the loaded libraries
/// register but never call (Itanium C++ ABI, 2.9 and 5.2).
fn source(names: &[&String]) -> String {
    let mut text = String::from(
        r#"#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern const void *class_type[] __asm__("_ZTVN10__cxxabiv117__class_type_infoE");
static void absent(const char *name) {
  fprintf(stderr, "kernelwright: %s was called, but this Python has no CUDA libraries: the machine has no NVIDIA driver\n", name);
  abort();
}
"#,
    );
    for (number, name) in names.iter().enumerate() {
        text += &match name.get(..4) {
            Some("_ZTI") => {
                format!(
                    "const void *d{number}[2] __asm__(\"{name}\") = {{class_type + 2, \"{}\"}};\n",
                    &name[4..]
                )
            }
            Some("_ZTV") => format!("const void *d{number}[64] __asm__(\"{name}\");\n"),
            _ if *name == HOOK => format!(
                "static void *hook[8]; void *f{number}(void) __asm__(\"{name}\"); void *f{number}(void) {{ return hook; }}\n"
            ),
            _ if *name == OPTIONS => format!(
                "extern void *options_table[] __asm__(\"_ZTVN4c10d16ProcessGroupNCCL7OptionsE\") __attribute__((weak));\n\
                 void f{number}(void **self) __asm__(\"{name}\");\n\
                 void f{number}(void **self) {{ memset(self, 0, malloc_usable_size(self)); *self = options_table + 2; }}\n"
            ),
            _ => format!(
                "void f{number}(void) __asm__(\"{name}\"); void f{number}(void) {{ absent(\"{name}\"); }}\n"
            ),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_cuda_shims_of_a_header() {
        let header = "AOTI_TORCH_EXPORT AOTITorchError\naoti_torch_get_current_cuda_stream(int32_t, void**);\n\
                      AOTI_TORCH_EXPORT AOTITorchError aoti_torch_get_dim(AtenTensorHandle);";
        assert_eq!(
            shim_names(header).into_iter().collect::<Vec<_>>(),
            ["aoti_torch_get_current_cuda_stream"]
        );
    }

    #[test]
    fn a_stand_in_compiles_and_says_its_name() {
        let folder = files::scratch().unwrap();
        let program = compiler::find().unwrap();
        let names =
            ["cudnnGetVersion".to_owned(), OPTIONS.to_owned(), "_ZTI3Abc".to_owned(), "_ZTV3Abc".to_owned()];
        let to = folder.path().join("libstand.so");
        compiler::library(&program, "libstand.so", &source(&names.iter().collect::<Vec<_>>()), &to).unwrap();
        let mut symbols = Symbols::default();
        symbols.read(&to).unwrap();
        assert!(names.iter().all(|name| symbols.defined.contains(name)));
        // It was linked with the C library, which every system has.
        assert!(stood_in(&symbols.needed, &[]).is_empty(), "{:?}", symbols.needed);
    }

    #[test]
    fn what_is_needed_and_neither_here_nor_everywhere_is_stood_in() {
        let needed = ["libc.so.6", "libc10.so", "libnccl.so.2", "libtorch_cuda.so"].map(str::to_owned);
        let real = [PathBuf::from("/site/torch/lib/libc10.so")];
        assert_eq!(stood_in(&needed.into_iter().collect(), &real), ["libnccl.so.2"]);
    }
}
