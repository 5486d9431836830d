# SPDX-License-Identifier: BSD-2-Clause
"""A VCL as sites have them after years: 32 tests that each request meets, two of them `.*(...)` over the User-Agent with 120
names of handsets, in one vcl_recv for 20 groups of hosts; the same rules split by host; and requests for them."""
import random

HANDSETS = """Sagem SAGEM Sendo SonyEricsson Nokia NOKIA Motorola MOT- Samsung SAMSUNG SEC- LGE LG- LG/ Alcatel Panasonic Philips
Sanyo Sharp SHARP Siemens SIE- Toshiba TSM Vodafone Vertu VX- ZTE Huawei HUAWEI Haier Hitachi HTC_ HTC- HTC; Palm PalmOS PalmSource
Treo Blazer BlackBerry PlayBook BB10 Bird BIRD BenQ BENQ Amoi AMOI Airness Acer Apollo Asus ASUS- AT&T Audiovox AvantGo Capitel Casio
CDM- Cricket Danger hiptop DoCoMo DDIPOCKET Dopod dbtel Ericsson Elaine EudoraWeb Fly_ Foma Garmin Gionee GoodAccess Grundig GT-I GT-S
GT-P i-mobile i-mate IAC/ iPAQ J-PHONE J2ME Jataayu JBlend KDDI KGT/ Konka Kindle Kyocera Lenovo LENOVO Lexibook Maemo MIDP Minimo
Mitsu MobilePhone NEC- NetFront Nintendo Novarra O2- Obigo OPWV Opera.Mini Opera.Mobi Pantech PANTECH PG- Pocket PPC; Polaris
PlayStation.Portable portalmmm Qtek QCI Rover SCH- SGH- SPH- SHG- Skyfire Smartphone Spice SonyMobile Spv SymbianOS Symbian Series60
Tianyu Telit teleca Tecno UP.Browser UP.Link UTSTAR Velocity VirginMobile Voyager webOS WinWAP Wildfire Windows.CE Windows.Phone
WindowsMobile Xda Xiino Zune""".split()


def names(some):
    return "|".join(name.replace(".", r"\.") for name in some)


PHONES = f".*({names(HANDSETS[:120])})"
MORE_PHONES = rf".*(iPhone|iPod|Android.*Mobile|{names(HANDSETS[::-1][:117])})"
NEWS = '(req.url ~ "/news.cfm" || req.url ~ "/article.cfm" || req.url == "/")'


def drop(parameter, lead="[?&]"):
    """Takes a parameter out of the URL."""
    return f'req.url ~ "{lead}{parameter}="', f'set req.url = regsub(req.url, "{lead}{parameter}=[^&]+", "");'


def passed(pattern):
    return f'req.url ~ "{pattern}"', "return (pass);"


EVERYWHERE = [
    ('req.url ~ "utm_"', 'set req.url = regsuball(req.url, "[?&]utm_[^&]+", "");'),
    ('req.url ~ "[?&]_=[0-9]+"', 'set req.url = regsub(req.url, "[?&]_=[0-9]+", "");'),
    ('req.url ~ "gclid="', 'set req.url = regsub(req.url, "[?&]gclid=[^&]+", "");'),
    ('req.http.Cookie ~ "__utm|has_js|__qc"',
     'set req.http.Cookie = regsuball(req.http.Cookie, "(^|; *)(__utm.|has_js|__qc.)=[^;]*", "");'),
    ('req.url ~ "\\?$"', 'set req.url = regsub(req.url, "\\?$", "");'),
    ('req.url ~ "#"', 'set req.url = regsub(req.url, "#.*$", "");'),
]
WWW = [
    ('req.url ~ "[?&]ref="', 'set req.url = regsub(req.url, "&ref=[^&]+", "");'),
    ('req.url ~ "[?&]cid="', 'set req.url = regsub(req.url, "&cid=[^&]+", "");'),
    ('req.url ~ "[?&]rss="', 'set req.url = regsub(req.url, "&rss=[^&]+", "");'),
    ('req.url ~ "print=1"', 'set req.http.X-Print = "1";'),
    ('req.url ~ "/search"', 'set req.http.X-Search = "1";'),
    passed("/(login|logout|account)"),
    ('req.url ~ "sessionid="', 'set req.url = regsub(req.url, "&sessionid=[^&]+", "");'),
]
NET = [passed(".")]
OTHERS = [
    ("staging.example.com", passed(".")),
    ("blog.example.com", drop("replytocom", lead="")), ("blog.example.com", passed("wp-(login|admin)")),
    ("jobs.example.com", drop("agent")), ("jobs.example.com", passed("apply")),
    ("cars.example.com", drop("sid")), ("cars.example.com", passed("compare")),
    ("tv.example.com", drop("t")),
    ("forum.example.com", passed("(post|edit)\\.cfm")),
    ("forum.example.com", ('req.url ~ "[?&]s=[0-9a-f]{32}"', 'set req.url = regsub(req.url, "[?&]s=[0-9a-f]{32}", "");')),
    ("shop.example.com", passed("(cart|checkout)")),
    ("shop.example.com", ('req.url ~ "affid="', 'set req.url = regsub(req.url, "[?&]affid=[^&]+", "");')),
]


def rule(test, action, host=None):
    return f'\tif ({f"""req.http.host ~ "{host}" && """ if host else ""}{test}) {{ {action} }}\n'


def mobile(test, to):
    return f'\tif ({test}) {{ return (synth(750, "http://{to}/")); }}\n'


def agents(pattern, host):
    lead = f'req.http.host ~ "{host}" && ' if host else ""
    return mobile(f'{lead}req.http.User-Agent ~ "{pattern}" && req.url !~ "nomobile"', "m.example.com")


def news(host, to):
    return mobile(f'req.http.host == "{host}" && {NEWS} && req.http.User-Agent ~ "{PHONES}"', to)


def plain(port):
    return f'vcl 4.1;\nbackend default {{ .host = "127.0.0.1"; .port = "{port}"; }}\n'


def whole(port, rules):
    moved = "if (resp.status == 750) { set resp.http.Location = resp.reason; set resp.status = 302; return (deliver); }"
    return f"{plain(port)}sub vcl_synth {{ {moved} }}\nsub vcl_recv {{\n{rules}\tunset req.http.Cookie;\n}}\n"


def heavy(port):
    """One list of rules for all hosts."""
    return whole(port, "".join([
        agents(PHONES, "example"), agents(MORE_PHONES, "example"), news("www.example.com", "m.example.com"),
        *(news(host, "m-staging.example.com") for host in ("staging.example.com", "staging-www.example.com", "staging.example.net")),
        *(rule(*r) for r in EVERYWHERE),
        *(rule(*r, "www.example.com") for r in WWW),
        *(rule(*r, "www.example.net") for r in NET),
        *(rule(*r, host) for host, r in OTHERS),
    ]))


def split(port):
    """The same, split by host by hand."""
    return whole(port, "".join([
        *(rule(*r) for r in EVERYWHERE),
        '\tif (req.http.host == "www.example.com") {\n', agents(PHONES, ""), agents(MORE_PHONES, ""), *(rule(*r) for r in WWW),
        '\t} else if (req.http.host == "media.example.com") {\n\t} else if (req.http.host == "www.example.net") {\n',
        "\t\treturn (pass);\n\t} else {\n",
        news("staging.example.com", "m-staging.example.com"), *(rule(*r, host) for host, r in OTHERS), "\t}\n",
    ]))


VARIANTS = {"plain": plain, "heavy": heavy, "split": split}

WEBKIT = "(KHTML, like Gecko)"
AGENTS = [
    f"Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/537.11 {WEBKIT} Chrome/23.0.1271.97 Safari/537.11",
    "Mozilla/5.0 (Windows NT 6.1; WOW64; rv:17.0) Gecko/20100101 Firefox/17.0",
    "Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; WOW64; Trident/5.0)",
    f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_8_2) AppleWebKit/536.26.17 {WEBKIT} Version/6.0.2 Safari/536.26.17",
    "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 5.1; Trident/4.0; .NET CLR 1.1.4322; .NET CLR 2.0.50727; .NET CLR 3.0.4506.2152)",
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 {WEBKIT} Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0",
]


def requests(count=4000, seed=7, fresh_agents=False):
    """(url, host, User-Agent) in the mix of such a site: 60 % for www, 30 % for media; none is redirected or passed.
    fresh_agents: no User-Agent comes twice."""
    r = random.Random(seed)
    for n in range(count):
        x = r.random()
        few = r.choice(["blog", "jobs", "cars", "tv", "forum", "shop"])
        host = "www" if x < 0.6 else "media" if x < 0.9 else few
        url = f"/c/1024/{r.randrange(500)}"
        if host == "www":
            url += r.choice(["", "", "", "/news/2012/story.html", f"?id={r.randrange(20)}", "/x.cfm?id=7", "?utm_source=rss", "?id=1&ref=home"])
        agent = r.choice(AGENTS)
        yield url, f"{host}.example.com", agent.replace("/5.0", f"/5.0 u{n}", 1) if fresh_agents else agent
