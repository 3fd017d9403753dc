"""Tests without a sidecar: pip install 'millstream[testing]' pytest, then pytest."""

from pathlib import Path

from millstream.testing import TestKit

from app import app

MANIFEST = Path(__file__).with_name("processor.yaml")


def test_counts_per_key():
    kit = TestKit(app, MANIFEST)
    for word in ("tea", "milk", "tea"):
        kit.feed("words", {"word": word}, key=word)
    assert dict(kit.state("counts")) == {"milk": 1, "tea": 2}
    assert [(o.key, o.value) for o in kit.outputs("word-counts")] == [
        ("tea", {"count": 1}), ("milk", {"count": 1}), ("tea", {"count": 2}),
    ]
