#include "runner/text/byte_bpe.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_map>

#include "runner/text/characters.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::text {
namespace {

constexpr uint32_t kNoSymbol = std::numeric_limits<uint32_t>::max();

bool is_printable_byte(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
}

// The 68 other bytes are the characters from U+0100 on, in order.
struct ByteCharacters {
  std::array<char32_t, 256> of_byte{};
  std::array<int16_t, 0x100 + 68> byte_of{};  // -1: none

  ByteCharacters() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      of_byte[byte] = is_printable_byte(byte) ? char32_t{byte} : next++;
      byte_of[of_byte[byte]] = static_cast<int16_t>(byte);
    }
  }
};

const ByteCharacters& byte_characters() {
  static const ByteCharacters characters;
  return characters;
}

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// Returns the number of bytes of the characters at text[at] for which `holds` is true.
template <class Holds>
size_t run_length(std::string_view text, size_t at, Holds holds) {
  const size_t begin = at;
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (!holds(character.code)) break;
    at += character.bytes;
  }
  return at - begin;
}

// Returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the beginning of a text; 0 if there is none.
size_t contraction_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"})
    if (text.substr(1).starts_with(ending)) return 1 + ending.size();
  return 0;
}

// `run`: bytes of the white space with which the text begins. The last character of white space belongs to what
// follows, unless it is the only one.
size_t space_length(std::string_view text, size_t run) {
  if (run == text.size()) return run;
  size_t last = run - 1;
  while ((text[last] & 0xC0) == 0x80) --last;
  return last > 0 ? last : run;
}

}  // namespace

char32_t character_of_byte(uint8_t byte) {
  return byte_characters().of_byte[byte];
}

bool bytes_of_token(std::string_view token, std::string& bytes) {
  const ByteCharacters& characters = byte_characters();
  bytes.clear();
  for (size_t at = 0; at < token.size();) {
    const Character character = character_at(token, at);
    if (character.code >= characters.byte_of.size() || characters.byte_of[character.code] < 0) return false;
    bytes += static_cast<char>(characters.byte_of[character.code]);
    at += character.bytes;
  }
  return true;
}

size_t first_piece(std::string_view text) {
  const CharacterClasses& classes = CharacterClasses::get();
  const size_t contraction = contraction_length(text);
  if (contraction > 0) return contraction;
  const size_t blank = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const unsigned kind = classes.of(character_at(text, blank).code) & (kLetter | kNumber | kSpace);
  if (kind == kSpace)
    return space_length(text, run_length(text, 0, [&](char32_t code) { return classes.is(code, kSpace); }));
  return blank + run_length(text, blank,
                            [&](char32_t code) { return (classes.of(code) & (kLetter | kNumber | kSpace)) == kind; });
}

ByteBpe::ByteBpe(std::span<const std::string> tokens, std::span<const Merge> merges, ByteBpeOptions options)
    : options_(std::move(options)) {
  std::vector<std::string> bytes(tokens.size());
  byte_ids_.fill(-1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!bytes_of_token(tokens[i], bytes[i])) bytes[i].clear();
    if (bytes[i].size() == 1) byte_ids_[static_cast<uint8_t>(bytes[i][0])] = id;
    if (!options_.unknown_token.empty() && tokens[i] == options_.unknown_token) unknown_ = id;
  }
  RUN_CHECK(options_.unknown_token.empty() || unknown_ >= 0, ErrorKind::kData,
            "the vocabulary has no token {} for unknown bytes", in_quotes(options_.unknown_token));
  const auto missing = std::ranges::count(byte_ids_, -1);
  RUN_CHECK(missing == 0 || unknown_ >= 0, ErrorKind::kData,
            "the vocabulary has no token for {} of the 256 bytes and no unk_token, so their text would be lost",
            missing);
  add_merges(tokens, merges);

  Scratch scratch;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (bytes[i].empty()) continue;
    const auto id = static_cast<int32_t>(i);
    ids.clear();
    if (!options_.ignore_merges) merge_piece(bytes[i], scratch, ids);
    if (options_.ignore_merges || (ids.size() == 1 && ids[0] == id)) pieces_.insert(bytes[i], id);
  }
}

void ByteBpe::add_merges(std::span<const std::string> tokens, std::span<const Merge> merges) {
  std::unordered_map<std::string_view, int32_t> id_of;
  for (size_t i = 0; i < tokens.size(); ++i) id_of.emplace(tokens[i], static_cast<int32_t>(i));
  const auto known = [&](size_t rank, const std::string& token) {
    const auto found = id_of.find(token);
    RUN_CHECK(found != id_of.end(), ErrorKind::kData, "merge {} needs the token {}, which the vocabulary does not have",
              rank + 1, in_quotes(token));
    return found->second;
  };
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const uint64_t key = pair_key(known(rank, left), known(rank, right));
    const auto result = static_cast<uint32_t>(known(rank, left + right));
    const uint64_t value = uint64_t{rank} << 32 | result;
    RUN_CHECK(merges_.insert(key, value) == value, ErrorKind::kData, "merge {} of {} and {} is there twice", rank + 1,
              in_quotes(left), in_quotes(right));
  }
}

void ByteBpe::encode(std::string_view text, std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  Scratch scratch;
  std::string with_blank;
  if (options_.add_prefix_space && text[0] != ' ') {
    with_blank = " ";
    with_blank += text;
    text = with_blank;
  }
  while (!text.empty()) {
    const size_t length = options_.split ? first_piece(text) : text.size();
    encode_piece(text.substr(0, length), scratch, ids);
    text.remove_prefix(length);
  }
}

void ByteBpe::encode_piece(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const {
  const int32_t whole = pieces_.find(piece);
  if (whole >= 0)
    ids.push_back(whole);
  else
    merge_piece(piece, scratch, ids);
}

void ByteBpe::read_symbols(std::string_view piece, std::vector<Symbol>& symbols) const {
  symbols.clear();
  bool was_unknown = false;
  for (const char byte : piece) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    const bool is_unknown = id < 0;
    if (is_unknown && was_unknown && options_.fuse_unknown) continue;
    const auto position = static_cast<uint32_t>(symbols.size());
    symbols.push_back({is_unknown ? unknown_ : id, position - 1, position + 1});
    was_unknown = is_unknown;
  }
  symbols.front().previous = symbols.back().next = kNoSymbol;
}

uint64_t ByteBpe::merge_of(const Symbol& left, const Symbol& right) const {
  return merges_.find(pair_key(left.id, right.id));
}

// Adds the merge of the symbol at `position` with the next one, if there is one.
void ByteBpe::add_candidate(Scratch& scratch, uint32_t position) const {
  const Symbol& left = scratch.symbols[position];
  if (left.next == kNoSymbol) return;
  const uint64_t merge = merge_of(left, scratch.symbols[left.next]);
  if (merge == FlatMap::kNone) return;
  scratch.candidates.push_back((merge >> 32) << 32 | position);
  std::ranges::push_heap(scratch.candidates, std::greater<>());
}

void ByteBpe::merge_piece(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const {
  auto& [symbols, candidates] = scratch;
  read_symbols(piece, symbols);
  candidates.clear();
  for (uint32_t position = 0; position < symbols.size(); ++position) add_candidate(scratch, position);
  while (!candidates.empty()) {
    std::ranges::pop_heap(candidates, std::greater<>());
    const uint64_t rank = candidates.back() >> 32;
    const auto position = static_cast<uint32_t>(candidates.back());
    candidates.pop_back();
    Symbol& left = symbols[position];
    if (left.id < 0 || left.next == kNoSymbol) continue;
    Symbol& right = symbols[left.next];
    const uint64_t merge = merge_of(left, right);
    if (merge == FlatMap::kNone || merge >> 32 != rank) continue;  // one of them has changed
    left.id = static_cast<int32_t>(merge);
    left.next = right.next;
    right.id = -1;
    if (left.next != kNoSymbol) symbols[left.next].previous = position;
    if (left.previous != kNoSymbol) add_candidate(scratch, left.previous);
    add_candidate(scratch, position);
  }
  for (uint32_t position = 0; position != kNoSymbol; position = symbols[position].next)
    ids.push_back(symbols[position].id);
}

}  // namespace runner::text
