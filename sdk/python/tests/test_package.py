"""The wheel: builds without network, holds what it should, and works where it is installed."""

import pathlib
import shutil
import subprocess
import sys
import zipfile

import millstream

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist"))
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation",
        "--wheel-dir", str(tmp_path), str(source))
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"millstream-{millstream.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert "millstream/py.typed" in names and "millstream/testing.py" in names
    assert not [name for name in names if name.startswith("tests")]
    metadata = zipfile.ZipFile(wheel).read(next(n for n in names if n.endswith("METADATA"))).decode()
    assert "Requires-Dist: msgpack<2,>=1.0.5" in metadata and "Requires-Python: >=3.10" in metadata

    target = tmp_path / "site"
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    said = run(sys.executable, "-c", "import millstream; print(millstream.__file__, millstream.__version__)",
               env={"PYTHONPATH": str(target)}, cwd=tmp_path)
    assert said.split() == [str(target / "millstream" / "__init__.py"), millstream.__version__]


def test_types():
    """The public surface as a user's type checker sees it."""
    run(sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), cwd=ROOT)


def test_the_fallback_of_msgpack_is_warned_about(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import msgpack.fallback, msgpack\nmsgpack.Packer = msgpack.fallback.Packer\n")
    done = subprocess.run(
        [sys.executable, "-c", "import millstream"], capture_output=True, text=True, check=False, timeout=30,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"},
    )
    assert done.returncode == 0 and "RuntimeWarning: millstream: only msgpack's pure-Python fallback" in done.stderr
