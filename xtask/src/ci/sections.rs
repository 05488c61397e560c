//! The small part of TOML that .ci/budget.toml and .ci/proven.toml are written in.
//!
//! Owns: the format: comments, `[section]`, and `key = value` with the value on one line. Never: knows a key.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Values by section and key. A quoted value has lost its quotes.
pub(crate) type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// Reads a text.
///
/// # Errors
/// A line is neither of the three, a key is in no section, or it is there twice.
pub(crate) fn parse(text: &str) -> Result<Sections, String> {
    let mut sections = Sections::new();
    let mut name = None;
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    for (number, line) in lines {
        let wrong = |cause: &str| format!("line {}: {cause}: `{line}`", number + 1);
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name = Some(section);
            sections.entry(section.to_owned()).or_default();
            continue;
        }
        let (key, value) = line.split_once(" = ").ok_or_else(|| wrong("not `key = value`"))?;
        let section =
            name.and_then(|name| sections.get_mut(name)).ok_or_else(|| wrong("no [section] above"))?;
        let bare = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
        if section.insert(key.to_owned(), bare.to_owned()).is_some() {
            return Err(wrong("the same key twice"));
        }
    }
    Ok(sections)
}

/// Reads a file.
///
/// # Errors
/// It cannot be read or parsed.
pub(crate) fn read(path: &Path) -> Result<Sections, String> {
    let failed = |cause: String| format!("failed to read {}: {cause}", path.display());
    parse(&fs::read_to_string(path).map_err(|error| failed(error.to_string()))?).map_err(failed)
}

/// Writes a file with quoted values, sorted, below a header of comments. Readers see the old file or the new one.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(path: &Path, header: &str, sections: &Sections) -> Result<(), String> {
    let mut text = header.to_owned();
    for (name, values) in sections.iter().filter(|(_, values)| !values.is_empty()) {
        text += &format!("\n[{name}]\n");
        text.extend(values.iter().map(|(key, value)| format!("{key} = \"{value}\"\n")));
    }
    let part = path.with_extension("part");
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(&part, text))
        .and_then(|()| fs::rename(&part, path))
        .map_err(|error| format!("failed to write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_keys_and_quotes() {
        let found = parse("# about\n\n[step]\ntest = 360\n[other]\na-b = \"c\"\n").unwrap();
        assert_eq!(found["step"]["test"], "360");
        assert_eq!(found["other"]["a-b"], "c");
        assert!(parse("test = 360").unwrap_err().contains("no [section] above"));
        assert!(parse("[a]\nb").unwrap_err().starts_with("line 2: not `key = value`"));
        assert!(parse("[a]\nb = 1\nb = 2").unwrap_err().contains("twice"));
    }

    #[test]
    fn a_written_file_reads_back() {
        let folder = std::env::temp_dir().join(format!("xtask-sections-{}", std::process::id()));
        let path = folder.join("a.toml");
        let mut sections = Sections::new();
        sections.entry("one".to_owned()).or_default().insert("key".to_owned(), "value".to_owned());
        write(&path, "# header\n", &sections).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# header\n\n[one]\nkey = \"value\"\n");
        assert_eq!(read(&path).unwrap(), sections);
        fs::remove_dir_all(&folder).unwrap();
    }
}
