//! What came of a build: which variants are there, which failed, and each reason once.
//!
//! Owns: the grouping of failures, the options that say what is done when one happens. Never: builds anything.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use miette::{Diagnostic, LabeledSpan, Severity, SourceCode};
use serde_json::{Value, json};
use thiserror::Error;

use crate::base::report::{Event, Report};
use crate::base::{env, interrupt};
use crate::compile::artifact::Artifact;
use crate::compile::{CompileError, Conduct, Job, OnFailure, Outcome};
use crate::exit::{self, Failure, StageError};

/// What happens when a variant fails; shared by every verb that builds.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct How {
    /// Build the other variants when one fails; this is the default
    #[arg(long, overrides_with = "fail_fast")]
    keep_going: bool,
    /// Begin nothing more when a variant fails
    #[arg(long)]
    fail_fast: bool,
    /// Where to write the report of the build too, HTML; it is always in .kernelwright/report.html
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl How {
    /// As the compile stage wants it.
    pub fn conduct(&self) -> Conduct {
        let on_failure = if self.fail_fast { OnFailure::Stop } else { OnFailure::Continue };
        Conduct { on_failure, report: self.report.as_deref().map(env::absolute) }
    }
}

/// What came of all variants.
#[derive(Debug)]
pub struct Built {
    /// Those that are there.
    pub artifacts: Vec<Artifact>,
    failed: Vec<Group>,
    of: usize,
    took: Duration,
}

/// Variants that failed for one reason.
#[derive(Debug)]
struct Group {
    variants: Vec<String>,
    error: CompileError,
}

/// One reason, with the variants that it holds for.
#[derive(Debug, Error)]
#[error("{error}")]
struct Reason {
    error: CompileError,
    also: Vec<String>,
}

/// More names than this are counted, not listed.
const NAMED: usize = 6;

/// With more variants than this, people are told of them in one line.
const LISTED: usize = 8;

/// Some of the variants are there.
#[derive(Debug, Error, Diagnostic)]
#[error("{built} of {of} variants were built; failed: {}", names(failed))]
#[diagnostic(
    code(compile::incomplete),
    help("what was built is in .kernelwright/artifacts; the next build begins with what is missing")
)]
struct Incomplete {
    built: usize,
    of: usize,
    failed: Vec<String>,
}

impl Built {
    /// Sorts what came of the jobs.
    ///
    /// # Errors
    /// The user stopped it.
    pub fn of(jobs: &[Job], outcomes: Vec<Outcome>, took: Duration) -> Result<Self, Failure> {
        // Each unit that ran reports an interruption; a person pressed ctrl-C once.
        interrupt::check()?;
        let mut built = Self { artifacts: Vec::new(), failed: Vec::new(), of: jobs.len(), took };
        for (job, outcome) in jobs.iter().zip(outcomes) {
            match outcome {
                Ok(artifact) => built.artifacts.push(artifact),
                Err(errors) => errors.into_iter().for_each(|error| built.add(&job.plan.id, error)),
            }
        }
        Ok(built)
    }

    fn add(&mut self, variant: &str, error: CompileError) {
        let reason = error.reason(variant);
        let same = |group: &&mut Group| group.error.reason(&group.variants[0]) == reason;
        match self.failed.iter_mut().find(same) {
            // Two units of one variant may fail alike, as when a disk is full.
            Some(group) if group.variants.iter().any(|there| there == variant) => {}
            Some(group) => group.variants.push(variant.to_owned()),
            None => self.failed.push(Group { variants: vec![variant.to_owned()], error }),
        }
    }

    /// What lay there already.
    pub fn found(artifacts: Vec<Artifact>) -> Self {
        Self { of: artifacts.len(), artifacts, failed: Vec::new(), took: Duration::ZERO }
    }

    /// Says that each variant is built; for people one line is enough where there are many.
    pub fn announce(&self, report: &Report) {
        let seconds = self.took.as_secs_f64();
        let cached = self.took < Duration::from_millis(200);
        if self.artifacts.len() <= LISTED || report.is_json() {
            for artifact in &self.artifacts {
                let (subject, detail) = (artifact.variant.as_str(), artifact.id.as_str());
                report.emit(&Event::Done { action: "built", subject, detail, seconds, cached });
            }
        } else {
            let subject = &format!("{} of {} variants", self.artifacts.len(), self.of);
            report.emit(&Event::Done { action: "built", subject, detail: "", seconds, cached });
        }
    }

    /// Tells what is there, and what is not.
    pub fn tell(&self, report: &Report) {
        let mut human = String::new();
        for artifact in &self.artifacts {
            let _infallible = writeln!(human, "{}  {}", artifact.variant, artifact.dir.display());
        }
        let failed: Vec<Value> = self.failed.iter().map(Group::json).collect();
        let seconds = self.took.as_secs_f64();
        let data = json!({ "artifacts": self.artifacts, "failed": failed, "seconds": seconds });
        report.result("build", &data, &human);
    }

    /// The artifacts, if all of them are there; else each reason once, and what is missing.
    pub fn complete(self) -> Result<Vec<Artifact>, Failure> {
        if self.failed.is_empty() {
            return Ok(self.artifacts);
        }
        let mut failure = Failure::told(exit::SUCCESS);
        let mut missing = BTreeSet::new();
        for Group { variants, error } in self.failed {
            missing.extend(variants.iter().cloned());
            failure.exit = failure.exit.max(error.exit());
            let also = variants.into_iter().skip(1).collect();
            failure.reports.push(miette::Report::new(Reason { error, also }));
        }
        if self.of > 1 {
            let failed = missing.into_iter().collect();
            let incomplete = Incomplete { built: self.artifacts.len(), of: self.of, failed };
            failure.reports.push(miette::Report::new(incomplete));
        }
        Err(failure)
    }
}

impl Group {
    fn json(&self) -> Value {
        let text = |part: Option<Box<dyn std::fmt::Display + '_>>| part.map(|part| part.to_string());
        json!({
            "variants": self.variants, "unit": self.error.unit(), "code": text(self.error.code()),
            "message": self.error.to_string(), "help": text(self.error.help()),
        })
    }
}

impl Diagnostic for Reason {
    fn code<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.error.code()
    }

    fn severity(&self) -> Option<Severity> {
        self.error.severity()
    }

    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        let own = self.error.help();
        if self.also.is_empty() {
            return own;
        }
        let also = format!("the same for {}", names(&self.also));
        Some(Box::new(match own {
            Some(own) => format!("{own}\n{also}"),
            None => also,
        }))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.error.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.error.labels()
    }
}

/// Names as people read them; many are counted.
fn names(all: &[String]) -> String {
    match all {
        few if few.len() <= NAMED => few.join(", "),
        many => format!("{} and {} more", many[..NAMED - 1].join(", "), many.len() - (NAMED - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn too_new(variant: &str, need: &str) -> CompileError {
        CompileError::TooNew { variant: variant.to_owned(), needs: vec![need.to_owned()] }
    }

    fn built(failed: &[(&str, &str)]) -> Built {
        let of = failed.len() + 1;
        let mut built = Built { artifacts: Vec::new(), failed: Vec::new(), of, took: Duration::ZERO };
        for (variant, need) in failed {
            built.add(variant, too_new(variant, need));
        }
        built
    }

    #[test]
    fn the_same_reason_is_told_once_with_all_its_variants() {
        let failure =
            built(&[("a", "x@9"), ("b", "x@9"), ("c", "y@9")]).complete().expect_err("three failed");
        assert_eq!(failure.exit, exit::COMPILE);
        let texts: Vec<String> = failure.reports.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[0].starts_with("a uses") && texts[1].starts_with("c uses"), "{texts:?}");
        assert_eq!(texts[2], "0 of 4 variants were built; failed: a, b, c");
        let help = failure.reports[0].help().map(|help| help.to_string()).unwrap_or_default();
        assert!(help.ends_with("\nthe same for b"), "{help}");
    }

    #[test]
    fn programs_get_the_groups() {
        let groups: Vec<Value> =
            built(&[("a", "x@9"), ("b", "x@9")]).failed.iter().map(Group::json).collect();
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0]["variants"], json!(["a", "b"]));
        assert_eq!(groups[0]["code"], "compile::too_new");
    }

    #[test]
    fn many_names_are_counted() {
        let all: Vec<String> = (0..9).map(|name| name.to_string()).collect();
        assert_eq!(names(&all), "0, 1, 2, 3, 4 and 4 more");
        assert_eq!(names(&all[..6]), "0, 1, 2, 3, 4, 5");
    }
}
