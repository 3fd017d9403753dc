#ifndef MILLSTREAM_COMMON_LOG_LOG_H_
#define MILLSTREAM_COMMON_LOG_LOG_H_

#include <memory>
#include <string>

#include "common/log/admin.h"
#include "common/log/reader.h"
#include "common/log/writer.h"

namespace millstream::log {

// A partitioned record log with transactions: Kafka, or the embedded one. Thread-safe. Readers and writers must be
// destroyed before the log they came from.
class Log {
 public:
  virtual ~Log() = default;
  virtual std::unique_ptr<Reader> NewReader(const ReaderOptions& options) = 0;
  virtual std::unique_ptr<TransactionalWriter> NewTransactionalWriter(const WriterOptions& options) = 0;
  virtual std::unique_ptr<PlainWriter> NewPlainWriter() = 0;
  virtual Admin& admin() = 0;
};

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_LOG_H_
