// Ids of Hugging Face's tokenizers: tests/text/figures.py has made the figures.
//
// RUNNER_TOKENIZERS=FOLDER tests the vocabularies of BERT and GPT-2 too, which fetch_vocabularies.sh puts there.
#include "tests/text/figures.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runner/text/tokenizer_file.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::text {
namespace {

namespace fs = std::filesystem;

std::string committed(const std::string& name) {
  return support::source_path("tests/text/figures/" + name + ".tokenizer.json");
}

class TokenizerFigures : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerFigures, IdsAndTextsAreThoseOfTheReference) {
  compare_figures(open_tokenizer(committed(GetParam())), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Small, TokenizerFigures, ::testing::Values("uncased", "cased", "accents", "bpe", "bpe_prefix"),
                         [](const auto& row) { return std::string(row.param); });

std::string lines_of(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token + "\n";
  return text;
}

TEST(TokenizerFigures, VocabularyFileOfBertGivesTheSameIds) {
  const support::TempFolder folder;
  support::write_text(folder / "vocab.txt", lines_of(open_tokenizer(committed("uncased")).tokens()));
  compare_figures(open_tokenizer(folder / "vocab.txt"), "uncased");
  compare_figures(open_tokenizer(folder.path()), "uncased");
}

TEST(TokenizerFigures, ConfigOfACasedVocabularyIsObeyed) {
  const support::TempFolder folder;
  support::write_text(folder / "vocab.txt", lines_of(open_tokenizer(committed("cased")).tokens()));
  support::write_text(folder / "tokenizer_config.json",
                      R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false, "model_max_length": 512})");
  compare_figures(open_tokenizer(folder.path()), "cased");
}

class RealVocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(RealVocabulary, IdsAndTextsAreThoseOfTheReference) {
  const char* const folder = std::getenv("RUNNER_TOKENIZERS");
  if (folder == nullptr)
    GTEST_SKIP() << "`tests/text/fetch_vocabularies.sh FOLDER` fetches the vocabularies; then set RUNNER_TOKENIZERS"
                    " to FOLDER";
  compare_figures(open_tokenizer(fs::path(folder) / GetParam()), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, RealVocabulary, ::testing::Values("bert", "gpt2"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace runner::text
