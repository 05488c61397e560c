//! The groundwork of the next workload, laid while this one is searched.
//!
//! Owns: whose groundwork is on its way, and that there is never more than one beside what is on the device. Never: lays
//! any; what it says of a failure is told when that workload's turn comes.
//!
//! It is begun when the one before lies on the device and its files are gone. What is laid touches no GPU, and has half of
//! the processors at a low priority: candidates are timed meanwhile, by the clock of the GPU and in graphs that wait in
//! its queue, while compilers take all processors anyway.

use std::thread::Scope;

use crate::base::ahead::{Ahead, Done};
use crate::verify::lab::Beside;

/// How groundwork is laid.
type Lay<'env, C, G> = &'env (dyn Fn(&C, Beside) -> G + Sync);

/// The groundwork of some cases, one after the other.
pub(crate) struct Next<'scope, 'env, C, G> {
    scope: &'scope Scope<'scope, 'env>,
    cases: &'env [C],
    lay: Lay<'env, C, G>,
    /// Of the case of this place.
    ahead: Option<(usize, Ahead<'scope, G>)>,
}

impl<'scope, 'env, C: Sync, G: Send + 'scope> Next<'scope, 'env, C, G> {
    /// Begins with the first case.
    pub(crate) fn begin(scope: &'scope Scope<'scope, 'env>, cases: &'env [C], lay: Lay<'env, C, G>) -> Self {
        let mut next = Self { scope, cases, lay, ahead: None };
        next.lay(0, Beside::Nobody);
        next
    }

    fn lay(&mut self, place: usize, beside: Beside) {
        let (Some(case), lay) = (self.cases.get(place), self.lay) else { return };
        self.ahead = Some((place, Ahead::begin(self.scope, move || lay(case, beside))));
    }

    /// That of a case, laid now where it is not on its way; nothing where there is no such case.
    pub(crate) fn take(&mut self, place: usize) -> Option<Done<G>> {
        if self.ahead.as_ref().is_none_or(|(of, _)| *of != place) {
            // What an earlier case did not need is stopped first.
            self.ahead = None;
            self.lay(place, Beside::Nobody);
        }
        self.ahead.take()?.1.wait()
    }

    /// Goes on with the case after that of this place, which has what it needs.
    pub(crate) fn go_on(&mut self, place: usize) {
        self.lay(place + 1, Beside::Others);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc;

    use super::*;
    use crate::base::interrupt;

    #[test]
    fn the_next_case_is_laid_while_this_one_is_at_work() {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let lay = |case: &&str, beside| {
            tell.lock().unwrap().send((case.to_string(), beside)).unwrap();
            format!("of {case}")
        };
        let cases = ["a", "b", "c"];
        std::thread::scope(|scope| {
            let mut next = Next::begin(scope, &cases, &lay);
            assert_eq!(next.take(0).unwrap().result, "of a");
            assert_eq!(told.recv().unwrap(), ("a".to_owned(), Beside::Nobody));
            assert!(told.try_recv().is_err(), "two are never laid at a time");
            next.go_on(0);
            assert_eq!(told.recv().unwrap(), ("b".to_owned(), Beside::Others), "nobody waits for it yet");
            assert_eq!(next.take(1).unwrap().result, "of b");
            // A case that needed nothing leaves the next one to be laid when it is wanted.
            assert_eq!(next.take(2).unwrap().result, "of c");
            assert_eq!(told.recv().unwrap(), ("c".to_owned(), Beside::Nobody));
            next.go_on(2);
            assert!(next.take(3).is_none());
        });
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn a_failure_is_told_when_its_own_turn_comes() {
        let lay = |case: &u8, _| if *case == 1 { Err("no reference") } else { Ok(*case) };
        std::thread::scope(|scope| {
            let mut next = Next::begin(scope, &[0, 1, 2], &lay);
            assert_eq!(next.take(0).unwrap().result, Ok(0));
            next.go_on(0);
            // The first case goes on whatever became of the second.
            assert_eq!(next.take(1).unwrap().result, Err("no reference"));
            assert_eq!(next.take(2).unwrap().result, Ok(2));
        });
    }

    #[test]
    fn what_is_on_its_way_ends_with_whoever_wanted_it() {
        let stopped = Mutex::new(vec![]);
        let lay = |case: &u8, _| {
            while *case > 0 && !interrupt::requested() {
                std::thread::yield_now();
            }
            stopped.lock().unwrap().push(*case);
        };
        std::thread::scope(|scope| {
            let mut next = Next::begin(scope, &[0, 1], &lay);
            next.take(0);
            next.go_on(0);
            // The search of the first case fails here.
        });
        assert_eq!(*stopped.lock().unwrap(), [0, 1]);
    }
}
