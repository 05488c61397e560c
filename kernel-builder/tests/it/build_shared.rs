//! What is compiled once and what again, with the machine's own g++ behind a script that notes each start.
//!
//! PyTorch is a folder with one header, of any release that a fake Python says it is.

use std::process::{Child, Command, Stdio};

use super::sandbox::{Ended, Sandbox, finish, tree};

const BUILD: &str = r#"[general]
name = "shared"
version = 1
license = "Apache-2.0"
edition = 5
backends = ["cpu"]

[torch]
src = ["torch-ext/torch_binding.cpp"]

[kernel.plain]
backend = "cpu"
depends = ["torch"]
src = ["plain/plain.cpp", "plain/other.cpp", "plain/scale.h"]
cxx-flags = [CXX_FLAGS]
"#;

const BINDING: &str = r#"#include <torch/torch.h>
#include "registration.h"
extern "C" int plain(int);
extern "C" int puts(const char*);
static int told = puts(torch_header());
int use() { return plain(TORCH_NUMBER); }
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
"#;

/// A sandbox with the project in `work/<name>` and torch 2.11.
pub(crate) fn shared(name: &str, flags: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    project(&sandbox, name, flags);
    compiler(&sandbox, "");
    torch(&sandbox, "2.11");
    sandbox
}

pub(crate) fn project(sandbox: &Sandbox, name: &str, flags: &str) {
    let write = |file: &str, text: &str| sandbox.write(&format!("work/{name}/{file}"), text);
    write("build.toml", &BUILD.replace("CXX_FLAGS", flags));
    write("torch-ext/torch_binding.cpp", BINDING);
    write("torch-ext/shared/__init__.py", "from ._ops import ops\n");
    write("plain/scale.h", "// How much.\n#define SCALE 3\n");
    write(
        "plain/plain.cpp",
        "#include \"scale.h\"\n#include <vector>\nextern \"C\" int plain(int x) {\n  std::vector<int> all(x, SCALE);\n  \
         return all[0];\n}\n",
    );
    write(
        "plain/other.cpp",
        "extern \"C\" int puts(const char*);\nstatic int told = puts(__FILE__ \" \" __DATE__);\n",
    );
}

/// The machine's compiler; what it is started for is noted in `<sandbox>/log`. `more` runs before.
fn compiler(sandbox: &Sandbox, more: &str) {
    let real = which("g++");
    let script = format!(
        r#"previous=
for word; do
  case "$previous $word" in -E*) echo "text $word" >> '{log}' ;; "-c "[pt]*) echo "object $word" >> '{log}' ;; esac
  previous=$word
done
case " $* " in *" -shared "*abi3.so*) echo "link" >> '{log}' ;; esac
{more}
exec {real} "$@""#,
        log = sandbox.path("log").display()
    );
    sandbox.fake("g++", &script);
}

fn which(program: &str) -> String {
    let path = std::env::var("PATH").expect("a PATH");
    let place = path.split(':').map(|folder| format!("{folder}/{program}"));
    place
        .into_iter()
        .find(|file| std::path::Path::new(file).is_file())
        .expect("g++ is needed to build anything")
}

/// A Python that has this torch, whose headers are in a folder of their own.
pub(crate) fn torch(sandbox: &Sandbox, release: &str) {
    let folder = format!("torch-{release}");
    sandbox.write(&format!("{folder}/include/torch/headeronly/version.h"), &format!("// {release}\n"));
    let number = release.replace('.', "");
    sandbox.write(
        &format!("{folder}/include/torch/torch.h"),
        &format!("#define TORCH_NUMBER {number}\ninline const char* torch_header() {{ return __FILE__; }}\n"),
    );
    let answer = sandbox.python_with_torch(&format!("{release}.0"), &folder);
    sandbox.fake("python3", &format!("# {release}\necho '{answer}'"));
    sandbox.write("variant", &format!("torch{number}-cxx11-cpu-x86_64-linux"));
}

/// The program that builds the variant for the torch that is there.
pub(crate) fn command(sandbox: &Sandbox, name: &str) -> Command {
    sandbox.command(&["build", name, "--toolchain", "system", "--variant", &sandbox.read("variant")])
}

pub(crate) fn build(sandbox: &Sandbox, name: &str) -> Ended {
    let ended = finish(&mut command(sandbox, name));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended
}

/// What the compiler was started for since the last call, sorted.
pub(crate) fn started(sandbox: &Sandbox) -> Vec<String> {
    let log = sandbox.path("log");
    let mut lines: Vec<String> =
        std::fs::read_to_string(&log).unwrap_or_default().lines().map(str::to_owned).collect();
    sandbox.write("log", "");
    lines.sort();
    lines
}

/// The objects among them.
fn compiled(sandbox: &Sandbox) -> Vec<String> {
    started(sandbox).iter().filter_map(|line| line.strip_prefix("object ")).map(str::to_owned).collect()
}

/// Every file of the packages that lie in a project, with its bytes.
pub(crate) fn packages(sandbox: &Sandbox, name: &str) -> Vec<(String, Vec<u8>)> {
    let root = sandbox.path(&format!("work/{name}/.kernelwright/artifacts"));
    let packaged = |file: &String| !file.ends_with(".json");
    let read = |file: String| (file.clone(), std::fs::read(root.join(file)).expect("a file"));
    tree(&root).into_iter().filter(packaged).map(read).collect()
}

const ALL: [&str; 3] = ["plain/other.cpp", "plain/plain.cpp", "torch-ext/torch_binding.cpp"];

#[test]
fn a_source_without_torch_is_compiled_once_for_two_torch_releases() {
    let sandbox = shared("one", "");
    build(&sandbox, "one");
    assert_eq!(compiled(&sandbox), ALL);
    torch(&sandbox, "2.10");
    build(&sandbox, "one");
    assert_eq!(compiled(&sandbox), ["torch-ext/torch_binding.cpp"]);
    build(&sandbox, "one");
    assert_eq!(started(&sandbox), Vec::<String>::new(), "nothing has changed");
    assert_eq!(packages(&sandbox, "one").iter().filter(|(file, _)| file.ends_with(".so")).count(), 2);
}

#[test]
fn a_header_compiles_its_users_again_and_its_comments_nobody() {
    let sandbox = shared("one", "");
    build(&sandbox, "one");
    started(&sandbox);
    sandbox.write("work/one/plain/scale.h", "// How much.\n#define SCALE 4\n");
    build(&sandbox, "one");
    assert_eq!(compiled(&sandbox), ["plain/plain.cpp"]);
    sandbox.write("work/one/plain/scale.h", "// How many.\n#define SCALE 4\n");
    build(&sandbox, "one");
    // The library has another name.
    assert_eq!(started(&sandbox), ["link", "text plain/plain.cpp"]);
    // A file that hides <vector> from the source beside it, and one that is of no interest.
    sandbox.write("work/one/plain/notes.txt", "nothing\n");
    sandbox.write("work/one/torch-ext/shared/more.py", "\n");
    build(&sandbox, "one");
    assert_eq!(compiled(&sandbox), Vec::<String>::new());
}

#[test]
fn a_new_file_in_the_way_of_another_is_noticed() {
    let sandbox = shared("one", "");
    sandbox.write(
        "work/one/plain/other.cpp",
        "#if __has_include(\"choice.h\")\n#include \"choice.h\"\n#else\nint other() { return 1; }\n#endif\n",
    );
    build(&sandbox, "one");
    started(&sandbox);
    sandbox.write("work/one/plain/choice.h", "int other() { return 2; }\n");
    build(&sandbox, "one");
    assert_eq!(compiled(&sandbox), ["plain/other.cpp"]);
}

#[test]
fn another_folder_another_cache_and_other_jobs_give_the_same_bytes() {
    let sandbox = shared("one", "");
    build(&sandbox, "one");
    project(&sandbox, "a-longer-name/of-a-folder", "");
    let mut command = command(&sandbox, "a-longer-name/of-a-folder");
    command.args(["--jobs", "1"]);
    let cold = command
        .env("KERNELWRIGHT_CACHE", sandbox.path("elsewhere/cache"))
        .env("HOME", sandbox.path("elsewhere"));
    assert_eq!(finish(cold).code, 0);
    assert_eq!(compiled(&sandbox).len(), 6, "both were made");
    let (one, other) = (packages(&sandbox, "one"), packages(&sandbox, "a-longer-name/of-a-folder"));
    assert!(one.iter().any(|(file, _)| file.ends_with(".so")));
    assert!(one == other, "the bytes differ");
    let library = &one.iter().find(|(file, _)| file.ends_with(".so")).expect("a library").1;
    let text = String::from_utf8_lossy(library);
    assert!(text.contains("/torch/include/torch/torch.h") && text.contains("Jan  1 1970"), "mapped");
    assert!(!text.contains(&*sandbox.path("").to_string_lossy()), "a path of this machine");
}

#[test]
fn machines_share_objects_through_a_folder() {
    let sandbox = shared("one", "");
    std::fs::create_dir(sandbox.path("share")).expect("a new folder");
    let on = |cache: &str| {
        let mut command = command(&sandbox, "one");
        command.env("KERNELWRIGHT_CACHE", sandbox.path(cache));
        command.env("KERNELWRIGHT_REMOTE_CACHE", sandbox.path("share"));
        let ended = finish(&mut command);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended
    };
    on("machine-one");
    assert_eq!(compiled(&sandbox), ALL);
    let made = packages(&sandbox, "one");
    std::fs::remove_dir_all(sandbox.path("work/one/.kernelwright")).expect("removed");
    on("machine-two");
    assert_eq!(compiled(&sandbox), Vec::<String>::new());
    assert!(packages(&sandbox, "one") == made);
    std::fs::remove_dir_all(sandbox.path("share")).expect("removed");
    std::fs::remove_dir_all(sandbox.path("work/one/.kernelwright")).expect("removed");
    let ended = on("machine-three");
    assert_eq!(compiled(&sandbox), ALL);
    assert_eq!(ended.stderr.matches("shared compile cache").count(), 1, "{}", ended.stderr);
}

#[test]
fn a_damaged_cache_costs_time_and_never_a_build() {
    let sandbox = shared("one", "");
    build(&sandbox, "one");
    started(&sandbox);
    let made = packages(&sandbox, "one");
    let cache = sandbox.path("cache/compile");
    let kinds = ["objects", "units", "steps"];
    for kind in kinds {
        for file in tree(&cache.join(kind)) {
            let place = cache.join(kind).join(file);
            let mut bytes = std::fs::read(&place).expect("a file");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&place, bytes).expect("written");
        }
        std::fs::remove_dir_all(sandbox.path("work/one/.kernelwright")).expect("removed");
        build(&sandbox, "one");
        // Entries lead to objects and objects are had by either: only without any object all is made again.
        let expected = if kind == "objects" { 3 } else { 0 };
        assert_eq!(compiled(&sandbox).len(), expected, "{kind}");
        assert!(packages(&sandbox, "one") == made, "{kind}");
    }
}

#[test]
fn two_processes_on_one_cache_end_with_the_same_bytes() {
    let sandbox = shared("one", "");
    project(&sandbox, "two", "");
    let start = |name: &str| -> Child {
        let mut command = command(&sandbox, name);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts")
    };
    let running = [start("one"), start("two")];
    for child in running {
        let ended = child.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert!(packages(&sandbox, "one") == packages(&sandbox, "two"));
    started(&sandbox);
    for name in ["one", "two"] {
        build(&sandbox, name);
    }
    assert_eq!(started(&sandbox), Vec::<String>::new());
}

#[test]
fn a_hit_says_what_the_compiler_said() {
    let sandbox = shared("one", "\"-Wall\"");
    sandbox.write("work/one/plain/other.cpp", "static int unused;\n");
    let log = |release: &str| {
        sandbox.read(&format!(
            "work/one/.kernelwright/logs/torch{release}-cxx11-cpu-x86_64-linux/plain__other.cpp.log"
        ))
    };
    build(&sandbox, "one");
    assert!(log("211").contains("defined but not used"));
    torch(&sandbox, "2.10");
    build(&sandbox, "one");
    assert!(log("210").contains("defined but not used"), "from another variant");
    std::fs::remove_dir_all(sandbox.path("work/one/.kernelwright")).expect("removed");
    started(&sandbox);
    build(&sandbox, "one");
    assert_eq!(started(&sandbox), Vec::<String>::new());
    assert!(log("210").contains("defined but not used"), "without a process");
}

#[test]
fn what_the_text_does_not_show_is_not_taken_from_the_cache() {
    let sandbox = shared("one", "");
    let twice = |case: &str, change: &dyn Fn()| {
        build(&sandbox, "one");
        started(&sandbox);
        change();
        build(&sandbox, "one");
        assert!(compiled(&sandbox).contains(&"plain/other.cpp".to_owned()), "{case}");
    };
    sandbox.write("work/one/data.bin", "one");
    sandbox.write("work/one/plain/other.cpp", "asm(\".incbin \\\"data.bin\\\"\");\n");
    twice("incbin", &|| sandbox.write("work/one/data.bin", "two"));
    sandbox.write("work/one/plain/other.cpp", "const char* other() { return __TIMESTAMP__; }\n");
    twice("timestamp", &|| {
        let file = std::fs::File::options().append(true).open(sandbox.path("work/one/plain/other.cpp"));
        let day = std::time::Duration::from_secs(86400);
        file.and_then(|file| file.set_modified(std::time::SystemTime::now() - day)).expect("an older file");
    });
    sandbox.write("work/one/plain/other.cpp", "int other() { return 5; }\n");
    project(&sandbox, "one", "\"--coverage\"");
    twice("coverage", &|| {});
    project(&sandbox, "one", "\"@work.flags\"");
    sandbox.write("work/one/work.flags", "-O1\n");
    twice("a file of flags", &|| sandbox.write("work/one/work.flags", "-O2\n"));
}

#[test]
fn debugging_information_keeps_the_folder_of_its_project() {
    let sandbox = shared("one", "\"-g\"");
    project(&sandbox, "two", "\"-g\"");
    build(&sandbox, "one");
    started(&sandbox);
    build(&sandbox, "two");
    assert_eq!(compiled(&sandbox), ["plain/other.cpp", "plain/plain.cpp"], "the binding has no -g");
    assert!(packages(&sandbox, "one") == packages(&sandbox, "two"), "a library is stripped");
}

#[test]
fn a_build_is_repeated_and_compared() {
    let sandbox = shared("one", "");
    let check = || finish(command(&sandbox, "one").args(["--check-reproducible"]));
    let same = check();
    assert_eq!(same.code, 0, "{}", same.stderr);
    assert!(same.stdout.contains("the same in both"), "{}", same.stdout);
    assert_eq!(compiled(&sandbox).len(), 6, "twice, with nothing from a cache");
    assert!(!sandbox.path("work/one/.kernelwright/artifacts").exists(), "the project is left alone");
    // A compiler that says where it was started.
    compiler(&sandbox, "set -- \"$@\" \"-DPLACE=\\\"$PWD\\\"\"");
    sandbox.write(
        "work/one/plain/other.cpp",
        "extern \"C\" int puts(const char*);\nstatic int told = puts(\"it was made in \" PLACE);\n",
    );
    let differs = check();
    differs.refused(
        14,
        &["compile::not_reproducible", "section .rodata", "it was made in /", "a path of the folder"],
    );
    assert!(differs.stderr.contains(".kernelwright/reproducible"), "{}", differs.stderr);
}
