//! Holes: what of a template may be set or filled in, each with a default that works.
//!
//! Owns: their types as `template.toml` writes them, the marked regions of code. Never: reads a project.

use serde::{Deserialize, Serialize};

/// One `[[hole]]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Hole {
    /// Its name; of a value, that of the tunable.
    pub name: String,
    /// What is put in.
    #[serde(flatten)]
    pub kind: Kind,
    /// The command that proves what was put in.
    pub check: Check,
}

/// What a hole takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Kind {
    /// One of the values of `[tune.NAME]` in op.toml, as its default.
    Value,
    /// One of several files.
    Choice {
        /// The folder of the template with the files; nothing of it is written but what is chosen.
        from: String,
        /// The files.
        files: Vec<String>,
        /// Where the chosen one goes in the project.
        to: String,
        /// The one that is taken when nothing was said.
        default: String,
    },
    /// The region of a file between `// hole: NAME` and `// end of hole: NAME`; what stands there is the default.
    Code {
        /// The file in the project.
        file: String,
        /// What the code must do, in words.
        contract: String,
    },
    /// All device code in the folder of `[launch].source`, with `[let]`, `[tune]` and `[launch]` of op.toml.
    Kernel {
        /// What the kernels must do, in words.
        contract: String,
    },
}

/// The command that proves a filled hole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Check {
    /// Everything that the package computes.
    #[default]
    #[serde(rename = "verify")]
    Verify,
    /// Everything that the device code of `[launch]` computes.
    #[serde(rename = "verify --device")]
    VerifyDevice,
    /// The files of the project.
    #[serde(rename = "check")]
    Check,
    /// The task: op.toml and the reference.
    #[serde(rename = "lint")]
    Lint,
}

/// A hole as it is written: what belongs to one kind is refused in the others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    kind: String,
    #[serde(default)]
    check: Check,
    from: Option<String>,
    files: Option<Vec<String>>,
    to: Option<String>,
    default: Option<String>,
    file: Option<String>,
    contract: Option<String>,
}

impl TryFrom<Written> for Hole {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { name, kind, check, from, files, to, default, file, contract } = written;
        let kind = match (kind.as_str(), from, files, to, default, file, contract) {
            ("value", None, None, None, None, None, None) => Kind::Value,
            ("choice", Some(from), Some(files), Some(to), Some(default), None, None) => {
                Kind::Choice { from, files, to, default }
            }
            ("code", None, None, None, None, Some(file), Some(contract)) => Kind::Code { file, contract },
            ("kernel", None, None, None, None, None, Some(contract)) => Kind::Kernel { contract },
            ("value", ..) => {
                return Err(format!(
                    "the hole `{name}` is a value and can have only `name`, `kind` and `check`: \
                     its default and its values are those of [tune.{name}]"
                ));
            }
            ("choice", ..) => {
                return Err(format!(
                    "the hole `{name}` is a choice and has `from`, `files`, `to` and `default`"
                ));
            }
            ("code", ..) => {
                return Err(format!(
                    "the hole `{name}` is code and has `file` and `contract`; its default is the text between the markers"
                ));
            }
            ("kernel", ..) => {
                return Err(format!(
                    "the hole `{name}` is a kernel and has `contract`; its default is the device code with [let], [tune] and [launch] of op.toml"
                ));
            }
            (other, ..) => {
                return Err(format!(
                    "kind `{other}` of the hole `{name}` is not one of `value`, `choice`, `code` and `kernel`"
                ));
            }
        };
        Ok(Self { name, kind, check })
    }
}

impl Check {
    /// The command, for the folder of a project.
    pub fn command(self, dir: &str) -> String {
        let words = match self {
            Self::Verify => "verify",
            Self::VerifyDevice => "verify --device",
            Self::Check => "check",
            Self::Lint => "lint",
        };
        format!("kernelwright {words} {dir}")
    }
}

/// The contract of the kernels of a template that says nothing else of them.
const KERNEL: &str = "Any kernels, with the [let], [tune] and [launch] that start them. For all lengths that the axes of op.toml \
    allow they compute what the reference says, within the tolerance.";

impl Hole {
    /// The whole kernel of a template with `[launch]`.
    pub(crate) fn kernel() -> Self {
        let kind = Kind::Kernel { contract: KERNEL.to_owned() };
        Self { name: "kernel".to_owned(), kind, check: Check::VerifyDevice }
    }

    /// What is decided by whoever fills it: how the operation is computed, or what it computes.
    pub fn decides(&self) -> &'static str {
        match self.kind {
            Kind::Value | Kind::Choice { .. } | Kind::Kernel { .. } => "schedule",
            Kind::Code { .. } => "meaning",
        }
    }

    /// The folder of the template with the files to choose from.
    pub(crate) fn folder(&self) -> Option<&str> {
        match &self.kind {
            Kind::Choice { from, .. } => Some(from),
            Kind::Value | Kind::Code { .. } | Kind::Kernel { .. } => None,
        }
    }

    /// In one word.
    pub fn word(&self) -> &'static str {
        match self.kind {
            Kind::Value => "value",
            Kind::Choice { .. } => "choice",
            Kind::Code { .. } => "code",
            Kind::Kernel { .. } => "kernel",
        }
    }
}

/// The name of a file, without folders that depend on the project's name.
pub(crate) fn last_part(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// A marked region, in lines from 1: the markers, and all between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Region {
    /// The line of the first marker.
    pub first: usize,
    /// The line of the last marker.
    pub last: usize,
}

impl Region {
    /// The lines between the markers.
    pub fn inside<'t>(&self, text: &'t str) -> Vec<&'t str> {
        text.lines().skip(self.first).take(self.last - self.first - 1).collect()
    }

    /// The lines of the region with `more` before and after, each with its number.
    pub fn with_context<'t>(&self, text: &'t str, more: usize) -> Vec<(usize, &'t str)> {
        let first = self.first.saturating_sub(more).max(1);
        let numbered = text.lines().enumerate().map(|(place, line)| (place + 1, line));
        numbered.skip(first - 1).take(self.last + more + 1 - first).collect()
    }
}

/// The region of a hole in a text.
///
/// # Errors
/// The markers are not there exactly once, in order, with something between them; in words.
pub fn region(text: &str, name: &str) -> Result<Region, String> {
    let lines_of = |words: &str| -> Vec<usize> {
        let marks = [format!("// {words}: {name}"), format!("# {words}: {name}")];
        let numbered = text.lines().enumerate();
        numbered
            .filter(|(_, line)| marks.iter().any(|mark| mark == line.trim()))
            .map(|(place, _)| place + 1)
            .collect()
    };
    let (begins, ends) = (lines_of("hole"), lines_of("end of hole"));
    match (begins.as_slice(), ends.as_slice()) {
        ([first], [last]) if first + 1 < *last => Ok(Region { first: *first, last: *last }),
        ([first], [last]) if first < last => Err(format!("there is nothing between the markers of `{name}`")),
        ([_], [_]) => Err(format!("`end of hole: {name}` is before `hole: {name}`")),
        ([_], ends) => Err(format!("`// end of hole: {name}` occurs {} times instead of once", ends.len())),
        (begins, _) => Err(format!("`// hole: {name}` occurs {} times instead of once", begins.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_between_its_markers() {
        let text = "a\n// hole: gate\nb\nc\n  // end of hole: gate\nd\n";
        let found = region(text, "gate").unwrap();
        assert_eq!(found, Region { first: 2, last: 5 });
        assert_eq!(found.inside(text), ["b", "c"]);
        let around = found.with_context(text, 1);
        assert_eq!((around.first(), around.last()), (Some(&(1, "a")), Some(&(6, "d"))));
        assert_eq!(found.with_context(text, 9).len(), 6);
    }

    #[test]
    fn markers_that_are_not_there_once_are_named() {
        for (text, wanted) in [
            ("", "`// hole: gate` occurs 0 times"),
            ("// hole: gate\nx\n", "`// end of hole: gate` occurs 0 times"),
            ("// hole: gate\n// hole: gate\nx\n// end of hole: gate\n", "occurs 2 times"),
            ("// end of hole: gate\nx\n// hole: gate\n", "is before"),
            ("// hole: gate\n// end of hole: gate\n", "nothing between"),
            ("// hole: gate2\nx\n// end of hole: gate\n", "`// hole: gate` occurs 0 times"),
        ] {
            let error = region(text, "gate").unwrap_err();
            assert!(error.contains(wanted), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_hole_has_the_keys_of_its_kind() {
        let read = |text: &str| toml::from_str::<Hole>(text).map_err(|error| error.to_string());
        let hole = read("name = \"bytes\"\nkind = \"value\"").unwrap();
        assert_eq!((hole.kind, hole.check), (Kind::Value, Check::Verify));
        for (text, wanted) in [
            ("name = \"a\"\nkind = \"value\"\ndefault = \"4\"", "those of [tune.a]"),
            ("name = \"a\"\nkind = \"choice\"\nfrom = \"x\"", "`from`, `files`, `to` and `default`"),
            ("name = \"a\"\nkind = \"code\"\nfile = \"x\"", "has `file` and `contract`"),
            ("name = \"a\"\nkind = \"kernel\"\nfile = \"x\"", "is a kernel and has `contract`"),
            ("name = \"a\"\nkind = \"hole\"", "`value`, `choice`, `code` and `kernel`"),
            ("name = \"a\"\nkind = \"value\"\nchek = \"lint\"", "unknown field `chek`"),
            ("name = \"a\"\nkind = \"value\"\ncheck = \"format\"", "unknown variant `format`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
