#!/usr/bin/env python3
"""Writes docs/reference/manifest.md from crds/streamprocessors.yaml: manifest.py [--check].

With --check nothing is written; the exit code is 1 when the page is not what would be written. Needs PyYAML (./dev shell has it).
"""
import re
import sys

import yaml
from generated import ROOT, finish

SOURCE = ROOT / "crds" / "streamprocessors.yaml"
UNSUPPORTED = ROOT / "common" / "spec" / "not_supported_yet.cc"
# Fields that are Kubernetes' own or free; their inside is not listed.
OPAQUE = {"spec.container": "a core/v1 Container of Kubernetes without `name`",
          "spec.podTemplate": "metadata and spec of a core/v1 PodTemplate, merged into what the operator makes",
          "spec.sidecar.resources": "core/v1 ResourceRequirements"}

HEAD = """# The manifest

<!-- Written by tools/docs/manifest.py from crds/streamprocessors.yaml; do not edit. -->

`apiVersion: millstream.dev/v1alpha1`, `kind: StreamProcessor`. The same schema is used by `millstream validate`, by `millstream run` and, in a cluster, by the API server: one
file is accepted or refused the same way by all of them. Unknown fields are refused, with a suggestion. A field whose feature is not built yet is refused by name ("not supported yet").

A small one:

```yaml
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata:
  name: customer-totals
spec:
  inputs:
  - topic: orders
  stores:
  - name: totals
  outputs:
  - topic: customer-totals
    create: {partitions: 4}
```

Durations are written like `100ms`, `15s`, `1h30m`; sizes like `512Ki`, `64Mi`.

"""


def sentence(text):
    return " ".join((text or "").split()).replace("|", "\\|")


def type_of(schema):
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if kind == "object" and "additionalProperties" in schema:
        inner = schema["additionalProperties"]
        return f"map of {type_of(inner)}" if isinstance(inner, dict) else "map"
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    return kind


def bounds_of(schema):
    names = (("minimum", "at least"), ("maximum", "at most"), ("minItems", "at least"), ("maxItems", "at most"))
    parts = [f"{words} {schema[name]}" for name, words in names if name in schema]
    if schema.get("maxLength") and schema.get("type") == "string" and "enum" not in schema:
        parts.append(f"at most {schema['maxLength']} characters")
    return ", ".join(parts)


def rules_of(schema):
    return [sentence(rule.get("message") or rule["rule"]) for rule in schema.get("x-kubernetes-validations", [])]


def unsupported():
    """{path: what the page says} of the fields that the programs refuse, from the table they use themselves."""
    text = UNSUPPORTED.read_text(encoding="utf-8")
    rows = re.findall(r'\{\{("[^}]*")\}, "([^"]*)", "([^"]*)"\}', text)
    if not rows and "new std::vector<Row>{}" not in text:
        sys.exit(f"no table of rows found in {UNSUPPORTED}")
    return {("spec." + ".".join(re.findall(r'"([^"]+)"', path))).replace(".[]", "[]"):
            f"**Not supported yet** ({feature}): leave it out" + (f" or write `{allowed}`." if allowed else ".") for path, allowed, feature in rows}


NOT_YET = unsupported()


def rows_of(path, schema, required):
    """Rows of one field and of what is inside it: (path, type, default, text)."""
    text = sentence(schema.get("description"))
    extra = [part for part in [bounds_of(schema), *rules_of(schema)] if part]
    if extra:
        text += " *" + "; ".join(extra) + ".*"
    if path in NOT_YET:
        text = f"{NOT_YET[path]} {text}"
    default = "required" if required else (f"`{flow(schema['default'])}`" if "default" in schema else "")
    rows = [(path, type_of(schema) if path not in OPAQUE else "object", default, text)]
    if path in OPAQUE:
        return [(path, "object", default, f"{text} Inside: {OPAQUE[path]}.")]
    inner = schema.get("items", schema) if schema.get("type") == "array" else schema
    if inner is not schema and rules_of(inner):
        rows[0] = (*rows[0][:3], rows[0][3] + " *Each: " + "; ".join(rules_of(inner)) + ".*")
    prefix = path + ("[]" if schema.get("type") == "array" else "")
    for name, field in inner.get("properties", {}).items():
        rows += rows_of(f"{prefix}.{name}", field, name in inner.get("required", []))
    return rows


def flow(value):
    if isinstance(value, (dict, list)):
        return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip()
    return {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value


def page():
    crd = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    out = [HEAD]
    for part, title in (("spec", "spec"), ("status", "status (written by the operator)")):
        if part not in root["properties"]:
            continue
        top = root["properties"][part]
        out.append(f"## {title}\n\n{sentence(top.get('description'))}\n")
        rules = rules_of(top)
        if rules:
            out.append("\nRules between fields:\n\n" + "".join(f"- {rule}\n" for rule in rules))
        for name, field in top["properties"].items():
            rows = rows_of(f"{part}.{name}", field, name in top.get("required", []))
            out.append(f"\n### {part}.{name}\n\n| field | type | default | |\n|---|---|---|---|\n")
            out += [f"| `{path.removeprefix(part + '.')}` | {kind} | {default} | {text} |\n" for path, kind, default, text in rows]
        out.append("\n")
    rules = rules_of(root)
    if rules:
        out.append("## Rules of the whole\n\n" + "".join(f"- {rule}\n" for rule in rules))
    return "".join(out).rstrip() + "\n"


def main():
    text = page()
    return finish("manifest.md", text, "./dev shell  and  python tools/docs/manifest.py", f"{len(text.splitlines())} lines")


if __name__ == "__main__":
    sys.exit(main())
