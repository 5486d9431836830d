# SPDX-License-Identifier: BSD-2-Clause
"""REDbot by its Python interface: one per resource, some of them in one loop."""
import configparser
from typing import NamedTuple

import thor
from httplint.note import levels
from redbot.resource import HttpResource
from redbot.resource.fetch import RedFetcher, RedHttpClient

LIMIT = 120  # seconds for those that run together; ends what hangs
TOGETHER = 4  # of them
SKEW = 5  # seconds that it allows a clock
FAULTS = (levels.WARN, levels.BAD)


class Note(NamedTuple):
    """What REDbot found fault with: about which field, and its name for it. It may say the same of several of its requests."""
    subject: str
    kind: str
    summary: str

    def __eq__(self, other):
        return self[:2] == other[:2]

    def __hash__(self):
        return hash(self[:2])

    def __str__(self):
        return f"{self.subject} {self.kind}: {self.summary}"


def notes(address, resources):
    """The faults that it finds in each of them: {path: {Note}}."""
    paths, out = list(resources), {}
    for at in range(0, len(paths), TOGETHER):
        out |= notes_of_some(address, {path: resources[path] for path in paths[at:at + TOGETHER]})
    return out


def notes_of_some(address, resources):
    # It holds connections that the loop has forgotten when it is run again.
    RedFetcher.client = RedHttpClient()
    config = configparser.ConfigParser()
    config.read_dict({"redbot": {"enable_local_access": "True"}})
    bots = {path: begun(config["redbot"], address, path, resource) for path, resource in resources.items()}
    left = set(bots)

    def over(path):
        left.discard(path)
        if not left:
            thor.stop()
    late = thor.schedule(LIMIT, thor.stop)
    for path, bot in bots.items():
        bot.once("check_done", lambda path=path: over(path))
    for bot in bots.values():
        bot.check()
    if left:
        thor.run()
    late.delete()
    return {path: found(bot, path in left) for path, bot in bots.items()}


def begun(config, address, path, resource):
    bot = HttpResource(config)
    bot.set_request(f"http://{address[0]}:{address[1]}/{path}", resource.method, list(resource.asked), b"a=b" if resource.method == "POST" else b"")
    return bot


def found(bot, is_late):
    faults = {Note(note.subject, type(note).__name__, note.summary)
              for fetch in (bot, *bot.subreqs.values()) for note in fetch.response.notes
              if note.level in FAULTS and not (type(note).__name__ == "DATE_INCORRECT" and is_date_right(fetch))}
    if is_late:
        faults.add(Note("", "TIME_LIMIT", f"no end within {LIMIT} s"))
    for name, fetch in (("", bot), *bot.subreqs.items()):
        if fetch.fetch_error:
            faults.add(Note(name, "ERROR", f"{fetch.fetch_error.desc} {fetch.fetch_error.detail or ''}"))
    return faults


def is_date_right(fetch):
    """Whether Date, with Age, is a time between request and response. REDbot compares it with the moment in which it came to read the
    response, which is later on a busy machine."""
    fields = fetch.response.headers.parsed
    told = fields["date"] + (fields.get("age") or 0)
    return fetch.request.start_time - SKEW <= told <= fetch.response.start_time + SKEW
