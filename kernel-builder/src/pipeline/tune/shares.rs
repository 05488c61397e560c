//! How the time of a search over several lengths is divided among them.
//!
//! Owns: the share of the next length, and when the time is over. Never: knows what a share is spent on.
//!
//! Each length takes more than its share: inputs are drawn, and the reference is computed.

use std::time::Instant;

/// The least share, in seconds.
const LEAST_SHARE: f64 = 0.5;

/// The time of some lengths, from now on.
pub(super) struct Shares {
    since: Instant,
    seconds: f64,
    /// Lengths that have a share even if the time is over.
    fewest: usize,
    ended: usize,
    /// Seconds of all shares that ended.
    given: f64,
}

impl Shares {
    pub(super) fn new(seconds: f64, fewest: usize) -> Self {
        Self { since: Instant::now(), seconds, fewest, ended: 0, given: 0.0 }
    }

    /// Seconds since the beginning.
    pub(super) fn spent(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    /// The seconds for the next length if `left` are left with it; `None` if the time is over.
    pub(super) fn next(&self, left: usize) -> Option<f64> {
        self.at(self.spent(), left)
    }

    fn at(&self, spent: f64, left: usize) -> Option<f64> {
        // The average time that a length took in addition to its share.
        let beside = if self.ended > 0 { (spent - self.given).max(0.0) / self.ended as f64 } else { 0.0 };
        let rest = self.seconds - spent;
        let is_over = rest < beside + LEAST_SHARE;
        (!is_over || self.ended < self.fewest).then(|| (rest / left.max(1) as f64 - beside).max(LEAST_SHARE))
    }

    /// Notes that a length is done which had this share.
    pub(super) fn ended(&mut self, share: f64) {
        self.ended += 1;
        self.given += share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_short_reaches_fewer_lengths() {
        let after = |seconds: f64, ended: usize, share: f64| {
            let mut shares = Shares::new(seconds, 4);
            (0..ended).for_each(|_| shares.ended(share));
            shares
        };
        // Nothing is known yet: an equal share.
        assert_eq!(after(90.0, 0, 0.0).at(0.0, 30), Some(3.0));
        // Each takes 5 s beside its share.
        assert_eq!(after(300.0, 10, 3.0).at(80.0, 20), Some(220.0 / 20.0 - 5.0));
        // Too little for all: they have the least, and some are left out.
        assert_eq!(after(90.0, 10, 3.0).at(80.0, 20), Some(LEAST_SHARE));
        assert_eq!(after(90.0, 10, 3.0).at(86.0, 20), None);
        assert_eq!(after(90.0, 3, 10.0).at(86.0, 20), Some(LEAST_SHARE), "a few are searched in any case");
    }
}
