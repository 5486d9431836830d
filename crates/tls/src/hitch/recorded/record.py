#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes verdicts.txt anew: record.py FILE, where hitch and openssl are installed.

A line for each configuration file, with tabs between: its name, what `hitch --test` says of it (`ok` or `refused`), its text with
escapes (`\\n`, `\\xNN`).
"""
import pathlib
import subprocess
import sys
import tempfile

PEM = 'pem-file = "site.pem"\n'
F = 'frontend = "[127.0.0.1]:0"\n'
CASES = [
    ("plain", F+PEM),
    ("crlf", (F+PEM).replace("\n","\r\n")),
    ("bom", "\ufeff"+F+PEM),
    ("no final newline", (F+PEM).rstrip()),
    ("one line", 'frontend = "[127.0.0.1]:0" pem-file = "site.pem" ciphers = "HIGH" daemon = off'),
    ("no blanks", 'frontend="[127.0.0.1]:0"pem-file="site.pem"'),
    ("block", 'frontend = {\n host = "*"\n port = "0"\n}\n'+PEM),
    ("block no blanks", 'frontend={host="*"port="0"}pem-file="site.pem"\n'),
    ("block of a cert", F+'pem-file = {\n cert = "site.pem"\n}\n'),
    ("block in a block", 'frontend = { host = "*" port = "0" pem-file = { cert = "site.pem" ocsp-verify-staple = on } }\n'),
    ("semicolons", 'frontend = "[127.0.0.1]:0";\npem-file = "site.pem";\nworkers = 1;\n'),
    ("commas", F+PEM+'tls-protos = TLSv1.2, TLSv1.3\n'),
    ("comma block", 'frontend = { host = "*", port = "0", }\n'+PEM),
    ("colon", F+'pem-file: = "site.pem"\n'),
    ("colon for equals", F+'pem-file : "site.pem"\n'),
    ("no equals", F+'pem-file "site.pem"\n'),
    ("two equals", F+'pem-file == "site.pem"\n'),
    ("single quotes", F+"pem-file = 'site.pem'\n"),
    ("unquoted path", F+"pem-file = site.pem\n"),
    ("unquoted word", F+PEM+"ciphers = HIGH\n"),
    ("unquoted number", F+PEM+"workers = 2\n"),
    ("quoted number", F+PEM+'workers = "2"\n'),
    ("negative number", F+PEM+'backlog = -1\n'),
    ("signed send-bufsize", F+PEM+'send-bufsize = -1\n'),
    ("auto", F+PEM+'workers = auto\n'),
    ("quoted auto", F+PEM+'workers = "auto"\n'),
    ("port unquoted", 'frontend = { host = "*" port = 0 }\n'+PEM),
    ("bool words", F+PEM+'prefer-server-ciphers = YES\nsni-nomatch-abort = "On"\nquiet = f\nwrite-ip = N\nsyslog = TRUE\nsyslog = off\n'),
    ("bool number", F+PEM+'prefer-server-ciphers = 1\n'),
    ("bool other", F+PEM+'prefer-server-ciphers = enabled\n'),
    ("bool with blanks", F+PEM+'prefer-server-ciphers = " on "\n'),
    ("string that is a bool", F+'pem-file = "on"\n'),
    ("string t in ciphers", F+PEM+'ciphers = "t"\n'),
    ("empty string", F+PEM+'ciphers = ""\n'),
    ("empty pem", F+PEM+'pem-file = ""\n'),
    ("empty frontend string", 'frontend = ""\n'+F+PEM),
    ("empty after", F+PEM+'ciphers = "HIGH"\nciphers = ""\n'),
    ("twice", F+PEM+'ciphers = "HIGH"\nciphers = "ECDHE+AESGCM"\n'),
    ("protos twice", F+PEM+'tls-protos = TLSv1.2\ntls-protos = TLSv1.3\n'),
    ("tls then protos", F+PEM+'tls = on\ntls-protos = TLSv1.3\n'),
    ("protos then tls", F+PEM+'tls-protos = TLSv1.3\ntls = on\n'),
    ("tls off then protos", F+PEM+'tls = off\ntls-protos = TLSv1.3\n'),
    ("tls on in block then protos", 'frontend = { host = "*" port = "0" tls = on tls-protos = TLSv1.2 }\n'+PEM),
    ("protos twice in block", 'frontend = { host = "*" port = "0" tls-protos = TLSv1.2 tls-protos = TLSv1.3 }\n'+PEM),
    ("protos quoted", F+PEM+'tls-protos = "TLSv1.2 TLSv1.3"\n'),
    ("protos glued", F+PEM+'tls-protos = TLSv1.2TLSv1.3\n'),
    ("protos lower", F+PEM+'tls-protos = tlsv1.2\n'),
    ("protos plus", F+PEM+'tls-protos = TLSv1.2 + TLSv1.3\n'),
    ("same frontend twice", F.replace(":0",":8499")+F.replace(":0",":8499")+PEM),
    ("same port two hosts", 'frontend = "[127.0.0.1]:8499"\nfrontend = "[127.0.0.2]:8499"\n'+PEM),
    ("same in block and string", 'frontend = "[127.0.0.1]:8499"\nfrontend = { host = "127.0.0.1" port = "8499" }\n'+PEM),
    ("wildcard twice", 'frontend = "[*]:8499"\nfrontend = { host = "*" port = "8499" }\n'+PEM),
    ("frontend no brackets", 'frontend = "*:8499"\n'+PEM),
    ("frontend with cert", 'frontend = "[*]:8499+site.pem"\n'),
    ("frontend port only", 'frontend = ":8499"\n'+PEM),
    ("host with brackets", 'frontend = { host = "[::1]" port = "8499" }\n'+PEM),
    ("no port", 'frontend = { host = "*" }\n'+PEM),
    ("no host", 'frontend = { port = "8499" }\n'+PEM),
    ("empty block", 'frontend = { }\n'+PEM),
    ("empty pem block", F+PEM+'pem-file = { }\n'),
    ("pem block without cert", F+PEM+'pem-file = { private-key = "site.pem" }\n'),
    ("no global certs, none own", 'frontend = { host = "*" port = "8499" match-global-certs = off }\n'+PEM),
    ("comment at end", F+PEM+"# the end\n"),
    ("comment at end without newline", F+PEM+"# the end"),
    ("sign at end without newline", F+PEM+"###"),
    ("setting in a comment at the end", F+PEM+'#ciphers = "HIGH"'),
    ("comment in a line", 'frontend = "[127.0.0.1]:0" # x\npem-file = "site.pem" #y\n'),
    ("comment after a word", F+PEM+'ciphers = HIGH#x\n'),
    ("hash in a string", F+PEM+'log-filename = "x#y"\n'),
    ("string over lines", F+PEM+'log-filename = "x\n:y"\n'),
    ("escaped quote", F+PEM+'log-filename = "x\\"y"\n'),
    ("backslashes", F+PEM+'log-filename = "x\\\\y"\n'),
    ("backslash at the end of a line", F+PEM+'log-filename = "x\\\ny"\n'),
    ("quote without end", F+PEM+'ciphers = "HIGH\n'),
    ("stray quote", F+PEM+'daemon = off "\n'),
    ("stray brace", F+PEM+'}\n'),
    ("block without end", PEM+'frontend = { host = "*" port = "0"\n'),
    ("unknown key", F+PEM+'nonsense = 1\n'),
    ("upper case key", F+PEM+'Ciphers = "HIGH"\n'),
    ("underscore key", F+PEM+'prefer_server_ciphers = on\n'),
    ("unknown in block", 'frontend = { host = "*" port = "0" workers = 1 }\n'+PEM),
    ("ecdh in block", 'frontend = { host = "*" port = "0" ecdh-curve = "X25519" }\n'+PEM),
    ("alpn in block", 'frontend = { host = "*" port = "0" alpn-protos = "h2" }\n'+PEM),
    ("pidfile", F+PEM+'pidfile = "x"\n'),
    ("ring-slots", F+PEM+'ring-slots = 1\n'),
    ("session-cache", F+PEM+'session-cache = 0\n'),
    ("keyword as value", F+PEM+'ciphers = user\n'),
    ("keyword quoted as value", F+PEM+'log-filename = "user"\n'),
    ("number as string", F+PEM+'ciphers = 12\n'),
    ("word with digits first", F+PEM+'log-filename = 3x\n'),
    ("word with dashes", F+PEM+'log-filename = a--b-\n'),
    ("client-verify", F+PEM+'client-verify = none\n'),
    ("client-verify quoted", F+PEM+'client-verify = "none"\n'),
    ("empty file", ""),
    ("only comments", "# x\n"),
    ("only blanks", " \n\t\n"),
    ("latin-1 in a comment", b"# caf\xe9\n"+(F+PEM).encode()),
    ("nul", (F+PEM).encode()+b"\0\n"),
    ("form feed", F+"\f"+PEM+"\v"),
    ("no-break space", F.replace(" ","\u00a0")+PEM),
    ("typographic quotes", F+"pem-file = \u201csite.pem\u201d\n"),
    ("tabs", F.replace(" ","\t")+PEM),
    ("old mac", (F+PEM).replace("\n","\r")),
    ("continued line", F+'pem-file = \\\n"site.pem"\n'),
    ("plus-equals", F+'pem-file += "site.pem"\n'),
    ("parentheses", F+'pem-file = ("site.pem")\n'),
    ("two values", F+'pem-file = "site.pem" "site.pem"\n'),
    ("two frontends in one", 'frontend = "[127.0.0.1]:0" "[127.0.0.1]:1"\n'+PEM),
    ("escape at end", F+PEM+'ciphers = "HIGH\\"\n'),
    ("log-level", F+PEM+'log-level = 1\nkeepalive = 3600\nbackend-refresh = 0\nocsp-refresh-interval = 30\n'),
    ("tfo", F+PEM+'tcp-fastopen = off\n'),
    ("proxy", F+PEM+'write-proxy-v1 = off\nproxy-tlv = on\nproxy-authority = on\nproxy-client-cert = off\n'),
    ("ssl-engine", F+PEM+'ssl-engine = ""\n'),
]


def main(target):
    with tempfile.TemporaryDirectory() as directory:
        d = pathlib.Path(directory)
        subject = ["-subj", "/CN=site.example", "-days", "30"]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", d / "k", "-out", d / "c", *subject], capture_output=True, check=True)
        parameters = subprocess.run(["openssl", "dhparam", "-dsaparam", "2048"], capture_output=True, check=True).stdout
        (d / "site.pem").write_bytes((d / "k").read_bytes() + (d / "c").read_bytes() + parameters)
        lines = []
        for name, text in CASES:
            text = text if isinstance(text, bytes) else text.encode()
            (d / "hitch.conf").write_bytes(text)
            status = subprocess.run(["hitch", "--test", "--config=hitch.conf"], cwd=d, capture_output=True).returncode
            escaped = text.decode("latin-1").encode("unicode_escape").decode()
            lines.append(f"{name}\t{'refused' if status else 'ok'}\t{escaped}\n")
        pathlib.Path(target).write_text("".join(lines))


if __name__ == "__main__":
    main(sys.argv[1])
