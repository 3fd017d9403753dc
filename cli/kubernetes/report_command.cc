// report: what somebody who helps wants to see of a processor, in one file, without secrets and without data.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/kubernetes/commands.h"
#include "cli/kubernetes/redact.h"
#include "cli/kubernetes/tar_writer.h"
#include "cli/text_format.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/json.h"

namespace millstream::cli {
namespace {

constexpr int kLogLines = 1000;

std::string Pretty(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

// The archive and a list of what could not be had.
class Bundle {
 public:
  explicit Bundle(std::string root) : root_(std::move(root)), tar_(absl::ToUnixSeconds(absl::Now())) {}

  void AddObject(const std::string& name, const absl::StatusOr<Json>& object) {
    if (!object.ok()) return Miss(name, object.status());
    AddText(StrCat(name, ".json"), Pretty(Redacted(*object)));
  }
  void AddList(const std::string& name, absl::StatusOr<kube::ObjectList> list) {
    if (!list.ok()) return Miss(name, list.status());
    AddObject(name, Json(std::move(list->items)));
  }
  void AddText(const std::string& name, const absl::StatusOr<std::string>& text) {
    if (!text.ok()) return Miss(name, text.status());
    tar_.Add(StrCat(root_, "/", name), RedactedText(*text));
    ++files_;
  }
  std::string Finish() {
    if (!missing_.empty()) tar_.Add(StrCat(root_, "/missing.txt"), missing_);
    return tar_.Finish();
  }
  int files() const { return files_; }
  const std::string& missing() const { return missing_; }

 private:
  void Miss(const std::string& name, const absl::Status& status) {
    StrAppend(&missing_, name, ": ", std::string(status.message()), "\n");
  }

  const std::string root_;
  TarWriter tar_;
  int files_ = 0;
  std::string missing_;
};

kube::Selection Of(const Json& processor) {
  const kube::ObjectKey key = kube::KeyOf(processor);
  kube::Selection selection;
  selection.name_space = key.name_space;
  selection.label_selector = StrCat("app.kubernetes.io/name=streamprocessor,app.kubernetes.io/instance=", key.name);
  return selection;
}

absl::StatusOr<kube::ObjectList> EventsOf(Cluster& cluster, const Json& processor) {
  const kube::ObjectKey key = kube::KeyOf(processor);
  kube::Selection selection;
  selection.name_space = key.name_space;
  MS_ASSIGN_OR_RETURN(kube::ObjectList events, cluster.client().List(kube::kEvents, selection));
  std::erase_if(events.items, [&key](const Json& event) {
    const std::string about = kube::TextAt(event, {"regarding", "name"});
    return about != key.name && !about.starts_with(key.name + "-");
  });
  return events;
}

void AddPod(Cluster& cluster, const Json& pod, Bundle* bundle) {
  const kube::ObjectKey key = kube::KeyOf(pod);
  const std::string folder = StrCat("pods/", key.name, "/");
  bundle->AddObject(folder + "pod", pod);
  const absl::StatusOr<std::string> tasks = cluster.AskSidecar(key, "/v1/tasks");
  bundle->AddObject(folder + "tasks", tasks.ok() ? kube::ParseJson(*tasks, "/v1/tasks") : tasks.status());
  bundle->AddText(folder + "metrics.txt", cluster.AskSidecar(key, "/metrics"));
  // Of the sidecar: it never logs records. What the worker logs is nobody's business here.
  bundle->AddText(folder + "millstream.log", cluster.Log(key, "millstream", kLogLines));
}

absl::Status WriteFile(const std::string& path, const std::string& content) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    return absl::FailedPreconditionError(StrCat(path, ": ", std::strerror(errno), "; choose another file with --file"));
  }
  absl::Cleanup close_file = [file] { close(file); };
  for (size_t written = 0; written < content.size();) {
    const ssize_t more = write(file, content.data() + written, content.size() - written);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return absl::UnavailableError(StrCat(path, ": ", std::strerror(errno)));
    written += static_cast<size_t>(more);
  }
  return absl::OkStatus();
}

int Report(const ClusterContext& context, const std::string& wanted) {
  return context.WithProcessor([&](Cluster& cluster, const Json& processor) -> absl::Status {
    const kube::ObjectKey key = kube::KeyOf(processor);
    const std::string root =
        StrCat("millstream-", key.name, "-", absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone()));
    const std::string path = wanted.empty() ? root + ".tar" : wanted;
    Bundle bundle(root);
    bundle.AddText("about.txt", StrCat("kubectl-millstream ", MILLSTREAM_VERSION, "\n", key.Text(), "\n"));
    bundle.AddObject("processor", processor);
    bundle.AddObject("statefulset", cluster.client().Get(kube::kStatefulSets, key));
    const kube::Selection selection = Of(processor);
    bundle.AddList("jobs", cluster.client().List(kube::kJobs, selection));
    bundle.AddList("volume-claims", cluster.client().List(kube::kPersistentVolumeClaims, selection));
    bundle.AddList("events", EventsOf(cluster, processor));
    const absl::StatusOr<std::vector<Json>> pods = cluster.Pods(processor);
    if (pods.ok()) {
      for (const Json& pod : *pods) AddPod(cluster, pod, &bundle);
    } else {
      bundle.AddObject("pods", pods.status());
    }
    MS_RETURN_IF_ERROR(WriteFile(path, bundle.Finish()));
    if (context.base.json) {
      std::cout << Json{{"file", path}, {"files", bundle.files()}}.dump() << "\n";
    } else {
      std::cout << path << ": " << bundle.files()
                << " files; values of environment variables and whatever sounds like a secret are taken out, the "
                   "worker's logs and records are not in it. Look through it before you pass it on\n";
    }
    if (!bundle.missing().empty()) std::cerr << "could not be read:\n" << bundle.missing();
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReport(CLI::App* app, ClusterContext* context) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = app->add_subcommand(
      "report",
      "One file (tar) for whoever helps: objects, events, tasks, metrics, logs of the sidecars; no secrets, no data");
  context->AddName(command);
  context->AddClusterOptions(command);
  command->add_option("--file", *file, "Default: millstream-NAME-TIME.tar here")->type_name("FILE");
  command->callback([=] { context->base.selected = [=] { return Report(*context, *file); }; });
}

}  // namespace millstream::cli
