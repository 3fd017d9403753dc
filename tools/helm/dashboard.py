"""The Grafana dashboard, from a table of panels: dashboard() is what files/dashboard.json of the chart holds."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Chosen at the top of the dashboard. A processor's metrics carry its name; namespace and pod are added by Prometheus.
OF = 'namespace=~"$namespace",processor=~"$processor"'
# Metrics of a process as a whole know no processor: a pod has one.
POD = 'namespace=~"$namespace",pod=~"($processor)-[0-9]+"'


def rate(metric, by="processor", labels=OF):
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def quantile(q, metric, by="processor", labels=OF):
    return f"histogram_quantile({q}, sum by (le, {by}) (rate({metric}_bucket{{{labels}}}[$__rate_interval])))"


# (row, [(title, description, unit, [(expression, legend), ...]), ...])
ROWS = [
    ("Does it keep up?", [
        ("Lag", "Records between what is committed and the ends of the inputs.", "short",
         [(f"sum by (processor) (millstream_lag_records{{{OF}}})", "{{processor}}")]),
        ("Records", "Input records whose effects are committed.", "cps", [(rate("millstream_records_total"), "{{processor}}")]),
        ("Outputs", "Records written to output topics.", "cps", [(rate("millstream_output_records_total"), "{{processor}}")]),
        ("Tasks", "What the partitions are doing. Stopped ones wait for a person.", "short",
         [(f"sum by (processor, state) (millstream_tasks{{{OF}}})", "{{processor}} {{state}}")]),
    ]),
    ("Is something wrong?", [
        ("Conditions", "What a person should know; /v1/tasks of its pods says it in a sentence.", "short",
         [(f"max by (processor, reason) (millstream_condition{{{OF}}}) > 0", "{{processor}} {{reason}}")]),
        ("Failures", "Failed attempts to handle a record.", "cps", [(rate("millstream_record_failures_total", "processor, class"), "{{processor}} {{class}}")]),
        ("Dead letters and skipped records", "Records that were given up.", "cps",
         [(rate("millstream_dead_letters_total"), "{{processor}} dead letters"), (rate("millstream_records_skipped_total"), "{{processor}} skipped")]),
        ("Worker crashes", "Programs that ended or misbehaved with records in hand.", "cps", [(rate("millstream_worker_crashes_total"), "{{processor}}")]),
        ("Late records", "Records behind the grace of every window; and those from the future.", "cps",
         [(rate("millstream_records_late_total"), "{{processor}} late"), (rate("millstream_records_ahead_total"), "{{processor}} ahead")]),
    ]),
    ("How long does it take?", [
        ("Batch at the worker", "From handing a batch to a program to its answer.", "s",
         [(quantile(0.5, "millstream_batch_seconds"), "{{processor}} median"), (quantile(0.99, "millstream_batch_seconds"), "{{processor}} p99")]),
        ("Commit", "From closing a transaction to its known outcome.", "s",
         [(quantile(0.5, "millstream_commit_seconds"), "{{processor}} median"), (quantile(0.99, "millstream_commit_seconds"), "{{processor}} p99")]),
        ("Where a transaction's time goes, p99", "flush: records acknowledged; offsets; commit; apply: state written to the stores.", "s",
         [(quantile(0.99, "millstream_transaction_phase_seconds", "phase"), "{{phase}}")]),
        ("Transactions", "Committed and aborted.", "cps",
         [(rate("millstream_transactions_total"), "{{processor}} committed"), (rate("millstream_transactions_aborted_total"), "{{processor}} aborted")]),
    ]),
    ("State", [
        ("Tasks that restore", "Their state is being read back.", "short", [(f"sum by (pod) (millstream_restoring_tasks{{{POD}}})", "{{pod}}")]),
        ("Left to restore", "Estimated from what was read so far.", "bytes", [(f"sum by (pod) (millstream_restore_left_bytes{{{POD}}})", "{{pod}}")]),
        ("Time left", "Until the last restore under way is done.", "s", [(f"max by (pod) (millstream_restore_left_seconds{{{POD}}})", "{{pod}}")]),
        ("State in memory", "Staged, or committed and not yet on disk; and input records.", "bytes",
         [(f"sum by (processor) (millstream_state_staged_bytes{{{OF}}})", "{{processor}} state"),
          (f"sum by (processor) (millstream_fetched_bytes{{{OF}}})", "{{processor}} input")]),
    ]),
    ("Workers and group", [
        ("Workers connected", "Processes of the program.", "short", [(f"sum by (pod) (millstream_workers_connected{{{POD}}})", "{{pod}}")]),
        ("Members of the group", "As the members see it.", "short", [('max by (group) (millstream_group_members{namespace=~"$namespace"})', "{{group}}")]),
        ("Rebalances", "Generations a member joined.", "short",
         [('sum by (group) (increase(millstream_group_rebalances_total{namespace=~"$namespace"}[$__rate_interval]))', "{{group}}")]),
        ("Heartbeat, p99", "From a heartbeat to its answer.", "s",
         [(quantile(0.99, "millstream_group_heartbeat_seconds", "group", 'namespace=~"$namespace"'), "{{group}}")]),
    ]),
    ("The operator", [
        ("Processors", "By condition, as their status says. Stalled ones wait for a person.", "short",
         [("sum by (condition, status) (millstream_operator_processors)", "{{condition}} {{status}}")]),
        ("Passes", "Looks at one processor, by how they ended.", "cps",
         [("sum by (result) (rate(millstream_operator_reconcile_total[$__rate_interval]))", "{{result}}")]),
        ("Pass, p99", "How long they take; and the longest under way.", "s",
         [("histogram_quantile(0.99, sum by (le) (rate(millstream_operator_reconcile_duration_seconds_bucket[$__rate_interval])))", "p99"),
          ("max(millstream_operator_longest_pass_seconds)", "under way")]),
        ("Calls to the API server", "By verb and answer.", "cps",
         [("sum by (verb, code) (rate(millstream_operator_api_calls_total[$__rate_interval]))", "{{verb}} {{code}}")]),
    ]),
]


def panel(number, title, description, unit, targets, x, y):
    return {
        "id": number, "type": "timeseries", "title": title, "description": description, "datasource": DATASOURCE,
        "gridPos": {"h": 8, "w": 6, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [{"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend}
                    for index, (expression, legend) in enumerate(targets)],
    }


def variable(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": DATASOURCE, "query": {"query": query, "refId": name}, "definition": query,
            "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}


def dashboard():
    panels, y, number = [], 0, 0
    for title, row in ROWS:
        number += 1
        panels.append({"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}})
        y += 1
        for index, (name, description, unit, targets) in enumerate(row):
            number += 1
            panels.append(panel(number, name, description, unit, targets, 6 * (index % 4), y + 8 * (index // 4)))
        y += 8 * ((len(row) + 3) // 4)
    return {
        "uid": "millstream", "title": "Millstream", "tags": ["millstream", "kafka"], "schemaVersion": 39, "version": 1, "editable": True,
        "time": {"from": "now-1h", "to": "now"}, "refresh": "30s", "timezone": "", "annotations": {"list": []}, "links": [],
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}},
            variable("namespace", "Namespace", "label_values(millstream_records_total, namespace)"),
            variable("processor", "Processor", 'label_values(millstream_records_total{namespace=~"$namespace"}, processor)'),
        ]},
        "panels": panels,
    }
