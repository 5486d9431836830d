// SPDX-License-Identifier: BSD-2-Clause
//! Filters of a request's body: those of `req.filters`, then those of `bereq.filters`. They work where the body is sent. A body that is
//! kept stays as its client sent it, and passes them anew for each try.

use std::borrow::Cow;
use std::task::{Context, Poll};

use filters::{
    Chain, Edit, FetchInput, FilterError, FilterList, FilterName, FilterState, GzipParams, SLICE, open_fetch,
};
use message::{Coding, digest, names};
use storage::Buf;
use vrt::value::Text;
use vrt::{Value, VclFailure};

use super::upload::Pieces;
use super::{Bereq, BereqBody};
use crate::httplog::BEREQ;
use crate::transport::ReqBodyError;
use crate::vars;

#[derive(Default)]
pub(crate) struct BodyFilters {
    /// `req.filters`, which goes first.
    pub req: Option<Text>,
    pub bereq: Option<Text>,
    last: Option<LastCodings>,
}

/// Content-Encoding in the last try: that of the body as it is kept, and what its filters made of the field.
struct LastCodings {
    sent: Option<Vec<u8>>,
    made: Option<Vec<u8>>,
}

impl BodyFilters {
    /// Content-Encoding of the body as it is kept, where the head has `shown`. A field that filters haven't made is the client's or VCL's.
    fn sent(&self, shown: Option<&Vec<u8>>) -> Option<Vec<u8>> {
        match &self.last {
            Some(last) if last.made.as_ref() == shown => last.sent.clone(),
            Some(_) | None => shown.cloned(),
        }
    }

    /// The filters of a fetch for a request that has set these.
    pub fn of_request(listed: Option<&Text>) -> Option<Box<Self>> {
        listed.map(|listed| Box::new(BodyFilters { req: Some(listed.clone()), ..BodyFilters::default() }))
    }
}

/// The names that VCL gives for `variable`; `None` for the empty list.
///
/// # Errors
/// There is no such filter for the body of a request.
pub(crate) fn listed(variable: &str, value: Value) -> Result<Option<Text>, VclFailure> {
    let Some(text) = vars::text(value)? else { return Ok(None) };
    let list = FilterList::from(text.as_bytes().to_vec());
    let mut names = list.names();
    while let Some(name) = names.next() {
        let why = match name {
            FilterName::Injected(_) => "not found",
            FilterName::Esi | FilterName::EsiGzip | FilterName::Range => "is for responses only",
            FilterName::Gunzip
            | FilterName::Gzip
            | FilterName::TestGunzip
            | FilterName::Pack(_)
            | FilterName::Unpack(_)
            | FilterName::Check(_) => continue,
        };
        let rest = [name.as_bytes(), names.rest()].concat();
        let rest = String::from_utf8_lossy(&rest);
        return Err(VclFailure::new(format!("{variable}: Filter '...{rest}' {why}")));
    }
    Ok(list.names().next().is_some().then_some(text))
}

impl Bereq {
    /// Opens the filters of the body and changes the head accordingly. `None`: there are none, or no body. A try without filters, after
    /// one that had some, gets the Content-Encoding of the client back, unless VCL has set another one.
    pub(super) fn open_body_filters(&mut self) -> Option<Chain> {
        let filters = self.ask.body_filters.as_deref()?;
        if matches!(self.ask.body, BereqBody::None | BereqBody::Gone) {
            return None;
        }
        let shown = self.ask.head.joined(names::CONTENT_ENCODING).map(Cow::into_owned);
        let sent = filters.sent(shown.as_ref());
        let both = [&filters.req, &filters.bereq].into_iter().flatten();
        let list = FilterList::from(both.flat_map(|text| [b" ", text.as_bytes()]).collect::<Vec<_>>().concat());
        let input = FetchInput {
            status: 200,
            coding: Coding::of_content(sent.as_deref()),
            url: self.ask.head.url(),
            gzip: GzipParams { level: self.params.gzip_level as u8, memlevel: self.params.gzip_memlevel as u8 },
            pack: crate::forms::pack_params(&self.params),
            esi: crate::esi::features(&self.params),
        };
        let opened = open_fetch(&list, input, &mut filters::InjectedFilters::default()).ok()?;
        if opened.chain.is_empty() && filters.last.is_none() {
            return None;
        }
        let mut coding = sent.clone();
        for edit in opened.edits {
            match edit {
                Edit::Unset(name) if names::CONTENT_ENCODING.eq_ignore_ascii_case(name) => coding = None,
                Edit::Unset(name) => BEREQ.unset(&mut self.ask.head, &mut self.log, name),
                Edit::OtherBody => {
                    for name in [names::CONTENT_LENGTH].into_iter().chain(digest::OF_A_BODY) {
                        BEREQ.unset(&mut self.ask.head, &mut self.log, name);
                    }
                }
                Edit::SetCoding(made) => coding = Some(made.token().as_bytes().to_vec()),
                Edit::WeakenEtag | Edit::VaryAcceptEncoding => {}
            }
        }
        self.say_coding(coding.as_deref(), shown.as_deref());
        self.ask.body_filters.get_or_insert_default().last = Some(LastCodings { sent, made: coding });
        (!opened.chain.is_empty()).then_some(opened.chain)
    }

    /// Makes the head say that the body has this Content-Encoding, where it says another.
    fn say_coding(&mut self, coding: Option<&[u8]>, shown: Option<&[u8]>) {
        match coding {
            _ if coding == shown => {}
            None => BEREQ.unset(&mut self.ask.head, &mut self.log, names::CONTENT_ENCODING),
            Some(coding) => {
                self.count_lost(|this| BEREQ.force(&mut this.ask.head, &mut this.log, names::CONTENT_ENCODING, coding))
            }
        }
    }
}

pub(super) struct FilteredPieces {
    source: Pieces,
    chain: Chain,
    piece: Buf,
    is_last: bool,
    state: FilterState,
    /// The filters have been told that nothing more is at hand.
    is_flushed: bool,
}

impl FilteredPieces {
    pub fn new(source: Pieces, chain: Chain) -> Self {
        FilteredPieces {
            source,
            chain,
            piece: Buf::unaccounted(Vec::new()),
            is_last: false,
            state: FilterState::Hungry,
            is_flushed: true,
        }
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, ReqBodyError>> {
        while self.state != FilterState::End {
            if self.state == FilterState::Hungry && !self.is_last {
                match self.source.poll_next(cx)? {
                    Poll::Ready(Some(piece)) => (self.piece, self.is_flushed) = (piece, false),
                    Poll::Ready(None) => self.is_last = true,
                    Poll::Pending if self.is_flushed => return Poll::Pending,
                    // The backend gets what filters hold back while the client pauses.
                    Poll::Pending => {
                        self.chain.flush();
                        self.is_flushed = true;
                    }
                }
            }
            let made = self.step().map_err(|error| match error.is_of_content() {
                true => ReqBodyError::Malformed("req.body filters failed"),
                false => ReqBodyError::FiltersFailed,
            })?;
            if !made.is_empty() {
                return Poll::Ready(Ok(Some(made)));
            }
        }
        Poll::Ready(Ok(None))
    }

    fn step(&mut self) -> Result<Buf, FilterError> {
        let FilteredPieces { chain, piece, is_last, state, .. } = self;
        filters::with_room(|room| {
            let step = chain.step(piece, *is_last, &mut room[..SLICE])?;
            *piece = piece.slice(step.consumed..piece.len());
            *state = step.state;
            Ok(Buf::unaccounted(room[..step.produced].to_vec()))
        })
    }
}
