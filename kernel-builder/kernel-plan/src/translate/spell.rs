//! Numbers and places as C++ writes them.
//!
//! Owns: their text, for the device and the processor alike. Never: decides what is computed.

use super::index::{Index, Part};
use super::program::{Class, Op};
use super::traced::Quantity;

/// An integer expression; `axis` and `computed` name the parts.
pub(super) fn index(
    index: &Index,
    axis: &dyn Fn(usize) -> String,
    computed: &dyn Fn(usize) -> String,
) -> String {
    let mut words: Vec<String> = Vec::new();
    for (part, factor) in &index.parts {
        let inner = |of: &Index| {
            let text = self::index(of, axis, computed);
            if of.parts.len() == 1 && of.constant.is(0) && of.parts.values().all(|one| one.is(1)) {
                text
            } else {
                format!("({text})")
            }
        };
        let text = match part {
            Part::Axis(one) => axis(*one),
            Part::Computed(one) => computed(*one),
            Part::Quotient(of, by) => format!("{} / {}", inner(of), by.as_factor()),
            Part::Remainder(of, by) => format!("{} % {}", inner(of), by.as_factor()),
        };
        let is_simple = matches!(part, Part::Axis(_) | Part::Computed(_));
        words.push(match (factor.is(1), is_simple) {
            (true, _) => text,
            (false, true) => format!("{text} * {}", factor.as_factor()),
            (false, false) => format!("({text}) * {}", factor.as_factor()),
        });
    }
    if !index.constant.is(0) || words.is_empty() {
        words.push(index.constant.to_string());
    }
    words.join(" + ").replace("+ -", "- ")
}

/// A float32 constant.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "not_a_number()".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "infinity()" } else { "-infinity()" }.to_owned();
    }
    #[expect(clippy::cast_possible_truncation, reason = "kernels compute in float32")]
    let narrow = value as f32;
    if !narrow.is_finite() {
        return if value > 0.0 { "infinity()" } else { "-infinity()" }.to_owned();
    }
    format!("{narrow:?}f")
}

/// A constant of a class.
pub(super) fn number(value: f64, class: Class) -> String {
    match class {
        Class::Float => float(value),
        Class::Boolean => (value != 0.0).to_string(),
        #[expect(clippy::cast_possible_truncation, reason = "the graph has a whole number there")]
        Class::Integer => format!("{}ll", value as i64),
    }
}

/// A float that follows from lengths.
pub(super) fn quantity(of: &Quantity) -> String {
    let list = |all: &[Quantity], word: &str| {
        let words: Vec<String> = all.iter().map(quantity).collect();
        format!("({})", words.join(word))
    };
    match of {
        Quantity::Length(length) => format!("static_cast<float>({length})"),
        Quantity::Number(value) => float(*value),
        Quantity::Sum(all) => list(all, " + "),
        Quantity::Product(all) => list(all, " * "),
        Quantity::Power(base, exponent) => match exponent.as_ref() {
            Quantity::Number(value) if *value == -1.0 => format!("(1.0f / {})", quantity(base)),
            Quantity::Number(value) if *value == 0.5 => format!("square_root({})", quantity(base)),
            Quantity::Number(value) if *value == -0.5 => format!("(1.0f / square_root({}))", quantity(base)),
            other => format!("power({}, {})", quantity(base), quantity(other)),
        },
    }
}

/// What an operand binds like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binding {
    /// Alternatives.
    Choice,
    /// `or`.
    Or,
    /// `and`.
    And,
    /// Equality and order.
    Compared,
    /// Sums.
    Sum,
    /// Products.
    Product,
    /// A sign.
    Sign,
    /// A name, a number or a call.
    Whole,
}

/// A text with what it binds like.
pub(super) type Spelled = (String, Binding);

fn within((text, binding): &Spelled, least: Binding) -> String {
    if *binding >= least { text.clone() } else { format!("({text})") }
}

/// An operation on operands; `class` is that of the operands.
pub(super) fn operation(op: Op, class: Class, of: &[Spelled]) -> Spelled {
    let infix = |sign: &str, binding: Binding, tighter: Binding| {
        // Only of sums and products nobody asks how they group to the left.
        let left = if binding < Binding::Sum { tighter } else { binding };
        (format!("{} {sign} {}", within(&of[0], left), within(&of[1], tighter)), binding)
    };
    let call = |name: &str| {
        let list: Vec<&str> = of.iter().map(|(text, _)| text.as_str()).collect();
        (format!("{name}({})", list.join(", ")), Binding::Whole)
    };
    match op {
        Op::Add => infix("+", Binding::Sum, Binding::Product),
        Op::Subtract => infix("-", Binding::Sum, Binding::Product),
        Op::AddAlike => call("sum_alike"),
        Op::SubtractAlike => call("difference_alike"),
        Op::Multiply => infix("*", Binding::Product, Binding::Sign),
        Op::Divide => infix("/", Binding::Product, Binding::Sign),
        Op::Equal => infix("==", Binding::Compared, Binding::Sum),
        Op::NotEqual => infix("!=", Binding::Compared, Binding::Sum),
        Op::Less => infix("<", Binding::Compared, Binding::Sum),
        Op::LessEqual => infix("<=", Binding::Compared, Binding::Sum),
        Op::Greater => infix(">", Binding::Compared, Binding::Sum),
        Op::GreaterEqual => infix(">=", Binding::Compared, Binding::Sum),
        Op::And => infix("&&", Binding::And, Binding::Compared),
        Op::Or => infix("||", Binding::Or, Binding::Compared),
        Op::Not => (format!("!{}", within(&of[0], Binding::Whole)), Binding::Sign),
        Op::Negate => (format!("-{}", within(&of[0], Binding::Whole)), Binding::Sign),
        Op::Choose => {
            let part = |place: usize| within(&of[place], Binding::Or);
            (format!("{} ? {} : {}", part(0), part(1), part(2)), Binding::Choice)
        }
        Op::FloorDivide => call("floor_quotient"),
        Op::Remainder => call("remainder_of"),
        Op::Fmod => call("fmod_of"),
        Op::Power => call("power"),
        Op::Maximum => call("maximum"),
        Op::Minimum => call("minimum"),
        Op::Atan2 => call("arctangent2"),
        Op::Abs => call("magnitude"),
        Op::Sign => call("sign_of"),
        Op::Function(name) => call(name),
        Op::RandomBits => call("random_bits"),
        // Compilers make vectors of a choice, and none of a condition that becomes a number.
        Op::ToFloat if class == Class::Boolean => {
            (format!("{} ? 1.0f : 0.0f", within(&of[0], Binding::Or)), Binding::Choice)
        }
        Op::ToFloat => call("static_cast<float>"),
        Op::ToInteger if class == Class::Float => call("truncated"),
        Op::ToInteger => call("static_cast<long long>"),
        Op::ToBoolean if class == Class::Integer => {
            (format!("{} != 0", within(&of[0], Binding::Sum)), Binding::Compared)
        }
        Op::ToBoolean => (format!("{} != 0.0f", within(&of[0], Binding::Sum)), Binding::Compared),
    }
}

/// A function that is as exact as a type needs it to be.
pub(super) fn exact_as(name: &str, kind: &str, of: &[Spelled]) -> String {
    let list: Vec<&str> = of.iter().map(|(text, _)| text.as_str()).collect();
    format!("{name}<{kind}>({})", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_stand_where_they_are_needed() {
        let whole = |text: &str| (text.to_owned(), Binding::Whole);
        let sum = operation(Op::Add, Class::Float, &[whole("a"), whole("b")]);
        let product = operation(Op::Multiply, Class::Float, &[sum.clone(), whole("c")]);
        assert_eq!(operation(Op::Subtract, Class::Float, &[product, sum]).0, "(a + b) * c - (a + b)");
        assert_eq!(float(1e-6), "1e-6f");
        assert_eq!(float(f64::NEG_INFINITY), "-infinity()");
    }
}
