"""Real Kafka brokers on loopback for tests, the demo and `./dev kafka`: started in seconds, broken on purpose, removed without a trace.

    with Cluster(folder, brokers=3) as cluster:
        cluster.bootstrap()                    # "127.0.0.1:21012,..."
        cluster.brokers[0].kill()              # SIGKILL; pause() and resume() are SIGSTOP and SIGCONT
        cluster.brokers[0].start()             # the same ports, the same disk

Listeners of every broker: INTERNAL (between brokers, and the tests' own way in: plain, superuser, never behind a proxy), PLAINTEXT, and with
secure=True SSL (client certificates accepted), SASL_PLAINTEXT and SASL_SSL with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.
Only Python's standard library. Not thread-safe.
"""

import pathlib
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import certificates  # noqa: E402
import distribution  # noqa: E402
import token_endpoint  # noqa: E402
import wire  # noqa: E402

HOST = "127.0.0.1"
DEADLINE = 300.0  # seconds until a broker must have started; generous: it only bounds a failing start
SECURE = ["SSL", "SASL_PLAINTEXT", "SASL_SSL"]
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
JAAS = "org.apache.kafka.common.security"


class BrokerFailed(Exception):
    """A broker ended by itself or did not start; the message ends with its log."""


def free_ports(count):
    """Ports below the range that the system hands to outgoing connections, so that a broker that is down finds its own free again."""
    found = []
    for port in random.SystemRandom().sample(range(15000, 32000), 1000):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise BrokerFailed(f"no {count} free ports between 15000 and 32000 on {HOST}")


def prepared():
    """The folder with Kafka; on first use also with the archive of its loaded classes, which halves what a start costs (1.3 s of CPU)."""
    kafka = distribution.home()
    if not distribution.archive(kafka).exists():
        with distribution.locked(kafka / "archive.lock"), tempfile.TemporaryDirectory(prefix="millstream-kafka.") as scratch:
            if not distribution.archive(kafka).exists():
                cluster = Cluster.__new__(Cluster)
                cluster.set_up(kafka, pathlib.Path(scratch) / "run", secure=True, acls=True)
                made = pathlib.Path(scratch) / "classes.jsa"
                cluster.archive = [f"-XX:ArchiveClassesAtExit={made}"]
                with cluster:
                    cluster.brokers[0].stop()
                shutil.move(made, distribution.archive(kafka))
    return kafka


class Watchdog:
    """A process of its own that kills the brokers and removes their folder when this process is gone, however it ended."""

    SCRIPT = 'while read -r verb pid; do case $verb in add) pids="$pids $pid";; end) rest=; for p in $pids; do [ $p = $pid ] || rest="$rest $p"; done; ' \
             'pids=$rest;; esac; done; [ -n "$pids" ] && kill -9 $pids; sleep 0.2; rm -rf "$1"'

    def __init__(self, folder):
        self.process = subprocess.Popen(["/bin/sh", "-c", self.SCRIPT, "watchdog", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True, text=True)

    def tell(self, verb, pid=0):
        self.process.stdin.write(f"{verb} {pid}\n")
        self.process.stdin.flush()

    def close(self):
        """Ends it; whatever is left is removed."""
        self.process.stdin.close()
        self.process.wait()


class Broker:
    """One node (broker and controller). Its ports stay the same over restarts."""

    def __init__(self, cluster, node, ports):
        self.cluster, self.node, self.ports = cluster, node, ports
        self.folder = cluster.folder / str(node)
        self.process = None
        self.paused = False

    @property
    def internal(self):
        return (HOST, self.ports["INTERNAL"])

    def start(self, wait=True):
        """Starts it, or starts it again on what is on its disk."""
        assert self.process is None
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "data").exists():
            distribution.copy_formatted(self.cluster.kafka, self.folder / "data", self.node)
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.properties().items()), encoding="ascii")
        command = distribution.java_command(self.cluster.kafka, self.cluster.heap_mb, "kafka.Kafka", properties, jvm=[*self.cluster.jvm, *self.cluster.archive])
        with open(self.folder / "broker.log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                            cwd=self.folder)
        self.cluster.watchdog.tell("add", self.process.pid)
        if wait:
            self.wait_ready()

    def properties(self):
        cluster = self.cluster
        listeners = [name for name in self.ports if name != "CONTROLLER"]
        address = lambda name, port: f"{name}://{cluster.host_of(name)}:{port}"
        copies = min(3, len(cluster.brokers))
        in_sync = 2 if copies > 1 else 1
        protocols = {name: "PLAINTEXT" if name in ("CONTROLLER", "INTERNAL") else name for name in self.ports}
        return {
            "process.roles": "broker,controller", "node.id": self.node,
            "controller.quorum.voters": ",".join(f"{each.node}@{HOST}:{each.ports['CONTROLLER']}" for each in cluster.brokers),
            "controller.listener.names": "CONTROLLER", "inter.broker.listener.name": "INTERNAL",
            "listeners": ",".join(address(name, port) for name, port in self.ports.items()),
            "advertised.listeners": ",".join(address(name, cluster.advertised.get((self.node, name), self.ports[name])) for name in listeners),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "log.dirs": self.folder / "data",
            "num.partitions": 4, "default.replication.factor": copies, "min.insync.replicas": in_sync, "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": 6, "offsets.topic.replication.factor": copies,
            "transaction.state.log.num.partitions": 6, "transaction.state.log.replication.factor": copies, "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.num.partitions": 1, "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000,
            # Everything a fault test waits for, sooner than the defaults: a dead broker noticed, a transaction timed out, a log cleaned.
            # Of three a dead one is to be noticed soon; one alone has nobody to take over, and a busy machine must not make it leaderless.
            "broker.heartbeat.interval.ms": 500, "broker.session.timeout.ms": 4000 if copies > 1 else 15_000, "replica.lag.time.max.ms": 5000,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000, "log.cleaner.backoff.ms": 500,
            # Small buffers: the default is 128 MiB for the cleaner alone.
            "log.cleaner.dedupe.buffer.size": 4 << 20, "log.cleaner.threads": 1, "num.io.threads": 4, "num.network.threads": 2,
            "num.recovery.threads.per.data.dir": 1, "log.index.size.max.bytes": 1 << 20,
            **cluster.security_properties(), **cluster.extra_properties,
        }

    def wait_ready(self):
        """Until it answers, knows a controller, and is itself part of the cluster."""
        end = time.monotonic() + DEADLINE
        while True:
            if self.process.poll() is not None:
                raise BrokerFailed(f"broker {self.node} ended with exit code {self.process.returncode}:\n{self.log()[-3000:]}")
            try:
                brokers, controller, _ = wire.metadata(self.internal)
                if self.node in brokers and controller >= 0:
                    return
            except (OSError, wire.WireError):
                pass
            if time.monotonic() > end:
                raise BrokerFailed(f"broker {self.node} did not start within {DEADLINE:.0f} s:\n{self.log()[-3000:]}")
            time.sleep(0.05)

    def log(self):
        return (self.folder / "broker.log").read_text(encoding="utf-8", errors="replace")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def _ended(self):
        self.process.wait()
        self.cluster.watchdog.tell("end", self.process.pid)
        self.process, self.paused = None, False

    def kill(self):
        """SIGKILL: nothing is handed over."""
        if self.process:
            self.process.kill()
            self._ended()

    def stop(self):
        """SIGTERM: leadership is handed over first."""
        if self.process:
            self.resume()
            self.process.terminate()
            self._ended()

    def pause(self):
        """SIGSTOP: connections stay open and nobody answers."""
        self.process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self):
        if self.paused:
            self.process.send_signal(signal.SIGCONT)
        self.paused = False


class Cluster:
    """Brokers with one storage folder. close() (or the end of `with`, or of this process) ends and removes them.

    brokers      1 or 3; with 3, topics have three replicas and need two in sync
    secure       the SSL and SASL listeners too
    acls         an authorizer that denies what no rule allows; "admin" and whoever comes in without SASL are superusers
    properties   more lines for server.properties
    advertised   {(node, listener): port}: what clients are told to connect to instead; may be filled until start()
    host         where the listeners for clients are instead of loopback: an address of this machine that pods reach
    """

    def __init__(self, folder, brokers=1, *, secure=False, acls=False, properties=None, heap_mb=256, first_port=None, host=HOST):
        self.set_up(prepared(), folder, brokers, secure, acls, properties, heap_mb, first_port, host)

    def set_up(self, kafka, folder, brokers=1, secure=False, acls=False, properties=None, heap_mb=256, first_port=None, host=HOST):
        self.kafka, self.folder, self.host = kafka, pathlib.Path(folder), host
        self.heap_mb, self.secure, self.acls = heap_mb, secure, acls
        self.extra_properties, self.advertised = dict(properties or {}), {}
        self.jvm, self.archive = [], distribution.use_archive(self.kafka)
        names = ["PLAINTEXT", "INTERNAL", "CONTROLLER", *(SECURE if secure else [])]
        ports = list(range(first_port, first_port + brokers * len(names))) if first_port else free_ports(brokers * len(names))
        self.brokers = [Broker(self, index + 1, dict(zip(names, ports[index * len(names):]))) for index in range(brokers)]
        # {name: password}; "admin" is a superuser.
        self.users = {name: secrets.token_urlsafe(12) for name in ("admin", "alice", "bob")}
        self.authority = self.tokens = None
        self.watchdog = None

    # ---------------------------------------------------------------- life

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.watchdog = Watchdog(self.folder)
        try:
            if self.secure:
                self._make_secrets()
            for broker in self.brokers:
                broker.start(wait=False)
            self.wait_ready()
            if self.secure:
                # A broker that has just come up may hang up on what it is to pass on to the controller. The same once more does no harm.
                self._wait(lambda: wire.set_scram(self.brokers[0].internal, self.users) is None, "the SCRAM users to be taken")
                self._wait(lambda: all(wire.scram_users(each.internal) >= set(self.users) for each in self.brokers), "SCRAM users known everywhere")
        except BaseException:
            self.close()
            raise
        return self

    __enter__ = start

    def __exit__(self, *_):
        self.close()

    def close(self):
        for broker in self.brokers:
            broker.kill()
        if self.tokens:
            self.tokens.close()
            self.tokens = None
        if self.watchdog:
            self.watchdog.close()
            self.watchdog = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_ready(self):
        """Until every broker that runs knows of every other one."""
        running = [broker for broker in self.brokers if broker.alive()]
        for broker in running:
            broker.wait_ready()
        everyone = [broker.node for broker in running]
        self._wait(lambda: all(set(wire.metadata(each.internal)[0]) >= set(everyone) for each in running), "the brokers to find each other")

    def _wait(self, condition, what):
        end = time.monotonic() + DEADLINE
        while True:
            try:
                if condition():
                    return
            except (OSError, wire.WireError):
                pass
            if time.monotonic() > end:
                raise BrokerFailed(f"waited {DEADLINE:.0f} s for {what}\n{self.brokers[0].log()[-3000:]}")
            time.sleep(0.05)

    # ---------------------------------------------------------------- how to get in

    def host_of(self, listener):
        return HOST if listener in ("INTERNAL", "CONTROLLER") else self.host

    def bootstrap(self, listener="PLAINTEXT"):
        """host:port,... of that listener, as advertised."""
        return ",".join(f"{self.host_of(listener)}:{self.advertised.get((each.node, listener), each.ports[listener])}" for each in self.brokers)

    def client(self, listener="INTERNAL", mechanism="SCRAM-SHA-512", user="alice", certificate=False):
        """librdkafka properties (confluent-kafka takes them as they are) for that way in, as that user."""
        config = {"bootstrap.servers": self.bootstrap(listener)}
        if listener in SECURE:
            config["security.protocol"] = listener
        if listener.endswith("SSL"):
            config["ssl.ca.location"] = str(self.authority.ca)
            if certificate:
                config["ssl.certificate.location"], config["ssl.key.location"] = (str(path) for path in self.certificate(user))
        if listener.startswith("SASL"):
            config["sasl.mechanisms"] = mechanism
            if mechanism == "OAUTHBEARER":
                config |= {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": user, "sasl.oauthbearer.client.secret": self.users[user],
                           "sasl.oauthbearer.token.endpoint.url": self.tokens.url, "sasl.oauthbearer.scope": "kafka"}
            else:
                config |= {"sasl.username": user, "sasl.password": self.users[user]}
        return config

    def certificate(self, user):
        """(certificate, key): PEM files that prove to be that user on the SSL listener."""
        if not (self.authority.folder / f"{user}.pem").exists():
            self.authority.issue(user)
        return self.authority.folder / f"{user}.pem", self.authority.folder / f"{user}.key"

    def allow(self, *rules):
        """Access rules as wire.allow() takes them; they are in force everywhere afterwards."""
        before = wire.rule_count(self.brokers[0].internal)
        wire.allow(self.brokers[0].internal, rules)
        # A rule that was there already adds nothing: then the count stays, and it is in force.
        self._wait(lambda: len({wire.rule_count(each.internal) for each in self.brokers}) == 1
                   and (wire.rule_count(self.brokers[0].internal) >= before + 1 or not rules), "access rules known everywhere")

    # ---------------------------------------------------------------- security

    def _make_secrets(self):
        self.authority = certificates.Authority(self.folder / "certificates")
        self.authority.keystore("broker", hosts=[HOST, "localhost"])
        key = certificates.TokenKey(self.authority.folder)
        self.tokens = token_endpoint.TokenEndpoint(key, self.users)
        self.jvm = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={key.jwks.as_uri()}",
                    f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={key.jwks}"]

    def security_properties(self):
        settings = {}
        if self.acls:
            settings |= {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                         "super.users": "User:ANONYMOUS;User:admin"}
        if not self.secure:
            return settings
        folder = self.authority.folder
        settings |= {
            "ssl.keystore.type": "PEM", "ssl.keystore.location": folder / "broker.store.pem",
            "ssl.truststore.type": "PEM", "ssl.truststore.location": folder / "ca.pem",
            "ssl.client.auth": "requested", "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
            "sasl.oauthbearer.expected.audience": token_endpoint.AUDIENCE, "sasl.oauthbearer.expected.issuer": token_endpoint.ISSUER,
        }
        plain = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        for listener in ("sasl_plaintext", "sasl_ssl"):
            prefix = f"listener.name.{listener}"
            settings |= {
                f"{prefix}.plain.sasl.jaas.config": f"{JAAS}.plain.PlainLoginModule required {plain};",
                f"{prefix}.scram-sha-256.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule required;",
                f"{prefix}.scram-sha-512.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule required;",
                f"{prefix}.oauthbearer.sasl.jaas.config": f"{JAAS}.oauthbearer.OAuthBearerLoginModule required;",
                f"{prefix}.oauthbearer.sasl.server.callback.handler.class": f"{JAAS}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            }
        return settings
