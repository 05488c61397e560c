//! What the text of a source or a header asks of the folders in which headers are looked for.
//!
//! Owns: the names that it may look for, and the words after which nobody can tell. Never: opens a file, evaluates a
//! condition: what stands in a comment counts.

use std::collections::BTreeSet;

/// In an own file these make the outcome depend on what no list of files shows: the time of change of a file, and what
/// the assembler reads.
const UNTOLD: &[&str] = &["__TIMESTAMP__", ".incbin", ".include \\\"", "??=", "??/"];

/// Operators that look for a file; clear where the file's name follows.
const PROBES: &[&str] = &["__has_include", "__has_include_next", "__has_embed"];

/// What a text asks.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TextQueries {
    /// Names of files as directives and operators write them, `torch/all.h`.
    pub names: BTreeSet<String>,
    /// Whether it has one of the watched macros, or a piece that one could be put together from.
    pub watched: bool,
    /// Whether it has a directive that includes what a macro says.
    pub computed: bool,
    /// Whether it has something whose effect cannot be told from words: what `UNTOLD` lists, or an operator without a
    /// plain name.
    pub unclear: bool,
}

/// Reads a text of a toolkit or of the system. Such a text is trusted to write the names of macros and of files in
/// full, and is many megabytes long.
pub fn foreign(text: &[u8], macros: &[&str]) -> TextQueries {
    let text = spliced(text);
    let mut found =
        TextQueries { watched: macros.iter().any(|name| text.contains(name)), ..TextQueries::default() };
    for directive in text.lines().filter_map(directive) {
        quoted(directive, &mut found.names);
        found.computed |= is_computed(directive);
    }
    found
}

/// Reads any other text. `macros` are the watched ones.
pub fn own(text: &[u8], macros: &[&str]) -> TextQueries {
    let mut found = foreign(text, macros);
    let text = spliced(text);
    found.unclear = UNTOLD.iter().any(|word| text.contains(word));
    found.watched = watches(&text, macros);
    for (at, word) in identifiers(&text).filter(|(_, word)| PROBES.contains(word)) {
        let rest = text[at + word.len()..].trim_start();
        match rest.strip_prefix('(').map(str::trim_start) {
            Some(operand) if operand.starts_with(['<', '"']) => {
                quoted(operand.lines().next().unwrap_or_default(), &mut found.names);
            }
            // `defined(__has_include)`, `#ifdef __has_include`.
            _ if is_tested(&text[..at]) => {}
            _ => found.unclear = true,
        }
    }
    found
}

/// What follows the sign of a directive, which stands at the beginning of a line or after a comment.
fn directive(line: &str) -> Option<&str> {
    let signs = ["#", "%:"].iter().filter_map(|sign| Some((line.find(sign)?, sign.len())));
    let (at, length) = signs.min()?;
    let before = line[..at].trim();
    (before.is_empty() || before.ends_with("*/")).then(|| line[at + length..].trim_start())
}

fn is_computed(directive: &str) -> bool {
    let operand =
        ["include_next", "include", "import", "embed"].iter().find_map(|word| directive.strip_prefix(word));
    // `#include's` stands in a comment.
    let operand =
        operand.filter(|operand| operand.starts_with(|letter: char| letter.is_whitespace() || letter == '/'));
    operand.is_some_and(|operand| !operand.trim_start().starts_with(['<', '"']))
}

/// Whether a text has one of the macros, or an identifier of which one could begin: `##` puts names together.
pub fn watches(text: &str, macros: &[&str]) -> bool {
    /// Shorter beginnings are names of everything.
    const PIECE: usize = 4;
    macros.iter().any(|name| text.contains(name))
        || identifiers(text)
            .any(|(_, word)| word.len() >= PIECE && macros.iter().any(|name| name.starts_with(word)))
}

/// Whether what follows is only asked for being defined.
fn is_tested(before: &str) -> bool {
    let before = before.trim_end();
    let before = before.strip_suffix('(').unwrap_or(before).trim_end();
    ["defined", "ifdef", "ifndef", "elifdef", "elifndef"].iter().any(|word| before.ends_with(word))
}

/// The text with continued lines in one.
fn spliced(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    if text.contains("\\\n") || text.contains("\\\r\n") {
        text.replace("\\\r\n", "").replace("\\\n", "")
    } else {
        text.into_owned()
    }
}

/// Every identifier of a text with its place.
fn identifiers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + bytes[at..].iter().position(|byte| part(*byte))?;
        let length = bytes[start..].iter().position(|byte| !part(*byte)).unwrap_or(bytes.len() - start);
        at = start + length;
        Some((start, &text[start..at]))
    })
}

/// Adds what stands between `<` and `>` or between quotation marks and could be the name of a file.
fn quoted(line: &str, names: &mut BTreeSet<String>) {
    let name = |text: &str| !text.is_empty() && !text.contains(['<', '>', '"', '(', ')', ';']);
    for (at, open) in line.match_indices(['<', '"']) {
        let close = if open == "<" { '>' } else { '"' };
        let rest = &line[at + 1..];
        if let Some(text) = rest.find(close).map(|end| rest[..end].trim()).filter(|text| name(text)) {
            names.insert(text.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHED: &[&str] = &["TORCH_TARGET_VERSION"];

    fn names(text: &str) -> Vec<String> {
        own(text.as_bytes(), WATCHED).names.into_iter().collect()
    }

    #[test]
    fn names_of_files_stand_in_directives_however_they_are_written() {
        assert_eq!(
            names("#include <a/b.h>\n  # include \"c.h\" // <d.h>\nint x = a <e.h> f;\n"),
            ["a/b.h", "c.h", "d.h"]
        );
        assert_eq!(names("%:include <a.h>\n/* */ #include_next <b.h>\n"), ["a.h", "b.h"]);
        assert_eq!(names("#define HEADER \\\r\n  <a.h>\n#inc\\\nlude <b.h>"), ["a.h", "b.h"]);
        assert_eq!(names("#if 0 || /*\n*/ __has_include( <a.h> )\n"), ["a.h"]);
        assert_eq!(names("// #include <a.h>\nauto s = \"#\" <b.h>;\n"), [""; 0]);
        assert_eq!(names("#if HAS_INCLUDE(<a.h>) || __has_include(\"b.h\")\n"), ["a.h", "b.h"]);
    }

    #[test]
    fn an_operator_without_a_plain_name_is_unclear() {
        for text in [
            "#if __has_include(HEADER)",
            "#define HAS(x) __has_include(x)",
            "#define HAS __has_include",
            "#if __has_include_next (HEADER)",
            "auto t = __TIMESTAMP__;",
            "asm(\".incbin \\\"data\\\"\");",
            "??=include <a.h>",
        ] {
            assert!(own(text.as_bytes(), WATCHED).unclear, "{text}");
        }
        for text in [
            "#if defined(__has_include) && __has_include(<a.h>)",
            "#ifdef __has_include\n#endif",
            "#if defined __has_include\n#endif",
            "int my__has_include;",
        ] {
            assert!(!own(text.as_bytes(), WATCHED).unclear, "{text}");
        }
    }

    #[test]
    fn what_a_macro_includes_is_told() {
        let computed = |text: &str| own(text.as_bytes(), WATCHED).computed;
        assert!(
            computed("#define H <a.h>\n# include H\n")
                && computed("#include/**/H")
                && computed("#include_next H")
        );
        assert!(!computed("#include <a.h>\n#include\"b.h\"\n// #include H\n#include's are\n"));
    }

    #[test]
    fn a_watched_macro_is_seen_whole_and_in_pieces() {
        for text in [
            "#if TORCH_TARGET_VERSION > 1",
            "#ifdef TORCH_TAR\\\nGET_VERSION",
            "CAT(TORCH_TARGET_, VERSION)",
            "CAT(TORCH, _TARGET_VERSION)",
        ] {
            assert!(own(text.as_bytes(), WATCHED).watched, "{text}");
        }
        for text in ["template <class T> T f();", "TORCH_CHECK(x)", "torch_target_version"] {
            assert!(!own(text.as_bytes(), WATCHED).watched, "{text}");
        }
    }
}
