#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_DATABASE_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_DATABASE_H_

#include <map>

#include "common/base/bytes.h"
#include "common/base/ids.h"
#include "sidecar/engine/testing/scripted_handler.h"

namespace millstream::engine::testing {

// The database of the workers of a scripted world with an external store: what is committed in it. A worker works on a
// copy of a row between LOAD and STORE, which is its transaction; the row's lock needs no more than that each of the
// two happens at once.
struct ScriptedDatabase {
  struct Row {
    uint64_t fence = 0;
    MaybeBytes checkpoint;
    Model model;
  };
  std::map<TaskId, Row> rows;
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_DATABASE_H_
