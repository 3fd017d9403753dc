#!/usr/bin/env python3
"""tests/fuzz/make_watch_corpus.py FOLDER: seeds of the watch fuzzer, one watch of each kind, each with several sizes of pieces."""
import json
import sys
from pathlib import Path


def event(kind, name=None, version="7", **more):
    metadata = {"resourceVersion": version, **more}
    if name is not None:
        metadata.update(name=name, namespace="orders", uid="0b7f")
    return json.dumps({"type": kind, "object": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}}) + "\n"


WATCHES = {
    "empty": "",
    "life": event("ADDED", "a") + event("MODIFIED", "a", "8") + event("DELETED", "a", "9"),
    "bookmarks": event("BOOKMARK", version="100") + event("BOOKMARK", version="200"),
    "expired": json.dumps({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410,
                                                      "message": "too old resource version: 1 (2)",
                                                      "details": {"retryAfterSeconds": 1, "causes": [{"field": "f", "message": "m"}]}}}) + "\n",
    "unknown-type": event("REWRITTEN", "a"),
    "letters": event("ADDED", "café \U0001f600", labels={"a": "\u0000"}),
    "blank-lines": "\n\n" + event("ADDED", "a") + "\r\n",
    "cut": event("ADDED", "a")[:-20],
    "large": event("ADDED", "a", annotations={"x": "y" * 5000}),
    "no-version": event("ADDED", "a", ""),
}

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, body in WATCHES.items():
    for pieces in (0, 6, 255):
        (folder / f"seed-{name}-{pieces}").write_bytes(bytes([pieces]) + body.encode())
