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

from bed import world
from bed.daemon import die_with_parent, workdir
from bed.report import ROOT, until

sys.path.insert(0, str(ROOT / "tests/book"))
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


def form(fields):
    return urllib.parse.urlencode(fields).encode()


ALL = {"mediawiki": MediaWiki, "django": Django, "express": Express}
