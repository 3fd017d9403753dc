"""What does not begin, and what is said of it; each is mended by the next `apply`."""

import clients
import rig

SLEEP = ["/usr/bin/python3", "-c", "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); [signal.pause() for _ in iter(int, 1)]"]
# Speaks versions of the protocol that there are not.
FUTURE = ["/usr/bin/python3", "-c", "import millstream.messages as m; m.MIN_VERSION = m.MAX_VERSION = 99; exec(open('/app/worker.py').read())"]


def test_a_worker_that_cannot_begin_is_named_and_mended(world, space):
    clients.create_topic(world.kafka.client("INTERNAL"), "begin-in", 2)

    def run(command):
        container = {"image": rig.WORKER, "resources": {"limits": {"memory": "128Mi"}}, **({"command": command} if command else {})}
        world.admin.apply(rig.processor(space, "begin", container=container, sidecar={"workers": {"connectTimeout": "5s"}}, storage=None), manager="test")

    run(["/no/such/program"])
    message = world.wait_reason(space, "begin", "RunContainerError", "StartError", "CrashLoopBackOff", "ContainerFailed")
    assert "/no/such/program" in message, message

    run(SLEEP)  # an image without an SDK: nothing connects
    message = world.wait_reason(space, "begin", "WorkerNotConnected")
    assert "/run/millstream/worker.sock" in message, message

    run(FUTURE)
    message = world.wait_reason(space, "begin", "CrashLoopBackOff", "ContainerFailed")
    assert "99" in message and "protocol" in message, message

    run(None)
    world.wait_ready(space, "begin")
    assert world.container(space, "begin-0", "worker")["restartCount"] == 0
