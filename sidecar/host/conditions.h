#ifndef MILLSTREAM_SIDECAR_HOST_CONDITIONS_H_
#define MILLSTREAM_SIDECAR_HOST_CONDITIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "sidecar/engine/engine.h"

namespace millstream::host {

// Something a person should know, in the words of the operator's conditions.
struct Condition {
  // One word a script can look for:
  //   Paused               by desiredState or by hand
  //   TaskStopped          a record that cannot be handled, an input that cannot be read
  //   OffsetsLost          a task stopped because going on would skip or repeat records
  //   RestoreFailed        a task cannot be opened; tried again
  //   AccessDenied         the brokers refuse this user something; the message says what on what
  //   NotInGroup           joining the group fails, or this member was expelled
  //   DuplicateInstance    another process is in the group under this one's name
  //   CommitsWait          no writer is usable
  //   CommitsFail          transactions are aborted one after the other
  //   WorkerNotConnected
  //   WorkerHangs          a worker process was cut off and neither ends nor comes back
  //   BrokersUnreachable, TopicDeleted, TopicRecreated, PartitionsChanged   (topic_watch.h)
  //   LookupsLoading       a lookup is being read; tasks start behind it
  //   TableNotRead         a join or lookup cannot be followed
  //   OrdersUnreadable     the file of --orders says something that cannot be followed; the orders before stay
  //   SecretUnreadable     rotated secrets cannot be read or used; those before stay (secret_watch.h)
  //   SecretRefused        brokers do not take rotated secrets; those before stay
  //   PartitionerMismatch  keys of an input are not where the declared partitioner puts them
  std::string reason;
  std::string message;  // with the way out

  friend bool operator==(const Condition&, const Condition&) = default;
};

// What conditions are made from.
struct ConditionSources {
  const engine::EngineStatus* engine = nullptr;
  int stuck_calls = 0;      // of the log, that did not come back
  absl::Status membership;  // why this process is not a member of its group; OK: it is, or does not want to be
  std::string group;
  std::vector<std::string> writes_to;  // topics: brokers refuse a transaction without saying which of them they mean
  std::optional<absl::Duration> worker_away;  // since when there is no worker
  absl::Duration worker_patience;             // from when on that is worth a word
  std::string worker_error, socket_path;
  absl::Status orders;  // why what is in the orders file is not followed
};

// The worst first. Pure.
std::vector<Condition> ConditionsOf(const ConditionSources& sources);

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_CONDITIONS_H_
