// GPT-2's byte-level BPE. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/text/token_trie.h"

namespace runner::text {

// ---- bytes as printable characters (bytes_to_unicode of openai/gpt-2) -----------------------------------------------

// Returns the character that stands for a byte in a vocabulary.
char32_t character_of_byte(uint8_t byte);
// Returns the bytes of a token of a vocabulary. Returns false if one of its characters stands for no byte.
bool bytes_of_token(std::string_view token, std::string& bytes);

// ---- pieces ---------------------------------------------------------------------------------------------------------

// Returns the number of bytes of the first piece of a text that is not empty, by GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t first_piece(std::string_view text);

// ---- merges ---------------------------------------------------------------------------------------------------------

using Merge = std::pair<std::string, std::string>;

struct ByteBpeOptions {
  bool add_prefix_space = false;  // a text that does not begin with a blank gets one
  bool split = true;              // into pieces; false: each text is one piece
  bool ignore_merges = false;     // a piece that is a token is one, even if no merges make it
  bool fuse_unknown = false;      // adjacent unknown bytes become one token
  std::string unknown_token{};    // for bytes without a token; empty: none
};

class ByteBpe {
 public:
  // `tokens`: by id, in printable characters. `merges`: by rank. Throws Error(kData) if a merge names or makes a token
  // that does not exist, or if a byte has no token and there is no unknown token.
  ByteBpe(std::span<const std::string> tokens, std::span<const Merge> merges, ByteBpeOptions options);

  // Appends the ids of a text. Takes n log n time for a piece of n bytes.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  struct Symbol {
    int32_t id = -1;  // -1: merged into the one before
    uint32_t previous = 0, next = 0;
  };
  // Scratch memory of encode().
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<uint64_t> candidates;  // heap of merges: rank and position
  };

  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const;
  void merge_piece(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const;
  void read_symbols(std::string_view piece, std::vector<Symbol>& symbols) const;
  uint64_t merge_of(const Symbol& left, const Symbol& right) const;
  void add_candidate(Scratch& scratch, uint32_t position) const;
  void add_merges(std::span<const std::string> tokens, std::span<const Merge> merges);

  ByteBpeOptions options_;
  std::array<int32_t, 256> byte_ids_{};  // -1: unknown
  int32_t unknown_ = -1;
  FlatMap merges_;    // pair of ids to rank and id
  TokenTrie pieces_;  // tokens that merging their bytes gives; with ignore_merges all
};

}  // namespace runner::text
