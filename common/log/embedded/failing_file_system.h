#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_FAILING_FILE_SYSTEM_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_FAILING_FILE_SYSTEM_H_

#include <rocksdb/file_system.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

namespace millstream::log::embedded {

// The real file system, but writes or syncs fail while a test wants it. A failing write puts half of its bytes on the
// disk, as a full one does. For tests only.
class FailingFileSystem : public rocksdb::FileSystemWrapper {
 public:
  enum class Mode { kHealthy, kDiskFull, kWritesFail, kSyncsFail };

  FailingFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "FailingFileSystem"; }
  void Set(Mode mode) { mode_ = mode; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    if (rocksdb::IOStatus failure = WriteFailure(name); !failure.ok()) return failure;
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &file, debug);
    if (status.ok()) *result = std::make_unique<File>(this, name, std::move(file));
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
      rocksdb::IOStatus failure = system_->WriteFailure(name_);
      if (failure.ok()) return FSWritableFileOwnerWrapper::Append(data, options, debug);
      FSWritableFileOwnerWrapper::Append(rocksdb::Slice(data.data(), data.size() / 2), options, debug)
          .PermitUncheckedError();
      return failure;
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* debug) override {
      return Append(data, options, debug);
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
      if (system_->mode_ == Mode::kSyncsFail) return rocksdb::IOStatus::IOError("sync of " + name_, "injected");
      return FSWritableFileOwnerWrapper::Sync(options, debug);
    }
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
      return Sync(options, debug);
    }

   private:
    FailingFileSystem* const system_;
    const std::string name_;
  };

  rocksdb::IOStatus WriteFailure(const std::string& name) const {
    if (mode_ == Mode::kDiskFull) return rocksdb::IOStatus::NoSpace("write of " + name, "injected");
    if (mode_ == Mode::kWritesFail) return rocksdb::IOStatus::IOError("write of " + name, "injected");
    return rocksdb::IOStatus::OK();
  }

  std::atomic<Mode> mode_ = Mode::kHealthy;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_FAILING_FILE_SYSTEM_H_
