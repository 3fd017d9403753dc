#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_WORKER_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_WORKER_H_

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "sidecar/engine/io.h"
#include "sidecar/engine/testing/scripted_database.h"
#include "sidecar/engine/testing/scripted_handler.h"
#include "sidecar/engine/testing/scripted_handovers.h"
#include "sidecar/engine/testing/scripted_time.h"

namespace millstream::engine::testing {

// A worker that speaks the protocol, frames and all, and does one small thing at a time when it is told to. It checks
// what a worker may rely on: parallel batches, traced ones alone, values for the keys.
class ScriptedWorker {
 public:
  enum class State { kAlive, kHung, kCrashed, kGone };  // kGone: it disconnected in order

  ScriptedWorker(WorkerId id, int parallel, std::mt19937_64* random) : id_(id), parallel_(parallel), random_(random) {}

  WorkerId id() const { return id_; }
  int parallel() const { return parallel_; }
  State state() const { return state_; }
  bool batches_open() const { return !batches_.empty(); }
  void Receive(std::string frame) { inbox_.push_back(std::move(frame)); }
  bool CanStep() const;
  // Handles a frame, or goes on with a batch by one item or one frame. Says WorkerSent through `events`.
  void Step(std::vector<Event>* events);
  void Hang() { state_ = State::kHung; }
  void Crash() { state_ = State::kCrashed; }
  // GOODBYE: it disconnects when it has no batch any more.
  void SayGoodbye(std::vector<Event>* events);
  // A frame that is well-formed and wrong, about one of its batches where it has one. The sidecar cuts it off.
  void SayNonsense(std::vector<Event>* events);
  // Told of every record that is handled. Not null.
  Handovers* handovers = nullptr;
  // Outputs are kept until FINALIZE.
  bool gathers = false;
  // Chance of ending a batch before its last item.
  double stop_early = 0.05;
  // Set with windows and timers.
  const spec::StreamProcessorSpec* timed = nullptr;
  // Set with an external store, and the chance that it is gone whenever it is needed.
  ScriptedDatabase* database = nullptr;
  double database_lost = 0;
  // Sometimes an old frame of another life comes again.
  uint64_t last_seq() const { return last_seq_; }

 private:
  struct Item {
    int64_t offset = 0;
    std::optional<std::string> key;
    Input input;
    uint32_t attempt = 1;
    std::vector<protocol::ItemWindow> windows;
    std::string due;  // what comes out of a timer, a closing or a visit; empty: a record
  };
  struct Output {
    uint32_t output = 0;
    MaybeBytes key;
    std::string value;
  };
  struct Batch {
    uint64_t seq = 0;
    TaskId task;
    bool trace = false;
    std::vector<Item> items;
    size_t next = 0;
    bool extended = false;
    uint64_t waits_for = 0;  // rid of a GET or SCAN
    std::optional<std::string> asked_key;
    uint32_t asked_store = 0;
    std::map<uint32_t, std::vector<std::pair<Bytes, Bytes>>> rows;  // of scans of the item, by store
    std::optional<std::string> scan_from;                           // cursor of the one under way
    std::map<std::pair<uint32_t, std::string>, MaybeBytes> known;
    std::vector<Write> writes;  // of finished items
    size_t told = 0;            // writes that a GET or SCAN has carried already
    std::vector<Output> outputs;
    std::vector<SetTimer> timers;
    std::vector<std::string> visits;  // started, with this data
  };

  void HandleFrame(const std::string& frame, std::vector<Event>* events);
  void Accept(const protocol::SidecarMessage& message, std::vector<Event>* events);
  void Advance(Batch& batch, std::vector<Event>* events);
  // False: an answer has to come first.
  bool Gather(Batch& batch, const Item& item, Reads* reads, std::vector<Event>* events);
  bool GatherRecent(Batch& batch, const Item& item, RecentReads* reads, std::vector<Event>* events);
  // True: known. Else it is asked for.
  bool Know(Batch& batch, uint32_t store, const std::string& key, MaybeBytes* value, std::vector<Event>* events);
  // The same for a range.
  bool Scanned(Batch& batch, uint32_t store, const std::string& from, const std::string& to,
               std::vector<std::pair<Bytes, Bytes>>* rows, std::vector<Event>* events);
  void HandleTime(Batch& batch, const Item& item, const RecentReads& recent);
  void SendGet(Batch& batch, uint32_t store, const std::string& key, std::vector<Event>* events);
  void SendScan(Batch& batch, uint32_t store, const std::string& from, const std::string& to,
                std::vector<Event>* events);
  void Finalize(const protocol::FinalizeTransaction& finalize, std::vector<Event>* events);
  void LoadRow(const protocol::Load& load, std::vector<Event>* events);
  void StoreRow(const protocol::Store& store, std::vector<Event>* events);
  void HandleInDatabase(Batch& batch, const Item& item, std::vector<Event>* events);
  void SayFailed(uint64_t seq, const char* failure_class, std::vector<Event>* events);
  void AddOutputs(Batch& batch, const Item& item, Effects effects);
  void SendResult(const Batch& batch, std::optional<protocol::Failure> failure, std::vector<Event>* events);
  protocol::StateOps NewOps(Batch& batch);
  template <typename Message>
  void Say(const Message& message, std::vector<Event>* events);
  bool Chance(double of) { return std::uniform_real_distribution<>(0, 1)(*random_) < of; }

  const WorkerId id_;
  const int parallel_;
  std::mt19937_64* random_;
  State state_ = State::kAlive;
  bool goodbye_ = false;
  std::deque<std::string> inbox_;
  std::map<uint64_t, Batch> batches_;
  std::map<TaskId, std::vector<Output>> gathered_;
  std::map<TaskId, Model> transactions_;  // in the database
  uint64_t next_rid_ = 1, last_seq_ = 0;
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_WORKER_H_
