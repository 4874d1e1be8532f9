// Tokenizers from arbitrary files, and what they make of arbitrary texts. The text follows the last zero byte, or in
// binary files the word TEXT.
#include "runner/text/tokenizer.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "runner/text/piece_model.h"
#include "runner/text/reading.h"
#include "runner/text/sentence_piece.h"
#include "runner/text/sentence_piece_file.h"
#include "runner/text/tokenizer_file.h"
#include "schema/base/utf8.h"
#include "tests/fuzz/target.h"

namespace runner::fuzz {
namespace {

std::string text_to_encode;

void check_encoding(const text::Tokenizer& tokenizer, const text::Encoding& encoding) {
  require(encoding.ids.size() == encoding.types.size(), "not a type for each id");
  for (const int32_t id : encoding.ids) require(id >= 0 && id < tokenizer.vocabulary(), "there is no such id");
  require(is_utf8(tokenizer.decode(encoding.ids)), "the decoded text is not UTF-8");
}

void check_tokenizer(const text::Tokenizer& tokenizer) {
  require(tokenizer.vocabulary() > 0, "the vocabulary is empty");
  const std::vector<int32_t> ids = tokenizer.encode(text_to_encode);
  const std::vector<int32_t> as_text = tokenizer.encode(text_to_encode, text::SpecialTokens::kAsText);
  check_encoding(tokenizer, tokenizer.with_specials(ids));
  check_encoding(tokenizer, tokenizer.with_specials(ids, as_text));
  require(tokenizer.with_specials({}).ids.size() == tokenizer.specials(false), "another number of special tokens");
}

void check_piece_model(const text::PieceModel& model) {
  const std::string bytes = text::bytes_of(model);
  require(text::bytes_of(text::read_piece_model(bytes)) == bytes, "a written model is read differently");
}

// Takes the text that follows the last `separator`. Returns the bytes before it.
Bytes without_text(Bytes input, std::string_view separator) {
  const std::string bytes(input.begin(), input.end());
  const size_t end = std::min(bytes.rfind(separator), bytes.size());
  text_to_encode = bytes.substr(std::min(end + separator.size(), bytes.size()));
  if (!is_utf8(text_to_encode)) text_to_encode.clear();
  return input.first(end);
}

}  // namespace

bool tokenizer(Bytes input) {
  const Bytes file = without_text(input, std::string_view("\0", 1));
  return accepts(file, [](const std::string& path) { check_tokenizer(text::open_tokenizer(path)); });
}

bool sentence_piece(Bytes input) {
  const Bytes file = without_text(input, "TEXT");
  return accepts(file, [](const std::string& path) {
    const std::string contents = text::read_bytes(path);
    text::naming(path, [&] { check_piece_model(text::read_piece_model(contents)); });
    if (text::has_sentence_piece()) check_tokenizer(text::open_sentence_piece(path, contents));
  });
}

}  // namespace runner::fuzz
