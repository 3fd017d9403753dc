// Random operations on the log and on a simple model of it, with reopening; both must agree all the time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/open.h"
#include "common/log/embedded/test_folder.h"

namespace millstream::log::embedded {
namespace {

enum class Fate { kOpen, kCommitted, kAborted };

struct ModelEntry {
  std::string value;  // markers: empty
  bool marker = false;
  int writer = -1;  // -1: plain
  Fate fate = Fate::kCommitted;
};

struct ModelPartition {
  std::vector<ModelEntry> entries;

  int64_t LastStable() const {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].fate == Fate::kOpen) return static_cast<int64_t>(i);
    }
    return static_cast<int64_t>(entries.size());
  }
  std::vector<std::string> Visible(Isolation isolation, int64_t from) const {
    const bool committed = isolation == Isolation::kReadCommitted;
    const int64_t end = committed ? LastStable() : static_cast<int64_t>(entries.size());
    std::vector<std::string> visible;
    for (int64_t i = from; i < end; ++i) {
      if (entries[i].marker || (committed && entries[i].fate == Fate::kAborted)) continue;
      visible.push_back(StrCat(i, "=", entries[i].value));
    }
    visible.push_back(StrCat("end ", std::max(from, end)));
    return visible;
  }
};

struct ModelWriter {
  std::unique_ptr<TransactionalWriter> writer;
  bool open = false;
  std::vector<size_t> partitions;                          // touched by the transaction
  std::map<size_t, std::pair<uint64_t, int64_t>> pending;  // partition -> sequence, offset
};

class ModelTest : public testing::TestWithParam<int> {
 protected:
  static constexpr int kPartitions = 3, kWriters = 3;

  ModelTest() : seed_(GetParam() == 0 ? std::random_device()() : static_cast<unsigned>(GetParam())), random_(seed_) {
    Open();
    MS_CHECK_OK(log_->admin().CreateTopic({"t", kPartitions, -1, {}}));
    partitions_.resize(kPartitions);
    writers_.resize(kWriters);
  }
  ~ModelTest() override { writers_.clear(); }

  void Open() {
    EmbeddedLogOptions options;
    options.directory = folder_.path();
    options.clock = &clock_;
    options.maintenance_interval = absl::ZeroDuration();
    options.memtable_bytes = 64 << 10;  // flushes and compactions of RocksDB happen
    InternalOptions internal;
    internal.segment_bytes = 2'000;
    auto log = OpenLog(options, internal);
    MS_CHECK_OK(log);
    log_ = *std::move(log);
  }

  size_t Below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }
  static TopicPartition Name(size_t partition) { return {"t", Partition(static_cast<int32_t>(partition))}; }

  std::vector<OutgoingRecord> RandomRecords(std::vector<std::pair<size_t, std::string>>* values) {
    std::vector<OutgoingRecord> records;
    for (size_t i = Below(6) + 1; i > 0; --i) {
      OutgoingRecord& record = records.emplace_back();
      const size_t partition = Below(kPartitions);
      record.to = Name(partition);
      record.value = StrCat("v", ++last_value_, std::string(Below(200), '.'));
      values->emplace_back(partition, *record.value);
    }
    return records;
  }

  void EndInModel(ModelWriter* writer, Fate fate) {
    const int index = static_cast<int>(writer - writers_.data());
    for (size_t partition : writer->partitions) {
      for (ModelEntry& entry : partitions_[partition].entries) {
        if (entry.writer == index && entry.fate == Fate::kOpen) entry.fate = fate;
      }
      partitions_[partition].entries.push_back({"", true, index, fate});
    }
    for (const auto& [partition, offset] : writer->pending) {
      if (fate != Fate::kCommitted) continue;
      auto& current = offsets_[partition];
      if (!current || current->first < offset.first) current = offset;
    }
    writer->partitions.clear();
    writer->pending.clear();
    writer->open = false;
  }

  void Init(ModelWriter* writer) {
    WriterOptions options;
    options.transactional_id = StrCat("writer-", writer - writers_.data());
    auto fresh = log_->NewTransactionalWriter(options);
    ASSERT_TRUE(fresh->Init().ok());
    if (writer->writer != nullptr && writer->open) {
      EXPECT_EQ(RecoveryOf(writer->writer->Commit()), Recovery::kRecreate);
    }
    writer->writer = std::move(fresh);
    EndInModel(writer, Fate::kAborted);
  }

  void StepOfWriter(ModelWriter* writer) {
    if (writer->writer == nullptr || Below(40) == 0) return Init(writer);
    if (!writer->open) {
      ASSERT_TRUE(writer->writer->Begin().ok());
      writer->open = true;
      return;
    }
    const size_t what = Below(10);
    if (what < 6) {
      std::vector<std::pair<size_t, std::string>> values;
      ASSERT_TRUE(writer->writer->Append(RandomRecords(&values)).ok());
      for (auto& [partition, value] : values) {
        partitions_[partition].entries.push_back(
            {value, false, static_cast<int>(writer - writers_.data()), Fate::kOpen});
        auto& touched = writer->partitions;
        if (std::find(touched.begin(), touched.end(), partition) == touched.end()) touched.push_back(partition);
      }
    } else if (what < 8) {
      const size_t partition = Below(kPartitions);
      const int64_t next = static_cast<int64_t>(Below(1'000'000));
      if (!token_) token_ = *log_->JoinGroup("g", "m");
      ASSERT_TRUE(writer->writer->SendOffsets(*token_, {{Name(partition), {Offset(next), ""}}}).ok());
      writer->pending[partition] = {++sequence_, next};
    } else {
      const bool commit = Below(3) != 0;
      ASSERT_TRUE((commit ? writer->writer->Commit() : writer->writer->Abort()).ok());
      EndInModel(writer, commit ? Fate::kCommitted : Fate::kAborted);
    }
  }

  void StepPlain() {
    std::vector<std::pair<size_t, std::string>> values;
    ASSERT_TRUE(log_->NewPlainWriter()->Append(RandomRecords(&values)).ok());
    for (auto& [partition, value] : values) partitions_[partition].entries.push_back({value});
  }

  void Reopen() {
    for (ModelWriter& writer : writers_) {
      writer.writer.reset();
      EndInModel(&writer, Fate::kAborted);
    }
    token_.reset();
    log_.reset();
    Open();
  }

  std::vector<std::string> Read(size_t partition, Isolation isolation, int64_t from) {
    ReaderOptions options;
    options.isolation = isolation;
    options.max_read_bytes = static_cast<int64_t>(Below(2'000) + 1);
    auto reader = log_->NewReader(options);
    MS_CHECK_OK(reader->Add(Name(partition), Offset(from)));
    std::vector<std::string> read;
    for (;;) {
      const auto events = reader->Poll(absl::Seconds(5));
      MS_CHECK_OK(events);
      if (events->empty()) return {"no end"};
      for (const ReaderEvent& event : *events) {
        if (const auto* failed = std::get_if<PartitionFailed>(&event)) return {failed->status.ToString()};
        if (const auto* end = std::get_if<EndOfPartition>(&event)) {
          read.push_back(StrCat("end ", end->position.value()));
          return read;
        }
        for (const Record& record : std::get<RecordsRead>(event).records) {
          read.push_back(StrCat(record.offset.value(), "=", *record.value));
        }
      }
    }
  }

  void Compare() {
    for (size_t p = 0; p < kPartitions; ++p) {
      SCOPED_TRACE(StrCat("partition ", p));
      const ModelPartition& model = partitions_[p];
      const int64_t end = static_cast<int64_t>(model.entries.size());
      ASSERT_EQ(*log_->admin().EndOffset(Name(p), Isolation::kReadUncommitted), Offset(end));
      ASSERT_EQ(*log_->admin().EndOffset(Name(p), Isolation::kReadCommitted), Offset(model.LastStable()));
      const int64_t from = static_cast<int64_t>(Below(end + 1));
      for (const Isolation isolation : {Isolation::kReadCommitted, Isolation::kReadUncommitted}) {
        ASSERT_EQ(Read(p, isolation, 0), model.Visible(isolation, 0));
        ASSERT_EQ(Read(p, isolation, from), model.Visible(isolation, from));
      }
      bool pending = false;
      for (const ModelWriter& writer : writers_) pending = pending || writer.pending.contains(p);
      if (pending) continue;
      const auto offsets = log_->admin().StableGroupOffsets("g", {Name(p)});
      ASSERT_TRUE(offsets.ok()) << offsets.status();
      const auto& expected = offsets_[p];
      ASSERT_EQ(offsets->size(), expected ? 1u : 0u);
      if (expected) {
        ASSERT_EQ(offsets->begin()->second.next, Offset(expected->second));
      }
    }
  }

  const unsigned seed_;
  std::mt19937 random_;
  TestFolder folder_;
  FakeClock clock_;
  std::unique_ptr<EmbeddedLog> log_;
  std::vector<ModelPartition> partitions_;
  std::vector<ModelWriter> writers_;
  std::map<size_t, std::optional<std::pair<uint64_t, int64_t>>> offsets_;
  std::optional<GroupToken> token_;
  uint64_t sequence_ = 0;
  int last_value_ = 0;
};

TEST_P(ModelTest, TheLogAndItsModelAgree) {
  SCOPED_TRACE(StrCat("seed ", seed_, "; run again with INSTANTIATE ... Values(", seed_, ")"));
  for (int step = 0; step < 400; ++step) {
    const size_t what = Below(100);
    if (what < 85) {
      StepOfWriter(&writers_[Below(kWriters)]);
    } else if (what < 97) {
      StepPlain();
    } else if (what < 98) {
      Reopen();
    }
    if (HasFatalFailure()) return;
    if (step % 20 == 19) Compare();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ModelTest, testing::Values(1, 2, 3, 4, 0));

}  // namespace
}  // namespace millstream::log::embedded
