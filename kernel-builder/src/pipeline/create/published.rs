//! Before a kernel is written: whether there is one already.
//!
//! Owns: what kernels an operation is looked for as, the short question behind other work, and the few lines that are said of the answer. Never: fails, or delays for
//! longer than its limit.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::base::causes::chain;
use crate::base::env;
use crate::base::nvml::Driver;
use crate::base::session::Session;
use crate::hub::rank::{self, Ranked};
use crate::hub::subject::Subject;
use crate::hub::{self, Hub, HubError};
use crate::scaffold::template;

/// How long anybody waits for the answer, from when it was asked.
const LIMIT: Duration = Duration::from_secs(3);
/// Kernels that are named.
const NAMED: usize = 3;
/// Questions for one subject: its name as people spell it, and its family.
const QUESTIONS: usize = 3;

/// An operation with those that the template of the same operation computes.
pub(crate) fn of_op(name: &str) -> Subject {
    let templates = template::all().unwrap_or_default();
    let own = templates.into_iter().filter(|template| template.ops.iter().any(|op| op == name));
    let others = own.flat_map(|template| template.ops);
    Subject::from_names(std::iter::once(name.to_owned()).chain(others))
}

/// The backend that kernels are run with here, as far as it is cheap to tell.
pub(crate) fn backend_here() -> &'static str {
    if Driver::open().is_some() { "cuda" } else { "cpu" }
}

/// A question that is under way.
pub(crate) struct PendingSearch {
    began: Instant,
    answer: Result<Receiver<Result<Vec<Ranked>, HubError>>, String>,
}

/// Asks for kernels that compute the subject, on a thread of its own.
pub(crate) fn ask(mut subject: Subject, session: &Session) -> PendingSearch {
    let began = Instant::now();
    // Machines that nobody watches need no advice.
    let why = if env::text(env::CI).is_some() { Some(env::CI) } else { hub::offline(session) };
    if let Some(why) = why {
        return PendingSearch { began, answer: Err(format!("({why})")) };
    }
    // The line may be silent for longer than anybody waits, so that the wait is what ends.
    let hub = match Hub::glance(session, LIMIT * 2) {
        Ok(hub) => hub,
        Err(error) => return PendingSearch { began, answer: Err(format!("({})", chain(&error))) },
    };
    let (send, answers) = sync_channel(1);
    subject.questions.truncate(QUESTIONS);
    // Not joined: when nobody waits any longer, it ends with the process.
    std::thread::spawn(move || {
        let found = hub.find(&subject, NAMED * 2);
        let ranked = found.map(|kernels| rank::rank(&subject, kernels, backend_here()));
        let _nobody_waits = send.send(ranked);
    });
    PendingSearch { began, answer: Ok(answers) }
}

impl PendingSearch {
    /// Says what was found, in one line and one for each kernel.
    pub(crate) fn tell(self, session: &Session) {
        let report = &session.report;
        let left = LIMIT.saturating_sub(self.began.elapsed());
        let ranked = match self.answer.map(|answers| answers.recv_timeout(left)) {
            Err(why) => {
                return report.note(format!("did not check the hub for similar kernels {why}"));
            }
            Ok(Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) => {
                let limit = LIMIT.as_secs();
                return report.note(format!(
                    "did not check for similar kernels: {} did not answer within {limit} s",
                    hub::endpoint()
                ));
            }
            Ok(Ok(Err(error))) => {
                let error = chain(&error);
                return report.note(format!("failed to check for similar kernels: {error}"));
            }
            Ok(Ok(Ok(ranked))) => ranked,
        };
        let named: Vec<&Ranked> = ranked.iter().filter(|one| one.named).take(NAMED).collect();
        if named.is_empty() {
            return report.note(format!("{} has no kernel of this name or function", hub::endpoint()));
        }
        report.note(format!(
            "similar kernels on {} (`kernelwright hub show NAME` has details):",
            hub::endpoint()
        ));
        for one in named {
            report.note(line(one));
        }
    }
}

/// A kernel in a line.
fn line(one: &Ranked) -> String {
    let kernel = &one.kernel;
    let license = kernel.license.as_deref().unwrap_or("no license given");
    let backends =
        if kernel.backends.is_empty() { "no variants".to_owned() } else { kernel.backends.join(", ") };
    let why = one.why.first().map_or("", String::as_str);
    format!("  {} ({backends}; {license}): {why}", kernel.id)
}
