#include "schema/base/secrets.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schema/base/sha256.h"
#include "schema/base/text.h"

namespace runner {
namespace {

constexpr size_t kShortestHidden = 6;

// Values and their references.
class Secrets {
 public:
  void add(const std::string& value, const std::string& reference) {
    if (value.size() < kShortestHidden) return;
    const std::lock_guard lock(mutex_);
    const std::pair secret{value, reference};
    if (std::ranges::find(secrets_, secret) != secrets_.end()) return;
    secrets_.push_back(secret);
    // A secret may contain another one.
    std::ranges::stable_sort(secrets_, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  }

  std::string hide(std::string text) {
    const std::lock_guard lock(mutex_);
    for (const auto& [value, reference] : secrets_)
      if (text.find(value) != std::string::npos) text = replaced(text, value, reference);
    return text;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::string>> secrets_;
};

Secrets& secrets() {
  static Secrets all;
  return all;
}

}  // namespace

bool is_secret_name(std::string_view variable) {
  constexpr std::array<std::string_view, 4> kWords{"token", "key", "password", "secret"};
  const std::string name = lower_case(variable);
  return std::ranges::any_of(kWords, [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

std::string secret_digest(std::string_view variable, std::string_view value) {
  constexpr size_t kDigits = 16;
  return hex(sha256(fmt::format("{}={}", variable, value))).substr(0, kDigits);
}

std::string remember_secret(const std::string& variable, const std::string& value) {
  std::string reference = fmt::format("{}{}:{}}}", kSecretStart, variable, secret_digest(variable, value));
  secrets().add(value, reference);
  return reference;
}

std::string hide_secrets(std::string text) {
  return secrets().hide(std::move(text));
}

}  // namespace runner
