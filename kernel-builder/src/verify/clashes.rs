//! What libraries that are loaded into one process take from each other.
//!
//! Python loads extensions apart from each other, so most names of one are not seen by the next. Seen are modules, which
//! `sys.modules` has once by name, and symbols that a process has once; and everything, where a program loads libraries
//! with RTLD_GLOBAL, as `ctypes.RTLD_GLOBAL` and `sys.setdlopenflags` do.
//!
//! Owns: comparing libraries two by two. Never: judges one alone; `checks/symbols` does.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::json;

use super::checks::symbols;
use super::elf::Interface;
use super::evidence::{CheckResult, Outcome};
use super::findings::first_few;

const CODE: &str = "verify::clash";

/// A library that is loaded beside others.
#[derive(Debug)]
pub(crate) struct OtherLibrary {
    /// As a person named it.
    pub name: String,
    /// The folder above its variant, where it lies in one of several: a process loads one of these.
    pub package: Option<PathBuf>,
    /// The digest of its bytes: two copies of one file do not clash.
    pub digest: crate::base::digest::Digest,
    /// What it shows.
    pub interface: Interface,
}

/// What any two of these have in common that a process has once; nothing for fewer than two.
pub(crate) fn among(libraries: &[OtherLibrary]) -> Option<CheckResult> {
    if libraries.len() < 2 {
        return None;
    }
    let (mut hard, mut soft, mut pairs) = (Vec::new(), Vec::new(), 0);
    for (place, one) in libraries.iter().enumerate() {
        for other in libraries[place + 1..].iter().filter(|other| other.digest != one.digest) {
            pairs += 1;
            let sentence = |words: String| format!("`{}` and `{}` {words}", one.name, other.name);
            hard.extend(wrong(one, other).into_iter().map(sentence));
            let shared = common(&one.interface.weak, &other.interface.weak);
            if !shared.is_empty() {
                soft.push(sentence(format!("both export code of headers: {}", named(&shared))));
            }
        }
    }
    let facts = json!({ "libraries": libraries.len(), "pairs": pairs, "refused": hard, "warned": soft });
    let (outcome, summary) = match (hard.as_slice(), soft.as_slice()) {
        ([], []) => (Outcome::Passed, format!("{} libraries share no name in a process", libraries.len())),
        ([], soft) => (Outcome::Warned, soft.join("; ")),
        (hard, _) => (Outcome::Refused, hard.join("; ")),
    };
    Some(CheckResult::new("together", CODE, outcome, summary, facts))
}

fn wrong(one: &OtherLibrary, other: &OtherLibrary) -> Vec<String> {
    let mut wrong = Vec::new();
    let unique = common(&one.interface.unique, &other.interface.unique);
    if !unique.is_empty() {
        wrong.push(format!(
            "share {} in a process (STB_GNU_UNIQUE): the second to be loaded gets the first one's; compile with \
             -fno-gnu-unique",
            named(&unique)
        ));
    }
    let module = symbols::module_of(&one.interface);
    let alternatives = one.package.is_some() && one.package == other.package;
    if let Some(name) = module.filter(|_| !alternatives && module == symbols::module_of(&other.interface)) {
        wrong.push(format!(
            "are both the module `{name}`, but Python loads only one module of a name: give each build its own name, \
             as TORCH_EXTENSION_NAME does"
        ));
    }
    // Entry points are asked for in the library that has them: tvm-ffi's of two builds of one kernel are called alike.
    let mut exported = common(&one.interface.exported, &other.interface.exported);
    exported.retain(|name| !symbols::is_entry(name) && !symbols::LINKER.contains(&name.as_str()));
    if !exported.is_empty() {
        wrong.push(format!(
            "both export {}; a process that loads them with RTLD_GLOBAL uses the first one for both; compile with \
             -fvisibility=hidden",
            named(&exported)
        ));
    }
    wrong
}

fn common(one: &BTreeSet<String>, other: &BTreeSet<String>) -> BTreeSet<String> {
    one.intersection(other).cloned().collect()
}

fn named(names: &BTreeSet<String>) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    first_few(&quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Digest;

    fn library(name: &str, exported: &[&str], weak: &[&str], unique: &[&str]) -> OtherLibrary {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let interface =
            Interface { exported: of(exported), weak: of(weak), unique: of(unique), ..Interface::default() };
        OtherLibrary {
            name: name.to_owned(),
            package: None,
            digest: Digest::blake3(name.as_bytes()),
            interface,
        }
    }

    #[track_caller]
    fn check(one: OtherLibrary, other: OtherLibrary, want: Outcome, words: &str) {
        let found = among(&[one, other]).unwrap();
        assert_eq!(found.outcome, want, "{}", found.summary);
        assert!(found.summary.contains(words), "{}", found.summary);
    }

    #[test]
    fn what_a_process_has_once_is_refused() {
        let good = |name: &str, module: &str| library(name, &[module, "_end"], &[], &[]);
        check(good("a", "PyInit__a"), good("b", "PyInit__b"), Outcome::Passed, "2 libraries");
        check(good("a", "PyInit__a"), good("b", "PyInit__a"), Outcome::Refused, "both the module `_a`");
        let unique = |name: &str, module: &str| library(name, &[module], &[], &["_ZGVs"]);
        check(unique("a", "PyInit__a"), unique("b", "PyInit__b"), Outcome::Refused, "share `_ZGVs`");
        let open = |name: &str, module: &str| library(name, &[module, "helper"], &[], &[]);
        check(open("a", "PyInit__a"), open("b", "PyInit__b"), Outcome::Refused, "both export `helper`");
        let header = |name: &str, module: &str| library(name, &[module], &["_ZNSt6vectorE"], &[]);
        check(header("a", "PyInit__a"), header("b", "PyInit__b"), Outcome::Warned, "code of headers");
    }

    #[test]
    fn copies_and_the_variants_of_one_package_are_no_clash() {
        let one = library("a", &["PyInit__a"], &[], &[]);
        assert!(among(&[one]).is_none());
        let copy =
            |name: &str| OtherLibrary { name: name.to_owned(), ..library("a", &["PyInit__a"], &[], &[]) };
        check(copy("a"), copy("b"), Outcome::Passed, "share no name in a process");
        let variant = |name: &str| OtherLibrary {
            package: Some(PathBuf::from("build")),
            ..library(name, &["PyInit__a"], &[], &[])
        };
        check(variant("a"), variant("b"), Outcome::Passed, "share no name in a process");
    }

    #[test]
    fn builds_of_one_kernel_for_tvm_ffi_have_the_same_entry_points() {
        let build = |name: &str| library(name, &["__tvm_ffi_norm", "__tvm_ffi_norm_out"], &[], &[]);
        check(build("a"), build("b"), Outcome::Passed, "share no name in a process");
        let open = |name: &str| library(name, &["__tvm_ffi_norm", "helper"], &[], &[]);
        check(open("a"), open("b"), Outcome::Refused, "both export `helper`");
    }
}
