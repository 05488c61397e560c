//! Holes: what the loader refuses, what can be set, and that every template of the repository is what it claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use super::hole::{Hole, Kind};
use super::template::{self, Answers, Sources, Template};
use super::{FileSet, ScaffoldError, claims, serves, settings};

const MANIFEST: &str = r#"
name = "fill"
description = "Fills"
ops = ["fill"]
backends = ["cuda"]
"#;
const OP: &str = r#"
format = 1
name = "fill"
[axes]
n = { type = "var" }
[inputs]
x = { shape = ["n"], dtype = "f32" }
[outputs]
y = { shape = ["n"], dtype = "f32" }
[reference]
file = "reference.py"
function = "fill"
[call]
function = "fill"
[tolerance]
accumulate = "f32"
length = 1
roundings = 1
[tune]
constraints = ["block <= 256 or unroll == 1"]
[tune.block]
values = [128, 256, 512]
default = 256
[tune.unroll]
values = [1, 2]
default = 2
[workload.one]
axes = { n = 3 }
"#;
const CODE: &str = "a\n// hole: body\nb\n// end of hole: body\n";

/// A template of a few files, with more lines in its manifest.
fn template(more: &str, files: &[(&str, &str)]) -> Result<Template, ScaffoldError> {
    let mut sources = Sources::new();
    sources.insert("template.toml".to_owned(), format!("{MANIFEST}{more}").into_bytes());
    sources.insert("op.toml".to_owned(), OP.as_bytes().to_vec());
    sources.insert("{{ module }}_cuda/fill.cu".to_owned(), CODE.as_bytes().to_vec());
    sources.extend(files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())));
    let common = [
        ("cpu/rows.h".to_owned(), b"// {{ kept }}\n".to_vec()),
        ("name.py.j2".to_owned(), b"{{ module }}\n".to_vec()),
    ];
    template::read("fill", sources, &Arc::new(Sources::from(common)))
}

fn answers(template: &Template, set: &[(&str, &str)]) -> Answers {
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Answers { set, ..template::sample(template, "fast-fill".parse().unwrap()) }
}

fn rendered(template: &Template, set: &[(&str, &str)]) -> Result<FileSet, ScaffoldError> {
    template::render(template, &answers(template, set))
}

fn text(files: &FileSet, path: &str) -> String {
    String::from_utf8(files.get(path).unwrap_or_else(|| panic!("no {path}")).to_vec()).unwrap()
}

#[test]
fn every_template_of_the_repository_is_what_it_claims() {
    let templates = template::all().unwrap();
    assert!(templates.iter().all(|template| template.name != "_shared"));
    for template in &templates {
        claims::check(template).unwrap();
        let served = serves::served(template.clone()).unwrap();
        for hole in &template.holes {
            if let Kind::Code { .. } = hole.kind {
                assert!(served.path(hole).unwrap().starts_with("some_kernel_"), "{}", hole.name);
            }
        }
    }
}

#[test]
fn a_claim_that_is_not_so_is_named() {
    let code = |file: &str| {
        format!("[[hole]]\nname = \"body\"\nkind = \"code\"\nfile = \"{file}\"\ncontract = \"Fills.\"\n")
    };
    let choice = |more: &str| {
        format!("[[hole]]\nname = \"way\"\nkind = \"choice\"\nfrom = \"ways\"\nto = \"way.h\"\n{more}\n")
    };
    let ways = [("ways/a.h", "a"), ("ways/a.hpp", "b")];
    let none: &[(&str, &str)] = &[];
    for (more, files, wanted) in [
        ("[[hole]]\nname = \"width\"\nkind = \"value\"\n".to_owned(), none, "op.toml has no [tune.width]"),
        (code("fill.cu"), none, "`fill.cu`, which the template does not write"),
        (code("op.toml"), none, "`// hole: body` occurs 0 times"),
        (code("{{ module }}_cuda/fill.cu").repeat(2), none, "two holes are named `body`"),
        (code("{{ module }}_cuda/fill.cu").replace("Fills.", " "), none, "empty contract"),
        (choice("files = [\"a.h\"]\ndefault = \"b.h\""), &ways, "the default of the hole `way` is `b.h`"),
        (choice("files = [\"a.h\", \"c.h\"]\ndefault = \"a.h\""), &ways, "offers `ways/c.h`"),
        (choice("files = [\"a.h\", \"a.hpp\"]\ndefault = \"a.h\""), &ways, "the same name before the point"),
        (
            "[[shared]]\nfrom = \"cpu/row.h\"\nto = \"rows.h\"\n".to_owned(),
            none,
            "`_shared` has no `cpu/row.h`",
        ),
        ("[[serves]]\nas = \"two\"\narguments = []\n".to_owned(), none, "the form \"two\" has no arguments"),
        (
            "[[serves]]\nas = \"two\"\narguments = [\"x\"]\nscalars = { eps = 1 }\n".to_owned(),
            none,
            "`eps`, which is not a scalar",
        ),
        (
            "[[serves]]\nas = \"two\"\narguments = [\"x\"]\nwithout = [\"x\"]\n".to_owned(),
            none,
            "not an optional input",
        ),
        ("[indexes.y]\naxis = \"n\"\n".to_owned(), none, "an input that op.toml does not have"),
        (
            "[[serves]]\nas = \"two\"\narguments = [\"x\"]\ngiven = { w = \"torch.ones(n)\" }\n".to_owned(),
            none,
            "gives `w`, which is not an input",
        ),
        (
            "[[serves]]\nas = \"two\"\narguments = [\"x\"]\nmultiples = { m = 2 }\n".to_owned(),
            none,
            "multiples of `m`, which is not an axis",
        ),
        ("[indexes.x]\naxis = \"m\"\n".to_owned(), none, "`m`, which is not an axis"),
    ] {
        let error =
            template(&more, files).and_then(|template| claims::check(&template)).unwrap_err().to_string();
        assert!(error.contains(wanted), "{more}\n{error}");
    }
    let fine = code("{{ module }}_cuda/fill.cu") + "[[hole]]\nname = \"block\"\nkind = \"value\"\n";
    claims::check(&template(&fine, none).unwrap()).unwrap();
}

#[test]
fn a_choice_goes_to_its_place_and_the_others_stay_away() {
    let more = "[[hole]]\nname = \"way\"\nkind = \"choice\"\nfrom = \"ways\"\nfiles = [\"warp.h\", \"block.h.j2\"]\n\
                to = \"{{ module }}_cuda/way.h\"\ndefault = \"warp.h\"\n";
    let template =
        template(more, &[("ways/warp.h", "{{ warp }}"), ("ways/block.h.j2", "{{ module }}")]).unwrap();
    claims::check(&template).unwrap();
    let files = rendered(&template, &[]).unwrap();
    assert_eq!(text(&files, "fast_fill_cuda/way.h"), "{{ warp }}");
    assert!(files.iter().all(|(path, _)| !path.starts_with("ways")));
    assert_eq!(text(&rendered(&template, &[("way", "block")]).unwrap(), "fast_fill_cuda/way.h"), "fast_fill");
    let error = rendered(&template, &[("way", "grid")]).unwrap_err();
    assert_eq!(error.to_string(), "`grid` is not a valid value of `way`: it is not one of its files");
}

#[test]
fn shared_files_are_copied_or_rendered() {
    let more = "[[shared]]\nfrom = \"cpu/rows.h\"\nto = \"{{ module }}_cpu/rows.h\"\n\
                [[shared]]\nfrom = \"name.py.j2\"\nto = \"name.py\"\n";
    let files = rendered(&template(more, &[]).unwrap(), &[]).unwrap();
    assert_eq!(text(&files, "fast_fill_cpu/rows.h"), "// {{ kept }}\n");
    assert_eq!(text(&files, "name.py"), "fast_fill\n");
}

#[test]
fn a_value_becomes_the_default_of_its_tunable() {
    let more =
        "[[hole]]\nname = \"block\"\nkind = \"value\"\n[[hole]]\nname = \"unroll\"\nkind = \"value\"\n";
    let template = template(more, &[]).unwrap();
    let files = rendered(&template, &[("block", "128")]).unwrap();
    assert_eq!(text(&files, "op.toml"), OP.replace("default = 256", "default = 128"));
    for (set, wanted) in [
        (("width", "4"), "template `fill` does not have a hole `width`"),
        (("block", "100"), "`100` is not a valid value of `block`: it is not one of its values"),
        (("block", "128 # or so"), "it is not one of its values"),
        (("block", "512"), "op.toml does not allow block=512: "),
    ] {
        let error = rendered(&template, &[set]).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert!(rendered(&template, &[("block", "512"), ("unroll", "1")]).is_ok());
}

#[test]
fn code_is_not_set_on_a_command_line() {
    let more = "[[hole]]\nname = \"body\"\nkind = \"code\"\nfile = \"{{ module }}_cuda/fill.cu\"\ncontract = \"Fills.\"\n";
    let error = rendered(&template(more, &[]).unwrap(), &[("body", "b")]).unwrap_err();
    assert_eq!(error.to_string(), "the hole `body` is code, and cannot be set with --set");
}

#[test]
fn a_template_that_lets_tunables_be_set_does_so_for_all_of_them() {
    let mut seen = 0;
    for template in template::all().unwrap() {
        let offered = template.holes.iter().filter(|hole| hole.kind == Kind::Value);
        let offered: BTreeSet<String> = offered.map(|hole| hole.name.clone()).collect();
        if offered.is_empty() {
            continue;
        }
        let op = serves::served(template.clone()).unwrap().op;
        let there: BTreeSet<String> = op.tune.tunables.iter().map(|one| one.name.value.to_string()).collect();
        assert_eq!(offered, there, "{}", template.name);
        seen += 1;
    }
    assert!(seen > 8);
}

/// Some value holes of a template, each with one of its values.
fn drawn() -> impl Strategy<Value = (Template, BTreeMap<String, String>)> {
    let templates: Vec<Template> = template::all().unwrap();
    (0..templates.len()).prop_flat_map(move |place| {
        let template = templates[place].clone();
        let op = serves::served(template.clone()).unwrap().op;
        let values: Vec<Hole> =
            template.holes.iter().filter(|hole| hole.kind == Kind::Value).cloned().collect();
        let count = values.len();
        (subsequence(values, 0..=count), proptest::collection::vec(any::<Index>(), count)).prop_map(
            move |(holes, choices)| {
                let chosen = holes.iter().zip(&choices).map(|(hole, choice)| {
                    let mut tunables = op.tune.tunables.iter();
                    let tunable = tunables.find(|tunable| tunable.name.value.as_str() == hole.name).unwrap();
                    (hole.name.clone(), choice.get(&tunable.values).to_string())
                });
                (template.clone(), chosen.collect())
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn drawn_values_render_to_a_project_that_parses((template, set) in drawn()) {
        let answers = Answers { set: set.clone(), ..answers(&template, &[]) };
        match template::render(&template, &answers) {
            Ok(files) => {
                let (_, op) = settings::contract(&template, &files, settings::OP).unwrap();
                for tunable in &op.tune.tunables {
                    if let Some(value) = set.get(tunable.name.value.as_str()) {
                        prop_assert_eq!(&tunable.default.value.to_string(), value);
                    }
                }
                for (path, bytes) in files.iter() {
                    let words = format!("{}{}", path.display(), String::from_utf8_lossy(bytes));
                    prop_assert!(!words.contains("{{ ") && !words.contains("{%") && !words.contains(".j2"), "{}", path.display());
                }
            }
            // Values that [tune] does not admit together, which one alone cannot be in these templates.
            Err(error) => prop_assert!(
                set.len() > 1 && matches!(error, ScaffoldError::Inadmissible { .. }),
                "{error}"
            ),
        }
    }
}
