// SPDX-License-Identifier: BSD-2-Clause
//! TLS for a program that may wait for its peer: what asks a certificate authority for certificates. No server's traffic comes
//! through here.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// What is trusted; sessions to come again.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
}

impl Client {
    /// Trusts these certificates in PEM, or else the system's.
    ///
    /// # Errors
    /// There is none among them, in words.
    pub fn new(trusted: Option<&str>) -> Result<Client, String> {
        let mut roots = RootCertStore::empty();
        match trusted {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    let certificate = certificate.map_err(|error| format!("not PEM: {error}"))?;
                    roots.add(certificate).map_err(|error| format!("a certificate that can't be trusted: {error}"))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(match trusted {
                Some(_) => "no certificate in PEM".to_owned(),
                None => "this system trusts no certificate authority (Debian's package is ca-certificates)".to_owned(),
            });
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Client { config: Arc::new(config) })
    }

    /// A connection to `name` over the stream, its handshake done and the peer's certificate checked.
    ///
    /// # Errors
    /// The stream's, or why the peer isn't believed.
    pub fn connect<S: Read + Write>(&self, name: &str, mut stream: S) -> io::Result<StreamOwned<ClientConnection, S>> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let mut connection = ClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn authority() -> (String, Arc<rustls::ServerConfig>) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let private = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        (certificate.pem(), Arc::new(config))
    }

    /// Asks for an echo of a word: what came back, or why nothing did.
    fn echo(trusted: &str, server: Arc<rustls::ServerConfig>, name: &str) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let mut stream = StreamOwned::new(rustls::ServerConnection::new(server).unwrap(), socket);
            let mut word = [0; 4];
            if stream.read_exact(&mut word).is_ok() {
                stream.write_all(&word).unwrap();
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        let talk = || {
            let client = Client::new(Some(trusted)).map_err(io::Error::other)?;
            let mut stream = client.connect(name, TcpStream::connect(address)?)?;
            stream.write_all(b"echo")?;
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        };
        let got = talk().map_err(|error| error.to_string());
        answering.join().unwrap();
        got
    }

    #[test]
    fn a_peer_is_believed_by_its_authority_and_its_name() {
        let (trusted, server) = authority();
        assert_eq!(echo(&trusted, server.clone(), "localhost"), Ok("echo".to_owned()));
        assert!(echo(&trusted, server.clone(), "other.example").unwrap_err().contains("not valid for name"));
        assert!(echo(&authority().0, server, "localhost").is_err());
    }

    #[test]
    fn no_certificate_is_no_authority() {
        assert_eq!(Client::new(Some("junk")).unwrap_err(), "no certificate in PEM");
        assert!(Client::new(Some("-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n")).is_err());
    }
}
