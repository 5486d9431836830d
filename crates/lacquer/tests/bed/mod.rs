// SPDX-License-Identifier: BSD-2-Clause
//! What these tests share.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

/// An origin with one answer on each connection, which ends with the test's process. `fields` are further lines of its head.
pub fn origin(fields: &'static str, body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
                head.push(byte[0]);
            }
            let frame = format!("Connection: close\r\nContent-Length: {}", body.len());
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n{fields}{frame}\r\n\r\n{body}");
        }
    });
    address
}
