//! Reads expressions out of TOML: a string, or a plain number or truth.
//!
//! Owns: the translation of places in a string to places in the file, and the report of what is wrong.
//! Never: knows a key.

use std::ops::Range;

use toml::de::DeValue;

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::spec::read::Node;

use super::scope::mismatch;
use super::{
    BoolExpr, Expr, ExprKind, IntExpr, MAX_DEPTH, MAX_PARTS, Scope, Type, UnaryOp, ValueExpr,
    parse_expression,
};

/// An expression of either type.
pub(crate) fn value(node: &Node<'_>, scope: &Scope) -> Option<ValueExpr> {
    checked(node, tree(node)?, scope)
}

/// A tree that was read at this node, with names that are defined and types that fit.
pub(crate) fn checked(node: &Node<'_>, mut expr: Expr, scope: &Scope) -> Option<ValueExpr> {
    scope.resolve(&mut expr);
    let size = expr.size();
    if size.parts > MAX_PARTS || size.depth > MAX_DEPTH {
        let message = format!("`{expr}` is too large after its names are expanded");
        let help =
            format!("the limit is {MAX_PARTS} parts and {MAX_DEPTH} levels; nest fewer names of [let]");
        let problem = Problem::error(codes::EXPRESSION, message).help(help);
        node.report(problem, &expr.span, format!("{} parts, {} levels", size.parts, size.depth));
        return None;
    }
    let mut complaints = Vec::new();
    let found = scope.check(&expr, &mut complaints);
    for (problem, span, label) in complaints {
        node.report(problem, &span, label);
    }
    Some(match found? {
        Type::Integer => ValueExpr::Integer(IntExpr(expr)),
        Type::Boolean => ValueExpr::Boolean(BoolExpr(expr)),
    })
}

/// An expression that yields a number.
pub(crate) fn integer(node: &Node<'_>, scope: &Scope) -> Option<IntExpr> {
    match value(node, scope)? {
        ValueExpr::Integer(expr) => Some(expr),
        ValueExpr::Boolean(expr) => wrong_type(node, expr.tree(), Type::Integer, Type::Boolean),
    }
}

/// An expression that yields a truth.
pub(crate) fn boolean(node: &Node<'_>, scope: &Scope) -> Option<BoolExpr> {
    match value(node, scope)? {
        ValueExpr::Boolean(expr) => Some(expr),
        ValueExpr::Integer(expr) => wrong_type(node, expr.tree(), Type::Boolean, Type::Integer),
    }
}

/// A list of expressions that yield numbers; `None` where one does not.
pub(crate) fn integers(node: &Node<'_>, scope: &Scope) -> Option<Vec<IntExpr>> {
    let read: Vec<_> = node.items()?.iter().map(|item| integer(item, scope)).collect();
    read.into_iter().collect()
}

fn wrong_type<T>(node: &Node<'_>, found: &Expr, want: Type, is: Type) -> Option<T> {
    let message = format!("`{}` needs {}, but `{found}` is {}", node.path(), want.words(), is.words());
    node.report(mismatch(message, want), &found.span, format!("this is {}", is.words()));
    None
}

/// An expression whose names and types were not looked at.
pub(crate) fn tree(node: &Node<'_>) -> Option<Expr> {
    let span = node.span();
    match node.value() {
        DeValue::String(text) => {
            let start = start_of(&node.file().text[span.clone()], text);
            // Characters behind an escape stand elsewhere than in the file: then the whole string is the place.
            let place = |part: &Range<usize>| match start {
                Some(start) => span.start + start + part.start..span.start + start + part.end,
                None => span.clone(),
            };
            match parse_expression(text) {
                Ok(mut expr) => {
                    expr.move_to(&place);
                    Some(expr)
                }
                Err(error) => {
                    let problem = Problem::error(codes::EXPRESSION, error.message).help(error.help);
                    node.report(problem, &place(&error.span), error.label);
                    None
                }
            }
        }
        DeValue::Integer(_) => {
            let number = node.read::<i64>()?.value;
            let Some(size) = number.checked_abs() else {
                return node.wrong_type("an expression", "\"ceil_div(rows, 4)\"");
            };
            let literal = Expr { kind: ExprKind::Integer(size), span: span.clone() };
            let kind = if number < 0 {
                ExprKind::Unary(UnaryOp::Negate, Box::new(literal))
            } else {
                return Some(literal);
            };
            Some(Expr { kind, span })
        }
        DeValue::Boolean(truth) => Some(Expr { kind: ExprKind::Boolean(*truth), span }),
        _ => node.wrong_type("an expression", "\"ceil_div(rows, 4)\""),
    }
}

/// Where the characters of a TOML string begin in its source, if they all stand there as they are.
fn start_of(source: &str, text: &str) -> Option<usize> {
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| {
        source.len() >= 2 * quote.len() && source.starts_with(quote) && source.ends_with(quote)
    })?;
    let inner = &source[quote.len()..source.len() - quote.len()];
    // A line break right after three quotes does not belong to the text.
    let skipped =
        if quote.len() == 3 { inner.len() - inner.trim_start_matches(['\r', '\n']).len() } else { 0 };
    [0, 1, 2]
        .into_iter()
        .filter(|start| *start <= skipped)
        .find_map(|start| (inner.get(start..)? == text).then_some(quote.len() + start))
}

impl Expr {
    /// Moves every place.
    fn move_to(&mut self, place: &dyn Fn(&Range<usize>) -> Range<usize>) {
        self.span = place(&self.span);
        match &mut self.kind {
            // A name of [let] has its place, and its expression another one.
            ExprKind::Integer(_) | ExprKind::Boolean(_) | ExprKind::Name(_) | ExprKind::Named(_) => {}
            ExprKind::Unary(_, operand) => operand.move_to(place),
            ExprKind::Binary(_, left, right) => {
                left.move_to(place);
                right.move_to(place);
            }
            ExprKind::Call(_, arguments) => arguments.iter_mut().for_each(|argument| argument.move_to(place)),
        }
    }
}
