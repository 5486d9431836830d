#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes haproxy.txt anew: record.py FILE, where HAProxy and openssl are installed.

A line for each case, with tabs between: its name, the words of HAProxy's `server` line, the client and destination that it knew
(or `-`), what it sent before the request (hexadecimal).
"""
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
# Name, the words of haproxy's `server` line, how the client comes.
CASES = [
    ("v1", "send-proxy", "v4"), ("v1-v6", "send-proxy", "v6"), ("v1-unix", "send-proxy", "unix"),
    ("v2", "send-proxy-v2", "v4"), ("v2-v6", "send-proxy-v2", "v6"), ("v2-unix", "send-proxy-v2", "unix"),
    ("v2-crc32c", "send-proxy-v2 proxy-v2-options crc32c", "v4"),
    ("v2-crc32c-v6", "send-proxy-v2 proxy-v2-options crc32c", "v6"),
    ("v2-crc32c-unix", "send-proxy-v2 proxy-v2-options crc32c", "unix"),
    ("v2-unique-id", "send-proxy-v2 proxy-v2-options unique-id", "v4"),
    ("v2-ssl-plain", "send-proxy-v2-ssl", "v4"),
    ("v2-ssl", "send-proxy-v2-ssl", "tls"), ("v2-ssl-cert", "send-proxy-v2-ssl", "cert"),
    ("v2-ssl-cn", "send-proxy-v2-ssl-cn", "cert"),
    ("v2-authority", "send-proxy-v2 proxy-v2-options authority", "tls"),
    ("v2-all", "send-proxy-v2-ssl-cn proxy-v2-options ssl,cert-cn,ssl-cipher,cert-sig,cert-key,authority,crc32c,unique-id", "cert"),
    ("v2-all-v6", "send-proxy-v2-ssl-cn proxy-v2-options ssl,cert-cn,ssl-cipher,cert-sig,cert-key,authority,crc32c,unique-id", "cert6"),
    ("v1-check", "send-proxy check check-send-proxy inter 200", "check"),
    ("v2-check", "send-proxy-v2 check check-send-proxy inter 200", "check"),
    ("v2-check-all", "send-proxy-v2-ssl-cn proxy-v2-options crc32c,unique-id,authority check check-send-proxy inter 200", "check"),
    ("v1-chained", "send-proxy", "proxied"), ("v2-chained-tlv", "send-proxy-v2", "proxied-v2"),
    ("v2-chained-local", "send-proxy-v2", "proxied-local"), ("v1-chained-unknown", "send-proxy", "proxied-unknown"),
    ("v1-ip6-mixed", "send-proxy", "proxied-v6"),
]


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def port():
    with socket.socket(socket.AF_INET6) as s:
        s.bind(("::", 0))
        return s.getsockname()[1]


def certificates(d):
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", d / "ca.key", "-out", d / "ca.pem", "-subj", "/CN=ca.example", "-days", "30")
    for name in ("site.example", "client.example"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", d / f"{name}.key", "-out", d / "r", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", d / "r", "-CA", d / "ca.pem", "-CAkey", d / "ca.key", "-CAcreateserial", "-out", d / f"{name}.crt", "-days", "30")
    (d / "site.pem").write_text((d / "site.example.crt").read_text() + (d / "site.example.key").read_text())


def recorded(d, words, how):
    """The bytes before the request, and the client's address and the destination as haproxy saw them."""
    sink = socket.create_server(("127.0.0.1", 0))
    plain, tls = port(), port()
    accept = " accept-proxy" if how.startswith("proxied") else ""
    (d / "h.cfg").write_text(f"""
global
  stats socket {d}/stats
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
  unique-id-format id-%[uuid()]
frontend f
  bind 127.0.0.1:{plain}{accept}
  bind [::1]:{plain}{accept}
  bind unix@{d}/s.sock
  bind 127.0.0.1:{tls} ssl crt {d}/site.pem ca-file {d}/ca.pem verify optional
  bind [::1]:{tls} ssl crt {d}/site.pem ca-file {d}/ca.pem verify optional
  default_backend b
backend b
{'  option httpchk GET /' if how == 'check' else ''}
  server s 127.0.0.1:{sink.getsockname()[1]} {words}
""")
    process = subprocess.Popen(["haproxy", "-db", "-f", d / "h.cfg"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not (d / "s.sock").exists():
        if process.poll() is not None:
            sys.exit(process.stderr.read().decode())
        time.sleep(.05)
    ends = "-"
    request = b"GET / HTTP/1.1\r\nHost: site.example\r\n\r\n"

    def ask():
        nonlocal ends
        if how == "check":
            return
        if how in ("tls", "cert", "cert6"):
            address = f"[::1]:{tls}" if how == "cert6" else f"127.0.0.1:{tls}"
            own = ["-cert", d / "client.example.crt", "-key", d / "client.example.key"] if how.startswith("cert") else []
            words = ["-quiet", "-connect", address, "-servername", "site.example", *own]
            subprocess.run(["openssl", "s_client", *words], input=request, capture_output=True, timeout=10)
            return
        s = socket.socket(socket.AF_UNIX) if how == "unix" else socket.create_connection(("::1" if how == "v6" else "127.0.0.1", plain))
        if how == "unix":
            s.connect(str(d / "s.sock"))
        else:
            ends = " ".join(f"{host} {port}" for host, port, *_ in (s.getsockname(), s.getpeername()))
        if how in ("proxied", "proxied-v2"):
            ends = "192.0.2.7 1234 198.51.100.9 443"
        elif how == "proxied-v6":
            ends = "2001:db8::7 1234 ::ffff:198.51.100.9 443"
        head = {"proxied": b"PROXY TCP4 192.0.2.7 198.51.100.9 1234 443\r\n", "proxied-v6": b"PROXY TCP6 2001:db8::7 ::ffff:198.51.100.9 1234 443\r\n", "proxied-unknown": b"PROXY UNKNOWN\r\n",
                "proxied-local": SIGNATURE + b"\x20\x00\x00\x00", "proxied-v2": SIGNATURE + b"\x21\x11\x00\x11" + bytes([192, 0, 2, 7, 198, 51, 100, 9]) + b"\x04\xd2\x01\xbb" + b"\x01\x00\x02h2"}.get(how, b"")
        s.sendall(head + request)
        time.sleep(.3)
        s.close()

    threading.Thread(target=ask, daemon=True).start()
    sink.settimeout(8)
    connection, _ = sink.accept()
    connection.settimeout(2)
    data = b""
    try:
        while (b"GET / " not in data) and (piece := connection.recv(65536)):
            data += piece
    except TimeoutError:
        pass
    connection.close()
    process.terminate()
    process.wait()
    return data.split(b"GET / ")[0], ends


def main(target):
    with tempfile.TemporaryDirectory() as directory:
        d = pathlib.Path(directory)
        certificates(d)
        lines = []
        for name, words, how in CASES:
            (d / "s.sock").unlink(missing_ok=True)
            data, ends = recorded(d, words, how)
            lines.append("\t".join((name, words, ends, data.hex())) + "\n")
        pathlib.Path(target).write_text("".join(lines))


if __name__ == "__main__":
    main(sys.argv[1])
