//! A new Rust crate with a kernel, its test and its benchmark.
//!
//! Owns: its files, from `resources/rust/crate/`. Never: asks; writes.

use std::path::Path;

use kernel_plan::units::KernelName;
use toml_edit::Value;

use super::{FileSet, ScaffoldError};
use crate::base::env;

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/resources/rust/crate/", $name))
    };
}

/// The path in the crate, and the text.
const FILES: [(&str, &str); 10] = [
    (".gitignore", file!("gitignore.txt")),
    ("Cargo.toml", file!("Cargo.toml.txt")),
    ("README.md", file!("README.md.txt")),
    ("benches/kernel.rs", file!("bench.rs.txt")),
    ("build.rs", file!("build.rs.txt")),
    ("kernels/@NAME@/@OP@.cu", file!("kernel/kernel.cu.txt")),
    ("kernels/@NAME@/op.toml", file!("kernel/op.toml.txt")),
    ("kernels/@NAME@/reference.py", file!("kernel/reference.py.txt")),
    ("src/lib.rs", file!("lib.rs.txt")),
    ("tests/kernel.rs", file!("tests.rs.txt")),
];

/// The files of a crate. `sources` has the crates `build` and `runtime`; without it, they come from git.
///
/// # Errors
/// The name cannot be that of a Rust function.
pub(crate) fn files(
    name: &KernelName,
    license: &str,
    sources: Option<&Path>,
) -> Result<FileSet, ScaffoldError> {
    let op = name.module().to_string();
    if RESERVED.contains(&op.as_str()) {
        let cause = format!("`{op}` is a word of Rust or of C++");
        return Err(ScaffoldError::BadName { name: name.to_string(), cause: cause.into() });
    }
    let dependency = |folder: &str| match sources {
        Some(sources) => {
            let path = env::absolute(sources).join(folder).display().to_string();
            format!("{{ path = {} }}", Value::from(path).to_string().trim())
        }
        None => format!("{{ version = \"0.1\", git = \"{}\" }}", env!("CARGO_PKG_REPOSITORY")),
    };
    let (runtime, build) = (dependency("runtime"), dependency("build"));
    let filled = |text: &str| {
        text.replace("@NAME@", name.as_str())
            .replace("@CRATE@", &name.as_str().replace('-', "_"))
            .replace("@OP@", &op)
            .replace("@LICENSE@", license)
            .replace("@RUNTIME@", &runtime)
            .replace("@BUILD@", &build)
    };
    let mut set = FileSet::default();
    for (path, text) in FILES {
        set.insert(filled(path), filled(text))?;
    }
    Ok(set)
}

/// Names that a crate, a function in Rust or a namespace in C++ cannot have.
const RESERVED: [&str; 62] = [
    "abstract",
    "as",
    "async",
    "auto",
    "await",
    "become",
    "bool",
    "box",
    "break",
    "case",
    "char",
    "class",
    "const",
    "continue",
    "core",
    "crate",
    "default",
    "delete",
    "do",
    "double",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "float",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "int",
    "kernels",
    "let",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "namespace",
    "new",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "switch",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typename",
    "union",
    "use",
    "void",
    "while",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn text(set: &FileSet, path: &str) -> String {
        String::from_utf8(set.get(path).unwrap_or_else(|| panic!("{path}")).to_vec()).unwrap()
    }

    #[test]
    fn every_place_is_filled() {
        let set = files(&"fast-sum".parse().unwrap(), "MIT", None).unwrap();
        assert_eq!(set.iter().count(), FILES.len());
        for (path, bytes) in set.iter() {
            let text = String::from_utf8_lossy(bytes);
            let left = ["@NAME@", "@OP@", "@CRATE@", "@LICENSE@", "@RUNTIME@", "@BUILD@"];
            assert!(left.iter().all(|place| !text.contains(place)), "{}", path.display());
        }
        assert!(text(&set, "tests/kernel.rs").contains("use fast_sum::{kernels, reference};"));
        assert!(text(&set, "kernels/fast-sum/op.toml").contains("name = \"fast_sum\""));
        assert!(text(&set, "Cargo.toml").contains("kernelwright-build = { version = \"0.1\", git = "));
    }

    #[test]
    fn dependencies_can_be_folders() {
        let set = files(&"fast-sum".parse().unwrap(), "MIT", Some(Path::new("/at/a\"b"))).unwrap();
        let manifest: toml::Table = text(&set, "Cargo.toml").parse().unwrap();
        assert_eq!(
            manifest["dependencies"]["kernelwright-runtime"]["path"].as_str(),
            Some("/at/a\"b/runtime")
        );
    }

    #[test]
    fn a_word_of_the_languages_is_no_name() {
        let error = files(&"union".parse().unwrap(), "MIT", None).unwrap_err();
        assert!(crate::base::causes::chain(&error).contains("`union` is a word of Rust or of C++"));
        assert!(RESERVED.is_sorted());
    }
}
