// Regular expressions (ECMAScript) for tests, without the header <regex>, whose users take seconds to compile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace runner::support {

class Pattern {
 public:
  explicit Pattern(const std::string& expression);

  // What was found: the whole at 0, then what each group took, "" for none.
  using Groups = std::vector<std::string>;

  bool matches(const std::string& text) const;  // the whole of it
  bool occurs_in(const std::string& text) const;
  std::optional<Groups> find(const std::string& text) const;  // the first
  std::vector<Groups> find_all(const std::string& text) const;
  std::string replace_all(const std::string& text, const std::string& replacement) const;  // $& is what was found

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace runner::support
