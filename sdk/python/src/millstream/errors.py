"""The exceptions a program can meet, each with what to do about it.

Those below :class:`MillstreamError` are ``Exception``; :class:`BatchVoided` is a ``BaseException`` on purpose, so that an
``except Exception`` in a handler cannot swallow the news that its batch no longer counts.
"""

from __future__ import annotations


class MillstreamError(Exception):
    """Base of every error this package raises."""


class ConfigError(MillstreamError):
    """The program and the manifest do not fit together (an input without a handler, a handler without an input ...).

    Fix the program or the manifest; starting again unchanged does not help.
    """


class NoSidecarError(MillstreamError):
    """Nobody listens at the socket. Start the program through ``millstream run``, or wait for the sidecar."""


class ProtocolError(MillstreamError):
    """The sidecar sent something that is not the worker protocol. The connection is closed and made anew."""

    def __init__(self, message: str, code: str = "BadFrame") -> None:
        super().__init__(message)
        self.code = code


class RefusedError(MillstreamError):
    """The sidecar answered HELLO with ERROR; `code` is the sidecar's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UndeclaredError(MillstreamError):
    """A handler used a store or an output that the manifest does not declare. The message lists those it does."""


class NoKeyError(MillstreamError):
    """State by default key of a record without key. Pass ``key=`` or send records with keys."""


class DecodeError(MillstreamError, ValueError):
    """The key or value of a record is not what its codec expects. Failure class ``Decode``."""


class StateDecodeError(MillstreamError, ValueError):
    """A stored value is not what its store's codec expects, e.g. after the codec was changed. Failure class ``Handler``."""


class OutputError(MillstreamError, ValueError):
    """A value that cannot be encoded, or is beyond the limits of its store or output. Failure class ``Output``."""


class RejectRecord(MillstreamError):
    """Raise it in a handler for a record that will never succeed: it is not retried, ``errors.onFailure`` applies at once."""


class BatchVoided(BaseException):
    """The batch no longer counts (cancelled, or the connection ended). Let it pass; nothing of the batch is committed."""
