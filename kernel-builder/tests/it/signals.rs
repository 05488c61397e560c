//! Signals reach the program whatever it waits for.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::sandbox::Sandbox;

/// Waits until the program handles SIGTERM by itself: before that, the signal ends it like any program.
fn until_it_listens(child: &Child) {
    let handles = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
        caught & (1 << (15 - 1)) != 0
    };
    while !handles() {
        std::thread::yield_now();
    }
}

#[test]
fn a_program_that_waits_for_standard_input_ends() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .command(&["reproduce", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    // Held open: nobody ever writes.
    let _input = child.stdin.take();
    until_it_listens(&child);
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the program is there");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn a_user_who_insists_ends_a_program_that_cannot_unwind() {
    let sandbox = Sandbox::new();
    // More than a pipe holds, and nobody reads it: the write never returns.
    let mut child = sandbox
        .command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    until_it_listens(&child);
    let code = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status.code();
        }
        let _it_may_have_ended = kill_process(Pid::from_child(&child), Signal::TERM);
        std::thread::yield_now();
    };
    assert_eq!(code, Some(130));
}
