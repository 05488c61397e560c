//! What a GPU worker is asked and what it answers, one JSON line each.
//!
//! Owns: the words. Never: knows what an operation of op.toml is; a worker only keeps memory, starts kernels and reads
//! clocks.

use std::path::PathBuf;

use kernel_plan::spec::launch::{ConcreteTensorMap, Interleave, L2Promotion, OobFill, Swizzle};
use kernel_plan::units::Dtype;
use serde::{Deserialize, Serialize};

/// A byte of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The number that whoever asks gave the buffer.
    pub buffer: u32,
    /// Bytes from its start.
    pub offset: u64,
}

impl Place {
    /// The start of a buffer.
    pub(crate) fn start(buffer: u32) -> Self {
        Self { buffer, offset: 0 }
    }

    /// So many bytes further.
    pub(crate) fn plus(self, bytes: u64) -> Self {
        Self { offset: self.offset + bytes, ..self }
    }
}

/// One thing to do. The operations of a request are done in order, and the first that fails ends it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub(crate) enum Op {
    /// Says what the device is.
    About,
    /// Takes memory; its content is undefined.
    Allocate { buffer: u32, bytes: u64 },
    /// Gives it back, or forgets memory of another process.
    Free { buffer: u32 },
    /// Lets another process of this device use a buffer.
    Export { buffer: u32 },
    /// Uses a buffer that another process exported.
    Import { buffer: u32, handle: String, bytes: u64 },
    /// Writes one byte over and over.
    Fill { at: Place, bytes: u64, byte: u8 },
    /// Writes a part of a file.
    Upload { at: Place, bytes: u64, file: PathBuf, from: u64 },
    /// Reads a few bytes.
    Peek { at: Place, bytes: u64 },
    /// Writes ranges to a file, one after the other; the file appears whole or not at all.
    Dump { file: PathBuf, ranges: Vec<(Place, u64)> },
    /// Copies inside of the device.
    Copy { to: Place, from: Place, bytes: u64 },
    /// Loads machine code and finds these functions in it, by their mangled names.
    Load { module: u32, cubin: PathBuf, functions: Vec<String> },
    /// Uses a variable of machine code as a buffer.
    Adopt { buffer: u32, module: u32, symbol: String, bytes: u64 },
    /// Forgets machine code.
    Unload { module: u32 },
    /// Makes calls, and waits until the whole device is idle.
    Run { calls: Vec<Call> },
    /// Prepares what is timed.
    Plan { plan: u32, timed: Timed },
    /// Times it once.
    Sample { plan: u32 },
    /// Forgets it.
    Forget { plan: u32 },
    /// Takes back what a candidate may have left set: persisting cache lines.
    Settle,
}

/// One call of an operation: what is started, in order, on one stream.
pub(crate) type Call = Vec<Start>;

/// Something that the stream does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "start", rename_all = "kebab-case")]
pub(crate) enum Start {
    /// Fills memory.
    Fill { at: Place, bytes: u64, byte: u8 },
    /// Copies inside of the device.
    Copy { to: Place, from: Place, bytes: u64 },
    /// Starts a kernel.
    Kernel(Kernel),
}

/// A kernel with its geometry and arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kernel {
    /// The number that whoever asks gave the machine code.
    pub module: u32,
    /// The place of the function in the list that it was loaded with.
    pub function: u32,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Percent of a multiprocessor's memory that are to be shared memory; -1: the driver chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carveout: Option<i32>,
    /// Whether all blocks run at once.
    pub cooperative: bool,
    /// What is passed.
    pub arguments: Vec<Argument>,
}

/// What is passed to a kernel. Floating-point numbers travel as their bits, so that NaN and infinities arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Argument {
    /// An address.
    Pointer(Place),
    /// The null pointer.
    Null,
    /// A 32-bit integer.
    I32(i32),
    /// A 64-bit integer.
    I64(i64),
    /// A truth, one byte.
    Bool(bool),
    /// A `float`.
    F32(u32),
    /// A `double`.
    F64(u64),
    /// A tensor map by value.
    TensorMap(Box<TensorMap>),
}

/// A tensor map, innermost dimension first; see [`ConcreteTensorMap`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TensorMap {
    /// Where the tensor begins.
    pub at: Place,
    /// Element type.
    #[serde(with = "named")]
    pub dtype: Dtype,
    /// Elements.
    pub lengths: Vec<u64>,
    /// Bytes between neighbours, for all dimensions but the innermost.
    pub strides: Vec<u64>,
    /// Elements of a copy.
    pub box_lengths: Vec<u32>,
    /// Each how many elements one is copied.
    pub element_strides: Vec<u32>,
    /// Layout in shared memory.
    #[serde(with = "named")]
    pub swizzle: Swizzle,
    /// Layout of channels.
    #[serde(with = "named")]
    pub interleave: Interleave,
    /// What comes into the L2 cache.
    #[serde(with = "named")]
    pub l2_promotion: L2Promotion,
    /// What is read outside.
    #[serde(with = "named")]
    pub oob_fill: OobFill,
}

impl TensorMap {
    /// The map of a tensor that begins there.
    pub(crate) fn new(map: &ConcreteTensorMap, at: Place) -> Self {
        Self {
            at,
            dtype: map.dtype,
            lengths: map.lengths.clone(),
            strides: map.strides.clone(),
            box_lengths: map.box_lengths.clone(),
            element_strides: map.element_strides.clone(),
            swizzle: map.swizzle,
            interleave: map.interleave,
            l2_promotion: map.l2_promotion,
            oob_fill: map.oob_fill,
        }
    }
}

/// What is timed, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timed {
    /// What the clock is read around.
    pub clock: Clock,
    /// Untimed, before the clock starts. It also keeps the device busy while the rest is put in the queue.
    pub before: Call,
    /// What is timed.
    pub calls: Vec<Call>,
}

/// What the clock is read around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Clock {
    /// All calls together, in one CUDA graph: one number, the mean.
    All,
    /// Every call, each after `before`.
    Each,
}

/// What one operation gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// It was done.
    Done,
    /// What the device is.
    About(DeviceProperties),
    /// A name under which another process of the device finds a buffer.
    Handle { handle: String },
    /// Bytes in hexadecimal.
    Bytes { bytes: String },
    /// What the functions use, in the order in which they were named.
    Functions { functions: Vec<Function> },
    /// Seconds.
    Sampled(Sampled),
}

/// The device, in the driver's numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeviceProperties {
    /// As its maker calls it.
    pub name: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of the L2 cache.
    pub l2: u64,
    /// Bytes of device memory, and of those how many are free.
    pub memory: u64,
    /// Free bytes.
    pub free: u64,
    /// Bytes of shared memory that a block can have.
    pub shared: u32,
    /// Threads that a block can have.
    pub threads: u32,
    /// The highest clock of the multiprocessors, kHz.
    pub clock_khz: u32,
    /// The driver's CUDA version, e.g. 13000.
    pub driver: i32,
    /// PCI address.
    pub pci: String,
    /// Its name for `CUDA_VISIBLE_DEVICES`, as NVML has it too: `GPU-` and a UUID.
    pub uuid: String,
    /// Such names of all devices that the process sees, in their order; the worker uses the first.
    pub visible: Vec<String>,
}

/// What a function uses, as the driver says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Function {
    /// Its mangled name.
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of static shared memory of a block.
    pub shared: u32,
    /// Bytes of local memory of a thread: spilled registers, arrays that are indexed at run time, the stack.
    pub local: u32,
    /// Threads that a block may have.
    pub threads: u32,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sampled {
    /// Seconds a call by the device's clock: one number for [`Clock::All`], one a call for [`Clock::Each`].
    pub seconds: Vec<f64>,
    /// Seconds from the first thing in the queue to the last, by the device's clock.
    pub device: f64,
    /// The same by the host's clock, until the whole device was idle.
    pub wall: f64,
}

/// The answers to a request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// One for each operation that was done.
    pub answers: Vec<Answer>,
    /// Why the next one was not.
    pub trouble: Option<OperationError>,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OperationError {
    /// Whose word it is.
    pub from: Origin,
    /// The driver's number, e.g. 700; 0 for the worker's own words.
    pub code: u32,
    /// The driver's name for it, e.g. `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub name: String,
    /// For people.
    pub text: String,
    /// Whether the context is lost, so that the worker ends.
    pub fatal: bool,
}

/// Who says that an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Origin {
    /// The CUDA driver.
    Driver,
    /// The file system.
    Files,
    /// The worker: the request makes no sense.
    Request,
}

/// Values that specifications know by name.
mod named {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Bytes that were in hexadecimal; nothing where they were not.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    digits
        .len()
        .is_multiple_of(2)
        .then(|| digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::hex;

    #[test]
    fn bytes_survive_hexadecimal() {
        let bytes = [0, 1, 0x7f, 0x80, 0xff];
        assert_eq!(hex(&bytes), "00017f80ff");
        assert_eq!(unhex(&hex(&bytes)).unwrap(), bytes);
        assert_eq!((unhex("0"), unhex("0g"), unhex("")), (None, None, Some(vec![])));
    }

    #[test]
    fn a_request_survives_the_line() {
        let kernel = Kernel {
            module: 1,
            function: 0,
            grid: [7, 1, 1],
            block: [256, 1, 1],
            cluster: None,
            shared: 0,
            carveout: Some(-1),
            cooperative: false,
            arguments: vec![
                Argument::Pointer(Place { buffer: 3, offset: 16 }),
                Argument::Null,
                Argument::F32(f32::NAN.to_bits()),
                Argument::F64(f64::INFINITY.to_bits()),
                Argument::I64(i64::MIN),
            ],
        };
        let ops = vec![Op::About, Op::Run { calls: vec![vec![Start::Kernel(kernel)]] }];
        let line = serde_json::to_string(&ops).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Vec<Op>>(&line).unwrap(), ops);
    }
}
