"""Loop, join and lookup on real brokers, under kill -9: every order comes out once, with what the tables say, and the totals are exact."""

import json
import pathlib
import subprocess

import clients
import verifier
from harness import BIN, Group, wait_until

WORKER = pathlib.Path(__file__).resolve().parent / "flow_worker.py"
MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: {name}}}
spec:
  kafka: {{bootstrapServers: "replaced:1"}}
  inputs: [{{name: orders, topic: {input}}}]
  loop: {{}}
  joins: [{{name: people, topic: {people}}}]
  lookups: [{{name: rates, topic: {rates}}}]
  stores: [{{name: totals}}]
  outputs: [{{name: seen, topic: {output}}}]
  membership: {{sessionTimeout: 6s, rebalanceTimeout: 10s}}
"""
PEOPLE = {f"p{n}": {"city": f"city {n % 3}"} for n in range(12)}
RATES = {"eur": 1, "usd": 2, "chf": 3}


class Flow(Group):
    """Orders between people; the tables are written before anything else."""

    store = "totals"

    def __init__(self, folder, cluster, proxy=None, people_partitions=4, **options):
        super().__init__(folder, cluster, proxy, worker=WORKER, **options)
        self.people, self.rates = f"people-{self.id}", f"rates-{self.id}"
        self.manifest.write_text(MANIFEST.format(name=self.name, input=self.input, output=self.output, people=self.people, rates=self.rates))
        for topic, partitions, rows in ((self.people, people_partitions, PEOPLE), (self.rates, 2, RATES)):
            clients.create_topic(self.config, topic, partitions, cleanup_policy="compact")
            for key, value in rows.items():
                self.producer.produce(topic, json.dumps(value), key)
        assert self.producer.flush(60) == 0

    def order(self, count, seed):
        orders = [{"to": seed.choice(sorted(PEOPLE)), "unit": seed.choice(sorted(RATES)), "amount": seed.randrange(100)} for _ in range(count)]
        for order in orders:
            order["n"] = next(self.numbers)
            self.producer.produce(self.input, json.dumps(order), seed.choice(sorted(PEOPLE)))
        assert self.producer.flush(60) == 0
        self.produced += count

    def check(self):
        """Against the orders as they lie in the topic. The order in which a person's come is not defined: they are of several tasks."""
        orders = {}
        for _, _, _, key, value, _ in clients.read(self.config, self.input):
            order = json.loads(value)
            orders[order["n"]] = {"n": order["n"], "key": order["to"], "worth": order["amount"] * RATES[order["unit"]],
                                  "of": PEOPLE[key.decode()], "for": PEOPLE[order["to"]]}
        written = clients.read(self.config, self.output)
        totals, seen = {}, []
        for _, _, _, key, value, _ in written:
            row = {**json.loads(value), "key": key.decode()}
            count, worth = totals.get(row["key"], (0, 0))
            totals[row["key"]] = (count + 1, worth + row["worth"])
            assert tuple(row.pop("total")) == totals[row["key"]], (row, totals[row["key"]])
            seen.append(row)
        assert sorted(seen, key=lambda row: row["n"]) == [orders[n] for n in sorted(orders)]
        replay = {}
        for _, _, _, key, value, _ in clients.read(self.config, f"{self.group}-totals-changelog"):
            replay[key.decode()] = tuple(json.loads(value))
        assert replay == totals
        assert {key.decode(): tuple(value) for key, value in self.state().items()} == totals
        assert not (wrong := verifier.check_tail(self.tail, written)), wrong
        offsets = lambda: verifier.check_offsets(self.config, self.group, self.input) + verifier.check_offsets(self.config, self.group, f"{self.group}-loop")
        wait_until(lambda: not offsets(), lambda: "\n".join(offsets()) + self.logs(), 30)


def command(member, *arguments):
    done = subprocess.run([str(BIN / "millstream"), *arguments, "--data", str(member.data)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_orders_go_through_the_loop_once_whoever_is_killed(group, one, seed):
    g = group(one, kind=Flow)
    g.order(200, seed)
    first = g.member(mode="slow")
    for point in ("after-first-append:2", "after-offsets-sent:3", "half-applied-flush:2"):
        if not first.process:
            first.start(mode="slow", crash_at=point)
        done = g.tail.count()
        g.order(100, seed)
        wait_until(lambda: g.tail.count() > done or not first.alive(), g.logs)
        first.kill()
    # Another machine, whose tables and state come from the topics; the owner dies while both share the tasks.
    second = g.member()
    first.start(mode="slow")
    g.order(300, seed)
    wait_until(lambda: first.active() and second.active(), g.logs)
    first.kill()
    g.wait_outputs()
    g.check()

    # Paused: what comes stays in the topic, and state is answered.
    command(second, "tasks", "pause")
    second.wait_condition("Paused")
    before = g.tail.count()
    g.order(50, seed)
    lag = lambda: sum(row["lag"] for row in json.loads(command(second, "tasks", "list", "-o", "json")))
    wait_until(lambda: lag() >= 50, lambda: f"lag {lag()}\n{g.logs()}")
    assert len(g.state()) == len(PEOPLE) and g.tail.count() == before
    command(second, "tasks", "resume")
    g.wait_outputs()
    g.check()
    assert second.stop() == 0, second.log()


def test_a_join_of_other_partitions_is_refused_with_both_numbers(group, one):
    g = group(one, kind=Flow, people_partitions=3)
    member = g.member()
    assert member.wait_exit() == 1
    log = member.log()
    assert f"{g.input} has 4" in log and f"{g.people} has 3" in log and "Make it a lookup" in log, log
