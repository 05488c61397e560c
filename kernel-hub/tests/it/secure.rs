//! TLS: the same answers, and who does not trust the certificate hears nothing. The files in tls/ are of an authority
//! that was made for this test and thrown away.

use std::process::{Command, Stdio};
use std::sync::Arc;

use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::server::{Home, PROGRAM};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls");

#[test]
fn a_hub_with_a_certificate_is_reached_by_https_alone() {
    let home = Home::new();
    let mut child = Command::new(PROGRAM)
        .arg(home.path())
        .args(["--bind", "127.0.0.1:0", "--log", "none"])
        .args([
            "--tls-certificate",
            &format!("{FOLDER}/chain.pem"),
            "--tls-key",
            &format!("{FOLDER}/key.pem"),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the hub starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("a line");
    let url = line.trim_end().to_owned();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let authority = std::fs::read(format!("{FOLDER}/ca.pem")).expect("a file");
    let authority = Certificate::from_pem(&authority).expect("a certificate").to_owned();
    let trusting = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(vec![authority]))).build();
    let agent = ureq::Agent::config_builder().proxy(None).tls_config(trusting).build().new_agent();
    let send = |method: &str, path: &str, body: Vec<u8>| {
        let uri = if path.starts_with("https") { path.to_owned() } else { format!("{url}{path}") };
        let request = ureq::http::Request::builder().method(method).uri(uri);
        let request = request.header("Authorization", format!("Bearer {}", home.token)).body(body);
        let mut answer = agent.run(request.expect("a request")).expect("an answer");
        answer.body_mut().with_config().limit(1 << 30).read_to_vec().expect("a body")
    };
    let json = |value: serde_json::Value| value.to_string().into_bytes();
    send(
        "POST",
        "/api/repos/create",
        json(serde_json::json!({ "name": "k", "organization": "me", "type": "kernel" })),
    );
    // Larger than what is mapped for plain connections: with TLS it is read.
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let object = serde_json::json!({ "oid": super::server::sha256(&content), "size": content.len() });
    let batch = serde_json::json!({ "operation": "upload", "transfers": ["basic"], "objects": [object] });
    let answer = send("POST", "/kernels/me/k.git/info/lfs/objects/batch", json(batch));
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
    let href = answer["objects"][0]["actions"]["upload"]["href"].as_str().expect("an address");
    assert!(href.starts_with(&url), "{href}");
    send("PUT", href, content.clone());
    let mut line = object;
    line["path"] = "x.so".into();
    line["algo"] = "sha256".into();
    let lines = super::server::ndjson(&[serde_json::json!({ "key": "lfsFile", "value": line })]);
    send("POST", "/api/kernels/me/k/commit/main", lines.into_bytes());
    assert!(send("GET", "/kernels/me/k/resolve/main/x.so", Vec::new()) == content);

    let strict = ureq::Agent::config_builder().proxy(None).build().new_agent();
    assert!(strict.get(format!("{url}/healthz")).call().is_err());
    assert!(strict.get(format!("{}/healthz", url.replacen("https", "http", 1))).call().is_err());
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");

    let swapped = Command::new(PROGRAM)
        .arg(home.path())
        .args(["--tls-certificate", &format!("{FOLDER}/key.pem"), "--tls-key", &format!("{FOLDER}/key.pem")])
        .output()
        .expect("it starts");
    assert!(!swapped.status.success() && String::from_utf8_lossy(&swapped.stderr).contains("error: "));
}
