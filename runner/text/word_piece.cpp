#include "runner/text/word_piece.h"

#include <utility>

#include "runner/text/characters.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::text {
namespace {

// Normalizes a text character by character. ASCII characters are written at once; others wait for the marks that
// follow.
class Normalization {
 public:
  Normalization(const BertNormalizer& steps, std::string& out) : steps_(steps), out_(out) {}

  void add(char32_t code) {
    const unsigned classes = classes_.of(code);
    if (steps_.clean_text) {
      if ((classes & kControl) != 0) return;
      if ((classes & kSpace) != 0) code = U' ';
    }
    if (code < 0x80) {
      flush();
      const bool is_capital = code >= U'A' && code <= U'Z';
      out_ += static_cast<char>(steps_.lowercase && is_capital ? code + ('a' - 'A') : code);
    } else if (steps_.handle_chinese_chars && is_cjk(code)) {
      flush();
      out_ += ' ';
      waiting_ += code;
      flush();
      out_ += ' ';
    } else {
      waiting_ += code;
    }
  }

  void flush() {
    if (waiting_.empty()) return;
    if (steps_.strip_accents) decompose_waiting();
    for (const char32_t code : waiting_) {
      if (steps_.strip_accents && classes_.is(code, kMark)) continue;
      written_.clear();
      if (steps_.lowercase)
        append_lower_case(written_, code);
      else
        written_ += code;
      for (const char32_t part : written_) append_utf8(out_, part);
    }
    waiting_.clear();
  }

 private:
  void decompose_waiting() {
    written_.clear();
    for (const char32_t code : waiting_) append_decomposed(written_, code);
    sort_marks(written_);
    std::swap(waiting_, written_);
  }

  const BertNormalizer& steps_;
  const CharacterClasses& classes_ = CharacterClasses::get();
  std::string& out_;
  std::u32string waiting_, written_;
};

}  // namespace

std::string BertNormalizer::operator()(std::string_view text) const {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  Normalization normalization(*this, out);
  for_each_character(text, [&](const Character& character, std::string_view) { normalization.add(character.code); });
  normalization.flush();
  return out;
}

WordPiece::WordPiece(std::span<const std::string> tokens, WordPieceOptions options) : options_(std::move(options)) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    const auto id = static_cast<int32_t>(i);
    if (!token.empty()) beginnings_.insert(token, id);
    if (token.size() > options_.prefix.size() && token.starts_with(options_.prefix))
      continuations_.insert(std::string_view(token).substr(options_.prefix.size()), id);
  }
  unknown_ = beginnings_.find(options_.unknown_token);
  RUN_CHECK(unknown_ >= 0, ErrorKind::kData, "the vocabulary has no token {} for unknown words",
            in_quotes(options_.unknown_token));
}

void WordPiece::encode(std::string_view text, std::vector<int32_t>& ids) const {
  const CharacterClasses& classes = CharacterClasses::get();
  size_t begin = 0;  // of the word
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const size_t end = at + character.bytes;
    if (classes.is(character.code, kSpace | kPunctuation)) {
      if (begin < at) encode_word(text.substr(begin, at - begin), ids);
      if (classes.is(character.code, kPunctuation)) encode_word(text.substr(at, character.bytes), ids);
      begin = end;
    }
    at = end;
  }
  if (begin < text.size()) encode_word(text.substr(begin), ids);
}

void WordPiece::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  bool is_known = count_characters(word) <= options_.longest_word;
  for (size_t at = 0; is_known && at < word.size();) {
    const TokenTrie::Match match = (at == 0 ? beginnings_ : continuations_).longest_prefix(word.substr(at));
    is_known = match.id >= 0;
    ids.push_back(match.id);
    at += match.bytes;
  }
  if (is_known) return;
  ids.resize(before);
  ids.push_back(unknown_);
}

}  // namespace runner::text
