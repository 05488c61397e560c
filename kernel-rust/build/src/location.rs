//! Places in the messages of compilers.
//!
//! Owns: NVIDIA's form of a place, made cargo's. Never: reads a file.

use std::path::PathBuf;

/// A line of a compiler's log with its place as `path:line`: `a.cu(3): error: ...` is `kernels/a.cu:3: error: ...`. `find` gives
/// the path of a file that the compiler named.
pub(crate) fn with_path(line: &str, find: impl Fn(&str) -> Option<PathBuf>) -> String {
    let place = || {
        let (file, rest) = line.split_once('(')?;
        let (number, rest) = rest.split_once(')')?;
        let is_place =
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && rest.starts_with(':');
        let path = is_place.then(|| find(file)).flatten()?;
        Some(format!("{}:{number}{rest}", path.display()))
    };
    place().unwrap_or_else(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_known_files_become_paths() {
        let find = |name: &str| (name == "norm.cu").then(|| PathBuf::from("kernels/norm.cu"));
        let told = |line: &str| with_path(line, find);
        assert_eq!(
            told("norm.cu(12): error: expected a \";\""),
            "kernels/norm.cu:12: error: expected a \";\""
        );
        assert_eq!(told("other.cu(12): error: f(3): x"), "other.cu(12): error: f(3): x");
        assert_eq!(told("  f(norm.cu) of 3"), "  f(norm.cu) of 3");
        assert_eq!(told("1 error detected"), "1 error detected");
    }
}
