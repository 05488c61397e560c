//! Tables and round trips of the small values.

use std::fmt::Display;
use std::str::FromStr;

use kernel_plan::units::{Capability, Dtype, KernelName, PythonName, RelPath, Version};
use proptest::prelude::*;

/// Each text is read and printed back unchanged, or refused, as it says.
#[track_caller]
fn check<T: FromStr + Display>(good: &[&str], bad: &[&str])
where
    T::Err: Display,
{
    for text in good {
        match text.parse::<T>() {
            Ok(value) => assert_eq!(value.to_string(), *text),
            Err(error) => panic!("{error}"),
        }
    }
    for text in bad {
        assert!(text.parse::<T>().is_err(), "`{text}` was accepted");
    }
}

#[test]
fn names() {
    check::<KernelName>(
        &["rms-norm", "ab", "a1", "x-y-2"],
        &["", "a", "Rms", "rms_norm", "1a", "a-", "-a", "é1"],
    );
    check::<PythonName>(&["rms_norm", "_x", "T", "f32"], &["", "1x", "a-b", "lambda", "None", "a b", "ä"]);
    assert_eq!("fast-rms-norm".parse::<KernelName>().expect("a name").module(), "fast_rms_norm");
}

#[test]
fn paths() {
    check::<RelPath>(
        &[".", "a", "a/b.cu", "torch-ext/rms_norm/__init__.py", "..a/b"],
        &["", "/a", "a//b", "../a", "a/..", "a/./b", "a\\b", "c:/a", "a/"],
    );
    let path: RelPath = "a/b.cu".parse().expect("a path");
    assert_eq!((path.file_name(), path.extension()), ("b.cu", Some("cu")));
    assert!(path.is_under(&"a".parse().expect("a path")) && path.is_under(&".".parse().expect("a path")));
    assert!(!path.is_under(&"a/b".parse().expect("a path")));
}

#[test]
fn versions_have_two_parts_and_an_order() {
    check::<Version>(
        &["2.11", "13.0", "0.1"],
        &["", "2", "2.11.0", "2.", ".1", "02.1", "2.01", "+2.1", "2.x"],
    );
    let version = |text: &str| text.parse::<Version>().expect("a version");
    assert!(version("2.9") < version("2.11") && version("2.11") < version("13.0"));
    assert_eq!(version("13.0").digits(), "130");
}

#[test]
fn capabilities() {
    check::<Capability>(
        &["8.0", "9.0a", "10.0f", "12.0+PTX", "12.1a+PTX"],
        &["", "9", "90a", "9.0b", "9.0A", "9.0af", "9.0+ptx", "9.0+PTXa", "9.10", "banana"],
    );
    assert_eq!("9.0a".parse::<Capability>().expect("a capability").digits(), "90a");
    assert_eq!("12.0+PTX".parse::<Capability>().expect("a capability").digits(), "120");
}

#[test]
fn dtypes_know_their_size_and_torch_name() {
    let table: Vec<_> = Dtype::ALL
        .iter()
        .map(|dtype| format!("{dtype} {} {}", dtype.size_bytes(), dtype.torch_name()))
        .collect();
    insta::assert_snapshot!(table.join("\n"), @r"
    bf16 2 bfloat16
    f16 2 float16
    f32 4 float32
    f64 8 float64
    f8e4m3 1 float8_e4m3fn
    f8e5m2 1 float8_e5m2
    i8 1 int8
    i16 2 int16
    i32 4 int32
    i64 8 int64
    bool 1 bool
    ");
}

#[test]
fn an_error_says_how_to_write_it() {
    insta::assert_snapshot!("9".parse::<Capability>().expect_err("refused"), @r#"`9` is not a CUDA capability; write it as in "9.0", "9.0a", "10.0f" or "12.0+PTX""#);
    insta::assert_snapshot!("f8".parse::<Dtype>().expect_err("refused"), @"`f8` is not a dtype; the choice is bf16, f16, f32, f64, f8e4m3, f8e5m2, i8, i16, i32, i64, bool");
}

proptest! {
    #[test]
    fn what_is_read_is_printed_back(text in "[0-9a-zA-Z./+_-]{0,12}") {
        if let Ok(value) = text.parse::<Capability>() { prop_assert_eq!(value.to_string(), text.clone()); }
        if let Ok(value) = text.parse::<Version>() { prop_assert_eq!(value.to_string(), text.clone()); }
        if let Ok(value) = text.parse::<RelPath>() { prop_assert_eq!(value.to_string(), text.clone()); }
    }

    #[test]
    fn every_capability_survives(major in 1u32..100, minor in 0u32..10, suffix in 0usize..3, ptx: bool) {
        let text = format!("{major}.{minor}{}{}", ["", "a", "f"][suffix], if ptx { "+PTX" } else { "" });
        prop_assert_eq!(text.parse::<Capability>().expect("a capability").to_string(), text);
    }

    #[test]
    fn a_path_never_leaves_the_project(text in "(\\.|\\.\\.|[a-z]|/|\\\\){0,8}") {
        if let Ok(path) = text.parse::<RelPath>() {
            let parts: Vec<_> = std::path::Path::new(path.as_str()).components().collect();
            let inside = |part: &std::path::Component<'_>| {
                matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir)
            };
            prop_assert!(parts.iter().all(inside));
        }
    }
}
