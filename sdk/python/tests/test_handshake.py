"""HELLO, WELCOME, and programs that do not fit their manifest."""

import os
import subprocess
import sys
import textwrap

import pytest

import millstream
from conftest import Running
from fake_sidecar import ERROR, GOODBYE, HELLO, WELCOME, welcome


def app_with(*inputs):
    app = millstream.App()
    for name in inputs:
        app.on(name)(lambda ctx, record: None)
    return app


def refused(sidecar, app, answer):
    """Runs the app against one answer to HELLO; the error it ends with and the frames it sent after HELLO."""
    running = Running(app, sidecar, lost_seconds=0.0, start_seconds=0.0)
    connection = sidecar.accept()
    connection.expect(HELLO)
    connection.send(*answer)
    after = []
    while (frame := connection.receive()) is not None:
        after.append(frame)
    sidecar.stop_listening()
    running.join()
    return running.error, after


def test_hello_tells_who_we_are(serve):
    hello = serve(app_with("in")).hello
    assert hello["protocol"] == [1, 1]
    assert hello["language"] == "python"
    assert hello["version"] == millstream.__version__
    assert hello["inputs"] == ["in"]
    assert hello["parallel"] == 2
    assert hello["capabilities"] == []


def test_refused_version_ends_the_program_with_the_sidecars_words(sidecar):
    error, _ = refused(sidecar, app_with("in"), [ERROR, "VersionMismatch", "worker speaks 1 to 1, sidecar 2 to 3"])
    assert isinstance(error, millstream.ConfigError)
    assert "sidecar 2 to 3" in str(error)


def test_a_version_we_do_not_speak(sidecar):
    error, after = refused(sidecar, app_with("in"), [WELCOME, welcome(protocol=2)])
    assert isinstance(error, millstream.ConfigError)
    assert "this SDK speaks 1 to 1" in str(error)
    assert after[0][:2] == [ERROR, "WorkerFailed"]


@pytest.mark.parametrize("handlers, fields, words", [
    (["in"], dict(inputs=("in", "refunds")), ["input refunds", 'no handler', '@app.on("refunds")']),
    (["in", "ordres"], dict(inputs=("in", "orders")), ["'ordres'", "inputs: in, orders"]),
])
def test_program_and_manifest_must_fit(sidecar, handlers, fields, words):
    error, after = refused(sidecar, app_with(*handlers), [WELCOME, welcome(**fields)])
    assert isinstance(error, millstream.ConfigError), error
    for word in words:
        assert word in str(error)
    assert after[0][0] == ERROR and words[0] in after[0][2]


def test_stores_of_an_unknown_type_are_refused_by_name(sidecar):
    fields = welcome()
    fields["stores"][0]["type"] = "Graph"
    error, _ = refused(sidecar, app_with("in"), [WELCOME, fields])
    assert "store 's' has type Graph: not supported yet" in str(error)


def test_codecs_of_undeclared_stores_and_outputs(sidecar):
    app = app_with("in")
    app.store("totls", value="int")
    error, _ = refused(sidecar, app, [WELCOME, welcome(stores=("totals", "seen"))])
    assert "app.store('totls')" in str(error) and "stores: totals, seen" in str(error)


@pytest.mark.parametrize("answer", [
    [WELCOME, "text"], [WELCOME, {"protocol": 1}], [WELCOME, {"protocol": 1, "inputs": 5}],
    [GOODBYE, "stopping"], [ERROR, "TooManyWorkers", "8 of 8"],
])
def test_answers_that_are_no_welcome_are_tried_again(sidecar, answer):
    running = Running(app_with("in"), sidecar)
    first = sidecar.accept()
    first.expect(HELLO)
    first.send(*answer)
    second = sidecar.accept()
    second.handshake()
    assert second.run(1, (b"k", b"1"))[1:4] == [1, 1, None]
    running.worker.stop()
    second.send(GOODBYE, "bye")
    running.join()
    assert running.error is None


def test_handler_registration_errors():
    app = app_with("in")
    with pytest.raises(millstream.ConfigError, match="already has a handler"):
        app.on("in")(lambda ctx, record: None)
    with pytest.raises(TypeError, match="needs the name of an input"):
        app.on(lambda ctx, record: None)
    with pytest.raises(ValueError, match="no codec 'jsno'; there are json"):
        app.on("other", value="jsno")


def run_script(code, timeout=30, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MILLSTREAM")}
    env.update(environment)
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True,
                          timeout=timeout)


def test_started_alone_it_says_how_to_start_it(tmp_path):
    script = tmp_path / "totals.py"
    script.write_text(textwrap.dedent(f"""
        import millstream
        app = millstream.App()
        app.on("in")(lambda ctx, record: None)
        import millstream.channel
        millstream.channel.DEFAULT_SOCKET = {str(tmp_path / "worker.sock")!r}
        app.run()
    """))
    env = {k: v for k, v in os.environ.items() if not k.startswith("MILLSTREAM")}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"millstream: no sidecar at {tmp_path / 'worker.sock'}; "
        "run: millstream run -f processor.yaml -- python totals.py"
    )


def test_a_program_without_handlers():
    done = run_script("import millstream; millstream.App().run()")
    assert done.returncode == 2
    assert "no handler" in done.stderr and "Traceback" not in done.stderr


def test_a_started_program_waits_for_the_sidecar(sidecar):
    sidecar.stop_listening()
    running = Running(app_with("in"), sidecar)
    sidecar.listen()
    sidecar.accept().handshake()
    assert running.error is None
