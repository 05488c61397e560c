//! Every candidate of a project, and which of them is the best.
//!
//! Owns: what is kept of one, who starts from whom, when a candidate replaces the best. Never: reads a file; measures.
//!
//! There is one line of descent. A record says why there are no islands (docs/decisions/0030).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::gain::Gain;

/// The name of the kernel that the project came with.
pub(crate) const SEED: &str = "seed";
/// The name of the best one, whichever it is.
pub(crate) const BEST: &str = "best";
/// Each so many sessions one starts from the seed.
const FROM_SEED: usize = 4;
/// Sessions without a gain after which a search ends.
const PATIENCE: usize = 5;

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CandidateStatus {
    /// The project's own kernel, before anybody changed it.
    Seed,
    /// Compiled; no GPU was there, so nothing was judged.
    Compiled,
    /// Right where it was tried.
    Right,
    /// Refused.
    Refused,
    /// Held against the best, and not faster beyond doubt.
    NotFaster,
    /// Faster than the best at that time, which it replaced.
    Kept,
}

/// A time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// Seconds a call.
    pub(crate) seconds: f64,
    /// The time of a copy of as many bytes over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) copy_fraction: Option<f64>,
    /// The setting.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) settings: BTreeMap<String, serde_json::Value>,
}

/// Who made a candidate, as far as that is known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Maker {
    /// The agent's name: `codex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The model, as the agent calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// Seconds since the session began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<f64>,
    /// Tokens of the session, where the agent tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<u64>,
    /// What the session cost, where the agent tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usd: Option<f64>,
}

/// One candidate: a line of `lineage.jsonl`. A later line of the same id replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Its name, by its bytes.
    pub(crate) id: String,
    /// The candidate that it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<String>,
    /// Who made it.
    #[serde(default)]
    pub(crate) maker: Maker,
    /// What was changed, in the words of who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// What became of it.
    pub(crate) standing: CandidateStatus,
    /// The code of its refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    /// Why it is refused, in a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// Times by workload with its dtypes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) figures: BTreeMap<String, Figure>,
    /// How many times faster than the best of its time, where both were held against each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gain: Option<Gain>,
    /// Seconds since 1970, UTC.
    pub(crate) when: u64,
}

impl Entry {
    /// A kernel that the project came with.
    pub(crate) fn seed(id: String, when: u64) -> Self {
        Self::new(id, None, Maker::default(), CandidateStatus::Seed, when)
    }

    /// A candidate of which nothing more is known yet.
    pub(crate) fn new(
        id: String,
        parent: Option<String>,
        maker: Maker,
        standing: CandidateStatus,
        when: u64,
    ) -> Self {
        let (note, code, text, figures, gain) = (None, None, None, BTreeMap::new(), None);
        Self { id, parent, maker, note, standing, code, text, figures, gain, when }
    }
}

/// All candidates, in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lineage {
    entries: Vec<Entry>,
}

impl Lineage {
    /// Reads `lineage.jsonl`. A line that was cut short by a crash is passed over.
    pub(crate) fn read(text: &str) -> Self {
        let mut lineage = Self::default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).for_each(|entry| lineage.put(entry));
        lineage
    }

    /// Takes a candidate, or what is new of one.
    pub(crate) fn put(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|known| known.id == entry.id) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }

    /// All, the oldest first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// A candidate by its id, the beginning of one, `best` or `seed`.
    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        match name {
            BEST => self.best(),
            SEED => self.seed(),
            _ => {
                let mut found = self.entries.iter().filter(|entry| entry.id.starts_with(name));
                let first = found.next().filter(|_| name.len() >= 4)?;
                if found.next().is_none() { Some(first) } else { None }
            }
        }
    }

    /// The project's own kernel; the last one, if a person changed it.
    pub(crate) fn seed(&self) -> Option<&Entry> {
        self.entries
            .iter()
            .filter(|entry| entry.standing == CandidateStatus::Seed)
            .max_by_key(|entry| entry.when)
    }

    /// The last that replaced the best, else the seed. What was kept before a person changed the kernel was held against
    /// another one.
    pub(crate) fn best(&self) -> Option<&Entry> {
        let seed = self.seed();
        let since = seed.map_or(0, |seed| seed.when);
        let kept = self
            .entries
            .iter()
            .filter(|entry| entry.standing == CandidateStatus::Kept && entry.when >= since);
        // In the order in which they were kept, which need not be the one in which they came.
        kept.max_by_key(|entry| entry.when).or(seed)
    }

    /// The candidate that a session starts from; sessions are counted from zero.
    pub(crate) fn parent(&self, session: usize) -> Option<&Entry> {
        if session % FROM_SEED == FROM_SEED - 1 { self.seed() } else { self.best() }
    }

    /// How deep each candidate lies below its oldest ancestor, in an order in which parents come before their children.
    pub(crate) fn tree(&self) -> Vec<(usize, &Entry)> {
        let known = |id: &Option<String>| {
            id.as_ref().is_some_and(|id| self.entries.iter().any(|entry| entry.id == *id))
        };
        let roots = self
            .entries
            .iter()
            .filter(|entry| !known(&entry.parent) || entry.parent.as_ref() == Some(&entry.id));
        let mut open: Vec<(usize, &Entry)> = roots.map(|entry| (0, entry)).collect();
        open.reverse();
        let mut found: Vec<(usize, &Entry)> = Vec::new();
        while let Some((depth, entry)) = open.pop() {
            if found.iter().any(|(_, known)| known.id == entry.id) {
                continue;
            }
            found.push((depth, entry));
            let children = self.entries.iter().rev().filter(|other| other.parent.as_ref() == Some(&entry.id));
            open.extend(children.map(|child| (depth + 1, child)));
        }
        found
    }

    /// How many candidates were refused, by code.
    pub(crate) fn refusals(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for code in self.entries.iter().filter_map(|entry| entry.code.as_deref()) {
            *counts.entry(code).or_insert(0) += 1;
        }
        counts
    }
}

/// Whether a search ends: by what its sessions gained, in their order.
pub(crate) fn is_over(gained: &[bool]) -> bool {
    gained.len() >= PATIENCE && gained.iter().rev().take(PATIENCE).all(|gained| !gained)
}

/// Whether a candidate replaces the best: by the geometric mean over the workloads of each of several starts, all of which
/// put it above one. One start alone would let through one in forty candidates that are no better; a search hands in many.
pub(crate) fn replaces(starts: &[Gain]) -> Option<Gain> {
    let middle = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let of = |part: fn(&Gain) -> f64| starts.iter().map(part);
    let low = of(|gain| gain.low).fold(f64::INFINITY, f64::min);
    let high = of(|gain| gain.high).fold(0.0, f64::max);
    let ratio = middle(of(|gain| gain.ratio.ln()).collect()).exp();
    (!starts.is_empty()).then_some(Gain { ratio, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, parent: Option<&str>, standing: CandidateStatus, when: u64) -> Entry {
        Entry {
            id: id.to_owned(),
            parent: parent.map(str::to_owned),
            maker: Maker::default(),
            note: None,
            code: (standing == CandidateStatus::Refused).then(|| "verify::numerics".to_owned()),
            text: None,
            standing,
            figures: BTreeMap::new(),
            gain: None,
            when,
        }
    }

    fn lineage() -> Lineage {
        let mut lineage = Lineage::default();
        for entry in [
            entry("seed00000000", None, CandidateStatus::Seed, 1),
            entry("aaaa00000000", Some("seed00000000"), CandidateStatus::Right, 2),
            entry("aaaa11111111", Some("seed00000000"), CandidateStatus::Kept, 9),
            entry("cccc00000000", Some("aaaa00000000"), CandidateStatus::Kept, 4),
            entry("dddd00000000", Some("aaaa00000000"), CandidateStatus::Refused, 5),
        ] {
            lineage.put(entry);
        }
        lineage
    }

    #[test]
    fn a_line_is_read_back_and_a_torn_one_is_passed_over() {
        let lineage = lineage();
        let mut text: String =
            lineage.entries().iter().map(|entry| serde_json::to_string(entry).unwrap() + "\n").collect();
        assert_eq!(Lineage::read(&text), lineage);
        let later = entry("aaaa00000000", None, CandidateStatus::NotFaster, 7);
        text += &(serde_json::to_string(&later).unwrap() + "\n{\"id\": \"eeee");
        let read = Lineage::read(&text);
        assert_eq!((read.entries().len(), &read.entries()[1]), (5, &later));
    }

    #[test]
    fn a_name_means_one_candidate_or_none() {
        let lineage = lineage();
        let id = |name: &str| lineage.find(name).map(|entry| entry.id.clone());
        assert_eq!(id("seed").as_deref(), Some("seed00000000"));
        assert_eq!(id("best").as_deref(), Some("aaaa11111111"), "the one that was kept last");
        let mut later = lineage.clone();
        later.put(entry("eeee00000000", None, CandidateStatus::Seed, 10));
        assert_eq!(
            later.best().map(|entry| entry.id.as_str()),
            Some("eeee00000000"),
            "a person changed the kernel"
        );
        assert_eq!(id("cccc").as_deref(), Some("cccc00000000"));
        assert_eq!((id("aaaa"), id("ccc"), id("ffff"), id("")), (None, None, None, None));
        assert_eq!(Lineage::default().find("best"), None);
    }

    #[test]
    fn sessions_start_from_the_best_and_every_fourth_from_the_seed() {
        let lineage = lineage();
        let seeds: Vec<usize> = (0..9).filter(|session| lineage.parent(*session) == lineage.seed()).collect();
        assert_eq!(seeds, [3, 7]);
        assert!(!is_over(&[false; 4]) && is_over(&[true, false, false, false, false, false]));
        assert!(!is_over(&[false, true, false, false, false, false]));
    }

    #[test]
    fn parents_come_before_their_children() {
        let lineage = lineage();
        let tree: Vec<(usize, &str)> =
            lineage.tree().into_iter().map(|(depth, entry)| (depth, &entry.id[..4])).collect();
        assert_eq!(tree, [(0, "seed"), (1, "aaaa"), (2, "cccc"), (2, "dddd"), (1, "aaaa")]);
        // A file that was changed by hand makes no endless tree.
        let mut circle = Lineage::default();
        circle.put(entry("one", Some("two"), CandidateStatus::Right, 1));
        circle.put(entry("two", Some("one"), CandidateStatus::Right, 1));
        circle.put(entry("self", Some("self"), CandidateStatus::Right, 1));
        assert_eq!(circle.tree().len(), 1);
        assert_eq!(lineage.refusals(), BTreeMap::from([("verify::numerics", 1)]));
    }

    #[test]
    fn a_gain_is_one_in_every_start() {
        let gain = |ratio: f64, half: f64| Gain { ratio, low: ratio - half, high: ratio + half };
        let both = replaces(&[gain(1.05, 0.01), gain(1.02, 0.01)]).unwrap();
        assert!(
            both.low > 1.0 && (both.ratio - (1.05f64 * 1.02).sqrt()).abs() < 1e-9 && both.high > 1.05,
            "{both:?}"
        );
        assert!(replaces(&[gain(1.05, 0.01), gain(1.005, 0.01)]).unwrap().low < 1.0);
        assert_eq!(replaces(&[]), None);
    }
}
