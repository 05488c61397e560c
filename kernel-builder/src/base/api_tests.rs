//! What [`super`] promises, against a server on the loopback interface that follows a script.
//!
//! Owns: the script. Never: part of the program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;

use super::*;

/// Answers one connection after the other from a script; remembers what it was asked.
struct Scripted {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// An empty answer closes the connection without one.
    fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&heard);
        std::thread::spawn(move || {
            for (stream, answer) in listener.incoming().flatten().zip(answers) {
                let text = hear(&stream);
                shared.lock().unwrap().push(text);
                // A client that hung up is part of some tests.
                let _gone = (&stream).write_all(answer.as_bytes());
            }
        });
        Self { port, heard }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn hear(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) <= 2 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        text += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap_or_default();
    text + "\n" + &String::from_utf8_lossy(&body)
}

fn says(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn api() -> Api {
    let pause = Duration::from_millis(1);
    Api::new(Patience { attempts: 3, pause, silence: Duration::from_secs(10) })
}

fn ask(request: Request) -> Result<Answer, HttpError> {
    api().ask(&request, &Progress::hidden())
}

#[test]
fn a_token_goes_to_its_own_server_and_nowhere_else() {
    let other = Scripted::start(vec![says(200, "", "storage")]);
    let moved = format!("Location: {}\r\n", other.url("/signed?key=1"));
    let hub = Scripted::start(vec![says(307, "Location: /renamed\r\n", ""), says(307, &moved, "")]);
    let credential = Credential::new("hf_secret", &hub.url("")).unwrap();
    let put = Request::put(hub.url("/file"), Body::Bytes(Arc::new(b"content".to_vec())));
    let answer = ask(put.header("Authorization", "Basic x").with(Some(&credential))).unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"storage".as_slice()));
    let (own, foreign) = (hub.heard(), other.heard());
    assert!(
        own.iter().all(|text| text.contains("Bearer hf_secret") && text.ends_with("\ncontent")),
        "{own:?}"
    );
    let low = foreign[0].to_lowercase();
    assert!(low.starts_with("put /signed?key=1") && low.ends_with("\ncontent"), "{low}");
    assert!(!low.contains("authorization"), "{low}");
    // Another port of the same host is another server, and so is the same one without encryption.
    for url in [other.url("/"), hub.url("/").replace("http:", "https:")] {
        assert_eq!(credential.header(&url), None, "{url}");
    }
}

#[test]
fn a_token_is_not_shown() {
    let credential = Credential::new("hf_secret", "https://hub.example").unwrap();
    let request = Request::get("https://hub.example/x").with(Some(&credential));
    let shown = format!("{credential:?} {request:?}");
    assert!(!shown.contains("hf_secret") && shown.contains("https://hub.example"), "{shown}");
    assert_eq!(credential.scrub("bad token hf_secret!"), "bad token ***!");
    for bad in ["", "two words", "line\nbreak", "ü"] {
        assert!(Credential::new(bad, "https://hub.example").is_none(), "{bad:?}");
    }
    assert!(Credential::new("hf_secret", "ftp://hub.example").is_none());
}

#[test]
fn what_passes_is_asked_again_and_what_does_not_is_not() {
    let server = Scripted::start(vec![
        says(429, "Retry-After: 0\r\n", ""),
        String::new(),
        says(404, "X-Error-Code: RepoNotFound\r\n", "no"),
    ]);
    let answer = ask(Request::get(server.url("/"))).unwrap();
    assert_eq!((answer.status, answer.header("x-error-code")), (404, Some("RepoNotFound")));
    assert_eq!(server.heard().len(), 3);
    let server = Scripted::start(vec![says(503, "", "a"), says(503, "", "b"), says(503, "", "c")]);
    assert_eq!(ask(Request::get(server.url("/"))).unwrap().body, b"c");
}

#[test]
fn what_is_to_be_done_once_is_sent_again_only_when_it_was_not_heard() {
    let once = |server: &Scripted| ask(Request::post(server.url("/"), Body::None).once());
    let server = Scripted::start(vec![says(503, "", ""), says(200, "", "")]);
    assert_eq!(once(&server).unwrap().status, 200);
    let server = Scripted::start(vec![says(500, "", ""), says(200, "", "")]);
    assert_eq!(once(&server).unwrap().status, 500);
    let server = Scripted::start(vec![String::new(), says(200, "", "")]);
    assert!(matches!(once(&server), Err(HttpError::Connection { attempts: 1, .. })));
    assert_eq!(server.heard().len(), 1);
}

#[test]
fn a_long_pause_is_not_waited_for() {
    let server = Scripted::start(vec![says(429, "RateLimit: \"api\";r=0;t=3000\r\n", "")]);
    let answer = ask(Request::get(server.url("/"))).unwrap();
    assert_eq!((answer.status, answer.wait()), (429, Some(Duration::from_secs(3000))));
}

#[test]
fn a_part_of_a_file_is_sent_with_its_length_and_counted_once() {
    let folder = files::scratch().unwrap();
    let path = folder.path().join("f");
    files::write(&path, "0123456789").unwrap();
    let server = Scripted::start(vec![says(500, "", ""), says(200, "", "")]);
    let put = Request::put(server.url("/"), Body::File { path, start: 3, length: 4 });
    assert_eq!(ask(put).unwrap().status, 200);
    for text in server.heard() {
        let low = text.to_lowercase();
        assert!(low.contains("content-length: 4\r") && !low.contains("chunked"), "{text}");
        assert!(text.ends_with("\n3456"), "{text}");
    }
}

#[test]
fn addresses_are_compared_by_scheme_host_and_port() {
    assert_eq!(origin("https://Hub.example/a?b"), Some("https://hub.example:443".to_owned()));
    assert_eq!(origin("http://hub.example:8080"), Some("http://hub.example:8080".to_owned()));
    assert_eq!(origin("hub.example"), None);
    assert_eq!(resolve("http://h:1/a/b", "/c?d").as_deref(), Some("http://h:1/c?d"));
    assert_eq!(resolve("https://h", "//i/c").as_deref(), Some("https://i/c"));
    assert_eq!(resolve("https://h/a", "c"), None);
}
