// SPDX-License-Identifier: BSD-2-Clause
//! vmod_geoip2(3) of libvmod-geoip2. The file is held in memory, once for all VCLs: one that is replaced on the disk is read
//! with the next VCL.

use std::sync::Arc;

use maxminddb::{PathElement, Reader};
use serde_json::Value as Json;
use tables::Tag;
use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Failure, Value};

use crate::args::{Args, give};
use crate::files::Files;

/// Steps of a path.
const DEEPEST: usize = 10;

/// vmod_geoip2(3)
pub(crate) static VMOD: Vmod =
    Vmod { name: "geoip2", functions: &[], classes: &[Class { name: "geoip2", new, methods: &[("lookup", lookup)] }] };

pub(crate) type Database = Reader<Vec<u8>>;

static DATABASES: Files<Database> = Files::new(u64::MAX, |bytes| Reader::from_source(bytes).map_err(|e| e.to_string()));

/// What the file is now.
pub(crate) fn open(file: &std::path::Path) -> Result<Arc<Database>, String> {
    DATABASES.share(file)
}

fn new(call: &mut Call<'_>, _: &str, args: &[Value]) -> Result<Object, Failure> {
    let name = Args(args).text(0).map(|name| name.lossy().into_owned()).unwrap_or_default();
    let log = call.ctx.log();
    let mut error = |error: &dyn std::fmt::Display| {
        let text = format!("geoip2.geoip2: Error opening the specified MaxMind DB file {name}: {error}");
        log.put(Tag::Error, text.as_bytes());
        Failure::new(text)
    };
    Ok(open(name.as_ref()).map_err(|e| error(&e))?)
}

fn lookup(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let database = object.downcast_ref::<Database>().expect("made by this class");
    let (path, ip, json) = (Args(args).text(0), Args(args).ip(1), Args(args).bool(2));
    let path_text = path.map_or("NULL".into(), |path| path.lossy());
    match find(database, &path_text, path.is_some(), ip, json) {
        Ok(text) => give(Value::text(text)),
        Err((tag, why)) => {
            call.ctx.log().putf(tag, format_args!("geoip2.lookup: {why}"));
            give(Value::NULL)
        }
    }
}

pub(crate) fn find(
    database: &Database,
    path: &str,
    given: bool,
    ip: Option<std::net::SocketAddr>,
    json: bool,
) -> Result<Vec<u8>, (Tag, String)> {
    let steps: Vec<PathElement<'_>> = path.split('/').filter(|step| !step.is_empty()).map(step).collect();
    if !given || steps.is_empty() || steps.len() > DEEPEST {
        return Err((Tag::Error, format!("Invalid or missing path ({path})")));
    }
    let Some(ip) = ip else { return Err((Tag::Error, "Missing ip address".into())) };
    let ip = ip.ip().to_canonical();
    let broken = |error: maxminddb::MaxMindDbError| (Tag::Error, error.to_string());
    let found = database.lookup(ip).map_err(broken)?;
    if !found.has_data() {
        return Err((Tag::Debug, format!("No entry for this IP address ({ip})")));
    }
    let nothing = || (Tag::Debug, format!("No data for this path ({path})"));
    match found.decode_path::<Json>(&steps) {
        Ok(Some(value)) => shown(&value, json),
        Ok(None) => Err(nothing()),
        // Bytes are the one type that JSON hasn't.
        Err(error) => match found.decode_path::<&[u8]>(&steps) {
            Ok(Some(bytes)) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
                Ok(if json { format!("\"{hex}\"") } else { hex }.into_bytes())
            }
            Ok(None) => Err(nothing()),
            Err(_) => Err(broken(error)),
        },
    }
}

/// A number steps into a list; into a map nobody steps by number.
fn step(text: &str) -> PathElement<'_> {
    match text.parse::<usize>() {
        Ok(index) => PathElement::Index(index),
        Err(_) => PathElement::Key(text),
    }
}

fn shown(value: &Json, json: bool) -> Result<Vec<u8>, (Tag, String)> {
    Ok(match value {
        Json::String(text) if json => Json::String(text.clone()).to_string().into_bytes(),
        Json::String(text) => text.clone().into_bytes(),
        Json::Bool(value) => value.to_string().into_bytes(),
        Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(real) => format!("{real:.6}").into_bytes(),
            None => number.to_string().into_bytes(),
        },
        Json::Object(_) => return Err((Tag::Error, "Unsupported data type (7)".into())),
        Json::Array(_) => return Err((Tag::Error, "Unsupported data type (11)".into())),
        Json::Null => return Err((Tag::Error, "Unsupported data type (0)".into())),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A database with one record for all addresses below 128.0.0.0, none for the others. (MaxMind DB format 2.0.)
    pub(crate) fn sample() -> Vec<u8> {
        let text = |text: &str| [&[0x40 | text.len() as u8][..], text.as_bytes()].concat();
        let map = |count: u8| vec![0xe0 | count];
        let record = [
            map(5),
            text("country"),
            [map(1), text("names"), map(1), text("en"), text("Utopia \"U\"")].concat(),
            text("list"),
            // An array of two: type 11 is extended.
            [&[0x02, 0x04][..], &text("a"), &text("b")].concat(),
            text("n"),
            vec![0xc2, 0x01, 0x00],
            text("d"),
            [&[0x68][..], &1.5f64.to_be_bytes()].concat(),
            text("raw"),
            vec![0x82, 0x00, 0x2a],
        ]
        .concat();
        // One node of two 24-bit records: to the data (number of nodes + 16 + offset), and to nowhere.
        let tree = [0, 0, 17, 0, 0, 1];
        let metadata = [
            map(9),
            text("binary_format_major_version"),
            vec![0xa1, 2],
            text("binary_format_minor_version"),
            vec![0xa0],
            text("build_epoch"),
            vec![0x01, 0x02, 1],
            text("database_type"),
            text("Test"),
            text("description"),
            map(0),
            text("ip_version"),
            vec![0xa1, 4],
            text("languages"),
            vec![0x00, 0x04],
            text("node_count"),
            vec![0xc1, 1],
            text("record_size"),
            vec![0xa1, 24],
        ]
        .concat();
        [&tree[..], &[0; 16], &record, b"\xab\xcd\xefMaxMind.com", &metadata].concat()
    }

    fn check(path: &str, ip: &str, json: bool, want: &str) {
        let database: Database = Reader::from_source(sample()).expect("well made");
        let got = match find(&database, path, true, format!("{ip}:0").parse().ok(), json) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err((tag, why)) => format!("{} {why}", tag.name()),
        };
        assert_eq!(got, want, "{path}");
    }

    #[test]
    fn values_by_path() {
        check("country/names/en", "1.2.3.4", false, "Utopia \"U\"");
        check("country/names/en", "1.2.3.4", true, "\"Utopia \\\"U\\\"\"");
        check("list/1", "1.2.3.4", false, "b");
        check("n", "1.2.3.4", true, "256");
        check("d", "1.2.3.4", false, "1.500000");
        check("raw", "1.2.3.4", false, "002A");
        check("country/names", "1.2.3.4", false, "Error Unsupported data type (7)");
        check("country/names/de", "1.2.3.4", false, "Debug No data for this path (country/names/de)");
        check("country", "200.2.3.4", false, "Debug No entry for this IP address (200.2.3.4)");
        check("", "1.2.3.4", false, "Error Invalid or missing path ()");
    }

    #[test]
    fn broken_files_are_errors() {
        let whole = sample();
        for cut in (0..whole.len()).step_by(7) {
            if let Ok(database) = Reader::from_source(whole[..cut].to_vec()) {
                let _ = find(&database, "country/names/en", true, "1.2.3.4:0".parse().ok(), false);
            }
        }
    }

    proptest! {
        /// A damaged file gives other answers or errors, and takes no longer than a whole one.
        #[test]
        fn damaged_files_are_errors(at in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), ip: u32, path in "(country/names/en|list/[0-9]{1,3}|n|d|raw|[a-z/]{0,9})") {
            let mut bytes = sample();
            for (at, byte) in at {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(database) = Reader::from_source(bytes) {
                let _ = find(&database, &path, true, Some((std::net::Ipv4Addr::from(ip), 0).into()), false);
            }
        }
    }
}
