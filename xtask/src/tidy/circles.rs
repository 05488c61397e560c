//! No file uses names of a file that uses names of it, at whatever distance.
//!
//! Owns: the circles among the files of each crate. Never: reads Rust itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::modules::{Arrows, Crate};
use super::repository::Repository;

/// No two files use each other, directly or through others.
pub(super) fn no_files_use_each_other(repository: &Repository) -> Vec<String> {
    let paths = repository.files.iter().map(|(path, _)| path.as_path());
    let roots = paths.filter(|path| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs"));
    roots.flat_map(|root| knots(&Crate::read(repository, root).arrows())).map(|knot| knot.problem()).collect()
}

/// Files each of which leads to each other.
struct Circle {
    files: BTreeSet<PathBuf>,
    /// The arrows among them.
    arrows: Arrows,
}

impl Circle {
    /// The shortest circle, file after file, then the other arrows of the knot.
    fn problem(&self) -> String {
        let circle = self.files.iter().filter_map(|file| self.shortest_circle(file)).min_by_key(Vec::len);
        let circle = circle.unwrap_or_default();
        let arrow = |(from, to): &(PathBuf, PathBuf)| {
            let names = self.arrows.get(&(from.clone(), to.clone()));
            let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
            format!("\n  {} -> {}: {}", from.display(), to.display(), names.join(", "))
        };
        let first = circle.first().map_or(Path::new(""), |(from, _)| from);
        let mut text = format!(
            "{}: circle of {} files; move what two files need to the file whose concept it is:",
            first.display(),
            circle.len()
        );
        text.extend(circle.iter().map(arrow));
        if self.files.len() > circle.len() {
            text.push_str(&format!(
                "\n  the other arrows among the {} files of this knot:",
                self.files.len()
            ));
            text.extend(self.arrows.keys().filter(|other| !circle.contains(other)).map(arrow));
        }
        text
    }

    /// The arrows of the shortest way from a file back to it.
    fn shortest_circle(&self, start: &Path) -> Option<Vec<(PathBuf, PathBuf)>> {
        let mut came_from: BTreeMap<&Path, &Path> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(file) = queue.pop_front() {
            for (_, to) in self.arrows.keys().filter(|(from, _)| from == file) {
                if to == start {
                    let mut circle = vec![(file.to_owned(), start.to_owned())];
                    let mut at = file;
                    while let Some(before) = came_from.get(at) {
                        circle.insert(0, ((*before).to_owned(), at.to_owned()));
                        at = before;
                    }
                    return Some(circle);
                }
                if to != start && !came_from.contains_key(to.as_path()) {
                    came_from.insert(to, file);
                    queue.push_back(to);
                }
            }
        }
        None
    }
}

/// The largest sets of files each of which leads to each other.
fn knots(arrows: &Arrows) -> Vec<Circle> {
    let mut reached: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    for (from, _) in arrows.keys() {
        reached.entry(from).or_insert_with(|| reachable(arrows, from));
    }
    let mut knots: Vec<Circle> = Vec::new();
    for (file, from_here) in &reached {
        if knots.iter().any(|knot| knot.files.contains(*file)) {
            continue;
        }
        let leads_back = |other: &&&Path| reached.get(**other).is_some_and(|there| there.contains(file));
        let files: BTreeSet<PathBuf> =
            from_here.iter().filter(leads_back).map(|file| (*file).to_owned()).collect();
        if !files.is_empty() {
            let inside = |(from, to): &(PathBuf, PathBuf)| files.contains(from) && files.contains(to);
            let arrows = arrows.iter().filter(|(arrow, _)| inside(arrow));
            let arrows = arrows.map(|(arrow, names)| (arrow.clone(), names.clone())).collect();
            knots.push(Circle { files, arrows });
        }
    }
    knots
}

/// The files that arrows lead to from `start`; `start` itself only if it is on a circle.
fn reachable<'arrows>(arrows: &'arrows Arrows, start: &Path) -> BTreeSet<&'arrows Path> {
    let mut reached = BTreeSet::new();
    let mut queue = vec![start.to_owned()];
    while let Some(file) = queue.pop() {
        let begin = (file.clone(), PathBuf::new());
        for (_, to) in arrows.range(begin..).map(|(arrow, _)| arrow).take_while(|(from, _)| *from == file) {
            if reached.insert(to.as_path()) {
                queue.push(to.clone());
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::repository::tests::several;
    use super::*;

    const ROOT: (&str, &str) = ("xtask/src/main.rs", "mod a;\nmod b;\n");

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(&str, &str)> = files.iter().chain([&ROOT]).copied().collect();
        knots(&Crate::read(&several(&files), Path::new(ROOT.0)).arrows())
            .iter()
            .map(Circle::problem)
            .collect()
    }

    /// `a` uses `B` of `b`, and `b` is this text.
    fn with_b(text: &str) -> Vec<String> {
        found(&[
            (
                "xtask/src/a.rs",
                "use crate::b::B;\npub struct A;\npub fn make() -> B { B }\npub mod low { pub struct L; }\npub fn deep() {}\npub mod deep { pub struct D; }\n",
            ),
            ("xtask/src/b.rs", text),
        ])
    }

    const BOTH: &str = "xtask/src/a.rs: circle of 2 files; move what two files need to the file whose concept it is:\n  \
                        xtask/src/a.rs -> xtask/src/b.rs: B\n  xtask/src/b.rs -> xtask/src/a.rs: ";

    #[test]
    fn a_circle_is_told_with_the_names_that_tie_it() {
        for (text, names) in [
            ("use crate::a::A;\npub struct B;\n", "A"),
            ("use super::a::{make, self, A as Other};\npub struct B;\n", "A, make"),
            ("use crate::{a::{deep::{D}}};\npub struct B;\n", "D"),
            ("pub struct B;\nfn c() { crate::a::make(); }\n", "make"),
            ("use super::a;\npub struct B(a::A);\n", "A"),
            ("use super::a as other;\npub struct B;\nfn c() { other::deep::D; }\n", "D"),
            ("use super::a::*;\npub struct B(A);\n", "A"),
            ("pub struct B;\nfn c() { use super::a::A; }\n", "A"),
            ("pub struct B(self::inside::C);\nmod inside { pub struct C(super::super::a::A); }\n", "A"),
            ("use super::a::low;\npub struct B;\nfn low() { low::L; }\n", "L"),
            ("use super::a::by_macro;\npub struct B;\n", "by_macro"),
        ] {
            assert_eq!(with_b(text), [format!("{BOTH}{names}")], "{text}");
        }
    }

    #[test]
    fn what_draws_no_arrow() {
        for text in [
            "pub struct B;\n",
            // A module alone, and one that is only named.
            "use super::a;\npub struct B;\n",
            "use super::a::deep::{self};\npub struct B;\n",
            "pub struct B;\npub(in crate::a) fn c() {}\n",
            // Comments, strings, tests.
            "//! [`crate::a::A`]\n// use crate::a::A;\n/* use crate::a::A; */\npub struct B;\n",
            "pub struct B;\nconst C: &str = \"use crate::a::A;\";\nconst D: &str = r#\"\"crate::a::A\"#;\n",
            "pub struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; fn c() { crate::a::make(); } }\n",
            "pub struct B;\n#[cfg(test)]\nuse crate::a::A;\n",
            "pub struct B;\n#[cfg(test)]\nmod tests;\n",
            // Another crate, a field, a method, a variable.
            "use other::a::A;\npub struct B { a: u8 }\nfn c(b: B, make: u8) { b.a.make(); make }\n",
        ] {
            assert_eq!(with_b(text), Vec::<String>::new(), "{text}");
        }
        let test_file = ("xtask/src/b/tests.rs", "use crate::a::A;\n");
        let b = ("xtask/src/b.rs", "pub struct B;\n#[cfg(test)]\nmod tests;\n");
        assert_eq!(
            found(&[("xtask/src/a.rs", "use crate::b::B;\npub struct A;\n"), b, test_file]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_name() {
        let leaf = ("xtask/src/b/leaf.rs", "pub struct Leaf;\n");
        let user = ("xtask/src/b/user.rs", "use super::{Leaf, Renamed};\npub struct User(Leaf, Renamed);\n");
        let parent = "mod leaf;\nmod user;\npub use leaf::{Leaf, Leaf as Renamed};\npub use user::User;\n";
        let a = ("xtask/src/a.rs", "use crate::b::{Leaf, User};\n");
        // The parent names both, and needs nothing of them.
        assert_eq!(found(&[leaf, user, a, ("xtask/src/b.rs", parent)]), Vec::<String>::new());
        // It makes one of them now, and the child still needs nothing of it.
        let making = format!("{parent}fn make() -> User {{ todo() }}\n");
        assert_eq!(found(&[leaf, user, a, ("xtask/src/b.rs", &making)]), Vec::<String>::new());
        // The child takes something that the parent defines itself.
        let own =
            making.replace("pub use leaf::{Leaf, Leaf as Renamed};", "pub struct Leaf;\npub struct Renamed;");
        let problems = found(&[leaf, user, a, ("xtask/src/b.rs", &own)]);
        assert_eq!(problems.len(), 1);
        let arrows = "\n  xtask/src/b/user.rs -> xtask/src/b.rs: Leaf, Renamed\n  xtask/src/b.rs -> xtask/src/b/user.rs: User";
        assert!(problems[0].ends_with(arrows), "{problems:?}");
    }

    #[test]
    fn a_knot_is_told_by_its_shortest_circle_first() {
        let files = [
            ("xtask/src/main.rs", "mod a; mod b; mod c;\n"),
            ("xtask/src/a.rs", "use crate::b::B;\npub struct A;\n"),
            ("xtask/src/b.rs", "use crate::c::C;\npub struct B;\n"),
            ("xtask/src/c.rs", "use crate::{a::A, b::B};\npub struct C;\n"),
        ];
        let knots = knots(&Crate::read(&several(&files), Path::new(ROOT.0)).arrows());
        let problem = knots[0].problem();
        let lines: Vec<&str> = problem.lines().map(str::trim).collect();
        assert_eq!(
            lines[1..3],
            ["xtask/src/b.rs -> xtask/src/c.rs: C", "xtask/src/c.rs -> xtask/src/b.rs: B"]
        );
        assert_eq!(lines[3], "the other arrows among the 3 files of this knot:");
        assert_eq!(
            lines[4..],
            ["xtask/src/a.rs -> xtask/src/b.rs: B", "xtask/src/c.rs -> xtask/src/a.rs: A"]
        );
    }
}
