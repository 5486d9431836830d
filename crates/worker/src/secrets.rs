// SPDX-License-Identifier: BSD-2-Clause
//! Certificates and keys for tickets: what was inherited from the manager, and what it sends later.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use base::lock::Mutex;
use cli::handoff::{HandoffSecret, WorkerStart};
use tls::origin_keys::OriginKeys;
use tls::signer::{AskSigner, MAX_ANSWER};
use tls::{Bundle, Keyring};

/// Longest wait for the signer: a signature takes a millisecond at most, and the other threads' go before.
const PATIENCE: Duration = Duration::from_secs(2);

/// The way to the signer. One question at a time: it has one thread.
#[derive(Debug)]
struct Remote(Mutex<Line>);

#[derive(Debug)]
struct Line {
    socket: OwnedFd,
    /// Number of the last question: who gave up waiting leaves its answer to the next.
    number: u32,
}

impl Remote {
    fn new(socket: OwnedFd) -> Result<Remote, String> {
        let bounded = sys::packet::set_patience(&socket, PATIENCE);
        bounded.map(|()| Remote(Mutex::new(Line { socket, number: 0 }))).map_err(|error| format!("signer: {error}"))
    }
}

impl AskSigner for Remote {
    fn ask(&self, question: &[u8]) -> io::Result<Vec<u8>> {
        let mut line = self.0.lock();
        line.number = line.number.wrapping_add(1);
        let number = line.number.to_le_bytes();
        sys::packet::send(&line.socket, &[&number[..], question].concat())?;
        let mut room = [0; 4 + MAX_ANSWER];
        loop {
            let length = sys::packet::receive(&line.socket, &mut room)?;
            match room[..length].strip_prefix(&number) {
                Some(answer) => return Ok(answer.to_vec()),
                None if length == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => {}
            }
        }
    }
}

pub struct WorkerSecrets {
    pub keyring: Arc<Keyring>,
    /// Keys of VCLs that are about to be loaded.
    pub origin_keys: OriginKeys,
    socket: Option<OwnedFd>,
}

impl WorkerSecrets {
    /// Takes over what the manager gave. With keys in it this process leaves no core, and shows itself to nobody but root.
    ///
    /// # Errors
    /// In words.
    pub fn inherit(start: &WorkerStart) -> Result<WorkerSecrets, String> {
        let inherited = |number: Option<i32>| number.map(sys::fd::inherit).transpose();
        let text = |error: std::io::Error| format!("certificates: {error}");
        let socket = inherited(start.secrets.socket_fd).map_err(text)?;
        let secrets = WorkerSecrets { keyring: Arc::default(), origin_keys: OriginKeys::default(), socket };
        if start.secrets.certificates_fd.is_some() || start.secrets.ticket_keys_fd.is_some() {
            sys::secret::forbid_core().map_err(text)?;
        }
        if let Some(file) = inherited(start.secrets.certificates_fd).map_err(text)? {
            secrets.adopt(HandoffSecret::Certificates, &file)?;
        }
        if let Some(file) = inherited(start.secrets.ticket_keys_fd).map_err(text)? {
            secrets.adopt(HandoffSecret::TicketKeys, &file)?;
        }
        if secrets.socket.is_some() {
            secrets.take()?;
        }
        Ok(secrets)
    }

    /// Takes what has come. The manager waits for the outcome, so it is one at a time.
    ///
    /// # Errors
    /// In words; what there is stays.
    pub fn take(&self) -> Result<(), String> {
        let socket = self.socket.as_ref().ok_or("the manager has given this worker no way for secrets")?;
        while let Some((letter, file)) = sys::secret::receive(socket).map_err(|error| error.to_string())? {
            let kind = HandoffSecret::of_letter(letter).ok_or("the manager sends something unknown")?;
            match kind {
                HandoffSecret::Signer => self.keyring.replace_signer(Box::new(Remote::new(file)?)),
                kind => self.adopt(kind, &file)?,
            }
        }
        Ok(())
    }

    fn adopt(&self, kind: HandoffSecret, file: &OwnedFd) -> Result<(), String> {
        let secret = sys::secret::SealedSecret::map(file).map_err(|error| format!("it can't be mapped: {error}"))?;
        match kind {
            HandoffSecret::Certificates => {
                self.keyring.replace(Bundle::open(Box::new(secret)).map_err(|error| error.to_string())?)
            }
            HandoffSecret::TicketKeys => {
                let keys = tls::tickets::decode(secret.as_ref()).ok_or("the keys for tickets can't be read")?;
                self.keyring.replace_ticket_keys(&keys);
            }
            HandoffSecret::OriginKeys => self.origin_keys.adopt(secret.as_ref())?,
            HandoffSecret::Challenges => return Err("there is no ACME client".to_owned()),
            HandoffSecret::Signer => return Err("a signer isn't inherited".to_owned()),
        }
        Ok(())
    }
}
