//! Which hub it is.
//!
//! Owns: the default, and the variable that names another one. Never: asks it.

use crate::base::env;

/// The hub when nobody names one.
pub const DEFAULT: &str = "https://huggingface.co";

/// The hub that the environment names, without a slash at the end.
pub fn endpoint() -> String {
    let text = env::text(env::HUB).unwrap_or_else(|| DEFAULT.to_owned());
    text.trim().trim_end_matches('/').to_owned()
}
