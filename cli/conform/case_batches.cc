// Batches of a case: sent with the state of their keys, their RESULTs checked and added up.
#include <algorithm>
#include <set>
#include <variant>

#include "cli/conform/case_run.h"
#include "cli/conform/match.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli::conform {
namespace {

// A worker may hand a batch back unhandled now and then, but not for ever.
constexpr int kMostIdleResults = 20;

absl::Status Fails(std::string problem) { return absl::FailedPreconditionError(std::move(problem)); }

void Append(std::vector<std::string> more, std::vector<std::string>* lines) {
  std::move(more.begin(), more.end(), std::back_inserter(*lines));
}

Json HeadersOf(const protocol::OutputRecord& output) {
  Json headers = Json::array();
  for (const auto& [name, value] : output.headers) headers.push_back({ShowBytes(name), ShowMaybeBytes(value)});
  return headers;
}

}  // namespace

absl::Status CaseRun::SendBatch(const Json& argument) {
  Flight flight;
  Json records = Json::array();
  for (const auto& [field, value] : argument.items()) {
    if (field == "records" && value.is_array()) {
      records = value;
    } else if (field == "seq" && value.is_number_unsigned()) {
      flight.seq = value.get<uint64_t>();
    } else if (field == "task" && value.is_number_unsigned()) {
      flight.task = value.get<int32_t>();
    } else if (field == "trace" && value.is_boolean()) {
      flight.flags = value.get<bool>() ? protocol::kFlagTrace : 0;
    } else if (field == "watermark" && value.is_number_integer()) {
      flight.watermark_ms = value.get<int64_t>();
    } else if (field == "notPrefetched" && value.is_object()) {
      flight.not_prefetched = value;
    } else {
      return Fails(StrCat("batch has no field ", field, ": ", value.dump()));
    }
  }
  int64_t offset = 0;
  for (const Flight& earlier : flights_) offset += static_cast<int64_t>(earlier.records.size());
  MS_ASSIGN_OR_RETURN(flight.records, ReadRecords(records, inputs_, visits_, shapes_, &offset));
  if (flight.seq == 0) flight.seq = next_seq_;
  flights_.push_back(std::move(flight));
  return SendFlight(flights_.back());
}

absl::Status CaseRun::SendFlight(Flight& flight) {
  flight.sent_as = flight.done == 0 && flight.sent_as == 0 ? flight.seq : next_seq_;
  next_seq_ = std::max(next_seq_, flight.sent_as) + 1;
  flight.extends.clear();
  flight.requests.clear();
  std::vector<size_t> prefetched;
  for (size_t id = 0; id < writable_ + welcome_["joins"].size(); ++id) {
    if (id >= writable_ || welcome_["stores"][id].value("prefetched", true)) prefetched.push_back(id);
  }
  return SendBytes(BatchFrame(flight, model_, stores_, shapes_, prefetched));
}

absl::Status CaseRun::AwaitResult(const Json& argument) {
  const auto of = argument.find("seq");
  const auto awaited = std::find_if(flights_.begin(), flights_.end(), [&](const Flight& flight) {
    return of == argument.end() ? !flight.ended && !flight.cancelled : flight.seq == of->get<uint64_t>();
  });
  if (awaited == flights_.end()) return Fails("no batch waits for a RESULT");
  while (!awaited->ended) {
    MS_ASSIGN_OR_RETURN(const WorkerFrame frame, Next("RESULT", options_.timeout));
    const auto* result = std::get_if<protocol::Result>(&frame.message);
    if (result == nullptr) return Fails("something else came (last line of the frames)");
    Flight* flight = FindFlight(result->seq);
    if (!flight->cancelled) MS_RETURN_IF_ERROR(TakeResult(*flight, *result));
  }

  std::vector<std::string> lines;
  const uint64_t all = awaited->records.size();
  const Json done = argument.contains("done") ? argument["done"] : Json(all);
  Append(Differences(done, awaited->done, "done", false), &lines);
  Append(Differences(argument.value("failure", Json()), awaited->failure, "failure", false), &lines);
  MS_ASSIGN_OR_RETURN(const Json state, ReadExpectedState(argument.value("state", Json::object()), shapes_));
  Append(Differences(state, awaited->state, "state", true), &lines);
  MS_ASSIGN_OR_RETURN(const Json timers, ReadExpectedTimers(argument.value("timers", Json::array())));
  Append(Differences(timers, awaited->timers, "timers", true), &lines);
  MS_ASSIGN_OR_RETURN(const Json visits, ReadExpectedVisits(argument.value("visits", Json::array())));
  Append(Differences(visits, awaited->visits, "visits", true), &lines);
  if (argument.contains("results"))
    Append(Differences(argument["results"], Json(awaited->results), "number of RESULTs", false), &lines);
  if (argument.contains("outputCount")) {
    Append(Differences(argument["outputCount"], awaited->outputs.size(), "number of outputs", false), &lines);
  } else {
    MS_ASSIGN_OR_RETURN(const Json outputs, ReadExpectedOutputs(argument.value("outputs", Json::array())));
    Append(Differences(outputs, awaited->outputs, "outputs", true), &lines);
  }
  static const std::set<std::string> kFields = {"seq",         "done",   "failure", "state",  "outputs",
                                                "outputCount", "timers", "visits",  "results"};
  for (const auto& [field, value] : argument.items()) {
    if (!kFields.contains(field)) lines.push_back(StrCat("result has no field ", field));
  }
  std::string text;
  for (const std::string& line : lines) StrAppend(&text, text.empty() ? "" : "\n", line);
  return lines.empty() ? absl::OkStatus() : Fails(text);
}

absl::Status CaseRun::TakeResult(Flight& flight, const protocol::Result& result) {
  const size_t left = flight.records.size() - flight.done;
  if (result.done > left) return Fails(StrCat("RESULT says done ", result.done, " of ", left, " items"));
  if (result.failure.has_value() && result.done == left && !flight.hook)
    return Fails("RESULT has a failure, but no item is left that could have failed");
  if (!flight.requests.empty()) return Fails("RESULT came before GETs and SCANs of its batch were answered");
  MS_RETURN_IF_ERROR(CheckTrace(flight, result.done, result.failure.has_value()));
  for (const auto& [store, ops] : result.ops) {
    if (store >= writable_)
      return Fails(StrCat("RESULT writes to store ", store, ", which WELCOME does not list as one"));
    Json& rows = flight.state[stores_[store]];
    const StoreShape& shape = ShapeOf(shapes_, store);
    for (const protocol::StateOp& op : ops) {
      if (!IsRow(shape, op.key))
        return Fails(StrCat("RESULT writes ", ShowJson(ShowRow(shape, op.key)), " to store ", stores_[store],
                            ", which is no row of it"));
      rows[ShowRow(shape, op.key).get<std::string>()] = ShowMaybeBytes(op.value);
    }
  }
  for (const protocol::TimerOp& timer : result.timers) {
    if (!welcome_.value("timers", false)) return Fails("RESULT has timers, and WELCOME said that there are none");
    flight.timers.push_back({ShowBytes(timer.key), timer.clock == protocol::TimerClock::kWallClock ? "wall" : "event",
                             ShowBytes(timer.name), timer.time_ms ? Json(*timer.time_ms) : Json()});
  }
  for (const protocol::VisitOp& visit : result.visits) {
    if (visit.visit >= visits_.size())
      return Fails(StrCat("RESULT names visit ", visit.visit, ", which WELCOME does not list"));
    static constexpr const char* kWhat[] = {"start", "stop", "pause", "resume"};
    flight.visits.push_back({visits_[visit.visit], kWhat[static_cast<size_t>(visit.what)], ShowMaybeBytes(visit.data)});
  }
  ++flight.results;
  for (const protocol::OutputRecord& output : result.outputs) {
    if (output.output >= outputs_.size())
      return Fails(StrCat("RESULT names output ", output.output, ", which WELCOME does not list"));
    flight.outputs.push_back({{"output", outputs_[output.output]},
                              {"key", ShowMaybeBytes(output.key)},
                              {"value", ShowMaybeBytes(output.value)},
                              {"timestamp", output.timestamp_ms ? Json(*output.timestamp_ms) : Json()},
                              {"headers", HeadersOf(output)},
                              {"partition", output.partition ? Json(*output.partition) : Json()}});
  }
  model_.Apply(result);
  JoinSessions(shapes_, result.done, &flight, &model_);
  flight.done += result.done;
  flight.idle_results = result.done == 0 ? flight.idle_results + 1 : 0;
  if (result.failure.has_value()) {
    flight.failure = {{"class", result.failure->failure_class},
                      {"error", result.failure->error},
                      {"message", result.failure->message},
                      {"retriable", result.failure->retriable}};
    flight.ended = true;
  } else if (flight.done == flight.records.size()) {
    flight.ended = true;
  } else if (flight.idle_results > kMostIdleResults) {
    return Fails(StrCat("the batch was handed back ", flight.idle_results, " times without an item done"));
  } else {
    return SendFlight(flight);
  }
  return absl::OkStatus();
}

// EXTEND with the number of finished items comes before each item of a traced batch.
absl::Status CaseRun::CheckTrace(const Flight& flight, uint32_t done, bool failed) const {
  if ((flight.flags & protocol::kFlagTrace) == 0) return absl::OkStatus();
  std::vector<uint32_t> wanted(done + (failed ? 1 : 0));
  for (uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
  const std::vector<std::string> lines = Differences(wanted, flight.extends, "EXTENDs of a traced batch", true);
  return lines.empty() ? absl::OkStatus() : Fails(lines[0]);
}

absl::Status CaseRun::ServeOne() {
  MS_RETURN_IF_ERROR(SendBatch(Json::parse(R"({"records": [{"key": "health", "value": "set counts well"}]})")));
  return Annotate(AwaitResult(Json::parse(R"({"state": {"counts": {"health": "well"}}})")), "a good batch");
}

}  // namespace millstream::cli::conform
