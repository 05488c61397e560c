//! The order of the stock client, case by case. `kernel-builder/tests/it/client.rs` compares with the client itself.

use kernel_plan::variant::Variant;
use kernel_plan::variant::preference::{Environment, rank};
use proptest::prelude::*;

use crate::variant::variants;

/// What a client in `environment` finds in a folder, best first, and how many it cannot load.
fn ranked(environment: &str, folder: &[&str]) -> (Vec<String>, usize) {
    let folder: Vec<Variant> = folder.iter().map(|id| id.parse().expect("an id")).collect();
    let ranking = rank(&folder, &environment.parse::<Environment>().expect("an environment"));
    (ranking.accepted.iter().map(ToString::to_string).collect(), ranking.rejected.len())
}

/// Every class of what loads there, in the wrong order.
const FOLDER: &[&str] = &[
    "torch-universal",
    "torch-cuda",
    "torch211-cxx11-cu130-x86_64-linux",
    "torch211-cu130-x86_64-linux",
    "torch-stable-abi29-cu130-x86_64-linux",
    "torch-stable-abi210-cu130-x86_64-linux",
    "torch-stable-abi212-cu130-x86_64-linux",
    "torch-cpu",
    "torch211-cxx11-cpu-x86_64-linux",
];

#[test]
fn the_classes_in_their_order() {
    let (order, rejected) = ranked("torch=2.11,cuda=13.0", FOLDER);
    assert_eq!(
        order,
        [
            "torch-stable-abi210-cu130-x86_64-linux",
            "torch-stable-abi29-cu130-x86_64-linux",
            "torch211-cu130-x86_64-linux",
            "torch211-cxx11-cu130-x86_64-linux",
            "torch-cuda",
            "torch-universal",
        ]
    );
    assert_eq!(rejected, 3);
}

#[test]
fn cuda_serves_its_own_major_version_upwards() {
    let folder = [
        "torch212-cxx11-cu126-x86_64-linux",
        "torch212-cxx11-cu130-x86_64-linux",
        "torch212-cxx11-cu132-x86_64-linux",
    ];
    assert_eq!(ranked("torch=2.12,cuda=13.2", &folder).0, [folder[2], folder[1]]);
    assert_eq!(ranked("torch=2.12,cuda=13.1", &folder).0, [folder[1]]);
    assert_eq!(ranked("torch=2.12,cuda=12.9", &folder).0, [folder[0]]);
    assert_eq!(ranked("torch=2.12,cpu", &folder).0, [""; 0]);
}

#[test]
fn a_free_threaded_python_and_an_old_macos_load_no_compiled_code() {
    assert_eq!(ranked("torch=2.11,cuda=13.0,free-threaded", FOLDER).0, ["torch-cuda", "torch-universal"]);
    let metal = ["torch212-metal-aarch64-darwin", "torch-metal"];
    assert_eq!(ranked("torch=2.12,metal,macos=15.7", &metal).0, [metal[1]]);
    assert_eq!(ranked("torch=2.12,metal,macos=26.0", &metal).0, metal);
}

#[test]
fn python_alone_ties_with_tvm_ffi_and_the_folder_decides() {
    let folder = ["torch-cuda", "tvm-ffi01-cu130-x86_64-linux"];
    assert_eq!(ranked("tvm-ffi=0.1,cuda=13.2", &folder).0, folder);
    let folder = ["tvm-ffi01-cu130-x86_64-linux", "torch-cuda"];
    assert_eq!(ranked("tvm-ffi=0.1,cuda=13.2", &folder).0, folder);
    let folder = ["torch-cuda", "tvm-ffi01-cu132-x86_64-linux"];
    assert_eq!(ranked("tvm-ffi=0.1,cuda=13.2", &folder).0, [folder[1], folder[0]]);
}

#[test]
fn what_is_no_environment() {
    for text in ["torch", "torch=2", "cpu=3", "cuda", "arch=sparc", "windows", "free-threaded=no", "", "cpu,"]
    {
        assert!(text.parse::<Environment>().is_err(), "`{text}` was accepted");
    }
}

#[test]
fn a_process_has_one_of_everything() {
    for text in
        ["torch=2.11,torch=2.12", "cpu,cuda=13.0", "torch=2.12,rocm=7.1,cuda=13.0", "os=linux,os=darwin"]
    {
        let error = text.parse::<Environment>().expect_err(text);
        assert!(error.want.contains("keep one of them"), "{text}: {error:?}");
    }
}

proptest! {
    #[test]
    fn every_variant_is_ranked_once(
        folder in prop::collection::vec(variants(), 0..20),
        environment in "(torch=2\\.1[0-9],)?(tvm-ffi=0\\.1,)?(cuda=1[23]\\.[0-9]|cpu|rocm=7\\.1|metal)(,free-threaded)?",
    ) {
        let ranking = rank(&folder, &environment.parse::<Environment>().expect("an environment"));
        let mut ranked: Vec<_> = ranking.rejected.iter().map(|(variant, _)| *variant).collect();
        ranked.extend(&ranking.accepted);
        let mut given = folder;
        given.sort();
        ranked.sort();
        prop_assert_eq!(ranked, given);
    }

    #[test]
    fn no_text_upsets_the_reader_of_environments(text in "\\PC*|([a-z-]{1,8}=?[0-9.]{0,4},?){0,5}") {
        let _either = text.parse::<Environment>();
    }
}
