//! `update`: what it writes, what it leaves, what it refuses.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec;
use kernel_plan::spec::update::Update;
use kernel_plan::units::License;

use crate::project::render;

/// What is refused, as a person would see it.
fn refusal(text: &str) -> String {
    render(&spec::update(&SourceFile::new("build.toml", text), None).expect_err("a refusal"))
}

#[track_caller]
fn updated(text: &str, license: Option<&str>) -> Update {
    let license: Option<License> = license.map(|license| license.parse().expect("a license"));
    let update = spec::update(&SourceFile::new("build.toml", text), license.as_ref());
    let update = update.unwrap_or_else(|problems| panic!("{}", render(&problems)));
    let again = spec::update(&SourceFile::new("build.toml", update.text.clone()), None).expect("edition 5");
    assert_eq!(
        (again.text.as_str(), again.changes.len()),
        (update.text.as_str(), 0),
        "a second run changes it"
    );
    update
}

/// What is told of the changes.
fn changes(update: &Update) -> String {
    let mut told = format!("{}\n", update.from);
    for change in &update.changes {
        for (sign, text) in [('-', &change.old), ('+', &change.new)] {
            if let Some(text) = text {
                told += format!("{:2} {sign} {text}", change.line).trim_end();
                told += "\n";
            }
        }
    }
    told
}

const EDITION_4: &str = r#"# A kernel.
[general] # what it is
  name    = "fast-norm" # its name
  version = 1

  # who may use it
  license = 'MIT'
  backends = [
    "cuda", # NVIDIA
    # and no other
  ]

[general . cuda]
minver = "12.8"

[torch]
src=["torch-ext/torch_binding.cpp"]
stable-abi = "2.11"
[kernel."norm"]
backend = "cuda" # end
depends = ["torch"]
src = ["norm_cuda/norm.cu"]
# the end"#;

#[test]
fn edition_4_gets_its_number_and_nothing_else() {
    let update = updated(EDITION_4, None);
    assert_eq!(update.text, EDITION_4.replace("  version = 1\n", "  version = 1\n  edition = 5\n"));
    insta::assert_snapshot!(changes(&update), @r#"
    edition 4
     5 +   edition = 5
    "#);
}

#[test]
fn names_that_edition_5_writes_otherwise_are_rewritten_in_place() {
    let text = EDITION_4
        .replace("\"fast-norm\" # its", "\"fast_norm\" # its")
        .replace("depends = [\"torch\"]", "depends = [\"torch\", 'cutlass_sycl'] # two");
    let update = updated(&text, None);
    let wanted = text
        .replace("\"fast_norm\" # its", "\"fast-norm\" # its")
        .replace("  version = 1\n", "  version = 1\n  edition = 5\n")
        .replace("'cutlass_sycl'", "\"sycl_tla\"");
    assert_eq!(update.text, wanted);
    // No name is invented.
    let text = EDITION_4.replace("\"fast-norm\" # its", "\"Fast_Norm\" # its");
    assert!(updated(&text, None).text.contains("\"Fast_Norm\" # its"));
}

#[test]
fn a_number_that_is_there_is_changed() {
    let text = EDITION_4.replace("version = 1", "version = 1\n  edition = 4 # old");
    let update = updated(&text, None);
    assert_eq!(update.text, text.replace("edition = 4", "edition = 5"));
    insta::assert_snapshot!(changes(&update), @r#"
    edition 4
     5 -   edition = 4 # old
     5 +   edition = 5 # old
    "#);
}

#[test]
fn edition_3_gets_what_edition_5_requires() {
    let text = "[general]\nname = \"fast-norm\" # it\nbackends = [\"cuda\"]\n\n# nothing compiled\n";
    let update = updated(text, Some("Apache-2.0"));
    insta::assert_snapshot!(update.text, @r#"
    [general]
    name = "fast-norm" # it
    version = 1
    edition = 5
    license = "Apache-2.0"
    backends = ["cuda"]

    # nothing compiled

    [torch-noarch]
    "#);
    insta::assert_snapshot!(changes(&update), @r#"
    edition 3
     3 + version = 1
     4 + edition = 5
     5 + license = "Apache-2.0"
     9 +
    10 + [torch-noarch]
    "#);
}

#[test]
fn layouts_are_followed() {
    let cases = [
        (
            "no end of line",
            "general.name='x-y'\ngeneral.backends=['cpu']\ntorch={}",
            "general.name='x-y'\ngeneral.version=1\ngeneral.edition=5\ngeneral.license=\"MIT\"\n\
             general.backends=['cpu']\ntorch={}",
        ),
        (
            "CRLF",
            "[general]\r\nname = \"x-y\"\r\nbackends = [\"cpu\"]\r\n",
            "[general]\r\nname = \"x-y\"\r\nversion = 1\r\nedition = 5\r\nlicense = \"MIT\"\r\n\
             backends = [\"cpu\"]\r\n\r\n[torch-noarch]\r\n",
        ),
        (
            "columns",
            "[general]\nname     = \"x-y\"\nbackends = [\"cpu\"]\n[torch]\n",
            "[general]\nname     = \"x-y\"\nversion  = 1\nedition  = 5\nlicense  = \"MIT\"\n\
             backends = [\"cpu\"]\n[torch]\n",
        ),
        (
            "dotted keys that stand apart, in quotes",
            "\u{feff}general . \"name\" = \"x-y\"\ntorch.src = []\ngeneral.version = 2 # two\ngeneral.backends = []",
            "\u{feff}general . \"name\" = \"x-y\"\ntorch.src = []\ngeneral.version = 2 # two\ngeneral.edition = 5\n\
             general.license = \"MIT\"\ngeneral.backends = []",
        ),
        (
            "the first line, behind a byte order mark",
            "\u{feff}general.name = \"x-y\"\ngeneral.backends = [] # none\ntorch = {}",
            "\u{feff}general.name = \"x-y\"\ngeneral.version = 1\ngeneral.edition = 5\ngeneral.license = \"MIT\"\n\
             general.backends = [] # none\ntorch = {}",
        ),
        (
            "an inline table",
            "general = { name = \"x-y\", backends = [] } # all\n[tvm-ffi]\nsrc = []",
            "general = { name = \"x-y\", version = 1, edition = 5, license = \"MIT\", backends = [] } # all\n\
             [tvm-ffi]\nsrc = []",
        ),
        (
            "a section at a missing end of line",
            "[general]\nbackends = []\nlicense = \"\"\"a\nb\"\"\"\n\tname = \"x-y\"",
            "[general]\nbackends = []\nlicense = \"\"\"a\nb\"\"\"\n\tname = \"x-y\"\n\tversion = 1\n\tedition = 5\n\n[torch-noarch]",
        ),
    ];
    for (what, text, wanted) in cases {
        assert_eq!(updated(text, Some("MIT")).text, wanted, "{what}");
    }
}

#[test]
fn what_only_its_author_knows_is_asked_for() {
    insta::assert_snapshot!(refusal("[general]\nname = \"x-y\"\nbackends = [\"cpu\"]\n[torch]\n"), @r#"
    spec::missing_key

      × `general` has no `license`, which edition 5 requires
       ╭─[build.toml:1:2]
     1 │ [general]
       ·  ───┬───
       ·     ╰── `license` is missing
     2 │ name = "x-y"
       ╰────
      help: add it under [general], or give it: kernelwright update --license Apache-2.0
    "#);
}

#[test]
fn edition_2_is_rewritten_in_place() {
    let text = r#"[general]
name = "fast-norm"
universal = false # not noarch
cuda-minver = "12.4" # since
cuda-maxver = "12.9"
python-depends = ["nvidia-cutlass-dsl"]

[torch]

[kernel.a]
backend = "rocm"
[kernel.b]
backend = "cuda"
"#;
    insta::assert_snapshot!(changes(&updated(text, Some("MIT"))), @r#"
    edition 2
     3 + version = 1
     4 + edition = 5
     5 + license = "MIT"
     6 - universal = false # not noarch
     6 + backends = ["cuda", "rocm"] # not noarch
     7 - cuda-minver = "12.4" # since
     7 + cuda.minver = "12.4" # since
     8 - cuda-maxver = "12.9"
     8 + cuda.maxver = "12.9"
     9 - python-depends = ["nvidia-cutlass-dsl"]
     9 + cuda.python-depends = ["nvidia-cutlass-dsl"]
    "#);
    let universal = "[general]\nname = \"x-y\"\nuniversal = true\n[torch]\n";
    insta::assert_snapshot!(changes(&updated(universal, Some("MIT"))), @r#"
    edition 2
     3 + version = 1
     4 + edition = 5
     5 + license = "MIT"
     6 - universal = true
     6 + backends = ["cann", "cpu", "cuda", "metal", "neuron", "rocm", "xpu"]
    "#);
}

#[test]
fn edition_1_is_split_by_backend() {
    let text = r#"[general]
name = "fast-norm"

[torch]
universal = false # not noarch
src = ["binding.cpp"]

[kernel.plain]
depends = ["torch"] # alone
src = ["a.cu"]

[kernel.both]
language = "cuda-hipify" # two
cuda-capabilities = ["9.0"]
rocm-archs = ["gfx942"]
depends = []
src = [
  "b.cu", # the one
]

[kernel.apple]
language = 'metal'
depends = []
src = ["c.metal"]
"#;
    insta::assert_snapshot!(changes(&updated(text, Some("MIT"))), @r#"
    edition 1
     3 + version = 1
     4 + edition = 5
     5 + license = "MIT"
     6 + backends = ["cuda", "metal", "rocm"]
     9 - universal = false # not noarch
     9 + # not noarch
    14 + backend = "cuda"
    18 - language = "cuda-hipify" # two
    18 + backend = "cuda" # two
    20 - rocm-archs = ["gfx942"]
    26 - language = 'metal'
    26 + backend = "metal"
    29 +
    30 + [kernel.both_rocm]
    31 + backend = "rocm"
    32 + depends = []
    33 + src = [
    34 +   "b.cu", # the one
    35 + ]
    36 + rocm-archs = ["gfx942"]
    "#);
}

#[test]
fn what_cannot_be_told_of_old_editions_is_asked_for() {
    let both = "[general]\nname = \"x-y\"\ncuda-minver = \"12.4\"\npython-depends = [\"einops\", \"nvidia-cutlass-dsl\"]\n";
    insta::assert_snapshot!(refusal(both), @r#"
    spec::missing_key

      × `general` has no `license`, which edition 5 requires
       ╭─[build.toml:1:2]
     1 │ [general]
       ·  ───┬───
       ·     ╰── `license` is missing
     2 │ name = "x-y"
       ╰────
      help: add it under [general], or give it: kernelwright update --license Apache-2.0

    spec::missing_key

      × the file does not list the backends of the kernel
       ╭─[build.toml:1:2]
     1 │ [general]
       ·  ───┬───
       ·     ╰── `backends` is missing
     2 │ name = "x-y"
       ╰────
      help: add them under [general], for example: backends = ["cuda"]

    spec::edition

      × `nvidia-cutlass-dsl` is only for CUDA, but is listed with other packages
       ╭─[build.toml:4:18]
     3 │ cuda-minver = "12.4"
     4 │ python-depends = ["einops", "nvidia-cutlass-dsl"]
       ·                  ────────────────┬───────────────
       ·                                  ╰── two kinds of packages
       ╰────
      help: move it to a line of its own: cuda.python-depends = ["nvidia-cutlass-dsl"]
    "#);
    let inline = "general = { name = \"x-y\", license = \"MIT\" }\ntorch = {}\n\
                  kernel = { a = { language = \"cuda-hipify\", depends = [], src = [] } }\n";
    insta::assert_snapshot!(refusal(inline), @r#"
    spec::edition

      × the keys of edition 5 cannot be added to the file in its present form
       ╭─[build.toml:1:1]
     1 │ general = { name = "x-y", license = "MIT" }
       · ───┬───
       ·    ╰── a section, or the tables below it
     2 │ torch = {}
       ╰────
      help: write its tables as sections, [general] and [kernel.NAME], and try again
    "#);
    insta::assert_snapshot!(refusal("[general]\nname = \"x-y\"\nedition = 7\n"), @r#"
    spec::edition

      × build.toml uses edition 7, but this version of kernelwright reads editions 1 to 5
       ╭─[build.toml:3:11]
     2 │ name = "x-y"
     3 │ edition = 7
       ·           ┬
       ·           ╰── not one of them
       ╰────
      help: update kernelwright to read a newer edition
    "#);
}

#[test]
fn an_entry_of_an_inline_table_is_taken_out() {
    for (before, after) in [
        ("{ universal = true }", "{  }"),
        ("{ universal = true, src = [] }", "{ src = [] }"),
        ("{ src = [], universal = true }", "{ src = [] }"),
    ] {
        let text =
            format!("torch = {before}\n[general]\nname = \"x-y\"\nlicense = \"MIT\"\nbackends = [\"cpu\"]\n");
        let update = updated(&text, None);
        assert!(update.text.starts_with(&format!("torch = {after}\n")), "{}", update.text);
    }
}

#[test]
fn a_key_that_goes_on_is_no_place_to_add_behind() {
    // Found by a drawn text: the value of `version` begins before its key ends.
    let text = concat!(
        "edition = 4\n",
        "general = { hub = { repo-id = \"me/norm\" }, name = \"fast-norm\", version.ckends = ['cpu', 'cuda'] }\n",
        "[torch-noarch]\n",
        "[kernel.norm]\nbackend = \"cuda\"\nsrc = [\"a.cu\"]\n",
    );
    let license = Some("MIT".parse::<License>().expect("a license"));
    match spec::update(&SourceFile::new("build.toml", text), license.as_ref()) {
        Ok(update) => assert!(toml::from_str::<toml::Table>(&update.text).is_ok(), "{}", update.text),
        Err(problems) => assert!(!render(&problems).is_empty()),
    }
}
