// SPDX-License-Identifier: BSD-2-Clause
//! vmod_geoip(3) of libvmod-geoip: its functions on MaxMind's files of today. A file is read at the first call and
//! held once, whatever calls it; each place in VCL looks now and then whether there is another one. Nothing is said of addresses that no file knows but `Unknown`, as there.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rt::Instant;

use tables::Tag;
use vrt::Text;
use vrt::vmod::{CallResult, STRING, VmodCall, give};

use crate::geoip2::{GeoDatabase, find, open};
use crate::standard::off_thread;

vrt::vmod! {
    /// The country of an address, from the first .mmdb file in /usr/share/GeoIP or /var/lib/GeoIP. geoip2 has more data
    pub(crate) static VMOD = geoip;

    functions {
        /// Returns the two-letter code of the address's country, or Unknown
        fn country_code(_: STRING) -> STRING, local, blocks = country_code;

        /// Returns the English name of the address's country, or Unknown
        fn country_name(_: STRING) -> STRING, local, blocks = country_name;
    }
}

fn country_code(call: &mut VmodCall<'_>, text: Option<&Text>) -> CallResult<STRING> {
    country(call, text, &["country/iso_code", "registered_country/iso_code"])
}

fn country_name(call: &mut VmodCall<'_>, text: Option<&Text>) -> CallResult<STRING> {
    country(call, text, &["country/names/en", "registered_country/names/en"])
}

/// Directories where packages and geoipupdate put files, and the names of these; the smaller file first.
const DIRS: [&str; 2] = ["/usr/share/GeoIP", "/var/lib/GeoIP"];
const FILES: [&str; 5] = [
    "GeoIP2-Country.mmdb",
    "GeoLite2-Country.mmdb",
    "dbip-country-lite.mmdb",
    "GeoIP2-City.mmdb",
    "GeoLite2-City.mmdb",
];

/// Time for which a database is used before its file is looked at again.
const LOOK: Duration = Duration::from_secs(60);

/// The database, once it was looked for, and when that was.
#[derive(Default)]
struct CachedDatabase(Mutex<Option<(Option<Arc<GeoDatabase>>, Instant)>>);

enum KnownDatabase {
    Found(Arc<GeoDatabase>),
    Missing,
    /// Nobody has searched yet, or it is time for this caller to search again.
    Unsearched,
}

impl CachedDatabase {
    fn known(&self, now: Instant) -> KnownDatabase {
        let mut known = self.0.lock();
        match known.as_mut() {
            Some((database, looked)) if now.saturating_duration_since(*looked) < LOOK => {
                database.clone().map_or(KnownDatabase::Missing, KnownDatabase::Found)
            }
            Some((_, looked)) => {
                // The others go on with what there is.
                *looked = now;
                KnownDatabase::Unsearched
            }
            None => KnownDatabase::Unsearched,
        }
    }

    fn set(&self, database: Option<Arc<GeoDatabase>>, now: Instant) {
        let old = self.0.lock().replace((database, now));
        drop(old);
    }
}

fn country(call: &mut VmodCall<'_>, address: Option<&Text>, paths: &'static [&'static str]) -> CallResult<STRING> {
    let text = address.map(|text| text.lossy().into_owned()).unwrap_or_default();
    let Ok(ip) = text.parse::<IpAddr>() else { return give("Unknown") };
    let loaded: Arc<CachedDatabase> = call.site.get_or(CachedDatabase::default);
    match loaded.known(Instant::now()) {
        KnownDatabase::Found(database) => give(answer(&database, ip, paths)),
        KnownDatabase::Missing => {
            let text = format!("geoip: none of {} in {}", FILES.join(", "), DIRS.join(", "));
            call.ctx.log().put(Tag::Error, text.as_bytes());
            give("Unknown")
        }
        KnownDatabase::Unsearched => off_thread(call.method, move || {
            let database = first(&DIRS.map(PathBuf::from));
            loaded.set(database.clone(), Instant::now());
            database.map_or_else(|| b"Unknown".to_vec(), |database| answer(&database, ip, paths))
        }),
    }
}

fn first(dirs: &[impl AsRef<Path>]) -> Option<Arc<GeoDatabase>> {
    let files = FILES.iter().flat_map(|file| dirs.iter().map(move |dir| dir.as_ref().join(file)));
    files.into_iter().find_map(|file| open(&file).ok())
}

fn answer(database: &GeoDatabase, ip: IpAddr, paths: &[&str]) -> Vec<u8> {
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
        assert!(Arc::ptr_eq(&database, &first(&dirs).unwrap()), "it is held once");
        std::fs::write(dir.join("GeoIP2-Country.mmdb"), crate::geoip2::tests::sample()).unwrap();
        assert!(!Arc::ptr_eq(&database, &first(&dirs).unwrap()), "another one is there");
        std::fs::remove_dir_all(&dir).unwrap();
        let loaded = CachedDatabase::default();
        let now = Instant::now();
        assert!(matches!(loaded.known(now), KnownDatabase::Unsearched));
        loaded.set(Some(database.clone()), now);
        let is_found = |known| matches!(known, KnownDatabase::Found(found) if Arc::ptr_eq(&found, &database));
        assert!(is_found(loaded.known(now)));
        assert!(matches!(loaded.known(now + LOOK), KnownDatabase::Unsearched), "one looks again");
        assert!(is_found(loaded.known(now + LOOK)), "the others don't");
        loaded.set(None, now);
        assert!(matches!(loaded.known(now), KnownDatabase::Missing));
        let paths = ["country/iso_code", "country/names/en"];
        assert_eq!(answer(&database, "1.2.3.4".parse().unwrap(), &paths), b"Utopia \"U\"");
        assert_eq!(answer(&database, "200.2.3.4".parse().unwrap(), &paths), b"Unknown");
    }
}
