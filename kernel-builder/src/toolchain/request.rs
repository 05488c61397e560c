//! A part of a wheel that something asks for.
//!
//! Owns: why it is needed, for messages. Never: fetches it.

use super::pins::Part;

/// A part of a wheel, and why it is fetched: read after "fetching".
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) part: Part,
    pub(super) why: &'static str,
}
