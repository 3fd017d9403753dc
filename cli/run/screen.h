#ifndef MILLSTREAM_CLI_RUN_SCREEN_H_
#define MILLSTREAM_CLI_RUN_SCREEN_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "sidecar/host/sidecar.h"

namespace millstream::cli {

// One processor of a run, for the first screen.
struct RunningView {
  const spec::StreamProcessorSpec* spec = nullptr;
  int tasks = 0;
  std::vector<int> output_partitions;
  std::vector<std::string> command;
  std::string http;  // "127.0.0.1:34567"; empty: off
};

// What a newcomer needs next: what runs, and the exact lines to produce, consume and query from another terminal.
// `kafka`: its bootstrap servers; empty: the topics are in the folder. `data_option`: " --data DIR" if those lines need
// it.
std::string FirstScreen(const std::string& data, const std::string& kafka, const std::string& data_option,
                        const std::vector<RunningView>& processors);

// What a `millstream run` shows: on a terminal one line at the bottom that is drawn anew, with everything else above
// it; elsewhere plain lines when something changed, at most every 10 s while only numbers move. One thread.
class Screen {
 public:
  enum class Kind { kTerminal, kPlain, kJson };
  explicit Screen(Kind kind) : kind_(kind) {}
  ~Screen();

  // A whole line above the status line, on standard error (a worker's output, an event).
  void Print(std::string_view line);
  // True when Show would look at what it is given: ten times a second at most.
  bool Due(absl::Duration now) const { return now - looked_at_ >= absl::Milliseconds(100); }
  // The state of all processors, by name.
  void Show(absl::Duration now, const std::vector<std::pair<std::string, host::SidecarStatus>>& statuses);
  // No status line from here on.
  void Finish();

 private:
  struct Rate {
    absl::Duration at;
    uint64_t records = 0;
    double per_second = 0;
  };

  double RateOf(absl::Duration now, const std::string& name, const host::SidecarStatus& status);
  void ShowChanges(const std::string& name, const host::SidecarStatus& status);
  void Draw(const std::string& line);

  const Kind kind_;
  std::map<std::string, Rate> rates_;
  std::map<std::string, std::string> said_;  // per processor: what was last said about its state
  std::map<std::string, std::string> errors_;
  absl::Duration looked_at_ = -absl::InfiniteDuration(), drawn_at_ = -absl::InfiniteDuration();
  std::string last_line_;
  bool drawn_ = false;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_RUN_SCREEN_H_
