//! A web server and a client with rustls between them and the stack: two hosts on a wire in memory, and a certificate that is made on the spot.
//!
//! `cargo run -p braidnet --example web_tls`

use braidnet::StackConfig;
use braidnet::device::{Capabilities, memory};
use braidnet::net::Host;
use braidnet::tokio::{TcpListener, TcpStream};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const NAME: &str = "braidnet.example";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    let server = Host::start(&StackConfig::new("10.0.0.2".parse()?), there)?;
    let client = Host::start(&StackConfig::new("10.0.0.1".parse()?), here)?;

    let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone())?;
    let accepts = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)?;
    let calls = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();

    let listener = TcpListener::bind(&server, "10.0.0.2:443").await?;
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(accepts));
        let (stream, _) = listener.accept().await?;
        let stream = acceptor.accept(stream).await?;
        let answer = service_fn(|request: Request<Incoming>| async move {
            let words = format!("{} in secret", request.uri().path());
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(words))))
        });
        let http = hyper::server::conn::http1::Builder::new();
        let served = http.serve_connection(TokioIo::new(stream), answer).await;
        served.map_err(std::io::Error::other)
    });

    let connector = TlsConnector::from(Arc::new(calls));
    let stream = TcpStream::connect(&client, "10.0.0.2:443").await?;
    let stream = connector
        .connect(ServerName::try_from(NAME)?, stream)
        .await?;
    let (mut http, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/page")
        .header("host", NAME)
        .body(Empty::<Bytes>::new())?;
    let answer = http.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    println!("{status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}
