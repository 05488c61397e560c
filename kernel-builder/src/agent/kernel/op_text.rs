//! op.toml as an agent sees it, and what of it an agent may change.
//!
//! Owns: which keys are a candidate's own, which are frozen, and which nobody but the judge sees. Never: parses what a
//! key means; `kernel_plan::spec` does.

use std::collections::BTreeSet;

use thiserror::Error;
use toml_edit::{DocumentMut, Item};

use crate::base::causes::TomlError;

/// The sections that belong to a candidate. Names of `[let]` stand for expressions in the other two alone.
const OWN: [&str; 3] = ["let", "tune", "launch"];
/// The section with workloads, and the key that keeps one from agents.
const WORKLOAD: &str = "workload";
const HELD_OUT: &str = "held-out";

/// An op.toml that cannot be read or edited as TOML; one line, without the lines around the place.
#[derive(Debug, Error)]
pub(crate) enum OpTextError {
    /// Read as values.
    #[error(transparent)]
    Values(#[from] TomlError),
    /// Read as a text that is edited.
    #[error("{}", .0.message())]
    Document(#[from] toml_edit::TomlError),
}

/// `[let]`, `[tune]` and `[launch]` of an op.toml, in this order, as they stand there.
///
/// # Errors
/// It is not TOML.
pub(crate) fn schedule(op: &str) -> Result<String, OpTextError> {
    let all = values(op)?;
    let chunks = chunks(op);
    let found: String = OWN
        .iter()
        .flat_map(|key| chunks.iter().filter(move |chunk| chunk.section.as_deref() == Some(*key)))
        .map(Chunk::separated)
        .collect();
    let wanted: toml::Table = all.into_iter().filter(|(key, _)| OWN.contains(&key.as_str())).collect();
    if values(&found).is_ok_and(|found| found == wanted) { Ok(found) } else { Ok(wanted.to_string()) }
}

/// The project's op.toml with the candidate's schedule in the places of its own.
///
/// # Errors
/// One of them is not TOML.
pub(crate) fn merged(op: &str, schedule: &str) -> Result<String, OpTextError> {
    let (mut wanted, own) = (values(op)?, values(schedule)?);
    for key in OWN {
        match own.get(key) {
            Some(value) => wanted.insert(key.to_owned(), value.clone()),
            None => wanted.remove(key),
        };
    }
    let (before, new) = (chunks(op), chunks(schedule));
    let (mut text, mut placed) = (String::new(), BTreeSet::new());
    let mut place = |key: &str, text: &mut String| {
        if placed.insert(key.to_owned()) {
            new.iter()
                .filter(|chunk| chunk.section.as_deref() == Some(key))
                .for_each(|chunk| *text += &chunk.separated());
        }
    };
    for chunk in &before {
        match chunk.section.as_deref().filter(|section| OWN.contains(section)) {
            Some(section) => place(section, &mut text),
            None => text += &chunk.text,
        }
    }
    let mut last = String::new();
    OWN.iter().for_each(|key| place(key, &mut last));
    if !last.is_empty() && !text.ends_with("\n\n") {
        text += "\n";
    }
    text += &last;
    if values(&text).is_ok_and(|merged| merged == wanted) {
        return Ok(text);
    }
    // Sections that are written in another way, such as `launch.source = "x"` at the top.
    let (mut document, mut own) = (parsed(op)?, parsed(schedule)?);
    for key in OWN {
        match own.remove(key) {
            Some(item) => {
                document.insert(key, item);
            }
            None => {
                document.remove(key);
            }
        }
    }
    Ok(document.to_string())
}

/// The lines of a table, with the comment above it.
#[derive(Debug, Default)]
struct Chunk {
    /// The first part of the table's name; nothing before the first table.
    section: Option<String>,
    text: String,
}

impl Chunk {
    /// The text with an empty line behind it.
    fn separated(&self) -> String {
        format!("{}\n\n", self.text.trim_end())
    }
}

/// The tables of a file as they are usually written. Whoever puts them together again compares the values.
fn chunks(text: &str) -> Vec<Chunk> {
    let mut found = vec![Chunk::default()];
    let mut comment = String::new();
    for line in text.split_inclusive('\n') {
        if let Some(section) = header(line) {
            found.push(Chunk { section: Some(section), text: std::mem::take(&mut comment) + line });
        } else if line.starts_with('#') {
            comment += line;
        } else if let Some(last) = found.last_mut() {
            last.text += &std::mem::take(&mut comment);
            last.text += line;
        }
    }
    if let Some(last) = found.last_mut() {
        last.text += &comment;
    }
    found
}

/// The first part of the name of a table that begins in this line.
fn header(line: &str) -> Option<String> {
    let name = line.strip_prefix('[')?.trim_start_matches('[');
    let length = name.find(|letter: char| !(letter.is_ascii_alphanumeric() || "_-".contains(letter)))?;
    let is_end = name[length..].starts_with([']', '.']);
    (is_end && length > 0).then(|| name[..length].to_owned())
}

/// [`merged`] for a file of the project: unchanged where the schedule is the one that it has.
///
/// # Errors
/// One of them is not TOML.
pub(crate) fn with_schedule(op: &str, new: &str) -> Result<String, OpTextError> {
    let same = values(&schedule(op)?)? == values(new)?;
    if same { Ok(op.to_owned()) } else { merged(op, new) }
}

/// op.toml without the workloads that are held out.
///
/// # Errors
/// It is not TOML.
pub(crate) fn visible(op: &str) -> Result<String, OpTextError> {
    let mut document = parsed(op)?;
    let hidden = held_out(&values(op)?);
    if let Some(workloads) = document.get_mut(WORKLOAD).and_then(Item::as_table_like_mut) {
        for name in hidden {
            workloads.remove(&name);
        }
    }
    Ok(document.to_string())
}

/// The first key, in the order of the project's file, that a candidate's op.toml changes and may not; held-out workloads may be missing there.
///
/// # Errors
/// One of them is not TOML.
pub(crate) fn difference(project: &str, candidate: &str) -> Result<Option<String>, OpTextError> {
    let (mut ours, mut theirs) = (values(project)?, values(candidate)?);
    for table in [&mut ours, &mut theirs] {
        for key in OWN {
            table.remove(key);
        }
    }
    let hidden = held_out(&ours);
    if let Some(workloads) = ours.get_mut(WORKLOAD).and_then(toml::Value::as_table_mut) {
        let there: BTreeSet<String> = theirs
            .get(WORKLOAD)
            .and_then(toml::Value::as_table)
            .map(|table| table.keys().cloned().collect())
            .unwrap_or_default();
        workloads.retain(|name, _| there.contains(name) || !hidden.contains(name));
    }
    Ok(differs("", &ours, &theirs))
}

fn parsed(text: &str) -> Result<DocumentMut, OpTextError> {
    Ok(text.parse()?)
}

fn values(text: &str) -> Result<toml::Table, OpTextError> {
    Ok(text.parse::<toml::Table>().map_err(TomlError::from)?)
}

fn held_out(op: &toml::Table) -> BTreeSet<String> {
    let workloads = op.get(WORKLOAD).and_then(toml::Value::as_table).into_iter().flatten();
    let hidden =
        workloads.filter(|(_, workload)| workload.get(HELD_OUT).and_then(toml::Value::as_bool) == Some(true));
    hidden.map(|(name, _)| name.clone()).collect()
}

/// The path of the first key that is not the same in both.
fn differs(prefix: &str, ours: &toml::Table, theirs: &toml::Table) -> Option<String> {
    let path = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
    for (key, value) in ours {
        match (value, theirs.get(key)) {
            (_, None) => return Some(path(key)),
            (toml::Value::Table(ours), Some(toml::Value::Table(theirs))) => {
                if let Some(found) = differs(&path(key), ours, theirs) {
                    return Some(found);
                }
            }
            (value, Some(other)) if value != other => return Some(path(key)),
            _ => {}
        }
    }
    // The order of arguments is that of the keys.
    let more = theirs.keys().find(|key| !ours.contains_key(*key)).map(|key| path(key));
    more.or_else(|| {
        ours.keys().zip(theirs.keys()).find(|(ours, theirs)| ours != theirs).map(|(key, _)| path(key))
    })
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;
    use kernel_plan::spec::parse_op;

    use super::*;

    const OP: &str = include_str!("../../../../examples/rms-norm-device/op.toml");

    fn with_secret() -> String {
        OP.replace("[workload.odd-hidden]\n", "[workload.odd-hidden]\nheld-out = true\n")
    }

    #[test]
    fn what_an_agent_may_change_is_launch_and_tune() {
        for (from, to) in [
            ("grid = [\"rows\"]", "grid = [\"rows + 0\"]"),
            ("values = [4, 8, 16]", "values = [4, 8]"),
            ("[tune.reread]\nvalues = [true, false]\ndefault = false\n", ""),
            ("# A row that", "# Other words; a row that"),
            ("source = \"rms_norm.cu\"", "source = \"other.cu\""),
            ("[launch]\n", "[let]\nlong = \"hidden > 9\"\n\n[launch]\n"),
        ] {
            assert!(OP.contains(from), "{from}");
            assert_eq!(difference(OP, &OP.replacen(from, to, 1)).unwrap(), None, "{to}");
        }
        for (from, to, key) in [
            ("roundings = 1", "roundings = 9", "tolerance.roundings"),
            ("min = 1", "min = 2", "axes.hidden.min"),
            ("fused = \"rms_norm_fused\"\n", "", "reference.fused"),
            ("hidden = 4097", "hidden = 4096", "workload.odd-hidden.axes.hidden"),
            ("[workload.no-rows]", "[workload.some-rows]", "workload.no-rows"),
            (
                "[workload.no-rows]",
                "[workload.mine]\naxes = { rows = 1, hidden = 1 }\n[workload.no-rows]",
                "workload.mine",
            ),
            ("accumulate = \"f32\"", "accumulate = \"f32\"\ncancels = true", "tolerance.cancels"),
            ("format = 1", "format = 1\nconstraints = [\"rows < 9\"]", "constraints"),
            ("dtype = \"T\" }\nweight", "dtype = \"f32\" }\nweight", "inputs.input.dtype"),
            ("[\"bf16\", \"f16\", \"f32\"]", "[\"bf16\"]", "dtypes.T"),
        ] {
            assert!(OP.contains(from), "{from}");
            assert_eq!(difference(OP, &OP.replacen(from, to, 1)).unwrap(), Some(key.to_owned()), "{to}");
        }
        // The order of inputs is the order of arguments.
        let (input, weight) = (
            "input = { shape = [\"rows\", \"hidden\"], dtype = \"T\" }\n",
            "weight = { shape = [\"hidden\"], dtype = \"T\" }\n",
        );
        let other = OP.replace(&format!("{input}{weight}"), &format!("{weight}{input}"));
        assert_eq!(difference(OP, &other).unwrap(), Some("inputs.input".to_owned()));
    }

    #[test]
    fn a_held_out_workload_is_not_shown_and_may_be_missing() {
        let op = with_secret();
        let shown = visible(&op).unwrap();
        assert!(!shown.contains("odd-hidden") && shown.contains("many-short-rows"), "{shown}");
        assert_eq!(difference(&op, &shown).unwrap(), None);
        assert_eq!(difference(&op, &op).unwrap(), None);
        let key = Some("workload.odd-hidden.axes.hidden".to_owned());
        assert_eq!(difference(&op, &op.replace("hidden = 4097", "hidden = 4096")).unwrap(), key);
        let read = |text: &str| parse_op(SourceFile::new("op.toml", text)).0.unwrap();
        assert_eq!(read(&shown).workloads.len() + 1, read(&op).workloads.len());
        assert_eq!(visible(OP).unwrap(), OP, "without one nothing changes");
    }

    #[test]
    fn a_schedule_comes_out_and_goes_into_the_projects_own_text() {
        let other = OP
            .replace("grid = [\"rows\"]", "grid = [\"rows + 0\"]")
            .replace("[tune.reread]\nvalues = [true, false]\ndefault = false\n", "");
        let other = other.replace("not reread and ", "").replace("reread or ", "");
        let found = schedule(&other).unwrap();
        assert!(found.contains("[[launch.kernel]]") && found.contains("[tune.block]"), "{found}");
        assert!(!found.contains("[workload") && !found.contains("[axes]"), "{found}");
        let text = merged(&with_secret(), &found).unwrap();
        let (op, problems) = parse_op(SourceFile::new("op.toml", text.as_str()));
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        let (op, before) = (op.unwrap(), parse_op(SourceFile::new("op.toml", with_secret())).0.unwrap());
        assert_eq!((op.tune.tunables.len(), before.tune.tunables.len()), (4, 5));
        assert_eq!(op.workloads.len(), before.workloads.len());
        assert!(op.workloads.iter().any(|workload| workload.held_out));
        assert_eq!(schedule(&text).unwrap(), found);
        // Comments of the rest stay where they are.
        assert!(text.starts_with("# Device code alone"), "{text}");
        let order: Vec<usize> = [
            "[tolerance]",
            "[tune.block]",
            "\n[launch]\n",
            "# A row that",
            "[[launch.kernel]]",
            "[workload.single",
        ]
        .map(|part| text.find(part).unwrap_or_else(|| panic!("{part}")))
        .to_vec();
        assert!(order.is_sorted(), "{text}");
        assert_eq!(merged(&text, &found).unwrap(), text);
        assert_eq!(with_schedule(OP, &schedule(OP).unwrap()).unwrap(), OP);
        let back = merged(&text, &schedule(OP).unwrap()).unwrap();
        assert_eq!(difference(OP, &back.replace("held-out = true\n", "")).unwrap(), None);
    }

    #[test]
    fn sections_that_are_written_otherwise_are_found_by_their_values() {
        let op = "launch.source = \"a.cu\"\nname = \"x\"\n[axes]\nrows = 1\n";
        assert_eq!(values(&schedule(op).unwrap()).unwrap(), values("launch.source = \"a.cu\"").unwrap());
        let text = merged(op, "[launch]\nsource = \"b.cu\"\n").unwrap();
        assert_eq!(values(&text).unwrap(), values(&op.replace("a.cu", "b.cu")).unwrap());
        // A section that the project has not comes last, and one that the candidate has not goes.
        let op = "name = \"x\"\n\n[tune.a]\nvalues = [1]\n\n[axes]\nrows = 1\n";
        assert_eq!(
            merged(op, "[launch]\nsource = \"b.cu\"\n").unwrap(),
            "name = \"x\"\n\n[axes]\nrows = 1\n\n[launch]\nsource = \"b.cu\"\n\n"
        );
        // A text that looks like a table within a string.
        let odd = "description = \"\"\"\n[launch]\nx = 1\n\"\"\"\n[launch]\nsource = \"a.cu\"\n";
        assert_eq!(values(&schedule(odd).unwrap()).unwrap(), values("launch.source = \"a.cu\"").unwrap());
    }

    #[test]
    fn what_is_no_toml_is_told() {
        assert!(schedule("[launch").is_err());
        assert!(difference(OP, "a = ").is_err() && merged(OP, "x x").is_err() && visible("=").is_err());
    }
}
