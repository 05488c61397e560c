//! The drawing of the stages in ARCHITECTURE.md, held against the code.
//!
//! Owns: how the drawing is read. Never: has an order of its own; the drawing is the only place that has one.

use std::collections::BTreeMap;
use std::path::Path;

use super::modules::Crate;
use super::repository::Repository;

const DOCUMENT: &str = "ARCHITECTURE.md";
const ROOT: &str = "kernel-builder/src/lib.rs";
/// The line that begins the drawing: a block of code with a name.
const OPENING: &str = "```text layers";

/// A module of kernel-builder uses those on lower lines of the drawing only, and all modules are drawn.
pub(super) fn stages_use_those_below(repository: &Repository) -> Vec<String> {
    let Some(document) = repository.text(DOCUMENT) else {
        return vec![format!("{DOCUMENT}: it is missing; it has the drawing of the stages")];
    };
    if !document.lines().any(|line| line == OPENING) {
        return vec![format!("{DOCUMENT}: draw the stages in a block that begins with `{OPENING}`")];
    }
    let drawn = drawn(document);
    let it = Crate::read(repository, Path::new(ROOT));
    let modules = it.top_level();
    let module_of =
        |file: &Path| modules.iter().find(|(_, files)| files.contains(file)).map(|(name, _)| *name);

    let mut problems = Vec::new();
    for (name, line) in &drawn.repeated {
        problems.push(format!("{DOCUMENT}:{line}: `{name}` is drawn twice"));
    }
    for (name, line) in &drawn.lines {
        if !modules.iter().any(|(module, _)| module == name) {
            problems.push(format!("{DOCUMENT}:{line}: {ROOT} has no module `{name}`"));
        }
    }
    for (name, _) in &modules {
        if !drawn.lines.contains_key(name) {
            problems.push(format!("{DOCUMENT}: the drawing has no `{name}`, a module of {ROOT}"));
        }
    }
    for ((from, to), names) in it.arrows() {
        let (Some(upper), Some(lower)) = (module_of(&from), module_of(&to)) else { continue };
        let (Some(from_line), Some(to_line)) = (drawn.lines.get(upper), drawn.lines.get(lower)) else {
            continue;
        };
        if upper != lower && from_line >= to_line {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            problems.push(format!(
                "{}: `{upper}` uses `{lower}`, which is not below it in the drawing of {DOCUMENT}: {} of {}",
                from.display(),
                names.join(", "),
                to.display()
            ));
        }
    }
    problems
}

/// The drawing: modules, each with the number of its line.
struct Drawn<'text> {
    lines: BTreeMap<&'text str, usize>,
    repeated: Vec<(&'text str, usize)>,
}

/// Reads the drawing. A line has the names of modules, then two blanks and what they are; bars and arrows are decoration.
fn drawn(document: &str) -> Drawn<'_> {
    let mut drawn = Drawn { lines: BTreeMap::new(), repeated: Vec::new() };
    let numbered = document.lines().enumerate().map(|(at, line)| (at + 1, line));
    let block = numbered.skip_while(|(_, line)| *line != OPENING).skip(1);
    for (number, line) in block.take_while(|(_, line)| !line.starts_with("```")) {
        let names = line.trim().split("  ").next().unwrap_or_default();
        for name in names.split([' ', ',', '|']).filter(|name| !matches!(*name, "" | "v")) {
            if drawn.lines.insert(name, number).is_some() {
                drawn.repeated.push((name, number));
            }
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::super::repository::tests::several;
    use super::*;

    const DRAWING: &str = "# A\n\n```text layers\n  commands       reads arguments\n     |\n     v\n\
                           verify, bench  judges  and measures\n     |\n  base\n```\n\n```text\nother\n```\n";
    const MODULES: &str = "pub mod base;\nmod bench;\nmod commands;\nmod verify;\n";

    fn found(drawing: &str, modules: &str, files: &[(&str, &str)]) -> Vec<String> {
        let empty =
            ["base", "bench", "commands", "verify"].map(|name| format!("kernel-builder/src/{name}.rs"));
        let mut all = vec![(DOCUMENT, drawing), (ROOT, modules)];
        all.extend(files);
        let empty = empty.iter().filter(|path| !files.iter().any(|(file, _)| file == path));
        all.extend(empty.map(|path| (path.as_str(), "pub struct Empty;\n")));
        stages_use_those_below(&several(&all))
    }

    #[test]
    fn arrows_lead_down() {
        let down = [
            (
                "kernel-builder/src/commands.rs",
                "use crate::{base::Empty, verify};\nfn a() { verify::check(); }\n",
            ),
            ("kernel-builder/src/verify.rs", "mod deep;\npub use deep::check;\n"),
            ("kernel-builder/src/verify/deep.rs", "use crate::base::Empty;\npub fn check() {}\n"),
        ];
        assert_eq!(found(DRAWING, MODULES, &down), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_upwards_or_aside_is_told_with_its_names() {
        let upwards = ("kernel-builder/src/base.rs", "fn a() { crate::bench::measure(); }\n");
        let told = found(DRAWING, MODULES, &[upwards]);
        assert_eq!(
            told,
            [
                "kernel-builder/src/base.rs: `base` uses `bench`, which is not below it in the drawing of ARCHITECTURE.md: \
              measure of kernel-builder/src/bench.rs"
            ]
        );
        let aside = ("kernel-builder/src/bench.rs", "use crate::verify::Empty;\n");
        assert_eq!(found(DRAWING, MODULES, &[aside]).len(), 1);
    }

    #[test]
    fn the_drawing_has_the_modules_that_there_are() {
        let fewer = DRAWING.replace(", bench", "");
        let missing = "ARCHITECTURE.md: the drawing has no `bench`, a module of kernel-builder/src/lib.rs";
        assert_eq!(found(&fewer, MODULES, &[]), [missing]);
        let more = DRAWING.replace(", bench", ", bench, hub");
        assert_eq!(
            found(&more, MODULES, &[]),
            ["ARCHITECTURE.md:7: kernel-builder/src/lib.rs has no module `hub`"]
        );
        let twice = DRAWING.replace("  base\n", "  base\n  bench\n");
        assert_eq!(found(&twice, MODULES, &[]), ["ARCHITECTURE.md:10: `bench` is drawn twice"]);
        let none = DRAWING.replace(" layers", "");
        assert!(found(&none, MODULES, &[])[0].starts_with("ARCHITECTURE.md: draw the stages"));
        // A module of tests is none of the program.
        let with_tests = format!("{MODULES}#[cfg(test)]\nmod loopback;\n");
        assert_eq!(found(DRAWING, &with_tests, &[]), Vec::<String>::new());
    }
}
