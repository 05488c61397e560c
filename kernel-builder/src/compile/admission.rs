//! Who may start next: a decision over values, without clock, thread or process.
//!
//! Processes are bounded by a number of lanes and by memory: what is running is expected to grow to what the same step
//! took last time, and a new one must fit beside that. One process always runs, however little memory there is.
//!
//! The order is that of arrival, but a step of a unit that has begun goes before a unit that has not: units are finished
//! one after the other, so that variants can be linked early. One that does not fit is passed by smaller ones behind it,
//! a bounded number of times; then nobody starts before it.
//!
//! Owns: the order, the sum of memory. Never: asks how much memory there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::process::Gauge;

/// So often a waiting process lets smaller ones start before it.
const PATIENCE: usize = 8;

/// A process that wants to start.
#[derive(Debug)]
pub(super) struct AdmissionRequest {
    /// Steps of one unit have the same name here.
    pub(super) unit: String,
    /// It goes before all others: a link, which is short and ends a variant.
    pub(super) urgent: bool,
    /// It may only run while nothing else does: memory did not suffice for it before.
    pub(super) alone: bool,
    /// Bytes that it is expected to need at its peak.
    pub(super) memory: u64,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    /// The place of its unit in the line.
    turn: u64,
    wish: AdmissionRequest,
    passed: usize,
}

#[derive(Debug)]
struct Running {
    id: u64,
    lane: usize,
    alone: bool,
    memory: u64,
    gauge: Arc<Gauge>,
}

/// A process that may run.
#[derive(Debug)]
pub(super) struct Admitted {
    /// From 0; no two running processes have the same.
    pub(super) lane: usize,
    /// To be kept up to date while it runs.
    pub(super) gauge: Arc<Gauge>,
}

/// The door of the pool.
#[derive(Debug)]
pub(super) struct AdmissionQueue {
    lanes: usize,
    next: u64,
    turns: BTreeMap<String, u64>,
    waiting: Vec<Waiting>,
    running: Vec<Running>,
}

impl AdmissionQueue {
    /// A door to so many lanes.
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            lanes: lanes.max(1),
            next: 1,
            turns: BTreeMap::new(),
            waiting: Vec::new(),
            running: Vec::new(),
        }
    }

    /// Joins the line; the number to ask with.
    pub(super) fn arrive(&mut self, wish: AdmissionRequest) -> u64 {
        let id = self.next;
        self.next += 1;
        let turn =
            if wish.urgent || wish.alone { 0 } else { *self.turns.entry(wish.unit.clone()).or_insert(id) };
        let place = self.waiting.partition_point(|other| (other.turn, other.id) < (turn, id));
        self.waiting.insert(place, Waiting { id, turn, wish, passed: 0 });
        id
    }

    /// Leaves the line, or the lane.
    pub(super) fn leave(&mut self, id: u64) {
        self.waiting.retain(|waiting| waiting.id != id);
        self.running.retain(|running| running.id != id);
    }

    /// The lane of a process that has been let in.
    pub(super) fn admitted(&self, id: u64) -> Option<Admitted> {
        let running = self.running.iter().find(|running| running.id == id)?;
        Some(Admitted { lane: running.lane, gauge: Arc::clone(&running.gauge) })
    }

    /// Bytes that all running processes hold now.
    pub(super) fn resident(&self) -> u64 {
        self.running.iter().map(|running| running.gauge.resident()).sum()
    }

    /// Lets in all who may start, where `available` bytes are free now; whether there was one.
    pub(super) fn admit(&mut self, available: u64) -> bool {
        let mut any = false;
        while let Some(index) = self.first_fit(available) {
            for passed in &mut self.waiting[..index] {
                passed.passed += 1;
            }
            let Waiting { id, wish, .. } = self.waiting.remove(index);
            let lane = (0..).find(|lane| self.running.iter().all(|running| running.lane != *lane));
            let running = Running {
                id,
                lane: lane.unwrap_or_default(),
                alone: wish.alone,
                memory: wish.memory,
                gauge: Arc::default(),
            };
            self.running.push(running);
            any = true;
        }
        any
    }

    fn first_fit(&self, available: u64) -> Option<usize> {
        if self.running.len() >= self.lanes || self.running.iter().any(|running| running.alone) {
            return None;
        }
        // What runs has not grown to its size yet; that much is spoken for.
        let spoken_for: u64 =
            self.running.iter().map(|running| running.memory.saturating_sub(running.gauge.resident())).sum();
        let room = available.saturating_sub(spoken_for);
        for (index, Waiting { wish, passed, .. }) in self.waiting.iter().enumerate() {
            if self.running.is_empty() || (!wish.alone && wish.memory <= room) {
                return Some(index);
            }
            if wish.alone || *passed >= PATIENCE {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 30;

    fn wish(unit: &str, memory: u64) -> AdmissionRequest {
        AdmissionRequest { unit: unit.to_owned(), urgent: false, alone: false, memory }
    }

    fn inside(door: &AdmissionQueue) -> Vec<u64> {
        door.running.iter().map(|running| running.id).collect()
    }

    #[test]
    fn lanes_bound_what_runs_and_are_given_again() {
        let mut door = AdmissionQueue::new(2);
        let ids: Vec<u64> = (0..3).map(|unit| door.arrive(wish(&unit.to_string(), GB))).collect();
        assert!(door.admit(100 * GB));
        assert_eq!(inside(&door), ids[..2]);
        assert!(!door.admit(100 * GB));
        door.leave(ids[0]);
        assert!(door.admit(100 * GB));
        assert_eq!(door.admitted(ids[2]).map(|admitted| admitted.lane), Some(0));
        assert_eq!(door.admitted(ids[1]).map(|admitted| admitted.lane), Some(1));
    }

    #[test]
    fn memory_bounds_what_runs_but_one_always_does() {
        let mut door = AdmissionQueue::new(8);
        let ids: Vec<u64> = (0..3).map(|unit| door.arrive(wish(&unit.to_string(), 3 * GB))).collect();
        door.admit(7 * GB);
        assert_eq!(inside(&door), ids[..2], "the third would need 9 GB");
        door.leave(ids[0]);
        door.leave(ids[1]);
        door.admit(0);
        assert_eq!(inside(&door), ids[2..], "one runs, however little there is");
    }

    #[test]
    fn what_a_process_holds_already_is_not_counted_twice() {
        let mut door = AdmissionQueue::new(8);
        let big = door.arrive(wish("big", 6 * GB));
        door.admit(8 * GB);
        // It has grown to its size: 2 GB are left, and all of them may be used.
        door.admitted(big).expect("inside").gauge.set(6 * GB);
        let small = door.arrive(wish("small", 2 * GB));
        door.admit(2 * GB);
        assert_eq!(inside(&door), [big, small]);
    }

    #[test]
    fn steps_of_a_unit_that_has_begun_go_before_a_new_unit_and_links_before_all() {
        let mut door = AdmissionQueue::new(1);
        let first = door.arrive(wish("a", 1));
        door.admit(GB);
        let other = door.arrive(wish("b", 1));
        door.leave(first);
        let second = door.arrive(wish("a", 1));
        let link = door.arrive(AdmissionRequest { urgent: true, ..wish("link", 1) });
        let mut order = Vec::new();
        for _ in 0..3 {
            door.admit(GB);
            order.extend(inside(&door));
            door.leave(order[order.len() - 1]);
        }
        assert_eq!(order, [link, second, other]);
    }

    #[test]
    fn a_big_one_is_passed_by_small_ones_but_not_for_ever() {
        let mut door = AdmissionQueue::new(4);
        let running = door.arrive(wish("running", GB));
        door.admit(4 * GB);
        let big = door.arrive(wish("big", 4 * GB));
        let mut started = 0;
        for unit in 0..100 {
            let small = door.arrive(wish(&format!("small {unit}"), GB));
            door.admit(4 * GB);
            if door.admitted(small).is_none() {
                break;
            }
            started += 1;
            door.leave(small);
        }
        assert_eq!(started, PATIENCE, "then the big one's turn has come");
        door.leave(running);
        door.admit(4 * GB);
        assert_eq!(inside(&door), [big]);
    }

    #[test]
    fn one_that_must_be_alone_is() {
        let mut door = AdmissionQueue::new(4);
        let running = door.arrive(wish("running", 1));
        door.admit(GB);
        let alone = door.arrive(AdmissionRequest { alone: true, ..wish("hungry", 1) });
        let other = door.arrive(wish("other", 1));
        door.admit(GB);
        assert_eq!(inside(&door), [running]);
        door.leave(running);
        door.admit(GB);
        assert_eq!(inside(&door), [alone]);
        door.leave(alone);
        door.admit(GB);
        assert_eq!(inside(&door), [other]);
    }
}
