"""A certificate authority that lives as long as one cluster: certificates for brokers and clients, and the key that signs OAUTHBEARER tokens."""

import base64
import json
import pathlib
import subprocess
import time


def openssl(*arguments, data=None):
    done = subprocess.run(["openssl", *map(str, arguments)], input=data, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {' '.join(map(str, arguments))}: {done.stderr.decode(errors='replace')}")
    return done.stdout


class Authority:
    """Writes PEM files into `folder`: ca.pem, and NAME.pem with NAME.key for every certificate issued."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ca = self.folder / "ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=testbed",
                "-keyout", self.folder / "ca.key", "-out", self.ca)

    def issue(self, name, hosts=()):
        """(certificate file, key file) for CN=name; with hosts (DNS names, addresses) also for a server there."""
        certificate, key, request = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        names = ",".join(f"IP:{host}" if host.replace(".", "").isdigit() else f"DNS:{host}" for host in hosts)
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n", encoding="ascii")
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial", "-days", "30",
                "-extfile", extensions, "-out", certificate)
        return certificate, key

    def keystore(self, name, hosts=()):
        """One file with key and certificate, as a broker's PEM key store wants it."""
        certificate, key = self.issue(name, hosts)
        store = self.folder / f"{name}.store.pem"
        store.write_bytes(key.read_bytes() + certificate.read_bytes())
        return store


def base64url(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class TokenKey:
    """An RSA key that signs JSON web tokens (RS256); jwks.json in `folder` is its public half, for the brokers."""

    def __init__(self, folder):
        self.key = pathlib.Path(folder) / "token.key"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.key)
        modulus = openssl("rsa", "-in", self.key, "-noout", "-modulus").decode().strip().split("=")[1]
        self.jwks = pathlib.Path(folder) / "jwks.json"
        self.jwks.write_text(json.dumps({"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": base64url(bytes.fromhex(modulus)),
                                                   "e": base64url(b"\x01\x00\x01")}]}), encoding="ascii")

    def token(self, subject, issuer, audience, scope, lifetime=300):
        now = int(time.time())
        claims = {"sub": subject, "iss": issuer, "aud": audience, "scope": scope, "iat": now, "exp": now + lifetime}
        signed = ".".join(base64url(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT", "kid": "1"}, claims))
        return f"{signed}.{base64url(openssl('dgst', '-sha256', '-sign', self.key, data=signed.encode()))}"
