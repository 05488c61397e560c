//! Uploads by xet, as `hf_xet` does them: a token, xorbs, a shard; what is damaged or foreign is refused.
//!
//! The formats are those of github.com/huggingface/xet-core; `clients` has the real client.

use kernel_hub::wire::xet::{MerkleHash, name_of};
use serde_json::json;

use super::server::{Answer, Home, Server, sha256};

/// A xorb of these chunks, not compressed.
fn xorb(chunks: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        let length = u32::try_from(chunk.len()).unwrap().to_le_bytes();
        bytes.extend([0, length[0], length[1], length[2], 0, length[0], length[1], length[2]]);
        bytes.extend_from_slice(chunk);
    }
    bytes
}

/// The 32 bytes of a hash, as they are in a shard.
fn raw(text: &str) -> Vec<u8> {
    let bytes: Vec<u8> =
        (0..64).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect();
    bytes.chunks(8).flat_map(|word| word.iter().rev().copied()).collect()
}

fn entry(hash: &[u8], numbers: [u32; 4]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    hash.iter().copied().chain(numbers).collect()
}

/// A shard of one file: the digest of its content, and chunks of xorbs.
fn shard(digest: &str, terms: &[(&MerkleHash, u32, u32, usize)]) -> Vec<u8> {
    let tag = [
        &b"HFRepoMetaData\0"[..],
        &[85, 105, 103, 69, 106, 123, 129, 87, 131, 165, 189, 217, 92, 205, 209, 74, 169],
    ];
    let mut bytes = entry(&tag.concat(), [2, 0, 0, 0]);
    let count = u32::try_from(terms.len()).unwrap();
    bytes.extend(entry(&[7; 32], [3 << 30, count, 0, 0]));
    for (xorb, start, end, length) in terms {
        bytes.extend(entry(&raw(&xorb.to_string()), [0, u32::try_from(*length).unwrap(), *start, *end]));
    }
    terms.iter().for_each(|_| bytes.extend(entry(&[9; 32], [0; 4])));
    bytes.extend(entry(&raw(digest), [0; 4]));
    bytes.extend(entry(&[0xff; 32], [0; 4]));
    bytes.extend(entry(&[0xff; 32], [0; 4]));
    bytes
}

struct Upload<'a> {
    server: &'a Server,
    url: String,
    token: String,
}

impl Upload<'_> {
    fn begin<'a>(server: &'a Server, home: &Home, repo: &str) -> Upload<'a> {
        let path = format!("/api/kernels/{repo}/xet-write-token/main");
        let answer = server.ask("GET", &path, &[], Some(&home.token), "");
        answer.is(200);
        assert_eq!(answer.header("x-xet-access-token"), answer.json()["accessToken"]);
        assert_eq!(answer.header("x-xet-cas-url"), answer.json()["casUrl"]);
        assert_eq!(answer.header("x-xet-token-expiration"), answer.json()["exp"].to_string());
        let text = |key: &str| answer.json()[key].as_str().unwrap().to_owned();
        Upload { server, url: text("casUrl"), token: text("accessToken") }
    }

    fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.server.ask("POST", &format!("{}{path}", self.url), &[], Some(&self.token), body)
    }

    fn xorb(&self, name: &MerkleHash, body: &[u8]) -> Answer {
        self.post(&format!("/v1/xorbs/default/{name}"), body)
    }
}

fn create(server: &Server, name: &str) {
    server
        .post("/api/repos/create", &json!({ "name": name, "organization": "me", "type": "kernel" }))
        .is(200);
}

#[test]
fn a_file_is_made_of_chunks_and_committed() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let upload = Upload::begin(&server, &home, "me/k");
    let (first, second) = (xorb(&[b"hello", b", ", b"world"]), xorb(&[b"!"]));
    let (one, two) = (name_of(&mut first.as_slice()).unwrap(), name_of(&mut second.as_slice()).unwrap());
    upload.xorb(&one, &first).is(200);
    // Again, as after an answer that was lost; and with a footer, as older clients send it.
    assert_eq!(upload.xorb(&one, &first).json(), json!({ "was_inserted": true }));
    upload.xorb(&two, &[&second[..], b"XETBLOB and more"].concat()).is(200);
    let content = b"hello, world!hello";
    let digest = sha256(content);
    upload.post("/v2/shards", b"x").is(404);
    let file = shard(&digest, &[(&one, 0, 3, 12), (&two, 0, 1, 1), (&one, 0, 1, 5)]);
    assert_eq!(upload.post("/v1/shards", &file).json(), json!({ "result": 1 }));
    upload.post("/v1/shards", &file).is(200);
    let line = json!({ "path": "x.so", "algo": "sha256", "oid": digest, "size": content.len() });
    server.commit(&[json!({ "key": "lfsFile", "value": line })]).is(200);
    let got = server.get("/kernels/me/k/resolve/v1/x.so");
    assert_eq!(got.body, content);
    // Downloads are plain ones: a client that was told of xet would ask for more than this hub has.
    assert_eq!(got.header("x-xet-hash"), "");
    let token = Some(home.token.as_str());
    server
        .ask("GET", "/api/kernels/me/k/xet-read-token/v1", &[], token, "")
        .refused(404, "does not support xet");
    // What reports of the client need: an answer, and no failed token in the metrics.
    server.ask("POST", "/v1/telemetry", &[], Some(&upload.token), "{}").is(200);
    assert!(String::from_utf8_lossy(&server.get("/metrics").body).contains("wrong_tokens_total 0\n"));
}

#[test]
fn nothing_is_acknowledged_that_is_not_what_it_was_called() {
    let home = Home::new();
    let server = home.serve(&["--file-bytes", "100"]).with_kernel();
    create(&server, "other");
    let upload = Upload::begin(&server, &home, "me/k");
    let good = xorb(&[b"hello", b"world"]);
    let name = name_of(&mut good.as_slice()).unwrap();
    let mut damaged = good.clone();
    damaged[9] ^= 1;
    upload.xorb(&name, &damaged).refused(400, "hash mismatch");
    upload.xorb(&name, &good[..good.len() - 1]).refused(400, "ends within");
    upload.xorb(&name, b"").refused(400, "no chunk");
    let digest = sha256(b"helloworld");
    let file = |digest: &str, start, end, length| shard(digest, &[(&name, start, end, length)]);
    upload.post("/v1/shards", &file(&digest, 0, 2, 10)).refused(400, "was not sent");
    upload.xorb(&name, &good).is(200);
    upload.post("/v1/shards", b"").refused(400, "ends early");
    upload.post("/v1/shards", &[0; 96]).refused(400, "not a shard");
    let whole = file(&digest, 0, 2, 10);
    upload.post("/v1/shards", &whole[..150]).refused(400, "ends early");
    upload.post("/v1/shards", &file(&digest, 0, 3, 10)).refused(400, "missing from");
    upload.post("/v1/shards", &file(&digest, 2, 2, 10)).refused(400, "no chunks");
    upload.post("/v1/shards", &file(&digest, 0, 1, 5)).refused(400, "hash mismatch");
    upload.post("/v1/shards", &file(&digest, 0, 2, 9)).refused(400, "announced");
    upload.post("/v1/shards", &file(&digest, 0, 2, 101)).refused(400, "up to 100 bytes");
    let line = json!({ "path": "x.so", "algo": "sha256", "oid": digest, "size": 10 });
    server.commit(&[json!({ "key": "lfsFile", "value": line })]).refused(400, "was not sent");

    // A xorb of another kernel or another upload is not there, even for those who know its name.
    let thief = Upload { url: upload.url.clone(), ..Upload::begin(&server, &home, "me/other") };
    thief.post("/v1/shards", &whole).refused(400, "was not sent");
    Upload::begin(&server, &home, "me/k").post("/v1/shards", &whole).refused(400, "was not sent");
    upload.post("/v1/shards", &whole).is(200);
}

#[test]
fn tokens_for_xet_are_signed_and_for_one_kernel() {
    let home = Home::new();
    let reader = home.token(&["reader", "--scope", "read"]);
    let server = home.serve(&[]).with_kernel();
    let path = "/api/kernels/me/k/xet-write-token/main";
    server.ask("GET", path, &[], Some(&reader), "").refused(403, "may not write");
    server.ask("GET", path, &[], None, "").refused(401, "scope `write`");
    let token = Some(home.token.as_str());
    server.ask("GET", &format!("{path}?create_pr=1"), &[], token, "").refused(400, "no pull requests");
    server.ask("GET", "/api/kernels/me/gone/xet-write-token/main", &[], token, "").is(404);
    let upload = Upload::begin(&server, &home, "me/k");
    let address = format!("{}/v1/shards", upload.url);
    let altered = |from: &str, to: &str| upload.token.replacen(from, to, 1);
    for token in [altered("me/k", "me/j"), altered(":1", ":9"), altered("kwxet", "x"), home.token.clone()] {
        server.ask("POST", &address, &[], Some(&token), "x").refused(401, "not from this hub");
    }
    server.ask("POST", &address, &[], None, "x").refused(401, "not from this hub");
    // Such a token opens nothing else.
    server.ask("GET", "/api/whoami-v2", &[], Some(&upload.token), "").is(401);
    server.ask("POST", "/xet/..%2f..%2fx/v1/shards", &[], Some(&upload.token), "x").refused(400, "session");
}
