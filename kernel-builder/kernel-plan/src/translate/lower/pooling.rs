//! Pooling with small windows: every element of a window is a view of the operand.
//!
//! Owns: which windows are small, and their steps. Never: an index of the largest element.

use super::super::index::Index;
use super::super::length::Length;
use super::super::program::{Class, Kind, Op, ValueId};
use super::super::refusal::Refusal;
use super::super::traced::Argument;
use super::call::Call;
use super::lowering::Lowering;
use super::views::{identity, padded};

/// The most elements that a result is made of. A pooling of a pooling multiplies them.
const MOST_ELEMENTS: i64 = 32;

/// The window along one axis.
struct Window {
    axis: usize,
    length: i64,
    stride: i64,
    padding: i64,
    dilation: i64,
}

/// The value of an operator of this file.
pub(super) fn meaning(of: &mut Lowering, name: &str, call: &Call) -> Result<Option<ValueId>, Refusal> {
    let base = name.split('.').next().unwrap_or(name);
    Ok(Some(match base {
        "max_pool1d" | "max_pool2d_with_indices" | "max_pool3d_with_indices" => {
            let x = floats(of, call)?;
            let windows = windows(of, x, call, true)?;
            if call.flag(5, "ceil_mode") {
                return Err(Refusal::new("windows that reach over the end (ceil_mode)"));
            }
            pooled(of, call, x, f64::NEG_INFINITY, &windows, Op::Maximum)?
        }
        "avg_pool1d" | "avg_pool2d" | "avg_pool3d" => {
            let x = floats(of, call)?;
            let windows = windows(of, x, call, false)?;
            if call.flag(4, "ceil_mode") {
                return Err(Refusal::new("windows that reach over the end (ceil_mode)"));
            }
            let pads = windows.iter().any(|one| one.padding != 0);
            let counts_pads =
                matches!(call.get(5, "count_include_pad"), Argument::Absent | Argument::Bool(true));
            if pads && !counts_pads {
                return Err(Refusal::new("means of windows that count fewer elements at the border"));
            }
            let elements = windows.iter().map(|one| one.length).product();
            let divisor = call.whole_or(6, "divisor_override", elements)?;
            let sum = pooled(of, call, x, 0.0, &windows, Op::Add)?;
            #[expect(clippy::cast_precision_loss, reason = "a count of elements of a window")]
            let divisor = of.float(divisor as f64);
            of.floats(Op::Divide, &[sum, divisor])?
        }
        _ => return Ok(None),
    }))
}

fn floats(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let x = of.operand(call.at(0))?;
    if of.class(x) == Class::Float { Ok(x) } else { Err(Refusal::new("a pooling of integers")) }
}

/// The windows along the last axes.
fn windows(of: &Lowering, x: ValueId, call: &Call, dilates: bool) -> Result<Vec<Window>, Refusal> {
    let lengths = numbers(call.at(1))?;
    let rank = of.shape(x).len();
    let count = lengths.len();
    // op.toml could not say how long the result is: PyTorch's operator takes all lengths.
    if call.shape()?.iter().rev().take(count).any(|length| length.value().is_none()) {
        return Err(Refusal::new("how many windows there are depends on the call"));
    }
    if count > rank {
        return Err(Refusal::new("a window has more axes than the tensor"));
    }
    let of_all = |argument: &Argument, other: &[i64]| -> Result<Vec<i64>, Refusal> {
        let found = if matches!(argument, Argument::Absent) { Vec::new() } else { numbers(argument)? };
        Ok(match found.as_slice() {
            [] => other.to_vec(),
            [one] => vec![*one; count],
            _ => found,
        })
    };
    let strides = of_all(call.get(2, "stride"), &lengths)?;
    let paddings = of_all(call.get(3, "padding"), &vec![0; count])?;
    let ones = vec![1; count];
    let dilations = if dilates { of_all(call.get(4, "dilation"), &ones)? } else { ones };
    let parts = lengths.iter().zip(&strides).zip(&paddings).zip(&dilations).enumerate();
    let windows: Vec<Window> = parts
        .map(|(place, (((length, stride), padding), dilation))| Window {
            axis: rank - count + place,
            length: *length,
            stride: *stride,
            padding: *padding,
            dilation: *dilation,
        })
        .collect();
    let elements: i64 = windows.iter().map(|one| one.length).product();
    if elements.saturating_mul(weight(of, x)) > MOST_ELEMENTS {
        return Err(Refusal::new(format!("windows of more than {MOST_ELEMENTS} elements")));
    }
    Ok(windows)
}

fn numbers(argument: &Argument) -> Result<Vec<i64>, Refusal> {
    let one = |argument: &Argument| match argument {
        Argument::Length(length) => length.value(),
        _ => None,
    };
    let found = match argument {
        Argument::List(all) => all.iter().map(one).collect(),
        other => one(other).map(|number| vec![number]),
    };
    found.ok_or_else(|| Refusal::new("a window of a length that is not a number"))
}

/// How many elements a result of an earlier pooling is made of, if a value has one on the way to its tensors.
fn weight(of: &Lowering, value: ValueId) -> i64 {
    let mut known: Vec<i64> = Vec::with_capacity(value + 1);
    for (place, one) in of.values[..=value].iter().enumerate() {
        let most = match &one.kind {
            Kind::Pointwise(_, from) => from.iter().map(|from| known[*from]).max().unwrap_or(1),
            Kind::View(from, _) | Kind::Scan(_, from, _) | Kind::Gather(from, ..) => known[*from],
            Kind::Reduce(..) | Kind::Input(_) | Kind::Number(_) | Kind::Quantity(_) | Kind::Place(_) => 1,
        };
        known.push(of.pooled.get(&place).copied().unwrap_or(most));
    }
    known[value]
}

/// Joins all elements of each window.
fn pooled(
    of: &mut Lowering,
    call: &Call,
    x: ValueId,
    fill: f64,
    windows: &[Window],
    op: Op,
) -> Result<ValueId, Refusal> {
    let (own, shape) = (of.shape(x), call.shape()?);
    let mut around = own.clone();
    for one in windows {
        around[one.axis] = &around[one.axis] + &Length::number(2 * one.padding);
    }
    let pads: Vec<(usize, Length)> = windows
        .iter()
        .filter(|one| one.padding != 0)
        .map(|one| (one.axis, Length::number(one.padding)))
        .collect();
    let fill = of.float(fill);
    let source = of.named("padded", |of| padded(of, x, around, &pads, fill))?;
    let elements: i64 = windows.iter().map(|one| one.length).product();
    let mut found: Option<ValueId> = None;
    for number in 0..elements {
        let mut place = identity(own.len());
        let mut rest = number;
        for one in windows.iter().rev() {
            let begin = Index::length(Length::number(rest % one.length * one.dilation));
            rest /= one.length;
            place[one.axis] = place[one.axis].times(&Length::number(one.stride)).plus(&begin);
        }
        let element = of.named("element", |of| of.view(source, shape.clone(), place));
        found = Some(match found {
            Some(others) => of.floats(op, &[others, element])?,
            None => element,
        });
    }
    let found = found.ok_or_else(|| Refusal::new("windows without elements"))?;
    let elements = elements * weight(of, x);
    of.pooled.insert(found, elements);
    Ok(found)
}
