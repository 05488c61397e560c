//! Integer expressions with their constants folded.
//!
//! Owns: their evaluation. Never: has an error; a division by zero and a number beyond 64 bits have no value.

/// An operation on two numbers; truths are 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the expressions' operators")]
pub enum Operation {
    And,
    Or,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A number.
    Constant(i64),
    /// The number at this place of those that [`Program::run`] gets.
    Slot(usize),
    /// 1 for 0, and 0 for all other numbers.
    Not(Box<Program>),
    /// The number with the other sign.
    Negate(Box<Program>),
    /// Division and remainder round down. The right side of `And` and `Or` is evaluated only if the left side does not decide.
    Binary(Operation, Box<Program>, Box<Program>),
    /// The quotient, rounded up.
    CeilDiv(Box<Program>, Box<Program>),
    /// The least.
    Min(Vec<Program>),
    /// The greatest.
    Max(Vec<Program>),
}

impl Program {
    /// A constant where nothing in it varies and it has a value.
    #[must_use]
    pub fn folded(self) -> Self {
        if !self.varies()
            && let Some(value) = self.run(&[])
        {
            return Self::Constant(value);
        }
        self
    }

    /// Whether its value depends on any slot.
    fn varies(&self) -> bool {
        match self {
            Self::Constant(_) => false,
            Self::Slot(_) => true,
            Self::Not(operand) | Self::Negate(operand) => operand.varies(),
            Self::Binary(_, left, right) | Self::CeilDiv(left, right) => left.varies() || right.varies(),
            Self::Min(all) | Self::Max(all) => all.iter().any(Self::varies),
        }
    }

    /// The program with a constant in place of a slot, folded.
    pub(super) fn with(&self, place: usize, number: i64) -> Self {
        let boxed = |one: &Self| Box::new(one.with(place, number));
        let each = |all: &[Self]| all.iter().map(|one| one.with(place, number)).collect();
        let tree = match self {
            Self::Slot(slot) if *slot == place => return Self::Constant(number),
            Self::Constant(_) | Self::Slot(_) => return self.clone(),
            Self::Not(operand) => Self::Not(boxed(operand)),
            Self::Negate(operand) => Self::Negate(boxed(operand)),
            Self::Binary(operation, left, right) => {
                match (operation, left.with(place, number)) {
                    // The right side is not evaluated.
                    (Operation::And, Self::Constant(0)) => return Self::Constant(0),
                    (Operation::Or, Self::Constant(truth)) if truth != 0 => return Self::Constant(1),
                    (_, left) => Self::Binary(*operation, Box::new(left), boxed(right)),
                }
            }
            Self::CeilDiv(left, right) => Self::CeilDiv(boxed(left), boxed(right)),
            Self::Min(all) => Self::Min(each(all)),
            Self::Max(all) => Self::Max(each(all)),
        };
        tree.folded()
    }

    /// The places that its value depends on, ascending.
    pub fn slots(&self) -> Vec<usize> {
        let (mut found, mut rest) = (vec![], vec![self]);
        while let Some(next) = rest.pop() {
            match next {
                Self::Constant(_) => {}
                Self::Slot(place) => found.push(*place),
                Self::Not(operand) | Self::Negate(operand) => rest.push(operand),
                Self::Binary(_, left, right) | Self::CeilDiv(left, right) => {
                    rest.extend([left.as_ref(), right.as_ref()])
                }
                Self::Min(all) | Self::Max(all) => rest.extend(all),
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The numbers in it.
    pub(super) fn constants(&self) -> Vec<i64> {
        let (mut found, mut rest) = (vec![], vec![self]);
        while let Some(next) = rest.pop() {
            match next {
                Self::Constant(number) => found.push(*number),
                Self::Slot(_) => {}
                Self::Not(operand) | Self::Negate(operand) => rest.push(operand),
                Self::Binary(_, left, right) | Self::CeilDiv(left, right) => {
                    rest.extend([left.as_ref(), right.as_ref()])
                }
                Self::Min(all) | Self::Max(all) => rest.extend(all),
            }
        }
        found
    }

    /// The conditions that must all hold for it to hold.
    pub fn conditions(self) -> Vec<Self> {
        match self {
            Self::Binary(Operation::And, left, right) => {
                let mut all = left.conditions();
                all.extend(right.conditions());
                all
            }
            one => vec![one],
        }
    }

    /// Its value; `None` for a division by zero or a number beyond 64 bits.
    pub fn run(&self, numbers: &[i64]) -> Option<i64> {
        match self {
            Self::Constant(value) => Some(*value),
            Self::Slot(place) => numbers.get(*place).copied(),
            Self::Not(operand) => Some(i64::from(operand.run(numbers)? == 0)),
            Self::Negate(operand) => operand.run(numbers)?.checked_neg(),
            Self::Binary(op, left, right) => {
                let first = left.run(numbers)?;
                match op {
                    Operation::And if first == 0 => Some(0),
                    Operation::Or if first != 0 => Some(1),
                    _ => binary(*op, first, right.run(numbers)?),
                }
            }
            Self::CeilDiv(left, right) => ceil_div(left.run(numbers)?, right.run(numbers)?),
            Self::Min(all) => fold(all, numbers, i64::min),
            Self::Max(all) => fold(all, numbers, i64::max),
        }
    }
}

fn fold(all: &[Program], numbers: &[i64], choose: fn(i64, i64) -> i64) -> Option<i64> {
    let (first, rest) = all.split_first()?;
    rest.iter().try_fold(first.run(numbers)?, |chosen, next| Some(choose(chosen, next.run(numbers)?)))
}

pub(super) fn binary(op: Operation, left: i64, right: i64) -> Option<i64> {
    match op {
        Operation::And | Operation::Or => Some(i64::from(right != 0)),
        Operation::Add => left.checked_add(right),
        Operation::Subtract => left.checked_sub(right),
        Operation::Multiply => left.checked_mul(right),
        Operation::Divide => floor_div(left, right),
        Operation::Remainder => {
            let rest = left.checked_rem(right).or((right == -1).then_some(0))?;
            Some(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
        }
        Operation::Equal => Some(i64::from(left == right)),
        Operation::NotEqual => Some(i64::from(left != right)),
        Operation::Less => Some(i64::from(left < right)),
        Operation::LessEqual => Some(i64::from(left <= right)),
        Operation::Greater => Some(i64::from(left > right)),
        Operation::GreaterEqual => Some(i64::from(left >= right)),
    }
}

/// The quotient, rounded up.
pub(super) fn ceil_div(left: i64, right: i64) -> Option<i64> {
    floor_div(left, right)?.checked_add(i64::from(left.checked_rem(right)? != 0))
}

/// The quotient, rounded down.
fn floor_div(left: i64, right: i64) -> Option<i64> {
    let (toward_zero, rest) = (left.checked_div(right)?, left.checked_rem(right)?);
    toward_zero.checked_sub(i64::from(rest != 0 && (rest < 0) != (right < 0)))
}
