//! `new`: what it writes, and what it refuses to touch.

use std::process::Command;

use super::sandbox::{Sandbox, finish, tree};

#[test]
fn writes_a_whole_project_that_check_accepts() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["new", "me/fast-norm", "--template", "rms-norm"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let files = tree(&sandbox.work().join("fast-norm"));
    for file in [
        ".gitignore",
        "CARD.md",
        "benchmarks/benchmark.py",
        "build.toml",
        "example.py",
        "fast_norm_cpu/rms_norm.cpp",
        "fast_norm_cuda/rms_norm.cuh",
        "fast_norm_cuda/rms_norm_launch.cpp",
        "flake.nix",
        "op.toml",
        "reference.py",
        "tests/test_fast_norm.py",
        "torch-ext/fast_norm/__init__.py",
        "torch-ext/torch_binding.cpp",
        "torch-ext/torch_binding.h",
    ] {
        assert!(files.iter().any(|there| there == file), "{file} is not in {files:?}");
    }
    assert!(made.stdout.contains("kernelwright make fast-norm"), "{}", made.stdout);
    let checked = sandbox.run(&["check", "fast-norm"]);
    assert_eq!((checked.code, checked.stdout.as_str()), (0, "no problems\n"), "{}", checked.stderr);
}

#[test]
fn every_template_keeps_builds_out_of_a_repository() {
    let sandbox = Sandbox::new();
    let listed = sandbox.run(&["templates", "--message-format", "json"]);
    let listed: serde_json::Value = serde_json::from_str(listed.stdout.lines().last().unwrap()).unwrap();
    let names: Vec<&str> =
        listed["templates"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let made = sandbox.run(&["new", &format!("me/{name}"), "--template", name, "--no-git"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        assert!(sandbox.read(&format!("work/{name}/.gitignore")).contains(".kernelwright/"), "{name}");
    }
}

#[test]
fn one_backend_leaves_the_code_of_the_others_away() {
    let sandbox = Sandbox::new();
    let project = sandbox.project("fast-norm", "cpu");
    assert!(tree(&project).iter().all(|file| !file.contains("cuda")), "{:?}", tree(&project));
    assert_eq!(sandbox.run(&["check", "fast-norm"]).code, 0);
}

#[test]
fn overwrites_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("work/fast-norm/op.toml", "mine\n");
    let made = sandbox.run(&["new", "me/fast-norm", "--template", "rms-norm"]);
    made.refused(12, &["scaffold::would_overwrite", "op.toml", "nothing was written"]);
    assert_eq!(tree(&sandbox.work()), ["fast-norm/op.toml"]);
    assert_eq!(sandbox.read("work/fast-norm/op.toml"), "mine\n");
}

#[test]
fn makes_a_repository_with_one_commit_and_none_inside_of_another() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&["new", "me/outer", "--template", "rms-norm"]).code, 0);
    let outer = sandbox.work().join("outer");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        finish(command.args(arguments).current_dir(&outer).env("HOME", sandbox.path("home")))
    };
    assert_eq!(git(&["rev-list", "--count", "HEAD"]).stdout, "1\n");
    assert_eq!(git(&["status", "--porcelain"]).stdout, "");
    let inner = sandbox.run(&["new", "me/inner", "outer/inner", "--template", "rms-norm"]);
    assert_eq!(inner.code, 0, "{}", inner.stderr);
    assert!(outer.join("inner/build.toml").is_file());
    assert!(!outer.join("inner/.git").exists());
}

#[test]
fn a_bad_name_is_a_usage_error_with_an_example() {
    let sandbox = Sandbox::new();
    for name in ["fast-norm", "me/Fast", "me/", "/fast", "me/../up", "a b/c"] {
        let made = sandbox.run(&["new", name, "--template", "rms-norm"]);
        made.refused(2, &["scaffold::bad_name", "me/rms-norm"]);
    }
    assert!(tree(&sandbox.work()).is_empty());
}

#[test]
fn without_a_terminal_a_missing_answer_is_named() {
    let sandbox = Sandbox::new();
    sandbox.run(&["new"]).refused(2, &["the kernel's name is missing", "kernelwright new OWNER/NAME"]);
    sandbox.run(&["new", "me/fast-norm"]).refused(2, &["the template is missing", "rms-norm"]);
}

#[test]
fn unknown_templates_and_backends_list_what_there_is() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["new", "me/k1", "--template", "rms-nrom"]);
    made.refused(12, &["template `rms-nrom` not found", "rms-norm"]);
    let made = sandbox.run(&["new", "me/k1", "--template", "rms-norm", "--backends", "tpu"]);
    made.refused(12, &["does not support the backend `tpu`", "cpu, cuda"]);
}

#[test]
fn a_binding_that_a_template_brings_is_for_its_own_framework() {
    let sandbox = Sandbox::new();
    let arguments = ["new", "me/k1", "--template", "rms-norm-strided", "--framework", "tvm-ffi"];
    sandbox.run(&arguments).refused(12, &["scaffold::unknown_framework", "does not support tvm-ffi"]);
    assert!(tree(&sandbox.work()).is_empty());
}

#[test]
fn says_what_it_wrote_as_json() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["new", "me/fast-norm", "--template", "rms-norm", "--message-format", "json"]);
    let result = made.event("result");
    assert_eq!((&result["command"], &result["template"]), (&"new".into(), &"rms-norm".into()));
    assert_eq!(result["framework"], "torch");
    let files: Vec<_> =
        result["files"].as_array().expect("a list").iter().filter_map(|file| file.as_str()).collect();
    let there = tree(&sandbox.work().join("fast-norm"));
    assert_eq!(files, there);
}

#[test]
fn holes_are_set_and_shown() {
    let sandbox = Sandbox::new();
    let made =
        sandbox.run(&["new", "me/my-glu", "--template", "swiglu", "--set", "bytes=16", "--set", "block=256"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let op = sandbox.read("work/my-glu/op.toml");
    let default = |name: &str| {
        let section = op.split_once(&format!("[tune.{name}]")).expect("a tunable").1;
        section.lines().find_map(|line| line.strip_prefix("default = ")).expect("a default").to_owned()
    };
    assert_eq!([default("bytes"), default("block"), default("unroll")], ["16", "256", "2"]);
    let source = sandbox.read("work/my-glu/my_glu_cuda/swiglu.cuh");
    assert!(source.contains("// hole: gate\n") && source.contains("// end of hole: gate\n"), "{source}");
    let shown = sandbox.run(&["templates", "swiglu"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    for words in ["gate: code", "> __device__ __forceinline__ float activated", "default 8, one of 4, 8, 16"]
    {
        assert!(shown.stdout.contains(words), "{words}\n{}", shown.stdout);
    }
    let facts = sandbox.run(&["templates", "swiglu", "--message-format", "json"]).event("result");
    let holes = facts["template"]["hole"].as_array().expect("a list");
    let gate = holes.iter().find(|hole| hole["name"] == "gate").expect("a hole");
    assert!(gate["default"].as_str().expect("code").contains("activated"), "{gate}");
    let bytes = holes.iter().find(|hole| hole["name"] == "bytes").expect("a hole");
    assert_eq!((&bytes["kind"], &bytes["default"]), (&"value".into(), &"8".into()));
}

#[test]
fn what_cannot_be_set_is_said_with_what_can() {
    let sandbox = Sandbox::new();
    let set = |setting: &str| sandbox.run(&["new", "me/my-glu", "--template", "swiglu", "--set", setting]);
    set("width=4").refused(12, &["scaffold::unknown_hole", "bytes, block, unroll, across, stream"]);
    set("bytes=5").refused(12, &["scaffold::bad_hole", "valid values: 4, 8, 16"]);
    set("gate=x").refused(12, &["scaffold::code_hole", "// hole: gate", "swiglu.cuh"]);
    set("bytes").refused(2, &["NAME=VALUE"]);
    assert!(tree(&sandbox.work()).is_empty());
}

#[test]
fn a_reference_that_is_no_file_is_told() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["new", "me/my-norm", "--from", "nowhere.py:norm"]);
    assert_ne!(made.code, 0);
    assert!(made.stderr.contains("nowhere.py"), "{}", made.stderr);
}

/// The program from end to end, with the managed Python of a cache.
#[test]
fn a_reference_chooses_its_template() {
    let Some(cache) = std::env::var_os("KERNELWRIGHT_TORCH_CACHE") else {
        eprintln!("skipped: KERNELWRIGHT_TORCH_CACHE names no cache with a managed Python");
        return;
    };
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("cache")).expect("a new folder");
    std::os::unix::fs::symlink(std::path::Path::new(&cache).join("python"), sandbox.path("cache/python"))
        .expect("a link");
    let text = "import torch\n\n\ndef gated(u, g):\n    return torch.nn.functional.silu(g) * u\n\n\n\
                def colder(x):\n    return torch.softmax(x / 1.5, -1)\n";
    sandbox.write("work/mine.py", text);
    let new = |name: &str, from: &str| {
        finish(sandbox.command(&["new", name, "--from", from, "--no-git"]).env_remove("KERNELWRIGHT_PYTHON"))
    };
    let made = new("me/my-glu", "mine.py:gated");
    assert_eq!(made.code, 0, "{}\n{}", made.stdout, made.stderr);
    for words in
        ["gated is swiglu", "your `g` is input[:, 0]", "your `u` is input[:, 1]", "from_reference.py"]
    {
        assert!(made.stdout.contains(words), "{words}\n{}", made.stdout);
    }
    assert_eq!(sandbox.read("work/my-glu/from_reference.py"), text);
    // What no template serves is translated, and a template that was asked for is not.
    let made = new("me/my-softmax", "mine.py:colder");
    assert_eq!(made.code, 0, "{}\n{}", made.stdout, made.stderr);
    for words in [
        "no template matches colder",
        "the nearest is softmax",
        "kernel 0: row reduction, reads x, writes out",
    ] {
        assert!(made.stdout.contains(words), "{words}\n{}", made.stdout);
    }
    let code = sandbox.read("work/my-softmax/my_softmax_cuda/colder.cuh");
    assert!(code.contains("// line 9: return torch.softmax(x / 1.5, -1)"), "{code}");
    let reference = sandbox.read("work/my-softmax/reference.py");
    assert!(
        reference.starts_with(text) && reference.contains("def colder_backward(grad_out, x):"),
        "{reference}"
    );
    assert!(sandbox.read("work/my-softmax/plan.md").contains("| 0 | row reduction | `x` | `out` |"));
    sandbox.run(&["check", "my-softmax"]);
    let one = ["new", "me/other", "--from", "mine.py:colder", "--template", "softmax", "--no-git"];
    let asked = finish(sandbox.command(&one).env_remove("KERNELWRIGHT_PYTHON"));
    asked.refused(12, &["scaffold::nothing_fits", "_softmax", "the nearest is softmax", "`finish` in"]);
    let words = ["scaffold::ambiguous_function", "gated (line 4), colder (line 8)", "--from mine.py:gated"];
    new("me/my-softmax", "mine.py").refused(12, &words);
    let words = ["scaffold::unknown_function", "does not define `gate`", "gated (line 4), colder (line 8)"];
    new("me/my-softmax", "mine.py:gate").refused(12, &words);
    for (text, words) in [
        (
            "x = 1\ndef f(x:\n    return x\n",
            ["scaffold::reference_syntax", "bad.py:2", "def f(x:"].as_slice(),
        ),
        (
            "import torch\nimport no_such_module\n",
            &[
                "scaffold::missing_module",
                "bad.py:2",
                "`no_such_module`",
                "-m pip install",
                "KERNELWRIGHT_PYTHON",
            ],
        ),
        ("\n\nx = 1 / 0\n", &["scaffold::reference_fails", "bad.py:3", "ZeroDivisionError", "__main__"]),
        ("x = 1\n", &["scaffold::unknown_function", "defines no function"]),
    ] {
        sandbox.write("work/bad.py", text);
        new("me/my-softmax", "bad.py").refused(12, words);
    }
    // What is neither served nor translated is refused, with the operator, its line and the next step.
    let text = "import torch\n\n\ndef ranked(x):\n    return torch.sort(x, -1)[0]\n";
    sandbox.write("work/ranked.py", text);
    let words =
        ["scaffold::untranslated", "`sort.default` in line 5", "torch.sort(x, -1)[0]", "left to PyTorch"];
    new("me/my-ranks", "ranked.py").refused(12, &words);
    // The operations around such an operator are translated; the operator stays a call of PyTorch.
    let text = "import torch\n\n\ndef among(x):\n    y = x * 2\n    return torch.sort(y, -1)[0] + y\n";
    sandbox.write("work/among.py", text);
    let divided = new("me/my-ranks", "among.py");
    assert_eq!(divided.code, 0, "{}{}", divided.stdout, divided.stderr);
    assert!(divided.stdout.contains("left to PyTorch: sort (line 6)"), "{}", divided.stdout);
    let text = "import torch\n\n\ndef grown(x):\n    x.add_(1)\n    return x * 2\n";
    sandbox.write("work/grown.py", text);
    new("me/my-growth", "grown.py").refused(12, &["scaffold::untranslated", "it changes `x`"]);
}

#[test]
fn make_refuses_a_function_before_it_writes_anything() {
    let sandbox = Sandbox::new();
    sandbox.run(&["make", "--from", "gone.py:norm"]).refused(1, &["gone.py"]);
    sandbox.write("work/mine.py", "def f(x):\n    return x + 1\n");
    sandbox.run(&["make", "--from", "mine.py:f"]).refused(2, &["scaffold::bad_name", "`f`"]);
    sandbox.run(&["make", "Bad", "--from", "mine.py:f"]).refused(2, &["scaffold::bad_name", "`Bad`"]);
    assert_eq!(tree(&sandbox.work()), ["mine.py"]);
}

#[test]
fn make_uses_the_project_of_a_function_that_is_there() {
    let sandbox = Sandbox::new();
    sandbox.project("my-norm", "cpu");
    sandbox.write("work/my-norm/build.toml", "[general]\n");
    // The error is about build.toml. That gone.py does not exist does not matter.
    let made = sandbox.run(&["make", "my-norm", "--from", "gone.py:norm"]);
    assert_ne!(made.code, 0);
    assert!(made.stderr.contains("my-norm already has a project"), "{}", made.stderr);
    assert!(made.stderr.contains("build.toml"), "{}", made.stderr);
    assert_eq!(sandbox.read("work/my-norm/build.toml"), "[general]\n");
}
