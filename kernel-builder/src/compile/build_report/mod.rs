//! The report of a build: what ran when, what was slow, what was not done again.
//!
//! Owns: `.kernelwright/report.json` and `.kernelwright/report.html`, both from one record; the page loads nothing.
//! Never: decides what ran; `timeline` says it.

use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};

use crate::base::files::{self, FileError};

mod path;
mod record;
mod view;

pub(super) use record::{End, Record, VariantEnd};

/// The page; its data is [`view::View`].
const PAGE: &str = include_str!("../../../resources/build-report.html");

impl Record {
    /// Writes both forms into the project's folder of results, and the page to `elsewhere` too.
    pub(super) fn write(&self, state: &Path, elsewhere: Option<&Path>) -> Result<(), FileError> {
        let text = serde_json::to_string(self).unwrap_or_default();
        files::write(&state.join("report.json"), text + "\n")?;
        let page = self.page();
        if let Some(place) = elsewhere {
            files::write(place, &page)?;
        }
        files::write(&state.join("report.html"), page)
    }

    /// The page.
    fn page(&self) -> String {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Both can only fail when the page of this program is wrong, which a test would show.
        let rendered = environment.add_template("build-report.html", PAGE).and_then(|()| {
            environment.get_template("build-report.html")?.render(Serde(view::View::new(self)))
        });
        let page =
            rendered.unwrap_or_else(|error| format!("<!doctype html>\n<p>the page is wrong: {error}</p>"));
        page + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::super::timeline::{Ended, Sample, Step, UnitEnd, UnitOutcome};
    use super::*;

    fn step(unit: &str, step: &str, kind: Kind, lane: usize, times: [f64; 3]) -> Step {
        Step {
            variant: "torch-stable-abi211-cu130-x86_64-linux".to_owned(),
            unit: unit.to_owned(),
            step: step.to_owned(),
            kind,
            lane,
            queued: times[0],
            started: times[1],
            ended: times[2],
            expected_memory: 1 << 30,
            peak_memory: 700 << 20,
            ended_how: Ended::Well,
            alone: false,
            command: format!("tool -DA=\"<i>\" {unit}"),
        }
    }

    fn unit(variant: &str, unit: &str, fate: UnitOutcome) -> UnitEnd {
        UnitEnd { variant: variant.to_owned(), unit: unit.to_owned(), fate, seconds: 4.0, at: 6.0 }
    }

    pub(super) fn record() -> Record {
        let mut failed = step("k/b.cu", "cicc sm_80", Kind::Device, 0, [5.0, 5.5, 8.0]);
        failed.ended_how = Ended::Failed;
        Record {
            format: 1,
            project: "fast_norm".to_owned(),
            program: "0.1.0",
            end: End::Failed,
            jobs: 2,
            seconds: 10.0,
            variants: vec![
                VariantEnd { variant: "torch-stable-abi211-cu130-x86_64-linux".to_owned(), built: true },
                VariantEnd { variant: "torch212-cxx11-cu130-x86_64-linux".to_owned(), built: false },
            ],
            units: vec![
                unit("a", "k/a.cu", UnitOutcome::Compiled),
                unit("b", "k/a.cu", UnitOutcome::Shared),
                unit("a", "k/b.cu", UnitOutcome::Failed),
                unit("a", "k/c.cpp", UnitOutcome::Cached),
            ],
            steps: vec![
                step("k/a.cu", "cudafe++", Kind::Front, 0, [0.0, 0.0, 2.0]),
                step("k/a.cu", "cicc sm_80", Kind::Device, 1, [0.0, 1.0, 5.0]),
                failed,
                step("link", "link", Kind::Link, 1, [8.0, 9.0, 10.0]),
            ],
            memory: [(0.0, 0), (2.5, 1 << 30), (5.0, 3 << 29), (10.0, 1 << 20)]
                .map(|(at, held)| Sample { at, held, available: (8 << 30) - held })
                .to_vec(),
        }
    }

    #[test]
    fn the_page_says_all_of_it_and_loads_nothing() {
        let page = record().page();
        for outside in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(!page.contains("<i>") && page.contains("&lt;i&gt;"), "what a project names is text");
        // The style is for eyes.
        let (head, rest) = page.split_once("<style>").expect("a style");
        let (_, body) = rest.split_once("</style>").expect("its end");
        insta::assert_snapshot!("page", format!("{head}{body}"));
    }

    #[test]
    fn both_files_are_written_and_read_the_same() {
        let folder = files::scratch().unwrap();
        let copy = folder.path().join("copy.html");
        record().write(folder.path(), Some(&copy)).unwrap();
        assert_eq!(files::read(&copy).unwrap(), files::read(&folder.path().join("report.html")).unwrap());
        let text = files::read_text(&folder.path().join("report.json")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["end"], "failed");
        assert_eq!(value["steps"][2]["ended_how"], "failed");
        assert_eq!(value["units"][1]["fate"], "shared");
    }

    #[test]
    fn nothing_done_is_no_news() {
        let mut idle = record();
        idle.steps.clear();
        assert!(idle.is_news(), "it failed");
        idle.end = End::Complete;
        assert!(!idle.is_news());
        // A page without anything to draw is still one.
        idle.memory.clear();
        idle.seconds = 0.0;
        assert!(idle.page().ends_with("</html>\n"));
    }
}
