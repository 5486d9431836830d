// SPDX-License-Identifier: BSD-2-Clause
//! What each `-s` makes, and how each mistake is told.

use tables::stores::{Checks, DirectIo};

use super::*;

/// The stores of a command line with these `-s`: name, kind as given, file, limit; or the message.
fn told(specs: &[&str]) -> String {
    let mut stores = ManagerStores::default();
    let made = specs.iter().try_for_each(|spec| stores.add(spec)).and_then(|()| stores.complete());
    if let Err(error) = made {
        let Fatal::Argument(text) = error else { return format!("{error:?}") };
        return text;
    }
    let row = |store: &StoreArg| {
        let path = store.path.as_ref().map_or(String::new(), |path| format!(" {}", path.display()));
        let limit = store.bytes.map_or(String::new(), |bytes| format!(" {bytes}"));
        let bytes = |name, bytes: Option<u64>| bytes.map_or(String::new(), |bytes| format!(" {name}={bytes}"));
        let DiskOptions { front_bytes, index_bytes, direct, checks, keep, journal } = store.disk.clone();
        let mut disk = bytes("front", front_bytes) + &bytes("index", index_bytes);
        if direct != DirectIo::Auto {
            disk.push_str(&format!(" direct={}", direct.as_str()));
        }
        if checks != Checks::All {
            disk.push_str(&format!(" checks={}", checks.as_str()));
        }
        let journal = journal.map_or(String::new(), |path| format!(" journal={}", path.display()));
        let keep = if keep { " keep" } else { "" };
        format!("{}={}{path}{limit}{disk}{keep}{journal}", store.name, store.kind_text)
    };
    stores.iter().map(row).collect::<Vec<_>>().join(" ")
}

/// The expected messages are varnishd's where it has some.
const TABLE: &[(&[&str], &str)] = &[
    (&[], "s0=default 104857600 Transient=default"),
    (&["malloc"], "s0=malloc Transient=default"),
    (&["default"], "s0=default Transient=default"),
    (&["malloc,"], "s0=malloc Transient=default"),
    (&["malloc,1m"], "s0=malloc 1048576 Transient=default"),
    (&["malloc, 1g "], "s0=malloc 1073741824 Transient=default"),
    (&["malloc,30G"], "s0=malloc 32212254720 Transient=default"),
    (&["malloc,1.5m"], "s0=malloc 1572864 Transient=default"),
    (&["malloc,1048576"], "s0=malloc 1048576 Transient=default"),
    (&["malloc,1048575"], "(-smalloc) size \"1048575\": too small, did you forget to specify M or G?"),
    (&["malloc,10"], "(-smalloc) size \"10\": too small, did you forget to specify M or G?"),
    (&["malloc,0"], "(-smalloc) size \"0\": too small, did you forget to specify M or G?"),
    (
        &["malloc,-1m"],
        "(-smalloc) size \"-1m\": Invalid number\n\tA size is a number with k, m, g or t: -s malloc,256m",
    ),
    (
        &["malloc,xyz"],
        "(-smalloc) size \"xyz\": Invalid number\n\tA size is a number with k, m, g or t: -s malloc,256m",
    ),
    (
        &["malloc,1x"],
        "(-smalloc) size \"1x\": Unknown BYTES unit of measurement ([KMGTP][B])\n\tA size is a number with k, m, g or t: -s malloc,256m",
    ),
    (&["malloc,1m,2m"], "(-smalloc) too many arguments"),
    (&["malloc,1m,"], "(-smalloc) too many arguments"),
    (&["default,100m"], "s0=default 104857600 Transient=default"),
    (&["default,10"], "(-smalloc) size \"10\": too small, did you forget to specify M or G?"),
    (
        &["default,1x"],
        "(-smalloc) size \"1x\": Unknown BYTES unit of measurement ([KMGTP][B])\n\tA size is a number with k, m, g or t: -s malloc,256m",
    ),
    (&["default,1m,2m"], "(-smalloc) too many arguments"),
    (
        &["Malloc"],
        "Unknown storage method \"Malloc\"\n\tThere are malloc, file, default and persistent: -s malloc,256m",
    ),
    (
        &["MALLOC,1m"],
        "Unknown storage method \"MALLOC\"\n\tThere are malloc, file, default and persistent: -s malloc,256m",
    ),
    (&["a=malloc,1m"], "a=malloc 1048576 Transient=default"),
    (&["a=default"], "a=default Transient=default"),
    (&["a="], "Empty named -s argument \"a=\""),
    (&["=malloc"], "invalid -s name \"\"=[...]"),
    (&["0a=malloc"], "invalid -s name \"0a\"=[...]"),
    (&["///=default"], "invalid -s name \"///\"=[...]"),
    (&["a b=malloc"], "invalid -s name \"a b\"=[...]"),
    (&["a-b_c=malloc"], "a-b_c=malloc Transient=default"),
    (&["a=malloc,1m,2"], "(-smalloc) too many arguments"),
    (
        &["a=b=malloc"],
        "Unknown storage method \"b=malloc\"\n\tThere are malloc, file, default and persistent: -s malloc,256m",
    ),
    (
        &["malloc,a=1"],
        "(-smalloc) size \"a=1\": Invalid number\n\tA size is a number with k, m, g or t: -s malloc,256m",
    ),
    (&[","], "-s argument lacks strategy {malloc, file, ...}"),
    (&[",1m"], "-s argument lacks strategy {malloc, file, ...}"),
    (&[" "], "-s argument lacks strategy {malloc, file, ...}"),
    (&[" malloc"], "s0=malloc Transient=default"),
    (&["a=,1m"], "-s argument lacks strategy {malloc, file, ...}"),
    (&["huhu"], "Unknown storage method \"huhu\"\n\tThere are malloc, file, default and persistent: -s malloc,256m"),
    (&["huhu,1m"], "Unknown storage method \"huhu\"\n\tThere are malloc, file, default and persistent: -s malloc,256m"),
    (&["x=huhu"], "Unknown storage method \"huhu\"\n\tThere are malloc, file, default and persistent: -s malloc,256m"),
    (&["debug"], "storage method \"debug\" isn't built into Lacquer: use malloc"),
    (&["debug,1m"], "storage method \"debug\" isn't built into Lacquer: use malloc"),
    (&["umem"], "storage method \"umem\" is Solaris' own: use malloc"),
    (&["umem,1m"], "storage method \"umem\" is Solaris' own: use malloc"),
    (&["u=umem"], "storage method \"umem\" is Solaris' own: use malloc"),
    (&["deprecated_persistent,/tmp/x,1g"], "-sdeprecated_persistent isn't built into Lacquer: use persistent"),
    (&["persistent"], "(-sfile) path is mandatory"),
    (&["persistent,/nonexistent/x"], "(-sfile) no size specified"),
    (&["persistent,/nonexistent/x,1g"], "s0=persistent /nonexistent/x 1073741824 keep Transient=default"),
    (&["p=persistent,/nonexistent/x,1g,keep"], "p=persistent /nonexistent/x 1073741824 keep Transient=default"),
    (&["persistent,/tmp,1g"], "(-sfile) a store that is kept has a file of its own, not a directory"),
    (&["file,/tmp,1g,keep"], "(-sfile) a store that is kept has a file of its own, not a directory"),
    (&["file,/nonexistent/x,1g,keep"], "s0=file /nonexistent/x 1073741824 keep Transient=default"),
    (&["file,/nonexistent/x,keep,1g"], "s0=file /nonexistent/x 1073741824 keep Transient=default"),
    (&["file,/nonexistent/x,keep"], "(-sfile) no size specified"),
    (&["file,keep,1g"], "s0=file keep 1073741824 Transient=default"),
    (&["file,/nonexistent/x,1g,keep=1"], "(-sfile) invalid keep: \"keep=1\"\n\tIt is keep"),
    (
        &["file,/nonexistent/x,1g,front=64m, index = 2m ,direct,checks=heads"],
        "s0=file /nonexistent/x 1073741824 front=67108864 index=2097152 direct=on checks=heads Transient=default",
    ),
    (
        &["file,/nonexistent/x,1g,8k,random,direct=off"],
        "s0=file /nonexistent/x 1073741824 direct=off Transient=default",
    ),
    (&["file,/nonexistent/x,1g,front=10"], "(-sfile) front \"10\": too small, did you forget to specify M or G?"),
    (
        &["file,/nonexistent/x,1g,front=x"],
        "(-sfile) front \"x\": Invalid number\n\tA size is a number with k, m, g or t: -s file,/var/lib/varnish/storage.bin,10G",
    ),
    (&["file,/nonexistent/x,1g,front"], "(-sfile) invalid front: \"front\"\n\tIt is front=1G"),
    (
        &["file,/nonexistent/x,1g,direct=perhaps"],
        "(-sfile) invalid direct: \"direct=perhaps\"\n\tIt is direct, direct=off or direct=auto",
    ),
    (&["file,/nonexistent/x,1g,checks="], "(-sfile) invalid checks: \"checks=\"\n\tIt is checks=all or checks=heads"),
    (
        &["file,/nonexistent/x,1g,keep,journal=/nonexistent/j"],
        "s0=file /nonexistent/x 1073741824 keep journal=/nonexistent/j Transient=default",
    ),
    (&["file,/nonexistent/x,1g,journal=/nonexistent/j"], "(-sfile) only a store that is kept has a journal: keep"),
    (
        &["file,/nonexistent/x,1g,keep,journal=j"],
        "(-sfile) invalid journal: \"journal=j\"\n\tIt is journal=/var/lib/varnish/journal",
    ),
    (&["malloc,1g,keep"], "(-smalloc) too many arguments"),
    (&["file"], "(-sfile) path is mandatory"),
    (&["file,"], "(-sfile) path is mandatory"),
    (&["file,,1m"], "(-sfile) path is mandatory"),
    (&["f=file"], "(-sfile) path is mandatory"),
    (&["file,/nonexistent/x"], "(-sfile) no size specified"),
    (&["file,/nonexistent/x,"], "(-sfile) no size specified"),
    (&["file,/nonexistent/x,1m"], "s0=file /nonexistent/x 1048576 Transient=default"),
    (&["file,/nonexistent/x,10"], "(-sfile) size \"10\": too small, did you forget to specify M or G?"),
    (
        &["file,/nonexistent/x,1q"],
        "(-sfile) size \"1q\": Unknown BYTES unit of measurement ([KMGTP][B])\n\tA size is a number with k, m, g or t: -s file,/var/lib/varnish/storage.bin,10G",
    ),
    (
        &["file,/nonexistent/x,abc"],
        "(-sfile) size \"abc\": Invalid number\n\tA size is a number with k, m, g or t: -s file,/var/lib/varnish/storage.bin,10G",
    ),
    (&["file,/nonexistent/x,1m,8k"], "s0=file /nonexistent/x 1048576 Transient=default"),
    (&["file,/nonexistent/x,1m,,"], "s0=file /nonexistent/x 1048576 Transient=default"),
    (&["file,/nonexistent/x,1m,8q"], "(-sfile) granularity \"8q\": Unknown BYTES unit of measurement ([KMGTP][B])"),
    (&["file,/nonexistent/x,1m,abc,random"], "(-sfile) granularity \"abc\": Invalid number"),
    (&["file,/nonexistent/x,1m,,normal"], "s0=file /nonexistent/x 1048576 Transient=default"),
    (&["file,/nonexistent/x,1m,,random"], "s0=file /nonexistent/x 1048576 Transient=default"),
    (&["file,/nonexistent/x,1m,,sequential"], "s0=file /nonexistent/x 1048576 Transient=default"),
    (&["file,/nonexistent/x,1m,4k,sometimes"], "(-s file) invalid advice: \"sometimes\""),
    (&["file,/nonexistent/x,,4k,random"], "(-sfile) no size specified"),
    (&["file,/nonexistent/x,1m,4k,random,more"], "(-sfile) too many arguments"),
    (&["file,/nonexistent/x,1m,4k,random,"], "(-sfile) too many arguments"),
    (&["file,/dev/null,1m"], "s0=file /dev/null 1048576 Transient=default"),
    (&["file,/dev/null"], "(-sfile) no size specified"),
    (&["file,/,1m,q,q"], "(-sfile) granularity \"q\": Invalid number"),
    (
        &["file,/etc/hostname,1q,q,q"],
        "(-sfile) size \"1q\": Unknown BYTES unit of measurement ([KMGTP][B])\n\tA size is a number with k, m, g or t: -s file,/var/lib/varnish/storage.bin,10G",
    ),
    (&["f=file,/nonexistent/x,1m,4k,random"], "f=file /nonexistent/x 1048576 Transient=default"),
    (&["Transient=malloc,2m"], "Transient=malloc 2097152"),
    (&["Transient=file"], "(-sfile) path is mandatory"),
    (
        &["Transient=huhu"],
        "Unknown storage method \"huhu\"\n\tThere are malloc, file, default and persistent: -s malloc,256m",
    ),
    (&["s0=malloc"], "s0=malloc Transient=default"),
    (&[""], "-s argument lacks strategy {malloc, file, ...}"),
    (&["a=malloc", "a=malloc,1m"], "(-s a=malloc,1m) 'a' is already defined"),
    (
        &["a=malloc", "a=huhu"],
        "Unknown storage method \"huhu\"\n\tThere are malloc, file, default and persistent: -s malloc,256m",
    ),
    (&["a=malloc", "a=malloc,1q"], "(-s a=malloc,1q) 'a' is already defined"),
    (&["malloc,1m", "x=default,1m"], "s0=malloc 1048576 x=default 1048576 Transient=default"),
    (&["s0=malloc", "malloc"], "(-s malloc) 's0' is already defined"),
    (&["malloc", "s1=default", "malloc"], "(-s malloc) 's1' is already defined"),
    (&["main=default,10m", "main=default,100m"], "(-s main=default,100m) 'main' is already defined"),
    (
        &["Transient=default,10m", "Transient=default,100m"],
        "(-s Transient=default,100m) 'Transient' is already defined",
    ),
    (
        &["malloc,1m", "Transient=malloc,2m", "a=default", "malloc"],
        "s0=malloc 1048576 a=default s1=malloc Transient=malloc 2097152",
    ),
    (
        &["huhu", "malloc"],
        "Unknown storage method \"huhu\"\n\tThere are malloc, file, default and persistent: -s malloc,256m",
    ),
    (
        &["malloc", "huhu"],
        "Unknown storage method \"huhu\"\n\tThere are malloc, file, default and persistent: -s malloc,256m",
    ),
    (&["a=malloc", "a=malloc,1m,2m"], "(-s a=malloc,1m,2m) 'a' is already defined"),
    (&["transient=malloc"], "transient=malloc Transient=default"),
];

#[test]
fn a_share_of_the_disk() {
    let path = std::env::temp_dir().join("lacquer-no-such-store.bin").display().to_string();
    let bytes = |size: &str| {
        let told = told(&[&format!("file,{path},{size}")]);
        told.split(' ').nth(2).and_then(|word| word.parse::<u64>().ok()).ok_or(told)
    };
    let (all, half) = (bytes("100%").unwrap(), bytes("50%").unwrap());
    // Others write meanwhile.
    assert!(half.abs_diff(all / 2) < all / 50 && half % 4096 == 0, "{half} of {all}");
    for wrong in ["0%", "101%", "%", "-1%"] {
        assert!(bytes(wrong).is_err_and(|told| told.contains("A size is a number")), "{wrong}");
    }
    assert!(told(&["malloc,50%"]).contains("A size is a number"));
}

#[test]
fn every_option_means_what_it_says() {
    for (specs, want) in TABLE {
        assert_eq!(told(specs), *want, "{specs:?}");
    }
}

#[test]
fn the_banner_names_the_kinds_as_given() {
    let mut stores = ManagerStores::default();
    stores.add("x=malloc,1m").unwrap();
    stores.complete().unwrap();
    assert_eq!(stores.idents(), ",-smalloc,-sdefault");
}

proptest::proptest! {
    #[test]
    fn no_option_breaks_the_parser(option in "\\PC*") {
        let _ = told(&[&option]);
    }
}
