#include "sidecar/store/positions_on_disk.h"

#include <cstdarg>
#include <filesystem>
#include <memory>
#include <system_error>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "rocksdb/db.h"
#include "sidecar/store/rocks_status.h"
#include "sidecar/store/stamp.h"

namespace millstream::store {
namespace {

// Else RocksDB writes a log file beside the database.
class NoLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

absl::StatusOr<std::string> Read(rocksdb::DB* db, std::string_view key, const std::string& path) {
  std::string value;
  const rocksdb::Status read = db->Get(rocksdb::ReadOptions(), {key.data(), key.size()}, &value);
  if (read.IsNotFound()) return absl::NotFoundError(StrCat("there is no ", key, " in ", path));
  MS_RETURN_IF_ERROR(FromRocks(read, StrCat("read ", key, " of"), path));
  return value;
}

}  // namespace

absl::StatusOr<Positions> PositionsOnDisk(const std::string& directory, const TaskIdentity& identity) {
  const std::string path = directory + "/db";
  std::error_code ignored;
  if (!std::filesystem::exists(path + "/CURRENT", ignored))
    return absl::NotFoundError(StrCat("there is no database in ", path));
  rocksdb::Options options;
  options.info_log = std::make_shared<NoLog>();
  rocksdb::DB* opened = nullptr;
  MS_RETURN_IF_ERROR(FromRocks(rocksdb::DB::OpenForReadOnly(options, path, &opened), "open", path));
  const std::unique_ptr<rocksdb::DB> db(opened);
  MS_ASSIGN_OR_RETURN(const std::string stamp, Read(db.get(), kStampKey, path));
  if (const std::string difference = DifferenceFromStamp(stamp, identity); !difference.empty())
    return absl::NotFoundError(StrCat(path, ": ", difference));
  MS_ASSIGN_OR_RETURN(const std::string positions, Read(db.get(), kPositionsKey, path));
  return DecodePositions(positions, identity);
}

}  // namespace millstream::store
