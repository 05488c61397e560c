//! Reads JSON with the place of every key and value.
//!
//! Owns: what a key or a value of the wrong kind is told as; which keys nobody asked for.
//! Never: knows a key. serde_json reads the text; the places come from the raw values that it lends.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::diagnostic::{Problem, SourceFile};
use crate::spec::Spanned;

use super::codes;

/// A file that is being read, and what is wrong with it so far.
pub(super) struct Document<'f> {
    pub(super) file: &'f Arc<SourceFile>,
    problems: RefCell<Vec<Problem>>,
}

impl<'f> Document<'f> {
    pub(super) fn new(file: &'f Arc<SourceFile>) -> Self {
        Self { file, problems: RefCell::default() }
    }

    /// The value that `text`, a part of the file, holds; reports what is not JSON.
    pub(super) fn value(&self, text: &'f str) -> Option<Node<'_>> {
        match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) => Some(Node { document: self, raw: raw.get() }),
            Err(error) => {
                self.not_json(text, &error);
                None
            }
        }
    }

    pub(super) fn push(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    /// Everything that is wrong, in file order.
    pub(super) fn finish(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(Problem::offset);
        problems
    }

    fn not_json(&self, text: &str, error: &serde_json::Error) {
        let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let mut offset = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let start = self.offset(text) + offset;
        let length = text[offset..].chars().next().map_or(0, char::len_utf8);
        let whole = error.to_string();
        // Line and column are shown with the text.
        let message = whole.split(" at line ").next().unwrap_or(&whole);
        self.push(
            Problem::error(codes::SYNTAX, format!("not valid JSON: {message}"))
                .at(self.file, &(start..start + length), "here")
                .help("a definition is one JSON object, and a file of workloads has one object per line"),
        );
    }

    /// Where `part`, which was lent from the file's text, begins.
    fn offset(&self, part: &str) -> usize {
        part.as_ptr() as usize - self.file.text.as_ptr() as usize
    }
}

/// A value.
#[derive(Clone, Copy)]
pub(super) struct Node<'d> {
    document: &'d Document<'d>,
    raw: &'d str,
}

/// A number as it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Literal {
    Integer(i64),
    Float(f64),
    Bool(bool),
}

impl<'d> Node<'d> {
    pub(super) fn span(&self) -> Range<usize> {
        let start = self.document.offset(self.raw);
        start..start + self.raw.len()
    }

    pub(super) fn document(&self) -> &'d Document<'d> {
        self.document
    }

    /// A problem whose place is this value.
    pub(super) fn report(&self, problem: Problem, label: impl Into<String>) {
        self.document.push(problem.at(self.document.file, &self.span(), label));
    }

    pub(super) fn is_null(&self) -> bool {
        self.raw == "null"
    }

    /// Reports a value of another kind.
    pub(super) fn wrong_type<T>(&self, wanted: &str, example: &str) -> Option<T> {
        let found = match self.raw.as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b'"') => "a string",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            _ => "a number",
        };
        let problem = Problem::error(codes::WRONG_TYPE, format!("expected {wanted}, found {found}"))
            .help(format!("for example: {example}"));
        self.report(problem, format!("{found}, not {wanted}"));
        None
    }

    /// A string, which may be empty.
    pub(super) fn text(&self, example: &str) -> Option<Spanned<String>> {
        if !self.raw.starts_with('"') {
            return self.wrong_type("a string", example);
        }
        match serde_json::from_str(self.raw) {
            Ok(text) => Some(Spanned::new(text, self.span())),
            Err(error) => {
                // Half of a surrogate pair is found only when the text is decoded.
                self.document.not_json(self.raw, &error);
                None
            }
        }
    }

    /// A number or a boolean; integers have 64 bits.
    pub(super) fn literal(&self) -> Option<Literal> {
        let literal = match self.raw.as_bytes().first() {
            Some(b't') => Literal::Bool(true),
            Some(b'f') => Literal::Bool(false),
            Some(b'0'..=b'9' | b'-') if self.raw.contains(['.', 'e', 'E']) => {
                let value = self.raw.parse().ok().filter(|value: &f64| value.is_finite());
                return value.map(Literal::Float).or_else(|| self.out_of_range("a finite number"));
            }
            Some(b'0'..=b'9' | b'-') => {
                let value = self.raw.parse().ok();
                return value.map(Literal::Integer).or_else(|| self.out_of_range("an integer of 64 bits"));
            }
            _ => return self.wrong_type("a number or a boolean", "1e-6"),
        };
        Some(literal)
    }

    /// A length: an integer that is zero or more.
    pub(super) fn length(&self) -> Option<u64> {
        if self.raw.starts_with(['"', '[', '{', 'n']) {
            return self.wrong_type("an integer", "128");
        }
        match self.literal()? {
            Literal::Integer(value) => {
                u64::try_from(value).ok().or_else(|| self.out_of_range("a length, zero or more"))
            }
            _ => self.wrong_type("an integer", "128"),
        }
    }

    fn out_of_range<T>(&self, wanted: &str) -> Option<T> {
        let problem = Problem::error(codes::BAD_VALUE, format!("expected {wanted}, found {}", self.raw))
            .help("write a number that fits");
        self.report(problem, "out of range");
        None
    }

    pub(super) fn list(&self, example: &str) -> Option<Vec<Node<'d>>> {
        self.items().or_else(|| self.wrong_type("a list", example))
    }

    /// The items of a list; `None` for any other value.
    pub(super) fn items(&self) -> Option<Vec<Node<'d>>> {
        if !self.raw.starts_with('[') {
            return None;
        }
        let raws: Vec<&'d RawValue> = serde_json::from_str(self.raw).ok()?;
        Some(raws.into_iter().map(|raw| Node { raw: raw.get(), ..*self }).collect())
    }

    pub(super) fn object(&self, example: &str) -> Option<Object<'d>> {
        if !self.raw.starts_with('{') {
            return self.wrong_type("an object", example);
        }
        let Entries(raws) = serde_json::from_str(self.raw).ok()?;
        let mut entries: Vec<Entry<'d>> = Vec::with_capacity(raws.len());
        let mut seen = BTreeSet::new();
        for (key, value) in raws {
            let key = Node { raw: key.get(), ..*self };
            let Some(name) = key.text("\"name\"") else { continue };
            if seen.insert(name.value.clone()) {
                let value = Node { raw: value.get(), ..*self };
                entries.push(Entry { key: name, value, used: Cell::new(false) });
            } else {
                let problem = Problem::error(codes::DUPLICATE, format!("duplicate key `{}`", name.value))
                    .help("keep one of them; JSON readers differ in which one they use");
                key.report(problem, "again");
            }
        }
        Some(Object { node: *self, entries })
    }
}

/// The keys and values of an object, undecoded.
struct Entries<'d>(Vec<(&'d RawValue, &'d RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Entries<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    found.push(entry);
                }
                Ok(Entries(found))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// An object with its keys in file order.
pub(super) struct Object<'d> {
    node: Node<'d>,
    entries: Vec<Entry<'d>>,
}

/// A key and its value.
pub(super) struct Entry<'d> {
    pub(super) key: Spanned<String>,
    pub(super) value: Node<'d>,
    used: Cell<bool>,
}

impl<'d> Object<'d> {
    /// The value of a key that may be absent; `null` is as good as absent.
    pub(super) fn get(&self, key: &str) -> Option<Node<'d>> {
        self.nullable(key).filter(|node| !node.is_null())
    }

    /// The value of a key that may be absent or `null`.
    fn nullable(&self, key: &str) -> Option<Node<'d>> {
        let entry = self.entries.iter().find(|entry| entry.key.value == key)?;
        entry.used.set(true);
        Some(entry.value)
    }

    /// The value of a key that has to be there; reports one that is not.
    pub(super) fn require(&self, key: &str, example: &str) -> Option<Node<'d>> {
        self.nullable(key).or_else(|| {
            let start = self.node.span().start;
            let problem = Problem::error(codes::MISSING_KEY, format!("the key `{key}` is missing"))
                .at(self.node.document.file, &(start..start + 1), format!("no `{key}` in this object"))
                .help(format!("for example: \"{key}\": {example}"));
            self.node.document.push(problem);
            None
        })
    }

    /// Every key and value, in file order.
    pub(super) fn entries(&self) -> &[Entry<'d>] {
        for entry in &self.entries {
            entry.used.set(true);
        }
        &self.entries
    }

    /// Tells which keys op.toml has no place for: those that nobody asked for.
    pub(super) fn finish(&self) {
        self.leave_out("op.toml does not support");
    }

    /// Tells which keys name nothing that the definition defines.
    pub(super) fn finish_names(&self) {
        self.leave_out("the definition does not define");
    }

    fn leave_out(&self, reason: &str) {
        for entry in self.entries.iter().filter(|entry| !entry.used.get()) {
            let message = format!("{reason} `{}`, so it is ignored", entry.key.value);
            let problem = Problem::warning(codes::DROPPED, message)
                .at(self.node.document.file, &entry.key.span, "ignored")
                .help("check the spelling; if it is correct, there is nothing to do");
            self.node.document.push(problem);
        }
    }
}
