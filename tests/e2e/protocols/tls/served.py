# SPDX-License-Identifier: BSD-2-Clause
"""What is asked over TLS: ours; and hitch with a varnishd behind it, as many people have it."""
import contextlib
import pathlib
import shutil
import signal
import socket
import subprocess

from bed.certificates import Authority
from bed.daemon import Varnishd, die_with_parent, tree, workdir
from bed.report import until

START_LIMIT = 60  # seconds


class Certificates:
    """Those of a bed, made once: the default one for bed.test, others by name, one by a wildcard, one of a client."""

    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.root = Authority(pathlib.Path(directory) / "root", "Test Root")
        self.middle = Authority(pathlib.Path(directory) / "middle", "Test Middle", issuer=self.root)
        self.default = self.middle.leaf("bed.test", "www.bed.test")
        self.rsa = self.middle.leaf("rsa.test", kind="rsa")
        self.p384 = self.middle.leaf("p384.test", kind="p384")
        self.wild = self.middle.leaf("*.wild.test")
        self.client = self.middle.leaf(use="client", subject="alice")
        self.served = (self.rsa, self.p384, self.wild, self.default)  # the last is the default, as in hitch's files


def configuration(certificates, host="127.0.0.1", port="0", more=""):
    """A file in hitch's language, which ours takes as -A, too."""
    return f'frontend = "[{host}]:{port}"\n' + "".join(f'pem-file = "{leaf.pem}"\n' for leaf in certificates) + more


class Ours(Varnishd):
    """One listener in clear, `address`, and one over TLS, `sealed`."""

    def __init__(self, program, certificates, more="", args=(), **kw):
        self.files = workdir()
        self.conf = self.files / "tls.conf"
        self.conf.write_text(configuration(certificates, more=more))
        super().__init__(program, ["-a", "clear=127.0.0.1:0", "-A", str(self.conf), *args], **kw)
        self.address = self.addresses["clear"]
        self.sealed = next((address for name, address in self.addresses.items() if name != "clear"), None)

    def close(self):
        super().close()
        shutil.rmtree(self.files, ignore_errors=True)


class Hitch:
    """hitch with TLS at `sealed`, and `varnishd` behind it, which has a listener in clear at `address`, too."""

    def __init__(self, varnishd, certificates, more="", args=(), **kw):
        self.dir = workdir()
        inner = self.dir / "inner"
        self.varnishd = Varnishd(varnishd, ["-a", "clear=127.0.0.1:0", "-a", f"inner={inner},PROXY,mode=0666", *args], **kw)
        self.address, self.n = self.varnishd.addresses["clear"], self.varnishd.n
        # hitch tells no port that it was given, so one is drawn; another try when somebody was faster.
        for _ in range(5):
            with socket.create_server(("127.0.0.1", 0)) as probe:
                self.sealed = probe.getsockname()[:2]
            conf = self.dir / "hitch.conf"
            conf.write_text(configuration(certificates, port=self.sealed[1], more=f'backend = "{inner}"\nwrite-proxy-v2 = on\nworkers = 1\nuser = "nobody"\n'
                                          f'tls-protos = TLSv1.2 TLSv1.3\nalpn-protos = "http/1.1"\ndaemon = off\nsyslog = off\nquiet = on\n{more}'))
            self.proc = subprocess.Popen(["hitch", f"--config={conf}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=open(self.dir / "out", "wb"), preexec_fn=die_with_parent)
            if until(START_LIMIT, lambda: self.proc.poll() is not None or is_open(self.sealed)) and self.proc.poll() is None:
                return
        said = (self.dir / "out").read_text(errors="replace")
        self.close()
        raise SystemExit(f"hitch did not start: {said}")

    @property
    def cli(self):
        return self.varnishd.cli

    def pids(self):
        return [*self.varnishd.pids(), *tree(self.proc.pid)]

    def worker(self):
        return self.varnishd.worker()

    def close(self):
        if hasattr(self, "proc"):
            self.proc.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.proc.wait(10)
        self.varnishd.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def is_open(address):
    with contextlib.suppress(OSError), socket.create_connection(address, 1):
        return True
    return False


def log_lines(served, form, count, more=(), program="varnishncsa"):
    """What varnishncsa says of the last `count` requests of clients."""
    argv = [program, "-n", str(served.n), "-d", "-F", form, *more]

    def read():
        lines = subprocess.run(argv, capture_output=True, text=True, timeout=20).stdout.splitlines()
        return lines[-count:] if len(lines) >= count else None
    return until(60, read, 0.1) or []


def log_text(served, *words):
    """What varnishlog holds so far."""
    return subprocess.run(["varnishlog", "-n", str(served.n), "-d", "-g", "raw", *words], capture_output=True, text=True, timeout=20).stdout
