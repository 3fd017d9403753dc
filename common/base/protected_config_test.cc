#include "common/base/protected_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace millstream {
namespace {

TEST(ProtectedConfigTest, EveryRowHasAReasonAndIsThereOnce) {
  std::set<std::string_view> names;
  for (const ProtectedProperty& property : ProtectedProperties()) {
    EXPECT_FALSE(property.reason.empty()) << property.name;
    EXPECT_TRUE(names.insert(property.name).second) << property.name;
  }
}

TEST(ProtectedConfigTest, WhatPromisesHangOnIsRefused) {
  for (std::string_view name : {"transactional.id", "isolation.level", "acks", "enable.auto.commit", "group.id",
                                "auto.offset.reset", "enable.partition.eof", "sasl.password", "ssl.key.pem",
                                "enable.ssl.certificate.verification", "dr_msg_cb", "offset.store.path", "retries"}) {
    EXPECT_NE(FindProtectedProperty(name), nullptr) << name;
  }
}

TEST(ProtectedConfigTest, WhatPeopleTuneIsLeftToThem) {
  for (std::string_view name :
       {"client.rack", "linger.ms", "batch.size", "compression.type", "fetch.wait.max.ms", "retry.backoff.ms",
        "socket.keepalive.enable", "statistics.interval.ms", "debug", "reconnect.backoff.max.ms", "no.such.property"}) {
    EXPECT_EQ(FindProtectedProperty(name), nullptr) << name;
    EXPECT_TRUE(CheckNotProtected(name).ok()) << name;
  }
}

TEST(ProtectedConfigTest, TheErrorNamesThePropertyAndTheWayOut) {
  EXPECT_EQ(std::string(CheckNotProtected("group.id").message()),
            "the property group.id of librdkafka cannot be set; use spec.group: Millstream speaks the group protocol "
            "itself and assigns partitions explicitly");
  EXPECT_THAT(std::string(CheckNotProtected("retries").message()), testing::HasSubstr("leave it out: "));
}

}  // namespace
}  // namespace millstream
