//! A logarithmic axis of a plot.
//!
//! Owns: places along it and its ticks. Never: draws.

/// Where marks begin and end, in the plot's units. Names of rows are above their marks, so that a plot fits a telephone.
pub(super) const LEFT: f64 = 24.0;
pub(super) const RIGHT: f64 = 616.0;

/// A logarithmic axis between two positive numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Where its lower end is.
    pub(super) left: f64,
}

impl Axis {
    /// An axis that holds every number, with room at both ends; what is no positive number is passed over.
    pub(super) fn around(numbers: impl Iterator<Item = f64>) -> Self {
        let usable = numbers.filter(|number| number.is_finite() && *number > 0.0);
        let (low, high) =
            usable.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), it| (low.min(it), high.max(it)));
        if low > high {
            return Self { low: 0.5, high: 2.0, left: LEFT };
        }
        let room = (high / low).powf(0.06).max(1.05);
        Self { low: low / room, high: high * room, left: LEFT }
    }

    /// The axis with another place for its lower end.
    pub(super) fn from(self, left: f64) -> Self {
        Self { left, ..self }
    }

    /// The place of a number, at an end for one that is beyond it or no number.
    pub(super) fn place(self, number: f64) -> f64 {
        let inside = if number.is_nan() { self.low } else { number.clamp(self.low, self.high) };
        self.left + (RIGHT - self.left) * (inside / self.low).ln() / (self.high / self.low).ln()
    }

    /// Round numbers along the axis, eight at most: one, two and five times powers of ten, or finer where it is short.
    pub(super) fn ticks(self) -> Vec<f64> {
        let fine = |step: f64| -> Vec<f64> {
            let first = (self.low / step).ceil() as i64;
            let last = (self.high / step).floor() as i64;
            (first..=last).take(64).map(|at| at as f64 * step).collect()
        };
        if self.high / self.low > 4.0 {
            // One is among them, however few are left.
            let decades = |digits: &[f64], stride: usize| -> Vec<f64> {
                let powers =
                    (-18..=18).filter(|power: &i32| (power.unsigned_abs() as usize).is_multiple_of(stride));
                let all = powers.flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
                all.filter(|tick| (self.low..=self.high).contains(tick)).collect()
            };
            let choices =
                [(&[1.0, 2.0, 5.0][..], 1), (&[1.0, 3.0], 1), (&[1.0], 1), (&[1.0], 2), (&[1.0], 3)];
            let ticks = choices.map(|(digits, stride)| decades(digits, stride));
            return ticks.into_iter().find(|ticks| ticks.len() <= 8).unwrap_or_default();
        }
        let magnitude = 10f64.powf((self.high - self.low).log10().floor() - 1.0);
        let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0].map(|factor| fine(factor * magnitude));
        steps.into_iter().find(|ticks| (1..=8).contains(&ticks.len())).unwrap_or_default()
    }
}

/// A tick without needless zeros.
pub(super) fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let ticks =
            |low, high| Axis { low, high, left: LEFT }.ticks().into_iter().map(short).collect::<Vec<_>>();
        assert_eq!(ticks(0.8, 9.0), ["1", "2", "5"]);
        assert_eq!(ticks(0.94, 1.31), ["0.95", "1", "1.05", "1.1", "1.15", "1.2", "1.25", "1.3"]);
        for (low, high) in [(1e-7, 1e-2), (0.999, 1.001), (0.5, 2.0), (1e-9, 1e9)] {
            let count = Axis { low, high, left: LEFT }.ticks().len();
            assert!((1..=9).contains(&count), "{low} to {high}: {count}");
        }
    }

    #[test]
    fn places_stay_on_the_paper() {
        let axis = Axis::around([0.5, 8.0, f64::NAN, 0.0, -1.0].into_iter());
        for number in [0.0, -3.0, 1.0, 1e9, f64::INFINITY, f64::NAN] {
            assert!((LEFT..=RIGHT).contains(&axis.place(number)), "{number}");
        }
        assert!(axis.place(1.0) < axis.place(2.0));
        let empty = Axis::around(std::iter::empty());
        assert!(empty.low < 1.0 && 1.0 < empty.high);
    }
}
