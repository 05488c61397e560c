//! Device code compiled by nvcc, in two steps: PTX, in which the kernels are found by their expressions, and machine code.
//!
//! Owns: what is added to a source so that nvcc instantiates its kernels and names them. Never: keeps anything.
//!
//! nvcc knows no name expressions. A variable of the device that is initialised with the address of a kernel makes it
//! instantiate the kernel, and its initialiser in PTX is the mangled name; NVRTC does the same. The variables are taken
//! out of the PTX again, so the machine code holds nothing but the source's own.

use std::path::{Path, PathBuf};
use std::time::Instant;

use kernel_plan::plan::CommandLine;

use super::unit::{Form, PATIENCE, Tool, Unit};
use super::worker::CompileAnswer;
use super::{NvrtcError, confined};
use crate::base::files;
use crate::base::process::{self, Ending, Limits};
use crate::toolchain::nvcc::NvccKit;

/// The variables' name, before a number.
const MARK: &str = "kernelwright_kernel_";
/// Where errors of the added lines are said to be.
const PLACE: &str = "[launch]";

/// Compiles a unit to `cubin`, which appears whole or not at all.
///
/// `readable` are the folders that it is kept to, where that is possible.
pub(super) fn compile(
    kit: &NvccKit,
    unit: &Unit,
    cubin: &Path,
    readable: Option<Vec<PathBuf>>,
) -> Result<CompileAnswer, NvrtcError> {
    let started = Instant::now();
    let folder = files::scratch()?;
    let at = |name: &str| folder.path().join(name);
    let readable = readable.map_or(vec![], |own| confined::readable(kit, own, folder.path()));
    let start = |line: CommandLine| confined::line(&line, &readable);
    files::write(&at("source.cu"), text(unit))?;
    let options = || {
        CommandLine::new(&kit.nvcc)
            .arg("-ccbin")
            .path(&kit.cxx)
            .arg(format!("-arch={}", unit.form.architecture(&unit.arch)))
            .args(Tool::Nvcc.options())
            // They would change what is compiled, and the key does not have them.
            .env("NVCC_PREPEND_FLAGS", "")
            .env("NVCC_APPEND_FLAGS", "")
            .env("TMPDIR", folder.path().display().to_string())
            .cwd(folder.path())
    };
    let includes = unit.source.include.iter().map(|folder| format!("-I{}", folder.display()));
    let systems = kit.include.iter().flat_map(|folder| ["-isystem".to_owned(), folder.display().to_string()]);
    let front = options()
        .args(unit.defines.iter().map(|(name, value)| format!("-D{name}={value}")))
        .args(includes)
        .args(systems)
        .arg("-ptx")
        .path(&at("source.cu"))
        .arg("-o")
        .path(&at("marked.ptx"));
    let mut log = match run(&start(front), &kit.nvcc, unit)? {
        Ok(said) => said,
        Err(refused) => return Ok(refused),
    };
    let (ptx, names) = named(&files::read_text(&at("marked.ptx"))?, unit.expressions.len());
    let is_kernel = |name: &String| ptx.contains(&format!(".entry {name}("));
    let other = names.iter().zip(&unit.expressions).find(|(name, _)| !name.as_ref().is_some_and(is_kernel));
    if let Some((_, expression)) = other {
        let status = format!("`{expression}` is not a __global__ function");
        return Ok(CompileAnswer { log, failed: Some(status), ..CompileAnswer::default() });
    }
    let names: Vec<String> = names.into_iter().flatten().collect();
    if unit.form == Form::Ptx {
        files::write(cubin, ptx)?;
        return Ok(CompileAnswer {
            names,
            log,
            seconds: started.elapsed().as_secs_f64(),
            ..CompileAnswer::default()
        });
    }
    files::write(&at("kernels.ptx"), ptx)?;
    let back = options().arg("-cubin").path(&at("kernels.ptx")).arg("-o").path(&at("kernels.cubin"));
    match run(&start(back), &kit.nvcc, unit)? {
        Ok(said) => log += &said,
        Err(refused) => return Ok(refused),
    }
    files::write(cubin, files::read(&at("kernels.cubin"))?)?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(CompileAnswer { names, log, seconds, ..CompileAnswer::default() })
}

/// The source, and a variable for each kernel.
fn text(unit: &Unit) -> String {
    let name = unit.source.name.replace('\\', "\\\\").replace('"', "\\\"");
    let mut text = format!("#line 1 \"{name}\"\n{}\n#line 1 \"{PLACE}\"\n", unit.source.text);
    for (number, expression) in unit.expressions.iter().enumerate() {
        text += &format!("__device__ auto {MARK}{number} = &{expression};\n");
    }
    text
}

/// The PTX without the variables, and what each was initialised with.
fn named(ptx: &str, count: usize) -> (String, Vec<Option<String>>) {
    let mut names = vec![None; count];
    let mut rest = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        match marked(line) {
            Some((number, name)) if number < count => names[number] = Some(name.to_owned()),
            _ => rest += line,
        }
    }
    (rest, names)
}

/// `.global .align 8 .u64 kernelwright_kernel_0 = _Z1fv;`
fn marked(line: &str) -> Option<(usize, &str)> {
    let (variable, name) = line.split_once(" = ")?;
    let number = variable.trim().rsplit(' ').next()?.strip_prefix(MARK)?.parse().ok()?;
    Some((number, name.trim().strip_suffix(';')?))
}

/// What a step printed, or its refusal of the source.
fn run(line: &CommandLine, nvcc: &Path, unit: &Unit) -> Result<Result<String, CompileAnswer>, NvrtcError> {
    let done = process::run(line, Limits::wall(PATIENCE))?;
    if let Some(problem) = confined::not_started(&done) {
        return Err(NvrtcError::NotStarted { compiler: nvcc.to_owned(), problem });
    }
    let said = format!("{}{}", done.stdout_text(), done.stderr_text());
    match done.ending {
        Ending::Exit(0) => Ok(Ok(said)),
        Ending::Exit(status) => {
            let failed = Some(format!("nvcc returned {status}"));
            Ok(Err(CompileAnswer { log: said, failed, ..CompileAnswer::default() }))
        }
        Ending::Deadline => {
            Err(NvrtcError::Endless { name: unit.source.name.clone(), seconds: PATIENCE.as_secs() })
        }
        other => Err(NvrtcError::Crashed { name: unit.source.name.clone(), ending: other.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::nvrtc::Source;

    #[test]
    fn variables_name_the_kernels_and_are_taken_out() {
        let ptx = ".version 9.0\n.global .align 8 .u64 kernelwright_kernel_1 = plain;\n\
                   .global .align 8 .u64 kernelwright_kernel_0 = _ZN4mine1fILi2EEEvv;\n\
                   .visible .global .align 4 .u32 own = 4;\n";
        let (rest, names) = named(ptx, 2);
        assert_eq!(rest, ".version 9.0\n.visible .global .align 4 .u32 own = 4;\n");
        assert_eq!(names, [Some("_ZN4mine1fILi2EEEvv".to_owned()), Some("plain".to_owned())]);
        assert_eq!(named("", 1).1, [None]);
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = Source {
            text: "template <int n> __global__ void f() {}".to_owned(),
            name: "kernels/f.cu".to_owned(),
            include: vec![],
            root: None,
        };
        let unit = Unit {
            source,
            defines: vec![],
            arch: "90".to_owned(),
            form: Form::Cubin,
            expressions: vec!["f<2>".to_owned()],
        };
        assert_eq!(
            text(&unit),
            "#line 1 \"kernels/f.cu\"\ntemplate <int n> __global__ void f() {}\n#line 1 \"[launch]\"\n\
             __device__ auto kernelwright_kernel_0 = &f<2>;\n"
        );
    }
}
