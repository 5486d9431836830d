# SPDX-License-Identifier: BSD-2-Clause
"""Models of the applications that the recipes are for: how each answers, what is right behind the cache, and which part of a typical traffic is hits.

A model has `answer(method, path, fields, body, port)` -> (status, fields, body); `visits(t)`, which says what must hold; `traffic(random)`, requests as
visitors make them; and `BAR`, the least part of these that may not reach the application. Answers say for whom they were made, so that one that was
given to somebody else is seen.
"""
import base64
import hashlib
import hmac
import json
import random
import re
import subprocess
import time

import blocks
from bed import world
from bed.http import get
from bed.report import until

REQUESTS = 300


def vcl_of(page):
    """The whole program of a recipe: its first block of VCL."""
    return next(b.text for b in blocks.of(page) if b.language == "vcl" and b.text.startswith("vcl 4.1;"))


def run(report, page, model):
    """Runs a recipe as it stands: its VCL, by the command line that it names or the usual one."""
    model = model()
    world.VCL.write_text(vcl_of(page))
    start = next((b.text.strip() for b in blocks.of(page) if b.words[1:] == ["start"]), None)
    site = world.Site(model, model.PORTS)
    try:
        with world.Server(start, watch=False):
            visit = Visit(report, page.stem, site)
            model.visits(visit)
            before = site.made
            drawn = random.Random(random.random())
            wanted = [model.traffic(drawn) for _ in range(REQUESTS)]
            for path, fields in wanted:
                visit.get(path, **fields)
            rate = 1 - (site.made - before) / REQUESTS
            report.check(rate >= model.BAR, f"{page.stem}: {rate:.3f} of the requests are hits, not {model.BAR}")
            report.note(f"{page.stem}: {rate:.3f} of {REQUESTS} requests don't reach the application")
    except (RuntimeError, OSError) as error:
        report.check(False, f"{page.stem}: {error}")
    finally:
        site.close()


def crawls():
    """Requests that were judged as a crawler's."""
    p = subprocess.run(["varnishstat", "-1", "-f", "MAIN.bot_crawl"], capture_output=True, text=True, timeout=60, check=True)
    return int(p.stdout.split()[1])


class Visit:
    """What a recipe is asked."""

    def __init__(self, report, name, site):
        self.report, self.name, self.site = report, name, site

    def get(self, path, method="GET", host="www.example.com", body=None, **fields):
        """An answer; `user_agent="x"` is the field User-Agent."""
        lines = [(name.replace("_", "-").title(), value) for name, value in fields.items() if value is not None]
        return get(world.CACHE, path, lines, method=method, host=host, body=body)

    def check(self, ok, what):
        return self.report.check(ok, f"{self.name}: {what}")

    def cost(self, path, times=2, **fields):
        """How many of these requests reached the application; the last answer."""
        before, answer = self.site.made, None
        for _ in range(times):
            answer = self.get(path, **fields)
        # A refresh goes on behind the answer.
        return self.site.made - before, answer

    def kept(self, path, **fields):
        cost, answer = self.cost(path, **fields)
        return self.check(cost <= 1 and answer.status == 200, f"{path} {fields} is kept: {cost} fetches, {answer}") and answer

    def passed(self, path, times=2, **fields):
        cost, answer = self.cost(path, times, **fields)
        self.check(cost == times, f"{path} {fields} goes through: {cost} fetches of {times}, {answer}")
        return answer

    def crawled(self, refused, kept, user, *paths):
        """`refused` are fetched for readers and not for crawlers; `kept` is given to both from the cache; no request of the user with this cookie, for
        these paths or by POST, is judged as a crawler's."""
        robot = "Mozilla/5.0 (compatible; Examplebot/1.0)"
        for wanted in refused:
            cost, answer = self.cost(wanted, 1, user_agent=robot)
            self.check((cost, answer.status) == (0, 429), f"{wanted} isn't fetched for a crawler: {cost} fetches, {answer}")
        self.check(self.get(kept).status == 200, f"{kept} is fetched for a reader")
        # Discourse has another page for those that name themselves crawlers.
        self.get(kept, user_agent=robot)
        cost, answer = self.cost(kept, 2, user_agent=robot)
        self.check((cost, answer.status) == (0, 200), f"{kept} is in the cache for a crawler: {cost} fetches, {answer}")
        before = crawls()
        for path in paths:
            answer = self.passed(path, cookie=user, user_agent=robot)
            self.check(answer.status == 200, f"{path} of {user} is served: {answer}")
        self.passed(paths[0], method="POST", body=b"x", cookie=user, user_agent=robot)
        self.check(crawls() == before, f"no request of {user} is a crawler's: {before}, then {crawls()}")

    def gone(self, path, why, **fields):
        """The next request reaches the application, at once or behind a stale answer."""
        before = self.site.made
        self.get(path, **fields)
        self.check(until(60, lambda: self.site.made > before), f"{path} is fetched again after {why}")


def page_for(path, fields, user):
    return f"<html>{path} for {user} {fields.get('accept-language', '')}</html>"


class WordPress:
    PORTS, BAR = (8080,), 0.75
    READERS = (None, "_ga=GA1.2.3; _gid=4", "_fbp=fb.1.2")

    def answer(self, _method, path, fields, _body, _port):
        cookie = fields.get("cookie", "")
        user = re.search(r"wordpress_logged_in_\w+=(\w+)", cookie)
        lines = [("Content-Type", "text/html; charset=UTF-8")]
        if path.startswith("/wp-admin") or path.startswith("/cart"):
            lines.append(("Cache-Control", "no-cache, must-revalidate, max-age=0"))
        if path.startswith("/wp-login"):
            lines.append(("Set-Cookie", "wordpress_test_cookie=1"))
        if path.startswith("/wp-content"):
            lines = [("Content-Type", "image/png"), ("Set-Cookie", "x=1")]
        return 200, lines, page_for(path, fields, user[1] if user else "all")

    def visits(self, t):
        for cookie in self.READERS:
            answer = t.kept("/2026/11/hello/", cookie=cookie)
            t.check(answer and b"for all" in answer.body and "X-Url" not in str(answer.fields), "a reader gets the page of all")
        for user in ("anna", "bert"):
            answer = t.passed("/2026/11/hello/", cookie=f"wordpress_logged_in_abc={user}")
            t.check(f"for {user}".encode() in answer.body, f"{user} gets a page of their own")
        t.check(b"for all" in t.get("/2026/11/hello/").body, "and readers don't get that")
        for path in ("/wp-admin/", "/wp-login.php", "/cart/", "/?preview=true", "/shop?add-to-cart=7"):
            t.passed(path)
        t.check(t.kept("/wp-content/a.png").get("Set-Cookie") is None, "files have no cookie")
        t.kept("/?b=1&a=2")
        t.check(t.cost("/?a=2&b=1", 1)[0] == 0, "the order of arguments doesn't count")
        t.check(t.get("/2026/11/hello/", "PURGE").status == 200, "PURGE is taken")
        t.gone("/2026/11/hello/", "PURGE")
        t.kept("/2026/11/other/")
        t.check(t.get("/2026/.*", "PURGE", x_purge_method="regex").status == 200, "a PURGE of a pattern is taken")
        t.gone("/2026/11/other/", "PURGE of a pattern")
        t.passed("/2026/11/hello/", method="POST", body=b"x")
        t.crawled(["/?s=word", "/shop/?orderby=price"], "/2026/11/read/", "wordpress_logged_in_abc=anna", "/?s=mine", "/wp-admin/index.php", "/my-account/")

    def traffic(self, r):
        kind = r.random()
        if kind < 0.05:
            return "/2026/11/hello/", {"cookie": "wordpress_logged_in_abc=anna"}
        if kind < 0.5:
            return f"/wp-content/{r.randrange(30)}.png", {"cookie": r.choice(self.READERS)}
        return f"/2026/11/{min(int(r.expovariate(0.2)), 40)}/", {"cookie": r.choice(self.READERS)}


class Tagged:
    """An application that names what its pages are made of in `FIELD`, and knows its users by a cookie that `USER` finds."""
    PORTS, BAR = (8080,), 0.75
    FIELD, USER, COOKIE = "Cache-Tags", r"x^", "s={}"

    def user(self, fields):
        found = re.search(self.USER, fields.get("cookie", ""))
        return found[1] if found else "all"

    def tags(self, path):
        return f"page node_{re.sub(r'[^0-9]', '', path) or 0}"

    def answer(self, _method, path, fields, _body, _port):
        user = self.user(fields)
        control = "public, max-age=3600" if user == "all" else "private, no-cache"
        return 200, [("Content-Type", "text/html"), ("Cache-Control", control), (self.FIELD, self.tags(path))], page_for(path, fields, user)

    def readers(self, t):
        answer = t.kept("/node/1", cookie="_ga=1")
        t.check(answer and b"for all" in answer.body and self.FIELD not in dict(answer.fields), f"a reader gets the page of all, without {self.FIELD}")
        for user in ("anna", "bert"):
            answer = t.passed("/node/1", cookie=self.COOKIE.format(user))
            t.check(f"for {user}".encode() in answer.body, f"{user} gets a page of their own")
        t.check(b"for all" in t.get("/node/1").body, "and readers don't get that")

    def traffic(self, r):
        if r.random() < 0.05:
            return "/node/1", {"cookie": self.COOKIE.format("anna")}
        return f"/node/{min(int(r.expovariate(0.1)), 50)}", {"cookie": r.choice((None, "_ga=1", "consent=yes"))}


class Drupal(Tagged):
    USER, COOKIE = r"SESS[0-9a-f]+=(\w+)", "SSESS12ab={}"

    def visits(self, t):
        self.readers(t)
        t.kept("/node/2")
        t.check(t.get("/", "BAN", cache_tags="node_1").status == 200, "BAN is taken")
        t.gone("/node/1", "a BAN of its tag")
        t.check(t.cost("/node/2", 1)[0] == 0, "other pages stay")
        t.check(t.get("/", "BAN").status == 400, "a BAN without tags is refused")
        for path in ("/user/login", "/admin/content", "/node/7/edit"):
            t.passed(path, cookie="SESSab=anna")


class Typo3(Tagged):
    FIELD, USER, COOKIE = "X-Cache-Tags", r"fe_typo_user=(\w+)", "fe_typo_user={}"

    def visits(self, t):
        self.readers(t)
        t.kept("/node/2")
        t.check(t.get("/", "BAN", x_cache_tags="node_1").status == 200, "BAN is taken")
        t.gone("/node/1", "a BAN of its tag")
        t.check(t.cost("/node/2", 1)[0] == 0, "other pages stay")
        t.check(t.get("/", "BAN", varnish_ban_all="1").status == 200, "the button is taken")
        t.gone("/node/2", "the button")
        t.passed("/typo3/login")


class Ghost:
    PORTS, BAR = (8080,), 0.75
    MEMBER = "ghost-members-ssr={}; ghost-members-ssr.sig=x"

    def answer(self, method, path, fields, _body, _port):
        user = re.search(r"ghost-members-ssr=(\w+)", fields.get("cookie", ""))
        control = "no-cache, private, no-store" if user or path.startswith("/ghost") else "public, max-age=0"
        lines = [("Content-Type", "text/html"), ("Cache-Control", control), ("Vary", "Accept-Encoding")]
        if method == "PUT":
            lines.append(("X-Cache-Invalidate", "/p/1/" if "draft" in path else "/*"))
        return 200, lines, page_for(path, fields, user[1] if user else "all")

    def visits(self, t):
        for cookie in (None, "_ga=GA1.2.3", "ghost-analytics=1"):
            answer = t.kept("/hello/", cookie=cookie)
            t.check(answer and b"for all" in answer.body and answer.get("X-Host") is None, "a reader gets the page of all")
        for user in ("anna", "bert"):
            answer = t.passed("/hello/", cookie=self.MEMBER.format(user))
            t.check(f"for {user}".encode() in answer.body, f"{user} gets a page of their own")
        t.check(b"for all" in t.get("/hello/").body, "and readers don't get that")
        for path in ("/ghost/api/admin/site/", "/members/api/member/", "/p/2f1/"):
            t.passed(path)
        t.kept("/hello/", host="other.example.com")
        t.passed("/ghost/api/admin/posts/draft/", times=1, method="PUT", body=b"{}")
        t.check(t.cost("/hello/", 1)[0] == 0, "a draft's change makes nothing stale")
        t.passed("/ghost/api/admin/posts/1/", times=1, method="PUT", body=b"{}")
        t.gone("/hello/", "a change")
        t.check(t.cost("/hello/", 1, host="other.example.com")[0] == 0, "another site's pages stay")

    def traffic(self, r):
        if r.random() < 0.05:
            return "/hello/", {"cookie": self.MEMBER.format("anna")}
        return f"/post-{min(int(r.expovariate(0.1)), 50)}/", {"cookie": r.choice((None, "_ga=1"))}


class Shopware(Tagged):
    FIELD, BAR = "xkey", 0.7
    NAMES = {"sw-currency": "currency", "sw-cache-hash": "context"}

    def user(self, fields):
        hashed = re.search(r"sw-cache-hash=(\w+)", fields.get("cookie", ""))
        return hashed[1] if hashed else "all"

    def answer(self, method, path, fields, body, port):
        status, lines, text = super().answer(method, path, fields, body, port)
        # What it makes for a group of customers is kept by the group.
        lines = [(n, "public, s-maxage=3600" if n == "Cache-Control" else v) for n, v in lines]
        return status, [*lines, ("sw-invalidation-states", "logged-in,cart-filled"), ("Set-Cookie", "session-=1")], text

    def visits(self, t):
        answer = t.kept("/product/1")
        t.check(answer.get("Set-Cookie") is None and answer.get("xkey") is None, "what is public has neither cookie nor keys")
        for group in ("net", "gross"):
            t.check(f"for {group}".encode() in t.kept("/product/1", cookie=f"sw-cache-hash={group}").body, f"{group} has pages of its own")
        t.passed("/product/1", cookie="sw-states=logged-in")
        t.passed("/checkout/cart")
        t.passed("/api/x", authorization="Bearer 1")
        t.check(t.get("/", "PURGE", xkey="node_1").status == 200, "PURGE by key is taken")
        t.gone("/product/1", "a purge of its key")
        t.kept("/product/2")
        t.check(t.get("/product/2", "BAN").status == 200, "BAN of a URL is taken")
        t.gone("/product/2", "a BAN of its URL")
        t.kept("/product/3")
        t.check(t.get("/", "BAN").status == 200, "BAN of everything is taken")
        t.gone("/product/3", "a BAN of everything")
        t.crawled(["/search?search=shirt", "/shirts?order=name&properties=1"], "/product/4", "sw-states=logged-in", "/product/4", "/account/order", "/store-api/cart")

    def traffic(self, r):
        cookie = r.choice((None, None, "sw-currency=EUR", "sw-cache-hash=net"))
        return f"/product/{min(int(r.expovariate(0.15)), 40)}", {"cookie": cookie}


class Magento(Tagged):
    FIELD, BAR = "X-Magento-Tags", 0.6

    def user(self, fields):
        found = re.search(r"X-Magento-Vary=(\w+)", fields.get("cookie", ""))
        return found[1] if found else "all"

    def tags(self, path):
        return f"cat_p,cat_p_{re.sub(r'[^0-9]', '', path) or 0},store"

    def answer(self, method, path, fields, body, port):
        if path.startswith("/missing"):
            return 404, [("Content-Type", "text/html")], "no"
        if path.startswith("/checkout"):
            return 200, [("Cache-Control", "no-store, private")], "cart"
        status, lines, text = super().answer(method, path, fields, body, port)
        lines = [(n, "public, max-age=3600" if n == "Cache-Control" else v) for n, v in lines]
        return status, [*lines, ("Set-Cookie", "form_key=1")], text

    def visits(self, t):
        answer = t.kept("/shirt-1.html", cookie="PHPSESSID=1")
        t.check(answer and b"for all" in answer.body, "a session alone doesn't count")
        t.check(answer.get("Set-Cookie") is None and "no-store" in answer.get("Cache-Control", ""), "browsers keep no page, and get no cookie from the cache")
        for group in ("wholesale", "retail"):
            answer = t.kept("/shirt-1.html", cookie=f"PHPSESSID=2; X-Magento-Vary={group}")
            t.check(f"for {group}".encode() in answer.body, f"{group} has pages of its own")
        t.check(t.cost("/shirt-1.html?utm_source=x&gclid=1", 1)[0] == 0, "what marketing adds doesn't count")
        t.kept("/shirt-2.html?b=1&a=2")
        t.check(t.cost("/shirt-2.html?a=2&utm_campaign=z&b=1", 1)[0] == 0, "nor in the middle, nor the order")
        t.check(t.get("/", "PURGE", x_magento_tags_pattern="((^|,)cat_p_1(,|$))").status == 200, "PURGE is taken")
        t.gone("/shirt-1.html", "a purge of its tag")
        t.check(t.get("/", "PURGE").status == 400, "a PURGE without a pattern is refused")
        t.passed("/checkout/cart", cookie="PHPSESSID=1")
        t.passed("/customer/section/load")
        t.check(t.cost("/missing")[0] == 1, "a 404 is kept for a minute")

    def traffic(self, r):
        if r.random() < 0.1:
            return "/checkout/cart", {"cookie": "PHPSESSID=1"}
        arguments = r.choice(("", "", "?utm_source=mail", "?gclid=77"))
        return f"/shirt-{min(int(r.expovariate(0.2)), 30)}.html{arguments}", {"cookie": r.choice(("PHPSESSID=1", "PHPSESSID=2; X-Magento-Vary=retail", None))}


class MediaWiki:
    PORTS, BAR = (8080,), 0.75

    def answer(self, _method, path, fields, _body, _port):
        user = re.search(r"UserID=(\w+)", fields.get("cookie", ""))
        control = "private, must-revalidate, max-age=0" if user else "s-maxage=18000, must-revalidate, max-age=0"
        lines = [("Content-Type", "text/html"), ("Cache-Control", control), ("Vary", "Accept-Encoding, Cookie")]
        return 200, lines, page_for(path, fields, user[1] if user else "all")

    def visits(self, t):
        answer = t.kept("/wiki/Cache", accept_language="de")
        t.check(answer and b"for all" in answer.body and "s-maxage" not in answer.get("Cache-Control"), "browsers aren't told to keep it")
        t.check(t.cost("/wiki/Cache", 1, accept_language="fr", cookie="theme=dark")[0] == 0, "what browsers send doesn't count")
        answer = t.passed("/wiki/Cache", cookie="wikiUserID=7; wiki_session=1")
        t.check(b"for 7" in answer.body and b"for all" in t.get("/wiki/Cache").body, "a user's page is the user's alone")
        t.check(t.get("/wiki/Cache", "PURGE").status == 200, "PURGE is taken")
        t.gone("/wiki/Cache", "a purge")
        t.crawled(["/w/index.php?title=Cache&action=history", "/w/index.php?title=Cache&oldid=7", "/wiki/Special:RecentChanges"], "/wiki/Page",
                  "wikiUserID=7; wiki_session=1", "/wiki/Special:Watchlist")

    def traffic(self, r):
        if r.random() < 0.05:
            return "/wiki/Main", {"cookie": "wikiUserID=7; wiki_session=1"}
        return f"/wiki/{min(int(r.expovariate(0.1)), 60)}", {"accept_language": r.choice(("de", "en-GB,en;q=0.9", "fr"))}


class Forgejo:
    PORTS, BAR = (8080,), 0.75
    COMMIT = "0123456789abcdef0123456789abcdef01234567"

    def answer(self, _method, path, fields, _body, _port):
        user = re.search(r"(?:i_like_gitea|session)=(\w+)", fields.get("cookie", ""))
        lines = [("Content-Type", "text/html"), ("Cache-Control", "max-age=0, private, must-revalidate, no-transform")]
        if not user:
            lines += [("Set-Cookie", "i_like_gitea=new; Path=/; HttpOnly"), ("Set-Cookie", "_csrf=x; Path=/")]
        if path.startswith("/assets"):
            lines = [("Content-Type", "text/css"), ("Cache-Control", "public, max-age=21600")]
        return 200, lines, page_for(path, fields, user[1] if user else "all")

    def visits(self, t):
        for cookie in (None, "_ga=1"):
            answer = t.kept("/org/repo", cookie=cookie, accept_language="de")
            t.check(answer and b"for all" in answer.body and answer.get("Set-Cookie") is None, f"a visitor gets the page of all, and no session: {answer}")
        t.check("private" in answer.get("Cache-Control"), "no browser keeps it")
        for cookie in ("i_like_gitea=anna", "lang=de; session=bert", "gitea_incredible=x; session=bert"):
            answer = t.passed("/org/repo", cookie=cookie)
            t.check(b"for all" not in answer.body, f"{cookie} gets a page of their own")
        t.check(b"for all" in t.get("/org/repo").body, "and visitors don't get that")
        for path in ("/user/login", "/org/repo.git/info/refs?service=git-upload-pack", "/api/v1/version", "/org/repo/settings/hooks", "/v2/"):
            t.passed(path)
        t.passed("/org/repo", authorization="token x")
        t.check(t.cost("/org/repo", cookie="lang=de-DE")[0] == 1, "a chosen language has pages of its own")
        t.kept(f"/org/repo/src/commit/{self.COMMIT}/a.rs")
        t.kept("/assets/css/index.css")
        t.crawled([f"/org/repo/blame/commit/{self.COMMIT}/b.rs", f"/org/repo/blame/commit/{self.COMMIT}/d.rs?a=.git/",
                   "/org/repo/archive/main.zip", f"/org/repo/src/commit/{self.COMMIT}/c.rs", "/org/repo/issues?state=closed"],
                  "/org/other", "session=anna", f"/org/repo/blame/commit/{self.COMMIT}/d.rs", "/user/settings")
        answer = t.passed("/org/other.git/git-upload-pack", method="POST", body=b"x", user_agent="Examplebot/1.0")
        t.check(answer.status == 200, "a clone isn't crawling")

    def traffic(self, r):
        if r.random() < 0.05:
            return "/org/repo", {"cookie": "i_like_gitea=anna"}
        return f"/org/repo-{min(int(r.expovariate(0.1)), 50)}", {"cookie": r.choice((None, "_ga=1"))}


class Discourse:
    PORTS, BAR = (8080,), 0.65
    TELEPHONE = "Mozilla/5.0 (Linux; Android 10; K) Chrome/141.0.0.0 Mobile Safari/537.36"

    def answer(self, _method, path, fields, _body, _port):
        user = re.search(r"\b_t=(\w+)", fields.get("cookie", ""))
        agent = fields.get("user-agent", "")
        view = "crawlers" if "bot" in agent else "telephones" if "Mobile" in agent else "all"
        lines = [("Content-Type", "text/html"), ("Cache-Control", "no-cache, no-store")]
        lines += [] if user else [("Set-Cookie", "_forum_session=x; path=/; HttpOnly")]
        if "json" in fields.get("accept", ""):
            return 200, lines, json.dumps({"path": path, "for": view})
        return 200, lines, page_for(path, fields, user[1] if user else view)

    def visits(self, t):
        for cookie in (None, "_forum_session=abc; _ga=1"):
            answer = t.kept("/t/a-topic/7", cookie=cookie)
            t.check(answer and b"for all" in answer.body and answer.get("Set-Cookie") is None, "a reader gets the page of all")
        t.check(b"for telephones" in t.kept("/t/a-topic/7", user_agent=self.TELEPHONE).body, "telephones have pages of their own")
        t.check(t.get("/t/a-topic/7", accept="application/json").body.startswith(b"{"), "scripts get JSON")
        t.check(b"<html>" in t.get("/t/a-topic/7").body, "and readers don't get that")
        for user in ("anna", "bert"):
            answer = t.passed("/t/a-topic/7", cookie=f"_t={user}; _forum_session=abc")
            t.check(f"for {user}".encode() in answer.body, f"{user} gets a page of their own")
        for path in ("/session/csrf", "/u/anna", "/search?q=x", "/admin"):
            t.passed(path)
        t.passed("/t/a-topic/7", cookie="theme_ids=3")
        t.passed("/message-bus/abc/poll", method="POST", body=b"x")
        t.crawled(["/t/a-topic/7/120", "/latest?page=9"], "/t/other/8", "_t=anna", "/t/a-topic/7/120")

    def traffic(self, r):
        if r.random() < 0.05:
            return "/latest", {"cookie": "_t=anna"}
        return f"/t/topic/{min(int(r.expovariate(0.1)), 50)}", {"cookie": r.choice((None, "_forum_session=1")), "user_agent": r.choice((None, self.TELEPHONE))}


class Django:
    PORTS, BAR = (8080,), 0.75

    def answer(self, _method, path, fields, _body, _port):
        user = re.search(r"sessionid=(\w+)", fields.get("cookie", ""))
        lines = [("Content-Type", "text/html"), ("Vary", "Cookie"), ("xkey", f"articles article-{re.sub('[^0-9]', '', path) or 0}")]
        if not path.startswith("/quiet"):
            lines.append(("Cache-Control", "s-maxage=86400"))
        if path.startswith("/contact"):
            lines.append(("Set-Cookie", "csrftoken=1"))
        return 200, lines, page_for(path, fields, user[1] if user else "all")

    def visits(self, t):
        answer = t.kept("/article/7", cookie="_ga=1; csrftoken=2")
        t.check(answer and b"for all" in answer.body and answer.get("Cache-Control") == "no-cache" and answer.get("xkey") is None,
                f"a visitor gets the page of all: {answer.fields}")
        answer = t.passed("/article/7", cookie="csrftoken=2; sessionid=anna")
        t.check(b"for anna" in answer.body and b"for all" in t.get("/article/7").body, "a user's page is the user's alone")
        for path in ("/admin/", "/accounts/login/", "/contact"):
            t.passed(path)
        t.passed("/article/7", authorization="Token x")
        t.kept("/quiet")
        t.kept("/article/8")
        t.check(t.get("/", "PURGE", xkey_purge="article-7").reason == "Purged 1", "PURGE by key is taken")
        t.gone("/article/7", "a purge by key")
        t.check(t.cost("/article/8", 1)[0] == 0, "other pages stay")
        t.check(t.get("/article/8", "PURGE").status == 200, "PURGE is taken")
        t.gone("/article/8", "a purge")

    def traffic(self, r):
        if r.random() < 0.05:
            return "/article/1", {"cookie": "sessionid=anna"}
        return f"/article/{min(int(r.expovariate(0.1)), 60)}", {"cookie": r.choice(WordPress.READERS)}


class JsonApi:
    PORTS, BAR = (8080,), 0.8

    def answer(self, method, path, fields, _body, _port):
        if path.startswith("/v1/broken"):
            return 500, [("Content-Type", "application/json")], "{}"
        if method == "POST":
            return 201, [("Content-Type", "application/json")], "{}"
        who = fields.get("authorization", "all")
        return 200, [("Content-Type", "application/json")], json.dumps({"path": path, "for": who, "accept": fields.get("accept")}) * 20

    def visits(self, t):
        answer = t.kept("/v1/items?b=2&a=1")
        t.check(answer and t.cost("/v1/items?a=1&b=2", 1, accept="application/json, */*")[0] == 0, "order and spelling don't count")
        t.check(b"text/csv" in t.kept("/v1/items", accept="text/csv").body, "CSV is another answer")
        answer = t.passed("/v1/items", authorization="Bearer anna")
        t.check(b"Bearer anna" in answer.body and b"Bearer" not in t.get("/v1/items").body, "a caller's own stays that")
        t.passed("/v1/me")
        answer = t.get("/v1/items", "OPTIONS")
        t.check(answer.status == 204 and answer.get("Access-Control-Allow-Methods") and not answer.body, f"OPTIONS is answered here: {answer}")
        t.check(t.get("/v1/items", accept_encoding="gzip").get("Content-Encoding") == "gzip", "it is packed")
        t.check(self.refused(t), "who asks too often waits, and is told so in JSON")
        t.check(until(60, lambda: t.get("/v1/items").status == 200, 0.5), "and then may again")

    def refused(self, t):
        # One after the other without a pause: the limit is a rate.
        answers = (t.get("/v1/zzz") for _ in range(1000))
        answer = next((a for a in answers if a.status == 429), None)
        return answer and json.loads(answer.body)["status"] == 429 and answer.get("Retry-After") == "10"

    def traffic(self, r):
        # More than the limit would be refused, which is no hit of the cache's: it is asked at the pace that is allowed.
        time.sleep(0.17)
        return f"/v1/items/{r.randrange(3)}", {}


class Images:
    PORTS, BAR = (8080,), 0.75
    LONG = bytes(range(256)) * 8192  # 2 MB

    def answer(self, _method, path, fields, _body, _port):
        lines = [("Content-Type", "application/octet-stream"), ("Cache-Control", "max-age=600"), ("Set-Cookie", "x=1"), ("Vary", "Accept")]
        if path.startswith("/long"):
            return 200, lines, self.LONG
        if path.endswith(".css"):
            return 200, [("Content-Type", "text/css"), ("Cache-Control", "no-cache")], "a { }" * 200
        return 200, lines, f"{path} as {fields.get('accept', 'anything')}"

    def visits(self, t):
        answer = t.kept("/a.png", cookie="session=1", accept="image/avif,image/webp,*/*;q=0.8")
        t.check(answer and b"image/avif" in answer.body and answer.get("Set-Cookie") is None, "an image without its cookie, in the best kind")
        t.check(t.cost("/a.png", 1, accept="image/avif,image/apng")[0] == 0, "how a browser writes it doesn't count")
        t.check(b"image/webp" in t.kept("/a.png", accept="image/webp").body, "the second kind is another object")
        answer = t.kept("/app.3f9ac01d.css", accept_encoding="gzip")
        t.check("immutable" in answer.get("Cache-Control") and answer.get("Content-Encoding") == "gzip", "what has a fingerprint is kept for a year, packed")
        answer = t.kept("/long.iso")
        t.check(answer.body == self.LONG, "a long file is whole")
        part = t.get("/long.iso", range="bytes=1000000-1000099")
        t.check(part.status == 206 and part.body == self.LONG[1000000:1000100], "a range of it is right")

    def traffic(self, r):
        return f"/{min(int(r.expovariate(0.1)), 50)}.png", {"accept": r.choice(("image/avif,*/*", "image/webp,*/*")), "cookie": r.choice((None, "session=1"))}


class Languages:
    PORTS, BAR = (8080,), 0.9
    SAID = ("de-DE,de;q=0.9,en;q=0.5", "de", "fr-CH, fr;q=0.9", "ja", "tlh", "en-US,en;q=0.9", "pt,en;q=0.3", None)

    def answer(self, _method, path, fields, _body, _port):
        language = fields.get("accept-language", "none")
        return 200, [("Content-Type", "text/html"), ("Cache-Control", "max-age=600")], f"<p>{path} in {language}</p>"

    def visits(self, t):
        for said, language in (("de-DE,tr;q=0.999,en;q=0.75", b"in de<"), ("tlh", b"in en<"), ("ja;q=0.9,fr;q=0.1", b"in ja<")):
            answer = t.kept("/a", accept_language=said)
            t.check(answer and language in answer.body and "Accept-Language" in answer.get("Vary", ""), f"{said} is {language}: {answer and answer.body}")
        t.check(b"in fr<" in t.get("/a", accept_language="de", cookie="language=fr; x=1").body, "what was chosen counts")
        t.check(b"in de<" in t.get("/a", accept_language="de", cookie="language=zz").body, "what isn't a language doesn't")

    def traffic(self, r):
        return f"/{r.randrange(3)}", {"accept_language": r.choice(self.SAID)}


class AbTests:
    PORTS, BAR = (8080,), 0.95

    def answer(self, _method, path, fields, _body, _port):
        return 200, [("Content-Type", "text/html"), ("Cache-Control", "max-age=600")], f"{path} of {fields.get('x-group')} {fields.get('x-new-group', '')}"

    def visits(self, t):
        dealt = {"a": 0, "b": 0}
        for _ in range(200):
            answer = t.get("/")
            group = re.match(r"group=([ab]);", answer.get("Set-Cookie", ""))
            if t.check(group and f"of {group[1]} ".encode() in answer.body, f"a new visitor is dealt a group, and gets its page: {answer.fields}"):
                dealt[group[1]] += 1
        t.check(15 <= dealt["b"] <= 70, f"some twenty of a hundred are dealt b: {dealt}")
        for group in "ab":
            answer = t.kept("/", cookie=f"x=1; group={group}")
            t.check(answer and f"of {group} ".encode() in answer.body and answer.get("Set-Cookie") is None, f"{group} stays {group}")
            t.check("private" in answer.get("Cache-Control"), "and nobody behind us keeps it")

    def traffic(self, r):
        return f"/{r.randrange(4)}", {"cookie": f"group={r.choice('ab')}"}


class LoggedIn:
    PORTS, BAR = (8080,), 0.6

    def answer(self, _method, path, fields, _body, _port):
        session = re.search(r"session=(\w+)", fields.get("cookie", ""))
        name = session[1] if session else "nobody"
        if path.startswith("/corner"):
            return 200, [("Content-Type", "text/html"), ("Set-Cookie", "seen=1")], f"<b>{name}</b>"
        if path.startswith("/login"):
            return 200, [("Set-Cookie", "session=anna")], "in"
        return 200, [("Content-Type", "text/html")], f"<html>{path} {name} <esi:include src=\"/corner\"/></html>"

    def visits(self, t):
        for user in ("anna", "bert", "anna"):
            answer = t.get("/article", cookie=f"session={user}")
            t.check(answer.body == f"<html>/article nobody <b>{user}</b></html>".encode(), f"{user} gets the page of all with their own corner: {answer.body}")
            t.check("no-store" in answer.get("Cache-Control", ""), "no browser keeps it")
        t.check(t.get("/article").body == b"<html>/article nobody <b>nobody</b></html>", "and a visitor nobody's")
        t.check(t.cost("/article", 5, cookie="session=anna")[0] == 0, "then all of it is kept")
        t.check(t.get("/corner", cookie="session=anna").status == 403, "the corner alone is for nobody")
        t.passed("/login", cookie="session=anna")
        t.passed("/article", method="POST", body=b"x")

    def traffic(self, r):
        return f"/{r.randrange(30)}", {"cookie": f"session=u{r.randrange(20)}"}


class Paywall:
    PORTS, BAR = (8080,), 0.9
    SECRET = b"a secret of thirty-two bytes, 01"

    def answer(self, _method, path, fields, _body, _port):
        return 200, [("Content-Type", "text/html")], f"{path} {fields.get('x-access', 'page')}"

    @classmethod
    def token(cls, secret=None, **claims):
        def pack(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")
        text = b".".join(pack(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
        signed = hmac.new(secret or cls.SECRET, text, hashlib.sha256).digest()
        return (text + b"." + pack(signed)).decode()

    def visits(self, t):
        soon, past = int(time.time()) + 600, int(time.time()) - 600
        for cookie, access in ((None, b"teaser"), (f"subscription={self.token(exp=soon)}", b"full"), (f"a=1; subscription={self.token(exp=soon, sub='x')}", b"full"),
                               (f"subscription={self.token(exp=past)}", b"teaser"), (f"subscription={self.token(b'x' * 32, exp=soon)}", b"teaser"),
                               ("subscription=nonsense", b"teaser")):
            answer = t.get("/article/1", cookie=cookie)
            t.check(answer.body == b"/article/1 " + access and "no-store" in answer.get("Cache-Control", ""), f"{cookie} is {access}: {answer.body}")
        t.check(t.get("/article/1", x_access="full").body == b"/article/1 teaser", "nobody says so themselves")
        t.check(t.cost("/article/1", 5, cookie=f"subscription={self.token(exp=soon, sub='y')}")[0] == 0, "all who paid get the same object")
        t.kept("/about", cookie="x=1")

    def traffic(self, r):
        cookie = f"subscription={self.token(exp=int(time.time()) + 600, sub=str(r.randrange(1000)))}" if r.random() < 0.5 else None
        return f"/article/{r.randrange(8)}", {"cookie": cookie}


class BlueGreen:
    PORTS, BAR = (8081, 8082), 0.95
    blue_is_well = True

    def answer(self, _method, path, _fields, _body, port):
        if path == "/health":
            return (200 if port == 8082 or self.blue_is_well else 500), [], ""
        return 200, [("Cache-Control", "max-age=600")], f"{path} by {'blue' if port == 8081 else 'green'}"

    def visits(self, t):
        # Green may be well first: what it answers until then is kept, so each try asks for another page.
        t.check(until(60, lambda: t.get(f"/{time.monotonic()}").body.endswith(b"by blue"), 0.2), "blue is live")
        t.check(until(60, lambda: t.get("/a", cookie="preview=green").status == 200, 0.2), "green is well")
        t.check(t.passed("/a", cookie="preview=green").body == b"/a by green", "testers see green")
        t.check(t.get("/a").body == b"/a by blue", "others don't")
        self.blue_is_well = False
        t.check(until(60, lambda: t.get(f"/{time.monotonic()}").body.endswith(b"by green"), 0.2), "when blue fails, green is live by itself")
        t.check(t.get("/a").body == b"/a by blue", "and what is kept stays kept")
        self.blue_is_well = True
        t.check(until(60, lambda: t.get(f"/{time.monotonic()}").body.endswith(b"by blue"), 0.2), "then blue is again")

    def traffic(self, r):
        return f"/{r.randrange(5)}", {"cookie": r.choice((None, "x=1"))}


class TopPages:
    PORTS, BAR = (8080,), 0.45
    OPERA = "Opera/9.80 (X11; Linux x86_64; U; en) Presto/2.2.15 Version/10.{}"

    def answer(self, _method, path, fields, _body, _port):
        return 200, [("Content-Type", "text/html"), ("Vary", "User-Agent"), ("Set-Cookie", "x=1")], f"{path} for {fields.get('user-agent', '')[-5:]}"

    def visits(self, t):
        for version in ("10", "53"):
            answer = t.kept("/news/", user_agent=self.OPERA.format(version))
            t.check(answer and answer.body.endswith(version.encode()) and answer.get("Set-Cookie") is None, f"10.{version} has an object of its own")
        t.check(t.cost("/news/", 1, user_agent="Opera/9.80 (Windows NT 5.1; U; de) Presto/2.2.15 Version/10.10")[0] == 0, "only the version counts")
        t.passed("/news/", user_agent="Mozilla/5.0 (X11) Gecko Firefox/3.6")
        t.passed("/forum/", user_agent=self.OPERA.format(10))
        t.passed("/", user_agent=self.OPERA.format(10), cookie="session=1")

    def traffic(self, r):
        agent = self.OPERA.format(r.choice((10, 53, 60))) if r.random() < 0.7 else "Mozilla/5.0 (X11) Firefox/3.6"
        return (r.choice(("/", "/news/", "/download/")) if r.random() < 0.75 else f"/forum/{r.randrange(99)}"), {"user_agent": agent}


ALL = {
    "wordpress": WordPress, "drupal": Drupal, "magento": Magento, "shopware": Shopware, "mediawiki": MediaWiki, "typo3": Typo3, "ghost": Ghost,
    "forgejo": Forgejo, "discourse": Discourse,
    "django": Django, "json-api": JsonApi,
    "images": Images, "languages": Languages, "ab-tests": AbTests, "logged-in": LoggedIn, "paywall": Paywall, "blue-green": BlueGreen, "top-pages": TopPages,
}
