// SPDX-License-Identifier: BSD-2-Clause
//! A request that needs a backend gets a worker of its class, waits for one in a slot, or is refused (`crate::classes`).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use accounts::BotClass;
use message::{list, names};
use params::classes::PREFETCH;
use tables::no_hit::NoHit;
use tables::tags::Tag;

use super::body::Departure;
use super::bots::CRAWL;
use super::reason::NoHitReason;
use super::verdict::ReqVerdict;
use super::{Req, ReqStep};
use crate::classes::{self, ClassChoice, ClassEntry, ClassRefusal, ClassWorker, CostKey, PlaceWait, Visitor};
use crate::httplog::RESP;
use crate::synthetic::SynthOrder;
use crate::transport::Transport;

/// Cookies of the waiting room begin so; behind it is the name of a class.
pub(super) const COOKIE_PREFIX: &str = "lacquer-place-";

/// Outcome of a request in its class (`req.class_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClassState {
    #[default]
    None,
    Served,
    /// There was no slot.
    Full,
    Late,
}

pub(super) struct NoWorker;

impl ClassState {
    pub fn word(self) -> &'static str {
        match self {
            ClassState::None => "",
            ClassState::Served => "served",
            ClassState::Full => "full",
            ClassState::Late => "late",
        }
    }
}

impl Req {
    /// Before a fetch: a worker of the request's class, while there are classes. `Err` is the step to go to instead.
    pub(super) async fn take_worker(
        &mut self,
        transport: &mut dyn Transport,
    ) -> Result<Option<Box<ClassWorker>>, ReqStep> {
        if !self.engine().requests.classes.is_on() {
            return Ok(None);
        }
        let (class, cost) = self.choose_class();
        let Some(class) = class else { return Ok(Some(Box::new(ClassWorker::free(&self.client.sess, cost)))) };
        // Fragments inherit the header, and a refused one would leave an error in a page that is delivered.
        let is_speculative = !self.esi.is_fragment() && self.is_speculative();
        let takes_page = !is_speculative && self.takes_page();
        let token = if takes_page { self.place_token(class) } else { None };
        let tenant = self.tenant_key();
        let visitor = Visitor { token: token.as_deref(), takes_page, tenant, is_speculative };
        match classes::enter(&self.client.sess, class, cost, visitor) {
            ClassEntry::Now(worker) => Ok(self.served_by(worker)),
            ClassEntry::Later(wait) => Box::pin(self.sit(wait, takes_page, transport)).await,
            ClassEntry::Refused(refusal) => Err(self.refuse_class(refusal)),
        }
    }

    /// Does what [`Req::take_worker`] does, for a fetch that nobody waits for.
    pub(super) fn worker_if_free(&mut self) -> Result<Option<Box<ClassWorker>>, NoWorker> {
        if !self.engine().requests.classes.is_on() {
            return Ok(None);
        }
        let (class, cost) = self.choose_class();
        let worker = match class {
            Some(class) => classes::enter_if_free(&self.client.sess, class, cost).ok_or(NoWorker)?,
            None => ClassWorker::free(&self.client.sess, cost),
        };
        Ok(Some(Box::new(worker)))
    }

    fn choose_class(&mut self) -> (Option<u32>, CostKey) {
        let classes = &self.client.sess.engine.requests.classes;
        let cost = classes.cost_key(self.ask.head.get(names::HOST).unwrap_or_default(), self.ask.head.url());
        let named = self.settings.class.as_ref().map(|name| name.as_bytes());
        let offers = [(CRAWL, self.client.bot_class == BotClass::Crawl), (PREFETCH, self.is_speculative())];
        let offered: Vec<&str> = offers.iter().filter(|(_, applies)| *applies).map(|(name, _)| *name).collect();
        let choice = match classes.choose(named, cost, &offered) {
            ClassChoice::Unknown => {
                let name = String::from_utf8_lossy(named.unwrap_or_default()).into_owned();
                let other = classes.choose(None, cost, &offered);
                self.log.putf(Tag::VclError, format_args!("req.class: no class {name} is declared"));
                other
            }
            choice => choice,
        };
        match choice {
            ClassChoice::Class(class) => (Some(class), cost),
            ClassChoice::Free | ClassChoice::Unknown => (None, cost),
        }
    }

    fn served_by(&mut self, worker: ClassWorker) -> Option<Box<ClassWorker>> {
        self.client.class_state = ClassState::Served;
        Some(Box::new(worker))
    }

    /// Waits in a slot, before it takes a slot, so that others go on; a client that goes leaves the slot at once.
    async fn sit(
        &mut self,
        wait: PlaceWait,
        takes_page: bool,
        transport: &mut dyn Transport,
    ) -> Result<Option<Box<ClassWorker>>, ReqStep> {
        self.log.flush();
        let patience = Duration::from_secs_f64(wait.patience);
        let mut wait = wait;
        let mut deadline = rt::Deadline::until(rt::Instant::now() + patience);
        let arrives = poll_fn(|cx| match Pin::new(&mut wait).poll(cx) {
            Poll::Ready(place) => Poll::Ready(Some(place)),
            Poll::Pending => deadline.poll(cx).map(|()| None),
        });
        let ended = self.drive_until(Departure::Closed, transport, arrives).await;
        match ended {
            Some(Some(worker)) => {
                self.client.waited.class += worker.waited() as f32;
                self.mark("Class");
                Ok(self.served_by(worker))
            }
            Some(None) => {
                self.mark("Class");
                Err(self.refuse_class(wait.give_up(takes_page)))
            }
            None => {
                wait.leave();
                self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Refused, "the client is gone"));
                Err(self.end_reset())
            }
        }
    }

    /// 503, and when to come again.
    fn refuse_class(&mut self, refusal: ClassRefusal) -> ReqStep {
        self.client.class_state = if refusal.is_late { ClassState::Late } else { ClassState::Full };
        let text = format!("class {}: {}", refusal.class, self.client.class_state.word());
        self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Refused, text.as_str()));
        self.log.put(Tag::Error, text.as_bytes());
        ReqStep::Synth(SynthOrder::of_refusal(refusal))
    }

    /// True if a browser asks for what its user may never look at, unless VCL has removed the header. Chromium says `Purpose` for links.
    fn is_speculative(&self) -> bool {
        let is_prefetch =
            |value: &[u8]| value.split(|&b| b == b';').next().is_some_and(|word| word.trim_ascii() == b"prefetch");
        ["Sec-Purpose", "Purpose"].iter().any(|name| self.ask.head.get(name).is_some_and(is_prefetch))
    }

    /// True if the client would show a page: it asks for HTML, and not for a fragment.
    fn takes_page(&self) -> bool {
        let accepts = self.ask.original.get_all(names::ACCEPT.as_bytes()).any(|accept| list::has(accept, b"text/html"));
        accepts && matches!(self.ask.original.method(), b"GET" | b"HEAD") && !self.esi.is_fragment()
    }

    /// The token for this class that came with the request, as it came: parameters and VCL may have taken the cookie away.
    fn place_token(&self, class: u32) -> Option<Vec<u8>> {
        let name = format!("{COOKIE_PREFIX}{}", self.engine().requests.classes.name_of(class)?);
        let pairs = self.ask.original.get_all(names::COOKIE.as_bytes()).flat_map(|value| value.split(|b| *b == b';'));
        let value =
            pairs.map(<[u8]>::trim_ascii).find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        value.map(<[u8]>::to_vec)
    }

    /// The fields of the answer to who was refused, before VCL.
    pub(super) fn tell_refusal(&mut self, refusal: &ClassRefusal) {
        let seconds = refusal.retry_after.to_string();
        self.set_resp(names::RETRY_AFTER, &[seconds.as_bytes()]);
        self.set_resp(names::CACHE_CONTROL, &[b"no-store"]);
        let Some(token) = &refusal.token else { return };
        self.set_resp("Refresh", &[seconds.as_bytes()]);
        // It is of no use once its visitor could have come again and hasn't.
        let age = u64::from(refusal.retry_after) * 3 + 60;
        let cookie = format!("{COOKIE_PREFIX}{}={token}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax", refusal.class);
        self.set_resp(names::SET_COOKIE, &[cookie.as_bytes()]);
    }

    /// After VCL: where the built-in one has made the answer, which says the same to everybody, this one knows more.
    pub(super) fn replace_builtin_refusal(&mut self, refusal: &ClassRefusal, body: &mut Vec<u8>) {
        let is_builtin = self.vcl.ended_at().is_some_and(|at| at.is_builtin());
        if !is_builtin {
            return;
        }
        let seconds = refusal.retry_after.to_string();
        if RESP.force(&mut self.resp.head, &mut self.log, names::RETRY_AFTER, seconds.as_bytes()).is_err() {
            self.log.count_lost();
        }
        if refusal.token.is_some() {
            *body = waiting_page(refusal.retry_after).into_bytes();
        }
    }
}

fn waiting_page(seconds: u32) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"{seconds}\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>Please wait</title>\n</head>\n<body>\n<h1>Please wait</h1>\n\
         <p>Many others are here just now. Your place in the queue is kept, and this page comes back by itself in {seconds} seconds.</p>\n\
         </body>\n</html>\n"
    )
}
