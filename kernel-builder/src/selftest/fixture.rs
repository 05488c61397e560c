//! The fixtures as they are embedded: what each one is, and the project that it makes.
//!
//! Owns: the format of cheat.toml (documented in tests/cheats/README.md), the base projects.
//! Never: runs or writes anything.

use std::collections::BTreeMap;
use std::path::Path;

use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};

use super::SelftestError;
use super::verdict::Expected;
use crate::base::causes::Cause;
use crate::scaffold::host::Framework;
use crate::scaffold::{Answers, FileSet, template};

static FIXTURES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../tests/cheats");
/// Folders of tests/cheats that hold no fixture themselves.
const PROJECTS: &str = "projects";
const HONEST: &str = "honest";
/// The project that is rendered from a template; all others are in `projects/`.
const RENDERED: &str = "rms-norm";
/// Its template.
const TEMPLATE: &str = "rms-norm-strided";

/// What a fixture needs to be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ring {
    /// A processor.
    #[serde(rename = "cpu")]
    Cpu,
    /// An NVIDIA GPU.
    #[serde(rename = "gpu")]
    Gpu,
    /// An NVIDIA GPU, and Triton beside torch.
    #[serde(rename = "gpu+triton")]
    GpuTriton,
}

impl std::fmt::Display for Ring {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::GpuTriton => "gpu+triton",
        })
    }
}

/// Whether there is host code of the kernel's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Candidate {
    /// A package with code of its own for the host: C++ or Python.
    #[default]
    Extension,
    /// Device code and `[launch]` of op.toml.
    Device,
}

/// The command that must find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgedBy {
    /// `verify`.
    #[default]
    Verify,
    /// `bench`: it shows only when it is timed.
    Bench,
}

/// Something that gets a row: a fixture, or one of those in its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The fixture's name; in a queue with its place and the name of the other fixture.
    pub name: String,
    /// What it does, in a few words.
    pub does: String,
    /// What must come of it.
    pub expected: Expected,
}

/// One folder of tests/cheats: `cheat.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// The folder's name.
    pub name: String,
    /// What it does, in at most forty characters.
    pub does: String,
    /// What goes wrong, and why a weaker check would miss it.
    #[expect(dead_code, reason = "for people who read the file; that it is there is required")]
    why: String,
    /// Cheats of one kind, and the honest kernels that could be mistaken for them.
    pub family: String,
    /// What it needs.
    #[serde(default = "processor")]
    pub ring: Ring,
    /// Whether there is host code.
    #[serde(default)]
    pub candidate: Candidate,
    /// The command that must find out.
    #[serde(default)]
    pub judged_by: JudgedBy,
    /// The project that it changes.
    #[serde(default = "default_project")]
    project: String,
    /// Paths in the project that its files replace; none where the project itself is judged.
    #[serde(default)]
    replaces: Vec<String>,
    /// Codes of which one must refuse it.
    #[serde(default)]
    refused_with: Vec<String>,
    /// Codes of which one must warn of it.
    #[serde(default)]
    warned_with: Vec<String>,
    /// Whether it must pass.
    #[serde(default)]
    pub passes: bool,
    /// Other fixtures that one run of `screen` judges, in this order.
    #[serde(default)]
    pub queue: Vec<String>,
    /// Seconds for all calls together, where the cheat is about time.
    pub deadline: Option<u64>,
    /// Its folder in tests/cheats.
    #[serde(skip)]
    folder: String,
}

fn processor() -> Ring {
    Ring::Cpu
}

fn default_project() -> String {
    RENDERED.to_owned()
}

impl Fixture {
    /// What gets a row: itself, or all in its queue.
    ///
    /// # Errors
    /// A fixture that the queue names is not there.
    pub fn subjects(&self) -> Result<Vec<Subject>, SelftestError> {
        if self.queue.is_empty() {
            return Ok(vec![self.subject(self.name.clone())]);
        }
        let members = self.members()?;
        let named = members.iter().enumerate();
        Ok(named.map(|(at, one)| one.subject(format!("{}-{}-{}", self.name, at + 1, one.name))).collect())
    }

    fn subject(&self, name: String) -> Subject {
        let expected = match (self.refused_with.is_empty(), self.warned_with.is_empty()) {
            (false, _) => Expected::Refused(self.refused_with.clone()),
            (true, false) => Expected::Warned(self.warned_with.clone()),
            (true, true) => Expected::Passed,
        };
        Subject { name, does: self.does.clone(), expected }
    }

    /// The fixtures in the queue.
    fn members(&self) -> Result<Vec<Self>, SelftestError> {
        let find = |name: &String| {
            let folder = FIXTURES.get_dir(name).or_else(|| FIXTURES.get_dir(Path::new(HONEST).join(name)));
            let member = folder.map(read).transpose()?;
            let fits = |one: &Self| {
                let texts = one.replaces.len() <= 1 && one.candidate == Candidate::Device;
                texts && one.queue.is_empty() && one.project == self.project
            };
            member.filter(fits).ok_or_else(|| SelftestError::Fixture {
                folder: self.folder.clone(),
                cause: format!("`{name}` is no device code of the project `{}`", self.project).into(),
            })
        };
        self.queue.iter().map(find).collect()
    }

    /// The device code of each in the queue; nothing for that of the project itself.
    ///
    /// # Errors
    /// A fixture that the queue names is not there, or has no file.
    pub fn candidates(&self) -> Result<Vec<Option<&'static [u8]>>, SelftestError> {
        let text = |one: Self| match one.replaces.first() {
            Some(place) => one.file(place).map(Some),
            None => Ok(None),
        };
        self.members()?.into_iter().map(text).collect()
    }

    /// The file that takes a place in the project.
    fn file(&self, place: &str) -> Result<&'static [u8], SelftestError> {
        let name = Path::new(place).file_name().unwrap_or_default();
        let file = FIXTURES.get_file(Path::new(&self.folder).join(name));
        file.map(|file| file.contents()).ok_or_else(|| SelftestError::Fixture {
            folder: self.folder.clone(),
            cause: format!("there is no {}", name.display()).into(),
        })
    }

    /// The project that it changes.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// Whether it differs from its project.
    pub fn changes_files(&self) -> bool {
        !self.replaces.is_empty()
    }

    /// The project without the fixture's files.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn base_files(&self) -> Result<FileSet, SelftestError> {
        base(&self.project).map_err(|cause| SelftestError::Fixture { folder: self.folder.clone(), cause })
    }

    /// The project with the fixture's files in place.
    ///
    /// # Errors
    /// A file that it names is not there.
    pub fn files(&self) -> Result<FileSet, SelftestError> {
        let wrong = |cause: Cause| SelftestError::Fixture { folder: self.folder.clone(), cause };
        let mut set = base(&self.project).map_err(&wrong)?;
        for place in &self.replaces {
            let file = self.file(place)?;
            if !set.iter().any(|(path, _)| path == Path::new(place)) {
                return Err(wrong(format!("the project `{}` has no {place}", self.project).into()));
            }
            set.insert(place, file).map_err(|error| wrong(error.into()))?;
        }
        Ok(set)
    }
}

/// Every fixture: those that must be refused first, then by name; queues last.
///
/// # Errors
/// One of them cannot be read, which the tests find.
pub fn all() -> Result<Vec<Fixture>, SelftestError> {
    let honest = FIXTURES.get_dir(HONEST).into_iter().flat_map(Dir::dirs);
    let folders = FIXTURES.dirs().filter(|folder| {
        let name = folder.path().display().to_string();
        name != PROJECTS && name != HONEST
    });
    let mut found = folders.chain(honest).map(read).collect::<Result<Vec<_>, _>>()?;
    found.sort_by(|a, b| place_of(a).cmp(&place_of(b)));
    Ok(found)
}

fn place_of(fixture: &Fixture) -> (bool, Ring, bool, &str) {
    (!fixture.queue.is_empty(), fixture.ring, fixture.passes, &fixture.name)
}

fn read(folder: &Dir<'_>) -> Result<Fixture, SelftestError> {
    let path = folder.path().display().to_string();
    let text = folder.get_file(folder.path().join("cheat.toml")).and_then(|file| file.contents_utf8());
    parse(&path, text.unwrap_or_default()).map_err(|cause| SelftestError::Fixture { folder: path, cause })
}

/// Reads one cheat.toml and holds it against what a fixture must say.
fn parse(folder: &str, text: &str) -> Result<Fixture, Cause> {
    let fixture: Fixture = toml::from_str(text)?;
    let is_honest = folder.starts_with(HONEST);
    let queues = !fixture.queue.is_empty();
    let answers = [!fixture.refused_with.is_empty(), !fixture.warned_with.is_empty(), fixture.passes, queues];
    if answers.iter().filter(|given| **given).count() != 1 {
        return Err("set exactly one of `refused_with`, `warned_with`, `passes = true` and `queue`".into());
    }
    if fixture.passes != is_honest {
        return Err(format!("only fixtures that must pass belong in `{HONEST}/`, and all of them do").into());
    }
    if Path::new(folder).file_name().is_none_or(|name| *name != *fixture.name) {
        return Err("`name` must be the name of the folder".into());
    }
    if fixture.replaces.is_empty() && !is_honest && !queues {
        return Err("it replaces nothing".into());
    }
    if fixture.does.chars().count() > 40 {
        return Err("`does` has more than forty characters".into());
    }
    Ok(Fixture { folder: folder.to_owned(), ..fixture })
}

/// The files of a base project.
fn base(project: &str) -> Result<FileSet, Cause> {
    let mut set = if project == RENDERED { rendered()? } else { FileSet::default() };
    let root = Path::new(PROJECTS).join(project);
    let mut pending: Vec<_> = FIXTURES.get_dir(&root).into_iter().collect();
    if pending.is_empty() && project != RENDERED {
        return Err(format!("there is no project `{project}`").into());
    }
    while let Some(folder) = pending.pop() {
        pending.extend(folder.dirs());
        for file in folder.files() {
            let inside = file.path().strip_prefix(&root).unwrap_or(file.path());
            set.insert(inside, file.contents())?;
        }
    }
    Ok(set)
}

/// The project that `new` makes of the template.
fn rendered() -> Result<FileSet, Cause> {
    let template = template::find(TEMPLATE)?;
    let answers = Answers {
        owner: "kernelwright".to_owned(),
        name: RENDERED.parse()?,
        license: "Apache-2.0".to_owned(),
        backends: template.backends.clone(),
        framework: Framework::Torch,
        year: 2026,
        set: BTreeMap::new(),
    };
    Ok(template::render(&template, &answers)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kernel_plan::diagnostic::SourceFile;
    use kernel_plan::spec;

    use super::*;
    use crate::base::causes::chain;

    #[test]
    fn every_fixture_is_a_whole_project() {
        for fixture in all().unwrap() {
            let files = fixture.files().unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
            for needed in ["build.toml", "op.toml", "reference.py"] {
                assert!(
                    files.iter().any(|(path, _)| path == Path::new(needed)),
                    "{}: {needed}",
                    fixture.name
                );
            }
        }
    }

    #[test]
    fn what_every_fixture_says_of_itself_can_be_read() {
        for fixture in all().unwrap() {
            let files = fixture.files().unwrap();
            let text = |name: &str| {
                let file = files.iter().find(|(path, _)| path == &Path::new(name));
                SourceFile::new(name, String::from_utf8(file.unwrap().1.to_vec()).unwrap())
            };
            let (build, problems) = spec::parse_build(text("build.toml"));
            assert!(build.is_some() && problems.is_empty(), "{}: {problems:?}", fixture.name);
            let (op, problems) = spec::parse_op(text("op.toml"));
            assert!(problems.is_empty(), "{}: {problems:?}", fixture.name);
            if fixture.candidate == Candidate::Device {
                let launch = op.and_then(|op| op.launch).unwrap_or_else(|| panic!("{}", fixture.name));
                let source = Path::new(launch.source.value.as_str());
                assert!(files.iter().any(|(path, _)| path == source), "{}", fixture.name);
            }
        }
    }

    #[test]
    fn every_file_of_a_fixture_takes_a_place() {
        for fixture in all().unwrap() {
            let folder = FIXTURES.get_dir(&fixture.folder).unwrap();
            let placed: BTreeSet<_> =
                fixture.replaces.iter().filter_map(|place| Path::new(place).file_name()).collect();
            for file in folder.files() {
                let name = file.path().file_name().unwrap();
                assert!(
                    name == "cheat.toml" || placed.contains(name),
                    "{}: {}",
                    fixture.name,
                    name.display()
                );
            }
        }
    }

    #[test]
    fn every_family_of_cheats_has_an_honest_member() {
        let mut families: BTreeMap<(String, bool), (usize, usize)> = BTreeMap::new();
        for fixture in all().unwrap() {
            let on_device = fixture.candidate == Candidate::Device;
            let (cheats, honest) = families.entry((fixture.family.clone(), on_device)).or_default();
            *(if fixture.passes { honest } else { cheats }) += 1;
        }
        let alone: Vec<_> =
            families.iter().filter(|(_, (cheats, honest))| *cheats > 0 && *honest == 0).collect();
        assert!(alone.is_empty(), "cheats without an honest twin: {alone:?}");
        assert!(families.values().map(|(cheats, _)| cheats).sum::<usize>() >= 40);
    }

    #[test]
    fn a_queue_has_bad_ones_between_honest_ones() {
        let fixtures = all().unwrap();
        let queue = fixtures.last().unwrap();
        assert_eq!(queue.name, "queue");
        let subjects = queue.subjects().unwrap();
        let honest: Vec<bool> = subjects.iter().map(|one| one.expected == Expected::Passed).collect();
        assert_eq!(honest, [true, false, true, false, true, false, true]);
        assert_eq!(subjects[1].name, "queue-2-device-hangs");
        assert_eq!(subjects[1].expected, Expected::Refused(vec!["verify::hang".to_owned()]));
        let texts = queue.candidates().unwrap();
        assert!(texts[0].is_none() && texts[1].is_some() && texts.len() == subjects.len());
        for unknown in ["no-such", "device-gemm", "never-returns", "queue"] {
            let wrong = Fixture { queue: vec![unknown.to_owned()], ..queue.clone() };
            let error = chain(&wrong.subjects().unwrap_err());
            assert!(error.ends_with("is no device code of the project `device-row-norm`"), "{error}");
        }
    }

    #[test]
    fn the_readme_places_every_cheat() {
        let readme = FIXTURES.get_file("README.md").and_then(|file| file.contents_utf8()).unwrap();
        let map = readme.split("## The map").nth(1).unwrap();
        let rows: Vec<&str> = map.lines().filter(|line| line.starts_with('|')).collect();
        let numbers: BTreeSet<u32> = rows
            .iter()
            .filter_map(|row| row.trim_start_matches("| ").split(' ').next()?.parse().ok())
            .collect();
        assert_eq!(numbers, (1..=52).collect(), "the rows of the catalogue");
        let named: BTreeSet<&str> = rows.iter().flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
        let fixtures = all().unwrap();
        let cheats: Vec<_> = fixtures.iter().filter(|one| !one.passes).map(|one| one.name.as_str()).collect();
        let missing: Vec<_> = cheats.iter().filter(|name| !named.contains(*name)).collect();
        assert!(missing.is_empty(), "not in the map of tests/cheats/README.md: {missing:?}");
        let known: BTreeSet<&str> = fixtures.iter().map(|one| one.name.as_str()).collect();
        let gone: Vec<_> =
            named.iter().filter(|name| !known.contains(*name) && !name.contains("::")).collect();
        assert!(gone.is_empty(), "in the map of tests/cheats/README.md, and no fixture: {gone:?}");
    }

    #[test]
    fn what_a_fixture_must_say_is_asked_for() {
        let with = |folder: &str, more: &str| {
            let text = format!("name = \"a\"\ndoes = \"x\"\nwhy = \"x\"\nfamily = \"x\"\n{more}");
            parse(folder, &text).map(drop).unwrap_err().to_string()
        };
        assert_eq!(
            with("a", "replaces = [\"b\"]"),
            "set exactly one of `refused_with`, `warned_with`, `passes = true` and `queue`"
        );
        let refused = "refused_with = [\"verify::guard\"]";
        assert_eq!(with("a", refused), "it replaces nothing");
        assert_eq!(
            with("honest/a", refused),
            "only fixtures that must pass belong in `honest/`, and all of them do"
        );
        assert_eq!(
            with("b", &format!("{refused}\nreplaces = [\"b\"]")),
            "`name` must be the name of the folder"
        );
        let queue = "queue = [\"device-hangs\"]";
        let both = format!("{queue}\npasses = true");
        assert_eq!(
            with("a", &both),
            "set exactly one of `refused_with`, `warned_with`, `passes = true` and `queue`"
        );
        assert!(with("a", "rwong = 1").contains("unknown field"));
    }
}
