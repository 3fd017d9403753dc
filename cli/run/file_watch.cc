#include "cli/run/file_watch.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

namespace millstream::cli {
namespace {

namespace fs = std::filesystem;

// Order does not matter: the sum of a mix per file.
uint64_t MixOf(const fs::path& path, const std::error_code& failed, const fs::file_time_type& time, uintmax_t size) {
  if (failed) return 0;
  uint64_t mix = std::hash<std::string>()(path.string());
  for (const uint64_t part : {static_cast<uint64_t>(time.time_since_epoch().count()), static_cast<uint64_t>(size)}) {
    mix = (mix ^ part) * 0x9e3779b97f4a7c15u;
    mix ^= mix >> 29;
  }
  return mix;
}

bool Ignored(const std::string& name) {
  return name.empty() || name[0] == '.' || name == "__pycache__" || name == "node_modules" || name == "target" ||
         name == "build";
}

}  // namespace

FileWatch::FileWatch(const std::vector<std::string>& command) {
  std::set<std::string> places;
  for (const std::string& word : command) {
    std::error_code error;
    if (!fs::is_regular_file(word, error)) continue;
    // Programs in system folders come from packages, they are not being worked on.
    const fs::path folder = fs::absolute(word).lexically_normal().parent_path();
    const std::string text = folder.string();
    if (text.rfind("/usr/", 0) == 0 || text.rfind("/bin", 0) == 0 || text.rfind("/sbin", 0) == 0 ||
        text.find("/bin/") != std::string::npos)
      continue;
    places.insert(text);
  }
  places_.assign(places.begin(), places.end());
  last_ = Fingerprint();
}

uint64_t FileWatch::Fingerprint() const {
  uint64_t sum = 0;
  int left = kMaxFiles;
  for (const std::string& place : places_) {
    std::error_code error;
    fs::recursive_directory_iterator entry(place, fs::directory_options::skip_permission_denied, error), end;
    for (; entry != end && left > 0; entry.increment(error)) {
      if (error) break;
      std::error_code failed;
      if (Ignored(entry->path().filename().string())) {
        if (entry->is_directory(failed)) entry.disable_recursion_pending();
        continue;
      }
      if (!entry->is_regular_file(failed)) continue;
      --left;
      const fs::file_time_type time = entry->last_write_time(failed);
      const uintmax_t size = failed ? 0 : entry->file_size(failed);
      sum += MixOf(entry->path(), failed, time, size);
    }
  }
  return sum;
}

bool FileWatch::Changed() {
  const uint64_t now = Fingerprint();
  const bool changed = now != last_;
  last_ = now;
  return changed;
}

}  // namespace millstream::cli
