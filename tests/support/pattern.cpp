#include "tests/support/pattern.h"

#include <regex>

namespace runner::support {

struct Pattern::Compiled {
  std::regex regex;
};

Pattern::Pattern(const std::string& expression)
    : compiled_(std::make_shared<Compiled>(Compiled{std::regex(expression)})) {}

bool Pattern::matches(const std::string& text) const {
  return std::regex_match(text, compiled_->regex);
}

bool Pattern::occurs_in(const std::string& text) const {
  return find(text).has_value();
}

std::optional<Pattern::Groups> Pattern::find(const std::string& text) const {
  std::smatch match;
  if (!std::regex_search(text, match, compiled_->regex)) return std::nullopt;
  return Groups(match.begin(), match.end());
}

std::vector<Pattern::Groups> Pattern::find_all(const std::string& text) const {
  std::vector<Groups> found;
  for (std::sregex_iterator at(text.begin(), text.end(), compiled_->regex), end; at != end; ++at) {
    found.emplace_back(at->begin(), at->end());
  }
  return found;
}

std::string Pattern::replace_all(const std::string& text, const std::string& replacement) const {
  return std::regex_replace(text, compiled_->regex, replacement);
}

}  // namespace runner::support
