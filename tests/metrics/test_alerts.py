"""Every alert, judged by promtool over series that somebody can read (alerts.py)."""

import json
import pathlib
import re
import subprocess

import alerts
import prometheus
import pytest
import yaml


def rules():
    return [rule for group in yaml.safe_load(prometheus.ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def promtool(*arguments):
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)


def test_promtool_accepts_the_file():
    done = promtool("check", "rules", prometheus.ALERTS)
    assert done.returncode == 0 and f"{len(rules())} rules found" in done.stdout, done.stdout + done.stderr


def test_every_alert_is_shown_to_fire_and_to_be_silent():
    names = {rule["alert"] for rule in rules()}
    assert {name for name, *_, labels in alerts.CASES if labels} == names
    assert {name for name, *_, labels in alerts.CASES if labels is None} == names


def unit_test(name, series, minute, labels):
    """promtool's format; the series ALERTS is what Prometheus writes about alerts."""
    severity = next(rule["labels"]["severity"] for rule in rules() if rule["alert"] == name)
    firing = {"alertname": name, "alertstate": "firing", "severity": severity, **(labels or {})}
    selector = ",".join(f'{key}="{value}"' for key, value in sorted(firing.items()))
    return {"rule_files": [str(prometheus.ALERTS)], "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": [{"series": key, "values": values} for key, values in series.items()],
                       "promql_expr_test": [{"expr": f'ALERTS{{alertname="{name}",alertstate="firing"}}', "eval_time": f"{minute}m",
                                             "exp_samples": [{"labels": f"ALERTS{{{selector}}}", "value": 1}] if labels else []}]}]}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """What promtool says of each case, by number; one run for all."""
    folder = tmp_path_factory.mktemp("alerts")
    files = [folder / f"{number}.json" for number in range(len(alerts.CASES))]
    for file, (name, _, series, minute, labels) in zip(files, alerts.CASES):
        file.write_text(json.dumps(unit_test(name, series, minute, labels)), encoding="utf-8")
    done = promtool("test", "rules", *files)
    said = re.split(r"^Unit Testing: +", done.stdout + done.stderr, flags=re.MULTILINE)
    return {int(pathlib.Path(each.split("\n")[0].strip()).stem): each for each in said if each.strip()}


@pytest.mark.parametrize("number", [pytest.param(number, id=f"{case[0]}: {case[1]}") for number, case in enumerate(alerts.CASES)])
def test_alert(number, verdicts):
    assert re.search(r"^ +SUCCESS$", verdicts[number], re.MULTILINE) and "FAILED" not in verdicts[number], verdicts[number]
