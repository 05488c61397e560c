//! Rules that depend on the list of variants, with a list of their own.

use crate::project::{self, render};

/// Rows for torch 2.11 with three releases of CUDA.
fn matrix() -> String {
    let row = |cuda: &str| {
        let digits = cuda.replace('.', "");
        format!(
            "[[variant]]\nid = \"torch211-cxx11-cu{digits}-x86_64-linux\"\ntorch = \"2.11\"\nabi = \"full\"\n\
             backend = \"cuda\"\ntoolkit = \"{cuda}\"\ncpu = \"x86_64\"\nos = \"linux\"\n\
             providers = [\"system\"]\n"
        )
    };
    ["12.6", "12.8", "13.0"].map(row).concat()
}

/// What is said about a kernel with these keys, in a project with these bounds for CUDA.
#[track_caller]
fn check(bounds: &str, keys: &str, want: &[&str]) {
    let text = format!(
        "# --- build.toml ---\n[general]\nname = \"norm\"\nversion = 1\nedition = 5\nlicense = \"MIT\"\n\
         backends = [\"cuda\"]\n[general.cuda]\n{bounds}\n[torch]\n[kernel.norm]\nbackend = \"cuda\"\n\
         depends = []\nsrc = [\"norm.cu\"]\n{keys}\n# --- files ---\n# norm.cu\n# --- variants.toml ---\n{}",
        matrix()
    );
    let problems = project::read(&text).problems;
    let lines: Vec<_> =
        problems.iter().map(|problem| format!("{}: {problem}", problem.severity.as_str())).collect();
    assert_eq!(lines, want, "{}", render(&problems));
}

#[test]
fn capabilities_against_both_ends_of_the_range() {
    check("", "cuda-capabilities = [\"8.0\", \"9.0a\"]", &[]);
    check("", "cuda-capabilities = [\"8.0\", \"7.0\"]", &["note: CUDA 13.0 does not compile for 7.0"]);
    check("", "cuda-capabilities = [\"8.0\", \"12.0\"]", &["note: CUDA 12.6 does not compile for 12.0"]);
    check("minver = \"12.8\"", "cuda-capabilities = [\"8.0\", \"12.0\"]", &[]);
    check("", "cuda-minver = \"12.8\"\ncuda-capabilities = [\"12.0\"]", &[]);
    check(
        "",
        "cuda-capabilities = [\"8.0\", \"10.3\"]",
        &["note: CUDA 12.6 and 12.8 do not compile for 10.3"],
    );
    check(
        "maxver = \"12.8\"",
        "cuda-capabilities = [\"8.0\", \"10.3\"]",
        &["error: no CUDA that the project is built with compiles for 10.3"],
    );
    check(
        "",
        "cuda-capabilities = [\"12.0\"]",
        &[
            "note: CUDA 12.6 does not compile for 12.0",
            "error: CUDA 12.6 compiles for none of the capabilities of kernel `norm`",
        ],
    );
}

#[test]
fn a_range_that_no_variant_lies_in_is_said_once() {
    check(
        "minver = \"13.1\"",
        "cuda-minver = \"13.5\"\ncuda-capabilities = [\"7.0\"]",
        &["error: no variant is right for `norm`", "error: no variant is built for CUDA 13.1 or later"],
    );
    check(
        "maxver = \"12.8\"",
        "cuda-minver = \"13.0\"",
        &["error: kernel `norm` is never built: every CUDA of the project is below its `cuda-minver`"],
    );
}
