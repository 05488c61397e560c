//! From a request to its answer: who asks, whether they may, and which part of the hub answers.
//!
//! Owns: authorization.
//! Never: answers itself; `read`, `write` and `page` do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, ORIGIN, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;

use crate::auth::Requester;
use crate::name::RepoId;
use crate::store::disk::random_name;
use crate::wire::options;
use crate::wire::route::{self, Access, Ask, Route};

use super::body::{Content, Outgoing};
use super::log::{Line, RequestInfo};
use super::metrics::count;
use super::question::{Hub, Question, blocking, header};
use super::received::Received;
use super::reply::{Refusal, Reply};
use super::{page, read, write, xet};

/// Names a request, here and in the log; the client shows it with an error.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Where huggingface_hub names its requests.
const TRACE_ID: HeaderName = HeaderName::from_static("x-amzn-trace-id");
impl Hub {
    /// Answers; whatever happens, there is an answer.
    pub(super) async fn answer(
        self: Arc<Self>,
        peer: String,
        request: Request<Incoming>,
    ) -> Response<Outgoing> {
        let started = Instant::now();
        let (request, end) = Received::split(request);
        self.metrics.in_flight.fetch_add(1, Ordering::Relaxed);
        let target = request.uri().path_and_query().map_or("", |target| target.as_str()).to_owned();
        let agent = header(&request, USER_AGENT).unwrap_or_default().chars().take(200).collect();
        let id = request_id(&request);
        let asked = RequestInfo {
            id: id.clone(),
            peer,
            method: request.method().to_string(),
            path: route::for_log(&target),
            agent,
        };
        let head = request.method() == Method::HEAD;
        let who = self.requester(&request);
        let name = who.as_ref().map_or("refused", Requester::name).to_owned();
        let reply = match who {
            Ok(who) => self.clone().route(who, request, &target).await,
            Err(refusal) => Err(refusal),
        };
        let reply = reply.unwrap_or_else(|refusal| refusal.reply());
        let mut response = Response::new(());
        *response.status_mut() = reply.status;
        for (name, value) in reply.headers {
            response.headers_mut().append(name, value);
        }
        let length = reply.content.length();
        if reply.status != StatusCode::NOT_MODIFIED {
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        response.headers_mut().extend(HeaderValue::from_str(&id).ok().map(|id| (REQUEST_ID, id)));
        // What is left of the body is not skipped, so this connection has no next request. A client that is not told sends
        // one, and gets no answer.
        if !end.was_seen() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let content = if head { Content::Empty } else { reply.content };
        let announced = if head { 0 } else { length };
        let metrics = self.metrics.clone();
        let line =
            Line::new(asked, name, reply.status.as_u16(), started, announced, metrics, self.settings.log);
        response.map(|()| Outgoing::new(content, line))
    }

    /// Whose token is in the request.
    fn requester(&self, request: &Request<Received>) -> Result<Requester, Refusal> {
        let Some(value) = request.headers().get(AUTHORIZATION) else { return Ok(Requester::Anyone) };
        let path = request.uri().path();
        if path.starts_with("/xet/") || path == "/v1/telemetry" {
            // There the token is one that `xet` has signed, and checks.
            return Ok(Requester::Anyone);
        }
        let sent = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        // The words are the client's: it takes any other 401 for a kernel that is not there.
        let wrong = || Refusal::new(StatusCode::UNAUTHORIZED, "Invalid credentials in Authorization header");
        let owner = self.tokens.owner(sent.unwrap_or_default().trim());
        match owner {
            Ok(Some(token)) => {
                tracing::debug!(target: "auth", "{} {}: token `{}`", request.method(), route::for_log(path), token.name);
                Ok(Requester::Known(token))
            }
            Ok(None) => {
                count(&self.metrics.wrong_tokens);
                tracing::info!(target: "auth", "{} {}: unknown token", request.method(), route::for_log(path));
                Err(wrong())
            }
            Err(error) => Err(Refusal::inner(&error.to_string())),
        }
    }

    async fn route(
        self: Arc<Self>,
        who: Requester,
        request: Request<Received>,
        target: &str,
    ) -> Result<Reply, Refusal> {
        let route = route::parse(request.method().as_str(), target)?;
        let org = match &route {
            Route::Kernel(repo, _) | Route::Page(repo) => Some(repo.org()),
            Route::Organization(org) => Some(org.as_str()),
            _ => None,
        };
        // A signed address says itself who may, as does a token for xet; health says nothing; a token may be asked for
        // its own name.
        let signed = matches!(route, Route::Upload(..) | Route::Xorb(..) | Route::Shard(_));
        let known_otherwise = signed || matches!(route, Route::Health | Route::Telemetry | Route::WhoAmI);
        if !known_otherwise {
            self.must(&who, route.access(), org)?;
        }
        // Whoever may open this address is on this machine, and so is every page that its browser shows.
        if who == Requester::Anyone
            && route.access() == Access::Write
            && request.headers().contains_key(ORIGIN)
        {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "a request from a web page needs a token to write",
            ));
        }
        if let Route::Kernel(repo, _) | Route::Page(repo) = &route {
            let asked = repo.clone();
            let known = blocking(self.clone(), move |hub| Ok(hub.store.spelled(&asked)?)).await?;
            if let Some(known) = known.filter(|known| known != repo)
                && let Some(location) = respelled(target, repo, &known)
            {
                return Err(Refusal::moved(location));
            }
        }
        let options = options::parse(target);
        let base = self.base(&request)?;
        let question = Question { who, base, request };
        match route {
            Route::Health => Ok(Reply::text(StatusCode::OK, "text/plain; charset=utf-8", "ok\n")),
            Route::Metrics => {
                let kernels = blocking(self.clone(), |hub| Ok(hub.store.list()?.len())).await?;
                let text = self.metrics.text(kernels);
                Ok(Reply::text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
            }
            Route::Home => page::home(self, question.who).await,
            Route::Page(repo) => page::kernel(self, repo).await,
            Route::WhoAmI => read::who_am_i(&question.who),
            Route::Organization(org) => read::organization(self, org).await,
            Route::List(search) => read::list(self, question.who, search).await,
            Route::ValidateYaml => Ok(Reply::json(&json!({ "errors": [], "warnings": [] }))),
            Route::CreateRepo => write::create(self, question).await,
            Route::DeleteRepo => write::delete(self, question).await,
            Route::Upload(digest, query) => write::upload(self, question, digest, query).await,
            Route::Xorb(session, name) => xet::xorb(self, question, session, name).await,
            Route::Telemetry => Ok(Reply::json(&json!({}))),
            Route::Shard(session) => xet::shard(self, question, session).await,
            Route::Kernel(repo, ask) => match ask {
                Ask::Info(revision) => read::info(self, repo, revision, options).await,
                Ask::Refs(offline) => read::refs(self, repo, offline).await,
                Ask::Tree { revision, folder, recursive, offline } => {
                    read::tree(self, repo, revision, folder, recursive, options.expand, offline).await
                }
                Ask::PathsInfo(revision) => read::paths_info(self, question, repo, revision).await,
                Ask::Commits(revision) => {
                    read::commits(self, question.base, target, repo, revision, options).await
                }
                Ask::Resolve(revision, path) => read::resolve(self, question, repo, revision, path).await,
                Ask::AuthCheck(_) => read::auth_check(self, repo).await,
                Ask::CreateBranch(name) => write::create_branch(self, question, repo, name).await,
                Ask::DeleteBranch(name) => write::delete_branch(self, repo, name).await,
                Ask::CreateTag(revision) => write::create_tag(self, question, repo, revision).await,
                Ask::DeleteTag(name) => write::delete_tag(self, repo, name).await,
                Ask::Preupload(revision) => write::preupload(self, question, repo, revision).await,
                Ask::Commit(branch) => write::commit(self, question, repo, branch).await,
                Ask::LfsBatch => write::lfs_batch(self, question, repo).await,
                Ask::XetWrite => xet::token(self, question, repo).await,
                Ask::XetRead => Err(Refusal::new(
                    StatusCode::NOT_FOUND,
                    "this hub does not support xet downloads; download files from /kernels/.../resolve/",
                )),
            },
        }
    }

    /// Refuses who may not.
    pub(super) fn must(&self, who: &Requester, access: Access, org: Option<&str>) -> Result<(), Refusal> {
        if who.may(access, org, self.settings.anonymous) {
            return Ok(());
        }
        let word = crate::auth::word(access);
        tracing::info!(target: "auth", "refused: {} may not {word} in {}", who.name(), org.unwrap_or("this hub"));
        Err(match who {
            Requester::Anyone => Refusal::new(
                StatusCode::UNAUTHORIZED,
                format!("Invalid username or password: a token with the scope `{word}` is needed (HF_TOKEN)"),
            ),
            Requester::Known(token) => {
                let place = org.map(|org| format!(" in `{org}`")).unwrap_or_default();
                Refusal::new(
                    StatusCode::FORBIDDEN,
                    format!("the token `{}` may not {word}{place}", token.name),
                )
            }
        })
    }

    /// Where clients reach the hub, as this one did.
    fn base(&self, request: &Request<Received>) -> Result<String, Refusal> {
        if let Some(url) = &self.settings.public_url {
            return Ok(url.clone());
        }
        let host = header(request, HOST).unwrap_or("localhost");
        let fine = host.len() < 256
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
        if !fine {
            return Err(Refusal::bad("the Host header is not a valid host name"));
        }
        let scheme = if self.secure { "https" } else { "http" };
        Ok(format!("{scheme}://{host}"))
    }
}

/// The name that the client gave its request (huggingface_hub sends a UUID), or another one.
fn request_id(request: &Request<Received>) -> String {
    let given = header(request, REQUEST_ID).or_else(|| header(request, TRACE_ID));
    let fine = |id: &&str| {
        (1..=100).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.=:;".contains(&byte))
    };
    given.filter(fine).map_or_else(random_name, str::to_owned)
}

/// The address with the name of a kernel as it is spelled.
fn respelled(target: &str, asked: &RepoId, known: &RepoId) -> Option<String> {
    let (before, after) = target.split_once(&format!("/{asked}"))?;
    Some(format!("{before}/{known}{after}"))
}
