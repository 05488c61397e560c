//! The library shows its entry points, nothing that two kernels in one process would share, and lacks no code.
//!
//! Owns: which names may be seen, and which must be there. Never: looks at code.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::elf::{self, Interface};
use super::super::evidence::{CheckResult, Outcome};
use super::super::findings::first_few;
use super::super::{Subject, VerifyError, undefined};
use crate::base::causes::chain;
use crate::base::files;

pub(in crate::verify) const CODE: &str = "verify::symbols";

/// What Python calls to import a module, followed by its name.
const MODULE: &str = "PyInit_";

/// What tvm-ffi looks for, followed by the name of a function (apache-tvm-ffi, `function.h`).
pub(in crate::verify) const TVM_FFI: &str = "__tvm_ffi_";

/// Names that a linker adds by itself.
pub(in crate::verify) const LINKER: &[&str] = &["__bss_start", "_edata", "_end", "_fini", "_init"];

/// Unique symbols, exported symbols, the entry point.
pub(crate) fn check(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    let Some(library) = &subject.artifact.library else { return Ok(vec![]) };
    let result =
        |outcome, summary: String, facts| vec![CheckResult::new("symbols", CODE, outcome, summary, facts)];
    let interface = match elf::interface(&files::read(library)?) {
        Ok(interface) => interface,
        Err(error) => {
            let summary = format!("the library cannot be judged: {}", chain(&error));
            return Ok(result(Outcome::Refused, summary, json!({})));
        }
    };
    let entry = if subject.artifact.variant.starts_with("tvm-ffi") {
        Entry::Functions
    } else {
        Entry::Module(&subject.artifact.id)
    };
    let (outcome, summary) = judged(&interface, entry, subject.options.require_portable);
    Ok(result(outcome, summary, facts(&interface)))
}

/// What was read, for programs.
pub(in crate::verify) fn facts(interface: &Interface) -> Value {
    json!({ "exported": interface.exported, "weak": interface.weak.len(), "unique": interface.unique })
}

/// The name of the module that a library is the entry of, as Python looks for it; of several the first.
pub(in crate::verify) fn module_of(interface: &Interface) -> Option<&str> {
    interface.exported.iter().chain(&interface.weak).find_map(|name| name.strip_prefix(MODULE))
}

/// Whether a name is what a loader asks for in a library of any kind.
pub(in crate::verify) fn is_entry(symbol: &str) -> bool {
    Entry::AnyModule.is(symbol)
}

/// What the loader of a library asks for by name.
#[derive(Debug, Clone, Copy)]
pub(in crate::verify) enum Entry<'a> {
    /// The module of this name.
    Module(&'a str),
    /// A module of any name: nothing says which.
    AnyModule,
    /// Any function of tvm-ffi.
    Functions,
}

impl Entry<'_> {
    /// Whether a symbol is what is asked for.
    fn is(self, symbol: &str) -> bool {
        match self {
            Self::Module(name) => symbol.strip_prefix(MODULE) == Some(name),
            Self::AnyModule => symbol.starts_with(MODULE) || symbol.starts_with(TVM_FFI),
            Self::Functions => symbol.starts_with(TVM_FFI),
        }
    }

    fn missing(self) -> String {
        match self {
            Self::Module(name) => format!(
                "exports no `{MODULE}{name}`, so Python cannot import it: the binding has no \
                 REGISTER_EXTENSION(TORCH_EXTENSION_NAME) of registration.h"
            ),
            Self::AnyModule => {
                format!(
                    "exports neither a `{MODULE}...` nor a `{TVM_FFI}...`, so nothing loads it as a kernel"
                )
            }
            Self::Functions => format!("exports no `{TVM_FFI}...`, so tvm-ffi finds no function in it"),
        }
    }
}

/// The verdict on one library.
pub(in crate::verify) fn judged(
    interface: &Interface,
    entry: Entry<'_>,
    require_portable: bool,
) -> (Outcome, String) {
    if !interface.unique.is_empty() {
        let text = format!(
            "has symbols that all kernels of a process share (STB_GNU_UNIQUE): {}; compile with -fno-gnu-unique",
            named(&interface.unique)
        );
        return (Outcome::Refused, text);
    }
    let missing = undefined::missing(&interface.undefined);
    if !missing.is_empty() {
        let text = format!(
            "uses {}, which neither its sources nor the libraries of the framework define, so it cannot be loaded; is a \
             source missing in `src` of build.toml?",
            named(&missing)
        );
        return (Outcome::Refused, text);
    }
    let visible = |names: &BTreeSet<String>| -> BTreeSet<String> {
        let is_own = |name: &&String| !entry.is(name) && !LINKER.contains(&name.as_str());
        names.iter().filter(is_own).cloned().collect()
    };
    let exported = visible(&interface.exported);
    if !exported.is_empty() {
        let text = format!(
            "exports {}, which would replace the same name in another kernel; only the entry point may be \
             visible",
            named(&exported)
        );
        return (Outcome::Refused, text);
    }
    let entries = interface.exported.iter().chain(&interface.weak).filter(|name| entry.is(name));
    let entries: BTreeSet<String> = entries.cloned().collect();
    if entries.is_empty() {
        return (Outcome::Refused, entry.missing());
    }
    let weak = visible(&interface.weak);
    if !weak.is_empty() {
        let text = format!(
            "exports code of headers, which other libraries of a process may use or replace: {}; it was linked with \
             this machine's own libraries",
            named(&weak)
        );
        return (if require_portable { Outcome::Refused } else { Outcome::Warned }, text);
    }
    (Outcome::Passed, format!("exports {} alone, nothing unique", named(&entries)))
}

/// The first names, and how many more there are.
fn named(names: &BTreeSet<String>) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    first_few(&quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[track_caller]
    fn check(interface: &Interface, strict: bool, want: Outcome, words: &str) {
        let (outcome, text) = judged(interface, Entry::Module("_norm_cpu_0"), strict);
        assert_eq!(outcome, want, "{text}");
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn an_entry_point_alone_passes() {
        let good = Interface {
            exported: names_of(&["PyInit__norm_cpu_0", "_init", "_end"]),
            ..Interface::default()
        };
        check(&good, true, Outcome::Passed, "`PyInit__norm_cpu_0` alone");
        let other = Interface { exported: names_of(&["PyInit__norm_cpu_1"]), ..Interface::default() };
        check(&other, false, Outcome::Refused, "exports `PyInit__norm_cpu_1`");
        check(&Interface::default(), false, Outcome::Refused, "exports no `PyInit__norm_cpu_0`");
    }

    #[test]
    fn what_two_kernels_would_share_is_refused() {
        let exported = names_of(&["PyInit__norm_cpu_0", "a", "b", "c", "d"]);
        let global = Interface { exported, ..Interface::default() };
        check(&global, false, Outcome::Refused, "`a`, `b`, `c` and 1 more");
        let entry = names_of(&["PyInit__norm_cpu_0"]);
        let unique =
            Interface { exported: entry.clone(), unique: names_of(&["_ZGVs"]), ..Interface::default() };
        check(&unique, false, Outcome::Refused, "STB_GNU_UNIQUE");
        let weak = Interface { exported: entry, weak: names_of(&["_ZNSt6vectorE"]), ..Interface::default() };
        check(&weak, false, Outcome::Warned, "`_ZNSt6vectorE`");
        check(&weak, true, Outcome::Refused, "`_ZNSt6vectorE`");
    }

    #[test]
    fn a_name_that_nothing_defines_is_refused() {
        let undefined = names_of(&["_ZN4norm5scaleEPf", "_ZN3c105ErrorE", "memcpy"]);
        let library =
            Interface { exported: names_of(&["PyInit__norm_cpu_0"]), undefined, ..Interface::default() };
        check(&library, false, Outcome::Refused, "uses `norm::scale`, which neither its sources");
    }

    #[test]
    fn a_library_of_tvm_ffi_has_functions() {
        let outcome = |names: &[&str]| {
            let interface = Interface { exported: names_of(names), ..Interface::default() };
            judged(&interface, Entry::Functions, true).0
        };
        assert_eq!(outcome(&["__tvm_ffi_norm", "__tvm_ffi_norm_out"]), Outcome::Passed);
        assert_eq!(outcome(&[]), Outcome::Refused);
        assert_eq!(outcome(&["__tvm_ffi_norm", "helper"]), Outcome::Refused);
    }
}
