//! A request with what answering it needs: the hub, who asks, the body.
//!
//! Owns: reading bodies within their limits, and work that waits for the disk. Never: answers.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes};
use hyper::header::HeaderName;
use hyper::{Request, StatusCode};
use ring::hmac;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::auth::{Requester, Tokens};
use crate::store::disk::Temporary;
use crate::store::{Store, StoreError};

use super::body::Buffers;
use super::current::Busy;
use super::metrics::{Metrics, add};
use super::received::Received;
use super::reply::Refusal;
use super::settings::Settings;

/// What is brought to the disk at a time.
const PART: usize = 1024 * 1024;

/// Everything that answering needs.
#[derive(Debug)]
pub(super) struct Hub {
    /// The kernels.
    pub(super) store: Store,
    /// Who may.
    pub(super) tokens: Tokens,
    /// How much.
    pub(super) settings: Settings,
    /// What was counted.
    pub(super) metrics: Arc<Metrics>,
    /// Signs addresses that files are sent to; another one in each run.
    pub(super) key: hmac::Key,
    /// Commits whose bodies may be in memory.
    pub(super) commits: Semaphore,
    /// Buffers of answers.
    pub(super) buffers: Buffers,
    /// Whether clients reach this process by TLS.
    pub(super) secure: bool,
}

/// A request whose body is not read yet.
#[derive(Debug)]
pub(super) struct Question {
    /// Who asks.
    pub(super) who: Requester,
    /// Where clients reach the hub: `http://host:port`.
    pub(super) base: String,
    /// The head and the body.
    pub(super) request: Request<Received>,
}

impl Question {
    /// The value of a header.
    pub(super) fn header(&self, name: HeaderName) -> Option<&str> {
        header(&self.request, name)
    }

    /// The body, when it is not longer than that.
    pub(super) async fn body(self, hub: &Hub, most: u64) -> Result<Bytes, Refusal> {
        let mut body = self.request.into_body();
        if body.size_hint().lower() > most {
            return Err(too_long(most));
        }
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Refusal::bad("the body ended early"))?;
            if let Some(data) = frame.data_ref() {
                add(&hub.metrics.received, data.len() as u64);
                if (bytes.len() + data.len()) as u64 > most {
                    return Err(too_long(most));
                }
                bytes.extend_from_slice(data);
            }
        }
        Ok(bytes.into())
    }

    /// The body as a file, when it is not longer than that.
    pub(super) async fn body_on_disk(self, hub: &Arc<Hub>, most: u64) -> Result<Temporary, Refusal> {
        let mut body = self.request.into_body();
        if body.size_hint().lower() > most {
            return Err(too_long(most));
        }
        let file = blocking(hub.clone(), |hub| Ok(hub.store.temporary()?)).await?;
        pour(hub, &mut body, file, most, |file, bytes| Ok(file.write(bytes).map_err(StoreError::from)?)).await
    }

    /// The body as JSON; nothing is an empty object.
    pub(super) async fn json(self, hub: &Hub) -> Result<Value, Refusal> {
        let body = self.body(hub, Settings::SMALL_BODY).await?;
        if body.is_empty() {
            return Ok(json!({}));
        }
        serde_json::from_slice(&body).map_err(|error| Refusal::bad(format!("the body is not JSON: {error}")))
    }
}

fn too_long(most: u64) -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {most} bytes"))
}

/// Writes a body of at most `most` bytes to the disk, a part at a time, where that holds up nobody.
pub(super) async fn pour<T: Send + 'static>(
    hub: &Arc<Hub>,
    body: &mut Received,
    mut to: T,
    most: u64,
    write: impl Fn(&mut T, &[u8]) -> Result<(), Refusal> + Copy + Send + 'static,
) -> Result<T, Refusal> {
    let (mut part, mut received) = (Vec::with_capacity(PART), 0);
    loop {
        let frame = body.frame().await;
        let ended = frame.is_none();
        if let Some(frame) = frame {
            let frame = frame.map_err(|_| Refusal::bad("the body ended early"))?;
            if let Some(data) = frame.data_ref() {
                add(&hub.metrics.received, data.len() as u64);
                received += data.len() as u64;
                if received > most {
                    return Err(too_long(most));
                }
                part.extend_from_slice(data);
            }
        }
        if part.len() >= PART || (ended && !part.is_empty()) {
            (to, part) = blocking(hub.clone(), move |_| {
                write(&mut to, &part)?;
                part.clear();
                Ok((to, part))
            })
            .await?;
        }
        if ended {
            return Ok(to);
        }
    }
}

/// The value of a header.
pub(super) fn header(request: &Request<Received>, name: HeaderName) -> Option<&str> {
    request.headers().get(name)?.to_str().ok()
}

/// Runs what waits for the disk where it holds up nobody.
pub(super) async fn blocking<T: Send + 'static>(
    hub: Arc<Hub>,
    work: impl FnOnce(&Hub) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let _busy = Busy::begin();
    let done = tokio::task::spawn_blocking(move || work(&hub)).await;
    done.unwrap_or_else(|error| Err(Refusal::inner(&format!("a request failed unexpectedly: {error}"))))
}
