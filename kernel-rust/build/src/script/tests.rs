//! Build scripts with a program that answers from a script.

#![expect(
    clippy::disallowed_methods,
    reason = "this crate is not part of the program and does not use its base"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A crate in a folder, and a program that answers as the real one does.
struct Crate {
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Crate {
    fn new(section: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let manifest = format!("[package]\nname = \"app\"\n\n[package.metadata.kernelwright]\n{section}");
        let it = Self { folder, variables: vec![] };
        it.write("app/Cargo.toml", &manifest);
        it.write("app/k/op.toml", "name = \"norm\"\n");
        it.write("app/k/norm.cu", "text\n");
        it
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program that prints these lines, and writes kernels.rs where `--out-dir` says.
    fn program(mut self, lines: &str, status: u8) -> Self {
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> \"{}\"\nwhile [ $# -gt 0 ]; do if [ \"$1\" = --out-dir ]; then out=$2; fi; shift; done\n\
             mkdir -p \"$out\"; echo '// made' > \"$out/kernels.rs\"\ncat <<'END'\n{lines}\nEND\nexit {status}\n",
            self.path("calls").display()
        );
        self.write("bin/kernelwright", &script);
        fs::set_permissions(self.path("bin/kernelwright"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        self.variables.push(("PATH", format!("{}:{path}", self.path("bin").display())));
        self
    }

    fn variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    fn run(&self) -> (Result<Built, String>, Vec<String>) {
        let own = [
            ("CARGO_MANIFEST_DIR".to_owned(), self.path("app").into_os_string()),
            ("OUT_DIR".to_owned(), self.path("out").into_os_string()),
        ];
        let given = self.variables.iter().map(|(name, value)| ((*name).to_owned(), value.into()));
        let environment = Environment { variables: own.into_iter().chain(given).collect() };
        let mut told = vec![];
        let result = run(&environment, &mut told).map_err(|error| error.to_string());
        // Where the folder lies does not matter.
        let place = self.folder.path().display().to_string();
        let plain = |text: String| text.replace(&place, "");
        (result.map_err(plain), told.into_iter().map(plain).collect())
    }
}

const RESULT: &str =
    r#"{"event":"result","command":"embed","ops":["norm"],"reads":["/k/norm.cu"],"bytes":7,"files":[]}"#;

#[test]
fn cargo_watches_what_the_result_depends_on() {
    let it = Crate::new("kernels = [\"k\"]\narchs = [\"9.0a\"]\n").program(RESULT, 0);
    let (result, told) = it.run();
    let built = result.unwrap();
    assert_eq!((built.ops, built.bytes), (vec!["norm".to_owned()], 7));
    assert_eq!(built.folder, it.path("out/kernelwright"));
    for path in ["/app/Cargo.toml", "/app/k/op.toml", "/bin/kernelwright", "/k/norm.cu"] {
        assert!(told.contains(&format!("cargo::rerun-if-changed={path}")), "{path}: {told:?}");
    }
    assert!(told.contains(&"cargo::rerun-if-env-changed=KERNELWRIGHT_STUBS".to_owned()), "{told:?}");
    let calls = fs::read_to_string(it.path("calls")).unwrap();
    assert!(
        calls.ends_with("/out/kernelwright --arch 9.0a\n") && calls.contains("/app/k --out-dir"),
        "{calls}"
    );
}

#[test]
fn errors_have_the_path_and_the_line_of_the_source() {
    let error = r#"{"event":"error","message":"`norm.cu` does not compile","help":"norm.cu(1): error: x","rendered":""}"#;
    let (result, _) = Crate::new("kernels = [\"k\"]\n").program(error, 14).run();
    assert_eq!(result.unwrap_err(), "`norm.cu` does not compile\n/app/k/norm.cu:1: error: x");
    let (result, _) = Crate::new("kernels = [\"k\"]\n").program("no JSON", 2).run();
    assert!(result.unwrap_err().contains("/bin/kernelwright` cannot build kernels for Rust"));
    let (result, _) = Crate::new("kernel = [\"k\"]\n").program(RESULT, 0).run();
    assert!(
        result
            .unwrap_err()
            .starts_with("/app/Cargo.toml:5: [package.metadata.kernelwright] has no key `kernel`")
    );
    let (result, _) = Crate::new("kernels = [\"k\"]\n").run();
    assert!(result.unwrap_err().contains("was not found"));
}

#[test]
fn a_crate_without_the_section_is_a_kernel_project_or_an_error() {
    let it = Crate::new("kernels = [\"k\"]\n").program(RESULT, 0);
    it.write("app/Cargo.toml", "[package]\nname = \"app\"\n");
    assert!(it.run().0.unwrap_err().contains("no [package.metadata.kernelwright], and no op.toml"));
    it.write("app/op.toml", "name = \"norm\"\n");
    assert!(it.run().0.is_ok());
}

#[test]
fn settings_are_inherited_from_the_nearest_workspace_above() {
    let it = Crate::new("kernels = [\"k\"]\narchs.workspace = true\n").program(RESULT, 0);
    assert!(it.run().0.unwrap_err().contains("no Cargo.toml above has a [workspace]"));
    it.write(
        "Cargo.toml",
        "[workspace]\nmembers = [\"app\"]\n[workspace.metadata.kernelwright]\narchs = [\"8.0\"]\n",
    );
    let (result, told) = it.run();
    assert!(result.is_ok() && told.contains(&"cargo::rerun-if-changed=/Cargo.toml".to_owned()), "{told:?}");
    assert!(fs::read_to_string(it.path("calls")).unwrap().contains("--arch 8.0"));
}

#[test]
fn a_build_without_kernels_needs_the_program_or_the_functions_in_the_package() {
    let stubbed = || Crate::new("kernels = [\"k\"]\nstubs = \"stubs\"\n").variable("DOCS_RS", "1");
    let (result, _) = stubbed().run();
    assert!(result.unwrap_err().contains("kernelwright embed --stubs --out-dir stubs"));
    let it = stubbed();
    it.write("app/stubs/kernels.rs", "// kept\n");
    assert!(it.run().0.is_ok());
    assert_eq!(fs::read_to_string(it.path("out/kernelwright/kernels.rs")).unwrap(), "// kept\n");
    let it = stubbed().program(RESULT, 0);
    assert!(it.run().0.is_ok());
    assert!(fs::read_to_string(it.path("calls")).unwrap().ends_with("--stubs\n"));
}

#[test]
fn functions_in_the_package_that_are_out_of_date_are_a_warning() {
    let it = Crate::new("kernels = [\"k\"]\nstubs = \"stubs\"\n").program(RESULT, 0);
    let warns =
        |told: &[String]| told.iter().any(|line| line.contains("/app/stubs/kernels.rs is out of date"));
    assert!(warns(&it.run().1));
    it.write("app/stubs/kernels.rs", "// made\n");
    assert!(!warns(&it.run().1));
}
