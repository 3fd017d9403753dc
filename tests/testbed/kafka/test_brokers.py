"""The test bed's brokers are real ones: every way in, access rules, kills, pauses, and nothing left behind."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import brokers
import clients
import distribution
import pytest
import wire
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

HERE = pathlib.Path(__file__).resolve().parent
WAYS = [(listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in brokers.MECHANISMS]


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    with brokers.Cluster(tmp_path_factory.mktemp("kafka") / "run", secure=True, acls=True) as cluster:
        for name in ("open", "closed"):
            clients.create_topic(cluster.client(), name)
        cluster.allow(("alice", "topic", "open", "literal", "all"), ("bob", "topic", "o", "prefixed", "describe"))
        yield cluster


def topics(config):
    return sorted(name for name in clients.topics(config) if not name.startswith("__"))


@pytest.mark.parametrize("listener,mechanism", WAYS)
def test_every_mechanism_lets_in_who_knows_the_password(secure, listener, mechanism):
    assert topics(secure.client(listener, mechanism, "alice")) == ["open"]
    assert topics(secure.client(listener, mechanism, "admin")) == ["closed", "open"]


@pytest.mark.parametrize("listener,mechanism", WAYS[:4])
def test_a_wrong_password_stays_outside(secure, listener, mechanism):
    config = secure.client(listener, mechanism, "alice")
    secret = "sasl.oauthbearer.client.secret" if mechanism == "OAUTHBEARER" else "sasl.password"
    with pytest.raises(KafkaException):
        AdminClient({**config, secret: "wrong", "log_level": 0}).list_topics(timeout=1)


def test_a_client_certificate_is_an_identity(secure):
    assert topics(secure.client("SSL", user="alice", certificate=True)) == ["open"]
    assert topics(secure.client("SSL", user="bob", certificate=True)) == ["open"]
    assert topics(secure.client("SSL")) == ["closed", "open"]  # without a name: as the tests themselves


def test_rules_name_what_is_allowed(secure):
    clients.write(secure.client("SASL_PLAINTEXT", "PLAIN", "alice"), "open", [(0, b"k", b"v")])
    with pytest.raises(KafkaException, match="authorization"):
        clients.write(secure.client("SASL_PLAINTEXT", "PLAIN", "bob"), "open", [(0, b"k", b"v")], **{"enable.idempotence": False})


def test_the_tools_of_kafka_run(secure):
    listed = distribution.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", secure.bootstrap("INTERNAL"), "--list")
    assert {"open", "closed"} <= set(listed.split())


def test_three_brokers_survive_kill_pause_and_restart(tmp_path):
    with brokers.Cluster(tmp_path / "run", brokers=3) as cluster:
        clients.create_topic(cluster.client(), "t", 3)
        write = lambda: clients.write(cluster.client(), "t", [(partition, b"k", b"v") for partition in range(3)],
                                      **{"socket.timeout.ms": 3000})
        write()
        first, second = cluster.brokers[:2]
        ports = dict(first.ports)
        first.kill()
        assert not first.alive()
        write()
        first.start()
        cluster.wait_ready()
        assert first.ports == ports
        second.pause()
        write()
        second.resume()
        cluster.wait_ready()
        write()
        end = time.monotonic() + 60
        while not all(copies == 3 for _, copies in clients.topics(cluster.client())["t"].values()):
            assert time.monotonic() < end, clients.topics(cluster.client())["t"]


def test_nothing_is_left_when_the_owner_is_killed(tmp_path):
    program = (f"import sys; sys.path.insert(0, {str(HERE)!r}); import brokers, time\n"
               f"cluster = brokers.Cluster({str(tmp_path / 'run')!r}).start()\n"
               "print(cluster.brokers[0].process.pid, cluster.brokers[0].ports['INTERNAL'], flush=True); time.sleep(600)")
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    pid, port = map(int, owner.stdout.readline().split())
    assert wire.metadata(("127.0.0.1", port))[0] == [1]
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    end = time.monotonic() + 30
    while (tmp_path / "run").exists() or pathlib.Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_up_and_down(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    # The jars of the real cache, the runs in a folder of this test's own.
    (tmp_path / "millstream" / "kafka").mkdir(parents=True)
    real = distribution.home()
    os.symlink(real, tmp_path / "millstream" / "kafka" / real.name)
    command = [sys.executable, str(HERE / "command.py")]
    done = subprocess.run([*command, "up"], env=environment, capture_output=True, text=True, timeout=180, check=True)
    host, port = done.stdout.strip().split(":")
    assert wire.metadata((host, int(port)))[0] == [1]
    assert done.stdout.strip() in subprocess.run([*command, "list"], env=environment, capture_output=True, text=True, check=True).stdout
    subprocess.run([*command, "down"], env=environment, capture_output=True, timeout=60, check=True)
    assert not list((tmp_path / "millstream" / "kafka").glob("run-*"))
    with pytest.raises(OSError):
        wire.metadata((host, int(port)))
