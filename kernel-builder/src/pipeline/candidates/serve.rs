//! Answers lines of the Model Context Protocol until there are no more.
//!
//! Owns: when the GPU is let go. Never: ends because of a line.

use std::time::Duration;

use crate::base::input::Line;
use crate::mcp::{self, Call, Message, Outcome, Tool};

use super::desk::IDLE;

/// Answers lines: `next` waits for one, `ask` does what a tool says, `rest` lets go of the GPU, `say` sends an answer.
pub(crate) fn serve(
    next: &mut dyn FnMut(Duration) -> Line,
    ask: &mut dyn FnMut(&str, Result<Tool, String>) -> Outcome,
    rest: &mut dyn FnMut(),
    say: &mut dyn FnMut(&str),
) {
    loop {
        match next(IDLE) {
            Line::End => return,
            Line::Silence => rest(),
            Line::TooLong => say(&mcp::too_long()),
            Line::Text(text) => match mcp::read(&text) {
                Message::Nothing => {}
                Message::Answer(answer) => say(&answer),
                Message::Call(call) => {
                    let Call { id, tool, arguments, progress } = *call;
                    if let Some(token) = progress {
                        say(&mcp::progress(&token, 0, &format!("{tool}: begun")));
                    }
                    let outcome = ask(&tool, Tool::read(&tool, arguments));
                    say(&mcp::answer(&id, &outcome));
                }
            },
        }
    }
}
