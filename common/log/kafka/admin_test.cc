// What the admin client makes of answers that a real broker gives only now and then: against librdkafka's own broker in
// this process.
#include <gmock/gmock.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/log/kafka/open.h"
#include "common/log/kafka/testing/mock_broker_test.h"

namespace millstream::kafka {
namespace {

constexpr int16_t kOffsetFetch = 9;  // key of the request (Kafka protocol guide)

class AdminTest : public MockBrokerTest {
 protected:
  AdminTest() : MockBrokerTest(2) { Open(); }
};

// librdkafka 2.8 crashed here in a client that is no consumer.
TEST_F(AdminTest, OffsetsOfAGroupWhoseCoordinatorMovesOrLoads) {
  const std::vector<TopicPartition> partitions = {{"t", Partition(0)}, {"t", Partition(1)}};
  for (const rd_kafka_resp_err_t error :
       {RD_KAFKA_RESP_ERR_NOT_COORDINATOR, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE}) {
    rd_kafka_mock_push_request_errors(cluster_, kOffsetFetch, 2, error, error);
    const auto offsets = log_->admin().StableGroupOffsets("g", partitions);
    ASSERT_TRUE(offsets.ok()) << rd_kafka_err2name(error) << ": " << offsets.status();
    EXPECT_TRUE(offsets->empty());
  }
}

// librdkafka 2.8 asks the coordinator that it knows for ever: tasks could not be opened any more once it had moved.
TEST_F(AdminTest, OffsetsOfAGroupWhoseCoordinatorHasMoved) {
  const std::vector<TopicPartition> partitions = {{"t", Partition(0)}};
  MS_CHECK(rd_kafka_mock_coordinator_set(cluster_, "group", "g", 1) == RD_KAFKA_RESP_ERR_NO_ERROR);
  ASSERT_TRUE(log_->admin().StableGroupOffsets("g", partitions).ok());
  // From now on broker 1 sends everybody away, as a real one does; more often than can be asked in 20 s.
  MS_CHECK(rd_kafka_mock_coordinator_set(cluster_, "group", "g", 2) == RD_KAFKA_RESP_ERR_NO_ERROR);
  for (int i = 0; i < 10000; ++i) {
    rd_kafka_mock_broker_push_request_error_rtts(cluster_, 1, kOffsetFetch, 1, RD_KAFKA_RESP_ERR_NOT_COORDINATOR, 0);
  }
  const auto offsets = log_->admin().StableGroupOffsets("g", partitions);
  ASSERT_TRUE(offsets.ok()) << offsets.status();
  EXPECT_TRUE(offsets->empty());
}

}  // namespace
}  // namespace millstream::kafka
