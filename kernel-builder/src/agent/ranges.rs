//! For which lengths something that was measured at a few of them is said.
//!
//! Owns: the borders between measured lengths. Never: knows what is said.
//!
//! Between two measured lengths the nearer one counts, by ratio: the border lies at their geometric mean. Nothing is said
//! further than a factor of two from a measured length.

/// How far from a measured length something is said, as a factor.
pub(crate) const REACH: f64 = 2.0;

/// The least and the greatest length that a run of measured lengths, from the place `first` to `last`, stands for;
/// `lengths` ascend. A length on a border belongs to neither side.
pub(crate) fn lengths_of(first: usize, last: usize, lengths: &[u64]) -> [u64; 2] {
    let (low, high) = (lengths[first] as f64, lengths[last] as f64);
    let below = first.checked_sub(1).map_or(0.0, |before| (lengths[before] as f64 * low).sqrt());
    let above = lengths.get(last + 1).map_or(f64::INFINITY, |after| (*after as f64 * high).sqrt());
    // Strictly nearer to this length than to the next measured one, and within reach.
    let least = (below.floor() + 1.0).max((low / REACH).ceil());
    let greatest = (above.ceil() - 1.0).min((high * REACH).floor());
    [least as u64, greatest as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_are_geometric_means_within_reach() {
        let lengths = [100, 400, 500, 4000];
        assert_eq!(lengths_of(0, 0, &lengths), [50, 199]);
        assert_eq!(lengths_of(1, 1, &lengths), [201, 447]);
        assert_eq!(lengths_of(1, 2, &lengths), [201, 1000]);
        assert_eq!(lengths_of(3, 3, &lengths), [2000, 8000]);
    }
}
