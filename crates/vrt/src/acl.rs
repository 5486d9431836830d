// SPDX-License-Identifier: BSD-2-Clause
//! ACLs of vcl(7): built once per VCL from the entries as written, matched by the longest prefix.

use std::net::IpAddr;

/// An ACL as its declaration says it.
#[derive(Clone, Debug, Default)]
pub struct Decl {
    /// Its name in VCL.
    pub name: String,
    /// The flags after the name.
    pub flags: Flags,
    /// The entries in order.
    pub entries: Vec<Entry>,
}

/// `+log`, `-pedantic`, `+table`.
#[derive(Clone, Copy, Debug)]
pub struct Flags {
    /// Log a `VCL_acl` record for each match.
    pub log: bool,
    /// Bits beyond a mask are an error (default) or are cleared.
    pub pedantic: bool,
    /// Has no effect but on the log text for no match.
    pub table: bool,
}

impl Default for Flags {
    fn default() -> Self {
        Flags { log: false, pedantic: true, table: false }
    }
}

/// One entry.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// `!`
    pub negated: bool,
    /// In parentheses: left out when its name can't be resolved.
    pub ignorable: bool,
    /// What is in the quotes; `address/mask` is possible.
    pub addr: String,
    /// The number after `"..." /`.
    pub mask: Option<u32>,
}

/// Why an ACL can't be built; `entry` is its index in [`Decl::entries`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclError {
    /// Which entry.
    pub entry: usize,
    /// True: the mask is to blame; false: the address.
    pub at_mask: bool,
    /// For a conflict, the earlier entry.
    pub other: Option<usize>,
    /// Varnish's text.
    pub text: String,
}

/// Turns a host name into addresses, or says why not (`getaddrinfo`'s text).
pub type Resolve<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<IpAddr>, String>;

/// A built ACL.
#[derive(Debug)]
pub struct Acl {}

/// What a match found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// The value of `ip ~ acl`.
    pub allowed: bool,
    /// The text of the `VCL_acl` record; `None` unless the ACL has `+log`.
    pub log: Option<&'a str>,
}

impl Acl {
    /// Builds it. Entries left out because their name can't be resolved are told in `warnings`.
    ///
    /// # Errors
    /// The first entry that is wrong.
    pub fn build(_decl: &Decl, _resolve: Resolve<'_>, _warnings: &mut Vec<String>) -> Result<Acl, AclError> {
        todo!()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        todo!()
    }

    /// Matches an address.
    pub fn matches(&self, _ip: IpAddr) -> Verdict<'_> {
        todo!()
    }
}

/// The system's resolver; blocks, so only for loading a VCL.
///
/// # Errors
/// The resolver's own text.
pub fn system_resolver(_name: &str) -> Result<Vec<IpAddr>, String> {
    todo!()
}
