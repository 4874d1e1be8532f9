#include "runner/data/text_codec.h"

#include <charconv>

#include "runner/data/text.h"
#include "runner/data/token_rows.h"
#include "runner/text/tokenizer_words.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

std::optional<text::Tokenizer> tokenizer_of(const Encoding& encoding, const schema::DataSpec& data) {
  if (!encoding.class_names.empty()) return text::characters_tokenizer(encoding.class_names);
  if (encoding.texts && !encoding.texts->characters.empty())
    return text::characters_tokenizer(encoding.texts->characters);
  if (tokens_word(data) == text::kBytesWord) return text::bytes_tokenizer();
  const std::string path = tokenizer_path(data);
  if (path.empty()) return std::nullopt;
  const TextTokenizer opened({.tokenizer = path}, encoding.texts ? &*encoding.texts : nullptr);
  return *opened.tokenizer();
}

}  // namespace

TextCodec::TextCodec(const Encoding& encoding, const schema::DataSpec& data)
    : vocabulary_(encoding.vocabulary),
      are_rows_(has_text_rows(data.train)),
      tokenizer_(tokenizer_of(encoding, data)) {}

std::vector<int32_t> TextCodec::encode(std::string_view text) const {
  std::vector<int32_t> ids = tokenizer_ ? tokenizer_->encode(text) : ids_of(text);
  if (are_rows_) ids = tokenizer_->begun(ids);
  if (ids.empty() && end_token()) ids.push_back(*end_token());
  RUN_CHECK(!ids.empty(), ErrorKind::kUsage,
            "the prompt is empty, and the data have no end token to begin with; give at least one {}",
            tokenizer_ ? "character" : "token id");
  return ids;
}

std::vector<int32_t> TextCodec::ids_of(std::string_view text) const {
  std::vector<int32_t> ids;
  constexpr std::string_view kBetween = " \t\r\n,";
  for (size_t at = text.find_first_not_of(kBetween); at < text.size(); at = text.find_first_not_of(kBetween, at)) {
    const std::string_view word = text.substr(at, text.find_first_of(kBetween, at) - at);
    int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    RUN_CHECK(error == std::errc() && end == word.data() + word.size() && id >= 0 && id < vocabulary_, ErrorKind::kData,
              "the run was trained on token ids, so the prompt must be ids from 0 to {}, such as \"1 2 3\"; got {}",
              vocabulary_ - 1, in_quotes(word));
    ids.push_back(id);
    at += word.size();
  }
  return ids;
}

}  // namespace runner::data
