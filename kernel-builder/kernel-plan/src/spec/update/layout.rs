//! Changes a TOML text at places, so that every byte that is not meant stays.
//!
//! Owns: where an entry stands (a line of its own, or inside an inline table) and how a new one is written beside it.
//! Never: knows a key. Does not write through `toml_edit`, which reads the places: it would turn CRLF into LF and
//! gather dotted keys that stand apart.

use std::ops::Range;

use toml_edit::Item;

/// One line that is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where the new line stands in the new text, from 1; for a line that is gone, where it would stand.
    pub line: usize,
    /// The line before; none when it is new.
    pub old: Option<String>,
    /// The line after; none when it is gone.
    pub new: Option<String>,
}

/// An entry of a table, by its bytes in the text.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The last part of the key, with its quotes.
    pub(super) key: Range<usize>,
    /// The value.
    pub(super) value: Range<usize>,
    /// Whether it stands between the braces of an inline table.
    pub(super) inline: bool,
}

/// The entry of `key` in `table`, unless it is a `[section]` or a group of dotted keys.
pub(super) fn entry(table: &Item, key: &str) -> Option<Entry> {
    let (name, item) = table.as_table_like()?.get_key_value(key)?;
    let value = item.as_value()?.span()?;
    Some(Entry { key: name.span()?, value, inline: table.is_inline_table() })
}

/// A text with the changes that are wanted in it.
pub(super) struct Draft<'a> {
    text: &'a str,
    /// What to put in the place of what, in the bytes of `text`; none overlap.
    edits: Vec<(Range<usize>, String)>,
    /// The lines of each section to add at the end.
    sections: Vec<Vec<String>>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, edits: Vec::new(), sections: Vec::new() }
    }

    /// The text at a place.
    pub(super) fn at(&self, place: Range<usize>) -> &'a str {
        &self.text[place]
    }

    /// Puts other text in the place of some.
    pub(super) fn replace(&mut self, place: Range<usize>, text: impl Into<String>) {
        self.edits.push((place, text.into()));
    }

    /// Adds `key = value` for each of `entries` behind `anchor`, written as `anchor` is.
    pub(super) fn add_after(&mut self, anchor: &Entry, entries: &[(&str, String)]) {
        let start = self.line_start(anchor.key.start);
        // The indentation, and the first parts of a dotted key. A byte order mark is said once.
        let lead = self.text[start..anchor.key.start].trim_start_matches('\u{feff}');
        // Behind a key that goes on, as in `version.major = 1`, the value's place is that of the whole entry.
        let equals = self.text.get(anchor.key.end..anchor.value.start).unwrap_or(" = ");
        let (place, between) = if anchor.inline {
            (anchor.value.end, ", ".to_owned())
        } else {
            (self.line_end(anchor.value.end), format!("{}{lead}", self.newline(anchor.value.end)))
        };
        let mut added = String::new();
        for (key, value) in entries {
            let equals = aligned(equals, anchor.key.len(), key.len());
            added += &format!("{between}{key}{equals}{value}");
        }
        self.replace(place..place, added);
    }

    /// Takes an entry out. A comment behind it stays where it is.
    pub(super) fn remove(&mut self, entry: &Entry) {
        if entry.inline {
            let (start, end) = (entry.key.start, entry.value.end);
            let (before, after) = (&self.text[..start], &self.text[end..]);
            let rest = after.trim_start();
            let place = if let Some(rest) = rest.strip_prefix(',') {
                start..self.text.len() - rest.trim_start_matches(' ').len()
            } else if let Some(kept) = before.trim_end().strip_suffix(',') {
                kept.len()..end
            } else {
                start..end
            };
            return self.replace(place, "");
        }
        let start = self.line_start(entry.key.start);
        let end = self.line_end(entry.value.end);
        let rest = self.text[entry.value.end..end].trim();
        if rest.is_empty() {
            // With its newline; the last line takes the one before it.
            let next = self.text[end..].find('\n').map(|newline| end + newline + 1);
            let place = next.map_or(start.saturating_sub(1)..end, |next| start..next);
            self.replace(place, "");
        } else {
            self.replace(entry.key.start..end, rest);
        }
    }

    /// Adds a `[section]` at the end.
    pub(super) fn add_section(&mut self, name: &str, entries: &[(&str, String)]) {
        let mut lines = vec![format!("[{name}]")];
        lines.extend(entries.iter().map(|(key, value)| format!("{key} = {value}")));
        self.sections.push(lines);
    }

    /// The edit that adds the new sections, each behind an empty line.
    fn add_sections(&mut self) {
        if self.sections.is_empty() {
            return;
        }
        let newline = self.newline(0);
        let end = self.text.len();
        let lines: Vec<String> =
            self.sections.drain(..).flat_map(|lines| [vec![String::new()], lines].concat()).collect();
        let lines = lines.join(newline);
        let ends_its_line = self.text.is_empty() || self.text.ends_with('\n');
        let text = if ends_its_line { format!("{lines}{newline}") } else { format!("{newline}{lines}") };
        self.replace(end..end, text);
    }

    /// The changed text, and what is different by line.
    pub(super) fn finish(mut self) -> (String, Vec<Change>) {
        self.add_sections();
        self.edits.sort_by_key(|(place, _)| (place.start, place.end));
        let mut text = String::with_capacity(self.text.len());
        let (mut changes, mut done) = (Vec::new(), 0);
        let mut edits = self.edits.iter().peekable();
        while let Some((place, new)) = edits.next() {
            // All that changes in one run of lines is one block, so that a line is told once.
            let block_start = self.line_start(place.start);
            let mut block_end = self.line_end(place.end);
            let mut block = format!("{}{new}", &self.text[block_start..place.start]);
            let mut inside = place.end;
            while let Some((place, new)) = edits.next_if(|(next, _)| next.start <= block_end) {
                block += &self.text[inside..place.start];
                block += new;
                inside = place.end;
                block_end = block_end.max(self.line_end(inside));
            }
            block += &self.text[inside..block_end];
            text += &self.text[done..block_start];
            let line = text.matches('\n').count() + 1;
            changes.extend(by_line(line, &self.text[block_start..block_end], &block));
            text += &block;
            done = block_end;
        }
        text += &self.text[done..];
        (text, changes)
    }

    /// Where the line of `offset` starts.
    fn line_start(&self, offset: usize) -> usize {
        self.text[..offset].rfind('\n').map_or(0, |newline| newline + 1)
    }

    /// Where the line of `offset` ends, its newline not included.
    fn line_end(&self, offset: usize) -> usize {
        let rest = &self.text[offset..];
        let line = rest.find('\n').map_or(rest, |newline| &rest[..newline]);
        offset + line.strip_suffix('\r').unwrap_or(line).len()
    }

    /// What ends the line of `offset`; where nothing does, what ends the first line.
    fn newline(&self, offset: usize) -> &'static str {
        let end = self.line_end(offset);
        let ending = if end < self.text.len() { end } else { self.line_end(0) };
        if self.text[ending..].starts_with('\r') { "\r\n" } else { "\n" }
    }
}

/// The text between key and value of a new entry: the anchor's, with its `=` in the same column where it is aligned.
fn aligned(equals: &str, anchor_width: usize, width: usize) -> String {
    let spaces = equals.find('=').unwrap_or(0);
    if spaces < 2 {
        return equals.to_owned();
    }
    format!(
        "{:spaces$}{}",
        "",
        &equals[spaces..],
        spaces = (anchor_width + spaces).saturating_sub(width).max(1)
    )
}

/// The lines in which two blocks differ; `line` is where the blocks stand.
fn by_line(line: usize, old: &str, new: &str) -> Vec<Change> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[same..], &new[same..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    (0..old.len().max(new.len()))
        .map(|index| Change {
            line: line + same + index.min(new.len()),
            old: old.get(index).map(|&text| text.to_owned()),
            new: new.get(index).map(|&text| text.to_owned()),
        })
        .collect()
}
