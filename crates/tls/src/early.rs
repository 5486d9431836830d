// SPDX-License-Identifier: BSD-2-Clause
//! Sessions that may be taken up with early data (RFC 8446 2.3): kept in memory, each good for one time, so that what a client sends with
//! one can't be replayed (section 8.1). Tickets that carry their session (`tickets`) can't promise that.
//!
//! All threads of a worker share them. Another worker and another server know none of them: there the client shakes hands in full.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest::{SHA256, digest};
use rustls::server::StoresServerSessions;
use zeroize::Zeroizing;

/// Sessions that are kept; the oldest make room. Each is some 200 bytes.
const MOST_SESSIONS: usize = 16 * 1024;

/// A digest of where a session is good, and of its number.
type Key = [u8; 32];

#[derive(Default)]
pub struct EarlySessions {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    sessions: HashMap<Key, Zeroizing<Vec<u8>>>,
    /// Keys in order of arrival, including those taken since.
    order: VecDeque<Key>,
}

impl EarlySessions {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, key: Key, session: Vec<u8>) {
        let mut kept = self.lock();
        if kept.order.len() == MOST_SESSIONS
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.sessions.remove(&oldest);
        }
        kept.order.push_back(key);
        kept.sessions.insert(key, Zeroizing::new(session));
    }

    fn take(&self, key: &Key) -> Option<Vec<u8>> {
        self.lock().sessions.remove(key).map(|mut session| std::mem::take(&mut *session))
    }
}

impl fmt::Debug for EarlySessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EarlySessions({})", self.lock().sessions.len())
    }
}

/// Early data is taken, in sessions that began under the same limits: a client keeps to those that it remembers (RFC 9000 7.4.1,
/// RFC 9114 7.2.4.2).
#[derive(Clone, Debug)]
pub struct EarlyData {
    pub sessions: Arc<EarlySessions>,
    /// Transport limits that must be the same for a session to be good.
    pub limits: String,
}

impl EarlyData {
    /// The sessions of a server that binds its tickets to `binding`.
    pub(crate) fn place(&self, binding: &[u8]) -> EarlyPlace {
        let both = [binding, self.limits.as_bytes()].concat();
        EarlyPlace { sessions: self.sessions.clone(), binding: digest(&SHA256, &both) }
    }
}

#[derive(Debug)]
pub(crate) struct EarlyPlace {
    sessions: Arc<EarlySessions>,
    binding: ring::digest::Digest,
}

impl EarlyPlace {
    fn key(&self, id: &[u8]) -> Key {
        let both = [self.binding.as_ref(), id].concat();
        digest(&SHA256, &both).as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    pub(crate) fn is(&self, other: &EarlyPlace) -> bool {
        self.binding.as_ref() == other.binding.as_ref() && Arc::ptr_eq(&self.sessions, &other.sessions)
    }
}

impl StoresServerSessions for EarlyPlace {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        self.sessions.put(self.key(&id), session);
        true
    }

    /// TLS 1.2 would use a session more than once; QUIC has none of it.
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.sessions.take(&self.key(id))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn early(limits: &str) -> EarlyData {
        EarlyData { sessions: Arc::default(), limits: limits.to_owned() }
    }

    #[test]
    fn a_session_is_good_once_and_where_it_began() {
        let early = early("100");
        let here = early.place(b"here");
        assert!(here.put(vec![1], vec![7]) && here.can_cache());
        assert_eq!((early.place(b"there").take(&[1]), here.get(&[1])), (None, None));
        assert_eq!(EarlyData { limits: "99".into(), ..early.clone() }.place(b"here").take(&[1]), None);
        assert_eq!((early.place(b"here").take(&[1]), here.take(&[1])), (Some(vec![7]), None));
    }

    #[test]
    fn there_are_only_so_many() {
        let early = early("");
        let here = early.place(b"here");
        let id = |n: usize| n.to_be_bytes().to_vec();
        for n in 0..2 * MOST_SESSIONS {
            here.put(id(n), vec![1]);
            // Taken at once: its place in the order is bounded, too.
            assert!(n % 2 == 0 || here.take(&id(n)).is_some());
        }
        let kept = early.sessions.lock();
        assert_eq!((kept.sessions.len(), kept.order.len()), (MOST_SESSIONS / 2, MOST_SESSIONS));
        drop(kept);
        assert!(here.take(&id(0)).is_none() && here.take(&id(2 * MOST_SESSIONS - 2)).is_some());
    }
}
