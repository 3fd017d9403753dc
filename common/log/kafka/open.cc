#include "common/log/kafka/open.h"

#include <utility>

#include "common/base/status.h"
#include "common/log/kafka/admin.h"
#include "common/log/kafka/admin_client.h"
#include "common/log/kafka/properties.h"
#include "common/log/kafka/reader.h"
#include "common/log/kafka/writer.h"

namespace millstream::kafka {
namespace {

class OpenLog : public KafkaLog {
 public:
  OpenLog(std::shared_ptr<const ClientContext> context, std::unique_ptr<AdminClient> client)
      : context_(std::move(context)), client_(std::move(client)), admin_(client_.get()) {}

  std::unique_ptr<log::Reader> NewReader(const log::ReaderOptions& options) override {
    return std::make_unique<KafkaReader>(context_, client_.get(), options);
  }
  std::unique_ptr<log::TransactionalWriter> NewTransactionalWriter(const log::WriterOptions& options) override {
    return std::make_unique<KafkaTransactionalWriter>(context_, client_.get(), options);
  }
  std::unique_ptr<log::PlainWriter> NewPlainWriter() override {
    return std::make_unique<KafkaPlainWriter>(context_, client_.get());
  }
  log::Admin& admin() override { return admin_; }
  absl::StatusOr<std::map<TopicPartition, log::GroupOffset>> GroupOffsetsNow(
      const std::string& group, absl::Span<const TopicPartition> partitions) override {
    return admin_.GroupOffsetsNow(group, partitions);
  }
  absl::StatusOr<std::vector<Member>> GroupMembers(const std::string& group) override {
    return admin_.GroupMembers(group);
  }

 private:
  const std::shared_ptr<const ClientContext> context_;
  const std::unique_ptr<AdminClient> client_;
  KafkaAdmin admin_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KafkaLog>> OpenKafkaLog(const KafkaLogOptions& options) {
  auto context = std::make_shared<const ClientContext>(options);
  MS_RETURN_IF_ERROR(CheckConfig(context->access->Now()->access));
  MS_ASSIGN_OR_RETURN(std::unique_ptr<AdminClient> client, AdminClient::New(context));
  return std::make_unique<OpenLog>(std::move(context), std::move(client));
}

}  // namespace millstream::kafka
