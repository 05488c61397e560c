//! `generate`: the host side follows from op.toml and from settings, and nothing else is touched.

use super::sandbox::{Sandbox, tree};

/// A project of the template `swiglu` in `work/glu`.
fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["new", "me/glu", "--template", "swiglu", "--no-git"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    sandbox
}

fn change(sandbox: &Sandbox, file: &str, from: &str, to: &str) {
    let text = sandbox.read(file);
    assert!(text.contains(from), "{file} has no {from}");
    sandbox.write(file, &text.replacen(from, to, 1));
}

#[test]
fn a_new_project_is_as_it_would_be_generated() {
    let sandbox = project();
    let done = sandbox.run(&["generate", "glu", "--check"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "already up to date\n"), "{}", done.stderr);
}

#[test]
fn what_changes_in_op_toml_is_written_and_nothing_else() {
    let sandbox = project();
    let before = tree(&sandbox.work().join("glu"));
    sandbox.write("work/glu/tests/test_glu.py", "# mine\n");
    change(&sandbox, "work/glu/op.toml", "description = \"The SiLU", "description = \"My SiLU");
    let launcher = sandbox.read("work/glu/glu_cuda/swiglu_launch.cpp");
    change(
        &sandbox,
        "work/glu/op.toml",
        "[tune.block]\nvalues = [64, 128, 256, 512, 1024]\ndefault = 128",
        "[tune.block]\nvalues = [64, 128, 256, 512, 1024]\ndefault = 256",
    );
    let stale = [
        "scaffold::stale",
        "glu_cuda/swiglu_launch.cpp",
        "glu_cuda/swiglu_instances_0.cu",
        "torch-ext/glu/__init__.py",
    ];
    sandbox.run(&["generate", "glu", "--check"]).refused(12, &stale);
    assert_eq!(sandbox.read("work/glu/glu_cuda/swiglu_launch.cpp"), launcher);
    let written = sandbox.run(&["generate", "glu", "--message-format", "json"]).event("result");
    let written: Vec<_> =
        written["written"].as_array().expect("a list").iter().filter_map(|it| it.as_str()).collect();
    assert!(
        written.contains(&"glu_cuda/swiglu_launch.cpp") && !written.contains(&"build.toml"),
        "{written:?}"
    );
    assert_ne!(sandbox.read("work/glu/glu_cuda/swiglu_launch.cpp"), launcher);
    assert!(sandbox.read("work/glu/torch-ext/glu/__init__.py").contains("My SiLU"));
    assert_eq!(sandbox.read("work/glu/tests/test_glu.py"), "# mine\n");
    assert_eq!(tree(&sandbox.work().join("glu")), before);
    assert_eq!(sandbox.run(&["generate", "glu", "--check"]).code, 0);
}

/// Settings with macros of their own have instances of their own, which build.toml lists; without the settings they go.
#[test]
fn settings_of_a_device_come_and_go() {
    let sandbox = project();
    let tuned = |source: &str| {
        format!(
            r#"kind = "settings"
format = 1
op = "swiglu"
device = "NVIDIA H200"
capability = "9.0"
multiprocessors = 132
source = "{source}"
op_toml = "{source}"

[[setting]]
workload = "rows-4096x14336"
date = "2026-11-22"
driver = "580.1"
compiler = "nvrtc 13.0"
protocol = 1
judged = 10
right = 10
seconds = 8e-5

[setting.dtypes]
T = "bf16"

[setting.axes]
hidden = 14336
rows = 4096

[setting.range]
hidden = [7168, 28672]
rows = [2048, 8192]

[setting.tuning]
across = 16
block = 512
bytes = 16
stream = {stream}
unroll = 4
"#,
            stream = !sandbox
                .read("work/glu/op.toml")
                .contains("[tune.stream]\nvalues = [true, false]\ndefault = true"),
        )
    };
    let zeros = "0".repeat(64);
    sandbox.write("work/glu/tuned/nvidia-h200.toml", &tuned(&zeros));
    let ignored = sandbox.run(&["generate", "glu"]);
    assert_eq!((ignored.code, ignored.stdout.as_str()), (0, "already up to date\n"), "{}", ignored.stderr);
    // The warning says what this source is.
    let words: String = ignored.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let here = words.split("here it is ").nth(1).and_then(|rest| rest.split(')').next()).expect("the digest");
    sandbox.write("work/glu/tuned/nvidia-h200.toml", &tuned(here));
    let done = sandbox.run(&["generate", "glu"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let other = "glu_cuda/swiglu_instances_1.cu";
    assert!(done.stdout.contains(&format!("written  {other}")), "{}", done.stdout);
    assert!(sandbox.read("work/glu/build.toml").contains(&format!("\"{other}\"")));
    let launcher = sandbox.read("work/glu/glu_cuda/swiglu_launch.cpp");
    assert!(launcher.contains("// NVIDIA H200") && launcher.contains("call.hidden >= 7168"), "{launcher}");
    // What was generated is no part of the source that settings are for.
    assert_eq!(sandbox.run(&["generate", "glu", "--check"]).code, 0);
    assert_eq!(sandbox.run(&["check", "glu"]).stdout, "no problems\n");
    std::fs::remove_file(sandbox.work().join("glu/tuned/nvidia-h200.toml")).expect("it is there");
    let done = sandbox.run(&["generate", "glu"]);
    assert!(done.stdout.contains(&format!("removed  {other}")), "{}", done.stdout);
    assert!(!sandbox.read("work/glu/build.toml").contains(other));
}

#[test]
fn a_host_side_that_somebody_wrote_is_left_alone() {
    let sandbox = Sandbox::new();
    let project = sandbox.project("fast-norm", "cpu,cuda");
    let before = tree(&project);
    sandbox
        .run(&["generate", "fast-norm"])
        .refused(12, &["scaffold::by_hand", "torch-ext/torch_binding.cpp"]);
    assert_eq!(tree(&project), before);
}

#[test]
fn what_generated_code_cannot_do_is_refused_by_name() {
    let sandbox = project();
    change(&sandbox, "work/glu/op.toml", "STREAM = \"stream\"", "STREAM = \"hidden\"");
    sandbox.run(&["generate", "glu"]).refused(12, &["scaffold::host", "`STREAM`", "which lengths decide"]);
    change(&sandbox, "work/glu/op.toml", "STREAM = \"hidden\"", "STREAM = \"stream\"");
    std::fs::remove_file(sandbox.work().join("glu/backward.toml")).expect("it is there");
    sandbox.run(&["generate", "glu"]).refused(12, &["scaffold::host", "[gradient]", "no backward.toml"]);
}

/// The way out that the error for a host side written by hand names.
#[test]
fn what_was_removed_is_generated_anew() {
    let sandbox = project();
    let before = sandbox.read("work/glu/torch-ext/torch_binding.cpp");
    std::fs::remove_file(sandbox.work().join("glu/torch-ext/torch_binding.cpp")).expect("it is there");
    let done = sandbox.run(&["generate", "glu"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, "written  torch-ext/torch_binding.cpp\n"),
        "{}",
        done.stderr
    );
    assert_eq!(sandbox.read("work/glu/torch-ext/torch_binding.cpp"), before);
}

#[test]
fn what_is_no_project_is_told_so() {
    let sandbox = project();
    sandbox.run(&["generate", "nowhere"]).refused(10, &["spec::no_project", "build.toml"]);
    sandbox.write("work/glu/build.toml", "[general]\nname = 3\n");
    sandbox.run(&["generate", "glu"]).refused(10, &["spec::"]);
}

/// `new --from` may put a person's file in the place of the reference; the gradients' formulas stay in the template's.
#[test]
fn a_gradient_that_is_promised_is_computed() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["new", "me/turn", "--template", "rope", "--no-git"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    change(&sandbox, "work/turn/op.toml", "inputs = [\"q\", \"k\"]", "inputs = [\"q\", \"k\", \"cos_sin\"]");
    sandbox.run(&["generate", "turn"]).refused(12, &["scaffold::host", "backward.toml", "`grad_cos_sin`"]);
}

#[test]
fn the_gradients_have_the_reference_that_backward_toml_names() {
    let sandbox = project();
    change(
        &sandbox,
        "work/glu/op.toml",
        "file = \"reference.py\"\nfunction = \"swiglu\"",
        "file = \"mine.py\"\nfunction = \"mine\"",
    );
    sandbox.write("work/glu/mine.py", "def mine(input):\n    return input\n");
    assert_eq!(sandbox.run(&["generate", "glu"]).code, 0);
    let package = sandbox.read("work/glu/torch-ext/glu/__init__.py");
    for line in
        ["from . import _gradients, _pytorch, layers\n", "= _pytorch.mine(", "= _gradients.swiglu_backward("]
    {
        assert!(package.contains(line), "{package}");
    }
    assert_eq!(sandbox.read("work/glu/torch-ext/glu/_pytorch.py"), sandbox.read("work/glu/mine.py"));
    assert_eq!(sandbox.read("work/glu/torch-ext/glu/_gradients.py"), sandbox.read("work/glu/reference.py"));
}

/// build.toml says which framework a project has, and that binding is written.
#[test]
fn a_project_for_tvm_ffi_has_that_binding() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["new", "me/glu", "--template", "swiglu", "--framework", "tvm-ffi", "--no-git"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let files = tree(&sandbox.work().join("glu"));
    assert!(files.iter().all(|file| !file.starts_with("torch-ext")), "{files:?}");
    assert_eq!(sandbox.run(&["check", "glu"]).stdout, "no problems\n");
    assert_eq!(sandbox.run(&["generate", "glu", "--check"]).stdout, "already up to date\n");
    change(&sandbox, "work/glu/op.toml", "description = \"The SiLU", "description = \"My SiLU");
    let stale = ["scaffold::stale", "tvm-ffi-ext/tvm_ffi_binding.cpp", "tvm-ffi-ext/glu/__init__.py"];
    sandbox.run(&["generate", "glu", "--check"]).refused(12, &stale);
    assert_eq!(sandbox.run(&["generate", "glu"]).code, 0);
    assert_eq!(tree(&sandbox.work().join("glu")), files);
    sandbox.write("work/glu/tvm-ffi-ext/tvm_ffi_binding.cpp", "// mine\n");
    sandbox
        .run(&["generate", "glu"])
        .refused(12, &["scaffold::by_hand", "remove tvm-ffi-ext/tvm_ffi_binding.cpp"]);
}

/// A header that a newer version of this program generates is listed in a build.toml of before.
#[test]
fn the_list_of_the_binding_follows() {
    let sandbox = project();
    change(&sandbox, "work/glu/build.toml", "    \"torch-ext/tensors.h\",\n", "");
    let done = sandbox.run(&["generate", "glu"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "written  build.toml\n"), "{}", done.stderr);
    assert_eq!(sandbox.run(&["check", "glu"]).stdout, "no problems\n");
    change(&sandbox, "work/glu/build.toml", "[torch]\nsrc =", "[torch]\ninclude =");
    sandbox.run(&["generate", "glu"]).refused(12, &["scaffold::no_section", "no [torch] with `src`"]);
    let text = sandbox.read("work/glu/build.toml");
    let before = text.split_once("[torch]").expect("the section").0;
    sandbox.write("work/glu/build.toml", &format!("{before}[torch-noarch]\n"));
    sandbox.run(&["generate", "glu"]).refused(12, &["scaffold::no_binding", "[torch-noarch]"]);
}

#[test]
fn a_project_for_the_processor_alone_needs_no_device_code() {
    let sandbox = Sandbox::new();
    let words = ["new", "me/glu", "--template", "swiglu", "--backends", "cpu", "--no-git"];
    let made = sandbox.run(&words);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let done = sandbox.run(&["generate", "glu", "--check"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "already up to date\n"), "{}", done.stderr);
}

/// The examples that are their templates, with settings of `tuned/` if there are some.
const GENERATED_EXAMPLES: [&str; 6] =
    ["add-rms-norm", "cross-entropy", "rms-norm", "rope", "softmax", "swiglu"];

/// What `new` writes into a flake, and what an example has there: it is built by the builder of its own checkout.
const IN_EXAMPLES: [(&str, &str); 2] = [
    (
        "  inputs.kernelwright.url = \"github:kernelwright/kernelwright\";\n",
        "  # The builder of this checkout; elsewhere it is \"github:kernelwright/kernelwright\".
  inputs.kernelwright.url = \"path:../..\";\n",
    ),
    (
        "  outputs =
    { self, kernelwright }:
    kernelwright.lib.genKernelFlakeOutputs {
      inherit self;
      path = ./.;
    };\n",
        "  # Output by output: Nix 2.26 must know these names before it reads an input that lies in the same checkout.
  outputs =
    { self, kernelwright }:
    {
      inherit
        (kernelwright.lib.genKernelFlakeOutputs {
          inherit self;
          path = ./.;
        })
        apps
        checks
        devShells
        formatter
        packages
        testShells
        variants
        ;
    };\n",
    ),
];

#[test]
fn flakes_of_examples_are_those_of_their_templates() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let sandbox = Sandbox::new();
    let mut seen = 0;
    for example in std::fs::read_dir(examples).expect("examples").flatten() {
        let Ok(there) = std::fs::read_to_string(example.path().join("flake.nix")) else { continue };
        let name = example.file_name().into_string().expect("a name");
        let made = sandbox.run(&["new", &format!("kernelwright/{name}"), "--template", &name, "--no-git"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        let mut flake = sandbox.read(&format!("work/{name}/flake.nix"));
        for (new, own) in IN_EXAMPLES {
            assert!(flake.contains(new), "{flake}");
            flake = flake.replace(new, own);
        }
        assert_eq!(flake, there, "examples/{name}/flake.nix");
        seen += 1;
    }
    assert!(seen > GENERATED_EXAMPLES.len());
}

#[test]
fn examples_are_what_their_templates_and_settings_give() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let sandbox = Sandbox::new();
    for name in GENERATED_EXAMPLES {
        let made = sandbox.run(&["new", &format!("kernelwright/{name}"), "--template", name, "--no-git"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        let tuned = std::fs::read_dir(examples.join(name).join("tuned"));
        for file in tuned.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(file.path()).expect("settings");
            let settings = format!("work/{name}/tuned/{}", file.file_name().to_string_lossy());
            sandbox.write(&settings, &text);
        }
        let done = sandbox.run(&["generate", name]);
        assert_eq!(done.code, 0, "{}", done.stderr);
        assert!(!done.stderr.contains("ignored"), "{}", done.stderr);
        let made = sandbox.work().join(name);
        for path in tree(&made) {
            let (new, there) =
                (std::fs::read(made.join(&path)), std::fs::read(examples.join(name).join(&path)));
            if path == "flake.nix" {
                continue;
            }
            let again = format!("new kernelwright/{name}, its tuned/, generate");
            assert_eq!(new.ok(), there.ok(), "examples/{name}/{path} differs; make it again: {again}");
        }
    }
}
