#include "runner/data/text_encoding.h"

#include <algorithm>
#include <bit>

#include "schema/base/error.h"

namespace runner::data {
namespace {

using schema::TokenPadding;

// Their words are stored in checkpoints: never change them.
constexpr TokenPadding kPaddings[] = {TokenPadding::kLongest, TokenPadding::kMaxLength, TokenPadding::kBucket};
constexpr int64_t kSmallestBucket = 16;

TokenPadding padding_of(const std::string& word) {
  const auto found = std::ranges::find(kPaddings, word, [](TokenPadding padding) { return name_of(padding); });
  RUN_CHECK(found != std::end(kPaddings), ErrorKind::kStore, "padding is {}", word);
  return *found;
}

}  // namespace

json::Object TextEncoding::to_json() const {
  const auto object_of = [](const TokenizerFile& file) {
    return json::Value(json::Object{{"name", file.name}, {"sha256", file.sha256}});
  };
  return {{"characters", json::list_of(characters)},
          {"files", json::list_of(files, object_of)},
          {"padding", std::string(name_of(padding))},
          {"tokenizer", tokenizer}};
}

TextEncoding TextEncoding::from_json(const json::Value& document) {
  const json::ObjectReader object(document);
  TextEncoding encoding{.tokenizer = object.text("tokenizer"),
                        .characters = object.texts("characters"),
                        .padding = padding_of(object.text("padding"))};
  for (const json::Value& file : json::elements_of(object.at("files"))) {
    const json::ObjectReader members(file);
    encoding.files.push_back({members.text("name"), members.text("sha256")});
  }
  return encoding;
}

int64_t padded_length(TokenPadding padding, int64_t longest, int64_t most) {
  switch (padding) {
    case TokenPadding::kLongest: return std::max<int64_t>(longest, 1);
    case TokenPadding::kMaxLength: return most;
    case TokenPadding::kBucket: break;
  }
  const auto bucket = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(longest, kSmallestBucket))));
  return std::min(bucket, most);
}

}  // namespace runner::data
