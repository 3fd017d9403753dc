"""What alerts and dashboard ask for exists, in a real scrape of a real processor by a real Prometheus."""

import json
import pathlib
import re
import sys

import prometheus
import pytest
import yaml

sys.path[:0] = [str(prometheus.ROOT / "tests" / "kafka"), str(prometheus.ROOT / "tests" / "testbed" / "kafka")]
import brokers  # noqa: E402
import harness  # noqa: E402

METRIC = re.compile(r"\bmillstream_[a-z0-9_]+")
OF_THE_OPERATOR = "millstream_operator_"


def alert_expressions():
    groups = yaml.safe_load(prometheus.ALERTS.read_text(encoding="utf-8"))["groups"]
    return {f"alert {rule['alert']}": rule["expr"] for group in groups for rule in group["rules"]}


def dashboard():
    return json.loads(prometheus.DASHBOARD.read_text(encoding="utf-8"))


def dashboard_expressions():
    """As Grafana sends them with everything selected."""
    found = {}
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for variable, value in (("$__rate_interval", "30s"), ("$namespace", ".*"), ("$processor", ".*")):
                expression = expression.replace(variable, value)
            assert "$" not in expression, expression
            found[f"panel {panel['title']} {target['refId']}"] = expression
    return found


def used(expressions):
    """{metric: [who asks for it]}"""
    asked = {}
    for who, expression in expressions.items():
        for name in METRIC.findall(expression):
            asked.setdefault(name.removesuffix("_bucket"), []).append(who)
    return asked


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """A Prometheus that sees a processor whose program crashed, failed, and was stopped by a record: (prometheus, group)."""
    folder = tmp_path_factory.mktemp("scrape")
    with brokers.Cluster(folder / "kafka") as cluster:
        group = harness.Group(folder, cluster)
        member = group.member()
        try:
            group.produce(50)
            group.wait_outputs()
            labels = {"namespace": "shop", "pod": f"{group.name}-0"}
            with prometheus.Prometheus(folder / "prometheus", [(member.port, labels)]) as server:
                harness.wait_until(lambda: server.query("millstream_records_total > 0"), "Prometheus scrapes the sidecar")
                group.produce(20)
                group.wait_outputs()
                group.produce(1, trouble="fail")
                harness.wait_until(lambda: "stopped" in member.tasks().values(), lambda: f"a task stops\n{member.log()}")
                harness.wait_until(lambda: server.query('millstream_tasks{state="stopped"} > 0'), "Prometheus sees the stopped task")
                yield server, group
        finally:
            group.close()


def test_every_metric_that_is_asked_for_exists(scraped):
    server, _ = scraped
    there = server.names()
    asked = used({**alert_expressions(), **dashboard_expressions()})
    assert len(asked) > 25
    missing = {name: who for name, who in asked.items() if name not in there and not name.startswith(OF_THE_OPERATOR)}
    assert not missing, missing


def test_every_expression_can_be_evaluated(scraped):
    server, _ = scraped
    for who, expression in {**alert_expressions(), **dashboard_expressions()}.items():
        try:
            server.query(expression)
        except ValueError as error:
            pytest.fail(f"{who}: {error}")


def test_panels_show_something(scraped):
    """Those that say how a processor is doing at all; the others may be empty when nothing is wrong."""
    server, _ = scraped
    expressions = dashboard_expressions()
    for title in ("Lag", "Records", "Outputs", "Tasks", "Conditions", "Failures", "Batch at the worker", "Commit", "Where a transaction's time goes, p99", "Transactions",
                  "Tasks that restore", "State in memory", "Workers connected", "Members of the group", "Heartbeat, p99"):
        mine = {who: expression for who, expression in expressions.items() if who.startswith(f"panel {title} ")}
        assert mine, title
        for who, expression in mine.items():
            harness.wait_until(lambda expression=expression: server.query(expression), f"{who} shows something: {expression}")


def test_the_stopped_task_raises_its_alert(scraped):
    server, group = scraped
    harness.wait_until(lambda: server.query(f'ALERTS{{alertname="MillstreamTaskStopped",namespace="shop",processor="{group.name}"}}'), "the alert to be pending or firing")
    assert server.query(f'millstream_condition{{processor="{group.name}",reason="TaskStopped"}} == 1')


def test_the_page_of_metrics_has_everything_that_is_scraped(scraped):
    """docs/reference/metrics.md is made from the source; nothing of ours may be missing in it."""
    server, _ = scraped
    page = (prometheus.ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    documented = set(METRIC.findall(page))
    ours = {re.sub(r"_(bucket|sum|count)$", "", name) for name in server.names() if name.startswith("millstream_")}
    assert ours <= documented, ours - documented


def test_the_dashboard_has_no_two_panels_of_one_place():
    panels = dashboard()["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(places) == len(set(places)) and len({panel["id"] for panel in panels}) == len(panels)
    assert pathlib.Path(prometheus.DASHBOARD).stat().st_size < 200_000
