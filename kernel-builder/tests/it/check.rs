//! `check` and `variants`: problems with their places, for people and for programs.

use std::path::Path;

use super::sandbox::{Sandbox, finish};

/// A project whose build.toml has two mistakes of different kinds.
fn broken() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu,cuda");
    let text = sandbox.read("work/fast-norm/build.toml");
    let text = text
        .replace("cuda-capabilities", "cuda-capabilites")
        .replace("fast_norm_cpu/rms_norm.cpp", "fast_norm_cpu/gone.cpp");
    sandbox.write("work/fast-norm/build.toml", &text);
    sandbox
}

#[test]
fn tells_every_problem_with_its_place() {
    let checked = broken().run(&["check", "fast-norm"]);
    assert_eq!(checked.code, 10);
    for word in [
        "spec::unknown_key",
        "cuda-capabilites",
        "did you mean",
        "spec::source_missing",
        "gone.cpp",
        "build.toml:",
    ] {
        assert!(checked.stdout.contains(word), "`{word}` is not in:\n{}", checked.stdout);
    }
}

#[test]
fn tells_programs_the_same_with_lines_and_columns() {
    let sandbox = broken();
    let checked = sandbox.run(&["check", "fast-norm", "--message-format", "json"]);
    assert_eq!(checked.code, 10);
    let result = checked.event("result");
    assert_eq!(result["ok"], false);
    let problems = result["problems"].as_array().expect("a list");
    let problem =
        problems.iter().find(|problem| problem["code"] == "spec::unknown_key").expect("the unknown key");
    let line = problem["labels"][0]["line"].as_u64().expect("a line") as usize;
    let text = sandbox.read("work/fast-norm/build.toml");
    assert!(text.lines().nth(line - 1).expect("that line").contains("cuda-capabilites"), "{problem}");
    assert_eq!(problem["severity"], "error");
    assert_eq!(problem["labels"][0]["column"], 1);
}

#[test]
fn a_folder_that_is_no_project_is_told_so() {
    let sandbox = Sandbox::new();
    sandbox.run(&["check"]).refused(10, &["spec::no_project", "kernelwright new"]);
    sandbox.run(&["check", "nowhere"]).refused(10, &["spec::no_project", "nowhere"]);
    let checked = sandbox.run(&["build", "nowhere", "--message-format", "json"]);
    let error = checked.event("error");
    assert_eq!((&error["exit"], &error["code"]), (&10.into(), &"spec::no_project".into()));
    assert!(checked.stderr.is_empty(), "{}", checked.stderr);
}

#[test]
fn an_error_of_the_specification_stops_every_verb_that_builds() {
    let sandbox = broken();
    for verb in ["variants", "build", "verify", "bench", "package", "make"] {
        sandbox.run(&[verb, "fast-norm"]).refused(10, &["spec::unknown_key"]);
    }
}

#[test]
fn every_example_of_the_repository_is_sound() {
    let sandbox = Sandbox::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).expect("the folder of examples").flatten() {
        let Some(folder) = entry.path().to_str().map(str::to_owned) else { continue };
        if !entry.path().join("build.toml").is_file() {
            continue;
        }
        let checked = sandbox.run(&["check", &folder]);
        assert_eq!((checked.code, checked.stdout.as_str()), (0, "no problems\n"), "{folder}");
        assert_eq!(sandbox.run(&["variants", &folder]).code, 0, "{folder}");
        seen += 1;
    }
    assert!(seen > 0, "no example has a build.toml");
}

#[test]
fn variants_says_why_a_row_is_out() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let listed = sandbox.run(&["variants", "fast-norm", "--message-format", "json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let result = listed.event("result");
    let rows = result["variants"].as_array().expect("a list");
    let selected: Vec<_> =
        rows.iter().filter(|row| row["selected"] == true).map(|row| &row["variant"]).collect();
    assert_eq!(selected, [&"torch-stable-abi210-cpu-x86_64-linux"]);
    assert!(rows.iter().all(|row| row["why"].as_str().is_some_and(|why| !why.is_empty())), "{rows:?}");
}

#[test]
fn a_variant_that_does_not_fit_is_a_plan_error() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let built = sandbox.run(&["build", "fast-norm", "--variant", "torch-stable-abi210-cu130-x86_64-linux"]);
    built.refused(11, &["plan::unknown_variant", "torch-stable-abi210-cpu-x86_64-linux"]);
    sandbox.run(&["build", "fast-norm", "--backend", "cuda"]).refused(11, &["plan::nothing_selected"]);
}

/// A project with one warning (a repeated source) and nothing else.
fn doubtful() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let text = sandbox.read("work/fast-norm/build.toml");
    let (before, after) = text.split_once("\"fast_norm_cpu/rows.h\"").expect("the source");
    let again = "\"fast_norm_cpu/rows.h\", \"fast_norm_cpu/rows.h\"";
    sandbox.write("work/fast-norm/build.toml", &format!("{before}{again}{after}"));
    sandbox
}

#[test]
fn warnings_fail_when_they_are_denied() {
    let sandbox = doubtful();
    let checked = sandbox.run(&["check", "fast-norm"]);
    assert_eq!(checked.code, 0, "{}", checked.stdout);
    assert!(checked.stdout.ends_with("\n1 warning\n"), "{}", checked.stdout);
    let denied = sandbox.run(&["check", "fast-norm", "--deny", "warnings"]);
    assert_eq!(denied.code, 10);
    assert!(denied.stdout.ends_with("\n1 warning; warnings are denied\n"), "{}", denied.stdout);
    let json = sandbox.run(&["check", "fast-norm", "--deny", "warnings", "--message-format", "json"]);
    assert_eq!((json.code, &json.event("result")["ok"]), (10, &false.into()));
}

#[test]
fn notes_never_fail() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let text = sandbox.read("work/fast-norm/build.toml").replace("\"cpu\"]", "\"cpu\", \"xpu\"]");
    sandbox.write("work/fast-norm/build.toml", &text);
    let checked = sandbox.run(&["check", "fast-norm", "--deny", "warnings"]);
    assert_eq!(checked.code, 0, "{}", checked.stdout);
    assert!(checked.stdout.ends_with("\n1 note\n"), "{}", checked.stdout);
}

#[test]
fn short_is_one_line_a_problem() {
    let sandbox = broken();
    let checked = sandbox.run(&["check", "fast-norm", "--message-format", "short"]);
    assert_eq!(checked.code, 10);
    let lines: Vec<_> = checked.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{}", checked.stdout);
    for (line, code) in lines.iter().zip(["spec::unknown_key", "spec::source_missing"]) {
        let (place, rest) = line.split_once(": ").expect("a place");
        let place: Vec<_> = place.split(':').collect();
        assert_eq!((place.len(), place[0]), (3, "fast-norm/build.toml"), "{line}");
        assert!(place[1..].iter().all(|number| number.parse::<u32>().is_ok()), "{line}");
        assert!(rest.starts_with(&format!("error[{code}]: ")) && rest.contains("(help: "), "{line}");
    }
    let sound = doubtful().run(&["check", "fast-norm", "--message-format", "short"]);
    assert_eq!((sound.code, sound.stdout.lines().count()), (0, 1), "{}", sound.stdout);
}

#[test]
fn github_gets_annotations() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let text = sandbox
        .read("work/fast-norm/build.toml")
        .replace("backends = [\"cpu\"]", "backends = [\"cpu\", \"100%,:\"]");
    sandbox.write("work/fast-norm/build.toml", &text);
    let checked = sandbox.run(&["check", "fast-norm/", "--message-format", "github"]);
    assert_eq!((checked.code, checked.stderr.as_str()), (10, ""));
    let want = "::error file=fast-norm/build.toml,line=6,col=20,endLine=6,endColumn=28,title=spec%3A%3Abad_value::\
                `100%25,:` is not a backend%0Ahelp: valid values: cann, cpu, cuda, metal, neuron, rocm, tpu, xpu\n";
    assert_eq!(checked.stdout, want);
    let nothing = sandbox.run(&["check", "nowhere", "--message-format", "github"]);
    assert_eq!((nothing.code, nothing.stderr.as_str()), (10, ""));
    assert!(nothing.stdout.starts_with("::error title=spec%3A%3Ano_project::"), "{}", nothing.stdout);
}

#[test]
fn other_commands_refuse_the_formats_of_check() {
    for format in ["short", "github"] {
        Sandbox::new().run(&["build", "--message-format", format]).refused(2, &["only `check`"]);
    }
}

#[test]
fn the_folder_may_be_named_by_its_build_toml() {
    let sandbox = broken();
    let folder = sandbox.run(&["check", "fast-norm", "--message-format", "short"]);
    let file = sandbox.run(&["check", "fast-norm/build.toml", "--message-format", "short"]);
    assert_eq!((file.code, &file.stdout), (10, &folder.stdout));
    let here = finish(
        sandbox
            .command(&["check", "build.toml", "--message-format", "short"])
            .current_dir(sandbox.path("work/fast-norm")),
    );
    assert_eq!(here.stdout, folder.stdout.replace("fast-norm/build.toml", "build.toml"));
}

#[test]
fn what_cannot_be_read_is_told_and_nothing_hangs() {
    let sandbox = doubtful();
    let project = sandbox.path("work/fast-norm");
    // Links in a circle, and a source that never ends.
    std::os::unix::fs::symlink("..", project.join("fast_norm_cpu/up")).expect("a link");
    std::fs::remove_file(project.join("fast_norm_cpu/rows.h")).expect("a file");
    std::os::unix::fs::symlink("/dev/zero", project.join("fast_norm_cpu/rows.h")).expect("a link");
    let checked = sandbox.run(&["check", "fast-norm", "--message-format", "short"]);
    assert_eq!(checked.code, 10, "{}", checked.stdout);
    assert!(checked.stdout.contains("error[spec::unreadable_source]"), "{}", checked.stdout);

    std::fs::remove_file(project.join("build.toml")).expect("a file");
    std::os::unix::fs::symlink("/dev/zero", project.join("build.toml")).expect("a link");
    sandbox.run(&["check", "fast-norm"]).refused(10, &["spec::unreadable", "not a regular file"]);
    std::fs::remove_file(project.join("build.toml")).expect("a link");
    std::fs::write(project.join("build.toml"), b"# \xff\n").expect("a file");
    sandbox.run(&["check", "fast-norm"]).refused(10, &["spec::unreadable", "it is not UTF-8"]);
    std::fs::write(project.join("build.toml"), vec![b'#'; 2 << 20]).expect("a file");
    sandbox.run(&["check", "fast-norm"]).refused(10, &["spec::unreadable", "longer than 1048576 bytes"]);
}

#[test]
fn every_template_gives_a_sound_project() {
    let sandbox = Sandbox::new();
    let listed = sandbox.run(&["templates", "--message-format", "json"]).event("result");
    for template in listed["templates"].as_array().expect("a list") {
        let name = template["name"].as_str().expect("a name");
        let backends: Vec<&str> =
            template["backends"].as_array().expect("a list").iter().filter_map(|it| it.as_str()).collect();
        let all = backends.join(",");
        for chosen in backends.iter().copied().chain((backends.len() > 1).then_some(all.as_str())) {
            let named = format!("me/{name}-{}", chosen.replace(',', "-"));
            let made = sandbox.run(&["new", &named, "--template", name, "--backends", chosen, "--no-git"]);
            assert_eq!(made.code, 0, "{named}: {}", made.stderr);
            let checked = sandbox.run(&["check", &named["me/".len()..]]);
            assert_eq!((checked.code, checked.stdout.as_str()), (0, "no problems\n"), "{named}");
        }
    }
}
