// Pending warnings of a device. Each text is reported once.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace runner::backends::tpu {

class WarningList {
 public:
  void add(std::string text) {
    if (seen_.insert(text).second) texts_.push_back(std::move(text));
  }
  void add(std::vector<std::string> texts) {
    for (std::string& text : texts) add(std::move(text));
  }
  std::vector<std::string> take() { return std::exchange(texts_, {}); }

 private:
  std::set<std::string> seen_;  // reported or pending
  std::vector<std::string> texts_;
};

}  // namespace runner::backends::tpu
