package millstream

import (
	"slices"
	"strings"
)

// kitLink answers from committed state and the batch's own writes.
type kitLink struct {
	kit     *TestKit
	scratch []map[string][]byte
}

func (l *kitLink) get(_ *batchRun, store int, keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i] = l.kit.rows[store][string(key)]
	}
	return values, nil
}

func (l *kitLink) scan(_ *batchRun, request *scanRequest) ([]rawRow, []byte, error) {
	for _, op := range request.newOps {
		if l.scratch[op.store] == nil {
			l.scratch[op.store] = map[string][]byte{}
		}
		l.scratch[op.store][string(op.key)] = op.value
	}
	merged := map[string][]byte{}
	for _, layer := range []map[string][]byte{l.kit.rows[request.store], l.scratch[request.store]} {
		for key, value := range layer {
			merged[key] = value
		}
	}
	var rows []rawRow
	for key, value := range merged {
		inside := value != nil && (request.from == nil || key >= string(request.from)) && (request.to == nil || key < string(request.to))
		if request.cursor != nil {
			inside = inside && (key > string(request.cursor)) != request.reverse && key != string(request.cursor)
		}
		if inside {
			rows = append(rows, rawRow{[]byte(key), value})
		}
	}
	slices.SortFunc(rows, func(a, b rawRow) int {
		order := strings.Compare(string(a.key), string(b.key))
		if request.reverse {
			return -order
		}
		return order
	})
	page := testPage
	if request.limit > 0 {
		page = min(page, request.limit)
	}
	if len(rows) <= page {
		return rows, nil, nil
	}
	return rows[:page], rows[page-1].key, nil
}

func (l *kitLink) extend(*batchRun, int) error { return nil }
