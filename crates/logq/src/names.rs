// SPDX-License-Identifier: BSD-2-Clause
//! Names of tags as users write them: shortened, with one `*`, in lists, and the names that Varnish 3 used.

use tables::Tag;
use tables::tags::TagMask;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    None,
    Ambiguous,
    /// More than one `*`.
    Syntax,
}

/// Varnish 3's names: each is one tag or, where a side wasn't named, two.
pub const OLD: &[(&str, &[Tag])] = &[
    ("RxRequest", &[Tag::ReqMethod]),
    ("RxURL", &[Tag::ReqUrl]),
    ("RxProtocol", &[Tag::ReqProtocol, Tag::BerespProtocol]),
    ("RxStatus", &[Tag::BerespStatus]),
    ("RxResponse", &[Tag::BerespReason]),
    ("RxHeader", &[Tag::ReqHeader, Tag::BerespHeader]),
    ("RxLostHeader", &[Tag::LostHeader]),
    ("TxRequest", &[Tag::BereqMethod]),
    ("TxURL", &[Tag::BereqUrl]),
    ("TxProtocol", &[Tag::RespProtocol, Tag::BereqProtocol]),
    ("TxStatus", &[Tag::RespStatus]),
    ("TxResponse", &[Tag::RespReason]),
    ("TxHeader", &[Tag::RespHeader, Tag::BereqHeader]),
    ("SessionOpen", &[Tag::SessOpen]),
    ("SessionClose", &[Tag::SessClose]),
    ("ReqEnd", &[Tag::ReqAcct]),
];

/// The old name of a tag, or its own.
pub fn old_name(tag: Tag) -> &'static str {
    OLD.iter().find(|(_, tags)| tags.contains(&tag)).map_or(tag.name(), |(name, _)| *name)
}

fn starts(name: &str, prefix: &str) -> bool {
    name.len() >= prefix.len() && name.as_bytes()[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes())
}

/// The tag of this name or of a beginning that no other shares, in any case.
///
/// # Errors
/// None is called so, or several are.
pub fn tag(name: &str) -> Result<Tag, NameError> {
    let mut found = Err(NameError::None);
    for tag in Tag::ALL.iter().copied().filter(|tag| starts(tag.name(), name)) {
        if tag.name().len() == name.len() {
            return Ok(tag);
        }
        found = if found == Err(NameError::None) { Ok(tag) } else { Err(NameError::Ambiguous) };
    }
    found
}

/// Adds the tags that `glob` stands for to `set`: a name, a beginning, a name with one `*`, an old name.
///
/// # Errors
/// The same as for [`tag`], or the name has more than one `*`.
pub fn glob(glob: &str, set: &mut TagMask) -> Result<(), NameError> {
    if glob.is_empty() {
        return Err(NameError::None);
    }
    let Some((first, last)) = glob.split_once('*') else {
        let old = OLD.iter().find(|(name, _)| name.eq_ignore_ascii_case(glob));
        match (tag(glob), old) {
            (Ok(tag), _) => set.set(tag, true),
            (Err(NameError::None), Some((_, tags))) => tags.iter().for_each(|tag| set.set(*tag, true)),
            (Err(error), _) => return Err(error),
        }
        return Ok(());
    };
    if last.contains('*') {
        return Err(NameError::Syntax);
    }
    let mut any = false;
    for tag in Tag::ALL {
        let name = tag.name();
        let ends = |name: &str| name.as_bytes()[name.len() - last.len()..].eq_ignore_ascii_case(last.as_bytes());
        if name.len() >= first.len() + last.len() && starts(name, first) && ends(name) {
            set.set(*tag, true);
            any = true;
        }
    }
    if any { Ok(()) } else { Err(NameError::None) }
}

/// The tags of a list with commas.
///
/// # Errors
/// The same as for [`glob`]; an empty list stands for none.
pub fn list(list: &str) -> Result<TagMask, NameError> {
    let mut set = TagMask::default();
    let mut any = false;
    for word in list.split(',').filter(|word| !word.is_empty()) {
        glob(word, &mut set)?;
        any = true;
    }
    if any { Ok(set) } else { Err(NameError::None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let got = match list(text) {
            Ok(set) => Tag::ALL.iter().filter(|t| set.has(**t)).map(|t| t.name()).collect::<Vec<_>>().join(","),
            Err(error) => format!("{error:?}"),
        };
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn lists() {
        check("ReqURL", "ReqURL");
        check("requrl", "ReqURL");
        check("hit", "Hit");
        check("ReqU", "Ambiguous");
        check("ReqUR,,BereqURL,", "ReqURL,BereqURL");
        check("*URL", "ReqURL,RespURL,BereqURL,BerespURL,ObjURL");
        check("H2*Hdr", "H2RxHdr,H2TxHdr");
        check("Req*U*", "Syntax");
        check("nope", "None");
        check("x*", "None");
        check("", "None");
        check(",", "None");
        check("RxHeader", "ReqHeader,BerespHeader");
    }
}
