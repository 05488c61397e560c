//! What the judge's bound follows from: how many terms are summed, and whether results lose digits to terms that cancel, so that
//! no row of results shows how large the terms were.
//!
//! Owns: the count of terms, and the rule that sets `cancels` of op.toml. Never: a bound; the judge has that.
//!
//! A sum or a difference cancels where its terms follow from the same elements, as `x - mean(x)` does, or where one of them is a
//! constant, as in `1 - tanh(x)`. It does not where both are elements as they were given (one rounding), where signs agree, or
//! where they follow from other elements: then terms are as large as most results of the row. Bounded functions of such a sum hide
//! that again: `tanh(x * w + b)` is 1 where terms are large.

use std::collections::BTreeSet;

use super::kernel::{Expression, Form, Role};
use super::length::Length;
use super::plan::Plan;
use super::program::{Class, Kind, Op, Program, Reduction, Value, ValueId};

/// Roundings for each element of a sum of squares: its difference from the mean, the new mean, and the square.
const STEPS_OF_SQUARES: i64 = 3;
/// Functions that no argument makes negative.
const NATURAL: &[&str] = &[
    "error_complement",
    "exponential",
    "hyperbolic_cosine",
    "inverse_root",
    "logistic",
    "power_of_two",
    "square_root",
];
/// Functions with zeros elsewhere than at 0: near one, a rounded argument decides every digit.
const WITH_ZEROS: &[&str] =
    &["cosine", "logarithm", "logarithm_10", "logarithm_2", "sine", "tangent", "arccosine"];
/// Functions with results near one where arguments are large.
const BOUNDED: &[&str] =
    &["arctangent", "error_complement", "error_function", "hyperbolic_tangent", "logistic"];
/// Functions that keep the sign.
const ODD: &[&str] = &[
    "arcsine",
    "arctangent",
    "area_sine",
    "error_function",
    "exponential_less_one",
    "hyperbolic_sine",
    "hyperbolic_tangent",
    "rounded",
    "truncated_float",
];

/// Elements of an input that a value follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Elements {
    /// The one at its own place.
    Here,
    /// One at another place, by the view that chooses it.
    There(ValueId),
    /// Several.
    Many,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Natural,
    Negative,
    /// That of another value at the same place.
    Of(ValueId),
    Opposite(ValueId),
}

impl Sign {
    fn turned(self) -> Self {
        match self {
            Self::Natural => Self::Negative,
            Self::Negative => Self::Natural,
            Self::Of(value) => Self::Opposite(value),
            Self::Opposite(value) => Self::Of(value),
        }
    }

    /// That of a product; `None` if it is not known.
    fn times(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Natural, sign) | (sign, Self::Natural) => Some(sign),
            (Self::Negative, sign) | (sign, Self::Negative) => Some(sign.turned()),
            (one, two) if one == two => Some(Self::Natural),
            (one, two) if one == two.turned() => Some(Self::Negative),
            _ => None,
        }
    }
}

/// What is known of a value.
#[derive(Debug, Clone)]
struct ValueFacts {
    /// Whether it has no rounding error.
    exact: bool,
    from: BTreeSet<(usize, Elements)>,
    sign: Sign,
    cancels: bool,
    /// Whether it follows from rounded terms that were added, with signs that may differ.
    summed: bool,
    /// The operation that limits it by a constant on one side.
    limited: Option<Op>,
}

impl ValueFacts {
    fn of_constant(sign: Sign) -> Self {
        Self { exact: true, from: BTreeSet::new(), sign, cancels: false, summed: false, limited: None }
    }

    /// What an operation on some values has of all of them.
    fn of_all(all: &[&Self], sign: Sign) -> Self {
        Self {
            exact: false,
            from: all.iter().flat_map(|one| one.from.iter().copied()).collect(),
            sign,
            cancels: all.iter().any(|one| one.cancels),
            summed: all.iter().any(|one| one.summed),
            limited: None,
        }
    }

    fn is_related(&self, other: &Self) -> bool {
        let same = |one: &(usize, Elements), two: &(usize, Elements)| {
            one.0 == two.0 && (one.1 == two.1 || one.1 == Elements::Many || two.1 == Elements::Many)
        };
        self.from.iter().any(|one| other.from.iter().any(|two| same(one, two)))
    }

    /// The same elsewhere, at a place that `view` chooses.
    fn elsewhere(&self, view: ValueId, exact: bool) -> Self {
        let moved = |elements: Elements| match elements {
            Elements::Many => Elements::Many,
            Elements::Here | Elements::There(_) => Elements::There(view),
        };
        Self {
            exact: self.exact && exact,
            from: self.from.iter().map(|(input, elements)| (*input, moved(*elements))).collect(),
            sign: self.fixed_sign().unwrap_or(Sign::Of(view)),
            ..self.clone()
        }
    }

    /// Its sign, if that is the same everywhere.
    fn fixed_sign(&self) -> Option<Sign> {
        matches!(self.sign, Sign::Natural | Sign::Negative).then_some(self.sign)
    }
}

/// Terms of the sums of a plan, and at the end how many steps there are.
pub(super) fn terms(program: &Program, plan: &Plan) -> Vec<Length> {
    let mut sums: Vec<Length> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    let mut steps = 1;
    for kernel in &plan.kernels {
        let summed = kernel.reductions.iter().any(|one| one.how.is_sum());
        let role = if kernel.form() == Form::Scan { Role::Scanned } else { Role::Reduced };
        let length = kernel.length(role);
        let text = program.over_axes(&length);
        if (summed || kernel.scan.is_some()) && !texts.contains(&text) {
            texts.push(text);
            sums.push(length);
        }
        let operations =
            kernel.nodes.iter().filter(|node| matches!(node.expression, Expression::Operation(..)));
        steps += i64::try_from(operations.count()).unwrap_or(i64::MAX);
        let squares = kernel.reductions.iter().filter(|one| one.how == Reduction::Squares);
        steps += STEPS_OF_SQUARES * i64::try_from(squares.count()).unwrap_or(i64::MAX);
    }
    sums.push(Length::number(steps));
    sums
}

/// Whether a floating-point result is made of terms that cancel.
pub(super) fn cancels(program: &Program) -> bool {
    let mut known: Vec<ValueFacts> = Vec::new();
    for (number, value) in program.values.iter().enumerate() {
        let found = of_value(&known, number, value);
        known.push(found);
    }
    let floats = program.outputs.iter().filter(|(tensor, _)| tensor.element.class() == Class::Float);
    floats.map(|(_, value)| &known[*value]).any(|one| one.cancels)
}

fn of_value(known: &[ValueFacts], number: ValueId, value: &Value) -> ValueFacts {
    match &value.kind {
        Kind::Input(input) => ValueFacts {
            exact: true,
            from: BTreeSet::from([(*input, Elements::Here)]),
            sign: if value.class == Class::Boolean { Sign::Natural } else { Sign::Of(number) },
            cancels: false,
            summed: false,
            limited: None,
        },
        Kind::Number(constant) => {
            ValueFacts::of_constant(if *constant < 0.0 { Sign::Negative } else { Sign::Natural })
        }
        Kind::Quantity(_) => ValueFacts { exact: false, ..ValueFacts::of_constant(Sign::Natural) },
        Kind::Place(_) => ValueFacts::of_constant(Sign::Of(number)),
        Kind::View(of, _) => known[*of].elsewhere(number, true),
        Kind::Gather(of, _, by) => {
            let mut found = known[*of].elsewhere(number, true);
            for one in by {
                found
                    .from
                    .extend(known[*one].from.iter().map(|(input, _)| (*input, Elements::There(number))));
            }
            found
        }
        Kind::Reduce(how, of, _) | Kind::Scan(how, of, _) => {
            let own = &known[*of];
            let chooses = !how.is_sum();
            let sign = match how {
                _ if how.is_place() || *how == Reduction::Squares => Sign::Natural,
                Reduction::Product if own.sign == Sign::Negative => Sign::Of(number),
                _ => own.fixed_sign().unwrap_or(Sign::Of(number)),
            };
            ValueFacts {
                exact: how.is_place() || value.class != Class::Float || (own.exact && chooses),
                from: own.from.iter().map(|(input, _)| (*input, Elements::Many)).collect(),
                sign,
                // Elements are close to their mean where they are large.
                cancels: own.cancels || *how == Reduction::Squares,
                summed: own.summed || (how.is_sum() && own.fixed_sign().is_none()),
                limited: None,
            }
        }
        Kind::Pointwise(op, of) => {
            let operands: Vec<&ValueFacts> = of.iter().map(|one| &known[*one]).collect();
            let found = of_operation(*op, &operands, number);
            // Integers and conditions have no digits to lose.
            if value.class == Class::Float {
                found
            } else {
                ValueFacts { exact: true, cancels: false, ..found }
            }
        }
    }
}

fn of_operation(op: Op, of: &[&ValueFacts], number: ValueId) -> ValueFacts {
    let own = Sign::Of(number);
    let with = |sign: Sign| ValueFacts::of_all(of, sign);
    match op {
        Op::Add | Op::AddAlike | Op::Subtract | Op::SubtractAlike => {
            let is_sum = matches!(op, Op::Add | Op::AddAlike);
            let right = if is_sum { of[1].sign } else { of[1].sign.turned() };
            let agree = of[0].sign == right;
            let related = of[0].is_related(of[1]) || of.iter().any(|one| one.from.is_empty());
            let exact = of[0].exact && of[1].exact;
            let found = with(if agree { right } else { own });
            let summed = !agree && !exact;
            ValueFacts {
                cancels: found.cancels || (related && summed),
                summed: found.summed || summed,
                ..found
            }
        }
        Op::Multiply | Op::Divide => with(of[0].sign.times(of[1].sign).unwrap_or(own)),
        Op::Negate => ValueFacts { exact: of[0].exact, ..with(of[0].sign.turned()) },
        Op::Abs => ValueFacts { exact: of[0].exact, ..with(Sign::Natural) },
        Op::ToFloat => ValueFacts { exact: of[0].exact, ..with(of[0].sign) },
        Op::Sign => ValueFacts { exact: true, ..with(of[0].sign) },
        Op::Maximum | Op::Minimum => {
            let (enough, other) = match op {
                Op::Maximum => (Sign::Natural, Sign::Negative),
                _ => (Sign::Negative, Sign::Natural),
            };
            let sign = if of.iter().any(|one| one.sign == enough) {
                enough
            } else if of.iter().all(|one| one.sign == other) {
                other
            } else {
                own
            };
            let found = with(sign);
            let by_constant = of.iter().any(|one| one.from.is_empty());
            let on_both_sides = of.iter().any(|one| one.limited.is_some_and(|other| other != op));
            ValueFacts {
                exact: of[0].exact && of[1].exact,
                cancels: found.cancels || (found.summed && by_constant && on_both_sides),
                limited: by_constant.then_some(op),
                ..found
            }
        }
        Op::Choose => {
            let sign = if of[1].sign == of[2].sign { of[1].sign } else { own };
            // The condition decides between terms and is none.
            let found = ValueFacts::of_all(&of[1..], sign);
            ValueFacts { exact: of[1].exact && of[2].exact, ..found }
        }
        Op::Power => with(if of[0].sign == Sign::Natural { Sign::Natural } else { own }),
        Op::Function(name) => {
            let sign = if NATURAL.contains(&name) {
                Sign::Natural
            } else if ODD.contains(&name) {
                of[0].sign
            } else if name == "logarithm_of_one_plus" && of[0].sign == Sign::Natural {
                Sign::Natural
            } else {
                own
            };
            let found = with(sign);
            let loses =
                (!of[0].exact && WITH_ZEROS.contains(&name)) || (found.summed && BOUNDED.contains(&name));
            ValueFacts { cancels: found.cancels || loses, ..found }
        }
        Op::Equal | Op::NotEqual | Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual => {
            ValueFacts { exact: true, ..with(Sign::Natural) }
        }
        Op::And | Op::Or | Op::Not | Op::ToBoolean => ValueFacts { exact: true, ..with(Sign::Natural) },
        Op::ToInteger => ValueFacts { exact: true, ..with(of[0].sign) },
        Op::RandomBits => ValueFacts { exact: true, ..with(Sign::Natural) },
        Op::FloorDivide | Op::Remainder | Op::Fmod | Op::Atan2 => with(own),
    }
}
