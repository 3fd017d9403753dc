#include "sidecar/server/http_endpoints_json.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/strings.h"

namespace millstream::server {
namespace {

// Writes one JSON object. Not nlohmann's: values of the store are inserted as they are, numbers of any size unharmed.
class ObjectWriter {
 public:
  ObjectWriter& Raw(std::string_view name, std::string_view json) {
    StrAppend(&text_, text_.empty() ? "{" : ",", Quote(name), ":", json);
    return *this;
  }
  ObjectWriter& Text(std::string_view name, std::string_view value) { return Raw(name, Quote(value)); }
  ObjectWriter& Number(std::string_view name, int64_t value) { return Raw(name, StrCat(value)); }
  std::string Done() { return text_.empty() ? "{}" : text_ + "}"; }

 private:
  std::string text_;
};

template <typename Items, typename ToJson>
std::string Array(const Items& items, const ToJson& to_json) {
  std::string text = "[";
  for (const auto& item : items) StrAppend(&text, text.size() > 1 ? "," : "", to_json(item));
  return text + "]";
}

http::Response Ok(std::string json) { return {200, "application/json", std::move(json) + "\n", {}}; }

std::string OffsetJson(Offset offset) { return offset == kNoOffset ? "null" : StrCat(offset.value()); }

std::string InputJson(const TaskReport::Input& input) {
  const bool known = input.committed != kNoOffset && input.end != kNoOffset;
  return ObjectWriter()
      .Text("name", input.name)
      .Text("topic", input.topic)
      .Number("partition", input.partition.value())
      .Raw("committed", OffsetJson(input.committed))
      .Raw("position", OffsetJson(input.position))
      .Raw("end", OffsetJson(input.end))
      .Raw("lag", known ? StrCat(std::max<int64_t>(0, input.end - input.committed)) : "null")
      .Done();
}

std::string WholeSecondsJson(const std::optional<absl::Duration>& time) {
  return time ? StrCat(absl::ToInt64Seconds(absl::Ceil(*time, absl::Seconds(1)))) : "null";
}

// With milliseconds where there are any.
std::string SecondsJson(absl::Duration time) {
  const int64_t ms = absl::ToInt64Milliseconds(time);
  if (ms % 1000 == 0) return StrCat(ms / 1000);
  return absl::StrFormat("%d.%03d", ms / 1000, ms % 1000);
}

std::string SummaryJson(const std::vector<TaskReport>& tasks) {
  const auto in = [&tasks](std::string_view state) {
    return std::count_if(tasks.begin(), tasks.end(), [state](const TaskReport& task) { return task.state == state; });
  };
  ObjectWriter json;
  json.Number("total", static_cast<int64_t>(tasks.size()));
  for (const char* state : {"active", "restoring", "standby", "stopped"}) json.Number(state, in(state));
  return json.Done();
}

// Of a task that is stopped; else of one that is not, as one that cannot be opened.
std::string FirstErrorJson(const std::vector<TaskReport>& tasks) {
  const TaskReport* first = nullptr;
  for (const TaskReport& task : tasks) {
    if (task.error.empty() || (first != nullptr && (first->state == "stopped" || task.state != "stopped"))) continue;
    first = &task;
  }
  if (first == nullptr) return "null";
  ObjectWriter json;
  json.Number("task", first->task.value());
  if (first->error_at && first->error_at->input < first->inputs.size()) {
    const TaskReport::Input& input = first->inputs[first->error_at->input];
    json.Text("input", input.name).Text("topic", input.topic).Number("partition", input.partition.value());
    json.Raw("offset", OffsetJson(first->error_at->offset));
  } else {
    json.Raw("input", "null").Raw("topic", "null").Raw("partition", "null").Raw("offset", "null");
  }
  return json.Text("message", first->error).Done();
}

std::string TaskJson(const TaskReport& task) {
  ObjectWriter json;
  json.Number("task", task.task.value()).Text("state", task.state);
  if (!task.error.empty()) json.Text("error", task.error);
  if (task.error_at) json.Raw("errorOffset", OffsetJson(task.error_at->offset));
  json.Raw("inputs", Array(task.inputs, InputJson));
  if (task.restore) {
    json.Raw("restore", ObjectWriter()
                            .Text("store", task.restore->store)
                            .Raw("position", OffsetJson(task.restore->position))
                            .Raw("end", OffsetJson(task.restore->end))
                            .Number("bytes", task.restore->bytes)
                            .Number("bytesLeft", task.restore->bytes_left)
                            .Raw("etaSeconds", WholeSecondsJson(task.restore->time_left))
                            .Done());
  }
  json.Raw("records", StrCat(task.records));
  if (task.attempt > 1) json.Number("attempt", task.attempt);
  return json.Done();
}

// Position, owner and age, as every answer has them.
void AddSource(const AnswerSource& source, int64_t now_ms, ObjectWriter* json) {
  ObjectWriter position;
  for (const auto& [topic, offset] : source.position) position.Number(topic, offset.value());
  json->Text("owner", source.owner).Number("task", source.task.value()).Raw("position", position.Done());
  json->Raw("ageMs", source.written_ms == 0 ? "null" : StrCat(std::max<int64_t>(0, now_ms - source.written_ms)));
}

void AddValue(ValueFormat wanted, std::string_view bytes, ObjectWriter* json) {
  const RenderedValue value = Render(wanted, bytes);
  json->Raw("value", value.json).Text("format", value.format);
}

void AddBounds(const engine::Bounds& bounds, ObjectWriter* json) {
  json->Number("start", bounds.start).Number("end", bounds.end);
  json->Text("startTime", IsoTime(bounds.start)).Text("endTime", IsoTime(bounds.end));
}

std::string ErrorJson(const absl::Status& status, const std::string& hint) {
  ObjectWriter error;
  error.Text("code", ToStd(absl::StatusCodeToString(status.code()))).Text("message", ToStd(status.message()));
  if (!hint.empty()) error.Text("hint", hint);
  return error.Done();
}

std::string NoSuchKey(const std::string& store, const KeyQuery& query) {
  return ErrorJson(absl::NotFoundError(StrCat("store '", store, "' has no key '", Readable(query.key), "'")),
                   "keys that are not text need key.format=base64, hex or int64");
}

// Of one key, found or not: store, position and owner behind what `json` has.
http::Response Answer(bool found, const std::string& store, const AnswerSource& source, int64_t now_ms,
                      ObjectWriter* json) {
  json->Text("store", store);
  AddSource(source, now_ms, json);
  return {found ? 200 : 404, "application/json", json->Done() + "\n", {}};
}

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDataLoss:  // the state is rebuilt
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

}  // namespace

http::Response ErrorResponse(const absl::Status& status, const std::string& hint) {
  http::Response response;
  response.status = HttpStatusOf(status.code());
  response.body = ObjectWriter().Raw("error", ErrorJson(status, hint)).Done() + "\n";
  if (response.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

http::Response TasksResponse(const ProcessorReport& report) {
  ObjectWriter json;
  json.Text("processor", report.processor)
      .Text("group", report.group)
      .Text("member", report.member)
      .Text("version", report.version)
      .Text("guarantee", report.guarantee)
      .Text("state", report.paused ? "Paused" : "Running")
      .Text("drain", report.drain)
      .Raw("drained", report.drain == "Drained" ? "true" : "false")
      .Raw("inGroup", report.in_group ? "true" : "false")
      .Raw("ready", report.ready ? "true" : "false")
      .Number("workers", report.workers)
      .Raw("workerConnected", report.workers > 0 ? "true" : "false")
      .Number("partitions", static_cast<int64_t>(report.tasks.size()))
      .Raw("summary", SummaryJson(report.tasks))
      .Raw("lag", ObjectWriter()
                      .Number("records", report.lag_records)
                      .Raw("seconds", report.lag_time ? SecondsJson(*report.lag_time) : "null")
                      .Done())
      .Raw("restore", ObjectWriter()
                          .Number("bytesLeft", report.restore_bytes_left)
                          .Raw("etaSeconds", WholeSecondsJson(report.restore_time_left))
                          .Done())
      .Raw("firstError", FirstErrorJson(report.tasks))
      .Raw("orders", report.orders.empty() ? "null" : report.orders)
      .Raw("tasks", Array(report.tasks, TaskJson))
      .Raw("conditions", Array(report.conditions, [](const ProcessorReport::Condition& condition) {
             return ObjectWriter().Text("reason", condition.reason).Text("message", condition.message).Done();
           }));
  return Ok(json.Done());
}

http::Response StoresResponse(const std::vector<std::string>& stores) {
  return Ok(ObjectWriter().Raw("stores", Array(stores, [](const std::string& name) { return Quote(name); })).Done());
}

http::Response KeyResponse(const std::string& store, const KeyQuery& query, const KeyAnswer& answer, int64_t now_ms) {
  ObjectWriter json;
  if (answer.value) {
    AddValue(query.value_format, *answer.value, &json);
  } else {
    json.Raw("error", NoSuchKey(store, query));
  }
  return Answer(answer.value.has_value(), store, answer.source, now_ms, &json);
}

http::Response WindowsResponse(const std::string& store, const KeyQuery& query, const KeyWindows& windows,
                               int64_t now_ms) {
  ObjectWriter json;
  if (windows.rows.empty()) {
    json.Raw("error", NoSuchKey(store, query));
  } else {
    json.Raw("windows", Array(windows.rows, [&](const KeyWindows::Row& row) {
               ObjectWriter window;
               AddBounds(row.bounds, &window);
               AddValue(query.value_format, row.value, &window);
               return window.Done();
             }));
    json.Raw("more", windows.more ? "true" : "false");
  }
  return Answer(!windows.rows.empty(), store, windows.source, now_ms, &json);
}

http::Response RangeResponse(const std::string& store, const spec::StoreSpec* windowed, const RangeQuery& query,
                             const MergedPage& page, int64_t now_ms) {
  ObjectWriter json;
  json.Text("store", store);
  json.Raw("rows", Array(page.rows, [&](const MergedPage::Row& row) {
             const std::optional<engine::RowParts> parts =
                 windowed == nullptr ? std::nullopt : engine::ParseRowKey(*windowed, row.key);
             // A key is never shown as JSON: "1" the text and 1 the number would look like two keys.
             const RenderedValue key =
                 Render(query.key_format == ValueFormat::kAuto ? ValueFormat::kUtf8 : query.key_format,
                        parts ? parts->key : std::string_view(row.key));
             ObjectWriter shown;
             shown.Raw("key", key.json).Text("keyFormat", key.format);
             if (parts) AddBounds(parts->bounds, &shown);
             AddValue(query.value_format, row.value, &shown);
             return shown.Number("task", row.task.value()).Done();
           }));
  json.Raw("cursor", page.more ? Quote(EncodeCursor({page.rows.back().key, page.rows.back().task})) : "null");
  json.Raw("sources", Array(page.sources, [&](const AnswerSource& source) {
             ObjectWriter one;
             AddSource(source, now_ms, &one);
             return one.Done();
           }));
  return Ok(json.Done());
}

}  // namespace millstream::server
