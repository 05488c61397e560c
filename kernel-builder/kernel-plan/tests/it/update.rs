//! `update`: what it writes, what it leaves, what it refuses.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec;
use kernel_plan::spec::update::Update;

use crate::project::render;

/// What is refused, as a person would see it.
fn refusal(text: &str) -> String {
    render(&spec::update(&SourceFile::new("build.toml", text), None).expect_err("a refusal"))
}

#[track_caller]
fn updated(text: &str, license: Option<&str>) -> Update {
    let update = spec::update(&SourceFile::new("build.toml", text), license);
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
    let tell = |change: &spec::update::Change| {
        let old = change.old.as_ref().map(|old| format!("{:2} - {old}\n", change.line)).unwrap_or_default();
        let new = change.new.as_ref().map(|new| format!("{:2} + {new}\n", change.line)).unwrap_or_default();
        old + &new
    };
    format!("edition {}\n{}", update.from, update.changes.iter().map(tell).collect::<String>())
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
