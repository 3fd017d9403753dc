package millstream

import (
	"errors"
	"fmt"
	"strings"
)

// ErrVoid is what state and outputs return once the batch no longer counts: it was cancelled, or the connection ended.
// Return it; nothing of the batch is committed, and its records come again.
var ErrVoid = errors.New("millstream: the batch no longer counts")

// A ConfigError says that the program and the manifest, or the two versions, do not fit together. Starting again
// unchanged does not help.
type ConfigError struct{ Message string }

func (e *ConfigError) Error() string { return e.Message }

// A RefusedError is the sidecar's answer to HELLO; Code is one of the codes of docs/reference/protocol.md.
type RefusedError struct{ Code, Message string }

func (e *RefusedError) Error() string { return e.Message + " (" + e.Code + ")" }

// A ProtocolError says that the sidecar sent something that is not the worker protocol. The connection is closed and
// made anew.
type ProtocolError struct{ Code, Message string }

func (e *ProtocolError) Error() string { return e.Message }

func badFrame(format string, arguments ...any) *ProtocolError {
	return &ProtocolError{codeBadFrame, fmt.Sprintf(format, arguments...)}
}

// A DecodeError says that the key or value of a record, or the key of a timer or a window, is not what its codec expects.
// Failure class Decode.
type DecodeError struct {
	What  string // "key" or "value"
	Of    string // what and where it is
	Codec string
	Cause error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("the %s of %s is not %s: %v", e.What, e.Of, e.Codec, e.Cause)
}
func (e *DecodeError) Unwrap() error { return e.Cause }

// An OutputError says that a value cannot be encoded or is beyond the limits of its store or output. It fails the
// record, whatever the handler returns. Failure class Output.
type OutputError struct {
	Message string
	Cause   error
}

func (e *OutputError) Error() string { return e.Message }
func (e *OutputError) Unwrap() error { return e.Cause }

// An UndeclaredError names a store, join, lookup or output that the manifest does not declare, and those it does.
type UndeclaredError struct {
	What, Name string
	Declared   []string
}

func (e *UndeclaredError) Error() string {
	return fmt.Sprintf("no %s %q in the manifest; declared %ss: %s. Add it under spec.%ss to use it",
		e.What, e.Name, e.What, listed(e.Declared), e.What)
}

// ErrNoKey is returned by the calls that mean the record's own key, for a record without one.
var ErrNoKey = errors.New("the record has no key, so there is no default key for state; name one, or send records with keys")

var errTakeOutside = errors.New("Gathered.Take outside of OnBegin and OnFinalize: what it takes would be lost with a record that fails; " +
	"use Change")

type rejectError struct{ cause error }

func (e *rejectError) Error() string { return e.cause.Error() }
func (e *rejectError) Unwrap() error { return e.cause }

// Reject marks an error of a record that will never succeed: it is not retried, errors.onFailure of the manifest applies
// at once.
func Reject(err error) error {
	if err == nil {
		return nil
	}
	return &rejectError{err}
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
