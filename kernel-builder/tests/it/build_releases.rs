//! A source that asks nothing of torch is known for all its releases without a process, and one that asks anything is
//! not: the counterpart of `build_shared`, where the text decides.

use super::build_shared::{build, command, packages, project, shared, started, torch};
use super::sandbox::{Sandbox, finish};

const OTHER: &str = "work/one/plain/other.cpp";

/// Whether `plain/other.cpp` is read again for the torch that is there now.
fn reads_other(sandbox: &Sandbox) -> bool {
    started(sandbox);
    build(sandbox, "one");
    started(sandbox).iter().any(|line| line.ends_with(" plain/other.cpp"))
}

/// The same, when it was compiled for 2.11 and is wanted for 2.10.
fn is_read_for_another_release(case: &str, source: &str, prepare: &dyn Fn(&Sandbox)) -> bool {
    let sandbox = shared("one", "");
    sandbox.write(OTHER, source);
    prepare(&sandbox);
    assert!(reads_other(&sandbox), "{case}: the first");
    torch(&sandbox, "2.10");
    reads_other(&sandbox)
}

#[test]
fn no_process_runs_for_a_source_that_asks_nothing_of_torch() {
    let sandbox = shared("one", "");
    build(&sandbox, "one");
    let made = packages(&sandbox, "one");
    torch(&sandbox, "2.10");
    started(&sandbox);
    build(&sandbox, "one");
    let binding = ["link", "object torch-ext/torch_binding.cpp", "text torch-ext/torch_binding.cpp"];
    assert_eq!(started(&sandbox), binding);
    // What was taken is what would have been made.
    let taken = packages(&sandbox, "one");
    std::fs::remove_dir_all(sandbox.path("cache/compile")).expect("removed");
    std::fs::remove_dir_all(sandbox.path("work/one/.kernelwright")).expect("removed");
    build(&sandbox, "one");
    assert_eq!(started(&sandbox).len(), 7);
    let own = packages(&sandbox, "one");
    assert!(taken.iter().all(|file| own.contains(file) || made.contains(file)));
    assert!(own.iter().all(|file| taken.contains(file)), "the bytes differ");
}

#[test]
fn a_changed_header_is_read_for_every_release() {
    let sandbox = shared("one", "");
    sandbox.write(OTHER, "#include \"scale.h\"\nint other() { return SCALE; }\n");
    assert!(reads_other(&sandbox));
    torch(&sandbox, "2.10");
    assert!(!reads_other(&sandbox));
    sandbox.write("work/one/plain/scale.h", "#define SCALE 5\n");
    assert!(reads_other(&sandbox));
    torch(&sandbox, "2.11");
    assert!(!reads_other(&sandbox), "made for the other one");
    sandbox.write("work/one/plain/vector", "#include_next <vector>\n");
    assert!(reads_other(&sandbox), "a new file may hide another");
}

const FLOAT: &str = "#include <float.h>\nint other() { return FLT_DIG; }\n";

const ASKS: &str = "#if __has_include(<torch/extra.h>)\nint one();\n#else\nint two();\n#endif\n";

fn has(sandbox: &Sandbox, release: &str, file: &str) {
    sandbox.write(&format!("torch-{release}/include/{file}"), "#define FLT_DIG 1\n");
}

#[test]
fn a_header_that_another_torch_hides_is_read_again() {
    let again = is_read_for_another_release;
    assert!(!again("neither", FLOAT, &|_| {}));
    assert!(again("the other", FLOAT, &|sandbox| has(sandbox, "2.10", "float.h")));
    let behind = FLOAT.replace("float.h", "cfloat");
    assert!(again("behind another", &behind, &|sandbox| has(sandbox, "2.10", "float.h")));
}

#[test]
fn a_header_that_this_torch_hides_is_read_again() {
    let again = is_read_for_another_release;
    assert!(again("this one", FLOAT, &|sandbox| has(sandbox, "2.11", "float.h")));
    let through = "#define HEADER <torch/torch.h>\n#include HEADER\nint other() { return TORCH_NUMBER; }\n";
    assert!(again("torch's header behind a macro", through, &|_| {}));
}

#[test]
fn what_asks_whether_torch_has_a_file_is_read_again() {
    let again = is_read_for_another_release;
    assert!(!again("neither", ASKS, &|_| {}));
    assert!(again("the other", ASKS, &|sandbox| has(sandbox, "2.10", "torch/extra.h")));
    assert!(again("this one", ASKS, &|sandbox| has(sandbox, "2.11", "torch/extra.h")));
}

#[test]
fn what_hides_its_question_is_read_again() {
    let again = is_read_for_another_release;
    let renamed = "#define HAS(file) __has_include(file)\n#if HAS(<torch/extra.h>)\nint other();\n#endif\n";
    assert!(again("by another name", renamed, &|_| {}));
    assert!(again("in a header of the project", "#include \"below.h\"\n", &|sandbox| {
        has(sandbox, "2.10", "torch/extra.h");
        sandbox.write("work/one/plain/below.h", ASKS);
    }));
}

/// A project for the stable ABI, whose command says which torch it is for.
fn stable(flags: &str, other: &str) -> Sandbox {
    let sandbox = shared("one", flags);
    let toml = sandbox.read("work/one/build.toml");
    let changed = toml.replace("[torch]\n", "[torch]\nminver = \"2.10\"\nstable-abi = \"2.10\"\n");
    sandbox.write("work/one/build.toml", &changed);
    sandbox.write(OTHER, other);
    sandbox
}

/// Whether `plain/other.cpp` is read for the stable ABI after it was for the full one.
fn is_read_for_another_abi(sandbox: &Sandbox) -> bool {
    assert!(reads_other(sandbox));
    sandbox.write("variant", "torch-stable-abi211-cpu-x86_64-linux");
    reads_other(sandbox)
}

#[test]
fn a_macro_that_says_which_torch_it_is_counts_where_it_is_read() {
    assert!(!is_read_for_another_abi(&stable("", "int other() { return 1; }\n")));
    for source in [
        "#if TORCH_TARGET_VERSION > 1\nint other() { return 1; }\n#endif\n",
        "#ifdef TORCH_TAR\\\nGET_VERSION\nint other() { return 1; }\n#endif\n",
        "#define CAT(a, b) a##b\n#if CAT(TORCH_TARGET, _VERSION) > 1\nint other() { return 1; }\n#endif\n",
        "#include \"../plain/reads.h\"\n",
    ] {
        let sandbox = stable("", source);
        sandbox.write("work/one/plain/reads.h", "#ifdef TORCH_TARGET_VERSION\nint other();\n#endif\n");
        assert!(is_read_for_another_abi(&sandbox), "{source}");
    }
}

#[test]
fn a_flag_that_says_more_about_torch_counts() {
    for flags in ["\"-DWHICH=TORCH_TARGET_VERSION\"", "\"-UTORCH_TARGET_VERSION\""] {
        let sandbox = stable(flags, "int other() { return 1; }\n");
        assert!(is_read_for_another_abi(&sandbox), "{flags}");
    }
}

#[test]
fn variants_of_one_run_wait_for_the_one_that_makes_it() {
    let sandbox = stable("", "int other() { return 1; }\n");
    let mut both = command(&sandbox, "one");
    both.args(["--variant", "torch-stable-abi211-cpu-x86_64-linux"]);
    let ended = finish(&mut both);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let expected = [
        "link",
        "link",
        "object plain/other.cpp",
        "object plain/plain.cpp",
        "object torch-ext/torch_binding.cpp",
        "text plain/other.cpp",
        "text plain/plain.cpp",
        "text torch-ext/torch_binding.cpp",
        "text torch-ext/torch_binding.cpp",
    ];
    assert_eq!(started(&sandbox), expected);
}

#[test]
fn flags_of_the_project_keep_units_apart() {
    let sandbox = shared("one", "");
    assert!(reads_other(&sandbox));
    torch(&sandbox, "2.10");
    project(&sandbox, "one", "\"-DMORE\"");
    assert!(reads_other(&sandbox), "a flag of the project");
    torch(&sandbox, "2.11");
    assert!(!reads_other(&sandbox));
    let folder = sandbox.path("torch-2.11/include").display().to_string();
    project(&sandbox, "one", &format!("\"-I{folder}/torch\""));
    assert!(reads_other(&sandbox));
    torch(&sandbox, "2.10");
    assert!(reads_other(&sandbox), "the project itself names a torch");
}
