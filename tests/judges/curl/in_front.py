# SPDX-License-Identifier: BSD-2-Clause
"""A plugin of pytest for curl's suite: our server takes the place of the httpd that the tests name, which serves behind it, and of nghttpx.

`judge` loads it, with `results.py` for LACQUER_LEFT_OUT and LACQUER_RESULTS. LACQUER_JUDGED is the program; empty: nothing is replaced.
"""
import os
import pathlib
import re
import socket
import sys

import testenv

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed.daemon import Varnishd, free_port

VCL = (pathlib.Path(__file__).resolve().parent / "in_front.vcl").read_text()
# Room for the longest headers of the suite, which httpd limits in its own way.
PARAMS = ("feature=+http2", "http_req_size=128k", "http_req_hdr_len=80k", "http_max_hdr=256", "http_resp_size=512k", "http_resp_hdr_len=300k",
          "tls_handshake_timeout=60", "workspace_client=1m", "workspace_backend=1m", "h3_early_data=on")
LOCAL = ("127.0.0.1", "[::1]")
# Tests' names of ports that are ours; the origin has them under the same names.
PLAIN, TLS = "http", ("https", "https-tcp-only", "nghttpx_https")


def addresses():
    """The loopback addresses that this machine has."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return LOCAL[:1]
    return LOCAL


class Front:
    """Our server with the ports on which the tests ask, which stay the same when it is started again."""

    def __init__(self, httpd):
        self.httpd, self.env, self.server, self.settings = httpd, httpd.env, None, None
        self.ports = {name: free_port() for name in (PLAIN, *TLS)}
        self.tests = None

    def wanted(self):
        """What the tests configure and ours is started with: (certificate of domain1, TLS versions, ciphers, cipher suites, seconds of silence)."""
        versions, suites, silence = "TLSv1.2 TLSv1.3", {"SSL": "", "TLSv1.3": ""}, "30"
        for line in self.httpd.extra("base"):
            word, *rest = line.split()
            if word == "SSLProtocol":
                versions = " ".join(sorted(version.lstrip("+") for version in rest))
            elif word == "SSLCipherSuite" and rest[0] in suites:
                suites[rest[0]] = rest[1]
            elif word == "KeepAliveTimeout":
                silence = rest[0]
        return self.httpd.domain1_certificate(), versions, suites["SSL"], suites["TLSv1.3"], silence

    def tls_conf(self, path):
        certificate, versions, ciphers, suites, _ = self.settings
        lines = [f'tls-protos = {versions}']
        lines += [f'ciphers = "{ciphers}"'] if ciphers else []
        lines += [f'ciphersuites = "{suites}"'] if suites else []
        for at, host in enumerate(addresses()):
            lines += [f'frontend = {{ host = "{host.strip("[]")}" port = "{self.ports[name]}" name = "{name}{at}" }}' for name in TLS]
        for name, more in ((self.env.expired_domain, ""), (self.env.domain2, 'alpn-protos = "http/1.1"'), (certificate, "")):
            made = self.env.get_credentials(name)
            lines.append(f'pem-file = {{ cert = "{made.cert_file}" private-key = "{made.pkey_file}" {more} }}')
        path.write_text("\n".join(lines) + "\n")
        return path

    def start(self):
        self.settings = self.wanted()
        own = pathlib.Path(self.env.gen_dir)
        args = ["--compat", "9", "-A", str(self.tls_conf(own / "in_front.conf"))]
        for at, host in enumerate(addresses()):
            args += ["-a", f"{PLAIN}{at}={host}:{self.ports[PLAIN]}", "-a", f"quic{at}={host}:{self.ports['https']},quic"]
        for param in (*PARAMS, f"timeout_idle={self.settings[-1]}"):
            args += ["-p", param]
        origin = self.httpd.ports
        names = {"http": origin["http"], "https": origin["https"], "ca": self.env.ca.cert_file, "one": self.env.domain1, "two": self.env.domain2,
                 "brotli": self.env.domain1brotli}
        self.server = Varnishd(os.environ["LACQUER_JUDGED"], args, vcl=re.sub("@([a-z]+)@", lambda match: str(names[match[1]]), VCL))

    def stop(self):
        if self.server:
            self.server.close()
            self.server = None

    def follow(self, is_asked):
        """After a reload of the origin: started again if the tests configured something else; if they asked for a reload, another program takes over."""
        if self.settings != self.wanted():
            self.stop()
            self.start()
        elif is_asked:
            self.server.cli.ask("upgrade")


class Httpd(testenv.Httpd):
    """The origin. The tests learn our ports; the reloads that they ask for reach ours, too."""

    front, is_silent = None, False

    def initial_start(self):
        Httpd.front = Front(self)
        if not super().initial_start():
            return False
        self.front.start()
        self.env.update_ports(self.front.ports)
        return True

    def stop(self):
        self.front.stop()
        return super().stop()

    def reload_if_config_changed(self):
        self.is_silent = True
        try:
            return super().reload_if_config_changed()
        finally:
            self.is_silent = False

    def reload(self):
        if not super().reload():
            return False
        self.front.follow(not self.is_silent)
        return True

    def extra(self, domain):
        lines = self._extra_configs.get(domain, [])
        return [lines] if isinstance(lines, str) else lines

    def domain1_certificate(self):
        return self._domain1_cred_name

    def _write_config(self):
        """What the tests say of TLS concerns ours alone. A tunnel of the suite's proxies leads to ours."""
        said = self._extra_configs
        self._extra_configs = said | {"base": [line for line in self.extra("base") if not line.startswith("SSL")]} if "base" in said else said
        try:
            super()._write_config()
        finally:
            self._extra_configs = said
        conf = pathlib.Path(self._conf_file)
        ours = f"{self.front.ports[PLAIN]} {self.front.ports['https']}"
        conf.write_text(conf.read_text().replace("AllowCONNECT ", f"AllowCONNECT {ours} "))


class NghttpxQuic(testenv.NghttpxQuic):
    """Ours, too: it has its port and its certificates from `Front`."""

    def exists(self):
        return True

    def supports_h3(self):
        return True

    def initial_start(self):
        self._port, self._port_is_quic = self.env.h3_port, True
        return True

    def reload_if_config_changed(self):
        return True

    def stop(self, wait_dead=True):
        return True


if os.environ["LACQUER_JUDGED"]:
    testenv.Httpd, testenv.NghttpxQuic = Httpd, NghttpxQuic
    testenv.Env.have_h3_server = staticmethod(lambda: True)


def pytest_runtest_setup(item):
    """Each file of tests gets a fresh server, with an empty cache, which has learned nothing of its origin."""
    front, name = Httpd.front, item.path.name
    if front and front.server and front.tests != name:
        front.stop()
        front.start()
        front.tests = name
