//! Tests of fetching, against a server on the loopback interface. Owns: nothing. Never: part of the program.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::base::digest::hex;
use crate::base::disk;
use crate::base::loopback::{Fault, Server};
use crate::base::report::{MessageFormat, Report};
use crate::toolchain::index::Release;
use crate::toolchain::lock::Lock;
use crate::toolchain::zip::tests::archive;

const HEADER: &[u8] = b"#pragma once\n";

/// Bytes that do not compress.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(next).collect()
}

/// A wheel of six megabytes, of which two small files are wanted.
fn wheel() -> Vec<u8> {
    let ballast = noise(6 << 20);
    let line = |name: &str, bytes: &[u8]| {
        format!("{name},sha256={},{}\n", URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)), bytes.len())
    };
    let tool = noise(5_000);
    let record =
        line("kit/include/a.h", HEADER) + &line("kit/bin/tool", &tool) + "part-1.0.dist-info/RECORD,,\n";
    archive(
        &[
            ("kit/include/a.h", HEADER, true, false),
            ("kit/lib/ballast.so", &ballast, false, false),
            ("kit/bin/tool", &tool, false, true),
            ("part-1.0.dist-info/RECORD", record.as_bytes(), true, false),
        ],
        false,
    )
}

struct Bench {
    session: Session,
    python: Interpreter,
    client: Client,
    request: Request,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = files::scratch().unwrap();
        let report = Report::new(MessageFormat::Human, true);
        let session = Session { report, cache: folder.path().to_owned(), offline: false, jobs: 1 };
        let python = serde_json::from_value(serde_json::json!({
            "program": "/nowhere/python", "version": "3.11.0", "tag": "cp311-x86_64", "headers": "", "sites": [],
            "torch": null, "torch_dir": null, "numpy": false, "client": null, "why": "",
        }));
        let patience =
            Patience { attempts: 2, pause: Duration::from_millis(1), silence: Duration::from_secs(10) };
        let take = ["kit/include/", "kit/bin/"].map(str::to_owned).to_vec();
        let part =
            Part { name: "part".to_owned(), version: "1.0".to_owned(), megabytes: 7, take, skip: vec![] };
        let request = Request { part, why: "to test" };
        Self { session, python: python.unwrap(), client: Client::new(patience), request, _folder: folder }
    }

    fn fetch(&self, url: &str, sha256: &str) -> Result<Stored, ToolchainError> {
        let release = Release { file: "part-1.0-py3-none-any.whl".to_owned(), sha256: sha256.to_owned() };
        let located = Located { release, url: url.to_owned() };
        let Self { session, python, client, request, .. } = self;
        let waits = Once::new();
        Job { session, python, target: Target::Machine, client, located: &located, request, waits: &waits }
            .run()
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[test]
fn only_wanted_members_are_fetched() {
    let (bench, wheel) = (Bench::new(), wheel());
    let server = Server::start(wheel.clone(), []);
    let stored = bench.fetch(&server.url(), &sha256(&wheel)).unwrap();
    assert_eq!(stored.names, ["kit/include/a.h", "kit/bin/tool"]);
    assert_eq!(files::read(&stored.files.join("kit/include/a.h")).unwrap(), HEADER);
    assert!(server.sent() < 200_000, "{}", server.sent());
    let asked = server.ranges().len();
    let again = bench.fetch(&server.url(), &sha256(&wheel)).unwrap();
    assert_eq!((server.ranges().len(), again.id), (asked, stored.id));
}

#[test]
fn a_changed_file_is_fetched_again_and_the_audit_names_it() {
    let (bench, wheel) = (Bench::new(), wheel());
    let server = Server::start(wheel.clone(), []);
    let stored = bench.fetch(&server.url(), &sha256(&wheel)).unwrap();
    let header = stored.files.join("kit/include/a.h");
    files::write(&header, "#error\n").unwrap();
    let damaged = crate::toolchain::audit(&bench.session).unwrap();
    assert_eq!(damaged, [(sha256(&wheel), "kit/include/a.h".to_owned())]);
    bench.fetch(&server.url(), &sha256(&wheel)).unwrap();
    assert_eq!(files::read(&header).unwrap(), HEADER);
    assert!(crate::toolchain::audit(&bench.session).unwrap().is_empty());
}

#[test]
fn a_member_that_record_does_not_promise_is_refused() {
    let (bench, good) = (Bench::new(), wheel());
    // The tool is stored, so its bytes can be found; its CRC in the directory is corrected as a forger would.
    let tool = noise(5_000);
    let place = good.windows(64).rposition(|window| window == &tool[..64]).unwrap();
    let mut forged = good.clone();
    forged[place] ^= 1;
    let mut other = tool.clone();
    other[0] ^= 1;
    let (old, new) = (crc32fast::hash(&tool).to_le_bytes(), crc32fast::hash(&other).to_le_bytes());
    let directory = forged.windows(4).rposition(|window| window == old).unwrap();
    forged[directory..directory + 4].copy_from_slice(&new);
    let server = Server::start(forged, []);
    let error = bench.fetch(&server.url(), &sha256(&good)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "part-1.0-py3-none-any.whl is damaged: kit/bin/tool does not match the SHA-256 in the wheel's RECORD"
    );
    // The next run does not continue with the wrong bytes.
    let server = Server::start(good.clone(), []);
    bench.fetch(&server.url(), &sha256(&good)).unwrap();
}

#[test]
fn a_flipped_bit_is_found_by_its_crc() {
    let (bench, good) = (Bench::new(), wheel());
    let tool = noise(5_000);
    let place = good.windows(64).rposition(|window| window == &tool[..64]).unwrap();
    let mut broken = good.clone();
    broken[place + 100] ^= 4;
    let error = bench.fetch(&Server::start(broken, []).url(), &sha256(&good)).unwrap_err();
    assert!(error.to_string().contains("CRC-32"), "{error}");
}

#[test]
fn without_ranges_the_whole_wheel_is_checked() {
    let (bench, wheel) = (Bench::new(), wheel());
    let server = Server::without_ranges(wheel.clone());
    let error = bench.fetch(&server.url(), &sha256(b"something else")).unwrap_err();
    assert!(error.to_string().ends_with("it does not match the SHA-256 of the package index"), "{error}");
    let stored = bench.fetch(&server.url(), &sha256(&wheel)).unwrap();
    assert_eq!(files::read(&stored.files.join("kit/bin/tool")).unwrap(), noise(5_000));
}

#[test]
fn the_record_itself_may_be_wanted() {
    let (mut bench, wheel) = (Bench::new(), wheel());
    bench.request.part.take.push("part-".to_owned());
    let stored = bench.fetch(&Server::start(wheel.clone(), []).url(), &sha256(&wheel)).unwrap();
    assert!(files::exists(&stored.files.join("part-1.0.dist-info/RECORD")));
}

#[test]
fn a_stopped_download_continues() {
    let (bench, wheel) = (Bench::new(), wheel());
    let cut = [0, 0, 0, 600, 600].map(Fault::CutAfter);
    // The probe, the end and RECORD arrive; then the line drops until this run gives up.
    let server = Server::start(
        wheel.clone(),
        [Fault::CutAfter(9), Fault::CutAfter(1 << 20), Fault::CutAfter(1 << 20)].into_iter().chain(cut),
    );
    let first = bench.fetch(&server.url(), &sha256(&wheel));
    assert!(matches!(first, Err(ToolchainError::Download { .. })), "{first:?}");
    bench.fetch(&server.url(), &sha256(&wheel)).unwrap();
}

#[test]
fn a_folder_of_wheels_serves_as_well() {
    let (bench, wheel) = (Bench::new(), wheel());
    let file = bench.session.cache.join("my wheels/part-1.0-py3-none-any.whl");
    files::write(&file, &wheel).unwrap();
    let url = format!("file://{}", file.display()).replace(' ', "%20");
    let stored = bench.fetch(&url, &sha256(&wheel)).unwrap();
    assert!(files::exists(&stored.files.join("kit/bin/tool")));
}

impl Bench {
    /// A lock that has this wheel, and what is taken of it, where it says so.
    fn lock(&self, stored: &Stored, members: &str) -> Lock {
        let part = self.request.part.choice();
        let path = self.session.cache.join("kernelwright.lock");
        let text = format!(
            "format = 1\n[[wheel]]\nname = \"part\"\nversion = \"1.0\"\nfile = \"part-1.0-py3-none-any.whl\"\n\
             part = \"{part}\"\nsha256 = \"{}\"\nmembers = \"{members}\"\n",
            stored.sha256
        );
        files::write(&path, text).unwrap();
        Lock::at(path, true).unwrap()
    }

    /// With nothing in the cache and no network, what `folder` holds.
    fn handed(&self, folder: &Path, lock: &Lock) -> Result<Vec<Stored>, ToolchainError> {
        let empty = Bench::new();
        let session = Session { offline: true, ..empty.session };
        let taking = WheelCollector::new(&session, lock);
        let supplied = Supplied::new(vec![folder.to_owned()]);
        let stored = obtain_beside(
            &supplied,
            &taking,
            &self.python,
            Target::Machine,
            std::slice::from_ref(&self.request),
        )?;
        // The cache goes with `empty`, so what is in it is looked at here.
        assert_eq!(files::read(&stored[0].files.join("kit/include/a.h")).unwrap(), HEADER);
        assert!(disk::is_executable(&stored[0].files.join("kit/bin/tool")));
        assert!(crate::toolchain::audit(&session).unwrap().is_empty());
        Ok(stored)
    }
}

#[test]
fn what_is_handed_in_is_taken_without_a_network() {
    let (bench, wheel) = (Bench::new(), wheel());
    let server = Server::start(wheel.clone(), []);
    let fetched = bench.fetch(&server.url(), &sha256(&wheel)).unwrap();
    let lock = bench.lock(&fetched, &fetched.members);
    let folder = files::scratch().unwrap();
    // The whole wheel by its name, beside a per cent sign that an address would escape.
    let whole = folder.path().join("100%25");
    files::write(&whole.join("part-1.0-py3-none-any.whl"), &wheel).unwrap();
    // What is taken of it, as Nix keeps it.
    let key = format!("part-1.0-py3-none-any-{}", bench.request.part.choice());
    let tree = folder.path().join(format!("0123-{key}"));
    for name in &fetched.names {
        files::copy(&fetched.files.join(name), &tree.join(name)).unwrap();
    }
    let many = folder.path().join("many");
    files::create_dirs(&many).unwrap();
    files::rename(&tree, &many.join(&key)).unwrap();
    for folder in [&whole, &many, &many.join(&key)] {
        let stored = bench.handed(folder, &lock).unwrap();
        assert_eq!((&stored[0].id, &stored[0].members), (&fetched.id, &fetched.members));
    }
    let nowhere = bench.handed(folder.path(), &lock).unwrap_err();
    assert!(matches!(nowhere, ToolchainError::Offline { .. }), "{nowhere}");
}

#[test]
fn what_is_handed_in_and_is_not_what_is_locked_is_refused() {
    let (bench, wheel) = (Bench::new(), wheel());
    let server = Server::start(wheel.clone(), []);
    let fetched = bench.fetch(&server.url(), &sha256(&wheel)).unwrap();
    let lock = bench.lock(&fetched, &fetched.members);
    let folder = files::scratch().unwrap();
    let tree = folder.path().join(format!("part-1.0-py3-none-any-{}", bench.request.part.choice()));
    for name in &fetched.names {
        files::copy(&fetched.files.join(name), &tree.join(name)).unwrap();
    }
    files::write(&tree.join("kit/include/a.h"), "#error\n").unwrap();
    let changed = bench.handed(folder.path(), &lock).unwrap_err().to_string();
    assert!(changed.contains("the digest of its members") && changed.contains(&fetched.members), "{changed}");
    files::write(&tree.join("kit/include/a.h"), HEADER).unwrap();
    files::write(&tree.join("more"), "").unwrap();
    let more = bench.handed(folder.path(), &lock).unwrap_err().to_string();
    assert!(more.contains("more is not part of it"), "{more}");
    files::remove_dir(&tree).unwrap();
    files::write(&folder.path().join("part-1.0-py3-none-any.whl"), &wheel[1..]).unwrap();
    let other = bench.handed(folder.path(), &lock).unwrap_err();
    assert!(matches!(other, ToolchainError::Damaged { .. }), "{other}");
}
