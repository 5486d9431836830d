// SPDX-License-Identifier: BSD-2-Clause
//! Certificates and keys for tickets: what was inherited from the manager, and what it sends later.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use cli::handoff::{Secret, WorkerStart};
use tls::{Bundle, Keyring};

/// See the module.
pub struct Secrets {
    /// What connections are served with.
    pub keyring: Arc<Keyring>,
    /// Where others come; None without a listener for TLS.
    socket: Option<OwnedFd>,
}

impl Secrets {
    /// Takes over what the manager gave. With keys in it this process leaves no core, and shows itself to nobody but root.
    ///
    /// # Errors
    /// In words.
    pub fn inherit(start: &WorkerStart) -> Result<Secrets, String> {
        let inherited = |number: Option<i32>| number.map(sys::fd::inherit).transpose();
        let text = |error: std::io::Error| format!("certificates: {error}");
        let secrets = Secrets { keyring: Arc::default(), socket: inherited(start.secrets_fd).map_err(text)? };
        if secrets.socket.is_some() {
            sys::secret::forbid_core().map_err(text)?;
        }
        if let Some(file) = inherited(start.certificates_fd).map_err(text)? {
            secrets.adopt(Secret::Certificates, &file)?;
        }
        if let Some(file) = inherited(start.ticket_keys_fd).map_err(text)? {
            secrets.adopt(Secret::TicketKeys, &file)?;
        }
        Ok(secrets)
    }

    /// Takes what has come. The manager waits for the outcome, so it is one at a time.
    ///
    /// # Errors
    /// In words; what there is stays.
    pub fn take(&self) -> Result<(), String> {
        let socket = self.socket.as_ref().ok_or("this worker has no listener for TLS")?;
        while let Some((letter, file)) = sys::secret::receive(socket).map_err(|error| error.to_string())? {
            let kind = Secret::of_letter(letter).ok_or("the manager sends something unknown")?;
            self.adopt(kind, &file)?;
        }
        Ok(())
    }

    fn adopt(&self, kind: Secret, file: &OwnedFd) -> Result<(), String> {
        let secret = sys::secret::Secret::map(file).map_err(|error| format!("it can't be mapped: {error}"))?;
        match kind {
            Secret::Certificates => {
                self.keyring.replace(Bundle::open(Box::new(secret)).map_err(|error| error.to_string())?)
            }
            Secret::TicketKeys => {
                let keys = tls::tickets::decode(secret.as_ref()).ok_or("the keys for tickets can't be read")?;
                self.keyring.replace_ticket_keys(&keys);
            }
            Secret::Challenges => return Err("there is no ACME client".to_owned()),
        }
        Ok(())
    }
}
