//! Settings of a space without a search: all of them, or a sample.
//!
//! Owns: which settings, and the words on how many of how many. Never: knows what a setting costs.

use std::collections::BTreeSet;

use kernel_plan::spec::tune::Tuning;

use super::space::{Point, Space};
use crate::base::random::SplitMix;

/// Choices up to which every one is looked at if all settings are wanted.
const MOST: usize = 100_000_000;

/// Number of settings to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrawSize {
    /// Every one.
    All,
    /// At most this many; the first has the defaults.
    AtMost(usize),
}

/// Some settings, in ascending order of their values.
#[derive(Debug, PartialEq)]
pub(crate) struct Drawn {
    /// The settings.
    pub(crate) settings: Vec<Tuning>,
    /// The space that they were sampled from, in words; `None` if they are all of it.
    pub(crate) of: Option<String>,
}

/// Settings of `space`; the same seed draws the same. `None`: all are wanted, and there are too many choices to look at.
pub(crate) fn drawn(space: &mut Space<'_>, default: &Tuning, amount: DrawSize, seed: u64) -> Option<Drawn> {
    let every = |space: &Space<'_>, points: Vec<Point>| Drawn {
        settings: points.iter().map(|point| space.tuning(point)).collect(),
        of: None,
    };
    let most = match (amount, space.listed()) {
        (DrawSize::All, None) => {
            space.raw().filter(|raw| *raw <= MOST)?;
            let points = space.walk();
            return Some(every(space, points));
        }
        (DrawSize::All, Some(points)) => {
            let points = points.to_vec();
            return Some(every(space, points));
        }
        (DrawSize::AtMost(most), Some(points)) if points.len() <= most => {
            let points = points.to_vec();
            return Some(every(space, points));
        }
        (DrawSize::AtMost(most), _) => most,
    };
    let mut random = SplitMix(seed);
    let mut taken: BTreeSet<Point> = BTreeSet::new();
    taken.extend(space.point(default).filter(|point| space.admits(point)));
    while taken.len() < most
        && let Some(point) = space.fresh(&taken, &mut random)
    {
        taken.insert(point);
    }
    let of = match (space.count(), taken.len() < most) {
        (Some(count), _) => Some(count.to_string()),
        // Many draws found no other one.
        (None, true) => None,
        (None, false) => Some(match space.about(&mut SplitMix(seed)) {
            Some(about) if about > most => format!("about {about}"),
            _ => format!("more than {most}"),
        }),
    };
    let settings = taken.iter().map(|point| space.tuning(point)).collect();
    Some(Drawn { settings, of })
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;
    use kernel_plan::spec::OpSpec;
    use kernel_plan::spec::expr::Value;
    use kernel_plan::spec::tune::Tunable;

    use super::super::prune::{PruneReason, Reason};
    use super::*;

    /// The rms-norm template's own task, which has more than 100000 settings.
    fn large() -> OpSpec {
        let text = include_str!("../../../../examples/rms-norm/op.toml");
        kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap()
    }

    fn small() -> OpSpec {
        let text = include_str!("../../../../examples/rms-norm-device/op.toml");
        kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap()
    }

    fn space(op: &OpSpec) -> Space<'_> {
        Space::new(&op.tune.tunables, Box::new(|_| Ok(())))
    }

    #[test]
    fn a_sample_is_repeated_by_its_seed_and_has_the_defaults() {
        let op = large();
        let default = op.tune.default_tuning();
        assert!(space(&op).raw().unwrap() > 100_000);
        let take = |seed| drawn(&mut space(&op), &default, DrawSize::AtMost(50), seed).unwrap();
        let (one, again, other) = (take(1), take(1), take(2));
        assert_eq!(one, again);
        assert_ne!(one.settings, other.settings);
        assert_eq!(one.settings.len(), 50);
        assert!(one.settings.contains(&default) && other.settings.contains(&default));
        let distinct: BTreeSet<String> = one.settings.iter().map(|tuning| format!("{tuning:?}")).collect();
        assert_eq!(distinct.len(), 50);
        assert!(one.of.unwrap().starts_with("about "));
    }

    #[test]
    fn a_small_space_is_taken_whole_and_a_larger_one_counted() {
        let op = small();
        let default = op.tune.default_tuning();
        let whole = drawn(&mut space(&op), &default, DrawSize::AtMost(1000), 1).unwrap();
        let all = drawn(&mut space(&op), &default, DrawSize::All, 1).unwrap();
        assert_eq!((&whole, all.of.as_deref()), (&all, None));
        assert_eq!(all.settings.len(), space(&op).raw().unwrap());
        let some = drawn(&mut space(&op), &default, DrawSize::AtMost(10), 1).unwrap();
        assert_eq!((some.settings.len(), some.of), (10, Some(all.settings.len().to_string())));
    }

    #[test]
    fn all_means_all_however_many() {
        let op = large();
        // As few of the tunables as are too many to be listed.
        let count = (1..).find(|count| raw(&op.tune.tunables[..*count]) > 50_000).unwrap();
        let tunables = &op.tune.tunables[..count];
        let name = &tunables[0].name.value;
        let admit = |tuning: &Tuning| match tuning[name] {
            Value::Integer(16) => Ok(()),
            _ => Err(PruneReason { reason: Reason::Constraint, text: String::new() }),
        };
        let mut space = Space::new(tunables, Box::new(admit));
        assert_eq!(space.count(), None, "not listed");
        let found = drawn(&mut space, &op.tune.default_tuning(), DrawSize::All, 1).unwrap();
        assert_eq!((found.settings.len(), found.of), (raw(tunables) / tunables[0].values.len(), None));
    }

    fn raw(tunables: &[Tunable]) -> usize {
        tunables.iter().map(|tunable| tunable.values.len()).product()
    }
}
