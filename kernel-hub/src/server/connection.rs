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
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::current::{ConnectionState, HERE};
use super::mapped::Mappings;
use super::metrics::count;
use super::question::Hub;

/// How often it is looked whether something moved, at least.
const LOOK: Duration = Duration::from_secs(5);
/// How long a closed connection takes what still comes.
const LINGER: Duration = Duration::from_secs(10);
/// Bytes that must move within the timeout: fewer are a client that only wants the connection.
const LEAST: u64 = 256;

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
        None => {
            let mappings = Mappings::default();
            let stream = Plain { stream, mappings: mappings.clone() };
            run(hub, stream, peer, stop, Some(mappings)).await;
        }
        Some(tls) => {
            // One that does not come to an end of the handshake is as good as one that stalls.
            match tokio::time::timeout(hub.settings.head_timeout, tls.accept(stream)).await {
                Ok(Ok(stream)) => run(hub, stream, peer, stop, None).await,
                Ok(Err(error)) => {
                    tracing::info!(target: "connection", "{peer}: TLS handshake failed: {error}");
                }
                Err(_) => tracing::info!(target: "connection", "{peer}: TLS handshake timed out"),
            }
        }
    }
}

async fn run<S>(
    hub: Arc<Hub>,
    stream: S,
    peer: String,
    mut stop: watch::Receiver<bool>,
    mappings: Option<Mappings>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let moved = Arc::new(AtomicU64::new(0));
    let busy = Arc::new(AtomicU64::new(0));
    let stream = Counted { stream, moved: moved.clone(), lingering: None };
    let service = {
        let (hub, client, here) =
            (hub.clone(), peer.clone(), ConnectionState { busy: busy.clone(), mappings });
        service_fn(move |request| {
            let answer = hub.clone().answer(client.clone(), request);
            let answer = HERE.scope(here.clone(), answer);
            async move { Ok::<_, Infallible>(answer.await) }
        })
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(hub.settings.head_timeout)
        .max_buf_size(512 * 1024)
        .writev(true)
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
        if let Poll::Ready(ended) = connection.as_mut().poll(context) {
            match ended {
                Ok(()) => tracing::debug!(target: "connection", "{peer}: closed"),
                Err(error) => tracing::info!(target: "connection", "{peer}: {error}"),
            }
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
                tracing::info!(target: "connection", "{peer}: closed, nothing moved for {} s", timeout.as_secs());
                return Poll::Ready(());
            }
        }
        Poll::Pending
    })
    .await;
}

/// A connection without TLS: bytes of mapped files are sent by the system.
struct Plain {
    stream: TcpStream,
    mappings: Mappings,
}

impl Plain {
    /// Sends the beginning of `bytes`, when they are of a mapped file.
    fn poll_send(&self, context: &mut Context<'_>, bytes: &[u8]) -> Option<Poll<io::Result<usize>>> {
        let source = self.mappings.at(bytes)?;
        loop {
            match self.stream.poll_write_ready(context) {
                Poll::Pending => return Some(Poll::Pending),
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Ready(Ok(())) => {}
            }
            match self.stream.try_io(Interest::WRITABLE, || source.send(&self.stream)) {
                // Not ready after all; the next look registers for it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Some(Poll::Ready(done)),
            }
        }
    }
}

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.poll_send(context, bytes) {
            Some(polled) => polled,
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty());
        if let Some(polled) = first.and_then(|first| self.poll_send(context, first)) {
            return polled;
        }
        // Up to the first that is not of this process's memory.
        let own =
            slices.iter().take_while(|slice| slice.is_empty() || self.mappings.at(slice).is_none()).count();
        let own = slices.get(..own).unwrap_or_default();
        Pin::new(&mut self.stream).poll_write_vectored(context, own)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A stream whose bytes are counted, both ways. Closed, it still takes what the other side is about to send: else that
/// would be answered with a reset, and the refusal of a body that was not read would be lost with it.
struct Counted<S> {
    stream: S,
    moved: Arc<AtomicU64>,
    lingering: Option<Pin<Box<tokio::time::Sleep>>>,
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

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Counted<S> {
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
        if self.lingering.is_none() {
            std::task::ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.lingering = Some(Box::pin(tokio::time::sleep(LINGER)));
        }
        let mut scratch = [0; 16 * 1024];
        loop {
            let late = self.lingering.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready());
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                _ if late => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                // Both sides are done.
                Poll::Ready(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}
