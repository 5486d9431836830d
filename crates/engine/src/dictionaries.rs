// SPDX-License-Identifier: BSD-2-Clause
//! A stored body becomes a compression dictionary (RFC 9842): a task of the thread that fetched it decodes and hashes it, in the
//! same bounded steps as a delivery. `cache::dictionaries` keeps it.

use std::pin::pin;
use std::sync::Arc;

use cache::{DictionaryReader, DictionarySource, ObjRef};
use message::Coding;
use sha2::{Digest, Sha256};

use crate::contain::contained;
use crate::engine::Engine;
use crate::forms::{FormFailure, Sink};

/// Bytes that are hashed and copied in about a microsecond.
const BYTES_A_MICRO: usize = 300;

impl Engine {
    pub(crate) fn learn_dictionary(self: &Arc<Self>, obj: ObjRef, source: DictionarySource, reader: DictionaryReader) {
        let engine = self.clone();
        rt::spawn(async move {
            let _reader = reader;
            let learned = contained(pin!(engine.read_dictionary(&obj, source))).await;
            match learned {
                Ok(Ok(())) => engine.main.dictionary_learned.inc(),
                Ok(Err(_)) => engine.main.dictionary_refused.inc(),
                Err(_) => engine.main.req_panic.inc(),
            }
        });
    }

    async fn read_dictionary(&self, obj: &ObjRef, source: DictionarySource) -> Result<(), FormFailure> {
        let most = self.cache.largest_dictionary();
        let (mut bytes, mut hasher) = (Vec::new(), Sha256::new());
        self.decode(obj, &mut |piece| {
            if bytes.len() + piece.len() > most {
                return Err(FormFailure::Refused);
            }
            bytes.extend_from_slice(piece);
            hasher.update(piece);
            Ok(())
        })
        .await?;
        if bytes.is_empty() {
            return Err(FormFailure::Refused);
        }
        let learned = self.cache.learn_dictionary(obj, hasher.finalize().into(), bytes, source);
        learned.map_err(|_| FormFailure::Refused)
    }

    async fn decode(&self, obj: &ObjRef, sink: Sink<'_>) -> Result<(), FormFailure> {
        if obj.flags().coding != Coding::Identity {
            return self.unpack(obj, sink).await;
        }
        let mut reader = obj.reader(0);
        while let Some(piece) = reader.next().await.map_err(|_| FormFailure::Gone)? {
            for part in piece.chunks(filters::SLICE) {
                sink(part)?;
                rt::spent_guess((part.len() / BYTES_A_MICRO) as u32).await;
            }
        }
        Ok(())
    }
}
