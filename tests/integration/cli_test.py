"""Every command of `millstream`, from outside. See README.md."""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from rig import BIN, DEADLINE, MANIFEST, Rig, wait_until  # noqa: E402


class CommandTest(Rig):
    """Commands on a folder that nobody holds."""

    def test_version_and_help(self):
        self.assertRegex(self.command("version"), r"^millstream \d+\.\d+\.\d+\n")
        self.assertEqual(json.loads(self.command("version", "-o", "json"))["protocol"], [1, 1])
        self.assertIn("Exit codes", self.command("--help"))
        for name in ("run", "init", "validate", "explain", "produce", "consume", "state", "topics", "tasks", "completion", "version"):
            self.assertIn(name, self.command("--help"))
            self.assertIn("Usage", self.command(name, "--help"))

    def test_wrong_arguments_are_exit_code_2(self):
        self.command(code=2)
        self.command("frobnicate", code=2)
        self.assertIn("'frobnicate' is no command of millstream. It has: run, init,", self.err)
        self.command("consum", "t", code=2)
        self.assertIn("'consum' is no command of millstream; did you mean 'consume'? It has:", self.err)
        self.command("state", "totals", "anna", code=2)
        self.assertIn("'totals' is no command of millstream state. It has: get, scan", self.err)
        self.command("produce", code=2)
        self.command("produce", "t", "--format", "xml", code=2)
        self.command("produce", "t", "--format", "raw", "--key", "a", code=2)
        self.command("produce", "t", "-H", "nothing", code=2, stdin="")
        self.command("consume", "t", "--offset", "somewhere", code=2)
        self.command("run", "-f", self.manifest, "--http", "host:port", code=2)
        self.command("run", "-f", self.manifest, "--secrets", "here", "--", "true", code=2)
        self.assertIn("--secrets is for --kafka", self.err)
        self.command("state", "get", "s", "zz", "--key-format", "hex", code=2)
        self.command("init", "--name", "Not a name", code=2)
        self.assertIn("--help", self.err)

    def test_topics(self):
        self.on_data("topics", "list", code=1)
        self.assertIn("no data folder", self.err)
        self.on_data("topics", "create", "t", "--partitions", 3, "-c", "cleanup.policy=compact")
        self.on_data("topics", "create", "t", code=1)
        self.on_data("topics", "create", "t", "--if-missing")
        self.assertEqual(json.loads(self.on_data("topics", "list", "-o", "json")), [{"topic": "t", "partitions": 3, "offsets": 0, "cleanup": "compact"}])
        self.assertRegex(self.on_data("topics", "list"), r"TOPIC +PARTITIONS.*\nt +3 +0 +compact")
        described = json.loads(self.on_data("topics", "describe", "t", "-o", "json"))
        self.assertEqual(len(described["partitions"]), 3)
        self.assertEqual(described["config"]["cleanup.policy"], "compact")
        self.on_data("topics", "create", "bad/name", code=1)
        self.on_data("topics", "delete", "t")
        self.on_data("topics", "describe", "t", code=1)
        self.on_data("topics", "describe", "t", "-o", "json", code=1)
        self.assertEqual(json.loads(self.err)["error"]["code"], "NOT_FOUND")

    def test_produce_json_and_consume(self):
        lines = ['{"user": "anna", "n": 1, "at": {"ms": 1000}}', '{"user": "bob", "n": 2.50, "at": {"ms": 2000}}', '{"user": 7, "n": 3, "at": {"ms": 3000}}']
        report = json.loads(self.on_data("produce", "t", "--key", "user", "--timestamp", "at.ms", "-H", "source=test", "-o", "json", stdin="\n".join(lines)))
        self.assertEqual((report["records"], report["partitions"]), (3, 4))
        records = self.consume("t")
        self.assertEqual({r["key"] for r in records}, {"anna", "bob", 7})
        self.assertEqual({r["timestamp"] for r in records}, {"1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z", "1970-01-01T00:00:03.000Z"})
        self.assertEqual(records[0]["headers"], [{"name": "source", "value": "test"}])
        raw = self.on_data("consume", "t", "--format", "raw").splitlines()
        self.assertIn(f"bob\t{lines[1]}", raw)  # byte by byte, "2.50" included

    def test_produce_csv(self):
        csv = 'id,name,price,zip,note\n1,"Smith, ""Al""",2.50,00123,\n2,"two\nlines",1e3,9,true\n'
        self.on_data("produce", "t", "--format", "csv", "--key", "id", "--partitions", 1, stdin=csv)
        self.assertEqual([r["value"] for r in self.consume("t")], [
            {"id": 1, "name": 'Smith, "Al"', "price": 2.5, "zip": "00123", "note": None},
            {"id": 2, "name": "two\nlines", "price": 1000.0, "zip": 9, "note": True}])
        self.on_data("produce", "t", "--format", "csv", "--strings", "--delimiter", "\\t", stdin="a\tb\n1\ttrue\n")
        self.assertEqual(self.consume("t", "--offset", "-1")[0]["value"], {"a": "1", "b": "true"})
        self.on_data("produce", "t", "--format", "csv", "--key", "nosuch", code=1, stdin=csv)
        self.assertIn("id, name, price", self.err)

    def test_produce_pairs_nulls_and_base64(self):
        self.on_data("produce", "t", "--format", "keyvalue", "--null", "NULL", "--partitions", 1, stdin="a=1=2\nb=NULL\n=empty\n")
        self.on_data("produce", "t", "--format", "raw", stdin="k\tv\nalone\n")
        self.on_data("produce", "t", "--format", "base64", stdin="-5\t/w==\t-\n0\t-\tAA==\n")
        records = self.consume("t")
        self.assertEqual([(r["key"], r["value"]) for r in records], [
            ("a", "1=2"), ("b", None), ("", "empty"), ("k", "v"), (None, "alone"), ({"base64": "/w=="}, None), (None, "\x00")])
        self.assertEqual(records[5]["timestamp"], "1969-12-31T23:59:59.995Z")
        copied = self.on_data("consume", "t", "--format", "base64")
        self.on_data("produce", "copy", "--format", "base64", "--partitions", 1, stdin=copied)
        self.assertEqual(self.on_data("consume", "copy", "--format", "base64"), copied)

    def test_bad_lines_are_named_and_what_came_before_is_kept(self):
        lines = '{"k": 1}\n{"k": 2}\n{broken\n{"k": 4}\n'
        self.on_data("produce", "t", "--key", "k", code=1, stdin=lines)
        self.assertRegex(self.err, r"line 3: not a JSON value.*2 records")
        self.assertEqual(len(self.consume("t")), 2)
        report = json.loads(self.on_data("produce", "u", "--key", "k", "--skip-bad", "-o", "json", stdin=lines))
        self.assertEqual((report["records"], report["skipped"]), (3, 1))

    def test_where_to_begin_and_end(self):
        self.on_data("produce", "t", "--format", "raw", "--partitions", 1, stdin="".join(f"{i}\n" for i in range(10)))
        values = lambda *arguments: [r["value"] for r in self.consume("t", *arguments)]
        self.assertEqual(values(), list(range(10)))
        self.assertEqual(values("--from-beginning", "-n", 3), [0, 1, 2])
        self.assertEqual(values("--offset", "7"), [7, 8, 9])
        self.assertEqual(values("--offset", "-2"), [8, 9])
        self.assertEqual(values("--offset", "end"), [])
        self.assertEqual(values("--offset", "2200-01-01T00:00:00Z"), [])
        self.assertEqual(values("--partition", "0", "--offset", "9"), [9])
        self.on_data("consume", "t", "--partition", 4, code=1)
        self.on_data("consume", "t", "--offset", 99, code=1)
        self.assertIn("0 to 10", self.err)
        self.on_data("consume", "nosuch", code=1)

    def test_keys_go_where_kafka_clients_send_them(self):
        # From the Java client's test of its murmur2 (positive(murmur2(key)) % 100).
        self.on_data("produce", "t", "--format", "keyvalue", "--partitions", 100, stdin="21=x\nfoobar=x\na-little-bit-long-string=x\n")
        hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}
        self.assertEqual({str(r["key"]): r["partition"] for r in self.consume("t")}, {k: (h & 0x7FFFFFFF) % 100 for k, h in hashes.items()})

    def test_validate_and_explain(self):
        self.assertIn("default/counting is valid", self.command("validate", self.manifest))
        broken = self.folder / "broken.yaml"
        broken.write_text(MANIFEST.replace("topic: in}", "topik: in}"))
        self.command("validate", broken, code=1)
        self.assertIn("broken.yaml:5", self.err)
        self.assertIn("topic", self.err)
        findings = json.loads(self.command("validate", broken, "-o", "json", code=1))
        self.assertTrue(any("topik" in f["path"] or "topik" in f["message"] for f in findings))
        self.assertIn("counts", self.command("explain", "-f", self.manifest))
        self.assertIn("flowchart", self.command("explain", self.manifest, "--mermaid"))
        self.assertIn("processors", json.loads(self.command("explain", "-f", self.manifest, "-o", "json")))
        self.command("run", "-f", broken, "--", "true", code=1)

    def test_init(self):
        self.assertIn("millstream run", self.command("init", self.folder / "My Shop"))
        self.assertIn("name: my-shop", (self.folder / "My Shop" / "processor.yaml").read_text())
        self.command("validate", self.folder / "My Shop" / "processor.yaml")
        self.command("init", self.folder / "My Shop", code=1)
        self.assertIn("--force", self.err)
        report = json.loads(self.command("init", self.folder / "x", "--name", "named", "--lang", "python", "-o", "json"))
        self.assertEqual(report["name"], "named")
        for path in report["files"]:
            self.assertNotIn("__NAME__", pathlib.Path(path).read_text())

    def test_completion(self):
        script = self.folder / "completion"
        script.write_text(self.command("completion", "bash") + "\nCOMP_WORDS=(millstream topics cr) COMP_CWORD=2; _millstream; echo \"${COMPREPLY[@]}\"\n"
                          "COMP_WORDS=(millstream produce --ke) COMP_CWORD=2; _millstream; echo \"${COMPREPLY[@]}\"\n")
        done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=True, timeout=30)
        self.assertEqual(done.stdout.split("\n")[:2], ["create", "--key"], done.stderr)
        self.assertIn("#compdef millstream", self.command("completion", "zsh"))
        self.assertIn("complete -c millstream", self.command("completion", "fish"))
        self.command("completion", "tcsh", code=2)

    def test_data_folder_from_the_environment(self):
        self.command("topics", "create", "t", env={"MILLSTREAM_DATA": str(self.data)})
        self.assertTrue((self.data / "log").is_dir())


class RunTest(Rig):
    """One run, and commands beside it."""

    @staticmethod
    def ready(address):
        try:
            with urllib.request.urlopen(address + "/readyz", timeout=10) as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False

    def test_counts_and_answers_from_a_second_terminal(self):
        self.start("--partitions", "3")
        self.wait_log("In another terminal")
        self.produce([("a", 1), ("b", 1), ("a", 1)])
        self.wait_counts({"a": 2, "b": 1})
        self.assertEqual(self.on_data("state", "get", "counts", "a"), "2\n")
        self.on_data("state", "get", "counts", "nosuch", code=1)
        self.on_data("state", "get", "nosuch", "a", code=1)
        self.assertIn("counts", self.err)
        self.on_data("state", "get", "counts", "a", "--processor", "other", code=1)
        self.assertEqual(self.on_data("state", "get", "counts", "a", "--processor", "counting"), "2\n")
        self.assertEqual(json.loads(self.on_data("state", "scan", "counts", "--prefix", "a", "-o", "json"))["value"], 2)
        self.assertEqual(sorted((r["key"], r["value"]) for r in self.consume("out")), [("a", 1), ("a", 2), ("b", 1)])
        self.assertIn("default.counting-counts-changelog", self.on_data("topics", "list"))
        url = re.search(r"curl (http://\S+/keys/)alice", self.log()).group(1)
        with urllib.request.urlopen(url + "a", timeout=10) as answer:
            self.assertEqual(json.loads(answer.read())["value"], 2)
        wait_until(lambda: self.ready(url.split("/v1/")[0]), "not ready")  # tasks without records open last
        self.stop()
        self.assertIn("everything is committed", self.log())
        # The same answers when nobody holds the folder.
        self.assertEqual(self.counts(), {"a": 2, "b": 1})
        self.assertEqual(self.on_data("state", "get", "counts", "b"), "1\n")
        self.assertEqual(len(self.consume("out")), 3)

    def test_goes_on_where_it_was_after_stop_and_after_kill(self):
        self.produce([("a", 1)] * 50)
        self.start()
        self.wait_counts({"a": 50})
        self.stop(signal.SIGTERM)
        self.produce([("a", 1)] * 30)
        self.start()
        self.wait_counts({"a": 80})
        self.kill()
        self.produce([("a", 1)] * 20)
        self.start()
        self.wait_counts({"a": 100})
        self.stop()
        self.assertEqual([r["value"] for r in self.consume("out")], list(range(1, 101)))

    def test_a_second_run_is_refused_by_pid(self):
        self.start()
        self.wait_log("In another terminal")
        self.on_data("run", "-f", self.manifest, "--", "true", code=1)
        self.assertIn(f"millstream run (pid {self.process.pid})", self.err)
        self.stop()

    def test_a_crashed_worker_starts_again(self):
        self.start()
        self.produce([("a", 1)])
        self.wait_counts({"a": 1})
        for n in (2, 3):
            os.kill(self.worker(), signal.SIGKILL)
            self.wait_log("was killed by signal 9", times=n - 1)
            self.produce([("a", 1)])
            self.wait_counts({"a": n})
        self.stop()

    def test_a_worker_that_ends_is_explained_and_started_again(self):
        self.start(worker=["sh", "-c", "echo hello from the worker; exit 0"])
        self.wait_log("[worker] hello from the worker", times=2)
        self.assertIn("ended with exit code 0", self.log())
        self.stop()

    def test_a_worker_that_cannot_start_ends_the_run(self):
        self.on_data("run", "-f", self.manifest, "--", "no-such-program", code=1)
        self.assertIn("no-such-program: No such file", self.err)

    def test_no_worker_outlives_a_killed_run(self):
        self.start()
        worker = self.worker()
        self.kill()
        wait_until(lambda: not pathlib.Path(f"/proc/{worker}").exists(), "the worker lives on")

    def test_a_second_interrupt_ends_at_once(self):
        self.start(worker=["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
        self.produce([("a", 1)])
        self.wait_log("In another terminal")
        worker = self.worker()
        self.process.send_signal(signal.SIGINT)
        self.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(30)
        self.process = None
        wait_until(lambda: not pathlib.Path(f"/proc/{worker}").exists(), "the worker lives on")

    def test_interrupt_in_the_middle_of_many_records(self):
        self.produce([(f"k{i % 50}", 1) for i in range(20000)])
        self.start()
        wait_until(lambda: self.consume("out", "-n", 1) if "In another terminal" in self.log() else False, self.log)
        self.stop()
        self.start()
        self.wait_counts({f"k{i}": 400 for i in range(50)})
        self.stop()
        self.assertEqual(len(self.consume("out")), 20000)

    def test_follow_survives_restarts_of_the_run(self):
        self.produce([("a", 1)])
        self.start()
        self.wait_counts({"a": 1})
        out = self.folder / "followed"
        with open(out, "wb") as sink:
            follower = subprocess.Popen([str(BIN / "millstream"), "consume", "out", "--follow", "--data", str(self.data)], stdout=sink, stderr=sink)
        self.addCleanup(follower.wait)
        self.addCleanup(follower.kill)
        wait_until(lambda: out.read_text().count('"offset"') == 1, out.read_text)
        self.stop()
        self.produce([("a", 1)])
        self.start()
        wait_until(lambda: out.read_text().count('"offset"') == 2, out.read_text)
        follower.send_signal(signal.SIGINT)
        self.assertEqual(follower.wait(30), 0)
        self.assertEqual([json.loads(line)["value"] for line in out.read_text().splitlines()], [1, 2])
        self.stop()

    def test_watch_restarts_the_worker(self):
        program = self.folder / "app" / "worker.sh"
        program.parent.mkdir()
        program.write_text(f"echo first version\nexec {BIN}/counting_worker\n")
        self.start("--watch", worker=["sh", program])
        self.wait_log("first version")
        self.produce([("a", 1)])
        self.wait_counts({"a": 1})
        program.write_text(f"echo second version\nexec {BIN}/counting_worker\n")
        self.wait_log("second version")
        self.produce([("a", 1)])
        self.wait_counts({"a": 2})
        self.stop()

    def test_a_stopped_task_is_listed_and_goes_on(self):
        program = self.folder / "app" / "worker.sh"
        program.parent.mkdir()
        program.write_text(f"exec {BIN}/counting_worker --fail-key=bad\n")
        self.manifest.write_text(MANIFEST.replace("spec:", "spec:\n  errors: {maxAttempts: 2, backoff: {initial: 10ms, max: 10ms}}"))
        self.start(worker=["sh", program])
        self.wait_log("In another terminal")
        self.produce([("bad", 1), ("a", 1)])
        rows = lambda: json.loads(self.on_data("tasks", "list", "-o", "json"))
        stopped = wait_until(lambda: [row for row in rows() if row["state"] == "stopped"], self.log)
        self.assertIn("told to fail", stopped[0]["error"])
        task = stopped[0]["task"]
        self.assertIn("stopped", self.on_data("tasks", "list", "--processor", "counting"))
        self.on_data("tasks", "restart", (task + 1) % 3, code=1)
        self.on_data("tasks", "restart", 99, code=1)
        program.write_text(f"exec {BIN}/counting_worker\n")
        os.kill(self.worker(), signal.SIGKILL)
        self.wait_log("was killed by signal 9")
        self.assertEqual(json.loads(self.on_data("tasks", "restart", "-o", "json")), {"restarted": [task]})
        self.wait_counts({"bad": 1, "a": 1})
        self.stop()
        self.on_data("tasks", "list", code=1)
        self.assertIn("nothing runs", self.err)

    def test_watch_lets_stopped_tasks_go_on(self):
        program = self.folder / "app" / "worker.sh"
        program.parent.mkdir()
        program.write_text(f"exec {BIN}/counting_worker --fail-key=bad\n")
        self.manifest.write_text(MANIFEST.replace("spec:", "spec:\n  errors: {maxAttempts: 1}"))
        self.start("--watch", worker=["sh", program])
        self.produce([("bad", 1)])
        self.wait_log("1 of 3 tasks stopped")
        program.write_text(f"exec {BIN}/counting_worker\n")
        self.wait_counts({"bad": 1})
        self.stop()

    def test_a_pipeline_of_two_processors(self):
        first = self.folder / "first.yaml"
        first.write_text(MANIFEST.replace("name: counting", "name: first").replace("topic: out", "topic: middle")
                         .replace("outputs: [{", "container: {command: [%s], args: [--output=middle]}\n  outputs: [{" % (BIN / "counting_worker")))
        second = self.folder / "second.yaml"
        second.write_text(MANIFEST.replace("name: counting", "name: second").replace("topic: in", "topic: middle")
                          .replace("outputs: [{", "container: {command: [%s, --input=middle]}\n  outputs: [{" % (BIN / "counting_worker")))
        self.start(worker=False, manifests=[first, second])
        self.wait_log("In another terminal")
        self.produce([("a", 1)] * 5)
        wait_until(lambda: len(self.consume("out")) == 5, self.log)
        self.on_data("state", "get", "counts", "a", code=1)
        self.assertIn("--processor", self.err)
        for name in ("first", "default/second"):
            self.assertEqual(self.on_data("state", "get", "counts", "a", "--processor", name), "5\n")
        self.stop()
        self.on_data("run", "-f", first, "-f", second, "--", "true", code=1)

    def test_no_command_is_explained(self):
        self.on_data("run", "-f", self.manifest, code=1)
        self.assertIn("-- python", self.err)

    def test_topics_that_do_not_fit_are_refused_with_their_numbers(self):
        self.on_data("topics", "create", "out", "--partitions", 5)
        self.on_data("run", "-f", self.manifest, "--", "true", code=1)
        self.assertRegex(self.err, "out has 5 partitions.*create block says 3")
        two = self.folder / "two.yaml"
        two.write_text(MANIFEST.replace("{topic: in}", "{topic: left}, {topic: right}"))
        self.on_data("topics", "delete", "out")
        self.on_data("topics", "create", "left", "--partitions", 2)
        self.on_data("topics", "create", "right", "--partitions", 3)
        self.on_data("run", "-f", two, "--", "true", code=1)
        self.assertRegex(self.err, "left has 2 and right has 3")

    def test_a_group_of_another_processor_is_refused(self):
        self.manifest.write_text(MANIFEST.replace("spec:", "spec:\n  group: shared"))
        self.produce([("a", 1)])
        self.start()
        self.wait_counts({"a": 1})
        self.stop()
        self.manifest.write_text(MANIFEST.replace("spec:", "spec:\n  group: shared").replace("name: counting}", "name: other}"))
        self.on_data("run", "-f", self.manifest, "--", "true", code=1)
        self.assertIn("GroupOwnedByAnother", self.err)
        self.assertIn("local/default/counting", self.err)

    def test_status_line_on_a_terminal(self):
        primary, secondary = pty.openpty()
        self.addCleanup(os.close, primary)
        self.process = subprocess.Popen([str(BIN / "millstream"), "run", "-f", str(self.manifest), "--data", str(self.data), "--", str(BIN / "counting_worker")],
                                        stdin=subprocess.DEVNULL, stdout=secondary, stderr=secondary)
        os.close(secondary)
        seen = b""
        end = time.monotonic() + 30
        while b"records/s" not in seen and time.monotonic() < end:
            seen += os.read(primary, 65536)
        self.assertRegex(seen.decode(errors="replace"), r"counting: .*records/s  lag")
        self.process.send_signal(signal.SIGINT)
        while self.process.poll() is None and time.monotonic() < end + 30:
            try:
                seen += os.read(primary, 65536)
            except OSError:
                break
        self.assertEqual(self.process.wait(30), 0)
        self.process = None

    def test_json_status(self):
        self.start("-o", "json")
        wait_until(lambda: '"recordsPerSecond"' in self.log(), self.log)
        line = next(line for line in self.log().splitlines() if line.startswith("["))
        self.assertEqual(json.loads(line)[0]["processor"], "counting")
        self.stop()


class SidecarTest(Rig):
    """`millstream-sidecar`: the same processor, with a worker that somebody else started."""

    def start_sidecar(self, *arguments):
        """With a worker, which is returned."""
        socket = self.folder / "w.sock"
        self.log_path = self.folder / "sidecar.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([str(BIN / "millstream-sidecar"), "--manifest", str(self.manifest), "--data", str(self.data), "--socket",
                                             str(socket), "--http-port", "0", *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_log("the sidecar runs")
        worker = subprocess.Popen([str(BIN / "counting_worker")], env=dict(os.environ, MILLSTREAM_SOCKET=str(socket)))
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        return worker

    def ask(self, path):
        url = "http://" + re.search(r'"http":"([^"]+)"', self.log()).group(1)
        with urllib.request.urlopen(url + path, timeout=10) as answer:
            return json.loads(answer.read())

    def drain_hook(self):
        return subprocess.run([str(BIN / "millstream-sidecar"), "drain", "--data", str(self.data)], capture_output=True, text=True, timeout=DEADLINE)

    def test_orders_in_a_file(self):
        self.produce([("a", 1)] * 3)
        orders = self.folder / "orders"
        self.start_sidecar("--orders", orders)
        wait_until(lambda: self.ask("/v1/tasks")["lag"] == {"records": 0, "seconds": 0} and self.ask("/v1/tasks")["ready"], self.log)
        orders.write_text('{"drain":true}')
        wait_until(lambda: self.ask("/v1/tasks")["drain"] == "Drained", self.log)
        self.assertEqual(self.ask("/v1/tasks")["summary"], {"total": 3, "active": 0, "restoring": 0, "standby": 0, "stopped": 0})
        orders.write_text('{"drain":"no"}')
        wait_until(lambda: [c["reason"] for c in self.ask("/v1/tasks")["conditions"]] == ["OrdersUnreadable"], self.log)
        self.assertEqual(self.ask("/v1/tasks")["drain"], "Drained")
        orders.unlink()
        wait_until(lambda: self.ask("/v1/tasks")["summary"]["active"] == 3, self.log)
        self.assertEqual(self.ask("/v1/stores/counts/keys/a")["value"], 3)
        self.assertIsNone(self.ask("/v1/tasks")["orders"])
        self.stop(signal.SIGTERM)

    def test_the_hook_drains_and_the_worker_is_let_go(self):
        self.produce([("a", 1)] * 3)
        self.assertEqual(self.drain_hook().returncode, 1)
        worker = self.start_sidecar()
        wait_until(lambda: self.ask("/v1/tasks")["summary"]["active"] == 3 and self.ask("/v1/tasks")["lag"]["records"] == 0, self.log)
        worker.terminate()  # as the kubelet, beside the hook
        done = self.drain_hook()
        self.assertEqual(done.returncode, 0, done.stderr + self.log())
        worker.wait(DEADLINE)
        self.wait_log("drained: waiting for the signal to end")
        self.assertIsNone(self.process.poll())
        self.stop(signal.SIGTERM)
        self.assertEqual(self.counts(), {"a": 3})

    def test_serves_a_worker_and_drains(self):
        self.produce([("a", 1)] * 3)
        self.start_sidecar()
        self.on_data("run", "-f", self.manifest, "--", "true", code=1)
        self.assertIn(f"millstream-sidecar (pid {self.process.pid})", self.err)
        self.wait_log("worker connected")
        time.sleep(0.5)
        self.stop(signal.SIGTERM)
        self.assertEqual(self.counts(), {"a": 3})

    def test_without_a_log_it_says_what_is_missing(self):
        on_kafka = ["--manifest", str(self.manifest), "--state", str(self.data)]
        for arguments, code, text in ((on_kafka, 1, "bootstrapServers"), ([*on_kafka, "--kafka", "somewhere"], 1, "somewhere"),
                                      (["--kafka", "localhost:1", "--data", "d"], 2, "excludes")):
            done = subprocess.run([str(BIN / "millstream-sidecar"), *arguments], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
