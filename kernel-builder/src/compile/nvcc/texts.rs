//! What a preprocessed text says about where it came from.
//!
//! Owns: line markers (`# 12 "file.h" 1 3`), which name files of this machine: they are read for the list of dependencies
//! and replaced by names that are the same on every machine. Never: touches any other line.

use std::collections::BTreeSet;

/// What stands for the project's folder.
pub(super) const PROJECT: &str = "/project";

/// Prefixes of paths here, and what stands for them in texts and objects; the longest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Vec<(String, String)>);

impl Names {
    pub(super) fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut pairs: Vec<(String, String)> = pairs.into_iter().collect();
        pairs.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        pairs.dedup();
        Self(pairs)
    }

    /// The flags with which the preprocessor uses the names in `__FILE__`. Of several that fit GCC takes the last.
    pub(super) fn flags(&self) -> impl Iterator<Item = String> {
        self.0.iter().rev().map(|(here, name)| format!("-ffile-prefix-map={here}={name}"))
    }

    /// A path in a marker by its name. One that is not absolute is the project's: left as it is, the front end would
    /// complete it with the folder that the steps run in.
    fn marked(&self, path: &str) -> Option<String> {
        let own = !path.is_empty() && !path.starts_with(['/', '<']);
        if own { Some(format!("{PROJECT}/{path}")) } else { self.name(path) }
    }

    /// A path by its name.
    pub(super) fn name(&self, path: &str) -> Option<String> {
        self.0.iter().find_map(|(here, name)| Some(format!("{name}{}", path.strip_prefix(here.as_str())?)))
    }

    /// A text with every path in it by its name.
    pub(super) fn all_named(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (here, name)| text.replace(here.as_str(), name))
    }

    /// What a compiler said, with the paths of this machine again, and the project's as they are written there. A name
    /// counts where a path begins, not inside one.
    pub(super) fn undone(&self, said: &str) -> String {
        let mut text = String::with_capacity(said.len());
        let mut rest = said;
        while let Some(letter) = rest.chars().next() {
            let inside = text.ends_with(|before: char| before.is_alphanumeric() || "/._-".contains(before));
            let own = rest.strip_prefix(PROJECT).and_then(|rest| rest.strip_prefix('/'));
            let named =
                self.0.iter().find_map(|(here, name)| Some((here, rest.strip_prefix(name.as_str())?)));
            match (own, named) {
                (Some(after), _) if !inside => rest = after,
                (None, Some((here, after))) if !inside && after.starts_with('/') => {
                    text.push_str(here);
                    rest = after;
                }
                _ => {
                    text.push(letter);
                    rest = &rest[letter.len_utf8()..];
                }
            }
        }
        text
    }
}

/// A text as it is compiled, and the files that it was made from.
#[derive(Debug)]
pub(super) struct PreparedText {
    pub(super) text: Vec<u8>,
    pub(super) files: BTreeSet<String>,
}

/// Reads the markers of a preprocessed text.
pub(super) fn read(text: &[u8], names: &Names) -> PreparedText {
    let mut read = PreparedText { text: Vec::with_capacity(text.len()), files: BTreeSet::new() };
    let mut last = None;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let Some((before, quoted, after)) = marker(line) else {
            read.text.extend_from_slice(line);
            continue;
        };
        if last != Some(quoted) {
            last = Some(quoted);
            read.files.extend(file(quoted));
        }
        match std::str::from_utf8(quoted).ok().and_then(|path| names.marked(path)) {
            Some(name) => {
                read.text.extend_from_slice(before);
                read.text.extend(name.into_bytes());
                read.text.extend_from_slice(after);
            }
            None => read.text.extend_from_slice(line),
        }
    }
    read
}

/// `# 12 "`, the file, `" 1 3`.
fn marker(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let rest = line.strip_prefix(b"# ").filter(|rest| rest.first().is_some_and(u8::is_ascii_digit))?;
    let open = line.len() - rest.len() + rest.iter().position(|byte| *byte == b'"')? + 1;
    let close = open + line[open..].iter().rposition(|byte| *byte == b'"')?;
    Some((&line[..open], &line[open..close], &line[close..]))
}

/// The file of a marker; nothing for the compiler's own places and for folders.
fn file(quoted: &[u8]) -> Option<String> {
    let path = std::str::from_utf8(quoted).ok()?.replace("\\\\", "\\").replace("\\\"", "\"");
    (!path.is_empty() && !path.starts_with('<') && !path.ends_with('/')).then_some(path)
}

/// The list of files in the form of `make`, as compilers write it.
pub(super) fn depfile(object: &str, files: &[String]) -> String {
    let escape =
        |path: &str| path.replace('\\', "\\\\").replace(' ', "\\ ").replace('#', "\\#").replace('$', "$$");
    let rest = files.iter().map(|path| format!(" \\\n  {}", escape(path)));
    format!("{}:{}\n", escape(object), rest.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::cache::parse_depfile;

    fn names() -> Names {
        Names::new([
            ("/home/me/cache/cuda/13.0-ab".to_owned(), "/cuda".to_owned()),
            ("/home/me/cache".to_owned(), "/cache".to_owned()),
        ])
    }

    #[test]
    fn markers_are_read_and_renamed_and_nothing_else_is() {
        let text = "# 0 \"src/a.cu\"\n# 0 \"<built-in>\"\n# 1 \"/home/me/cache/cuda/13.0-ab/include/x.h\" 1 3\n\
                    #pragma once\nconst char* p = \"/home/me/cache\";\n# 9 \"src/a.cu\" 2\n";
        let read = read(text.as_bytes(), &names());
        let files: Vec<&str> = read.files.iter().map(String::as_str).collect();
        assert_eq!(files, ["/home/me/cache/cuda/13.0-ab/include/x.h", "src/a.cu"]);
        let want = text
            .replace("\"/home/me/cache/cuda/13.0-ab/include/x.h\"", "\"/cuda/include/x.h\"")
            .replace("\"src/a.cu\"", "\"/project/src/a.cu\"");
        assert_eq!(String::from_utf8(read.text).unwrap(), want);
    }

    #[test]
    fn what_a_compiler_says_names_this_machine() {
        let said = "/cuda/include/x.h(3): error: no";
        assert_eq!(names().undone("/project/src/a.cu(3): error: no"), "src/a.cu(3): error: no");
        assert_eq!(
            names().undone("in /me/project/a and \"/cache/b\""),
            "in /me/project/a and \"/home/me/cache/b\""
        );
        assert_eq!(names().undone(said), "/home/me/cache/cuda/13.0-ab/include/x.h(3): error: no");
        let flags: Vec<String> = names().flags().collect();
        assert_eq!(flags[1], "-ffile-prefix-map=/home/me/cache/cuda/13.0-ab=/cuda");
    }

    #[test]
    fn the_list_is_read_as_it_was_written() {
        let files = ["a b.h".to_owned(), "c$d.h".to_owned(), "e#f\\g.h".to_owned()];
        let paths: Vec<String> = parse_depfile(&depfile("x.o", &files))
            .into_iter()
            .map(|path| path.display().to_string())
            .collect();
        assert_eq!(paths, files);
    }
}
