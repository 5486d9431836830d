# SPDX-License-Identifier: BSD-2-Clause
"""A plugin of pytest for httpd's suite: our server listens on the ports that the tests ask, httpd serves behind it on others.

`judge` loads it, with `results.py` for LACQUER_LEFT_OUT and LACQUER_RESULTS. LACQUER_JUDGED is the program; empty: nothing is replaced.
"""
import os
import pathlib
import re
import sys
from datetime import timedelta

from pyhttpd.env import HttpdTestEnv
from pyhttpd.nghttp import Nghttp

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from bed.daemon import Varnishd

BACKEND = """backend %s { .host = "127.0.0.1"; .port = "%d"; .host_header = "%s"; .proto = "%s"; .ssl = 1; .ssl_verify_host = 1; .ssl_ca_file = "%s"; }\n"""
PARAMS = ("feature=+http2", "http_req_hdr_len=16k", "http_max_hdr=256")
# Between our ports and the origin's. httpd itself may not be root.
BEHIND, USER = 10000, "www-data"
# Warnings about the build of Debian's httpd, which the suite takes for failures.
HARMLESS = ["AH01882"]
NAME = re.compile(r"\W")


def certificates(env):
    """A file for -A. Without HTTP/2 at the origin there is none here."""
    pems = []
    for spec in env._cert_specs:
        held = env.get_credentials_for_name(spec.domains[0])[0]
        alone = 'alpn-protos = "http/1.1"' if spec.domains[0].startswith("noh2.") or not env.speaks_http2 else ""
        pems.insert(0, f'pem-file = {{ cert = "{held.cert_file}" private-key = "{held.pkey_file}" {alone} }}')
    return "\n".join([f'frontend = {{ host = "127.0.0.1" port = "{env.https_port}" name = "tls" }}', *pems]) + "\n"


def vcl(env):
    """in_front.vcl with two backends for each name, of which one speaks HTTP/2."""
    made, chosen = [], []
    for name in [name for spec in env._cert_specs for name in spec.domains]:
        for proto, equal in (("http/1.1", "!="), ("h2", "==")):
            backend = NAME.sub("_", f"{name}_{proto}")
            made.append(BACKEND % (backend, env.https_port + BEHIND, name, proto, env.ca.cert_file))
            chosen.append(f'    if (req.http.Host ~ "^{re.escape(name)}(:|$)" && req.proto {equal} "HTTP/2.0") {{ set req.backend_hint = {backend}; }}\n')
    text = (HERE / "in_front.vcl").read_text().replace("@http@", str(env.http_port + BEHIND))
    return text.replace("# BACKENDS\n", "".join(made)).replace("    # CHOICE\n", "".join(chosen))


class Front:
    """Our server before one configuration of httpd."""

    server = None

    @classmethod
    def start(cls, env):
        tls = pathlib.Path(env.gen_dir) / "in_front.conf"
        tls.write_text(certificates(env))
        args = ["--compat", "9", "-a", f"plain=127.0.0.1:{env.http_port}", "-A", str(tls)]
        for param in PARAMS:
            args += ["-p", param]
        cls.server = Varnishd(os.environ["LACQUER_JUDGED"], args, vcl=vcl(env))

    @classmethod
    def stop(cls):
        if cls.server:
            cls.server.close()
            cls.server = None


class Behind:
    """What is replaced in the suite's environment."""

    last = None
    restart, stop, ctl, live, dead = (HttpdTestEnv.apache_restart, HttpdTestEnv.apache_stop, HttpdTestEnv._run_apachectl,
                                      HttpdTestEnv.is_live, HttpdTestEnv.is_dead)

    def run_apachectl(self, cmd):
        moved = [self.http_port, self.https_port] if os.environ["LACQUER_JUDGED"] else []
        for file in pathlib.Path(self.server_conf_dir).glob("*.conf"):
            text = file.read_text()
            for port in moved:
                text = re.sub(rf"^(\s*(?:Listen |<VirtualHost \*:)){port}\b", rf"\g<1>{port + BEHIND}", text, flags=re.M)
            if file.name in ("httpd.conf", "stop.conf") and "\nUser " not in text:
                text += f"\nDefaultRuntimeDir logs\nPidFile httpd.pid\nUser {USER}\nGroup {USER}\n"
            file.write_text(text)
        Behind.last = self
        self.httpd_error_log.add_ignored_lognos(HARMLESS)
        return Behind.ctl(self, cmd)

    def base(self, url):
        return url.replace(f":{self.http_port}", f":{self.http_port + BEHIND}") if url and os.environ["LACQUER_JUDGED"] else url

    def is_live(self, url=None, timeout=None):
        return Behind.live(self, Behind.base(self, url or self._http_base), timeout or timedelta(seconds=10))

    def is_dead(self, url=None, timeout=None):
        return Behind.dead(self, Behind.base(self, url or self._http_base), timeout)

    def apache_restart(self):
        result = Behind.restart(self)
        if result == 0 and os.environ["LACQUER_JUDGED"]:
            Front.start(self)
        return result

    def apache_stop(self):
        Front.stop()
        return Behind.stop(self)


HttpdTestEnv.speaks_http2 = property(lambda self: any(line.startswith("Protocols h2 ") for line in self._httpd_base_conf))
HttpdTestEnv._run_apachectl = Behind.run_apachectl
HttpdTestEnv.is_live, HttpdTestEnv.is_dead = Behind.is_live, Behind.is_dead
HttpdTestEnv.apache_restart, HttpdTestEnv.apache_stop = Behind.apache_restart, Behind.apache_stop


NGHTTP_ARGS = Nghttp.complete_args


def complete_args(self, url, timeout, options):
    """The suite lets nghttp name the server in Host, and an address in :authority, which ours refuses (RFC 9113 8.3.1)."""
    if options and "-u" in options:
        return NGHTTP_ARGS(self, url, timeout, options)
    return [word.replace("--header=host: ", "--header=:authority: ") for word in NGHTTP_ARGS(self, url, timeout, options)]


Nghttp.complete_args = complete_args


def pytest_sessionfinish():
    if Behind.last:
        Behind.last.apache_stop()
