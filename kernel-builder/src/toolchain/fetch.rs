//! Parts of wheels, fetched by byte range.
//!
//! Owns: which bytes of a wheel are fetched and in what order; the choice between some bytes and all of them.
//! Never: keeps an address.
//!
//! What is checked. A wheel that is fetched whole must have the SHA-256 that the index gives. Of a wheel of which only
//! members are fetched that digest cannot be computed; there, over the same TLS connection to the same index, the
//! wheel's RECORD is fetched and every member must have the SHA-256 that RECORD gives, beside the zip's CRC-32.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Instant;

use super::error::{ToolchainError, interrupted_or};
use super::index::{self, Located, Release, Target};
use super::interpreter::Interpreter;
use super::lock::Locked;
use super::missing::Missing;
use super::pins::Part;
pub(super) use super::request::Request;
use super::store::{Entry, Stored, digest_of};
use super::supplied::Supplied;
use super::taking::WheelCollector;
use super::unpack::{Promised, Slice, promised};
use super::used;
use super::zip::{self, Member};
use crate::base::files::{self, FileError};
use crate::base::http::{Client, HttpError, Patience, Span};
use crate::base::report::{self, Event, Progress, ProgressKind};
use crate::base::session::Session;

/// Below this many bytes a wheel is fetched whole: that is one request, and the index's own digest is checked.
const SMALL: u64 = 4 << 20;
/// Unwanted bytes between two wanted members that cost less than another request.
const GAP: u64 = 256 << 10;
/// A span ends after this many bytes, so that unpacking one overlaps with fetching the next.
const SPAN: u64 = 24 << 20;

/// Makes sure that the store has all of `requests`; only missing ones are requested and fetched.
pub(super) fn obtain(
    session: &WheelCollector<'_>,
    python: &Interpreter,
    target: Target,
    requests: &[Request],
) -> Result<Vec<Stored>, ToolchainError> {
    obtain_beside(&Supplied::named(), session, python, target, requests)
}

/// The same, with what is handed in.
fn obtain_beside(
    supplied: &Supplied,
    session: &WheelCollector<'_>,
    python: &Interpreter,
    target: Target,
    requests: &[Request],
) -> Result<Vec<Stored>, ToolchainError> {
    let locked = |part: &Part| {
        let locked = session.lock()?.locked_wheel(part)?;
        Some(Release { file: locked.file, sha256: locked.sha256 })
    };
    supplied.store(session, session.lock(), requests)?;
    let held = |Request { part, .. }: &Request| {
        // A locked release has priority over the last answer of the index.
        let release = locked(part).or_else(|| index::remembered_release(session, python, target, part))?;
        Some((Entry::new(session, &release.sha256).complete(part)?, release.file))
    };
    let mut found: Vec<Option<(Stored, String)>> = requests.iter().map(held).collect();
    let lacking: Vec<usize> = (0..requests.len()).filter(|at| found[*at].is_none()).collect();
    if !lacking.is_empty() {
        let wanted: Vec<&Request> = lacking.iter().map(|at| &requests[*at]).collect();
        let given = |request: &&Request| supplied.wheel(&session.lock()?.locked_wheel(&request.part)?);
        let located = match wanted.iter().map(given).collect::<Option<Vec<_>>>() {
            Some(whole) => whole,
            None => from_index(session, python, target, &wanted, given)?,
        };
        let client = Client::new(Patience::default());
        let waits = Once::new();
        let fetch = |at: usize| {
            let job = Job {
                session,
                python,
                target,
                client: &client,
                located: &located[at],
                request: wanted[at],
                waits: &waits,
            };
            let part = &wanted[at].part;
            job.run()
                .map_err(|error| error.storing(&format!("{} {}", part.name, part.version), part.megabytes))
        };
        for ((at, stored), located) in lacking.iter().zip(in_parallel(wanted.len(), 3, fetch)?).zip(&located)
        {
            found[*at] = Some((stored, located.release.file.clone()));
        }
    }
    let found: Vec<(Stored, String)> = found.into_iter().flatten().collect();
    found.iter().for_each(|(stored, _)| used::now(session, &stored.sha256));
    session.note(requests.iter().zip(&found).map(|(Request { part, .. }, (stored, file))| Locked {
        name: part.name.clone(),
        version: part.version.clone(),
        file: file.clone(),
        part: part.choice(),
        sha256: stored.sha256.clone(),
        members: stored.members.clone(),
    }));
    Ok(found.into_iter().map(|(stored, _)| stored).collect())
}

/// Returns where the wheels are: the given ones, and the others on the index.
fn from_index(
    session: &WheelCollector<'_>,
    python: &Interpreter,
    target: Target,
    wanted: &[&Request],
    given: impl Fn(&&Request) -> Option<Located>,
) -> Result<Vec<Located>, ToolchainError> {
    let given: Vec<Option<Located>> = wanted.iter().map(given).collect();
    let asked = wanted.iter().zip(&given).filter(|(_, given)| given.is_none());
    let parts: Vec<&Part> = asked.map(|(request, _)| &request.part).collect();
    if session.offline {
        let missing =
            parts.iter().map(|part| Missing::new(format!("{} {}", part.name, part.version), part.megabytes));
        return Err(ToolchainError::Offline { missing: missing.collect() });
    }
    let located = index::locate(session, python, target, &parts)?;
    if let Some(lock) = session.lock() {
        let all = parts.iter().zip(&located);
        lock.allow(
            all.map(|(part, Located { release, .. })| {
                (*part, release.file.as_str(), release.sha256.as_str())
            }),
        )?;
    }
    let mut located = located.into_iter();
    Ok(given.into_iter().filter_map(|given| given.or_else(|| located.next())).collect())
}

/// One wheel to fetch from.
struct Job<'a> {
    session: &'a Session,
    python: &'a Interpreter,
    target: Target,
    client: &'a Client,
    located: &'a Located,
    request: &'a Request,
    /// Said once, not for every wheel.
    waits: &'a Once,
}

impl Job<'_> {
    fn run(&self) -> Result<Stored, ToolchainError> {
        let part = &self.request.part;
        let subject = format!("{} {}", part.name, part.version);
        let entry = Entry::new(self.session, &self.located.release.sha256);
        let _lock = entry
            .lock(|| {
                self.waits.call_once(|| {
                    self.session
                        .report
                        .note(format!("waiting for another process that is fetching {subject}"));
                });
            })
            .map_err(interrupted_or)?;
        if let Some(stored) = entry.complete(part) {
            return Ok(stored);
        }
        let started = Instant::now();
        let url = self.located.url.split('#').next().unwrap_or_default();
        let (stored, moved) = match url.strip_prefix("file://") {
            Some(path) => self.take_whole(&entry, &PathBuf::from(unescape(path)))?,
            None => self.take_from_server(&entry, url, &subject)?,
        };
        let detail = format!("{}: {}", self.request.why, moved);
        self.session.report.emit(&Event::Done {
            action: "fetched",
            subject: &subject,
            detail: &detail,
            seconds: started.elapsed().as_secs_f64(),
            cached: false,
        });
        Ok(stored)
    }

    fn wheel(&self) -> &str {
        &self.located.release.file
    }

    fn failed(&self, cause: HttpError) -> ToolchainError {
        ToolchainError::download(self.wheel(), cause)
    }

    /// A bar where there is time to look at one.
    fn bar(&self, subject: &str, total: Option<u64>) -> Progress {
        if total.is_some_and(|total| total < SMALL) {
            return Progress::hidden();
        }
        let what = format!("fetching {subject}, {}", self.request.why);
        self.session.report.progress(&what, ProgressKind::Bytes, total)
    }

    fn take_from_server(
        &self,
        entry: &Entry,
        url: &str,
        subject: &str,
    ) -> Result<(Stored, String), ToolchainError> {
        match self.client.length(url) {
            Ok(length) if length > SMALL => match self.by_range(entry, url, length, subject) {
                Err(ToolchainError::Download { cause: HttpError::NoRanges, .. }) => {
                    self.whole(entry, url, subject, Some(length))
                }
                other => other,
            },
            Ok(length) => self.whole(entry, url, subject, Some(length)),
            Err(HttpError::NoRanges) => self.whole(entry, url, subject, None),
            Err(HttpError::Status(401 | 403 | 407)) => self.through_pip(entry),
            Err(cause) => Err(self.failed(cause)),
        }
    }

    /// Some members of a large wheel.
    fn by_range(
        &self,
        entry: &Entry,
        url: &str,
        length: u64,
        subject: &str,
    ) -> Result<(Stored, String), ToolchainError> {
        let bytes =
            |start, end| self.client.bytes(url, Span::new(start, end)).map_err(|cause| self.failed(cause));
        let tail_start = length.saturating_sub(zip::TAIL);
        let tail = bytes(tail_start, length)?;
        let not_a_zip = |cause| ToolchainError::NotAZip { wheel: self.wheel().to_owned(), cause };
        let place = zip::find_directory(&tail, length).map_err(not_a_zip)?;
        let directory = match place.start.checked_sub(tail_start) {
            Some(start) => tail[start as usize..(place.end - tail_start) as usize].to_vec(),
            None => bytes(place.start, place.end)?,
        };
        let members = zip::members(&directory, place.start).map_err(not_a_zip)?;
        let wanted = self.required_members(&members)?;
        // First, since it may be wanted itself, and nothing promises its own digest.
        let promised = self.record(entry, url, &members)?;
        // Another part of this wheel, or an earlier run that was stopped, may have brought some of them.
        let lines = entry.lines();
        let is_here = |member: &Member| lines.get(&member.name).is_some_and(|line| entry.unchanged(line));
        let lacking: Vec<&Member> = wanted.iter().copied().filter(|member| !is_here(member)).collect();
        let packed: u64 = lacking.iter().map(|member| member.packed).sum();
        if packed > length / 5 * 4 {
            return self.whole(entry, url, subject, Some(length));
        }
        let spans = spans(&lacking);
        let total: u64 = spans.iter().map(|span| span.end - span.start).sum();
        let bar = self.bar(subject, Some(total));
        in_parallel(spans.len(), 2, |at| self.span(entry, url, &spans[at], &promised, &bar))?;
        let moved = format!("{} of {}", report::bytes(total + directory.len() as u64), report::bytes(length));
        Ok((entry.finish(&self.request.part, names(&wanted))?, moved))
    }

    fn span(
        &self,
        entry: &Entry,
        url: &str,
        span: &MemberRange<'_>,
        promised: &Promised,
        bar: &Progress,
    ) -> Result<(), ToolchainError> {
        let file = entry.part(span.start, span.end);
        let bytes = Span::new(span.start, span.end);
        self.client.download(url, bytes, &file, bar).map_err(|cause| self.failed(cause))?;
        let slice = Slice { wheel: self.wheel(), file: &file, start: span.start };
        let unpacked = span.members.iter().try_for_each(|member| slice.unpack(member, Some(promised), entry));
        // Wrong bytes must not be what the next run continues with.
        if !matches!(unpacked, Err(ToolchainError::Process(_))) {
            files::remove_file(&file)?;
        }
        unpacked
    }

    /// The digests in the wheel's RECORD.
    fn record(&self, entry: &Entry, url: &str, members: &[Member]) -> Result<Promised, ToolchainError> {
        let record = members
            .iter()
            .find(|member| {
                member.name.ends_with(".dist-info/RECORD") && member.name.matches('/').count() == 1
            })
            .ok_or_else(|| ToolchainError::Damaged {
                wheel: self.wheel().to_owned(),
                problem: "its RECORD is missing".to_owned(),
                cause: None,
            })?;
        let span = Span::new(record.place.start, record.place.end);
        let bytes = self.client.bytes(url, span).map_err(|cause| self.failed(cause))?;
        let file = entry.part(record.place.start, record.place.end);
        files::write(&file, bytes)?;
        let slice = Slice { wheel: self.wheel(), file: &file, start: record.place.start };
        slice.unpack(record, None, entry)?;
        Ok(promised(&files::read_text(&entry.place(&record.name))?))
    }

    /// A small wheel, or one from a server without ranges.
    fn whole(
        &self,
        entry: &Entry,
        url: &str,
        subject: &str,
        length: Option<u64>,
    ) -> Result<(Stored, String), ToolchainError> {
        let file = entry.parts().join("whole");
        let bar = self.bar(subject, length);
        let span = Span { start: 0, end: length };
        match self.client.download(url, span, &file, &bar) {
            Err(HttpError::NoRanges) => {
                files::remove_file(&file)?;
                self.client.download(url, Span::WHOLE, &file, &bar)
            }
            other => other,
        }
        .map_err(|cause| self.failed(cause))?;
        let outcome = self.take_whole(entry, &file);
        files::remove_file(&file)?;
        outcome
    }

    /// A wheel that the index hands to pip but not to us: pip knows the credentials.
    fn through_pip(&self, entry: &Entry) -> Result<(Stored, String), ToolchainError> {
        let folder = files::staging_beside(&entry.parts())?;
        index::download(self.session, self.python, self.target, &self.request.part, folder.path())?;
        self.take_whole(entry, &folder.path().join(self.wheel()))
    }

    fn take_whole(&self, entry: &Entry, file: &Path) -> Result<(Stored, String), ToolchainError> {
        let damaged = |problem: &str| ToolchainError::Damaged {
            wheel: self.wheel().to_owned(),
            problem: problem.to_owned(),
            cause: None,
        };
        let (length, _) = files::stamp(file)?;
        if digest_of(file).as_deref() != Some(&self.located.release.sha256) {
            return Err(damaged("it does not match the SHA-256 of the package index"));
        }
        let members = read_directory(file, length)?
            .map_err(|cause| ToolchainError::NotAZip { wheel: self.wheel().to_owned(), cause })?;
        let wanted = self.required_members(&members)?;
        let slice = Slice { wheel: self.wheel(), file, start: 0 };
        wanted.iter().try_for_each(|member| slice.unpack(member, None, entry))?;
        Ok((entry.finish(&self.request.part, names(&wanted))?, report::bytes(length)))
    }

    fn required_members<'m>(&self, members: &'m [Member]) -> Result<Vec<&'m Member>, ToolchainError> {
        let part = &self.request.part;
        let wanted: Vec<&Member> = members.iter().filter(|member| part.holds(&member.name)).collect();
        match part.take.iter().find(|take| !wanted.iter().any(|member| member.name.starts_with(*take))) {
            Some(take) => Err(ToolchainError::Damaged {
                wheel: self.wheel().to_owned(),
                problem: format!("it contains no file that begins with {take}"),
                cause: None,
            }),
            None => Ok(wanted),
        }
    }
}

fn names(members: &[&Member]) -> Vec<String> {
    members.iter().map(|member| member.name.clone()).collect()
}

/// Members that are fetched with one request.
struct MemberRange<'a> {
    start: u64,
    end: u64,
    members: Vec<&'a Member>,
}

fn spans<'a>(wanted: &[&'a Member]) -> Vec<MemberRange<'a>> {
    let mut spans: Vec<MemberRange<'a>> = Vec::new();
    for member in wanted {
        let place = &member.place;
        match spans.last_mut() {
            Some(last) if place.start - last.end <= GAP && place.end - last.start <= SPAN => {
                last.end = place.end;
                last.members.push(member);
            }
            _ => spans.push(MemberRange { start: place.start, end: place.end, members: vec![member] }),
        }
    }
    spans
}

fn read_directory(file: &Path, length: u64) -> Result<Result<Vec<Member>, zip::ZipError>, FileError> {
    use std::os::unix::fs::FileExt;
    let open = files::open(file)?;
    let read = |start: u64, end: u64| {
        let mut bytes = vec![0; (end - start) as usize];
        open.read_exact_at(&mut bytes, start).map(|()| bytes).map_err(|cause| FileError {
            action: "read",
            path: file.to_owned(),
            cause,
        })
    };
    let tail = read(length.saturating_sub(zip::TAIL), length)?;
    let place = match zip::find_directory(&tail, length) {
        Ok(place) => place,
        Err(error) => return Ok(Err(error)),
    };
    Ok(zip::members(&read(place.start, place.end)?, place.start))
}

/// A path of a `file:` address, its %-escapes undone.
fn unescape(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let escape = more.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (first, escape.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs `work` for every number below `count`, at most `width` at a time; the first error stops the start of more.
fn in_parallel<T: Send>(
    count: usize,
    width: usize,
    work: impl Fn(usize) -> Result<T, ToolchainError> + Sync,
) -> Result<Vec<T>, ToolchainError> {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..width.min(count) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    if at >= count {
                        break;
                    }
                    let result = work(at);
                    if result.is_err() {
                        next.store(count, Ordering::SeqCst);
                    }
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
