//! A hub on the loopback interface: repositories, branches, large files in a storage with an address of its own, and
//! failures on request.
//!
//! Owns: connections, what was heard, which failure comes when. Never: answers what a hub would not (`answers`).

mod answers;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;

/// The one token that the hub knows.
pub(crate) const TOKEN: &str = "hf_onlyforthetests";

/// What goes wrong with one request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// It is refused: status, a header, the body.
    Answer(u16, &'static str, &'static str),
    /// The connection closes, and nothing was done.
    CutBefore,
    /// It is done, and the connection closes without an answer.
    CutAfter,
    /// The connection closes in the middle of the body.
    CutWithin,
    /// It is done, and the answer is this status.
    DoneBut(u16),
    /// Somebody else changes every branch first.
    Meanwhile,
    /// No answer comes for as long as the client waits.
    Silence,
}

/// A request as it was heard.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// Whether it came to the storage.
    pub(crate) at_storage: bool,
}

impl Heard {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        String::from_utf8_lossy(&self.body)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// Method and path.
    pub(crate) fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Blob {
    Regular(Vec<u8>),
    Large { sha256: String, size: u64 },
}

pub(crate) type Tree = BTreeMap<String, Blob>;

/// A repository.
#[derive(Debug, Default)]
pub(crate) struct Repo {
    pub(crate) branches: BTreeMap<String, String>,
    /// Pull request N is at N - 1.
    pub(crate) pulls: Vec<String>,
    pub(crate) commits: BTreeMap<String, Tree>,
    pub(crate) private: bool,
    pub(crate) summaries: Vec<String>,
}

/// What a hub is like, and what happens to it.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) repos: BTreeMap<String, Repo>,
    /// The storage, by SHA-256.
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// Parts that came, by SHA-256 and number.
    pub(crate) parts: BTreeMap<(String, u64), Vec<u8>>,
    /// Files above it come in parts of this length.
    pub(crate) part: Option<u64>,
    /// The storage wants a header that the hub told.
    pub(crate) keyed: bool,
    /// The transfer that it claims to have chosen, in place of one that it was offered.
    pub(crate) transfer: Option<&'static str>,
    /// Entries of a page of a tree; all when zero.
    pub(crate) page: usize,
    /// Where it says that further pages are, when not at itself.
    pub(crate) pages_at: Option<&'static str>,
    /// New repositories begin without a commit.
    pub(crate) bare: bool,
    /// A file that new repositories have.
    pub(crate) first: Option<&'static str>,
    /// The token that it knows may not write.
    pub(crate) read_only: bool,
    /// Kernels, as a search lists them.
    pub(crate) listed: Vec<Value>,
    pub(crate) storage: u16,
    pub(crate) port: u16,
    heard: Vec<Heard>,
    faults: Vec<(&'static str, Fault)>,
    made: u64,
}

impl State {
    /// A name for a new commit.
    pub(crate) fn commit_name(&mut self) -> String {
        self.made += 1;
        format!("{:040x}", 0xc0ff_ee00_u64 + self.made)
    }
}

impl State {
    /// What somebody else does: a file more on every branch.
    fn change_all(&mut self) {
        let names: Vec<String> = self.repos.keys().cloned().collect();
        for name in names {
            let branches: Vec<String> = self.repos[&name].branches.keys().cloned().collect();
            for branch in branches {
                let made = self.commit_name();
                let repo = self.repos.get_mut(&name).expect("it is there");
                let mut tree = repo.commits[&repo.branches[&branch]].clone();
                tree.insert("theirs.txt".to_owned(), Blob::Regular(b"work".to_vec()));
                repo.commits.insert(made.clone(), tree);
                repo.branches.insert(branch, made);
            }
        }
    }
}

/// A running hub; its threads end with the test process.
pub(crate) struct FakeHub(Arc<Mutex<State>>);

impl FakeHub {
    pub(crate) fn start() -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (own, storage) = (listen(), listen());
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        let state = State { port: port(&own), storage: port(&storage), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        for (listener, at_storage) in [(own, false), (storage, true)] {
            let shared = Arc::clone(&state);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = Arc::clone(&shared);
                    // A client that hangs up is what some tests are about.
                    std::thread::spawn(move || serve(&state, &stream, at_storage).unwrap_or_default());
                }
            });
        }
        Self(state)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test thread died")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.state().port)
    }

    /// The next requests whose method and path hold the words meet these failures, in order.
    pub(crate) fn fail(&self, words: &'static str, faults: &[Fault]) {
        self.state().faults.extend(faults.iter().cloned().map(|fault| (words, fault)));
    }

    /// What was heard since the last time.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.state().heard)
    }

    /// A repository whose branches have these files, each the same.
    pub(crate) fn repository(&self, name: &str, branches: &[&str], files: &[(&str, &str)]) {
        let mut state = self.state();
        let tree: Tree = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Blob::Regular(text.as_bytes().to_vec())))
            .collect();
        let mut repo = Repo::default();
        for branch in branches {
            let commit = state.commit_name();
            repo.branches.insert((*branch).to_owned(), commit.clone());
            repo.commits.insert(commit, tree.clone());
        }
        state.repos.insert(name.to_owned(), repo);
    }

    /// The files of a branch or of `refs/pr/N`, each with its content.
    pub(crate) fn files(&self, name: &str, revision: &str) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let repo = &state.repos[name];
        let commit = answers::commit_of(repo, revision).expect("a revision");
        let content = |blob: &Blob| match blob {
            Blob::Regular(bytes) => bytes.clone(),
            Blob::Large { sha256, .. } => state.objects[sha256].clone(),
        };
        repo.commits[&commit].iter().map(|(path, blob)| (path.clone(), content(blob))).collect()
    }
}

fn serve(state: &Mutex<State>, stream: &TcpStream, at_storage: bool) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(()) };
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().expect("a length"));
    assert!(!headers.contains_key("transfer-encoding"), "storages take no chunked bodies");
    let mut heard = Heard { method, path, headers, body: Vec::new(), at_storage };
    let what = heard.what();
    let fault = {
        let mut state = state.lock().expect("no test thread died");
        let at = state.faults.iter().position(|(words, _)| what.contains(words));
        at.map(|at| state.faults.remove(at).1)
    };
    if matches!(fault, Some(Fault::CutWithin)) {
        reader.take(length / 2).read_to_end(&mut heard.body)?;
        return stream.shutdown(std::net::Shutdown::Both);
    }
    if matches!(fault, Some(Fault::Silence)) {
        state.lock().expect("no test thread died").heard.push(heard.clone());
        return reader.read_to_end(&mut heard.body).map(|_| ());
    }
    heard.body = vec![0; usize::try_from(length).expect("it fits")];
    reader.read_exact(&mut heard.body)?;
    let mut state = state.lock().expect("no test thread died");
    state.heard.push(heard.clone());
    if matches!(fault, Some(Fault::Meanwhile)) {
        state.change_all();
    }
    let (status, headers, body) = match fault {
        Some(Fault::CutBefore) => return stream.shutdown(std::net::Shutdown::Both),
        Some(Fault::Answer(status, header, body)) => {
            (status, format!("{header}\r\n"), body.as_bytes().to_vec())
        }
        Some(Fault::DoneBut(status)) => {
            answers::answer(&mut state, &heard);
            (status, String::new(), Vec::new())
        }
        _ => answers::answer(&mut state, &heard),
    };
    drop(state);
    if matches!(fault, Some(Fault::CutAfter)) {
        return stream.shutdown(std::net::Shutdown::Both);
    }
    let headers = if headers == "\r\n" { String::new() } else { headers };
    let length = body.len();
    let mut out = stream;
    write!(out, "HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n")?;
    out.write_all(&body)
}
