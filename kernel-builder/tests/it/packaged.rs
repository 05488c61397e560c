//! What is published is clean and keeps its promises: secrets, strays, libraries that disturb each other, and what users of
//! the last publication count on.
//!
//! Owns: a bundle in `build/` as `package` leaves it. Never: loads one.

use std::path::Path;
use std::process::Command;

use super::sandbox::{Ended, Sandbox, finish};

pub(crate) const VARIANT: &str = "torch-stable-abi210-cpu-x86_64-linux";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const PACKAGE: &str = "work/fast-norm/build/torch-stable-abi210-cpu-x86_64-linux";
pub(crate) const INIT: &str =
    "from ._ops import ops\nfrom .norms import rms_norm, Norm\n__all__ = [\"rms_norm\", \"Norm\"]\n";
pub(crate) const NORMS: &str = "def rms_norm(x, weight, eps=1e-6):\n    return x\n\n\
                     class Norm:\n    def forward(self, x):\n        return x\n";
pub(crate) const SCHEMA: &str = "rms_norm(Tensor x, Tensor weight, float eps) -> Tensor";

pub(crate) fn packaged() -> Sandbox {
    let sandbox = Sandbox::new();
    package_in(&sandbox);
    sandbox
}

/// A project with its bundle.
pub(crate) fn package_in(sandbox: &Sandbox) {
    sandbox.project("fast-norm", "cpu");
    sandbox.write("work/fast-norm/build/CARD.md", "# fast-norm\n");
    bundle(sandbox, INIT, NORMS, SCHEMA, 1);
}

/// Writes the package's files anew, with a library that holds this schema.
pub(crate) fn bundle(sandbox: &Sandbox, init: &str, norms: &str, schema: &str, version: u64) {
    let metadata = format!(
        "{{\"name\": \"fast-norm\", \"id\": \"_k\", \"version\": {version}, \"backend\": {{\"type\": \"cpu\"}}}}\n"
    );
    sandbox.write(&format!("{PACKAGE}/metadata.json"), &metadata);
    sandbox.write(&format!("{PACKAGE}/__init__.py"), init);
    sandbox.write(&format!("{PACKAGE}/norms.py"), norms);
    let toml = sandbox.read("work/fast-norm/build.toml");
    let line = toml.lines().find(|line| line.starts_with("version = ")).expect("a version");
    sandbox.write("work/fast-norm/build.toml", &toml.replace(line, &format!("version = {version}")));
    let source = format!(
        "int PyInit__k(void) {{ return 0; }}\nconst char *schemas[] = {{\"usage: f(x)\", \"{schema}\"}};\n"
    );
    let library = sandbox.path(&format!("{PACKAGE}/_k.abi3.so"));
    library_of(sandbox, &source, &library);
}

pub(crate) fn library_of(sandbox: &Sandbox, source: &str, library: &Path) {
    sandbox.write("k.c", source);
    let script = sandbox.path("k.map");
    std::fs::write(&script, "{ global: PyInit_*; shared_*; local: *; };\n").expect("a script");
    let mut line = Command::new("cc");
    // As kernels are compiled: the linker merges texts.
    line.args(["-shared", "-fPIC", "-nostdlib", "-O2"]).arg(sandbox.path("k.c")).arg("-o").arg(library);
    line.arg(format!("-Wl,--version-script={}", script.display()));
    assert!(line.status().expect("the system's compiler").success());
}

pub(crate) fn publish(sandbox: &Sandbox) -> Ended {
    sandbox.run(&["publish", "fast-norm", "--to", "dist"])
}

#[test]
fn a_secret_is_told_by_its_place_and_never_shown() {
    let sandbox = packaged();
    let token = format!("hf_{}", "aB3dE5gH7j".repeat(4));
    sandbox.write(&format!("{PACKAGE}/norms.py"), &format!("{NORMS}\nTOKEN = \"{token}\"\n"));
    let refused = publish(&sandbox);
    refused.refused(17, &["package::secret", "norms.py:8: a Hugging Face token", "revoked"]);
    assert!(!refused.stderr.contains(&token) && !sandbox.path("work/dist").exists());
    // The twin: the same words, without a token behind them.
    sandbox.write(&format!("{PACKAGE}/norms.py"), &format!("{NORMS}\nTOKEN = \"hf_your_token\"\n"));
    assert_eq!(publish(&sandbox).code, 0);
    // In the data of a library, and beside the variants.
    let source = format!("int PyInit__k(void) {{ return 0; }}\nconst char *token = \"{token}\";\n");
    library_of(&sandbox, &source, &sandbox.path(&format!("{PACKAGE}/_k.abi3.so")));
    publish(&sandbox).refused(17, &["package::secret", "_k.abi3.so"]);
    bundle(&sandbox, INIT, NORMS, SCHEMA, 1);
    sandbox.write("work/fast-norm/benchmarks/more.py", &format!("token = '{token}'\n"));
    publish(&sandbox).refused(17, &["package::secret", "benchmarks/more.py:1"]);
}

/// A version that was raised afterwards is not that of the package, and opens no way round what users count on.
#[test]
fn a_bundle_of_another_version_is_not_published() {
    let sandbox = packaged();
    let toml = sandbox.read("work/fast-norm/build.toml");
    sandbox.write("work/fast-norm/build.toml", &toml.replace("version = 1", "version = 2"));
    publish(&sandbox).refused(17, &["package::stale", "fast-norm 1", "fast-norm 2"]);
    sandbox.write("work/fast-norm/build.toml", &toml);
    assert_eq!(publish(&sandbox).code, 0);
}

#[test]
fn what_tools_leave_behind_is_told_all_at_once() {
    let sandbox = packaged();
    for name in [".env", "norms.py~", ".norms.py.swp", "norms.pyc", "server.pem"] {
        sandbox.write(&format!("{PACKAGE}/{name}"), "x\n");
    }
    let words = ["package::stray", ".env", "norms.py~", ".norms.py.swp", "norms.pyc", "server.pem"];
    publish(&sandbox).refused(17, &words);
    for name in [".env", "norms.py~", ".norms.py.swp", "norms.pyc", "server.pem"] {
        std::fs::remove_file(sandbox.path(&format!("{PACKAGE}/{name}"))).expect("a file");
    }
    sandbox.write(&format!("{PACKAGE}/metadata.json.sigstore"), "{}\n");
    sandbox.write(&format!("{PACKAGE}/environment.py"), "x = 1\n");
    assert_eq!(publish(&sandbox).code, 0, "{}", publish(&sandbox).stderr);
}

#[test]
fn variants_that_share_a_name_of_the_process_are_refused() {
    let sandbox = packaged();
    let other = "work/fast-norm/build/torch-stable-abi210-cu130-x86_64-linux";
    sandbox.write(
        &format!("{other}/metadata.json"),
        "{\"name\": \"fast-norm\", \"backend\": {\"type\": \"cuda\"}}\n",
    );
    sandbox.write(&format!("{other}/__init__.py"), INIT);
    let library = sandbox.path(&format!("{other}/_o.abi3.so"));
    let shared = "int shared_state(void) { return 1; }\n";
    let entry = |name: &str| format!("int PyInit_{name}(void) {{ return 0; }}\n");
    library_of(&sandbox, &(entry("_o") + shared), &library);
    assert_eq!(publish(&sandbox).code, 0);
    library_of(&sandbox, &(entry("_k") + shared), &sandbox.path(&format!("{PACKAGE}/_k.abi3.so")));
    publish(&sandbox).refused(17, &["verify::clash", "both export `shared_state`"]);
}

#[test]
fn a_break_without_a_new_version_is_refused_with_what_changed() {
    let sandbox = packaged();
    assert_eq!(publish(&sandbox).code, 0);
    // More is no break.
    let more = NORMS.replace("eps=1e-6", "eps=1e-6, out=None");
    let added = INIT.replace("[\"rms_norm\", ", "[\"rms_norm\", \"layer_norm\", ");
    let schema = SCHEMA.replace("float eps", "float eps, *, int k=1");
    bundle(&sandbox, &added, &format!("{more}\ndef layer_norm(x):\n    return x\n"), &schema, 1);
    let sent = publish(&sandbox);
    assert_eq!(sent.code, 0, "{}", sent.stderr);

    for (init, norms, schema, words) in [
        (INIT, more.as_str(), schema.as_str(), "`layer_norm` is gone"),
        (added.as_str(), NORMS, schema.as_str(), "`rms_norm` takes no `out` any more"),
        (added.as_str(), more.as_str(), SCHEMA, "the operator `rms_norm` takes other arguments"),
        (added.as_str(), more.as_str(), "other(Tensor x) -> Tensor", "the operator `rms_norm` is gone"),
    ] {
        bundle(&sandbox, init, &format!("{norms}\ndef layer_norm(x):\n    return x\n"), schema, 1);
        publish(&sandbox).refused(18, &["publish::api_break", words, "version = 2"]);
        assert!(sandbox.read(&format!("work/dist/build/{VARIANT}/__init__.py")).contains("layer_norm"));
    }
    // An operator whose text another one's ends with is still there; compilers put long texts at places of eight.
    let source = format!(
        "int PyInit__k(void) {{ return 0; }}\nconst char *schemas[] = {{\"{schema}\", \"stacked_{schema}\"}};\n"
    );
    bundle(&sandbox, &added, &format!("{more}\ndef layer_norm(x):\n    return x\n"), &schema, 1);
    let library = sandbox.path(&format!("{PACKAGE}/_k.abi3.so"));
    library_of(&sandbox, &source, &library);
    let bytes = std::fs::read(&library).expect("a library");
    let texts = bytes.windows(schema.len()).filter(|text| *text == schema.as_bytes()).count();
    assert_eq!(texts, 1, "the linker kept both texts, so nothing was tried");
    let sent = publish(&sandbox);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    // The twin: the same change with a new version.
    bundle(&sandbox, INIT, NORMS, SCHEMA, 2);
    let sent = publish(&sandbox);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(sent.stderr.contains("changed since version 1") && sent.stderr.contains("`layer_norm` is gone"));
}

/// Each module is read once, however many ways lead to it.
#[test]
fn modules_that_import_each_other_are_read() {
    let sandbox = packaged();
    let init = format!("{INIT}from .m0 import f0\n__all__ += [\"f0\"]\n");
    let modules = |arguments: &str| {
        for one in 0..14 {
            let imports = (0..14)
                .filter(|other| *other != one)
                .map(|other| format!("from .m{other} import f{other}\n"));
            let text = format!("{}def f{one}({arguments}):\n    return x\n", imports.collect::<String>());
            sandbox.write(&format!("{PACKAGE}/m{one}.py"), &text);
        }
    };
    modules("x");
    bundle(&sandbox, &init, NORMS, SCHEMA, 1);
    assert_eq!(publish(&sandbox).code, 0);
    modules("x, y=1");
    let sent = publish(&sandbox);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    modules("x, /, y=1");
    publish(&sandbox).refused(18, &["publish::api_break", "`f0` takes `x` as a positional argument only"]);
}

#[test]
fn a_published_variant_that_is_damaged_is_told() {
    let sandbox = packaged();
    assert_eq!(publish(&sandbox).code, 0);
    sandbox.write(&format!("work/dist/build/{VARIANT}/metadata.json"), "{\"name\": ");
    let sent = publish(&sandbox);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(
        sent.stderr.contains("metadata.json is damaged: this variant was not compared"),
        "{}",
        sent.stderr
    );
}

#[test]
fn python_that_cannot_be_parsed_is_told_and_never_run() {
    let sandbox = packaged();
    let mark = sandbox.path("ran");
    let init = format!("open({:?}, 'w')\n{INIT}", mark.display().to_string());
    bundle(&sandbox, &init, NORMS, SCHEMA, 1);
    assert_eq!(publish(&sandbox).code, 0);
    bundle(&sandbox, &format!("{init}\nx = 1\n"), NORMS, SCHEMA, 1);
    assert_eq!(publish(&sandbox).code, 0);
    assert!(!mark.exists(), "the package was imported");
    bundle(&sandbox, "def broken(:\n", NORMS, SCHEMA, 1);
    publish(&sandbox).refused(18, &["publish::unread_api", "__init__.py"]);
}

/// A published kernel of Python alone in `work/dist`, made of what `build` makes of its sources.
fn published() -> Sandbox {
    let sandbox = Sandbox::new();
    let toml = "[general]\nname = \"plus-one\"\nversion = 1\nedition = 5\nlicense = \"Apache-2.0\"\n\
                backends = [\"cpu\"]\n\n[torch-noarch]\n";
    sandbox.write("work/plus-one/build.toml", toml);
    sandbox.write("work/plus-one/torch-ext/plus_one/__init__.py", "from ._ops import ops\nx = 1\n");
    assert_eq!(sandbox.run(&["build", "plus-one"]).code, 0);
    let from = "plus-one/.kernelwright/artifacts";
    let mut layout = sandbox.command(&["layout", "plus-one", "--from", from, "--to", "dist/build"]);
    let laid = finish(layout.env("KERNELWRIGHT_COMMIT", COMMIT));
    assert_eq!(laid.code, 0, "{}", laid.stderr);
    sandbox
}

fn verify_build(sandbox: &Sandbox) -> Ended {
    sandbox.run(&["verify-build", "dist", "--source", "plus-one", "--message-format", "json"])
}

#[test]
fn a_publication_is_built_again_and_a_changed_byte_is_found() {
    let sandbox = published();
    let same = verify_build(&sandbox);
    assert_eq!(same.code, 0, "{}", same.stdout);
    let result = same.event("result");
    assert_eq!((&result["ok"], &result["variants"][0]["same"]), (&true.into(), &true.into()), "{result}");
    // The commit is another one, which is told and is no difference of bytes.
    assert!(same.events().iter().any(|event| event["event"] == "note" && event.to_string().contains(COMMIT)));

    let init = "work/dist/build/torch-cpu/__init__.py";
    let text = sandbox.read(init);
    sandbox.write(init, &text.replace("x = 1", "x = 2"));
    let differs = verify_build(&sandbox);
    assert_eq!((differs.code, &differs.event("error")["code"]), (17, &"rebuild::differs".into()));
    assert!(
        differs.event("error")["message"]
            .to_string()
            .contains("__init__.py differs from a build of its sources: line 2")
    );
    sandbox.write(init, &text);

    sandbox.write("work/dist/build/torch-cpu/more.py", "y = 1\n");
    let more = verify_build(&sandbox).event("error");
    assert!(more["message"].to_string().contains("more.py is published, but not built"), "{more}");
    std::fs::remove_file(sandbox.path("work/dist/build/torch-cpu/more.py")).expect("a file");
    // Python would run it in place of the file beside it, which is the same.
    sandbox.write("work/dist/build/torch-cpu/__pycache__/__init__.cpython-312.pyc", "x");
    let cache = verify_build(&sandbox).event("error");
    assert!(
        cache["message"].to_string().contains("__init__.cpython-312.pyc is published, but not"),
        "{cache}"
    );
    std::fs::remove_dir_all(sandbox.path("work/dist/build/torch-cpu/__pycache__")).expect("a folder");

    // A digest that the files do not have: clients would refuse them, or believe others.
    let metadata = sandbox.read("work/dist/build/torch-cpu/metadata.json");
    let at = metadata.find("\"__init__.py\": \"").expect("a digest") + "\"__init__.py\": \"".len();
    let forged = format!("{}AAAA{}", &metadata[..at], &metadata[at + 4..]);
    sandbox.write("work/dist/build/torch-cpu/metadata.json", &forged);
    let told = verify_build(&sandbox).event("error");
    assert!(
        told["message"].to_string().contains("metadata.json differs from a build of its sources"),
        "{told}"
    );

    // Another program is told as such, and not as other sources.
    let own = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    let older = metadata.replace(&own, "\"version\": \"0.0.1\"");
    sandbox.write("work/dist/build/torch-cpu/metadata.json", &older);
    let told = verify_build(&sandbox).event("error");
    assert!(told["help"].to_string().contains("it was built by kernelwright 0.0.1"), "{told}");
}

#[test]
fn what_cannot_be_built_again_is_told() {
    let sandbox = published();
    sandbox.run(&["verify-build", "nowhere", "--source", "plus-one"]).refused(17, &["rebuild::nothing"]);
    sandbox
        .run(&[
            "verify-build",
            "dist",
            "--source",
            "plus-one",
            "--variant",
            "torch-cpu",
            "--variant",
            "torch-cuda",
        ])
        .refused(17, &["rebuild::nothing", "has no variant torch-cuda"]);
    let toml = sandbox.read("work/plus-one/build.toml");
    sandbox.write("work/plus-one/build.toml", &toml.replace("version = 1", "version = 2"));
    let other = sandbox.run(&["verify-build", "dist", "--source", "plus-one"]);
    other.refused(10, &["rebuild::other_kernel", "plus-one 1", "plus-one 2"]);
    sandbox.write("work/plus-one/build.toml", &toml);
    std::fs::rename(
        sandbox.path("work/dist/build/torch-cpu"),
        sandbox.path("work/dist/build/torch-stable-abi210-cpu-aarch64-darwin"),
    )
    .expect("a folder");
    let elsewhere = sandbox.run(&["verify-build", "dist", "--source", "plus-one"]);
    elsewhere.refused(11, &["rebuild::elsewhere"]);
}
