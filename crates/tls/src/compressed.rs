// SPDX-License-Identifier: BSD-2-Clause
//! Compression of the certificates that clients get (RFC 8879), in TLS 1.3. rustls keeps the result with the server's settings, so it is
//! made once for each chain and algorithm, in less than 0.1 ms. The highest qualities take 40 times as long for 4 % less.

use brotli::enc::BrotliEncoderParams;
use rustls::CertificateCompressionAlgorithm as Algorithm;
use rustls::compress::{CertCompressor, CompressionFailed, CompressionLevel};
use zlib_rs::{DeflateConfig, ReturnCode, compress_bound, compress_slice};

/// The algorithms that clients may choose, best first. Chromium has br alone, Safari zlib alone, and Firefox both.
pub(crate) const COMPRESSORS: [&dyn CertCompressor; 2] = [&Br, &Zlib];

const BR_QUALITY: i32 = 5;
/// Smaller windows make brotli choose another way of search, which takes 3 ms.
const BR_WINDOW_BITS: i32 = 22;
const ZLIB_LEVEL: i32 = 6;

#[derive(Debug)]
struct Br;

#[derive(Debug)]
struct Zlib;

impl CertCompressor for Br {
    fn compress(&self, input: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let params = BrotliEncoderParams {
            quality: BR_QUALITY,
            lgwin: BR_WINDOW_BITS,
            size_hint: input.len(),
            ..BrotliEncoderParams::default()
        };
        let mut out = Vec::with_capacity(input.len());
        brotli::BrotliCompress(&mut &input[..], &mut out, &params).map_err(|_| CompressionFailed)?;
        Ok(out)
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Brotli
    }
}

impl CertCompressor for Zlib {
    fn compress(&self, input: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let mut out = vec![0; compress_bound(input.len())];
        let config = DeflateConfig { level: ZLIB_LEVEL, ..DeflateConfig::default() };
        let (made, ReturnCode::Ok) = compress_slice(&mut out, &input, config) else { return Err(CompressionFailed) };
        let length = made.len();
        out.truncate(length);
        Ok(out)
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Zlib
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::client::{ClientConfig, ClientConnection};
    use rustls::compress::{CertDecompressor, DecompressionFailed};
    use rustls::pki_types::ServerName;
    use rustls::version::TLS13;

    use super::*;
    use crate::testing::TlsWorld;

    #[derive(Debug)]
    struct Unpacker {
        algorithm: Algorithm,
        is_broken: bool,
    }

    impl CertDecompressor for Unpacker {
        fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
            let got = match self.algorithm {
                _ if self.is_broken => return Err(DecompressionFailed),
                Algorithm::Brotli => {
                    let mut got = Vec::new();
                    brotli::BrotliDecompress(&mut &input[..], &mut got).map_err(|_| DecompressionFailed)?;
                    got
                }
                _ => {
                    let mut got = vec![0; output.len()];
                    let (made, _) = zlib_rs::decompress_slice(&mut got, input, zlib_rs::InflateConfig::default());
                    made.to_vec()
                }
            };
            assert_eq!(got.len(), output.len());
            output.copy_from_slice(&got);
            Ok(())
        }

        fn algorithm(&self) -> Algorithm {
            self.algorithm
        }
    }

    const BR: &Unpacker = &Unpacker { algorithm: Algorithm::Brotli, is_broken: false };
    const ZLIB: &Unpacker = &Unpacker { algorithm: Algorithm::Zlib, is_broken: false };
    const ZSTD: &Unpacker = &Unpacker { algorithm: Algorithm::Zstd, is_broken: true };
    const BROKEN_BR: &Unpacker = &Unpacker { algorithm: Algorithm::Brotli, is_broken: true };
    const BROKEN_ZLIB: &Unpacker = &Unpacker { algorithm: Algorithm::Zlib, is_broken: true };

    /// True if a client with these gets the server's certificate.
    fn gets(world: &TlsWorld, offered: &[&'static Unpacker]) -> bool {
        let mut config = ClientConfig::builder_with_provider(Arc::new(crate::groups::provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(world.roots())
            .with_no_client_auth();
        config.cert_decompressors = offered.iter().map(|&one| one as &dyn CertDecompressor).collect();
        let name = ServerName::try_from("a.example").unwrap();
        let (mut client, mut server) =
            (ClientConnection::new(Arc::new(config), name).unwrap(), world.both().0.unwrap());
        let (mut hello, mut flight) = (Vec::new(), Vec::new());
        client.write_tls(&mut hello).unwrap();
        server.advance(&mut hello, &mut flight).unwrap();
        client.read_tls(&mut &flight[..]).unwrap();
        client.process_new_packets().is_ok_and(|_| client.peer_certificates().is_some())
    }

    #[test]
    fn clients_get_what_they_decompress() {
        let world = TlsWorld::new();
        let check =
            |offered: &[&'static Unpacker], expected| assert_eq!(gets(&world, offered), expected, "{offered:?}");
        check(&[BR], true);
        check(&[ZLIB], true);
        check(&[], true);
        // A handshake fails only if the broken algorithm was used: br first, and nothing that isn't ours.
        check(&[BROKEN_BR], false);
        check(&[BROKEN_ZLIB], false);
        check(&[BROKEN_BR, ZLIB], false);
        check(&[BROKEN_ZLIB, BR], true);
        check(&[ZSTD], true);
    }

    #[test]
    fn a_chain_becomes_shorter() {
        let text = |n: u8| [&b"C=US, O=Example Trust Services, CN=Intermediate R"[..], &[n; 100]].concat();
        let chain: Vec<u8> = (0..3).flat_map(text).collect();
        for compressor in COMPRESSORS {
            let made = compressor.compress(chain.clone(), CompressionLevel::Amortized).unwrap();
            assert!(made.len() < chain.len() / 3, "{compressor:?}: {} bytes", made.len());
        }
    }
}
