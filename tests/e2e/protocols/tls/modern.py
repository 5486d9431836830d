# SPDX-License-Identifier: BSD-2-Clause
"""Runs a script of tlsfuzzer with the suites that servers of today have: ECDHE and AES-GCM stand in for RSA key exchange, DHE and CBC, and a hello
of the script names groups and signatures. tlsfuzzer's Python runs it; what the scripts show of messages, lengths and alerts stays the same.

usage: modern.py TLSFUZZER SCRIPT [ARGUMENT...]
"""
import re
import runpy
import sys

sys.path.insert(0, sys.argv.pop(1))
sys.argv.pop(0)
import tlsfuzzer.expect as expect
import tlsfuzzer.messages as messages
from tlslite.constants import CipherSuite, ExtensionType, GroupName, SignatureScheme
from tlslite.extensions import SignatureAlgorithmsExtension, SupportedGroupsExtension

OLD = re.compile(r"TLS_(RSA|ECDHE_RSA|DHE_RSA|ECDHE_ECDSA)_WITH_AES_(128|256)_(CBC_SHA(256|384)?|GCM_SHA(256|384))")
ADDED = {
    ExtensionType.supported_groups: SupportedGroupsExtension().create([GroupName.secp256r1, GroupName.x25519]),
    ExtensionType.signature_algorithms: SignatureAlgorithmsExtension().create(
        [SignatureScheme.rsa_pss_rsae_sha256, SignatureScheme.rsa_pkcs1_sha256, SignatureScheme.ecdsa_secp256r1_sha256]),
}
hello, certificate = messages.ClientHelloGenerator.__init__, expect.ExpectCertificate.add_child


def begin(self, *words, **named):
    hello(self, *words, **named)
    self.extensions = {} if self.extensions is None else self.extensions
    for kind, made in ADDED.items():
        self.extensions.setdefault(kind, made)


def follow(self, child):
    """ECDHE has one more message than RSA key exchange."""
    if isinstance(child, expect.ExpectServerHelloDone):
        return certificate(self, expect.ExpectServerKeyExchange()).add_child(child)
    return certificate(self, child)


for name in list(vars(CipherSuite)):
    if old := OLD.fullmatch(name):
        by = "ECDSA" if old[1] == "ECDHE_ECDSA" else "RSA"
        suite = "128_GCM_SHA256" if old[2] == "128" else "256_GCM_SHA384"
        setattr(CipherSuite, name, getattr(CipherSuite, f"TLS_ECDHE_{by}_WITH_AES_{suite}"))
messages.ClientHelloGenerator.__init__ = begin
expect.ExpectCertificate.add_child = follow
runpy.run_path(sys.argv[0], run_name="__main__")
