//! `.gitattributes`: which files of a kernel are large ones, whatever they hold.
//!
//! Owns: the file that a new kernel begins with, and lines with `filter` (gitattributes(5)).
//! Never: knows another attribute, or quoted patterns.

/// The file of a new kernel: what a new repository of the Hub has, and libraries.
pub const FIRST: &str = "\
*.7z filter=lfs diff=lfs merge=lfs -text
*.arrow filter=lfs diff=lfs merge=lfs -text
*.bin filter=lfs diff=lfs merge=lfs -text
*.bz2 filter=lfs diff=lfs merge=lfs -text
*.gz filter=lfs diff=lfs merge=lfs -text
*.h5 filter=lfs diff=lfs merge=lfs -text
*.npy filter=lfs diff=lfs merge=lfs -text
*.npz filter=lfs diff=lfs merge=lfs -text
*.onnx filter=lfs diff=lfs merge=lfs -text
*.parquet filter=lfs diff=lfs merge=lfs -text
*.pickle filter=lfs diff=lfs merge=lfs -text
*.pkl filter=lfs diff=lfs merge=lfs -text
*.pt filter=lfs diff=lfs merge=lfs -text
*.pth filter=lfs diff=lfs merge=lfs -text
*.safetensors filter=lfs diff=lfs merge=lfs -text
*.so filter=lfs diff=lfs merge=lfs -text
*.tar filter=lfs diff=lfs merge=lfs -text
*.tar.* filter=lfs diff=lfs merge=lfs -text
*.tgz filter=lfs diff=lfs merge=lfs -text
*.wasm filter=lfs diff=lfs merge=lfs -text
*.xz filter=lfs diff=lfs merge=lfs -text
*.zip filter=lfs diff=lfs merge=lfs -text
*.zst filter=lfs diff=lfs merge=lfs -text
";

/// The lines that say whether a file goes by LFS, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes(Vec<(String, bool)>);

impl Attributes {
    /// Reads the file.
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let pattern = words.next().filter(|word| !word.starts_with(['#', '"', '!', '[']))?;
            let mut lfs = words.filter_map(|word| match word {
                "filter=lfs" => Some(true),
                "-filter" | "!filter" => Some(false),
                other => other.starts_with("filter=").then_some(false),
            });
            Some((pattern.to_owned(), lfs.next_back()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// Whether the file at this path goes by LFS; the last line that fits it decides.
    pub fn by_lfs(&self, path: &str) -> bool {
        self.0.iter().rev().find(|(pattern, _)| fits(pattern, path)).is_some_and(|(_, lfs)| *lfs)
    }
}

/// A pattern without `/` is of the name alone; one with it is of the whole path.
fn fits(pattern: &str, path: &str) -> bool {
    if pattern.contains('/') {
        return matches(pattern.strip_prefix('/').unwrap_or(pattern).as_bytes(), path.as_bytes());
    }
    matches(pattern.as_bytes(), path.rsplit('/').next().unwrap_or(path).as_bytes())
}

/// `*` and `?` are anything within a part, `**` anything, `**/` any folders or none. Both ends of the text are met
/// without going back further than to the last star, so that no pattern takes long.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to go on when what comes behind a star does not fit: behind the star, and one byte later in the text.
    let mut star: Option<(usize, usize)> = None;
    let mut stars: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at), text.get(from)) {
            (Some(b'*'), _) if pattern.get(at + 1) == Some(&b'*') => {
                at += 2;
                // `a/**/b` is `a/b` as well.
                at += usize::from(pattern.get(at) == Some(&b'/'));
                (stars, star) = (Some((at, from)), None);
            }
            (Some(b'*'), _) => {
                at += 1;
                star = Some((at, from));
            }
            (None, None) => return true,
            (Some(b'?'), Some(byte)) if *byte != b'/' => (at, from) = (at + 1, from + 1),
            (Some(wanted), Some(byte)) if wanted == byte => (at, from) = (at + 1, from + 1),
            _ => match (star, stars) {
                (Some((behind, begun)), _) if text.get(begun).is_some_and(|byte| *byte != b'/') => {
                    (at, from, star) = (behind, begun + 1, Some((behind, begun + 1)));
                }
                (_, Some((behind, begun))) if begun < text.len() => {
                    (at, from, star, stars) = (behind, begun + 1, None, Some((behind, begun + 1)));
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_are_gits() {
        for (pattern, path, fit) in [
            ("*.so", "build/a/_k.so", true),
            ("*.so", "_k.so.txt", false),
            ("*.tar.*", "x.tar.gz", true),
            ("*tfevents*", "a/out.tfevents.1", true),
            ("build/*.so", "build/x.so", true),
            ("build/*.so", "build/a/x.so", false),
            ("/build/*.so", "build/x.so", true),
            ("saved_model/**/*", "saved_model/a/b/c", true),
            ("saved_model/**/*", "saved_model/c", true),
            ("saved_model/**/*", "other/saved_model", false),
            ("a/**/b*c/d", "a/x/bc/y/bzc/d", true),
            ("?.py", "a.py", true),
            ("?.py", "ab.py", false),
            ("file", "a/file", true),
            ("**", "a/b", true),
        ] {
            assert_eq!(fits(pattern, path), fit, "{pattern} {path}");
        }
    }

    #[test]
    fn the_last_line_that_fits_decides() {
        let text = "# all\n*.bin filter=lfs -text\nsmall.bin -filter\n\"a b\" filter=lfs\n*.txt text\n\n*.py filter=x\n";
        let attributes = Attributes::parse(text);
        let by_lfs = |path| attributes.by_lfs(path);
        assert!(by_lfs("a/b.bin") && !by_lfs("small.bin") && !by_lfs("a.txt") && !by_lfs("a.py"));
        assert!(Attributes::parse(FIRST).by_lfs("build/torch-cpu/_k.so"));
        assert!(!Attributes::parse(FIRST).by_lfs("build/torch-cpu/__init__.py"));
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "([*?/ab\\n #-]|filter=lfs|\\PC){0,60}", path in "[ab/]{0,20}") {
            let _either = Attributes::parse(&text).by_lfs(&path);
        }
    }
}
