// SPDX-License-Identifier: BSD-2-Clause
//! Why a filter gave up. The texts are those of Varnish's FetchError records.

use std::fmt;

use message::Coding;

/// A body isn't what it claims to be, or doesn't have what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// Not gzip, damaged, or its checksum is wrong; zlib's word for it.
    InvalidGzip(&'static str),
    JunkAfterGzip,
    GunzipTruncated,
    TestTruncated,
    GzipFailed,
    /// Not what the coding is, damaged, or of a window that is too large.
    InvalidCoding(Coding, &'static str),
    JunkAfterCoding(Coding),
    CodingTruncated(Coding),
    /// All coders together hold as much memory as they may.
    CodingMemory(Coding),
    PackFailed(Coding),
    /// The body ended before the range did: the session closes with RANGE_SHORT.
    RangeShort,
    Module {
        name: &'static str,
        reason: &'static str,
    },
}

impl FilterError {
    /// True if the body isn't valid in its declared content coding; false if the filter itself failed.
    pub fn is_of_content(&self) -> bool {
        match self {
            Self::InvalidGzip(_)
            | Self::JunkAfterGzip
            | Self::GunzipTruncated
            | Self::TestTruncated
            | Self::InvalidCoding(..)
            | Self::JunkAfterCoding(_)
            | Self::CodingTruncated(_) => true,
            Self::GzipFailed | Self::CodingMemory(_) | Self::PackFailed(_) | Self::RangeShort | Self::Module { .. } => {
                false
            }
        }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidGzip(reason) => write!(f, "Invalid Gzip data: {reason}"),
            Self::JunkAfterGzip => f.write_str("Junk after gzip data"),
            Self::GunzipTruncated => f.write_str("Gunzip error at the very end"),
            Self::TestTruncated => f.write_str("tGunzip failed"),
            Self::GzipFailed => f.write_str("Gzip failed"),
            Self::InvalidCoding(coding, reason) => write!(f, "Invalid {} data: {reason}", coding.token()),
            Self::JunkAfterCoding(coding) => write!(f, "Junk after {} data", coding.token()),
            Self::CodingTruncated(coding) => write!(f, "{} data ends early", coding.token()),
            Self::CodingMemory(coding) => write!(f, "No memory to unpack {} (coding_memory)", coding.token()),
            Self::PackFailed(coding) => write!(f, "Packing {} failed", coding.token()),
            Self::RangeShort => f.write_str("Body shorter than its range"),
            Self::Module { name, reason } => write!(f, "{name}: {reason}"),
        }
    }
}

impl std::error::Error for FilterError {}

/// A chain could not be set up. The text is a FetchError record's (deliver: an Error record's).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainOpenError {
    /// No such filter: the list from its name on.
    NotFound(String),
    Refused {
        name: &'static str,
        /// The text of a VCL_Error record that comes first.
        vcl_error: &'static str,
    },
}

impl fmt::Display for ChainOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(rest) => write!(f, "Filter '...{rest}' not found"),
            Self::Refused { name, .. } => write!(f, "Fetch filter {name} failed to open"),
        }
    }
}

impl std::error::Error for ChainOpenError {}
