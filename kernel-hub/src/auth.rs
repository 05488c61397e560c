//! Tokens: who somebody is, and what they may.
//!
//! Owns: the file `DIR/tokens`, which has digests alone, and the comparison, which takes the same time whatever was sent.
//! Never: keeps, prints or logs a token; `create` returns it once.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use ring::rand::{SecureRandom as _, SystemRandom};
use subtle::ConstantTimeEq as _;

use crate::name::{RepoId, Sha256, hex};
use crate::store::disk::{self, DiskError, Temporary};
use crate::store::objects::sha256;
use crate::wire::route::Access;

/// What tokens begin with, so that a search for leaked secrets finds them.
pub(crate) const PREFIX: &str = "kwhub_";

/// Access of requests without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Anonymous {
    /// No access.
    None,
    /// Read access.
    Read,
    /// Read and write access; only on a loopback address.
    Write,
}

impl Anonymous {
    fn may(self, access: Access) -> bool {
        match access {
            Access::Read => self != Self::None,
            Access::Write => self == Self::Write,
        }
    }
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Whose it is, for logs and commits.
    pub name: String,
    /// What it is good for.
    pub access: Access,
    /// Where; everywhere when empty.
    pub orgs: Vec<String>,
    digest: Sha256,
}

/// Why there is no such token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name is taken, or the one to remove is not there.
    #[error("{0}")]
    Name(String),
    /// The file is not what this program writes.
    #[error("{}:{line}: not a valid token entry; remove the line or the file", .path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// The machine has no randomness.
    #[error("failed to get random bytes from the system")]
    Random,
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requester {
    /// Somebody without a token.
    Anyone,
    /// The owner of a token.
    Known(Token),
}

impl Requester {
    /// For logs and commits.
    pub fn name(&self) -> &str {
        match self {
            Self::Anyone => "anonymous",
            Self::Known(token) => &token.name,
        }
    }

    /// Whether they may do that with a kernel of this organization; with `None`, with any.
    pub fn may(&self, access: Access, org: Option<&str>, anonymous: Anonymous) -> bool {
        let by_token = match self {
            Self::Anyone => false,
            Self::Known(token) => {
                let there =
                    org.is_none_or(|org| token.orgs.is_empty() || token.orgs.iter().any(|own| own == org));
                token.access >= access && there
            }
        };
        by_token || anonymous.may(access)
    }
}

/// The tokens of a hub, read again when the file has changed.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    read: RwLock<(Option<disk::Stamp>, Vec<Token>)>,
}

impl Tokens {
    /// Those of the hub in `root`.
    pub fn in_folder(root: &Path) -> Self {
        Self { path: root.join("tokens"), read: RwLock::new((None, Vec::new())) }
    }

    /// All of them.
    pub fn list(&self) -> Result<Vec<Token>, TokenError> {
        let stamp = disk::stamp(&self.path)?;
        {
            let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
            if read.0 == stamp {
                return Ok(read.1.clone());
            }
        }
        let text = disk::read(&self.path)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut tokens = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let damaged = || TokenError::Damaged { path: self.path.clone(), line: index + 1 };
            tokens.push(parse(line).ok_or_else(damaged)?);
        }
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = (stamp, tokens.clone());
        Ok(tokens)
    }

    /// Whose token was sent; `None` for one that nobody has.
    pub fn owner(&self, sent: &str) -> Result<Option<Token>, TokenError> {
        let digest = sha256(sent.as_bytes());
        let mut found = None;
        // Every line is compared, to the end.
        for token in self.list()? {
            if bool::from(token.digest.as_str().as_bytes().ct_eq(digest.as_str().as_bytes())) {
                found = Some(token);
            }
        }
        Ok(found)
    }

    /// Makes a token and returns it; only its digest is kept.
    pub fn create(&self, name: &str, access: Access, orgs: Vec<String>) -> Result<String, TokenError> {
        if RepoId::new(name, "x").is_err() {
            return Err(TokenError::Name(format!(
                "`{}` is not a valid name; use letters, digits, `-`, `_` and `.`",
                name.escape_default()
            )));
        }
        if let Some(org) = orgs.iter().find(|org| RepoId::new(org, "x").is_err()) {
            return Err(TokenError::Name(format!("`{}` is not a valid organization", org.escape_default())));
        }
        let _alone = self.alone()?;
        let mut tokens = self.list()?;
        if tokens.iter().any(|token| token.name == name) {
            return Err(TokenError::Name(format!(
                "a token `{name}` already exists; revoke it, or choose another name"
            )));
        }
        let mut bytes = [0_u8; 24];
        SystemRandom::new().fill(&mut bytes).map_err(|_| TokenError::Random)?;
        let secret = format!("{PREFIX}{}", hex(&bytes));
        tokens.push(Token { name: name.to_owned(), access, orgs, digest: sha256(secret.as_bytes()) });
        self.write(&tokens)?;
        Ok(secret)
    }

    /// Forgets a token; a server that runs refuses it from the next request on.
    pub fn revoke(&self, name: &str) -> Result<(), TokenError> {
        let absent = || TokenError::Name(format!("token `{}` not found", name.escape_default()));
        if disk::stamp(&self.path)?.is_none() {
            return Err(absent());
        }
        let _alone = self.alone()?;
        let mut tokens = self.list()?;
        let before = tokens.len();
        tokens.retain(|token| token.name != name);
        if tokens.len() == before {
            return Err(absent());
        }
        self.write(&tokens)
    }

    /// Who holds this changes the file, alone: two that read it, and then write it, would lose one of their tokens.
    fn alone(&self) -> Result<File, TokenError> {
        disk::create_folder(self.path.parent().unwrap_or(Path::new(".")))?;
        Ok(disk::lock_in_turn(&self.path.with_extension("lock"))?)
    }

    fn write(&self, tokens: &[Token]) -> Result<(), TokenError> {
        let text: String = tokens.iter().map(line).collect();
        let mut temporary = Temporary::named(&self.path.with_extension("new"))?;
        temporary.write(text.as_bytes())?;
        temporary.keep_as(&self.path)?;
        Ok(())
    }
}

fn line(token: &Token) -> String {
    let access = word(token.access);
    let orgs = if token.orgs.is_empty() { "*".to_owned() } else { token.orgs.join(",") };
    format!("{} {access} {orgs} {}\n", token.digest, token.name)
}

fn parse(line: &str) -> Option<Token> {
    let words: Vec<&str> = line.split(' ').collect();
    let [digest, access, orgs, name] = words.as_slice() else { return None };
    let access = match *access {
        "read" => Access::Read,
        "write" => Access::Write,
        _ => return None,
    };
    let orgs = if *orgs == "*" { Vec::new() } else { orgs.split(',').map(str::to_owned).collect() };
    Some(Token { name: (*name).to_owned(), access, orgs, digest: digest.parse().ok()? })
}

/// `read` or `write`.
pub fn word(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_until_it_is_revoked_and_never_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::in_folder(dir.path());
        let secret = tokens.create("ci", Access::Write, vec!["me".to_owned()]).unwrap();
        assert!(tokens.create("ci", Access::Read, Vec::new()).is_err());
        assert!(tokens.create("a b", Access::Read, Vec::new()).is_err());
        let text = String::from_utf8(disk::read(&dir.path().join("tokens")).unwrap().unwrap()).unwrap();
        assert!(!text.contains(&secret) && !text.contains(&secret[PREFIX.len()..]));
        // Another process reads what this one wrote.
        let server = Tokens::in_folder(dir.path());
        let owner = server.owner(&secret).unwrap().unwrap();
        assert_eq!((owner.name.as_str(), owner.access), ("ci", Access::Write));
        assert_eq!(server.owner("kwhub_0").unwrap(), None);
        assert_eq!(server.owner("").unwrap(), None);
        tokens.revoke("ci").unwrap();
        assert_eq!(server.owner(&secret).unwrap(), None);
        assert!(tokens.revoke("ci").is_err());
    }

    #[test]
    fn tokens_that_are_made_at_the_same_time_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for number in 0..16 {
                // Each as a process of its own would.
                let dir = &dir;
                scope.spawn(move || {
                    Tokens::in_folder(dir.path())
                        .create(&number.to_string(), Access::Read, Vec::new())
                        .unwrap()
                });
            }
        });
        assert_eq!(Tokens::in_folder(dir.path()).list().unwrap().len(), 16);
        assert!(!dir.path().join("tokens.new").exists());
    }

    #[test]
    fn scopes_add_up_and_never_leak_into_other_organizations() {
        let token = |access, orgs: &[&str]| {
            let orgs = orgs.iter().map(|org| (*org).to_owned()).collect();
            Requester::Known(Token { name: "x".to_owned(), access, orgs, digest: sha256(b"") })
        };
        let writer = token(Access::Write, &["me"]);
        assert!(writer.may(Access::Write, Some("me"), Anonymous::None));
        assert!(!writer.may(Access::Write, Some("you"), Anonymous::Read));
        assert!(!writer.may(Access::Read, Some("you"), Anonymous::None));
        assert!(writer.may(Access::Read, Some("you"), Anonymous::Read));
        let reader = token(Access::Read, &[]);
        assert!(reader.may(Access::Read, Some("you"), Anonymous::None));
        assert!(!reader.may(Access::Write, Some("you"), Anonymous::Read));
        assert!(!Requester::Anyone.may(Access::Read, None, Anonymous::None));
        assert!(!Requester::Anyone.may(Access::Write, None, Anonymous::Read));
        assert!(Requester::Anyone.may(Access::Write, None, Anonymous::Write));
    }

    #[test]
    fn a_line_that_is_no_token_is_told() {
        let dir = tempfile::tempdir().unwrap();
        disk::write(dir.path(), &dir.path().join("tokens"), b"hunter2\n").unwrap();
        let told = Tokens::in_folder(dir.path()).list().unwrap_err().to_string();
        assert!(told.contains("tokens:1") && !told.contains("hunter2"), "{told}");
    }
}
