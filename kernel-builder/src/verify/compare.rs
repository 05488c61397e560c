//! Reads a dump and says what is wrong with it.
//!
//! Owns: the layout of dumps, the order of precedence among findings of one trial, element decoding.
//! Never: starts a process.

use half::{bf16, f16};
use kernel_plan::units::Dtype;

use super::bound::Bound;
use super::schedule::{Form, GUARD, ScheduledCase, TensorSpec, Trial};

/// What is wrong with the dump of one trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// The dump is not as long as it must be.
    Truncated { length: usize, expected: usize },
    /// A byte outside of a tensor was written.
    Guard { tensor: String, bytes_away: usize, after: bool },
    /// An input is not as it was.
    InputChanged { tensor: String, element: Element, was: f64 },
    /// An element still holds the poison.
    Unwritten { tensor: String, element: Element, count: usize },
    /// An element is further from the exact value than rounding explains.
    Wrong { tensor: String, element: Element, exact: f64, allowed: f64, count: usize, elements: usize },
}

/// One element of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Element {
    /// Index per dimension.
    pub index: Vec<u64>,
    /// Its value.
    pub value: f64,
}

/// What was right about the dump of one trial.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agreement {
    /// Largest error as a share of the bound.
    pub of_bound: f64,
    /// Largest error relative to the exact value's size (or the row's, where that is larger).
    pub relative: f64,
    /// The outputs' bytes, to compare trials with each other.
    pub outputs: Vec<u8>,
}

/// The parts of a dump.
pub(crate) struct Dump<'a> {
    inputs: Vec<Guarded<'a>>,
    outputs: Vec<Guarded<'a>>,
}

struct Guarded<'a> {
    front: &'a [u8],
    payload: &'a [u8],
    back: &'a [u8],
}

impl<'a> Dump<'a> {
    /// Cuts a dump into its tensors; the expected length when it has another.
    pub(crate) fn cut(bytes: &'a [u8], case: &ScheduledCase, trial: &Trial) -> Result<Self, Fault> {
        let parts = |guarded: bool, tensors: &[TensorSpec]| -> Vec<[usize; 3]> {
            let part = |tensor: &TensorSpec| {
                let shift = trial.shift * tensor.dtype.size_bytes();
                if guarded { [GUARD + shift, tensor.bytes(), GUARD] } else { [0, tensor.bytes(), 0] }
            };
            tensors.iter().map(part).collect()
        };
        let inputs = parts(true, &case.inputs);
        let outputs = parts(trial.form == Form::Out, &case.outputs);
        let expected = inputs.iter().chain(&outputs).flatten().sum();
        if bytes.len() != expected {
            return Err(Fault::Truncated { length: bytes.len(), expected });
        }
        let mut rest = bytes;
        let mut take = |lengths: Vec<[usize; 3]>| -> Vec<Guarded<'a>> {
            let mut next = |length| {
                let (taken, left) = rest.split_at(length);
                rest = left;
                taken
            };
            lengths
                .into_iter()
                .map(|[front, payload, back]| Guarded {
                    front: next(front),
                    payload: next(payload),
                    back: next(back),
                })
                .collect()
        };
        Ok(Self { inputs: take(inputs), outputs: take(outputs) })
    }

    /// The outputs' bytes, one after the other.
    pub(crate) fn outputs(&self) -> Vec<u8> {
        self.outputs.iter().flat_map(|output| output.payload.iter().copied()).collect()
    }
}

/// The first fault of a dump, the gravest kind first: guards, inputs, then values.
///
/// `inputs` are the bytes that were passed, `expected` the exact outputs, one after the other. Outputs that equal
/// `agreed`, which was examined before with the same expectation, are not examined again.
pub(crate) fn examine(
    dump: &Dump<'_>,
    case: &ScheduledCase,
    trial: &Trial,
    inputs: &[u8],
    expected: &[f64],
    bounds: &[Bound],
    agreed: Option<&[u8]>,
) -> Result<Agreement, Fault> {
    let tensors = || case.inputs.iter().zip(&dump.inputs).chain(case.outputs.iter().zip(&dump.outputs));
    for (tensor, guarded) in tensors() {
        guards(tensor, guarded, trial.poison)?;
    }
    let mut rest = inputs;
    for (tensor, guarded) in case.inputs.iter().zip(&dump.inputs) {
        let (before, left) = rest.split_at(tensor.bytes());
        rest = left;
        unchanged(tensor, before, guarded.payload)?;
    }
    let mut agreement = Agreement { outputs: dump.outputs(), ..Agreement::default() };
    if agreed.is_some_and(|agreed| agreed == agreement.outputs) {
        return Ok(agreement);
    }
    let mut rest = expected;
    for ((tensor, guarded), bound) in case.outputs.iter().zip(&dump.outputs).zip(bounds) {
        let (exact, left) = rest.split_at(tensor.elements());
        rest = left;
        values(tensor, guarded.payload, exact, bound, trial.poison, &mut agreement)?;
    }
    Ok(agreement)
}

/// The error of PyTorch's own result, as a share of the bound; not judged.
pub(crate) fn share_of_bound(
    case: &ScheduledCase,
    computed: &[u8],
    expected: &[f64],
    bounds: &[Bound],
) -> f64 {
    let (mut bytes, mut exact, mut largest) = (computed, expected, 0f64);
    for (tensor, bound) in case.outputs.iter().zip(bounds) {
        let row_length = row_length(tensor);
        for (row, values) in exact[..tensor.elements()].chunks(row_length).enumerate() {
            let size = root_mean_square(values);
            for (column, exact) in values.iter().enumerate() {
                let computed = decode(tensor.dtype, bytes, row * row_length + column);
                if exact.is_finite() && computed.is_finite() {
                    largest = largest.max(share(computed, *exact, bound, size));
                }
            }
        }
        bytes = &bytes[tensor.bytes()..];
        exact = &exact[tensor.elements()..];
    }
    largest
}

fn guards(tensor: &TensorSpec, guarded: &Guarded<'_>, poison: u8) -> Result<(), Fault> {
    let written = |byte: &u8| *byte != poison;
    let fault = |bytes_away, after| Fault::Guard { tensor: tensor.name.clone(), bytes_away, after };
    if let Some(place) = guarded.front.iter().rposition(written) {
        return Err(fault(guarded.front.len() - place, false));
    }
    match guarded.back.iter().position(written) {
        Some(place) => Err(fault(place + 1, true)),
        None => Ok(()),
    }
}

fn unchanged(tensor: &TensorSpec, before: &[u8], after: &[u8]) -> Result<(), Fault> {
    if before == after {
        return Ok(());
    }
    let byte = before.iter().zip(after).position(|(before, after)| before != after).unwrap_or(0);
    let place = byte / tensor.dtype.size_bytes();
    Err(Fault::InputChanged {
        tensor: tensor.name.clone(),
        element: Element { index: index_of(tensor, place), value: decode(tensor.dtype, after, place) },
        was: decode(tensor.dtype, before, place),
    })
}

fn values(
    tensor: &TensorSpec,
    payload: &[u8],
    exact: &[f64],
    bound: &Bound,
    poison: u8,
    agreement: &mut Agreement,
) -> Result<(), Fault> {
    let size = tensor.dtype.size_bytes();
    let row_length = row_length(tensor);
    let (mut wrong, mut unwritten) = ((0, None), (0, None));
    for (row, values) in exact.chunks(row_length).enumerate() {
        let row_size = root_mean_square(values);
        for (column, exact) in values.iter().enumerate() {
            let place = row * row_length + column;
            let computed = decode(tensor.dtype, payload, place);
            if bound.admits(computed, *exact, row_size) {
                if exact.is_finite() && computed.is_finite() {
                    agreement.of_bound = agreement.of_bound.max(share(computed, *exact, bound, row_size));
                    let scale = exact.abs().max(row_size);
                    if scale > 0.0 {
                        agreement.relative = agreement.relative.max((computed - exact).abs() / scale);
                    }
                }
                continue;
            }
            let poisoned = payload[place * size..][..size].iter().all(|byte| *byte == poison);
            let found = if poisoned { &mut unwritten } else { &mut wrong };
            found.0 += 1;
            found.1.get_or_insert((place, computed, *exact, bound.at(*exact, row_size)));
        }
    }
    let element = |place, value| Element { index: index_of(tensor, place), value };
    match (wrong, unwritten) {
        (_, (count, Some((place, computed, ..)))) => {
            Err(Fault::Unwritten { tensor: tensor.name.clone(), element: element(place, computed), count })
        }
        ((count, Some((place, computed, exact, allowed))), _) => Err(Fault::Wrong {
            tensor: tensor.name.clone(),
            element: element(place, computed),
            exact,
            allowed,
            count,
            elements: tensor.elements(),
        }),
        _ => Ok(()),
    }
}

fn share(computed: f64, exact: f64, bound: &Bound, row_size: f64) -> f64 {
    let (error, allowed) = ((computed - exact).abs(), bound.at(exact, row_size));
    if error == 0.0 { 0.0 } else { error / allowed }
}

/// The length of the last dimension; everything is one row where there is none.
fn row_length(tensor: &TensorSpec) -> usize {
    tensor.shape.last().map_or(1, |length| *length as usize).max(1)
}

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|value| value * value).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

fn index_of(tensor: &TensorSpec, place: usize) -> Vec<u64> {
    let mut rest = place as u64;
    let mut index: Vec<u64> = tensor
        .shape
        .iter()
        .rev()
        .map(|length| {
            let part = rest % length.max(&1);
            rest /= length.max(&1);
            part
        })
        .collect();
    index.reverse();
    index
}

/// Element `place` of little-endian data, as float64; integers of 64 bits lose what float64 cannot hold.
pub(crate) fn decode(dtype: Dtype, bytes: &[u8], place: usize) -> f64 {
    fn at<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
        let mut element = [0; N];
        element.copy_from_slice(&bytes[place * N..][..N]);
        element
    }
    match dtype {
        Dtype::Bf16 => bf16::from_le_bytes(at(bytes, place)).to_f64(),
        Dtype::F16 => f16::from_le_bytes(at(bytes, place)).to_f64(),
        Dtype::F32 => f64::from(f32::from_le_bytes(at(bytes, place))),
        Dtype::F64 => f64::from_le_bytes(at(bytes, place)),
        Dtype::F8e4m3 => eight_bits(u8::from_le_bytes(at(bytes, place)), 3),
        Dtype::F8e5m2 => eight_bits(u8::from_le_bytes(at(bytes, place)), 2),
        Dtype::I8 => f64::from(i8::from_le_bytes(at(bytes, place))),
        Dtype::I16 => f64::from(i16::from_le_bytes(at(bytes, place))),
        Dtype::I32 => f64::from(i32::from_le_bytes(at(bytes, place))),
        Dtype::I64 => i64::from_le_bytes(at(bytes, place)) as f64,
        Dtype::Bool => f64::from(u8::from_le_bytes(at(bytes, place))),
    }
}

/// A floating-point number of 8 bits, `mantissa` of them mantissa: E5M2 is as IEEE's formats are, E4M3 has no infinity
/// and one NaN (OCP 8-bit Floating Point Specification, 2023, table 1).
fn eight_bits(bits: u8, mantissa: u32) -> f64 {
    let exponents = (1 << (7 - mantissa)) - 1;
    let exponent = i32::from(bits & 0x7f) >> mantissa;
    let fraction = i32::from(bits) & ((1 << mantissa) - 1);
    let bias = exponents / 2;
    let size = match (exponent, fraction) {
        (top, 0) if top == exponents && mantissa == 2 => f64::INFINITY,
        (top, _) if top == exponents && mantissa == 2 => f64::NAN,
        (top, 7) if top == exponents && mantissa == 3 => f64::NAN,
        (0, fraction) => f64::from(fraction) * 2f64.powi(1 - bias - mantissa as i32),
        (exponent, fraction) => {
            f64::from(fraction + (1 << mantissa)) * 2f64.powi(exponent - bias - mantissa as i32)
        }
    };
    if bits & 0x80 == 0 { size } else { -size }
}

/// Float64 values of a file.
pub(crate) fn doubles(bytes: &[u8]) -> Vec<f64> {
    (0..bytes.len() / 8).map(|place| decode(Dtype::F64, bytes, place)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::schedule::{InputSet, Purpose};
    use super::*;

    #[test]
    fn numbers_of_eight_bits() {
        // 0.5, the largest, the smallest, minus one, what lies beyond.
        for (bits, number) in [(0x30, 0.5), (0x7e, 448.0), (0x01, 2f64.powi(-9)), (0xb8, -1.0), (0x78, 256.0)]
        {
            assert_eq!(decode(Dtype::F8e4m3, &[bits], 0), number, "{bits:#x}");
        }
        assert!(decode(Dtype::F8e4m3, &[0x7f], 0).is_nan() && decode(Dtype::F8e4m3, &[0xff], 0).is_nan());
        for (bits, number) in
            [(0x38, 0.5), (0x7b, 57344.0), (0x01, 2f64.powi(-16)), (0xbc, -1.0), (0x7c, f64::INFINITY)]
        {
            assert_eq!(decode(Dtype::F8e5m2, &[bits], 0), number, "{bits:#x}");
        }
        assert!(decode(Dtype::F8e5m2, &[0x7d], 0).is_nan() && decode(Dtype::F8e5m2, &[0xff], 0).is_nan());
    }

    fn tensor(name: &str, shape: &[u64]) -> TensorSpec {
        TensorSpec { name: name.to_owned(), shape: shape.to_vec(), dtype: Dtype::F32 }
    }

    fn case() -> ScheduledCase {
        ScheduledCase {
            id: "case".to_owned(),
            place: 0,
            inputs: vec![tensor("x", &[2, 2])],
            outputs: vec![tensor("y", &[2, 2])],
            sets: vec![InputSet::default()],
            trials: vec![],
        }
    }

    fn trial() -> Trial {
        Trial {
            id: 0,
            purpose: Purpose::Plain,
            set: 0,
            form: Form::Out,
            poison: 0xff,
            arena: "main",
            shift: 1,
            calls: 1,
        }
    }

    const INPUT: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
    /// Where the payloads of input and output begin.
    const STARTS: [usize; 2] = [GUARD + 4, (GUARD + 4) * 2 + 16 + GUARD];

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// The verdict over a dump of the identity function, after `change`.
    fn check(change: impl Fn(&mut Vec<u8>)) -> Result<Agreement, Fault> {
        let guarded = |values: &[f32]| [vec![0xff; GUARD + 4], bytes(values), vec![0xff; GUARD]].concat();
        let mut dumped = [guarded(&INPUT), guarded(&INPUT)].concat();
        change(&mut dumped);
        let (case, trial) = (case(), trial());
        let dump = Dump::cut(&dumped, &case, &trial)?;
        let exact: Vec<f64> = INPUT.iter().map(|value| f64::from(*value)).collect();
        let bound = [Bound::new(Dtype::F32, Dtype::F32, 1, 2)];
        examine(&dump, &case, &trial, &bytes(&INPUT), &exact, &bound, None)
    }

    #[test]
    fn an_honest_dump_passes() {
        let agreement = check(|_| ()).unwrap();
        assert_eq!(agreement.of_bound, 0.0);
        assert_eq!(agreement.outputs, bytes(&INPUT));
    }

    #[test]
    fn guards_are_watched_on_both_sides() {
        let [_, output] = STARTS;
        let fault = |bytes_away, after| Fault::Guard { tensor: "y".to_owned(), bytes_away, after };
        assert_eq!(check(|dump| dump[output - 4] = 0).unwrap_err(), fault(4, false));
        assert_eq!(check(|dump| dump[output + 16] = 0).unwrap_err(), fault(1, true));
    }

    #[test]
    fn a_changed_input_is_named() {
        let [input, _] = STARTS;
        let fault = check(|dump| dump[input + 8..input + 12].copy_from_slice(&7f32.to_le_bytes()));
        let element = Element { index: vec![1, 0], value: 7.0 };
        assert_eq!(fault.unwrap_err(), Fault::InputChanged { tensor: "x".to_owned(), element, was: 3.0 });
    }

    #[test]
    fn poison_counts_as_unwritten_and_other_values_as_wrong() {
        let [_, output] = STARTS;
        let unwritten = check(|dump| dump[output + 12..output + 16].fill(0xff)).unwrap_err();
        assert!(
            matches!(unwritten, Fault::Unwritten { ref element, count: 1, .. } if element.index == [1, 1])
        );
        let wrong =
            check(|dump| dump[output..output + 4].copy_from_slice(&1.1f32.to_le_bytes())).unwrap_err();
        assert!(matches!(wrong, Fault::Wrong { exact: 1.0, count: 1, elements: 4, .. }), "{wrong:?}");
    }

    #[test]
    fn a_short_dump_is_no_dump() {
        assert!(matches!(check(|dump| dump.truncate(9)).unwrap_err(), Fault::Truncated { length: 9, .. }));
    }
}
