//! Building for a builder that only executes: `lock`, `build --to`, `layout`, with fake compilers.

use super::build_fakes::{COMPLAINS, GOOD, VARIANT, build, compiler, fakes};
use super::sandbox::{Sandbox, finish, tree};

/// Another variant that the sources can serve.
const FULL: &str = "torch210-cxx11-cpu-x86_64-linux";

#[test]
fn a_build_elsewhere_leaves_the_project_as_it_is() {
    let sandbox = fakes(GOOD);
    let project = sandbox.path("work/fast-norm");
    let before = tree(&project);
    let to = sandbox.path("out");
    let built = build(&sandbox, &["--to", to.to_str().expect("a path")]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    assert_eq!(tree(&project), before);
    let made = tree(&to);
    assert!(made.contains(&format!("{VARIANT}.json")), "{made:?}");
    assert!(made.contains(&format!("{VARIANT}/_ops.py")), "{made:?}");
    // Two builds of the same are the same, so nothing in them says where they were made.
    let again = sandbox.path("again");
    assert_eq!(build(&sandbox, &["--to", again.to_str().expect("a path")]).code, 0);
    for file in &made {
        let [one, other] = [&to, &again].map(|folder| std::fs::read(folder.join(file)).expect("a file"));
        assert_eq!(one, other, "{file}");
    }
}

#[test]
fn what_fails_elsewhere_leaves_nothing() {
    let sandbox = fakes(COMPLAINS);
    let to = sandbox.path("out");
    build(&sandbox, &["--to", to.to_str().expect("a path")]).refused(14, &["compile::unit", "warp"]);
    assert!(!to.exists());
}

/// nixpkgs' linker writes RPATHs unless this variable says otherwise, which nix/kernel.nix sets.
#[test]
fn a_linker_of_nixpkgs_is_told_to_write_no_search_path() {
    let sandbox = fakes(GOOD);
    let wrapper = "make_library '' \"$([ \"${NIX_DONT_SET_RPATH_x86_64_unknown_linux_gnu:-}\" = 1 ] || \
                   echo -Wl,-rpath,/nix/store/lib)\"";
    compiler(&sandbox, GOOD, wrapper);
    let build = |set: &str| {
        let mut line = sandbox.command(&["build", "fast-norm", "--toolchain", "system"]);
        finish(line.env("NIX_DONT_SET_RPATH_x86_64_unknown_linux_gnu", set))
    };
    build("0").refused(15, &["verify::search_paths", "/nix/store/lib"]);
    std::fs::remove_dir_all(sandbox.path("work/fast-norm/.kernelwright")).expect("a build");
    std::fs::remove_dir_all(sandbox.path("cache")).expect("a cache");
    let built = build("1");
    assert_eq!(built.code, 0, "{}", built.stderr);
}

#[test]
fn a_layout_has_metadata_and_no_card() {
    let sandbox = fakes(GOOD);
    assert_eq!(build(&sandbox, &["--to", "../out"]).code, 0);
    let commit = "0123456789012345678901234567890123456789";
    let layout = |more: &[&str], said: &str| {
        let arguments: Vec<&str> =
            ["layout", "fast-norm", "--from", "../out"].iter().chain(more).copied().collect();
        finish(sandbox.command(&arguments).env("KERNELWRIGHT_COMMIT", said))
    };
    layout(&["--from", "../nowhere", "--to", "../hub"], commit)
        .refused(17, &["package::no_build", "nowhere"]);
    another(&sandbox, "torch-cpu");
    layout(&["--alone", "--from", "../other", "--to", "../hub"], commit)
        .refused(17, &["package::not_alone", "torch-cpu"]);
    assert!(!sandbox.path("hub").exists());
    layout(&["--to", "../hub"], "c0ffee").refused(2, &["base::bad_commit", "`c0ffee`"]);
    let laid = layout(&["--to", "../hub"], commit);
    assert_eq!(laid.code, 0, "{}", laid.stderr);
    let files = tree(&sandbox.path("hub"));
    assert!(files.contains(&format!("{VARIANT}/metadata.json")), "{files:?}");
    assert!(
        !files.iter().any(|file| file.contains("CARD") || file == &format!("{VARIANT}.json")),
        "{files:?}"
    );
    let origin = |text: &str| {
        let metadata: serde_json::Value = serde_json::from_str(text).expect("metadata");
        (
            metadata["provenance"]["kernel"]["commit"].clone(),
            metadata["provenance"]["kernel"]["dirty"].clone(),
        )
    };
    let text = sandbox.read(&format!("hub/{VARIANT}/metadata.json"));
    assert_eq!(origin(&text), (commit.into(), false.into()));
    // Alone, and of a tree that differs from the commit; a folder that is named twice is one.
    assert_eq!(
        layout(&["--alone", "--from", "../out", "--to", "../one"], &format!("{commit}-dirty")).code,
        0
    );
    assert_eq!(origin(&sandbox.read("one/metadata.json")), (commit.into(), true.into()));
}

/// The build in `out` as that of another variant, in `other`.
fn another(sandbox: &Sandbox, variant: &str) {
    for file in tree(&sandbox.path("out")) {
        let to = sandbox.path("other").join(file.replace(VARIANT, variant));
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        std::fs::copy(sandbox.path("out").join(&file), &to).expect("a copy");
    }
    let record = sandbox.read(&format!("other/{variant}.json"));
    sandbox.write(&format!("other/{variant}.json"), &record.replace(VARIANT, variant));
}

#[test]
fn a_damaged_build_is_told_and_never_left_out() {
    let sandbox = fakes(GOOD);
    assert_eq!(build(&sandbox, &["--to", "../out"]).code, 0);
    another(&sandbox, "torch-cpu");
    let layout =
        || sandbox.run(&["layout", "fast-norm", "--from", "../out", "--from", "../other", "--to", "../hub"]);
    let ops = sandbox.read("other/torch-cpu/_ops.py");
    let record = sandbox.read("other/torch-cpu.json");
    let told = |words: &[&str]| {
        layout().refused(17, &[&["package::damaged_build", "torch-cpu"], words].concat());
        assert!(!sandbox.path("hub").exists());
    };
    // A changed file, a description that is cut short, and none.
    sandbox.write("other/torch-cpu/_ops.py", &format!("{ops}\n"));
    told(&["other"]);
    sandbox.write("other/torch-cpu/_ops.py", &ops);
    sandbox.write("other/torch-cpu.json", &record[..record.len() / 2]);
    told(&[]);
    std::fs::remove_file(sandbox.path("other/torch-cpu.json")).expect("a file");
    told(&[]);
    // Another build of the same variant.
    let text = sandbox.read(&format!("out/{VARIANT}.json")).replace(VARIANT, "torch-cpu");
    sandbox.write("other/torch-cpu.json", &text);
    another(&sandbox, VARIANT);
    sandbox.write("work/fast-norm/fast_norm_cpu/rms_norm.cpp", "int changed;\n");
    sandbox.write("work/fast-norm/torch-ext/fast_norm/more.py", "x = 1\n");
    assert_eq!(build(&sandbox, &["--to", "../later"]).code, 0);
    sandbox
        .run(&["layout", "fast-norm", "--from", "../out", "--from", "../later", "--to", "../hub"])
        .refused(17, &["package::two_builds", VARIANT]);
    assert_eq!(layout().code, 0, "{}", layout().stderr);
}

/// What is not this program's to replace is left as it is.
#[test]
fn a_folder_that_holds_something_is_not_replaced() {
    let sandbox = fakes(GOOD);
    sandbox.write("home/thesis.txt", "years of work");
    assert_eq!(build(&sandbox, &["--to", "../out"]).code, 0);
    build(&sandbox, &["--to", "../home"]).refused(2, &["base::occupied", "home"]);
    sandbox
        .run(&["layout", "fast-norm", "--from", "../out", "--to", "../home"])
        .refused(2, &["base::occupied", "home"]);
    sandbox
        .run(&["toolchain", "export", "--only", "torch-1", "--to", "../home", "fast-norm"])
        .refused(2, &["base::occupied", "home"]);
    assert_eq!(sandbox.read("home/thesis.txt"), "years of work");
    std::fs::create_dir(sandbox.path("empty")).expect("a folder");
    assert_eq!(build(&sandbox, &["--to", "../empty"]).code, 0);
}

#[test]
fn a_build_for_a_newer_torch_is_found_without_options() {
    const NEWER: &str = "torch-stable-abi211-cpu-x86_64-linux";
    let sandbox = fakes(GOOD);
    assert_eq!(build(&sandbox, &[]).code, 0);
    // As if it had been made for another torch.
    let artifacts = sandbox.path("work/fast-norm/.kernelwright/artifacts");
    let record = sandbox.read(&format!("work/fast-norm/.kernelwright/artifacts/{VARIANT}.json"));
    std::fs::write(artifacts.join(format!("{NEWER}.json")), record.replace(VARIANT, NEWER))
        .expect("a record");
    std::fs::remove_file(artifacts.join(format!("{VARIANT}.json"))).expect("a record");
    std::fs::rename(artifacts.join(VARIANT), artifacts.join(NEWER)).expect("a folder");
    for options in [&[][..], &["--selector", "torch:2.11"], &["--backend", "cpu"]] {
        let found = build(&sandbox, &[&["--prebuilt", "--message-format", "json"], options].concat());
        assert_eq!(found.code, 0, "{}", found.stderr);
        assert_eq!(found.event("result")["variants"][0]["variant"], NEWER);
    }
    // A variant that is named must have a build. The message lists the builds that exist.
    build(&sandbox, &["--prebuilt", "--variant", VARIANT]).refused(11, &["plan::not_built", VARIANT, NEWER]);
}

#[test]
fn a_damaged_build_of_the_project_is_told() {
    let sandbox = fakes(GOOD);
    assert_eq!(build(&sandbox, &[]).code, 0);
    assert_eq!(build(&sandbox, &["--prebuilt"]).code, 0);
    let named = build(&sandbox, &["--prebuilt", "--variant", VARIANT, "--variant", FULL]);
    named.refused(11, &["plan::not_built", FULL]);
    assert!(!named.stderr.contains(&format!("no build of {VARIANT}")), "{}", named.stderr);
    sandbox.write(&format!("work/fast-norm/.kernelwright/artifacts/{VARIANT}/_ops.py"), "x = 1\n");
    build(&sandbox, &["--prebuilt"]).refused(11, &["plan::damaged_build", VARIANT]);
}

#[test]
fn a_lock_that_lists_other_variants_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let check = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["lock", "--check", "fast-norm", "--variant", VARIANT].iter().chain(more).copied().collect();
        sandbox.run(&arguments)
    };
    check(&[]).refused(11, &["plan::stale_lock", "missing", VARIANT]);
    let lock = |id: &str| format!("format = 1\n\n[[variant]]\nid = \"{id}\"\nwheels = []\n");
    sandbox.write("work/fast-norm/kernelwright.lock", &lock(VARIANT));
    assert_eq!(check(&[]).code, 0);
    sandbox.write("work/fast-norm/kernelwright.lock", &lock("torch999-cxx11-cpu-x86_64-linux"));
    check(&[]).refused(11, &["plan::stale_lock", "missing", "unexpected torch999-cxx11-cpu"]);
    let fewer = || sandbox.run(&["lock", "--check", "--fewer", "fast-norm"]);
    fewer().refused(11, &["unexpected torch999-cxx11-cpu"]);
    sandbox.write("work/fast-norm/kernelwright.lock", &lock(VARIANT));
    assert_eq!(fewer().code, 0);
    sandbox.write("work/fast-norm/kernelwright.lock", "format = 1\nvariants = 3\n");
    check(&[]).refused(13, &["toolchain::bad_lock"]);
}

#[test]
fn what_the_lock_lacks_is_not_exported() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let export = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["toolchain", "export", "--to", "../trees", "fast-norm"].iter().chain(more).copied().collect();
        sandbox.run(&arguments)
    };
    let empty = sandbox.run(&["toolchain", "export", "--to", "../trees", "--lock", "fast-norm/none.lock"]);
    empty.refused(13, &["toolchain::not_in_lock", "wheel for this kind of machine", "kernelwright lock"]);
    export(&["--only", "torch-1-2"]).refused(13, &["toolchain::not_in_lock", "torch-1-2"]);
    export(&["--variant", VARIANT]).refused(13, &["toolchain::not_in_lock", VARIANT]);
}
