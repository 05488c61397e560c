//! Reads selectors: words, then a tree, without a panic on any text.
//!
//! Owns: the grammar, and what is said about a text that is none of it.
//! Never: looks at a row.
//!
//! ```text
//! selector = all { "or" all }
//! all      = one { "and" one }
//! one      = "not" one | "(" selector ")" | atom
//! atom     = word [ ( ":" | ">=" | "<=" | ">" | "<" ) word ]
//! ```

use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, did_you_mean};
use crate::units::{BackendId, UnitError, Version, plain_number};

use super::super::{AbiName, Cpu, Os, Provider, Variant, codes};
use super::{Atom, FrameworkName, Glob, Selector, Test, VersionTest};

/// How deep parentheses and `not` may be nested: more is a mistake, and the stack is finite.
const DEPTH: usize = 64;

/// What can be compared, for suggestions and help.
const NAMES: &[&str] = &["arch", "os", "abi", "backend", "provider", "id", "noarch", "torch", "tvm-ffi"];

impl Selector {
    /// Reads a selector.
    ///
    /// # Errors
    /// What is wrong first, with its place in the text.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let file = SourceFile::new("selector", text);
        let mut parser = Parser { tokens: tokens(&file)?, at: 0, file };
        let selector = parser.any(0)?;
        match parser.peek() {
            None => Ok(selector),
            Some(token) => {
                let (what, span) = (token.text.to_owned(), token.span.clone());
                let help = "join two conditions with `and` or `or`";
                Err(parser.syntax(
                    format!("`{what}` is not expected here"),
                    help,
                    &span,
                    "one condition ends before this",
                ))
            }
        }
    }
}

/// A word or an operator.
struct Token {
    text: String,
    span: Range<usize>,
}

impl Token {
    fn is_word(&self) -> bool {
        self.text.bytes().next().is_some_and(is_word_byte)
    }
}

const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'*' | b'?')
}

fn tokens(file: &Arc<SourceFile>) -> Result<Vec<Token>, Problem> {
    let text = &file.text;
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first.is_ascii() && is_word_byte(first as u8) {
            rest.bytes().take_while(|byte| is_word_byte(*byte)).count()
        } else if rest.starts_with(">=") || rest.starts_with("<=") {
            2
        } else if matches!(first, '(' | ')' | ':' | '>' | '<') {
            1
        } else {
            let help = match first {
                '=' => "equality is written `:`, as in `torch:2.11`",
                '&' => "write `and`",
                '|' | ',' => "write `or`",
                '!' => "write `not` before a condition, as in `not torch:2.11`",
                _ => "conditions are written as in `torch>=2.11 and not cuda:12.*`",
            };
            let problem =
                Problem::error(codes::SELECTOR_SYNTAX, format!("`{first}` is not part of a selector"))
                    .help(help);
            return Err(problem.at(file, &(at..at + first.len_utf8()), "here"));
        };
        tokens.push(Token { text: rest[..length].to_owned(), span: at..at + length });
        at += length;
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    file: Arc<SourceFile>,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Takes the next token if it is `text`.
    fn take(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.text == text);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self, depth: usize) -> Result<Selector, Problem> {
        let mut parts = vec![self.all(depth)?];
        while self.take("or") {
            parts.push(self.all(depth)?);
        }
        Ok(single(parts, Selector::Or))
    }

    fn all(&mut self, depth: usize) -> Result<Selector, Problem> {
        let mut parts = vec![self.factor(depth)?];
        while self.take("and") {
            parts.push(self.factor(depth)?);
        }
        Ok(single(parts, Selector::And))
    }

    fn factor(&mut self, depth: usize) -> Result<Selector, Problem> {
        let opened = self.place();
        if depth > DEPTH {
            let help = format!("nest at most {DEPTH} `not` and parentheses");
            return Err(self.syntax("the selector is nested too deeply".to_owned(), &help, &opened, "here"));
        }
        if self.take("not") {
            return Ok(Selector::Not(Box::new(self.factor(depth + 1)?)));
        }
        if self.take("(") {
            let inner = self.any(depth + 1)?;
            if !self.take(")") {
                let message = "a parenthesis is not closed".to_owned();
                return Err(self.syntax(message, "add `)`", &opened, "opened here"));
            }
            return Ok(inner);
        }
        let expected =
            |token: &Token| token.is_word() && !matches!(token.text.as_str(), "and" | "or" | "not");
        match self.peek() {
            Some(token) if expected(token) => self.atom(),
            found => {
                let message = match found {
                    Some(token) => format!("expected a condition, found `{}`", token.text),
                    None => "a condition is missing at the end".to_owned(),
                };
                let help = "for example `cuda:13.*`, `torch>=2.11`, `cpu`, `arch:x86_64` or `id:torch-*`";
                Err(self.syntax(message, help, &opened, "here"))
            }
        }
    }

    fn atom(&mut self) -> Result<Selector, Problem> {
        let (name, span) = self.word();
        let operator = [":", ">=", "<=", ">", "<"].into_iter().find(|operator| self.take(operator));
        let Some(operator) = operator else {
            let test = self.bare(&name, &span)?;
            return Ok(Selector::Atom(Atom { test, span }));
        };
        if !self.peek().is_some_and(Token::is_word) {
            let place = self.place();
            let message = format!("`{name}{operator}` has no value");
            return Err(self.syntax(
                message,
                "write the value, as in `torch>=2.11`",
                &place,
                "a value is missing",
            ));
        }
        let (value, place) = self.word();
        let test = self.compared(&name, &span, operator, &value, &place)?;
        Ok(Selector::Atom(Atom { test, span: span.start..place.end }))
    }

    /// A name alone.
    fn bare(&self, name: &str, span: &Range<usize>) -> Result<Test, Problem> {
        if name == "noarch" {
            return Ok(Test::Noarch);
        }
        if let Ok(framework) = name.parse() {
            return Ok(Test::Framework(framework, None));
        }
        if let Ok(backend) = name.parse() {
            return Ok(Test::Backend(backend, None));
        }
        if NAMES.contains(&name) {
            let example = example(name);
            let problem = Problem::error(codes::SELECTOR_VALUE, format!("`{name}` needs a value"))
                .help(format!("for example `{example}`"));
            return Err(problem.at(&self.file, span, "a value is missing"));
        }
        Err(self.unknown(name, span))
    }

    /// A name with an operator and a value.
    fn compared(
        &self,
        name: &str,
        span: &Range<usize>,
        operator: &'static str,
        value: &str,
        place: &Range<usize>,
    ) -> Result<Test, Problem> {
        if let Ok(framework) = name.parse::<FrameworkName>() {
            let version = self.version(name, operator, value, place)?;
            return Ok(Test::Framework(framework, Some(version)));
        }
        if let Ok(backend) = name.parse::<BackendId>() {
            if super::Toolkit::new(backend, None).is_some() {
                let problem = Problem::error(codes::SELECTOR_VALUE, format!("`{name}` has no version"));
                let help = match backend {
                    BackendId::Cpu => {
                        "write `cpu` for the backend, or `arch:x86_64` for the processor".to_owned()
                    }
                    _ => format!("write `{name}`"),
                };
                return Err(problem.help(help).at(&self.file, place, "unexpected version"));
            }
            return Ok(Test::Backend(backend, Some(self.version(name, operator, value, place)?)));
        }
        if name == "noarch" || !NAMES.contains(&name) {
            return Err(self.unknown(name, span));
        }
        if operator != ":" {
            let message = format!("`{operator}` is not supported for `{name}`, which has no order");
            let problem = Problem::error(codes::SELECTOR_VALUE, message);
            return Err(problem.help(format!("write `{name}:{value}`")).at(&self.file, span, "here"));
        }
        match name {
            "arch" => self.value(value, place).map(Test::Arch),
            "os" => self.value(value, place).map(Test::Os),
            "abi" => self.value(value, place).map(Test::Abi),
            "provider" => self.value(value, place).map(Test::Provider),
            "backend" => self.value(value, place).map(|backend| Test::Backend(backend, None)),
            _ => Ok(Test::Id(Glob(value.to_owned()))),
        }
    }

    fn version(
        &self,
        name: &str,
        operator: &'static str,
        value: &str,
        place: &Range<usize>,
    ) -> Result<VersionTest, Problem> {
        if operator == ":"
            && let Some(major) = value.strip_suffix(".*").and_then(plain_number)
        {
            return Ok(VersionTest::Major(major));
        }
        let version = self.value::<Version>(value, place).map_err(|problem| {
            let example = match name {
                "torch" => "2.11",
                "tvm-ffi" => "0.1",
                "xpu" => "2025.3",
                "rocm" => "7.1",
                _ => "13.0",
            };
            let major = example.split('.').next().unwrap_or_default();
            let any = if operator == ":" {
                format!(" or `{name}:{major}.*` for any minor version")
            } else {
                String::new()
            };
            problem.help(format!("write exactly two parts, as in `{name}{operator}{example}`{any}"))
        })?;
        Ok(match operator {
            ">=" => VersionTest::AtLeast(version),
            "<=" => VersionTest::AtMost(version),
            ">" => VersionTest::Above(version),
            "<" => VersionTest::Below(version),
            _ => VersionTest::Is(version),
        })
    }

    fn value<T: FromStr<Err = UnitError>>(&self, value: &str, place: &Range<usize>) -> Result<T, Problem> {
        value.parse().map_err(|error: UnitError| {
            let message = format!("`{}` is not {}", error.text, error.kind);
            Problem::error(codes::SELECTOR_VALUE, message).help(error.want).at(&self.file, place, "here")
        })
    }

    fn unknown(&self, name: &str, span: &Range<usize>) -> Problem {
        let known: Vec<&str> =
            NAMES.iter().copied().chain(BackendId::ALL.iter().map(|backend| backend.as_str())).collect();
        let label = match meant(name) {
            Some(known) => format!("did you mean `{known}`?"),
            None => did_you_mean(name, known.iter().copied(), "here"),
        };
        let help = format!("valid names: {}; write an id as in `id:torch-*`", known.join(", "));
        Problem::error(codes::SELECTOR_NAME, format!("unknown name `{name}` in the selector"))
            .help(help)
            .at(&self.file, span, label)
    }

    fn syntax(&self, message: String, help: &str, span: &Range<usize>, label: &str) -> Problem {
        Problem::error(codes::SELECTOR_SYNTAX, message).help(help).at(&self.file, span, label)
    }

    /// The next word; the caller saw that there is one.
    fn word(&mut self) -> (String, Range<usize>) {
        let found = self.peek().map(|token| (token.text.clone(), token.span.clone()));
        self.at += 1;
        found.unwrap_or_default()
    }

    /// Where the next token is, or the end of the text.
    fn place(&self) -> Range<usize> {
        let end = self.file.text.len();
        self.peek().map_or(end..end, |token| token.span.clone())
    }
}

/// The condition that someone has in mind who writes a value, a part of an id, or a whole id.
fn meant(name: &str) -> Option<String> {
    if name.contains(['*', '?']) || name.parse::<Variant>().is_ok() {
        return Some(format!("id:{name}"));
    }
    if let Ok(cpu) = name.parse::<Cpu>() {
        return Some(format!("arch:{cpu}"));
    }
    if let Ok(os) = name.parse::<Os>() {
        return Some(format!("os:{os}"));
    }
    if let Ok(abi) = name.parse::<AbiName>() {
        return Some(format!("abi:{abi}"));
    }
    if let Ok(provider) = name.parse::<Provider>() {
        return Some(format!("provider:{provider}"));
    }
    if let Ok(backend) = name.to_ascii_lowercase().parse::<BackendId>() {
        return Some(backend.to_string());
    }
    let start = name.find(|next: char| next.is_ascii_digit())?;
    let (word, digits) = name.split_at(start);
    let word = if word == "cu" { "cuda" } else { word };
    if word != "torch" && word.parse::<BackendId>().is_err() {
        return None;
    }
    if digits.parse::<Version>().is_ok() {
        return Some(format!("{word}:{digits}"));
    }
    // As in ids: 211 is torch 2.11, 130 is CUDA 13.0.
    if digits.len() != 3 || plain_number(digits).is_none() {
        return None;
    }
    let (major, minor) = digits.split_at(if word == "torch" { 1 } else { 2 });
    Some(format!("{word}:{major}.{minor}"))
}

fn example(name: &str) -> &'static str {
    match name {
        "arch" => "arch:x86_64",
        "os" => "os:linux",
        "abi" => "abi:stable",
        "backend" => "backend:cuda",
        "provider" => "provider:wheels",
        _ => "id:torch-*",
    }
}

/// A list of one is its element.
fn single(mut parts: Vec<Selector>, several: fn(Vec<Selector>) -> Selector) -> Selector {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            several(parts)
        }
        None => several(parts),
    }
}
