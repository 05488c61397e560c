//! What a search over drawn lengths found, as the file of settings has it.
//!
//! Owns: the rules of a device for some dtypes, with what they were worth at lengths that they had not seen. Never: fits
//! rules; `rules` does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::gain::Gain;
use super::rules::Rule;

/// Rules for calls of some dtypes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    /// The seed of the lengths.
    pub seed: u64,
    /// Day of the measurement, `YYYY-MM-DD`, UTC.
    pub date: String,
    /// The driver.
    pub driver: String,
    /// `nvrtc` or `nvcc`, with its version.
    pub compiler: String,
    /// The version of the way it was searched and measured.
    pub protocol: u32,
    /// Lengths that the rules were fitted to.
    pub searched: u64,
    /// Other lengths, at which they were tried.
    pub unseen: u64,
    /// How many times faster than the defaults at the unseen lengths: the geometric mean.
    pub over_defaults: Gain,
    /// The time of the best setting known at an unseen length over that of the rules: the geometric mean.
    pub of_best: f64,
    /// The least of those.
    pub worst: f64,
    /// What the type variables stand for: dtypes of the same sizes share rules.
    pub dtypes: Vec<BTreeMap<String, String>>,
    /// The first that matches counts.
    #[serde(rename = "rule")]
    pub rules: Vec<SpreadRule>,
}

/// The setting for some lengths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpreadRule {
    /// Searched lengths among them.
    pub searched: u64,
    /// The least and the greatest length of each axis.
    pub range: BTreeMap<String, [u64; 2]>,
    /// What the length of an axis is a multiple of; absent for 1.
    #[serde(default, rename = "multiple-of", skip_serializing_if = "BTreeMap::is_empty")]
    pub multiple_of: BTreeMap<String, u64>,
    /// The value of every tunable.
    pub tuning: BTreeMap<String, toml::Value>,
}

impl SpreadRule {
    /// A rule over these axes, with the values of its setting.
    pub(crate) fn new(rule: &Rule, axes: &[String], tuning: BTreeMap<String, toml::Value>) -> Self {
        let multiples = axes.iter().cloned().zip(rule.multiples.iter().copied());
        Self {
            searched: rule.samples as u64,
            range: axes.iter().cloned().zip(rule.ranges.iter().copied()).collect(),
            multiple_of: multiples.filter(|(_, multiple)| *multiple > 1).collect(),
            tuning,
        }
    }

    fn matches(&self, axes: &BTreeMap<String, u64>) -> bool {
        self.range.len() == axes.len()
            && axes.iter().all(|(name, length)| {
                let of = self.multiple_of.get(name).copied().unwrap_or(1);
                let range = self.range.get(name);
                length.is_multiple_of(of) && range.is_some_and(|[low, high]| (low..=high).contains(&length))
            })
    }
}

impl Spread {
    /// Whether it is for these dtypes.
    pub(crate) fn is_for(&self, dtypes: &BTreeMap<String, String>) -> bool {
        self.dtypes.contains(dtypes)
    }

    /// The rule for these lengths.
    pub(crate) fn rule_for(&self, axes: &BTreeMap<String, u64>) -> Option<&SpreadRule> {
        self.rules.iter().find(|rule| rule.matches(axes))
    }

    /// What it is called where a call is said to have its setting.
    pub(crate) fn name(&self) -> String {
        format!("lengths drawn with seed {}", self.seed)
    }

    /// What is wrong with a rule that no search writes.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let is_empty = |rule: &SpreadRule| {
            let zero = rule.multiple_of.values().any(|of| *of == 0);
            zero || rule.multiple_of.keys().any(|name| !rule.range.contains_key(name))
        };
        if self.rules.iter().any(is_empty) {
            return Some("a rule has a `multiple-of` that is 0, or of an axis without a range");
        }
        self.dtypes.is_empty().then_some("a spread has no dtypes")
    }
}
