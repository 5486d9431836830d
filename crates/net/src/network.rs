// SPDX-License-Identifier: BSD-2-Clause
//! The place where a thread's connections come from, if that isn't the operating system. Only tests and simulations install
//! one (`testkit-net`); a look at a thread-local variable for each new connection is all that the product pays for it.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;

use crate::{ConnectTarget, Stream};

/// Makes connections without the operating system.
pub trait Network: fmt::Debug {
    /// A connection to `target`.
    ///
    /// # Errors
    /// As those of `connect(2)`: callers look at the number.
    fn connect(&self, target: &ConnectTarget) -> io::Result<Stream>;

    /// The two ends of a connection.
    fn pair(&self) -> (Stream, Stream);
}

thread_local! {
    static NETWORK: RefCell<Option<Rc<dyn Network>>> = const { RefCell::new(None) };
}

/// Makes all connections of this thread come from there, or from the operating system again; returns what was there before.
pub fn install(network: Option<Rc<dyn Network>>) -> Option<Rc<dyn Network>> {
    // A thread that is ending has none, and connects no more.
    NETWORK.try_with(|own| own.replace(network)).ok().flatten()
}

/// This thread's network, if it has one of its own.
pub(crate) fn current() -> Option<Rc<dyn Network>> {
    NETWORK.try_with(|own| own.borrow().clone()).ok().flatten()
}
