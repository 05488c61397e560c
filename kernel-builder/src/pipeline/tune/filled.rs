//! What came of a workload, and what is said of it while it is searched.
//!
//! Owns: the sentences. Never: decides anything.

use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;

use crate::agent::gain::Gain;
use crate::agent::tuner::Tuner;
use crate::agent::tuner::space::words;
use crate::base::report::{Event, Progress};
use crate::base::session::Session;
use crate::bench::render;

use super::confirm::Confirmation;
use super::phases::Phases;
use super::search::{Figures, SearchProgress};

/// What came of one workload.
pub(crate) struct WorkloadResult {
    /// The workload with its dtypes.
    pub(crate) case: Case,
    /// How far the search came.
    pub(crate) standing: SearchProgress,
    /// How it searched.
    pub(crate) strategy: &'static str,
    /// Its best setting, timed in turn with the defaults.
    pub(crate) confirmed: Option<Confirmation>,
    /// The best settings, for the workloads that follow.
    pub(crate) teaches: Vec<Tuning>,
    /// The share of the time that its arithmetic takes at the peak, where both are known.
    pub(crate) of_peak: Option<f64>,
    /// Where its time went.
    pub(crate) phases: Phases,
}

impl WorkloadResult {
    /// The setting to use from now on. `None` if no setting is right, or if its time is not a result.
    pub(crate) fn result(&self) -> Option<&Confirmation> {
        self.confirmed.as_ref().filter(|confirmed| confirmed.unknown.is_none())
    }
}

/// How large the space is, and what was left out why.
pub(crate) fn begins(case: &Case, tuner: &Tuner<'_>, session: &Session) {
    let space = tuner.space();
    let size = match (space.count(), space.raw()) {
        (Some(count), Some(raw)) => format!("{count} of {raw} settings can run"),
        (_, Some(raw)) => format!("up to {raw} settings"),
        _ => "too many settings to count".to_owned(),
    };
    let mut text = format!("{}: {size}, {} search", case.id, tuner.strategy());
    for (reason, (count, first)) in space.pruned() {
        text += &format!("; {count} {} ({first})", reason.words());
    }
    session.report.note(text);
}

/// A setting that is better than all before it.
pub(crate) fn better(
    standing: &SearchProgress,
    known: &mut Option<Tuning>,
    case: &Case,
    least: Option<f64>,
    progress: &Progress,
    session: &Session,
) {
    let Some((candidate, figures)) = &standing.best else { return };
    // A search looks at a setting by a few samples: enough to go on, and no result.
    let of = shares(figures.seconds, figures.copy_fraction, least);
    progress.doing(&format!("{}: about {}{of}", case.workload, render::time(figures.seconds)));
    if known.as_ref() != Some(&candidate.tuning) {
        let detail = format!("about {}{of}  {}", render::time(figures.seconds), words(&candidate.tuning));
        let (action, subject, seconds) = ("better", case.id.as_str(), standing.seconds);
        session.report.emit(&Event::Done { action, subject, detail: &detail, seconds, cached: false });
        *known = Some(candidate.tuning.clone());
    }
}

/// What came of a workload.
pub(crate) fn done(filled: &WorkloadResult, session: &Session) {
    let detail = match &filled.confirmed {
        Some(confirmed) => verdict(confirmed, filled.of_peak),
        None => "no setting is right".to_owned(),
    };
    for (tuning, refusal) in filled.confirmed.iter().flat_map(|confirmed| &confirmed.fallen) {
        session.report.warn(format!(
            "{} passed at first and was refused later: {}: {}",
            words(tuning),
            refusal.code,
            refusal.text
        ));
    }
    for (code, (count, first)) in &filled.standing.refused {
        session.report.note(format!("{count} refused: {code}: {first}"));
    }
    session.report.emit(&Event::Done {
        action: "filled",
        subject: &filled.case.id,
        detail: &format!("{detail}; {}", counts(&filled.standing)),
        seconds: filled.standing.seconds,
        cached: filled.standing.judged == 0,
    });
    session.report.note(format!("{}: {}", filled.case.id, filled.phases.words()));
}

/// The winner in words: its time, its shares of ceilings, and what it gains.
pub(crate) fn verdict(confirmed: &Confirmation, of_peak: Option<f64>) -> String {
    if let Some(why) = &confirmed.unknown {
        return format!("not measured, so nothing is written: {why}; rerun on an idle machine");
    }
    let Figures { seconds, copy_fraction } =
        Figures { seconds: confirmed.seconds, copy_fraction: confirmed.copy_fraction };
    let peak = of_peak.map_or_else(String::new, |share| format!(", {share:.3} of the peak"));
    let copy = copy_fraction.map_or_else(String::new, |share| format!(", {share:.3} of copy"));
    let gain = match (&confirmed.gain, &confirmed.missed) {
        (Some(gain), _) => format!("{} over the defaults", interval(gain)),
        (None, Some((_, gain))) => {
            format!(
                "the defaults: the best setting found is {} over them, which is not a gain",
                interval(gain)
            )
        }
        (None, None) if confirmed.default_seconds.is_none() => {
            "the defaults give wrong results here".to_owned()
        }
        (None, None) => "the defaults: nothing is better".to_owned(),
    };
    format!("{}{copy}{peak}, {gain}", render::time(seconds))
}

fn interval(gain: &Gain) -> String {
    format!("{:.3}x [{:.3}, {:.3}]", gain.ratio, gain.low, gain.high)
}

fn shares(seconds: f64, copy_fraction: Option<f64>, least: Option<f64>) -> String {
    let copy = copy_fraction.map_or_else(String::new, |share| format!(", {share:.3} of copy"));
    let peak = least.map_or_else(String::new, |least| format!(", {:.3} of the peak", least / seconds));
    copy + &peak
}

fn counts(standing: &SearchProgress) -> String {
    let earlier = match standing.recalled {
        0 => String::new(),
        recalled => format!(", {recalled} of them judged earlier"),
    };
    format!("{} right of {}{earlier}", standing.right, standing.judged + standing.recalled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_gain_is_not_called_one() {
        let gain = |ratio: f64| Gain { ratio, low: ratio - 0.01, high: ratio + 0.01 };
        let confirmed = Confirmation {
            tuning: Tuning::new(),
            seconds: 1.9e-5,
            default_seconds: Some(2e-5),
            copy_fraction: Some(0.9612),
            gain: Some(gain(1.05)),
            missed: None,
            unknown: None,
            fallen: vec![],
        };
        assert_eq!(
            verdict(&confirmed, None),
            "19.0 us, 0.961 of copy, 1.050x [1.040, 1.060] over the defaults"
        );
        let missed = Some((Tuning::new(), gain(1.005)));
        let none = Confirmation { gain: None, missed, copy_fraction: None, ..confirmed.clone() };
        assert_eq!(
            verdict(&none, Some(0.7)),
            "19.0 us, 0.700 of the peak, the defaults: the best setting found is 1.005x [0.995, 1.015] over them, which \
             is not a gain"
        );
        let unknown = Confirmation { unknown: Some("3 samples".to_owned()), ..confirmed.clone() };
        assert_eq!(
            verdict(&unknown, None),
            "not measured, so nothing is written: 3 samples; rerun on an idle machine"
        );
        let alone = Confirmation { gain: None, missed: None, ..confirmed.clone() };
        assert!(verdict(&alone, None).ends_with("the defaults: nothing is better"));
        let wrong = Confirmation { gain: None, missed: None, default_seconds: None, ..confirmed };
        assert!(verdict(&wrong, None).ends_with("the defaults give wrong results here"));
    }
}
