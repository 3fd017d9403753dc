#ifndef MILLSTREAM_OPERATOR_RECONCILE_STATUS_WRITER_H_
#define MILLSTREAM_OPERATOR_RECONCILE_STATUS_WRITER_H_

#include "absl/status/status.h"
#include "operator/reconcile/reconciler.h"
#include "operator/reconcile/status_view.h"

namespace millstream::reconcile {

// How both passes end: writes the status where it is worth it (model::StatusToWrite), and remembers it for the gauges.
// `after`: what the status is, or would be. ABORTED: the processor has changed meanwhile; the next pass knows it.
absl::Status WriteStatusIfNews(const Surroundings& around, const StatusInput& input, ProcessorMemory* memory,
                               Json* after);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_STATUS_WRITER_H_
