"""What ./dev kafka and ./dev cluster share: a process that keeps what `up` started in a folder of its own until it is told to end.

The folder has state.json from the moment at which all is up: {"keeper": its pid, "environment": what commands find it by}.
"""

import json
import os
import pathlib
import signal
import sys
import time


def runs(home):
    """{folder: what its keeper wrote}, of those whose keeper lives; the one started last is last."""
    found = {}
    for state in sorted(home.glob("run-*/state.json"), key=lambda path: path.stat().st_mtime):
        try:
            facts = json.loads(state.read_text(encoding="ascii"))
            command = pathlib.Path(f"/proc/{facts['keeper']}/cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if b"command.py" in command:
            found[state.parent] = facts
    return found


def end_at_signals():
    """From now on SIGTERM and SIGINT end this process as sys.exit does: whatever it keeps is put away."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))


def write(folder, environment, **more):
    """state.json: what commands find by it. What else they want to know goes beside the environment."""
    state = folder / "state.json"
    state.with_suffix(".new").write_text(json.dumps({"keeper": os.getpid(), "environment": environment, **more}), encoding="ascii")
    state.with_suffix(".new").rename(state)


def keep(folder, environment, **more):
    """Says that all is up, and waits for a signal."""
    write(folder, environment, **more)
    while True:
        signal.pause()


def end(home, name, seconds):
    """Ends the one in that folder, or all of them, and waits until their folders are gone. The exit code of `down`."""
    wanted = {folder: facts for folder, facts in runs(home).items() if name in (None, str(folder))}
    if name and not wanted:
        print(f"nothing runs in {name}", file=sys.stderr)
        return 1
    for folder, facts in wanted.items():
        os.kill(facts["keeper"], signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while folder.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        print(f"removed {folder}", file=sys.stderr)
    return 0
