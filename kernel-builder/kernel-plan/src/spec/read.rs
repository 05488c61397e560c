//! Reads TOML tables key by key and keeps an account of everything that is wrong with them.
//!
//! Owns: syntax errors, unknown keys, missing keys, wrong types, and the texts for them.
//! Never: knows a key of build.toml or op.toml; those are in the files that read them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Problem, SourceFile, closest};

use super::{Spanned, codes, dialect};

/// Parses `file` and hands its root table to `read`; the problems come back in file order.
///
/// A file that is no TOML yields its syntax errors alone.
pub(crate) fn document<T>(
    file: &Arc<SourceFile>,
    read: impl FnOnce(Table<'_>) -> Option<T>,
) -> (Option<T>, Vec<Problem>) {
    let sink = Sink { file: Arc::clone(file), problems: RefCell::default() };
    let (root, errors) = DeTable::parse_recoverable(&file.text);
    if !errors.is_empty() {
        // Further problems on the same line are nearly always echoes of the first.
        let mut lines = BTreeSet::new();
        let mut last = None;
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            if lines.insert(file.position(span.start).line) {
                // One bracket that is not closed makes every line below an echo.
                let message = error.message();
                if message.starts_with("missing comma") && last == Some(message) {
                    continue;
                }
                last = Some(message);
                let help = syntax_help(message, file.text.get(..span.start).unwrap_or_default());
                let problem =
                    Problem::error(codes::SYNTAX, format!("not valid TOML: {}", error.message())).help(help);
                sink.push(problem.at(file, &span, "here"));
            }
        }
        return (None, sink.into_sorted());
    }
    for newer in dialect::newer(&file.text) {
        let message = format!("{} requires TOML 1.1, but this file is TOML 1.0", newer.what);
        let problem = Problem::error(codes::SYNTAX, message).help(newer.instead);
        sink.push(problem.at(file, &newer.place, "here"));
    }
    let value = read(Table {
        sink: &sink,
        path: String::new(),
        entries: root.get_ref(),
        place: 0..0,
        known: Vec::new(),
    });
    (value, sink.into_sorted())
}

/// The help for a syntax error of the TOML parser; `before` is the text in front of it.
fn syntax_help(message: &str, before: &str) -> &'static str {
    if message == "duplicate key" && before.ends_with("[[") {
        "the file already has `[NAME]` or `[NAME.x]` with this name: write this section in single brackets \
         too"
    } else if message == "duplicate key" {
        "the file already has this key or section; keep one of the two"
    } else if message.starts_with("invalid boolean") || message.starts_with("string values must be quoted") {
        "write a string in straight quotes, as in \"MIT\"; true and false are lower-case; a comment begins \
         with `#`"
    } else if message.starts_with("key with no value") {
        "a key is followed by `=` and its value, as in name = \"fast-norm\""
    } else {
        "a quote, bracket or comma is often missing on this line or one above"
    }
}

/// The collector of problems.
struct Sink {
    file: Arc<SourceFile>,
    problems: RefCell<Vec<Problem>>,
}

impl Sink {
    fn push(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    /// Forgets a problem that another one explains.
    fn take_back(&self, code: &str, message: &str, place: &Range<usize>) {
        let same = |problem: &Problem| {
            problem.code == code
                && problem.message == message
                && problem.labels.first().is_some_and(|(span, _)| span == place)
        };
        self.problems.borrow_mut().retain(|problem| !same(problem));
    }

    fn into_sorted(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(Problem::offset);
        problems
    }
}

/// A table that is being read. Each requested key becomes a valid one; `finish` reports the others.
pub(crate) struct Table<'a> {
    sink: &'a Sink,
    /// Dotted, for messages; empty for the root.
    path: String,
    entries: &'a DeTable<'a>,
    /// The key that names the table, for what is missing in it.
    place: Range<usize>,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// The value of `key`, if it is there.
    pub(crate) fn node(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.known.push(key);
        let (found, value) = self.entries.get_key_value(key)?;
        Some(Node { sink: self.sink, path: self.path_of(key), key: found.span(), value })
    }

    /// Reads an optional value.
    pub(crate) fn get<T: Read>(&mut self, key: &'static str) -> Option<Spanned<T>> {
        self.node(key)?.read()
    }

    /// Reads a list; absent is empty.
    pub(crate) fn list<T: Read>(&mut self, key: &'static str) -> Vec<Spanned<T>> {
        self.get::<Vec<Spanned<T>>>(key).map(|list| list.value).unwrap_or_default()
    }

    /// Reads a value that has to be there; `example` is a line that would do.
    pub(crate) fn require<T: Read>(&mut self, key: &'static str, example: &str) -> Option<Spanned<T>> {
        self.require_node(key, example)?.read()
    }

    /// Reads a list that has to be there and needs an entry.
    pub(crate) fn require_list<T: Read>(
        &mut self,
        key: &'static str,
        example: &str,
    ) -> Option<Spanned<Vec<Spanned<T>>>> {
        let node = self.require_node(key, example)?;
        if node.items()?.is_empty() {
            let problem = Problem::error(codes::EMPTY_LIST, format!("`{}` is empty", node.path()))
                .help(format!("for example: {example}"));
            self.report(problem, &node.span(), "at least one entry is needed");
        }
        node.read()
    }

    /// Reads a table, if it is there.
    pub(crate) fn table(&mut self, key: &'static str) -> Option<Table<'a>> {
        self.node(key)?.table()
    }

    /// Reads a table that has to be there.
    pub(crate) fn require_table(&mut self, key: &'static str, example: &str) -> Option<Table<'a>> {
        self.require_node(key, example)?.table()
    }

    /// Every entry of a table whose keys the author chooses, in file order.
    pub(crate) fn entries(&self) -> Vec<(Spanned<String>, Node<'a>)> {
        self.entries
            .iter()
            .map(|(key, value)| {
                let name = Spanned::new(key.get_ref().to_string(), key.span());
                let path = self.path_of(&name.value);
                (name, Node { sink: self.sink, path, key: key.span(), value })
            })
            .collect()
    }

    /// The table as TOML has it, for what depends on several keys at once.
    pub(crate) fn toml(&self) -> &'a DeTable<'a> {
        self.entries
    }

    /// Whether the table has a key that is nearly one of `keys`, which `finish` will tell.
    pub(crate) fn has_slip_of(&self, keys: &[&str]) -> bool {
        let slip = |key: &str| !self.known.contains(&key) && closest(key, keys.iter().copied()).is_some();
        self.entries.keys().any(|key| slip(key.get_ref()))
    }

    /// The key that names this table.
    pub(crate) fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Records a problem at `span`.
    pub(crate) fn report(&self, problem: Problem, span: &Range<usize>, label: impl Into<String>) {
        self.sink.push(problem.at(&self.sink.file, span, label));
    }

    /// Records a problem whose labels are set already.
    pub(crate) fn push(&self, problem: Problem) {
        self.sink.push(problem);
    }

    /// The file, for problems with several labels.
    pub(crate) fn file(&self) -> &'a Arc<SourceFile> {
        &self.sink.file
    }

    /// Reports the keys that were not requested.
    pub(crate) fn finish(self) {
        let place = if self.path.is_empty() { "the file".to_owned() } else { format!("`[{}]`", self.path) };
        let unknown = self.entries.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref()));
        for key in unknown {
            let label = match closest(key.get_ref(), self.known.iter().copied()) {
                Some(known) => {
                    // The misspelled key is the reason why that key is missing; one mistake is reported once.
                    self.sink.take_back(codes::MISSING_KEY, &self.missing(known), &self.place);
                    format!("did you mean `{known}`?")
                }
                None => format!("{place} has no such key"),
            };
            let problem = Problem::error(codes::UNKNOWN_KEY, format!("unknown key `{key}` in {place}"))
                .help(format!("valid keys: {}", self.known.join(", ")));
            self.report(problem, &key.span(), label);
        }
    }

    /// The value of a key that has to be there; `example` is a line that would do.
    pub(crate) fn require_node(&mut self, key: &'static str, example: &str) -> Option<Node<'a>> {
        let node = self.node(key);
        if node.is_none() {
            let problem =
                Problem::error(codes::MISSING_KEY, self.missing(key)).help(format!("for example: {example}"));
            self.report(problem, &self.place, format!("`{key}` is missing"));
        }
        node
    }

    fn missing(&self, key: &str) -> String {
        let place = if self.path.is_empty() { "the file".to_owned() } else { format!("`{}`", self.path) };
        format!("{place} has no `{key}`")
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// One value with its place.
pub(crate) struct Node<'a> {
    sink: &'a Sink,
    path: String,
    key: Range<usize>,
    value: &'a toml::Spanned<DeValue<'a>>,
}

impl<'a> Node<'a> {
    /// Reads the value as a `T`, or reports what it is instead.
    pub(crate) fn read<T: Read>(&self) -> Option<Spanned<T>> {
        T::read(self).map(|value| Spanned::new(value, self.span()))
    }

    /// Reads the value as a table.
    pub(crate) fn table(&self) -> Option<Table<'a>> {
        match self.value.get_ref() {
            DeValue::Table(entries) => Some(Table {
                sink: self.sink,
                path: self.path.clone(),
                entries,
                place: self.key.clone(),
                known: Vec::new(),
            }),
            DeValue::Array(_) if self.is_section() => {
                let path = &self.path;
                let message = format!("`[[{path}]]` is a list of sections, but must be one section");
                let name = if path == "kernel" { "kernel.NAME" } else { path };
                let problem = Problem::error(codes::WRONG_TYPE, message)
                    .help(format!("write it in single brackets, once for each name: [{name}]"));
                self.report(problem, &self.key, "double brackets make a list");
                None
            }
            _ => self.wrong_type("a table", "{ key = \"value\" }"),
        }
    }

    /// Whether the value is written as `[[section]]`.
    fn is_section(&self) -> bool {
        self.sink.file.text[..self.key.start].ends_with("[[")
    }

    /// Reads the value as a list.
    pub(crate) fn items(&self) -> Option<Vec<Node<'a>>> {
        match self.value.get_ref() {
            DeValue::Array(items) => Some(
                items
                    .iter()
                    .map(|value| Node { sink: self.sink, path: self.path.clone(), key: value.span(), value })
                    .collect(),
            ),
            _ => self.wrong_type("a list", "[\"one\", \"two\"]"),
        }
    }

    /// The value, for callers that accept several types.
    pub(crate) fn value(&self) -> &'a DeValue<'a> {
        self.value.get_ref()
    }

    /// The place of the value.
    pub(crate) fn span(&self) -> Range<usize> {
        self.value.span()
    }

    /// Reports that something else is wanted, and how that is written; always `None`.
    pub(crate) fn wrong_type<T>(&self, want: &str, example: &str) -> Option<T> {
        let (found, is_plain) = match self.value.get_ref() {
            DeValue::String(_) => ("a string", true),
            DeValue::Integer(_) => ("an integer", true),
            DeValue::Float(_) => ("a float", true),
            DeValue::Boolean(_) => ("a boolean", true),
            DeValue::Datetime(_) => ("a date", true),
            DeValue::Array(_) => ("a list", false),
            DeValue::Table(_) => ("a table", false),
        };
        // The value of a `[section]` has no place of its own that would fit under one caret.
        let span = if self.value.get_ref().is_table() { self.key.clone() } else { self.span() };
        let written = &self.sink.file.text[span.clone()];
        let help = match (want, is_plain) {
            ("a list", true) => format!("put it in brackets: [{}]", separated(written)),
            ("a string", true) => format!("put it in quotes: \"{written}\""),
            ("an integer", true) if written.trim_matches('"').parse::<i64>().is_ok() => {
                format!("without quotes: {}", written.trim_matches('"'))
            }
            _ => format!("for example: {example}"),
        };
        let problem =
            Problem::error(codes::WRONG_TYPE, format!("`{}` must be {want}, but is {found}", self.path))
                .help(help);
        self.report(problem, &span, format!("this is {found}"));
        None
    }

    /// Reports a number that does not fit; always `None`.
    fn out_of_range<T>(&self, want: &str) -> Option<T> {
        let written = &self.sink.file.text[self.span()];
        let problem = Problem::error(codes::BAD_VALUE, format!("`{}` cannot be {written}", self.path));
        self.report(problem.help(format!("write {want}")), &self.span(), "out of range");
        None
    }

    /// Records a problem at `span`.
    pub(crate) fn report(&self, problem: Problem, span: &Range<usize>, label: impl Into<String>) {
        self.sink.push(problem.at(&self.sink.file, span, label));
    }

    /// The key that names the value.
    pub(crate) fn key(&self) -> Range<usize> {
        self.key.clone()
    }

    /// The file, for what looks at the source of a value.
    pub(crate) fn file(&self) -> &'a Arc<SourceFile> {
        &self.sink.file
    }

    /// Dotted, for messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// A value that stands for a list, as its entries: `"8.0;9.0"` as in CMake, `"a, b"`.
fn separated(written: &str) -> String {
    let inner = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner.filter(|inner| inner.contains([';', ','])) {
        Some(inner) => {
            let entries = inner.split([';', ',']).map(str::trim).filter(|entry| !entry.is_empty());
            entries.map(|entry| format!("\"{entry}\"")).collect::<Vec<_>>().join(", ")
        }
        None => written.to_owned(),
    }
}

/// A type that a TOML value can be read as. A failed read has reported its problem.
pub(crate) trait Read: Sized {
    fn read(node: &Node<'_>) -> Option<Self>;
}

impl Read for String {
    fn read(node: &Node<'_>) -> Option<Self> {
        node.value().as_str().map(str::to_owned).or_else(|| node.wrong_type("a string", "\"text\""))
    }
}

impl Read for bool {
    fn read(node: &Node<'_>) -> Option<Self> {
        node.value().as_bool().or_else(|| node.wrong_type("true or false", "true"))
    }
}

impl Read for i64 {
    fn read(node: &Node<'_>) -> Option<Self> {
        let Some(integer) = node.value().as_integer() else { return node.wrong_type("an integer", "1") };
        Self::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .or_else(|| node.out_of_range("an integer of 64 bits"))
    }
}

impl Read for u64 {
    fn read(node: &Node<'_>) -> Option<Self> {
        let value = i64::read(node)?;
        Self::try_from(value).ok().or_else(|| node.out_of_range("a number of zero or more"))
    }
}

impl Read for u32 {
    fn read(node: &Node<'_>) -> Option<Self> {
        let value = i64::read(node)?;
        Self::try_from(value).ok().or_else(|| node.out_of_range("a number between 0 and 4294967295"))
    }
}

impl Read for f64 {
    fn read(node: &Node<'_>) -> Option<Self> {
        let text = match node.value() {
            DeValue::Float(float) => float.as_str(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            _ => return node.wrong_type("a float", "1e-6"),
        };
        text.parse()
            .ok()
            .filter(|value: &Self| value.is_finite())
            .or_else(|| node.out_of_range("a finite number"))
    }
}

impl<T: Read> Read for Vec<Spanned<T>> {
    fn read(node: &Node<'_>) -> Option<Self> {
        Some(node.items()?.iter().filter_map(Node::read).collect())
    }
}
