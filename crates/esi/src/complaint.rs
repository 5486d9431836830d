// SPDX-License-Identifier: BSD-2-Clause
//! What is wrong with a body, in the words of Varnish's ESI_xmlerror records.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is explained by its text below
pub enum Complaint {
    CommentNotEmpty,
    RemoveEmpty,
    RemoveOpen,
    RemoveNotOpen,
    MultipleSrc,
    SpaceInSrc,
    SrcTooLong,
    NoSlash,
    NoSrc,
    InvalidUrl,
    HttpsIgnored,
    HttpsTreated,
    NestedComment,
    IncludeInRemove,
    IncludeEndTag,
    CommentInRemove,
    CommentEndTag,
    Bogus,
    EmptyNotClosed,
    BadAttributeStart,
    BadAttributeChar,
    BadDelimiter,
    NoEndDelimiter,
    EndedInTag,
    NotXml,
    NotXmlBom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComplaintSeverity {
    /// An error, counted in `MAIN.esi_errors`.
    Error,
    /// A warning, counted in `MAIN.esi_warnings`.
    Warning,
    /// Not counted at all.
    Info,
}

impl Complaint {
    #[expect(clippy::wildcard_enum_match_arm, reason = "a complaint is an error unless it is named here")]
    pub fn severity(self) -> ComplaintSeverity {
        match self {
            Self::NoSlash | Self::HttpsIgnored | Self::HttpsTreated => ComplaintSeverity::Warning,
            Self::NotXml | Self::NotXmlBom => ComplaintSeverity::Info,
            _ => ComplaintSeverity::Error,
        }
    }

    /// The record's text behind the word for the severity; `after`: where the run of delivered or skipped bytes began that it is in.
    pub fn record(self, after: u64) -> String {
        match self.severity() {
            ComplaintSeverity::Error | ComplaintSeverity::Warning => format!("after {after} {self}"),
            ComplaintSeverity::Info => self.to_string(),
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CommentNotEmpty => "ESI 1.0 <esi:comment> needs final '/'",
            Self::RemoveEmpty => "ESI 1.0 <esi:remove/> not legal",
            Self::RemoveOpen => "ESI 1.0 <esi:remove> already open",
            Self::RemoveNotOpen => "ESI 1.0 <esi:remove> not open",
            Self::MultipleSrc => "ESI 1.0 <esi:include> has multiple src= attributes",
            Self::SpaceInSrc => "ESI 1.0 <esi:include> has whitespace in src= attribute",
            Self::SrcTooLong => "ESI 1.0 <esi:include> src= attribute too long",
            Self::NoSlash => "ESI 1.0 <esi:include> lacks final '/'",
            Self::NoSrc => "ESI 1.0 <esi:include> lacks src attr",
            Self::InvalidUrl => "ESI 1.0 <esi:include> invalid src= URL",
            Self::HttpsIgnored => "ESI 1.0 <esi:include> with https:// ignored",
            Self::HttpsTreated => "ESI 1.0 <esi:include> https:// treated as http://",
            Self::NestedComment => "ESI 1.0 Nested <!--esi element in <esi:remove>",
            Self::IncludeInRemove => "ESI 1.0 <esi:include> element nested in <esi:remove>",
            Self::IncludeEndTag => "ESI 1.0 </esi:include> illegal end-tag",
            Self::CommentInRemove => "ESI 1.0 <esi:comment> element nested in <esi:remove>",
            Self::CommentEndTag => "ESI 1.0 </esi:comment> illegal end-tag",
            Self::Bogus => "ESI 1.0 <esi:bogus> element",
            Self::EmptyNotClosed => "XML 1.0 '>' does not follow '/' in tag",
            Self::BadAttributeStart => "XML 1.0 Illegal attribute start char",
            Self::BadAttributeChar => "XML 1.0 Illegal attr char",
            Self::BadDelimiter => "XML 1.0 Illegal attribute delimiter",
            Self::NoEndDelimiter => "XML 1.0 Missing end attribute delimiter",
            Self::EndedInTag => "VEP ended inside a tag",
            Self::NotXml => "No ESI processing, first char not '<'. (See feature esi_disable_xml_check)",
            Self::NotXmlBom => "No ESI processing, first char not '<' but BOM. (See feature esi_remove_bom)",
        })
    }
}
