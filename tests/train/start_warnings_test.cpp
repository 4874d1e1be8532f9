// Warnings about a recipe that depend on its device.
#include "runner/train/loop/start_warnings.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/runtime/affinity.h"
#include "runner/model/pretrained.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::train {
namespace {

using Texts = std::vector<std::string>;

Texts warnings_on(const std::string& device) {
  return start_warnings(schema::read_recipe_text(R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: d.csv}, batch_size: 4}
train: {epochs: 3}
optimizer: {type: adam}
)" + device + "\n",
                                                 "r.yaml"));
}

TEST(StartWarnings, AboutNumbersInBf16OnlyIfTheDeviceKeepsF32AsBf16) {
  const Texts in_bf16 = warnings_on("backend: tpu\nmixed_precision: bf16\nnum_processes: 1");
  ASSERT_EQ(in_bf16.size(), 1U);
  EXPECT_TRUE(in_bf16[0].find("0.999 rounds to 1 in the TPU's bf16") != std::string::npos) << in_bf16[0];
  for (const std::string device : {"backend: tpu\nmixed_precision: \"no\"", "backend: gpu\nmixed_precision: bf16",
                                   "backend: cpu\nmixed_precision: bf16"})
    EXPECT_EQ(warnings_on(device + "\nnum_processes: 1"), Texts{}) << device;
}

TEST(StartWarnings, IncludeThoseThatNoDeviceDetermines) {
  const Texts warnings = warnings_on("backend: tpu\nmixed_precision: bf16\nnum_processes: 1\nname: \u201Cname\u201D");
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_TRUE(warnings[0].find("typographic quote") != std::string::npos) << warnings[0];
  EXPECT_TRUE(warnings[1].find("rounds to 1") != std::string::npos) << warnings[1];
}

TEST(StartWarnings, AboutManyMoreProcessesOrThreadsThanCores) {
  const int64_t cores = backends::usable_cores();
  for (const int64_t count : {8 * cores, 8 * cores + 1}) {
    const size_t expected = count > 8 * cores ? 1 : 0;
    EXPECT_EQ(warnings_on(fmt::format("num_processes: {}", count)).size(), expected) << count;
    EXPECT_EQ(warnings_on(fmt::format("threads: {}", count)).size(), expected) << count;
  }
}

TEST(StartWarnings, AboutAnotherTokenizerThanThatOfThePretrainedModel) {
  const support::TempFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  std::filesystem::copy(support::source_path("tests/golden/pretrained/bert"), path("bert"));
  support::write_text(folder.path() / "bert/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
  std::filesystem::create_directory(path("same"));
  std::filesystem::copy(path("bert") + "/vocab.txt", path("same"));
  support::write_text(folder.path() / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nb\na\n");
  const auto warnings = [&](const std::string& tokenizer) {
    schema::ReadResult recipe = schema::read_recipe_text(fmt::format(R"(schema_version: 1
model: {{type: encoder, pretrained: {}}}
data: {{train: {{format: csv, path: d.csv, text: text, label: label}}, tokens: {{{}}}, batch_size: 4}}
train: {{epochs: 3}}
optimizer: {{type: adam}}
)",
                                                                     path("bert"), tokenizer),
                                                         "r.yaml");
    nn::apply_config(recipe);
    return start_warnings(recipe);
  };
  EXPECT_EQ(warnings(""), Texts{});
  EXPECT_EQ(warnings("tokenizer: " + path("same")), Texts{});
  EXPECT_EQ(warnings("tokenizer: " + path("vocab.txt")),
            Texts{fmt::format("data.tokens.tokenizer: {0}/vocab.txt is not the tokenizer of {0}/bert, with which the "
                              "model was trained: id 5 is 'b' instead of 'a'; remove data.tokens.tokenizer",
                              folder.path().string())});
  support::write_text(folder.path() / "same/tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(warnings("tokenizer: " + path("same")),
            Texts{fmt::format("data.tokens.tokenizer: {0}/same is not the tokenizer of {0}/bert, with which the model "
                              "was trained: it changes case or accents in another way; remove data.tokens.tokenizer",
                              folder.path().string())});
  for (const char* const word : {"bytes", "characters"})
    EXPECT_EQ(warnings(std::string("tokenizer: ") + word),
              Texts{fmt::format("data.tokens.tokenizer: {} is not the tokenizer of {}/bert, with which the model was "
                                "trained; remove data.tokens.tokenizer",
                                word, folder.path().string())});
}

// Variables that ask for the precision of the recipe, or for none, need no warning.
TEST(StartWarnings, AboutVariablesThatAskForAnotherPrecision) {
  const struct {
    const char *name, *value, *device;
    const char* key;  // "": no warning
  } cases[] = {
      {"XLA_USE_BF16", "1", "mixed_precision: \"no\"", "mixed_precision: bf16"},
      {"XLA_USE_BF16", "0", "mixed_precision: \"no\"", ""},
      {"XLA_USE_BF16", "false", "mixed_precision: \"no\"", ""},
      {"XLA_USE_BF16", "", "mixed_precision: \"no\"", ""},
      {"XLA_USE_BF16", "1", "mixed_precision: bf16", ""},
      {"XLA_DOWNCAST_BF16", "1", "mixed_precision: bf16",
       "backend: tpu, mixed_precision: bf16 and downcast_bf16: true"},
      {"ACCELERATE_MIXED_PRECISION", "fp16", "mixed_precision: bf16", "mixed_precision"},
      {"ACCELERATE_MIXED_PRECISION", "bf16", "mixed_precision: bf16", ""},
      {"ACCELERATE_MIXED_PRECISION", "no", "mixed_precision: \"no\"", ""},
  };
  for (const auto& [name, value, device, key] : cases) {
    ASSERT_EQ(::setenv(name, value, 1), 0);
    const Texts warnings = warnings_on(fmt::format("backend: cpu\nnum_processes: 1\n{}", device));
    ::unsetenv(name);
    const std::string text =
        fmt::format("{}={} in the environment does not change the run; set {} in the recipe", name, value, key);
    EXPECT_EQ(warnings, *key != '\0' ? Texts{text} : Texts{}) << name << '=' << value << ' ' << device;
  }
}

}  // namespace
}  // namespace runner::train
