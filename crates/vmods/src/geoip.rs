// SPDX-License-Identifier: BSD-2-Clause
//! vmod_geoip(3) of libvmod-geoip: its functions on MaxMind's files of today. A file is read at a function's first call and
//! kept while the VCL is loaded; nothing is said of addresses that no file knows but `Unknown`, as there.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tables::Tag;
use vrt::Value;
use vrt::vmod::{Call, CallResult, Vmod};

use crate::args::{Args, give};
use crate::geoip2::{Database, find, open};
use crate::standard::off_thread;

/// vmod_geoip(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "geoip",
    classes: &[],
    functions: &[
        ("country_code", |call, args| country(call, args, &["country/iso_code", "registered_country/iso_code"])),
        ("country_name", |call, args| country(call, args, &["country/names/en", "registered_country/names/en"])),
    ],
};

/// Where packages and geoipupdate put files, and what those are called; the smaller first.
const DIRS: [&str; 2] = ["/usr/share/GeoIP", "/var/lib/GeoIP"];
const FILES: [&str; 5] = [
    "GeoIP2-Country.mmdb",
    "GeoLite2-Country.mmdb",
    "dbip-country-lite.mmdb",
    "GeoIP2-City.mmdb",
    "GeoLite2-City.mmdb",
];

/// The database, once it was looked for.
#[derive(Default)]
struct Loaded(OnceLock<Option<Database>>);

fn country(call: &mut Call<'_>, args: &[Value], paths: &'static [&'static str]) -> CallResult {
    let text = Args(args).text(0).map(|text| text.lossy().into_owned()).unwrap_or_default();
    let Ok(ip) = text.parse::<IpAddr>() else { return give(Value::text("Unknown")) };
    let loaded: Arc<Loaded> = call.site.get_or(Loaded::default);
    match loaded.0.get() {
        Some(Some(database)) => give(Value::text(answer(database, ip, paths))),
        Some(None) => {
            let text = format!("geoip: none of {} in {}", FILES.join(", "), DIRS.join(", "));
            call.ctx.log().put(Tag::Error, text.as_bytes());
            give(Value::text("Unknown"))
        }
        None => off_thread(call.method, move || {
            let database = loaded.0.get_or_init(|| first(&DIRS.map(PathBuf::from)));
            Value::text(database.as_ref().map_or_else(|| "Unknown".into(), |database| answer(database, ip, paths)))
        }),
    }
}

/// The first file that is one.
fn first(dirs: &[impl AsRef<Path>]) -> Option<Database> {
    let files = FILES.iter().flat_map(|file| dirs.iter().map(move |dir| dir.as_ref().join(file)));
    files.into_iter().find_map(|file| open(&file).ok())
}

fn answer(database: &Database, ip: IpAddr, paths: &[&str]) -> Vec<u8> {
    let ip = Some(SocketAddr::new(ip, 0));
    let found = paths.iter().find_map(|path| find(database, path, true, ip, false).ok());
    found.unwrap_or_else(|| b"Unknown".to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_that_is_one() {
        let dir = std::env::temp_dir().join(format!("geoip-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let dirs = [dir.join("none"), dir.clone()];
        assert!(first(&dirs).is_none());
        std::fs::write(dir.join("GeoIP2-Country.mmdb"), b"damaged").unwrap();
        std::fs::write(dir.join("GeoLite2-City.mmdb"), crate::geoip2::tests::sample()).unwrap();
        let database = first(&dirs).expect("one of them is good");
        std::fs::remove_dir_all(&dir).unwrap();
        let paths = ["country/iso_code", "country/names/en"];
        assert_eq!(answer(&database, "1.2.3.4".parse().unwrap(), &paths), b"Utopia \"U\"");
        assert_eq!(answer(&database, "200.2.3.4".parse().unwrap(), &paths), b"Unknown");
    }
}
