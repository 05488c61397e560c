//! `update` on drawn documents: odd layouts with comments everywhere, and whatever else a file may hold.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec;
use kernel_plan::spec::update::Update;
use proptest::prelude::*;
use toml::{Table, Value};

use crate::project::render;

/// Drawn decisions, in the order in which they are taken; zero when all are used.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    /// One of `0..count`.
    fn pick(&mut self, count: usize) -> usize {
        usize::from(*self.0.next().unwrap_or(&0)) % count
    }

    fn of<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.pick(choices.len())]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.pick(index + 1));
        }
    }
}

/// A document that is being written in some layout.
struct Writer<'a> {
    choices: Choices<'a>,
    text: String,
    newline: &'static str,
    comments: Vec<String>,
}

impl Writer<'_> {
    /// A comment that no other is like.
    fn comment(&mut self) -> String {
        let words = self.choices.of(&["", " edition = 4", " [general]", " name = \"it\"", "é"]);
        let comment = format!("# c{}.{words}", self.comments.len());
        self.comments.push(comment.clone());
        comment
    }

    /// A line, with what may stand before and behind it.
    fn line(&mut self, text: &str) {
        for _ in 0..self.choices.pick(3) {
            let own = if self.choices.pick(2) == 0 { self.comment() } else { String::new() };
            self.text += &format!("{}{own}{}", self.choices.of(&["", "  ", "\t"]), self.newline);
        }
        let behind = match self.choices.pick(4) {
            0 => format!(" {}", self.comment()),
            1 => "  ".to_owned(),
            _ => String::new(),
        };
        self.text += &format!("{}{text}{behind}{}", self.choices.of(&["", "", "  "]), self.newline);
    }

    fn key(&mut self, key: &str) -> String {
        // In quotes, a key with a dot would be another key.
        if self.choices.pick(6) == 0 && !key.contains('.') { format!("\"{key}\"") } else { key.to_owned() }
    }

    fn entry(&mut self, prefix: &str, key: &str, value: &str) -> String {
        let equals = self.choices.of(&[" = ", "=", "   = ", " =  "]);
        let key = self.key(key);
        format!("{prefix}{key}{equals}{value}")
    }

    fn list(&mut self, items: &[&str]) -> String {
        if self.choices.pick(3) > 0 || items.is_empty() {
            return format!(
                "[{}]",
                items.iter().map(|item| format!("'{item}'")).collect::<Vec<_>>().join(", ")
            );
        }
        let newline = self.newline;
        let mut list = format!("[{newline}");
        for item in items {
            list += &format!("  \"{item}\", {}{newline}", self.comment());
        }
        list + "]"
    }

    /// A table as a section, as dotted keys, or between braces.
    fn table(&mut self, layout: usize, name: &str, entries: &[(&str, String)]) {
        let written = self.key(name);
        match layout {
            0 => {
                let spaces = self.choices.of(&["", " "]);
                self.line(&format!("[{spaces}{written}{spaces}]"));
                for (key, value) in entries {
                    let line = self.entry("", key, value);
                    self.line(&line);
                }
            }
            1 => {
                let dot = self.choices.of(&[".", " . "]);
                for (key, value) in entries {
                    let line = self.entry(&format!("{written}{dot}"), key, value);
                    self.line(&line);
                }
            }
            _ => {
                let entries: Vec<_> = entries.iter().map(|(key, value)| self.entry("", key, value)).collect();
                self.line(&format!("{written} = {{ {} }}", entries.join(", ")));
            }
        }
    }
}

/// A sound document of edition 3 or 4 (with all that 4 requires), and its comments.
fn draw(choices: &[u8]) -> (String, Vec<String>) {
    let choices = Choices(choices.iter());
    let mut writer = Writer { choices, text: String::new(), newline: "\n", comments: Vec::new() };
    writer.newline = if writer.choices.pick(3) == 0 { "\r\n" } else { "\n" };
    let layout = writer.choices.pick(3);
    let backends = writer.list(&["cpu", "cuda"]);
    let mut general = vec![("name", "\"fast-norm\"".to_owned()), ("backends", backends)];
    let may = [
        ("version", writer.choices.of(&["1", "0x2", "0"])),
        ("license", writer.choices.of(&["'MIT'", "\"\"\"\\\n # MIT\"\"\""])),
        ("edition", "4"),
        ("upstream", "\"https://example.org/norm.git\""),
        ("cuda.minver", "\"12.8\""),
        ("hub", "{ repo-id = \"me/norm\", branch = \"v1\" }"),
        ("python-depends", "['einops']"),
    ];
    for (key, value) in may {
        if writer.choices.pick(2) == 0 {
            general.push((key, value.to_owned()));
        }
    }
    writer.choices.shuffle(&mut general);
    let framework = writer.choices.of(&["", "torch", "torch-noarch", "tvm-ffi"]);
    let src = writer.list(&["norm.cu", "norm.h"]);
    let body = match framework {
        "torch" => vec![("src", src), ("minver", "'2.10'".to_owned())],
        "tvm-ffi" => vec![("src", src)],
        _ => vec![("pyext", "['py']".to_owned())],
    };
    // Dotted keys and inline tables of the root stand before every section.
    if layout > 0 && writer.choices.pick(2) == 0 && !framework.is_empty() {
        writer.table(layout, framework, &body);
        writer.table(layout, "general", &general);
    } else {
        writer.table(layout, "general", &general);
        if !framework.is_empty() {
            writer.table(0, framework, &body);
        }
    }
    if writer.choices.pick(2) == 0 {
        let (depends, src) = (writer.list(&["torch"]), writer.list(&["norm.cu", "norm.h"]));
        let entries = [("backend", "\"cuda\"".to_owned()), ("depends", depends), ("src", src)];
        writer.line("[kernel.norm]");
        for (key, value) in entries {
            let line = writer.entry("", key, &value);
            writer.line(&line);
        }
    }
    let mut text = writer.text;
    if writer.choices.pick(3) == 0 {
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
    }
    (text, writer.comments)
}

/// The document before, by what is told of the changes.
fn undone(update: &Update) -> Vec<String> {
    let mut lines: Vec<String> = update.text.lines().map(str::to_owned).collect();
    for change in update.changes.iter().rev() {
        let index = change.line - 1;
        if let Some(new) = &change.new {
            assert_eq!(&lines.remove(index), new, "line {}", change.line);
        }
        if let Some(old) = &change.old {
            lines.insert(index, old.clone());
        }
    }
    lines
}

/// The values of edition 5: those of the document, and what it lacks.
fn expected(text: &str) -> Table {
    let mut table: Table = toml::from_str(text).expect("a sound document");
    let general = table["general"].as_table_mut().expect("a table");
    general.entry("license").or_insert(Value::from("BSD-3-Clause"));
    if general.insert("edition".to_owned(), Value::from(5)).is_some() {
        return table;
    }
    general.entry("version").or_insert(Value::from(1));
    if ["torch", "torch-noarch", "tvm-ffi"].iter().all(|name| !table.contains_key(*name)) {
        table.insert("torch-noarch".to_owned(), Value::Table(Table::new()));
    }
    table
}

/// What is read of a text, without the places.
fn meaning(text: &str) -> Option<String> {
    let (mut build, problems) = spec::parse_build(SourceFile::new("build.toml", text));
    if problems.iter().any(|problem| problem.code == spec::codes::MISSING_KEY) {
        return None;
    }
    if let Some(build) = &mut build {
        build.file = SourceFile::new("build.toml", "");
    }
    let shown = format!("{:?}", build?);
    let mut parts = shown.split("span: ");
    let first = parts.next().unwrap_or_default().to_owned();
    Some(parts.fold(first, |shown, part| {
        shown + part.trim_start_matches(|place: char| place.is_ascii_digit() || place == '.')
    }))
}

fn run(text: &str) -> Result<Update, Vec<kernel_plan::diagnostic::Problem>> {
    let license = "BSD-3-Clause".parse().expect("a license");
    spec::update(&SourceFile::new("build.toml", text), Some(&license))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_values_stay_and_every_comment_too(choices in proptest::collection::vec(any::<u8>(), 0..160)) {
        let (text, comments) = draw(&choices);
        let update = run(&text).map_err(|problems| TestCaseError::fail(format!("{text}\n{}", render(&problems))))?;
        let values: Table = toml::from_str(&update.text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(values, expected(&text), "{}\n->\n{}", text, update.text);
        for comment in &comments {
            let count = |text: &str| text.matches(comment.as_str()).count();
            prop_assert_eq!(count(&update.text), count(&text), "{} in\n{}", comment, update.text);
        }
        let numbered = toml::from_str::<Table>(&text).is_ok_and(|table| table["general"].get("edition").is_some());
        // Edition 4 is also read without an update; one that says its number may lack what the others imply.
        let before = meaning(&text).filter(|_| update.from == spec::Edition::Four);
        prop_assert!(before.is_some() || update.from == spec::Edition::Three || numbered, "{}", text);
        if before.is_some() {
            prop_assert_eq!(meaning(&update.text), before, "{}", text);
        }
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        prop_assert_eq!(undone(&update), lines, "{}", update.text);
        prop_assert_eq!(update.text.contains("\r\n"), text.contains("\r\n"));
        prop_assert_eq!(update.text.ends_with('\n'), text.ends_with('\n'));
        // Only a number that is replaced, and a table between braces, change a line that was there.
        let is_inline = text.lines().any(|line| line.replace('"', "").trim_start().starts_with("general = {"));
        if !numbered && !is_inline {
            prop_assert!(update.changes.iter().all(|change| change.old.is_none()), "{:?}", update.changes);
        }
        let again = run(&update.text).expect("edition 5");
        prop_assert_eq!(again, Update { from: spec::Edition::Five, text: update.text, changes: Vec::new() });
    }

    /// What is no document, or one of another edition with anything in it, is refused or updated; never a panic.
    #[test]
    fn any_text_ends_in_an_answer(
        choices in proptest::collection::vec(any::<u8>(), 0..160),
        at in 0usize..600,
        cut in 0usize..40,
        put in "universal = true\n|language = 'cuda-hipify'\n|cuda-minver = 1\n|\\[|\\]|\\{|=|\\.|\"|'''|\u{feff}|\r|\n|\\PC{0,8}",
    ) {
        let (text, _) = draw(&choices);
        let at = text.floor_char_boundary(at.min(text.len()));
        let end = text.ceil_char_boundary((at + cut).min(text.len()));
        let text = format!("{}{put}{}", &text[..at], &text[end..]);
        match run(&text) {
            Ok(update) => {
                let sound = toml::from_str::<Table>(&update.text).is_ok();
                prop_assert!(sound, "{}\n->\n{}", text, update.text);
                prop_assert_eq!(undone(&update), text.lines().map(str::to_owned).collect::<Vec<_>>());
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty(), "no reason for\n{}", text);
                render(&problems);
            }
        }
    }
}
