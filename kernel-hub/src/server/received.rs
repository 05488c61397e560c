//! What is received: a body, and whether its end was seen.
//!
//! Owns: knowing that a body was read as a whole, wherever that was done.
//! Never: reads by itself, or limits; who asks for the body does.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

/// A body of a request.
#[derive(Debug)]
pub(super) struct Received {
    body: Incoming,
    end: End,
}

/// Whether the end of a body was seen; known also after the body is gone.
#[derive(Debug, Clone)]
pub(super) struct End(Arc<AtomicBool>);

impl Received {
    /// The request with such a body, and what is known of its end.
    pub(super) fn split(request: Request<Incoming>) -> (Request<Self>, End) {
        let end = End(Arc::new(AtomicBool::new(request.body().is_end_stream())));
        let received = request.map(|body| Self { body, end: end.clone() });
        (received, end)
    }
}

impl End {
    /// Nothing of the body is still to come.
    pub(super) fn was_seen(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) {
            self.end.0.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
