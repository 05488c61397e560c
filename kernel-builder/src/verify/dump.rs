//! The layout of a dump: every buffer of one trial, guards included, one after the other.
//!
//! Owns: where which tensor lies in a dump. Never: judges what it holds.
//!
//! First come the inputs that were passed, then what the call left: outputs in guarded buffers of their own, returned
//! tensors without guards, or gradients. An output that overwrites an input lies where that input lies. The process of a
//! package leaves all inputs out if they and their guards are as they were passed.

use std::borrow::Cow;

use super::fault::Fault;
use super::schedule::{Form, ScheduledCase, TensorSpec, Trial};

/// The parts of a dump.
pub(crate) struct Dump<'a> {
    case: &'a ScheduledCase,
    inputs: Vec<(&'a TensorSpec, Guarded<'a>)>,
    own: Vec<(&'a TensorSpec, Guarded<'a>)>,
    /// Whether outputs were dumped, not gradients.
    outputs: bool,
}

/// One tensor with what surrounds it.
pub(crate) struct Guarded<'a> {
    pub front: &'a [u8],
    /// The elements, dense and row-major.
    pub payload: Cow<'a, [u8]>,
    /// The first byte between elements that was written, counted from the first element.
    pub gap: Option<usize>,
    pub back: &'a [u8],
}

/// Where a result was left.
pub(crate) enum ResultPlace<'d> {
    /// In memory of its own.
    Own(&'d Guarded<'d>),
    /// Over the input of this place.
    Over(usize, &'d Guarded<'d>),
}

impl ResultPlace<'_> {
    /// The elements, dense and row-major.
    pub(crate) fn payload(&self) -> &[u8] {
        match self {
            Self::Own(guarded) | Self::Over(_, guarded) => &guarded.payload,
        }
    }
}

impl<'a> Dump<'a> {
    /// Cuts a dump into its tensors; the expected length when it has another. `passed` are the bytes of the inputs.
    pub(crate) fn cut(
        bytes: &'a [u8],
        case: &'a ScheduledCase,
        trial: &'a Trial,
        passed: &'a [u8],
    ) -> Result<Self, Fault> {
        let own: Vec<&TensorSpec> = match trial.form {
            Form::Gradient => case.gradients.iter().map(|gradient| &gradient.tensor).collect(),
            Form::Out | Form::Functional => case.returned().collect(),
        };
        let strides = |place: usize| trial.strides.get(&place).map(Vec::as_slice);
        let shift = |tensor: &TensorSpec| trial.shift * tensor.dtype.size_bytes();
        let guarded = |tensor: &TensorSpec, strides| match tensor.omitted {
            true => [0; 3],
            false => [trial.guard + shift(tensor), tensor.region(strides), trial.guard],
        };
        let input_parts: Vec<_> =
            case.inputs.iter().enumerate().map(|(place, tensor)| guarded(tensor, strides(place))).collect();
        let own_parts: Vec<_> = own
            .iter()
            .map(|tensor| match trial.form {
                Form::Out => guarded(tensor, None),
                Form::Functional | Form::Gradient => [0, tensor.bytes(), 0],
            })
            .collect();
        let expected = input_parts.iter().chain(&own_parts).flatten().sum();
        let results: usize = own_parts.iter().flatten().sum();
        let is_without_inputs = bytes.len() == results
            && results < expected
            && (0..case.inputs.len()).all(|place| !case.overwrites(place));
        if bytes.len() != expected && !is_without_inputs {
            return Err(Fault::Truncated { length: bytes.len(), expected });
        }
        let mut rest = bytes;
        let mut take = |[front, region, back]: [usize; 3], tensor: &TensorSpec, strides: Option<&[u64]>| {
            let mut next = |length| {
                let (taken, left) = rest.split_at(length);
                rest = left;
                taken
            };
            let (front, region, back) = (next(front), next(region), next(back));
            let (payload, gap) = match strides {
                Some(strides) if tensor.elements() > 0 => gather(region, tensor, strides, trial.poison),
                _ => (Cow::Borrowed(region), None),
            };
            Guarded { front, payload, gap, back }
        };
        let inputs = if is_without_inputs {
            as_passed(case, passed)
        } else {
            let parts = case.inputs.iter().zip(input_parts).enumerate();
            parts.map(|(place, (tensor, parts))| (tensor, take(parts, tensor, strides(place)))).collect()
        };
        let own = own.into_iter().zip(own_parts).map(|(tensor, parts)| (tensor, take(parts, tensor, None)));
        let own = own.collect();
        Ok(Self { case, inputs, own, outputs: trial.form != Form::Gradient })
    }

    /// The inputs, in the order of arguments; nothing at the place of one that was not passed.
    pub(crate) fn inputs(&self) -> &[(&'a TensorSpec, Guarded<'a>)] {
        &self.inputs
    }

    /// Every tensor in memory that belongs to the dump.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&'a TensorSpec, &Guarded<'a>)> {
        self.inputs.iter().chain(&self.own).map(|(tensor, guarded)| (*tensor, guarded))
    }

    /// What the call left, in the order of outputs, or of gradients.
    pub(crate) fn results(&self) -> Vec<(&'a TensorSpec, ResultPlace<'_>)> {
        let mut own = self.own.iter();
        if !self.outputs {
            return own.map(|(tensor, guarded)| (*tensor, ResultPlace::Own(guarded))).collect();
        }
        let placed = |output: &'a TensorSpec| match output.inplace {
            Some(place) => Some((output, ResultPlace::Over(place, &self.inputs.get(place)?.1))),
            None => own.next().map(|(tensor, guarded)| (*tensor, ResultPlace::Own(guarded))),
        };
        self.case.outputs.iter().filter_map(placed).collect()
    }

    /// The bytes of what the call left, one after the other.
    pub(crate) fn result_bytes(&self) -> Vec<u8> {
        let results = self.results();
        results.iter().map(|(_, placed)| placed.payload()).collect::<Vec<_>>().concat()
    }
}

/// The inputs as they were passed, with nothing written beside them.
fn as_passed<'a>(case: &'a ScheduledCase, passed: &'a [u8]) -> Vec<(&'a TensorSpec, Guarded<'a>)> {
    let mut rest = passed;
    let inputs = case.inputs.iter().map(|tensor| {
        let (payload, left) = rest.split_at(tensor.bytes().min(rest.len()));
        rest = left;
        (tensor, Guarded { front: &[], payload: Cow::Borrowed(payload), gap: None, back: &[] })
    });
    inputs.collect()
}

/// The elements of a tensor with gaps, and the first byte of a gap that is not poison any more.
fn gather<'a>(
    region: &[u8],
    tensor: &TensorSpec,
    strides: &[u64],
    poison: u8,
) -> (Cow<'a, [u8]>, Option<usize>) {
    let size = tensor.dtype.size_bytes();
    let mut payload = Vec::with_capacity(tensor.bytes());
    let mut covered = vec![false; region.len()];
    for place in 0..tensor.elements() as u64 {
        let mut rest = place;
        let mut element = 0;
        for (length, stride) in tensor.shape.iter().zip(strides).rev() {
            element += rest % length * stride;
            rest /= length;
        }
        let byte = element as usize * size;
        payload.extend_from_slice(&region[byte..][..size]);
        covered[byte..][..size].fill(true);
    }
    let gap = region.iter().zip(&covered).position(|(byte, covered)| !covered && *byte != poison);
    (Cow::Owned(payload), gap)
}
