"""The names a test kit needs from a processor.yaml. The sidecar's own reading of manifests is the full one."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from .errors import ConfigError

ManifestLike = Union[str, "os.PathLike[str]", Mapping[str, Any]]


@dataclass
class Names:
    """What a processor declares, as far as a program sees it. Topics by name for messages only."""

    processor: str
    inputs: Dict[str, str]
    outputs: Dict[str, str]
    stores: List[str] = field(default_factory=list)
    joins: Dict[str, str] = field(default_factory=dict)
    lookups: Dict[str, str] = field(default_factory=dict)
    store_specs: Dict[str, Mapping[str, Any]] = field(default_factory=dict)  # as the manifest has them
    lateness: Dict[str, Any] = field(default_factory=dict)  # per input
    timers: bool = False
    late_policy: str = "Drop"
    visits: Dict[str, str] = field(default_factory=dict)  # the store of each
    external_store: bool = False


def names_of(manifest: ManifestLike, processor: Optional[str] = None) -> Names:
    """Names from a file (YAML or JSON) or an already parsed manifest; `processor` chooses among several in one file."""
    documents = [manifest] if isinstance(manifest, Mapping) else _read(manifest)
    where = "the manifest" if isinstance(manifest, Mapping) else os.fspath(manifest)
    found = [doc for doc in documents if isinstance(doc, Mapping) and doc.get("kind") == "StreamProcessor"]
    if processor is not None:
        found = [doc for doc in found if _name(doc) == processor]
    if len(found) != 1:
        raise ConfigError(
            f"{where} holds {len(found)} StreamProcessors"
            + (f" named {processor!r}" if processor else "; say which one with processor=..." if found else "")
        )
    document = found[0]
    spec = document.get("spec") or {}
    names = Names(
        _name(document), _topics(spec.get("inputs")), _topics(spec.get("outputs")),
        [store["name"] for store in spec.get("stores") or ()],
        _topics(spec.get("joins")), _topics(spec.get("lookups")),
        {store["name"]: store for store in spec.get("stores") or ()},
        {str(entry.get("name") or entry["topic"]): entry.get("lateness") for entry in spec.get("inputs") or ()},
        spec.get("timers") is not None, str(spec.get("latePolicy") or "Drop"),
        {str(visit["name"]): str(visit["store"]) for visit in spec.get("visits") or ()},
        spec.get("externalStore") is not None,
    )
    if spec.get("loop") is not None:
        names.inputs["loop"] = names.outputs["loop"] = f"{names.processor}-loop"
    return names


def _name(document: Mapping[str, Any]) -> str:
    return str((document.get("metadata") or {}).get("name", ""))


def _topics(entries: Optional[Sequence[Mapping[str, Any]]]) -> Dict[str, str]:
    return {str(entry.get("name") or entry["topic"]): str(entry["topic"]) for entry in entries or ()}


def _read(path: Union[str, "os.PathLike[str]"]) -> List[Any]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        pass
    try:
        import yaml
    except ImportError:
        raise ConfigError(
            f"reading {os.fspath(path)} needs PyYAML: pip install 'millstream[testing]'; or give the names in code: "
            "TestKit(app, stores=[...], outputs=[...])"
        ) from None
    return [document for document in yaml.safe_load_all(text) if document is not None]
