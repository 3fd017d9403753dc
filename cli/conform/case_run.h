#ifndef MILLSTREAM_CLI_CONFORM_CASE_RUN_H_
#define MILLSTREAM_CLI_CONFORM_CASE_RUN_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/conform/conform_case.h"
#include "cli/conform/flight.h"
#include "cli/conform/store_model.h"
#include "cli/conform/window_rows.h"
#include "cli/conform/worker_link.h"
#include "cli/conform/worker_program.h"
#include "sidecar/protocol/codec.h"

namespace millstream::cli::conform {

struct CaseOptions {
  std::vector<std::string> command;            // the worker
  absl::Duration timeout = absl::Seconds(20);  // of every single wait
};

struct CaseResult {
  bool passed = false;
  int line = 0;                         // of the step that failed
  std::string problem;                  // what differs, a line each
  std::vector<std::string> transcript;  // frames of both directions, in order
  std::string output;                   // the end of what the program printed
  absl::Duration took;
};

// Plays the sidecar of one case against one process of the worker. Use once, on one thread.
//
// What a worker may do at any time is dealt with wherever a step waits for something else: PING is answered, EXTEND is
// noted, GET and SCAN are answered from the state of the case, a RESULT of a cancelled batch is dropped, and the rest
// of a batch that came back unfinished without failure is sent again. Frames that are not of the protocol, or that name
// batches, stores or outputs that there are not, fail the case.
class CaseRun {
 public:
  CaseRun(const Case& what, const CaseOptions& options);
  CaseResult Run();

 private:
  absl::Status Do(const Step& step);

  // Handshake.
  absl::Status Accept(const Json& hello_pattern);
  absl::Status SendWelcome(const Json& overrides);
  absl::Status Greet();  // all of it, and OPEN of task 0

  // Batches: case_batches.cc.
  absl::Status SendBatch(const Json& argument);
  absl::Status SendFlight(Flight& flight);
  absl::Status AwaitResult(const Json& argument);
  absl::Status TakeResult(Flight& flight, const protocol::Result& result);
  absl::Status CheckTrace(const Flight& flight, uint32_t done, bool failed) const;
  void NoteSent(std::string_view frame);
  void NoteHook(uint64_t seq, TaskId task);
  absl::Status ServeOne();  // a small batch, to see that the worker is well

  // Frames.
  absl::Status SendBytes(std::string_view bytes);
  // The next frame that is of one of these kinds or that nothing else accounts for.
  absl::StatusOr<WorkerFrame> Next(std::string_view wanted, absl::Duration timeout);
  bool Progressed(const WorkerFrame& frame);
  absl::StatusOr<bool> Absorb(const WorkerFrame& frame, std::string_view wanted);
  absl::Status AnswerRead(const WorkerFrame& frame);
  absl::Status Expect(const Json& pattern);
  absl::Status Answer(const Json& argument);
  absl::Status Ping(const Json& nonce);
  absl::Status Quiet(absl::Duration time);
  absl::Status Refused(const Json& codes);
  absl::Status Hostile(const Json& frames);
  absl::Status Ended();

  absl::Status Signal(const Json& name);
  absl::Status Exit(const Json& code);

  void Answered(uint64_t seq);
  Flight* FindFlight(uint64_t seq);
  size_t StoreId(std::string_view name) const;  // kNone if there is none
  void Log(std::string line);

  static constexpr size_t kNone = static_cast<size_t>(-1);

  const Case& case_;
  const CaseOptions& options_;
  Json welcome_;
  std::vector<std::string> inputs_, outputs_, visits_;
  std::vector<std::string> stores_;  // all that can be read: stores, then joins, then lookups
  size_t writable_;                  // of these: the stores
  std::vector<StoreShape> shapes_;   // of the stores, by their ids
  StoreModel model_;
  std::unique_ptr<WorkerDoor> door_;
  WorkerProgram program_;
  std::unique_ptr<WorkerLink> link_;
  std::deque<Flight> flights_;  // of this connection, in order; ended ones too, so that late frames are known
  uint64_t next_seq_ = 1;
  uint64_t next_session_ = 4711;
  std::optional<WorkerFrame> read_;  // the GET or SCAN a step waited for
  bool leaving_ = false;             // GOODBYE may come
  std::vector<std::string> transcript_;
};

}  // namespace millstream::cli::conform

#endif  // MILLSTREAM_CLI_CONFORM_CASE_RUN_H_
