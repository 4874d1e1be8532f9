// SentencePiece models: ids of transformers and SentencePiece (tests/text/sentence_piece_figures.py), settings, errors.
#include "runner/text/sentence_piece.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/text/piece_model.h"
#include "runner/text/text_stream.h"
#include "runner/text/tokenizer_file.h"
#include "schema/base/error.h"
#include "schema/base/json.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_text.h"
#include "tests/text/figures.h"

namespace runner::text {
namespace {

using support::Json;
using Ids = std::vector<int32_t>;

std::string figures_path(const std::string& name) {
  return support::source_path("tests/text/figures/sentence_piece/" + name);
}

std::string model_bytes(const std::string& name) {
  return support::read_text(figures_path(name + ".model"));
}

// A folder with a model and settings.
class ModelFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_sentence_piece()) GTEST_SKIP() << "this build has no SentencePiece";
  }
  void write(const std::string& name, const std::string& contents) { support::write_text(folder_ / name, contents); }
  void write_config(const std::string& members) { write("tokenizer_config.json", "{" + members + "}"); }
  Tokenizer open() const { return open_tokenizer(folder_.path()); }
  // Returns the message without the path of the folder.
  std::string error() const {
    std::string message = support::thrown_text([&] { open(); }, ErrorKind::kData);
    const std::string path = folder_.path();
    for (size_t at = message.find(path); at != std::string::npos; at = message.find(path))
      message.replace(at, path.size(), "DIR");
    return message;
  }

  const support::TempFolder folder_;
};

// ---- figures --------------------------------------------------------------------------------------------------------

Json case_named(const std::string& name) {
  const Json cases = Json::parse(support::read_text(figures_path("cases.json")));
  for (const Json& item : cases.items())
    if (item["name"].text() == name) return item;
  throw std::runtime_error("no case " + name);
}

class SentencePieceFigures : public ModelFolder, public ::testing::WithParamInterface<const char*> {};

TEST_P(SentencePieceFigures, IdsAndTextsAreThoseOfTheReference) {
  const Json item = case_named(GetParam());
  write(item["file"].text(), model_bytes(item["model"].text()));
  const Json settings = item["settings"];
  for (const std::string& name : settings.keys()) write(name, settings[name].dump());
  compare_figures(open(), std::string("sentence_piece/") + GetParam(), 350);
}

INSTANTIATE_TEST_SUITE_P(Cases, SentencePieceFigures,
                         ::testing::Values("bpe", "unigram", "unigram_bytes", "llama", "llama_legacy", "llama_added",
                                           "t5", "xlmr"),
                         [](const auto& row) { return std::string(row.param); });

// ---- tokens ---------------------------------------------------------------------------------------------------------

Ids ids_of(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.with_specials(tokenizer.encode(text)).ids;
}

TEST_F(ModelFolder, RolesOfTokensFollowTheSettings) {
  write("tokenizer.model", model_bytes("bpe"));
  const Tokenizer plain = open();
  EXPECT_EQ(plain.kind(), "SentencePiece BPE");
  EXPECT_EQ(plain.vocabulary(), 700);
  EXPECT_EQ(plain.end_token(), 2);
  EXPECT_EQ(plain.padding_token(), std::nullopt);
  EXPECT_TRUE(plain.is_special(0) && plain.is_special(1) && plain.is_special(2));
  EXPECT_FALSE(plain.is_special(3));  // a user-defined symbol
  EXPECT_FALSE(plain.is_special(5));  // a byte
  EXPECT_EQ(plain.tokens()[3], "<|user|>");
  EXPECT_EQ(plain.specials(true), 0U);

  write_config(
      R"("tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "pad_token": "[PAD]", "unk_token": "<unk>",
                  "eos_token": {"content": "<|im_end|>", "lstrip": false})");
  write("added_tokens.json", R"({"<|im_end|>": 700})");
  const Tokenizer llama = open();
  EXPECT_EQ(llama.vocabulary(), 702);
  EXPECT_EQ(llama.end_token(), 700);
  EXPECT_EQ(llama.padding_token(), 701);
  EXPECT_TRUE(llama.is_special(700) && llama.is_special(701));
  EXPECT_EQ(ids_of(llama, "").front(), 1);
  EXPECT_EQ(llama.specials(false), 1U);
  EXPECT_EQ(llama.with_specials(Ids{9}, Ids{8}).ids, (Ids{1, 9, 1, 8}));
  EXPECT_EQ(llama.with_specials(Ids{9}, Ids{8}).types, (Ids{0, 0, 1, 1}));
}

TEST_F(ModelFolder, TheModelItselfOpensWithTheSettingsOfItsFolder) {
  write("spiece.model", model_bytes("unigram"));
  EXPECT_EQ(ids_of(open_tokenizer(folder_ / "spiece.model"), "").size(), 0U);
  write_config(R"("tokenizer_class": "T5Tokenizer")");
  EXPECT_EQ(ids_of(open_tokenizer(folder_ / "spiece.model"), ""), Ids{1});
  EXPECT_EQ(open().padding_token(), 0);
  EXPECT_EQ(open().find("<extra_id_0>"), 599);
  write("special_tokens_map.json", "{}");
  const std::vector<std::string> files{folder_ / "spiece.model", folder_ / "tokenizer_config.json",
                                       folder_ / "special_tokens_map.json"};
  EXPECT_EQ(find_tokenizer(folder_.path()).files, files);
  EXPECT_EQ(find_tokenizer(folder_ / "spiece.model").files, files);
}

TEST_F(ModelFolder, PiecesMarkWords) {
  write("tokenizer.model", model_bytes("unigram"));
  const Tokenizer tokenizer = open();
  EXPECT_TRUE(tokenizer.marks_words());
  std::string marks;
  for (const int32_t id : tokenizer.encode("the tokens")) marks += tokenizer.continues_word(id) ? '+' : '-';
  EXPECT_EQ(marks.find('-'), 0U);
  EXPECT_EQ(std::ranges::count(marks, '-'), 2);
}

// Tokens that come one by one give the text of all.
TEST_F(ModelFolder, AStreamShowsTheBlanksAndCharactersOfBytes) {
  write("tokenizer.model", model_bytes("bpe"));
  const Tokenizer tokenizer = open();
  for (const char* const text : {"the tokens are", " the", "  x", "\U0001f600 \u4e2d\u6587!", "a\n\nb"}) {
    const Ids ids = tokenizer.encode(text);
    TextStream stream(tokenizer, {});
    std::string shown;
    for (const int32_t id : ids) {
      const std::string added = stream.add(id);
      EXPECT_EQ(added.find("\ufffd"), std::string::npos) << text;
      shown += added;
    }
    EXPECT_EQ(shown + stream.finish(), text);
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
  const Ids whole = tokenizer.encode("the \u4e2d tokens");
  TextStream stream(tokenizer, std::span(whole).first(1));
  std::string rest;
  for (const int32_t id : std::span(whole).subspan(1)) rest += stream.add(id);
  EXPECT_EQ(tokenizer.decode(std::span(whole).first(1)) + rest + stream.finish(), "the \u4e2d tokens");
}

TEST_F(ModelFolder, BytesThatAreNoCharacterBecomeReplacements) {
  write("tokenizer.model", model_bytes("bpe"));
  const Tokenizer tokenizer = open();
  const Ids bytes{*tokenizer.find("<0xE4>"), *tokenizer.find("<0xB8>"), *tokenizer.find("<0x41>")};
  EXPECT_EQ(tokenizer.decode(bytes), "\ufffdA");
}

TEST_F(ModelFolder, LongRunsTakeLinearTime) {
  constexpr size_t kCharacters = 300'000;
  for (const char* const name : {"bpe", "unigram", "unigram_bytes"}) {
    write("tokenizer.model", model_bytes(name));
    const Tokenizer tokenizer = open();
    for (const char* const part : {"z", " ", "_", "\U0001f600", "a ", "wordword", "\u2581"}) {
      std::string text;
      for (size_t i = 0; i < kCharacters; ++i) text += part;
      const auto begin = std::chrono::steady_clock::now();
      tokenizer.encode(text);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << name << " " << part;
    }
  }
}

// ---- with tokenizer.json --------------------------------------------------------------------------------------------

// Returns a tokenizer.json of the model, of unigram or byte-fallback BPE. `more`: further members.
std::string json_of(const PieceModel& model, const std::string& more) {
  std::string vocabulary, merges;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const std::string text = json::compact(piece.text), comma = id > 0 ? "," : "";
    vocabulary += comma + (model.kind == PieceModel::kBpe ? fmt::format("{}:{}", text, id)
                                                          : fmt::format("[{},{}]", text, piece.score));
    const size_t first = utf8_length(piece.text, 0);
    if (piece.type != PieceType::kNormal || first == piece.text.size()) continue;
    merges += fmt::format("{}[{},{}]", merges.empty() ? "" : ",", json::compact(piece.text.substr(0, first)),
                          json::compact(piece.text.substr(first)));
  }
  return model.kind == PieceModel::kBpe
             ? fmt::format(
                   R"({{"model": {{"type": "BPE", "byte_fallback": true, "merges": [{}], "vocab": {{{}}}}}{}}})",
                   merges, vocabulary, more)
             : fmt::format(R"({{"model": {{"type": "Unigram", "unk_id": 0, "vocab": [{}]}}{}}})", vocabulary, more);
}

constexpr const char* kBeginTemplate =
    R"(, "post_processor": {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
       "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})";

// Pieces of XLM-R as its tokenizer.json has them.
PieceModel in_order_of_fairseq(PieceModel model) {
  std::rotate(model.pieces.begin(), model.pieces.begin() + 1, model.pieces.begin() + 3);
  model.pieces.insert(model.pieces.begin() + 1, {.text = "<pad>", .type = PieceType::kControl});
  return model;
}

TEST_F(ModelFolder, TheModelIsUsedIfTokenizerJsonDescribesIt) {
  write("tokenizer.model", model_bytes("bpe"));
  write_config(R"("tokenizer_class": "LlamaTokenizer")");
  write("tokenizer.json", json_of(read_piece_model(model_bytes("bpe")), kBeginTemplate));
  const Ids ids = ids_of(open(), "the tokens");
  EXPECT_EQ(ids[0], 1) << "the template of tokenizer.json";
  EXPECT_EQ(Ids(ids.begin() + 1, ids.end()), open().encode("the tokens"));
  EXPECT_EQ(find_tokenizer(folder_.path()).files,
            (std::vector<std::string>{folder_ / "tokenizer.model", folder_ / "tokenizer_config.json",
                                      folder_ / "tokenizer.json"}));

  write("tokenizer.model", model_bytes("unigram_plain"));
  write_config(R"("tokenizer_class": "XLMRobertaTokenizer")");
  const PieceModel unigram = in_order_of_fairseq(read_piece_model(model_bytes("unigram_plain")));
  write("tokenizer.json", json_of(unigram, R"(, "normalizer": {"type": "Precompiled"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace"}]},
        "truncation": {"max_length": 5})"));
  EXPECT_EQ(open().kind(), "SentencePiece unigram");
  EXPECT_EQ(open().limits().truncation, 5);
}

TEST_F(ModelFolder, ATokenizerJsonThatGivesOtherIdsIsRefused) {
  constexpr const char* kEnd =
      ", unlike the SentencePiece model of its folder; remove tokenizer.json to use the model as its class does";
  const PieceModel bpe = read_piece_model(model_bytes("bpe"));
  write("tokenizer.model", model_bytes("bpe"));
  write_config(R"("tokenizer_class": "LlamaTokenizer")");
  const auto error_with = [&](const std::string& document) { return write("tokenizer.json", document), error(); };
  EXPECT_EQ(error_with(json_of(bpe, R"(, "normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]})")),
            fmt::format("DIR/tokenizer.json: normalizer 'Lowercase' changes texts{}", kEnd));
  EXPECT_EQ(error_with(json_of(bpe, R"(, "pre_tokenizer": {"type": "Whitespace"})")),
            fmt::format("DIR/tokenizer.json: pre_tokenizer 'Whitespace' changes texts{}", kEnd));
  std::string document = json_of(bpe, "");
  const size_t merges = document.find("\"merges\": [") + std::string_view("\"merges\": [").size();
  document.erase(merges, document.find("],[", merges) + 2 - merges);  // the first merge
  EXPECT_TRUE(error_with(document).starts_with("DIR/tokenizer.json: no merge makes ")) << error();
  write_config("");
  EXPECT_EQ(
      error_with(json_of(bpe, "")),
      "DIR/tokenizer.json: without a tokenizer_class such as LlamaTokenizer in tokenizer_config.json, transformers "
      "takes the ids from tokenizer.json, which are not supported; remove tokenizer.json to use those of the "
      "SentencePiece model");

  PieceModel unigram = in_order_of_fairseq(read_piece_model(model_bytes("unigram_plain")));
  write("tokenizer.model", model_bytes("unigram_plain"));
  write_config(R"("tokenizer_class": "XLMRobertaTokenizer")");
  unigram.pieces[100].score -= 1;
  EXPECT_EQ(error_with(json_of(unigram, "")),
            fmt::format("DIR/tokenizer.json: the score of {} is {}, not {}{}", in_quotes(unigram.pieces[100].text),
                        unigram.pieces[100].score, unigram.pieces[100].score + 1, kEnd));
}

TEST_F(ModelFolder, TokenizerJsonGivesTheTemplateAndTheAddedTokensUnlessTheConfigurationDoes) {
  write("tokenizer.model", model_bytes("bpe"));
  write("tokenizer.json",
        json_of(read_piece_model(model_bytes("bpe")), std::string(kBeginTemplate) + R"(, "added_tokens":
        [{"id": 1, "content": "<s>", "special": true}, {"id": 700, "content": "<|end|>", "special": true}])"));
  write_config(R"("tokenizer_class": "LlamaTokenizer", "eos_token": "<|end|>")");
  EXPECT_EQ(open().end_token(), 700);
  EXPECT_EQ(ids_of(open(), "<|end|>"), (Ids{1, 700}));
  write_config(R"("tokenizer_class": "LlamaTokenizer", "eos_token": "<|end|>", "add_eos_token": true)");
  EXPECT_EQ(ids_of(open(), "<|end|>"), (Ids{700, 700}));
}

TEST_F(ModelFolder, ATokenizerJsonOfAnotherModelIsRefused) {
  PieceModel model = read_piece_model(model_bytes("bpe"));
  write("tokenizer.model", model_bytes("bpe"));
  write_config(R"("tokenizer_class": "LlamaTokenizer")");
  std::swap(model.pieces[400], model.pieces[401]);
  write("tokenizer.json", json_of(model, ""));
  EXPECT_EQ(error(), fmt::format("DIR/tokenizer.json: token '{}' has id 400, but with the SentencePiece model of its "
                                 "folder 401; the two files are of different tokenizers: remove one of them",
                                 model.pieces[400].text));
  std::swap(model.pieces[400], model.pieces[401]);
  write("tokenizer.json", json_of(model, R"(, "added_tokens": [{"id": 700, "content": "<x>"}])"));
  EXPECT_EQ(error(), "");
  write_config(R"("tokenizer_class": "LlamaTokenizer", "added_tokens_decoder": {"1": {"content": "<s>"}})");
  EXPECT_EQ(error(),
            "DIR/tokenizer.json: token '<x>' has id 700, but with the SentencePiece model of its folder none; the two "
            "files are of different tokenizers: remove one of them");
  write_config(R"("tokenizer_class": "LlamaTokenizer")");
  model.pieces.pop_back();
  write("tokenizer.json", json_of(model, ""));
  EXPECT_EQ(error(),
            "DIR/tokenizer.json: the vocabulary has 699 tokens, but the SentencePiece model of its folder 700; the two "
            "files are of different tokenizers: remove one of them");
}

TEST_F(ModelFolder, AnotherTokenizerJsonIsReadInsteadOfTheModel) {
  write("tokenizer.model", model_bytes("bpe"));
  write("tokenizer.json", support::read_text(support::source_path("tests/text/figures/cased.tokenizer.json")));
  EXPECT_EQ(open().kind(), kWordPieceKind);
  EXPECT_EQ(find_tokenizer(folder_.path()).files, (std::vector<std::string>{folder_ / "tokenizer.json"}));
  EXPECT_EQ(open_tokenizer(folder_ / "tokenizer.model").kind(), "SentencePiece BPE");
}

TEST_F(ModelFolder, NamesOfRolesThatTransformersDoesNotUseAreRefused) {
  write("tokenizer.model", model_bytes("unigram_plain"));
  write_config(R"("tokenizer_class": "XLMRobertaTokenizer", "pad_token": "[P]")");
  EXPECT_EQ(error(), "DIR/tokenizer_config.json: pad_token '[P]' is not supported for this class; expected <pad>");
  write_config(R"("tokenizer_class": "T5Tokenizer")");
  EXPECT_EQ(error(),
            "DIR/tokenizer_config.json: T5Tokenizer expects the unknown piece to have id 2; remove tokenizer_class");
  write("tokenizer.model", model_bytes("bpe"));
  write_config(R"("tokenizer_class": "LlamaTokenizer", "unk_token": {"content": "[U]"})");
  EXPECT_EQ(error(), "DIR/tokenizer_config.json: unk_token '[U]' is not supported for this class; expected <unk>");
}

TEST_F(ModelFolder, TheMaskTokenIsThatOfTheConfiguration) {
  write("tokenizer.model", model_bytes("bpe"));
  write_config(R"("mask_token": "<zz>", "bos_token": "<s>")");
  EXPECT_EQ(open().mask_token(), open().find("<zz>"));
  EXPECT_EQ(open().begin_token(), 1);
}

// A file that is cut between two fields is a valid message.
TEST_F(ModelFolder, AModelWithoutItsLastFieldsIsIncomplete) {
  const std::string whole = model_bytes("bpe");
  int accepted = 0;
  for (size_t end = 1; end < whole.size(); end += 7) {
    write("tokenizer.model", whole.substr(0, end));
    accepted += error().empty() ? 1 : 0;
  }
  EXPECT_EQ(accepted, 0);
}

// ---- errors ---------------------------------------------------------------------------------------------------------

TEST_F(ModelFolder, SettingsThatWouldChangeIdsAreRefused) {
  write("tokenizer.model", model_bytes("bpe"));
  const auto error_with = [&](const std::string& config) { return write_config(config), error(); };
  EXPECT_EQ(error_with(R"("tokenizer_class": "CamembertTokenizer")"),
            "DIR/tokenizer_config.json: tokenizer_class 'CamembertTokenizer' is not supported with a SentencePiece "
            "model; supported are LlamaTokenizer, T5Tokenizer, XLMRobertaTokenizer, PreTrainedTokenizerFast and none");
  EXPECT_EQ(error_with(R"("tokenizer_class": 5)"),
            "DIR/tokenizer_config.json: tokenizer_class: expected a text, got 5");
  write("spiece.model", model_bytes("unigram"));
  EXPECT_EQ(error_with(""),
            "the folder has two SentencePiece models, DIR/tokenizer.model and DIR/spiece.model; remove one of them");
  std::filesystem::remove(folder_ / "spiece.model");
  EXPECT_EQ(error_with(R"("tokenizer_class": "T5Tokenizer")"),
            "DIR/tokenizer.model: the model is of type bpe, which T5Tokenizer of transformers ignores; remove "
            "tokenizer_class from tokenizer_config.json to get the ids of SentencePiece");
  EXPECT_EQ(error_with(R"("sp_model_kwargs": {"enable_sampling": true})"),
            "DIR/tokenizer_config.json: sp_model_kwargs is not supported with this SentencePiece model");
  EXPECT_EQ(error_with(R"("legacy": false)"),
            "DIR/tokenizer_config.json: legacy: false without LlamaTokenizer is not "
            "supported with this SentencePiece model");
  EXPECT_EQ(error_with(R"("add_prefix_space": false)"),
            "DIR/tokenizer_config.json: an add_prefix_space that differs from the model's add_dummy_prefix is not "
            "supported with this SentencePiece model");
  EXPECT_EQ(error_with(R"("add_bos_token": 1)"), "DIR/tokenizer_config.json: add_bos_token: expected true or false");
  EXPECT_EQ(error_with(R"("additional_special_tokens": ["<x>"])"),
            "DIR/tokenizer_config.json: additional_special_tokens: token '<x>' has no id; add it to "
            "added_tokens_decoder");
  EXPECT_EQ(error_with(R"("added_tokens_decoder": {"5": {"content": "<x>"}})"),
            "DIR/tokenizer_config.json: token '<x>' has id 5, but the vocabulary ends at 699");
  EXPECT_EQ(error_with(R"("added_tokens_decoder": {"5": {"content": "<s>"}})"),
            "DIR/tokenizer_config.json: token '<s>' has id 5, but in the model 1");
  write_config("");
  write("added_tokens.json", R"({"<x>": -1})");
  EXPECT_EQ(error(), "DIR/added_tokens.json: '<x>': expected the id of a token, got -1");

  const support::TempFolder other;
  support::write_text(other / "tokenizer.model", model_bytes("unigram"));
  support::write_text(other / "tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
  EXPECT_NE(support::thrown_text([&] { open_tokenizer(other.path()); }).find("the model is of type unigram"),
            std::string::npos);
  support::write_text(other / "tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  EXPECT_NE(
      support::thrown_text([&] { open_tokenizer(other.path()); })
          .find("the model does not fit XLMRobertaTokenizer: expected the pieces <unk>, <s> and </s> first, and no "
                "<pad>"),
      std::string::npos);
}

TEST_F(ModelFolder, DamagedFilesSayWhatIsWrong) {
  const auto error_of = [&](const std::string& contents) { return write("tokenizer.model", contents), error(); };
  EXPECT_EQ(error_of(""), "DIR/tokenizer.model: the model has no pieces; the file is damaged or incomplete");
  EXPECT_EQ(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
            "DIR/tokenizer.model is a Git LFS pointer, not the file itself; run `git lfs pull` to fetch it");
  EXPECT_EQ(error_of("IQ== 0\nIg== 1\n"),
            "DIR/tokenizer.model: the model is a vocabulary of tiktoken, not of "
            "SentencePiece; use the folder's tokenizer.json");
  EXPECT_EQ(
      error_of("{\"model\": {}}"),
      "DIR/tokenizer.model: byte 0: field 15 has the unknown wire type 3; the file is damaged or of another kind");
  EXPECT_EQ(error_of(model_bytes("bpe").substr(0, 5000)).substr(0, 27), "DIR/tokenizer.model: byte 4");
}

// A model without lines of training options that is cut between pieces is still a message; its unknown piece is there.
TEST(PieceModelFile, EveryBeginningIsReadOrRefused) {
  const std::string whole = model_bytes("unigram");
  for (size_t size = 0; size < whole.size(); size += 7) {
    try {
      const PieceModel model = read_piece_model(std::string_view(whole).substr(0, size));
      EXPECT_LE(bytes_of(model).size(), whole.size() + 64);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
    }
  }
}

TEST(PieceModelFile, WhatIsWrittenIsReadAgain) {
  for (const char* const name : {"bpe", "unigram", "unigram_bytes"}) {
    const PieceModel model = read_piece_model(model_bytes(name));
    const std::string bytes = bytes_of(model);
    EXPECT_EQ(bytes_of(read_piece_model(bytes)), bytes);
    EXPECT_EQ(read_piece_model(bytes).pieces.size(), model.pieces.size());
  }
}

PieceModel small_model() {
  PieceModel model;
  model.pieces = {{"<unk>", 0, PieceType::kUnknown}, {"\u2581a", -1, PieceType::kNormal}};
  return model;
}

std::string refusal(const PieceModel& model) {
  return support::thrown_text([&] { read_piece_model(bytes_of(model)); }, ErrorKind::kData);
}

TEST(PieceModelFile, PartsThatTheLibraryTrustsAreChecked) {
  EXPECT_EQ(read_piece_model(bytes_of(small_model())).pieces.size(), 2U);
  PieceModel twice = small_model();
  twice.pieces.push_back(twice.pieces[1]);
  EXPECT_EQ(refusal(twice), "the model's pieces 1 and 2 are both '\u2581a'");
  PieceModel no_unknown = small_model();
  no_unknown.pieces[0].type = PieceType::kControl;
  EXPECT_EQ(refusal(no_unknown), "the model has 0 unknown pieces, expected 1");
  PieceModel bytes = small_model();
  bytes.byte_fallback = true;
  EXPECT_EQ(refusal(bytes), "the model has 0 pieces of bytes, expected 256 with byte_fallback: true");
  PieceModel name = small_model();
  name.pieces[1].text = "<0x0A>";
  EXPECT_EQ(refusal(name),
            "the model's piece 1 is '<0x0A>', but its type is 1; texts such as <0x0A> are those of bytes (type 6)");
  PieceModel control = small_model();
  control.kind = PieceModel::kBpe;
  control.pieces.push_back({"\u00e9", 0, PieceType::kControl});
  EXPECT_EQ(refusal(control), "the model's piece 2 is '\u00e9': a control piece of one character is not supported");
  PieceModel score = small_model();
  score.pieces[1].score = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refusal(score), "byte 24: the score of a piece is nan; the file is damaged");
  PieceModel text = small_model();
  text.pieces[1].text = "a\xff";
  EXPECT_EQ(refusal(text), "byte 18: the piece 'a\\xff' is not a text of UTF-8; the file is damaged");
  // A trie whose root points outside, a leaf that points after the texts, and a root whose leaf is none.
  for (const uint32_t unit : {uint32_t{0x3FF} << 10, uint32_t{1} << 31 | 9, uint32_t{1} << 10 | 1U << 8}) {
    PieceModel map = small_model();
    map.characters_map = std::string("\0\4\0\0", 4) + std::string(1024, '\0') + std::string("x\0", 2);
    EXPECT_EQ(refusal(map), "");
    for (unsigned i = 0; i < 4; ++i) map.characters_map[4 + i] = static_cast<char>(unit >> (8 * i));
    EXPECT_NE(refusal(map).find("the map of characters is damaged"), std::string::npos);
  }
}

TEST(SentencePieceLibrary, ABuildWithoutItSaysSo) {
  if (has_sentence_piece()) GTEST_SKIP() << "this build has SentencePiece";
  const std::string path = figures_path("bpe.model");
  EXPECT_EQ(support::thrown_text([&] { open_tokenizer(path); }, ErrorKind::kData),
            path +
                ": the tokenizer is a SentencePiece model, but this build of runner has no SentencePiece; install "
                "libsentencepiece-dev and build runner again");
}

}  // namespace
}  // namespace runner::text
