//! The dialogue of a measurement: a process with the package, and one with the reference (`harness/timer.py`).
//!
//! A process is opened with a [`Job`] and answers [`Answer::Machine`], then [`Answer::Open`]. Each [`Request`] has one
//! answer, but for a block, which has two: [`Answer::Ready`], and after [`Request::Go`] the seconds that it took.
//!
//! Owns: what each process is told, its requests and answers. Never: tells the candidate's process of the reference.

use std::collections::BTreeMap;

use kernel_plan::spec::op::Case;
use kernel_plan::units::Dtype;
use serde::{Deserialize, Serialize};

use super::{Scalars, SourceText, TensorSpec};

/// The role of a process, and what it is given.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "role", rename_all = "kebab-case")]
pub(crate) enum Job {
    Baseline(BaselineJob),
    Candidate(KernelJob),
}

/// Times the baselines, and compares outputs with the reference.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct BaselineJob {
    /// `cpu` or `cuda`.
    pub device: String,
    pub threads: usize,
    pub reference: Reference,
    /// Baselines that are left out.
    pub without: Vec<String>,
    pub tolerance: Tolerance,
}

/// The project's reference.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Reference {
    /// Its file.
    pub source: SourceText,
    /// The reference function.
    pub function: String,
    /// PyTorch's fused operator, if there is one.
    pub fused: Option<String>,
}

/// How far outputs may be from those of the reference.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Tolerance {
    /// The dtype of sums.
    #[cfg_attr(test, schemars(with = "super::schema::DtypeName"))]
    pub accumulate: Dtype,
    /// Roundings to the output's dtype.
    pub roundings: u64,
    /// Whether several times what PyTorch itself is off are allowed, for a package that calls its operators.
    pub own_errors: bool,
}

/// Times the function of a package.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct KernelJob {
    /// `cpu` or `cuda`.
    pub device: String,
    pub threads: usize,
    /// The package's folder.
    pub package: String,
    /// The name under which it is imported.
    pub id: String,
    /// Its function.
    pub call: String,
    /// The folder for inputs and outputs of calls.
    pub outputs_dir: String,
    /// The folder that is the process's home. It can write nowhere else, except to the folder of outputs. Absent if this
    /// system cannot confine a process.
    pub home: Option<String>,
}

/// One concrete call.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TimedCase {
    pub id: String,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    #[cfg_attr(test, schemars(with = "BTreeMap<String, super::schema::Scalar>"))]
    pub scalars: Scalars,
    /// How many terms are accumulated.
    pub accumulated: u64,
}

impl From<&Case> for TimedCase {
    fn from(case: &Case) -> Self {
        let tensors = |side: &[_]| side.iter().map(|tensor| TensorSpec::new(tensor, &case.inputs)).collect();
        Self {
            id: case.id.clone(),
            inputs: tensors(&case.inputs),
            outputs: tensors(&case.outputs),
            scalars: case.scalars.iter().map(|scalar| (scalar.name.to_string(), scalar.value)).collect(),
            accumulated: case.accumulated,
        }
    }
}

/// A request to a process.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Take a case.
    Begin {
        case: TimedCase,
    },
    /// Make and warm the contenders of the case.
    Prepare {
        /// Decides the values that contents are cut from.
        seed: u64,
    },
    Block(BlockRequest),
    /// Start the clock of the block.
    Go {},
    /// Name the calls of the last block that left nothing but what lay in their outputs before.
    Suspect {},
    /// Write inputs and outputs of these calls of the last block to these files.
    Give {
        places: Vec<u64>,
        files: Vec<String>,
    },
    /// Compare the outputs in files with the reference.
    Judge {
        calls: Vec<TimedCall>,
    },
    /// Trace some calls of a case.
    Trace {
        case: TimedCase,
        seed: u64,
    },
    /// Forget the case.
    Leave {},
}

/// Prepare a block of calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct BlockRequest {
    /// Whom to call. A block of nobody, or without calls, shows what the clocks cost, and what is done beside them.
    pub contender: Option<String>,
    pub regime: Regime,
    /// Calls that are timed.
    pub calls: u64,
    /// The input set of the first of them; the others follow, wrapping round.
    pub first: u64,
    /// Decides the contents of the sets. A process learns it when the block begins.
    pub seed: u64,
    /// Before the call at the first number, the edit of the second number is done to its set; not timed.
    pub edits: Vec<(u64, u64)>,
    pub aim: Aim,
}

/// How calls follow each other, and what lies in the caches before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Regime {
    /// Calls on the processor, one after the other.
    Host,
    /// Single calls on the GPU after its L2 cache was flushed.
    Cold,
    /// Replays of a CUDA graph of calls that rotates over sets larger than the L2 cache together.
    Graph,
    /// Replays of a CUDA graph of calls on the same inputs.
    Hot,
}

impl Regime {
    /// All.
    pub(crate) const ALL: [Self; 4] = [Self::Host, Self::Cold, Self::Graph, Self::Hot];

    /// Its name in records.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Cold => "cold",
            Self::Graph => "graph",
            Self::Hot => "hot",
        }
    }
}

/// The purpose of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Aim {
    /// A sample, whose outputs can be asked for.
    Sample,
    /// Clocks are compared: many calls in a row as a caller makes them, without outputs.
    Audit,
    /// The same, of calls that all wait in the queue of a busy device, so that the host's time hides no work of theirs.
    Queue,
}

/// A timed call whose outputs lie in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TimedCall {
    pub file: String,
    /// The seed of its block.
    pub seed: u64,
    /// The number of its contents: that of its set, but where every call has contents of its own.
    pub number: u64,
    pub edits: Edits,
}

/// Edits of a call's set, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Edits {
    /// Those that were done before the call.
    pub done: Vec<u64>,
    /// Those of the whole block.
    pub all: Vec<u64>,
}

/// An answer of a process.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Answer {
    Machine(Machine),
    /// The process waits for requests.
    Open {},
    Begun(Need),
    Prepared(Prepared),
    /// The block is prepared.
    Ready {},
    Done(Done),
    /// Calls that left nothing in their outputs.
    Suspected {
        places: Vec<u64>,
    },
    /// The files are written, unless the form of an output is wrong.
    Given {
        wrong: Option<String>,
    },
    /// The first output or input that is wrong, if any.
    Judged {
        wrong: Option<String>,
    },
    Traced(TracedCalls),
    /// The case is forgotten.
    Left {},
    /// The request raised an exception.
    Raised {
        reason: String,
    },
}

/// The machine that figures belong to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    pub torch: String,
    pub python: String,
    pub threads: u64,
    /// `cpu` or the GPU's name; absent if the machine does not have the device of the job.
    pub device: Option<String>,
    /// Why it is absent.
    pub reason: Option<String>,
    /// Bytes of the GPU's L2 cache.
    pub l2: Option<u64>,
}

/// The memory that a case needs before it can be prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Need {
    /// Bytes of the device's memory that this process will hold, about.
    pub needs: u64,
    /// Free bytes, if they are known.
    pub free: Option<u64>,
    /// Bytes that the operation reads and writes at least.
    pub bytes: u64,
}

/// The contenders that can be timed on a case.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Prepared {
    /// Input sets over which calls rotate.
    pub sets: u64,
    pub regimes: Vec<Sizes>,
    pub skipped: Vec<LeftOut>,
    /// Facts for an auditor of the baselines.
    pub notes: Vec<String>,
}

/// How many calls a block has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Sizes {
    pub regime: Regime,
    /// By contender.
    pub calls: BTreeMap<String, u64>,
    /// The most calls of an audit, by contender.
    pub most: BTreeMap<String, u64>,
    /// Calls that fit into the queue of a device, by contender; empty without such a queue.
    pub queued: BTreeMap<String, u64>,
}

/// A contender that is not timed, in one regime or in all.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct LeftOut {
    pub name: String,
    pub regime: Option<Regime>,
    pub reason: String,
}

/// What one block took.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Done {
    /// Seconds of all timed calls by the device's events; on a processor by the process's own clock.
    pub device: f64,
    /// Seconds from the word to begin until the device was idle, by the process's own clock.
    pub inside: f64,
    /// Calls whose outputs are kept; all where it is absent.
    pub kept: Option<Vec<u64>>,
}

/// What NVIDIA's tracer saw of some calls.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct TracedCalls {
    pub calls: u64,
    /// Seconds in which the device did something for the process, on whichever stream.
    pub busy: f64,
    pub streams: u64,
    pub kernels: Vec<TracedKernel>,
    /// Why nothing was seen.
    pub reason: Option<String>,
}

/// What one kernel, copy or fill took of all calls together.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct TracedKernel {
    /// As the driver names it.
    pub name: String,
    pub launches: u64,
    pub seconds: f64,
}
