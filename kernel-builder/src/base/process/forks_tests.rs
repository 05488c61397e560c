//! Forked children, of a Python whose torch is an empty file: none of this needs the real one.

use std::path::Path;
use std::time::Duration;

use kernel_plan::plan::CommandLine;

use super::super::{Dialogue, DialogueEvent, Ending, Finished, Limits, Start, converse_from};
use crate::base::files;

const SOON: Duration = Duration::from_secs(60);

/// A folder with a package `torch` and a script.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new(torch: &str) -> Self {
        let folder = files::scratch().unwrap();
        files::write(&folder.path().join("torch.py"), torch).unwrap();
        Self { folder }
    }

    fn line(&self, script: &str) -> CommandLine {
        let path = self.folder.path().join(format!("script-{}.py", script.len()));
        files::write(&path, script).unwrap();
        let site = self.folder.path().display().to_string();
        CommandLine::new("python3").args(["-I", "-S"]).path(&path).env("KERNELWRIGHT_SITE", site)
    }

    fn run(&self, script: &str, input: &str, wall: Duration) -> (Finished, Vec<String>) {
        let mut lines = Vec::new();
        let line = self.line(script).env("OF_THE_CHILD", "yes").cwd(Path::new("/"));
        let ended = converse_from(Start::Fork, &line, Limits::wall(wall), input.as_bytes(), &mut |text| {
            lines.push(text.to_owned());
        });
        (ended.unwrap(), lines)
    }
}

/// Whether the child's parent has imported torch, in place of being this process.
const FORKED: &str =
    "import os, sys\nprint('torch' in sys.modules and os.getppid() != int(sys.stdin.readline()))\n";

fn is_forked(site: &Site) -> bool {
    let (ended, lines) = site.run(FORKED, &format!("{}\n", std::process::id()), SOON);
    assert_eq!(ended.ending, Ending::Exit(0), "{}", ended.stderr_text());
    lines == ["True"]
}

#[test]
fn a_child_is_forked_and_is_as_one_that_was_started() {
    let site = Site::new("");
    assert!(is_forked(&site));
    let script = "import os, sys, signal, __main__\n\
                  print(sys.stdin.read(), os.environ['OF_THE_CHILD'], os.getcwd(), sys.argv == [__file__], __name__)\n\
                  print(__main__.__file__ == __file__, os.getpgrp() == os.getpid())\n\
                  print(sorted(fd for fd in map(int, os.listdir('/proc/self/fd')) if os.path.exists(f'/proc/self/fd/{fd}')))\n\
                  print(signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL, signal.set_wakeup_fd(-1))\n\
                  sys.stderr.write('last words')\n\
                  sys.exit(3)\n";
    let (ended, lines) = site.run(script, "input", SOON);
    assert_eq!(ended.ending, Ending::Exit(3), "{}", ended.stderr_text());
    assert_eq!(ended.stderr_text(), "last words");
    assert_eq!(lines, ["input yes / True __main__", "True True", "[0, 1, 2]", "True -1"]);
}

#[test]
fn siblings_share_no_random_numbers_and_nothing_of_each_other() {
    let site = Site::new("left = []");
    let script = "import random, tempfile, torch\n\
                  torch.left.append(1)\n\
                  print(len(torch.left), random.random(), tempfile.tempdir)\n";
    let (_, first) = site.run(script, "", SOON);
    let (_, second) = site.run(script, "", SOON);
    assert!(first[0].starts_with("1 ") && second[0].starts_with("1 "), "{first:?} {second:?}");
    assert_ne!(first, second);
}

#[test]
fn how_a_child_dies_is_told() {
    let site = Site::new("");
    let (ended, _) = site.run("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "", SOON);
    assert_eq!(ended.ending, Ending::Signal(11));
    let (ended, _) = site.run("raise SystemError('of the script')\n", "", SOON);
    assert_eq!(ended.ending, Ending::Exit(1));
    assert!(ended.stderr_text().contains("SystemError: of the script"), "{}", ended.stderr_text());
}

#[test]
fn the_deadline_ends_the_whole_group() {
    let site = Site::new("");
    // So that its time is not that of the server's start.
    assert!(is_forked(&site));
    let script = "import os, time\npid = os.fork()\nprint(pid or os.getpid(), flush=True)\ntime.sleep(600)\n";
    let (ended, lines) = site.run(script, "", Duration::from_secs(2));
    assert_eq!(ended.ending, Ending::Deadline);
    assert_eq!(lines.len(), 2);
    for pid in lines {
        let stat = format!("/proc/{pid}/stat");
        // A grandchild is left to the system, which takes a moment.
        while files::read_text(Path::new(&stat)).is_ok_and(|text| !text.contains(") Z ")) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_dialogue_is_held_with_a_forked_child() {
    let site = Site::new("");
    let line = site.line("import sys\nfor line in sys.stdin:\n    print(line.strip() * 2, flush=True)\n");
    let mut child = Dialogue::start_from(Start::Fork, &line).unwrap();
    child.say("word");
    assert_eq!(child.hear(SOON).unwrap(), DialogueEvent::Line("wordword".to_owned()));
    child.close();
    assert_eq!(child.hear(SOON).unwrap(), DialogueEvent::Ended(Ending::Exit(0)));
}

#[test]
fn without_torch_a_child_is_started() {
    let site = Site::new("raise ImportError('none here')");
    let (ended, lines) = site.run("import sys\nprint('torch' in sys.modules)\n", "", SOON);
    assert_eq!((ended.ending, lines), (Ending::Exit(0), vec!["False".to_owned()]));
}

#[test]
fn a_server_that_somebody_ends_is_done_without() {
    let site = Site::new("");
    assert!(is_forked(&site));
    // A line comes when this process knows the child. Killed before that, the server would be done without for this script,
    // whose parent would then be this process.
    let script = "import os, signal, sys\n\
                  if os.getppid() != int(sys.stdin.readline()):\n    os.kill(os.getppid(), signal.SIGKILL)\n";
    let (ended, _) = site.run(script, &format!("{}\n", std::process::id()), SOON);
    // Nobody is left to say how it ended.
    assert!(matches!(ended.ending, Ending::Signal(9) | Ending::Exit(0)), "{}", ended.ending);
    assert!(!is_forked(&site));
}
