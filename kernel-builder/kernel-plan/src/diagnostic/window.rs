//! What is shown of lines that are too long to be shown, as those of JSON.
//!
//! Owns: which part of such a line is left. miette cannot print a column beyond 65535, and nobody reads that far.
//! Never: touches a line of ordinary length.

use std::ops::Range;

/// Bytes of a line that is shown as a whole.
const LINE: usize = 160;
/// Bytes of a label on a longer line.
const LABEL: usize = 100;
/// Bytes that are shown before and after a label on a longer line.
const AROUND: usize = 60;

/// The part of a text that is shown for a span, with the line's number and the column, both from 0.
pub(super) struct Window {
    pub(super) range: Range<usize>,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Whether a text has a line that is too long.
pub(super) fn is_long(text: &str) -> bool {
    text.lines().any(|line| line.len() > LINE)
}

/// The window for `span`, which lies in `text`; `None` where the span is longer than a window.
pub(super) fn around(text: &str, span: &Range<usize>) -> Option<Window> {
    let end = span.end.min(text.len());
    let start = floor(text, span.start.min(end));
    if end - start > LINE {
        return None;
    }
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end =
        text[end_of(text, end)..].find('\n').map_or(text.len(), |length| end_of(text, end) + length);
    let from = floor(text, start.saturating_sub(AROUND).max(line_start));
    let to = end_of(text, (end + AROUND).min(line_end));
    let line = text[..line_start].matches('\n').count();
    Some(Window { range: from..to, line, column: text[line_start..from].chars().count() })
}

/// The part of a label's span that is marked.
pub(super) fn label(text: &str, span: &Range<usize>) -> Range<usize> {
    let whole = span.clone();
    let Some(marked) = text.get(whole.clone()) else { return whole };
    let line_start = text[..span.start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[span.end..].find('\n').map_or(text.len(), |length| span.end + length);
    if marked.len() <= LABEL || !is_long(&text[line_start..line_end]) {
        return whole;
    }
    let first = marked.lines().next().unwrap_or_default().len().min(LABEL);
    span.start..floor(text, span.start + first)
}

/// The character boundary at or before `offset`.
fn floor(text: &str, offset: usize) -> usize {
    (0..=offset).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0)
}

/// The character boundary at or after `offset`.
fn end_of(text: &str, offset: usize) -> usize {
    (offset..text.len()).find(|place| text.is_char_boundary(*place)).unwrap_or(text.len())
}
