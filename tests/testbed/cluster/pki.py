"""Certificates of one cluster: an authority and what it signs (P-256, by openssl 3), and kubeconfig files. Valid for a year; the folder lives with
the cluster."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kafka"))
from distribution import Unavailable  # noqa: E402

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "365"]


def openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise Unavailable(f"openssl {arguments[0]} failed:\n{done.stdout[-2000:]}")


class Authority:
    """ca.crt, ca.key, sa.key (service account tokens) and NAME.crt, NAME.key in one folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ca, self.service_accounts = self.folder / "ca.crt", self.folder / "sa.key"
        if not self.ca.exists():
            openssl("req", "-x509", *EC, "-subj", "/CN=kubernetes-ca", "-keyout", self.folder / "ca.key", "-out", self.ca,
                    "-addext", "keyUsage=critical,digitalSignature,keyCertSign,cRLSign")
            openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.service_accounts)

    def issue(self, name, subject, *, server=(), client=True):
        """(certificate, key) for that subject ("/O=group/CN=user"); `server` are subjectAltNames ("IP:127.0.0.1")."""
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        if not certificate.exists():
            usage = ["serverAuth"] * bool(server) + ["clientAuth"] * client
            names = ["-addext", "subjectAltName=" + ",".join(server)] if server else []
            openssl("req", "-x509", *EC, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-subj", subject, "-keyout", key, "-out", certificate,
                    "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "keyUsage=critical,digitalSignature",
                    "-addext", "extendedKeyUsage=" + ",".join(usage), *names)
        return certificate, key


def kubeconfig(path, url, ca, *, certificate=None, token=None, token_file=None, namespace="default"):
    """A kubeconfig file (JSON, which is YAML) for one user: (certificate, key), a token, or a file with one that is read again."""
    user = {"token": token} if token else {"tokenFile": str(token_file)} if token_file else {"client-certificate": str(certificate[0]), "client-key": str(certificate[1])}
    pathlib.Path(path).write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test", "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "test", "user": user}], "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
    }, indent=1), encoding="ascii")
    pathlib.Path(path).chmod(0o600)
    return pathlib.Path(path)
