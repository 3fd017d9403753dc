#ifndef MILLSTREAM_TESTS_WORKERS_FLAGS_H_
#define MILLSTREAM_TESTS_WORKERS_FLAGS_H_

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace millstream {

// --name=value arguments of a test program. Done() complains about those nobody took.
class Flags {
 public:
  Flags(int argc, char** argv) : left_(argv + 1, argv + argc) {}

  void Take(const std::string& name, std::string* value) {
    if (auto text = TakeText(name)) *value = *text;
  }
  void Take(const std::string& name, std::optional<std::string>* value) {
    if (auto text = TakeText(name)) *value = text;
  }
  void Take(const std::string& name, int* value) {
    if (auto text = TakeText(name)) *value = std::atoi(text->c_str());
  }
  bool Done(const char* program) const {
    for (const std::string& argument : left_)
      std::cerr << program << ": unknown argument " << argument << "; see the top of its source\n";
    return left_.empty();
  }

 private:
  std::optional<std::string> TakeText(const std::string& name) {
    const std::string prefix = "--" + name + "=";
    for (auto argument = left_.begin(); argument != left_.end(); ++argument) {
      if (argument->rfind(prefix, 0) != 0) continue;
      std::string text = argument->substr(prefix.size());
      left_.erase(argument);
      return text;
    }
    return std::nullopt;
  }

  std::vector<std::string> left_;
};

}  // namespace millstream

#endif  // MILLSTREAM_TESTS_WORKERS_FLAGS_H_
