#ifndef MILLSTREAM_SIDECAR_STORE_FAKE_CHANGELOG_H_
#define MILLSTREAM_SIDECAR_STORE_FAKE_CHANGELOG_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/log/log.h"

// For the tests of this folder.
namespace millstream::store {

// A log one can bring into any state a changelog may be in, as a reader sees it: holes, markers, open and aborted
// transactions, a start that has moved, failing partitions. One partition per topic; no writers. Thread-safe.
class FakeChangelog : public log::Log {
 public:
  enum class Transaction { kCommitted, kOpen, kAborted };
  // The time of the record at that offset.
  static int64_t TimeOf(int64_t offset) { return 1000 * offset - 500; }

  void CreateTopic(const std::string& topic, const std::string& id, int partitions);
  void SetConfig(const std::string& topic, const std::string& name, const std::string& value);
  // Appends a record; returns its offset.
  int64_t Append(const std::string& topic, MaybeBytes key, MaybeBytes value,
                 Transaction transaction = Transaction::kCommitted);
  void AppendMarker(const std::string& topic);  // takes an offset, is never seen
  void EndOpen(const std::string& topic, Transaction outcome);
  void Compact(const std::string& topic, const std::set<int64_t>& remove);
  void SetStart(const std::string& topic, int64_t start);
  void SkipTo(const std::string& topic, int64_t end);  // the next record gets this offset
  // Every reader reports it for the topic from now on.
  void Fail(const std::string& topic, absl::Status status);
  void DeleteTopic(const std::string& topic);

  // Reads from now on hand out so many records at a time.
  void set_read_records(size_t records);
  // How many records readers have handed out.
  int64_t records_read() const;
  // Called on the reading thread whenever records were handed out, with their number so far.
  void set_on_read(std::function<void(int64_t)> on_read);

  std::unique_ptr<log::Reader> NewReader(const log::ReaderOptions& options) override;
  std::unique_ptr<log::TransactionalWriter> NewTransactionalWriter(const log::WriterOptions&) override {
    return nullptr;
  }
  std::unique_ptr<log::PlainWriter> NewPlainWriter() override { return nullptr; }
  log::Admin& admin() override { return *admin_; }

  FakeChangelog();
  ~FakeChangelog() override;

 private:
  class FakeReader;
  class FakeAdmin;
  struct Entry {
    int64_t offset = 0;
    MaybeBytes key, value;
    Transaction transaction = Transaction::kCommitted;
    bool marker = false;
  };
  struct Topic {
    std::string id;
    int partitions = 1;
    std::map<std::string, std::string> config;
    std::vector<Entry> entries;
    int64_t start = 0, end = 0;
    absl::Status failure;
    int64_t StableEnd() const;
  };
  Topic* Find(const std::string& topic) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<std::string, Topic> topics_ ABSL_GUARDED_BY(mutex_);
  size_t read_records_ ABSL_GUARDED_BY(mutex_) = 100;
  int64_t records_read_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void(int64_t)> on_read_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<log::Admin> admin_;
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_FAKE_CHANGELOG_H_
