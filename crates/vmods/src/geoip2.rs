// SPDX-License-Identifier: BSD-2-Clause
//! vmod_geoip2(3) of libvmod-geoip2. The file is held in memory, once for all VCLs: one that is replaced on the disk is read
//! with the next VCL. Unlike there JSON texts have their quotation marks escaped.

use std::net::SocketAddr;
use std::sync::Arc;

use maxminddb::{PathElement, Reader};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use tables::Tag;
use vrt::vmod::{CallResult, STRING, VmodCall, give};
use vrt::{Text, VclFailure};

use vmod_support::files::ParsedFiles;

/// Steps of a path.
const DEEPEST: usize = 10;

/// Bytes of a database.
const MAX: u64 = 1 << 30;

vrt::vmod! {
    /// Data about addresses from MaxMind's files (.mmdb)
    pub(crate) static VMOD = geoip2;

    /// A file, read when the VCL is loaded
    object geoip2(filename: STRING) -> Arc<GeoDatabase> = new, methods {
        /// Returns the value at a path such as country/names/en; with json strings are quoted. Unset, with the reason in
        /// the log, if there is none
        fn lookup(path: STRING, ip: IP, json: BOOL = false) -> STRING, local = lookup;
    }
}

pub(crate) type GeoDatabase = Reader<Vec<u8>>;

static DATABASES: ParsedFiles<GeoDatabase> =
    ParsedFiles::new(MAX, |bytes| Reader::from_source(bytes).map_err(|e| e.to_string()));

pub(crate) fn open(file: &std::path::Path) -> Result<Arc<GeoDatabase>, String> {
    DATABASES.share(file)
}

fn new(call: &mut VmodCall<'_>, _: &str, filename: Option<&Text>) -> Result<Arc<GeoDatabase>, VclFailure> {
    let name = filename.map(|name| name.lossy().into_owned()).unwrap_or_default();
    let log = call.ctx.log();
    let mut error = |error: &dyn std::fmt::Display| {
        let text = format!("geoip2.geoip2: Error opening the specified MaxMind DB file {name}: {error}");
        log.put(Tag::Error, text.as_bytes());
        VclFailure::new(text)
    };
    open(name.as_ref()).map_err(|e| error(&e))
}

fn lookup(
    this: &Arc<GeoDatabase>,
    call: &mut VmodCall<'_>,
    path: Option<&Text>,
    ip: Option<SocketAddr>,
    json: bool,
) -> CallResult<STRING> {
    let database = this;
    let path_text = path.map_or("NULL".into(), |path| path.lossy());
    match find(database, &path_text, path.is_some(), ip, json) {
        Ok(text) => give(text),
        Err((tag, reason)) => {
            call.ctx.log().putf(tag, format_args!("geoip2.lookup: {reason}"));
            give(None::<Text>)
        }
    }
}

pub(crate) fn find(
    database: &GeoDatabase,
    path: &str,
    given: bool,
    ip: Option<std::net::SocketAddr>,
    json: bool,
) -> Result<Vec<u8>, (Tag, String)> {
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    if !given || words.is_empty() || words.len() > DEEPEST {
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
    let mut steps: Vec<PathElement<'_>> = Vec::with_capacity(words.len());
    for word in words {
        // What a word means is known by what it steps into.
        steps.push(match found.decode_path::<Datum<'_>>(&steps).map_err(broken)?.ok_or_else(nothing)? {
            Datum::Map => PathElement::Key(word),
            Datum::Array => match word.parse::<isize>() {
                Ok(at) if at < 0 => PathElement::IndexFromEnd(at.unsigned_abs() - 1),
                Ok(at) => PathElement::Index(at.unsigned_abs()),
                Err(_) => return Err((Tag::Error, format!("\"{word}\" is no place in an array ({path})"))),
            },
            _ => return Err(nothing()),
        });
    }
    found.decode_path::<Datum<'_>>(&steps).map_err(broken)?.ok_or_else(nothing)?.shown(json)
}

/// A value of a database. What maps and arrays hold isn't looked at: with pointers that could be more than the file has bytes.
enum Datum<'d> {
    Map,
    Array,
    Text(&'d str),
    Bytes(&'d [u8]),
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Wide,
    Real(f64),
}

impl Datum<'_> {
    fn shown(&self, json: bool) -> Result<Vec<u8>, (Tag, String)> {
        let unsupported = |number: u8| Err((Tag::Error, format!("Unsupported data type ({number})")));
        Ok(match self {
            Datum::Map => return unsupported(7),
            Datum::Array => return unsupported(11),
            Datum::Wide => return unsupported(10),
            Datum::Text(text) if json => serde_json::Value::from(*text).to_string(),
            Datum::Text(text) => (*text).to_owned(),
            Datum::Bytes(bytes) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
                if json { format!("\"{hex}\"") } else { hex }
            }
            Datum::Bool(value) => value.to_string(),
            Datum::Signed(number) => number.to_string(),
            Datum::Unsigned(number) => number.to_string(),
            Datum::Real(number) => format!("{number:.6}"),
        }
        .into_bytes())
    }
}

impl<'d> Deserialize<'d> for Datum<'d> {
    fn deserialize<D: Deserializer<'d>>(decoder: D) -> Result<Self, D::Error> {
        decoder.deserialize_any(OneDatum)
    }
}

struct OneDatum;

impl<'d> Visitor<'d> for OneDatum {
    type Value = Datum<'d>;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a value")
    }

    fn visit_map<A: MapAccess<'d>>(self, _: A) -> Result<Datum<'d>, A::Error> {
        Ok(Datum::Map)
    }

    fn visit_seq<A: SeqAccess<'d>>(self, _: A) -> Result<Datum<'d>, A::Error> {
        Ok(Datum::Array)
    }

    fn visit_borrowed_str<E>(self, text: &'d str) -> Result<Datum<'d>, E> {
        Ok(Datum::Text(text))
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'d [u8]) -> Result<Datum<'d>, E> {
        Ok(Datum::Bytes(bytes))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Datum<'d>, E> {
        Ok(Datum::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Datum<'d>, E> {
        Ok(Datum::Signed(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Datum<'d>, E> {
        Ok(Datum::Unsigned(number))
    }

    fn visit_u128<E>(self, _: u128) -> Result<Datum<'d>, E> {
        Ok(Datum::Wide)
    }

    fn visit_f32<E>(self, number: f32) -> Result<Datum<'d>, E> {
        Ok(Datum::Real(f64::from(number)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Datum<'d>, E> {
        Ok(Datum::Real(number))
    }
}

#[cfg(test)]
pub(crate) mod tests;
