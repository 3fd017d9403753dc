"""What an operator does with a sidecar in a pod: drain and take it back, pause, end it, make and delete its topics."""

import json
import subprocess

import clients
from confluent_kafka.admin import AdminClient
from harness import BIN, DEADLINE, wait_until
from pods import PodGroup


def balanced(first, second):
    wait_until(lambda: len(first.active()) == len(second.active()) == 2, first.group.logs)


def test_a_pod_is_drained_under_load_and_taken_back(group, one):
    """Everything moves one task at a time to the other and back; a long session shows that nobody waits for its end."""
    g = group(one, kind=PodGroup, session_timeout="45s")
    first, second = g.pod(), g.pod()
    balanced(first, second)
    feeder = g.feed(300)
    g.wait_outputs(100)
    first.order(drain=True, state="Running", standbyReplicas=0)
    first.wait_report(drain="Drained", inGroup=False, ready=True, orders={"drain": True, "state": "Running", "standbyReplicas": 0})
    assert first.report()["summary"] == {"total": 4, "active": 0, "restoring": 0, "standby": 0, "stopped": 0}
    g.wait_active(second)
    first.order(drain=False)
    first.wait_report(drain="No", inGroup=True)
    balanced(first, second)
    feeder.close()
    g.finish()


def test_a_drain_is_taken_back_halfway(group, one):
    g = group(one, kind=PodGroup, partitions=8)
    first, second = g.pod(), g.pod()
    wait_until(lambda: len(first.active()) == len(second.active()) == 4, g.logs)
    feeder = g.feed(300)
    first.order(drain=True)
    wait_until(lambda: len(second.active()) > 4, g.logs)
    first.order("")
    first.wait_report(drain="No", orders=None)
    wait_until(lambda: len(first.active()) == len(second.active()) == 4, g.logs)
    feeder.close()
    g.finish()


def test_killed_while_it_drains(group, one):
    """It comes back under the order: it takes its former self out of the group, whose session would hold the tasks for a minute."""
    g = group(one, kind=PodGroup, partitions=8, session_timeout="60s")
    first, second = g.pod(), g.pod()
    wait_until(lambda: len(first.active()) == len(second.active()) == 4, g.logs)
    feeder = g.feed(300)
    first.order(drain=True)
    wait_until(lambda: len(second.active()) > 4, g.logs)
    first.kill()
    first.start()
    first.wait_report(drain="Drained")
    wait_until(lambda: len(second.active()) == 8, g.logs, 40)
    feeder.close()
    g.finish()


def test_paused_and_resumed_by_order(group, one):
    g = group(one, kind=PodGroup)
    pod = g.pod()
    g.wait_active(pod)
    g.produce(50)
    g.wait_outputs()
    pod.order(state="Paused")
    pod.wait_report(state="Paused")
    g.produce(50)
    wait_until(lambda: pod.report()["lag"]["records"] >= 50 and pod.report()["lag"]["seconds"] > 0, pod.log)
    assert g.tail.count() == 50 and pod.report()["inGroup"] and pod.report()["ready"]
    pod.order("no JSON")
    assert "orders: not a JSON object" in pod.wait_condition("OrdersUnreadable")
    assert pod.report()["state"] == "Paused"
    pod.order(state="Running")
    g.wait_outputs()
    assert "OrdersUnreadable" not in pod.conditions()
    g.finish()


def test_a_pod_is_ended_and_comes_back_and_nothing_moves(group, one):
    g = group(one, kind=PodGroup, session_timeout="45s")
    first, second = g.pod(), g.pod()
    balanced(first, second)
    had = second.active()
    feeder = g.feed(300)
    g.wait_outputs(100)
    for _ in range(2):
        assert first.terminate() == (0, 0), first.log()
        first.start()
        first.wait_report(ready=True)
        balanced(first, second)
        assert second.active() == had
    feeder.close()
    g.finish()


def topics(g, *arguments):
    """(exit code, verdict) of `millstream-sidecar topics`; the same verdict is the termination message."""
    log = g.folder / "termination-log"
    done = subprocess.run([BIN / "millstream-sidecar", "topics", "--manifest", g.manifest, "--kafka", g.bootstrap, "--termination-log", log, *arguments],
                          capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    assert json.loads(log.read_text()) == verdict
    return done.returncode, verdict


def test_topics_are_made_checked_and_deleted_by_jobs(group, one):
    g = group(one, kind=PodGroup, create=False)
    nobody = subprocess.Popen([BIN / "millstream-sidecar", "topics", "--manifest", g.manifest, "--kafka", "127.0.0.1:1", "--patience", "1", "--termination-log", ""],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # half a minute
    code, verdict = topics(g)
    assert code == 1 and verdict["reason"] == "TopicMissing" and g.input in verdict["message"] and not verdict["retry"], verdict
    clients.create_topic(g.config, g.input, 4)
    clients.create_topic(g.config, g.output, 4)
    code, verdict = topics(g)
    assert code == 0 and verdict["reason"] == "TopicsReady" and verdict["tasks"] == 4, verdict
    assert verdict["created"] == [f"{g.changelog} (4 partitions)"], verdict
    assert topics(g)[1]["message"] == "3 topics, 0 created"

    pod = g.pod()
    g.wait_active(pod)
    g.produce(20)
    wait_until(lambda: pod.report()["lag"] == {"records": 0, "seconds": 0}, pod.log)
    code, verdict = topics(g, "--delete", "--patience", "1")
    assert code == 3 and verdict["reason"] == "GroupInUse" and pod.name in verdict["message"] and verdict["retry"], verdict
    pod.order(drain=True)
    pod.wait_report(drain="Drained")
    code, verdict = topics(g, "--delete")
    assert code == 0 and verdict["deleted"] == [g.changelog], verdict
    assert {g.input, g.output} <= set(AdminClient(g.config).list_topics(timeout=30).topics)
    assert topics(g, "--delete")[0] == 0

    verdict = json.loads(nobody.communicate(timeout=DEADLINE)[0])
    assert nobody.returncode == 3 and verdict["reason"] == "BrokersUnreachable" and verdict["retry"], verdict
