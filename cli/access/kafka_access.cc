#include "cli/access/kafka_access.h"

#include <utility>

#include "cli/access/changelog_state.h"
#include "cli/access/local_access.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/open.h"

namespace millstream::cli {
namespace {

// What the access stands on; a base, so that it lives longer.
struct KafkaParts {
  std::unique_ptr<log::Log> log;
  std::unique_ptr<ProcessorBackend> state;
};

class KafkaAccess : private KafkaParts, public LocalAccess {
 public:
  KafkaAccess(KafkaParts parts, const std::string& servers)
      : KafkaParts(std::move(parts)),
        LocalAccess(KafkaParts::log.get(), KafkaParts::state.get(), StrCat("Kafka at ", servers)) {}
};

}  // namespace

absl::StatusOr<std::unique_ptr<LogAccess>> OpenKafkaAccess(const kafka::ClusterAccess& access,
                                                           const std::optional<spec::StreamProcessorSpec>& processor) {
  kafka::KafkaLogOptions options;
  options.access = access;
  options.client_id = "millstream-cli";
  KafkaParts parts;
  MS_ASSIGN_OR_RETURN(parts.log, kafka::OpenKafkaLog(options));
  parts.state = NewChangelogState(parts.log.get(), processor);
  return std::make_unique<KafkaAccess>(std::move(parts), access.bootstrap_servers);
}

}  // namespace millstream::cli
