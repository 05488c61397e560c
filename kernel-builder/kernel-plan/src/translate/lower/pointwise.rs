//! Operators of single elements.
//!
//! Owns: their meaning. Never: moves or adds up elements.

use super::super::index::Index;
use super::super::length::Length;
use super::super::program::{Class, Kind, Op, ValueId};
use super::super::refusal::Refusal;
use super::super::traced::Argument;
use super::call::Call;
use super::lowering::Lowering;

/// Functions of a float: the operator, and its name in steps.h and steps.cuh.
const FUNCTIONS: &[(&str, &str)] = &[
    ("acos", "arccosine"),
    ("acosh", "area_cosine"),
    ("asin", "arcsine"),
    ("asinh", "area_sine"),
    ("atan", "arctangent"),
    ("atanh", "area_tangent"),
    ("ceil", "rounded_up"),
    ("cos", "cosine"),
    ("cosh", "hyperbolic_cosine"),
    ("erf", "error_function"),
    ("erfc", "error_complement"),
    ("exp", "exponential"),
    ("exp2", "power_of_two"),
    ("expm1", "exponential_less_one"),
    ("floor", "rounded_down"),
    ("log", "logarithm"),
    ("log10", "logarithm_10"),
    ("log1p", "logarithm_of_one_plus"),
    ("log2", "logarithm_2"),
    ("round", "rounded"),
    ("rsqrt", "inverse_root"),
    ("sigmoid", "logistic"),
    ("sin", "sine"),
    ("sinh", "hyperbolic_sine"),
    ("sqrt", "square_root"),
    ("tan", "tangent"),
    ("tanh", "hyperbolic_tangent"),
    ("trunc", "truncated_float"),
];

/// Of two operands of one class: the operator, and what it does.
const PAIRS: &[(&str, Op)] = &[
    ("atan2", Op::Atan2),
    ("fmod", Op::Fmod),
    ("maximum", Op::Maximum),
    ("minimum", Op::Minimum),
    ("mul", Op::Multiply),
    ("remainder", Op::Remainder),
];

const COMPARISONS: &[(&str, Op)] = &[
    ("eq", Op::Equal),
    ("ge", Op::GreaterEqual),
    ("gt", Op::Greater),
    ("le", Op::LessEqual),
    ("lt", Op::Less),
    ("ne", Op::NotEqual),
];

/// Operators that change no element.
const SAME: &[&str] =
    &["alias", "clone", "contiguous", "detach", "lift_fresh_copy", "_to_copy", "to", "view_of"];

fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(own, _)| *own == name).map(|(_, found)| *found)
}

/// The value of an operator of this file.
pub(super) fn meaning(of: &mut Lowering, name: &str, call: &Call) -> Result<Option<ValueId>, Refusal> {
    let base = name.split('.').next().unwrap_or(name);
    if SAME.contains(&base) {
        return of.operand(call.at(0)).map(Some);
    }
    if let Some(function) = find(FUNCTIONS, base) {
        if base == "round" && !matches!(call.get(1, "decimals"), Argument::Absent) {
            return Err(Refusal::new("rounding to decimals has no translation"));
        }
        let operand = of.operand(call.at(0))?;
        let whole = ["ceil", "floor", "round", "trunc"].contains(&base) && of.class(operand) != Class::Float;
        return if whole { Ok(Some(operand)) } else { of.function(function, operand).map(Some) };
    }
    if let Some(op) = find(PAIRS, base) {
        let (one, two) = (of.operand(call.at(0))?, of.operand(call.at(1))?);
        let least = if base == "atan2" { Class::Float } else { Class::Integer };
        return arithmetic(of, op, one, two, least).map(Some);
    }
    if let Some(op) = find(COMPARISONS, base) {
        let (one, two) = (of.operand(call.at(0))?, of.operand(call.at(1))?);
        let class = of.class(one).max(of.class(two)).max(Class::Integer);
        let (one, two) = (of.convert(one, class), of.convert(two, class));
        return of.pointwise(op, &[one, two], Class::Boolean).map(Some);
    }
    other(of, base, call)
}

/// An operation of two numbers in the wider of their classes.
fn arithmetic(
    of: &mut Lowering,
    op: Op,
    one: ValueId,
    two: ValueId,
    least: Class,
) -> Result<ValueId, Refusal> {
    let class = of.class(one).max(of.class(two)).max(least);
    let (one, two) = (of.convert(one, class), of.convert(two, class));
    of.pointwise(op, &[one, two], class)
}

/// `x > 0 ? x : other`.
fn positive_or(
    of: &mut Lowering,
    x: ValueId,
    scale: Option<f64>,
    other: ValueId,
) -> Result<ValueId, Refusal> {
    let zero = of.float(0.0);
    let is_positive = of.pointwise(Op::Greater, &[x, zero], Class::Boolean)?;
    let own = match scale {
        Some(scale) => {
            let scale = of.float(scale);
            of.floats(Op::Multiply, &[x, scale])?
        }
        None => x,
    };
    of.pointwise(Op::Choose, &[is_positive, own, other], Class::Float)
}

fn other(of: &mut Lowering, base: &str, call: &Call) -> Result<Option<ValueId>, Refusal> {
    let found = match base {
        "add" | "sub" | "rsub" => {
            let (mut one, mut two) = (of.operand(call.at(0))?, of.operand(call.at(1))?);
            if base == "rsub" {
                std::mem::swap(&mut one, &mut two);
            }
            let alpha = call.keyword("alpha");
            if !matches!(alpha, Argument::Absent) {
                let alpha = of.operand(&alpha.clone())?;
                two = arithmetic(of, Op::Multiply, two, alpha, Class::Integer)?;
            }
            arithmetic(of, if base == "add" { Op::Add } else { Op::Subtract }, one, two, Class::Integer)?
        }
        "div" | "true_divide" => {
            let (one, two) = (of.operand(call.at(0))?, of.operand(call.at(1))?);
            match call.keyword("rounding_mode") {
                Argument::Absent => of.floats(Op::Divide, &[one, two])?,
                Argument::Word(word) if word == "floor" => {
                    arithmetic(of, Op::FloorDivide, one, two, Class::Integer)?
                }
                other => return Err(Refusal::new(format!("a division with {other:?} has no translation"))),
            }
        }
        "floor_divide" => {
            let (one, two) = (of.operand(call.at(0))?, of.operand(call.at(1))?);
            arithmetic(of, Op::FloorDivide, one, two, Class::Integer)?
        }
        "neg" | "abs" | "sign" | "sgn" => {
            let operand = of.operand(call.at(0))?;
            let class = of.class(operand).max(Class::Integer);
            let operand = of.convert(operand, class);
            let op = match base {
                "neg" => Op::Negate,
                "abs" => Op::Abs,
                _ => Op::Sign,
            };
            of.pointwise(op, &[operand], class)?
        }
        "square" => {
            let operand = of.operand(call.at(0))?;
            arithmetic(of, Op::Multiply, operand, operand, Class::Integer)?
        }
        "reciprocal" => {
            let (one, operand) = (of.float(1.0), of.operand(call.at(0))?);
            of.floats(Op::Divide, &[one, operand])?
        }
        "pow" => power(of, call)?,
        "logical_and" | "logical_or" | "logical_xor" => {
            let (one, two) = (of.operand(call.at(0))?, of.operand(call.at(1))?);
            let (one, two) = (of.convert(one, Class::Boolean), of.convert(two, Class::Boolean));
            let op = match base {
                "logical_and" => Op::And,
                "logical_or" => Op::Or,
                _ => Op::NotEqual,
            };
            of.pointwise(op, &[one, two], Class::Boolean)?
        }
        "bitwise_and" | "bitwise_or" | "bitwise_xor" | "bitwise_not" => conditions(of, base, call)?,
        "logical_not" => {
            let operand = of.operand(call.at(0))?;
            let operand = of.convert(operand, Class::Boolean);
            of.pointwise(Op::Not, &[operand], Class::Boolean)?
        }
        "isnan" | "isinf" => {
            let operand = of.operand(call.at(0))?;
            let operand = of.convert(operand, Class::Float);
            let name = if base == "isnan" { "is_nan" } else { "is_infinite" };
            of.pointwise(Op::Function(name), &[operand], Class::Boolean)?
        }
        "where" => {
            let condition = of.operand(call.at(0))?;
            let condition = of.convert(condition, Class::Boolean);
            let (one, two) = (of.operand(call.at(1))?, of.operand(call.at(2))?);
            let class = of.class(one).max(of.class(two));
            let (one, two) = (of.convert(one, class), of.convert(two, class));
            of.pointwise(Op::Choose, &[condition, one, two], class)?
        }
        "clamp" | "clamp_min" | "clamp_max" | "hardtanh" => clamp(of, base, call)?,
        "relu" => {
            let (operand, zero) = (of.operand(call.at(0))?, of.number(0.0, Class::Integer));
            arithmetic(of, Op::Maximum, operand, zero, Class::Integer)?
        }
        "leaky_relu" => {
            let operand = of.operand(call.at(0))?;
            let slope = of.float(call.float_or(1, "negative_slope", 0.01)?);
            let below = of.floats(Op::Multiply, &[operand, slope])?;
            positive_or(of, operand, None, below)?
        }
        "elu" => {
            let operand = of.operand(call.at(0))?;
            let (alpha, scale) = (call.float_or(1, "alpha", 1.0)?, call.float_or(2, "scale", 1.0)?);
            let inner = of.float(call.float_or(3, "input_scale", 1.0)?);
            let scaled = of.floats(Op::Multiply, &[operand, inner])?;
            let grown = of.function("exponential_less_one", scaled)?;
            let factor = of.float(alpha * scale);
            let below = of.floats(Op::Multiply, &[grown, factor])?;
            positive_or(of, operand, (scale != 1.0).then_some(scale), below)?
        }
        "gelu" => gelu(of, call)?,
        "silu" => {
            let operand = of.operand(call.at(0))?;
            let gate = of.function("logistic", operand)?;
            of.floats(Op::Multiply, &[operand, gate])?
        }
        "full" | "scalar_tensor" | "zeros" | "ones" | "full_like" | "zeros_like" | "ones_like"
        | "new_zeros" => {
            let value = match base {
                "full" | "full_like" => of.operand(call.at(1))?,
                "scalar_tensor" => of.operand(call.at(0))?,
                "ones" | "ones_like" => of.float(1.0),
                _ => of.float(0.0),
            };
            let shape = call.shape()?;
            let place = Vec::new();
            if of.shape(value).is_empty() { of.view(value, shape, place) } else { value }
        }
        "arange" => arange(of, call)?,
        _ => return Ok(None),
    };
    Ok(Some(found))
}

fn conditions(of: &mut Lowering, base: &str, call: &Call) -> Result<ValueId, Refusal> {
    let one = of.operand(call.at(0))?;
    if of.class(one) != Class::Boolean {
        return Err(Refusal::new("bits of integers have no translation"));
    }
    if base == "bitwise_not" {
        return of.pointwise(Op::Not, &[one], Class::Boolean);
    }
    let two = of.operand(call.at(1))?;
    if of.class(two) != Class::Boolean {
        return Err(Refusal::new("bits of integers have no translation"));
    }
    let op = match base {
        "bitwise_and" => Op::And,
        "bitwise_or" => Op::Or,
        _ => Op::NotEqual,
    };
    of.pointwise(op, &[one, two], Class::Boolean)
}

fn power(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let (base, exponent) = (of.operand(call.at(0))?, of.operand(call.at(1))?);
    let constant = match of.values[exponent].kind {
        Kind::Number(value) if of.shape(exponent).is_empty() => Some(value),
        _ => None,
    };
    match constant {
        Some(value) if value == 2.0 || value == 3.0 => {
            let square = arithmetic(of, Op::Multiply, base, base, Class::Integer)?;
            if value == 2.0 { Ok(square) } else { arithmetic(of, Op::Multiply, square, base, Class::Integer) }
        }
        Some(1.0) => Ok(base),
        Some(0.5) => of.function("square_root", base),
        Some(-0.5) => of.function("inverse_root", base),
        Some(-1.0) => {
            let one = of.float(1.0);
            of.floats(Op::Divide, &[one, base])
        }
        _ if of.class(base).max(of.class(exponent)) == Class::Float => {
            of.floats(Op::Power, &[base, exponent])
        }
        _ => Err(Refusal::new("powers of integers have no translation")),
    }
}

fn clamp(of: &mut Lowering, base: &str, call: &Call) -> Result<ValueId, Refusal> {
    let mut value = of.operand(call.at(0))?;
    let limits = match base {
        "clamp_min" => [call.get(1, "min").clone(), Argument::Absent],
        "clamp_max" => [Argument::Absent, call.get(1, "max").clone()],
        "hardtanh" => [
            Argument::Float(call.float_or(1, "min_val", -1.0)?),
            Argument::Float(call.float_or(2, "max_val", 1.0)?),
        ],
        _ => [call.get(1, "min").clone(), call.get(2, "max").clone()],
    };
    for (limit, op) in limits.iter().zip([Op::Maximum, Op::Minimum]) {
        if !matches!(limit, Argument::Absent) {
            let limit = of.operand(limit)?;
            value = arithmetic(of, op, value, limit, Class::Integer)?;
        }
    }
    Ok(value)
}

fn gelu(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let x = of.operand(call.at(0))?;
    let is_tanh = matches!(call.get(1, "approximate"), Argument::Word(word) if word == "tanh");
    if !is_tanh {
        // Half of the complement keeps its digits where 1 + erf cancels.
        let root = of.float(-std::f64::consts::FRAC_1_SQRT_2);
        let scaled = of.floats(Op::Multiply, &[x, root])?;
        let complement = of.function("error_complement", scaled)?;
        let half = of.float(0.5);
        let share = of.floats(Op::Multiply, &[complement, half])?;
        return of.floats(Op::Multiply, &[x, share]);
    }
    // 0.5 (1 + tanh(u)) is the logistic function of 2 u.
    let (cubic, root) = (of.float(0.044_715), of.float(2.0 * (2.0 / std::f64::consts::PI).sqrt()));
    let square = of.floats(Op::Multiply, &[x, x])?;
    let cube = of.floats(Op::Multiply, &[square, x])?;
    let small = of.floats(Op::Multiply, &[cube, cubic])?;
    let sum = of.floats(Op::Add, &[x, small])?;
    let inner = of.floats(Op::Multiply, &[sum, root])?;
    let gate = of.function("logistic", inner)?;
    of.floats(Op::Multiply, &[x, gate])
}

fn arange(of: &mut Lowering, call: &Call) -> Result<ValueId, Refusal> {
    let (start, step) = match call.name.as_str() {
        "arange.start_step" => (call.whole_or(0, "start", 0)?, call.whole_or(2, "step", 1)?),
        "arange.start" => (call.whole_or(0, "start", 0)?, 1),
        _ => (0, 1),
    };
    let place = Index::axis(0).times(&Length::number(step));
    let place = place.plus(&Index::length(Length::number(start)));
    Ok(of.value(Kind::Place(place), call.shape()?, Class::Integer))
}
