# SPDX-License-Identifier: BSD-2-Clause
"""Certificates for tests, made by openssl's command line when they are needed; none is kept."""
import datetime
import os
import pathlib
import subprocess

KINDS = {
    "ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-pkeyopt", "ec_param_enc:named_curve"],
    "p384": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384", "-pkeyopt", "ec_param_enc:named_curve"],
    "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
    "ed25519": ["-algorithm", "ED25519"],
}
# What `openssl ca` wants to be told; each extension section is a use of a certificate.
CONFIG = """[ca]
default_ca = own
[own]
dir = {dir}
database = {dir}/index
new_certs_dir = {dir}
serial = {dir}/serial
crlnumber = {dir}/crlnumber
certificate = {dir}/cert.pem
private_key = {dir}/key.pem
default_md = sha256
default_days = 30
default_crl_days = 30
policy = any
unique_subject = no
email_in_dn = no
[any]
commonName = supplied
organizationName = optional
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = CA:FALSE
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
{names}
[client]
basicConstraints = CA:FALSE
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
{names}
[request]
distinguished_name = nobody
prompt = no
[nobody]
CN = nobody
"""


def openssl(*words, text=None):
    done = subprocess.run(["openssl", *map(str, words)], input=text, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"openssl {words[0]}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def private(path, text):
    path.write_text(text)
    os.chmod(path, 0o600)
    return path


class Leaf:
    """A certificate with its key. Files: `key`, `cert` alone, `chain` (it and what is between it and the root), `pem` (key and chain)."""

    def __init__(self, directory, chain):
        self.dir = directory
        self.key, self.cert = directory / "key.pem", directory / "cert.pem"
        self.chain = directory / "chain.pem"
        self.chain.write_text(self.cert.read_text() + chain)
        self.pem = private(directory / "pem.pem", self.key.read_text() + self.chain.read_text())

    def fingerprint(self):
        """SHA-256 of the certificate, as hex digits."""
        return openssl("x509", "-in", self.cert, "-noout", "-fingerprint", "-sha256").decode().split("=")[1].strip().replace(":", "").lower()

    def serial(self):
        return openssl("x509", "-in", self.cert, "-noout", "-serial").decode().split("=")[1].strip()


class Authority:
    """One that signs, itself signed by `issuer` or by itself. `cert` is its certificate, `root` that of the topmost."""

    def __init__(self, directory, name="Test Authority", kind="ecdsa", issuer=None):
        self.dir, self.issuer, self.made = pathlib.Path(directory), issuer, 0
        self.dir.mkdir(parents=True, exist_ok=True)
        self.key, self.cert = self.dir / "key.pem", self.dir / "cert.pem"
        openssl("genpkey", *KINDS[kind], "-out", self.key)
        (self.dir / "index").write_text("")
        for counter in ("serial", "crlnumber"):
            # A start that differs between authorities, and has its top bit clear.
            (self.dir / counter).write_text(f"{os.urandom(1)[0] & 0x7f | 0x40:02X}{os.urandom(7).hex().upper()}\n")
        (signer := issuer or self)._sign(self.dir, name, "authority", "", -1, 3650, itself=signer is self)
        self.root = issuer.root if issuer else self.cert

    def _sign(self, directory, name, use, names, starts, ends, itself=False):
        config, request = directory / "sign.conf", directory / "request.pem"
        config.write_text(CONFIG.format(dir=self.dir, names=names))
        openssl("req", "-new", "-config", config, "-section", "request", "-key", directory / "key.pem", "-subj", f"/CN={name}", "-out", request)
        at = [(datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)).strftime("%Y%m%d%H%M%SZ") for days in (starts, ends)]
        openssl("ca", "-batch", "-notext", "-config", config, "-extensions", use, "-in", request, "-out", directory / "cert.pem",
                "-startdate", at[0], "-enddate", at[1], "-md", "sha256", *(["-selfsign"] if itself else []))

    def between(self):
        """The certificates from this authority up to the root, without the root's."""
        return self.cert.read_text() + self.issuer.between() if self.issuer else ""

    def leaf(self, *names, kind="ecdsa", use="server", starts=-1, ends=30, subject=None):
        """A certificate for these names (and addresses); its times are days from now. No names: none but the subject's."""
        self.made += 1
        directory = self.dir / f"leaf{self.made}"
        directory.mkdir()
        openssl("genpkey", *KINDS[kind], "-out", directory / "key.pem")
        os.chmod(directory / "key.pem", 0o600)
        alternatives = ",".join(("IP:" if is_address(name) else "DNS:") + name for name in names)
        self._sign(directory, subject or names[0], use, f"subjectAltName = {alternatives}" if names else "", starts, ends)
        return Leaf(directory, self.between())

    def revoke(self, leaf):
        openssl("ca", "-batch", "-config", leaf.dir / "sign.conf", "-revoke", leaf.cert)

    def revoked(self):
        """A file with the list of what was revoked so far."""
        config = self.dir / "sign.conf"
        config.write_text(CONFIG.format(dir=self.dir, names=""))
        openssl("ca", "-batch", "-config", config, "-gencrl", "-out", self.dir / "crl.pem")
        return self.dir / "crl.pem"


def is_address(name):
    return ":" in name or name.replace(".", "").isdigit()
