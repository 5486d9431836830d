// SPDX-License-Identifier: BSD-2-Clause
//! vmod_synthbackend of Varnish Enterprise: backends that answer with a text, or with the request's own body. Its functions
//! are as published VCL calls them.

use std::sync::Arc;

use backend::{Backend, BackendSpec, Director, DirectorBase, Health, ResolveCtx, Responder, ServiceRef};
use base::Real;
use vrt::vmod::{BACKEND, CallResult, VmodCall, give};
use vrt::{Blob, VclFailure};

use crate::support::local::{self, Answering, LocalResponder};
use vmod_support::args::fail;

const PIECE: usize = 64 * 1024;
/// Bytes of a body that is mirrored.
const MIRRORED: usize = 64 * 1024 * 1024;

vrt::vmod! {
    /// Backends that generate responses in VCL, with status 200. Their responses are cached, compressed and processed as
    /// any other
    pub(crate) static VMOD = synthbackend;

    functions {
        /// Responds with the request's body (at most 64 MB) and its headers that begin with Content-
        fn mirror() -> BACKEND = |call: &mut VmodCall<'_>| shared(call).map(|shared| shared.director.clone());

        /// Responds with these bytes
        fn from_blob(blob: BLOB) -> BACKEND = from_blob;

        /// Responds with this string
        fn from_string(string: STRING) -> BACKEND
            = |call: &mut VmodCall<'_>, string: &[u8]| given(call, Blob::new(string.to_vec()));
    }
}

fn from_blob(call: &mut VmodCall<'_>, blob: Option<&Blob>) -> CallResult<BACKEND> {
    let blob = blob.cloned();
    given(call, blob.unwrap_or_else(|| Blob::new([])))
}

#[derive(Clone)]
struct Shared {
    director: Arc<dyn Director>,
}

/// The backend that mirrors; the others have its name and its counters.
fn shared(call: &mut VmodCall<'_>) -> Result<Shared, VclFailure> {
    let log = call.ctx.log().ring().clone();
    let made = call.module.get_or(|| {
        let spec = BackendSpec::service("synthbackend", local::service("synthbackend", log, Arc::new(Mirror)));
        call.vcl.make_backend(spec).map(|director| Shared { director })
    });
    (*made).clone().map_or_else(|| fail("synthbackend: no backends can be made here"), Ok)
}

fn given(call: &mut VmodCall<'_>, body: Blob) -> CallResult<BACKEND> {
    let like = shared(call)?.director;
    let service = local::service("synthbackend", call.ctx.log().ring().clone(), Arc::new(Text(body)));
    let base = DirectorBase::new(&call.vcl.name, "synthbackend", call.ctx.clock().real());
    give(Arc::new(OneAnswer { base, like, service }))
}

struct OneAnswer {
    base: DirectorBase,
    like: Arc<dyn Director>,
    service: ServiceRef,
}

impl Director for OneAnswer {
    fn base(&self) -> &DirectorBase {
        &self.base
    }

    fn kind(&self) -> &'static str {
        "synthbackend"
    }

    fn choose(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
        Some(self.like.resolve(ctx)?.serving(self.service.clone()))
    }

    fn own_health(&self, now: Real) -> Option<Health> {
        Some(self.like.healthy(now))
    }
}

/// Answers with the request's body, and the fields that tell what it is.
struct Mirror;

impl LocalResponder for Mirror {
    fn answer(self: Arc<Self>, mut responder: Responder) -> Answering {
        Box::pin(async move {
            let is_of_body = |name: &[u8]| {
                let starts = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-"));
                starts && !name.eq_ignore_ascii_case(b"content-length")
            };
            let fields = responder.head.iter().filter(|field| is_of_body(field.name()));
            let fields: Vec<_> = fields.map(|field| (field.name().to_vec(), field.value().to_vec())).collect();
            // The engine takes an answer before its request's end for a refusal: the body is read first.
            let mut body = Vec::new();
            while let Some(piece) = responder.next_piece().await? {
                if body.len() + piece.len() > MIRRORED {
                    return Err(format!("a body of more than {MIRRORED} bytes"));
                }
                body.extend_from_slice(&piece);
            }
            let fields: Vec<(&[u8], &[u8])> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            responder.respond(200, b"", &fields, Some(body.len() as u64));
            responder.send(&body).await?;
            responder.finish().await
        })
    }
}

struct Text(Blob);

impl LocalResponder for Text {
    fn answer(self: Arc<Self>, mut responder: Responder) -> Answering {
        Box::pin(async move {
            responder.respond(200, b"", &[], Some(self.0.as_bytes().len() as u64));
            for piece in self.0.as_bytes().chunks(PIECE) {
                responder.send(piece).await?;
            }
            responder.finish().await
        })
    }
}
