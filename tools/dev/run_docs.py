#!/usr/bin/env python3
"""Runs what the documents show: run_docs.py FILE.md...

Blocks of a document are taken in order, in one scratch folder for each document:

    ```python file=totals.py      the block is written to that file
    ```console                    lines starting with "$ " are run (more lines of a command start with "> "); the lines below must
                                  appear in its output, in order. "..." stands for any text, on a line of its own for any lines.
                                  How many spaces are between words does not matter.
    ```console retry              the same, again and again until the lines appear (120 s at most)
    ```console background         the command keeps running until the end of the document, where it gets Ctrl-C and must exit 0;
                                  the next block starts when its lines have appeared
    ```console stop               as above, but it is stopped before the next block: what a reader does with Ctrl-C

Anything else is not run. A command that another part of ./dev test runs is counted there (ELSEWHERE). The programs, `python` and the
SDK are those of this checkout, as in `./dev shell`.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(\s*)```(\S*) ?(.*)$")
ELSEWHERE = {"./dev test", "./dev demo", "./dev build", "./dev shell", "./dev help"}
START_SECONDS = 60
RETRY_SECONDS = 120  # bounds a failing command only
COMMAND_SECONDS = 600  # bounds a failing command only; one builds the C++ SDK
STOP_SECONDS = 30


def hear_interrupts():
    """Whoever starts this in the background of a script has Ctrl-C ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class Block:
    line: int
    language: str
    words: list
    text: list


@dataclass
class Command:
    line: int
    text: str
    expected: list


def blocks_of(path):
    blocks, open_block, indent = [], None, ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if open_block is None and fence:
            open_block, indent = Block(number, fence.group(2), fence.group(3).split(), []), fence.group(1)
        elif open_block is not None and line.strip() == "```":
            blocks.append(open_block)
            open_block = None
        elif open_block is not None:
            open_block.text.append(line.removeprefix(indent))
    return blocks


def commands_of(block):
    commands = []
    for number, line in enumerate(block.text, block.line + 1):
        if line.startswith("$ "):
            commands.append(Command(number, line[2:], []))
        elif line.startswith("> ") and commands and not commands[-1].expected:
            commands[-1].text += "\n" + line[2:]
        elif commands and line.strip():
            commands[-1].expected.append(line.rstrip())
    return commands


def missing_line(expected, output):
    """The first expected line that is not in the output after the one before it; None when all are there."""
    lines = [" ".join(line.split()) for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).replace("\r", "\n").splitlines()]
    at = 0
    for wanted in expected:
        if wanted.strip() == "...":
            continue
        pattern = re.compile(".*".join(re.escape(" ".join(piece.split())) for piece in wanted.split("...")))
        while at < len(lines) and not pattern.fullmatch(lines[at]):
            at += 1
        if at == len(lines):
            return wanted
        at += 1
    return None


class Document:
    def __init__(self, path, scratch):
        self.path = path
        self.scratch = scratch
        self.folder = scratch / "here"
        self.folder.mkdir()
        self.environment = {**os.environ, "HOME": str(scratch / "home"), "TERM": "dumb"}
        (scratch / "home").mkdir()
        self.running = []  # (command, process, log)
        self.passed = self.failed = 0

    def report(self, command, problem, output=""):
        where = f"{self.path}:{command.line}"
        if problem is None:
            self.passed += 1
            print(f"passed {where}: {command.text.splitlines()[0]}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED {where}: {command.text}\n  {problem}", flush=True)
            for line in output.splitlines()[-40:]:
                print(f"  | {line}")
        return problem is None

    def run_once(self, command):
        # The folder a command ends in is where the next one starts.
        script = f"{command.text}\nstatus=$?; pwd > {self.scratch}/cwd; exit $status"
        try:
            result = subprocess.run(["bash", "-c", script], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_SECONDS, check=False)
        except subprocess.TimeoutExpired as timeout:
            return f"did not end within {COMMAND_SECONDS} s", (timeout.stdout or b"").decode(errors="replace")
        output = result.stdout.decode(errors="replace")
        cwd = self.scratch / "cwd"
        if cwd.exists():
            self.folder = Path(cwd.read_text(encoding="utf-8").strip())
        if result.returncode != 0 and not any("exit code" in line for line in command.expected):
            return f"exit code {result.returncode}", output
        missing = missing_line([line for line in command.expected if "exit code" not in line], output)
        return (f"the output lacks: {missing}" if missing else None), output

    def run(self, command, retry):
        deadline = time.monotonic() + (RETRY_SECONDS if retry else 0)
        while True:
            problem, output = self.run_once(command)
            if problem is None or time.monotonic() >= deadline:
                return self.report(command, problem, output)
            time.sleep(0.3)

    def start(self, command):
        log = self.scratch / f"background-{command.line}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(["bash", "-c", f"exec {command.text}"], cwd=self.folder, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                                       preexec_fn=hear_interrupts)
        self.running.append((command, process, log))
        deadline = time.monotonic() + START_SECONDS
        while True:
            output = log.read_text(encoding="utf-8", errors="replace")
            missing = missing_line(command.expected, output)
            if missing is None:
                return True
            if process.poll() is not None or time.monotonic() > deadline:
                self.running.remove((command, process, log))
                self.end(process)
                return self.report(command, f"the output lacks: {missing} (exit code {process.returncode})", output)
            time.sleep(0.1)

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def stop_all(self):
        for command, process, log in self.running:
            process.send_signal(signal.SIGINT)
            try:
                status = process.wait(STOP_SECONDS)
                problem = None if status == 0 else f"exit code {status} after Ctrl-C"
            except subprocess.TimeoutExpired:
                problem = f"still there {STOP_SECONDS} s after Ctrl-C"
            self.end(process)
            self.report(command, problem, log.read_text(encoding="utf-8", errors="replace"))
        self.running = []

    def go(self):
        try:
            for block in blocks_of(ROOT / self.path):
                names = [word.removeprefix("file=") for word in block.words if word.startswith("file=")]
                for name in names:
                    (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (self.folder / name).write_text("\n".join(block.text) + "\n", encoding="utf-8")
                if block.language != "console":
                    continue
                for command in commands_of(block):
                    if command.text in ELSEWHERE:
                        print(f"elsewhere {self.path}:{command.line}: {command.text}")
                    elif "background" in block.words or "stop" in block.words:
                        if not self.start(command):
                            return
                    elif not self.run(command, "retry" in block.words):
                        return
                if "stop" in block.words:
                    self.stop_all()
        finally:
            self.stop_all()


def main():
    passed = failed = 0
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="millstream-docs.") as scratch:
            document = Document(name, Path(scratch))
            document.go()
            passed, failed = passed + document.passed, failed + document.failed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
