# SPDX-License-Identifier: BSD-2-Clause
"""Asks for the paths on standard input with http.client or aiohttp, on one connection where it lasts, and prints a line of JSON for each."""
import asyncio
import http.client
import json
import sys
import urllib.parse

NAME, BASE = sys.argv[1:3]
PATHS = sys.stdin.read().split()


def say(path, **what):
    print(json.dumps(dict(path=path, **what)), flush=True)


def stdlib():
    at = urllib.parse.urlsplit(BASE)
    c = http.client.HTTPConnection(at.hostname, at.port, timeout=20)
    for path in PATHS:
        try:
            c.request("GET", path)
            r = c.getresponse()
            say(path, status=r.status, length=len(r.read()))
            if r.status < 200:
                c.close()  # the final response is still to come
        except (http.client.HTTPException, OSError) as error:
            say(path, error=repr(error))
            c.close()


async def by_aiohttp():
    import aiohttp
    async with aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(20)) as session:
        for path in PATHS:
            try:
                async with session.get(BASE + path, allow_redirects=False) as r:
                    say(path, status=r.status, length=len(await r.read()))
            except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
                say(path, error=repr(error))


stdlib() if NAME == "http.client" else asyncio.run(by_aiohttp())
