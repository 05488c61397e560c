//! Which calls a kernel serves, and which are left to PyTorch, so that nobody is slower for having it.
//!
//! Owns: the table that follows from measurements, its file, and reading it back.
//! Never: measures; trusts a table whose ranges do not follow from its points.
//!
//! A point is what was measured: a dtype and a length for each axis that varies. It is the kernel's when the lower end of
//! the interval is above one against every baseline that a package can call (`eager`, `fused`), in every regime. Between
//! measured lengths the nearer one counts, by ratio: the border lies at their geometric mean, and what lies on a border
//! with a point that is not the kernel's goes to PyTorch. Nothing is said further than a factor of two from a measured
//! length, nor for a combination of lengths that was not measured: those are PyTorch's too.

use std::collections::{BTreeMap, BTreeSet};

use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::agent::ranges::{REACH, lengths_of};
use crate::base::causes::{Cause, TomlError};
use crate::base::digest::Digest;
use crate::exit::{self, StageError};

use super::record::Measurement;

/// The version of the file.
pub const FORMAT: u32 = 1;

/// Baselines that a package can call in the kernel's place. What torch.compile makes is no function of PyTorch's.
const CALLABLE: [&str; 2] = ["eager", "fused"];

/// A dtype, and a length for each axis that varies.
type Case = (String, BTreeMap<String, u64>);

/// A box of a grid of lengths: for each axis the first and the last index.
type Cell = Vec<(usize, usize)>;

/// A table for one operation on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispatch {
    /// [`FORMAT`].
    pub format: u32,
    /// The operation.
    pub op: String,
    /// The device's name, as PyTorch has it.
    pub device: String,
    /// The backend of the variant that was measured.
    pub backend: String,
    /// Where the kernel is called; PyTorch everywhere else.
    #[serde(default, rename = "range")]
    pub ranges: Vec<Range>,
    /// What was measured.
    #[serde(rename = "point")]
    pub points: Vec<Point>,
}

/// Lengths for which the kernel is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The dtype, as in a record.
    pub dtype: String,
    /// The least and the greatest length of each axis that varies.
    pub axes: BTreeMap<String, [u64; 2]>,
}

/// What was measured for one dtype and one length of each axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The dtype.
    pub dtype: String,
    /// The lengths.
    pub axes: BTreeMap<String, u64>,
    /// Whether the kernel is faster than every baseline with confidence.
    pub kernel: bool,
    /// The baseline that comes nearest, with the regime: `fused, cold`.
    pub against: String,
    /// The lower end of that ratio's interval.
    pub low: f64,
    /// The records that say so.
    pub records: Vec<Digest>,
}

/// A table that cannot be used.
#[derive(Debug, Error, Diagnostic)]
#[error("`{name}` is not a valid dispatch table")]
#[diagnostic(
    code(bench::dispatch),
    help("do not edit it by hand: rewrite it with `kernelwright bench --write-dispatch`, or delete it")
)]
pub struct DispatchError {
    name: String,
    #[source]
    cause: Cause,
}

impl StageError for DispatchError {
    fn exit(&self) -> u8 {
        exit::BENCH
    }
}

impl Dispatch {
    /// The table of these measurements, each with its record's name; all are of one operation, device and variant.
    /// `None` without any that says its axes and has a baseline.
    pub fn from_measurements(measured: &[(Digest, &Measurement)], backend: &str) -> Option<Self> {
        let mut cases: BTreeMap<Case, Vec<&(Digest, &Measurement)>> = BTreeMap::new();
        for entry in measured.iter().filter(|(_, it)| !it.axes.is_empty() && it.checked) {
            cases.entry((entry.1.dtype.clone(), entry.1.axes.clone())).or_default().push(entry);
        }
        let points: Vec<Point> =
            cases.into_iter().filter_map(|((dtype, axes), records)| point(dtype, axes, &records)).collect();
        let (_, first) = measured.first()?;
        (!points.is_empty()).then(|| Self {
            format: FORMAT,
            op: first.op.clone(),
            device: first.device.clone(),
            backend: backend.to_owned(),
            ranges: ranges(&points),
            points,
        })
    }

    /// The name of its file below `tuned/`: the device's, in small letters and digits.
    pub fn file_name(&self) -> String {
        crate::agent::tuned::file_name(&self.device)
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let head = "# Which calls the kernel serves on this device; all others go to PyTorch. Written by\n\
                    # `kernelwright bench --write-dispatch`; docs/reference/records.md has the rules.\n";
        format!("{head}{}", toml::to_string(self).unwrap_or_default())
    }

    /// Reads a table back. Its ranges must follow from its points.
    pub fn read(name: &str, text: &str) -> Result<Self, DispatchError> {
        let refused = |cause: Cause| DispatchError { name: name.to_owned(), cause };
        let table: Self = toml::from_str(text).map_err(|error| refused(TomlError::from(error).into()))?;
        if table.format != FORMAT {
            let other = format!("it has format {}, but this version reads format {FORMAT}", table.format);
            return Err(refused(other.into()));
        }
        let axes: BTreeSet<Vec<&String>> =
            table.points.iter().map(|point| point.axes.keys().collect()).collect();
        if axes.len() != 1 {
            return Err(refused("its points have no axes, or different ones".into()));
        }
        if table.points.iter().any(|point| point.kernel != (point.low > 1.0)) {
            return Err(refused("a point contradicts its interval".into()));
        }
        if table.ranges != ranges(&table.points) {
            return Err(refused("its ranges do not follow from its points".into()));
        }
        Ok(table)
    }

    /// Whether the kernel serves a call.
    pub fn serves(&self, dtype: &str, axes: &BTreeMap<String, u64>) -> bool {
        let inside = |range: &Range| {
            range.dtype == dtype
                && range.axes.iter().all(|(name, [low, high])| {
                    axes.get(name).is_some_and(|length| (low..=high).contains(&length))
                })
        };
        self.ranges.iter().any(inside)
    }
}

/// What a package reads at import: for each device and dtype the kernel's ranges as `[low, high, low, high, ..]`, axes in
/// the order of `axes`. `None` without a table; the tables are of one operation.
pub fn for_package(tables: &[Dispatch]) -> Option<Value> {
    let first = tables.first()?.points.first()?;
    let axes: Vec<&String> = first.axes.keys().collect();
    let mut devices = serde_json::Map::new();
    for table in tables {
        let mut served: BTreeMap<&str, Vec<Vec<u64>>> = BTreeMap::new();
        for range in &table.ranges {
            served.entry(&range.dtype).or_default().push(range.axes.values().flatten().copied().collect());
        }
        devices.insert(table.device.clone(), json!(served));
    }
    Some(json!({ "format": FORMAT, "axes": axes, "devices": devices }))
}

/// The worst of several records of one case. `None` if there is no ratio, or if a ratio against a baseline that packages
/// can call was sampled but is not a result.
fn point(dtype: String, axes: BTreeMap<String, u64>, records: &[&(Digest, &Measurement)]) -> Option<Point> {
    let results = records.iter().filter(|(_, record)| record.is_result());
    let unknown = |record: &Measurement| CALLABLE.iter().any(|name| record.unmeasured_versus(name).is_some());
    if results.clone().any(|(_, record)| unknown(record)) {
        return None;
    }
    let ratios = results.flat_map(|(_, record)| {
        let callable = record.ratios.iter().filter(|ratio| CALLABLE.contains(&ratio.versus.as_str()));
        callable.map(|ratio| (ratio.low, format!("{}, {}", ratio.versus, record.regime)))
    });
    let (low, against) = ratios.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    let records = records.iter().map(|(digest, _)| *digest).collect();
    Some(Point { dtype, axes, kernel: low > 1.0, against, low, records })
}

/// The boxes of the kernel's points, those side by side joined.
fn ranges(points: &[Point]) -> Vec<Range> {
    let dtypes: BTreeSet<&str> = points.iter().map(|point| point.dtype.as_str()).collect();
    let mut found = Vec::new();
    for dtype in dtypes {
        let of: Vec<&Point> = points.iter().filter(|point| point.dtype == dtype).collect();
        let Some(names) = of.first().map(|point| point.axes.keys().cloned().collect::<Vec<_>>()) else {
            continue;
        };
        let grid: Vec<Vec<u64>> = names
            .iter()
            .map(|name| {
                let lengths: BTreeSet<u64> =
                    of.iter().filter_map(|point| point.axes.get(name)).copied().collect();
                lengths.into_iter().collect()
            })
            .collect();
        let mut boxes: BTreeSet<Cell> = of
            .iter()
            .filter(|point| point.kernel)
            .filter_map(|point| {
                let place = |(name, lengths): (&String, &Vec<u64>)| {
                    let at = lengths.binary_search(point.axes.get(name)?).ok()?;
                    Some((at, at))
                };
                names.iter().zip(&grid).map(place).collect()
            })
            .collect();
        for (axis, lengths) in grid.iter().enumerate() {
            boxes = joined(boxes, axis, lengths);
        }
        found.extend(boxes.into_iter().map(|cell| {
            let lengths =
                cell.iter().zip(&grid).map(|(&(first, last), lengths)| lengths_of(first, last, lengths));
            Range { dtype: dtype.to_owned(), axes: names.iter().cloned().zip(lengths).collect() }
        }));
    }
    found.sort();
    found
}

/// Boxes that touch along one axis and agree on the others, as one; not over a gap of which nothing is said.
fn joined(boxes: BTreeSet<Cell>, axis: usize, lengths: &[u64]) -> BTreeSet<Cell> {
    let mut rows: BTreeMap<Cell, Cell> = BTreeMap::new();
    for mut cell in boxes {
        let span = cell.remove(axis);
        rows.entry(cell).or_default().push(span);
    }
    let mut found = BTreeSet::new();
    for (others, mut spans) in rows {
        spans.sort_unstable();
        let mut whole: Cell = Vec::new();
        for (first, last) in spans {
            match whole.last_mut() {
                Some(open) if open.1 + 1 == first && within_reach(lengths[open.1], lengths[first]) => {
                    open.1 = last
                }
                _ => whole.push((first, last)),
            }
        }
        found.extend(whole.into_iter().map(|span| {
            let mut cell = others.clone();
            cell.insert(axis, span);
            cell
        }));
    }
    found
}

/// Whether what is said of two lengths leaves no gap between them.
fn within_reach(low: u64, high: u64) -> bool {
    high as f64 <= REACH * REACH * low as f64
}

#[cfg(test)]
mod tests {
    use super::super::record::Ratio;
    use super::super::record::tests::example;
    use super::*;

    fn axes(rows: u64, hidden: u64) -> BTreeMap<String, u64> {
        BTreeMap::from([("rows".to_owned(), rows), ("hidden".to_owned(), hidden)])
    }

    fn measured(rows: u64, hidden: u64, low: f64) -> Measurement {
        let ratio = |versus: &str, low: f64| Ratio {
            versus: versus.to_owned(),
            ratio: low + 0.01,
            low,
            high: low + 0.02,
            starts: vec![],
        };
        let ratios = vec![ratio("eager", low + 3.0), ratio("fused", low), ratio("compile", 0.5)];
        Measurement { axes: axes(rows, hidden), ratios, ..example() }
    }

    fn table(points: &[(u64, u64, f64)]) -> Dispatch {
        let all: Vec<_> = points.iter().map(|(rows, hidden, low)| measured(*rows, *hidden, *low)).collect();
        let named: Vec<_> =
            all.iter().map(|it| (Digest::blake3(format!("{:?}", it.axes).as_bytes()), it)).collect();
        Dispatch::from_measurements(&named, "cuda").unwrap()
    }

    #[test]
    fn the_nearer_point_counts_and_the_border_is_pytorchs() {
        let table = table(&[(100, 4096, 1.2), (400, 4096, 0.98)]);
        let at = |rows, hidden| table.serves("bf16", &axes(rows, hidden));
        assert!(at(100, 4096) && at(199, 4096) && at(50, 4096), "{:?}", table.ranges);
        assert!(!at(200, 4096), "as near to one as to the other");
        assert!(!at(201, 4096) && !at(400, 4096) && !at(800, 4096));
        assert!(!at(49, 4096), "further than a factor of two");
        assert!(at(100, 2048) && at(100, 8192) && !at(100, 2047) && !at(100, 8193));
        assert!(!table.serves("f16", &axes(100, 4096)), "a dtype that was not measured");
        assert!(!table.serves("bf16", &BTreeMap::new()));
    }

    #[test]
    fn ranges_side_by_side_are_one_and_gaps_stay() {
        let joined = table(&[(128, 4096, 1.2), (512, 4096, 1.1), (1024, 4096, 1.3)]);
        assert_eq!(joined.ranges.len(), 1);
        assert_eq!(joined.ranges[0].axes["rows"], [64, 2048]);
        let gap = table(&[(128, 4096, 1.2), (1024, 4096, 1.3)]);
        assert_eq!(gap.ranges.len(), 2, "nothing is known of 300 rows: {:?}", gap.ranges);
        assert!(!gap.serves("bf16", &axes(300, 4096)));
        // A combination that was not measured is PyTorch's.
        let corner = table(&[(128, 2048, 1.2), (128, 4096, 1.2), (256, 2048, 1.2)]);
        assert!(corner.serves("bf16", &axes(256, 2048)) && !corner.serves("bf16", &axes(256, 4096)));
    }

    #[test]
    fn every_regime_and_every_callable_baseline_must_be_beaten() {
        let (cold, graph) = (measured(128, 4096, 1.3), measured(128, 4096, 0.999));
        let digest = Digest::blake3(b"record");
        let both = Dispatch::from_measurements(&[(digest, &cold), (digest, &graph)], "cuda").unwrap();
        assert_eq!((both.points.len(), both.points[0].kernel, both.ranges.len()), (1, false, 0));
        assert_eq!(both.points[0].against, "fused, graph");
        // torch.compile is faster by half in each of these records; it is no function that a package can call.
        assert!(Dispatch::from_measurements(&[(digest, &cold)], "cuda").unwrap().points[0].kernel);
        let unknown = Measurement { axes: BTreeMap::new(), ..cold };
        assert_eq!(Dispatch::from_measurements(&[(digest, &unknown)], "cuda"), None);
    }

    #[test]
    fn a_table_reads_back_strictly() {
        let table = table(&[(128, 4096, 1.2), (512, 4096, 0.9)]);
        let text = table.text();
        assert_eq!(Dispatch::read("tuned/x.toml", &text).unwrap(), table);
        assert_eq!(table.file_name(), "nvidia-h200.toml");
        for (from, to) in [
            ("format = 1", "format = 2"),
            ("format = 1", "format = 1\nextra = 2"),
            ("255", "300"),
            ("low = 0.9", "low = 1.1"),
            ("kernel = true", "kernel = false"),
        ] {
            assert!(text.contains(from), "{from}\n{text}");
            let error = Dispatch::read("tuned/x.toml", &text.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error.name, "tuned/x.toml", "{to}");
        }
    }

    #[test]
    fn a_package_reads_numbers() {
        let table = table(&[(128, 4096, 1.2)]);
        let other = Dispatch { device: "NVIDIA A100".to_owned(), ranges: vec![], ..table.clone() };
        let expected = json!({
            "format": 1, "axes": ["hidden", "rows"],
            "devices": { "NVIDIA H200": { "bf16": [[2048, 8192, 64, 256]] }, "NVIDIA A100": {} },
        });
        assert_eq!(for_package(&[table, other]), Some(expected));
        assert_eq!(for_package(&[]), None);
    }
}
