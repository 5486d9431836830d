// SPDX-License-Identifier: BSD-2-Clause
//! Field names in the case in which Varnish writes them.

macro_rules! names {
    ($($id:ident = $text:literal),* $(,)?) => {
        $(#[doc = concat!("`", $text, "`")] pub const $id: &str = $text;)*
        /// All of them, as Varnish's table of known fields has them.
        pub const ALL: &[&str] = &[$($text),*];
    };
}

names! {
    ACCEPT = "Accept",
    ACCEPT_CHARSET = "Accept-Charset",
    ACCEPT_ENCODING = "Accept-Encoding",
    ACCEPT_LANGUAGE = "Accept-Language",
    ACCEPT_RANGES = "Accept-Ranges",
    AGE = "Age",
    ALLOW = "Allow",
    AUTHORIZATION = "Authorization",
    CACHE_CONTROL = "Cache-Control",
    CONNECTION = "Connection",
    CONTENT_ENCODING = "Content-Encoding",
    CONTENT_LANGUAGE = "Content-Language",
    CONTENT_LENGTH = "Content-Length",
    CONTENT_LOCATION = "Content-Location",
    CONTENT_MD5 = "Content-MD5",
    CONTENT_RANGE = "Content-Range",
    CONTENT_TYPE = "Content-Type",
    COOKIE = "Cookie",
    DATE = "Date",
    EARLY_DATA = "Early-Data",
    ETAG = "ETag",
    EXPECT = "Expect",
    EXPIRES = "Expires",
    FROM = "From",
    HOST = "Host",
    HTTP2_SETTINGS = "HTTP2-Settings",
    IF_MATCH = "If-Match",
    IF_MODIFIED_SINCE = "If-Modified-Since",
    IF_NONE_MATCH = "If-None-Match",
    IF_RANGE = "If-Range",
    IF_UNMODIFIED_SINCE = "If-Unmodified-Since",
    KEEP_ALIVE = "Keep-Alive",
    LAST_MODIFIED = "Last-Modified",
    LOCATION = "Location",
    MAX_FORWARDS = "Max-Forwards",
    PRAGMA = "Pragma",
    PROXY_AUTHENTICATE = "Proxy-Authenticate",
    PROXY_AUTHORIZATION = "Proxy-Authorization",
    RANGE = "Range",
    REFERER = "Referer",
    RETRY_AFTER = "Retry-After",
    SERVER = "Server",
    SET_COOKIE = "Set-Cookie",
    TE = "TE",
    TRAILER = "Trailer",
    TRANSFER_ENCODING = "Transfer-Encoding",
    SEC_WEBSOCKET_ACCEPT = "Sec-WebSocket-Accept",
    SEC_WEBSOCKET_KEY = "Sec-WebSocket-Key",
    UPGRADE = "Upgrade",
    USER_AGENT = "User-Agent",
    VARY = "Vary",
    VIA = "Via",
    WARNING = "Warning",
    WWW_AUTHENTICATE = "WWW-Authenticate",
    X_FORWARDED_FOR = "X-Forwarded-For",
}

/// `X-Forwarded-Proto`: `https` or `http`, as the client has asked.
pub const X_FORWARDED_PROTO: &str = "X-Forwarded-Proto";
/// `X-Varnish`: the transaction ids of a delivery.
pub const X_VARNISH: &str = "X-Varnish";

/// True if it is one of [`ALL`], in any case.
pub fn is_known(name: &[u8]) -> bool {
    ALL.iter().any(|known| known.len() == name.len() && known.as_bytes().eq_ignore_ascii_case(name))
}
