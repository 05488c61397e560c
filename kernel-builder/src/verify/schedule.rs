//! What is called with what: the inputs of each case and the order of calls.
//!
//! Owns: the choice of value distributions, poison patterns, buffers and repetitions. Pure.
//! Never: runs anything; the harness follows the schedule, the judge reads the results by it.

use kernel_plan::spec::op::{Case, CaseTensor, ScalarValue};
use kernel_plan::units::Dtype;
use serde::Serialize;
use serde_json::{Map, Value};

/// Bytes on each side of a tensor that nobody may write.
pub(crate) const GUARD: usize = 16 << 10;
/// NaN in every floating-point format.
const POISON_NAN: u8 = 0xff;
/// A finite number in every floating-point format: 203.25 in f16, 1.5e16 in bf16 and f32.
const POISON_FINITE: u8 = 0x5a;
/// Cases up to this many bytes of inputs and outputs get every trial; larger ones those that large data can fail.
const THOROUGH: u64 = 3 << 20;
/// Calls in a row on one small case, so that a kernel that stops working after a while is seen.
const REPEATS: u32 = 48;

/// One case with all that happens to it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ScheduledCase {
    /// The case's name, for people and for the seed.
    pub id: String,
    /// Its place in the schedule, which names its files.
    pub place: usize,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    /// What is passed; trials name one by its place.
    pub sets: Vec<InputSet>,
    pub trials: Vec<Trial>,
}

/// A tensor as the harness reads it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TensorSpec {
    pub name: String,
    pub shape: Vec<u64>,
    #[serde(serialize_with = "as_text")]
    pub dtype: Dtype,
}

impl TensorSpec {
    pub(crate) fn of(tensor: &CaseTensor) -> Self {
        Self { name: tensor.name.to_string(), shape: tensor.shape.clone(), dtype: tensor.dtype }
    }

    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }

    pub(crate) fn bytes(&self) -> usize {
        self.elements() * self.dtype.size_bytes()
    }
}

fn as_text<S: serde::Serializer>(dtype: &Dtype, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(dtype.as_str())
}

/// The arguments of one call.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct InputSet {
    /// How the values are distributed; see the oracle.
    pub kind: &'static str,
    /// The set whose values this one repeats, but for one element or one scalar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit_of: Option<usize>,
    /// The input that holds the changed element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit_input: Option<usize>,
    /// The scalar that has another value than in the set of the same inputs.
    #[serde(skip)]
    pub changed_scalar: Option<String>,
    pub scalars: Map<String, Value>,
    /// Whether PyTorch's own result in the real dtype is wanted for comparison.
    pub baseline: bool,
}

/// One call (or several) of the candidate, and the dump that follows it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Trial {
    /// Unique in the schedule, counted from 0.
    pub id: usize,
    pub purpose: Purpose,
    /// Place in the case's sets.
    pub set: usize,
    /// `out`: into given tensors; `functional`: returned.
    pub form: Form,
    /// The byte that fills guards and outputs.
    pub poison: u8,
    /// Trials of a case that name the same arena use the same addresses.
    pub arena: &'static str,
    /// Elements by which every tensor is moved off the allocation's alignment.
    pub shift: usize,
    /// Calls before the dump; inputs and poison are renewed before the first and the last.
    pub calls: u32,
}

/// How results are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    Out,
    Functional,
}

/// What a trial is for, in the words of its refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Purpose {
    /// Ordinary values.
    Plain,
    /// The same call again into outputs of another poison.
    Again,
    /// Other values at the same addresses.
    Replay,
    /// One element changed, at the same addresses.
    Edit,
    /// One scalar changed.
    Scalar,
    /// Values of another size.
    Magnitude,
    /// Many zeros.
    Zeros,
    /// Tensors that are aligned to their element only.
    Offset,
    /// Other addresses.
    Rotate,
    /// The last of many calls.
    Repeat,
}

impl Purpose {
    /// For people: "with ...".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Plain => "normal values",
            Self::Again => "the same values again",
            Self::Replay => "new values at the same addresses",
            Self::Edit => "one element changed",
            Self::Scalar => "another scalar",
            Self::Magnitude => "values of another magnitude",
            Self::Zeros => "mostly zeros",
            Self::Offset => "tensors at odd addresses",
            Self::Rotate => "new addresses",
            Self::Repeat => "many calls in a row",
        }
    }
}

/// The schedule of every case, trials numbered through.
pub(crate) fn schedule(cases: &[Case], takes_out: bool) -> Vec<ScheduledCase> {
    let mut next = 0;
    cases.iter().enumerate().map(|(place, case)| scheduled(place, case, takes_out, &mut next)).collect()
}

fn scheduled(place: usize, case: &Case, takes_out: bool, next: &mut usize) -> ScheduledCase {
    let tensors = |side: &[CaseTensor]| side.iter().map(TensorSpec::of).collect::<Vec<_>>();
    let (inputs, outputs) = (tensors(&case.inputs), tensors(&case.outputs));
    let bytes: usize = inputs.iter().chain(&outputs).map(TensorSpec::bytes).sum();
    let thorough = bytes as u64 <= THOROUGH;
    let scalars = scalars_of(case);
    let set = |kind| InputSet { kind, scalars: scalars.clone(), ..InputSet::default() };

    let mut sets = vec![InputSet { baseline: true, ..set("normal") }, set("normal")];
    let given = if takes_out { Form::Out } else { Form::Functional };
    let mut trials = Vec::new();
    let mut plan = |purpose, set, form, poison, arena: &'static str, calls| {
        let shift = usize::from(arena == "offset");
        trials.push(Trial { id: *next, purpose, set, form, poison, arena, shift, calls });
        *next += 1;
    };
    plan(Purpose::Plain, 0, given, POISON_NAN, "main", 1);
    plan(Purpose::Again, 0, given, POISON_FINITE, "main", 1);
    plan(Purpose::Replay, 1, given, POISON_NAN, "main", 1);
    if takes_out {
        plan(Purpose::Plain, 0, Form::Functional, POISON_NAN, "main", 1);
    }
    if thorough {
        for (place, _) in inputs.iter().enumerate().filter(|(_, input)| input.elements() > 0) {
            sets.push(InputSet { edit_of: Some(1), edit_input: Some(place), ..set("normal") });
            plan(Purpose::Replay, 1, given, POISON_FINITE, "main", 1);
            plan(Purpose::Edit, sets.len() - 1, given, POISON_NAN, "main", 1);
        }
        for (purpose, kind) in
            [(Purpose::Magnitude, "small"), (Purpose::Magnitude, "large"), (Purpose::Zeros, "sparse")]
        {
            sets.push(set(kind));
            plan(purpose, sets.len() - 1, given, POISON_NAN, "main", 1);
        }
        for scalar in &case.scalars {
            let name = scalar.name.to_string();
            let Some(value) = another(&scalar.value) else { continue };
            let mut scalars = scalars.clone();
            scalars.insert(name.clone(), value);
            // The values of set 1, so that the scalar alone differs.
            sets.push(InputSet {
                edit_of: Some(1),
                scalars,
                changed_scalar: Some(name),
                kind: "normal",
                ..InputSet::default()
            });
            plan(Purpose::Scalar, sets.len() - 1, given, POISON_NAN, "main", 1);
        }
        plan(Purpose::Offset, 0, given, POISON_NAN, "offset", 1);
        plan(Purpose::Rotate, 1, given, POISON_FINITE, "second", 1);
        plan(Purpose::Rotate, 0, given, POISON_NAN, "third", 1);
        plan(Purpose::Repeat, 1, given, POISON_NAN, "main", REPEATS);
    }
    ScheduledCase { id: case.id.clone(), place, inputs, outputs, sets, trials }
}

fn scalars_of(case: &Case) -> Map<String, Value> {
    case.scalars.iter().map(|scalar| (scalar.name.to_string(), value_of(&scalar.value))).collect()
}

fn value_of(value: &ScalarValue) -> Value {
    match value {
        ScalarValue::Float(value) => Value::from(*value),
        ScalarValue::Int(value) => Value::from(*value),
        ScalarValue::Bool(value) => Value::from(*value),
    }
}

/// A value that an operation must tell from the given one. Integers may be axes or counts, so they keep theirs.
fn another(value: &ScalarValue) -> Option<Value> {
    match value {
        ScalarValue::Float(value) => Some(Value::from(value * 2.0 + 0.25)),
        ScalarValue::Bool(value) => Some(Value::from(!value)),
        ScalarValue::Int(_) => None,
    }
}
