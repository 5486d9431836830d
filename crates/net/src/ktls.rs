// SPDX-License-Identifier: BSD-2-Clause
//! TLS in the kernel: whether it is there, and the keys of connections that it is to seal. Without it nothing is lost: records are
//! sealed here then ([`crate::sealed`]).
//!
//! Only what is sent goes that way. What comes is opened here, as a peer's alerts and changes of keys have to be understood anyhow.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use tls::{KtlsAbility, KtlsKey, TlsVersion};

use crate::Stream;

/// Connections that go to the kernel (`tls_kernel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KtlsUse {
    /// No connection goes there.
    Off,
    /// Those that lose nothing by it.
    Auto,
    /// Also those whose client can't have the keys changed then.
    On,
}

/// Outcome for a connection.
#[derive(Debug)]
pub enum KtlsOutcome {
    /// This process seals it.
    Unasked,
    /// The kernel seals it.
    Given,
    /// The kernel was to seal, and doesn't: it is sealed here.
    Refused(io::Error),
}

/// The system calls, for tests to have others.
trait Calls {
    fn attach(&self, socket: BorrowedFd<'_>) -> io::Result<()>;
    fn set_key(&self, socket: BorrowedFd<'_>, key: &KtlsKey) -> io::Result<()>;
}

struct SystemCalls;

impl Calls for SystemCalls {
    fn attach(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        sys::ktls::attach(socket)
    }

    fn set_key(&self, socket: BorrowedFd<'_>, key: &KtlsKey) -> io::Result<()> {
        sys::ktls::set_tx_key(socket, key.bytes())
    }
}

impl KtlsUse {
    /// The value that the parameter's word means.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "off" => KtlsUse::Off,
            "auto" => KtlsUse::Auto,
            "on" => KtlsUse::On,
            _ => return None,
        })
    }
}

/// The abilities of this kernel, tried once on a connection of our own.
///
/// # Errors
/// The operating system's word for why not.
pub fn ability() -> io::Result<KtlsAbility> {
    static ABILITY: OnceLock<Result<KtlsAbility, Option<i32>>> = OnceLock::new();
    let ability = ABILITY.get_or_init(|| try_out().map_err(|error| error.raw_os_error()));
    ability.map_err(|number| number.map_or(ErrorKind::Unsupported.into(), io::Error::from_raw_os_error))
}

fn try_out() -> io::Result<KtlsAbility> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let _theirs = listener.accept()?;
    try_out_with(&SystemCalls, ours.as_fd())
}

fn try_out_with(calls: &impl Calls, socket: BorrowedFd<'_>) -> io::Result<KtlsAbility> {
    calls.attach(socket)?;
    calls.set_key(socket, &KtlsKey::of_nobody())?;
    Ok(KtlsAbility { changes_keys: calls.set_key(socket, &KtlsKey::of_nobody()).is_ok() })
}

/// Gives the kernel the key of a stream, if it is to have it.
pub(crate) fn give(stream: &Stream, wanted: KtlsUse, key: &KtlsKey) -> (Option<KtlsAbility>, KtlsOutcome) {
    let Stream::Tcp(socket) = stream else { return (None, KtlsOutcome::Unasked) };
    give_with(&SystemCalls, socket.as_fd(), wanted, ability(), key)
}

fn give_with(
    calls: &impl Calls,
    socket: BorrowedFd<'_>,
    wanted: KtlsUse,
    ability: io::Result<KtlsAbility>,
    key: &KtlsKey,
) -> (Option<KtlsAbility>, KtlsOutcome) {
    let given = match (wanted, ability) {
        (KtlsUse::Off, _) | (KtlsUse::Auto, Err(_)) => return (None, KtlsOutcome::Unasked),
        // A client may ask for new keys at any time (RFC 8446 4.6.3): it would lose its connection.
        (KtlsUse::Auto, Ok(ability)) if key.version() == TlsVersion::Tls13 && !ability.changes_keys => {
            return (None, KtlsOutcome::Unasked);
        }
        (KtlsUse::On, Err(error)) => Err(error),
        (KtlsUse::Auto | KtlsUse::On, Ok(ability)) => {
            calls.attach(socket).and_then(|()| calls.set_key(socket, key)).map(|()| ability)
        }
    };
    match given {
        Ok(found) => (Some(found), KtlsOutcome::Given),
        Err(error) => (None, KtlsOutcome::Refused(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Answers each call with the next of these.
    struct Fake(RefCell<Vec<io::Result<()>>>);

    impl Fake {
        fn next(&self) -> io::Result<()> {
            self.0.borrow_mut().remove(0)
        }
    }

    impl Calls for Fake {
        fn attach(&self, _: BorrowedFd<'_>) -> io::Result<()> {
            self.next()
        }

        fn set_key(&self, _: BorrowedFd<'_>, _: &KtlsKey) -> io::Result<()> {
            self.next()
        }
    }

    fn no() -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn fake<const N: usize>(answers: [io::Result<()>; N]) -> (Fake, UnixStream) {
        (Fake(RefCell::new(answers.into())), UnixStream::pair().unwrap().0)
    }

    #[test]
    fn a_kernel_is_tried_out_by_two_keys() {
        let check = |answers: [io::Result<()>; 3], wanted: Option<bool>| {
            let (calls, socket) = fake(answers);
            assert_eq!(try_out_with(&calls, socket.as_fd()).ok().map(|ability| ability.changes_keys), wanted);
        };
        check([no(), Ok(()), Ok(())], None);
        check([Ok(()), no(), Ok(())], None);
        check([Ok(()), Ok(()), no()], Some(false));
        check([Ok(()), Ok(()), Ok(())], Some(true));
    }

    fn check(wanted: KtlsUse, changes_keys: Option<bool>, answers: [io::Result<()>; 2], outcome: &str) {
        let (calls, socket) = fake(answers);
        let ability = changes_keys.map(|changes_keys| KtlsAbility { changes_keys });
        let ability = ability.ok_or_else(|| ErrorKind::Unsupported.into());
        let (is_given, told) = give_with(&calls, socket.as_fd(), wanted, ability, &KtlsKey::of_nobody());
        assert_eq!((is_given.is_some(), format!("{told:?}").as_str()), (outcome == "Given", outcome));
    }

    #[test]
    fn a_connection_is_given_where_that_is_wanted_and_possible() {
        check(KtlsUse::Off, Some(true), [no(), no()], "Unasked");
        check(KtlsUse::Auto, None, [no(), no()], "Unasked");
        check(KtlsUse::Auto, Some(false), [no(), no()], "Unasked");
        check(KtlsUse::Auto, Some(true), [Ok(()), Ok(())], "Given");
        check(KtlsUse::On, Some(false), [Ok(()), Ok(())], "Given");
    }

    #[test]
    fn what_the_kernel_refuses_is_told_and_sealed_here() {
        check(KtlsUse::On, None, [no(), no()], "Refused(Kind(Unsupported))");
        check(KtlsUse::Auto, Some(true), [no(), Ok(())], "Refused(Kind(Unsupported))");
        check(KtlsUse::Auto, Some(true), [Ok(()), no()], "Refused(Kind(Unsupported))");
    }
}
