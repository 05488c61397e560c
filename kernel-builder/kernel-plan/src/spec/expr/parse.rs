//! Text to tree.
//!
//! Owns: the grammar (docs/reference/op-toml.md has it in EBNF), the limit of depth, the places of every node.
//! Never: knows which names there are.

use std::ops::Range;

use crate::diagnostic::did_you_mean;

use super::{BinaryOp, Expr, ExprKind, Function, UnaryOp};

/// How deep a tree may be. What follows a tree to its leaves stays far from the end of the stack.
pub const MAX_DEPTH: usize = 128;

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// Byte range of what does not belong.
    pub span: Range<usize>,
    /// Lower-case fragment, no full stop.
    pub message: String,
    /// What to say at the place.
    pub label: String,
    /// What to write instead.
    pub help: String,
}

/// Reads one expression; places count from the start of `text`.
///
/// # Errors
/// Where the text is not an expression; names and types are not looked at.
pub fn parse_expression(text: &str) -> Result<Expr, SyntaxError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let whole = parser.expression(0)?;
    let next = parser.next()?;
    if next.token == Token::End {
        Ok(whole.expr)
    } else {
        Err(parser.unexpected(&next, "the end or an operator"))
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token<'t> {
    Integer(i64),
    /// A name or a word of the language.
    Word(&'t str),
    Symbol(&'static str),
    End,
}

#[derive(Debug, Clone)]
struct Lexeme<'t> {
    token: Token<'t>,
    span: Range<usize>,
}

/// Longer ones first.
const SYMBOLS: [&str; 14] = ["==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ","];

/// A node that is being put together.
struct Node {
    expr: Expr,
    height: usize,
    /// Whether parentheses stand around it, which the tree does not keep.
    closed: bool,
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    /// The token at the present place, which stays.
    fn peek(&self) -> Result<Lexeme<'t>, SyntaxError> {
        let rest = &self.text[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let rest = &self.text[start..];
        let lexeme = |token, length| Ok(Lexeme { token, span: start..start + length });
        let Some(first) = rest.chars().next() else { return lexeme(Token::End, 0) };
        if first.is_ascii_alphanumeric() || first == '_' {
            let length =
                rest.find(|next: char| !next.is_ascii_alphanumeric() && next != '_').unwrap_or(rest.len());
            let word = &rest[..length];
            let token = if first.is_ascii_digit() {
                Token::Integer(number(word, start..start + length)?)
            } else {
                Token::Word(word)
            };
            return lexeme(token, length);
        }
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => lexeme(Token::Symbol(symbol), symbol.len()),
            None => Err(stray(first, start, &self.text[..start])),
        }
    }

    /// Takes the token at the present place.
    fn next(&mut self) -> Result<Lexeme<'t>, SyntaxError> {
        let lexeme = self.peek()?;
        self.at = lexeme.span.end;
        Ok(lexeme)
    }

    /// An expression whose operators bind with at least `power`.
    fn expression(&mut self, power: u8) -> Result<Node, SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(self.at..self.at));
        }
        let mut left = self.operand(power)?;
        loop {
            let next = self.peek()?;
            let Some(op) = binary(&next.token).filter(|op| op.power() >= power) else { break };
            let compared = matches!(&left.expr.kind, ExprKind::Binary(first, ..) if first.compares());
            if op.compares() && compared && !left.closed {
                return Err(chained(&next.span));
            }
            self.at = next.span.end;
            let right = self.expression(op.power() + 1)?;
            let span = left.expr.span.start..right.expr.span.end;
            let height = left.height.max(right.height) + 1;
            left = node(ExprKind::Binary(op, Box::new(left.expr), Box::new(right.expr)), span, height)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    /// What stands to the left of an operator.
    fn operand(&mut self, power: u8) -> Result<Node, SyntaxError> {
        let first = self.next()?;
        let span = first.span.clone();
        match first.token {
            Token::Integer(number) => node(ExprKind::Integer(number), span, 1),
            Token::Symbol("(") => {
                let inner = self.expression(0)?;
                let expr = Expr { kind: inner.expr.kind, span: span.start..self.close(&span)? };
                Ok(Node { expr, height: inner.height, closed: true })
            }
            Token::Symbol("-") => self.unary(UnaryOp::Negate, &span),
            Token::Word("not") if power <= UnaryOp::Not.power() => self.unary(UnaryOp::Not, &span),
            Token::Word("not") => Err(SyntaxError {
                span,
                message: "`not` needs parentheses here".to_owned(),
                label: "has lower precedence than the operator before it".to_owned(),
                help: "write it as in `a + (not b)`".to_owned(),
            }),
            Token::Word("true") => node(ExprKind::Boolean(true), span, 1),
            Token::Word("false") => node(ExprKind::Boolean(false), span, 1),
            Token::Word(word) => {
                if self.peek()?.token == Token::Symbol("(") {
                    return self.call(word, &span);
                }
                match word.parse() {
                    Ok(name) => node(ExprKind::Name(name), span, 1),
                    Err(_) => Err(self.unexpected(&first, "a number, a name or `(`")),
                }
            }
            _ => Err(self.unexpected(&first, "a number, a name or `(`")),
        }
    }

    fn unary(&mut self, op: UnaryOp, span: &Range<usize>) -> Result<Node, SyntaxError> {
        let operand = self.expression(op.power())?;
        let span = span.start..operand.expr.span.end;
        node(ExprKind::Unary(op, Box::new(operand.expr)), span, operand.height + 1)
    }

    fn call(&mut self, word: &str, span: &Range<usize>) -> Result<Node, SyntaxError> {
        let open = self.next()?.span;
        let Ok(function) = word.parse::<Function>() else { return Err(unknown_function(word, span)) };
        let (mut arguments, mut height) = (Vec::new(), 0);
        if self.peek()?.token != Token::Symbol(")") {
            loop {
                let argument = self.expression(0)?;
                arguments.push(argument.expr);
                height = height.max(argument.height);
                if self.peek()?.token != Token::Symbol(",") {
                    break;
                }
                self.next()?;
            }
        }
        let end = self.close(&open)?;
        node(ExprKind::Call(function, arguments), span.start..end, height + 1)
    }

    /// The parenthesis that closes the one at `open`; returns its end.
    fn close(&mut self, open: &Range<usize>) -> Result<usize, SyntaxError> {
        let next = self.next()?;
        match next.token {
            Token::Symbol(")") => Ok(next.span.end),
            Token::End => Err(SyntaxError {
                span: open.clone(),
                message: "a parenthesis is not closed".to_owned(),
                label: "opened here".to_owned(),
                help: "add `)`".to_owned(),
            }),
            _ => Err(self.unexpected(&next, "`)` or an operator")),
        }
    }

    fn unexpected(&self, found: &Lexeme<'_>, want: &str) -> SyntaxError {
        let (message, span) = if found.token == Token::End {
            let last = self.text.trim_end();
            let start = last.char_indices().last().map_or(0, |(start, _)| start);
            let message =
                if last.is_empty() { "the expression is empty" } else { "the expression ends early" };
            (message.to_owned(), start..last.len())
        } else {
            let text = &self.text[found.span.clone()];
            (format!("unexpected `{text}` in the expression"), found.span.clone())
        };
        let help = self.instead(found).unwrap_or_else(|| {
            "for example: \"ceil_div(rows, 4)\" or \"rows > 1 and hidden % 8 == 0\"".to_owned()
        });
        SyntaxError { span, message, label: format!("expected {want}"), help }
    }

    /// What to write in place of something that other languages have.
    fn instead(&self, found: &Lexeme<'_>) -> Option<String> {
        let doubled = |symbol| self.text[..found.span.start].ends_with(symbol);
        match found.token {
            Token::Symbol("*") if doubled("*") => Some("powers are not supported; multiply".to_owned()),
            Token::Symbol("/") if doubled("/") => Some("write `/`: it rounds down".to_owned()),
            Token::Symbol(symbol @ ("<" | ">")) if doubled(symbol) => {
                Some("shifts are not supported; multiply or divide by a power of two".to_owned())
            }
            Token::Word("if" | "else") => Some(NO_CHOICE.to_owned()),
            Token::Word(word) => {
                let lower = word.to_ascii_lowercase();
                let known = matches!(lower.as_str(), "and" | "or" | "not" | "true" | "false");
                (known && lower != word).then(|| format!("write `{lower}`"))
            }
            _ => None,
        }
    }
}

fn binary(token: &Token<'_>) -> Option<BinaryOp> {
    match token {
        Token::Symbol(text) | Token::Word(text) => text.parse().ok(),
        _ => None,
    }
}

fn node(kind: ExprKind, span: Range<usize>, height: usize) -> Result<Node, SyntaxError> {
    if height > MAX_DEPTH {
        return Err(too_deep(span));
    }
    Ok(Node { expr: Expr { kind, span }, height, closed: false })
}

/// Decimal, with `_` between digits.
fn number(word: &str, span: Range<usize>) -> Result<i64, SyntaxError> {
    let fail = |message: String, label: &str, help: &str| {
        Err(SyntaxError { span: span.clone(), message, label: label.to_owned(), help: help.to_owned() })
    };
    if !word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        let help = "numbers are decimal; a name starts with a letter; a product is written `2 * rows`";
        return fail(format!("`{word}` is neither a number nor a name"), "here", help);
    }
    if word.ends_with('_') || word.contains("__") {
        return fail(format!("`{word}` is not a number"), "here", "`_` must be between two digits");
    }
    match word.replace('_', "").parse() {
        Ok(number) => Ok(number),
        Err(_) => fail(
            format!("{word} does not fit in 64 bits"),
            "too large",
            "a number is at most 9223372036854775807",
        ),
    }
}

const NO_CHOICE: &str =
    "conditional values are not supported; write two kernels with `when`, or use min and max";

/// A character of no token; `before` is the text up to it.
fn stray(found: char, start: usize, before: &str) -> SyntaxError {
    let word = before.rsplit(|last: char| !last.is_ascii_alphanumeric() && last != '_').next();
    let follows_name = word.is_some_and(|word| word.starts_with(|first: char| !first.is_ascii_digit()));
    let help = match found {
        '=' => "equality is written `==`",
        '&' => "write `and`",
        '|' => "write `or`",
        '!' => "write `not`, or `!=`",
        '.' | '[' if follows_name => {
            "write the name of the axis for a length, and `stride(input, 0)` for a stride; `.` and `[` are \
             not supported"
        }
        '.' => "expressions support whole numbers only",
        '?' => NO_CHOICE,
        '\'' | '"' => "strings are not supported; for the size of a dtype write `sizeof(T)`",
        '^' => "powers are not supported; multiply",
        _ => {
            "an expression can use numbers, names, + - * / %, comparisons, and, or, not, and calls such as \
             ceil_div(a, b)"
        }
    };
    SyntaxError {
        span: start..start + found.len_utf8(),
        message: format!("`{found}` is not part of the expression language"),
        label: "here".to_owned(),
        help: help.to_owned(),
    }
}

fn chained(span: &Range<usize>) -> SyntaxError {
    SyntaxError {
        span: span.clone(),
        message: "comparisons cannot be chained".to_owned(),
        label: "the second comparison".to_owned(),
        help: "write both with `and`, as in `1 <= rows and rows <= 8`".to_owned(),
    }
}

fn too_deep(span: Range<usize>) -> SyntaxError {
    SyntaxError {
        span,
        message: format!("the expression is nested deeper than {MAX_DEPTH} levels"),
        label: "here".to_owned(),
        help: "remove parentheses, or shorten the expression".to_owned(),
    }
}

fn unknown_function(word: &str, span: &Range<usize>) -> SyntaxError {
    let known: Vec<_> = Function::ALL.iter().map(|function| function.as_str()).collect();
    let label = did_you_mean(word, known.iter().copied(), "no such function");
    SyntaxError {
        span: span.clone(),
        message: format!("`{word}` is not a function of the expression language"),
        label,
        help: format!("the functions are {}", known.join(", ")),
    }
}
