# SPDX-License-Identifier: BSD-2-Clause
"""The streams of one good exchange, cut at every octet: in two pieces it is served; ended or taken back there, no request that wasn't whole is whole at
the origin, and what ends in a frame is an error."""
from bed import h3
from bed.h3 import DATA, UNKNOWN, frame, headers
from cuts import whole

FIELDS = h3.request("/c", "POST", [("content-length", "10"), ("x-a", "b")])
PARTS = (headers(FIELDS), frame(DATA, b"hello"), frame(UNKNOWN, b"greased"), frame(DATA), frame(DATA, b"world"), headers([("x-t", "1")]))
WHOLE = b"".join(PARTS)
# The body has its length from here on: what is wrong with trailers may come too late for the origin.
BODY_ENDS = len(WHOLE) - len(PARTS[-1])
ENOUGH = {len(WHOLE), BODY_ENDS}
BORDERS = {len(b"".join(PARTS[:n])) for n in range(len(PARTS) + 1)}
OURS = h3.varint(h3.CONTROL) + h3.settings({h3.MAX_FIELD_SECTION_SIZE: 70_000, 0x21: 1}) + frame(UNKNOWN, b"x") + frame(h3.PRIORITY_UPDATE, h3.varint(0) + b"u=1") + frame(h3.MAX_PUSH_ID, h3.varint(3))


def in_pieces(bed, cuts):
    """What is wrong when the request comes in pieces, or ''."""
    with bed.connect() as c:
        at = c.stream()
        for begin, end in zip((0, *cuts), (*cuts, len(WHOLE))):
            c.send(at, WHOLE[begin:end], end == len(WHOLE))
            c.wait(lambda: False, 0.0005)
        c.wait(lambda: c.streams[at].end, bed.LIMIT)
        got = sum(whole(octets) for octets in bed.witness.take())
        return "" if c.streams[at].whole() and got == 1 and not c.faults else f"{c.streams[at]}, {c.how()}, {c.faults}, {got} at the origin"


def control_in_pieces(bed, cut):
    """What is wrong when the control stream comes so, or ''."""
    with bed.connect(opens=False) as c:
        at = c.open(None, OURS[:cut])
        c.wait(lambda: False, 0.0005)
        c.send(at, OURS[cut:])
        own = c.get("/d", bed.LIMIT)
        bed.witness.take()
        return "" if own.whole() and not c.closed else f"{own}, {c.how()}"


def stopped(bed, at, is_reset):
    """What is wrong when the client ends the stream there, or takes it back."""
    with bed.connect() as c:
        stream = c.stream()
        own = c.streams[stream]
        c.send(stream, WHOLE[:at], not is_reset)
        if is_reset:
            c.wait(lambda: False, 0.0005)
            c.reset(stream)
        c.wait(lambda: own.end or is_reset, bed.LIMIT)
        how = f"{own}, {c.how()}"
        if not is_reset:
            due = "H3_REQUEST_INCOMPLETE" if at == 0 else "" if at in ENOUGH else "H3_MESSAGE_ERROR" if at in BORDERS else "H3_FRAME_ERROR"
            said = c.code() or h3.CODES.get(own.code, "")
            if own.whole() != (at in ENOUGH) or said != due:
                return f"{how}, where {due or 'an answer'} is due"
    if not bed.serves():
        return "nothing is served afterwards"
    got = [whole(octets) for octets in bed.witness.take() if not octets.startswith(b"GET /live ")]
    is_wrong = min(got, default=0) < 0 or sum(got) > 0 and at < BODY_ENDS
    return f"{got} whole at the origin ({how})" if is_wrong else ""


def run(bed, words, verbose):
    step = 1 if bed.is_full else 2
    plays = [("in pieces of an octet", lambda: in_pieces(bed, range(1, len(WHOLE))))]
    plays += [(f"cut at {at}", lambda at=at: in_pieces(bed, (at,))) for at in range(1, len(WHOLE), step)]
    plays += [(f"control cut at {at}", lambda at=at: control_in_pieces(bed, at)) for at in range(1, len(OURS), step)]
    plays += [(f"ended at {at}", lambda at=at: stopped(bed, at, False)) for at in sorted(BORDERS | set(range(0, len(WHOLE), step)))]
    plays += [(f"taken back at {at}", lambda at=at: stopped(bed, at, True)) for at in range(1, len(WHOLE), step)]
    for name, play in plays:
        if words and not any(word in name for word in words):
            continue
        wrong = play()
        bed.report.check(not wrong, f"{name} of {len(WHOLE)}: {wrong}")
