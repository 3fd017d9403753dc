"""Damaged, foreign, shared and full disks: detected, never served, rebuilt from the changelog or refused with a reason."""

import collections
import json
import os
import shutil
import subprocess

import pytest

from harness import BIN, Rig, wait_until


def processed(r, count=400):
    r.produce(count)
    r.start()
    r.wait_outputs(len(r.events))
    assert r.stop() == 0, r.log()[-2000:]
    return r


def task_folders(r):
    found = sorted(path for path in (r.data / "state").glob("*/*") if path.is_dir())
    assert found, sorted((r.data / "state").rglob("*"))
    return found


def flip(path):
    """Inverts a run of bytes in the middle of a file."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    for i in range(middle, min(middle + 16, len(data))):
        data[i] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["*.sst", "MANIFEST-*", "CURRENT"])
@pytest.mark.parametrize("how", ["flipped", "truncated", "missing"])
def test_damaged_state_is_rebuilt(rig, kind, how):
    r = processed(rig())
    damaged = 0
    for folder in task_folders(r):
        for path in folder.rglob(kind):
            damaged += 1
            if how == "flipped":
                flip(path)
            elif how == "truncated":
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            else:
                path.unlink()
    assert damaged, f"no {kind} in {task_folders(r)}"
    r.produce(100)
    r.start()
    r.finish()


def test_state_of_another_task_is_not_served(rig):
    r = processed(rig())
    first, second = task_folders(r)[:2]
    shutil.rmtree(first)
    shutil.copytree(second, first)
    r.produce(100)
    r.start()
    r.wait_log("(?i)another|belongs|foreign|wiped")
    r.finish()


def test_state_of_another_processor_is_not_served(rig, tmp_path):
    r = processed(rig())
    os.makedirs(tmp_path / "other")
    other = Rig(tmp_path / "other", name="others")
    try:
        processed(other, 50)
    finally:
        other.close()
    for mine, theirs in zip(task_folders(r), task_folders(other)):
        shutil.rmtree(mine)
        shutil.copytree(theirs, mine)
    r.produce(100)
    r.start()
    r.finish()


def test_deleted_state_is_restored(rig):
    r = processed(rig())
    shutil.rmtree(r.data / "state")
    r.start()
    r.finish()


def test_interrupted_restore_goes_on(rig, seed):
    r = processed(rig(), 3000)
    shutil.rmtree(r.data / "state")
    import time

    for _ in range(5):
        r.start()
        time.sleep(seed.random() * 0.5)
        r.kill()
    r.produce(50)
    r.start()
    r.finish()


def test_two_on_one_folder_are_refused(rig):
    r = rig()
    r.produce(50)
    r.start()
    r.wait_outputs(50)
    second = r.command("run", "-f", r.manifest, "--data", r.data, "--", "true", check=False)
    assert second.returncode != 0
    assert str(r.process.pid).encode() in second.stderr, second.stderr
    r.finish()


@pytest.mark.parametrize("kind", ["*.sst", "MANIFEST-*"])
def test_damaged_log_is_named_and_not_served(rig, kind):
    r = processed(rig())
    paths = [path for path in (r.data / "log").rglob(kind)]
    assert paths, sorted((r.data / "log").rglob("*"))
    for path in paths:
        flip(path)
    r.start()
    code = r.wait_exit() if not wait_until(lambda: not r.alive() or "amage" in r.log() or "orrupt" in r.log(), r.log) or not r.alive() else None
    assert code != 0
    assert str(r.data) in r.log(), r.log()[-2000:]


@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs of 24 MB: less room than the write buffers may take."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]).returncode != 0:
        pytest.skip("a small disk needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_full_disk_loses_nothing_and_is_named(rig, small_disk):
    r = rig(data=small_disk / "data")
    r.produce(500)
    r.start()
    r.wait_outputs(500)
    # Something else fills the disk, and nothing more can be committed.
    with open(small_disk / "ballast", "wb") as ballast:
        try:
            while True:
                ballast.write(b"x" * 65536)
                ballast.flush()
        except OSError:
            pass
    lines = [b'{"key": "full-%d", "n": %d, "pad": "%s"}\n' % (i % 3, 1_000_000 + i, os.urandom(50_000).hex().encode()) for i in range(100)]
    refused = r.command("produce", "events", "--data", r.data, "--key", "key", check=False, stdin=b"".join(lines))
    assert refused.returncode != 0
    assert b"space" in refused.stderr or b"disk" in refused.stderr, refused.stderr
    assert r.alive()
    assert not [n for n, times in collections.Counter(v["n"] for _, v in r.outputs()).items() if times > 1]
    (small_disk / "ballast").unlink()
    # With room again work goes on by itself: what arrived is processed once.
    probe = b'{"key": "probe", "n": 2000000}\n'
    wait_until(lambda: r.command("produce", "events", "--data", r.data, "--key", "key", stdin=probe, check=False).returncode == 0,
               lambda: f"nothing can be written\n{r.log()[-3000:]}", deadline=30)
    arrived = [json.loads(value) for _, _, _, _, value in r.consume("events")]
    r.events = [(event["key"].encode(), event["n"]) for event in arrived]
    assert len(r.events) >= 500
    r.produce(20)
    r.finish()
