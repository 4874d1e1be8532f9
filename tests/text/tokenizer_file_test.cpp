// Reading tokenizers: what is obeyed, and what is refused with which message.
#include "runner/text/tokenizer_file.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_text.h"

namespace runner::text {
namespace {

using Ids = std::vector<int32_t>;
using support::write_text;

// A tokenizer.json in a file "t.json".
class TokenizerFile : public ::testing::Test {
 protected:
  std::string write(const std::string& json) {
    write_text(folder_ / "t.json", json);
    return (folder_ / "t.json").string();
  }
  Tokenizer open(const std::string& json) { return open_tokenizer(write(json)); }
  // The message, without the folder.
  std::string error(const std::string& name = "t.json") {
    std::string text = support::thrown_text([&] { open_tokenizer(folder_ / name); }, ErrorKind::kData);
    const std::string place = folder_.path().string() + "/";
    while (text.find(place) != std::string::npos) text.erase(text.find(place), place.size());
    return text;
  }
  std::string error_of(const std::string& json) {
    write(json);
    return error();
  }

  support::TempFolder folder_;
};

const char* const kBertRest = R"("pre_tokenizer": {"type": "BertPreTokenizer"}, "model": {"type": "WordPiece",
  "vocab": {"[UNK]": 0, "[MASK]": 1, "a": 2, "##b": 3, "b": 4}}})";
const char* const kBpeModel = R"("model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "ab": 3},
  "merges": [["a", "b"]])";

std::string bert(const std::string& members) {
  return "{" + members + kBertRest;
}
std::string bpe(const std::string& pre_tokenizer, const std::string& more_of_model = "") {
  return "{\"pre_tokenizer\": " + pre_tokenizer + ", " + kBpeModel + more_of_model + "}}";
}
const char* const kByteLevel = R"({"type": "ByteLevel", "add_prefix_space": false})";

TEST_F(TokenizerFile, MergesAreTextsOrPairs) {
  EXPECT_EQ(open(bpe(kByteLevel)).encode("ab"), (Ids{3}));
  std::string old = bpe(kByteLevel);
  old.replace(old.find("[\"a\", \"b\"]"), 10, "\"a b\"");
  EXPECT_EQ(open(old).encode("abx"), (Ids{3, 0}));
}

TEST_F(TokenizerFile, AddedTokensExtendTheVocabularyAndStripBlanks) {
  const Tokenizer tokenizer = open(bert(
      R"("added_tokens": [{"id": 5, "content": "<x>", "lstrip": true, "rstrip": true, "normalized": false, "special": false},
      {"id": 1, "content": "[MASK]", "normalized": false, "special": true}], )"));
  EXPECT_EQ(tokenizer.vocabulary(), 6);
  EXPECT_EQ(tokenizer.encode("ab <x> [MASK]a"), (Ids{2, 3, 5, 1, 2}));
  EXPECT_EQ(tokenizer.encode("a[MASK]a<x>", SpecialTokens::kAsText), (Ids{2, 0, 0, 0, 2, 5}));
  EXPECT_EQ(tokenizer.find("<x>"), 5);
  EXPECT_EQ(tokenizer.find("<y>"), std::nullopt);
}

TEST_F(TokenizerFile, ATokenOfABlankThatIncludesFurtherBlanksTakesLinearTime) {
  const Tokenizer tokenizer =
      open(bert(R"("added_tokens": [{"id": 5, "content": " ", "rstrip": true, "normalized": false}], )"));
  EXPECT_EQ(tokenizer.encode("a   b"), (Ids{2, 5, 5, 5, 4}));  // as in the reference
  EXPECT_EQ(tokenizer.encode(std::string(1'000'000, ' ')).size(), 1'000'000U);
}

TEST_F(TokenizerFile, TemplatesOfPairsHaveTypes) {
  const Tokenizer roberta = open(
      R"({"post_processor": {"type": "RobertaProcessing", "sep": ["b", 2], "cls": ["a", 1], "trim_offsets": true, "add_prefix_space": false}, "pre_tokenizer": {"type": "ByteLevel"}, )" +
      std::string(kBpeModel) + "}}");
  const Encoding pair = roberta.with_specials(Ids{3}, Ids{0, 3});
  EXPECT_EQ(pair.ids, (Ids{1, 3, 2, 2, 0, 3, 2}));
  EXPECT_EQ(pair.types, Ids(7, 0));
  EXPECT_EQ(roberta.specials(false), 2U);
  EXPECT_EQ(roberta.specials(true), 4U);
  const Tokenizer plain = open(bpe(kByteLevel));
  EXPECT_EQ(plain.with_specials(Ids{3}, Ids{0, 3}).types, (Ids{0, 1, 1}));
}

TEST_F(TokenizerFile, TruncationAndPaddingAreReportedAndNotApplied) {
  const Tokenizer tokenizer = open(
      bert(R"("truncation": {"max_length": 2, "strategy": "LongestFirst"}, "padding": {"strategy": {"Fixed": 9}}, )"));
  EXPECT_EQ(tokenizer.limits().truncation, 2);
  EXPECT_EQ(tokenizer.limits().padding, 9);
  EXPECT_EQ(tokenizer.encode("a a a"), (Ids{2, 2, 2}));
}

TEST_F(TokenizerFile, RefusesByNameWhatWouldChangeIds) {
  EXPECT_EQ(error_of(bert(R"("normalizer": {"type": "NFKC"}, )")),
            "t.json: normalizer: type 'NFKC' is not supported; supported are BERT's WordPiece and GPT-2's byte-level "
            "BPE");
  constexpr const char* kSentencePiece =
      "t.json: model: a SentencePiece model (Unigram, or BPE with byte_fallback) within tokenizer.json is not "
      "supported; "
      "put its tokenizer.model or spiece.model in the same folder, and give the folder";
  EXPECT_EQ(error_of(R"({"model": {"type": "Unigram", "vocab": [["a", -1.5]]}})"), kSentencePiece);
  EXPECT_EQ(error_of(bpe(kByteLevel, R"(, "byte_fallback": true)")), kSentencePiece);
  EXPECT_EQ(error_of(R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})"),
            "t.json: model: type 'WordLevel' is not supported; supported are BERT's WordPiece and GPT-2's byte-level "
            "BPE");
  EXPECT_EQ(error_of(bpe(kByteLevel, R"(, "dropout": 0.1)")), "t.json: model.dropout: '0.1' is not supported");
  EXPECT_EQ(error_of(bpe(kByteLevel, R"(, "end_of_word_suffix": "</w>")")),
            "t.json: model.end_of_word_suffix: '\"</w>\"' is not supported");
  EXPECT_EQ(error_of(bpe(kByteLevel, R"(, "magic": 1)")),
            "t.json: model: unknown setting 'magic'; supported are BERT's WordPiece and GPT-2's byte-level BPE");
  EXPECT_EQ(error_of(bpe(R"({"type": "Metaspace"})")),
            "t.json: pre_tokenizer: type 'Metaspace' is not supported; supported are BERT's WordPiece and GPT-2's "
            "byte-level BPE");
  EXPECT_EQ(error_of(bert(R"("post_processor": {"type": "Strip"}, )")),
            "t.json: post_processor: type 'Strip' is not supported; supported are BERT's WordPiece and GPT-2's "
            "byte-level BPE");
  EXPECT_EQ(error_of(bert(R"("decoder": {"type": "CTC"}, )")),
            "t.json: decoder: type 'CTC' is not supported; supported are BERT's WordPiece and GPT-2's byte-level BPE");
  // What is off changes nothing.
  EXPECT_EQ(
      open(bpe(kByteLevel, R"(, "dropout": null, "byte_fallback": false, "end_of_word_suffix": "")")).vocabulary(), 4);
}

TEST_F(TokenizerFile, RefusesDamagedFiles) {
  EXPECT_EQ(error_of("{\"model\": {\"type\""),
            "t.json: expected a JSON object; the file of 17 bytes is damaged or incomplete");
  EXPECT_EQ(error_of(R"({"a": 0, "b": 1})"),
            "t.json: expected a tokenizer.json, an object with a member `model`; if it is a vocab.json, give its "
            "folder, which has merges.txt too");
  EXPECT_EQ(error_of("{\"\xff\": 1}"), "t.json: byte 2 is 0xff, which is not valid UTF-8");
  EXPECT_EQ(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
            "t.json is a Git LFS pointer, not the file itself; run `git lfs pull` to fetch it");
  EXPECT_EQ(error("missing.json"), "cannot open missing.json: No such file or directory");
}

TEST_F(TokenizerFile, RefusesVocabulariesWithGapsAndDuplicates) {
  const auto vocabulary = [](const std::string& entries) {
    return R"({"pre_tokenizer": {"type": "BertPreTokenizer"}, "model": {"type": "WordPiece", "vocab": {)" + entries +
           "}}}";
  };
  EXPECT_EQ(error_of(vocabulary(R"("[UNK]": 0, "a": 2)")),
            "t.json: the vocabulary has 2 tokens, but token 'a' has id 2; ids must be from 0 to 1, without gaps");
  EXPECT_EQ(error_of(vocabulary(R"("[UNK]": 0, "a": 0)")),
            "t.json: the vocabulary: tokens '[UNK]' and 'a' have the same id 0");
  EXPECT_EQ(error_of(vocabulary(R"("[UNK]": 0, "a": 1, "a": 2)")), "t.json: the vocabulary has token 'a' twice");
  EXPECT_EQ(error_of(vocabulary(R"("[UNK]": 0, "a": -1)")),
            "t.json: the vocabulary, token 'a': expected an id, a whole number from 0 to 2147483646, got '-1'");
  EXPECT_EQ(error_of(vocabulary("")), "t.json: the vocabulary: expected an object of tokens and ids");
  EXPECT_EQ(error_of(vocabulary(R"("a": 0)")), "t.json: the vocabulary has no token '[UNK]' for unknown words");
  EXPECT_EQ(error_of(bert(R"("added_tokens": [{"id": 7, "content": "x"}], )")),
            "t.json: added_tokens[0]: token 'x' has id 7, but the vocabulary ends at 4");
  EXPECT_EQ(error_of(bert(R"("added_tokens": [{"id": 3, "content": "x"}], )")),
            "t.json: added_tokens[0]: token 'x' has id 3, which is that of '##b'");
  EXPECT_EQ(error_of(bert(R"("added_tokens": [{"id": 3, "content": "a"}], )")),
            "t.json: added_tokens[0]: token 'a' has id 3, but in model.vocab 2");
  EXPECT_EQ(error_of(bert(R"("post_processor": {"type": "BertProcessing", "sep": ["x", 9], "cls": ["a", 2]}, )")),
            "t.json: post_processor.sep: id 9 is not in the vocabulary of 5 tokens");
}

TEST_F(TokenizerFile, RefusesDamagedVocabularyTexts) {
  write_text(folder_ / "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n[CLS]\n");
  EXPECT_EQ(error("vocab.txt"), "vocab.txt:5: token '[CLS]' is in line 2 too");
  write_text(folder_ / "vocab.txt", "[UNK]\n[CLS]\n\n[SEP]\n");
  EXPECT_EQ(error("vocab.txt"), "vocab.txt:3: expected a token, got an empty line");
  write_text(folder_ / "vocab.txt", "[UNK]\n[CLS]\na\n");
  EXPECT_EQ(error("vocab.txt"), "vocab.txt: the vocabulary has no token [SEP], which BERT needs");
  write_text(folder_ / "vocab.txt", "[UNK]\r\n[CLS]\r\n[SEP]\r\na");
  EXPECT_EQ(open_tokenizer(folder_ / "vocab.txt").tokens(), (std::vector<std::string>{"[UNK]", "[CLS]", "[SEP]", "a"}));
  write_text(folder_ / "tokenizer_config.json", R"({"tokenizer_class": "XLNetTokenizer"})");
  EXPECT_EQ(error("vocab.txt"),
            "tokenizer_config.json: tokenizer_class 'XLNetTokenizer' is not supported without a tokenizer.json; save "
            "one with `AutoTokenizer.from_pretrained(...).save_pretrained(...)`");
  write_text(folder_ / "tokenizer_config.json", R"({"do_basic_tokenize": false})");
  EXPECT_EQ(error("vocab.txt"), "tokenizer_config.json: do_basic_tokenize: false is not supported");
  write_text(folder_ / "added_tokens.json", "{}");
  EXPECT_EQ(error("vocab.txt"),
            "added_tokens.json: added tokens are read from tokenizer.json only; save one with "
            "`AutoTokenizer.from_pretrained(...).save_pretrained(...)`");
}

TEST_F(TokenizerFile, ChineseCharactersAreWordsUnlessTheConfigurationSaysNo) {
  write_text(folder_ / "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n\u4e2d\n\u6587\n##\u6587\n");
  EXPECT_EQ(open_tokenizer(folder_.path()).encode("\u4e2d\u6587"), (Ids{3, 4}));
  write_text(folder_ / "tokenizer_config.json", R"({"tokenize_chinese_chars": false})");
  EXPECT_EQ(open_tokenizer(folder_.path()).encode("\u4e2d\u6587"), (Ids{3, 5}));
}

TEST_F(TokenizerFile, FilesOfAFolderMustAgreeAboutTheCase) {
  write_text(folder_ / "tokenizer.json", bert(R"("normalizer": {"type": "BertNormalizer", "lowercase": false}, )"));
  write_text(folder_ / "tokenizer_config.json", R"({"do_lower_case": true})");
  EXPECT_EQ(error(""),
            "tokenizer_config.json: do_lower_case is true, but normalizer.lowercase of tokenizer.json is false; "
            "correct one of them");
  write_text(folder_ / "tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(open_tokenizer(folder_.path()).encode("a A"), (Ids{2, 0}));
}

TEST_F(TokenizerFile, VocabularyAndMergesOfGpt2) {
  const Tokenizer bytes = bytes_tokenizer();
  std::string entries;
  for (size_t id = 0; id < bytes.tokens().size(); ++id) {
    const std::string& token = bytes.tokens()[id];
    const bool is_escaped = token == "\"" || token == "\\";
    entries += fmt::format("\"{}{}\": {}, ", is_escaped ? "\\" : "", token, id);
  }
  write_text(folder_ / "vocab.json", "{" + entries + "\"ab\": 256}");
  write_text(folder_ / "merges.txt", "#version: 0.2\na b\n");
  EXPECT_EQ(open_tokenizer(folder_.path()).encode("ab<"), (Ids{256, '<'}));
  write_text(folder_ / "tokenizer_config.json", R"({"add_prefix_space": true})");
  EXPECT_EQ(open_tokenizer(folder_.path()).encode("ab<"), (Ids{' ', 256, '<'}));
  write_text(folder_ / "merges.txt", "#version: 0.2\na b c\n");
  EXPECT_EQ(error(""), "merges.txt:2: expected two tokens with a blank between them, got 'a b c'");
  write_text(folder_ / "merges.txt", "b a\n");
  EXPECT_EQ(error(""), "merges.txt: merge 1 needs the token 'ba', which the vocabulary does not have");
}

TEST_F(TokenizerFile, AFolderWithoutTokenizerSaysWhatIsThere) {
  const auto empty = folder_ / "empty", other = folder_ / "other", piece = folder_ / "piece";
  std::filesystem::create_directory(empty);
  write_text(other / "model.safetensors", "");
  write_text(other / "config.json", "{}");
  write_text(piece / "tokenizer.model", "");
  const std::string expected =
      ": the folder has no tokenizer: expected tokenizer.json, or vocab.txt, or vocab.json and merges.txt, or "
      "tokenizer.model; ";
  EXPECT_EQ(error("empty"), "empty" + expected + "it is empty");
  EXPECT_EQ(error("other"), "other" + expected + "it has config.json, model.safetensors");
  EXPECT_EQ(error("piece"), "piece/tokenizer.model: the model has no pieces; the file is damaged or incomplete");
}

TEST(Tokenizer, BytesTakeAnyText) {
  const Tokenizer bytes = open_tokenizer("bytes");
  EXPECT_EQ(bytes.vocabulary(), 256);
  EXPECT_EQ(bytes.encode("a\xff\xc3\xa9"), (Ids{'a', 0xff, 0xc3, 0xa9}));
  EXPECT_EQ(bytes.decode(Ids{'a', 0xff, 0xc3, 0xa9, 0xe4, 0xb8}), "a\ufffd\u00e9\ufffd");
}

TEST(Tokenizer, CharactersAreThoseOfTheirVocabulary) {
  const Tokenizer characters = characters_tokenizer({"\n", "a", "\u00e9", "\u4e2d"});
  EXPECT_EQ(characters.encode("\u4e2da\u00e9\n"), (Ids{3, 1, 2, 0}));
  EXPECT_EQ(characters.decode(Ids{3, 1, 2, 0}), "\u4e2da\u00e9\n");
  EXPECT_EQ(support::thrown_text([&] { characters.encode("ab"); }, ErrorKind::kData),
            "the vocabulary of 4 characters has no 'b'");
}

TEST(Tokenizer, TextThatIsNotUtf8IsAnError) {
  const Tokenizer tokenizer = open_tokenizer(support::source_path("tests/text/figures/cased.tokenizer.json"));
  EXPECT_EQ(support::thrown_text([&] { tokenizer.encode("ab\xc3"); }, ErrorKind::kData),
            "byte 2 of the text is 0xc3, which is not valid UTF-8; save it as UTF-8, or use the tokenizer `bytes`, "
            "which takes any");
}

// Each takes milliseconds; a quadratic algorithm would take minutes.
TEST(Tokenizer, LongRunsTakeLinearTime) {
  constexpr size_t kCharacters = 300'000;
  for (const char* const name : {"uncased", "bpe"}) {
    const Tokenizer tokenizer =
        open_tokenizer(support::source_path("tests/text/figures/" + std::string(name) + ".tokenizer.json"));
    for (const char* const part : {"z", " ", "_", "\U0001f600", "\u0301\u0323", "[", "'", "\u4e2d"}) {
      std::string text;
      for (size_t i = 0; i < kCharacters; ++i) text += part;
      const auto begin = std::chrono::steady_clock::now();
      tokenizer.encode(text);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << name << " " << part;
    }
  }
}

}  // namespace
}  // namespace runner::text
