# SPDX-License-Identifier: BSD-2-Clause
"""Crowds of visitors, drawn by seed: readers, crawlers, and the crowds that are easily mistaken for crawlers. A crowd is a list of `Ask` by time. Suites send
it to a server (`bed.visitors`) or write it as an access log (`log_lines`)."""
import bisect
import dataclasses
import itertools
import random
import time

PAGES = 10_000_000  # URLs of the site; a crawler draws from all of them
POPULAR = 6_000  # pages that readers ask for
SKEW = 0.9  # exponent of their popularity
FRESH = 20_000_000  # numbers of pages from here on are new content
START = 1_790_000_000  # seconds since 1970 at which a log begins

HOST = "site.example"
BROWSERS = tuple(
    f"Mozilla/5.0 ({system}) {engine}"
    for system in ("Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7", "X11; Linux x86_64", "Linux; Android 10; K")
    for engine in ("AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36", "Gecko/20100101 Firefox/144.0",
                   "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15"))
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
FEED_READER = "FreshRSS/1.27.1 (Linux; https://freshrss.org)"


@dataclasses.dataclass(slots=True)
class Ask:
    """One request. `at` is in seconds from the beginning of the crowd; asks with the same `visit` use one connection, one after the other."""
    at: float
    who: str
    visit: int
    client: str
    path: str
    agent: str
    cookie: str = ""
    referer: str = ""
    dest: str = "document"


class Popularity:
    """Numbers from 0 to `count` - 1 by Zipf's law."""

    def __init__(self, count=POPULAR, skew=SKEW):
        self.sums = list(itertools.accumulate((n + 1) ** -skew for n in range(count)))

    def draw(self, rng):
        return bisect.bisect_left(self.sums, rng.random() * self.sums[-1])


def address_blocks(seed, count, first):
    """Networks of 65,536 addresses, as (first octet, second octet)."""
    rng = random.Random(seed)
    return [(rng.randrange(first, first + 60), rng.randrange(256)) for _ in range(count)]


HOMES = address_blocks("homes", 40, 60)  # providers of readers, and of the proxies at home that crawlers rent
HOSTING = address_blocks("hosting", 8, 130)


def address(rng, blocks):
    first, second = rng.choice(blocks)
    return f"{first}.{second}.{rng.randrange(256)}.{rng.randrange(1, 255)}"


class Crowd:
    """Draws visitors. Each method adds a crowd that comes within `seconds` and returns itself."""

    def __init__(self, seed, seconds, begin=0.0):
        self.rng, self.seconds, self.begin, self.asks = random.Random(seed), seconds, begin, []
        self.visits, self.popular = itertools.count(int(begin * 1e6) + 1), Popularity()

    def sorted(self):
        return sorted(self.asks, key=lambda ask: ask.at)

    def arrivals(self, rate):
        """Times by chance (Poisson) at so many a second."""
        at, end = self.begin, self.begin + self.seconds
        while (at := at + self.rng.expovariate(rate)) < end:
            yield at

    def page_of(self, number):
        """Popular pages are spread over all numbers, so that none of them shows it."""
        return number * 7_919 * 211 % PAGES

    def session(self, at, client, pages, who="reader", returning=None, keeps=True):
        """A visit with a browser: pages one after the other, what belongs to them, and the cookie that the site's script sets. One that doesn't keep anything
        asks for all of it again with each page, without a cookie."""
        rng, visit, agent = self.rng, next(self.visits), self.rng.choice(BROWSERS)
        user = f"{rng.getrandbits(40):010x}"
        is_known, is_user = rng.random() < 0.6 if returning is None else returning, keeps and rng.random() < 0.1
        came_from = rng.choice(("", "https://www.google.com/", "https://news.example/"))
        for number, page in enumerate(pages):
            cookie = f"_ga=GA1.1.{user}" if keeps and (is_known or number) else ""
            cookie += f"; session={user}" if is_user else ""
            path = f"/p/{page}"

            def ask(path, after, dest, referer):
                self.asks.append(Ask(at + after, who, visit, client, path, agent, cookie.removeprefix("; "), referer, dest))

            ask(path, 0, "document", came_from)
            # The browser has these from the first page of a first visit on.
            if not keeps or not number and not is_known:
                ask("/s/site.css", 0.05, "style", path)
                ask("/s/site.js", 0.06, "script", path)
            ask(f"/i/{page}", 0.07, "image", path)
            came_from = path
            at += 0.5 + rng.expovariate(1 / 1.5)
            if at >= self.begin + self.seconds:
                return

    def drawn_pages(self):
        return [self.page_of(self.popular.draw(self.rng)) for _ in range(1 + min(11, int(self.rng.expovariate(1 / 3))))]

    def readers(self, sessions=4.5):
        """Readers at home, so many sessions a second; about 9 requests each."""
        for at in self.arrivals(sessions):
            self.session(at, address(self.rng, HOMES), self.drawn_pages())
        return self

    def crawlers(self, rate=270.0, addresses=100_000, popular_share=0.0):
        """Crawlers with a browser's headers: each request comes from another of the addresses, for any page. `popular_share` of them ask for a popular page
        to be taken for readers."""
        rng = random.Random("addresses of crawlers")
        pool = [address(rng, HOMES if rng.random() < 0.75 else HOSTING) for _ in range(addresses)]
        for at in self.arrivals(rate):
            drawn = self.popular.draw(self.rng) if self.rng.random() < popular_share else self.rng.randrange(PAGES)
            self.asks.append(Ask(at, "crawler", next(self.visits), self.rng.choice(pool), f"/p/{self.page_of(drawn) if popular_share else drawn}",
                                 self.rng.choice(BROWSERS)))
        return self

    def imitators(self, rate=270.0):
        return self.crawlers(rate, popular_share=0.5)

    def flash_crowd(self, sessions=15.0, pages=40):
        """News: many readers come for the same few pages that nobody has asked for before."""
        first = FRESH + self.rng.randrange(1_000_000)
        news = Popularity(pages, 1.0)
        for at in self.arrivals(sessions):
            wanted = [first + news.draw(self.rng) for _ in range(1 + int(self.rng.expovariate(1 / 1.5)))]
            self.session(at, address(self.rng, HOMES), wanted, "flash crowd", returning=False)
        return self

    def company(self, readers=500):
        """A company: all of its readers have one address."""
        client = address(self.rng, HOMES)
        for at in sorted(self.begin + self.rng.random() * self.seconds for _ in range(readers)):
            self.session(at, client, self.drawn_pages(), "company")
        return self

    def feed_readers(self, clients=2_000, feeds=3, period=300.0):
        """Programs that ask for the same feeds again and again, without cookies, from hosting networks and homes."""
        for _ in range(clients):
            client, visit, feed = address(self.rng, self.rng.choice((HOMES, HOSTING))), next(self.visits), self.rng.randrange(feeds)
            at = self.begin + self.rng.random() * period
            while at < self.begin + self.seconds:
                self.asks.append(Ask(at, "feed reader", visit, client, f"/feed/{feed}.xml", FEED_READER, dest="empty"))
                at += period
        return self

    def broken_readers(self, sessions=0.2):
        """Readers whose browser keeps no cookies and no files, and who load each page several times."""
        for at in self.arrivals(sessions):
            pages = [page for page in self.drawn_pages() for _ in range(self.rng.randrange(1, 5))]
            self.session(at, address(self.rng, HOMES), pages, "broken reader", returning=False, keeps=False)
        return self

    def false_googlebots(self, rate=20.0, addresses=50):
        """Crawlers that claim a search engine's name."""
        pool = [address(self.rng, HOSTING) for _ in range(addresses)]
        for at in self.arrivals(rate):
            self.asks.append(Ask(at, "false googlebot", next(self.visits), self.rng.choice(pool), f"/p/{self.rng.randrange(PAGES)}", GOOGLEBOT))
        return self


# Crowds that must not be taken for crawlers, and crawlers that must not be taken for readers.
READERS = {"flash crowd": Crowd.flash_crowd, "company": Crowd.company, "feed readers": Crowd.feed_readers, "broken readers": Crowd.broken_readers}
CRAWLERS = {"crawlers": Crowd.crawlers, "imitators": Crowd.imitators, "false googlebots": Crowd.false_googlebots}


def referer_of(ask):
    return f"https://{HOST}{ask.referer}" if ask.referer.startswith("/") else ask.referer


def stamp(at):
    return time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(START + at))


def log_lines(asks, handling=None):
    """Lines of nginx's and Apache's combined log, with the cookie as a further word, and where the response came from if `handling` gives it for each."""
    for ask in asks:
        line = f'{ask.client} - - [{stamp(ask.at)}] "GET {ask.path} HTTP/1.1" 200 8000 "{referer_of(ask) or "-"}" "{ask.agent}" "{ask.cookie or "-"}"'
        yield f"{line} {handling[ask.path]}" if handling else line
