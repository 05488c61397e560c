//! The program in the making.
//!
//! Owns: what every value is made with: broadcasting, classes, views, reductions. Never: an operator's meaning.

use std::collections::BTreeMap;

use super::super::index::{self, Index};
use super::super::length::Length;
use super::super::program::{
    Class, Concatenation, Element, Kind, Op, Origin, Reduction, Symbol, Tensor, Value, ValueId,
};
use super::super::refusal::{Assumed, Refusal};
use super::super::traced::{Argument, Quantity, TracedGraph, TracedTensor};
use super::axes;
use crate::spec::op::Values;
use crate::units::Dtype;

/// The program so far.
pub(super) struct Lowering {
    pub(super) values: Vec<Value>,
    pub(super) inputs: Vec<Tensor>,
    pub(super) symbols: Vec<Symbol>,
    /// What `a // n` and `a` are over the symbol of the quotient.
    replaced: BTreeMap<String, Length>,
    /// Results of each node, and the dtypes that the graph gives them.
    pub(super) results: BTreeMap<String, Vec<(ValueId, Element)>>,
    /// Whether bfloat16 is the type variable.
    variable: bool,
    pub(super) origin: Option<Origin>,
    pub(super) name: String,
    pub(super) concatenations: BTreeMap<ValueId, Concatenation>,
    /// How many elements a result of a pooling is made of.
    pub(super) pooled: BTreeMap<ValueId, i64>,
}

impl Lowering {
    pub(super) fn new(
        traced: &TracedGraph,
        same: &[(String, Length)],
        order: &[(String, String)],
    ) -> Result<Self, Refusal> {
        let mut lowering = Self {
            values: Vec::new(),
            inputs: Vec::new(),
            symbols: Vec::new(),
            replaced: BTreeMap::new(),
            results: BTreeMap::new(),
            variable: traced.variable,
            origin: None,
            name: String::new(),
            concatenations: BTreeMap::new(),
            pooled: BTreeMap::new(),
        };
        let axes: BTreeMap<String, String> = order.iter().cloned().collect();
        for (name, symbol) in traced.symbols.iter().filter(|(_, symbol)| symbol.quotient.is_none()) {
            let own = axes.get(name).unwrap_or(name);
            lowering.replaced.insert(name.clone(), Length::symbol(own.clone()));
            let (hint, min) = (symbol.hint, symbol.min);
            lowering.symbols.push(Symbol { name: own.clone(), hint, min, multiple: None });
        }
        for (name, symbol) in &traced.symbols {
            let Some((of, by)) = &symbol.quotient else { continue };
            let whole = axes.get(of).unwrap_or(of);
            let own = format!("{whole}_by_{by}");
            let before = lowering.replaced.insert(of.clone(), Length::term(*by, vec![own.clone()]));
            if before.is_none_or(|before| before.as_symbol() != Some(whole)) {
                return Err(Refusal::new(format!("the length {whole} is divided by several numbers")));
            }
            lowering.replaced.insert(name.clone(), Length::symbol(own.clone()));
            let min = lowering.symbols.iter().find(|one| one.name == *whole).map_or(0, |one| one.min);
            let multiple = Some((whole.clone(), *by));
            lowering.symbols.retain(|one| one.name != *whole);
            lowering.symbols.push(Symbol { name: own, hint: symbol.hint, min, multiple });
        }
        for (axis, length) in same {
            for own in lowering.replaced.values_mut() {
                *own = own.replaced(&|name| (name == axis).then(|| length.clone()));
            }
            lowering.symbols.retain(|symbol| symbol.name != *axis);
        }
        let place = |symbol: &Symbol| order.iter().position(|(_, name)| name == symbol.axis());
        lowering.symbols.sort_by_key(|symbol| place(symbol).unwrap_or(usize::MAX));
        for (number, input) in traced.inputs.iter().enumerate() {
            let shape = lowering.lengths(&input.tensor);
            let element = lowering.element(&input.tensor.dtype).ok_or_else(|| {
                Refusal::new(format!("`{}` has the dtype {}", input.name, input.tensor.dtype))
            })?;
            let name = axes::of_tensor(&input.name);
            lowering.name.clone_from(&name);
            let values = match (traced.seed.as_ref() == Some(&input.value), input.non_negative) {
                (true, _) => Values::Seed,
                (false, true) => Values::NonNegative,
                (false, false) => Values::Any,
            };
            lowering.inputs.push(Tensor { name, shape: shape.clone(), element, values });
            let value = lowering.value(Kind::Input(number), shape, element.class());
            lowering.results.insert(input.value.clone(), vec![(value, element)]);
        }
        Ok(lowering)
    }

    /// The lengths of a tensor, over the symbols that are left.
    pub(super) fn lengths(&self, tensor: &TracedTensor) -> Vec<Length> {
        tensor.lengths().iter().map(|one| self.length(one)).collect()
    }

    /// What a dtype of the graph is here.
    pub(super) fn element(&self, dtype: &str) -> Option<Element> {
        match dtype {
            "bfloat16" if self.variable => Some(Element::Variable),
            "float64" => None,
            name => Dtype::ALL.iter().copied().find(|one| one.torch_name() == name).map(Element::Fixed),
        }
    }

    pub(super) fn length(&self, length: &Length) -> Length {
        length.replaced(&|name| self.replaced.get(name).cloned())
    }

    pub(super) fn result(&self, node: &str) -> Result<ValueId, Refusal> {
        let found = self.results.get(node).and_then(|all| all.first());
        found.map(|(value, _)| *value).ok_or_else(|| Refusal::new(format!("`{node}` is not a tensor")))
    }

    pub(super) fn shape(&self, value: ValueId) -> Vec<Length> {
        self.values[value].shape.clone()
    }

    pub(super) fn class(&self, value: ValueId) -> Class {
        self.values[value].class
    }

    pub(super) fn value(&mut self, kind: Kind, shape: Vec<Length>, class: Class) -> ValueId {
        let (name, origin) = (self.name.clone(), self.origin.clone());
        self.values.push(Value { kind, shape, class, name, origin });
        self.values.len() - 1
    }

    /// A value with a name of its own, for a part of an operator.
    pub(super) fn named<T>(&mut self, name: &str, made: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.name, name.to_owned());
        let value = made(self);
        self.name = before;
        value
    }

    pub(super) fn number(&mut self, value: f64, class: Class) -> ValueId {
        self.value(Kind::Number(value), Vec::new(), class)
    }

    /// The value of an operand: a tensor or a number.
    pub(super) fn operand(&mut self, argument: &Argument) -> Result<ValueId, Refusal> {
        match argument {
            Argument::Node(node) => self.result(node),
            Argument::Float(value) => Ok(self.number(*value, Class::Float)),
            Argument::Bool(value) => Ok(self.number(f64::from(u8::from(*value)), Class::Boolean)),
            Argument::Length(length) => Ok(self.whole(&self.length(length))),
            Argument::Quantity(quantity) => {
                let quantity = self.over_symbols(quantity);
                Ok(self.value(Kind::Quantity(quantity), Vec::new(), Class::Float))
            }
            other => Err(Refusal::new(format!("an argument is {other:?}"))),
        }
    }

    fn over_symbols(&self, quantity: &Quantity) -> Quantity {
        let all = |of: &[Quantity]| of.iter().map(|one| self.over_symbols(one)).collect();
        match quantity {
            Quantity::Length(length) => Quantity::Length(self.length(length)),
            Quantity::Number(number) => Quantity::Number(*number),
            Quantity::Sum(of) => Quantity::Sum(all(of)),
            Quantity::Product(of) => Quantity::Product(all(of)),
            Quantity::Power(base, exponent) => {
                Quantity::Power(Box::new(self.over_symbols(base)), Box::new(self.over_symbols(exponent)))
            }
        }
    }

    /// A length as an integer.
    pub(super) fn whole(&mut self, length: &Length) -> ValueId {
        match length.value() {
            #[expect(
                clippy::cast_precision_loss,
                reason = "lengths and constants of a graph are far below 2^53"
            )]
            Some(value) => self.number(value as f64, Class::Integer),
            None => self.value(Kind::Place(Index::length(length.clone())), Vec::new(), Class::Integer),
        }
    }

    pub(super) fn convert(&mut self, value: ValueId, class: Class) -> ValueId {
        let own = self.class(value);
        if own == class {
            return value;
        }
        if let Kind::Number(number) = self.values[value].kind {
            let number = match class {
                Class::Float => number,
                Class::Integer => number.trunc(),
                Class::Boolean => f64::from(u8::from(number != 0.0)),
            };
            let shape = self.shape(value);
            return self.value(Kind::Number(number), shape, class);
        }
        let op = match class {
            Class::Float => Op::ToFloat,
            Class::Integer => Op::ToInteger,
            Class::Boolean => Op::ToBoolean,
        };
        let shape = self.shape(value);
        self.value(Kind::Pointwise(op, vec![value]), shape, class)
    }

    /// An operation on operands of these classes, whose result has another one.
    pub(super) fn pointwise(&mut self, op: Op, of: &[ValueId], class: Class) -> Result<ValueId, Refusal> {
        let shapes: Vec<Vec<Length>> = of.iter().map(|one| self.shape(*one)).collect();
        let shape = broadcast(&shapes)?;
        Ok(self.value(Kind::Pointwise(op, of.to_vec()), shape, class))
    }

    /// An operation on floats.
    pub(super) fn floats(&mut self, op: Op, of: &[ValueId]) -> Result<ValueId, Refusal> {
        let of: Vec<ValueId> = of.iter().map(|one| self.convert(*one, Class::Float)).collect();
        self.pointwise(op, &of, Class::Float)
    }

    /// A function of a float.
    pub(super) fn function(&mut self, name: &'static str, of: ValueId) -> Result<ValueId, Refusal> {
        self.floats(Op::Function(name), &[of])
    }

    /// A float constant as an operand.
    pub(super) fn float(&mut self, value: f64) -> ValueId {
        self.number(value, Class::Float)
    }

    /// Elements of another value, by a place in it for each place of a shape.
    pub(super) fn view(&mut self, of: ValueId, shape: Vec<Length>, place: Vec<Index>) -> ValueId {
        let class = self.class(of);
        self.value(Kind::View(of, place), shape, class)
    }

    /// The same elements in another shape.
    pub(super) fn reshaped(&mut self, of: ValueId, shape: Vec<Length>) -> Result<ValueId, Refusal> {
        let own = self.shape(of);
        if own == shape {
            return Ok(of);
        }
        if Length::product(&own) != Length::product(&shape) {
            return Err(Refusal::new(format!("a view of [{}] as [{}]", written(&own), written(&shape))));
        }
        let here = shape.iter().enumerate();
        let here: Vec<Index> = here
            .map(|(axis, length)| if length.is(1) { Index::default() } else { Index::axis(axis) })
            .collect();
        let place = index::place(&index::offset(&shape, &here), &own, &shape);
        Ok(self.view(of, shape, place))
    }

    /// One number for the elements along some axes; with `keep` the axes stay, with the length 1.
    pub(super) fn reduce(
        &mut self,
        how: Reduction,
        of: ValueId,
        axes: &[usize],
        keep: bool,
    ) -> Result<ValueId, Refusal> {
        let shape = self.shape(of);
        let class = if how.is_place() { Class::Integer } else { self.class(of) };
        let left = shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
        let left: Vec<Length> = left.map(|(_, length)| length.clone()).collect();
        let found = self.value(Kind::Reduce(how, of, axes.to_vec()), left, class);
        if !keep {
            return Ok(found);
        }
        let one = |(axis, length): (usize, &Length)| {
            if axes.contains(&axis) { Length::number(1) } else { length.clone() }
        };
        let kept = shape.iter().enumerate().map(one).collect();
        self.reshaped(found, kept)
    }

    /// How many elements there are along some axes, as a float.
    pub(super) fn count(&mut self, of: ValueId, axes: &[usize]) -> ValueId {
        let shape = self.shape(of);
        let length = Length::product(axes.iter().map(|axis| &shape[*axis]));
        self.value(Kind::Quantity(Quantity::Length(length)), Vec::new(), Class::Float)
    }
}

pub(super) fn written(shape: &[Length]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The shape that all of them are broadcast to.
pub(super) fn broadcast(shapes: &[Vec<Length>]) -> Result<Vec<Length>, Refusal> {
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    let mut shape = vec![Length::number(1); rank];
    for own in shapes {
        for (axis, length) in own.iter().enumerate() {
            let whole = &mut shape[rank - own.len() + axis];
            if whole.is(1) {
                *whole = length.clone();
            } else if !length.is(1) && whole != length {
                let symbol = match (length.as_symbol(), whole.as_symbol()) {
                    (Some(symbol), _) => Some(Assumed::Same(symbol.to_owned(), whole.clone())),
                    (None, Some(symbol)) => Some(Assumed::Same(symbol.to_owned(), length.clone())),
                    (None, None) => None,
                };
                let what = format!("the lengths {whole} and {length} are broadcast together");
                return Err(Refusal { assumed: symbol.map(Box::new), ..Refusal::new(what) });
            }
        }
    }
    Ok(shape)
}
