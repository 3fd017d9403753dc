"""What a peer is to the measurements. Another one is a file beside this one and a line in run.py."""


class Peer:
    """A way to run a bed.Job. One object serves many runs, one after the other.

    label        in tables
    """

    label = "?"

    def prepare(self):
        """Fetches and compiles what is missing, before anything is measured."""

    def start(self, job):
        """Starts it on the job, from where it was before; returns a machine.Process. Must be ready for kill -9 at any time."""
        raise NotImplementedError

    def wipe(self, job):
        """Removes all state from the disk; it does not run."""
        raise NotImplementedError

    def restored(self, process):
        """(seconds, bytes) that it has restored from changelogs since it was started, as it tells itself; called once, when all of that is over. None: it
        does not tell."""
        return None

    def details(self, process):
        """More about the run for the report, while it still runs: {name: value}."""
        return {}
