// SPDX-License-Identifier: BSD-2-Clause
//! The response to a request, from the step that has it to the one that sends it: bytes made here, or an object with the
//! state of its delivery. The steps hand it on, so a step has what it needs and nothing is left of an answer that another
//! one replaces.

use std::sync::Arc;

use cache::{BodyReader, Form, ObjRef};
use message::range::Slice;
use storage::Buf;

use super::slices::SlicedDelivery;
use super::transmit::{DeliveryFailure, Window};
use crate::aux_attrs::AuxAttrs;
use crate::parts::StoredParts;
use crate::trailers::Trailers;

pub(crate) enum Answer {
    Made(Buf),
    Object(Delivery),
}

/// An object that was found or fetched.
pub(crate) struct Delivery {
    pub obj: ObjRef,
    /// The reader that has the first piece, if the body was only on a disk.
    first_reader: Option<Box<BodyReader>>,
    /// The way of the trailers, if this request's fetch brings the object and the client takes them.
    pub trailers: Option<Trailers>,
    pub extent: Extent,
}

/// The source of the bytes that a client gets of an object.
pub(crate) enum Extent {
    /// The body as it is stored.
    Stored,
    /// A copy of the body in another coding.
    Form(Arc<Form>),
    /// The body is in objects of its own.
    Slices(Box<SlicedDelivery>),
    /// The stored body is parts of the whole, one behind the other.
    Parts(Box<StoredParts>),
}

impl Answer {
    pub fn nothing() -> Self {
        Answer::Made(Buf::unaccounted(Vec::new()))
    }

    pub fn delivery(&self) -> Option<&Delivery> {
        match self {
            Answer::Made(_) => None,
            Answer::Object(delivery) => Some(delivery),
        }
    }

    pub fn obj(&self) -> Option<&ObjRef> {
        self.delivery().map(|delivery| &delivery.obj)
    }

    /// Bytes of the whole body before filters, if that is known; `announced` is what the stored head says.
    pub fn body_bytes(&self, announced: Option<u64>) -> Option<u64> {
        match self {
            Answer::Made(body) => Some(body.len() as u64),
            Answer::Object(delivery) => match &delivery.extent {
                Extent::Parts(parts) => Some(parts.total),
                Extent::Slices(sliced) => Some(sliced.total()),
                Extent::Form(form) => Some(form.bytes()),
                Extent::Stored => delivery.obj.body_len().or(announced),
            },
        }
    }
}

impl Delivery {
    pub fn found(obj: ObjRef, first_reader: Option<Box<BodyReader>>) -> Self {
        Delivery { obj, first_reader, trailers: None, extent: Extent::Stored }
    }

    pub fn fetched(obj: ObjRef, trailers: Option<Trailers>) -> Self {
        Delivery { obj, first_reader: None, trailers, extent: Extent::Stored }
    }

    pub fn has_trailers(&self) -> bool {
        self.trailers.as_ref().is_some_and(|trailers| trailers.are_there(self.obj.xid()))
    }

    pub fn form(&self) -> Option<&Arc<Form>> {
        match &self.extent {
            Extent::Form(form) => Some(form),
            Extent::Stored | Extent::Slices(_) | Extent::Parts(_) => None,
        }
    }

    pub fn is_partly_fetched(&self) -> bool {
        matches!(&self.extent, Extent::Slices(sliced) if sliced.is_partly_fetched())
    }

    pub fn reader_at(&mut self, start: u64) -> BodyReader {
        match self.first_reader.take() {
            Some(reader) => resumed(*reader, start),
            None => self.obj.reader(start),
        }
    }

    /// Does what [`Delivery::reader_at`] does, as the last reader.
    pub fn into_reader(self, start: u64) -> BodyReader {
        match self.first_reader {
            Some(reader) => resumed(*reader, start),
            None => self.obj.into_reader(start),
        }
    }

    /// Offset of these bytes of the object in its stored body.
    pub fn offset_of(&self, low: u64, high: u64) -> Result<u64, DeliveryFailure> {
        match &self.extent {
            Extent::Parts(parts) => parts.offset_of(Slice { low, high }).ok_or(DeliveryFailure::Fetch),
            Extent::Stored | Extent::Form(_) | Extent::Slices(_) => Ok(low),
        }
    }

    /// True if all that is wanted is stored. Parts can be sent as they are, and alone.
    pub(super) fn has_all_of(&self, window: &Window, is_plain: bool) -> bool {
        let Extent::Parts(parts) = &self.extent else { return true };
        let have = |low, high| parts.offset_of(Slice { low, high }).is_some();
        let is_there = match window {
            Window::All => false,
            Window::Part(low, high) | Window::UpTo(low, high) => have(*low, *high),
            Window::Parts(multipart) => multipart.parts.iter().all(|part| have(part.low, part.high)),
        };
        is_there && is_plain
    }
}

fn resumed(mut reader: BodyReader, start: u64) -> BodyReader {
    reader.seek(start);
    reader.stop_at(u64::MAX);
    reader
}

/// Length of the decompressed stored body, if that is known.
pub(super) fn plain_bytes(obj: &ObjRef) -> Option<u64> {
    obj.body_len()?;
    let aux_attrs = AuxAttrs::read(obj.aux_attrs());
    let gzip = aux_attrs.gzip_bits.map(|bits| bits.plain_bytes).filter(|&plain| plain > 0);
    gzip.or(aux_attrs.plain_bytes)
}
