"""lag, reset, dead-letters and adopt on a data folder, beside a running processor and without one; the real program, from outside."""

import json
import re
import unittest

from rig import BIN, Rig, wait_until

DEAD_LETTERS = "  errors: {maxAttempts: 1, backoff: {initial: 10ms, max: 10ms}, onFailure: DeadLetter}\n"


class ToolsTest(Rig):
    def lag(self):
        return json.loads(self.on_data("lag", "-o", "json"))

    def wait_no_lag(self):
        wait_until(lambda: self.lag()["lag"] == 0, lambda: f"{self.lag()}\n{self.log()}")

    def letters(self, *arguments):
        return [json.loads(line) for line in self.on_data("dead-letters", "list", "-o", "json", *arguments).splitlines()]

    def test_lag_beside_a_run_and_without_one(self):
        self.produce([("a", 1), ("b", 1)])
        self.assertIn("which processor", self.on_data("lag", code=1) + self.err)
        self.start()
        self.wait_counts({"a": 1, "b": 1})
        self.wait_no_lag()
        report = self.lag()
        self.assertEqual(report["state"], "Stable")
        self.assertEqual(len(report["members"]), 1)
        self.assertEqual([(row["topic"], row["partition"]) for row in report["partitions"]], [("in", 0), ("in", 1), ("in", 2)])
        self.stop()
        self.produce([("a", 1)] * 5)
        self.assertEqual(self.lag()["lag"], 5)
        self.assertIn("0 members, lag 5", self.on_data("lag"))
        self.assertEqual(json.loads(self.on_data("lag", "--group", "default.counting", "-o", "json"))["lag"], 5)

    def test_a_reset_counts_every_record_once_again(self):
        self.produce([("a", 1), ("b", 1), ("a", 1)])
        self.start()
        self.wait_counts({"a": 2, "b": 1})
        refused = self.on_data("reset", "--to", "earliest", "--execute", code=1) + self.err
        self.assertIn("group default.counting has members: local-", refused)
        self.assertIn("--execute will be refused", self.on_data("reset", "--to", "earliest"))
        self.wait_no_lag()
        self.stop()
        before = self.lag()
        self.assertIn("nothing was changed", self.on_data("reset", "--to", "earliest"))
        self.assertEqual(self.lag(), before)
        self.assertEqual(self.counts(), {"a": 2, "b": 1})

        done = json.loads(self.on_data("reset", "--to", "earliest", "--execute", "-o", "json"))["done"]
        self.assertEqual(done["tasks"], [0, 1, 2])
        self.assertEqual(self.counts(), {})
        self.produce([("a", 1)])
        self.start()
        self.wait_counts({"a": 3, "b": 1})
        self.wait_no_lag()
        self.stop()
        # Outputs of the first run are there still: 3, and 4 of the second.
        self.assertEqual(len(self.consume("out")), 7)

    def test_keeping_state_counts_twice_and_one_task_can_be_reset_alone(self):
        self.produce([("a", 1), ("a", 1), ("b", 1)])
        self.start()
        self.wait_counts({"a": 2, "b": 1})
        self.wait_no_lag()
        self.stop()
        partition = {record["key"]: record["partition"] for record in self.consume("in")}
        self.assertNotEqual(partition["a"], partition["b"])
        self.on_data("reset", "--to", "earliest", "--keep-state", "--partition", partition["a"], "--execute")
        self.start()
        self.wait_counts({"a": 4, "b": 1})
        self.wait_no_lag()
        self.stop()
        self.on_data("reset", "--by", "-1", "--partition", partition["b"], "--execute")
        self.start()
        self.wait_no_lag()
        self.wait_counts({"a": 4, "b": 1})

    def test_state_over_http(self):
        self.produce([("a", 1), ("b", 1), ("a", 1)])
        self.start("--http", "127.0.0.1:0")
        self.wait_counts({"a": 2, "b": 1})
        url = re.search(r"http://[0-9.]+:[0-9]+", self.log()).group(0)
        self.assertEqual(self.command("state", "get", "counts", "a", "--url", url).strip(), "2")
        rows = [json.loads(line) for line in self.command("state", "scan", "counts", "-o", "json", "--url", url + "/").splitlines()]
        self.assertEqual({row["key"]: row["value"] for row in rows}, {"a": 2, "b": 1})
        self.command("state", "get", "counts", "c", "--url", url, code=1)
        self.command("state", "get", "other", "c", "--url", url, code=1)
        self.assertIn("stores: counts", self.err)
        self.command("state", "get", "counts", "a", "--url", "http://127.0.0.1:1", code=1)

    def test_wrong_resets_are_explained(self):
        self.produce([("a", 1)])
        self.start()
        self.wait_counts({"a": 1})
        self.stop()
        for arguments, words in [((), "where to?"), (("--to", "soon"), "RFC 3339"), (("--to", "earliest", "--input", "other"), "there are in")]:
            self.on_data("reset", *arguments, code=2)
            self.assertIn(words, self.err)
        self.on_data("reset", "--to", "99", code=1)
        self.assertIn("holds the offsets", self.err)
        self.on_data("reset", "--to", "latest", "--partition", "7", code=1)
        self.assertIn("partitions 0 to 2", self.err)

    def test_dead_letters_are_sent_back_once(self):
        self.manifest.write_text(self.manifest.read_text() + DEAD_LETTERS)
        self.produce([("good", 1), ("bad", 1), ("bad", 2)])
        self.start(worker=[BIN / "counting_worker", "--fail-key=bad"])
        self.wait_counts({"good": 1})
        wait_until(lambda: len(self.letters()) == 2, lambda: self.log())
        self.assertEqual({letter["origin"]["topic"] for letter in self.letters()}, {"in"})
        self.assertEqual([letter["value"] for letter in self.letters()], [1, 2])
        self.wait_no_lag()
        self.stop()

        self.assertIn("2 dead letters to send back; nothing was sent", self.on_data("dead-letters", "replay"))
        self.start()  # repaired
        self.assertIn("1 dead letter, and more beyond --limit sent back", self.on_data("dead-letters", "replay", "--execute", "--limit", "1"))
        self.assertIn("1 dead letter sent back", self.on_data("dead-letters", "replay", "--execute"))
        self.assertIn("0 dead letters sent back", self.on_data("dead-letters", "replay", "--execute"))
        self.wait_counts({"good": 1, "bad": 2})
        self.assertEqual(self.letters(), [])
        self.assertEqual([letter["replayed"] for letter in self.letters("--all")], [True, True])
        self.assertEqual(len(self.consume("in")), 5)

    def test_a_renamed_processor_adopts_its_group(self):
        text = self.manifest.read_text().replace("spec:\n", "spec:\n  group: counting-group\n")
        self.manifest.write_text(text)
        self.produce([("a", 1)])
        self.start()
        self.wait_counts({"a": 1})
        self.wait_no_lag()
        self.stop()
        self.manifest.write_text(text.replace("name: counting}", "name: renamed}"))
        self.start()
        self.assertEqual(self.process.wait(60), 1)
        self.assertIn("GroupOwnedByAnother", self.log())
        self.process = None
        self.assertIn("local/default/counting", self.on_data("adopt", "-f", self.manifest))
        self.assertIn("adopted", self.on_data("adopt", "-f", self.manifest, "--execute"))
        self.assertIn("belongs to local/default/renamed already", self.on_data("adopt", "-f", self.manifest))
        self.produce([("a", 1)])
        self.start()
        self.wait_counts({"a": 2})
        self.assertEqual(self.on_data("state", "get", "counts", "a", "--processor", "renamed"), "2\n")


if __name__ == "__main__":
    unittest.main()
