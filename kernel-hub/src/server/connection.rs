//! One connection: its bytes are counted, and it is closed when nothing moves.
//!
//! Owns: TLS, the timeouts, and ending after the answer in work when the server stops.
//! Never: reads a request; hyper does.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::hub::Hub;
use super::metrics::count;

/// How often it is looked whether something moved, at least.
const LOOK: Duration = Duration::from_secs(5);
/// Bytes that must move within the timeout: fewer are a client that only wants the connection.
const LEAST: u64 = 256;

tokio::task_local! {
    /// What the hub itself does for this connection: then it is no fault of the client's that nothing moves.
    static BUSY: Arc<AtomicU64>;
}

/// The hub is at work for the connection whose request this is part of, until the value goes.
pub(super) struct Busy(Option<Arc<AtomicU64>>);

impl Busy {
    /// From now on.
    pub(super) fn begin() -> Self {
        let busy = BUSY.try_with(Arc::clone).ok();
        busy.iter().for_each(|busy| count(busy));
        Self(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.iter().for_each(|busy| {
            busy.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Serves a connection until either side ends it.
pub(super) async fn serve(
    hub: Arc<Hub>,
    stream: TcpStream,
    peer: String,
    tls: Option<TlsAcceptor>,
    stop: watch::Receiver<bool>,
) {
    // Answers are small or whole buffers; waiting for more only delays them.
    let _still_works = stream.set_nodelay(true);
    match tls {
        None => run(hub, stream, peer, stop).await,
        Some(tls) => {
            // One that does not come to an end of the handshake is as good as one that stalls.
            if let Ok(Ok(stream)) = tokio::time::timeout(hub.settings.head_timeout, tls.accept(stream)).await
            {
                run(hub, stream, peer, stop).await;
            }
        }
    }
}

async fn run<S>(hub: Arc<Hub>, stream: S, peer: String, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let moved = Arc::new(AtomicU64::new(0));
    let busy = Arc::new(AtomicU64::new(0));
    let stream = Counted { stream, moved: moved.clone() };
    let service = {
        let (hub, busy) = (hub.clone(), busy.clone());
        service_fn(move |request| {
            let answer = hub.clone().answer(peer.clone(), request);
            let answer = BUSY.scope(busy.clone(), answer);
            async move { Ok::<_, Infallible>(answer.await) }
        })
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(hub.settings.head_timeout)
        .max_buf_size(512 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut stopping = pin!(async move {
        // An error is a server that is gone.
        let _either = stop.wait_for(|stop| *stop).await;
    });
    let timeout = hub.settings.stall_timeout;
    let mut looks = tokio::time::interval(LOOK.min(timeout / 2).max(Duration::from_millis(10)));
    let (mut seen, mut since, mut asked_to_stop) = (0, Instant::now(), false);
    std::future::poll_fn(|context| {
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        if !asked_to_stop && stopping.as_mut().poll(context).is_ready() {
            asked_to_stop = true;
            connection.as_mut().graceful_shutdown();
            context.waker().wake_by_ref();
        }
        while looks.poll_tick(context).is_ready() {
            let now = moved.load(Ordering::Relaxed);
            if now >= seen + LEAST || busy.load(Ordering::Relaxed) > 0 {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() >= timeout {
                count(&hub.metrics.stalled);
                return Poll::Ready(());
            }
        }
        Poll::Pending
    })
    .await;
}

/// A stream whose bytes are counted, both ways.
struct Counted<S> {
    stream: S,
    moved: Arc<AtomicU64>,
}

impl<S> Counted<S> {
    fn count(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = polled {
            self.moved.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.moved.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
