//! A web server of hyper's, and a client that keeps its connections (the one below reqwest) and dials through a connector of our own: two hosts on a wire
//! in memory.
//!
//! `cargo run -p braidnet --example web`

use braidnet::StackConfig;
use braidnet::device::{Capabilities, memory};
use braidnet::net::Host;
use braidnet::tokio::{TcpListener, TcpStream};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    let server = Host::start(&StackConfig::new("10.0.0.2".parse()?), there)?;
    let client = Host::start(&StackConfig::new("10.0.0.1".parse()?), here)?;
    tokio::spawn(serve(TcpListener::bind(&server, "10.0.0.2:80").await?));

    let dial = Dial(client);
    let client: Client<Dial, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(dial);
    for page in ["one", "two", "three"] {
        let answer = client
            .get(format!("http://10.0.0.2/{page}").parse()?)
            .await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        println!("{status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(())
}

/// Answers whoever calls, each in a task of its own.
async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, from) = listener.accept().await?;
        let answer = service_fn(move |request: Request<Incoming>| async move {
            let words = format!("{} from {from}", request.uri().path());
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(words))))
        });
        tokio::spawn(async move {
            let http = hyper::server::conn::http1::Builder::new();
            // A caller who goes in the middle of a request is no error of ours.
            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

/// The connector: dials from a host of ours, where the client's own would from the system.
#[derive(Clone)]
struct Dial(Host);

impl tower_service::Service<Uri> for Dial {
    type Response = Dialled;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Dialled>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let host = self.0.clone();
        Box::pin(async move {
            let peer = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
            let stream = TcpStream::connect(&host, peer).await?;
            Ok(Dialled(TokioIo::new(stream)))
        })
    }
}

/// What was dialled; the client wants to know whether it is a proxy's, and no more.
struct Dialled(TokioIo<TcpStream>);

impl Connection for Dialled {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, to)
    }
}

impl Write for Dialled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
