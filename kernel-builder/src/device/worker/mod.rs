//! The worker of one GPU: a process that keeps memory, starts kernels and reads clocks, as it is told.
//!
//! Owns: the conversation, and its end when the context is lost. Never: decides what is run; a candidate's machine code
//! is the only thing of a candidate that it ever sees.
//!
//! Several workers may use one GPU, each with a context of its own, and lend each other buffers. The judge uses two: one
//! runs candidates and dies with those that break it, the other holds what the first must not reach.

use std::io::BufRead;

use crate::base::channel::Answers;

use super::wire::{Answer, Op, Reply};
use clock::Plans;
use driver::{Context, Outcome, senseless};
use launch::Modules;
use memory::Memory;

mod clock;
mod driver;
mod launch;
mod memory;

/// Everything that outlives a request.
struct Worker {
    context: Context,
    memory: Memory,
    modules: Modules,
    plans: Plans,
}

/// Answers requests until there are no more, or the context is lost. What a kernel prints goes to standard error.
pub(crate) fn serve() -> u8 {
    let mut answers = Answers::take_over();
    let mut worker = match Context::new() {
        Ok(context) => Worker {
            context,
            memory: Memory::default(),
            modules: Modules::default(),
            plans: Plans::default(),
        },
        Err(trouble) => {
            answers.say(&Reply {
                answers: vec![],
                trouble: Some(super::wire::OperationError { fatal: true, ..trouble }),
            });
            return 1;
        }
    };
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let reply = match serde_json::from_str::<Vec<Op>>(&line) {
            Ok(ops) => worker.answer(&ops),
            Err(error) => Reply { answers: vec![], trouble: Some(senseless(error.to_string())) },
        };
        let lost = reply.trouble.as_ref().is_some_and(|trouble| trouble.fatal);
        answers.say(&reply);
        if lost {
            return 1;
        }
    }
    0
}

impl Worker {
    fn answer(&mut self, ops: &[Op]) -> Reply {
        let mut reply = Reply::default();
        for op in ops {
            match self.act(op) {
                Ok(answer) => reply.answers.push(answer),
                Err(mut trouble) => {
                    trouble.fatal = self.context.is_lost();
                    reply.trouble = Some(trouble);
                    return reply;
                }
            }
        }
        // What was only put in the queue may still fail; it belongs to this request.
        if let Err(mut trouble) = self.context.synchronise() {
            trouble.fatal = true;
            reply.trouble = Some(trouble);
        }
        reply
    }

    fn act(&mut self, op: &Op) -> Outcome<Answer> {
        let Self { context, memory, modules, plans } = self;
        match op {
            Op::About => return Ok(Answer::About(context.about()?)),
            Op::Allocate { buffer, bytes } => memory.allocate(*buffer, *bytes)?,
            Op::Free { buffer } => memory.free(*buffer)?,
            Op::Export { buffer } => return Ok(Answer::Handle { handle: memory.export(*buffer)? }),
            Op::Import { buffer, handle, bytes } => memory.import(*buffer, handle, *bytes)?,
            Op::Fill { at, bytes, byte } => memory.fill(context, *at, *bytes, *byte)?,
            Op::Upload { at, bytes, file, from } => memory.upload(context, *at, *bytes, file, *from)?,
            Op::Peek { at, bytes } => return Ok(Answer::Bytes { bytes: memory.peek(context, *at, *bytes)? }),
            Op::Dump { file, ranges } => memory.dump(context, file, ranges)?,
            Op::Copy { to, from, bytes } => memory.copy(context, *to, *from, *bytes)?,
            Op::Load { module, cubin, functions } => {
                return Ok(Answer::Functions { functions: modules.load(*module, cubin, functions)? });
            }
            Op::Adopt { buffer, module, symbol, bytes } => {
                memory.adopt(*buffer, modules.variable(*module, symbol)?, *bytes)?;
            }
            Op::Unload { module } => modules.unload(*module)?,
            Op::Run { calls } => {
                calls.iter().try_for_each(|call| modules.start(context, memory, call))?;
                context.synchronise()?;
            }
            Op::Plan { plan, timed } => plans.prepare(context, memory, modules, *plan, timed)?,
            Op::Sample { plan } => {
                return Ok(Answer::Sampled(plans.sample(context, memory, modules, *plan)?));
            }
            Op::Forget { plan } => plans.forget(*plan)?,
            Op::Settle => context.settle()?,
        }
        Ok(Answer::Done)
    }
}
