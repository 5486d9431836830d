# SPDX-License-Identifier: BSD-2-Clause
"""tlsfuzzer's scripts that are run. What of one isn't, and why, stands with it; scripts that aren't here ask for what this server
doesn't have: CBC and RSA key exchange, DHE, secp521r1, x448, Brainpool curves, Ed448, CCM, certificate compression, heartbeats, 0-RTT.
tls13-large-number-of-extensions draws contents for extensions that are known here, and these may be refused."""

# The only suites of TLS 1.2 are ECDHE with AEAD.
ECDHE = ("-C", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
ORDER = "tickets come with the end of the handshake, the script expects them behind the answer"
ALERT = "another alert of the same severity, before anything was agreed"
LOST = "who goes on sending megabytes after the end may not see the alert"
LARGE = "a hello has 16 KB at most, as at BoringSSL: what is held for who hasn't shown anything yet is bounded"
# name: (options, what is left out, why)
SCRIPTS = {f"test-{name}.py": more for name, more in {
    "tls13-ccs": ((), (), ""),
    "tls13-conversation": ((), (), ""),
    "tls13-count-tickets": ((), (), ""),
    "tls13-finished-plaintext": ((), ("Unencrypted Finished message",), "bad_record_mac: it can't be opened"),
    "tls13-hrr": ((), (), ""),
    "tls13-invalid-ciphers": ((), (), ""),
    "tls13-keyshare-omitted": ((), ("key_share extension omitted",), ALERT),
    "tls13-keyupdate": ((), (), ""),
    "tls13-keyupdate-from-server": ((), ("post-handshake KeyUpdate msg from server",), ORDER),
    "tls13-no-unknown-groups": ((), (), ""),
    "tls13-nociphers": ((), (), ""),
    "tls13-record-padding": ((), (), ""),
    "tls13-rsa-signatures": ((), tuple(f"tls13 signature rsa_pss_pss_sha{n}" for n in (256, 384, 512)), "the certificate is rsaEncryption"),
    "tls13-session-resumption": ((), ("sanity - TLS 1.2", "session resumption - PSK_ONLY", "use TLS 1.2 ticket in TLS 1.3"),
                                 f"RSA key exchange; {ORDER}"),
    "tls13-unencrypted-alert": ((), (), ""),
    "tls13-zero-length-data": ((), (), ""),
    "ccs": (ECDHE, ("two bytes long CCS",), "decode_error, not unexpected_message"),
    "connection-abort": (ECDHE, (), ""),
    "conversation": (ECDHE, (), ""),
    "cve-2004-0079": (ECDHE, (), ""),
    "cve-2016-6309": (ECDHE, ("Large incorrect ClientHello length", "Large ClientHello padding"), f"{LOST}; {LARGE}"),
    "early-application-data": (ECDHE, (), ""),
    "fuzzed-ciphertext": (ECDHE, (), ""),
    "hello-request-by-client": (ECDHE, (), ""),
    "invalid-client-hello-w-record-overflow": (ECDHE, (), ""),
    "invalid-compression-methods": (ECDHE, (), ""),
    "invalid-content-type": (ECDHE, (), ""),
    "no-mlkem-in-old-tls": (ECDHE, (), ""),
    "record-layer-fragmentation": (ECDHE, ("maximum size: max fragment - 65385B extension", "maximum size without fragmentation: max fragment - 16331B extension",
                                           *(f"big, needs fragmentation: max fragment - {n}B extension" for n in (16335, 16336, 32768))), LARGE),
    "renegotiation-disabled": (ECDHE, (), ""),
    "truncating-of-client-hello": (ECDHE, ('max pad: 16777021 of "0" byte padding',), LOST),
    "version-numbers": (ECDHE, (), ""),
    "zero-length-data": (ECDHE, (), ""),
}.items()}
