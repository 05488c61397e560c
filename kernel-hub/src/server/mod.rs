//! The server: it listens, lets so many connections in, and ends when it is told to.
//!
//! Owns: the order of starting and stopping.
//! Never: answers anything itself.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ring::hmac;
use ring::rand::SystemRandom;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::auth::{Anonymous, Tokens};
use crate::store::{OpenError, Store};

mod body;
mod connection;
mod current;
mod hub;
mod log;
mod mapped;
mod metrics;
mod page;
mod question;
mod read;
mod received;
mod reply;
pub mod settings;
pub mod tls;
mod write;
mod xet;

use question::Hub;
use settings::Settings;

/// An upload by xet that nothing was sent to for this time has ended.
const SESSION_IDLE: Duration = Duration::from_secs(15 * 60);

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The folder.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What a commit must have is not there.
    #[error("failed to check the folder of the hub: {0}")]
    Check(#[from] crate::store::StoreError),
    /// The tokens.
    #[error(transparent)]
    Tokens(#[from] crate::auth::TokenError),
    /// The address.
    #[error("failed to listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// Everybody may write, and everybody can.
    #[error("--anonymous write requires a loopback address, such as 127.0.0.1; {0} is not one")]
    Open4All(SocketAddr),
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// The system.
    #[error("failed to get {0} from the system")]
    System(&'static str),
}

/// Serves `root` on `address` until SIGINT or SIGTERM; `ready` gets the address as soon as it is listened on.
///
/// # Errors
/// It could not start.
pub fn serve(
    root: &Path,
    address: SocketAddr,
    settings: Settings,
    tls: Option<TlsAcceptor>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    if settings.anonymous == Anonymous::Write && !address.ip().is_loopback() {
        return Err(ServeError::Open4All(address));
    }
    let (store, swept) = Store::open(root)?;
    if swept > 0 {
        log::say(&format!(
            "removed {swept} half-written files of an earlier run; no upload of them was acknowledged"
        ));
    }
    for problem in store.check(crate::store::Depth::Heads)? {
        log::say(&format!("damaged: {problem}"));
    }
    let tokens = Tokens::in_folder(root);
    if tokens.list()?.is_empty() && settings.anonymous != Anonymous::Write {
        log::say("no tokens exist, so no one can write; create one: kernelwright-hub token new");
    }
    let random = SystemRandom::new();
    let key =
        hmac::Key::generate(hmac::HMAC_SHA256, &random).map_err(|_| ServeError::System("random bytes"))?;
    let hub = Arc::new(Hub {
        store,
        tokens,
        metrics: Arc::default(),
        key,
        commits: Semaphore::new(Settings::COMMITS_AT_A_TIME),
        buffers: body::Buffers::default(),
        secure: tls.is_some(),
        settings,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|_| ServeError::System("threads"))?;
    let done = runtime.block_on(listen(hub.clone(), address, tls, ready));
    // What still writes to the disk ends first; it has not been acknowledged, and may as well be.
    runtime.shutdown_timeout(hub.settings.stop_timeout);
    done
}

async fn listen(
    hub: Arc<Hub>,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let failed = |error| ServeError::Listen { address, error };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|_| ServeError::System("signals"))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|_| ServeError::System("signals"))?;
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    ready(listener.local_addr().map_err(failed)?);
    let (stop, stopped) = watch::channel(false);
    let places = hub.settings.connections;
    let free = Arc::new(Semaphore::new(places));
    let _sessions = tokio::spawn(end_idle_sessions(hub.clone()));
    let accepting = accept(hub.clone(), listener, tls, free.clone(), stopped);
    let mut accepting = Box::pin(accepting);
    std::future::poll_fn(|context| {
        let told = interrupt.poll_recv(context).is_ready() || terminate.poll_recv(context).is_ready();
        if told { std::task::Poll::Ready(()) } else { accepting.as_mut().poll(context) }
    })
    .await;
    // With it go the listener and the place that it kept for the next connection.
    drop(accepting);
    log::say("stopping after open requests are answered; a second signal stops at once");
    stop.send_replace(true);
    let all = u32::try_from(places).unwrap_or(u32::MAX);
    let mut ended = std::pin::pin!(tokio::time::timeout(hub.settings.stop_timeout, free.acquire_many(all)));
    let in_time = std::future::poll_fn(|context| {
        if interrupt.poll_recv(context).is_ready() || terminate.poll_recv(context).is_ready() {
            return std::task::Poll::Ready(false);
        }
        ended.as_mut().poll(context).map(|ended| ended.is_ok())
    })
    .await;
    log::say(if in_time { "stopped" } else { "stopped; some connections were closed early" });
    Ok(())
}

/// Removes what uploads by xet leave, as long as the server runs.
async fn end_idle_sessions(hub: Arc<Hub>) {
    loop {
        tokio::time::sleep(SESSION_IDLE / 4).await;
        let done =
            question::blocking(hub.clone(), |hub| Ok(hub.store.end_idle_sessions(SESSION_IDLE)?)).await;
        // The log says why, and the next look may do it.
        let _next_time = done;
    }
}

/// Lets connections in, as long as this is polled. The listener goes with it, so that later ones are refused.
async fn accept(
    hub: Arc<Hub>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    free: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
) {
    loop {
        let Ok(place) = free.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (hub, tls, stopped) = (hub.clone(), tls.clone(), stopped.clone());
                tokio::spawn(async move {
                    metrics::count(&hub.metrics.connections);
                    connection::serve(hub.clone(), stream, peer.ip().to_string(), tls, stopped).await;
                    hub.metrics.connections.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(target: "connection", "accept failed: {error}");
                // Out of files, mostly; the next one may have more luck.
                log::say(&format!("failed to accept a connection: {error}"));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
