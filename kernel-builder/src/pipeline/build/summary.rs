//! What came of a build: which variants are there, which failed, and each reason once.
//!
//! Owns: the grouping of failures. Never: builds anything.

use std::collections::BTreeSet;
use std::time::Duration;

use miette::{Diagnostic, LabeledSpan, Severity, SourceCode};
use serde_json::{Value, json};
use thiserror::Error;

use crate::base::causes::chain;
use crate::base::interrupt;
use crate::base::report::{Event, Report};
use crate::compile::artifact::Artifact;
use crate::compile::{CompileError, Job, Outcome};
use crate::exit::{self, Failure, StageError};

/// What failed of a build.
#[derive(Debug)]
pub(crate) struct Summary {
    failed: Vec<Group>,
    refused: Vec<(String, Failure)>,
    of: usize,
}

/// Variants that failed for one reason.
#[derive(Debug)]
struct Group {
    variants: Vec<String>,
    error: CompileError,
}

/// One reason, with the variants that it holds for.
#[derive(Debug)]
struct Reason {
    error: CompileError,
    also: Vec<String>,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(out)
    }
}

impl std::error::Error for Reason {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
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
    help(
        "the finished variants are in .kernelwright/artifacts; the next build builds only the missing ones"
    )
)]
struct Incomplete {
    built: usize,
    of: usize,
    failed: Vec<String>,
}

impl Summary {
    /// Of so many variants, none of which has failed.
    pub(crate) fn new(of: usize) -> Self {
        Self { failed: Vec::new(), refused: Vec::new(), of }
    }

    /// Sorts what came of the jobs into what was made and what failed.
    ///
    /// # Errors
    /// The user stopped it.
    pub(crate) fn sort(jobs: &[Job], outcomes: Vec<Outcome>) -> Result<(Vec<Artifact>, Self), Failure> {
        // Each unit that ran reports an interruption; a person pressed ctrl-C once.
        interrupt::check()?;
        let (mut artifacts, mut summary) = (Vec::new(), Self::new(jobs.len()));
        for (job, outcome) in jobs.iter().zip(outcomes) {
            match outcome {
                Ok(artifact) => artifacts.push(artifact),
                Err(errors) => errors.into_iter().for_each(|error| summary.fail(&job.plan.id, error)),
            }
        }
        Ok((artifacts, summary))
    }

    fn fail(&mut self, variant: &str, error: CompileError) {
        let reason = error.reason(variant);
        let same = |group: &&mut Group| group.error.reason(&group.variants[0]) == reason;
        match self.failed.iter_mut().find(same) {
            // Two units of one variant may fail alike, as when a disk is full.
            Some(group) if group.variants.iter().any(|there| there == variant) => {}
            Some(group) => group.variants.push(variant.to_owned()),
            None => self.failed.push(Group { variants: vec![variant.to_owned()], error }),
        }
    }

    /// A variant was compiled, and a gate refuses it.
    pub(crate) fn refuse(&mut self, variant: &str, failure: Failure) {
        self.refused.push((variant.to_owned(), failure));
    }

    /// Says that each variant is built; for people one line is enough where there are many.
    pub(crate) fn announce(&self, artifacts: &[&Artifact], took: Duration, report: &Report) {
        let seconds = took.as_secs_f64();
        let cached = took < Duration::from_millis(200);
        let tell = |subject: &str, detail: &str| {
            report.emit(&Event::Done { action: "built", subject, detail, seconds, cached });
        };
        if artifacts.len() > LISTED && !report.is_json() {
            return tell(&format!("{} of {} variants", artifacts.len(), self.of), "");
        }
        artifacts.iter().for_each(|artifact| tell(&artifact.variant, &artifact.id));
    }

    /// Each reason with the variants that it holds for, for programs.
    pub(crate) fn groups(&self) -> Vec<Value> {
        let refused = self.refused.iter().flat_map(|(variant, failure)| {
            let one = |error| of_diagnostic(std::slice::from_ref(variant), None, error);
            failure.reports.iter().map(move |report| one(report.as_ref()))
        });
        let failed = self.failed.iter();
        let failed = failed.map(|group| of_diagnostic(&group.variants, group.error.unit(), &group.error));
        failed.chain(refused).collect()
    }

    /// Succeeds if every variant is there; else each reason once, and what is missing.
    pub(crate) fn verdict(self) -> Result<(), Failure> {
        let mut failure = Failure::already_reported(exit::SUCCESS);
        let mut missing = BTreeSet::new();
        for Group { variants, error } in self.failed {
            missing.extend(variants.iter().cloned());
            failure.exit = failure.exit.max(error.exit());
            let also = variants.into_iter().skip(1).collect();
            failure.reports.push(miette::Report::new(Reason { error, also }));
        }
        for (variant, refused) in self.refused {
            missing.insert(variant);
            failure.join(refused);
        }
        if missing.is_empty() {
            return Ok(());
        }
        if self.of > 1 {
            let built = self.of - missing.len();
            let incomplete = Incomplete { built, of: self.of, failed: missing.into_iter().collect() };
            failure.reports.push(miette::Report::new(incomplete));
        }
        Err(failure)
    }
}

/// One reason for programs.
fn of_diagnostic(variants: &[String], unit: Option<&str>, error: &dyn Diagnostic) -> Value {
    let text = |part: Option<Box<dyn std::fmt::Display + '_>>| part.map(|part| part.to_string());
    json!({
        "variants": variants, "unit": unit, "code": text(error.code()), "message": chain(error),
        "help": text(error.help()),
    })
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

    fn summary(failed: &[(&str, &str)]) -> Summary {
        let mut summary = Summary::new(4);
        for (variant, need) in failed {
            summary.fail(variant, too_new(variant, need));
        }
        summary
    }

    #[test]
    fn the_same_reason_is_told_once_with_all_its_variants() {
        let failure = summary(&[("torch-a", "x@9"), ("torch-b", "x@9"), ("torch-c", "y@9")])
            .verdict()
            .expect_err("three failed");
        assert_eq!(failure.exit, exit::COMPILE);
        let texts: Vec<String> = failure.reports.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[0].starts_with("torch-a needs") && texts[1].starts_with("torch-c needs"), "{texts:?}");
        assert_eq!(texts[2], "1 of 4 variants were built; failed: torch-a, torch-b, torch-c");
        let help = failure.reports[0].help().map(|help| help.to_string()).unwrap_or_default();
        assert!(help.ends_with("\nthe same for torch-b"), "{help}");
        assert!(summary(&[]).verdict().is_ok());
    }

    #[test]
    fn what_a_gate_refuses_counts_as_missing_and_has_the_higher_code() {
        let mut summary = summary(&[("torch-a", "x@9")]);
        summary.refuse("torch-b", Failure::from(too_new("torch-b", "x@9")));
        summary.refused[0].1.exit = exit::VERIFY;
        let groups = summary.groups();
        assert_eq!(groups.len(), 2, "{groups:?}");
        assert_eq!(groups[1]["variants"], json!(["torch-b"]));
        let failure = summary.verdict().expect_err("two are missing");
        assert_eq!(failure.exit, exit::VERIFY);
        assert_eq!(failure.reports[2].to_string(), "2 of 4 variants were built; failed: torch-a, torch-b");
    }

    #[test]
    fn programs_get_the_groups() {
        let groups = summary(&[("torch-a", "x@9"), ("torch-b", "x@9")]).groups();
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0]["variants"], json!(["torch-a", "torch-b"]));
        assert_eq!(groups[0]["code"], "compile::too_new");
    }

    #[test]
    fn many_names_are_counted() {
        let all: Vec<String> = (0..9).map(|name| name.to_string()).collect();
        assert_eq!(names(&all), "0, 1, 2, 3, 4 and 4 more");
        assert_eq!(names(&all[..6]), "0, 1, 2, 3, 4, 5");
    }
}
