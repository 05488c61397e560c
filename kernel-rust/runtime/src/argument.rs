//! The arguments of a call, held against what op.toml says of them.
//!
//! Owns: lengths of axes, shapes, scalars, devices. Never: looks at an element.

use std::fmt::Display;

use cudarc::driver::{CudaStream, DeviceSlice};

use crate::element::Element;
use crate::error::Error;
use crate::tensor::{Layout, Shape, Tensor, TensorMut};

/// An axis of op.toml.
#[derive(Debug)]
pub struct Axis {
    /// Its name.
    pub name: &'static str,
    /// Its length where all calls have the same.
    pub constant: Option<i64>,
    /// The least length.
    pub least: i64,
    /// The greatest length.
    pub greatest: i64,
    /// Lengths are multiples of this.
    pub multiple: i64,
    /// Whether it stands for any number of leading axes.
    pub leading: bool,
}

/// A tensor of op.toml.
#[derive(Debug)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// The places of its axes, outermost first.
    pub axes: &'static [usize],
}

/// The lengths of `N` axes, as the tensors of a call say them one after the other.
#[derive(Debug)]
pub struct Lengths<'a, const N: usize> {
    op: &'static str,
    axes: &'static [Axis; N],
    found: [Option<i64>; N],
    leading: Option<(&'static str, Shape)>,
    stream: &'a CudaStream,
}

impl<'a, const N: usize> Lengths<'a, N> {
    /// Before any tensor.
    #[must_use]
    pub fn new(op: &'static str, axes: &'static [Axis; N], stream: &'a CudaStream) -> Self {
        let mut found = [None; N];
        for (found, axis) in found.iter_mut().zip(axes) {
            *found = axis.constant;
        }
        Self { op, axes, found, leading: None, stream }
    }

    /// Holds an input against its specification. Later tensors must agree with the lengths of earlier ones.
    ///
    /// # Errors
    /// Another device, another shape, a length that op.toml does not allow, or strides.
    pub fn read<T: Element>(&mut self, spec: &Spec, tensor: &Tensor<'_, T>) -> Result<(), Error> {
        self.device(spec, tensor.memory)?;
        self.layout(spec, &tensor.layout)
    }

    /// The same for a tensor that is written.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn written<T: Element>(&mut self, spec: &Spec, tensor: &TensorMut<'_, T>) -> Result<(), Error> {
        self.device(spec, tensor.memory)?;
        self.layout(spec, &tensor.layout)
    }

    /// The length of an axis; 0 for one of no tensor that is given.
    #[must_use]
    pub fn length(&self, axis: usize) -> i64 {
        self.found.get(axis).copied().flatten().unwrap_or(0)
    }

    fn device<T>(&self, spec: &Spec, memory: &(impl DeviceSlice<T> + ?Sized)) -> Result<(), Error> {
        if memory.stream().context().cu_ctx() == self.stream.context().cu_ctx() {
            return Ok(());
        }
        let problem = "must be on the device of the stream".to_owned();
        Err(Error::Argument { op: self.op, argument: spec.name, problem })
    }

    fn layout(&mut self, spec: &Spec, layout: &Layout) -> Result<(), Error> {
        check(self.op, self.axes, &mut self.found, &mut self.leading, spec, layout)
    }
}

/// Holds a layout against its specification, and notes the lengths that it is the first to say.
fn check(
    op: &'static str,
    axes: &[Axis],
    found: &mut [Option<i64>],
    leading: &mut Option<(&'static str, Shape)>,
    spec: &Spec,
    layout: &Layout,
) -> Result<(), Error> {
    let wrong = |problem: String| Err(Error::Argument { op, argument: spec.name, problem });
    let lengths = layout.shape.lengths();
    let leads = spec.axes.first().is_some_and(|first| axes[*first].leading);
    let inner = if leads { &spec.axes[1..] } else { spec.axes };
    let is_rank = if leads { lengths.len() >= inner.len() } else { lengths.len() == inner.len() };
    let other = |found: &[Option<i64>]| {
        wrong(format!("must have the shape {}, but has {}", wanted(axes, found, spec), layout.shape))
    };
    if !is_rank {
        return other(found);
    }
    let (outer, inner_lengths) = lengths.split_at(lengths.len() - inner.len());
    if leads {
        let outer: Vec<usize> = outer.iter().map(|length| length.unsigned_abs() as usize).collect();
        let outer = Shape::new(&outer)?;
        let axis = spec.axes[0];
        match leading {
            None => {
                *leading = Some((spec.name, outer));
                found[axis] = Some(outer.elements());
                bounds(op, &axes[axis], spec, outer.elements())?;
            }
            Some((_, known)) if *known == outer => {}
            Some((first, _)) => {
                return wrong(format!(
                    "must have the leading axes of {first}, but has the shape {}",
                    layout.shape
                ));
            }
        }
    }
    for (axis, length) in inner.iter().zip(inner_lengths) {
        match found[*axis] {
            None => {
                found[*axis] = Some(*length);
                bounds(op, &axes[*axis], spec, *length)?;
            }
            Some(known) if known == *length => {}
            Some(_) => return other(found),
        }
    }
    if !layout.is_contiguous() {
        return wrong("must be contiguous, but its rows are not adjacent in memory; copy it".to_owned());
    }
    Ok(())
}

fn bounds(op: &'static str, axis: &Axis, spec: &Spec, length: i64) -> Result<(), Error> {
    if length >= axis.least && length <= axis.greatest && length % axis.multiple.max(1) == 0 {
        return Ok(());
    }
    let mut problem =
        format!("has the length {length} in {}, which must be at least {}", axis.name, axis.least);
    if axis.multiple > 1 {
        problem += &format!(", a multiple of {}", axis.multiple);
    }
    if axis.greatest != i64::MAX {
        problem += &format!(", at most {}", axis.greatest);
    }
    Err(Error::Argument { op, argument: spec.name, problem })
}

/// `[..., hidden = 4096]`.
fn wanted(axes: &[Axis], found: &[Option<i64>], spec: &Spec) -> String {
    let words = spec.axes.iter().map(|place| match (&axes[*place], found[*place]) {
        (axis, _) if axis.leading => "...".to_owned(),
        (axis, Some(length)) => format!("{} = {length}", axis.name),
        (axis, None) => axis.name.to_owned(),
    });
    format!("[{}]", words.collect::<Vec<_>>().join(", "))
}

/// Holds a scalar against the bounds of op.toml.
///
/// # Errors
/// It is below `least` or above `greatest`, or not a number.
pub fn scalar<T: PartialOrd + Display>(
    op: &'static str,
    argument: &'static str,
    value: T,
    least: Option<T>,
    greatest: Option<T>,
) -> Result<(), Error> {
    let above = least.as_ref().is_none_or(|least| value >= *least);
    let below = greatest.as_ref().is_none_or(|greatest| value <= *greatest);
    if above && below {
        return Ok(());
    }
    let words =
        [least.map(|least| format!("at least {least}")), greatest.map(|most| format!("at most {most}"))];
    let words: Vec<String> = words.into_iter().flatten().collect();
    Err(Error::Argument { op, argument, problem: format!("is {value}, and must be {}", words.join(" and ")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: [Axis; 3] = [
        Axis { name: "rows", constant: None, least: 0, greatest: i64::MAX, multiple: 1, leading: true },
        Axis { name: "hidden", constant: None, least: 8, greatest: 4096, multiple: 8, leading: false },
        Axis { name: "two", constant: Some(2), least: 2, greatest: 2, multiple: 1, leading: false },
    ];
    const ROWS: Spec = Spec { name: "input", axes: &[0, 1] };
    const OUT: Spec = Spec { name: "out", axes: &[0, 1] };
    const PAIR: Spec = Spec { name: "pair", axes: &[1, 2] };

    /// Checks tensors one after the other; the message of the first that is refused, or the lengths.
    fn told(tensors: &[(&Spec, &[usize])]) -> Result<Vec<Option<i64>>, String> {
        let (mut found, mut leading) = ([None, None, Some(2)], None);
        for (spec, lengths) in tensors {
            let layout = Layout::of_shape(Shape::new(lengths).unwrap());
            check("op", &AXES, &mut found, &mut leading, spec, &layout).map_err(|error| error.to_string())?;
        }
        Ok(found.to_vec())
    }

    #[track_caller]
    fn refused(tensors: &[(&Spec, &[usize])], message: &str) {
        assert_eq!(told(tensors), Err(message.to_owned()));
    }

    #[test]
    fn the_first_tensor_says_the_lengths_and_the_others_agree() {
        let found = told(&[(&ROWS, &[3, 5, 16]), (&PAIR, &[16, 2]), (&OUT, &[3, 5, 16])]);
        assert_eq!(found, Ok(vec![Some(15), Some(16), Some(2)]));
        assert_eq!(told(&[(&ROWS, &[8])]), Ok(vec![Some(1), Some(8), Some(2)]));
        refused(
            &[(&ROWS, &[15, 16]), (&OUT, &[3, 5, 16])],
            "op: out must have the leading axes of input, but has the shape [3, 5, 16]",
        );
        refused(
            &[(&ROWS, &[3, 16]), (&PAIR, &[8, 2])],
            "op: pair must have the shape [hidden = 16, two = 2], but has [8, 2]",
        );
        refused(&[(&PAIR, &[16])], "op: pair must have the shape [hidden, two = 2], but has [16]");
    }

    #[test]
    fn lengths_are_those_of_op_toml() {
        let must = "which must be at least 8, a multiple of 8, at most 4096";
        refused(&[(&ROWS, &[3, 12])], &format!("op: input has the length 12 in hidden, {must}"));
        refused(&[(&ROWS, &[3, 0])], &format!("op: input has the length 0 in hidden, {must}"));
        refused(&[(&ROWS, &[3, 8192])], &format!("op: input has the length 8192 in hidden, {must}"));
    }

    #[test]
    fn a_scalar_is_within_its_bounds_and_a_number() {
        assert!(
            scalar("op", "eps", 0.5, Some(0.0), Some(1.0)).is_ok()
                && scalar("op", "n", 5, None, None).is_ok()
        );
        let message = |value| scalar("op", "eps", value, Some(0.0), Some(1.0)).unwrap_err().to_string();
        assert_eq!(message(2.0), "op: eps is 2, and must be at least 0 and at most 1");
        assert_eq!(message(f64::NAN), "op: eps is NaN, and must be at least 0 and at most 1");
    }
}
