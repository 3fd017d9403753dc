#ifndef MILLSTREAM_SIDECAR_ENGINE_ENGINE_METRICS_H_
#define MILLSTREAM_SIDECAR_ENGINE_ENGINE_METRICS_H_

#include <string>

#include "common/base/metrics.h"

namespace millstream::engine {

// The engine's metrics, looked up once. Labelled with the processor's name.
struct EngineMetrics {
  EngineMetrics(MetricsRegistry* registry, const std::string& processor);
  // Of class Decode, Handler or Output; anything else a worker says counts as "Other".
  Counter* Failures(const std::string& failure_class) const;

  Counter* records;       // committed
  Counter* transactions;  // committed
  Counter* aborts;
  Counter* unknown_outcomes;
  Counter* late_results;
  Counter* dead_letters;
  Counter* skipped;
  Counter* ahead;  // records that do not move stream time
  Counter* late;   // per record and windowed store
  Counter* timers_fired;
  Counter* windows_closed;
  Counter* rows_expired;
  Counter *rows_visited, *visits_ended;
  Counter* worker_crashes;
  Counter* output_records;
  Counter* changelog_records;
  Counter *failures_decode, *failures_handler, *failures_output, *failures_other;
  Histogram* batch_seconds;   // from BATCH to RESULT
  Histogram* commit_seconds;  // from closing a transaction to its known outcome
  // Where that time goes, and from ApplyState to its answer.
  Histogram *flush_seconds, *offsets_seconds, *end_seconds, *apply_seconds;
  Gauge* lag;
  Gauge* overlay_bytes;
  Gauge* fetched_bytes;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_ENGINE_METRICS_H_
