"""What the examples' tests share: their modules by folder, and a real run that must survive a kill -9."""

import importlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools" / "dev"))
if importlib.util.find_spec("millstream") is None:
    sys.path.insert(0, str(HERE.parent / "sdk" / "python" / "src"))


class Example:
    """One folder of examples/."""

    def __init__(self, name):
        self.folder = HERE / name

    def module(self, name):
        """A module of the folder; those of two examples may have the same name."""
        own = {path.stem for path in self.folder.glob("*.py")}
        hidden = {name: sys.modules.pop(name) for name in own if name in sys.modules}
        sys.path.insert(0, str(self.folder))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(str(self.folder))
            for name in own:
                sys.modules.pop(name, None)
            sys.modules.update(hidden)

    def run_and_verify(self, tmp_path, program, records, load, verify):
        """Loads while the processor runs, kills it in the middle, and gives what verify.py says."""
        if shutil.which("millstream") is None:
            pytest.skip("millstream is not on the PATH (./dev shell)")
        from local_run import Run

        data = tmp_path / "data"
        run = Run(self.folder / "processor.yaml", data, [sys.executable, str(self.folder / program)], tmp_path / "run.log")
        try:
            run.start()
            loading = subprocess.Popen([self.folder / "load.sh", *load, "--data", data], stdin=subprocess.DEVNULL)
            try:
                run.wait_for(records // 3, patience=60)
                run.kill_worker()
                assert loading.wait(120) == 0
            finally:
                if loading.poll() is None:
                    loading.kill()
            run.kill()
            run.start()
            run.wait_for(records, patience=60)
            self.verified(data, verify, patience=30)  # while it runs; the last transaction may still be under way
            run.stop()
        finally:
            run.close()
        return self.verified(data, verify, patience=0)

    def verified(self, data, arguments, patience):
        """What verify.py says once it agrees; fails if it does not within `patience` seconds."""
        deadline = time.monotonic() + patience
        while True:
            done = subprocess.run(
                [sys.executable, self.folder / "verify.py", "--data", data, *arguments], stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            if done.returncode == 0:
                return done.stdout
            assert time.monotonic() < deadline, done.stdout
            time.sleep(0.2)


@pytest.fixture
def flights():
    return Example("flights")


@pytest.fixture
def orders():
    return Example("orders")


@pytest.fixture
def minimal():
    return Example("minimal")


@pytest.fixture
def polyglot():
    return Example("polyglot")


@pytest.fixture
def attribution():
    return Example("attribution")


@pytest.fixture
def arrivals():
    return Example("arrivals")


@pytest.fixture
def ledger():
    return Example("ledger")
