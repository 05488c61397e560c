//! A compiler's complaint, read so that it can be shown with the source line.
//!
//! Owns: the text forms of GCC, Clang and nvcc diagnostics.
//! Never: hides the log; its place is always named.

use std::path::Path;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use thiserror::Error;

use crate::base::files;
use crate::base::process::{Ending, Finished};

/// What a compiler or linker said when it failed.
#[derive(Debug, Error)]
#[error("failed to build {unit} for {variant}: {message}")]
pub struct CompilerMessage {
    unit: String,
    variant: String,
    message: String,
    help: String,
    place: Option<(NamedSource<String>, usize, String)>,
    starved: bool,
    /// Its first error; the same for every variant in which the same thing is wrong.
    first_error: String,
}

impl CompilerMessage {
    /// The source, or `link`.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// What tells this complaint from others on the same unit.
    pub fn first_error(&self) -> &str {
        &self.first_error
    }
}

impl Diagnostic for CompilerMessage {
    fn code<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(Box::new(match self.unit.as_str() {
            _ if self.starved => "compile::out_of_memory",
            "link" => "compile::link",
            _ => "compile::unit",
        }))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(Box::new(&self.help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|(source, ..)| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (_, offset, message) = self.place.as_ref()?;
        Some(Box::new(std::iter::once(LabeledSpan::new(Some(message.clone()), *offset, 1))))
    }
}

/// Where a compiler points and what it says there.
#[derive(Debug, PartialEq, Eq)]
struct Pointed<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    message: &'a str,
}

/// Reads the first error of a log. `project` is where relative file names start.
pub fn read(
    unit: &str,
    variant: &str,
    text: &str,
    ending: Ending,
    log: &Path,
    project: &Path,
) -> CompilerMessage {
    let pointed = text.lines().find_map(point);
    let place = pointed.as_ref().and_then(|pointed| {
        let source = files::read_text(&project.join(pointed.file)).ok()?;
        let offset = offset_of(&source, pointed.line, pointed.column)?;
        Some((
            NamedSource::new(pointed.file, source).with_language("C++"),
            offset,
            pointed.message.to_owned(),
        ))
    });
    let starved = starved_as(ending, text);
    let message = match &pointed {
        _ if starved => {
            "the compiler ran out of memory and was killed by the system, also when it ran alone".to_owned()
        }
        Some(pointed) if place.is_some() => {
            format!("the compiler {ending} with an error in {} line {}", pointed.file, pointed.line)
        }
        Some(pointed) => format!("{} ({}:{})", pointed.message, pointed.file, pointed.line),
        None => last_words(text).unwrap_or_else(|| format!("the command {ending} without output")),
    };
    let errors = text.lines().filter(|line| point(line).is_some()).count();
    let mut more = if errors > 1 { format!("{errors} errors in all; ") } else { String::new() };
    if pointed.as_ref().is_some_and(|pointed| Path::new(pointed.file).is_absolute())
        && let Some(own) = text.lines().find_map(asked_for)
    {
        more += &format!("required from {own}; ");
    }
    let advice = if starved {
        "close other programs, give the container more memory, or build with `-j 1`; "
    } else {
        ""
    };
    CompilerMessage {
        unit: unit.to_owned(),
        variant: variant.to_owned(),
        first_error: pointed
            .map_or_else(|| message.clone(), |at| format!("{}:{}: {}", at.file, at.line, at.message)),
        message,
        help: format!("{advice}{more}the full log with the command: {}", log.display()),
        place,
        starved,
    }
}

/// Whether the system killed a compiler for want of memory: the program itself, or one of its parts, of which it tells in
/// its own words (GCC, nvcc, Clang), or it was refused memory.
pub(super) fn starved(finished: &Finished) -> bool {
    starved_as(finished.ending, &finished.stderr_text())
}

fn starved_as(ending: Ending, text: &str) -> bool {
    const WORDS: &[&str] = &[
        "Killed signal terminated program",
        "died due to signal 9",
        "unable to execute command: Killed",
        "virtual memory exhausted",
        "out of memory allocating",
    ];
    ending == Ending::Signal(9) || (!ending.success() && WORDS.iter().any(|words| text.contains(words)))
}

/// `file:line:column: error: text` (GCC, Clang) or `file(line): error: text` (nvcc's front end).
fn point(line: &str) -> Option<Pointed<'_>> {
    let (head, message) = [": fatal error: ", ": error: ", "): error: ", "): fatal error: "]
        .iter()
        .find_map(|mark| line.split_once(mark))?;
    if let Some((file, number)) = head.rsplit_once('(') {
        return Some(Pointed { file, line: number.trim_end_matches(')').parse().ok()?, column: 1, message });
    }
    let mut parts = head.rsplitn(3, ':');
    let (last, middle) = (parts.next()?, parts.next()?);
    match (parts.next(), middle.parse(), last.parse()) {
        (Some(file), Ok(line), Ok(column)) => Some(Pointed { file, line, column, message }),
        (None, _, Ok(line)) => Some(Pointed { file: middle, line, column: 1, message }),
        _ => None,
    }
}

/// The project's own place in `norm.cpp:12:7:   required from here` (GCC), for an error inside of a template of others.
fn asked_for(line: &str) -> Option<String> {
    let (head, _) = line.split_once(":   required from here")?;
    let mut parts = head.rsplitn(3, ':');
    let (_column, line, file) = (parts.next()?, parts.next()?, parts.next()?);
    Path::new(file).is_relative().then(|| format!("{file} line {line}"))
}

/// What a linker or a crashed tool said last.
fn last_words(text: &str) -> Option<String> {
    let telling = |line: &&str| {
        let line = line.to_ascii_lowercase();
        ["error", "multiple definition", "undefined reference", "cannot find", "not found", "killed"]
            .iter()
            .any(|mark| line.contains(mark))
    };
    let line = text.lines().find(telling).or_else(|| text.lines().rfind(|line| !line.trim().is_empty()))?;
    Some(line.trim().to_owned())
}

fn offset_of(source: &str, line: usize, column: usize) -> Option<usize> {
    let start: usize = source.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let text = source.get(start..)?.lines().next()?;
    let indent = text.len() - text.trim_start().len();
    let shift = if column > 1 { column - 1 } else { indent };
    let offset = start + shift.min(text.len().saturating_sub(1));
    source.is_char_boundary(offset).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms() {
        let gcc = point("src/a.cpp:12:7: error: 'x' was not declared in this scope").unwrap();
        assert_eq!((gcc.file, gcc.line, gcc.column), ("src/a.cpp", 12, 7));
        let nvcc = point("src/a.cu(30): error: identifier \"y\" is undefined").unwrap();
        assert_eq!((nvcc.file, nvcc.line, nvcc.message), ("src/a.cu", 30, "identifier \"y\" is undefined"));
        assert_eq!(point("1 error detected in the compilation of \"src/a.cu\"."), None);
    }

    #[test]
    fn points_at_the_first_letter_of_a_line() {
        assert_eq!(offset_of("ab\n  cd\n", 2, 1), Some(5));
        assert_eq!(offset_of("ab\n  cd\n", 2, 4), Some(6));
        assert_eq!(offset_of("ab\n", 9, 1), None);
    }

    #[test]
    fn a_compiler_without_memory_is_told_from_one_that_is_wrong() {
        let read = |text, ending| read("a.cu", "v", text, ending, Path::new("log"), Path::new("."));
        let code = |complaint: &CompilerMessage| complaint.code().map(|code| code.to_string());
        let nvcc = read("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", Ending::Exit(9));
        assert_eq!(code(&nvcc).as_deref(), Some("compile::out_of_memory"));
        assert!(nvcc.help().is_some_and(|help| help.to_string().contains("`-j 1`")));
        assert_eq!(code(&read("a.cu(1): error: no", Ending::Exit(2))).as_deref(), Some("compile::unit"));
        assert_eq!(code(&read("", Ending::Signal(9))).as_deref(), Some("compile::out_of_memory"));
    }

    #[test]
    fn an_error_in_a_header_of_others_names_the_line_that_asked_for_it() {
        let text = "/t/f.h: In instantiation of 'struct F':\nk/b.cc:6:1:   required from here\n\
                    /t/f.h:127:51: error: no 'operator()'\n";
        let complaint = read("k/b.cc", "v", text, Ending::Exit(1), Path::new("log"), Path::new("."));
        let help = complaint.help().map(|help| help.to_string()).unwrap_or_default();
        assert!(help.starts_with("required from k/b.cc line 6; the full log"), "{help}");
        let own = text.replace("/t/f.h", "k/f.h");
        let complaint = read("k/b.cc", "v", &own, Ending::Exit(1), Path::new("log"), Path::new("."));
        assert!(!complaint.help().is_some_and(|help| help.to_string().contains("asked for")));
    }

    #[test]
    fn a_linker_says_what_is_there_twice() {
        let text = "/usr/bin/ld: b.o: in function `k()':\n/usr/bin/ld: b.o: multiple definition of `k()'; a.o: first \
                    defined here\ncollect2: error: ld returned 1 exit status\n";
        let complaint = read("link", "v", text, Ending::Exit(1), Path::new("log"), Path::new("."));
        assert!(complaint.to_string().contains("multiple definition of `k()'"), "{complaint}");
    }

    #[test]
    fn a_silent_death_is_said() {
        let complaint = read("a.cu", "v", "", Ending::Signal(11), Path::new("log"), Path::new("."));
        assert!(complaint.to_string().contains("SIGSEGV"), "{complaint}");
    }
}
