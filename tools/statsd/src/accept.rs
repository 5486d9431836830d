// SPDX-License-Identifier: BSD-2-Clause
//! Accepting connections, never more at a time than said.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// Pause of accepting after an error (no descriptors left).
const PAUSE: Duration = Duration::from_millis(100);

pub trait StatsdListener {
    type Stream: AsyncRead + AsyncWrite + Unpin + 'static;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>>;
}

impl StatsdListener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        Ok(self.accept().await?.0)
    }
}

impl StatsdListener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

/// Accepts for ever; each connection is a task of this thread, `most` of them at a time.
pub async fn each<L: StatsdListener, F: Future + 'static>(
    listener: L,
    most: usize,
    mut serve: impl FnMut(L::Stream) -> F,
) {
    let places = Arc::new(Semaphore::new(most));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.next().await {
            Ok(stream) => {
                let served = serve(stream);
                tokio::task::spawn_local(async move {
                    served.await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
