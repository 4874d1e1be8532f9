#include "runner/text/added_tokens.h"

#include <algorithm>

#include "runner/text/characters.h"

namespace runner::text {
namespace {

// Returns the position of the character that ends at `end`.
size_t character_before(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (text[end] & 0xC0) == 0x80);
  return end;
}

bool ends_a_word(std::string_view text, size_t end) {
  return end > 0 && CharacterClasses::get().is(character_at(text, character_before(text, end)).code, kWord);
}

bool begins_a_word(std::string_view text, size_t at) {
  return at < text.size() && CharacterClasses::get().is(character_at(text, at).code, kWord);
}

// Returns the beginning of the white space that ends at `end`, at least `first`.
size_t space_begin(std::string_view text, size_t first, size_t end) {
  while (end > first) {
    const size_t before = character_before(text, end);
    if (!CharacterClasses::get().is(character_at(text, before).code, kSpace)) break;
    end = before;
  }
  return end;
}

size_t space_end(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (!CharacterClasses::get().is(character.code, kSpace)) break;
    at += character.bytes;
  }
  return at;
}

}  // namespace

void TokenFinder::add(const AddedToken& token, std::string_view pattern) {
  trie_.insert(pattern, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
  begins_[static_cast<uint8_t>(pattern[0])] = true;
}

bool TokenFinder::find(std::string_view text, size_t done, SpecialTokens specials, Found& found) const {
  if (tokens_.empty()) return false;
  size_t at = found.searched;
  while (at < text.size()) {
    const TokenTrie::Match match =
        begins_[static_cast<uint8_t>(text[at])] ? trie_.longest_prefix(text.substr(at)) : TokenTrie::Match();
    if (match.id < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.id)];
    const size_t begin = at, end = at + match.bytes;
    at = end;
    if (token.is_special && specials == SpecialTokens::kAsText) continue;
    if (token.single_word && (ends_a_word(text, begin) || begins_a_word(text, end))) continue;
    found.searched = at;
    found.begin = std::max(done, token.lstrip ? space_begin(text, done, begin) : begin);
    // If the token before has included white space beyond this one, it ends where that does.
    found.end = !token.rstrip ? end : end < done ? done : space_end(text, end);
    found.id = token.id;
    return true;
  }
  return false;
}

}  // namespace runner::text
