# SPDX-License-Identifier: BSD-2-Clause
"""Requests as http-message-signatures signs them."""
import datetime

from http_message_signatures import HTTPMessageSigner, HTTPSignatureKeyResolver, algorithms

PATH = "/a/b?a=1&b+c=%2F&d"
FIELDS = {"X-List": "one, two", "X-Dict": "k=1,  m=(a  b);c", "Priority": "u=1,i"}


class Message:
    def __init__(self, headers):
        self.method, self.url, self.headers = "GET", "https://www.example" + PATH, headers


class OneKey(HTTPSignatureKeyResolver):
    def __init__(self, private):
        self.private = private

    def resolve_private_key(self, key_id):
        return self.private


def sign(private, keyid, agent, components=("@authority",), form="dictionary", start=0, life=300, nonce=None):
    """The header fields of a signed GET of PATH at www.example, as pairs. `agent` stands in Signature-Agent in that form; the signature begins `start`
    seconds from now and holds for `life` seconds."""
    headers, covered = dict(FIELDS), list(components)
    if agent:
        headers["Signature-Agent"] = f'sig1="{agent}"' if form == "dictionary" else f'"{agent}"'
        covered.append('"signature-agent";key="sig1"' if form == "dictionary" else "signature-agent")
    message = Message(headers)
    created = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=start)
    signer = HTTPMessageSigner(signature_algorithm=algorithms.ED25519, key_resolver=OneKey(private))
    signer.sign(message, key_id=keyid, created=created, expires=created + datetime.timedelta(seconds=life), nonce=nonce, label="sig1",
                tag="web-bot-auth", covered_component_ids=covered)
    return list(message.headers.items())
