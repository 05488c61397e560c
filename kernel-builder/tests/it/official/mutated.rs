//! Sound build.toml files with one step of damage: the official parser and ours refuse the same ones.
//!
//! Owns: the steps, and which codes may refuse what the official parser accepts.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseError;
use toml::{Table, Value};

use super::corpus::files;
use super::generated::{runner, sound};
use super::{Official, difference};

/// What we refuse in values that the official parser does not look at.
const STRICTER: &[&str] = &[
    "spec::bad_capability",
    "spec::bad_rocm_arch",
    "spec::bad_value",
    "spec::empty_license",
    "spec::empty_list",
    "spec::empty_range",
    "spec::hub_repo_id",
    "spec::python_depends",
    "spec::section_name",
    "spec::source_outside",
];

/// A way to a value: the keys and indices from the root.
type Way = Vec<Step>;

#[derive(Debug, Clone)]
enum Step {
    Key(String),
    Entry(usize),
}

/// Every value below the root, tables and lists included.
fn ways(value: &Value, here: &Way, found: &mut Vec<Way>) {
    let children: Vec<_> = match value {
        Value::Table(table) => table.iter().map(|(key, child)| (Step::Key(key.clone()), child)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(index, child)| (Step::Entry(index), child)).collect()
        }
        _ => Vec::new(),
    };
    for (step, child) in children {
        let way: Way = here.iter().cloned().chain([step]).collect();
        ways(child, &way, found);
        found.push(way);
    }
}

fn at<'a>(root: &'a mut Value, way: &[Step]) -> Option<&'a mut Value> {
    way.iter().try_fold(root, |value, step| match step {
        Step::Key(key) => value.get_mut(key.as_str()),
        Step::Entry(index) => value.get_mut(*index),
    })
}

/// Every step of damage at one place.
const STEPS: usize = 14;

/// The file after a step of damage at a value; `None`: that step is not possible there.
fn damaged(file: &Table, way: &[Step], step: usize) -> Option<String> {
    let mut root = Value::Table(file.clone());
    let (last, parents) = way.split_last()?;
    let same = at(&mut root, way)?.clone();
    match step {
        // Without it.
        0 => match (at(&mut root, parents)?, last) {
            (Value::Table(table), Step::Key(key)) => drop(table.remove(key)?),
            (Value::Array(list), Step::Entry(index)) => drop(list.remove(*index)),
            _ => return None,
        },
        // Its key with a slip of the hand, or in the other case.
        1 | 2 => {
            let (Value::Table(table), Step::Key(key)) = (at(&mut root, parents)?, last) else { return None };
            let slipped = match step {
                1 => format!("{key}s"),
                _ if key.contains('-') => key.replace('-', "_"),
                _ => key.replace('_', "-"),
            };
            if table.contains_key(&slipped) {
                return None;
            }
            let value = table.remove(key)?;
            table.insert(slipped, value);
        }
        // A key more, in a table.
        3 => drop(at(&mut root, way)?.as_table_mut()?.insert("extra".to_owned(), Value::from(1))),
        // An entry twice, in a list.
        4 => {
            let list = at(&mut root, way)?.as_array_mut()?;
            list.push(list.first()?.clone());
        }
        // Values of every type.
        5 => *at(&mut root, way)? = Value::from("text"),
        6 => *at(&mut root, way)? = Value::from(7),
        7 => *at(&mut root, way)? = Value::from(-7),
        8 => *at(&mut root, way)? = Value::from(true),
        9 => *at(&mut root, way)? = Value::from(2.5),
        10 => *at(&mut root, way)? = Value::Array(Vec::new()),
        11 => *at(&mut root, way)? = Value::Table(Table::new()),
        12 => *at(&mut root, way)? = Value::from(""),
        // In a list of its own.
        13 => *at(&mut root, way)? = Value::Array(vec![same]),
        _ => return None,
    }
    toml::to_string(&root).ok()
}

#[test]
fn the_official_parser_agrees_on_every_step_of_damage_to_the_corpus() {
    let Some(mut official) = Official::start() else { return };
    let (mut asked, mut differences) = (0, Vec::new());
    for (name, text) in files("valid") {
        let file: Table = text.parse().expect("a valid file is TOML");
        let mut found = Vec::new();
        ways(&Value::Table(file.clone()), &Vec::new(), &mut found);
        for way in &found {
            for step in 0..STEPS {
                let Some(text) = damaged(&file, way, step) else { continue };
                asked += 1;
                if let Some(difference) = difference(&mut official, &text, STRICTER) {
                    differences.push(format!("{name}, step {step} at {way:?}: {difference}"));
                }
            }
        }
    }
    assert!(asked > 5000, "only {asked} files were asked about");
    let shown: Vec<_> = differences.iter().take(20).cloned().collect();
    assert!(
        differences.is_empty(),
        "{} of {asked} differ, among them:\n{}",
        differences.len(),
        shown.join("\n")
    );
}

#[test]
fn the_official_parser_agrees_on_500_drawn_files_with_a_step_of_damage() {
    let Some(official) = Official::start() else { return };
    let official = RefCell::new(official);
    let drawn = runner(500).run(&(sound(), any::<Index>(), 0..STEPS), |(file, place, step)| {
        let mut found = Vec::new();
        ways(&Value::Table(file.clone()), &Vec::new(), &mut found);
        let Some(text) = damaged(&file, &found[place.index(found.len())], step) else { return Ok(()) };
        match difference(&mut official.borrow_mut(), &text, STRICTER) {
            None => Ok(()),
            Some(difference) => Err(TestCaseError::fail(format!("{difference}\n{text}"))),
        }
    });
    if let Err(error) = drawn {
        panic!("{error}");
    }
}

#[test]
fn the_official_parser_accepts_every_name_version_and_address_that_we_accept() {
    let Some(official) = Official::start() else { return };
    let official = RefCell::new(official);
    let name = "[a-z]?[a-zA-Z0-9_-]{0,5}";
    let version = "[0-9 +]{1,3}\\.?[0-9]{0,2}(\\.[0-9])?";
    let address = "([a-zA-Z+]{2,8}|https|HTTP|ssh|git\\+ssh|file)?(:|://|:/)?([a-z:%]{0,4}@)?\
                   (\\[[0-9a-f:.]{1,9}\\]|[a-z0-9._-]{1,9}|xn--[a-z]{1,3}|0x[0-9a-f]{1,4}|[0-9.]{1,9})\
                   (:[0-9]{0,6})?[/:]{0,2}[a-z0-9?#%~@\\[\\]^|é -]{0,6}";
    let drawn = runner(1500).run(&(name, version, address), |(name, version, address)| {
        let mut official = official.borrow_mut();
        for [name, version, address] in [
            [name.as_str(), "12.8", "https://example.org"],
            ["ab", version.as_str(), "https://example.org"],
            ["ab", "12.8", address.as_str()],
        ] {
            let text = format!(
                "[general]\nname = '{name}'\nversion = 1\nedition = 5\nlicense = 'MIT'\nbackends = ['cuda']\n\
                 upstream = '{address}'\ncuda.minver = '{version}'\n[torch]\n"
            );
            if let Some(difference) = difference(&mut official, &text, &["spec::bad_value"]) {
                return Err(TestCaseError::fail(format!("{difference}\n{text}")));
            }
        }
        Ok(())
    });
    if let Err(error) = drawn {
        panic!("{error}");
    }
}

/// What is put into a text: pieces of TOML that change how the rest is read.
const PIECES: &[&str] = &[
    "",
    " ",
    "\n",
    "\r\n",
    "\r",
    "\t",
    ",",
    ",\n",
    ".",
    "=",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "[",
    "]",
    "{",
    "}",
    "[[",
    "]]",
    "{}",
    "[]",
    "#",
    "\\",
    "\\x41",
    "\\e",
    "\\u00e9",
    "0",
    "-",
    "+",
    "_",
    "0x",
    "é",
    "\u{feff}",
    "\u{0}",
    "edition = 5\n",
    "[general]\n",
    "[torch]\n",
    "[kernel.norm]\n",
    "1979-05-27",
    "true",
    "inf",
    "5.0",
];

#[test]
fn the_official_parser_agrees_on_1000_texts_with_a_slip_of_the_hand() {
    let Some(official) = Official::start() else { return };
    let official = RefCell::new(official);
    let texts: Vec<_> = files("valid").into_iter().map(|(_, text)| text).collect();
    let slip = (select(texts), any::<Index>(), 0usize..4, select(PIECES));
    let drawn = runner(1000).run(&slip, |(text, place, cut, piece)| {
        let places: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
        let start = place.index(places.len());
        let end = places.get(start + cut).copied().unwrap_or(text.len());
        let text = format!("{}{piece}{}", &text[..places[start]], &text[end..]);
        match difference(&mut official.borrow_mut(), &text, STRICTER) {
            None => Ok(()),
            Some(difference) => Err(TestCaseError::fail(format!("{difference}\n{text}"))),
        }
    });
    if let Err(error) = drawn {
        panic!("{error}");
    }
}
