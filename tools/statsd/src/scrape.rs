// SPDX-License-Identifier: BSD-2-Clause
//! Answers `GET /metrics` for Prometheus: HTTP/1 with one request a connection, no more.

use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::accept;
use crate::server::StatsdServer;

const CONNECTIONS: usize = 32;
const HEAD_BYTES: usize = 8192;
/// Time for a request to come, and for an answer to go.
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn serve(listener: TcpListener, server: Rc<StatsdServer>) {
    accept::each(listener, CONNECTIONS, |stream| {
        let server = Rc::clone(&server);
        async move { tokio::time::timeout(PATIENCE, connection(stream, &server)).await }
    })
    .await;
}

async fn connection(mut stream: TcpStream, server: &StatsdServer) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && !head.windows(2).any(|end| end == b"\n\n") {
        let n = stream.read(&mut bytes).await?;
        if n == 0 || head.len() > HEAD_BYTES {
            return Ok(());
        }
        head.extend_from_slice(&bytes[..n]);
    }
    let line = head.split(|b| *b == b'\r' || *b == b'\n').next().unwrap_or_default();
    let mut words = line.split(|b| *b == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|b| *b == b'?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => ("200 OK", server.page()),
        (b"GET" | b"HEAD", _) => ("404 Not Found", b"metrics are at /metrics\n".to_vec()),
        _ => ("405 Method Not Allowed", b"GET or HEAD\n".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    if method != b"HEAD" {
        stream.write_all(&body).await?;
    }
    stream.shutdown().await
}
