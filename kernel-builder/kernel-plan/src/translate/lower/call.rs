//! The arguments of an operator.
//!
//! Owns: how they are read by place and by name. Never: an operator's meaning.

use std::collections::BTreeMap;

use super::super::length::Length;
use super::super::program::Class;
use super::super::refusal::Refusal;
use super::super::traced::{Argument, TracedNode};

/// One operator with its arguments.
pub(super) struct Call {
    /// `mul.Tensor`.
    pub(super) name: String,
    /// The shapes of its results, over the symbols that are left.
    pub(super) shapes: Vec<Vec<Length>>,
    /// What its results are computed in.
    pub(super) results: Vec<Class>,
    arguments: Vec<Argument>,
    keywords: BTreeMap<String, Argument>,
}

impl Call {
    /// Reads the arguments of a node.
    pub(super) fn read(
        node: &TracedNode,
        shapes: Vec<Vec<Length>>,
        results: Vec<Class>,
    ) -> Result<Self, Refusal> {
        let read = |json| Argument::read(json).ok_or_else(|| Refusal::new(format!("an argument is {json}")));
        Ok(Self {
            name: node.op.trim_start_matches("aten.").to_owned(),
            shapes,
            results,
            arguments: node.arguments.iter().map(read).collect::<Result<_, _>>()?,
            keywords: node
                .keywords
                .iter()
                .map(|(name, json)| Ok((name.clone(), read(json)?)))
                .collect::<Result<_, Refusal>>()?,
        })
    }

    /// The shape of its only result.
    pub(super) fn shape(&self) -> Result<Vec<Length>, Refusal> {
        self.shapes.first().cloned().ok_or_else(|| Refusal::new("it has no tensor as its result"))
    }

    /// An argument by place, or by name; absent if it is not given.
    pub(super) fn get(&self, place: usize, name: &str) -> &Argument {
        self.arguments.get(place).or_else(|| self.keywords.get(name)).unwrap_or(&Argument::Absent)
    }

    /// A positional argument.
    pub(super) fn at(&self, place: usize) -> &Argument {
        self.arguments.get(place).unwrap_or(&Argument::Absent)
    }

    /// A keyword.
    pub(super) fn keyword(&self, name: &str) -> &Argument {
        self.keywords.get(name).unwrap_or(&Argument::Absent)
    }

    /// The name of the node at a place.
    pub(super) fn node(&self, place: usize) -> Result<String, Refusal> {
        match self.at(place) {
            Argument::Node(node) => Ok(node.clone()),
            other => Err(Refusal::new(format!("its argument {place} is {other:?}"))),
        }
    }

    /// A number at a place.
    pub(super) fn whole(&self, place: usize) -> Result<i64, Refusal> {
        match self.at(place) {
            Argument::Length(length) => length.value(),
            _ => None,
        }
        .ok_or_else(|| Refusal::new(format!("its argument {place} is not a number")))
    }

    /// A number at a place, or another one if it is not given.
    pub(super) fn whole_or(&self, place: usize, name: &str, other: i64) -> Result<i64, Refusal> {
        match self.get(place, name) {
            Argument::Absent => Ok(other),
            Argument::Length(length) => {
                length.value().ok_or_else(|| Refusal::new(format!("`{name}` depends on a length")))
            }
            _ => Err(Refusal::new(format!("`{name}` is not a whole number"))),
        }
    }

    /// A float at a place, or another one if it is not given.
    pub(super) fn float_or(&self, place: usize, name: &str, other: f64) -> Result<f64, Refusal> {
        match self.get(place, name) {
            Argument::Absent => Ok(other),
            Argument::Float(value) => Ok(*value),
            #[expect(clippy::cast_precision_loss, reason = "constants of a graph are far below 2^53")]
            Argument::Length(length) => match length.value() {
                Some(value) => Ok(value as f64),
                None => Err(Refusal::new(format!("`{name}` depends on a length"))),
            },
            _ => Err(Refusal::new(format!("`{name}` is not a number"))),
        }
    }

    /// A condition at a place.
    pub(super) fn flag(&self, place: usize, name: &str) -> bool {
        matches!(self.get(place, name), Argument::Bool(true))
    }

    /// A list of lengths at a place.
    pub(super) fn lengths(&self, place: usize) -> Result<Vec<Length>, Refusal> {
        let wrong = || Refusal::new(format!("its argument {place} is not a list of lengths"));
        let Argument::List(all) = self.at(place) else { return Err(wrong()) };
        let length = |one: &Argument| match one {
            Argument::Length(length) => Ok(length.clone()),
            _ => Err(wrong()),
        };
        all.iter().map(length).collect()
    }

    /// Axes at a place, of a tensor with so many; all of them if none is given.
    pub(super) fn axes(&self, place: usize, name: &str, rank: usize) -> Result<Vec<usize>, Refusal> {
        let mut axes = match self.get(place, name) {
            Argument::Absent => (0..rank).collect(),
            Argument::List(all) if all.is_empty() => (0..rank).collect(),
            Argument::List(all) => all.iter().map(|one| axis_of(one, rank)).collect::<Result<Vec<_>, _>>()?,
            one => vec![axis_of(one, rank)?],
        };
        axes.sort_unstable();
        axes.dedup();
        Ok(axes)
    }

    /// An axis at a place.
    pub(super) fn axis(&self, place: usize, name: &str, rank: usize) -> Result<usize, Refusal> {
        axis_of(self.get(place, name), rank)
    }
}

/// An axis, counted from the end if it is negative.
pub(super) fn axis_of(argument: &Argument, rank: usize) -> Result<usize, Refusal> {
    let wrong = || Refusal::new(format!("{argument:?} is not an axis"));
    let Argument::Length(length) = argument else { return Err(wrong()) };
    let value = length.value().ok_or_else(wrong)?;
    // A tensor without axes takes 0 and -1.
    if rank == 0 && (value == 0 || value == -1) {
        return Ok(0);
    }
    let rank = i64::try_from(rank).map_err(|_| wrong())?;
    usize::try_from(if value < 0 { value + rank } else { value }).map_err(|_| wrong())
}
