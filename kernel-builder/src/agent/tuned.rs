//! The settings that won on a device: `tuned/<device>.toml` as text and as values.
//!
//! Owns: the format, what is right about a file, and which setting a call gets. Never: reads or writes a file; believes
//! that a setting is right: `verify` judges it like any other.

use std::collections::{BTreeMap, BTreeSet};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::expr::{Bindings, Value};
use kernel_plan::spec::op::{AxisKind, Case};
use kernel_plan::spec::tune::{Tunable, Tuning};
use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::gain::Gain;
use super::ranges;
use super::spread::Spread;
use crate::base::causes::{Cause, TomlError};
use crate::base::digest::Digest;
use crate::exit::{self, StageError};

/// The version of the file.
pub(crate) const FORMAT: u32 = 1;
/// What tells it from the dispatch tables that lie in the same folder.
const KIND: &str = "settings";
/// What a call gets where no table says anything.
const DEFAULTS: &str = "the defaults of [tune]";

/// A table for one operation on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TunedTable {
    kind: String,
    format: u32,
    /// The operation.
    pub op: String,
    /// The device, as its driver calls it.
    pub device: String,
    /// Its compute capability: `9.0`.
    pub capability: String,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// The digest of the device code with the headers that it uses, `[launch]` and `[tune]`.
    pub source: Digest,
    /// The digest of op.toml as a whole.
    pub op_toml: Digest,
    /// By workload and dtypes.
    #[serde(default, rename = "setting")]
    pub settings: Vec<Setting>,
    /// Rules for lengths that no workload has, by dtypes.
    #[serde(default, rename = "spread", skip_serializing_if = "Vec::is_empty")]
    pub spreads: Vec<Spread>,
}

/// What won on one workload with its dtypes chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setting {
    /// The workload's name.
    pub workload: String,
    /// Day of the measurement, `YYYY-MM-DD`, UTC.
    pub date: String,
    /// The driver.
    pub driver: String,
    /// `nvrtc` or `nvcc`, with its version.
    pub compiler: String,
    /// The version of the way it was searched and measured.
    pub protocol: u32,
    /// Settings that were judged, and how many of them were right.
    pub judged: u64,
    /// Those that were right.
    pub right: u64,
    /// Seconds a call.
    pub seconds: f64,
    /// Those of the defaults, measured in turn with it; absent where the defaults cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_seconds: Option<f64>,
    /// Time of a copy of as many bytes over that of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_fraction: Option<f64>,
    /// How many times faster than the defaults; absent for the defaults themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Gain>,
    /// What each type variable stands for.
    #[serde(default)]
    pub dtypes: BTreeMap<String, String>,
    /// The lengths of the axes that vary.
    #[serde(default)]
    pub axes: BTreeMap<String, u64>,
    /// The least and the greatest length of each axis that it is used for.
    #[serde(default)]
    pub range: BTreeMap<String, [u64; 2]>,
    /// The value of every tunable.
    pub tuning: BTreeMap<String, toml::Value>,
}

/// A file of settings that cannot be used.
#[derive(Debug, Error, Diagnostic)]
#[error("`{name}` is not a valid settings file")]
#[diagnostic(
    code(agent::tuned),
    help("do not edit it by hand: rewrite it with `kernelwright fill`, delete it, or use --untuned")
)]
pub(crate) struct TunedError {
    name: String,
    #[source]
    cause: Cause,
}

impl StageError for TunedError {
    fn exit(&self) -> u8 {
        exit::AGENT
    }
}

/// Whether a file of `tuned/` says that it is one of settings; else it is a dispatch table.
pub(crate) fn is_settings(text: &str) -> bool {
    let table = text.parse::<toml::Table>();
    table.is_ok_and(|table| table.get("kind").and_then(toml::Value::as_str) == Some(KIND))
}

/// The name of a device's file: its name in small letters and digits.
pub(crate) fn file_name(device: &str) -> String {
    let words = device.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<String> = words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect();
    format!("{}.toml", words.join("-"))
}

/// The names of a case's dtypes.
pub(crate) fn dtypes_of(case: &Case) -> BTreeMap<String, String> {
    case.dtypes.iter().map(|(name, dtype)| (name.to_string(), dtype.to_string())).collect()
}

/// The lengths of a case's axes, without those that op.toml fixes.
pub(crate) fn axes_of(op: &OpSpec, case: &Case) -> BTreeMap<String, u64> {
    let fixed: BTreeSet<&str> = op
        .axes
        .iter()
        .filter(|axis| matches!(axis.kind, AxisKind::Const(_)))
        .map(|axis| axis.name.value.as_str())
        .collect();
    let varying = case.axes.iter().filter(|(name, _)| !fixed.contains(name.as_str()));
    varying.map(|(name, length)| (name.to_string(), *length)).collect()
}

/// A setting as the file has it.
pub(crate) fn written(tuning: &Tuning) -> BTreeMap<String, toml::Value> {
    let toml_value = |value: &Value| match value {
        Value::Integer(number) => toml::Value::Integer(*number),
        Value::Boolean(truth) => toml::Value::Boolean(*truth),
    };
    tuning.iter().map(|(name, value)| (name.to_string(), toml_value(value))).collect()
}

impl TunedTable {
    /// A table without a setting.
    pub(crate) fn empty(
        op: &OpSpec,
        device: &str,
        capability: (u32, u32),
        multiprocessors: u32,
        source: Digest,
    ) -> Self {
        Self {
            kind: KIND.to_owned(),
            format: FORMAT,
            op: op.name.value.to_string(),
            device: device.to_owned(),
            capability: capability_name(capability),
            multiprocessors,
            source,
            op_toml: Digest::blake3(op.file.text.as_bytes()),
            settings: vec![],
            spreads: vec![],
        }
    }

    /// Puts rules in the place of those for the same dtypes.
    pub(crate) fn put_spread(&mut self, spread: Spread) {
        self.remove_spread(&spread.dtypes);
        self.spreads.push(spread);
        self.spreads.sort_by(|one, other| one.dtypes.cmp(&other.dtypes));
    }

    /// Takes the rules for these dtypes out.
    pub(crate) fn remove_spread(&mut self, dtypes: &[BTreeMap<String, String>]) {
        for old in &mut self.spreads {
            old.dtypes.retain(|known| !dtypes.contains(known));
        }
        self.spreads.retain(|old| !old.dtypes.is_empty());
    }

    /// Puts a setting in the place of the one for the same workload and dtypes, and draws all borders anew.
    pub(crate) fn put(&mut self, setting: Setting) {
        self.settings.retain(|old| (&old.workload, &old.dtypes) != (&setting.workload, &setting.dtypes));
        // Two workloads with the same lengths would have two borders between them: the newer one counts.
        self.settings.retain(|old| (&old.axes, &old.dtypes) != (&setting.axes, &setting.dtypes));
        self.settings.push(setting);
        self.settings
            .sort_by(|one, other| (&one.workload, &one.dtypes).cmp(&(&other.workload, &other.dtypes)));
        self.settings = with_ranges(&self.settings);
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        let head = "# Which setting of [tune] is used on this device, for which lengths. Written by `kernelwright fill`;\n\
                    # docs/reference/records.md has the rules.\n";
        format!("{head}{}", toml::to_string(self).unwrap_or_default())
    }

    /// Reads a file back. Its ranges must follow from its axes; whether its settings are those of an op.toml is for
    /// [`Self::check`], since one of another source is ignored whatever it says.
    pub(crate) fn read(name: &str, text: &str) -> Result<Self, TunedError> {
        let refused = |cause: Cause| TunedError { name: name.to_owned(), cause };
        let table: Self = toml::from_str(text).map_err(|error| refused(TomlError::from(error).into()))?;
        if table.kind != KIND {
            return Err(refused(format!("its kind is `{}`, not `{KIND}`", table.kind).into()));
        }
        if table.format != FORMAT {
            let other = format!("it has format {}, but this version reads format {FORMAT}", table.format);
            return Err(refused(other.into()));
        }
        if table.settings != with_ranges(&table.settings) {
            return Err(refused("its ranges do not follow from its axes".into()));
        }
        if let Some(problem) = table.spreads.iter().find_map(Spread::problem) {
            return Err(refused(problem.into()));
        }
        Ok(table)
    }

    /// Holds every setting against op.toml.
    pub(crate) fn check(&self, name: &str, op: &OpSpec) -> Result<(), TunedError> {
        let refused = |problem: String| Err(TunedError { name: name.to_owned(), cause: problem.into() });
        let settings = self.settings.iter().map(|setting| (setting.workload.clone(), &setting.tuning));
        let rules = self
            .spreads
            .iter()
            .flat_map(|spread| spread.rules.iter().map(|rule| (spread.name(), &rule.tuning)));
        for (of, tuning) in settings.chain(rules) {
            for (tunable, value) in tuning {
                let known = op.tune.tunables.iter().find(|known| known.name.value.as_str() == tunable);
                let Some(known) = known else {
                    return refused(format!(
                        "its setting for `{of}` has `{tunable}`, which is not a tunable of op.toml"
                    ));
                };
                if !read_value(value).is_some_and(|value| known.values.contains(&value)) {
                    return refused(format!(
                        "its setting for `{of}` has {tunable} = {value}, which is not one of the values in op.toml"
                    ));
                }
            }
            let missing =
                op.tune.tunables.iter().find(|known| !tuning.contains_key(known.name.value.as_str()));
            if let Some(missing) = missing {
                return refused(format!("its setting for `{of}` has no value for `{}`", missing.name.value));
            }
        }
        Ok(())
    }

    /// The rules for these dtypes.
    pub(crate) fn spread_for(&self, dtypes: &BTreeMap<String, String>) -> Option<&Spread> {
        self.spreads.iter().find(|spread| spread.is_for(dtypes))
    }

    /// The setting for a call of these dtypes and lengths, with the workload or the lengths that it was found for: that of
    /// exactly these lengths, else of the rules for these dtypes, else of the range that they lie in.
    fn setting_for(
        &self,
        dtypes: &BTreeMap<String, String>,
        axes: &BTreeMap<String, u64>,
    ) -> Option<(&BTreeMap<String, toml::Value>, String)> {
        let inside = |setting: &&Setting| {
            setting.dtypes == *dtypes
                && setting.range.len() == axes.len()
                && setting.range.iter().all(|(name, [low, high])| {
                    axes.get(name).is_some_and(|length| (low..=high).contains(&length))
                })
        };
        let exact = |setting: &&Setting| setting.dtypes == *dtypes && setting.axes == *axes;
        if let Some(setting) = self.settings.iter().find(exact) {
            return Some((&setting.tuning, setting.workload.clone()));
        }
        if let Some(spread) = self.spread_for(dtypes) {
            return spread.rule_for(axes).map(|rule| (&rule.tuning, spread.name()));
        }
        self.settings.iter().find(inside).map(|setting| (&setting.tuning, setting.workload.clone()))
    }
}

/// `9.0`.
pub(crate) fn capability_name((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

/// The place in `tables` of the one for a device: its own, else that of the device of the same compute capability whose
/// multiprocessors are nearest in number.
pub(crate) fn nearest(
    tables: &[TunedTable],
    device: &str,
    capability: (u32, u32),
    multiprocessors: u32,
) -> Option<usize> {
    let own = tables.iter().position(|table| table.device == device);
    let capability = capability_name(capability);
    let alike = tables.iter().enumerate().filter(|(_, table)| table.capability == capability);
    own.or_else(|| {
        alike.min_by_key(|(_, table)| table.multiprocessors.abs_diff(multiprocessors)).map(|(place, _)| place)
    })
}

/// The same settings with the ranges that follow from their axes: every setting has the cell of a grid over all lengths of
/// its dtypes.
fn with_ranges(settings: &[Setting]) -> Vec<Setting> {
    let range = |setting: &Setting| {
        let alike: Vec<&Setting> = settings.iter().filter(|other| other.dtypes == setting.dtypes).collect();
        let cell = |(name, length): (&String, &u64)| {
            let lengths: BTreeSet<u64> =
                alike.iter().filter_map(|other| other.axes.get(name)).copied().collect();
            let lengths: Vec<u64> = lengths.into_iter().collect();
            let place = lengths.binary_search(length).ok()?;
            Some((name.clone(), ranges::lengths_of(place, place, &lengths)))
        };
        setting.axes.iter().filter_map(cell).collect()
    };
    settings.iter().map(|setting| Setting { range: range(setting), ..setting.clone() }).collect()
}

/// The values of a setting; nothing where they are not all those of op.toml.
pub(crate) fn tuning_of(op: &OpSpec, values: &BTreeMap<String, toml::Value>) -> Option<Tuning> {
    let tunable_value = |tunable: &Tunable| {
        let value = read_value(values.get(tunable.name.value.as_str())?)?;
        tunable.values.contains(&value).then(|| (tunable.name.value.clone(), value))
    };
    op.tune.tunables.iter().map(tunable_value).collect()
}

fn read_value(value: &toml::Value) -> Option<Value> {
    match value {
        toml::Value::Integer(number) => Some(Value::Integer(*number)),
        toml::Value::Boolean(truth) => Some(Value::Boolean(*truth)),
        _ => None,
    }
}

/// The setting that every call gets.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    defaults: Tuning,
    /// The table, checked against op.toml, with its file's name.
    table: Option<(String, TunedTable)>,
}

/// What a call gets, and where that comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TuningChoice {
    /// A value for every tunable.
    pub tuning: Tuning,
    /// In words: the file and the workload, or the defaults.
    pub from: String,
}

impl Settings {
    /// The defaults of `[tune]` for every call.
    pub(crate) fn defaults(op: &OpSpec) -> Self {
        Self { defaults: op.tune.default_tuning(), table: None }
    }

    /// The same setting for every call.
    pub(crate) fn always(tuning: Tuning) -> Self {
        Self { defaults: tuning, table: None }
    }

    /// What a table says, and the defaults where it says nothing.
    pub(crate) fn of_table(name: &str, table: TunedTable, op: &OpSpec) -> Result<Self, TunedError> {
        table.check(name, op)?;
        Ok(Self { table: Some((name.to_owned(), table)), ..Self::defaults(op) })
    }

    /// The setting of a case. One that the constraints or `[launch]` do not take there is not used.
    pub(crate) fn choose(&self, op: &OpSpec, case: &Case) -> TuningChoice {
        let found = self.table.as_ref().and_then(|(name, table)| {
            let (values, of) = table.setting_for(&dtypes_of(case), &axes_of(op, case))?;
            let tuning = tuning_of(op, values)?;
            let runs = op.tune.allows(&Bindings::new(case, &tuning)).unwrap_or_default()
                && op.launch.as_ref().is_some_and(|launch| launch.evaluate(case, &tuning).is_ok());
            runs.then(|| TuningChoice { tuning, from: format!("{name}, {of}") })
        });
        found.unwrap_or_else(|| TuningChoice { tuning: self.defaults.clone(), from: DEFAULTS.to_owned() })
    }

    /// Whether every call gets the defaults, since no other settings are known.
    pub(crate) fn are_defaults(&self) -> bool {
        self.table.is_none()
    }

    /// The defaults.
    pub(crate) fn default_tuning(&self) -> &Tuning {
        &self.defaults
    }

    /// All that decides which setting a call gets, for a digest: nothing beside the defaults without a table.
    pub(crate) fn words(&self) -> Vec<String> {
        let values = |tuning: &BTreeMap<String, toml::Value>| {
            let pairs: Vec<String> = tuning.iter().map(|(name, value)| format!("{name}={value}")).collect();
            pairs.join(" ")
        };
        let Some((_, table)) = &self.table else { return vec![] };
        let settings = table
            .settings
            .iter()
            .map(|setting| format!("{:?} {:?}: {}", setting.dtypes, setting.range, values(&setting.tuning)));
        let rules = table.spreads.iter().flat_map(|spread| {
            spread.rules.iter().map(|rule| {
                format!(
                    "{:?} {:?} {:?}: {}",
                    spread.dtypes,
                    rule.range,
                    rule.multiple_of,
                    values(&rule.tuning)
                )
            })
        });
        settings.chain(rules).collect()
    }
}

#[cfg(test)]
#[path = "tuned_tests.rs"]
mod tests;
