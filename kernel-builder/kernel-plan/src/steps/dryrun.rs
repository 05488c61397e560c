//! Reads what `nvcc --dryrun` prints.
//!
//! Owns: which printed command is which step. Never: accepts a line that it does not know.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::cicc::output;
use super::{Assemble, Device, Host, NvccFallback, Steps, UNIT, words};
use crate::plan::CommandLine;

/// What an answer's commands are, as they come.
#[derive(Default)]
struct DryRunCommands {
    texts: Vec<(String, CommandLine)>,
    devices: Vec<Device>,
    assembled: Vec<Assembled>,
    cudafe: Option<CommandLine>,
    fatbinary: Option<CommandLine>,
    compile: Option<CommandLine>,
}

/// The C++ front end walks long lists all over a gigabyte: with large pages it takes an eighth less time (measured with
/// torch/all.h). Where the system has none, nothing changes.
const LARGE_PAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// One call of ptxas: the PTX that it reads, and the step.
struct Assembled(String, Assemble);

/// The steps in nvcc's answer.
///
/// # Errors
/// The answer has another shape than that of compiling one source to one object.
pub fn read(answer: &str) -> Result<Steps, NvccFallback> {
    let mut variables = BTreeMap::new();
    let mut found = DryRunCommands::default();
    for line in answer.lines().filter_map(|line| line.strip_prefix("#$ ")) {
        if let Some((name, value)) = variable(line) {
            variables.insert(name.to_owned(), value.trim().to_owned());
        } else if !(line.starts_with("rm ") || line.starts_with("-- ")) {
            found.take(line, &variables)?;
        }
    }
    found.finish()
}

/// `NAME=value`, where nvcc says what it puts into the environment.
fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let plain = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    (!name.is_empty() && name.chars().all(plain)).then_some((name, value))
}

impl DryRunCommands {
    fn take(&mut self, line: &str, variables: &BTreeMap<String, String>) -> Result<(), NvccFallback> {
        let unclear = || NvccFallback::Line(line.chars().take(160).collect());
        let mut words = words::split(line).into_iter();
        let program = words.next().ok_or_else(unclear)?;
        let mut command = CommandLine::new(program_path(&program, variables));
        command.args = words.collect();
        if matches!(command.program.file_name().and_then(|name| name.to_str()), Some("cicc" | "cudafe++")) {
            command = command.env(LARGE_PAGES.0, LARGE_PAGES.1);
        }
        let made = output(&command).map(str::to_owned);
        match command.program.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
            "cicc" => self.devices.push(device(command).ok_or_else(unclear)?),
            "ptxas" => {
                let arch = command.args.iter().find_map(|arg| arg.strip_prefix("-arch="));
                let arch = arch.ok_or_else(unclear)?.to_owned();
                let ptx = command.args.iter().find(|arg| arg.ends_with(".ptx")).ok_or_else(unclear)?.clone();
                let cubin = made.ok_or_else(unclear)?;
                self.assembled.push(Assembled(ptx, Assemble { arch, ptxas: command, cubin }));
            }
            "cudafe++" => put(&mut self.cudafe, command).ok_or_else(unclear)?,
            "fatbinary" => put(&mut self.fatbinary, command).ok_or_else(unclear)?,
            _ if command.args.iter().any(|arg| arg == "-E") => {
                self.texts.push((made.ok_or_else(unclear)?, command));
            }
            _ if made.as_deref() == Some(UNIT) && command.args.iter().any(|arg| arg == "-c") => {
                put(&mut self.compile, command).ok_or_else(unclear)?;
            }
            _ => return Err(unclear()),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Steps, NvccFallback> {
        for device in &mut self.devices {
            let at = self.texts.iter().position(|(text, _)| *text == device.text);
            device.preprocess = self.texts.remove(at.ok_or(NvccFallback::Lacks("a preprocessor"))?).1;
            let (own, others) = self.assembled.into_iter().partition(|Assembled(ptx, _)| *ptx == device.ptx);
            self.assembled = others;
            device.assemble = Vec::from_iter(own).into_iter().map(|Assembled(_, step)| step).collect();
        }
        if self.devices.is_empty() || !self.assembled.is_empty() {
            return Err(NvccFallback::Lacks("a compiler for each architecture"));
        }
        let cudafe = self.cudafe.ok_or(NvccFallback::Lacks("cudafe++"))?;
        let fatbinary = self.fatbinary.ok_or(NvccFallback::Lacks("fatbinary"))?;
        let compile = self.compile.ok_or(NvccFallback::Lacks("the host compiler"))?;
        let Ok([(text, preprocess)]) = <[_; 1]>::try_from(self.texts) else {
            return Err(NvccFallback::Lacks("one preprocessor for the host"));
        };
        let named = |flag, what| after(&cudafe, flag).ok_or(NvccFallback::Lacks(what));
        let fat = equals(&fatbinary, "--create=").ok_or(NvccFallback::Lacks("the file of fatbinary"))?;
        let embed =
            equals(&fatbinary, "--embedded-fatbin=").ok_or(NvccFallback::Lacks("the text of fatbinary"))?;
        let module_id = named("--module_id_file_name", "the name of the module")?;
        let host = Host {
            preprocess,
            text,
            source: named("--gen_c_file_name", "the host's source")?,
            stub: named("--stub_file_name", "the launch code")?,
            // The name of the module is given, not computed: no architecture waits for the host's side.
            cudafe: without(cudafe, |arg| arg == "--gen_module_id_file"),
            compile,
        };
        let fatbinary = without(fatbinary, |arg| arg.starts_with("--embedded-fatbin="));
        Ok(Steps { devices: self.devices, host, fatbinary, fat, embed, module_id })
    }
}

/// One compiler call; its preprocessor and its assemblers are found later.
fn device(cicc: CommandLine) -> Option<Device> {
    let arch = after(&cicc, "-arch")?;
    let text = cicc.args.iter().find(|arg| arg.ends_with(".cpp1.ii"))?.clone();
    let (ptx, stub) = (output(&cicc)?.to_owned(), after(&cicc, "--stub_file_name")?);
    if !ptx.ends_with(".ptx") {
        return None;
    }
    Some(Device { arch, preprocess: CommandLine::new(""), text, cicc, ptx, stub, assemble: Vec::new() })
}

fn put(place: &mut Option<CommandLine>, command: CommandLine) -> Option<()> {
    place.replace(command).is_none().then_some(())
}

fn without(mut command: CommandLine, unwanted: impl Fn(&str) -> bool) -> CommandLine {
    command.args.retain(|arg| !unwanted(arg));
    command
}

/// The word after a flag.
fn after(command: &CommandLine, flag: &str) -> Option<String> {
    let at = command.args.iter().position(|arg| arg == flag)?;
    command.args.get(at + 1).cloned()
}

fn equals(command: &CommandLine, flag: &str) -> Option<String> {
    command.args.iter().find_map(|arg| arg.strip_prefix(flag)).map(str::to_owned)
}

/// Where a program is: nvcc's own lie beside it, the compiler in the folder that a variable names.
fn program_path(word: &str, variables: &BTreeMap<String, String>) -> PathBuf {
    let value = |name: &str| variables.get(name).map(String::as_str).unwrap_or_default();
    if let Some((name, rest)) = word.strip_prefix('$').and_then(|word| word.split_once('/')) {
        return Path::new(value(name)).join(rest);
    }
    match word {
        "cudafe++" | "ptxas" | "fatbinary" => Path::new(value("_HERE_")).join(word),
        // nvcc 12 leaves this one to the PATH that it prints.
        "cicc" => {
            let mut places = value("PATH").split(':').chain([value("CICC_PATH")]);
            let place = places.find(|place| place.ends_with("/nvvm/bin"));
            Path::new(place.unwrap_or(value("_HERE_"))).join(word)
        }
        other => PathBuf::from(other),
    }
}
