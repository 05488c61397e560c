//! Times calls.
//!
//! Owns: events, graphs, and what is put in the queue in which order. Never: decides how often, or what a time means.

use std::collections::BTreeMap;
use std::ptr;
use std::time::Instant;

use cudarc::driver::sys;

use super::driver::{Context, Outcome, done, senseless};
use super::launch::Modules;
use super::memory::Memory;
use crate::device::wire::{Clock, Sampled, Timed};

/// Prepared measurements by their numbers.
#[derive(Default)]
pub(super) struct Plans {
    plans: BTreeMap<u32, Plan>,
}

struct Plan {
    timed: Timed,
    /// All calls as one graph, for [`Clock::All`].
    graph: Option<Graph>,
    /// At the start, round the calls, at the end.
    events: Vec<Event>,
}

struct Graph(sys::CUgraphExec);

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle, and every request ends with an idle device.
        let _destroyed = unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}

struct Event(sys::CUevent);

impl Event {
    fn new() -> Outcome<Self> {
        let mut event = ptr::null_mut();
        // SAFETY: the driver writes one handle.
        done(unsafe { sys::cuEventCreate(&raw mut event, sys::CUevent_flags::CU_EVENT_DEFAULT as u32) })?;
        Ok(Self(event))
    }

    fn record(&self, context: &Context) -> Outcome<()> {
        // SAFETY: both handles are the driver's.
        done(unsafe { sys::cuEventRecord(self.0, context.stream) })
    }

    /// Seconds from this event to a later one; both have happened.
    fn until(&self, later: &Self) -> Outcome<f64> {
        let mut milliseconds = 0f32;
        // SAFETY: the driver writes one number.
        done(unsafe { sys::cuEventElapsedTime(&raw mut milliseconds, self.0, later.0) })?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle.
        let _destroyed = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

impl Plans {
    pub(super) fn prepare(
        &mut self,
        context: &Context,
        memory: &Memory,
        modules: &Modules,
        number: u32,
        timed: &Timed,
    ) -> Outcome<()> {
        if self.plans.contains_key(&number) {
            return Err(senseless(format!("plan {number} already exists")));
        }
        let (graph, measured) = match timed.clock {
            Clock::All => (Some(capture(context, memory, modules, timed)?), 1),
            Clock::Each => (None, timed.calls.len()),
        };
        let events: Outcome<Vec<Event>> = (0..2 + 2 * measured).map(|_| Event::new()).collect();
        self.plans.insert(number, Plan { timed: timed.clone(), graph, events: events? });
        Ok(())
    }

    pub(super) fn forget(&mut self, number: u32) -> Outcome<()> {
        self.plans.remove(&number).map(drop).ok_or_else(|| unknown(number))
    }

    pub(super) fn sample(
        &self,
        context: &Context,
        memory: &Memory,
        modules: &Modules,
        number: u32,
    ) -> Outcome<Sampled> {
        let plan = self.plans.get(&number).ok_or_else(|| unknown(number))?;
        let [first, last, round @ ..] = plan.events.as_slice() else {
            return Err(senseless("a plan without events"));
        };
        context.synchronise()?;
        let started = Instant::now();
        first.record(context)?;
        match &plan.graph {
            Some(graph) => {
                modules.start(context, memory, &plan.timed.before)?;
                round[0].record(context)?;
                // SAFETY: the graph is instantiated; what its nodes point to lives as long as the plan's buffers, which
                // whoever asks frees after the plan.
                done(unsafe { sys::cuGraphLaunch(graph.0, context.stream) })?;
                round[1].record(context)?;
            }
            None => {
                for (call, events) in plan.timed.calls.iter().zip(round.chunks(2)) {
                    modules.start(context, memory, &plan.timed.before)?;
                    events[0].record(context)?;
                    modules.start(context, memory, call)?;
                    events[1].record(context)?;
                }
            }
        }
        last.record(context)?;
        context.synchronise()?;
        let wall = started.elapsed().as_secs_f64();
        let share = if plan.graph.is_some() { plan.timed.calls.len().max(1) as f64 } else { 1.0 };
        let seconds: Outcome<Vec<f64>> =
            round.chunks(2).map(|pair| Ok(pair[0].until(&pair[1])? / share)).collect();
        Ok(Sampled { seconds: seconds?, device: first.until(last)?, wall })
    }
}

/// All calls, one after the other, as one graph.
fn capture(context: &Context, memory: &Memory, modules: &Modules, timed: &Timed) -> Outcome<Graph> {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is ours and idle.
    done(unsafe { sys::cuStreamBeginCapture_v2(context.stream, mode) })?;
    let started: Outcome<()> = timed.calls.iter().try_for_each(|call| modules.start(context, memory, call));
    let mut graph = ptr::null_mut();
    // SAFETY: the capture was begun above; it ends here whatever was captured.
    let ended = done(unsafe { sys::cuStreamEndCapture(context.stream, &raw mut graph) });
    started.and(ended)?;
    let mut executable = ptr::null_mut();
    // SAFETY: the driver writes one handle; the captured graph is not needed after that.
    let instantiated = unsafe {
        let instantiated = done(sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0));
        let _destroyed = sys::cuGraphDestroy(graph);
        instantiated
    };
    instantiated?;
    let graph = Graph(executable);
    // SAFETY: both handles are the driver's.
    done(unsafe { sys::cuGraphUpload(graph.0, context.stream) })?;
    Ok(graph)
}

fn unknown(number: u32) -> crate::device::wire::OperationError {
    senseless(format!("plan {number} not found"))
}
