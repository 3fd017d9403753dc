#!/usr/bin/env python3
"""`kubectl millstream` from outside, against a cluster that is played (fake_cluster.py)."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from fake_cluster import FakeCluster
from rig import BIN, DEADLINE

LABELS = {"app.kubernetes.io/name": "streamprocessor", "app.kubernetes.io/instance": "totals", "app.kubernetes.io/component": "processor"}


def processor(**spec):
    return {"metadata": {"name": "totals", "namespace": "shop", "uid": "u-1", "creationTimestamp": "2024-05-01T10:00:00Z"},
            "spec": {"replicas": 2, "kafka": {"bootstrapServers": "kafka:9092"}, "container": {"image": "shop/totals", "env": [{"name": "URL", "value": "hunter2"}]},
                     **spec},
            "status": {"replicas": 2, "readyReplicas": 1, "tasks": {"running": 2, "total": 3}, "lag": {"records": 1234, "seconds": 75},
                       "conditions": [{"type": "Ready", "status": "False", "reason": "Restoring", "message": "pod totals-1 restores task 1"}]}}


def input_of(task, lag):
    return {"name": "orders", "topic": "orders", "partition": task, "committed": 10, "position": 10, "end": 10 + lag, "lag": lag}


def tasks(**states):
    """/v1/tasks of a pod, tasks as t0="active" ..."""
    rows = [{"task": int(name[1:]), "state": state, "inputs": [input_of(int(name[1:]), 5)] if state == "active" else [], "records": 7} for name, state in states.items()]
    for row in rows:
        if row["state"] == "restoring":
            row["restore"] = {"bytesLeft": 5_000_000}
    counts = {state: sum(row["state"] == state for row in rows) for state in ("active", "restoring", "stopped", "standby")}
    return {"version": "0.1.0", "drain": "No", "summary": {"total": len(rows), **counts}, "lag": {"records": 5, "seconds": 1.5}, "tasks": rows, "conditions": []}


class KubectlTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ms-kubectl-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.cluster = FakeCluster()
        self.addCleanup(self.cluster.close)
        self.kubeconfig = self.cluster.kubeconfig(self.folder / "config")
        self.cluster.add("streamprocessors", processor())
        for ordinal, states in ((0, {"t0": "active", "t1": "idle", "t2": "active"}), (1, {"t0": "idle", "t1": "restoring", "t2": "idle"})):
            self.cluster.add("pods", {"metadata": {"name": f"totals-{ordinal}", "namespace": "shop", "labels": LABELS}, "spec": {"nodeName": f"node-{ordinal}"},
                                      "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ordinal == 0 else "False"}]}})
            self.cluster.sidecars["shop", f"totals-{ordinal}"] = {"/v1/tasks": (200, tasks(**states)), "/metrics": (200, "millstream_lag_records 5\n")}
            self.cluster.logs["shop", f"totals-{ordinal}", "millstream"] = '{"message":"runs","sasl.password":"hunter2"}\n'
        self.cluster.add("statefulsets", {"metadata": {"name": "totals", "namespace": "shop"}, "spec": {"template": {"spec": {
            "serviceAccountName": "totals",
            "initContainers": [{"name": "millstream", "image": "millstream:1", "args": ["--manifest", "/etc/millstream/processor.yaml", "--secrets", "/s"],
                                "volumeMounts": [{"name": "millstream-manifest", "mountPath": "/etc/millstream"}, {"name": "state", "mountPath": "/var/lib/millstream"}]}],
            "volumes": [{"name": "millstream-manifest", "configMap": {"name": "totals"}}]}}}})

    def kubectl(self, *arguments, code=0):
        done = subprocess.run([str(BIN / "kubectl-millstream"), *map(str, arguments), "--kubeconfig", str(self.kubeconfig)], capture_output=True, text=True,
                              timeout=DEADLINE, cwd=self.folder, env={"PATH": os.environ["PATH"], "HOME": str(self.folder)})
        self.out, self.err = done.stdout, done.stderr
        self.assertEqual(done.returncode, code, f"{arguments}\n{self.out}\n{self.err}")
        return self.out

    def spec(self):
        return self.cluster.objects["streamprocessors", "shop", "totals"]

    # ---------------------------------------------------------------- reading

    def test_status_of_all(self):
        self.assertRegex(self.kubectl("status"), r"NAME +READY +REASON +REPLICAS +TASKS +LAG +AGE\ntotals +False +Restoring +1/2 +2/3 +1,234 \(1m15s\) +\d+d\n")
        self.assertIn("NAMESPACE", self.kubectl("status", "-A"))
        self.assertEqual(self.kubectl("status", "-n", "elsewhere"), "no StreamProcessors in namespace elsewhere\n")
        self.assertEqual([each["metadata"]["name"] for each in json.loads(self.kubectl("status", "-o", "json"))], ["totals"])

    def test_status_of_one(self):
        self.cluster.sidecars["shop", "totals-0"]["/v1/tasks"][1]["conditions"] = [{"reason": "TaskStopped", "message": "task 2 is stopped"}]
        del self.cluster.sidecars["shop", "totals-1"]
        out = self.kubectl("status", "totals")
        self.assertIn("pod totals-1 restores task 1", out)
        self.assertRegex(out, r"totals-0 +Running +yes +2 active, 0 restoring, 0 stopped +5 \(1s\) +No +0.1.0 +node-0")
        self.assertRegex(out, r"totals-1 +Running +no +- ")
        self.assertRegex(out, r"totals-0 +TaskStopped +task 2 is stopped")
        self.assertRegex(out, r"totals-1 +NotReached .*connection refused")
        pods = json.loads(self.kubectl("status", "totals", "-o", "json"))["pods"]
        self.assertEqual(pods[0]["sidecar"]["summary"]["active"], 2)
        self.assertIn("connection refused", pods[1]["error"])

    def test_tasks_and_lag(self):
        out = self.kubectl("tasks", "totals")
        self.assertRegex(out, r"0 +totals-0 +active +7 +5 ")
        self.assertRegex(out, r"1 +totals-1 +restoring +7 +0 +5.0 MB")
        rows = [json.loads(line) for line in self.kubectl("tasks", "totals", "-o", "json").splitlines()]
        self.assertEqual([row["pod"] for row in rows], ["totals-0", "totals-1", "totals-0"])
        self.assertRegex(self.kubectl("lag", "totals"), r"orders +0 +10 +15 +5 +totals-0\norders +2 +10 +15 +5 +totals-0\nlag 10\n")

    def test_state_is_asked_of_whoever_has_it(self):
        def key(text):
            return "/v1/stores/sums/keys/" + text.encode().hex()

        value = base64.b64encode(b"12").decode()
        elsewhere = (503, {"error": {"code": "UNAVAILABLE", "message": "not here"}})
        self.cluster.sidecars["shop", "totals-0"][key("alice")] = elsewhere
        self.cluster.sidecars["shop", "totals-1"][key("alice")] = (200, {"value": value, "task": 1})
        self.assertEqual(self.kubectl("state", "get", "totals", "sums", "alice"), "12\n")
        self.cluster.sidecars["shop", "totals-1"][key("bob")] = (404, {"error": {"code": "NOT_FOUND", "message": "no key 'bob'"}})
        self.cluster.sidecars["shop", "totals-0"][key("bob")] = elsewhere
        self.kubectl("state", "get", "totals", "sums", "bob", code=1)
        self.assertIn("no key 'bob'", self.err)
        self.kubectl("state", "scan", "totals", "sums", code=1)
        self.assertIn("task 1 is open in no pod", self.err)
        self.cluster.sidecars["shop", "totals-1"]["/v1/tasks"] = (200, tasks(t0="idle", t1="active", t2="idle"))
        for ordinal, name in ((0, "b"), (1, "a")):
            self.cluster.sidecars["shop", f"totals-{ordinal}"]["/v1/stores/sums/range"] = (200, {"rows": [{"key": name.encode().hex(), "value": value, "task": ordinal}],
                                                                                                  "cursor": None})
        self.assertEqual([json.loads(line)["key"] for line in self.kubectl("state", "scan", "totals", "sums", "-o", "json").splitlines()], ["a", "b"])

    # ---------------------------------------------------------------- changing

    def test_pause_resume_restart_change_one_field(self):
        before = self.spec()["spec"]
        self.kubectl("pause", "totals")
        self.assertEqual(self.spec()["spec"], {**before, "desiredState": "Paused"})
        self.kubectl("resume", "totals")
        self.assertEqual(self.spec()["spec"]["desiredState"], "Running")
        self.kubectl("restart", "totals")
        self.assertRegex(self.spec()["metadata"]["annotations"]["millstream.dev/restartedAt"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        writes = {line.split("?")[0] for line in self.cluster.requests if not line.startswith("GET")}
        self.assertEqual(writes, {"PATCH /apis/millstream.dev/v1alpha1/namespaces/shop/streamprocessors/totals"})

    # ---------------------------------------------------------------- Jobs

    def test_reset_runs_as_a_job_and_is_a_preview_first(self):
        commands = []

        def job(command):
            commands.append(command)
            return 0, "the plan\n"

        self.cluster.job = job
        self.assertEqual(self.kubectl("reset", "totals", "--to", "earliest", "--partition", 3), "the plan\n")
        self.assertEqual(commands, [["millstream", "reset", "--to", "earliest", "--partition=3", "--manifest", "/etc/millstream/processor.yaml",
                                     "--kafka", "kafka:9092", "--secrets", "/s"]])
        self.assertEqual(self.cluster.made("jobs"), [])  # read, and deleted
        self.kubectl("reset", "totals", "--to", "earliest", "--execute", code=1)
        self.assertIn("spec.replicas 2", self.err)
        self.assertIn("--replicas=0", self.err)
        self.assertEqual(len(commands), 1)
        self.cluster.add("streamprocessors", processor(replicas=0))
        self.kubectl("reset", "totals", "--by", "-5", "--execute")
        self.assertIn("--by=-5", commands[1])
        self.assertIn("--execute", commands[1])
        self.kubectl("reset", "totals", code=2)

    def test_a_job_that_fails_says_why_and_its_exit_code_is_passed_on(self):
        self.cluster.job = lambda command: (1, "millstream: AccessDenied: ...\n")
        self.kubectl("dead-letters", "list", "totals", code=1)
        self.assertEqual(self.out, "")
        self.assertIn("AccessDenied", self.err)
        self.cluster.job = lambda command: (0, " ".join(command) + "\n")
        self.assertIn("dead-letters replay --limit=5 --skip-foreign --execute",
                      self.kubectl("dead-letters", "replay", "totals", "--limit", 5, "--execute", "--skip-foreign"))

    # ---------------------------------------------------------------- the rest

    def test_report_has_everything_but_secrets(self):
        self.cluster.denied = {("GET", "events", "")}
        self.kubectl("report", "totals", "--file", "r.tar")
        self.assertIn("events: ", self.err)
        content = {}
        with tarfile.open(self.folder / "r.tar") as tar:
            for member in tar:
                content[member.name.split("/", 1)[1]] = tar.extractfile(member).read().decode()
        self.assertEqual({"about.txt", "processor.json", "statefulset.json", "jobs.json", "volume-claims.json", "missing.txt",
                          *(f"pods/totals-{n}/{name}" for n in (0, 1) for name in ("pod.json", "tasks.json", "metrics.txt", "millstream.log"))}, set(content))
        self.assertNotIn("hunter2", json.dumps(content))
        self.assertIn("<redacted>", content["processor.json"])
        self.assertIn("millstream_lag_records 5", content["pods/totals-1/metrics.txt"])
        self.assertEqual((self.folder / "r.tar").stat().st_mode & 0o777, 0o600)
        self.kubectl("report", "totals", "--file", "r.tar", code=1)  # nothing is written over
        self.assertIn("--file", self.err)

    def test_errors_say_the_way_out(self):
        self.kubectl("status", "nosuch", code=1)
        self.assertIn("no StreamProcessor nosuch in namespace shop; it has: totals", self.err)
        self.cluster.denied = {("GET", "pods", "proxy")}
        self.assertIn("`get` on `pods/proxy`", self.kubectl("status", "totals"))
        self.kubectl("tasks", code=2)
        self.kubeconfig = self.folder / "none"
        self.kubectl("status", code=1)
        self.assertIn("none", self.err)

    def test_the_name_of_the_program_decides(self):
        self.assertIn("kubectl millstream", self.kubectl("--help"))
        done = subprocess.run([str(BIN / "millstream"), "--help"], capture_output=True, text=True, timeout=DEADLINE)
        self.assertNotIn("kubectl", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
