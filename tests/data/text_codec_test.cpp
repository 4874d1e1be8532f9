// Texts as tokens of a language model: token ids without a tokenizer, and empty texts.
#include "runner/data/text_codec.h"

#include <functional>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/support/temp_folder.h"

namespace runner::data {
namespace {

Encoding text_encoding(int64_t vocabulary) {
  Encoding encoding;
  encoding.vocabulary = encoding.outputs = vocabulary;
  encoding.token_labels = TokenLabels::kNext;
  return encoding;
}

schema::DataSpec text_section(const std::string& tokens) {
  schema::DataSpec spec;
  spec.train.format = schema::DataFormat::kText;
  spec.train.tokens = tokens;
  return spec;
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(TextCodec, ReadsTokenIds) {
  const TextCodec codec(text_encoding(12), text_section("ids"));
  EXPECT_EQ(codec.tokenizer(), nullptr);
  EXPECT_EQ(codec.end_token(), std::nullopt);
  EXPECT_EQ(codec.encode("0 11,7\n3 "), (std::vector<int32_t>{0, 11, 7, 3}));
  for (const char* wrong : {"12", "-1", "1.5", "a", "99999999999999999999", "1 b"})
    EXPECT_TRUE(
        message_of([&] { codec.encode(wrong); })
            .starts_with("the run was trained on token ids, so the prompt must be ids from 0 to 11, such as \"1 2 "
                         "3\"; got "))
        << wrong;
  EXPECT_EQ(message_of([&] { codec.encode(" "); }),
            "the prompt is empty, and the data have no end token to begin with; give at least one token id");
}

TEST(TextCodec, CharactersAndBytesHaveNoEndToken) {
  Encoding encoding = text_encoding(3);
  encoding.class_names = {"a", "b", "é"};
  const TextCodec characters(encoding, text_section("characters"));
  EXPECT_EQ(characters.encode("éa"), (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(characters.tokenizer()->decode(std::vector<int32_t>{2, 0}), "éa");
  EXPECT_EQ(characters.end_token(), std::nullopt);
  EXPECT_NE(message_of([&] { characters.encode("abz"); }), "");
  EXPECT_EQ(message_of([&] { characters.encode(""); }),
            "the prompt is empty, and the data have no end token to begin with; give at least one character");
  const TextCodec bytes(text_encoding(256), text_section("bytes"));
  EXPECT_EQ(bytes.encode("é"), (std::vector<int32_t>{0xC3, 0xA9}));
}

TEST(TextCodec, EmptyTextBeginsAfterTheEndToken) {
  const support::TempFolder folder;
  support::write_text(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
  const TextCodec codec(text_encoding(7), text_section((folder / "vocab.txt").string()));
  EXPECT_EQ(codec.end_token(), 3);
  EXPECT_EQ(codec.encode(""), (std::vector<int32_t>{3}));
  EXPECT_EQ(codec.encode("b a"), (std::vector<int32_t>{6, 5}));
}

}  // namespace
}  // namespace runner::data
