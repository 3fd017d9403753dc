"""Alerts have runbooks, runbooks have alerts."""

import re

import chart
import yaml

RUNBOOKS = chart.ROOT / "docs" / "runbooks"
RUNBOOK_URL = chart.default_values()["metrics"]["prometheusRule"]["runbookUrl"]


def alerts():
    groups = yaml.safe_load((chart.CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert():
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names))
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
    assert pages == {name.lower() for name in names}
    contents = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\w+)\]", contents, re.MULTILINE) == names, "the table of contents, in the order of the alerts"


def test_alerts_say_what_and_how_bad_and_where_to_read():
    for rule in alerts():
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        annotations = rule["annotations"]
        assert annotations["runbook_url"] == f"{RUNBOOK_URL}/{rule['alert'].lower()}.md"
        assert annotations["summary"].endswith(".") and annotations["description"], rule["alert"]
        assert "namespace" in annotations["summary"], "which one it is about"


def test_runbooks_say_what_to_look_at_and_what_to_do():
    for path in RUNBOOKS.glob("m*.md"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Look", "Do"], path.name
