// SPDX-License-Identifier: BSD-2-Clause
//! Takes numbers and lists off the front of bytes, as TLS writes them: big-endian, lists behind their length.

use super::HelloError;

/// The bytes that are left to read; `what` names them in errors.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Reader { rest: bytes, what }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<&'a [u8], HelloError> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(HelloError::Malformed(self.what))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u16, HelloError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn list8(&mut self) -> Result<&'a [u8], HelloError> {
        let length = self.take(1)?[0];
        self.take(length.into())
    }

    pub(super) fn list16(&mut self) -> Result<&'a [u8], HelloError> {
        let length = self.number()?;
        self.take(length.into())
    }

    pub(super) fn end(&self) -> Result<(), HelloError> {
        if self.is_empty() { Ok(()) } else { Err(HelloError::Malformed(self.what)) }
    }
}
