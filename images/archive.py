"""OCI image archives (https://github.com/opencontainers/image-spec, v1.0), which `ctr images import`, `podman load`, `docker load` (25 or later) and
`skopeo copy oci-archive:` take. The same folder gives the same bytes: names are sorted, owners are root, times are SOURCE_DATE_EPOCH (default 1970)."""

import dataclasses
import gzip
import hashlib
import io
import json
import os
import platform
import stat
import tarfile
from pathlib import Path

import sbom

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
BLOCK = 1 << 20


def epoch():
    return int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


class _Hashing(io.RawIOBase):
    """Passes on what is written, and knows its digest and size."""

    def __init__(self, target):
        super().__init__()
        self.target, self.sha, self.size = target, hashlib.sha256(), 0

    def writable(self):
        return True

    def write(self, data):
        self.target.write(data)
        self.sha.update(data)
        self.size += len(data)
        return len(data)


@dataclasses.dataclass(frozen=True)
class Layer:
    """One packed layer: a file, its digest, size, and digest and size of what is in it."""

    path: Path
    digest: str
    size: int
    unpacked_digest: str
    unpacked_size: int


def pack(folder, path, level=6):
    """The content of a folder as a compressed layer at `path`."""
    with open(path, "wb") as file:
        outer = _Hashing(file)
        with gzip.GzipFile(filename="", fileobj=outer, mode="wb", compresslevel=level, mtime=0) as packed:
            inner = _Hashing(packed)
            with tarfile.open(fileobj=inner, mode="w|", format=tarfile.PAX_FORMAT) as tar:
                for entry in sorted(Path(folder).rglob("*")):
                    _add(tar, entry, entry.relative_to(folder).as_posix())
    return Layer(Path(path), outer.sha.hexdigest(), outer.size, inner.sha.hexdigest(), inner.size)


def _add(tar, entry, name):
    status = entry.lstat()
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(status.st_mode), epoch()
    if stat.S_ISLNK(status.st_mode):
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, os.readlink(entry), 0o777
        tar.addfile(info)
    elif stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif stat.S_ISREG(status.st_mode):
        info.size = status.st_size
        with open(entry, "rb") as file:
            tar.addfile(info, file)
    else:
        raise ValueError(f"{entry} is neither a file, a folder nor a link")


def write(path, reference, layers, *, entrypoint, environment, workdir, user, labels=None):
    """One image of packed layers, the lowest first; returns the digest of its manifest ("sha256:...")."""
    machine = {"architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    run = {"Entrypoint": entrypoint, "Env": environment, "WorkingDir": workdir, "User": user, "Labels": labels or {}}
    config = {"created": sbom.created(), **machine, "config": {key: value for key, value in run.items() if value},
              "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.unpacked_digest}" for layer in layers]},
              "history": [{"created": sbom.created(), "created_by": "images/build.py"} for _ in layers]}
    part = Path(path).with_name(Path(path).name + ".part")
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as tar:
        def text(name, value):
            data = json.dumps(value, sort_keys=True).encode()
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), epoch()
            tar.addfile(info, io.BytesIO(data))

        def blob(value, kind):
            data = json.dumps(value, sort_keys=True).encode()
            digest = hashlib.sha256(data).hexdigest()
            text(f"blobs/sha256/{digest}", value)
            return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

        text("oci-layout", {"imageLayoutVersion": "1.0.0"})
        for layer in {each.digest: each for each in layers}.values():
            info = tarfile.TarInfo(f"blobs/sha256/{layer.digest}")
            info.size, info.mtime = layer.size, epoch()
            with open(layer.path, "rb") as file:
                tar.addfile(info, file)
        manifest = blob({"schemaVersion": 2, "mediaType": MANIFEST, "config": blob(config, CONFIG),
                         "layers": [{"mediaType": LAYER, "digest": f"sha256:{each.digest}", "size": each.size} for each in layers]}, MANIFEST)
        names = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference}
        text("index.json", {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**manifest, "platform": machine, "annotations": names}]})
    part.rename(path)
    return manifest["digest"]
