//! The dialogue of a judgement: the oracle, the candidate and the linter (`harness/main.py`).
//!
//! Owns: what each role is told, the events. Never: tells the candidate a seed or an expected value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Scalars, SourceText, TensorSpec};

/// The role of a process, and its task.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "role", rename_all = "kebab-case")]
pub(crate) enum Job {
    Oracle(OracleJob),
    Candidate(CandidateJob),
    Linter(LinterJob),
}

/// Makes the inputs of all cases, and later the expected results.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OracleJob {
    /// The seed of all values; secret.
    pub seed: u64,
    /// Threads for every computation on the host.
    pub threads: usize,
    /// Whether other processes have priority.
    pub behind: bool,
    /// Whether float64 arithmetic may run on the GPU.
    pub on_gpu: bool,
    /// The project's reference file.
    pub reference: SourceText,
    /// The reference function.
    pub function: String,
    /// The function that computes gradients, if the project has one.
    pub gradient: Option<String>,
    /// The file whose text says whether expected results are wanted.
    pub gate: String,
    /// The folder for inputs.
    pub inputs_dir: String,
    /// The folder for expected results.
    pub expected_dir: String,
    pub cases: Vec<OracleCase>,
}

/// A case with the inputs to make.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OracleCase {
    /// The case's name, a part of each seed.
    pub id: String,
    /// Its place in the schedule, which names its files.
    pub place: usize,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    /// The gradients that are judged, in the order of inputs.
    pub gradients: Vec<GradientSpec>,
    /// For each output the error that the bound explains for each unit of the size of its terms, where PyTorch's own operators
    /// are a part of what is judged, so that their errors explain its errors; empty for others.
    pub explained: Vec<f64>,
    pub sets: Vec<InputSet>,
}

/// The gradient with respect to one input.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct GradientSpec {
    /// Named as PyTorch names it, `weight.grad`; shape and dtype are those of the input.
    pub tensor: TensorSpec,
    /// The input's place.
    pub of: usize,
}

/// How the values of inputs are distributed; `harness/values.py` draws them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Distribution {
    #[default]
    Normal,
    Small,
    Large,
    Sparse,
    Uniform,
    Equal,
    OneHot,
    Sorted,
    Shifted,
    Outlier,
    Tiny,
    Mixed,
    NonFinite,
}

/// The arguments of one call.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct InputSet {
    pub kind: Distribution,
    /// The set whose values this one repeats, but for one element, one scalar or one change.
    pub edit_of: Option<usize>,
    /// The input that holds the changed element.
    pub edit_input: Option<usize>,
    /// The change to whole inputs.
    pub change: Option<Change>,
    #[cfg_attr(test, schemars(with = "BTreeMap<String, super::schema::Scalar>"))]
    pub scalars: Scalars,
    /// Whether PyTorch's own result in the real dtype is wanted for comparison.
    pub baseline: bool,
    /// Whether gradients at these values are wanted.
    pub gradient: bool,
    /// Whether the size of terms is wanted for every row, since no row shows it.
    pub hard: bool,
}

/// A change to inputs as a whole; inputs are named by their places.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(crate) enum Change {
    /// All its values are drawn anew.
    Redraw { input: usize },
    /// Along one dimension its values change places, differently in every line of that dimension.
    Shuffle { input: usize, dimension: usize },
    /// The indices of these dimensions, given as input and dimension, run backwards.
    Reverse { places: Vec<(usize, usize)> },
    /// Its values are multiplied.
    Scale { input: usize, by: f64 },
    /// A number is added to its values.
    Shift { input: usize, by: f64 },
}

/// Imports a package, and calls its function as scheduled.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CandidateJob {
    /// The package's folder.
    pub package: String,
    /// The namespace of its operators.
    pub namespace: String,
    /// Its function, if an operation names one.
    pub function: Option<String>,
    /// `cpu`, `cuda` or another backend.
    pub device: String,
    /// Threads for every computation on the host.
    pub threads: usize,
    /// The folder that is the process's home. It can write nowhere else, except to the folder of dumps. Absent if this
    /// system cannot confine a process.
    pub home: Option<String>,
    /// The calls to make; absent to import the package alone.
    pub schedule: Option<Schedule>,
}

/// The calls of a candidate.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Schedule {
    /// The keywords of given outputs.
    pub out: Vec<String>,
    /// The file whose text says whether the package may be imported.
    pub begin: String,
    /// The file whose text says whether the inputs are there.
    pub gate: String,
    /// The folder of inputs.
    pub inputs_dir: String,
    /// The folder for what calls leave.
    pub dumps_dir: String,
    pub cases: Vec<CandidateCase>,
}

/// A case with the calls to make.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CandidateCase {
    /// Its place in the schedule, which names its files.
    pub place: usize,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    /// The gradients that are judged, in the order of inputs.
    pub gradients: Vec<GradientSpec>,
    pub sets: Vec<CandidateSet>,
    pub trials: Vec<Trial>,
}

/// The arguments of a call as the candidate's process knows them; their values lie in a file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CandidateSet {
    #[cfg_attr(test, schemars(with = "BTreeMap<String, super::schema::Scalar>"))]
    pub scalars: Scalars,
}

/// One call (or several) of the candidate, and the dump that follows it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Trial {
    /// Unique in the schedule, counted from 0.
    pub id: usize,
    /// Place in the case's sets.
    pub set: usize,
    pub form: Form,
    /// The byte that fills guards and outputs.
    pub poison: u8,
    /// Trials of a case that name the same arena use the same addresses.
    pub arena: String,
    /// Bytes on each side of a tensor that nobody may write.
    pub guard: usize,
    /// Elements by which every tensor is moved off the allocation's alignment.
    pub shift: usize,
    /// Strides in elements, by the place of the input, of inputs that are not dense.
    pub strides: BTreeMap<String, Vec<u64>>,
    /// Calls before the dump; inputs and poison are renewed before the first and the last.
    pub calls: u32,
    /// Alone, or in which kind of group: neighbors of one manner are one group.
    pub manner: Manner,
    /// The input that is watched, if the manner is about one.
    pub input: Option<usize>,
}

/// How results are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    /// Into given tensors.
    Out,
    /// Returned.
    Functional,
    /// Returned, and differentiated.
    Gradient,
}

/// How a trial is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Manner {
    /// Alone.
    Single,
    /// In a group whose results are all held.
    Held,
    /// In a group on two streams.
    Streams,
    /// In a group whose inputs are overwritten right after each call.
    Overwritten,
    /// With an input that cannot be written.
    ReadOnly,
    /// With an input that another stream reads meanwhile.
    ReadAlong,
    /// In a group between whose calls kept memory is scrambled.
    Scrambled,
}

/// Computes the reference in float64 at many sets of inputs.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LinterJob {
    /// The seed of all values; the same for everyone.
    pub seed: u64,
    pub threads: usize,
    /// The device of the reference.
    pub device: String,
    /// The project's reference file.
    pub reference: SourceText,
    /// The reference function.
    pub function: String,
    /// The folder for inputs and results.
    pub values_dir: String,
    pub cases: Vec<LinterCase>,
}

/// A case, and which of its sets have values of their own: the inputs of those are written, too.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LinterCase {
    pub case: OracleCase,
    /// For each set.
    pub plain: Vec<bool>,
}

/// An event of a role.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Event {
    /// The oracle or the linter has loaded the reference.
    Started { torch: String, python: String },
    /// The oracle has written the inputs of all cases.
    InputsReady {},
    /// The reference fails: on one case, or when it is loaded.
    NoReference { case: Option<usize>, error: String },
    /// PyTorch has no result in the real dtype.
    NoBaseline { reason: String },
    /// The oracle has written the expected results of one set.
    Expected {
        case: usize,
        set: usize,
        /// Whether there is a result of PyTorch in the real dtype.
        baseline: bool,
        /// Whether the reference leaves open what an infinity or NaN leads to.
        undefined: bool,
        /// SHA-256 of each file, in hexadecimal.
        digests: Vec<String>,
    },
    /// The linter has written the files of one case.
    Computed { case: usize },
    /// The package is imported.
    Loaded(Loaded),
    /// The import fails.
    LoadFailed { error: String },
    /// A trial begins.
    Begin { trial: usize },
    /// A trial has left its dump.
    End { trial: usize },
    /// The package keeps memory between calls.
    Kept { bytes: usize },
    /// A dump could not be written because the disk is full. The process ends.
    NoSpace {},
    /// A trial failed.
    Failed { trial: usize, kind: Failure, error: String },
    /// The role is at its end.
    Done {
        /// Python files of others that the candidate's process opened.
        opened: Vec<String>,
    },
}

/// An imported package.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Loaded {
    /// Operators in its namespace.
    pub operators: Vec<String>,
    /// Operators of its libraries in other namespaces.
    pub elsewhere: Vec<String>,
    /// Operators with two kernels for one dispatch key.
    pub doubled: Vec<String>,
    pub has_function: bool,
    /// Whether the import imports `torch._dynamo`.
    pub imports_compiler: bool,
    pub torch: String,
    pub python: String,
    /// `cpu`, or the GPU's name.
    pub device: String,
    pub cuda_available: bool,
}

/// Why a trial failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Failure {
    /// The call raised an exception.
    Raised,
    /// It returned values of another form.
    Malformed,
    /// A function of Python, torch or the harness was replaced.
    Tampered,
    /// A setting of the whole process was changed.
    Settings,
    /// A result changed after the caller's stream had finished.
    Stream,
    /// The package asked the network.
    Network,
    /// An input changed during the call.
    Disturbed,
}
