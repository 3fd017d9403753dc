"""Volumes of a pod as folders, written the way a real kubelet writes them: files are links into a folder that is replaced in one step."""

import base64
import itertools
import os
import pathlib
import re
import shutil

WRITE = itertools.count(1)


class NotYet(Exception):
    """Something the pod refers to is not there; the kubelet tries again. `reason` as a kubelet gives it."""

    def __init__(self, reason, message):
        self.reason = reason
        super().__init__(message)


def field(pod, path):
    """The value of a fieldRef, as text."""
    metadata = pod["metadata"]
    key = re.fullmatch(r"metadata\.(annotations|labels)\['(.+)'\]", path)
    if key:
        return metadata.get(key[1], {}).get(key[2], "")
    if path in ("metadata.annotations", "metadata.labels"):
        return "".join(f'{name}="{value}"\n' for name, value in sorted(metadata.get(path.split(".")[1], {}).items()))
    values = {"metadata.name": metadata["name"], "metadata.namespace": metadata["namespace"], "metadata.uid": metadata["uid"],
              "spec.nodeName": pod["spec"].get("nodeName", ""), "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
              "status.podIP": pod.get("status", {}).get("podIP", "")}
    return values[path]


def data_of(thing):
    """{key: bytes} of a ConfigMap or Secret."""
    if thing["kind"] == "Secret":
        return {key: base64.b64decode(value) for key, value in (thing.get("data") or {}).items()}
    return {**{key: value.encode() for key, value in (thing.get("data") or {}).items()},
            **{key: base64.b64decode(value) for key, value in (thing.get("binaryData") or {}).items()}}


def files_of(source, pod, look_up):
    """{path: bytes} of one source. look_up(kind, name) gives the object or None; of kind Token the token of that service account."""
    if "serviceAccountToken" in source:
        return {source["serviceAccountToken"]["path"]: look_up("Token", pod["spec"]["serviceAccountName"]).encode()}
    if "downwardAPI" in source:
        return {item["path"]: field(pod, item["fieldRef"]["fieldPath"]).encode() for item in source["downwardAPI"]["items"]}
    kind, about = ("Secret", source["secret"]) if "secret" in source else ("ConfigMap", source["configMap"])
    name, optional = about.get("name") or about.get("secretName"), about.get("optional", False)
    thing = look_up(kind, name)
    if thing is None:
        if optional:
            return {}
        raise NotYet("FailedMount", f'{kind.lower()} "{name}" not found')
    data = data_of({**thing, "kind": kind})
    if "items" not in about:
        return data
    missing = [item["key"] for item in about["items"] if item["key"] not in data]
    if missing and not optional:
        raise NotYet("FailedMount", f"references non-existent {kind.lower()} key: {missing[0]}")
    return {item["path"]: data[item["key"]] for item in about["items"] if item["key"] in data}


def content(volume, pod, look_up):
    """{path: bytes} of a volume that holds API objects; None: a plain folder (emptyDir, a claim)."""
    if "projected" in volume:
        return {path: data for source in volume["projected"]["sources"] for path, data in files_of(source, pod, look_up).items()}
    if volume.keys() & {"configMap", "secret", "downwardAPI"}:
        return files_of(volume, pod, look_up)
    return None


def write(folder, files):
    """Makes the folder hold these files, in one step; does nothing when it does already."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    current = folder / "..data"
    if current.exists():
        real = current.resolve()
        if {str(path.relative_to(real)): path.read_bytes() for path in real.rglob("*") if path.is_file()} == files:
            return
    new = folder / f"..{next(WRITE)}"
    new.mkdir()
    for path, data in files.items():
        (new / path).parent.mkdir(parents=True, exist_ok=True)
        (new / path).write_bytes(data)
    old = os.readlink(current) if current.is_symlink() else None
    link = folder / "..data_tmp"
    link.symlink_to(new.name)
    link.rename(current)
    tops = {path.split("/")[0] for path in files}
    for entry in folder.iterdir():
        if entry.is_symlink() and not entry.name.startswith("..") and entry.name not in tops:
            entry.unlink()
    for top in tops:
        if not (folder / top).is_symlink():
            (folder / top).symlink_to(f"..data/{top}")
    if old:
        shutil.rmtree(folder / old, ignore_errors=True)
