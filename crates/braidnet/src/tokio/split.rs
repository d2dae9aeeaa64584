//! One who reads and one who writes.

use super::TcpStream;
use super::stream::{poll_read, poll_write, read_message, shutdown, waiter, write_message};
use crate::net;
use crate::socket::{Shared, Waiter};
use braidnet_message::Message;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSlice};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads from a borrowed stream ([`TcpStream::split`]).
#[derive(Debug)]
pub struct ReadHalf<'a> {
    stream: &'a net::TcpStream,
    waiter: Waiter<Arc<Shared>>,
}

/// Writes to a borrowed stream ([`TcpStream::split`]). Dropped, it says nothing to the peer.
#[derive(Debug)]
pub struct WriteHalf<'a> {
    stream: &'a net::TcpStream,
    waiter: Waiter<Arc<Shared>>,
}

/// Reads from a stream that it shares with whoever [writes](OwnedWriteHalf) to it.
#[derive(Debug)]
pub struct OwnedReadHalf {
    stream: Arc<net::TcpStream>,
    waiter: Waiter<Arc<Shared>>,
}

/// Writes to a stream that it shares with whoever [reads](OwnedReadHalf) from it. Dropped, it ends what is written: the peer
/// hears of it once all has left.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<net::TcpStream>,
    waiter: Waiter<Arc<Shared>>,
    shuts_down: bool,
}

/// The two are not of one stream. They come back.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the two halves are not of one stream")
    }
}

impl std::error::Error for ReuniteError {}

pub(super) fn borrowed(stream: &mut TcpStream) -> (ReadHalf<'_>, WriteHalf<'_>) {
    let stream = stream.get_ref();
    let (reads, writes) = (waiter(stream), waiter(stream));
    (
        ReadHalf {
            stream,
            waiter: reads,
        },
        WriteHalf {
            stream,
            waiter: writes,
        },
    )
}

pub(super) fn owned(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    let stream = Arc::new(stream.into_std());
    let reads = OwnedReadHalf {
        waiter: waiter(&stream),
        stream: stream.clone(),
    };
    let writes = OwnedWriteHalf {
        waiter: waiter(&stream),
        stream,
        shuts_down: true,
    };
    (reads, writes)
}

impl ReadHalf<'_> {
    /// The stream.
    pub fn get_ref(&self) -> &net::TcpStream {
        self.stream
    }
}

impl WriteHalf<'_> {
    /// The stream.
    pub fn get_ref(&self) -> &net::TcpStream {
        self.stream
    }
}

impl OwnedReadHalf {
    /// The stream.
    pub fn get_ref(&self) -> &net::TcpStream {
        &self.stream
    }

    /// Puts the two together again.
    ///
    /// # Errors
    /// If they are not of one stream.
    pub fn reunite(self, mut writes: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        if !Arc::ptr_eq(&self.stream, &writes.stream) {
            return Err(ReuniteError(self, writes));
        }
        writes.shuts_down = false;
        let stream = writes.stream.clone();
        drop((self, writes));
        match Arc::try_unwrap(stream) {
            Ok(stream) => Ok(TcpStream::from_std(stream)),
            // There are no more than two halves of a stream.
            Err(stream) => unreachable!("{stream:?} has a third half"),
        }
    }
}

impl OwnedWriteHalf {
    /// The stream.
    pub fn get_ref(&self) -> &net::TcpStream {
        &self.stream
    }

    /// Puts the two together again.
    ///
    /// # Errors
    /// If they are not of one stream.
    pub fn reunite(self, reads: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        reads.reunite(self)
    }

    /// Goes without ending what is written: that ends with the other half.
    pub fn forget(mut self) {
        self.shuts_down = false;
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.shuts_down {
            // A connection that is no more has nothing left to end.
            let _ = shutdown(&self.stream);
        }
    }
}

macro_rules! reads {
    ($half:ty) => {
        impl $half {
            /// As [`TcpStream::read_message`].
            ///
            /// # Errors
            /// As that.
            pub async fn read_message(&self) -> io::Result<Option<Message>> {
                read_message(&self.stream).await
            }
        }

        impl AsyncRead for $half {
            fn poll_read(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                to: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                poll_read(&mut self.waiter, cx, to)
            }
        }
    };
}

macro_rules! writes {
    ($half:ty) => {
        impl $half {
            /// As [`TcpStream::write_message`].
            ///
            /// # Errors
            /// As that.
            pub async fn write_message(&self, message: &mut Option<Message>) -> io::Result<usize> {
                write_message(&self.stream, message).await
            }
        }

        impl AsyncWrite for $half {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                poll_write(&mut self.waiter, cx, &[IoSlice::new(bytes)])
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                poll_write(&mut self.waiter, cx, parts)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(shutdown(&self.stream))
            }
        }
    };
}

reads!(ReadHalf<'_>);
reads!(OwnedReadHalf);
writes!(WriteHalf<'_>);
writes!(OwnedWriteHalf);
