// Text of tokens one by one: whole characters, and together the text of all tokens.
#include "runner/text/text_stream.h"

#include <random>

#include <gtest/gtest.h>

#include "schema/base/utf8.h"

namespace runner::text {
namespace {

std::vector<std::string> parts_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, size_t before = 0) {
  TextStream stream(tokenizer, std::span(ids).first(before));
  std::vector<std::string> parts;
  for (const int32_t id : std::span(ids).subspan(before)) parts.push_back(stream.add(id));
  parts.push_back(stream.finish());
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

std::vector<int32_t> bytes_of(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<uint8_t>(byte));
  return ids;
}

TEST(TextStream, KeepsTheBytesOfACharacterUntilItIsWhole) {
  using Parts = std::vector<std::string>;
  const Tokenizer bytes = bytes_tokenizer();
  EXPECT_EQ(parts_of(bytes, bytes_of("a€b")), (Parts{"a", "", "", "€", "b", ""}));
  EXPECT_EQ(parts_of(bytes, bytes_of("🙂")), (Parts{"", "", "", "🙂", ""}));
  EXPECT_EQ(parts_of(bytes, bytes_of("a\xE2\x82")), (Parts{"a", "", "", "\uFFFD"}));
  EXPECT_EQ(parts_of(bytes, bytes_of("\xE2\x82"
                                     "a")),
            (Parts{"", "",
                   "\uFFFD"
                   "a",
                   ""}));
  EXPECT_EQ(parts_of(bytes, bytes_of("\xFF\xFF\xFFz")), (Parts{"", "\uFFFD", "\uFFFD", "\uFFFDz", ""}));
}

TEST(TextStream, PartsAreTheTextOfAllTokens) {
  const Tokenizer bytes = bytes_tokenizer();
  std::mt19937 random(5);
  // mostly parts of characters, in an order that breaks many
  const std::string choices = "ab \xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82\xFF\x80";
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 12; ++i) ids.push_back(static_cast<uint8_t>(choices[random() % choices.size()]));
    const std::vector<std::string> parts = parts_of(bytes, ids);
    EXPECT_EQ(joined(parts), bytes.decode(ids));
    for (const std::string& part : parts) EXPECT_TRUE(is_utf8(part));
  }
}

TEST(TextStream, PiecesOfWordsJoinThePrompt) {
  TokenizerParts parts{.kind = kWordPieceKind,
                       .tokens = {"run", "##ning", "fast", ".", "[SEP]"},
                       .model = Bytes(),
                       .decoder = {.kind = Decoder::kWordPiece}};
  const Tokenizer words(std::move(parts));
  const std::vector<int32_t> ids{0, 1, 2, 1, 3, 0};
  EXPECT_EQ(words.decode(ids), "running fastning. run");
  EXPECT_EQ(parts_of(words, ids), (std::vector<std::string>{"run", "ning", " fast", "ning", ".", " run", ""}));
  EXPECT_EQ(parts_of(words, ids, 1), (std::vector<std::string>{"ning", " fast", "ning", ".", " run", ""}));
  EXPECT_EQ(parts_of(words, ids, 2), (std::vector<std::string>{" fast", "ning", ".", " run", ""}));
}

}  // namespace
}  // namespace runner::text
