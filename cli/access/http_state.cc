#include "cli/access/http_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/base/hex.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/client.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kDeadline = absl::Seconds(30);
constexpr size_t kMostRows = 1000;  // of one page, as the server has it
constexpr char kFormats[] = "key.format=hex&value.format=base64";

std::string Hex(std::string_view bytes) { return absl::BytesToHexString(ToAbsl(bytes)); }

Bytes ValueOf(const Json& row) {
  std::string bytes;
  absl::Base64Unescape(ToAbsl(row.at("value").get_ref<const std::string&>()), &bytes);
  return bytes;
}

std::optional<StateRow::Window> WindowOf(const Json& row) {
  if (!row.contains("start")) return std::nullopt;
  return StateRow::Window{row.at("start").get<int64_t>(), row.at("end").get<int64_t>()};
}

absl::Status ErrorOf(const http::Response& response) {
  const Json parsed = Json::parse(response.body, nullptr, false);
  std::string message = StrCat("HTTP ", response.status);
  if (parsed.is_object() && parsed.contains("error") && parsed["error"].is_object()) {
    message = parsed["error"].value("message", message);
    if (const std::string hint = parsed["error"].value("hint", ""); !hint.empty()) StrAppend(&message, "; ", hint);
  }
  if (response.status == 404) return absl::NotFoundError(message);
  if (response.status == 400) return absl::InvalidArgumentError(message);
  if (response.status == 504) return absl::DeadlineExceededError(message);
  return absl::UnavailableError(message);
}

class HttpState : public ProcessorBackend {
 public:
  HttpState(SidecarQuestion ask, std::string name) : ask_(std::move(ask)), name_(std::move(name)) {}

  absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const Json answer, Ask(StrCat("/v1/stores/", http::PercentEncode(query.store), "/keys/",
                                                      Hex(query.key), "?", kFormats)));
    return Converted<std::vector<StateRow>>([&] {
      std::vector<StateRow> rows;
      const auto take = [&](const Json& row) {
        rows.push_back({.task = answer.at("task").get<int32_t>(),
                        .key = query.key,
                        .value = ValueOf(row),
                        .window = WindowOf(row)});
      };
      if (answer.contains("windows")) {
        for (const Json& row : answer.at("windows")) take(row);
      } else {
        take(answer);
      }
      return rows;
    });
  }

  absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) override {
    std::string range = StrCat("/v1/stores/", http::PercentEncode(query.store), "/range?", kFormats);
    if (query.from) StrAppend(&range, "&from=", Hex(*query.from));
    if (query.to) StrAppend(&range, "&to=", Hex(*query.to));
    if (query.reverse) StrAppend(&range, "&reverse=true");
    std::vector<StateRow> rows;
    std::string cursor;
    while (rows.size() < query.limit) {
      MS_ASSIGN_OR_RETURN(const Json page, Ask(StrCat(range, "&limit=", std::min(query.limit - rows.size(), kMostRows),
                                                      cursor.empty() ? "" : "&cursor=", http::PercentEncode(cursor))));
      MS_ASSIGN_OR_RETURN(cursor, Converted<std::string>([&] {
                            for (const Json& row : page.at("rows")) {
                              rows.push_back({.task = row.at("task").get<int32_t>(),
                                              .key = BytesOfHex(row.at("key").get_ref<const std::string&>()).value(),
                                              .value = ValueOf(row),
                                              .window = WindowOf(row)});
                            }
                            return page.at("cursor").is_null() ? std::string() : page.at("cursor").get<std::string>();
                          }));
      if (cursor.empty()) break;
    }
    return rows;
  }

  absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string&) override { return NotOverHttp(); }
  absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string&, const std::vector<int32_t>&) override {
    return NotOverHttp();
  }

 private:
  static absl::Status NotOverHttp() { return absl::UnimplementedError("only state is read over HTTP"); }

  absl::StatusOr<Json> Ask(const std::string& path) const {
    const absl::StatusOr<std::string> answer = ask_(path);
    if (!answer.ok()) return Annotate(answer.status(), name_);
    Json parsed = Json::parse(*answer, nullptr, false);
    if (parsed.is_object()) return parsed;
    return absl::InternalError(StrCat(name_, " does not answer as a sidecar does; is it one?"));
  }

  template <typename T, typename F>
  absl::StatusOr<T> Converted(const F& convert) const {
    try {
      return convert();
    } catch (const std::exception& error) {
      return absl::InternalError(StrCat(name_, " does not answer as a sidecar does: ", error.what()));
    }
  }

  const SidecarQuestion ask_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<ProcessorBackend> NewHttpState(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  SidecarQuestion ask = [url](const std::string& path) -> absl::StatusOr<std::string> {
    MS_ASSIGN_OR_RETURN(http::Response response, http::Get(url + path, kDeadline));
    if (response.status != 200) return ErrorOf(response);
    return std::move(response.body);
  };
  return NewHttpState(std::move(ask), url);
}

std::unique_ptr<ProcessorBackend> NewHttpState(SidecarQuestion ask, std::string name) {
  return std::make_unique<HttpState>(std::move(ask), std::move(name));
}

}  // namespace millstream::cli
