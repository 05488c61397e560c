//! The device's side of a unit: text to PTX to machine code, for every architecture.
//!
//! Owns: which architectures share the C++ front end. Never: lets one be compiled from another's text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

use kernel_plan::plan::CommandLine;
use kernel_plan::steps::{self, Device, Phases, Program, Steps};

use super::super::CompileError;
use super::super::slots::QUESTION;
use super::texts;
use super::workshop::Workshop;
use crate::base::digest::Digest;
use crate::base::files;

/// Architectures with the same text and the same front end.
#[derive(Clone)]
struct Group<'a> {
    text: Digest,
    /// What decides on the front end beside the text.
    front: String,
    /// The first is the one whose commands the front end runs with.
    members: Vec<(&'a Device, Option<Phases>)>,
    /// Groups whose texts are the same program, as long as these functions are not generated.
    alike: Vec<(BTreeSet<String>, Group<'a>)>,
}

impl Group<'_> {
    fn has(&self, arch: &str) -> bool {
        self.members.iter().any(|(device, _)| device.arch == arch)
            || self.alike.iter().any(|(_, group)| group.has(arch))
    }
}

/// Whom to give the launch code that the host's side waits for: that of the last architecture.
struct Launches<'a> {
    arch: &'a str,
    file: &'a str,
    ready: Mutex<Option<Sender<()>>>,
}

impl Launches<'_> {
    /// Hands over the launch code of a group, where it is the one that is waited for.
    fn give(&self, workshop: &Workshop<'_>, group: &Group<'_>, from: &str) -> Result<(), CompileError> {
        let ready =
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| group.has(self.arch));
        let Some(ready) = ready else { return Ok(()) };
        if from != self.file {
            files::copy(&workshop.folder.join(from), &workshop.folder.join(self.file))?;
        }
        // The host's side may have failed and gone; then its own error is told.
        let _gone = ready.send(());
        Ok(())
    }
}

/// Makes the machine code and the PTX of every architecture; gives back the files that preprocessing read. The launch
/// code for the host is there when `ready` says so.
pub(super) fn compile(
    workshop: &Workshop<'_>,
    steps: &Steps,
    module: &str,
    ready: Sender<()>,
) -> Result<BTreeSet<String>, CompileError> {
    let texts = in_threads(&steps.devices, |device| {
        let read = preprocess(workshop, &device.preprocess, &device.text, &device.arch)?;
        Ok((read, phases(workshop, device, module)?))
    })?;
    let mut files = BTreeSet::new();
    let mut equal: BTreeMap<(String, Digest), Group<'_>> = BTreeMap::new();
    for (device, ((text, read), phases)) in steps.devices.iter().zip(texts) {
        files.extend(read);
        let front = front_of(device, phases.as_ref());
        let group = equal.entry((front, text)).or_insert_with_key(|(front, text)| Group {
            front: front.clone(),
            text: *text,
            members: Vec::new(),
            alike: Vec::new(),
        });
        group.members.push((device, phases));
    }
    let mut groups = merge(workshop, equal.into_values().collect())?;
    let last = steps.devices.last().map(|device| device.arch.clone()).unwrap_or_default();
    groups.sort_by_key(|group| !group.has(&last));
    let launches = Launches { arch: &last, file: &steps.host.stub, ready: Mutex::new(Some(ready)) };
    in_threads(&groups, |group| generate(workshop, group, module, &launches))?;
    Ok(files)
}

/// Puts groups together whose texts are the same program. Not where the code says which line it is from: lines differ.
fn merge<'a>(workshop: &Workshop<'_>, mut groups: Vec<Group<'a>>) -> Result<Vec<Group<'a>>, CompileError> {
    // The lowest architecture first: what is alike is read once, in its words.
    groups.sort_by_key(|group| group.members.first().map(|(device, _)| number(&device.arch)));
    let mut merged: Vec<(Group<'a>, Option<Program>)> = Vec::new();
    for group in groups {
        let file = group.members.first().map(|(device, _)| device.text.as_str()).unwrap_or_default();
        let text = if tells_lines(&group.front) {
            None
        } else {
            Program::read(files::read(&workshop.folder.join(file))?)
        };
        let home = merged.iter().enumerate().find_map(|(at, (other, read))| {
            let read = read.as_ref().filter(|_| other.front == group.front)?;
            Some((at, read.alike(text.as_ref()?)?))
        });
        match home {
            Some((at, functions)) => merged[at].0.alike.push((functions, group)),
            None => merged.push((group, text)),
        }
    }
    Ok(merged.into_iter().map(|(group, _)| group).collect())
}

/// Whether the front end keeps line numbers for the code, for `-lineinfo` and `-G`.
fn tells_lines(front: &str) -> bool {
    front
        .lines()
        .any(|arg| arg == "-g" || ["line", "debug", "show-src"].iter().any(|word| arg.contains(word)))
}

/// `90` of `compute_90a`.
fn number(arch: &str) -> u32 {
    let digits: String = arch.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(u32::MAX)
}

/// Preprocesses for one side; the digest of the text, and the files that were read.
pub(super) fn preprocess(
    workshop: &Workshop<'_>,
    command: &CommandLine,
    text: &str,
    side: &str,
) -> Result<(Digest, BTreeSet<String>), CompileError> {
    let place = workshop.folder.join(text);
    let mut command = command.clone().cwd(workshop.shop.project);
    for arg in command.args.iter_mut().filter(|arg| *arg == text) {
        *arg = place.display().to_string();
    }
    command.args.extend(workshop.names.flags());
    let said = workshop.start(&format!("preprocess {side}"), &command)?;
    workshop.say(&said);
    let read = texts::read(&files::read(&place)?, &workshop.names);
    workshop.look_for_name(&read.text);
    files::write(&place, &read.text)?;
    Ok((Digest::blake3(&read.text), read.files))
}

/// cicc's phases for one architecture; nothing when it does not tell.
fn phases(workshop: &Workshop<'_>, device: &Device, module: &str) -> Result<Option<Phases>, CompileError> {
    let question = steps::phases_question(&device.cicc);
    let key = workshop.question_key("phases", &question).field("module", module).finish();
    let answer = workshop.shop.cache.once(&key, || -> Result<Vec<u8>, CompileError> {
        let folder = files::scratch()?;
        files::write(&folder.path().join(&device.text), "\n")?;
        let name = after(&question, "--module_id_file_name");
        files::write(&folder.path().join(name.unwrap_or_default()), module)?;
        // A compiler that does not know the question is no failure of the unit.
        let said = workshop.start(QUESTION, &question.clone().cwd(folder.path()));
        match said {
            Ok(said) => Ok(said.into_bytes()),
            Err(CompileError::Refused(_)) => Ok(Vec::new()),
            Err(other) => Err(other),
        }
    })?;
    Ok(steps::read_phases(&String::from_utf8_lossy(&answer), &device.cicc))
}

/// What decides on the front end beside the text: its flags without the architecture's number. An architecture with
/// features of its own (`a`, `f`) shares with no other, and so does one whose phases are not known.
fn front_of(device: &Device, phases: Option<&Phases>) -> String {
    match phases {
        Some(phases) if device.arch.ends_with(|letter: char| letter.is_ascii_digit()) => {
            phases.front.args.join("\n").replace(&device.arch, "compute")
        }
        _ => device.arch.clone(),
    }
}

/// Front end once, code generator and assembler for each architecture.
fn generate(
    workshop: &Workshop<'_>,
    group: &Group<'_>,
    module: &str,
    launches: &Launches<'_>,
) -> Result<(), CompileError> {
    let Some((first, phases)) = group.members.first() else { return Ok(()) };
    let text = group.text.to_string();
    let Some(Phases { front, bitcode, .. }) = phases else {
        let key = workshop.key("cicc", &first.cicc).field("text", text).field("module", module);
        workshop.remember(key, &format!("cicc {}", first.arch), &first.cicc, &[&first.ptx, &first.stub])?;
        launches.give(workshop, group, &first.stub)?;
        return assemble(workshop, first);
    };
    let key = workshop.key("front", front).field("text", text).field("module", module);
    let names = format!("{bitcode}.names");
    let made = [bitcode.as_str(), &first.stub, &names];
    let step = format!("cicc front end {}", first.arch);
    workshop.remember_as(key, &step, front, &made, || {
        // Names of types are in the code where it says which line it is from.
        let said = if tells_lines(&group.front) {
            workshop.run(&step, front)?
        } else {
            let made = [bitcode.as_str(), &first.stub];
            workshop.run_lighter(&step, front, &first.text, &made, || unseen(workshop, &made))?
        };
        let listing = after(front, "--gen_device_file_name").filter(|file| workshop.has(file));
        // Without a listing every name counts as generated.
        let text = match listing {
            Some(listing) => words_of(&files::read(&workshop.folder.join(listing))?),
            None => EVERY_NAME.to_owned(),
        };
        files::write(&workshop.folder.join(&names), text)?;
        Ok(said)
    })?;
    let code = files::read(&workshop.folder.join(bitcode))?;
    let names = files::read_text(&workshop.folder.join(&names))?;
    let generated = |name: &String| {
        names == EVERY_NAME
            || names.contains(name.as_str())
            || memchr::memmem::find(&code, name.as_bytes()).is_some()
    };
    let (apart, together): (Vec<_>, Vec<_>) =
        group.alike.iter().partition(|(functions, _)| functions.iter().any(generated));
    // What is unlike the first may still be alike among itself.
    let apart = merge(workshop, apart.into_iter().map(|(_, group)| group.clone()).collect())?;
    if !apart.iter().any(|group| group.has(launches.arch)) {
        launches.give(workshop, group, &first.stub)?;
    }
    let digest = Digest::blake3(&code).to_string();
    let members: Vec<_> =
        group.members.iter().chain(together.iter().flat_map(|(_, group)| &group.members)).collect();
    let generate_code = |(device, phases): &&(&Device, Option<Phases>)| {
        let Some(phases) = phases else { return Ok(()) };
        let mut back = phases.back.clone();
        for arg in back.args.iter_mut().filter(|arg| **arg == phases.bitcode) {
            arg.clone_from(bitcode);
        }
        let key = workshop.key("back", &back).field("bitcode", &digest);
        workshop.remember(key, &format!("cicc {}", device.arch), &back, &[&device.ptx])?;
        assemble(workshop, device)
    };
    in_threads(&members, generate_code)?;
    in_threads(&apart, |group| generate(workshop, group, module, launches))?;
    Ok(())
}

/// Whether nothing in these files shows that they are of a lighter text.
fn unseen(workshop: &Workshop<'_>, made: &[&str]) -> Result<bool, CompileError> {
    for name in made {
        let made = files::read(&workshop.folder.join(name))?;
        if memchr::memmem::find(&made, steps::LIGHTER.as_bytes()).is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Stands for a listing that is not there.
const EVERY_NAME: &str = "*";

/// Every word of a listing, once.
fn words_of(listing: &[u8]) -> String {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let words: BTreeSet<&[u8]> = listing.split(|byte| !word(byte)).filter(|word| word.len() > 1).collect();
    words.into_iter().map(|word| format!("{}\n", String::from_utf8_lossy(word))).collect()
}

/// PTX to machine code, for every real architecture of a virtual one.
fn assemble(workshop: &Workshop<'_>, device: &Device) -> Result<(), CompileError> {
    let place = workshop.folder.join(&device.ptx);
    if let Some(front) = &workshop.cuda.front {
        let older = steps::older_ptx(&files::read_text(&place)?, &front.ptx);
        files::write(&place, older)?;
    }
    let ptx = Digest::blake3(&files::read(&place)?).to_string();
    in_threads(&device.assemble, |step| {
        let key = workshop.key("ptxas", &step.ptxas).field("ptx", &ptx);
        workshop.remember(key, &format!("ptxas {}", step.arch), &step.ptxas, &[&step.cubin])
    })?;
    Ok(())
}

fn after<'a>(command: &'a CommandLine, flag: &str) -> Option<&'a str> {
    let at = command.args.iter().position(|arg| arg == flag)?;
    command.args.get(at + 1).map(String::as_str)
}

/// Does `work` on every item at once; processes wait for the pool. The first error in the order of the items counts. Where
/// the machine gives no more threads, an item is done in this one.
fn in_threads<'i, I: Sync, T: Send>(
    items: &'i [I],
    work: impl Fn(&'i I) -> Result<T, CompileError> + Sync,
) -> Result<Vec<T>, CompileError> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |item| Builder::new().spawn_scoped(scope, move || work(item));
        let threads: Vec<_> = items.iter().map(|item| (item, start(item))).collect();
        let results: Vec<_> = threads
            .into_iter()
            .map(|(item, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or(Err(CompileError::Stopped)),
                Err(_) => work(item),
            })
            .collect();
        results.into_iter().collect()
    })
}
