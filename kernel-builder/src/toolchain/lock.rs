//! `kernelwright.lock` beside build.toml: which wheels a project is built from.
//!
//! Owns: its format, and comparing what the index and the cache give with it.
//! Never: knows an address. What only runs here, such as the Python that judges, is not in it.

use std::collections::{BTreeMap, BTreeSet};
use std::env::consts::{ARCH, OS};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kernel_plan::kit::Compiler;
use serde::{Deserialize, Serialize};

use super::error::ToolchainError;
use super::pins::Part;
use crate::base::causes::{Cause, chain};
use crate::base::files;
use crate::base::session::Session;

/// The name of the file.
const NAME: &str = "kernelwright.lock";
const HEAD: &str = "\
# Which wheels this project is built from, on every kind of machine. Written by kernelwright; keep it with the sources.
# `sha256` is the wheel's, as the package index gives it; `members` is that of `sha256sum`'s lines, by name, for what is
# taken of it. Written by `kernelwright lock` for builders that plan nothing, such as Nix: `variant`, what is built from
# which of them, and `tree`, the hash that Nix gives to the folder of what is taken of each. Written by `kernelwright lock
# --compiler`: the C++ compiler of each kind of machine, which `--locked` then wants.
";

/// A wheel, or the members of a wheel that are used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Locked {
    pub(super) name: String,
    pub(super) version: String,
    /// The wheel's file name.
    pub(super) file: String,
    /// Which choice of members; another version of this program may choose others.
    pub(super) part: String,
    /// SHA-256 of the wheel, as the index gives it.
    pub(super) sha256: String,
    /// SHA-256 over the names and digests of the members.
    pub(super) members: String,
}

impl Locked {
    /// The name of this entry, of the wheel and the choice: `torch-2.12.1-cp312-cp312-manylinux_2_28_x86_64-7204dcfa2f307dc8`.
    pub(super) fn key(&self) -> String {
        format!("{}-{}", self.file.trim_end_matches(".whl"), self.part)
    }

    /// Whether it is used on machines of this kind.
    pub(super) fn is_for_this_machine(&self) -> bool {
        self.file.ends_with("-any.whl") || self.file.ends_with(&format!("_{ARCH}.whl"))
    }

    /// Whether this entry speaks of `name` `version` for a machine of this kind.
    fn speaks_of(&self, name: &str, version: &str, part: &str) -> bool {
        self.is_for_this_machine()
            && (self.name.as_str(), self.version.as_str(), self.part.as_str()) == (name, version, part)
    }
}

/// A variant and what it is built from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedVariant {
    /// The variant's id.
    pub id: String,
    /// Its wheels, by `Locked::key`.
    pub wheels: BTreeSet<String>,
}

impl LockedVariant {
    /// Whether it is built on machines of another kind than this one.
    pub fn is_foreign(&self) -> bool {
        let os = if OS == "macos" { "darwin" } else { OS };
        let mut words = self.id.rsplitn(3, '-');
        let (system, cpu) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        matches!(cpu, "x86_64" | "aarch64") && (cpu, system) != (ARCH, os)
    }
}

#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: u32,
    #[serde(default)]
    wheel: BTreeSet<Locked>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    variant: BTreeSet<LockedVariant>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tree: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    compiler: BTreeMap<String, String>,
}

/// The name of this kind of machine in the lock file.
fn machine() -> String {
    format!("{ARCH}-{OS}")
}

/// The lock of a project, or none: then everything agrees.
#[derive(Debug, Default)]
pub(super) struct Lock {
    path: Option<PathBuf>,
    /// Whether nothing may be added.
    frozen: bool,
    wheels: Mutex<BTreeSet<Locked>>,
    added: Mutex<BTreeSet<Locked>>,
    /// The C++ compiler of machines of this kind.
    compiler: Option<String>,
}

impl Lock {
    /// The lock in the folder of a project.
    pub(super) fn open(project: &Path, frozen: bool) -> Result<Self, ToolchainError> {
        Self::at(project.join(NAME), frozen)
    }

    /// The lock in a file, which need not be there.
    pub(super) fn at(path: PathBuf, frozen: bool) -> Result<Self, ToolchainError> {
        let Text { wheel, mut compiler, .. } = read(&path)?;
        let (wheels, compiler) = (Mutex::new(wheel), compiler.remove(&machine()));
        Ok(Self { path: Some(path), frozen, wheels, added: Mutex::default(), compiler })
    }

    /// With `--locked`, fails when the C++ compiler is not the one that is locked: it decides the bytes of host code.
    pub(super) fn allow_compiler(&self, here: &Compiler) -> Result<(), ToolchainError> {
        match (&self.compiler, &self.path) {
            (Some(locked), Some(path)) if self.frozen && *locked != here.described() => {
                Err(ToolchainError::OtherCompiler {
                    path: path.clone(),
                    program: here.program.clone(),
                    locked: locked.clone(),
                    here: here.described(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Every wheel that is locked.
    pub(super) fn wheels(&self) -> BTreeSet<Locked> {
        held(&self.wheels).clone()
    }

    /// Returns the locked wheel of a part, for this kind of machine.
    pub(super) fn locked_wheel(&self, part: &Part) -> Option<Locked> {
        let choice = part.choice();
        let wheels = held(&self.wheels);
        wheels.iter().find(|locked| locked.speaks_of(&part.name, &part.version, &choice)).cloned()
    }

    /// Fails when a wheel that the index gives is not the one that is locked; with `--locked`, when one is not locked.
    pub(super) fn allow<'a>(
        &self,
        given: impl Iterator<Item = (&'a Part, &'a str, &'a str)>,
    ) -> Result<(), ToolchainError> {
        let mut unlocked = Vec::new();
        for (part, file, sha256) in given {
            match self.locked_wheel(part) {
                Some(locked) if locked.file != file || locked.sha256 != sha256 => {
                    let describe = |file: &str, sha256: &str| format!("{file} with sha256 {sha256}");
                    let came = format!("the package index has {}", describe(file, sha256));
                    return Err(self.differs(&locked, describe(&locked.file, &locked.sha256), came));
                }
                Some(_) => {}
                None => unlocked.push(format!("{} {}", part.name, part.version)),
            }
        }
        self.refuse(unlocked)
    }

    /// Whether nothing of what was taken is locked otherwise.
    pub(super) fn agrees(&self, taken: &[Locked]) -> bool {
        taken.iter().all(|wheel| self.about(wheel).is_none_or(|locked| locked == *wheel))
    }

    /// Returns the locked wheel of the same name, version and part.
    fn about(&self, wheel: &Locked) -> Option<Locked> {
        let wheels = held(&self.wheels);
        wheels.iter().find(|locked| locked.speaks_of(&wheel.name, &wheel.version, &wheel.part)).cloned()
    }

    /// Compares what was taken with what is locked, and remembers what is new.
    pub(super) fn agree(&self, taken: &[Locked]) -> Result<(), ToolchainError> {
        let Some(_) = &self.path else { return Ok(()) };
        let mut unlocked = Vec::new();
        for wheel in taken {
            match self.about(wheel) {
                Some(locked) if locked == *wheel => {}
                Some(locked) => {
                    let describe = |wheel: &Locked| {
                        format!("{} with sha256 {}, members {}", wheel.file, wheel.sha256, wheel.members)
                    };
                    return Err(self.differs(
                        &locked,
                        describe(&locked),
                        format!("the fetched one is {}", describe(wheel)),
                    ));
                }
                None if self.frozen => unlocked.push(format!("{} {}", wheel.name, wheel.version)),
                None => {
                    held(&self.wheels).insert(wheel.clone());
                    held(&self.added).insert(wheel.clone());
                }
            }
        }
        self.refuse(unlocked)
    }

    fn refuse(&self, unlocked: Vec<String>) -> Result<(), ToolchainError> {
        match &self.path {
            Some(path) if self.frozen && !unlocked.is_empty() => {
                Err(ToolchainError::NotLocked { path: path.clone(), missing: unlocked.join(", ") })
            }
            _ => Ok(()),
        }
    }

    fn differs(&self, locked: &Locked, was: String, came: String) -> ToolchainError {
        ToolchainError::Locked {
            path: self.path.clone().unwrap_or_default(),
            wheel: format!("{} {}", locked.name, locked.version),
            locked: was,
            came,
        }
    }

    /// Writes what was added. A folder that cannot be written to is a warning: the build is as good without.
    pub(super) fn write(&self, session: &Session) -> Result<(), ToolchainError> {
        let (Some(path), added) = (&self.path, held(&self.added)) else { return Ok(()) };
        if added.is_empty() {
            return Ok(());
        }
        // Another run may have added to it meanwhile.
        let mut all = read(path)?;
        all.wheel.extend(added.iter().cloned());
        if let Err(error) = files::write_if_changed(path, render(all)) {
            session
                .report
                .warn(format!("failed to add the fetched wheels to the lock file: {}", chain(&error)));
        }
        Ok(())
    }
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The variants in a lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variants {
    /// Every variant that is locked.
    pub rows: BTreeSet<LockedVariant>,
    /// The hash that Nix gives to a folder of what is taken of a wheel, by the wheel's key.
    pub trees: BTreeMap<String, String>,
}

impl Variants {
    /// Reads the lock file of a project.
    pub(super) fn read(project: &Path) -> Result<Self, ToolchainError> {
        Self::at(&project.join(NAME))
    }

    /// Reads a lock file.
    pub(super) fn at(path: &Path) -> Result<Self, ToolchainError> {
        let Text { variant, tree, .. } = read(path)?;
        Ok(Self { rows: variant, trees: tree })
    }

    /// Returns the variants with `rows` as this machine's own; those of other kinds of machines stay.
    pub(super) fn with(&self, rows: BTreeSet<LockedVariant>, trees: BTreeMap<String, String>) -> Self {
        let foreign = self.rows.iter().filter(|row| row.is_foreign()).cloned();
        let rows: BTreeSet<LockedVariant> = foreign.chain(rows).collect();
        let used = |key: &String| rows.iter().any(|row| row.wheels.contains(key));
        let mut all = self.trees.clone();
        all.extend(trees);
        all.retain(|key, _| used(key));
        Self { rows, trees: all }
    }

    /// Writes it into the lock of a project; gives whether that changed something.
    pub(super) fn write(&self, project: &Path) -> Result<bool, ToolchainError> {
        let path = project.join(NAME);
        let Text { wheel, compiler, .. } = read(&path)?;
        let text = Text { format: 1, wheel, variant: self.rows.clone(), tree: self.trees.clone(), compiler };
        Ok(files::write_if_changed(&path, render(text))?)
    }
}

/// Writes the C++ compiler of machines of this kind into the lock of a project; gives whether that changed something.
pub(super) fn lock_compiler(project: &Path, compiler: &Compiler) -> Result<bool, ToolchainError> {
    let path = project.join(NAME);
    let mut text = read(&path)?;
    text.compiler.insert(machine(), compiler.described());
    Ok(files::write_if_changed(&path, render(text))?)
}

fn read(path: &Path) -> Result<Text, ToolchainError> {
    if !files::exists(path) {
        return Ok(Text { format: 1, ..Text::default() });
    }
    let broken = |cause: Cause| ToolchainError::BadLock { path: path.to_owned(), cause };
    let text: Text = toml::from_str(&files::read_text(path)?).map_err(|error| broken(error.into()))?;
    match text.format {
        1 => Ok(text),
        other => Err(broken(format!("format {other} is not supported: this version reads format 1").into())),
    }
}

fn render(text: Text) -> String {
    // Numbers and texts alone: TOML has them all.
    HEAD.to_owned() + &toml::to_string_pretty(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::report::{MessageFormat, Report};

    fn wheel(name: &str, file: &str) -> Locked {
        let text = str::to_owned;
        let part = part(name).choice();
        let (sha256, members) = (text("aa"), text("bb"));
        Locked { name: text(name), version: text("1.0"), file: text(file), part, sha256, members }
    }

    fn part(name: &str) -> Part {
        let take = vec!["include/".to_owned()];
        Part { name: name.to_owned(), version: "1.0".to_owned(), megabytes: 1, take, skip: Vec::new() }
    }

    fn session(cache: &Path) -> Session {
        let report = Report::new(MessageFormat::Human, true);
        Session { report, cache: cache.to_owned(), offline: true, jobs: 1 }
    }

    #[test]
    fn what_is_new_is_added_and_two_runs_write_the_same_bytes() {
        let folder = files::scratch().unwrap();
        let session = session(folder.path());
        let native = format!("b-1.0-py3-none-manylinux_2_28_{ARCH}.whl");
        let taken = [wheel("b", &native), wheel("a", "a-1.0-py3-none-any.whl")];
        for order in [[0, 1], [1, 0]] {
            let lock = Lock::open(folder.path(), false).unwrap();
            order.iter().for_each(|at| lock.agree(&taken[*at..=*at]).unwrap());
            lock.write(&session).unwrap();
        }
        let text = files::read_text(&folder.path().join(NAME)).unwrap().replace(ARCH, "CPU");
        let entries = text.strip_prefix(HEAD).unwrap();
        insta::assert_snapshot!(entries, @r#"
        format = 1

        [[wheel]]
        name = "a"
        version = "1.0"
        file = "a-1.0-py3-none-any.whl"
        part = "0d614455528be1aa"
        sha256 = "aa"
        members = "bb"

        [[wheel]]
        name = "b"
        version = "1.0"
        file = "b-1.0-py3-none-manylinux_2_28_CPU.whl"
        part = "0d614455528be1aa"
        sha256 = "aa"
        members = "bb"
        "#);
        Lock::open(folder.path(), true).unwrap().agree(&taken).unwrap();
    }

    #[test]
    fn machines_of_another_kind_live_beside() {
        let folder = files::scratch().unwrap();
        let other = if ARCH == "x86_64" { "aarch64" } else { "x86_64" };
        let theirs = wheel("torch", &format!("torch-1.0-cp312-cp312-manylinux_2_28_{other}.whl"));
        let ours = wheel("torch", &format!("torch-1.0-cp312-cp312-manylinux_2_28_{ARCH}.whl"));
        let lock = Lock::open(folder.path(), false).unwrap();
        lock.agree(std::slice::from_ref(&theirs)).unwrap();
        lock.agree(std::slice::from_ref(&ours)).unwrap();
        lock.write(&session(folder.path())).unwrap();
        assert_eq!(Lock::open(folder.path(), true).unwrap().locked_wheel(&part("torch")), Some(ours));
    }

    #[test]
    fn another_wheel_and_other_members_are_refused() {
        let folder = files::scratch().unwrap();
        let known = wheel("a", "a-1.0-py3-none-any.whl");
        let lock = Lock::open(folder.path(), false).unwrap();
        lock.agree(std::slice::from_ref(&known)).unwrap();
        let (asked, file) = (part("a"), known.file.as_str());
        lock.allow([(&asked, file, "aa")].into_iter()).unwrap();
        let error = lock.allow([(&asked, file, "cc")].into_iter()).unwrap_err().to_string();
        assert!(
            error.contains("a 1.0") && error.contains("sha256 aa") && error.contains("sha256 cc"),
            "{error}"
        );
        let changed = Locked { members: "dd".to_owned(), ..known.clone() };
        let error = lock.agree(&[changed]).unwrap_err().to_string();
        assert!(error.contains("members bb") && error.contains("members dd"), "{error}");
        // Another choice of members is another need.
        lock.agree(&[Locked { part: "other".to_owned(), members: "dd".to_owned(), ..known }]).unwrap();
    }

    #[test]
    fn a_frozen_lock_names_what_it_lacks() {
        let folder = files::scratch().unwrap();
        let lock = Lock::open(folder.path(), true).unwrap();
        let (a, b) = (part("a"), part("b"));
        let error = lock.allow([(&a, "f", "aa"), (&b, "f", "aa")].into_iter()).unwrap_err().to_string();
        assert!(error.contains("a 1.0, b 1.0"), "{error}");
        assert!(lock.agree(&[wheel("a", "a-1.0-py3-none-any.whl")]).is_err());
        lock.write(&session(folder.path())).unwrap();
        assert!(!files::exists(&folder.path().join(NAME)));
    }

    #[test]
    fn variants_of_other_machines_stay_and_wheels_are_written_beside_them() {
        let folder = files::scratch().unwrap();
        let other = if ARCH == "x86_64" { "aarch64" } else { "x86_64" };
        let row = |id: &str, wheel: &str| LockedVariant {
            id: id.to_owned(),
            wheels: BTreeSet::from([wheel.to_owned()]),
        };
        let tree = |key: &str| BTreeMap::from([(key.to_owned(), "sha256-".to_owned())]);
        let theirs = row(&format!("torch211-cxx11-cpu-{other}-linux"), "theirs");
        let before = Variants::default().with(BTreeSet::from([theirs.clone()]), tree("theirs"));
        assert!(before.write(folder.path()).unwrap());
        // A build adds a wheel; the variants stay.
        let lock = Lock::open(folder.path(), false).unwrap();
        lock.agree(&[wheel("a", "a-1.0-py3-none-any.whl")]).unwrap();
        lock.write(&session(folder.path())).unwrap();
        let there = Variants::read(folder.path()).unwrap();
        assert_eq!(there, before);
        for ours in ["torch-cpu", "tvm-ffi01-cpu-{ARCH}-{OS}"] {
            let os = if OS == "macos" { "darwin" } else { OS };
            let ours = row(&ours.replace("{ARCH}", ARCH).replace("{OS}", os), "ours");
            let now = there.with(BTreeSet::from([ours.clone()]), tree("ours"));
            assert_eq!(now.rows, BTreeSet::from([theirs.clone(), ours]));
            assert_eq!(now.trees.keys().collect::<Vec<_>>(), ["ours", "theirs"]);
            // A variant that is no longer listed is removed.
            let fewer = now.with(BTreeSet::new(), BTreeMap::new());
            assert_eq!((fewer.rows.len(), fewer.trees.len()), (1, 1));
        }
        let after = there.with(BTreeSet::new(), BTreeMap::new());
        assert!(!after.write(folder.path()).unwrap());
        assert_eq!(Lock::open(folder.path(), true).unwrap().wheels().len(), 1);
    }

    #[test]
    fn a_compiler_that_is_locked_is_wanted_when_nothing_may_change() {
        let folder = files::scratch().unwrap();
        let compiler = |name: &str, release: &str| Compiler {
            program: Path::new("/usr/bin").join(name),
            version: format!("{name} {release}"),
            id: release.repeat(20),
        };
        let (ours, other) = (compiler("g++", "12.2.0"), compiler("g++", "14.1.0"));
        Lock::open(folder.path(), true).unwrap().allow_compiler(&other).unwrap();
        assert!(lock_compiler(folder.path(), &ours).unwrap());
        assert!(!lock_compiler(folder.path(), &compiler("c++", "12.2.0")).unwrap(), "another name of it");
        // Writing other parts leaves it there.
        Variants::default().write(folder.path()).unwrap();
        Lock::open(folder.path(), false).unwrap().allow_compiler(&other).unwrap();
        let lock = Lock::open(folder.path(), true).unwrap();
        lock.allow_compiler(&ours).unwrap();
        let error = lock.allow_compiler(&other).unwrap_err().to_string();
        assert!(error.contains("12.2.0") && error.contains("is 14.1.0"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_lock_is_told() {
        let folder = files::scratch().unwrap();
        for text in ["format = 2\n", "format = 1\nwheels = 3\n", "x"] {
            files::write(&folder.path().join(NAME), text).unwrap();
            assert!(
                matches!(Lock::open(folder.path(), false), Err(ToolchainError::BadLock { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_no_failure() {
        let folder = files::scratch().unwrap();
        let gone = folder.path().join("file");
        let lock = Lock::open(&gone, false).unwrap();
        files::write(&gone, "in the way").unwrap();
        lock.agree(&[wheel("a", "a-1.0-py3-none-any.whl")]).unwrap();
        lock.write(&session(folder.path())).unwrap();
    }
}
