// Tokens that are found in a text before it is divided, such as [MASK] and <|endoftext|>. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/text/token_trie.h"

namespace runner::text {

// How special tokens in a text are treated.
enum class SpecialTokens {
  kMatch,   // they become their ids
  kAsText,  // they are text like any other, for untrusted text
};

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // not within a word
  bool lstrip = false;       // includes the white space before it; rstrip: after it
  bool rstrip = false;
  bool is_normalized = false;  // found in the normalized text, by its normalized content
  bool is_special = true;
};

// Finds tokens from left to right, the longest first.
class TokenFinder {
 public:
  // Adds a token that is found as `pattern`, which is not empty. The first token with a pattern counts.
  void add(const AddedToken& token, std::string_view pattern);

  // Calls text(part) for the parts of `text` between tokens, unless they are empty, and token(id) for each token, in
  // order.
  template <class Text, class Token>
  void split(std::string_view text, SpecialTokens specials, Text on_text, Token on_token) const {
    size_t done = 0;
    Found found;
    while (find(text, done, specials, found)) {
      if (done < found.begin) on_text(text.substr(done, found.begin - done));
      on_token(found.id);
      done = found.end;
    }
    if (done < text.size()) on_text(text.substr(done));
  }

 private:
  struct Found {
    size_t searched = 0;  // where the search continues
    size_t begin = 0, end = 0;
    int32_t id = 0;
  };

  // Finds the next token. `done`: end of the token before.
  bool find(std::string_view text, size_t done, SpecialTokens specials, Found& found) const;

  TokenTrie trie_;  // pattern to position in tokens_
  std::vector<AddedToken> tokens_;
  bool begins_[256] = {};  // bytes with which a pattern begins
};

}  // namespace runner::text
