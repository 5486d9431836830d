# SPDX-License-Identifier: BSD-2-Clause
"""Makes of a case of HAProxy's, written for its own configuration, one with our server and VCL that does the same.

Knows the part of the configuration that a cache has, too. `Unknown` names the first directive that it doesn't know.
"""
import re

from edits import EDITS

BLOCK = re.compile(r'^haproxy (\w+) (?:-arg "[^"]*" )?-conf \{\n(.*?)^\} [^\n]*\n', re.S | re.M)
# Directives that change nothing for a cache, or which it does anyway.
IGNORED = re.compile(r"""timeout\ |tune\.|no\ option|mode\ http$|maxconn|log\ |retries|option\ (http-buffer-request|dontlognull|httplog|http-keep-alive|
    forwardfor$|httpslog|idle-close|logasap|splice-)|thread-groups|nbthread|stats\ |total-max-size|max-age|max-object-size|process-vary|cache\ |
    max-secondary|hash-type|fullconn|option\ socket-stats|http-request\ wait-for-body|compression\ minsize|
    tcp-request\ inspect-delay|balance\ roundrobin|unique-id|expose|http-reuse|filter\ (cache|compression)|compression\ (direction|offload)|\.(if|endif)|no-memory|presetenv|default-path|
    http-after-response\ set-header\ X-Cache-Hit|http-request\ disable-l7-retry""", re.X)
SECTION = re.compile(r"(global|defaults|frontend|backend|listen|cache)\b *(\S*)(?: from \S+)?")

HASH = 'if (req.method == "GET" || req.method == "HEAD") { return (hash); } return (pass);'
# A pipe that ends with its request has lost the header fields that open a tunnel.
PIPE = "sub vcl_pipe { if (req.http.Upgrade) { set bereq.http.Upgrade = req.http.Upgrade; set bereq.http.Connection = req.http.Connection; } }\n"
# HAProxy sends the body of a GET, too.
FETCH = "sub vcl_backend_fetch { return (fetch); }\n"
PASS = "if (req.http.Upgrade) { return (pipe); } return (pass);"
# HAProxy's cache forgets what a POST changes, as RFC 9111 says; varnishd's doesn't.
BY_RFC, RFC9111 = ("cache/post_on_entry.vtc",), " -p feature=+rfc9111"


class Unknown(Exception):
    """The case needs something that isn't a cache's, or isn't translated."""


class Section:
    def __init__(self):
        self.binds, self.server, self.default, self.uses = [], None, None, []
        self.recv, self.response, self.deliver, self.caches = [], [], [], False


def quoted(text):
    text = text.strip().strip('"')
    if "%[" in text or "%" in text:
        raise Unknown(f"a value of HAProxy's: {text}")
    return '"' + text.replace('"', "%22") + '"'


def condition(words):
    """VCL for the simplest of HAProxy's conditions."""
    found = re.fullmatch(r"(?:if )?\{ path(_beg)? (\S+) \}", words)
    if not found:
        raise Unknown(f"a condition: {words}")
    return f'req.url ~ "^{re.escape(found[2])}{"" if found[1] else "(?:[?]|$)"}"'


def directive(s, line, servers):
    """Adds one line of a section to `s`."""
    if found := re.fullmatch(r'bind "?fd@\$\{(\w+)\}"?(?: proto h[12])?', line):
        s.binds.append(found[1])
    elif found := re.fullmatch(r'server \S+ "?\$\{(\w+)_addr\}:\$\{\w+_port\}"?( proto h2)?', line):
        if s.server:
            raise Unknown("a choice among servers")
        s.server = found[1]
        servers[found[1]] = bool(found[2])
    elif found := re.fullmatch(r"(?:default_backend|use_backend) (\S+)", line):
        s.default = found[1]
    elif found := re.fullmatch(r"use_backend (\S+) (if .*)", line):
        s.uses.append((condition(found[2]), found[1]))
    elif found := re.fullmatch(r"http-request return status (\d+)(?: hdr \S+ \S+)?", line):
        s.recv.append(f"return (synth({found[1]}));")
    elif re.match(r"http-request cache-use|http-response cache-store", line):
        s.caches = True
    elif re.fullmatch(r"http-(response|after-response) set-header X-Cache-Hit %\[res.cache_hit\]", line):
        s.deliver.append('if (obj.hits > 0) { set resp.http.X-Cache-Hit = "1"; } else { set resp.http.X-Cache-Hit = "0"; }')
    elif found := re.fullmatch(r"http-request (?:set-header|add-header) (\S+) (.+)", line):
        s.recv.append(f"set req.http.{found[1]} = {quoted(found[2])};")
    elif found := re.fullmatch(r"http-response (?:set-header|add-header) (\S+) (.+)", line):
        s.deliver.append(f"set resp.http.{found[1]} = {quoted(found[2])};")
    elif found := re.fullmatch(r"http-request set-method (\S+)", line):
        s.recv.append(f'set req.method = "{found[1]}";')
    elif found := re.fullmatch(r"http-request deny(?: (if .*))?", line):
        s.recv.append(f"if ({condition(found[1]) if found[1] else 'true'}) {{ return (synth(403)); }}")
    elif found := re.fullmatch(r"http-request del-header (\S+)", line):
        s.recv.append(f"unset req.http.{found[1]};")
    elif found := re.fullmatch(r"http-response del-header (\S+)", line):
        s.deliver.append(f"unset resp.http.{found[1]};")
    elif found := re.fullmatch(r"compression algo(?:-res)? ([\w ]+)", line):
        if "gzip" not in found[1]:
            raise Unknown("a compression other than gzip")
        s.response.insert(0, "if (TYPES) { set beresp.do_gzip = true; }")
    elif found := re.fullmatch(r"compression type(?:-res)? (.+)", line):
        s.response[0] = s.response[0].replace("TYPES", f'beresp.http.Content-Type ~ "^({"|".join(found[1].split())})"')
    elif not IGNORED.match(line):
        raise Unknown(line)


def sections(text):
    found, servers, s = {}, {}, None
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"\s+", " ", re.sub(r"(^|\s)#.*", "", line)).strip()
        if head := SECTION.fullmatch(line):
            s = Section()
            found[f"{head[1]} {head[2]}"] = s
        elif line and s is not None:
            directive(s, line, servers)
    return found, servers


def vcl(own, text):
    """(The VCL, the names of the sockets)."""
    found, servers = sections(text)
    names = {name.split()[1]: s for name, s in found.items() if len(name.split()) == 2}
    sockets, recv, deliver, response, used = [], [], [], [], set()

    def settle(s, depth=0):
        """VCL for a request that reaches section `s`."""
        if s is None or depth > 4:
            raise Unknown("a backend that isn't there")
        lines = list(s.recv)
        for when, name in s.uses:
            lines.append(f"if ({when}) {{ {' '.join(settle(names.get(name), depth + 1))} }}")
        deliver.extend(line for line in s.deliver if line not in deliver)
        response.extend(line for line in s.response if line not in response)
        if any("synth" in line for line in s.recv):
            return lines
        if s.default:
            return lines + settle(names.get(s.default), depth + 1)
        if s.server and s.server.startswith(own + "_"):
            return lines + settle(names.get(s.server.removeprefix(own + "_")), depth + 1)
        if not s.server:
            raise Unknown("a section without a server")
        used.add(s.server)
        return lines + [f"set req.backend_hint = {s.server};", HASH if s.caches else PASS]

    for s in names.values():
        for bind in s.binds:
            sockets.append(bind)
            recv.append(f'if (local.socket == "{bind}") {{ {" ".join(settle(s))} }}')
    backends = [f'backend {name} {{ .host = "${{{name}_addr}}"; .port = "${{{name}_port}}"; {".proto = " + chr(34) + "h2" + chr(34) + ";" if servers[name] else ""} }}'
                for name in sorted(used)] or ["backend default none;"]
    parts = "\n    ".join(recv), "\n    ".join(deliver), "\n    ".join(response).replace("TYPES", "true")
    body = "\n".join(backends) + "\nsub vcl_recv {\n    %s\n}\nsub vcl_deliver {\n    %s\n}\nsub vcl_backend_response {\n    %s\n}\n" % parts + PIPE + FETCH
    return body, sockets


def translated(name, text):
    for regex, instead, _why in EDITS.get(name, ()):
        text, n = re.subn(regex, instead, text, flags=re.S)
        assert n, f"{name}: {regex} isn't there"
    if re.search(r"^syslog ", text, re.M):
        raise Unknown("HAProxy's log")
    if re.search(r"^haproxy \w+ -cli|^haproxy .*-conf-(OK|BAD)|^haproxy \w+ -(?:mcli|wait)", text, re.M):
        raise Unknown("HAProxy's CLI")
    blocks = BLOCK.findall(text)
    if not blocks or len(blocks) != len(re.findall(r"^haproxy ", text, re.M)):
        raise Unknown("the case's form")

    def made(match):
        body, sockets = vcl(match[1], match[2])
        args = " ".join(f"-a {name}=127.0.0.1:0" for name in sockets)
        return (f'varnish v{match[1]} -arg "{args} -p feature=+http2{"" if "do_gzip" in body else " -p http_gzip_support=off"}{RFC9111 if name in BY_RFC else ""}" -vcl {{\n{body}}} -start\n')

    text = re.sub(r"^(#|feature cmd).*\n", "", BLOCK.sub(made, text), flags=re.M)
    # A varnishd's name begins with v.
    return re.sub(rf"\$\{{({'|'.join(block[0] for block in blocks)})_", r"${v\1_", text)
