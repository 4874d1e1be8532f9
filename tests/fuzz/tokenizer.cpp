// Tokenizers from arbitrary files, and what they make of arbitrary texts. The text follows the last zero byte.
#include "runner/text/tokenizer.h"

#include <algorithm>
#include <string>

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
  require(is_utf8(tokenizer.decode(encoding.ids, true)), "the decoded text is not UTF-8");
}

void check_tokenizer(const text::Tokenizer& tokenizer) {
  require(tokenizer.vocabulary() > 0, "the vocabulary is empty");
  const std::vector<int32_t> ids = tokenizer.encode(text_to_encode);
  const std::vector<int32_t> as_text = tokenizer.encode(text_to_encode, text::SpecialTokens::kAsText);
  check_encoding(tokenizer, tokenizer.with_specials(ids));
  check_encoding(tokenizer, tokenizer.with_specials(ids, as_text));
  require(tokenizer.with_specials({}).ids.size() == tokenizer.specials(false), "another number of special tokens");
}

}  // namespace

bool tokenizer(Bytes input) {
  const std::string bytes(input.begin(), input.end());
  const size_t end = std::min(bytes.rfind('\0'), bytes.size());
  text_to_encode = bytes.substr(std::min(end + 1, bytes.size()));
  if (!is_utf8(text_to_encode)) text_to_encode.clear();
  return accepts(input.first(end), [](const std::string& path) { check_tokenizer(text::open_tokenizer(path)); });
}

}  // namespace runner::fuzz
