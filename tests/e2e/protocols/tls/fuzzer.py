# SPDX-License-Identifier: BSD-2-Clause
"""tlsfuzzer's scripts that are run: SCRIPTS as their authors run them, MORE with another certificate or by `modern.py`. What of one doesn't hold, and
why, stands with it; APART says why the others aren't run. tls13-large-number-of-extensions draws contents for extensions that are known here, and these
may be refused."""

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
    "tls13-no-unknown-groups": ((), ("long list of unknown (between 4356 and 4611)",), "4588 is X25519MLKEM768"),
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

OLD_TLS = "TLS 1.1 and older"
AGAIN = "renegotiation isn't done"
TICKETS = "TLS 1.2 resumes by tickets, a server keeps no sessions by their numbers, and a resumed handshake gives no new ticket"
SHA1 = "SHA-1 isn't accepted"
LATE = "the ServerHello goes out before the certificate's signature is chosen; then comes handshake_failure"
LISTS = "a list of another server's algorithms"
CURVES = "secp521r1, x448 and finite fields aren't spoken"
NO_ALERT = "the connection ends without an alert"
# name: (certificate, by modern.py, options, patterns of what fails, why)
MORE = {f"test-{name}.py": more for name, more in {
    "aes-gcm-nonces": ("rsa", False, ("-d",), ("sanity", "aes-*"), "CBC, beside AES-GCM alone"),
    "alpn-negotiation": ("rsa", True, ("-d",), ("16269 byte*", "only http/1.*", "renegotiation*", "resumption*"),
                         f"{LARGE}; a client whose protocols aren't known gets HTTP/1.1; {AGAIN}; {TICKETS}"),
    "certificate-malformed": ("clients", False, ECDHE, ("sanity - empty client cert", "Correct cert followed by an empty one"), ALERT),
    "certificate-request": ("clients", False, ECDHE, ("check sigalgs*",), LISTS),
    "certificate-verify": ("clients", False, ECDHE, (), ""),
    "certificate-verify-malformed": ("clients", False, ECDHE, (), ""),
    "certificate-verify-malformed-sig": ("clients", True, ("-d",), ("*sha1", "*SHA-1*"), SHA1),
    "chacha20": ("rsa", True, (), ("*TLS1.1",), OLD_TLS),
    "clienthello-md5": ("rsa", True, (), (), ""),
    "cve-2016-7054": ("rsa", False, ("-C", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"), (), ""),
    "downgrade-protection": ("rsa", True, ("-d",), ("*Protocol (3, 1)", "*Protocol (3, 2)"), OLD_TLS),
    "ecdsa-in-certificate-verify": ("ecdsa clients", True, (), ("make sha*+ecdsa signature*",), f"{ALERT}; P-256 goes with SHA-256"),
    "ecdsa-sig-flexibility": ("ecdsa", False, ("-C", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"), ("connect with sha*",), f"{SHA1}; P-256 goes with SHA-256"),
    "empty-extensions": ("rsa", True, (), (), ""),
    "extended-master-secret-extension": ("rsa", True, ("-d",), ("*TLSv1.1", "*renegotiat*", "EMS with session resume*"), f"{OLD_TLS}; {AGAIN}; {TICKETS}"),
    "extended-master-secret-extension-with-client-cert": ("clients", True, ("-d",), ("resume with*",), TICKETS),
    "fallback-scsv": ("rsa", True, ("-d",), ("*TLSv1.[01]*",), OLD_TLS),
    "fuzzed-finished": ("rsa", True, (), (), ""),
    "interleaved-CKE-with-CCS": ("rsa", False, ECDHE, ("*interleaved ClientKeyExchange*",), NO_ALERT),
    "invalid-cipher-suites": ("rsa", True, (), (), ""),
    "invalid-client-hello": ("rsa", True, (), (), ""),
    "invalid-server-name-extension": ("rsa", True, ("-d",), ("SNI name with*", "incorrect SNI", "multiple*"),
                                      f"{ALERT}; a name that nobody has gets the default certificate, as from hitch; names of one kind may not be several"),
    "invalid-server-name-extension-resumption": ("rsa", True, ("-d",), ("Sanity check, bad SNI", "session resume*"), f"{ALERT}; {TICKETS}"),
    "invalid-session-id": ("rsa", True, (), (), ""),
    "invalid-version": ("rsa", True, (), (), ""),
    "large-number-of-extensions": ("rsa", True, ("-d",), ("[48]* extensions", "163* extensions"), LARGE),
    "message-duplication": ("rsa", True, (), ("duplicate change cipher spec before Finished",), ALERT),
    "message-skipping": ("rsa", True, ("-d",), ("skip Client Hello",), NO_ALERT),
    "no-heartbeat": ("rsa", True, ("-d",), ("*in handshake*",), NO_ALERT),
    "rsa-pss-sigs-on-certificate-verify": ("clients", True, (), ("rsa_pss_pss*",), ALERT),
    "rsa-sigs-on-certificate-verify": ("clients", True, ("-d",), ("check sha1*",), SHA1),
    "serverhello-random": ("rsa", True, (), ("Protocol (3, [012])*",), OLD_TLS),
    "session-ticket-resumption": ("rsa", True, ("-d",), ("*renegotiation*", "*empty session_id", "*random session_id"), f"{AGAIN}; {TICKETS}"),
    "sig-algs": ("rsa", True, (), ("rsa_pss_pss*",), "the certificate is rsaEncryption"),
    "signature-algorithms": ("rsa", True, (), ("duplicated*", "tolerance*", "explicit SHA-1*"), f"{LARGE}; {SHA1}"),
    "ssl-death-alert": ("rsa", True, ("-d",), ("*getting alert",), NO_ALERT),
    "sslv2-force-cipher": ("rsa", False, (), (), ""),
    "sslv2-force-cipher-3des": ("rsa", False, (), (), ""),
    "sslv2-force-cipher-non3des": ("rsa", False, (), (), ""),
    "sslv2-force-export-cipher": ("rsa", False, (), (), ""),
    "sslv2hello-protocol": ("rsa", True, ("-d",), ("SSLv2 Client Hello",), OLD_TLS),
    "truncating-of-finished": ("rsa", True, (), (), ""),
    "truncating-of-kRSA-client-key-exchange": ("rsa", True, (), (), ""),
    "x25519": ("rsa", True, (), ("*x448*", "only * fallback to DHE", "empty x25519*"), f"{CURVES}; {NO_ALERT}"),
    "tls13-0rtt-garbage": ("rsa", False, (), ("*invalid 0-RTT*",), "early data over TCP isn't taken, nor skipped: the client has to begin again"),
    "tls13-certificate-compression": ("rsa", False, (), ("duplicated algos", "*TLS-1.2"), "a list that names one twice is refused; RSA key exchange"),
    "tls13-certificate-request": ("clients", False, (), ("check sigalgs*", "verify extensions*"), f"{LISTS}; the authorities' names are sent"),
    "tls13-certificate-verify": ("clients", False, (), ("check sigalgs*",), LISTS),
    "tls13-connection-abort": ("rsa", False, (), ("After NewSessionTicket",), ORDER),
    "tls13-crfg-curves": ("rsa", False, (), ("*x448*", "empty x25519*"), f"{CURVES}; {ALERT}"),
    "tls13-dhe-shared-secret-padding": ("rsa", False, (), (), ""),
    "tls13-ecdhe-curves": ("rsa", False, (), ("*secp521r1*", "*x448*"), CURVES),
    "tls13-ecdsa-in-certificate-verify": ("ecdsa clients", False, (), ("check ecdsa_secp384r1*", "check sigalgs*"), f"{ALERT}; {LISTS}"),
    "tls13-empty-alert": ("rsa", False, (), ("empty alert*",), ALERT),
    "tls13-finished": ("rsa", False, (), ("padding*", "truncation*"), ALERT),
    "tls13-legacy-version": ("rsa", False, (), (), ""),
    "tls13-multiple-ccs-messages": ("rsa", False, (), ("*multiple CCS Messages in one TCP packet", "second CCS*"),
                                    "change_cipher_spec is dropped anywhere in the handshake (RFC 8446 5)"),
    "tls13-record-layer-limits": ("rsa", False, (), ("max size of ClientHello*", "max size payload (2**14) of Finished*"), f"{LARGE}; {ALERT}"),
    "tls13-serverhello-random": ("rsa", False, (), ("*ffdhe*", "*secp521r1*", "*x448*"), CURVES),
    "tls13-signature-algorithms": ("rsa", False, (), ("*[0-9][0-9][0-9][0-9] *", "only *"), f"{LARGE}; {LATE}"),
    "tls13-symetric-ciphers": ("rsa", False, (), ("*CCM*",), "CCM isn't spoken"),
    "tls13-zero-content-type": ("rsa", False, (), ("*during handshake",), NO_ALERT),
}.items()}
# name, or a pattern of names: why no script of it is run. With those above, they are all.
APART = {
    "SSLv3-padding, TLSv1_2-rejected-without-TLSv1_2": OLD_TLS,
    "aesccm, atypical-padding, cve-2016-2107, encrypt-then-mac*, fuzzed-MAC, fuzzed-padding, lucky13": "CBC and CCM, which aren't spoken",
    "bleichenbacher-*, invalid-rsa-key-exchange-messages": "RSA key exchange, which isn't spoken",
    "dhe-*, ffdhe-*, tls13-ffdhe-*, unsupported-curve-fallback": "finite fields, which aren't spoken",
    "dsa-*, export-ciphers-rejected": "suites that no version here knows; half of each asks TLS 1.1 and older",
    "client-compatibility": "hellos of browsers until 2015, most of which speak CBC or TLS 1.0 alone",
    "client-hello-max-size, large-hello, tls13-large-number-of-extensions, tls13-shuffled-extentions, tls13-unrecognised-groups": LARGE,
    "ecdhe-*, point-extension": "they expect ec_point_formats from the server, which sends none: then points are uncompressed (RFC 8422 5.1.2)",
    "eddsa-in-certificate-verify, tls13-eddsa*, tls13-ecdsa-support, tls13-rsapss-signatures, tls13-*brainpool*, tls13-mldsa-*":
        "certificates of other kinds, or a tlslite-ng of another version",
    "extensions": "it cuts the one list of RSA key exchange that the server doesn't answer at all",
    "fuzzed-plaintext, tls13-minerva": "CBC; how long a signature takes isn't seen from outside",
    "heartbeat, ocsp-stapling, record-size-limit, tls13-client-certificate-compression, tls13-post-handshake-auth": "extensions that aren't spoken, or need one",
    "interleaved-application-data-*, legacy-renegotiation, openssl-3712, renegotiation-changed-clienthello, renegotiation-disabled-client-cert, "
    "sig-algs-renegotiation-resumption": AGAIN,
    "lengths, tls13-lengths": "they need a server that sends each line back",
    "resumption-with-wrong-ciphers, sessionID-resumption": TICKETS,
    "sslv2-connection": "it expects SSL 2.0",
    "tls13-mlkem": "it needs kyber-py, which has no release with hashes here",
    "tls13-non-support, tls13-version-negotiation": "they expect TLS 1.3 not to be spoken, or RSA key exchange with TLS 1.2",
    "tls13-obsolete-curves": "a curve that is no longer used may stand in a hello: the server chooses another",
    "tls13-pkcs-signature": LATE,
    "tls13-psk_dhe_ke, tls13-psk_ke": "keys that are shared beforehand",
}
