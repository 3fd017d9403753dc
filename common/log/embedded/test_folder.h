#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_TEST_FOLDER_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_TEST_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "common/base/status.h"

namespace millstream::log::embedded {

// A folder for one test, removed with everything in it at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "millstream-log-XXXXXX").string();
    MS_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_TEST_FOLDER_H_
