//! The rates that nothing passes on a GPU, as they are measured here: the bytes of a copy, and products of matrices.
//!
//! Owns: what is started, how often, and what its time means. Never: keeps a figure; knows no candidate.
//!
//! A peak that a data sheet names is one of a clock that the GPU may not hold. These are medians of what it did, with the
//! clocks that it had meanwhile, for half a second each, which is long enough for a limit of power to show.

mod matrix;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::device::sampled;
use super::machine::GpuMonitor;
use super::record::{self, Clocks};
use super::stats;
use crate::base::causes::chain;
use crate::base::date;
use crate::base::process::ProcessError;
use crate::base::report;
use crate::compile::nvrtc::{Code, Compiler, NvrtcError, Source};
use crate::device::gpu::Gpu;
use crate::device::wire::{
    Answer, Argument, Call, Clock, DeviceProperties, Kernel, Op, Place, Start, Timed, unhex,
};
use crate::verify::device::arch_of;
use matrix::{BLOCK, Instruction, KINDS, Kind, LEFT};

/// The version of what is measured; kept figures of another one do not count.
pub(crate) const PROTOCOL: u32 = 2;
/// The numbers of what the worker has: two halves of a copy, what products leave, code, a plan.
const FROM: u32 = 1;
const TO: u32 = 2;
const OUT: u32 = 3;
const MODULE: u32 = 1;
const PLAN: u32 = 1;
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Samples of about ten milliseconds, and how many before them do not count.
const SAMPLES: usize = 50;
const WARM_UP: usize = 10;
/// Bytes of a copy, where the device has room for them.
const COPIED: u64 = 1 << 30;
/// The kernel that copies, and the bytes of one of its blocks in units of 16.
const COPY: &str = include_str!("../../../resources/ceilings/copy.cu");
const COPIED_BY_BLOCK: u64 = 4 * BLOCK as u64;
/// Copies of a sample.
const COPIES: usize = 16;
/// Turns of the loop whose sums are compared.
const COMPARED: u32 = 3;

/// What was measured of one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ceilings {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Day of the measurement, `YYYY-MM-DD`, UTC.
    pub date: String,
    /// The copy first.
    pub ceilings: Vec<Ceiling>,
}

/// One rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ceiling {
    /// `copy`, or the dtype of the operands: `bf16`, `f16`, `tf32`, `f8e4m3`, `i8`.
    pub of: String,
    /// What was run: a function of the driver, or an instruction of PTX.
    pub how: String,
    /// Of `rate`: `GB/s`, `TFLOP/s` or `TOP/s`, powers of ten.
    pub unit: String,
    /// The median.
    pub rate: Option<f64>,
    /// Why there is none.
    pub not_measured: Option<String>,
    /// The GPU meanwhile; absent where the driver does not tell.
    pub clocks: Option<Clocks>,
}

/// A rate, or why there is none.
type Rate = Result<f64, String>;

impl Ceilings {
    /// The highest rates of matrix products, in 10^12 operations a second, by the dtype of the operands.
    pub(crate) fn matrix_peaks(&self) -> BTreeMap<String, f64> {
        let products = self.ceilings.iter().filter(|one| one.of != "copy");
        products.filter_map(|one| Some((one.of.clone(), one.rate?))).collect()
    }

    /// As [`Self::matrix_peaks`], at the highest clock that the GPU can have: a limit of power may have held it down while
    /// a rate was measured, and not while a shorter product ran.
    pub(crate) fn matrix_limits(&self) -> BTreeMap<String, f64> {
        let products = self.ceilings.iter().filter(|one| one.of != "copy");
        let headroom = |one: &Ceiling| one.clocks.as_ref().and_then(Clocks::headroom).unwrap_or(1.0);
        products.filter_map(|one| Some((one.of.clone(), one.rate? * headroom(one)))).collect()
    }

    /// Whether all that could be measured was: what failed may not fail again.
    pub(crate) fn is_whole(&self) -> bool {
        self.ceilings.iter().all(|one| one.rate.is_some() || one.how.is_empty())
    }
}

/// Measures all of them. `compiler` is absent with the reason.
///
/// # Errors
/// The worker cannot be started, or ctrl-C.
pub(crate) fn measure(
    gpu: &mut Gpu,
    about: &DeviceProperties,
    compiler: Result<&Compiler, &str>,
    told: &dyn Fn(&Ceiling),
) -> Result<Ceilings, ProcessError> {
    let mut watch = GpuMonitor::start();
    let mut ceilings = Vec::new();
    let mut note = |of: &str, how: String, unit: &str, rate: Rate| {
        let clocks = watch.take(&about.name).map(|gpu| gpu.clocks).filter(|_| rate.is_ok());
        let (rate, not_measured) = match rate {
            Ok(rate) => (Some(rate), None),
            Err(reason) => (None, Some(reason)),
        };
        let (of, unit) = (of.to_owned(), unit.to_owned());
        let ceiling = Ceiling { of, how, unit, rate, not_measured, clocks };
        told(&ceiling);
        ceilings.push(ceiling);
    };
    let (how, rate) = copy(gpu, about, compiler)?;
    note("copy", how, "GB/s", rate);
    for kind in &KINDS {
        let unit = if kind.integer { "TOP/s" } else { "TFLOP/s" };
        match Instruction::choose(about.capability, kind) {
            Ok(instruction) => {
                let rate = match compiler {
                    Ok(compiler) => products(gpu, about, instruction, kind, compiler)?,
                    Err(reason) => Err(reason.to_owned()),
                };
                note(kind.dtype, instruction.ptx(kind), unit, rate);
            }
            Err(reason) => note(kind.dtype, String::new(), unit, Err(reason)),
        }
    }
    Ok(Ceilings { protocol: PROTOCOL, date: date::today(), ceilings })
}

/// Bytes of the copy: far more than the cache, and no more than there is room for.
fn copied(about: &DeviceProperties) -> u64 {
    COPIED.max(8 * about.l2).min(about.free / 4) / 4096 * 4096
}

/// The faster one of two copies, in bytes that are read and written: the driver's, and one by the multiprocessors.
fn copy(
    gpu: &mut Gpu,
    about: &DeviceProperties,
    compiler: Result<&Compiler, &str>,
) -> Result<(String, Rate), ProcessError> {
    let bytes = copied(about);
    let (from, to) = (Place::start(FROM), Place::start(TO));
    let rate = |seconds: f64| 2.0 * bytes as f64 / seconds * 1e-9;
    let by_driver = copies(gpu, bytes, Start::Copy { to, from, bytes }, None)?.map(rate);
    let driver = (format!("cuMemcpyDtoDAsync of {}", report::bytes(bytes)), by_driver);
    let Ok(compiler) = compiler else { return Ok(driver) };
    let source = Source { text: COPY.to_owned(), name: "copy.cu".to_owned(), include: vec![], root: None };
    let code = match Code::plain(&source, vec!["ceiling::copy".to_owned()], &arch_of(about), compiler) {
        Ok(code) => code,
        Err(NvrtcError::Process(error)) => return Err(error),
        Err(_) => return Ok(driver),
    };
    let units = bytes / 16;
    let start = Start::Kernel(Kernel {
        module: MODULE,
        function: 0,
        grid: [units.div_ceil(COPIED_BY_BLOCK) as u32, 1, 1],
        block: [BLOCK, 1, 1],
        cluster: None,
        shared: 0,
        carveout: None,
        cooperative: false,
        arguments: vec![Argument::Pointer(to), Argument::Pointer(from), Argument::I64(units.cast_signed())],
    });
    let by_kernel = copies(gpu, bytes, start, Some(&code))?.map(rate);
    let is_faster = match (&driver.1, &by_kernel) {
        (Ok(driver), Ok(kernel)) => kernel > driver,
        (driver, kernel) => driver.is_err() && kernel.is_ok(),
    };
    let how = format!("16 bytes a thread, four in flight, {} in all", report::bytes(bytes));
    Ok(if is_faster { (how, by_kernel) } else { driver })
}

/// Seconds of a copy that is started so.
fn copies(gpu: &mut Gpu, bytes: u64, start: Start, code: Option<&Code>) -> Result<Rate, ProcessError> {
    let (from, to) = (Place::start(FROM), Place::start(TO));
    let calls: Vec<Call> = vec![vec![start]; COPIES];
    let before = vec![Start::Fill { at: to, bytes, byte: 0 }];
    let load = code.map(|code| Op::Load {
        module: MODULE,
        cubin: code.cubins[0].path.clone(),
        functions: code.cubins[0].names.clone(),
    });
    let mut gone = vec![Op::Forget { plan: PLAN }, Op::Free { buffer: FROM }, Op::Free { buffer: TO }];
    gone.extend(load.iter().map(|_| Op::Unload { module: MODULE }));
    let mut ready: Vec<Op> = load.into_iter().collect();
    ready.extend([
        Op::Allocate { buffer: FROM, bytes },
        Op::Allocate { buffer: TO, bytes },
        // Zeros may be kept compressed.
        Op::Fill { at: from, bytes, byte: 0x5a },
        Op::Plan { plan: PLAN, timed: Timed { clock: Clock::All, before, calls } },
    ]);
    let found = timed(gpu, &ready)?;
    left(gpu, found.is_ok(), &gone)?;
    Ok(found)
}

/// Takes back what was made; all of the worker, where something failed on the way.
fn left(gpu: &mut Gpu, whole: bool, gone: &[Op]) -> Result<(), ProcessError> {
    if !whole || gpu.ask(gone, PATIENCE)?.is_err() {
        gpu.end();
    }
    Ok(())
}

/// Operations of matrix products in 10^12 a second.
fn products(
    gpu: &mut Gpu,
    about: &DeviceProperties,
    instruction: Instruction,
    kind: &Kind,
    compiler: &Compiler,
) -> Result<Rate, ProcessError> {
    let (source, expression) = instruction.source(kind);
    let code = match Code::plain(&source, vec![expression], &arch_of(about), compiler) {
        Ok(code) => code,
        Err(NvrtcError::Process(error)) => return Err(error),
        Err(error) => return Ok(Err(chain(&error))),
    };
    let cubin = &code.cubins[0];
    let blocks = instruction.blocks(about.multiprocessors);
    let start = |turns: u32, seed: i32| -> Call {
        let out = Argument::Pointer(Place::start(OUT));
        let arguments = vec![out, Argument::I32(turns.cast_signed()), Argument::I32(seed)];
        let (grid, block) = ([blocks, 1, 1], [BLOCK, 1, 1]);
        let (module, function) = (MODULE, 0);
        let kernel = Kernel {
            module,
            function,
            grid,
            block,
            cluster: None,
            shared: 0,
            carveout: None,
            cooperative: false,
            arguments,
        };
        vec![Start::Kernel(kernel)]
    };
    let bytes = u64::from(blocks) * LEFT;
    let turns = instruction.turns();
    let before = vec![Start::Fill { at: Place::start(OUT), bytes, byte: 0 }];
    let ready = [
        Op::Allocate { buffer: OUT, bytes },
        Op::Load { module: MODULE, cubin: cubin.path.clone(), functions: cubin.names.clone() },
        Op::Run { calls: vec![start(COMPARED, 0)] },
        Op::Peek { at: Place::start(OUT), bytes },
        Op::Plan { plan: PLAN, timed: Timed { clock: Clock::All, before, calls: vec![start(turns, 1)] } },
    ];
    let found = match gpu.ask(&ready, PATIENCE)? {
        Ok(answers) if !right(&answers, instruction.sum(kind, COMPARED)) => {
            Err(format!("{} gave wrong sums", instruction.ptx(kind)))
        }
        Ok(_) => timed(gpu, &[])?,
        Err(failure) => Err(failure.to_string()),
    };
    let operations = f64::from(blocks) * instruction.operations(kind, turns);
    let gone = [Op::Forget { plan: PLAN }, Op::Unload { module: MODULE }, Op::Free { buffer: OUT }];
    left(gpu, found.is_ok(), &gone)?;
    Ok(found.map(|seconds| operations / seconds * 1e-12))
}

/// Whether all that a kernel left is this number.
fn right(answers: &[Answer], sum: u32) -> bool {
    let left = answers.iter().find_map(|answer| match answer {
        Answer::Bytes { bytes } => unhex(bytes),
        _ => None,
    });
    left.is_some_and(|left| !left.is_empty() && left.chunks(4).all(|word| *word == sum.to_le_bytes()))
}

/// Does `ready`, then samples the plan; the median of a call.
fn timed(gpu: &mut Gpu, ready: &[Op]) -> Result<Rate, ProcessError> {
    if let Err(failure) = gpu.ask(ready, PATIENCE)? {
        return Ok(Err(failure.to_string()));
    }
    let mut samples = Vec::new();
    for turn in 0..WARM_UP + SAMPLES {
        let answers = match gpu.ask(&[Op::Sample { plan: PLAN }], PATIENCE)? {
            Ok(answers) => answers,
            Err(failure) => return Ok(Err(failure.to_string())),
        };
        let seconds = sampled(answers).and_then(|sample| sample.seconds.first().copied());
        samples.extend(seconds.filter(|seconds| turn >= WARM_UP && *seconds > 0.0));
    }
    Ok(stats::median(&samples).ok_or_else(|| "the worker's clock stood still".to_owned()))
}

impl record::RunContext {
    /// Takes the rates that were measured on this device.
    pub(crate) fn set_ceilings(&mut self, ceilings: &Ceilings) {
        self.matrix_peak = ceilings.matrix_peaks();
        self.matrix_limit = ceilings.matrix_limits();
    }
}

#[cfg(test)]
mod tests {
    use kernel_plan::plan::CommandLine;

    use super::*;

    fn about(capability: (u32, u32)) -> DeviceProperties {
        DeviceProperties {
            name: "a GPU".to_owned(),
            capability,
            multiprocessors: 132,
            l2: 60 << 20,
            memory: 140 << 30,
            free: 130 << 30,
            shared: 232_448,
            threads: 1024,
            clock_khz: 1_980_000,
            driver: 13_000,
            pci: "0000:00:00.0".to_owned(),
            uuid: "GPU-0".to_owned(),
            visible: vec!["GPU-0".to_owned()],
        }
    }

    #[test]
    fn a_copy_is_larger_than_the_cache_and_smaller_than_the_memory() {
        let of = |l2, free| copied(&DeviceProperties { l2, free, ..about((9, 0)) });
        assert_eq!(of(60 << 20, 130 << 30), 1 << 30);
        assert_eq!(of(256 << 20, 130 << 30), 2 << 30);
        assert_eq!(of(60 << 20, (1 << 30) + 1), 1 << 28);
    }

    #[test]
    fn a_rate_follows_from_the_workers_clock_and_what_has_no_instruction_says_so() {
        // Four answers to what makes ready, one to each sample: a copy took a millisecond.
        let sampled =
            r#"{"answers":[{"is":"sampled","seconds":[0.001],"device":0.1,"wall":0.1}],"trouble":null}"#;
        let done = r#"{"answers":[],"trouble":null}"#;
        let script = format!(
            "while read -r line; do case $line in *sample*) echo '{sampled}';; *) echo '{done}';; esac; done"
        );
        let mut gpu =
            Gpu::within(|_| CommandLine::new("sh").args(["-c", &script]), std::time::Duration::ZERO);
        let found = measure(&mut gpu, &about((10, 0)), Err("no compiler"), &|_| ()).unwrap();
        let copy = &found.ceilings[0];
        assert_eq!((copy.of.as_str(), copy.unit.as_str()), ("copy", "GB/s"));
        assert!((copy.rate.unwrap() - 2.0 * 1.073_741_824e3).abs() < 1e-6, "{copy:?}");
        assert_eq!(found.ceilings.len(), 1 + KINDS.len());
        assert!(found.ceilings[1].not_measured.as_ref().unwrap().contains("tcgen05"), "{found:?}");
        assert!(found.is_whole(), "what has no instruction will have none tomorrow");
        let found = measure(&mut gpu, &about((9, 0)), Err("no compiler"), &|_| ()).unwrap();
        assert_eq!(found.ceilings[1].not_measured.as_deref(), Some("no compiler"));
        assert!(!found.is_whole() && found.matrix_peaks().is_empty());
    }

    #[test]
    fn sums_that_are_not_what_they_must_be_are_seen() {
        let left = |bytes: &str| [Answer::Done, Answer::Bytes { bytes: bytes.to_owned() }];
        assert!(right(&left("0000c0430000c043"), 384f32.to_bits()));
        assert!(!right(&left("0000c04300000000"), 384f32.to_bits()));
        assert!(!right(&left(""), 384f32.to_bits()));
        assert!(!right(&[Answer::Done], 0));
    }
}
