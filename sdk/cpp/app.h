#ifndef MILLSTREAM_SDK_CPP_APP_H_
#define MILLSTREAM_SDK_CPP_APP_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "millstream/worker.h"
#include "sdk/cpp/program.h"
#include "sdk/cpp/session.h"

namespace millstream::worker {

// The worker threads of an App and what they share. Thread-safe where App is.
class App::Impl {
 public:
  explicit Impl(AppOptions options);
  ~Impl();

  Program& program() { return program_; }
  absl::Status Run();
  const Logger& logger() const { return options_.logger; }
  void Stop();

 private:
  // Sessions one after the other, until there is no point.
  absl::Status Serve(int wake_fd);
  // One of them. Sets *welcomed if it got that far.
  absl::Status ServeOnce(const std::string& path, int wake_fd, bool* welcomed);
  bool Over() const { return stop_.leave || stop_.signalled(); }
  void Wake();

  AppOptions options_;
  Program program_;
  StopState stop_;
  std::vector<int> wake_fds_;  // one per worker, made by the constructor
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_APP_H_
