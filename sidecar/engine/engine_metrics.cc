#include "sidecar/engine/engine_metrics.h"

namespace millstream::engine {

EngineMetrics::EngineMetrics(MetricsRegistry* registry, const std::string& processor) {
  const MetricLabels labels = {{"processor", processor}};
  auto counter = [&](const char* name, const char* help) { return registry->GetCounter(name, help, labels); };
  auto gauge = [&](const char* name, const char* help) { return registry->GetGauge(name, help, labels); };
  auto failures = [&](const char* failure_class) {
    return registry->GetCounter("millstream_record_failures_total", "Failed attempts to handle a record, by class.",
                                {{"processor", processor}, {"class", failure_class}});
  };
  records = counter("millstream_records_total", "Input records whose effects are committed.");
  transactions = counter("millstream_transactions_total", "Committed transactions.");
  aborts = counter("millstream_transactions_aborted_total", "Aborted transactions.");
  unknown_outcomes =
      counter("millstream_transaction_outcomes_unknown_total", "Commits whose outcome had to be looked up.");
  late_results = counter("millstream_late_results_total", "Results of batches that were cancelled before; dropped.");
  dead_letters = counter("millstream_dead_letters_total", "Records given to the dead-letter topic.");
  skipped = counter("millstream_records_skipped_total", "Records skipped because they failed (onFailure: Skip).");
  ahead = counter("millstream_records_ahead_total",
                  "Records further in the future than timestamps.maxAhead; they do not move event time.");
  late = counter("millstream_records_late_total",
                 "Records behind the grace of every window they belong to; once per store that did not take them.");
  timers_fired = counter("millstream_timers_fired_total", "Timers that were due and are done.");
  windows_closed = counter("millstream_windows_closed_total", "Windows that closed (emit: Final) and are done.");
  rows_expired = counter("millstream_rows_expired_total", "Rows deleted because their ttl was over.");
  rows_visited = counter("millstream_rows_visited_total", "Rows that visits are done with.");
  visits_ended = counter("millstream_visits_ended_total", "Visits that came to the end of their task's rows.");
  worker_crashes =
      counter("millstream_worker_crashes_total", "Workers that ended or misbehaved with a batch in flight.");
  output_records = counter("millstream_output_records_total", "Records staged for outputs.");
  changelog_records = counter("millstream_changelog_records_total", "Records staged for changelogs.");
  failures_decode = failures("Decode");
  failures_handler = failures("Handler");
  failures_output = failures("Output");
  failures_other = failures("Other");
  batch_seconds = registry->GetHistogram("millstream_batch_seconds", "Time a batch spends at its worker.", labels,
                                         {0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30});
  commit_seconds =
      registry->GetHistogram("millstream_commit_seconds", "From closing a transaction to its known outcome.", labels,
                             {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5});
  auto phase = [&](const char* name) {
    return registry->GetHistogram(
        "millstream_transaction_phase_seconds",
        "Where the time of a transaction goes: flush (records acknowledged), offsets (sent), commit (answered); then "
        "apply (its state written to the stores, several transactions at a time).",
        {{"processor", processor}, {"phase", name}},
        {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5});
  };
  flush_seconds = phase("flush");
  offsets_seconds = phase("offsets");
  end_seconds = phase("commit");
  apply_seconds = phase("apply");
  lag = gauge("millstream_lag_records", "Records between the committed positions and the known ends of the inputs.");
  overlay_bytes = gauge("millstream_state_staged_bytes", "State in memory: staged, or committed and not yet on disk.");
  fetched_bytes = gauge("millstream_fetched_bytes", "Input records in memory.");
}

Counter* EngineMetrics::Failures(const std::string& failure_class) const {
  if (failure_class == "Decode") return failures_decode;
  if (failure_class == "Handler") return failures_handler;
  if (failure_class == "Output") return failures_output;
  return failures_other;
}

}  // namespace millstream::engine
