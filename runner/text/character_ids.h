// The vocabulary of a character tokenizer: token ids of code points. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace runner::text {

class CharacterIds {
 public:
  // `names`: the characters in UTF-8, sorted; their positions are their ids.
  explicit CharacterIds(std::span<const std::string> names);

  size_t size() const { return codes_.size(); }
  // Returns -1 if the character is not in the vocabulary.
  int64_t of(char32_t code) const { return code < kDirect ? direct_[code] : searched(code); }

 private:
  static constexpr char32_t kDirect = 0x800;  // characters of up to two UTF-8 bytes

  int64_t searched(char32_t code) const;

  std::vector<char32_t> codes_;  // of each token, ascending
  std::array<int32_t, kDirect> direct_{};
};

}  // namespace runner::text
