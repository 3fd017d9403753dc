"""What crds/streamprocessors.yaml is made of: its schema fields, and the functions, operators and variables of its CEL rules."""

import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRD = ROOT / "crds" / "streamprocessors.yaml"
RELEASES = ROOT / "crds" / "releases.yaml"
STRING = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
OPERATOR = re.compile(r"&&|\|\||[=!<>]=|[!<>+\-*/%?:]|\bin\b")


def load(path=CRD):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def nodes(schema, path=""):
    """(path, node) of every schema below this one, itself first."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from nodes(schema[word], f"{path}[]")
    for word in ("anyOf", "oneOf", "allOf"):
        for child in schema.get(word, []):
            yield from nodes(child, path)
    if "not" in schema:
        yield from nodes(schema["not"], path)


def rules(schema):
    """(path, rule) of every CEL rule."""
    return [(path, rule["rule"]) for path, node in nodes(schema) for rule in node.get("x-kubernetes-validations", [])]


def used(crd):
    """What it uses, sorted into the sections of releases.yaml: {section: set of words}."""
    version = crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    found = {"resource": set(crd["spec"]), "version": set(version), "schema": set(), "validation": set(), "formats": set(), "variables": set(),
             "functions": set(), "operators": set()}
    for _, node in nodes(schema):
        found["schema"] |= set(node)
        if isinstance(node.get("format"), str):
            found["formats"].add(node["format"])
        for rule in node.get("x-kubernetes-validations", []):
            found["validation"] |= set(rule)
    for _, rule in rules(schema):
        bare = STRING.sub("''", rule)
        found["functions"] |= set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", bare)) - {"in"}
        found["operators"] |= set(OPERATOR.findall(bare))
        found["variables"] |= set(re.findall(r"(?<![\w.])(self|oldSelf)\b", bare))
    return found
