//! Selectors: what they select, their algebra, and that no text upsets the reader.

use std::ops::Range;
use std::sync::LazyLock;

use kernel_plan::units::{BackendId, Version};
use kernel_plan::variant::selector::{Atom, FrameworkName, Test, VersionTest};
use kernel_plan::variant::{AbiName, Cpu, Matrix, Os, Provider, Selector};
use proptest::prelude::*;

use crate::variant::matrix;

/// The repository's rows.
static MATRIX: LazyLock<Matrix> = LazyLock::new(matrix);

fn parsed(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|problem| panic!("`{text}`: {problem}"))
}

/// The ids that a selector selects of the repository's rows.
fn selected(text: &str) -> Vec<String> {
    let selector = parsed(text);
    let rows = MATRIX.rows.iter().filter(|row| selector.matches(row));
    rows.map(|row| row.variant.to_string()).collect()
}

#[test]
fn selectors_mean_what_they_say() {
    assert_eq!(
        selected("torch>=2.15 and cuda:13.* and arch:x86_64"),
        [
            "torch-stable-abi215-cu130-x86_64-linux",
            "torch-stable-abi215-cu132-x86_64-linux",
            "torch215-cxx11-cu130-x86_64-linux",
            "torch215-cxx11-cu132-x86_64-linux"
        ]
    );
    assert_eq!(
        selected("xpu and not torch"),
        ["tvm-ffi01-xpu20253-x86_64-linux", "torch-xpu"],
        "a backend holds for Python alone too, a framework for compiled code"
    );
    assert_eq!(selected("xpu:2025.3 and tvm-ffi"), ["tvm-ffi01-xpu20253-x86_64-linux"]);
    assert_eq!(selected("noarch and (tpu or backend:cann)"), ["torch-tpu", "torch-npu"]);
    assert_eq!(selected("abi:full and os:darwin and cpu and torch<2.11"), ["torch210-cpu-aarch64-darwin"]);
    assert_eq!(selected("id:torch2?2-*metal*"), ["torch212-metal-aarch64-darwin"]);
    assert_eq!(selected("rocm<=7.0 and abi:stable"), ["torch-stable-abi210-rocm70-x86_64-linux"]);
    assert_eq!(selected("cuda>13.0 and tvm-ffi:0.1 and arch:aarch64"), ["tvm-ffi01-cu132-aarch64-linux"]);
    assert_eq!(
        selected("provider:wheels and cuda:12.* and torch<=2.10"),
        ["126", "128"]
            .map(|cuda| format!("torch-stable-abi210-cu{cuda}-x86_64-linux"))
            .into_iter()
            .chain(["126", "128"].map(|cuda| format!("torch210-cxx11-cu{cuda}-x86_64-linux")))
            .collect::<Vec<_>>()
    );
    assert_eq!(selected("provider:wheels and cuda:12.* and arch:aarch64"), [""; 0]);
    assert_eq!(selected("id:*").len(), MATRIX.rows.len());
    assert_eq!(selected("id:***").len(), MATRIX.rows.len());
    assert_eq!(selected("id:torch"), [""; 0]);
}

#[test]
fn and_binds_tighter_than_or() {
    assert_eq!(parsed("cpu or cuda and rocm"), parsed("cpu or (cuda and rocm)"));
    assert_ne!(parsed("cpu or cuda and rocm"), parsed("(cpu or cuda) and rocm"));
    assert_eq!(parsed("not cpu and cuda"), parsed("(not cpu) and cuda"));
}

#[test]
fn an_atom_knows_its_place() {
    let text = "torch >= 2.11 and not cuda:13.*";
    let places: Vec<Range<usize>> = parsed(text).atoms().iter().map(|atom| atom.span.clone()).collect();
    assert_eq!(
        places.iter().map(|place| &text[place.clone()]).collect::<Vec<_>>(),
        ["torch >= 2.11", "cuda:13.*"]
    );
}

#[test]
fn nesting_has_an_end() {
    for text in ["(".repeat(100_000), "not ".repeat(100_000), "(not ".repeat(100_000)] {
        let problem = Selector::parse(&text).expect_err("too deep");
        assert_eq!(problem.message, "the selector is nested too deeply");
    }
    let wide = vec!["cpu"; 10_000].join(" or ");
    assert_eq!(parsed(&wide).atoms().len(), 10_000);
}

fn tests() -> impl Strategy<Value = Test> {
    let version = (0u32..30, 0u32..30).prop_map(|(major, minor)| Version::new(major, minor));
    let compared = prop_oneof![
        version.clone().prop_map(VersionTest::Is),
        (0u32..30).prop_map(VersionTest::Major),
        version.clone().prop_map(VersionTest::AtLeast),
        version.clone().prop_map(VersionTest::AtMost),
        version.clone().prop_map(VersionTest::Above),
        version.prop_map(VersionTest::Below),
    ];
    let versioned = [BackendId::Cuda, BackendId::Rocm, BackendId::Xpu, BackendId::Cann];
    prop_oneof![
        (prop::sample::select(FrameworkName::ALL), prop::option::of(compared.clone()))
            .prop_map(|(name, version)| Test::Framework(name, version)),
        (prop::sample::select(versioned.to_vec()), prop::option::of(compared))
            .prop_map(|(backend, version)| Test::Backend(backend, version)),
        prop::sample::select(BackendId::ALL).prop_map(|backend| Test::Backend(backend, None)),
        Just(Test::Noarch),
        prop::sample::select(Cpu::ALL).prop_map(Test::Arch),
        prop::sample::select(Os::ALL).prop_map(Test::Os),
        prop::sample::select(AbiName::ALL).prop_map(Test::Abi),
        prop::sample::select(Provider::ALL).prop_map(Test::Provider),
        "[a-z0-9_*?-]{1,20}".prop_map(|text| match parsed(&format!("id:{text}")) {
            Selector::Atom(atom) => atom.test,
            other => panic!("{other}"),
        }),
    ]
}

fn selectors() -> impl Strategy<Value = Selector> {
    let atom = tests().prop_map(|test| Selector::Atom(Atom { test, span: 0..0 }));
    atom.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Selector::Not(Box::new(inner))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Selector::And),
            prop::collection::vec(inner, 2..4).prop_map(Selector::Or),
        ]
    })
}

fn not(selector: &Selector) -> Selector {
    Selector::Not(Box::new(selector.clone()))
}

/// Whether two selectors select the same rows of the repository.
fn same(left: &Selector, right: &Selector) -> bool {
    MATRIX.rows.iter().all(|row| left.matches(row) == right.matches(row))
}

#[test]
fn a_wrong_guess_is_told_with_what_it_meant() {
    let table = [
        ("x86_64", "did you mean `arch:x86_64`?"),
        ("aarch64", "did you mean `arch:aarch64`?"),
        ("linux", "did you mean `os:linux`?"),
        ("stable", "did you mean `abi:stable`?"),
        ("wheels", "did you mean `provider:wheels`?"),
        ("CUDA", "did you mean `cuda`?"),
        ("cu130", "did you mean `cuda:13.0`?"),
        ("cuda12.6", "did you mean `cuda:12.6`?"),
        ("torch211", "did you mean `torch:2.11`?"),
        ("torch2.11", "did you mean `torch:2.11`?"),
        ("torch-cuda", "did you mean `id:torch-cuda`?"),
        ("torch211-cxx11-cpu-x86_64-linux", "did you mean `id:torch211-cxx11-cpu-x86_64-linux`?"),
        ("torch211-*", "did you mean `id:torch211-*`?"),
        ("gpu2", "here"),
    ];
    for (text, label) in table {
        let problem = Selector::parse(text).expect_err(text);
        assert_eq!(problem.labels[0].1, label, "{text}");
        if let Some(meant) = label.split('`').nth(1) {
            parsed(meant);
        }
    }
    for (text, help) in [
        ("torch==2.11", "equality is written `:`, as in `torch:2.11`"),
        ("torch=2.11", "equality is written `:`, as in `torch:2.11`"),
        ("cpu && cuda", "write `and`"),
        ("cpu || cuda", "write `or`"),
        ("!cpu", "write `not` before a condition, as in `not torch:2.11`"),
    ] {
        assert_eq!(Selector::parse(text).expect_err(text).help.as_deref(), Some(help), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn printing_and_reading_are_inverse(selector in selectors()) {
        prop_assert_eq!(parsed(&selector.to_string()), selector);
    }

    #[test]
    fn twice_not_is_nothing(x in selectors()) {
        prop_assert!(same(&not(&not(&x)), &x));
    }

    #[test]
    fn de_morgan(x in selectors(), y in selectors()) {
        let both = Selector::And(vec![x.clone(), y.clone()]);
        let any = Selector::Or(vec![x.clone(), y.clone()]);
        prop_assert!(same(&not(&both), &Selector::Or(vec![not(&x), not(&y)])));
        prop_assert!(same(&not(&any), &Selector::And(vec![not(&x), not(&y)])));
    }

    #[test]
    fn a_row_is_in_one_half(x in selectors()) {
        prop_assert!(MATRIX.rows.iter().all(|row| x.matches(row) != not(&x).matches(row)));
    }
}

proptest! {
    #[test]
    fn no_text_upsets_the_reader(
        text in "\\PC*|( |and|or|not|torch|cuda|cpu|id|arch|:|>=|<=|<|>|\\(|\\)|\\*|\\?|2\\.11|13\\.\\*|\u{e9}|x86_64){0,30}"
    ) {
        match Selector::parse(&text) {
            Ok(selector) => prop_assert_eq!(parsed(&selector.to_string()), selector),
            Err(problem) => {
                let (place, _) = &problem.labels[0];
                prop_assert!(problem.help.is_some());
                prop_assert!(text.get(place.clone()).is_some(), "{:?} of {:?}", place, text);
            }
        }
    }
}
