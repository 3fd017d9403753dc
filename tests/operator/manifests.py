"""Manifests as tests find them: in files, in folders, in the pages of the documentation."""

import pathlib
import re

import yaml


def files(path):
    return sorted(each for each in path.rglob("*") if each.suffix in (".yaml", ".yml", ".json")) if path.is_dir() else [path]


def namespaces(path):
    """Namespaces that the manifests in a file or folder name, found without parsing: some of them are broken on purpose."""
    return {found for each in files(path) for found in re.findall(r"\bnamespace: *([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)\b",
                                                                  each.read_text(encoding="utf-8", errors="replace"))}


def blocks(page):
    """The YAML blocks of a Markdown page as (line, text)."""
    text = pathlib.Path(page).read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start()) + 1, found[1]) for found in re.finditer(r"^```ya?ml[^\n]*\n(.*?)^```", text, re.M | re.S)]


def documents(text):
    """The documents of one YAML text that are maps."""
    return [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]


def processors(text):
    return [each for each in documents(text) if each.get("kind") == "StreamProcessor"]
