//! What `publish` sends, held against what Hugging Face's own client sends for the same package.
//!
//! The snapshot is of huggingface_hub 2.4.0. Where a Python has that package (KERNELWRIGHT_PYTHON, else python3), it is
//! run again; `INSTA_UPDATE=always` then writes what it sends.

use std::path::Path;
use std::process::Command;

use super::fake_hub::{FakeHub, Heard, TOKEN};
use super::publishing_hub::{online, packaged};
use super::sandbox::finish;

/// A request in a line: what is asked, as what, by whom, and the content with its keys in their order.
fn line(heard: &Heard) -> String {
    let header = |name: &str| heard.headers.get(name).map_or("-", String::as_str).to_owned();
    let whose = if heard.headers.contains_key("authorization") { "token" } else { "nobody" };
    let content = match header("content-type").as_str() {
        "-" => format!("{} bytes", heard.body.len()),
        "application/x-ndjson" => heard.lines().iter().map(|line| format!("\n  {line}")).collect(),
        _ => format!("\n  {}", heard.json()),
    };
    // Commits have other names in every run.
    let content = content.split("c0ffee").enumerate().fold(String::new(), |text, (at, part)| {
        if at == 0 { part.to_owned() } else { format!("{}COMMIT{}", text.trim_end_matches('0'), &part[2..]) }
    });
    format!("{} ({}, {whose}): {content}\n", heard.what(), header("content-type"))
}

/// What changes something, in its order. The client asks whether the card is good; we have a test for that.
fn sent(hub: &FakeHub) -> String {
    let heard = hub.heard();
    heard.iter().filter(|one| one.method != "GET" && !one.path.contains("validate-yaml")).map(line).collect()
}

fn summary() -> String {
    format!("Publish fast-norm v1 with kernelwright {}", env!("CARGO_PKG_VERSION"))
}

#[test]
fn we_send_what_the_stock_client_sends() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.state().first = Some("build/torch-old/x.py");
    let words = ["publish", "fast-norm", "--to", "hf:me/fast-norm", "--private"];
    assert_eq!(finish(&mut online(&sandbox, &hub, &words)).code, 0);
    insta::assert_snapshot!("stock_requests", sent(&hub));
}

#[test]
fn the_stock_client_sends_what_is_written_down() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.state().first = Some("build/torch-old/x.py");
    let program = std::env::var("KERNELWRIGHT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let ask = "import huggingface_hub as h; assert h.__version__ == '2.4.0', h.__version__";
    let has = Command::new(&program).args(["-c", ask]).output();
    if !has.is_ok_and(|ended| ended.status.success()) {
        eprintln!("skipped: {program} has no huggingface_hub 2.4.0");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/hub/stock.py");
    let mut command = Command::new(&program);
    command.arg(script).arg(sandbox.path("work/fast-norm")).arg("me/fast-norm").arg(summary());
    command.env("HF_ENDPOINT", hub.url()).env("HF_TOKEN", TOKEN).env("HF_HOME", sandbox.path("hf"));
    command.env("HF_HUB_DISABLE_XET", "1").env_remove("HF_HUB_OFFLINE").env("NO_PROXY", "127.0.0.1");
    let ended = finish(&mut command);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    insta::assert_snapshot!("stock_requests", sent(&hub));
}
