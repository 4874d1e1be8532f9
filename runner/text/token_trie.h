// Flat hash tables for tokenizers. Built once, then thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace runner::text {

// Maps 64-bit numbers to 64-bit numbers, in one array with linear probing.
class FlatMap {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};  // not a key, and what find() returns for a missing key

  FlatMap();

  // Returns the value of the key, which becomes `value` if the key is new.
  uint64_t insert(uint64_t key, uint64_t value);
  uint64_t find(uint64_t key) const {
    for (size_t at = start(key);; at = (at + 1) & mask_) {
      if (entries_[at].key == key) return entries_[at].value;
      if (entries_[at].key == kNone) return kNone;
    }
  }

 private:
  struct Entry {
    uint64_t key = kNone, value = 0;
  };

  size_t start(uint64_t key) const { return static_cast<size_t>(key * 0x9E3779B97F4A7C15U >> 20) & mask_; }
  void grow();

  std::vector<Entry> entries_;
  size_t mask_, count_ = 0;
};

// A set of tokens with their ids, which are not negative.
class TokenTrie {
 public:
  struct Match {
    int32_t id = -1;  // -1: no token matches
    size_t bytes = 0;
  };

  // Returns the id of the token, which becomes `id` if the token is new. `token`: not empty.
  int32_t insert(std::string_view token, int32_t id);
  // Returns -1 if there is no such token.
  int32_t find(std::string_view token) const;
  // Returns the longest token with which the text begins. Takes time in proportion to the longest beginning of the text
  // with which a token begins.
  Match longest_prefix(std::string_view text) const;

 private:
  uint64_t next(uint64_t node, char byte) const { return edges_.find(node << 8 | static_cast<uint8_t>(byte)); }

  FlatMap edges_;                 // node and byte to node
  std::vector<int32_t> ids_{-1};  // of each node, -1 if no token ends there
};

}  // namespace runner::text
