"""A PostgreSQL server of its own for the example: in a folder, on a socket in it, gone with it.

    python database.py FOLDER -- COMMAND [ARGUMENT...]

runs the command with $LEDGER_DATABASE, the server beside it, and ends both. The server is that of Debian's package `postgresql`. It
does not run as root: started by root it runs as the package's user `postgres`, and the folder becomes that user's.
"""

import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import time

import psycopg

HERE = pathlib.Path(__file__).resolve().parent
# The longest path of a Unix socket, less the name that the server adds.
LONGEST_FOLDER = 107 - len("/.s.PGSQL.5432")


class Server:
    """One server over one folder, which survives kill() and start(); close() removes it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).absolute()
        if len(str(self.folder)) > LONGEST_FOLDER:
            raise SystemExit(f"{self.folder} is too long for a socket: at most {LONGEST_FOLDER} bytes")
        self.data = self.folder / "data"
        self.url = f"host={self.folder} dbname=postgres user=ledger"
        self._process = None
        self._as = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    @staticmethod
    def program(name):
        found = shutil.which(name) or max(
            glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: int(path.split("/")[4]), default=None)
        if found is None:
            raise SystemExit(f"no {name} found: install PostgreSQL (Debian: postgresql)")
        return found

    def start(self, patience=60):
        """Returns when it takes connections, with the schema made."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._as:
            os.chown(self.folder, self._as["user"], self._as["group"])
        if not self.data.exists():
            self._run("initdb", "-D", self.data, "-U", "ledger", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        deadline = time.monotonic() + patience
        while True:
            with open(self.folder / "log", "ab") as log:
                # Durable as in production; everything else small.
                self._process = subprocess.Popen(
                    [self.program("postgres"), "-D", self.data, "-k", self.folder, "-c", "listen_addresses=", "-c", "shared_buffers=16MB",
                     "-c", "max_connections=40"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, **self._as)
            if self._answers(deadline):
                break
            # After kill() the old server's children may take a moment to notice.
            if time.monotonic() > deadline:
                raise SystemExit(f"the server does not start within {patience} s:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)
        with psycopg.connect(self.url) as connection:
            connection.execute((HERE / "schema.sql").read_text())
        return self

    def _answers(self, deadline):
        """False: the process ended."""
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return True
            except psycopg.OperationalError:
                time.sleep(0.05)
        if self._process.poll() is None:
            self.kill()
        return False

    def _run(self, name, *arguments):
        done = subprocess.run([self.program(name), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, cwd=self.folder, **self._as)
        if done.returncode != 0:
            raise SystemExit(f"{name} ended with {done.returncode}:\n{done.stdout}")

    def kill(self):
        """As a crash of the machine would be to it, but for what the kernel has in memory."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def close(self):
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # at once, without a word to its clients
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit(__doc__)
    server = Server(sys.argv[1]).start()
    try:
        # Ctrl-C is the command's to handle; the server has to outlive it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        command = subprocess.Popen(
            sys.argv[3:], env={**os.environ, "LEDGER_DATABASE": server.url}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        status = command.wait()
    finally:
        server.close()
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
