//! `Range: bytes=...` of one range (RFC 9110, section 14).
//!
//! Owns: which bytes of a file are meant. Never: several ranges; they are answered with the whole, as the RFC allows.

/// What a request wants of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedRange {
    /// All of it.
    Whole,
    /// `length` bytes from `start`; never empty, never past the end.
    Part {
        /// The first byte.
        start: u64,
        /// How many.
        length: u64,
    },
    /// Nothing that the file has.
    Unsatisfiable,
}

/// Reads the header for a file of `size` bytes; what is not understood means the whole.
pub fn parse(header: Option<&str>, size: u64) -> RequestedRange {
    let Some(spec) = header.and_then(|text| text.trim().strip_prefix("bytes=")) else {
        return RequestedRange::Whole;
    };
    let Some((first, last)) = spec.split_once('-') else { return RequestedRange::Whole };
    let number = |text: &str| {
        let text = text.trim();
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse::<u64>().ok())
            .flatten()
    };
    match (first.trim().is_empty(), number(first), last.trim().is_empty(), number(last)) {
        // The last so many bytes.
        (true, _, false, Some(count)) => match count.min(size) {
            0 => RequestedRange::Unsatisfiable,
            length => RequestedRange::Part { start: size - length, length },
        },
        (false, Some(start), true, _) => part(start, size.saturating_sub(1), size),
        (false, Some(start), false, Some(last)) if start <= last => {
            part(start, last.min(size.saturating_sub(1)), size)
        }
        _ => RequestedRange::Whole,
    }
}

fn part(start: u64, last: u64, size: u64) -> RequestedRange {
    if start >= size {
        RequestedRange::Unsatisfiable
    } else {
        RequestedRange::Part { start, length: last - start + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_rfc() {
        let part = |start, length| RequestedRange::Part { start, length };
        let table = [
            (None, RequestedRange::Whole),
            (Some("bytes=0-"), part(0, 10)),
            (Some("bytes=0-0"), part(0, 1)),
            (Some("bytes=3-5"), part(3, 3)),
            (Some("bytes=3-500"), part(3, 7)),
            (Some("bytes=-4"), part(6, 4)),
            (Some("bytes=-40"), part(0, 10)),
            (Some("bytes=10-"), RequestedRange::Unsatisfiable),
            (Some("bytes=18446744073709551615-"), RequestedRange::Unsatisfiable),
            (Some("bytes=-0"), RequestedRange::Unsatisfiable),
            (Some("bytes=5-3"), RequestedRange::Whole),
            (Some("bytes=0-1,4-5"), RequestedRange::Whole),
            (Some("bytes=+1-2"), RequestedRange::Whole),
            (Some("lines=0-1"), RequestedRange::Whole),
            (Some("bytes=99999999999999999999-"), RequestedRange::Whole),
        ];
        for (header, wanted) in table {
            assert_eq!(parse(header, 10), wanted, "{header:?}");
        }
        assert_eq!(parse(Some("bytes=0-"), 0), RequestedRange::Unsatisfiable);
    }
}
