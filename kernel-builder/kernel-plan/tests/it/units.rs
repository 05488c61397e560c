//! Tables and round trips of the small values.

use std::fmt::Display;
use std::str::FromStr;

use kernel_plan::units::{
    BackendId, Capability, Dtype, FileExtension, GitRef, GitUrl, KernelName, License, PythonDependency,
    PythonName, RelPath, RepoId, RocmArch, SectionName, Version,
};
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
        &["", "/a", "../a", "a/..", "a/../b", "./..", "a\\b", "c:/a"],
    );
    for (written, one) in [("./a", "a"), ("a/", "a"), ("a//b", "a/b"), ("a/./b", "a/b"), ("./", ".")] {
        assert_eq!(written.parse::<RelPath>().expect("a path").as_str(), one);
    }
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
fn section_names() {
    check::<SectionName>(
        &["norm", "norm-90a", "Norm_2", "7", "_fused"],
        &["", "-a", "a b", "a.b", "a;b", "é", "a/b"],
    );
}

#[test]
fn repositories_of_the_hub() {
    let long = format!("org/{}", "a".repeat(96));
    check::<RepoId>(
        &["org/name", "kernels-community/flash_attn.v3", "A1/b", "_a/b_", &long],
        &[
            "",
            "name",
            "/name",
            "org/",
            "org/a/b",
            "-org/a",
            "org/a-",
            "org/.a",
            "org/a.",
            "or--g/a",
            "org/a..b",
            "org/a.git",
            "org/a b",
            "org/é",
            "https://example.org/a",
            &format!("{long}a"),
        ],
    );
    let id: RepoId = "org/name".parse().expect("a repository");
    assert_eq!((id.owner(), id.name()), ("org", "name"));
}

#[test]
fn addresses_of_git() {
    check::<GitUrl>(
        &[
            "https://example.org",
            "http://example.org:80/a.git",
            "git://a/b",
            "ssh://git@example.org:22/a",
            "git+ssh://git@h/a",
            "git+https://u:p@h/a",
            "git+http://127.0.0.1/a",
            "HTTPS://[::1]:3000/a?b#c",
            "git@example.org:a/b.git",
            "me@10.0.0.1:~me/a",
            "a_b@h-1:a",
            "https://example.org/größe",
        ],
        &[
            "",
            "name",
            "/a/b",
            "../a",
            "file:///a",
            "ftp://h/a",
            "C:\\a",
            "example.org:a/b",
            "git@example.org",
            "git@example.org:",
            "git@example.org:/a",
            "@h:a",
            "git@:a",
            "https://",
            "https:///a",
            "https:a",
            "https://h:/a",
            "https://h:x/a",
            "https://h:65536/a",
            "https://h a/b",
            "https://h/a b",
            " https://h/a",
            "https://h\\a",
            "https://@h/a",
            "https://a@b@h/a",
            "https://[::g]/a",
            "https://1.2.3/a",
            "https://a.256/b",
            "https://a..b/c",
            "https://größe.org/a",
            "https://h/a\n",
            "javascript://h/a",
            "https://a.XN--b/c",
        ],
    );
}

#[test]
fn references_of_git() {
    check::<GitRef>(
        &["main", "v1", "release/v1.x", "refs/pr/4", "0123456789abcdef", "a@b", "größe", "a-b_c.d"],
        &[
            "", "@", "-a", "a b", "a..b", ".a", "a/.b", "a.", "a.lock", "a.lock/b", "/a", "a/", "a//b",
            "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "a@{1}", "a\tb", "a\u{7f}",
        ],
    );
}

#[test]
fn licenses_and_file_extensions() {
    check::<License>(
        &["MIT", "MIT OR Apache-2.0", " x ", "Lizenz für alle"],
        &["", " ", "\t", "MIT\nBSD", "a\0"],
    );
    check::<FileExtension>(
        &["py", "pyi", "tar.gz", "c++", "x_y-z", "7z"],
        &["", ".py", "py.", "a..b", "*", "a/b", "a b"],
    );
}

#[test]
fn python_packages_have_one_home() {
    check::<PythonDependency>(
        &["einops", "helion", "tvm-ffi", "nvidia-cutlass-dsl", "nki", "onednn"],
        &["", "numpy", "Einops", "apache-tvm-ffi", "onednn-devel"],
    );
    let home = |backend| PythonDependency::allowed(backend).map(PythonDependency::as_str).collect::<Vec<_>>();
    assert_eq!(home(None), ["einops", "helion", "tvm-ffi"]);
    assert_eq!(home(Some(BackendId::Cuda)), ["nvidia-cutlass-dsl"]);
    assert_eq!(home(Some(BackendId::Tpu)), [""; 0]);
}

#[test]
fn rocm_architectures() {
    check::<RocmArch>(
        &[
            "gfx906",
            "gfx90a",
            "gfx942",
            "gfx950",
            "gfx1100",
            "gfx1201",
            "gfx90a:xnack-",
            "gfx942:sramecc+:xnack+",
            "gfx9-generic",
            "gfx9-4-generic",
            "gfx10-3-generic",
            "gfx12-generic:xnack+",
        ],
        &[
            "",
            "gfx",
            "gfx9",
            "gfx90",
            "gfx090a",
            "gfx12011",
            "gfx90A",
            "gfx90g",
            "GFX90a",
            "mi300",
            "sm_90",
            "gfx90a:",
            "gfx90a:xnack",
            "gfx90a:xnack+:sramecc+",
            "gfx90a:xnack+:xnack-",
            "gfx-generic",
            "gfx9-4-1-generic",
            "gfx09-generic",
        ],
    );
    assert_eq!("gfx90a:xnack+".parse::<RocmArch>().expect("an architecture").processor(), "gfx90a");
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
    insta::assert_snapshot!("f8".parse::<Dtype>().expect_err("refused"), @"`f8` is not a dtype; valid values: bf16, f16, f32, f64, f8e4m3, f8e5m2, i8, i16, i32, i64, bool");
}

proptest! {
    #[test]
    fn what_is_read_is_printed_back(text in "[0-9a-zA-Z./+_-]{0,12}") {
        if let Ok(value) = text.parse::<Capability>() { prop_assert_eq!(value.to_string(), text.clone()); }
        if let Ok(value) = text.parse::<Version>() { prop_assert_eq!(value.to_string(), text.clone()); }
        if let Ok(value) = text.parse::<RelPath>() {
            let one = value.to_string();
            prop_assert!(one == "." || one.split('/').all(|part| !matches!(part, "" | "." | "..")), "{}", one);
            prop_assert_eq!(one.parse::<RelPath>(), Ok(value));
        }
    }

    /// Of every kind, what is drawn to be nearly right is refused or comes back as it was.
    #[test]
    fn what_is_nearly_right_is_printed_back(
        repo in "[a-z.-]{1,4}/[a-z._-]{1,6}(/a)?",
        url in "(https|ssh|git\\+ssh|file)?(://)?([a-z]{1,3}@)?[a-z0-9.]{1,8}:?[0-9/]{0,4}[a-z./ ]{0,5}",
        reference in "[a-z./@{~-]{1,8}",
        arch in "gfx[0-9a-f]{2,5}(-generic)?(:sramecc[+-])?(:xnack[+-])?",
        extension in "[a-z.+]{1,6}",
        section in "[a-zA-Z0-9_. -]{0,6}",
        license in "[ A-Za-z\n\t-]{0,6}",
    ) {
        if let Ok(value) = repo.parse::<RepoId>() {
            prop_assert_eq!(format!("{}/{}", value.owner(), value.name()), repo.clone());
            prop_assert_eq!(value.to_string(), repo);
        }
        if let Ok(value) = url.parse::<GitUrl>() { prop_assert_eq!(value.to_string(), url); }
        if let Ok(value) = reference.parse::<GitRef>() { prop_assert_eq!(value.to_string(), reference); }
        if let Ok(value) = arch.parse::<RocmArch>() { prop_assert_eq!(value.to_string(), arch); }
        if let Ok(value) = extension.parse::<FileExtension>() { prop_assert_eq!(value.to_string(), extension); }
        if let Ok(value) = section.parse::<SectionName>() { prop_assert_eq!(value.to_string(), section); }
        if let Ok(value) = license.parse::<License>() { prop_assert_eq!(value.to_string(), license); }
    }

    /// What follows the grammar is read.
    #[test]
    fn what_is_right_is_read(
        repo in "[a-zA-Z0-9]{1,9}(-[a-z0-9]{1,4})?/[a-zA-Z0-9]{1,9}([._][a-z]{1,4}0)?",
        url in "(https|ssh|git\\+ssh)://([a-z]{1,3}@)?[a-z]{1,8}\\.org(:[1-9][0-9]{0,3})?(/[a-z._~-]{1,5}){0,3}",
        reference in "[a-z0-9]{1,8}(/[a-z0-9]{1,8}){0,2}",
        arch in "gfx[1-9][0-9]?[0-9a-f]{2}(:sramecc[+-])?(:xnack[+-])?",
    ) {
        prop_assert_eq!(repo.parse::<RepoId>().expect("a repository").to_string(), repo);
        prop_assert_eq!(url.parse::<GitUrl>().expect("an address").to_string(), url);
        prop_assert_eq!(reference.parse::<GitRef>().expect("a reference").to_string(), reference);
        prop_assert_eq!(arch.parse::<RocmArch>().expect("an architecture").to_string(), arch);
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
