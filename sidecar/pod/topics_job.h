#ifndef MILLSTREAM_SIDECAR_POD_TOPICS_JOB_H_
#define MILLSTREAM_SIDECAR_POD_TOPICS_JOB_H_

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "common/log/log.h"
#include "common/spec/stream_processor.h"
#include "sidecar/pod/verdict.h"

namespace millstream::pod {

struct TopicsJobOptions {
  std::string manifest;
  std::string bootstrap_servers;                // in place of the manifest's; empty: those
  std::string secrets_folder;                   // empty: none
  std::string cluster = "local";                // in the owner stamp of the group
  bool remove = false;                          // delete instead of make
  absl::Duration patience = absl::Seconds(60);  // for brokers that do not answer, or members that are still there
  std::function<bool()> interrupted = nullptr;  // ends waiting
};

// `millstream-sidecar topics`: makes and checks the topics of one processor on its Kafka, with the code that runs
// before a processor starts; or deletes what belongs to it alone. Reasons of the verdict:
//   TopicsReady, TopicsDeleted
//   InvalidManifest      the file
//   SecretUnreadable     what the kafka block refers to; tried again later
//   TopicMissing         an input, join, lookup, or output without `create`
//   TopicMismatch        what is there contradicts the manifest or the others
//   TopicRefused         the brokers do not make a topic like that
//   GroupOwnedByAnother  offsets of the group are another processor's
//   AccessDenied, BrokersUnreachable, GroupInUse   (retry)
Verdict RunTopicsJob(const TopicsJobOptions& options);

// On an open log. Deletes the loop, changelogs, the dead-letter topic if its name is the default one, and the offsets
// of the group and of its dead-letter replay; never an input or output. FAILED_PRECONDITION: the group has members.
// What is gone already is no error, so that it can be tried again.
absl::Status DeleteInternals(log::Log* log, const spec::StreamProcessorSpec& processor, Verdict* verdict);

}  // namespace millstream::pod

#endif  // MILLSTREAM_SIDECAR_POD_TOPICS_JOB_H_
