//! What Hugging Face's own parser says to our files, where a Python with the package `kernels` is there.

use std::path::PathBuf;
use std::process::Command;

use super::sandbox::{Sandbox, finish};

/// A Python that imports `kernels`: KERNELWRIGHT_PYTHON, else python3.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("KERNELWRIGHT_PYTHON").map(PathBuf::from);
    let candidates = named.into_iter().chain([PathBuf::from("python3")]);
    candidates.into_iter().find(|python| {
        let mut command = Command::new(python);
        command.args(["-c", "import kernels._rust"]);
        command.output().is_ok_and(|output| output.status.success())
    })
}

#[test]
fn the_official_parser_accepts_every_template() {
    const READ: &str = "import sys, pathlib\n\
        from kernels._rust import Build\n\
        backends = Build.open(pathlib.Path(sys.argv[1])).general.backends\n\
        print(','.join(sorted(str(backend).rsplit('.')[-1].lower() for backend in backends)))\n";
    let Some(python) = python() else {
        eprintln!("skipped: no Python imports `kernels`; set KERNELWRIGHT_PYTHON to one that does");
        return;
    };
    let sandbox = Sandbox::new();
    let listed = sandbox.run(&["templates", "--message-format", "json"]).event("result");
    for template in listed["templates"].as_array().expect("a list") {
        let template = template["name"].as_str().expect("a name");
        for backends in ["cpu", "cuda", "cpu,cuda"] {
            let name = format!("k-{template}-{}", backends.replace(',', "-"));
            let full = format!("me/{name}");
            let made =
                sandbox.run(&["new", &full, "--template", template, "--backends", backends, "--no-git"]);
            assert_eq!(made.code, 0, "{}", made.stderr);
            let mut command = Command::new(&python);
            let parsed = finish(command.args(["-c", READ]).arg(sandbox.work().join(&name)));
            assert_eq!((parsed.code, parsed.stdout.trim()), (0, backends), "{}", parsed.stderr);
        }
    }
}
