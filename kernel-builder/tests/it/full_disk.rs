//! A disk that is full is reported as one.

use super::build_fakes::{GOOD, fakes};
use super::sandbox::{Sandbox, finish};

/// A cpu project whose Python has a pip that fails with these words.
fn with_pip_that_says(words: &str) -> Sandbox {
    let sandbox = fakes(GOOD);
    let python = sandbox.python_with_torch("2.10.0", "torch");
    sandbox.fake(
        "python3",
        &format!(
            "case \"$*\" in\n  *'pip --version'*) echo pip 23.0; exit 0 ;;\n  *'pip install'*) echo '{words}' >&2; exit 2 ;;\n\
             esac\necho '{python}'"
        ),
    );
    sandbox
}

#[test]
fn a_full_disk_is_no_trouble_with_the_network() {
    let build = |sandbox: &Sandbox| {
        let mut line = sandbox.command(&["build", "fast-norm"]);
        finish(line.env_remove("KERNELWRIGHT_OFFLINE"))
    };
    let full = build(&with_pip_that_says("OSError: [Errno 28] No space left on device"));
    full.refused(
        13,
        &["toolchain::no_room", "No space left on device", "toolchain gc", "KERNELWRIGHT_CACHE"],
    );
    assert!(!full.stderr.contains("check the network"), "{}", full.stderr);
    let read_only = build(&with_pip_that_says("OSError: [Errno 30] Read-only file system: \"/cache/x\""));
    read_only.refused(13, &["toolchain::no_room", "/cache/x", "Read-only file system"]);
    let other = build(&with_pip_that_says("ERROR: No matching distribution found for pip==25.3"));
    other.refused(13, &["toolchain::index", "check the network"]);
}
