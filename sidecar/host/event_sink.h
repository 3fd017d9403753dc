#ifndef MILLSTREAM_SIDECAR_HOST_EVENT_SINK_H_
#define MILLSTREAM_SIDECAR_HOST_EVENT_SINK_H_

#include "sidecar/engine/io.h"

namespace millstream::host {

// Takes events for the engine. Thread-safe, never blocks; events of one thread keep their order.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void Post(engine::Event event) = 0;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_EVENT_SINK_H_
