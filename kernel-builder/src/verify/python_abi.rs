//! CPython's stable ABI: which names an extension for every Python may use.
//!
//! Owns: the names, with the Python that each came in with, and the oldest Python that builds are for.
//! Never: reads a library.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use kernel_plan::units::Version;

use super::abi_names::first_versions;
use super::findings::first_few;

/// A comment, then `3.2:` before the names of each Python; its header says where they are from.
const NAMES: &str = include_str!("../../resources/python-stable-abi.txt");

/// The oldest Python that a build named `.abi3.so` promises to load with; compiling against it is `Py_LIMITED_API`.
const OLDEST: Version = Version::new(3, 9);

static SINCE: LazyLock<BTreeMap<&str, Version>> = LazyLock::new(|| first_versions(NAMES));

/// What is wrong with the names that a library takes from Python, a sentence each; names that are not Python's are
/// nobody's here.
pub(crate) fn complaints(undefined: &BTreeSet<String>) -> Vec<String> {
    let (mut outside, mut newer) = (Vec::new(), Vec::new());
    for name in undefined.iter().filter(|name| name.starts_with("Py") || name.starts_with("_Py")) {
        match SINCE.get(name.as_str()) {
            None => outside.push(format!("`{name}`")),
            Some(since) if *since > OLDEST => newer.push(format!("`{name}` (of Python {since})")),
            Some(_) => {}
        }
    }
    let mut wrong = Vec::new();
    if !outside.is_empty() {
        wrong.push(format!(
            "is named .abi3.so but uses {}, which is not in Python's stable ABI, so some releases of Python may \
             not load it; define Py_LIMITED_API before Python.h",
            first_few(&outside)
        ));
    }
    if !newer.is_empty() {
        wrong.push(format!(
            "is named .abi3.so, for Python {OLDEST} and newer, but uses {}; without it, or under Py_LIMITED_API of \
             {OLDEST}, it loads on all of them",
            first_few(&newer)
        ));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(names: &[&str]) -> Vec<String> {
        complaints(&names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn the_list_is_whole() {
        assert!(SINCE.len() > 900, "{}", SINCE.len());
        for (name, since) in [
            ("PyModule_Create2", Version::new(3, 2)),
            ("_Py_Dealloc", Version::new(3, 2)),
            ("PyModuleDef_Init", Version::new(3, 5)),
            ("PyExc_RecursionError", Version::new(3, 7)),
            ("PyObject_Vectorcall", Version::new(3, 12)),
            ("PyType_GetModuleByDef", Version::new(3, 13)),
        ] {
            assert_eq!(SINCE.get(name), Some(&since), "{name}");
        }
        let names = |name: &&&str| name.starts_with("Py") || name.starts_with("_Py");
        assert_eq!(SINCE.keys().filter(names).count(), SINCE.len(), "nothing but names of Python");
    }

    #[test]
    fn names_of_the_stable_abi_up_to_3_9_pass() {
        let honest = ["PyArg_ParseTuple", "PyLong_FromLong", "PyType_GetSlot", "PyExc_ValueError"];
        assert_eq!(problems_of(&honest), Vec::<String>::new());
        assert_eq!(problems_of(&["_ZN2at4_ops5emptyE", "memcpy", "THPVariable_Wrap"]), Vec::<String>::new());
    }

    #[test]
    fn a_newer_name_is_told_with_its_python() {
        let told = problems_of(&["PyModule_AddObjectRef", "PyLong_FromLong"]);
        assert!(told[0].contains("`PyModule_AddObjectRef` (of Python 3.10)"), "{told:?}");
        assert!(told[0].contains("for Python 3.9 and newer") && told.len() == 1, "{told:?}");
    }

    #[test]
    fn a_name_outside_is_told_and_many_are_counted() {
        let told = problems_of(&[
            "PyFrame_GetBack",
            "PyUnicode_AsUTF8AndSize",
            "_PyLong_New",
            "_PyObject_GetDictPtr",
        ]);
        assert!(
            told[0].contains("`PyFrame_GetBack`, `_PyLong_New`, `_PyObject_GetDictPtr`, which"),
            "{told:?}"
        );
        assert!(told[1].contains("`PyUnicode_AsUTF8AndSize` (of Python 3.10)"), "{told:?}");
        let many = problems_of(&["_PyA", "_PyB", "_PyC", "_PyD", "_PyE"]);
        assert!(many[0].contains("`_PyA`, `_PyB`, `_PyC` and 2 more"), "{many:?}");
    }
}
