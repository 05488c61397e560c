//! Large files that clients with `hf_xet` send: chunks in xorbs first, then a shard that says which of them are a file.
//!
//! Owns: the folder of a session under `tmp/`; xorbs stay there until the session is idle.
//! Never: makes a file known before its content has the digest that the shard names; a xorb is not part of the hub.

use std::fs::File;
use std::io::{BufReader, Seek as _};
use std::path::PathBuf;
use std::time::Duration;

use crate::name::RepoId;
use crate::wire::xet::{self, Chunk, MerkleHash, Shard, ShardFile};

use super::disk::{self, Temporary};
use super::{Store, StoreError, objects};

/// Begins the names of the folders of sessions.
const FOLDER: &str = "xet-";
/// Buffer of a xorb that is read.
const BUFFER: usize = 256 * 1024;

/// One upload of one client to one kernel.
#[derive(Debug, Clone)]
pub struct Session {
    repo: RepoId,
    folder: PathBuf,
}

impl Store {
    /// The session of this name. Two kernels never share one: what was sent to another kernel cannot be named here.
    pub fn session(&self, repo: &RepoId, name: &str) -> Result<Session, StoreError> {
        self.must_have(repo)?;
        let digest = objects::sha256(format!("{repo}\n{name}").as_bytes());
        let folder = self.temporaries().join(format!("{FOLDER}{digest}"));
        Ok(Session { repo: repo.clone(), folder })
    }

    /// Keeps a xorb that was received, if its content has this name.
    pub fn put_xorb(
        &self,
        session: &Session,
        name: &MerkleHash,
        mut received: Temporary,
    ) -> Result<(), StoreError> {
        let found = {
            let file = received.rewound()?;
            xet::name_of(&mut BufReader::with_capacity(BUFFER, file))?
        };
        if found != *name {
            tracing::warn!(target: "storage", "{}: digest mismatch: the upload announced xorb {name}, got {found}", session.repo);
            return Err(StoreError::Refused(format!(
                "hash mismatch for a xorb: the upload announced {name}, got {found}"
            )));
        }
        disk::folder(&session.folder)?;
        received.keep_unsynced_as(&session.folder.join(name.to_string()))?;
        tracing::debug!(target: "storage", "{}: xorb {name} received", session.repo);
        Ok(())
    }

    /// Makes the files of a shard. When this returns, their content is on the disk and can be in a commit of the kernel.
    pub fn put_shard(
        &self,
        session: &Session,
        received: &mut Temporary,
        most: u64,
    ) -> Result<(), StoreError> {
        let shard = BufReader::with_capacity(BUFFER, received.rewound()?);
        for file in Shard::new(shard)? {
            self.put_shard_file(session, &file?, most)?;
        }
        Ok(())
    }

    fn put_shard_file(&self, session: &Session, file: &ShardFile, most: u64) -> Result<(), StoreError> {
        let size: u64 = file.terms.iter().map(|term| term.length).sum();
        if size > most {
            return Err(StoreError::Refused(format!("this hub accepts files up to {most} bytes")));
        }
        if self.sent(&session.repo, &file.digest, &mut u64::MAX.clone())? == Some(size) {
            return Ok(());
        }
        let mut upload = self.receive(&session.repo, file.digest.clone(), size)?;
        let mut open: Option<Xorb> = None;
        for term in &file.terms {
            let mut xorb = match open.take().filter(|xorb| xorb.name == term.xorb) {
                Some(xorb) => xorb,
                None => Xorb::open(session, term.xorb)?,
            };
            xorb.seek(term.start)?;
            for _ in term.start..term.end {
                upload.write(&xorb.next()?)?;
            }
            open = Some(xorb);
        }
        self.finish(&session.repo, upload)
    }

    /// Removes sessions that nothing was sent to for this time.
    pub fn end_idle_sessions(&self, idle: Duration) -> Result<(), StoreError> {
        let temporaries = self.temporaries();
        for name in disk::names(&temporaries)?.iter().filter(|name| name.starts_with(FOLDER)) {
            let folder = temporaries.join(name);
            if disk::age(&folder)?.is_some_and(|age| age >= idle) {
                disk::discard_folder(&folder);
                tracing::debug!(target: "storage", "idle xet upload {name} removed");
            }
        }
        Ok(())
    }
}

/// A xorb that is read.
struct Xorb {
    name: MerkleHash,
    path: PathBuf,
    file: BufReader<File>,
    /// Where each chunk begins.
    starts: Vec<u64>,
}

impl Xorb {
    fn open(session: &Session, name: MerkleHash) -> Result<Self, StoreError> {
        let path = session.folder.join(name.to_string());
        let file = disk::open(&path)?.ok_or_else(|| {
            StoreError::Refused(format!("xorb {name} was not sent in this upload; restart the upload"))
        })?;
        let mut file = BufReader::with_capacity(BUFFER, file);
        let (mut starts, mut at) = (Vec::new(), 0);
        while let Some(chunk) = Chunk::next(&mut file)? {
            starts.push(at);
            let stored = i64::try_from(chunk.stored).unwrap_or_default();
            file.seek_relative(stored).map_err(disk::at(&path))?;
            at += (Chunk::HEAD + chunk.stored) as u64;
        }
        Ok(Self { name, path, file, starts })
    }

    fn seek(&mut self, chunk: usize) -> Result<(), StoreError> {
        let start = self.starts.get(chunk).copied().ok_or_else(|| self.no_chunk())?;
        let here = self.file.stream_position().map_err(disk::at(&self.path))?;
        let by = i64::try_from(start).unwrap_or_default() - i64::try_from(here).unwrap_or_default();
        Ok(self.file.seek_relative(by).map_err(disk::at(&self.path))?)
    }

    fn next(&mut self) -> Result<Vec<u8>, StoreError> {
        let chunk = Chunk::next(&mut self.file)?.ok_or_else(|| self.no_chunk())?;
        Ok(chunk.content(&mut self.file)?)
    }

    fn no_chunk(&self) -> StoreError {
        StoreError::Refused(format!("the shard names chunks that are missing from xorb {}", self.name))
    }
}
