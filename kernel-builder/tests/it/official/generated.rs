//! Drawn build.toml files that are sound: both parsers accept each, and it means the same to both.
//!
//! Owns: what a sound file can have. Never: draws a file that breaks a rule of ours on a single value.

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::cell::RefCell;
use toml::{Table, Value};

use super::Official;

/// Every backend that `general.backends` may list.
const BACKENDS: &[&str] = &["cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu"];

/// A runner that draws anew each time and leaves no files behind.
pub(super) fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

fn text(pattern: &'static str) -> BoxedStrategy<Value> {
    pattern.prop_map(Value::String).boxed()
}

fn some(choices: &'static [&'static str]) -> BoxedStrategy<Value> {
    subsequence(choices, 0..=choices.len()).prop_map(Value::from).boxed()
}

fn list(entry: BoxedStrategy<Value>, least: usize) -> BoxedStrategy<Value> {
    vec(entry, least..4).prop_map(Value::Array).boxed()
}

/// A table with keys that are always there and keys that may be.
fn table(
    required: Vec<(&'static str, BoxedStrategy<Value>)>,
    optional: Vec<(&'static str, BoxedStrategy<Value>)>,
) -> BoxedStrategy<Value> {
    let required = required.into_iter().map(|(key, value)| (Just(key), value.prop_map(Some).boxed()));
    let optional = optional.into_iter().map(|(key, value)| (Just(key), of(value).boxed()));
    let entries: Vec<_> = required.chain(optional).collect();
    let fill = |entries: Vec<(&str, Option<Value>)>| {
        let there = entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Table(there.collect())
    };
    entries.prop_map(fill).boxed()
}

/// A lower and an upper bound, in order.
fn bounds(major: u32) -> BoxedStrategy<Table> {
    (0u32..20, 0u32..20, any::<bool>(), any::<bool>())
        .prop_map(move |(one, other, has_min, has_max)| {
            let mut table = Table::new();
            for (key, minor, there) in
                [("minver", one.min(other), has_min), ("maxver", one.max(other), has_max)]
            {
                if there {
                    table.insert(key.to_owned(), Value::String(format!("{major}.{minor}")));
                }
            }
            table
        })
        .boxed()
}

/// Adds the bounds to a table.
fn with_bounds(table: BoxedStrategy<Value>, major: u32) -> BoxedStrategy<Value> {
    let join = |(value, bounds): (Value, Table)| match value {
        Value::Table(mut table) => {
            table.extend(bounds);
            Value::Table(table)
        }
        other => other,
    };
    (table, bounds(major)).prop_map(join).boxed()
}

fn repo_id() -> BoxedStrategy<Value> {
    // The hub has no name that ends so; the official parser does not ask.
    let on_hub = |id: &Value| !id.as_str().is_some_and(|id| id.ends_with(".git"));
    text("[a-zA-Z0-9]{1,8}(-[a-z0-9]{1,4})?/[a-zA-Z0-9]{1,8}([._][a-z]{1,4})?")
        .prop_filter("a name that ends with .git", on_hub)
        .boxed()
}

fn git_url() -> BoxedStrategy<Value> {
    prop_oneof![
        text("(https|http|git|ssh|git\\+ssh|git\\+https|git\\+http)://([a-z]{1,6}(:[a-z0-9]{1,4})?@)?[a-z]{1,8}\\.(org|example)(:[1-9][0-9]{0,3})?(/[a-zA-Z0-9._~-]{1,8}){0,3}"),
        text("[a-z]{1,6}@[a-z0-9]{1,8}\\.(org|example):[a-z0-9~]{1,6}(/[a-zA-Z0-9._-]{1,8}){0,2}"),
    ]
    .boxed()
}

fn git_ref() -> BoxedStrategy<Value> {
    text("[a-zA-Z0-9][a-zA-Z0-9_-]{0,8}(/[a-z0-9]{1,6}){0,2}")
}

fn kernel_depends() -> BoxedStrategy<Value> {
    let version =
        table(vec![("repo-id", repo_id()), ("version", (0i64..100).prop_map(Value::from).boxed())], vec![]);
    let revision = table(vec![("repo-id", repo_id()), ("revision", git_ref())], vec![]);
    list(prop_oneof![version, revision].boxed(), 0)
}

fn path(endings: &'static [&'static str]) -> BoxedStrategy<Value> {
    ("[a-z]{1,6}(/[a-zA-Z0-9_.-]{0,5}[a-z0-9_]){0,2}", select(endings))
        .prop_map(|(stem, ending)| Value::String(format!("{stem}{ending}")))
        .boxed()
}

fn flags() -> BoxedStrategy<Value> {
    list(text("-[a-zA-Z]{1,3}[a-z0-9=\" $é-]{0,6}"), 0)
}

fn capabilities() -> BoxedStrategy<Value> {
    list(text("(8\\.0|9\\.0a?|10\\.[03][af]?|12\\.[01])(\\+PTX)?"), 0)
}

fn rocm_archs() -> BoxedStrategy<Value> {
    list(text("gfx(90a|942|1100|1201)|gfx90a:(sramecc[+-]:)?xnack[+-]|gfx1[12]-generic"), 0)
}

fn kernel() -> BoxedStrategy<Value> {
    const DEPENDENCIES: &[&str] = &[
        "torch",
        "cutlass_2_10",
        "cutlass_3_5",
        "cutlass_3_6",
        "cutlass_3_8",
        "cutlass_3_9",
        "cutlass_4_0",
        "cutlass_4_4",
        "cutlass_4_5",
        "sycl_tla",
        "metal-cpp",
    ];
    let of_backend = |backend: &'static str, own: Vec<(&'static str, BoxedStrategy<Value>)>| {
        let mut optional = vec![("include", list(path(&[""]), 0)), ("cxx-flags", flags())];
        optional.extend(own);
        let required = vec![
            ("backend", Just(Value::from(backend)).boxed()),
            ("depends", some(DEPENDENCIES)),
            ("src", list(path(&[".cu", ".cpp", ".h", ".metal"]), 1)),
        ];
        table(required, optional)
    };
    prop_oneof![
        of_backend("cpu", vec![]),
        of_backend(
            "cuda",
            vec![
                ("cuda-capabilities", capabilities()),
                ("cuda-flags", flags()),
                ("cuda-minver", text("1[2-3]\\.[0-9]")),
            ]
        ),
        of_backend("metal", vec![]),
        of_backend("rocm", vec![("rocm-archs", rocm_archs()), ("hip-flags", flags())]),
        of_backend("xpu", vec![("sycl-flags", flags())]),
    ]
    .boxed()
}

fn framework(edition: u32) -> BoxedStrategy<(&'static str, Value)> {
    let pyext = || list(text("[a-z]{1,5}(\\.[a-z0-9]{1,3})?"), 0);
    let sources = |least| list(path(&[".cpp", ".h"]), least);
    let one_abi = text("2\\.[0-9]{1}");
    let abi = if edition == 4 {
        one_abi
    } else {
        let floors = table(vec![], BACKENDS.iter().map(|name| (*name, text("2\\.1[0-9]"))).collect());
        prop_oneof![one_abi, floors].boxed()
    };
    let torch = table(
        vec![],
        vec![
            ("src", sources(0)),
            ("include", list(path(&[""]), 0)),
            ("pyext", pyext()),
            ("cxx-flags", flags()),
            ("stable-abi", abi),
        ],
    );
    let noarch = table(
        vec![],
        vec![("pyext", pyext()), ("cuda_capabilities", capabilities()), ("rocm_archs", rocm_archs())],
    );
    let tvm_ffi = table(
        vec![("src", sources(1))],
        vec![("include", list(path(&[""]), 0)), ("pyext", pyext()), ("cxx-flags", flags())],
    );
    prop_oneof![
        3 => with_bounds(torch, 2).prop_map(|table| ("torch", table)),
        1 => noarch.prop_map(|table| ("torch-noarch", table)),
        1 => tvm_ffi.prop_map(|table| ("tvm-ffi", table)),
    ]
    .boxed()
}

fn general(edition: u32) -> BoxedStrategy<Value> {
    let since_5 = |key, value| (edition == 5).then_some((key, value));
    let own = |packages: &'static [&'static str]| {
        let depends = since_5("kernel-depends", kernel_depends());
        table(vec![], [("python-depends", some(packages))].into_iter().chain(depends).collect())
    };
    let required = vec![
        ("name", text("[a-z][a-z0-9-]{0,10}[a-z0-9]")),
        ("version", (0i64..1000).prop_map(Value::from).boxed()),
        ("license", text("[A-Za-z][ A-Za-z0-9.()é-]{0,12}")),
        ("backends", subsequence(BACKENDS, 1..=BACKENDS.len()).prop_shuffle().prop_map(Value::from).boxed()),
    ];
    let edition_key = since_5("edition", Just(Value::from(5)).boxed());
    let hub = table(vec![], vec![("repo-id", repo_id()), ("branch", git_ref())]);
    let tpu = table(vec![], vec![("python-depends", some(&[]))]);
    let optional = vec![
        ("upstream", git_url()),
        ("source", git_url()),
        ("python-depends", some(&["einops", "helion", "tvm-ffi"])),
        ("hub", hub),
        ("cuda", with_bounds(own(&["nvidia-cutlass-dsl"]), 12)),
        ("neuron", own(&["nki"])),
        ("xpu", own(&["onednn"])),
    ];
    let newest = [since_5("kernel-depends", kernel_depends()), since_5("tpu", tpu)].into_iter().flatten();
    table(required.into_iter().chain(edition_key).collect(), optional.into_iter().chain(newest).collect())
}

/// A sound file of edition 5, or of edition 4, as a value.
pub(super) fn sound() -> BoxedStrategy<Table> {
    let file = |edition| {
        let kernels = proptest::collection::btree_map("[a-zA-Z0-9][a-zA-Z0-9_-]{0,8}", kernel(), 0..4);
        (general(edition), framework(edition), weighted(0.8, kernels)).prop_map(
            |(general, framework, kernels)| {
                let mut file = Table::new();
                file.insert("general".to_owned(), general);
                file.insert(framework.0.to_owned(), framework.1);
                if let Some(kernels) = kernels {
                    file.insert("kernel".to_owned(), Value::Table(kernels.into_iter().collect()));
                }
                file
            },
        )
    };
    prop_oneof![4 => file(5), 1 => file(4)].boxed()
}

/// How a file is laid out, which must not matter.
#[derive(Debug, Clone, Copy)]
enum Layout {
    Sections,
    Lines,
    Windows,
    Commented,
}

fn written(file: &Table, layout: Layout) -> String {
    let text = match layout {
        Layout::Lines => toml::to_string_pretty(file),
        Layout::Sections | Layout::Windows | Layout::Commented => toml::to_string(file),
    };
    let text = text.expect("a table is TOML");
    match layout {
        Layout::Sections | Layout::Lines => text,
        Layout::Windows => text.replace('\n', "\r\n"),
        Layout::Commented => format!("# A kernel.\n{}# The end.", text.replace("]\n", "] # here\n")),
    }
}

#[test]
fn the_official_parser_agrees_on_500_drawn_files() {
    let Some(official) = Official::start() else { return };
    let official = RefCell::new(official);
    let layouts = select(vec![Layout::Sections, Layout::Lines, Layout::Windows, Layout::Commented]);
    let drawn = runner(500).run(&(sound(), layouts), |(file, layout)| {
        let text = written(&file, layout);
        let theirs = official.borrow_mut().read(&text);
        let ours = super::ours(&text);
        let agreed = matches!((&theirs, &ours), (Ok(theirs), Ok(ours)) if theirs == ours);
        let told = || format!("official: {theirs:?}\nours: {ours:?}\n{text}");
        if agreed { Ok(()) } else { Err(TestCaseError::fail(told())) }
    });
    if let Err(error) = drawn {
        panic!("{error}");
    }
}
