//! The method and the address of a request, read as a typed value.
//!
//! Owns: every address of the hub, and decoding `%xx` exactly once.
//! Never: says who may; what it returns has only checked names in it.

use crate::name::{BadName, FilePath, RefName, RepoId, Revision, Sha256, shown};

use super::xet::MerkleHash;

/// The longest address that is read.
const LONGEST: usize = 8192;
/// The first part of addresses whose answers let a client work offline later; see docs/hub.md.
const FOR_OFFLINE: &str = "/offline";

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The list of kernels, for people.
    Home,
    /// One kernel, for people.
    Page(RepoId),
    /// Counters, for Prometheus.
    Metrics,
    /// Whether the server answers.
    Health,
    /// Whose token this is.
    WhoAmI,
    /// An organization: whether its kernels are trusted.
    Organization(String),
    /// Kernels whose names have a word.
    List(Search),
    /// Makes a kernel.
    CreateRepo,
    /// Removes a kernel.
    DeleteRepo,
    /// Judges the front matter of a README; clients ask before they commit one.
    ValidateYaml,
    /// Something of one kernel.
    Kernel(RepoId, Ask),
    /// Sends the content of a file, with a signed address.
    Upload(Sha256, Vec<(String, String)>),
    /// Sends chunks of large files, in a session of this name.
    Xorb(String, MerkleHash),
    /// Makes files of chunks that were sent in a session.
    Shard(String),
    /// Reports of `hf_xet` on an upload; they are not read.
    Telemetry,
}

/// The query of `GET /api/kernels`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// Part of a name.
    pub text: Option<String>,
    /// The organization.
    pub author: Option<String>,
    /// The largest number of results.
    pub limit: Option<usize>,
}

/// A request about one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The description of the kernel, at a revision or at the head of main.
    Info(Option<Revision>),
    /// Branches and tags; with `true`, for a client that works offline later.
    Refs(bool),
    /// Files and folders.
    Tree {
        /// At what.
        revision: Revision,
        /// Below which folder.
        folder: Option<FilePath>,
        /// Whether folders are entered.
        recursive: bool,
        /// Whether the client works offline later.
        offline: bool,
    },
    /// The files and folders at some paths.
    PathsInfo(Revision),
    /// The history.
    Commits(Revision),
    /// The content of a file.
    Resolve(Revision, FilePath),
    /// Whether the token may read, or write.
    AuthCheck(Access),
    /// Makes a branch.
    CreateBranch(RefName),
    /// Removes a branch.
    DeleteBranch(RefName),
    /// Makes a tag.
    CreateTag(Revision),
    /// Removes a tag.
    DeleteTag(RefName),
    /// How to send files.
    Preupload(Revision),
    /// Changes a branch.
    Commit(RefName),
    /// Which large files must be sent, and where to.
    LfsBatch,
    /// The address and the token to send large files by xet.
    XetWrite,
    /// The same to read files by xet, which this hub does not support.
    XetRead,
}

/// The access of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Read.
    Read,
    /// Read and write.
    Write,
}

impl Route {
    /// Returns the access that this request needs.
    pub fn access(&self) -> Access {
        match self {
            Self::CreateRepo | Self::DeleteRepo | Self::Upload(..) | Self::Xorb(..) | Self::Shard(_) => {
                Access::Write
            }
            Self::Kernel(_, ask) => match ask {
                Ask::AuthCheck(access) => *access,
                Ask::CreateBranch(_)
                | Ask::DeleteBranch(_)
                | Ask::CreateTag(_)
                | Ask::DeleteTag(_)
                | Ask::Preupload(_)
                | Ask::Commit(_)
                | Ask::LfsBatch
                | Ask::XetWrite => Access::Write,
                _ => Access::Read,
            },
            _ => Access::Read,
        }
    }
}

/// Why an address asks nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRoute {
    /// It names nothing of this hub.
    #[error("there is nothing at this address")]
    Unknown,
    /// It could, but not with this method.
    #[error("this address does not support this method")]
    Method,
    /// A name in it is wrong.
    #[error("{0}")]
    Name(#[from] BadName),
    /// The address is not valid.
    #[error("the address is not valid: {0}")]
    Malformed(&'static str),
    /// It names a revision that cannot be.
    #[error("{0}")]
    Revision(BadName),
    /// It is to become a pull request.
    #[error("this hub has no pull requests; commit to a branch")]
    Review,
    /// It is about another type of repository.
    #[error("this hub supports kernels only")]
    OtherType,
}

/// Reads `target`, the path and query of a request.
///
/// # Errors
/// The request is unknown, or its address is not valid.
pub fn parse(method: &str, target: &str) -> Result<Route, BadRoute> {
    if target.len() > LONGEST {
        return Err(BadRoute::Malformed("it is too long"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let offline = path.strip_prefix(FOR_OFFLINE).filter(|rest| rest.starts_with('/'));
    let path =
        offline.unwrap_or(path).strip_prefix('/').ok_or(BadRoute::Malformed("it does not begin with /"))?;
    let parts =
        path.split('/').map(|part| decode(part, PlusMeaning::Kept)).collect::<Result<Vec<String>, _>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let read = matches!(method, "GET" | "HEAD");
    let only = |fits: bool, route: Route| if fits { Ok(route) } else { Err(BadRoute::Method) };
    match parts.as_slice() {
        [""] => only(read, Route::Home),
        ["metrics"] => only(read, Route::Metrics),
        ["healthz"] => only(read, Route::Health),
        ["lfs", digest] => only(method == "PUT", Route::Upload(digest.parse()?, form(query)?)),
        ["xet", session, "v1", "xorbs", "default", name] => {
            only(method == "POST", Route::Xorb(session_name(session)?, name.parse()?))
        }
        ["xet", session, "v1", "shards"] => only(method == "POST", Route::Shard(session_name(session)?)),
        ["v1", "telemetry"] => only(method == "POST", Route::Telemetry),
        // `hf_xet` asks for other versions and for chunks that are known; it does without them.
        ["xet", ..] => Err(BadRoute::Unknown),
        ["api", "whoami-v2"] => only(read, Route::WhoAmI),
        ["api", "organizations", org, "overview"] => {
            // Only the organization is checked here, as part of a kernel's name.
            RepoId::new(org, "x")?;
            only(read, Route::Organization((*org).to_owned()))
        }
        ["api", "kernels"] => only(read, Route::List(search(query)?)),
        ["api", "repos", "create"] => only(method == "POST", Route::CreateRepo),
        ["api", "repos", "delete"] => only(method == "DELETE", Route::DeleteRepo),
        ["api", "validate-yaml"] => only(method == "POST", Route::ValidateYaml),
        // The real hub answers for kernels at the addresses of models, too, and a part of the client reads there.
        ["api", kind @ ("kernels" | "models"), org, name, rest @ ..] => {
            let ask = ask(method, rest, query, offline.is_some())?;
            let route = Route::Kernel(RepoId::new(org, name)?, ask);
            if *kind == "models" && route.access() == Access::Write {
                Err(BadRoute::OtherType)
            } else {
                Ok(route)
            }
        }
        ["api", "datasets" | "spaces", ..] | ["datasets" | "spaces", ..] => Err(BadRoute::OtherType),
        ["kernels", rest @ ..] => of_kernel(method, rest),
        rest => of_kernel(method, rest),
    }
}

/// `org/name`, `org/name/resolve/...` and `org/name.git/info/lfs/...`.
fn of_kernel(method: &str, parts: &[&str]) -> Result<Route, BadRoute> {
    let read = matches!(method, "GET" | "HEAD");
    match parts {
        ["api", ..] => Err(BadRoute::Unknown),
        [org, name] => {
            let repo = RepoId::new(org, name)?;
            if read { Ok(Route::Page(repo)) } else { Err(BadRoute::Method) }
        }
        [org, name, "resolve", revision, path @ ..] => {
            let ask = Ask::Resolve(revision_of(revision)?, path.join("/").parse()?);
            let repo = RepoId::new(org, name)?;
            if read { Ok(Route::Kernel(repo, ask)) } else { Err(BadRoute::Method) }
        }
        [org, name, "info", "lfs", "objects", "batch"] => {
            let name = name.strip_suffix(".git").ok_or(BadRoute::Unknown)?;
            let repo = RepoId::new(org, name)?;
            if method == "POST" { Ok(Route::Kernel(repo, Ask::LfsBatch)) } else { Err(BadRoute::Method) }
        }
        _ => Err(BadRoute::Unknown),
    }
}

fn ask(method: &str, rest: &[&str], query: &str, offline: bool) -> Result<Ask, BadRoute> {
    let read = matches!(method, "GET" | "HEAD");
    let (fits, ask) = match rest {
        [] => (read, Ask::Info(None)),
        ["revision", revision] => (read, Ask::Info(Some(revision_of(revision)?))),
        ["refs"] => (read, Ask::Refs(offline)),
        ["tree", revision, folder @ ..] => {
            // A trailing slash, or nothing, is the root.
            let folder = folder.join("/");
            let folder = folder.strip_suffix('/').unwrap_or(&folder);
            let folder = if folder.is_empty() { None } else { Some(folder.parse()?) };
            let recursive = form(query)?.iter().any(|(key, value)| key == "recursive" && is_true(value));
            (read, Ask::Tree { revision: revision_of(revision)?, folder, recursive, offline })
        }
        ["paths-info", revision] => (method == "POST", Ask::PathsInfo(revision_of(revision)?)),
        ["commits", revision] => (read, Ask::Commits(revision_of(revision)?)),
        ["auth-check"] => (read, Ask::AuthCheck(Access::Read)),
        ["auth-check", "write"] => (read, Ask::AuthCheck(Access::Write)),
        ["branch", name] if method == "DELETE" => (true, Ask::DeleteBranch(branch(name)?)),
        ["branch", name] => (method == "POST", Ask::CreateBranch(branch(name)?)),
        ["tag", name] if method == "DELETE" => (true, Ask::DeleteTag(name.parse()?)),
        ["tag", revision] => (method == "POST", Ask::CreateTag(revision_of(revision)?)),
        ["preupload", revision] => {
            no_review(query)?;
            (method == "POST", Ask::Preupload(revision_of(revision)?))
        }
        ["commit", name] => {
            no_review(query)?;
            (method == "POST", Ask::Commit(branch(name).map_err(BadRoute::Revision)?))
        }
        ["xet-write-token", _] => {
            no_review(query)?;
            (read, Ask::XetWrite)
        }
        ["xet-read-token", _] => (read, Ask::XetRead),
        _ => return Err(BadRoute::Unknown),
    };
    if fits { Ok(ask) } else { Err(BadRoute::Method) }
}

/// Refuses what is to become a pull request.
fn no_review(query: &str) -> Result<(), BadRoute> {
    if form(query)?.iter().any(|(key, value)| key == "create_pr" && is_true(value)) {
        return Err(BadRoute::Review);
    }
    Ok(())
}

/// The name of a session is one of the hub's own.
fn session_name(text: &str) -> Result<String, BadName> {
    let fine = (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if fine { Ok(text.to_owned()) } else { Err(BadName(format!("{} is not a session", shown(text)))) }
}

/// A branch, also as `refs/heads/NAME`.
fn branch(text: &str) -> Result<RefName, BadName> {
    text.strip_prefix("refs/heads/").unwrap_or(text).parse()
}

/// A revision that cannot be is one that is not there.
fn revision_of(text: &str) -> Result<Revision, BadRoute> {
    text.parse().map_err(BadRoute::Revision)
}

fn search(query: &str) -> Result<Search, BadRoute> {
    let mut search = Search::default();
    for (key, value) in form(query)? {
        match key.as_str() {
            "search" => search.text = Some(value.to_lowercase()),
            "author" => search.author = Some(value),
            "limit" => {
                search.limit = Some(value.parse().map_err(|_| BadRoute::Malformed("limit is not a number"))?);
            }
            _ => {}
        }
    }
    Ok(search)
}

/// Whether an option is on.
pub fn is_true(value: &str) -> bool {
    matches!(value, "1" | "true" | "True")
}

/// A query as a whole.
fn form(text: &str) -> Result<Vec<(String, String)>, BadRoute> {
    pairs(text).collect()
}

/// `a=1&b=2`, decoded one by one: a query, or a body of `application/x-www-form-urlencoded`. An item is an error where
/// it is not encoded right.
pub fn pairs(text: &str) -> impl Iterator<Item = Result<(String, String), BadRoute>> {
    text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(key, PlusMeaning::Blank)?, decode(value, PlusMeaning::Blank)?))
    })
}

/// The meaning of `+`: a blank in forms, itself in paths.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlusMeaning {
    Kept,
    Blank,
}

fn decode(text: &str, plus: PlusMeaning) -> Result<String, BadRoute> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit(), digit());
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(BadRoute::Malformed("a % is not followed by two hexadecimal digits"));
                };
                u8::try_from(high * 16 + low).unwrap_or_default()
            }
            b'+' if plus == PlusMeaning::Blank => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| BadRoute::Malformed("it is not UTF-8"))
}

/// The address as it may stand in a log: without its query, where signatures are.
pub fn for_log(target: &str) -> String {
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let mut text: String = path.chars().take(512).collect();
    if path.chars().nth(512).is_some() {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn get(target: &str) -> Result<Route, BadRoute> {
        parse("GET", target)
    }

    fn kernel(ask: Ask) -> Result<Route, BadRoute> {
        Ok(Route::Kernel(RepoId::new("me", "k").unwrap(), ask))
    }

    fn named(name: &str) -> Revision {
        Revision::Named(name.parse().unwrap())
    }

    #[test]
    fn addresses_of_the_client_are_understood() {
        let folder = |text: &str| Some(text.parse().unwrap());
        let tree =
            |revision, folder, recursive| kernel(Ask::Tree { revision, folder, recursive, offline: false });
        assert_eq!(get("/api/kernels/me/k/refs"), kernel(Ask::Refs(false)));
        assert_eq!(get("/offline/api/kernels/me/k/refs?include_prs=1"), kernel(Ask::Refs(true)));
        assert_eq!(
            get("/api/kernels/me/k/tree/v1/build?recursive=false&expand=false"),
            tree(named("v1"), folder("build"), false)
        );
        assert_eq!(get("/api/kernels/me/k/tree/v1?recursive=true"), tree(named("v1"), None, true));
        assert_eq!(
            get("/api/kernels/me/k/tree/refs%2Fheads%2Fv1/build%2Fx?recursive=True"),
            tree(Revision::Branch("v1".parse().unwrap()), folder("build/x"), true)
        );
        assert_eq!(
            get("/kernels/me/k/resolve/v1/build/x%20y/__init__.py"),
            kernel(Ask::Resolve(named("v1"), "build/x y/__init__.py".parse().unwrap()))
        );
        assert_eq!(get("/me/k/resolve/main/README.md"), get("/kernels/me/k/resolve/main/README.md"));
        assert_eq!(parse("POST", "/kernels/me/k.git/info/lfs/objects/batch"), kernel(Ask::LfsBatch));
        assert_eq!(parse("POST", "/api/kernels/me/k/commit/v1"), kernel(Ask::Commit("v1".parse().unwrap())));
        assert_eq!(
            parse("DELETE", "/api/kernels/me/k/branch/a%2Fb"),
            kernel(Ask::DeleteBranch("a/b".parse().unwrap()))
        );
        assert_eq!(get("/me/k"), Ok(Route::Page(RepoId::new("me", "k").unwrap())));
        assert_eq!(get("/"), Ok(Route::Home));
        let wanted = Search { text: Some("norm x".to_owned()), author: None, limit: Some(5) };
        assert_eq!(get("/api/kernels?search=Norm+x&limit=5"), Ok(Route::List(wanted)));
    }

    #[test]
    fn no_address_leaves_its_kernel() {
        for path in [
            "../../etc/passwd",
            "%2e%2e/%2e%2e/x",
            "a/%2e%2e/b",
            "..%2f..%2fx",
            "%2Fetc%2Fpasswd",
            "a//b",
            "a%00b",
            "a%5Cb",
            "a\\b",
            "",
            "a/",
            "a%0Ab",
            "%",
            "%zz",
            "%c3%28",
            ".git/config",
        ] {
            assert!(get(&format!("/kernels/me/k/resolve/main/{path}")).is_err(), "{path}");
        }
        for repo in ["../k", "me/..", "%2e%2e/k", "me%2Fk/x", "me/k%00", "me/%2e%2e%2f"] {
            assert!(get(&format!("/api/kernels/{repo}/refs")).is_err(), "{repo}");
        }
        for revision in ["..", "refs%2Fheads%2F..%2Fx", "a%2F..%2Fb", "%2e%2e%2f", "refs%2Fpr%2F1"] {
            assert!(get(&format!("/api/kernels/me/k/tree/{revision}")).is_err(), "{revision}");
        }
        assert!(
            get("api/kernels").is_err() && get("http://x/y/z").is_err() && get(&"/x".repeat(9000)).is_err()
        );
        assert_eq!(parse("PUT", "/api/kernels/me/k/refs"), Err(BadRoute::Method));
        assert_eq!(get("/api/agent-harnesses"), Err(BadRoute::Unknown));
        assert_eq!(get("/api/datasets/me/k"), Err(BadRoute::OtherType));
        assert_eq!(get("/api/models/me/k/refs"), get("/api/kernels/me/k/refs"));
        assert_eq!(parse("POST", "/api/models/me/k/commit/main"), Err(BadRoute::OtherType));
        assert!(matches!(parse("POST", "/api/kernels/me/k/commit/v1?create_pr=1"), Err(BadRoute::Review)));
    }

    #[test]
    fn what_writes_needs_more() {
        let commit = parse("POST", "/api/kernels/me/k/commit/v1").unwrap();
        let refs = get("/api/kernels/me/k/refs").unwrap();
        assert_eq!((commit.access(), refs.access()), (Access::Write, Access::Read));
    }

    #[test]
    fn a_log_has_no_signature() {
        assert_eq!(for_log("/lfs/ab?signature=secret"), "/lfs/ab");
    }

    proptest! {
        #[test]
        fn any_target_is_answered(method in "[A-Z]{0,7}", target in "(/|%|\\.|[a-z0-9]|\\PC){0,80}") {
            let _either = parse(&method, &target);
            let _either = form(&target);
        }
    }
}
