# SPDX-License-Identifier: BSD-2-Clause
"""The origins of the garden. Each is started on a free port and writes the requests that it saw to a file, a line of JSON each: `vxid` (all values of
X-Vxid), `method`, `target`, `host`, `length`. Proxies have the recorder behind them."""
import contextlib
import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import sys

from bed.daemon import die_with_parent, free_port
from bed.process import Process
from bed.report import until

HERE = pathlib.Path(__file__).resolve().parent
APPS = HERE / "apps"
START_LIMIT = 120
PATH = os.environ["PATH"] + ":/usr/sbin:/usr/local/go/bin"


def program(name):
    return shutil.which(name, path=PATH)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        return True
    except OSError:
        return False


class Running(Process):
    """One program that listens on `port`, with a directory of its own."""

    def __init__(self, words, port, where, **env):
        self.dir = where
        with open(where / "out", "ab") as out:
            self.proc = subprocess.Popen(list(map(str, words)), cwd=where, env={**os.environ, "PATH": PATH, **env}, stdin=subprocess.DEVNULL,
                                         stdout=out, stderr=out, preexec_fn=die_with_parent)
        if not until(START_LIMIT, lambda: listens(port) or self.proc.poll() is not None) or self.proc.poll() is not None:
            raise SystemExit(f"{words[0]} did not start: {(where / 'out').read_text(errors='replace')[-2000:]}")


class Origin:
    """A started origin: its name, its port, the file of what it saw, and what it doesn't keep as it came: `target`, which it
    normalises, the `case` of methods, or `underscores` in names, which it takes for hyphens."""

    def __init__(self, name, port, seen, blind, processes):
        self.name, self.port, self.seen, self.blind, self.processes = name, port, seen, blind, processes

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.close()


class App:
    """A server with an application of ours. `words` has $PORT and $FILE replaced; `needs` are programs, Python modules (py:NAME), or files."""

    def __init__(self, words, needs=(), blind=(), env=None):
        self.words, self.needs, self.blind, self.env = words, needs, blind, env or {}

    def missing(self):
        for need in self.needs:
            kind, _, name = need.rpartition(":")
            if kind == "py" and not importlib.util.find_spec(name):
                return f"the Python module {name}"
            if kind == "" and not (pathlib.Path(name).exists() if name.startswith("/") else program(name)):
                return name
        return ""

    def start(self, name, d):
        where, seen, port = d / name, d / f"{name}.seen", free_port()
        where.mkdir(mode=0o755)
        fill = lambda word: word.replace("$PORT", str(port)).replace("$FILE", str(seen)).replace("$DIR", str(where))
        started = Running([fill(word) for word in self.words], port, where, PORT=str(port), FILE=str(seen), **{k: fill(v) for k, v in self.env.items()})
        return Origin(name, port, seen, self.blind, [started])


class Proxy:
    """A proxy before the recorder. `text` is its configuration, with $PORT, $BEHIND and $DIR replaced."""

    def __init__(self, words, text, needs, blind=()):
        self.words, self.text, self.needs, self.blind = words, text, needs, blind

    def missing(self):
        return next((need for need in self.needs if not program(need)), "")

    def start(self, name, d):
        where, seen, port, behind = d / name, d / f"{name}.seen", free_port(), free_port()
        for made in (where, d / f"{name}-recorder"):
            made.mkdir()
            made.chmod(0o777)
        fill = lambda word: word.replace("$PORT", str(port)).replace("$BEHIND", str(behind)).replace("$DIR", str(where))
        (where / "conf").write_text(fill(self.text))
        recorder = Running([sys.executable, HERE / "recorder.py", behind, seen], behind, d / f"{name}-recorder")
        with contextlib.ExitStack() as undo:
            undo.callback(recorder.close)
            started = Running([fill(word) for word in self.words], port, where)
            undo.pop_all()
        return Origin(name, port, seen, self.blind, [started, recorder])


def python(name, *modules, blind=()):
    return App([sys.executable, str(APPS / "servers.py"), name, "$PORT", "$FILE"], [f"py:{module}" for module in modules], blind)


NGINX = """daemon off; worker_processes 1; pid $DIR/pid; error_log $DIR/error.log;
events { worker_connections 1024; }
http { access_log off; client_body_temp_path $DIR/b; proxy_temp_path $DIR/p; fastcgi_temp_path $DIR/f; uwsgi_temp_path $DIR/u; scgi_temp_path $DIR/s;
  upstream behind { server 127.0.0.1:$BEHIND; keepalive 8; } large_client_header_buffers 4 32k;
  server { listen 127.0.0.1:$PORT; client_max_body_size 0;
    location / { proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header Connection ""; } } }
"""
APACHE = """ServerRoot /usr/lib/apache2
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule proxy_module modules/mod_proxy.so
LoadModule proxy_http_module modules/mod_proxy_http.so
ServerName garden
User nobody
Group nogroup
PidFile $DIR/pid
ErrorLog $DIR/error.log
Listen 127.0.0.1:$PORT
AllowEncodedSlashes NoDecode
ProxyPreserveHost on
ProxyPass / http://127.0.0.1:$BEHIND/ nocanon
"""
LIGHTTPD = """server.port = $PORT
server.bind = "127.0.0.1"
server.document-root = "$DIR"
server.modules = ("mod_proxy")
server.feature-flags = ("server.h2proto" => "disable")
proxy.server = ("" => (("host" => "127.0.0.1", "port" => $BEHIND)))
"""
HAPROXY = """defaults
  mode http
  timeout client 20s
  timeout server 20s
  timeout connect 5s
frontend f
  bind 127.0.0.1:$PORT
  default_backend b
backend b
  http-reuse always
  server s 127.0.0.1:$BEHIND
"""
VARNISH = """vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "$BEHIND"; }
sub vcl_recv { return (pass); }
sub vcl_backend_fetch { return (fetch); }
"""
SQUID = """http_port 127.0.0.1:$PORT accel vhost allow-direct
cache_peer 127.0.0.1 parent $BEHIND 0 no-query no-digest originserver name=behind
http_access allow all
cache deny all
never_direct allow all
pid_filename $DIR/pid
cache_log $DIR/cache.log
access_log none
coredump_dir $DIR
shutdown_lifetime 0 seconds
request_header_max_size 64 KB
"""
H2O = """hosts:
  default:
    listen: {port: $PORT, host: 127.0.0.1}
    paths:
      /: {proxy.reverse.url: "http://127.0.0.1:$BEHIND/", proxy.preserve-host: ON}
pid-file: $DIR/pid
error-log: $DIR/error.log
"""
CADDY = """{
  admin off
  auto_https off
  storage file_system $DIR
}
http://:$PORT {
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:$BEHIND
}
"""
# A script that writes the files of an instance, and starts it.
TRAFFIC_SERVER = """mkdir etc run log cache && chmod 777 run log cache
echo '$DIR/cache 64M' > etc/storage.config
echo 'ip_allow: [{apply: in, ip_addrs: 127.0.0.1, action: allow, methods: ALL}]' > etc/ip_allow.yaml
echo 'map / http://127.0.0.1:$BEHIND/' > etc/remap.config
cat > runroot.yaml << END
{prefix: $DIR, exec_prefix: /usr, bindir: /usr/bin, sbindir: /usr/bin, sysconfdir: $DIR/etc, datadir: $DIR/cache, libexecdir: /usr/lib/trafficserver/modules,
 libdir: /usr/lib/trafficserver, includedir: /usr/include, localstatedir: $DIR, runtimedir: $DIR/run, logdir: $DIR/log, cachedir: $DIR/cache}
END
cat > etc/records.config << END
CONFIG proxy.config.http.server_ports STRING $PORT:ip-in=127.0.0.1
CONFIG proxy.config.url_remap.pristine_host_hdr INT 1
CONFIG proxy.config.http.cache.http INT 0
CONFIG proxy.config.admin.user_id STRING nobody
CONFIG proxy.config.log.logging_enabled INT 0
END
exec traffic_server --run-root=$DIR/runroot.yaml
"""

JETTY = ":".join(f"/usr/share/java/{name}.jar" for name in ("jetty9-server", "jetty9-http", "jetty9-io", "jetty9-util", "servlet-api"))
TOMCAT = "/usr/share/tomcat10/bin/tomcat-juli.jar:/usr/share/tomcat10/lib/*"

KNOWN = {
    "recorder": App([sys.executable, str(HERE / "recorder.py"), "$PORT", "$FILE"]),
    "nginx": Proxy(["nginx", "-p", "$DIR", "-c", "$DIR/conf", "-e", "$DIR/error.log"], NGINX, ["nginx"]),
    "apache2": Proxy(["apache2", "-f", "$DIR/conf", "-D", "FOREGROUND"], APACHE, ["apache2"], ("target",)),
    "lighttpd": Proxy(["lighttpd", "-D", "-f", "$DIR/conf"], LIGHTTPD, ["lighttpd"], ("target",)),
    "haproxy": Proxy(["haproxy", "-db", "-f", "$DIR/conf"], HAPROXY, ["haproxy"]),
    "varnish": Proxy(["/usr/sbin/varnishd", "-F", "-n", "$DIR/n", "-a", "127.0.0.1:$PORT", "-f", "$DIR/conf", "-s", "malloc,20m", "-p", "http_max_hdr=128"],
                     VARNISH, ["varnishd"]),
    "squid": Proxy(["squid", "-N", "-f", "$DIR/conf"], SQUID, ["squid"], ("case",)),
    "h2o": Proxy(["h2o", "-c", "$DIR/conf"], H2O, ["h2o"], ("target",)),
    "trafficserver": Proxy(["sh", "$DIR/conf"], TRAFFIC_SERVER, ["traffic_server"], ("target",)),
    "caddy": Proxy(["caddy", "run", "--config", "$DIR/conf", "--adapter", "caddyfile"], CADDY, ["caddy"]),
    "gunicorn": python("gunicorn", "gunicorn"),
    "waitress": python("waitress", "waitress"),
    "cheroot": python("cheroot", "cheroot"),
    "werkzeug": python("werkzeug", "werkzeug", blind=("target",)),
    "gevent": python("gevent", "gevent"),
    "uvicorn-h11": python("uvicorn-h11", "uvicorn", "h11"),
    "uvicorn-httptools": python("uvicorn-httptools", "uvicorn", "httptools"),
    "hypercorn": python("hypercorn", "hypercorn", blind=("case",)),
    "daphne": python("daphne", "daphne"),
    "granian": python("granian", "granian"),
    "aiohttp": python("aiohttp", "aiohttp"),
    "tornado": python("tornado", "tornado"),
    "twisted": python("twisted", "twisted"),
    "http.server": python("http.server", blind=("target",)),
    "node": App(["node", str(APPS / "app.js")], ["node"]),
    "go": App(["sh", "-c", f"go build -o $DIR/app {APPS / 'app.go'} && exec $DIR/app"], ["go"], env={"GO111MODULE": "off"}),
    "webrick": App(["ruby", str(APPS / "webrick.rb")], ["ruby"], ("target",)),
    "puma": App(["puma", "-q", "-t", "16:16", "-b", "tcp://127.0.0.1:$PORT", str(APPS / "app.ru")], ["puma"]),
    "unicorn": App(["unicorn", "-l", "127.0.0.1:$PORT", str(APPS / "app.ru")], ["unicorn"], ("underscores",)),
    "php": App(["php", "-S", "127.0.0.1:$PORT", str(APPS / "app.php")], ["php"]),
    "starman": App(["starman", "--listen", "127.0.0.1:$PORT", "--workers", "2", str(APPS / "app.psgi")], ["starman"], ("underscores",)),
    "java": App(["java", str(APPS / "Jdk.java")], ["javac"]),
    "jetty": App(["java", "-cp", JETTY, str(APPS / "Jetty.java")], ["javac", "/usr/share/java/jetty9-server.jar"], ("target",)),
    "tomcat": App(["java", "-cp", TOMCAT, str(APPS / "TomcatApp.java")], ["javac", "/usr/share/tomcat10/lib/catalina.jar"]),
}
