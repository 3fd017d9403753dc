#ifndef MILLSTREAM_COMMON_LOG_KAFKA_TESTING_MOCK_BROKER_TEST_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_TESTING_MOCK_BROKER_TEST_H_

#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/log/kafka/open.h"

namespace millstream::kafka {

// A log on brokers of librdkafka's own in this process, which fail where they are told to. They know the topic "t" with
// two partitions. A test whose options name something of its own resets `log_` before that goes.
class MockBrokerTest : public testing::Test {
 protected:
  explicit MockBrokerTest(int brokers = 1) {
    char error[256];
    host_ = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), error, sizeof(error));
    MS_CHECK(host_ != nullptr);
    cluster_ = rd_kafka_mock_cluster_new(host_, brokers);
    MS_CHECK(cluster_ != nullptr);
    MS_CHECK(rd_kafka_mock_topic_create(cluster_, "t", 2, 1) == RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  ~MockBrokerTest() override {
    log_.reset();
    rd_kafka_mock_cluster_destroy(cluster_);
    rd_kafka_destroy(host_);
  }

  ClusterAccess Access() const {
    ClusterAccess access;
    access.bootstrap_servers = rd_kafka_mock_cluster_bootstraps(cluster_);
    return access;
  }
  void Open(KafkaLogOptions options) {
    options.admin_deadline = absl::Seconds(20);
    auto log = OpenKafkaLog(options);
    MS_CHECK_OK(log);
    log_ = *std::move(log);
  }
  void Open() {
    KafkaLogOptions options;
    options.access = Access();
    Open(std::move(options));
  }

  std::unique_ptr<log::TransactionalWriter> NewWriter(absl::Duration deadline = absl::Seconds(20)) {
    log::WriterOptions options;
    options.transactional_id = "writer-a";
    options.transaction_timeout = absl::Seconds(30);
    options.call_deadline = deadline;
    return log_->NewTransactionalWriter(options);
  }
  std::unique_ptr<log::TransactionalWriter> ReadyWriter(absl::Duration deadline = absl::Seconds(20)) {
    auto writer = NewWriter(deadline);
    const absl::Status status = writer->Init();
    EXPECT_TRUE(status.ok()) << status;
    return writer;
  }

  rd_kafka_t* host_ = nullptr;
  rd_kafka_mock_cluster_t* cluster_ = nullptr;
  std::unique_ptr<log::Log> log_;
};

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_TESTING_MOCK_BROKER_TEST_H_
