//! Device functions that several templates have are in `templates/_shared`.
//!
//! Owns: what a device function looks like, and when two are the same. Never: compares functions of one template.

use std::collections::BTreeMap;
use std::path::Path;

use super::repository::Repository;

const TEMPLATES: &str = "templates";
const SHARED: &str = "_shared";
/// Shorter bodies say too little to be shared.
const FEWEST_LINES: usize = 4;

/// A body of a device function stands in one template, or in `_shared`. Problems are sorted by path and line.
pub(super) fn no_device_function_is_copied(repository: &Repository) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<Place<'_>>> = BTreeMap::new();
    for (path, text) in &repository.files {
        let Some(template) = path.strip_prefix(TEMPLATES).ok().and_then(|below| below.iter().next()) else {
            continue;
        };
        let path_text = path.to_string_lossy();
        let name = path_text.trim_end_matches(".j2");
        if ![".cu", ".cuh", ".h"].iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        let template = template.to_str().unwrap_or_default();
        for function in device_functions(text) {
            let place = Place { template, path, line: function.line, name: function.name };
            places.entry(function.body).or_default().push(place);
        }
    }
    let mut copies = Vec::new();
    for found in places.values() {
        // Files are sorted, and `_shared` comes before the names of templates.
        let Some((first, others)) = found.split_first() else { continue };
        for other in others.iter().filter(|other| other.template != first.template) {
            let advice =
                if first.template == SHARED { "include it" } else { "move it to templates/_shared/cuda" };
            copies.push(format!(
                "{}:{}: `{}` has the same body as `{}` of {}:{}; {advice}",
                other.path.display(),
                other.line,
                other.name,
                first.name,
                first.path.display(),
                first.line
            ));
        }
    }
    copies.sort();
    copies
}

struct Place<'text> {
    template: &'text str,
    path: &'text Path,
    line: usize,
    name: String,
}

struct Function {
    name: String,
    /// Line of `__device__`, from one.
    line: usize,
    /// Without comments, and with one blank where there are any.
    body: String,
}

/// The device functions of a source whose bodies have enough lines.
fn device_functions(text: &str) -> Vec<Function> {
    let code = without_comments(text);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("__device__") {
        let rest = &code[at..];
        let Some(end) = rest.find(['{', ';', '=']).filter(|end| rest[*end..].starts_with('{')) else {
            continue;
        };
        let Some(body) = block(&rest[end..]) else { continue };
        let lines = body.lines().filter(|line| !line.trim().is_empty()).count();
        if lines < FEWEST_LINES {
            continue;
        }
        let signature = rest[..end].split('(').next().unwrap_or_default();
        let signature = signature.trim_end_matches(|letter: char| !letter.is_alphanumeric());
        found.push(Function {
            name: signature.rsplit([' ', '\n', '&', '*']).next().unwrap_or_default().to_owned(),
            line: code[..at].matches('\n').count() + 1,
            body: body.split_whitespace().collect::<Vec<_>>().join(" "),
        });
    }
    found
}

/// What stands between the brace that `text` begins with and its partner.
fn block(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(&text[1..at]);
                }
            }
            _ => {}
        }
    }
    None
}

/// The text with a blank for each comment; the ends of lines stay.
fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        code.push_str(&rest[..at]);
        code.push(' ');
        let comment = &rest[at..];
        let length = if comment.starts_with("//") {
            comment.find('\n').unwrap_or(comment.len())
        } else {
            comment.find("*/").map_or(comment.len(), |end| end + 2)
        };
        code.extend(comment[..length].chars().filter(|letter| *letter == '\n'));
        rest = &comment[length..];
    }
    code + rest
}

#[cfg(test)]
mod tests {
    use super::super::repository::tests::several;
    use super::*;

    const SUM: &str = "#pragma once\n\n// Of a warp.\n__device__ __forceinline__ float warp_sum(float value) {\n    \
                       int lane = 16;\n    while (lane > 0) {\n        value += lane;  // half\n        lane /= 2;\n    }\n    \
                       return value;\n}\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        no_device_function_is_copied(&several(files))
    }

    #[test]
    fn a_copied_helper_is_told_with_both_places() {
        // Another name, other comments, other indentation.
        let copy = SUM.replace("warp_sum", "sum_of_warp").replace("  // half", "").replace("    ", "  ");
        let softmax = "templates/softmax/{{ module }}_cuda/softmax.cuh";
        let told = found(&[("templates/rms-norm/a.cu.j2", SUM), (softmax, &copy)]);
        assert_eq!(
            told,
            [
                "templates/softmax/{{ module }}_cuda/softmax.cuh:4: `sum_of_warp` has the same body as `warp_sum` of \
              templates/rms-norm/a.cu.j2:4; move it to templates/_shared/cuda"
            ]
        );
        let told = found(&[("templates/_shared/cuda/vector.cuh", SUM), (softmax, SUM)]);
        assert!(told[0].ends_with("of templates/_shared/cuda/vector.cuh:4; include it"), "{told:?}");
    }

    #[test]
    fn what_is_no_copy() {
        let nothing = Vec::<String>::new();
        // Twice in one template, in an example, in another language, or with another body.
        assert_eq!(found(&[("templates/a/a.cuh", SUM), ("templates/a/b.cuh", SUM)]), nothing);
        assert_eq!(found(&[("examples/a/a.cuh", SUM), ("templates/a/b.cuh", SUM)]), nothing);
        assert_eq!(found(&[("templates/a/a.md", SUM), ("templates/b/b.cuh", SUM)]), nothing);
        let other = SUM.replace("/= 2", "/= 4");
        assert_eq!(found(&[("templates/a/a.cuh", SUM), ("templates/b/b.cuh", &other)]), nothing);
        // Short ones, declarations, variables.
        let short = "__device__ float twice(float value) {\n    float two = 2;\n    return two * value;\n}\n";
        assert_eq!(found(&[("templates/a/a.cuh", short), ("templates/b/b.cuh", short)]), nothing);
        let none = "__device__ float f(float);\n__device__ constexpr float kA[] = {\n1,\n2,\n3,\n4,\n};\n";
        assert_eq!(found(&[("templates/a/a.cuh", none), ("templates/b/b.cuh", none)]), nothing);
    }
}
