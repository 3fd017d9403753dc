package millstream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unsafe"
)

// A Codec turns keys or values into bytes and back. Null keys and values never reach one. Codecs are used from several
// goroutines at once. For Avro, Protobuf or a schema registry write one of your own.
type Codec[T any] interface {
	// Name appears in errors.
	Name() string
	// Append appends the bytes of value to dst and returns the extended slice.
	Append(dst []byte, value T) ([]byte, error)
	// Decode must not change data; the value may refer to it.
	Decode(data []byte) (T, error)
}

// The ready-made codecs.
var (
	// Bytes as they are. A decoded value refers to memory it shares with other records: do not change it.
	Bytes Codec[[]byte] = bytesCodec{}
	// String is any byte string; it survives a round trip exactly, also where it is not UTF-8.
	String Codec[string] = stringCodec{}
	// Int64 is 8 bytes big-endian, as Kafka's LongSerializer; scans order negative numbers after positive ones.
	Int64 Codec[int64] = int64Codec{}
)

// JSON is what encoding/json makes of T, without HTML escapes and without a newline.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type bytesCodec struct{}

func (bytesCodec) Name() string { return "bytes" }
func (bytesCodec) Append(dst []byte, value []byte) ([]byte, error) {
	return append(dst, value...), nil
}
func (bytesCodec) Decode(data []byte) ([]byte, error) { return data, nil }

type stringCodec struct{}

func (stringCodec) Name() string { return "string" }
func (stringCodec) Append(dst []byte, value string) ([]byte, error) {
	return append(dst, value...), nil
}

// The bytes are part of a frame that nobody writes to, so no copy is needed.
func (stringCodec) Decode(data []byte) (string, error) {
	return unsafe.String(unsafe.SliceData(data), len(data)), nil
}

type int64Codec struct{}

func (int64Codec) Name() string { return "int64" }
func (int64Codec) Append(dst []byte, value int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(value)), nil
}
func (int64Codec) Decode(data []byte) (int64, error) {
	if len(data) != 8 {
		return 0, fmt.Errorf("an integer is 8 bytes big-endian, these are %d", len(data))
	}
	return int64(binary.BigEndian.Uint64(data)), nil
}

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Name() string { return "json" }
func (jsonCodec[T]) Append(dst []byte, value T) ([]byte, error) {
	writer := appendWriter{dst}
	encoder := json.NewEncoder(&writer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return dst, err
	}
	return writer.bytes[:len(writer.bytes)-1], nil // Encode ends with a newline
}
func (jsonCodec[T]) Decode(data []byte) (value T, err error) {
	if err = json.Unmarshal(data, &value); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			err = fmt.Errorf("%w at byte %d", err, syntax.Offset)
		}
	}
	return value, err
}

type appendWriter struct{ bytes []byte }

func (w *appendWriter) Write(more []byte) (int, error) {
	w.bytes = append(w.bytes, more...)
	return len(more), nil
}
