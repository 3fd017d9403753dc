"""A real Prometheus on loopback, for as long as a test needs it."""

import json
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "testbed" / "kafka")]
import brokers  # noqa: E402

ALERTS = ROOT / "helm" / "millstream" / "files" / "alerts.yaml"
DASHBOARD = ROOT / "helm" / "millstream" / "files" / "dashboard.json"
DEADLINE = 150.0  # seconds; generous: it only bounds a failing test


class Prometheus:
    """Scrapes `targets`, [(port, {label: value})], every second and judges the chart's alerts. Ends with its owner."""

    def __init__(self, folder, targets):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        # JSON is YAML.
        self.config = self.folder / "prometheus.yml"
        self.config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}, "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": "millstream", "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": labels} for port, labels in targets]}]}),
            encoding="utf-8")
        self.watchdog = self.process = self.port = None

    def __enter__(self):
        self.watchdog = brokers.Watchdog(self.folder)
        for _ in range(3):  # another process may take the port between its choice and its use
            self.port, = brokers.free_ports(1)
            with open(self.folder / "log", "ab") as log:
                self.process = subprocess.Popen(["prometheus", f"--config.file={self.config}", f"--storage.tsdb.path={self.folder}/data",
                                                 f"--web.listen-address=127.0.0.1:{self.port}"],
                                                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            self.watchdog.tell("add", self.process.pid)
            end = time.monotonic() + DEADLINE
            while self.process.poll() is None and time.monotonic() < end:
                if self.ready():
                    return self
                time.sleep(0.1)
            self.kill()
        log = (self.folder / "log").read_text(encoding="utf-8")[-3000:]
        self.watchdog.close()
        raise AssertionError(f"Prometheus does not start\n{log}")

    def __exit__(self, *_):
        self.kill()
        self.watchdog.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.watchdog.tell("end", self.process.pid)

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def query(self, expression):
        """[(labels, value)] of an instant query. ValueError: what Prometheus says against the expression."""
        data = urllib.parse.urlencode({"query": expression}).encode()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query", data=data, timeout=30) as answer:
                result = json.loads(answer.read())["data"]["result"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{expression}: {json.loads(error.read())['error']}") from None
        return [(each["metric"], float(each["value"][1])) for each in result]

    def names(self):
        """Of all metrics there are, histograms without their suffixes too."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/label/__name__/values", timeout=30) as answer:
            found = set(json.loads(answer.read())["data"])
        return found | {name.removesuffix("_bucket") for name in found}
