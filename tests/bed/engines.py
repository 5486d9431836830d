# SPDX-License-Identifier: BSD-2-Clause
"""The servers that keep a fleet's log: real ones of NATS and Redis, in directories of their own, which may be killed, stopped, and put back
to what they were."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from bed.certificates import Authority
from bed.daemon import die_with_parent, free_port, of_threads
from bed.report import until

LIMIT = 30
PASSWORD = "se:cr@t"


class Engine:
    """One server. `secure`: with TLS and a password. Its port stays the same over restarts."""

    def __init__(self, secure=False, rights=None):
        """`rights`: the name of a log. The server then has one user, with no more rights than docs/fleet.md lists for it."""
        self.rights = rights
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="lacquer-fleet."))
        os.chmod(self.dir, 0o755)
        self.data, self.port, self.secure, self.proc = self.dir / "data", free_port(), secure, None
        if secure:
            authority = Authority(self.dir / "ca")
            leaf = authority.leaf("localhost", "127.0.0.1")
            self.ca = {"ca": authority.cert, "cert": leaf.cert, "key": leaf.key}
            (self.dir / "password").write_text(PASSWORD + "\n")
        self.start()

    def start(self):
        self.data.mkdir(exist_ok=True)
        with open(self.dir / "log", "ab") as log:
            self.proc = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir, preexec_fn=die_with_parent)
        if not until(LIMIT, self.is_up):
            raise SystemExit(f"{self.kind} did not start: {(self.dir / 'log').read_text()[-2000:]}")

    def is_up(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def end(self, number=signal.SIGKILL):
        self.proc.send_signal(number)
        self.proc.wait()

    def stop(self):
        """It stands still, all of its threads."""
        self.proc.send_signal(signal.SIGSTOP)
        until(LIMIT, lambda: all(stat.rsplit(")", 1)[1].split()[0] == "T" for stat in of_threads(self.proc.pid, "stat")))

    def go_on(self):
        self.proc.send_signal(signal.SIGCONT)

    def save(self, to):
        """What it has, as it is while nothing is written."""
        shutil.copytree(self.data, self.dir / to)

    def put_back(self, saved):
        """As an operator does who restores a backup. It isn't running."""
        shutil.rmtree(self.data)
        if saved:
            shutil.copytree(self.dir / saved, self.data)

    @property
    def settings(self):
        """For --fleet."""
        if self.secure:
            return f"{self.schemes[1]}://u@localhost:{self.port},password-file={self.dir / 'password'},ca={self.ca['ca']}"
        if self.rights:
            (self.dir / "password").write_text(PASSWORD + "\n")
            return f"{self.schemes[0]}://u@127.0.0.1:{self.port},password-file={self.dir / 'password'}"
        return f"{self.schemes[0]}://127.0.0.1:{self.port}"

    def close(self):
        if self.proc.poll() is None:
            self.go_on()
            self.end()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Nats(Engine):
    kind, schemes, room = "NATS", ("nats", "tls"), ""

    def command(self):
        # Entries may be longer than any of ours.
        text = f'listen: "127.0.0.1:{self.port}"\nmax_payload: 16MB\njetstream {{ store_dir: "{self.data}"{self.room} }}\n'
        if self.secure:
            text += f'tls {{ cert_file: "{self.ca["cert"]}", key_file: "{self.ca["key"]}" }}\n'
            text += f'authorization {{ user: u, password: "{PASSWORD}" }}\n'
        if self.rights:
            name = self.rights
            streams = [f"LACQUER_{name}", f"LACQUER-NODES_{name}", f"LACQUER-BOARD_{name}"]
            api = [f"$JS.API.{word}.{stream}" for word in ("STREAM.INFO", "STREAM.CREATE", "CONSUMER.CREATE") for stream in streams]
            publish = [f"lacquer.{name}", f"lacquer.{name}.>", *api, f"$JS.API.DIRECT.GET.LACQUER-BOARD_{name}", "$JS.FC.>"]
            rights = json.dumps({"publish": publish, "subscribe": ["_INBOX.>"]})
            text += f'authorization {{ users: [ {{ user: u, password: "{PASSWORD}", permissions: {rights} }} ] }}\n'
        (self.dir / "conf").write_text(text)
        return ["nats-server", "-c", str(self.dir / "conf")]

    def append(self, name, payload):
        """What somebody else writes to the log."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT) as s:
            f = s.makefile("rb")
            f.readline()
            s.sendall(b'CONNECT {"verbose":false}\r\nPUB lacquer.%s %d\r\n%s\r\nPING\r\n' % (name.encode(), len(payload), payload))
            while f.readline().strip() != b"PONG":
                pass

    def post(self, name, node, payload):
        """A report that somebody else writes on the board."""
        self.append(f"{name}.node.{node}", payload)

    def make_stream(self, name, subject):
        config = b'{"name":"LACQUER_%s","subjects":["%s"],"retention":"limits","discard":"old","storage":"file"}' % (name.encode(), subject.encode())
        with socket.create_connection(("127.0.0.1", self.port), LIMIT) as s:
            f = s.makefile("rb")
            f.readline()
            s.sendall(b'CONNECT {"verbose":false}\r\nSUB in 1\r\nPUB $JS.API.STREAM.CREATE.LACQUER_%s in %d\r\n%s\r\n' % (name.encode(), len(config), config))
            while not f.readline().startswith(b"MSG"):
                pass
            f.readline()

    def squat(self, name):
        """Makes a stream of the log's name that isn't one."""
        self.make_stream(name, "orders")

    def begin_log(self, name):
        """Makes the log as an operator may: it takes entries of any length."""
        self.make_stream(name, f"lacquer.{name}")

    def again(self, room):
        self.end(signal.SIGTERM)
        self.room = room
        self.start()

    def fill(self):
        """There is less room than it has in use."""
        self.again(", max_file: 100")

    def make_room(self):
        self.again("")


class Cluster:
    """Three servers of NATS with one log on all of them. `users`: each server is another user's, by whom a packet filter tells them apart."""

    kind = "NATS x 3"

    def __init__(self, _secure=False, users=None):
        self.dir, self.users = pathlib.Path(tempfile.mkdtemp(prefix="lacquer-fleet.")), users
        os.chmod(self.dir, 0o755)
        self.ports, self.routes = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
        self.procs = [None] * 3
        for n in range(3):
            (self.dir / f"conf{n}").write_text(
                f'server_name: s{n}\nlisten: "127.0.0.1:{self.ports[n]}"\njetstream {{ store_dir: "{self.data(n)}" }}\n'
                f'cluster {{ name: c, listen: "127.0.0.1:{self.routes[n]}", routes: [{", ".join(f"nats://127.0.0.1:{r}" for r in self.routes)}] }}\n')
            self.start(n)

    def data(self, n):
        return self.dir / f"data{n}"

    def start(self, n):
        self.data(n).mkdir(exist_ok=True)
        as_user = {"user": self.users[n], "group": self.users[n], "extra_groups": []} if self.users else {}
        if self.users:
            subprocess.run(["chown", "-R", f"{self.users[n]}:{self.users[n]}", self.data(n)], check=True)
        with open(self.dir / f"log{n}", "ab") as log:
            self.procs[n] = subprocess.Popen(["nats-server", "-c", str(self.dir / f"conf{n}")], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             preexec_fn=die_with_parent, **as_user)

    def end(self, n, number=signal.SIGKILL):
        self.procs[n].send_signal(number)
        self.procs[n].wait()

    @property
    def settings(self):
        return ",".join(f"nats://127.0.0.1:{p}" for p in self.ports) + ",replicas=3"

    def follows_another(self, name, former):
        """True if the servers other than `former` have elected another one to lead the log's stream."""
        asked = self.ports[(former + 1) % 3]
        try:
            leader = self.ask(asked, f"$JS.API.STREAM.INFO.LACQUER_{name}", limit=1).get("cluster", {}).get("leader")
        except OSError:
            return False
        return leader not in (None, f"s{former}")

    def leader(self, name, stream="LACQUER"):
        """Which of them leads the log's stream, or another one of the log; None while none does."""
        for port, proc in zip(self.ports, self.procs):
            if proc.poll() is not None:
                continue
            leader = self.ask(port, f"$JS.API.STREAM.INFO.{stream}_{name}").get("cluster", {}).get("leader")
            return int(leader[1:]) if leader else None

    @staticmethod
    def ask(port, subject, payload=b"", limit=LIMIT):
        """The reply of a server to one message; raises TimeoutError if none comes."""
        with socket.create_connection(("127.0.0.1", port), limit) as s:
            f = s.makefile("rb")
            f.readline()
            s.sendall(b'CONNECT {"verbose":false}\r\nSUB in 1\r\nPUB %s in %d\r\n%s\r\n' % (subject.encode(), len(payload), payload))
            line = f.readline()
            while not line.startswith(b"MSG"):
                line = f.readline()
            return json.loads(f.read(int(line.split()[-1])))

    def condition(self, name):
        """The log's stream by each server's own word, whether it takes a message, and the newest complaints in the servers' logs."""
        said = []
        for n, port in enumerate(self.ports):
            for subject, payload in ((f"$JS.API.STREAM.INFO.LACQUER_{name}", b""), (f"lacquer.{name}", b"is there room?")):
                try:
                    reply = self.ask(port, subject, payload, 3)
                    reply = {key: reply[key] for key in ("error", "seq", "cluster", "state") if key in reply}
                except OSError as error:
                    reply = repr(error)
                said.append(f"s{n} {subject}: {reply}")
            lines = (self.dir / f"log{n}").read_text().splitlines()
            said += [f"s{n} log: {line}" for line in lines if "[WRN]" in line or "[ERR]" in line][-8:]
        return "\n".join(said)

    def close(self):
        for proc in self.procs:
            proc.kill()
            proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Redis(Engine):
    kind, schemes = "Redis", ("redis", "rediss")
    more = ()  # words behind the command

    def command(self):
        words = ["redis-server", "--dir", str(self.data), "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--bind", "127.0.0.1"]
        if self.secure:
            return [*words, "--port", "0", "--tls-port", str(self.port), "--tls-cert-file", self.ca["cert"], "--tls-key-file", self.ca["key"],
                    "--tls-ca-cert-file", self.ca["ca"], "--tls-auth-clients", "no", "--user", "u", "on", f">{PASSWORD}", "~*", "+@all", "--user", "default", "off"]
        if self.rights:
            commands = "xadd xread xinfo wait role get set getrange pttl sadd srem srandmember watch unwatch multi exec".split()
            words += ["--user", "u", "on", f">{PASSWORD}", f"~lacquer:{{{self.rights}}}*", *(f"+{c}" for c in commands), "--user", "default", "off"]
        return [*words, "--port", str(self.port), *self.more]

    def is_up(self):
        """It has read its file."""
        return super().is_up() and (self.secure or self.rights or self.ask("PING") == b"+PONG\r\n")

    def ask(self, *words):
        line = b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in (w if isinstance(w, bytes) else str(w).encode() for w in words))
        with socket.create_connection(("127.0.0.1", self.port), LIMIT) as s:
            s.sendall(b"*%d\r\n%s" % (len(words), line))
            return s.makefile("rb").readline()

    def info(self):
        """All that INFO says of replication."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT) as s:
            s.sendall(b"INFO replication\r\n")
            f = s.makefile("rb")
            return f.read(int(f.readline()[1:]))

    def append(self, name, payload):
        assert self.ask("XADD", f"lacquer:{{{name}}}", "0-*", "e", payload).startswith(b"$")

    def post(self, name, node, payload):
        key = f"lacquer:{{{name}}}"
        assert self.ask("SET", f"{key}:node:{node}", payload, "PX", 600_000) == b"+OK\r\n"
        self.ask("SADD", f"{key}:nodes", node)

    def squat(self, name):
        assert self.ask("RPUSH", f"lacquer:{{{name}}}", "order").startswith(b":1")

    def begin_log(self, _name):
        """Whoever comes first does."""

    def fill(self):
        """There is less room than it has in use."""
        assert self.ask("CONFIG", "SET", "maxmemory", 1) == b"+OK\r\n"

    def make_room(self):
        assert self.ask("CONFIG", "SET", "maxmemory", 0) == b"+OK\r\n"


class RedisPair:
    """A Redis and its replica, which must have an entry before it is acknowledged."""

    kind = "Redis x 2"

    def __init__(self, _secure=False):
        self.first = Redis()
        master = str(self.first.port)

        class Second(Redis):
            more = ("--replicaof", "127.0.0.1", master)

        self.second = Second()
        if not until(LIMIT, self.is_linked):
            raise SystemExit("the replica doesn't follow")

    def is_linked(self):
        """The replica has all and takes what comes."""
        return b"master_link_status:up" in self.second.info()

    @property
    def settings(self):
        return f"{self.first.settings},redis://127.0.0.1:{self.second.port},replicas=1"

    def close(self):
        self.second.close()
        self.first.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
