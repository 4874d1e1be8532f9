// Regular expressions (ECMAScript) for tests, without the header <regex>, which takes seconds to compile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace runner::support {

class Pattern {
 public:
  explicit Pattern(const std::string& expression);

  // A match: the whole text at index 0, then each group, "" if it did not participate.
  using Groups = std::vector<std::string>;

  bool matches(const std::string& text) const;  // the whole text
  bool occurs_in(const std::string& text) const;
  std::optional<Groups> find(const std::string& text) const;  // the first match
  std::vector<Groups> find_all(const std::string& text) const;
  std::string replace_all(const std::string& text, const std::string& replacement) const;  // $& is the match

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace runner::support
