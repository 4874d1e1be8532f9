// Pieces, normalization, merges and truncation, where no vocabulary file is needed.
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "runner/text/byte_bpe.h"
#include "runner/text/characters.h"
#include "runner/text/truncation.h"
#include "runner/text/word_piece.h"
#include "tests/support/thrown_text.h"

namespace runner::text {
namespace {

using Strings = std::vector<std::string>;

Strings pieces_of(std::string_view text) {
  Strings pieces;
  while (!text.empty()) {
    const size_t length = first_piece(text);
    pieces.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return pieces;
}

TEST(FirstPiece, TakesABlankWithTheWordAfterIt) {
  EXPECT_EQ(pieces_of("Hello  world 42!"), (Strings{"Hello", " ", " world", " 42", "!"}));
  EXPECT_EQ(pieces_of("x\n\ny"), (Strings{"x", "\n", "\n", "y"}));
  EXPECT_EQ(pieces_of("x \n y"), (Strings{"x", " \n", " y"}));
  EXPECT_EQ(pieces_of("x   "), (Strings{"x", "   "}));
  EXPECT_EQ(pieces_of(" "), (Strings{" "}));
  EXPECT_EQ(pieces_of("\u3000x \u3000"), (Strings{"\u3000", "x", " \u3000"}));
  EXPECT_EQ(pieces_of("a\u00a0\u00a0b"), (Strings{"a", "\u00a0", "\u00a0", "b"}));
}

TEST(FirstPiece, ContractionsAreLowerCaseOnly) {
  EXPECT_EQ(pieces_of("DON'T don't we'll 's"), (Strings{"DON", "'", "T", " don", "'t", " we", "'ll", " '", "s"}));
  EXPECT_EQ(pieces_of("''s"), (Strings{"''", "s"}));
  EXPECT_EQ(pieces_of("'"), (Strings{"'"}));
}

TEST(FirstPiece, SeparatesLettersNumbersAndOthers) {
  EXPECT_EQ(pieces_of("ab12\u00b2-_e\u0301"), (Strings{"ab", "12\u00b2", "-_", "e", "\u0301"}));
}

TEST(BytesAsCharacters, EveryByteHasOneCharacter) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string character, bytes;
    append_utf8(character, character_of_byte(static_cast<uint8_t>(byte)));
    ASSERT_TRUE(bytes_of_token(character, bytes));
    EXPECT_EQ(bytes, std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(character_of_byte(' '), U'\u0120');
  std::string bytes;
  EXPECT_FALSE(bytes_of_token("\u4e2d", bytes));
  EXPECT_FALSE(bytes_of_token(" ", bytes));
}

constexpr BertNormalizer kUncased{true, true, true, true}, kCased{true, true, false, false},
    kAccents{true, true, false, true};

TEST(BertNormalizer, RemovesAccentsWithTheCase) {
  EXPECT_EQ(kUncased("cr\u00e8me BR\u00dbL\u00c9E cre\u0300me"), "creme brulee creme");
  EXPECT_EQ(kCased("Cr\u00e8me cre\u0300me"), "Cr\u00e8me cre\u0300me");  // neither composed nor decomposed
  EXPECT_EQ(kAccents("CR\u00c8ME"), "cr\u00e8me");
}

TEST(BertNormalizer, DependsOnNoLocale) {
  EXPECT_EQ(kUncased("\u0130\u0131I"), "i\u0131i");
  EXPECT_EQ(kAccents("\u0130"), "i\u0307");
  EXPECT_EQ(kUncased("\u03a3\u0391\u03a3"), "\u03c3\u03b1\u03c3");  // no final sigma
}

TEST(BertNormalizer, ControlsVanishAndWhiteSpaceBecomesABlank) {
  EXPECT_EQ(kCased(std::string_view("a\0b\u00adc\u200bd\ufffde\u007f"
                                    "f",
                                    16)),
            "abcdef");
  EXPECT_EQ(kCased("a\tb\nc\u00a0d\u2028e"), "a b c d e");
  EXPECT_EQ(BertNormalizer()("A\t\u00c9\u200b"), "A\t\u00c9\u200b");
}

TEST(BertNormalizer, PutsBlanksAroundCjk) {
  EXPECT_EQ(kCased("a\u4e2db\u3042"), "a \u4e2d b\u3042");
  EXPECT_EQ(kCased("\U0002b820\U0002b920"), "\U0002b820 \U0002b920 ");  // the reference's range begins at the second
}

TEST(BertNormalizer, SortsMarksThatStay) {
  // Musical marks of classes 226 and 216, which are no Mn.
  EXPECT_EQ(kUncased("a\U0001D16D\U0001D165b"), "a\U0001D165\U0001D16Db");
}

// ---- byte-level BPE -------------------------------------------------------------------------------------------------

Strings byte_tokens() {
  Strings tokens;
  for (int byte = 0; byte < 256; ++byte)
    append_utf8(tokens.emplace_back(), character_of_byte(static_cast<uint8_t>(byte)));
  return tokens;
}

std::vector<int32_t> ids_of(const ByteBpe& model, std::string_view text) {
  std::vector<int32_t> ids;
  model.encode(text, ids);
  return ids;
}

TEST(ByteBpe, MergesTheLowestRankFirst) {
  Strings tokens = byte_tokens();
  tokens.insert(tokens.end(), {"bc", "ab", "abc"});
  const std::vector<Merge> merges{{"b", "c"}, {"a", "b"}, {"a", "bc"}};
  const ByteBpe model(tokens, merges, {});
  EXPECT_EQ(ids_of(model, "abc"), (std::vector<int32_t>{258}));
  EXPECT_EQ(ids_of(model, "abab"), (std::vector<int32_t>{257, 257}));
  EXPECT_EQ(ids_of(model, "aabcb"), (std::vector<int32_t>{'a', 258, 'b'}));
}

TEST(ByteBpe, ATokenThatNoMergesMakeIsNotUsed) {
  Strings tokens = byte_tokens();
  tokens.insert(tokens.end(), {"ab", "xyz"});
  const std::vector<Merge> merges{{"a", "b"}};
  EXPECT_EQ(ids_of(ByteBpe(tokens, merges, {}), "xyz"), (std::vector<int32_t>{'x', 'y', 'z'}));
  EXPECT_EQ(ids_of(ByteBpe(tokens, merges, {.ignore_merges = true}), "xyz"), (std::vector<int32_t>{257}));
}

TEST(ByteBpe, UnknownBytesAreFusedIfAsked) {
  const Strings tokens{"?", "a"};
  EXPECT_EQ(ids_of(ByteBpe(tokens, {}, {.unknown_token = "?"}), "zzaz"), (std::vector<int32_t>{0, 0, 1, 0}));
  EXPECT_EQ(ids_of(ByteBpe(tokens, {}, {.fuse_unknown = true, .unknown_token = "?"}), "zzaz"),
            (std::vector<int32_t>{0, 1, 0}));
}

TEST(ByteBpe, RefusesFilesThatLoseText) {
  const Strings few{"a", "b"};
  EXPECT_EQ(support::thrown_text([&] { ByteBpe(few, {}, {}); }),
            "the vocabulary has no token for 254 of the 256 bytes and no unk_token, so their text would be lost");
  EXPECT_EQ(support::thrown_text([&] { ByteBpe(few, {}, {.unknown_token = "?"}); }),
            "the vocabulary has no token '?' for unknown bytes");
  const Strings tokens = byte_tokens();
  EXPECT_EQ(support::thrown_text([&] {
              ByteBpe(tokens, std::vector<Merge>{{"a", "b"}}, {});
            }),
            "merge 1 needs the token 'ab', which the vocabulary does not have");
  Strings more = tokens;
  more.push_back("ab");
  EXPECT_EQ(support::thrown_text([&] {
              ByteBpe(more, std::vector<Merge>{{"a", "b"}, {"a", "b"}}, {});
            }),
            "merge 2 of 'a' and 'b' is there twice");
}

// ---- words ----------------------------------------------------------------------------------------------------------

TEST(WordPiece, TakesTheLongestPieceAndNoOtherWay) {
  const Strings tokens{"[UNK]", "want", "##want", "##ed", "wa", "un", "runn", "##ing", ",", "a", "#"};
  const WordPiece model(tokens, {});
  const auto ids = [&](std::string_view text) {
    std::vector<int32_t> found;
    model.encode(text, found);
    return found;
  };
  EXPECT_EQ(ids("unwanted, running"), (std::vector<int32_t>{5, 2, 3, 8, 6, 7}));
  EXPECT_EQ(ids("wanting wantx"), (std::vector<int32_t>{1, 7, 0}));
  EXPECT_EQ(ids("a ##ed"), (std::vector<int32_t>{9, 10, 10, 0}));  // ## in a text is punctuation
  EXPECT_EQ(ids(""), std::vector<int32_t>());
}

TEST(WordPiece, WordsAboveTheLimitOfCharactersAreUnknown) {
  const Strings tokens{"[UNK]", "\u00e9", "##\u00e9"};
  const WordPiece model(tokens, {.longest_word = 3});
  std::vector<int32_t> ids;
  model.encode("\u00e9\u00e9\u00e9 \u00e9\u00e9\u00e9\u00e9", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 2, 2, 0}));
}

// ---- truncation -----------------------------------------------------------------------------------------------------

TEST(Truncation, LongestFirstGivesTheSecondTextTheOddToken) {
  const auto cut = [](size_t first, size_t second) { return truncated({first, second}, 7, Truncation::kLongestFirst); };
  EXPECT_EQ(cut(7, 7), (TextLengths{3, 4}));
  EXPECT_EQ(cut(6, 5), (TextLengths{4, 3}));
  EXPECT_EQ(cut(9, 4), (TextLengths{4, 3}));
  EXPECT_EQ(cut(10, 3), (TextLengths{4, 3}));
  EXPECT_EQ(cut(2, 12), (TextLengths{2, 5}));
  EXPECT_EQ(cut(0, 12), (TextLengths{0, 7}));
  EXPECT_EQ(cut(8, 0), (TextLengths{7, 0}));
  EXPECT_EQ(cut(3, 4), (TextLengths{3, 4}));
  EXPECT_EQ(truncated({5, 5}, 0, Truncation::kLongestFirst), (TextLengths{0, 0}));
}

TEST(Truncation, OneTextIsCutOnlyIfItIsLongEnough) {
  EXPECT_EQ(truncated({9, 4}, 7, Truncation::kOnlyFirst), (TextLengths{3, 4}));
  EXPECT_EQ(truncated({4, 9}, 7, Truncation::kOnlySecond), (TextLengths{4, 3}));
  EXPECT_EQ(support::thrown_text(
                [] {
                  truncated({3, 9}, 7, Truncation::kOnlyFirst);
                },
                ErrorKind::kData),
            "truncation only_first: the first text has 3 tokens, but 5 are too many for 7; use longest_first or a "
            "larger max_length");
  EXPECT_NE(support::thrown_text([] { truncated({9, 2}, 7, Truncation::kOnlySecond); }), "");
}

}  // namespace
}  // namespace runner::text
