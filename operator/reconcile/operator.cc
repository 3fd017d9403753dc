#include "operator/reconcile/operator.h"

#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"
#include "operator/reconcile/finalizer.h"

namespace millstream::reconcile {
namespace {

constexpr absl::Duration kSyncPoll = absl::Milliseconds(100);
// What is missing is said once in a while, not ten times a second.
constexpr absl::Duration kSayAgain = absl::Seconds(30);

WorldOptions WorldOptionsOf(const OperatorOptions& options) {
  WorldOptions world;
  world.namespaces = options.namespaces;
  world.pod_monitors = options.model.pod_monitors;
  world.seed = options.seed;
  return world;
}

ReconcilerOptions ReconcilerOptionsOf(const OperatorOptions& options) {
  return {options.model, options.instance, options.max_concurrent_rollouts};
}

const Json& At(const Json& object, const char* field) {
  static const Json* const none = new Json();
  const Json* found = kube::Find(object, {"metadata", field});
  return found == nullptr ? *none : *found;
}

// Whether a pass could come to something else: not when only its status has changed, which is our own doing.
bool IsNews(const Json& before, const Json& after) {
  if (before.is_null() || after.is_null()) return true;
  for (const char* field : {"uid", "generation", "annotations", "finalizers", "deletionTimestamp"}) {
    if (At(before, field) != At(after, field)) return true;
  }
  return false;
}

}  // namespace

Operator::Operator(OperatorOptions options, kube::Client* client, SidecarReports* sidecars, const Clock* clock,
                   MetricsRegistry* metrics)
    : options_(std::move(options)),
      clock_(clock),
      metrics_(metrics),
      world_(WorldOptionsOf(options_), client, clock,
             {[this](const Json& before, const Json& after) { OnProcessor(before, after); },
              [this](const kube::ObjectKey& processor) { Enqueue(processor); }}),
      reconciler_(ReconcilerOptionsOf(options_), {client, &world_, &manifests_, sidecars, clock, metrics}) {}

Operator::~Operator() { Stop(); }

void Operator::OnProcessor(const Json& before, const Json& after) {
  const kube::ObjectKey key = kube::KeyOf(after.is_null() ? before : after);
  if (!IsNews(before, after)) return;
  const bool is_new =
      before.is_null() || At(before, "uid") != At(after, "uid") || At(before, "generation") != At(after, "generation");
  ManifestIndex::Keys others;
  if (after.is_null()) {
    others = manifests_.Remove(key);
  } else if (is_new) {
    others = manifests_.Update(after);
  }
  Enqueue(key);
  for (const kube::ObjectKey& other : others) Enqueue(other);
}

std::shared_ptr<runtime::Controller> Operator::controller() const {
  absl::MutexLock lock(&mutex_);
  return controller_;
}

void Operator::Enqueue(const kube::ObjectKey& key) {
  if (const std::shared_ptr<runtime::Controller> leading = controller()) leading->queue().Add(key.Text());
}

void Operator::Start() {
  for (size_t i = 0; i < reflectors(); ++i) {
    threads_.emplace_back([this, i] {
      NameThread(StrCat("ms-watch-", i).c_str());
      RunReflector(i);
    });
  }
}

void Operator::RunReflector(size_t reflector) {
  while (!stopped_.interrupted()) {
    const absl::Duration delay = world_.Step(reflector, stopped_);
    if (delay > absl::ZeroDuration() && stopped_.WaitFor(delay)) return;
  }
}

void Operator::Lead() {
  MS_CHECK(controller() == nullptr);
  runtime::ControllerOptions options;
  options.name = "processors";
  options.workers = options_.workers;
  options.seed = options_.seed;
  auto leading = std::make_shared<runtime::Controller>(
      std::move(options), [this](const std::string& key, const std::string& id) { return reconciler_.Run(key, id); },
      clock_, metrics_);
  {
    absl::MutexLock lock(&mutex_);
    controller_ = last_ = leading;
  }
  for (const kube::ObjectKey& key : world_.Processors()) Enqueue(key);
  if (options_.workers == 0) return;
  term_over_ = http::Interruption();
  starter_ = std::thread([this, leading, over = term_over_] { AwaitSync(leading, over); });
}

void Operator::AwaitSync(std::shared_ptr<runtime::Controller> controller, http::Interruption term_over) {
  NameThread("ms-await-sync");
  absl::Duration said = -absl::InfiniteDuration();
  while (true) {
    const absl::Status synced = world_.synced();
    if (synced.ok()) break;
    if (const absl::Duration now = clock_->Monotonic(); now - said >= kSayAgain) {
      said = now;
      LogInfo("nothing is changed before everything is known", {{"missing", std::string(synced.message())}});
    }
    if (term_over.WaitFor(kSyncPoll)) return;
  }
  LogInfo("everything is known", {{"processors", world_.Processors().size()}});
  controller->Start();
}

void Operator::Follow() {
  std::shared_ptr<runtime::Controller> leading;
  {
    absl::MutexLock lock(&mutex_);
    leading = std::exchange(controller_, nullptr);
  }
  if (leading == nullptr) return;
  term_over_.Interrupt();
  if (starter_.joinable()) starter_.join();
  leading->Stop();
  reconciler_.Forget();
}

void Operator::Stop() {
  Follow();
  stopped_.Interrupt();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

absl::Duration Operator::StepReflector(size_t reflector) { return world_.Step(reflector, stopped_); }

bool Operator::ReconcileOne() {
  const std::shared_ptr<runtime::Controller> leading = controller();
  return leading != nullptr && synced() && leading->ProcessOne();
}

absl::Duration Operator::until_next_key() const {
  const std::shared_ptr<runtime::Controller> leading = controller();
  if (leading == nullptr) return absl::InfiniteDuration();
  return leading->queue().depth() > 0 ? absl::ZeroDuration() : leading->queue().until_next();
}

absl::Duration Operator::longest_pass() const {
  absl::MutexLock lock(&mutex_);
  return last_ == nullptr ? absl::ZeroDuration() : last_->longest_pass();
}

void Operator::UpdateGauges() {
  if (const std::shared_ptr<runtime::Controller> leading = controller()) leading->UpdateGauges();
  reconciler_.UpdateGauges();
}

}  // namespace millstream::reconcile
