//! Keeps to TOML 1.0, which the official parser of build.toml, Python and Nix read: finds what is 1.1, writes strings.
//!
//! Owns: line breaks and last commas in inline tables, and the escapes `\e` and `\x` (toml.io, 1.1.0, changes); which
//! characters of a basic string are escaped.
//! Never: judges a text that is no TOML at all; the parser has refused that before.

use std::ops::Range;

/// A basic string of TOML 1.0. Its escapes are those of JSON, and it has one more character that must be escaped.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// One use of TOML 1.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Newer {
    /// Where.
    pub(crate) place: Range<usize>,
    /// What is there, for a message.
    pub(crate) what: &'static str,
    /// How TOML 1.0 writes it.
    pub(crate) instead: &'static str,
}

/// Every use of TOML 1.1 in a text that is TOML, in order; of an inline table, the first.
pub(crate) fn newer(text: &str) -> Vec<Newer> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    // What is open: `[`, or `{` with whether it was told already.
    let mut open: Vec<(u8, bool)> = Vec::new();
    let mut comma = None;
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        let mut next = at + 1;
        match byte {
            b'#' => next = at + until(&bytes[at..], b"\n"),
            b'"' | b'\'' => next = string(bytes, at, &mut found),
            b'[' | b'{' => open.push((byte, false)),
            b']' => drop(open.pop()),
            b'}' => {
                if let (Some((b'{', false)), Some(comma)) = (open.pop(), comma) {
                    found.push(Newer {
                        place: comma..comma + 1,
                        what: "a comma after the last entry of an inline table",
                        instead: "remove the comma",
                    });
                }
            }
            b'\n' => {
                if let Some((b'{', told @ false)) = open.last_mut() {
                    *told = true;
                    let end = if at > 0 && bytes[at - 1] == b'\r' { at - 1 } else { at };
                    found.push(Newer {
                        place: end..end,
                        what: "a line break in an inline table",
                        instead: "write `{ .. }` on one line, or as a section of its own",
                    });
                }
            }
            _ => {}
        }
        match byte {
            b',' => comma = Some(at),
            b' ' | b'\t' | b'\r' | b'\n' | b'#' => {}
            _ => comma = None,
        }
        at = next;
    }
    found
}

/// Passes over the string that begins at `start`, and notes its escapes. Returns where it ends.
fn string(bytes: &[u8], start: usize, found: &mut Vec<Newer>) -> usize {
    let quote = bytes[start];
    let triple = [quote; 3];
    let delimiter = if bytes[start..].starts_with(&triple) { &triple[..] } else { &triple[..1] };
    let mut at = start + delimiter.len();
    while at < bytes.len() && !bytes[at..].starts_with(delimiter) {
        if quote == b'"' && bytes[at] == b'\\' {
            if matches!(bytes.get(at + 1), Some(b'e' | b'x')) {
                found.push(Newer {
                    place: at..at + 2,
                    what: "an escape with `\\e` or `\\x`",
                    instead: "write `\\u001b`, or `\\u00` and the two digits",
                });
            }
            at += 1;
        }
        at += 1;
    }
    let mut end = (at + delimiter.len()).min(bytes.len());
    // Quotes that directly precede the closing three belong to the string.
    while delimiter.len() == 3 && end < bytes.len() && bytes[end] == quote {
        end += 1;
    }
    end
}

/// The bytes before the first of `stop`, or all.
fn until(bytes: &[u8], stop: &[u8]) -> usize {
    bytes.iter().position(|byte| stop.contains(byte)).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::newer;

    /// The text at each finding, with a mark for a place between two characters.
    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        toml::de::DeTable::parse(text).expect("the text is TOML");
        let found: Vec<_> = newer(text).iter().map(|one| text[one.place.clone()].to_owned()).collect();
        assert_eq!(found, want, "{text}");
    }

    #[test]
    fn toml_1_0_is_left_alone() {
        check(
            "a = { b = 1, c = [\n1, # ,}\n2,\n], d = {} } # { \\x\n[e]\n[[f]]\ng = [\n  { h = 1 },\n]\n",
            &[],
        );
        check(
            "a = 'C:\\xyz\\e'\nb = '''\n\\x{\n'''\nc = \"\"\"\n{ \\\\x \\\" \"\" \"\"\"\"\"\nd = \"{\\\\x\"",
            &[],
        );
        check("\"a{\" = \"# {\"\n'b{' = '}'\nc.\"d,}\" = 1\n", &[]);
    }

    #[test]
    fn toml_1_1_is_found() {
        check("a = {\n  b = 1\n}\n", &[""]);
        check("a = { b = 1, # why\r\n c = { d = 1, }, }\n", &["", ","]);
        check("a = { b = 1 , }\nc = [{ d = 1, }, ]\n", &[",", ","]);
        check("a = \"\\e[0m\"\nb = \"\"\"\n\\x41\"\"\"\n", &["\\e", "\\x"]);
    }
}
