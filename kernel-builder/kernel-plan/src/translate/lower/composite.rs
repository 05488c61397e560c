//! Operators that are several steps: softmax and normalizations.
//!
//! Owns: their steps. Never: a step of another kind.

use super::super::length::Length;
use super::super::program::{Class, Op, Reduction, ValueId};
use super::super::refusal::{Assumed, Refusal};
use super::super::traced::Argument;
use super::call::Call;
use super::lowering::Lowering;

/// The values of an operator of this file.
pub(super) fn meaning(of: &mut Lowering, name: &str, call: &Call) -> Result<Option<Vec<ValueId>>, Refusal> {
    let base = name.split('.').next().unwrap_or(name);
    Ok(Some(match base {
        "_softmax" | "_log_softmax" => vec![softmax(of, base, call)?],
        "logsumexp" => vec![logsumexp(of, call)?],
        "var" | "var_mean" | "std" => {
            let operand = of.operand(call.at(0))?;
            let operand = of.convert(operand, Class::Float);
            let axes = call.axes(1, "dim", of.shape(operand).len())?;
            let correction = call.float_or(9, "correction", 1.0)?;
            let keep = call.flag(9, "keepdim");
            let (mean, squares) = moments(of, operand, &axes)?;
            let count = of.count(operand, &axes);
            let variance = if correction == 0.0 {
                of.floats(Op::Divide, &[squares, count])?
            } else {
                let (correction, zero) = (of.float(correction), of.float(0.0));
                let fewer = of.floats(Op::Subtract, &[count, correction])?;
                let fewer = of.floats(Op::Maximum, &[fewer, zero])?;
                of.floats(Op::Divide, &[squares, fewer])?
            };
            let mut found =
                vec![if base == "std" { of.function("square_root", variance)? } else { variance }];
            if base == "var_mean" {
                found.push(mean);
            }
            if !keep {
                for (one, shape) in found.iter_mut().zip(&call.shapes) {
                    *one = of.reshaped(*one, shape.clone())?;
                }
            }
            found
        }
        "linalg_vector_norm" => vec![norm(of, call)?],
        "native_layer_norm" => {
            let operand = of.operand(call.at(0))?;
            let rank = of.shape(operand).len();
            let axes: Vec<usize> = (rank - call.lengths(1)?.len()..rank).collect();
            let eps = call.float_or(4, "eps", 1e-5)?;
            let (normed, mean, deviation) = normed(of, operand, &axes, eps)?;
            vec![affine(of, normed, call.at(2), call.at(3), None)?, mean, deviation]
        }
        "native_group_norm" => group_norm(of, call)?,
        "_native_batch_norm_legit" if name.ends_with("no_stats") => {
            let operand = of.operand(call.at(0))?;
            let shape = of.shape(operand);
            let axes: Vec<usize> = (0..shape.len()).filter(|axis| *axis != 1).collect();
            let eps = call.float_or(5, "eps", 1e-5)?;
            let (normed, mean, deviation) = normed(of, operand, &axes, eps)?;
            let out = affine(of, normed, call.at(1), call.at(2), Some(1))?;
            let mut found = vec![out];
            for (one, shape) in [mean, deviation].into_iter().zip(call.shapes.iter().skip(1)) {
                found.push(of.reshaped(one, shape.clone())?);
            }
            found
        }
        "_native_batch_norm_legit_no_training" => vec![batch_norm(of, call)?],
        _ => return Ok(None),
    }))
}

fn softmax(of: &mut Lowering, base: &str, call: &Call) -> Result<ValueId, Refusal> {
    let x = of.operand(call.at(0))?;
    let x = of.convert(x, Class::Float);
    let axis = call.axis(1, "dim", of.shape(x).len())?;
    if of.shape(x).is_empty() {
        return Err(Refusal::new("a softmax of a single number"));
    }
    let largest = of.named("largest", |of| of.reduce(Reduction::Largest, x, &[axis], true))?;
    let shifted = of.floats(Op::Subtract, &[x, largest])?;
    let grown = of.function("exponential", shifted)?;
    let sum = of.named("total", |of| of.reduce(Reduction::Sum, grown, &[axis], true))?;
    if base == "_softmax" {
        return of.floats(Op::Divide, &[grown, sum]);
    }
    let logarithm = of.function("logarithm", sum)?;
    of.floats(Op::Subtract, &[shifted, logarithm])
}

fn logsumexp(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let x = of.operand(call.at(0))?;
    let x = of.convert(x, Class::Float);
    let axes = call.axes(1, "dim", of.shape(x).len())?;
    let largest = of.named("largest", |of| of.reduce(Reduction::Largest, x, &axes, true))?;
    // The difference of infinities is none.
    let is_infinite = of.pointwise(Op::Function("is_infinite"), &[largest], Class::Boolean)?;
    let zero = of.float(0.0);
    let origin = of.pointwise(Op::Choose, &[is_infinite, zero, largest], Class::Float)?;
    let shifted = of.floats(Op::Subtract, &[x, origin])?;
    let grown = of.function("exponential", shifted)?;
    let sum = of.named("total", |of| of.reduce(Reduction::Sum, grown, &axes, true))?;
    let logarithm = of.function("logarithm", sum)?;
    let found = of.floats(Op::Add, &[logarithm, origin])?;
    of.reshaped(found, call.shape()?)
}

fn norm(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let x = of.operand(call.at(0))?;
    let x = of.convert(x, Class::Float);
    let order = call.float_or(1, "ord", 2.0)?;
    let axes = call.axes(2, "dim", of.shape(x).len())?;
    let size = of.pointwise(Op::Abs, &[x], Class::Float)?;
    let found = if order.is_infinite() {
        let how = if order > 0.0 { Reduction::Largest } else { Reduction::Smallest };
        of.reduce(how, size, &axes, false)?
    } else if order == 0.0 {
        let zero = of.float(0.0);
        let counted = of.pointwise(Op::NotEqual, &[x, zero], Class::Boolean)?;
        let counted = of.convert(counted, Class::Float);
        of.reduce(Reduction::Sum, counted, &axes, false)?
    } else if order == 1.0 {
        of.reduce(Reduction::Sum, size, &axes, false)?
    } else if order == 2.0 {
        let squares = of.floats(Op::Multiply, &[x, x])?;
        let sum = of.named("squares", |of| of.reduce(Reduction::Sum, squares, &axes, false))?;
        of.function("square_root", sum)?
    } else {
        let (exponent, root) = (of.float(order), of.float(1.0 / order));
        let powers = of.floats(Op::Power, &[size, exponent])?;
        let sum = of.named("powers", |of| of.reduce(Reduction::Sum, powers, &axes, false))?;
        of.floats(Op::Power, &[sum, root])?
    };
    of.reshaped(found, call.shape()?)
}

/// The mean, and the squares of what elements differ from it by, added up, along some axes, which stay.
fn moments(of: &mut Lowering, x: ValueId, axes: &[usize]) -> Result<(ValueId, ValueId), Refusal> {
    let mean = of.named("mean", |of| of.reduce(Reduction::Mean, x, axes, true))?;
    let squares = of.named("squares", |of| of.reduce(Reduction::Squares, x, axes, true))?;
    Ok((mean, squares))
}

/// Normalized elements, the mean and the inverse of the deviation.
fn normed(
    of: &mut Lowering,
    x: ValueId,
    axes: &[usize],
    eps: f64,
) -> Result<(ValueId, ValueId, ValueId), Refusal> {
    let x = of.convert(x, Class::Float);
    let (mean, squares) = moments(of, x, axes)?;
    let difference = of.floats(Op::Subtract, &[x, mean])?;
    let (count, eps) = (of.count(x, axes), of.float(eps));
    let variance = of.floats(Op::Divide, &[squares, count])?;
    let sum = of.floats(Op::Add, &[variance, eps])?;
    let inverse = of.function("inverse_root", sum)?;
    Ok((of.floats(Op::Multiply, &[difference, inverse])?, mean, inverse))
}

/// Times a weight and plus a bias, if they are given; those of channels along `channels`.
fn affine(
    of: &mut Lowering,
    x: ValueId,
    weight: &Argument,
    bias: &Argument,
    channels: Option<usize>,
) -> Result<ValueId, Refusal> {
    let mut found = x;
    for (argument, op) in [(weight, Op::Multiply), (bias, Op::Add)] {
        if matches!(argument, Argument::Absent) {
            continue;
        }
        let operand = of.operand(argument)?;
        let operand = along_channels(of, operand, x, channels)?;
        found = of.floats(op, &[found, operand])?;
    }
    Ok(found)
}

/// A value of each channel, so that it is broadcast along the other axes.
fn along_channels(
    of: &mut Lowering,
    value: ValueId,
    x: ValueId,
    channels: Option<usize>,
) -> Result<ValueId, Refusal> {
    let Some(axis) = channels else { return Ok(value) };
    let mut shape = of.shape(value);
    shape.extend(vec![Length::number(1); of.shape(x).len() - axis - 1]);
    of.reshaped(value, shape)
}

fn group_norm(of: &mut Lowering, call: &Call) -> Result<Vec<ValueId>, Refusal> {
    let x = of.operand(call.at(0))?;
    let shape = of.shape(x);
    let number = call.whole(6)?;
    let groups = Length::number(number);
    let eps = call.float_or(7, "eps", 1e-5)?;
    let uneven = || Refusal {
        assumed: shape[1].as_symbol().map(|symbol| Box::new(Assumed::Multiple(symbol.to_owned(), number))),
        ..Refusal::new(format!("{} channels are not a multiple of {number} groups", shape[1]))
    };
    let channels = shape[1].divided(&groups).ok_or_else(uneven)?;
    let spatial = Length::product(&shape[2..]);
    let parts = of.reshaped(x, vec![shape[0].clone(), groups, channels, spatial])?;
    let (normed, mean, inverse) = normed(of, parts, &[2, 3], eps)?;
    let whole = of.reshaped(normed, shape)?;
    let mut found = vec![affine(of, whole, call.at(1), call.at(2), Some(1))?];
    for (one, shape) in [mean, inverse].into_iter().zip(call.shapes.iter().skip(1)) {
        found.push(of.reshaped(one, shape.clone())?);
    }
    Ok(found)
}

fn batch_norm(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let x = of.operand(call.at(0))?;
    let (mean, variance) = (of.operand(call.at(3))?, of.operand(call.at(4))?);
    let eps = of.float(call.float_or(6, "eps", 1e-5)?);
    let mean = along_channels(of, mean, x, Some(1))?;
    let variance = along_channels(of, variance, x, Some(1))?;
    let sum = of.floats(Op::Add, &[variance, eps])?;
    let inverse = of.function("inverse_root", sum)?;
    let difference = of.floats(Op::Subtract, &[x, mean])?;
    let normed = of.floats(Op::Multiply, &[difference, inverse])?;
    affine(of, normed, call.at(1), call.at(2), Some(1))
}
