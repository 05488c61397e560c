//! A hub in a folder of its own, on a free port, and what is asked of it.
//!
//! Owns: the process; it ends with the value. Never: judges an answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_kernelwright-hub");

/// A folder for hubs, with a token that may write.
pub(crate) struct Home {
    dir: TempDir,
    /// A token that may write everywhere.
    pub(crate) token: String,
}

/// A hub that runs.
pub(crate) struct Server {
    child: Child,
    /// `http://127.0.0.1:port`.
    pub(crate) url: String,
    token: String,
    agent: ureq::Agent,
}

/// An answer, whatever its status is.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: ureq::http::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let token = token(dir.path(), &["writer", "--scope", "write"]);
        Self { dir, token }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("hub")
    }

    pub(crate) fn token(&self, arguments: &[&str]) -> String {
        token(self.dir.path(), arguments)
    }

    /// Starts a hub on the folder, with more arguments; waits until it listens.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        let mut child = Command::new(PROGRAM)
            .arg(self.path())
            .args(["--bind", "127.0.0.1:0", "--log", "none"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the hub starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert!(!line.is_empty(), "the hub did not come up: {:?}", child.wait());
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
        let agent = config.timeout_global(Some(Duration::from_secs(120))).build().new_agent();
        Server { child, url: line.trim_end().to_owned(), token: self.token.clone(), agent }
    }
}

fn token(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(["token", "new"]).arg(dir.join("hub")).args(arguments).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

impl Server {
    /// Without any goodbye.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// The same, while others still ask it.
    pub(crate) fn kill_now(&self) {
        self.signal("-KILL");
    }

    /// Tells it to end.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill starts").success());
    }

    /// Its exit code, when it has ended.
    pub(crate) fn wait(mut self) -> Option<i32> {
        // The agent keeps idle connections open, and the hub waits for their ends.
        self.agent = ureq::Agent::new_with_defaults();
        self.child.wait().expect("it ends").code()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], None, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &[], Some(&self.token), body.to_string())
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        token: Option<&str>,
        body: impl AsRef<[u8]>,
    ) -> Answer {
        self.attempt(method, path, headers, token, body).expect("an answer")
    }

    /// `None` where no whole answer came.
    fn attempt(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        token: Option<&str>,
        body: impl AsRef<[u8]>,
    ) -> Option<Answer> {
        let uri = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.url) };
        let mut request = ureq::http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let body = body.as_ref();
        let answer = if body.is_empty() {
            self.agent.run(request.body(()).expect("a request"))
        } else {
            self.agent.run(request.body(body).expect("a request"))
        };
        let mut answer = answer.ok()?;
        let body = answer.body_mut().with_config().limit(1 << 30).read_to_vec().ok()?;
        Some(Answer { status: answer.status().as_u16(), headers: answer.headers().clone(), body })
    }

    /// Sends bytes as they are, and reads until the hub closes the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // A hub that has refused may close before all is written.
        let _refused_early = stream.write_all(bytes);
        let mut text = Vec::new();
        let _reset = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let address = self.url.strip_prefix("http://").expect("plain http");
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream
    }

    /// Makes `me/k` with a branch `v1`.
    pub(crate) fn with_kernel(self) -> Self {
        let body = json!({ "name": "k", "organization": "me", "type": "kernel" });
        self.post("/api/repos/create", &body).is(200);
        self.post("/api/kernels/me/k/branch/v1", &json!({})).is(200);
        self
    }

    /// Commits lines to v1 of `me/k`.
    pub(crate) fn commit(&self, lines: &[Value]) -> Answer {
        self.try_commit(lines).expect("an answer")
    }

    /// The same; `None` where no answer came.
    pub(crate) fn try_commit(&self, lines: &[Value]) -> Option<Answer> {
        self.attempt("POST", "/api/kernels/me/k/commit/v1", &[], Some(&self.token), ndjson(lines))
    }

    /// Sends a large file to `me/k`, and commits it to v1 as `path`.
    pub(crate) fn large(&self, path: &str, content: &[u8]) {
        let digest = sha256(content);
        let object = json!({ "oid": digest, "size": content.len() });
        let batch = json!({ "operation": "upload", "transfers": ["basic"], "objects": [object], "hash_algo": "sha256" });
        let answer = self.post("/kernels/me/k.git/info/lfs/objects/batch", &batch);
        answer.is(200);
        let answer = answer.json();
        if let Some(href) = answer["objects"][0]["actions"]["upload"]["href"].as_str() {
            self.ask("PUT", href, &[], None, content).is(200);
        }
        let file = json!({ "path": path, "algo": "sha256", "oid": digest, "size": content.len() });
        self.commit(&[json!({ "key": "lfsFile", "value": file })]).is(200);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to do.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn is(&self, status: u16) {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
    }

    /// Refused with this status, in these words.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, words: &str) {
        self.is(status);
        let text = String::from_utf8_lossy(&self.body);
        assert!(text.contains(words), "`{words}` is not in {text}");
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

/// A commit's body: a header, and these lines.
pub(crate) fn ndjson(lines: &[Value]) -> String {
    let header = json!({ "key": "header", "value": { "summary": "a change", "description": "" } });
    [header].iter().chain(lines).map(|line| format!("{line}\n")).collect()
}

/// A line that puts a small file.
pub(crate) fn file(path: &str, content: &str) -> Value {
    json!({ "key": "file", "value": { "path": path, "content": content, "encoding": "utf-8" } })
}

pub(crate) fn sha256(content: &[u8]) -> String {
    kernel_hub::store::objects::sha256(content).to_string()
}
