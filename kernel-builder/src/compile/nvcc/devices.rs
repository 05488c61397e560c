//! The device's side of a unit: text to PTX to machine code, for every architecture.
//!
//! Owns: which architectures share the C++ front end. Never: lets one be compiled from another's text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;

use kernel_plan::plan::CommandLine;
use kernel_plan::steps::{self, Device, Phases, Steps};

use super::super::CompileError;
use super::texts;
use super::workshop::Workshop;
use crate::base::digest::Digest;
use crate::base::files;

/// Architectures with the same text and the same front end.
struct Group<'a> {
    text: Digest,
    /// The first is the one whose commands the front end runs with.
    members: Vec<(&'a Device, Option<Phases>)>,
}

/// Makes the machine code and the PTX of every architecture; gives back the files that preprocessing read. The launch
/// code for the host goes to `stub` as soon as it is there.
pub(super) fn compile(
    workshop: &Workshop<'_>,
    steps: &Steps,
    module: &str,
    stub: Sender<()>,
) -> Result<BTreeSet<String>, CompileError> {
    let texts = in_threads(&steps.devices, |device| {
        let read = preprocess(workshop, &device.preprocess, &device.text, &device.arch)?;
        Ok((read, phases(workshop, device, module)?))
    })?;
    let mut files = BTreeSet::new();
    let mut groups: BTreeMap<(Digest, String), Group<'_>> = BTreeMap::new();
    for (device, ((text, read), phases)) in steps.devices.iter().zip(texts) {
        files.extend(read);
        let group = groups
            .entry((text, front_of(device, phases.as_ref())))
            .or_insert_with(|| Group { text, members: Vec::new() });
        group.members.push((device, phases));
    }
    let mut groups: Vec<Group<'_>> = groups.into_values().collect();
    // The launch code that the host waits for is that of the last architecture.
    let last = steps.devices.last().map(|device| device.arch.clone()).unwrap_or_default();
    let waited = |group: &Group<'_>| group.members.iter().any(|(device, _)| device.arch == last);
    groups.sort_by_key(|group| !waited(group));
    let stub = std::sync::Mutex::new(Some(stub));
    in_threads(&groups, |group| {
        let given = |from: &str| {
            if waited(group) {
                files::copy(&workshop.folder.join(from), &workshop.folder.join(&steps.host.stub))?;
                // The host's side may have failed and gone; then its own error is told.
                let _gone = stub.lock().ok().and_then(|mut stub| stub.take()).map(|stub| stub.send(()));
            }
            Ok(())
        };
        generate(workshop, group, module, given)
    })?;
    Ok(files)
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
    files::write(&place, &read.text)?;
    Ok((Digest::of(&read.text), read.files))
}

/// cicc's phases for one architecture; nothing when it does not tell.
fn phases(workshop: &Workshop<'_>, device: &Device, module: &str) -> Result<Option<Phases>, CompileError> {
    let question = steps::phases_question(&device.cicc);
    let key = workshop.key("phases", &question).field("module", module).finish();
    let answer = workshop.shop.cache.once(&key, || -> Result<Vec<u8>, CompileError> {
        let folder = files::scratch()?;
        files::write(&folder.path().join(&device.text), "\n")?;
        let name = after(&question, "--module_id_file_name");
        files::write(&folder.path().join(name.unwrap_or_default()), module)?;
        // A compiler that does not know the question is no failure of the unit.
        let said = workshop.start("plan", &question.clone().cwd(folder.path()));
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
    stub: impl Fn(&str) -> Result<(), CompileError>,
) -> Result<(), CompileError> {
    let Some((first, phases)) = group.members.first() else { return Ok(()) };
    let text = group.text.to_string();
    let Some(Phases { front, bitcode, .. }) = phases else {
        let key = workshop.key("cicc", &first.cicc).field("text", text).field("module", module);
        workshop.remember(key, &format!("cicc {}", first.arch), &first.cicc, &[&first.ptx, &first.stub])?;
        stub(&first.stub)?;
        return assemble(workshop, first);
    };
    let key = workshop.key("front", front).field("text", text).field("module", module);
    workshop.remember(key, &format!("cicc front end {}", first.arch), front, &[bitcode, &first.stub])?;
    stub(&first.stub)?;
    let digest = Digest::of(&files::read(&workshop.folder.join(bitcode))?).to_string();
    in_threads(&group.members, |(device, phases)| {
        let Some(phases) = phases else { return Ok(()) };
        let mut back = phases.back.clone();
        for arg in back.args.iter_mut().filter(|arg| **arg == phases.bitcode) {
            arg.clone_from(bitcode);
        }
        let key = workshop.key("back", &back).field("bitcode", &digest);
        workshop.remember(key, &format!("cicc {}", device.arch), &back, &[&device.ptx])?;
        assemble(workshop, device)
    })?;
    Ok(())
}

/// PTX to machine code, for every real architecture of a virtual one.
fn assemble(workshop: &Workshop<'_>, device: &Device) -> Result<(), CompileError> {
    let place = workshop.folder.join(&device.ptx);
    if let Some(front) = &workshop.cuda.front {
        let older = steps::older_ptx(&files::read_text(&place)?, &front.ptx);
        files::write(&place, older)?;
    }
    let ptx = Digest::of(&files::read(&place)?).to_string();
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

/// Does `work` on every item at once; processes wait for the pool. The first error in the order of the items counts.
fn in_threads<'i, I: Sync, T: Send>(
    items: &'i [I],
    work: impl Fn(&'i I) -> Result<T, CompileError> + Sync,
) -> Result<Vec<T>, CompileError> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(|| work(item))).collect();
        let results: Vec<_> =
            threads.into_iter().map(|thread| thread.join().unwrap_or(Err(CompileError::Stopped))).collect();
        results.into_iter().collect()
    })
}
