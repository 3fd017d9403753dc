#!/usr/bin/env python3
"""make_corpus.py FOLDER: the fuzzer's seeds, one file per golden frame and one with all of them, whole and in pieces."""
import json
import pathlib
import sys

target = pathlib.Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
frames = pathlib.Path(__file__).parent.parent / "conformance" / "frames"
stream = b""
for path in sorted(frames.rglob("*.json")):  # those of time, hooks and so on are in folders
    content = json.loads(path.read_text())
    frame = bytes.fromhex(content["frame"])
    (target / "-".join(path.relative_to(frames).with_suffix("").parts)).write_bytes(b"\xff" + frame)
    if "refused" not in content:
        stream += frame
(target / "all-whole").write_bytes(b"\xff" + stream)
(target / "all-in-pieces").write_bytes(b"\x00" + stream)
