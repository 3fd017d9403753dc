"""What the worker cannot reach, and what the operator may not. The namespace enforces the strictest Pod Security: whatever runs has passed it."""

import base64
import json

import clients
import rig

PROBE = """
import json, os, socket, ssl, urllib.error, urllib.request
found = {}
found["user"] = os.getuid()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
found["rights"], found["no_new"], found["seccomp"] = int(status["CapEff"], 16), status["NoNewPrivs"].strip(), status["Seccomp"].strip()
found["mounts"] = sorted(line.split()[4] for line in open("/proc/self/mountinfo"))
found["processes"] = sorted(open(f"/proc/{pid}/cmdline").read().split(chr(0))[0] for pid in os.listdir("/proc") if pid.isdigit())
found["environment"] = sorted(os.environ)
found["readable"] = []
for folder, _, files in os.walk("/", onerror=lambda _: None):
    if folder.startswith(("/proc", "/sys", "/usr")):
        continue
    for name in files:
        path = os.path.join(folder, name)
        try:
            if not os.path.isfile(path): continue
            with open(path, "rb") as file:
                if SECRET in file.read(): found["readable"].append(path)
        except OSError:
            pass
found["writable"] = [folder for folder in ("/", "/app", "/etc", "/usr", "/run", "/run/millstream", "/tmp", "/var/lib") if os.access(folder, os.W_OK)]
try:
    urllib.request.urlopen("https://kubernetes.default.svc/api/v1/namespaces/NAMESPACE/secrets", timeout=60, context=ssl._create_unverified_context())
except urllib.error.HTTPError as error:
    found["api"] = error.code
print(json.dumps(found))
"""


def test_a_worker_reaches_its_socket_and_nothing_else(world, space):
    password = world.kafka.users["alice"]
    clients.create_topic(world.kafka.client("INTERNAL"), "guarded-in", 2)
    world.admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alice", "namespace": space}, "data": {"password": base64.b64encode(password.encode()).decode()}})
    kafka = {"bootstrapServers": world.kafka.bootstrap("SASL_PLAINTEXT"), "sasl": {"mechanism": "SCRAM-SHA-512", "username": "alice", "passwordSecretRef": {"name": "alice", "key": "password"}}}
    world.admin.create(rig.processor(space, "guarded", kafka=kafka))
    world.wait_ready(space, "guarded")

    script = PROBE.replace("SECRET", repr(password.encode())).replace("NAMESPACE", space)
    found = json.loads(world.inside(space, "guarded-0", "worker", "python3", "-c", script).stdout)
    assert (found["user"], found["rights"], found["no_new"], found["seccomp"]) == (65532, 0, "1", "2")
    assert found["readable"] == [], "the secret of Kafka"
    assert found["writable"] == ["/run/millstream", "/tmp"]
    assert not [path for path in found["mounts"] if "secret" in path or "state" in path or "serviceaccount" in path], found["mounts"]
    assert "/run/millstream" in found["mounts"]
    assert not [name for name in found["processes"] if "millstream" in name], "processes of the sidecar"
    assert found["api"] in (401, 403)
    assert not [name for name in found["environment"] if "KAFKA" in name or "PASSWORD" in name]

    # Only the sidecar and the worker have the socket; nothing has a token.
    pod = world.pod(space, "guarded-0")["spec"]
    mounted = {each["name"]: [mount["mountPath"] for mount in each["volumeMounts"]] for each in [*pod["initContainers"], *pod["containers"]]}
    assert sorted(name for name, paths in mounted.items() if "/run/millstream" in paths) == ["millstream", "worker"]
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountToken" not in str(pod["volumes"])


def test_the_operator_has_no_right_on_secrets(world):
    may = lambda *words: world.cluster.run("kubectl", "auth", "can-i", *words, f"--as=system:serviceaccount:{rig.NAMESPACE}:{rig.NAME}", "-A", check=False).stdout.strip()
    assert may("list", "streamprocessors") == "yes", "the question is asked as the operator"
    for verb in ("get", "list", "watch", "create", "patch", "delete"):
        assert may(verb, "secrets") == "no"
    for words in (("create", "clusterroles"), ("escalate", "roles"), ("create", "pods", "--subresource=exec"), ("get", "pods", "--subresource=log"), ("create", "pods"), ("delete", "namespaces"), ("impersonate", "users")):
        assert may(*words) == "no", words
