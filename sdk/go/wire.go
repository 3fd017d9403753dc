package millstream

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tinylib/msgp/msgp"
)

// The frames of the worker protocol, version 1 (docs/reference/protocol.md): the shapes this SDK reads, and the bytes it
// writes. Nothing here does I/O.

const (
	minVersion = 1
	maxVersion = 1
	// What a first frame from the worker may be.
	helloFrameCap   = 64 << 10
	defaultFrameCap = 16 << 20
	// The most a WELCOME may ask for: a 4-byte length could say 4 GiB.
	maxFrameCap  = 1 << 30
	lengthBytes  = 4
	flagTrace    = 1
	maxTextBytes = 16 << 10
	// Elements that one list of a frame may claim.
	maxElements = 1 << 20
)

const (
	kindHello     = 1
	kindWelcome   = 2
	kindOpen      = 3
	kindClose     = 4
	kindBatch     = 5
	kindResult    = 6
	kindCancel    = 7
	kindGet       = 8
	kindValues    = 9
	kindScan      = 10
	kindRows      = 11
	kindExtend    = 12
	kindBegin     = 13
	kindFinalize  = 14
	kindCommitted = 15
	kindPing      = 20
	kindPong      = 21
	kindError     = 22
	kindGoodbye   = 23
)

// A frameReader takes MessagePack values off the front of a payload. Its error is sticky: after the first one every read
// gives zero values, so callers look at it once, at the end of what they read.
type frameReader struct {
	rest []byte
	err  error
}

func (r *frameReader) fail(format string, arguments ...any) {
	if r.err == nil {
		r.err = badFrame(format, arguments...)
		r.rest = nil
	}
}

func (r *frameReader) wrap(field string, rest []byte, err error) bool {
	if r.err != nil {
		return false
	}
	if err != nil {
		r.fail("%s: %v", field, err)
		return false
	}
	r.rest = rest
	return true
}

func (r *frameReader) isNil() bool {
	if r.err == nil && len(r.rest) > 0 && msgp.IsNil(r.rest) {
		r.rest = r.rest[1:]
		return true
	}
	return false
}

func (r *frameReader) int64(field string) int64 {
	value, rest, err := msgp.ReadInt64Bytes(r.rest)
	if !r.wrap(field, rest, err) {
		return 0
	}
	return value
}

func (r *frameReader) uint64(field string) uint64 {
	value, rest, err := msgp.ReadUint64Bytes(r.rest)
	if !r.wrap(field, rest, err) {
		return 0
	}
	return value
}

func (r *frameReader) uint32(field string) uint32 {
	value := r.uint64(field)
	if value > math.MaxUint32 {
		r.fail("%s: %d is too large", field, value)
		return 0
	}
	return uint32(value)
}

func (r *frameReader) int32(field string) int32 {
	value := r.uint64(field)
	if value > math.MaxInt32 {
		r.fail("%s: %d is too large", field, value)
		return 0
	}
	return int32(value)
}

// bytes reads bin, and str, which receivers take for it. The slice is part of the frame.
func (r *frameReader) bytes(field string) []byte {
	if r.err != nil {
		return nil
	}
	var value, rest []byte
	var err error
	if msgp.NextType(r.rest) == msgp.StrType {
		value, rest, err = msgp.ReadStringZC(r.rest)
	} else {
		value, rest, err = msgp.ReadBytesZC(r.rest)
	}
	if !r.wrap(field, rest, err) {
		return nil
	}
	if value == nil {
		value = []byte{}
	}
	return value[:len(value):len(value)]
}

// maybeBytes gives nil for null; empty bytes are not nil.
func (r *frameReader) maybeBytes(field string) []byte {
	if r.isNil() {
		return nil
	}
	return r.bytes(field)
}

func (r *frameReader) bool(field string) bool {
	value, rest, err := msgp.ReadBoolBytes(r.rest)
	return r.wrap(field, rest, err) && value
}

func (r *frameReader) text(field string) string { return string(r.bytes(field)) }

// list reads an array of any length.
func (r *frameReader) list(field string) int {
	count, rest, err := msgp.ReadArrayHeaderBytes(r.rest)
	if !r.wrap(field, rest, err) {
		return 0
	}
	// An element takes a byte at least.
	if count > maxElements || int(count) > len(r.rest) {
		r.fail("%s: %d elements do not fit the frame", field, count)
		return 0
	}
	return int(count)
}

// fields reads the head of a tuple of at least `least` fields.
func (r *frameReader) fields(field string, least int) int {
	count := r.list(field)
	if r.err == nil && count < least {
		r.fail("%s has %d fields, at least %d are needed", field, count, least)
		return 0
	}
	return count
}

func (r *frameReader) mapSize(field string) int {
	count, rest, err := msgp.ReadMapHeaderBytes(r.rest)
	if !r.wrap(field, rest, err) {
		return 0
	}
	if count > maxElements || 2*int(count) > len(r.rest) {
		r.fail("%s: %d entries do not fit the frame", field, count)
		return 0
	}
	return int(count)
}

func (r *frameReader) skip(count int) {
	for ; count > 0 && r.err == nil; count-- {
		rest, err := msgp.Skip(r.rest)
		r.wrap("a further field", rest, err)
	}
}

// more tells whether an optional field is there; `left` counts those that remain of its tuple.
func (r *frameReader) more(left *int) bool {
	if *left <= 0 || r.err != nil {
		return false
	}
	*left--
	return !r.isNil()
}

func (r *frameReader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes follow the message", len(r.rest))
	}
	return r.err
}

// beginFrame reserves the length, endFrame fills it in.
func beginFrame(buffer []byte, kind uint8, fields uint32) []byte {
	buffer = append(buffer[:0], 0, 0, 0, 0)
	return msgp.AppendUint64(msgp.AppendArrayHeader(buffer, fields+1), uint64(kind))
}

func endFrame(buffer []byte) []byte {
	binary.BigEndian.PutUint32(buffer, uint32(len(buffer)-lengthBytes))
	return buffer
}

func appendMaybeBytes(buffer []byte, value []byte) []byte {
	if value == nil {
		return msgp.AppendNil(buffer)
	}
	return msgp.AppendBytes(buffer, value)
}

// appendInt writes the shortest form: msgp's own writes non-negative numbers as signed ones.
func appendInt(buffer []byte, value int64) []byte {
	if value >= 0 {
		return msgp.AppendUint64(buffer, uint64(value))
	}
	return msgp.AppendInt64(buffer, value)
}

func helloFrame(inputs, capabilities []string, parallel int, name string) []byte {
	b := beginFrame(nil, kindHello, 1)
	b = msgp.AppendMapHeader(b, 8)
	b = msgp.AppendString(b, "protocol")
	b = msgp.AppendArrayHeader(b, 2)
	b = appendInt(appendInt(b, minVersion), maxVersion)
	for _, field := range [][2]string{{"sdk", "millstream-go"}, {"language", "go"}, {"version", Version}} {
		b = msgp.AppendString(msgp.AppendString(b, field[0]), field[1])
	}
	b = appendTexts(msgp.AppendString(b, "capabilities"), capabilities)
	b = appendTexts(msgp.AppendString(b, "inputs"), inputs)
	b = appendInt(msgp.AppendString(b, "parallel"), int64(parallel))
	b = msgp.AppendString(msgp.AppendString(b, "name"), name)
	return endFrame(b)
}

func appendTexts(b []byte, texts []string) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(texts)))
	for _, text := range texts {
		b = msgp.AppendString(b, text)
	}
	return b
}

func numberFrame(kind uint8, number uint64) []byte {
	return endFrame(msgp.AppendUint64(beginFrame(nil, kind, 1), number))
}

func extendFrame(seq uint64, done int) []byte {
	return endFrame(appendInt(msgp.AppendUint64(beginFrame(nil, kindExtend, 2), seq), int64(done)))
}

func textFrame(kind uint8, texts ...string) []byte {
	b := beginFrame(nil, kind, uint32(len(texts)))
	for _, text := range texts {
		b = msgp.AppendString(b, text)
	}
	return endFrame(b)
}

func getFrame(seq, rid uint64, store int, keys [][]byte) []byte {
	b := beginFrame(nil, kindGet, 4)
	b = appendInt(msgp.AppendUint64(msgp.AppendUint64(b, seq), rid), int64(store))
	b = msgp.AppendArrayHeader(b, uint32(len(keys)))
	for _, key := range keys {
		b = msgp.AppendBytes(b, key)
	}
	return endFrame(b)
}

type scanRequest struct {
	store    int
	from, to []byte // nil: open
	limit    int
	reverse  bool
	cursor   []byte
	newOps   []stateOp // in the order they were made
}

func scanFrame(seq, rid uint64, scan *scanRequest) []byte {
	b := beginFrame(nil, kindScan, 9)
	b = appendInt(msgp.AppendUint64(msgp.AppendUint64(b, seq), rid), int64(scan.store))
	b = appendMaybeBytes(appendMaybeBytes(b, scan.from), scan.to)
	b = msgp.AppendBool(appendInt(b, int64(scan.limit)), scan.reverse)
	b = appendMaybeBytes(b, scan.cursor)
	byStore := map[int][]stateOp{}
	for _, op := range scan.newOps {
		byStore[op.store] = append(byStore[op.store], op)
	}
	b = msgp.AppendMapHeader(b, uint32(len(byStore)))
	for store, ops := range byStore {
		b = msgp.AppendArrayHeader(appendInt(b, int64(store)), uint32(len(ops)))
		for _, op := range ops {
			b = msgp.AppendBytes(msgp.AppendArrayHeader(b, 3), op.key)
			b = appendInt(appendMaybeBytes(b, op.value), int64(op.item))
		}
	}
	return endFrame(b)
}

type failure struct {
	class, name, message string
	retriable            bool
}

func appendFailure(b []byte, f *failure) []byte {
	if f == nil {
		return msgp.AppendNil(b)
	}
	b = msgp.AppendMapHeader(b, 4)
	b = msgp.AppendString(msgp.AppendString(b, "class"), f.class)
	b = msgp.AppendString(msgp.AppendString(b, "error"), f.name)
	b = msgp.AppendString(msgp.AppendString(b, "message"), f.message)
	return msgp.AppendBool(msgp.AppendString(b, "retriable"), f.retriable)
}

// readHead reads [kind, ...]; fields are those after the kind.
func readHead(r *frameReader) (kind uint64, fields int) {
	count := r.list("frame")
	if r.err == nil && count == 0 {
		r.fail("the frame is an empty array")
	}
	kind = r.uint64("kind")
	return kind, count - 1
}

func kindName(kind uint64) string {
	names := map[uint64]string{kindHello: "HELLO", kindWelcome: "WELCOME", kindOpen: "OPEN", kindClose: "CLOSE",
		kindBatch: "BATCH", kindResult: "RESULT", kindCancel: "CANCEL", kindGet: "GET", kindValues: "VALUES",
		kindScan: "SCAN", kindRows: "ROWS", kindExtend: "EXTEND", kindBegin: "BEGIN", kindFinalize: "FINALIZE", kindCommitted: "COMMITTED", kindPing: "PING", kindPong: "PONG",
		kindError: "ERROR", kindGoodbye: "GOODBYE"}
	if name, known := names[kind]; known {
		return name
	}
	return fmt.Sprintf("kind %d", kind)
}
