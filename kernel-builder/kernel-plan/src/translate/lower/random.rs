//! Random numbers of a seed.
//!
//! Owns: which elements dropout keeps. Never: draws a seed; the package's function does.

use super::super::index::{self, Index};
use super::super::program::{Class, Kind, Op, ValueId};
use super::super::refusal::Refusal;
use super::call::Call;
use super::lowering::Lowering;

/// 2 to the power of 32.
const NUMBERS: f64 = 4_294_967_296.0;

/// The value of the operator of harness/dropout.py: whether dropout keeps each element of a tensor.
pub(super) fn meaning(of: &mut Lowering, name: &str, call: &Call) -> Result<Option<ValueId>, Refusal> {
    if name != "kernelwright.kept.default" {
        return Ok(None);
    }
    let (seed, shape) = (of.operand(call.at(0))?, call.shape()?);
    let (stream, p) = (of.operand(call.at(2))?, call.float_or(3, "p", 0.0)?);
    let axes = shape.iter().enumerate();
    let axes: Vec<Index> =
        axes.map(|(axis, length)| if length.is(1) { Index::default() } else { Index::axis(axis) }).collect();
    let place = Kind::Place(index::offset(&shape, &axes));
    let seed = of.named("seed", |of| of.view(seed, Vec::new(), vec![Index::default()]));
    let place = of.named("position", |of| of.value(place, shape, Class::Integer));
    let bits =
        of.named("random", |of| of.pointwise(Op::RandomBits, &[seed, place, stream], Class::Integer))?;
    let least = of.number((p * NUMBERS).trunc(), Class::Integer);
    of.pointwise(Op::GreaterEqual, &[bits, least], Class::Boolean).map(Some)
}
