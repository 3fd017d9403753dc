"""The version of this package; HELLO tells it to the sidecar."""

VERSION = "0.1.0"
