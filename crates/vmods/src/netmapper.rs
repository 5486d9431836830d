// SPDX-License-Identifier: BSD-2-Clause
//! vmod_netmapper(3) of libvmod-netmapper: texts by address, out of JSON files. A file is read off the threads that serve, and looked
//! at again when somebody asks and it is time; the old one answers meanwhile.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

use base::Vxid;
use parking_lot::RwLock;
use shm::vsl::Marker;
use tables::Tag;
use vrt::acl::{Acl, AclDeclaration, AclFlags, DeclaredEntry};
use vrt::vmod::{CallResult, STRING, VOID, VmodCall, give, wait};
use vrt::{Method, Text, VclFailure};

use crate::support::reloaded::ReloadedFile;
use vmod_support::args::fail;
use vmod_support::files::ParsedFiles;

const MAX_BYTES: u64 = 64 << 20;
const NETWORKS: usize = 1_000_000;
const LABELS: usize = 1000;

vrt::vmod! {
    /// Maps addresses to strings by a JSON file of networks, {"TEXT": ["ADDRESS/BITS", ...], ...}. The smallest network
    /// that contains the address counts. IPv6 forms of an IPv4 address (compatible, mapped, SIIT, Teredo and 6to4) count as
    /// that IPv4 address
    pub(crate) static VMOD = netmapper;

    functions {
        /// Reads a file under a label for map(). It is checked for changes every `interval` seconds and read again; an
        /// invalid file keeps the previous data
        fn init(label: STRING, file: STRING, interval: INT) -> VOID, blocks, only(Method::Init.set()) = init;

        /// Returns the string for an address; unset if no network contains it, it isn't an address, or the label doesn't
        /// exist
        fn map(label: STRING, ip: STRING) -> STRING, local = map;
    }
}

static FILES: ParsedFiles<Database> = ParsedFiles::new(MAX_BYTES, |bytes| Database::read(&bytes));

#[derive(Default)]
struct Maps(RwLock<HashMap<Text, Arc<ReloadedFile<Database>>>>);

/// Networks as one of VCL's lists, and the texts of its entries.
#[derive(Debug)]
struct Database {
    networks: Acl,
    texts: Vec<Text>,
    notes: Vec<String>,
}

fn init(call: &mut VmodCall<'_>, label: Option<&Text>, file: Option<&Text>, interval: i64) -> CallResult<VOID> {
    let (Some(label), Some(path)) = (label.cloned(), file) else {
        return fail("netmapper.init(): label and file must be set");
    };
    if call.method != Method::Init {
        return fail("netmapper.init(): only in vcl_init");
    }
    let maps = call.module.get_or(Maps::default);
    if maps.0.read().len() >= LABELS {
        return fail(format!("netmapper.init(): more than {LABELS} labels"));
    }
    let path = PathBuf::from(path.lossy().into_owned());
    let interval = interval.max(1) as f64;
    let now = call.ctx.clock().mono();
    let log = call.ctx.log().ring().clone();
    wait(async move {
        let read = path.clone();
        let database = rt::blocking(move || FILES.share(&read)).await.map_err(rt::NoThread::text)?;
        let database =
            database.map_err(|reason| VclFailure::new(format!("netmapper.init(): {}: {reason}", path.display())))?;
        for note in &database.notes {
            let text = format_args!("netmapper: {}: {note}", path.display());
            log.write_onef(Tag::Error, Vxid::NONE, Marker::None, text);
        }
        let map = ReloadedFile::new("netmapper", path, interval, now, database, Box::new(|path| FILES.share(path)));
        maps.0.write().insert(label, map);
        Ok(())
    })
}

fn map(call: &mut VmodCall<'_>, label: Option<&Text>, ip: Option<&Text>) -> CallResult<STRING> {
    let (Some(label), Some(ip)) = (label, ip) else { return give(None::<Text>) };
    let Some(map) = call.module.get_or(Maps::default).0.read().get(label).cloned() else { return give(None::<Text>) };
    let database = map.current(call);
    let Some(ip) = std::str::from_utf8(ip).ok().and_then(|ip| ip.trim().parse().ok()) else {
        return give(None::<Text>);
    };
    give(database.find(ip))
}

/// Teredo addresses, `2001::/32` (RFC 4380).
const TEREDO: u128 = 0x2001_0000 << 96;
/// Addresses of 6to4, `2002::/16` (RFC 3056).
const SIX_TO_FOUR: u128 = 0x2002 << 112;
/// IPv4-mapped addresses, `::ffff:0:0/96` (RFC 4291).
const MAPPED: u128 = 0xffff << 32;
/// IPv4-translated addresses, `::ffff:0:0:0/96` (RFC 2765).
const SIIT: u128 = 0xffff << 48;
/// Other forms of IPv4 addresses: where they are, bits of that, and how far down the address in it is.
const FORMS: [(u128, u32, u32); 4] = [(MAPPED, 96, 0), (SIIT, 96, 0), (TEREDO, 32, 0), (SIX_TO_FOUR, 16, 80)];

fn leading(bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - bits).unwrap_or(0)
}

/// An address as the networks are kept: IPv4 ones below `::/96`.
fn canonical(ip: IpAddr) -> u128 {
    let bits = match ip {
        IpAddr::V4(ip) => return ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    for (place, count, down) in FORMS {
        if bits & leading(count) == place {
            let found = (bits >> down) as u32;
            return u128::from(if place == TEREDO { !found } else { found });
        }
    }
    bits
}

struct Network {
    prefix: u128,
    bits: u32,
    text: usize,
}

impl Database {
    fn read(bytes: &[u8]) -> Result<Database, String> {
        let json: serde_json::Value = serde_json::from_slice(bytes).map_err(|reason| reason.to_string())?;
        let sets = match json {
            serde_json::Value::Object(sets) => sets,
            // What some writers make of no sets at all.
            serde_json::Value::Array(none) if none.is_empty() => serde_json::Map::new(),
            _ => return Err("not a JSON object".to_owned()),
        };
        let (mut networks, mut texts, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for (text, members) in sets {
            let serde_json::Value::Array(members) = members else { return Err(format!("\"{text}\" has no list")) };
            for member in &members {
                let shown = || format!("\"{text}\": {member} is no network");
                let (prefix, bits) = member.as_str().and_then(network).ok_or_else(shown)?;
                let form = FORMS.iter().find(|(place, count, _)| bits >= *count && prefix & leading(*count) == *place);
                if form.is_some() {
                    return Err(format!("\"{text}\": {member} is a form of IPv4 addresses, which stand there as such"));
                }
                if prefix & leading(bits) != prefix {
                    notes.push(format!("\"{text}\": {member} has bits behind its mask"));
                }
                networks.push(Network { prefix: prefix & leading(bits), bits, text: texts.len() });
                if networks.len() > NETWORKS {
                    return Err(format!("more than {NETWORKS} networks"));
                }
            }
            texts.push(Text::from(text));
        }
        notes.truncate(10);
        // In this order each is added behind the others of its length.
        networks.sort_by_key(|network| (network.bits, network.prefix));
        let same = |pair: &&[Network]| (pair[0].prefix, pair[0].bits) == (pair[1].prefix, pair[1].bits);
        if let Some([a, b]) = networks.windows(2).find(same) {
            let shown = Ipv6Addr::from_bits(a.prefix);
            let (one, other) = (texts[a.text].lossy(), texts[b.text].lossy());
            return Err(format!("{shown}/{} is there twice: \"{one}\" and \"{other}\"", a.bits));
        }
        let entry = |network: &Network| DeclaredEntry {
            addr: Ipv6Addr::from_bits(network.prefix).to_string(),
            mask: Some(network.bits),
            ..DeclaredEntry::default()
        };
        let flags = AclFlags { pedantic: false, ..AclFlags::default() };
        let decl = AclDeclaration { name: "netmapper".into(), flags, entries: networks.iter().map(entry).collect() };
        let acl =
            Acl::build(&decl, &mut |_| Err("not an address".into()), &mut Vec::new()).map_err(|reason| reason.text)?;
        let texts = networks.iter().map(|network| texts[network.text].clone()).collect();
        Ok(Database { networks: acl, texts, notes })
    }

    fn find(&self, ip: IpAddr) -> Option<Text> {
        let at = self.networks.entry_of(Ipv6Addr::from_bits(canonical(ip)).into())?;
        self.texts.get(at).cloned()
    }
}

/// `ADDRESS/BITS`, among the IPv6 networks.
fn network(text: &str) -> Option<(u128, u32)> {
    let (addr, bits) = match text.split_once('/') {
        Some((addr, bits)) if bits.bytes().all(|b| b.is_ascii_digit()) => (addr, Some(bits.parse::<u32>().ok()?)),
        Some(_) => return None,
        // One address.
        None => (text, None),
    };
    if let Ok(addr) = addr.parse::<Ipv4Addr>() {
        let bits = bits.unwrap_or(32);
        return (bits <= 32).then(|| (addr.to_bits().into(), 96 + bits));
    }
    let (addr, bits): (Ipv6Addr, u32) = (addr.parse().ok()?, bits.unwrap_or(128));
    (bits <= 128).then(|| (addr.to_bits(), bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{
        "localnets": ["127.0.0.0/8", "::1/128"],
        "Foo": ["192.0.2.0/24", "10.0.0.0/8", "2001:db8:1234::/48"],
        "Bar": ["192.0.2.128/25", "172.16.0.1/12", "2001:db8:4231::/48"],
        "one": ["1.1.1.1", "2001:db8::1"],
        "none": []
    }"#;

    #[test]
    fn addresses() {
        let database = Database::read(SAMPLE.as_bytes()).expect("it is right");
        for (ip, wanted) in [
            ("127.1.2.3", Some("localnets")),
            ("::1", Some("localnets")),
            ("192.0.2.127", Some("Foo")),
            ("192.0.2.128", Some("Bar")),
            ("172.31.0.1", Some("Bar")),
            ("172.32.0.1", None),
            ("2001:db8:1234::abcd", Some("Foo")),
            ("2001:db8:4230::abcd", None),
            ("1.1.1.1", Some("one")),
            ("1.1.1.2", None),
            ("2001:db8::1", Some("one")),
            ("2001:db8::2", None),
            // 192.0.2.1 in its other forms.
            ("::192.0.2.1", Some("Foo")),
            ("::ffff:192.0.2.1", Some("Foo")),
            ("::ffff:0:192.0.2.1", Some("Foo")),
            ("2001::3fff:fdfe", Some("Foo")),
            ("2002:c000:201::7", Some("Foo")),
            ("2003:c000:201::7", None),
        ] {
            let found = database.find(ip.parse().expect("an address"));
            assert_eq!(found.map(|text| text.lossy().into_owned()).as_deref(), wanted, "{ip}");
        }
        assert_eq!(database.notes, ["\"Bar\": \"172.16.0.1/12\" has bits behind its mask"]);
    }

    #[test]
    fn files_that_are_wrong() {
        for (json, reason) in [
            ("{", "EOF while parsing"),
            ("[1]", "not a JSON object"),
            (r#"{"a": 1}"#, "\"a\" has no list"),
            (r#"{"a": [1]}"#, "\"a\": 1 is no network"),
            (r#"{"a": ["1.2.3.4/"]}"#, "is no network"),
            (r#"{"a": ["1.2.3"]}"#, "is no network"),
            (r#"{"a": ["1.2.3.4/33"]}"#, "is no network"),
            (r#"{"a": ["::/129"]}"#, "is no network"),
            (r#"{"a": ["::/x"]}"#, "is no network"),
            (r#"{"a": ["10.0.0.0/8"], "b": ["10.1.0.0/8"]}"#, "::a00:0/104 is there twice: \"a\" and \"b\""),
            (r#"{"a": ["::ffff:1.2.3.4/128"]}"#, "is a form of IPv4 addresses"),
            (r#"{"a": ["2002:c000::/32"]}"#, "is a form of IPv4 addresses"),
        ] {
            let error = Database::read(json.as_bytes()).expect_err(json);
            assert!(error.contains(reason), "{json}: {error}");
        }
        assert!(Database::read(br#"{"a": ["2000::/3", "::/0"]}"#).is_ok());
        let nothing = Database::read(b"[]").expect("it is right");
        assert!(nothing.find("1.2.3.4".parse().expect("an address")).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_text(text in "[0-9a-f:./]{0,30}", ip in proptest::prelude::any::<u128>()) {
            network(&text);
            canonical(Ipv6Addr::from_bits(ip).into());
        }
    }
}
