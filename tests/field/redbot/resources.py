# SPDX-License-Identifier: BSD-2-Clause
"""The resources that REDbot is sent to, and an origin that has them: it answers conditions, ranges and Accept-Encoding as it should, so
that what REDbot finds behind the cache alone is the cache's."""
import dataclasses
import email.utils
import gzip
import re
import socket
import time

from bed.origin import head

TEXT = b"".join(b"line %d of what is asked for\n" % n for n in range(400))
LARGE = TEXT * 25  # 300 KB
FRESH = "max-age=600"
LENT = 86400  # seconds since the last change


@dataclasses.dataclass
class Resource:
    """What is at a path. `fields` come with each answer; `etag` is a strong one unless it begins with W/."""
    fields: dict = dataclasses.field(default_factory=lambda: {"Cache-Control": FRESH})
    body: bytes = TEXT
    status: str = "200 OK"
    etag: str = ""
    is_dated: bool = False
    has_ranges: bool = False
    is_packed: bool = False  # for who takes gzip
    is_chunked: bool = False
    languages: tuple = ()
    # What the request says beside its path, and whether it is a hit the second time.
    method: str = "GET"
    asked: tuple = ()
    is_hit: bool = True


def controlled(text, **more):
    return Resource({"Cache-Control": text}, **more)


def moved(status):
    return Resource({"Cache-Control": FRESH, "Location": "/plain"}, body=b"", status=status)


RESOURCES = {
    "plain": Resource(),
    "empty": Resource(body=b""),
    "large": Resource(body=LARGE, etag='"large"'),
    "chunked": Resource(body=LARGE, is_chunked=True),
    "tagged": Resource(etag='"one"'),
    "weak": Resource(etag='W/"one"'),
    "dated": Resource(is_dated=True),
    "validated": Resource(etag='"both"', is_dated=True),
    "ranges": Resource(etag='"ranges"', is_dated=True, has_ranges=True),
    "large_ranges": Resource(body=LARGE, etag='"ranges"', has_ranges=True),
    "asked_in_part": Resource(etag='"part"', has_ranges=True, asked=(("Range", "bytes=10-19"),)),
    "asked_on_condition": Resource(etag='"known"', asked=(("If-None-Match", '"known"'),)),
    "asked_since": Resource(is_dated=True, asked=(("If-Modified-Since", email.utils.formatdate(time.time(), usegmt=True)),)),
    "packed": Resource(is_packed=True, etag='"packed"', is_dated=True),
    "packed_weak": Resource(is_packed=True, etag='W/"packed"'),
    "packed_large": Resource(body=LARGE, is_packed=True, etag='"packed"', is_chunked=True),
    "packed_ranges": Resource(is_packed=True, etag='"packed"', has_ranges=True),
    # These are packed, unpacked or put together by the cache (VCL below).
    "packs": Resource(etag='"packs"', is_dated=True),
    "packs_large": Resource(body=LARGE, etag='"packs"', is_chunked=True),
    "packs_weak": Resource(etag='W/"packs"'),
    "unpacks": Resource(is_packed=True, etag='"unpacks"'),
    "includes": Resource(body=b"<p><esi:include src='/plain'/></p>", etag='"includes"'),
    "languages": Resource(languages=("de", "en"), etag='"languages"'),
    "languages_asked": Resource(languages=("de", "en"), asked=(("Accept-Language", "de"),)),
    "moved": moved("301 Moved Permanently"),
    "found": moved("302 Found"),
    "other": moved("303 See Other"),
    "temporary": moved("307 Temporary Redirect"),
    "permanent": moved("308 Permanent Redirect"),
    "denied": Resource(status="403 Forbidden"),
    "missing": Resource(status="404 Not Found"),
    "gone": Resource(status="410 Gone"),
    "broken": controlled("no-store", status="500 Internal Server Error", is_hit=False),
    "no_content": Resource(body=b"", status="204 No Content"),
    "head": Resource(etag='"head"', is_dated=True, method="HEAD"),
    "head_of_large": Resource(body=LARGE, method="HEAD"),
    "head_of_missing": Resource(status="404 Not Found", method="HEAD"),
    "options": Resource({"Allow": "GET, HEAD, OPTIONS"}, body=b"", method="OPTIONS", is_hit=False),
    "posted": controlled("no-store", method="POST", is_hit=False),
    "cookies": Resource({"Cache-Control": FRESH, "Set-Cookie": "a=b; Path=/; Secure; HttpOnly; SameSite=Lax"}),
    "asked_with_cookies": Resource(asked=(("Cookie", "a=b"),)),
    "authorised": controlled("public, " + FRESH, asked=(("Authorization", "Basic YTpi"),)),
    "not_authorised": Resource(asked=(("Authorization", "Basic YTpi"),), is_hit=False),
    "no_store": controlled("no-store", is_hit=False),
    "no_cache": controlled("no-cache", etag='"no-cache"', is_hit=False),
    "private": controlled("private, " + FRESH, is_hit=False),
    "stale": controlled("max-age=0", is_dated=True, is_hit=False),
    "must_revalidate": controlled(FRESH + ", must-revalidate", etag='"must"'),
    "while_revalidating": controlled(FRESH + ", stale-while-revalidate=60"),
    "shared": controlled("s-maxage=600, max-age=60"),
    "targeted": Resource({"Cache-Control": "max-age=60", "CDN-Cache-Control": "max-age=600"}),
    "expires": Resource({"Expires": email.utils.formatdate(time.time() + 3600, usegmt=True)}),
    "guessed": Resource({}, is_dated=True),
    "no_cache_fields": controlled(FRESH + ', no-cache="X-Once"'),
    "grouped": Resource({"Cache-Control": FRESH, "Cache-Groups": '"one", "two"'}),
    "misdated": Resource(),
}

# Faults that VCL plants, which REDbot must find.
PLANTED = {"misdated": "DATE_INCORRECT"}

VCL = """vcl 4.1;
backend default {{ .host = "{0}"; .port = "{1}"; }}
sub vcl_backend_response {{
    if (bereq.url ~ "^/packs") {{ set beresp.do_gzip = true; }}
    if (bereq.url == "/unpacks") {{ set beresp.do_gunzip = true; }}
    if (bereq.url == "/includes") {{ set beresp.do_esi = true; }}
}}
sub vcl_deliver {{
    if (req.url == "/misdated") {{ set resp.http.Date = now - 1m; }}
}}
"""


def serve(s):
    """A `serve` for bed.origin.Origin."""
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buf = b""
    while got := head(s, buf):
        method, path, fields, buf = got
        length = int(fields.get("content-length", 0))
        while len(buf) < length:
            data = s.recv(65536)
            if not data:
                return
            buf += data
        buf = buf[length:]
        resource = RESOURCES.get(path.lstrip("/")) or Resource(status="404 Not Found")
        s.sendall(answer(resource, method, fields))


def answer(resource, method, asked):
    """One whole response, as octets."""
    status, body, fields = chosen(resource, asked)
    changed = email.utils.formatdate(int(time.time()) // LENT * LENT - LENT, usegmt=True)
    if resource.is_dated:
        fields["Last-Modified"] = changed
    if resource.has_ranges:
        fields["Accept-Ranges"] = "bytes"
    if is_known(resource, fields, asked):
        return message("304 Not Modified", {n: v for n, v in fields.items() if n not in ("Content-Type", "Content-Encoding")}, None)
    part = re.fullmatch(r"bytes=(\d+)-(\d+)", asked.get("range", ""))
    if part and resource.has_ranges and asked.get("if-range", fields.get("ETag")) == fields.get("ETag"):
        first, last = int(part[1]), min(int(part[2]), len(body) - 1)
        fields["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
        return message("206 Partial Content", fields, body[first:last + 1], method)
    if status.startswith("204"):
        return message(status, fields, None)
    return message(status, fields, body, method, resource.is_chunked)


def chosen(resource, asked):
    """Status, body and fields of the form that the request selects."""
    body, fields, tag = resource.body, dict(resource.fields), resource.etag
    if body:
        fields["Content-Type"] = "text/plain; charset=utf-8"
    if resource.languages:
        wanted = asked.get("accept-language", "")
        language = next((one for one in resource.languages if wanted.startswith(one)), resource.languages[0])
        fields |= {"Content-Language": language, "Vary": "Accept-Language"}
        body, tag = language.encode() + b" " + body, tag and tag[:-1] + f'-{language}"'
    if resource.is_packed:
        fields["Vary"] = "Accept-Encoding"
        if "gzip" in asked.get("accept-encoding", ""):
            fields["Content-Encoding"] = "gzip"
            body, tag = gzip.compress(body, 5, mtime=0), tag and tag[:-1] + '-gzip"'
    if tag:
        fields["ETag"] = tag
    return resource.status, body, fields


def is_known(resource, fields, asked):
    """Whether the client has it (RFC 9110 13.2.2)."""
    if not resource.status.startswith("200"):
        return False
    if "if-none-match" in asked:
        tags = [tag.strip().removeprefix("W/") for tag in asked["if-none-match"].split(",")]
        return fields.get("ETag", "").removeprefix("W/") in tags
    if "if-modified-since" in asked and resource.is_dated:
        since, changed = (email.utils.parsedate_to_datetime(text) for text in (asked["if-modified-since"], fields["Last-Modified"]))
        return since >= changed
    return False


def message(status, fields, body, method="GET", is_chunked=False):
    """`body` None: the answer has none, and no length."""
    lines = [f"HTTP/1.1 {status}", f"Date: {email.utils.formatdate(usegmt=True)}", "Server: bed", *(f"{n}: {v}" for n, v in fields.items())]
    if body is not None:
        lines.append("Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(body)}")
    top = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    if body is None or method == "HEAD":
        return top
    return top + (b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked and body else body)
