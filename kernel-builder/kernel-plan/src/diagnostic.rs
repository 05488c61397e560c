//! What is wrong with a file, where, and what to do about it.
//!
//! Owns: the one shape in which this crate reports, and its translation to miette.
//! Never: prints, and never decides whether a problem stops the command.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use miette::{
    Diagnostic, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents,
};

mod window;

/// A text with the name to show for it; shared by everything that points into it.
#[derive(Debug)]
pub struct SourceFile {
    /// As the reader knows it, for example `build.toml`.
    pub name: String,
    /// The whole text, UTF-8.
    pub text: String,
    /// Where each line starts, once somebody asked: thousands of problems may point into one file.
    lines: OnceLock<Vec<usize>>,
}

impl SourceFile {
    /// A shared file.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), text: text.into(), lines: OnceLock::new() })
    }

    /// Where each line starts, in bytes.
    fn lines(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            let newlines = self.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect()
        })
    }

    /// The line that a byte is on, from 0; past the end is the last line.
    fn line(&self, offset: usize) -> usize {
        self.lines().partition_point(|start| *start <= offset).saturating_sub(1)
    }
}

/// Two files are the same by what is in them; which lines were looked up is no part of it.
impl PartialEq for SourceFile {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.text) == (&other.name, &other.text)
    }
}

impl Eq for SourceFile {}

/// A place for people: both numbers begin at one, and columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// A range of a file, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The file's name.
    pub file: &'a str,
    /// The first character.
    pub start: Position,
    /// Behind the last character.
    pub end: Position,
}

impl SourceFile {
    /// Where the byte at `offset` stands; past the end is the end.
    pub fn position(&self, offset: usize) -> Position {
        let offset = if self.text.is_char_boundary(offset) { offset } else { self.text.len() };
        let line = self.line(offset);
        let before = &self.text[self.lines()[line]..offset];
        Position { line: line + 1, column: before.chars().count() + 1 }
    }
}

impl SourceCode for SourceFile {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        // Only the lines around are searched: miette begins at the first one, for every problem again.
        let first = self.line(span.offset()).saturating_sub(lines_before);
        let last = self.line(span.offset() + span.len()) + lines_after + 1;
        let start = self.lines()[first];
        let end = self.lines().get(last).copied().unwrap_or(self.text.len());
        let inner = SourceSpan::from((span.offset() - start, span.len()));
        let found = self.text.as_bytes()[start..end].read_span(&inner, lines_before, lines_after)?;
        let range = SourceSpan::from((found.span().offset() + start, found.span().len()));
        if lines_before + lines_after > 0 && std::str::from_utf8(found.data()).is_ok_and(window::is_long) {
            let wanted = span.offset()..span.offset() + span.len();
            // Labels that are far apart are then shown one by one.
            let shown = window::around(&self.text, &wanted).ok_or(MietteError::OutOfBounds)?;
            let (data, range) = (&self.text.as_bytes()[shown.range.clone()], SourceSpan::from(shown.range));
            let name = self.name.clone();
            return Ok(Box::new(MietteSpanContents::new_named(
                name,
                data,
                range,
                shown.line,
                shown.column,
                1,
            )));
        }
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            found.data(),
            range,
            found.line() + first,
            found.column(),
            // As miette counts: all lines up to the last one that is shown, by which it joins labels that are close.
            found.line_count() + first,
        )))
    }
}

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing to fix.
    Note,
    /// Works, and is probably not what was meant.
    Warning,
    /// The command that reads the file stops.
    Error,
}

impl Severity {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that is wrong, with its place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `stage::name`, stable, one fixture each in the tests.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence fragment: lower-case, no full stop.
    pub message: String,
    /// Byte ranges into `source`, each with what to say there; the first is the place of the problem.
    pub labels: Vec<(Range<usize>, String)>,
    /// What to do next.
    pub help: Option<String>,
    /// The file that the labels point into.
    pub source: Option<Arc<SourceFile>>,
}

impl Problem {
    /// An error without a place yet.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, message)
    }

    /// A warning without a place yet.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, message)
    }

    /// A note without a place yet.
    pub fn note(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Note, message)
    }

    fn new(code: &'static str, severity: Severity, message: impl Into<String>) -> Self {
        Self { code, severity, message: message.into(), labels: Vec::new(), help: None, source: None }
    }

    /// Points into `file`; the first label is the place of the problem.
    #[must_use]
    pub fn at(mut self, file: &Arc<SourceFile>, span: &Range<usize>, label: impl Into<String>) -> Self {
        self.source = Some(Arc::clone(file));
        self.labels.push((span.clone(), label.into()));
        self
    }

    /// Says what to do next.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Where the first label points, for people.
    pub fn place(&self) -> Option<Place<'_>> {
        let (file, (span, _)) = self.source.as_ref().zip(self.labels.first())?;
        Some(Place { file: &file.name, start: file.position(span.start), end: file.position(span.end) })
    }

    /// Where the first label starts; problems of one file are sorted by it.
    pub fn offset(&self) -> usize {
        self.labels.first().map_or(0, |(span, _)| span.start)
    }
}

/// Whether any of them stops the command.
pub fn has_errors(problems: &[Problem]) -> bool {
    problems.iter().any(|problem| problem.severity == Severity::Error)
}

/// How many of what there are, in a line for people.
pub fn summary(problems: &[Problem]) -> String {
    let parts: Vec<_> = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .filter_map(|severity| {
            let word = severity.as_str();
            match problems.iter().filter(|problem| problem.severity == severity).count() {
                0 => None,
                1 => Some(format!("1 {word}")),
                count => Some(format!("{count} {word}s")),
            }
        })
        .collect();
    if parts.is_empty() { "no problems".to_owned() } else { in_words(&parts) }
}

/// Several things in one line: `12.6, 12.8 and 13.0`.
pub(crate) fn in_words(parts: &[String]) -> String {
    match parts {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => parts.concat(),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Note => miette::Severity::Advice,
            Severity::Warning => miette::Severity::Warning,
            Severity::Error => miette::Severity::Error,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        if self.labels.is_empty() {
            return None;
        }
        Some(Box::new(self.labels.iter().enumerate().map(|(index, (span, text))| {
            let marked =
                self.source.as_ref().map_or_else(|| span.clone(), |file| window::label(&file.text, span));
            let span = SourceSpan::from(marked);
            if index == 0 {
                LabeledSpan::new_primary_with_span(Some(text.clone()), span)
            } else {
                LabeledSpan::new_with_span(Some(text.clone()), span)
            }
        })))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_deref().map(|file| file as &dyn SourceCode)
    }
}

/// Declares a stage's codes as constants, and `CODES` with all of them.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal),* $(,)?) => {
        $($(#[$doc])* pub const $name: &str = $code;)*

        /// Every code of this stage; the tests have a fixture for each.
        pub const CODES: &[&str] = &[$($name),*];
    };
}

pub(crate) use codes;

/// What stands beside a name that means nothing: the candidate that is close to it, or else `otherwise`.
pub(crate) fn did_you_mean<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    closest(text, candidates).map_or_else(|| otherwise.to_owned(), |close| format!("did you mean `{close}`?"))
}

/// The candidate that `text` was probably meant to be, if any is close.
pub(crate) fn closest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(text, candidate), candidate))
        .filter(|&(score, _)| score >= 0.8)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_count_in_words() {
        let (error, warning, note) =
            (Problem::error("", ""), Problem::warning("", ""), Problem::note("", ""));
        assert_eq!(summary(&[]), "no problems");
        assert_eq!(summary(std::slice::from_ref(&note)), "1 note");
        assert_eq!(summary(&[note.clone(), error.clone(), error.clone()]), "2 errors and 1 note");
        assert_eq!(summary(&[note.clone(), error, warning, note]), "1 error, 1 warning and 2 notes");
    }

    #[test]
    fn columns_are_characters() {
        let file = SourceFile::new("a", "one\n\u{e4}\u{f6} two\n");
        assert_eq!(file.position(9), Position { line: 2, column: 4 });
        assert_eq!(file.position(99), Position { line: 3, column: 1 });
    }
}
