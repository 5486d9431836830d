# SPDX-License-Identifier: BSD-2-Clause
"""Requests and origin answers made up from what a VCL tests: its hosts, URL patterns, fields and cookies."""
import random
import re
import warnings
import zlib

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import sre_constants as sc
    import sre_parse

STRING = r'(?:\{"(?P<l>.*?)"\}|"(?P<s>[^"\n]*)")'
URLS = ["/", "/index.html", "/about", "/news/2024/story.html", "/style.css", "/js/app.js?v=3", "/img/logo.png", "/a.jpg?x=1",
        "/search?q=a&b=2", "/?utm_source=x&utm_medium=y&a=1", "/page?gclid=1&z=2", "/wp-login.php", "/wp-admin/index.php",
        "/wp-content/a.css?ver=2", "/?p=12&preview=true", "/user/login", "/admin", "/api/v1/items?id=7", "/api/v2/items",
        "/checkout/cart", "/customer/section/load", "/static/version1/x.js", "/media/cat.webp", "/graphql?query=a",
        "/feed", "/esi/page", "/esi/box?n=1", "/health", "/server-status", "/xmlrpc.php", "/cron.php", "/download.zip",
        "/video.mp4", "/private/me", "/old", "/missing", "/error", "/gone?", "/a//b", "/?b=2&a=1", "/?a=1&b=2", "/UPPER",
        "/stale", "/stale?n=2", "/vary", "/gz.html", "/big.html"]
HOSTS = ["www.example.com", "example.com", "api.example.com", "EXAMPLE.com:8080", "m.example.com", "blog.example.org", "localhost"]
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
          "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148 Safari/604.1",
          "Mozilla/5.0 (Linux; Android 14; Pixel 8) Chrome/126.0 Mobile Safari/537.36",
          "Mozilla/5.0 (iPad; CPU OS 16_0 like Mac OS X)", "Mozilla/5.0 (compatible; Googlebot/2.1)", "curl/8.0", "", "Wget/1.2"]
COOKIES = ["__utma=1.2; has_js=1", "_ga=GA1.2; theme=dark", "PHPSESSID=abc123", "SESS0123456789abcdef0123456789abcdef=x; a=b",
           "wordpress_logged_in_x=1; wp-settings-1=2", "frontend=1; lang=de", "NO_CACHE=Y", "a=1;b=2;  c=3", "X-Magento-Vary=abc",
           "form_key=1; mage-cache=2", "ab=A", "ab=B; _fbp=1", ";", "novalue", "geo=de; lang=fr"]
FIELDS = [("Accept-Encoding", ["gzip", "gzip, deflate, br", "deflate", "identity", "br"]),
          ("Accept-Language", ["de,en;q=0.5", "fr", "en-US", "xx"]), ("User-Agent", AGENTS), ("Cookie", COOKIES),
          ("Cache-Control", ["no-cache", "max-age=0", "no-store"]), ("Pragma", ["no-cache"]), ("Authorization", ["Basic YTpi", "Bearer x"]),
          ("X-Forwarded-For", ["192.0.2.7", "10.0.0.1, 192.0.2.9"]), ("X-Forwarded-Proto", ["https", "http"]),
          # A star as If-None-Match is left out: varnishd takes it for an unknown tag (RFC 9110 13.1.2 has 304).
          ("If-None-Match", ['"e1"', '"other"']), ("If-Modified-Since", ["Wed, 01 Jan 2020 00:00:00 GMT", "Wed, 01 Jan 2031 00:00:00 GMT"]),
          ("Range", ["bytes=0-9", "bytes=5-", "bytes=-4", "bytes=900-"]), ("Referer", ["http://www.example.com/", "http://spam.example/"]),
          ("X-Requested-With", ["XMLHttpRequest"]), ("Accept", ["text/html", "image/webp,*/*", "application/json"]),
          ("Surrogate-Capability", ["key=ESI/1.0"]), ("X-Country", ["DE", "US"]), ("Upgrade", ["websocket"]), ("Origin", ["https://shop.example.com"])]
METHODS = ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PURGE", "BAN", "PATCH", "REFRESH", "FOO", "PROPFIND"]
# Fields that frame or route the message itself: never made up.
FRAMING = {"host", "content-length", "transfer-encoding", "connection", "x-req", "expect", "x-varnish"}


def sample(pattern, rng):
    """A text that the pattern (mostly) finds something in."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "".join(piece(p, rng) for p in sre_parse.parse(pattern))
    except (re.error, RecursionError, OverflowError, ValueError, KeyError, TypeError):
        return re.sub(r"[\\^$()?*+|\[\]{}]", "", pattern)[:60]


def piece(node, rng):
    op, av = node
    if op is sc.LITERAL:
        return chr(av)
    if op is sc.NOT_LITERAL:
        return "q"
    if op is sc.ANY:
        return rng.choice("ax1-")
    if op is sc.IN:
        return one_of(av, rng)
    if op is sc.BRANCH:
        return "".join(piece(p, rng) for p in rng.choice(av[1]))
    if op is sc.SUBPATTERN:
        return "".join(piece(p, rng) for p in av[3])
    if op in (sc.MAX_REPEAT, sc.MIN_REPEAT):
        low, high, inner = av
        n = rng.randint(low, min(int(high), low + 2))
        return "".join(piece(p, rng) for _ in range(n) for p in inner)
    return ""  # anchors, look-around, back-references


def one_of(items, rng):
    negated, chars = False, []
    for op, av in items:
        if op is sc.NEGATE:
            negated = True
        elif op is sc.LITERAL:
            chars.append(chr(av))
        elif op is sc.RANGE:
            chars.append(chr(rng.randint(*av)))
        elif op is sc.CATEGORY:
            chars.append({sc.CATEGORY_DIGIT: "7", sc.CATEGORY_SPACE: " ", sc.CATEGORY_WORD: "w"}.get(av, "-"))
    if negated:
        return next((c for c in "qz19_-%~" if c not in chars), "q")
    return rng.choice(chars)


def tests_of(vcl):
    """{subject: [texts that are likely to match]}: subject is `url`, `method` or a field's name in lower case."""
    rng, found = random.Random(1), {}
    subject = r'(?:be)?(?P<head>req|resp)\.(?:http\.(?P<name>[\w-]+)|(?P<part>url|method))'
    for m in re.finditer(subject + r'\s*(?P<op>!~|~|==|!=)\s*' + STRING, vcl, re.S):
        text = m["l"] or m["s"] or ""
        side = "beresp." if m[0].startswith("beresp") else ""
        key = side + (m["name"] or m["part"]).lower()
        texts = [text] if m["op"] in ("==", "!=") else [sample(text, rng) for _ in range(3)]
        found.setdefault(key, []).extend(t for t in texts if t.isprintable() and t.isascii())
    for m in re.finditer(r'regsub(?:all)?\(\s*req\.url\s*,\s*' + STRING, vcl, re.S):
        found.setdefault("url", []).extend("/r" + sample(m["l"] or m["s"] or "", rng) for _ in range(2))
    for m in re.finditer(r'req\.http\.([\w-]+)', vcl):
        found.setdefault(m[1].lower(), [])
    return found


def target(text, rng):
    """A text made into something a request line may carry."""
    text = re.sub(r"[\s#]", "", text)[:300]
    return text if text.startswith("/") else rng.choice(["/", "/p?", "/dir/", "/a?b=1&"]) + text


class Request:
    """One request; `number` is carried in X-Req."""

    def __init__(self, rng, tests):
        urls = tests.get("url", [])
        self.url = target(rng.choice(urls), rng) if urls and rng.random() < 0.5 else rng.choice(URLS)
        if rng.random() < 0.1:
            self.url += ("&" if "?" in self.url else "?") + rng.choice(["utm_campaign=1", "fbclid=x", "_=123", "s=b&r=a"])
        hosts = tests.get("host", [])
        self.host = re.sub(r"[^\w.:-]", "", rng.choice(hosts)) if hosts and rng.random() < 0.6 else rng.choice(HOSTS)
        self.method = rng.choice(tests.get("method", []) + METHODS) if rng.random() < 0.18 else "GET"
        if not re.fullmatch(r"[A-Z]+", self.method) or self.method in ("CONNECT", "TRACE", "PRI"):
            self.method = "GET"
        self.fields, self.body = [], None
        chance = 0.12
        for name, values in FIELDS:
            if rng.random() < chance:
                self.fields.append((name, rng.choice(values)))
        known = {n.lower() for n, _ in self.fields} | FRAMING
        for name in sorted(tests):
            if "." not in name and name not in known | {"url", "method"} and rng.random() < 0.1:
                self.fields.append((name.title(), (rng.choice(tests[name]) if tests[name] and rng.random() < 0.8 else "1")[:200].strip()))
        special = [n for n in ("cookie", "user-agent", "accept-encoding") if tests.get(n) and rng.random() < 0.3]
        for name in special:
            self.fields = [(n, v) for n, v in self.fields if n.lower() != name]
            self.fields.append((name.title(), rng.choice(tests[name])[:200].strip()))
        if self.method not in ("GET", "HEAD"):
            # Conditions are for these two (RFC 9110, 13.2.1); varnishd answers any method with 304.
            self.fields = [f for f in self.fields if f[0] not in ("If-None-Match", "If-Modified-Since")]
        if self.method in ("POST", "PUT", "PATCH"):
            self.body = b"a=1&b=2"
        self.source = rng.choice(["127.0.0.1", "127.0.0.1", "127.0.0.2"])

    def __str__(self):
        return f"{self.method} {self.url} host {self.host} from {self.source} {self.fields}"


def sequence(vcl, count, seed):
    """`count` requests, many of them repeats, so that there are hits."""
    rng, tests = random.Random(seed), tests_of(vcl)
    pool = [Request(rng, tests) for _ in range(max(1, count * 3 // 5))]
    return pool + [rng.choice(pool) for _ in range(count - len(pool))]


def answer(vcl_tests, method, url, fields):
    """What the origin says: (status, [(field, value)], body). The same question always gets the same answer."""
    rng = random.Random(zlib.crc32(f"{url} {fields.get('host')}".encode("latin-1", "replace")))
    path = url.split("?")[0]
    status, out = 200, []
    roll = rng.random()
    if "error" in path or roll < 0.03:
        status = rng.choice([500, 503, 502])
    elif "missing" in path or roll < 0.07:
        status = rng.choice([404, 404, 410, 403])
    elif "old" in path or roll < 0.1:
        status = rng.choice([301, 302, 307])
        out.append(("Location", "http://www.example.com:8080/new"))
    kind = next((k for end, k in ((".css", "text/css"), (".js", "application/javascript"), (".png", "image/png"), (".jpg", "image/jpeg"),
                                  (".json", "application/json"), ("/api", "application/json")) if end in path), "text/html; charset=utf-8")
    out.append(("Content-Type", kind))
    caching = ["max-age=600", "max-age=3600, s-maxage=900", "public, max-age=300, stale-while-revalidate=60", "no-cache", "private", "no-store",
               "max-age=0", None, None, "s-maxage=0", "public", "must-revalidate, max-age=120"]
    cc = "max-age=0" if "stale" in path else rng.choice(caching)
    if cc:
        out.append(("Cache-Control", cc))
    for chance, name, value in ((0.15, "Set-Cookie", "sid=1; path=/"), (0.25, "Etag", '"e1"'), (0.2, "Last-Modified", "Wed, 01 Jan 2025 00:00:00 GMT"),
                                (0.15, "Vary", "Accept-Encoding"), (0.05, "Vary", "User-Agent"), (0.04, "Vary", "*"), (0.1, "X-Powered-By", "PHP/8"),
                                (0.1, "Server", "nginx"), (0.05, "Pragma", "no-cache"), (0.05, "Age", "30"), (0.08, "Expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
                                (0.06, "X-Cache-Tags", "a b c"), (0.05, "X-Reverse-Proxy-TTL", "300"), (0.06, "Link", "</x>; rel=preload")):
        if rng.random() < chance:
            out.append((name, value))
    known = {n.lower() for n, _ in out}
    for key in sorted(vcl_tests):
        if key.startswith("beresp.") and key[7:] not in known | FRAMING | {"status"} and rng.random() < 0.3:
            out.append((key[7:].title(), rng.choice(vcl_tests[key] or ["1"])[:200].strip() or "1"))
    body = f"<html>{method} {url} of {fields.get('host')}</html>\n"
    if "esi" in path:
        body = f'<html><esi:include src="/box?n={rng.randint(1, 3)}"/><esi:remove>no</esi:remove>{url}</html>\n'
        out.append(("Surrogate-Control", 'content="ESI/1.0"'))
    if "big" in path:
        body *= 400
    return status, out, body.encode("latin-1", "replace")
