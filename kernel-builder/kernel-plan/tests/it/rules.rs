//! Rules that depend on the list of variants, with a list of their own.

use proptest::prelude::*;

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
    // Who names no release takes the code that each has.
    check("", "cuda-capabilities = [\"8.0\", \"12.0\"]", &[]);
    let all = "maxver = \"13.0\"";
    check(
        all,
        "cuda-capabilities = [\"8.0\", \"12.0\"]",
        &["note: CUDA 12.6 does not support capability 12.0"],
    );
    check("minver = \"12.8\"", "cuda-capabilities = [\"8.0\", \"12.0\"]", &[]);
    check("", "cuda-minver = \"12.8\"\ncuda-capabilities = [\"12.0\"]", &[]);
    check(
        all,
        "cuda-capabilities = [\"8.0\", \"10.3\"]",
        &["note: CUDA 12.6 and 12.8 do not support capability 10.3"],
    );
    check(
        "maxver = \"12.8\"",
        "cuda-capabilities = [\"8.0\", \"10.3\"]",
        &["error: no CUDA version of the project supports capability 10.3"],
    );
    check(
        "",
        "cuda-capabilities = [\"12.0\"]",
        &["error: CUDA 12.6 supports none of the capabilities of kernel `norm`"],
    );
}

#[test]
fn a_capability_that_no_fetched_compiler_knows_is_not_left_out_silently() {
    for (bounds, number) in [("", "5.0"), ("maxver = \"13.0\"", "7.0"), ("", "6.1+PTX")] {
        let plain = number.trim_end_matches("+PTX");
        let want = format!(
            "warning: the downloaded CUDA compiler does not support capability {plain}; builds with it omit this capability"
        );
        check(bounds, &format!("cuda-capabilities = [\"8.0\", \"{number}\"]"), &[want.as_str()]);
    }
}

#[test]
fn a_kernel_without_a_valid_name_has_one_mistake() {
    for name in ["name = \"fast_norm\"\n", ""] {
        let text = format!(
            "# --- build.toml ---\n[general]\n{name}version = 1\nedition = 5\nlicense = \"MIT\"\nbackends = [\"cpu\"]\n\
             [torch]\n[kernel.norm]\nbackend = \"cpu\"\ndepends = []\nsrc = [\"a.cpp\"]\n# --- files ---\n# a.cpp\n\
             # torch-ext/fast_norm/__init__.py\n"
        );
        let problems = project::read(&text).problems;
        assert_eq!(problems.len(), 1, "{}", render(&problems));
    }
}

#[test]
fn a_range_that_no_variant_lies_in_is_said_once() {
    check(
        "minver = \"13.1\"",
        "cuda-minver = \"13.5\"\ncuda-capabilities = [\"7.0\"]",
        &["error: no variant is built for CUDA 13.1 or later"],
    );
    check(
        "maxver = \"12.8\"",
        "cuda-minver = \"13.0\"",
        &[
            "error: kernel `norm` is never built: every CUDA version of the project is below its `cuda-minver`",
        ],
    );
}

/// A project whose binding and Python are these texts.
fn with_sources(cpp: &str, python: &str) -> String {
    format!(
        "# --- build.toml ---\n[general]\nname = \"norm\"\nversion = 1\nedition = 5\nlicense = \"MIT\"\n\
         backends = [\"cpu\"]\n[torch]\nsrc = [\"a.cpp\"]\nstable-abi = \"2.11\"\n[kernel.norm]\nbackend = \"cpu\"\n\
         depends = []\nsrc = [\"a.cpp\"]\n# --- files ---\n# a.cpp\n# torch-ext/norm/__init__.py\n# --- a.cpp ---\n{cpp}\n\
         # --- torch-ext/norm/__init__.py ---\n{python}\n"
    )
}

#[test]
fn a_source_with_many_mistakes_is_told_in_part() {
    let cpp: String = (0..70).map(|index| format!("#include <pybind11/a{index}.h>\n")).collect();
    let problems = project::read(&with_sources(&cpp, "")).problems;
    assert_eq!(problems.len(), 50);
    assert!(problems[49].message.ends_with(", and 20 more of this kind in the file"), "{}", problems[49]);
    let twice = project::read(&with_sources("#include <torch/all.h>\n", "")).problems;
    let codes: Vec<_> = twice.iter().map(|problem| problem.code).collect();
    assert_eq!(
        codes.len(),
        2,
        "the binding and the kernel include it, and each rule says so once: {codes:?}"
    );
}

/// Pieces of which sources are made, so that a scanner gets somewhere.
const PIECES: &[&str] = &[
    "#include ",
    "<torch/all.h>",
    "\"a.h\"",
    "#if ",
    "#ifndef X",
    "#define X",
    "#elif",
    "#else",
    "#endif",
    "defined(",
    "CPU_KERNEL",
    "&&",
    "||",
    "!",
    "(",
    ")",
    "\"",
    "'",
    "R\"x(",
    ")x\"",
    "//",
    "/*",
    "*/",
    "\\",
    "\n",
    "\n",
    " ",
    "TORCH_LIBRARY",
    "PYBIND11_MODULE(",
    "import ",
    "from ",
    "norm",
    ".",
    ",",
    ";",
    ":",
    "try",
    "if TYPE_CHECKING",
    "def f",
    "\"\"\"",
    "    ",
    "\t",
    "torch.library.custom_op(",
    "\"a::b\"",
    "\u{e4}",
    "1'0",
];

proptest! {
    #[test]
    fn any_source_is_judged_and_shown(
        cpp in proptest::collection::vec(proptest::sample::select(PIECES), 0..60),
        python in proptest::collection::vec(proptest::sample::select(PIECES), 0..60),
    ) {
        render(&project::read(&with_sources(&cpp.concat(), &python.concat())).problems);
    }
}
