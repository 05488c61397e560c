//! Answers lines of the Model Context Protocol until there are no more.
//!
//! Owns: when the GPU is let go, and when there is time for a search of settings. Never: ends because of a line.

use std::time::Duration;

use crate::base::input::Line;
use crate::mcp::{self, Call, Message, Outcome, Tool};

use super::desk::{Desk, IDLE};

/// Silence after which settings are searched: a client that has its next question ready asks it sooner.
const PAUSE: Duration = Duration::from_millis(100);

/// What is asked and done between two lines.
pub(crate) trait Host {
    /// Does what a tool says.
    fn ask(&mut self, tool: &str, arguments: Result<Tool, String>) -> Outcome;

    /// Does a part of what can be done while nobody asks, and says whether there is more.
    fn work(&mut self) -> bool;

    /// Lets go of the GPU.
    fn rest(&mut self);
}

impl Host for Desk<'_> {
    fn ask(&mut self, tool: &str, arguments: Result<Tool, String>) -> Outcome {
        Desk::ask(self, tool, arguments)
    }

    fn work(&mut self) -> bool {
        Desk::work(self)
    }

    fn rest(&mut self) {
        Desk::rest(self);
    }
}

/// Answers lines: `next` waits for one, `say` sends an answer.
pub(crate) fn serve(next: &mut dyn FnMut(Duration) -> Line, host: &mut dyn Host, say: &mut dyn FnMut(&str)) {
    let mut has_work = false;
    loop {
        match next(if has_work { PAUSE } else { IDLE }) {
            Line::End => return,
            Line::Silence if has_work => has_work = host.work(),
            Line::Silence => host.rest(),
            Line::TooLong => say(&mcp::too_long()),
            Line::Text(text) => match mcp::read(&text) {
                Message::Nothing => {}
                Message::Answer(answer) => say(&answer),
                Message::Call(call) => {
                    let Call { id, tool, arguments, progress } = *call;
                    if let Some(token) = progress {
                        say(&mcp::progress(&token, 0, &format!("{tool}: begun")));
                    }
                    let outcome = host.ask(&tool, Tool::read(&tool, arguments));
                    say(&mcp::answer(&id, &outcome));
                    has_work = true;
                }
            },
        }
    }
}
