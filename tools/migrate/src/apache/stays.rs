// SPDX-License-Identifier: BSD-2-Clause
//! Directives that Apache goes on heeding behind the cache, and those that it can't.

use crate::fates;

/// The fate of a directive that the cache doesn't translate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ApacheFate {
    /// Apache goes on doing it, or it holds here anyway; the text gives the reason.
    Stays(&'static str),
    /// Impossible behind the cache; the text says what to do instead.
    Refused(&'static str),
}

use ApacheFate::{Refused, Stays};

const PROCESS: ApacheFate = Stays("it speaks of Apache as a process, which goes on behind the cache");
const ORIGIN: ApacheFate = Stays("Apache goes on doing this, as the origin behind the cache");
const TLS: ApacheFate = Stays("the cache speaks TLS in Apache's place: docs/certificates.md");
const HTTP2: ApacheFate = Stays("the cache offers HTTP/2 over TLS");
const LOG: ApacheFate = Stays("Apache's log has misses alone now; varnishncsa writes one with hits");
const CACHE: ApacheFate = Stays("the cache has no files of this kind, and its stores are limited by -s");
const ADDRESS: ApacheFate = Refused(
    "it tells clients apart by address, and to Apache every client has the cache's address: `import vsthrottle;` has limits",
);
const MACRO: ApacheFate = Refused("the lines that it stands for aren't read here: write them out");
const ACME: ApacheFate = Refused("the cache speaks TLS: let it get the certificates (--acme, docs/certificates.md)");

/// Names in small letters; one that ends with `*` stands for all that begin so.
#[rustfmt::skip]
const FATES: &[(&str, ApacheFate)] = &[
    ("use", MACRO), ("macro*", MACRO), ("undefmacro", MACRO), ("md*", ACME), ("dos*", ADDRESS), ("qs_*", ADDRESS), ("geoip*", ADDRESS), ("maxminddb*", ADDRESS),
    ("sec*", Stays("hits don't reach ModSecurity; Apache goes on asking it about the others")),
    ("remoteip*", Stays("Apache takes the client's address from the header that the cache sends")),
    ("sslproxy*", ORIGIN), ("ssl*", TLS), ("h2*", HTTP2), ("protocols*", HTTP2),
    ("customlog", LOG), ("transferlog", LOG), ("globallog", LOG), ("logformat", LOG), ("cookielog", LOG), ("bufferedlogs", LOG), ("logiotrackttfb", LOG),
    ("forensiclog", LOG), ("dumpio*", LOG), ("logmessage", LOG),
    ("cachedirlength", CACHE), ("cachedirlevels", CACHE),
    ("cacheminfilesize", CACHE), ("cachereadsize", CACHE), ("cachereadtime", CACHE), ("cachefile", CACHE), ("cachesocache*", CACHE),
    ("cachelock*", Stays("request coalescing is always on: one request fetches, the others wait")),
    ("cachedetailheader", Stays("lacquer explain gives the reason of a miss")), ("cacheheader", Stays("X-Varnish and Age tell a hit")),
    ("cachenegotiateddocs", ORIGIN),
    ("cachestoreexpired", Stays("a response that has expired is fetched anew here")),
    ("acceptfilter", PROCESS), ("addmoduleinfo", PROCESS), ("asyncrequestworkerfactor", PROCESS), ("chrootdir", PROCESS), ("coredumpdirectory", PROCESS),
    ("define", PROCESS), ("undefine", PROCESS), ("error", PROCESS), ("defaultruntimedir", PROCESS), ("enable*", PROCESS), ("extendedstatus", PROCESS),
    ("flushmax*", PROCESS), ("gracefulshutdowntimeout", PROCESS), ("group", PROCESS), ("user", PROCESS), ("heartbeat*", PROCESS), ("hostnamelookups", PROCESS),
    ("listenbacklog", PROCESS), ("listencoresbucketsratio", PROCESS), ("listentcpdeferaccept", PROCESS), ("loadfile", PROCESS), ("loadmodule", PROCESS),
    ("loglevel", PROCESS), ("errorlog", PROCESS), ("errorlogformat", PROCESS), ("max*", PROCESS), ("min*", PROCESS), ("mmapfile", PROCESS), ("mutex", PROCESS),
    ("pidfile", PROCESS), ("receivebuffersize", PROCESS), ("sendbuffersize", PROCESS), ("readbuffersize", PROCESS), ("regexdefaultoptions", PROCESS),
    ("rlimit*", PROCESS), ("scoreboardfile", PROCESS), ("seerequesttail", PROCESS), ("serverlimit", PROCESS), ("serverroot", PROCESS),
    ("startservers", PROCESS), ("suexec*", PROCESS), ("assignuserid", PROCESS), ("thread*", PROCESS), ("watchdoginterval", PROCESS), ("memcacheconnttl", PROCESS),
    ("redis*", PROCESS), ("reflectorheader", PROCESS), ("namevirtualhost", PROCESS), ("keepalive*", PROCESS), ("timeout", PROCESS), ("requestreadtimeout", PROCESS),
    ("protocol", PROCESS), ("protocolecho", PROCESS), ("modemstandard", PROCESS), ("port", PROCESS),
    ("acceptpathinfo", ORIGIN), ("accessfilename", ORIGIN), ("action", ORIGIN), ("add*", ORIGIN), ("alias*", ORIGIN), ("allowconnect", ORIGIN),
    ("allowencodedslashes", ORIGIN), ("allowmethods", ORIGIN), ("allowoverride*", ORIGIN), ("anonymous*", ORIGIN), ("auth*", ORIGIN), ("balancer*", ORIGIN),
    ("brotli*", ORIGIN), ("buffersize", ORIGIN), ("cgi*", ORIGIN), ("charset*", ORIGIN), ("check*", ORIGIN), ("contentdigest", ORIGIN), ("cookie*", ORIGIN),
    ("dav*", ORIGIN), ("dbd*", ORIGIN), ("defaulticon", ORIGIN), ("defaultlanguage", ORIGIN), ("defaulttype", ORIGIN), ("deflate*", ORIGIN),
    ("directory*", ORIGIN), ("documentroot", ORIGIN), ("errordocument", ORIGIN), ("expires*", ORIGIN), ("extfilter*", ORIGIN), ("fallbackresource", ORIGIN),
    ("fancyindexing", ORIGIN), ("fcgid*", ORIGIN), ("fileetag", ORIGIN), ("filter*", ORIGIN), ("forcelanguagepriority", ORIGIN), ("forcetype", ORIGIN),
    ("header*", ORIGIN), ("httpprotocoloptions", ORIGIN), ("identitycheck*", ORIGIN), ("imap*", ORIGIN), ("index*", ORIGIN), ("inputsed", ORIGIN),
    ("outputsed", ORIGIN), ("jk*", ORIGIN), ("keptbodysize", ORIGIN), ("languagepriority", ORIGIN), ("ldap*", ORIGIN), ("limit*", ORIGIN), ("lua*", ORIGIN),
    ("merge*", ORIGIN), ("meta*", ORIGIN), ("mimemagicfile", ORIGIN), ("modmimeusepathinfo", ORIGIN), ("multiviewsmatch", ORIGIN), ("noproxy", ORIGIN),
    ("options", ORIGIN), ("order", ORIGIN), ("passenger*", ORIGIN), ("passenv", ORIGIN), ("perl*", ORIGIN), ("php*", ORIGIN), ("proxy*", ORIGIN), ("python*", ORIGIN),
    ("qualifyredirecturl", ORIGIN), ("readmename", ORIGIN), ("redirect*", ORIGIN), ("registerhttpmethod", ORIGIN), ("remove*", ORIGIN), ("requestheader", ORIGIN),
    ("rewrite*", ORIGIN), ("script*", ORIGIN), ("server*", ORIGIN), ("session*", ORIGIN), ("set*", ORIGIN), ("browsermatch*", ORIGIN), ("ssi*", ORIGIN),
    ("stricthostcheck", ORIGIN), ("substitute*", ORIGIN), ("traceenable", ORIGIN), ("typesconfig", ORIGIN), ("unsetenv", ORIGIN), ("usecanonical*", ORIGIN),
    ("userdir", ORIGIN), ("virtual*", ORIGIN), ("wsgi*", ORIGIN), ("xbithack", ORIGIN), ("xml2*", ORIGIN), ("xsendfile*", ORIGIN),
    ("require", ORIGIN), ("allow", ORIGIN), ("deny", ORIGIN), ("satisfy", ORIGIN),
];

/// The fate of a directive of this name, in small letters; None of one that isn't known.
pub(super) fn fate(name: &str) -> Option<ApacheFate> {
    fates::find(FATES, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_counts() {
        assert_eq!([fate("sslproxyengine"), fate("sslengine"), fate("use")], [Some(ORIGIN), Some(TLS), Some(MACRO)]);
        assert_eq!([fate("userdir"), fate("cachefrobnicate"), fate("frobnicate")], [Some(ORIGIN), None, None]);
    }
}
