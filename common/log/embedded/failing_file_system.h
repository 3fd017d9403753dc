#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_FAILING_FILE_SYSTEM_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_FAILING_FILE_SYSTEM_H_

#include <rocksdb/file_system.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

namespace millstream::log::embedded {

// The real file system, but writes or syncs fail while a test wants it. A failing write puts half of its bytes on the
// disk, as a full one does. For tests only.
class FailingFileSystem : public rocksdb::FileSystemWrapper {
 public:
  enum class Mode {
    kHealthy,
    kDiskFull,
    kTablesFull,  // no room for tables, while the write-ahead log still finds some
    kWritesFail,
    kWritesFailLate,  // all bytes are written, and yet the write fails
    kSyncsFail,
    kSyncsLose,  // and what was written since the last sync is gone
  };

  FailingFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "FailingFileSystem"; }
  void Set(Mode mode) {
    left_ = -1;
    mode_ = mode;
  }
  // Fails from the write to a write-ahead log on that follows so many more of them.
  void SetAfterLogWrites(int writes, Mode mode) {
    mode_then_ = mode;
    left_ = writes;
  }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    if (rocksdb::IOStatus failure = WriteFailure(name); !failure.ok()) return failure;
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &file, debug);
    if (status.ok()) *result = std::make_unique<File>(this, name, std::move(file));
    return status;
  }
  rocksdb::IOStatus GetFreeSpace(const std::string& path, const rocksdb::IOOptions& options, uint64_t* free,
                                 rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus status = FileSystemWrapper::GetFreeSpace(path, options, free, debug);
    if (mode_ == Mode::kDiskFull) *free = 0;
    return status;
  }

 private:
  class File : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(FailingFileSystem* system, std::string name, std::unique_ptr<rocksdb::FSWritableFile>&& file)
        : FSWritableFileOwnerWrapper(std::move(file)), system_(system), name_(std::move(name)) {}
    using FSWritableFileOwnerWrapper::Append;
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
      if (name_.ends_with(".log") && system_->left_ >= 0 && system_->left_-- == 0) system_->Set(system_->mode_then_);
      rocksdb::IOStatus failure = system_->WriteFailure(name_);
      const size_t goes_through =
          failure.ok() || system_->mode_ == Mode::kWritesFailLate ? data.size() : data.size() / 2;
      rocksdb::IOStatus status =
          FSWritableFileOwnerWrapper::Append(rocksdb::Slice(data.data(), goes_through), options, debug);
      written_ += goes_through;
      return failure.ok() ? status : failure;
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* debug) override {
      return Append(data, options, debug);
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
      const bool loses = system_->mode_ == Mode::kSyncsLose;
      if (loses) std::filesystem::resize_file(name_, synced_);
      if (loses || system_->mode_ == Mode::kSyncsFail)
        return rocksdb::IOStatus::IOError("sync of " + name_, "injected");
      const uint64_t written = written_;
      rocksdb::IOStatus status = FSWritableFileOwnerWrapper::Sync(options, debug);
      if (status.ok()) synced_ = written;
      return status;
    }
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
      return Sync(options, debug);
    }

   private:
    FailingFileSystem* const system_;
    const std::string name_;
    std::atomic<uint64_t> written_ = 0, synced_ = 0;
  };

  rocksdb::IOStatus WriteFailure(const std::string& name) const {
    const Mode mode = mode_;
    if (mode == Mode::kDiskFull || (mode == Mode::kTablesFull && name.ends_with(".sst"))) {
      return rocksdb::IOStatus::NoSpace("write of " + name, "injected");
    }
    if (mode == Mode::kWritesFail || mode == Mode::kWritesFailLate) {
      return rocksdb::IOStatus::IOError("write of " + name, "injected");
    }
    return rocksdb::IOStatus::OK();
  }

  std::atomic<Mode> mode_ = Mode::kHealthy;
  std::atomic<Mode> mode_then_ = Mode::kHealthy;
  std::atomic<int> left_ = -1;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_FAILING_FILE_SYSTEM_H_
