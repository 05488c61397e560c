//! `launchers.json` of a variant: how a Rust program starts the kernels of its library.
//!
//! Owns: its format, which device code of the library belongs to which operation. Never: has machine code itself, which stays
//! in the library, so that Python and Rust run the same bytes.

use std::collections::BTreeMap;
use std::path::Path;

use kernel_plan::host::rust::{RustPlan, is_name_of};
use kernel_plan::host::{DeviceSettings, RangeSettings};
use kernel_plan::spec::expr::Value;
use kernel_plan::units::{Capability, CapabilitySuffix};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::PackageError;
use crate::base::digest::hex;
use crate::base::files;
use crate::compile::artifact::Artifact;
use crate::verify::fatbin::Kind;
use crate::verify::machine_code::{DeviceCode, device_code};

/// The file, in the folder of a variant.
pub(crate) const FILE: &str = "launchers.json";
/// The format that is written, and the only one that is read.
const FORMAT: u64 = 1;

/// An operation of a project that a Rust module can be generated for.
#[derive(Debug)]
pub struct LauncherSource {
    /// op.toml, or the file of another operation.
    pub(crate) file: String,
    /// Its text, without workloads.
    pub(crate) text: String,
    /// What was measured.
    pub(crate) settings: Vec<DeviceSettings>,
    /// The plan of the module, for the code of a library.
    pub(crate) plan: RustPlan,
}

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Launchers {
    format: u64,
    /// The operations.
    pub(crate) ops: Vec<Operation>,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Operation {
    /// Its name.
    pub(crate) op: String,
    /// The file that it was read from.
    pub(crate) file: String,
    /// The generated function.
    pub(crate) signature: String,
    /// The text of the file.
    pub(crate) text: String,
    /// The settings of devices.
    pub(crate) settings: Vec<Measured>,
    /// The code, part by part.
    pub(crate) code: Vec<Code>,
}

/// The settings that were measured on a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    device: String,
    capability: u32,
    multiprocessors: u32,
    ranges: Vec<Range>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Range {
    dtypes: BTreeMap<String, String>,
    axes: BTreeMap<String, [u64; 2]>,
    multiples: BTreeMap<String, u64>,
    tuning: BTreeMap<String, serde_json::Value>,
}

/// Code of one part for one architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Code {
    /// The place of the part.
    pub(crate) part: usize,
    /// `9.0a`; of PTX, `12.0+PTX`.
    pub(crate) target: String,
    /// The library, in the same folder.
    pub(crate) library: String,
    /// SHA-256 of the code as the library has it, unpacked, in hex.
    pub(crate) sha256: String,
    /// The mangled names of the functions, in the order of the plan.
    pub(crate) names: Vec<String>,
}

impl Launchers {
    /// Reads the file; `None` if it has another format.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|launchers: &Self| launchers.format == FORMAT)
    }
}

impl Measured {
    fn new(settings: &DeviceSettings) -> Self {
        Self {
            device: settings.device.clone(),
            capability: settings.capability,
            multiprocessors: settings.multiprocessors,
            ranges: settings.ranges.iter().map(Range::new).collect(),
        }
    }

    /// The settings; `None` if a name or a value is not valid.
    pub(crate) fn settings(&self) -> Option<DeviceSettings> {
        let ranges = self.ranges.iter().map(Range::settings).collect::<Option<_>>()?;
        Some(DeviceSettings {
            device: self.device.clone(),
            capability: self.capability,
            multiprocessors: self.multiprocessors,
            ranges,
        })
    }
}

impl Range {
    fn new(range: &RangeSettings) -> Self {
        let tuning = range.tuning.iter().map(|(name, value)| {
            let value = match value {
                Value::Integer(number) => (*number).into(),
                Value::Boolean(truth) => (*truth).into(),
            };
            (name.to_string(), value)
        });
        Self {
            dtypes: range.dtypes.iter().map(|(name, dtype)| (name.to_string(), dtype.to_string())).collect(),
            axes: range.axes.iter().map(|(name, lengths)| (name.to_string(), *lengths)).collect(),
            multiples: range.multiples.iter().map(|(name, of)| (name.to_string(), *of)).collect(),
            tuning: tuning.collect(),
        }
    }

    fn settings(&self) -> Option<RangeSettings> {
        let value = |value: &serde_json::Value| match value {
            serde_json::Value::Bool(truth) => Some(Value::Boolean(*truth)),
            number => number.as_i64().map(Value::Integer),
        };
        let dtypes = self.dtypes.iter().map(|(name, dtype)| Some((name.parse().ok()?, dtype.parse().ok()?)));
        let axes = self.axes.iter().map(|(name, lengths)| Some((name.parse().ok()?, *lengths)));
        let multiples = self.multiples.iter().map(|(name, of)| Some((name.parse().ok()?, *of)));
        let tuning = self.tuning.iter().map(|(name, of)| Some((name.parse().ok()?, value(of)?)));
        Some(RangeSettings {
            dtypes: dtypes.collect::<Option<_>>()?,
            axes: axes.collect::<Option<_>>()?,
            multiples: multiples.collect::<Option<_>>()?,
            tuning: tuning.collect::<Option<_>>()?,
        })
    }
}

/// Writes the file of an artifact's variant into `folder`, if a Rust program can start some of its operations; gives their
/// names.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn write(
    sources: &[LauncherSource],
    artifact: &Artifact,
    folder: &Path,
) -> Result<Vec<String>, PackageError> {
    let Some(library) = artifact.library.as_ref().filter(|_| artifact.backend == "cuda") else {
        return Ok(vec![]);
    };
    let name = library.strip_prefix(&artifact.dir).unwrap_or(library).display().to_string();
    // The gate for architectures reports a library that cannot be read.
    let code = device_code(&files::read(library)?).unwrap_or_default();
    let ops: Vec<Operation> = sources.iter().filter_map(|source| operation(source, &name, &code)).collect();
    let names = ops.iter().map(|op| op.op.clone()).collect();
    if !ops.is_empty() {
        let text = serde_json::to_string_pretty(&Launchers { format: FORMAT, ops }).unwrap_or_default();
        files::write(&folder.join(FILE), format!("{text}\n"))?;
    }
    Ok(names)
}

/// An operation with its code; `None` if the library has all of it for no architecture.
fn operation(source: &LauncherSource, library: &str, code: &[DeviceCode]) -> Option<Operation> {
    let plan = &source.plan;
    let mut targets: Vec<(Kind, &str)> = vec![];
    for one in code {
        if !targets.contains(&(one.kind, &one.arch)) {
            targets.push((one.kind, &one.arch));
        }
    }
    let mut found = vec![];
    for (kind, arch) in targets {
        let Some(target) = target(kind, arch) else { continue };
        let here: Vec<&DeviceCode> =
            code.iter().filter(|one| (one.kind, one.arch.as_str()) == (kind, arch)).collect();
        let parts = plan.parts.iter().enumerate().map(|(part, of)| {
            let functions = of.names();
            here.iter().find_map(|one| {
                Some(Code {
                    part,
                    target: target.clone(),
                    library: library.to_owned(),
                    names: names(one, &functions)?,
                    sha256: sha256(&one.bytes),
                })
            })
        });
        found.extend(parts.collect::<Option<Vec<_>>>().unwrap_or_default());
    }
    if found.is_empty() {
        return None;
    }
    Some(Operation {
        op: plan.op.clone(),
        file: source.file.clone(),
        signature: plan.signature(),
        text: source.text.clone(),
        settings: source.settings.iter().map(Measured::new).collect(),
        code: found,
    })
}

/// SHA-256 of code, in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// How `archs` of a crate writes the architecture of code: `9.0a`, `12.0+PTX`.
pub(crate) fn target(kind: Kind, arch: &str) -> Option<String> {
    let digits = arch.trim_end_matches(['a', 'f']);
    let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
    let suffix = &arch[digits.len()..];
    let ptx = if kind == Kind::Ptx { "+PTX" } else { "" };
    let text = format!("{major}.{minor}{suffix}{ptx}");
    let capability: Capability = text.parse().ok()?;
    // PTX of a GPU alone runs on no other one, so it adds nothing to the machine code.
    (kind == Kind::Cubin || capability.suffix == CapabilitySuffix::None).then_some(text)
}

/// The names of functions in code; `None` if it does not have all of them.
fn names(code: &DeviceCode, functions: &[String]) -> Option<Vec<String>> {
    let name = |function: &String| code.names.iter().find(|name| is_name_of(name, function)).cloned();
    functions.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;
    use kernel_plan::host::rust::of_library;
    use kernel_plan::spec::parse_op;

    use super::*;

    const OP: &str = "format = 1\nname = \"gate\"\n[axes]\nn = { type = \"var\" }\n[dtypes]\nT = [\"f32\", \"bf16\"]\n\
        [inputs]\ninput = { shape = [\"n\"], dtype = \"T\" }\n[outputs]\nout = { shape = [\"n\"], dtype = \"T\" }\n\
        [reference]\nfile = \"reference.py\"\nfunction = \"gate\"\n[call]\nfunction = \"gate\"\nout = [\"out\"]\n[tolerance]\naccumulate = \"f32\"\nlength = 1\nroundings = 1\n[tune.block]\nvalues = [128, 256]\ndefault = 128\n\
        [launch]\nsource = \"gate.cu\"\n[[launch.kernel]]\nentry = \"gate::run\"\ntemplate = [\"T\", \"block\"]\n\
        grid = [\"n\"]\nblock = [\"block\"]\nargs = [\"out\", \"input\"]\n";

    fn source() -> LauncherSource {
        let (op, problems) = parse_op(SourceFile::new("op.toml", OP));
        let op = op.unwrap_or_else(|| panic!("{problems:?}"));
        let plan = of_library(&op, &[]).unwrap();
        LauncherSource { file: "op.toml".to_owned(), text: OP.to_owned(), settings: vec![], plan }
    }

    fn code(kind: Kind, arch: &str, names: &[&str]) -> DeviceCode {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        DeviceCode { kind, arch: arch.to_owned(), names, bytes: arch.as_bytes().to_vec() }
    }

    const F32: &str = "_ZN13gate_macros_04gate3runIfLi128EEEvPT_PKS2_";
    const BF16: &str = "_ZN13gate_macros_04gate3runI13__nv_bfloat16Li128EEEvPT_PKS3_";

    #[test]
    fn an_architecture_is_listed_if_all_functions_have_code_for_it() {
        let all = [
            code(Kind::Cubin, "80", &["other", BF16]),
            code(Kind::Cubin, "90a", &["other"]),
            code(Kind::Cubin, "90a", &[BF16, "other", F32]),
            code(Kind::Ptx, "120", &[F32, BF16]),
            code(Kind::Ptx, "100f", &[F32, BF16]),
        ];
        let found = operation(&source(), "lib.so", &all).unwrap();
        let listed: Vec<_> = found.code.iter().map(|one| (one.part, one.target.as_str())).collect();
        assert_eq!(listed, [(0, "9.0a"), (0, "12.0+PTX")]);
        // In the order of the plan, and not of the code.
        assert_eq!(found.code[0].names, found.code[1].names);
        assert_eq!(found.code[0].sha256, sha256(b"90a"));
        assert_eq!(found.signature, "gate<T: f32 | bf16>(out: &mut TensorMut<T>, input: &Tensor<T>)");
        assert_eq!(operation(&source(), "lib.so", &all[..2]), None);
        assert_eq!(operation(&source(), "lib.so", &[]), None);
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let name = |text: &str| text.parse().unwrap();
        let range = RangeSettings {
            dtypes: [(name("T"), "bf16".parse().unwrap())].into(),
            axes: [(name("n"), [1, 4096])].into(),
            multiples: [(name("n"), 8)].into(),
            tuning: [(name("block"), Value::Integer(256)), (name("wide"), Value::Boolean(true))].into(),
        };
        let settings = DeviceSettings {
            device: "NVIDIA H200".to_owned(),
            capability: 90,
            multiprocessors: 132,
            ranges: vec![range],
        };
        let source = LauncherSource { settings: vec![settings.clone()], ..source() };
        let op = operation(&source, "lib.so", &[code(Kind::Cubin, "90a", &[F32, BF16])]).unwrap();
        let launchers = Launchers { format: FORMAT, ops: vec![op] };
        let text = serde_json::to_vec(&launchers).unwrap();
        let read = Launchers::read(&text).unwrap();
        assert_eq!(read, launchers);
        assert_eq!(read.ops[0].settings[0].settings(), Some(settings));
        let newer = Launchers { format: FORMAT + 1, ..launchers };
        assert_eq!(Launchers::read(&serde_json::to_vec(&newer).unwrap()), None);
        assert_eq!(Launchers::read(b"{}"), None);
    }

    #[test]
    fn architectures_are_written_as_in_cargo_toml() {
        assert_eq!(target(Kind::Cubin, "100f").as_deref(), Some("10.0f"));
        assert_eq!(target(Kind::Ptx, "120").as_deref(), Some("12.0+PTX"));
        assert_eq!(target(Kind::Ptx, "90a"), None);
        assert_eq!(target(Kind::Cubin, ""), None);
    }
}
