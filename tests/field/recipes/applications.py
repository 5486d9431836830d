# SPDX-License-Identifier: BSD-2-Clause
"""Real applications on 127.0.0.1:8080, each with its data in a directory of its own, set up as its recipe says.

An application has `recipe`, the page of the book; `pages(n)`, paths that everybody reads; `log_in(visitor, name)`; `edit(visitor, n, text)`, after which
page `n` has `text`; `names_in(text)`, for whom a page was made.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

from bed import http, world
from bed.daemon import die_with_parent, workdir
from bed.report import ROOT, until

sys.path.insert(0, str(ROOT / "tests/e2e/tooling/book"))
import blocks

ADDRESS = ("127.0.0.1", 8080)
HOST = "www.example.com"
USERS = ("Anna", "Bert")
PASSWORD = "correct horse 1"
PAGES = 8
LIMIT = 60
HERE = pathlib.Path(__file__).resolve().parent


class Application:
    """A process that answers on ADDRESS."""
    recipe = None
    # What browsers are told of an answer that is kept here.
    TOLD = r"no-cache|max-age=0"

    def __init__(self):
        self.dir, self.proc = workdir(), None
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.close()
            raise

    @classmethod
    def block(cls, language, n=0):
        """The recipe's n-th block of a language."""
        return [b.text for b in blocks.of(cls.page()) if b.language == language][n]

    @classmethod
    def page(cls):
        return ROOT / f"docs/book/recipes/{cls.recipe}.md"

    def call(self, *argv, **env):
        p = subprocess.run([str(a) for a in argv], cwd=self.dir, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=LIMIT)
        if p.returncode:
            raise RuntimeError(f"{argv}: {p.stdout[-1000:]}{p.stderr[-1000:]}")
        return p.stdout

    def serve(self, *argv, **env):
        with open(self.dir / "said", "wb") as out:
            self.proc = subprocess.Popen([str(a) for a in argv], cwd=self.dir, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=out,
                                         stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        if not until(LIMIT, lambda: world.listens(ADDRESS) or self.proc.poll() is not None) or self.proc.poll() is not None:
            raise RuntimeError(f"{argv[0]}: nothing at {ADDRESS}: {self.said()}")

    def said(self):
        return (self.dir / "said").read_text(errors="replace")[-2000:]

    def close(self):
        if self.proc:
            world.end(self.proc)
        shutil.rmtree(self.dir, ignore_errors=True)


class MediaWiki(Application):
    """Debian's package, its database SQLite's, served by PHP's own server."""
    recipe, SOURCE = "mediawiki", pathlib.Path("/usr/share/mediawiki")

    @classmethod
    def why_not(cls):
        have = (cls.SOURCE / "maintenance/install.php").exists() and shutil.which("php")
        return "" if have and "sqlite3" in subprocess.run(["php", "-m"], capture_output=True, text=True).stdout else "mediawiki or php-sqlite3"

    def prepare(self):
        self.call("php", self.SOURCE / "maintenance/install.php", f"--confpath={self.dir}", "--dbtype=sqlite", f"--dbpath={self.dir}/db", "--dbname=wiki",
                  "--scriptpath=", f"--server=http://{HOST}", f"--pass={PASSWORD}", "Bed", USERS[0])
        with open(self.dir / "LocalSettings.php", "a") as f:
            # Jobs of an edit run in the request after it, as they do where nobody runs them.
            f.write(f"\n{self.block('php')}\n$wgCacheDirectory = '{self.dir}/cache';\n$wgPasswordAttemptThrottle = [];\n")
        self.env = {"MW_CONFIG_FILE": str(self.dir / "LocalSettings.php"), "PHP_CLI_SERVER_WORKERS": "4"}
        self.call("php", self.SOURCE / "maintenance/createAndPromote.php", "--force", USERS[1], PASSWORD, **self.env)

    def start(self):
        self.serve("php", "-S", "%s:%d" % ADDRESS, "-t", self.SOURCE, **self.env)

    def fill(self, visitor):
        for n in range(PAGES):
            self.edit(visitor, n, f"Text {n}")

    def path(self, n):
        return f"/index.php/Page_{n}"

    def more(self):
        """What browsers fetch beside the pages."""
        return ["/load.php?lang=en&modules=site.styles&only=styles&skin=vector", "/load.php?lang=en&modules=skins.vector.styles.legacy&only=styles&skin=vector"]

    def api(self, visitor, **form):
        r = visitor.post("/api.php", {"format": "json", **form})
        try:
            return json.loads(r.body)
        except ValueError:
            return {"error": f"{r} {r.body[:300]!r}"}

    def log_in(self, visitor, name):
        token = self.api(visitor, action="query", meta="tokens", type="login")["query"]["tokens"]["logintoken"]
        said = self.api(visitor, action="login", lgname=name, lgpassword=PASSWORD, lgtoken=token)
        return said.get("login", {}).get("result") == "Success" or said

    def edit(self, visitor, n, text):
        token = self.api(visitor, action="query", meta="tokens")["query"]["tokens"]["csrftoken"]
        said = self.api(visitor, action="edit", title=f"Page {n}", text=text, token=token)
        return said.get("edit", {}).get("result") == "Success" or said

    def names_in(self, text):
        """Whose account the page's corner names."""
        return {m for m in re.findall(r'"wgUserName":"?(\w+)', text) if m != "null"}


class Django(Application):
    """A small site (`django/`) with the recipe's own view and signal."""
    recipe, PYTHON = "django", "/usr/bin/python3"

    @classmethod
    def why_not(cls):
        return "" if subprocess.run([cls.PYTHON, "-c", "import django"], capture_output=True).returncode == 0 else "python3-django"

    def prepare(self):
        shutil.copytree(HERE / "django", self.dir, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        (self.dir / "news/views.py").write_text(self.block("python", 0))
        (self.dir / "news/purge.py").write_text(self.block("python", 1))
        self.env = {"SITE_DIR": str(self.dir), "PYTHONDONTWRITEBYTECODE": "1"}
        self.call(self.PYTHON, "manage.py", "migrate", "--run-syncdb", "-v", "0", **self.env)
        for name in USERS:
            self.call(self.PYTHON, "manage.py", "fill", name, PASSWORD, PAGES if name == USERS[0] else 0, **self.env)

    def start(self):
        self.serve(self.PYTHON, "manage.py", "runserver", "%s:%d" % ADDRESS, "--noreload", **self.env)

    def fill(self, _visitor):
        pass

    def path(self, n):
        return f"/article/{n + 1}"

    def more(self):
        return ["/", "/quiet"]

    def log_in(self, visitor, name):
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', visitor.get("/accounts/login/").body.decode())
        r = visitor.post("/accounts/login/", {"username": name, "password": PASSWORD, "csrfmiddlewaretoken": token and token[1]})
        return r.status == 302 and "sessionid" in visitor.jar or f"{r} {r.body[-300:]!r}"

    def edit(self, visitor, n, text):
        form = visitor.get(f"{self.path(n)}/edit").body.decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
        r = visitor.post(f"{self.path(n)}/edit", {"title": text, "csrfmiddlewaretoken": token and token[1]})
        return r.status == 302 or f"{r} {r.body[-300:]!r} {self.said()}"

    def names_in(self, text):
        return {name for name in re.findall(r"Hello (\w+)", text) if name != "guest"}


class Ghost(Application):
    """npm's package, its database SQLite's; it lies in target/, where --full installs it. The theme greets members, as themes do."""
    recipe, VERSION = "ghost", "5.130.6"
    MODULES = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / f"recipes-ghost-{VERSION}"
    PROGRAM = MODULES / "package"
    TOLD = r"^public, max-age=0$"
    MAIL = "{}@example.com"

    @classmethod
    def why_not(cls):
        return "" if (cls.MODULES / "complete").exists() and shutil.which("node") else "ghost"

    @classmethod
    def install(cls):
        if not cls.why_not() or not shutil.which("npm"):
            return
        shutil.rmtree(cls.MODULES, ignore_errors=True)
        cls.MODULES.mkdir(parents=True)
        try:
            npm("pack", f"ghost@{cls.VERSION}", at=cls.MODULES)
            subprocess.run(["tar", "xzf", f"ghost-{cls.VERSION}.tgz"], cwd=cls.MODULES, check=True)
            # What Ghost's own tests need comes in part from elsewhere than npm.
            said = json.loads((cls.PROGRAM / "package.json").read_text())
            said.pop("devDependencies", None)
            (cls.PROGRAM / "package.json").write_text(json.dumps(said))
            npm("install", "--omit=dev", "--legacy-peer-deps", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", at=cls.PROGRAM)
            # SQLite is the one thing that is compiled.
            npm("rebuild", "sqlite3", "--build-from-source", at=cls.PROGRAM)
            (cls.MODULES / "complete").touch()
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            print(f"     recipes: ghost isn't installed: {error}", flush=True)

    def prepare(self):
        shutil.copytree(self.PROGRAM / "content", self.dir / "content", symlinks=False)
        theme = self.dir / "content/themes/source/default.hbs"
        text = theme.read_text()
        at = text.index(">", text.index("<body")) + 1
        theme.write_text(text[:at] + "{{#if @member}}<p>Hello {{@member.name}}!</p>{{/if}}" + text[at:])
        (self.dir / "config.production.json").write_text(json.dumps({
            "url": f"http://{HOST}", "server": {"host": ADDRESS[0], "port": ADDRESS[1]}, "paths": {"contentPath": str(self.dir / "content")},
            "database": {"client": "sqlite3", "connection": {"filename": str(self.dir / "ghost.db")}, "useNullAsDefault": True},
            "security": {"staffDeviceVerification": False}, "privacy": {"useUpdateCheck": False, "useGravatar": False},
            "logging": {"level": "error", "transports": ["stdout"]}, "mail": {"transport": "SMTP", "options": {"host": "127.0.0.1", "port": 1}}}))
        # By it Ghost knows the directory for its own.
        shutil.copy(self.PROGRAM / "package.json", self.dir)
        self.editor, self.posts, self.members = None, [], {}

    def start(self):
        self.serve("node", self.PROGRAM / "index.js", NODE_ENV="production")
        # It listens before its database is made.
        if not until(3 * LIMIT, lambda: http.get(ADDRESS, "/ghost/api/admin/site/", host=HOST).status == 200):
            raise RuntimeError(f"ghost doesn't begin: {self.said()}")

    def api(self, visitor, path, method="GET", **body):
        """The editors' interface, asked through the cache."""
        r = visitor.get(f"/ghost/api/admin/{path}", method, [("Origin", f"http://{HOST}"), ("Content-Type", "application/json")],
                        json.dumps(body).encode() if body else None)
        if r.status not in (200, 201):
            raise RuntimeError(f"{path}: {r} {r.body[:500]!r}")
        return json.loads(r.body) if r.body.startswith(b"{") else {}

    def begin(self, visitor):
        """The owner, the members and the posts."""
        owner = {"name": "Olga", "email": self.MAIL.format("olga"), "password": PASSWORD}
        self.api(visitor, "authentication/setup/", "POST", setup=[{**owner, "blogTitle": "Bed"}])
        self.api(visitor, "session/", "POST", username=owner["email"], password=PASSWORD)
        self.editor = visitor
        for n in range(PAGES):
            post = {"title": f"Text {n}", "slug": f"post-{n}", "status": "published", "lexical": None}
            self.posts.append(self.api(visitor, "posts/", "POST", posts=[post])["posts"][0]["id"])
        for name in USERS:
            member = {"name": name, "email": self.MAIL.format(name.lower())}
            self.members[name] = self.api(visitor, "members/", "POST", members=[member])["members"][0]["id"]

    def fill(self, _visitor):
        pass

    def path(self, n):
        return f"/post-{n}/"

    def more(self):
        return ["/", "/rss/", "/assets/built/screen.css"]

    def log_in(self, visitor, name):
        """By the address that a member is sent."""
        if not self.editor:
            self.begin(type(visitor)())
        url = self.api(self.editor, f"members/{self.members[name]}/signin_urls/")["member_signin_urls"][0]["url"]
        r = visitor.get(url.removeprefix(f"http://{HOST}"))
        return r.status == 302 and "ghost-members-ssr" in visitor.jar or f"{r} {r.fields} {r.body[-300:]!r}"

    def edit(self, _visitor, n, text):
        post = self.api(self.editor, f"posts/{self.posts[n]}/")["posts"][0]
        changed = self.api(self.editor, f"posts/{self.posts[n]}/", "PUT", posts=[{"title": text, "updated_at": post["updated_at"]}])
        return changed["posts"][0]["title"] == text or changed

    def names_in(self, text):
        return set(re.findall(r"Hello (\w+)!", text))


class Express(Application):
    """A JSON API (`express/`); npm's packages lie in target/, where --full installs them."""
    TOLD = r"^max-age=1$"
    recipe, MODULES = "json-api", pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "recipes-express"

    @classmethod
    def why_not(cls):
        made = cls.MODULES / "package-lock.json"
        return "" if made.exists() and made.read_text() == (HERE / "express/package-lock.json").read_text() and shutil.which("node") else "express"

    @classmethod
    def install(cls):
        if not cls.why_not() or not shutil.which("npm"):
            return
        shutil.rmtree(cls.MODULES, ignore_errors=True)
        cls.MODULES.mkdir(parents=True)
        shutil.copy(HERE / "express/package.json", cls.MODULES)
        shutil.copy(HERE / "express/package-lock.json", cls.MODULES / "package-lock.json.new")
        (cls.MODULES / "package-lock.json.new").rename(cls.MODULES / "package-lock.json")
        p = subprocess.run(["npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=cls.MODULES, capture_output=True, text=True)
        if p.returncode:
            shutil.rmtree(cls.MODULES)
            print(f"     recipes: npm ci: {p.stderr[-300:]}", flush=True)

    def prepare(self):
        shutil.copy(HERE / "express/app.js", self.dir)

    def start(self):
        self.serve("node", "app.js", NODE_PATH=str(self.MODULES / "node_modules"))

    def fill(self, _visitor):
        pass

    def path(self, n):
        return f"/v1/items/{n}"

    def more(self):
        return [f"/v1/items/{PAGES}?b=2&a=1", f"/v1/items/{PAGES}?a=1&b=2"]

    def log_in(self, visitor, name):
        visitor.fields = [("Authorization", f"Bearer {name}")]
        r = visitor.get("/v1/me")
        return r.status == 200 and json.loads(r.body) == {"for": name} or f"{r} {r.body[-300:]!r}"

    def edit(self, visitor, n, text):
        r = visitor.get(self.path(n), "PUT", [("Content-Type", "application/json")], json.dumps({"text": text}).encode())
        return r.status == 200 or f"{r} {r.body[-300:]!r}"

    def names_in(self, text):
        return {name for name in [json.loads(text).get("for")] if name}


def npm(*argv, at):
    p = subprocess.run(["npm", "--silent", *argv], cwd=at, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if p.returncode:
        raise RuntimeError(f"npm {argv[0]}: {p.stderr[-300:]}")


def form(fields):
    return urllib.parse.urlencode(fields).encode()


ALL = {"mediawiki": MediaWiki, "django": Django, "express": Express, "ghost": Ghost}
