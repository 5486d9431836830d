#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""WordPress behind the cache, its sidebar an ESI fragment: installed, logged in to, published, commented. Every page must be
what the origin says it is; a change shows at once though pages live for 12 hours; one sidebar serves all pages until purged.

Debian's wordpress, php-fpm, mariadb and nginx, in a directory of their own, gone at the end. Only in the long form (--full):
the packages are large, and are installed when they are missing and we are root.
"""
import glob
import gzip
import html
import json
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed.daemon import Varnishd, die_with_parent, workdir
from bed.http import get
from bed.origin import Nginx
from bed.report import ROOT, Report, options, until

SITE = pathlib.Path(__file__).resolve().parent / "site"
SOURCE = pathlib.Path("/usr/share/wordpress")
LIMIT = 60  # seconds for one page: PHP without a cache of its own, on a shared machine
PASSWORD = "correct horse"
SIDEBAR = re.compile(r'data-gen="([0-9.]+)"')
INCLUDE = re.compile(r'<esi:include src="([^"]+)"[^>]*/>')
REMOVE = re.compile(r"<esi:remove>.*?</esi:remove>", re.S)
GUEST, SOLD = "Hello guest", [("Accept-Encoding", "gzip")]


class Wordpress:
    """Database, PHP and web server of one site in one directory."""

    def __init__(self):
        self.dir, self.procs = workdir(), []
        self.is_root = os.geteuid() == 0
        try:
            shutil.copytree(SOURCE, self.dir / "wordpress", symlinks=True, ignore=shutil.ignore_patterns(".htaccess"))
            (self.dir / "plugins").mkdir()
            shutil.copy(SITE / "bed.php", self.dir / "plugins")
            self.database()
            self.nginx = self.web()
        except BaseException:
            self.close()
            raise

    def start(self, argv, **kw):
        out = open(self.dir / (pathlib.Path(argv[0]).name + ".log"), "wb")
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, preexec_fn=die_with_parent, **kw)
        out.close()
        self.procs.append(p)
        return p

    def database(self):
        user = "mysql" if self.is_root else pwd.getpwuid(os.geteuid()).pw_name
        data, sock = self.dir / "db", self.dir / "my.sock"
        data.mkdir()
        if self.is_root:
            shutil.chown(data, user)
            os.chmod(self.dir, 0o777)
        subprocess.run(["mariadb-install-db", "--no-defaults", f"--user={user}", f"--datadir={data}", "--skip-test-db",
                        "--auth-root-authentication-method=normal"], check=True, capture_output=True)
        self.start(["/usr/sbin/mariadbd", "--no-defaults", f"--user={user}", f"--datadir={data}", f"--socket={sock}",
                    f"--pid-file={self.dir}/my.pid", "--skip-networking", "--innodb-buffer-pool-size=64M"])
        sql = ["mariadb", "--no-defaults", "-S", str(sock), "-u", "root", "-e"]
        if not until(LIMIT, lambda: subprocess.run([*sql, "select 1"], capture_output=True).returncode == 0):
            raise SystemExit("mariadbd did not start: " + (self.dir / "mariadbd.log").read_text()[-2000:])
        subprocess.run([*sql, "create database wordpress; create user wp@localhost identified by 'wp'; "
                              "grant all on wordpress.* to wp@localhost"], check=True)

    def web(self):
        root, fpm = self.dir / "wordpress", self.dir / "fpm.sock"
        return Nginx(f"""
            location / {{ root {root}; index index.php; try_files $uri $uri/ /index.php?$args; }}
            location ~ \\.php$ {{
                root {root}; include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_param HTTP_HOST $http_host; fastcgi_pass unix:{fpm};
            }}""", http="include /etc/nginx/mime.types;")

    def php(self, url):
        """The site knows by which name its readers call it: PHP starts when the cache has a port."""
        config = (SITE / "wp-config.php").read_text().replace("@DIR@", str(self.dir)).replace("@URL@", url)
        (self.dir / "wordpress/wp-config.php").write_text(config)
        uploads = self.dir / "wordpress/wp-content/uploads"
        uploads.mkdir()
        os.chmod(uploads, 0o777)
        as_user = "user = www-data\ngroup = www-data" if self.is_root else ""
        (self.dir / "fpm.conf").write_text(f"""[global]
error_log = {self.dir}/fpm-error.log
daemonize = no
[www]
{as_user}
listen = {self.dir}/fpm.sock
listen.mode = 0666
pm = static
pm.max_children = 4
catch_workers_output = yes
""")
        program = sorted(glob.glob("/usr/sbin/php-fpm*"))[-1]
        self.start([program, "-n", *php_modules(), "-y", str(self.dir / "fpm.conf")])
        if not until(60, (self.dir / "fpm.sock").exists):
            raise SystemExit(f"{program} did not start: {self.errors()}")

    def errors(self):
        return "".join(p.read_text(errors="replace")[-2000:] for p in self.dir.glob("*fpm*.log"))

    def close(self):
        if hasattr(self, "nginx"):
            self.nginx.close()
        for p in reversed(self.procs):
            p.terminate()
        for p in self.procs:
            try:
                p.wait(30)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def php_modules():
    """Only what the site needs: the machine's own configuration doesn't count."""
    where = sorted(glob.glob("/usr/lib/php/20*"))[-1]
    names = ["mysqlnd", "dom", "xml", "mbstring", "curl", "mysqli", "simplexml", "xmlreader", "tokenizer", "ctype", "fileinfo", "iconv"]
    return [part for name in names if os.path.exists(f"{where}/{name}.so") for part in ("-d", f"extension={where}/{name}.so")]


def text_of(r):
    body = gzip.decompress(r.body) if r.get("Content-Encoding") == "gzip" else r.body
    return body.decode()


def unstamped(text):
    return SIDEBAR.sub('data-gen=""', text)


class Visitor:
    """A browser: keeps cookies, doesn't follow redirects."""

    def __init__(self, bed, fields=()):
        self.bed, self.jar, self.fields = bed, {}, list(fields)

    def ask(self, path, fields=(), **kw):
        cookies = [("Cookie", "; ".join(f"{n}={v}" for n, v in self.jar.items()))] if self.jar else []
        r = get(self.bed.v.address, path, [*self.fields, *cookies, *fields], timeout=LIMIT, host=self.bed.host, **kw)
        for name, value in r.fields:
            if name.lower() == "set-cookie":
                name, _, value = value.split(";")[0].partition("=")
                self.jar[name] = value
        return r

    def post(self, path, form):
        return self.ask(path, [("Content-Type", "application/x-www-form-urlencoded")], method="POST",
                        body=urllib.parse.urlencode(form).encode())


class Bed:
    """What is checked, in the order it happens."""

    def __init__(self, report, site, v):
        self.r, self.site, self.v = report, site, v
        self.host = "%s:%d" % v.address
        self.guest, self.admin = Visitor(self), Visitor(self)

    def stat(self, name):
        out = subprocess.run(["varnishstat", "-n", str(self.v.n), "-1", "-f", f"MAIN.{name}"], capture_output=True, text=True, check=True)
        return int(out.stdout.split()[1])

    def direct(self, path):
        """The page as the origin says it is: its fragments put in by this harness."""
        def ask(path):
            fields = [("Surrogate-Capability", "varnish=ESI/1.0")]
            return get(self.site.nginx.address, path, fields, timeout=LIMIT, host=self.host)
        r = ask(path)
        if r.get("Surrogate-Control"):
            text = REMOVE.sub("", r.body.decode())
            r.body = INCLUDE.sub(lambda m: ask(html.unescape(m.group(1))).body.decode(), text).encode()
        return r

    def same(self, path, when):
        """Direct and through, plain and packed, first and again."""
        want = self.direct(path)
        for fields in ([], SOLD, [], SOLD):
            got = self.guest.ask(path, fields)
            ok = got.end == "complete" and got.status == want.status and unstamped(text_of(got)) == unstamped(want.body.decode())
            if not self.r.check(ok, f"{when}: {path} {fields}: {got}, direct {want}"):
                self.difference(want.body.decode(), text_of(got))
        return got

    def difference(self, want, got):
        for a, b in zip(unstamped(want).split("\n"), unstamped(got).split("\n")):
            if a != b:
                self.r.note(f"first difference:\n  direct  {a[:300]}\n  through {b[:300]}")
                return

    def install(self):
        r = self.guest.post("/wp-admin/install.php?step=2", dict(
            weblog_title="Bed", user_name="admin", admin_password=PASSWORD, admin_password2=PASSWORD, pw_weak="1",
            admin_email="admin@bed.test", blog_public="0", language=""))
        return self.r.check(r.whole() and b"Success!" in r.body, f"installation: {r} {r.body[-500:]!r} {self.site.errors()}")

    def pages(self, when):
        paths = ["/", "/?p=1", "/?page_id=2", "/?cat=1", "/?feed=rss2", "/?p=999", "/?author=1", "/wp-login.php",
                 "/?s=hello&once=" + when.replace(" ", "+"), "/wp-content/themes/twentytwentythree/style.css", "/wp-includes/images/spinner.gif"]
        for path in paths:
            if path.endswith(".gif"):
                self.r.check(self.guest.ask(path).body == get(self.site.nginx.address, path, host=self.host).body, f"{when}: {path}")
            else:
                self.same(path, when)

    def one_sidebar(self, when):
        """All pages show the same generation, and it was made once."""
        stamps = {path: SIDEBAR.findall(text_of(self.guest.ask(path, fields)))
                  for path in ("/", "/?p=1", "/?page_id=2", "/?cat=1") for fields in ([], SOLD)}
        found = {stamp for got in stamps.values() for stamp in got}
        self.r.check(len(found) == 1 and all(len(got) == 1 for got in stamps.values()), f"{when}: sidebars {stamps}")
        hit = self.guest.ask("/")
        self.r.check((hit.get("X-Cache") or "").startswith("HIT"), f"{when}: / is {hit.get('X-Cache')}")
        return found

    def log_in(self):
        self.admin.jar["wordpress_test_cookie"] = "WP%20Cookie%20check"
        r = self.admin.post("/wp-login.php", {"log": "admin", "pwd": PASSWORD, "testcookie": "1", "wp-submit": "Log In"})
        self.r.check(r.whole(302) and any(n.startswith("wordpress_logged_in") for n in self.admin.jar), f"login: {r} {self.admin.jar}")
        r = self.admin.ask("/wp-admin/")
        self.r.check(r.whole() and b"Dashboard" in r.body, f"the dashboard: {r}")
        front, stranger = self.admin.ask("/"), self.guest.ask("/")
        self.r.check(front.whole() and b'id="wpadminbar"' in front.body, f"who is logged in sees the bar: {front}")
        self.r.check(b'id="wpadminbar"' not in stranger.body and GUEST in stranger.body.decode(), "and nobody else does")
        nonce = re.search(r'createNonceMiddleware\(\s*"([0-9a-f]+)"', self.admin.ask("/wp-admin/post-new.php").body.decode())
        self.r.check(nonce is not None, "the editor has a nonce")
        self.nonce = nonce and nonce.group(1)

    def rest(self, path, what, status):
        r = self.admin.ask(f"/index.php?rest_route=/wp/v2/{path}", [("X-WP-Nonce", self.nonce), ("Content-Type", "application/json")],
                           method="POST", body=json.dumps(what).encode())
        self.r.check(r.whole(status), f"{path}: {r} {r.body[:300]!r}")
        return json.loads(r.body) if r.body.startswith(b"{") else {}

    def publish(self, n):
        title = f"News number {n}"
        before = self.one_sidebar(f"before post {n}")
        post = self.rest("posts", {"title": title, "content": f"<p>Text {n}</p>", "status": "publish"}, 201)
        front = self.guest.ask("/", SOLD)
        text = text_of(front)
        self.r.check(front.whole() and text.count(title) >= 2, f"post {n} shows at once on the front page and in its sidebar")
        path = f"/?p={post.get('id', 0)}"
        self.r.check(title in text_of(self.guest.ask(path)), f"post {n} has its page")
        after = self.one_sidebar(f"after post {n}")
        self.r.check(before != after, f"post {n}: a new sidebar: {before} {after}")
        # A page that was not purged has the new sidebar too.
        self.r.check(title in text_of(self.guest.ask("/?page_id=2")), f"post {n} is in the sidebar of a page that stayed")
        self.same("/", f"after post {n}")
        self.same(path, f"after post {n}")
        return post.get("id", 0)

    def edit(self, post):
        path = f"/?p={post}"
        self.guest.ask(path)
        self.rest(f"posts/{post}", {"title": "Correction", "content": "<p>Otherwise</p>"}, 200)
        self.r.check("Correction" in text_of(self.guest.ask(path)), "an edit shows at once")
        self.same(path, "after the edit")

    def comment(self, post):
        path = f"/?p={post}"
        before = self.one_sidebar("before the comment")
        self.guest.ask(path)
        stranger = Visitor(self)
        r = stranger.post("/wp-comments-post.php", dict(author="Reader", email="reader@bed.test", comment="First words here",
                                                        comment_post_ID=post, comment_parent=0))
        self.r.check(r.whole(302), f"comment: {r} {r.body[:300]!r}")
        self.r.check("First words here" in text_of(self.guest.ask(path)), "a comment shows at once")
        self.r.check("Reader" in text_of(self.guest.ask("/?page_id=2")), "and in the sidebar of every page")
        self.r.check(before != self.one_sidebar("after the comment"), "a comment purges the sidebar")
        self.same(path, "after the comment")

    def crowd(self):
        """Many readers while the author publishes: every page whole, and who asks after the publication sees it."""
        stop, bad, count = threading.Event(), [], [0]
        paths = ["/", "/?p=1", "/?page_id=2", "/?cat=1", "/?s=hello"]

        def read(n):
            who = Visitor(self, SOLD if n % 2 else [])
            while not stop.is_set():
                path = paths[count[0] % len(paths)]
                count[0] += 1
                r = who.ask(path)
                if not r.whole() or "</html>" not in (text := text_of(r)) or GUEST not in text or "<esi:" in text:
                    bad.append(f"{path} {r}")
        readers = [threading.Thread(target=read, args=(n,)) for n in range(6)]
        [t.start() for t in readers]
        for n in range(10, 15):
            title = f"Live number {n}"
            self.rest("posts", {"title": title, "content": "<p>now</p>", "status": "publish"}, 201)
            self.r.check(text_of(self.guest.ask("/")).count(title) >= 2, f"{title} shows at once while others read")
        stop.set()
        [t.join() for t in readers]
        self.r.check(not bad and count[0] > 20, f"{count[0]} pages read, bad: {bad[:5]}")
        self.r.note(f"{count[0]} pages read meanwhile")


def main():
    o = options(__doc__)
    report = Report("wordpress")
    if not o.full:
        report.note("only in the long form (--full)")
        print("wordpress: 0 passed, 0 failed")
        return 0
    subprocess.run([str(ROOT / "scripts/need-packages"), "wordpress"], check=True)
    with Wordpress() as site:
        host, port = site.nginx.address
        vcl = (SITE / "site.vcl").read_text().replace("@HOST@", host).replace("@PORT@", str(port))
        # Its own port must be known before PHP starts, and stay.
        with Varnishd(o.varnishd, vcl=vcl) as v:
            site.php("http://%s:%d" % v.address)
            bed, worker = Bed(report, site, v), v.worker()
            if bed.install():
                bed.pages("new")
                bed.one_sidebar("new")
                bed.log_in()
                first = bed.publish(1)
                bed.edit(first)
                bed.comment(first)
                for n in range(2, 5):
                    bed.publish(n)
                bed.pages("at the end")
                v.cli.ask("param.set esi_parallel 4")
                bed.publish(5)
                bed.pages("in parallel")
                bed.crowd()
                report.check(bed.stat("esi_errors") == 0, "no ESI errors")
                report.check(v.worker() == worker, f"the worker died\n{v.log()}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
