// Folders that export --model DIR writes: what transformers has written is read, trained with a rate of 0, and written
// again with the same tensors and sizes.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/formats/model_files.h"
#include "runner/text/sentence_piece.h"
#include "schema/base/json.h"
#include "tests/cli/command.h"
#include "tests/support/paths.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;

class HubFolder : public ::testing::Test {
 protected:
  fs::path path() const { return folder_.path(); }
  Result run(const std::string& command) const { return run_command(command, path()); }
  void expect_success(const std::string& command) const {
    const Result result = run(command);
    ASSERT_EQ(result.exit_code, 0) << command << "\n" << result.out << result.err;
  }

  // Trains a step of a model with a learning rate of 0.
  void train(const std::string& name, const std::string& model, const std::string& data) const {
    write_text(path() / (name + ".yaml"), fmt::format("schema_version: 1\nname: {}\nmodel: {{{}}}\ndata: {{{}}}\n"
                                                      "optimizer: {{type: sgd, lr: 0}}\ntrain: {{steps: 1}}\n",
                                                      name, model, data));
    expect_success(fmt::format("runner exec {}.yaml --quiet", name));
  }
  void copy_golden(const std::string& name) const {
    fs::copy(support::source_path("tests/golden/pretrained/" + name), path() / name);
  }
  // Letters a to m, as many as the models have tokens.
  void write_letters() const {
    std::string text;
    for (int i = 0; i < 200; ++i) text += static_cast<char>('a' + i % 13);
    write_text(path() / "text.txt", text);
  }

  json::Value config_of(const std::string& name) const { return json::parse(read_text(path() / name / "config.json")); }
  std::string weights_of(const std::string& name) const {
    const fs::path file = path() / name / "model.safetensors";
    return fs::exists(file) ? file.string() : file.string() + ".index.json";
  }
  // Expects the tensors of the folder `got` to be those of `want`, whatever their files.
  void expect_same_tensors(const std::string& got, const std::string& want) const {
    const formats::ModelTensors a(weights_of(got)), b(weights_of(want));
    ASSERT_EQ(a.tensors().size(), b.tensors().size());
    for (size_t i = 0; i < a.tensors().size(); ++i) {
      const formats::NamedTensor &x = a.tensors()[i], &y = b.tensors()[i];
      EXPECT_EQ(x.name, y.name);
      EXPECT_EQ(x.shape, y.shape) << x.name;
      EXPECT_TRUE(std::ranges::equal(x.bytes, y.bytes)) << x.name;
    }
  }
  // Expects each member of the first config.json that the second one has, too, to be the same.
  void expect_same_config(const std::string& got, const std::string& want) const {
    const json::Value a = config_of(got), b = config_of(want);
    int compared = 0;
    for (const auto& [key, value] : json::members_of(a)) {
      const json::Value& other = json::member(b, key);
      if (value.is_null() || other.is_null()) continue;
      EXPECT_EQ(json::compact(value), json::compact(other)) << key;
      ++compared;
    }
    EXPECT_GT(compared, 10);
  }

  Folder folder_;
};

TEST_F(HubFolder, OfGptIsThatOfTransformers) {
  copy_golden("gpt2");
  write_letters();
  train("gpt", "type: gpt, pretrained: gpt2",
        "train: {format: text, path: text.txt, sequence_length: 8}, batch_size: 4");
  expect_success("runner export gpt --model written --max-shard-size 12KB");
  EXPECT_TRUE(fs::exists(path() / "written/model-00001-of-00002.safetensors"));
  expect_same_tensors("written", "gpt2");
  expect_same_config("written", "gpt2");
}

TEST_F(HubFolder, OfLlamaIsThatOfTransformers) {
  copy_golden("llama");
  write_letters();
  train("llama", "type: llama, pretrained: llama",
        "train: {format: text, path: text.txt, sequence_length: 8}, batch_size: 4");
  expect_success("runner export llama --model written/");
  expect_same_tensors("written", "llama");
  expect_same_config("written", "llama");
}

TEST_F(HubFolder, HasTheSentencePieceModelOfTheData) {
  if (!text::has_sentence_piece()) GTEST_SKIP() << "this build has no SentencePiece";
  fs::create_directory(path() / "tokens");
  fs::copy(support::source_path("tests/text/figures/sentence_piece/bpe.model"), path() / "tokens/tokenizer.model");
  write_text(path() / "tokens/tokenizer_config.json",
             R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "legacy": false})");
  write_letters();
  const std::string data = "train: {format: text, path: text.txt, sequence_length: 8";
  train("new", "type: llama, layers: 1, heads: 2, width: 4", data + ", tokens: tokens}, batch_size: 4");
  expect_success("runner export new --model written");
  for (const char* file : {"tokenizer.model", "tokenizer_config.json"})
    EXPECT_EQ(read_text(path() / "written" / file), read_text(path() / "tokens" / file));
  EXPECT_EQ(json::member(config_of("written"), "eos_token_id"), json::Value(int64_t{2}));
  train("again", "type: llama, pretrained: written", data + "}, batch_size: 4");
  EXPECT_NE(run("runner show again").out.find("data.train.tokens/tokenizer_config.json "), std::string::npos);
}

// The classes of the folder are not sorted.
TEST_F(HubFolder, OfBertHasTheClassesOfTheFolderAndTheTokenizer) {
  copy_golden("bert");
  write_text(path() / "bert/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\n##a\n##b\n##c\n##d\n");
  write_text(path() / "bert/tokenizer_config.json", R"({"do_lower_case": true})");
  write_text(path() / "rows.tsv", "text\tlabel\na b\tneutral\nab c\tgood\nd\tbad\nba\tgood\n");
  const std::string data =
      "train: {format: tsv, path: rows.tsv, text: text, label: label}, tokens: {max_length: 8}, batch_size: 2";
  train("bert", "type: encoder, pretrained: bert", data);
  expect_success("runner export bert --model written");
  const std::string shown = run("runner show bert").out;
  EXPECT_NE(shown.find("data.tokens.tokenizer "), std::string::npos) << shown;
  EXPECT_NE(shown.find("data.tokens.tokenizer/tokenizer_config.json "), std::string::npos) << shown;
  EXPECT_EQ(json::compact(json::member(config_of("written"), "id2label")), R"({"0":"neutral","1":"good","2":"bad"})");
  for (const char* file : {"vocab.txt", "tokenizer_config.json"})
    EXPECT_EQ(read_text(path() / "written" / file), read_text(path() / "bert" / file));

  // Read and written again, nothing changes any more.
  train("again", "type: encoder, pretrained: written", data);
  expect_success("runner export again --model twice");
  expect_same_tensors("twice", "written");
  EXPECT_EQ(read_text(path() / "twice/config.json"), read_text(path() / "written/config.json"));
}

TEST_F(HubFolder, OfAModelWithoutBiasesHasBiasesOfZeros) {
  write_letters();
  train("nano", "type: gpt, layers: 1, heads: 2, width: 4, bias: false",
        "train: {format: text, path: text.txt, sequence_length: 8}, batch_size: 4");
  const Result result = run("runner export nano --model written");
  EXPECT_EQ(result.err,
            "warning: the data have no tokenizer with files, so the folder has none\n"
            "wrote written: the model of state 1 in 2 files; transformers loads it with "
            "AutoModel.from_pretrained(\"written\")\n");
  int biases = 0;
  const formats::ModelTensors written(weights_of("written"));
  for (const formats::NamedTensor& tensor : written.tensors()) {
    if (!tensor.name.ends_with(".bias")) continue;
    ++biases;
    EXPECT_TRUE(std::ranges::all_of(tensor.bytes, [](std::byte b) { return b == std::byte{}; })) << tensor.name;
  }
  EXPECT_EQ(biases, 7);  // two norms, two layers of attention, two of the MLP, the last norm
  EXPECT_EQ(json::member(config_of("written"), "n_positions"), json::Value(int64_t{8}));
  EXPECT_EQ(json::member(config_of("written"), "vocab_size"), json::Value(int64_t{13}));
  EXPECT_EQ(json::member(config_of("written"), "n_inner"), json::Value(int64_t{16}));

  train("again", "type: gpt, pretrained: written",
        "train: {format: text, path: text.txt, sequence_length: 8}, batch_size: 4");
  const auto loss = [&](const std::string& name) {
    return run("runner sql \"SELECT value FROM metrics JOIN runs USING (run) WHERE runs.name = '" + name +
               "' AND metrics.name = 'train/loss'\" --format csv")
        .out;
  };
  EXPECT_EQ(loss("nano"), loss("again"));
}

TEST_F(HubFolder, Refusals) {
  train("mlp", "type: linear", "train: {format: synthetic, samples: 8, features: [2], classes: 2}, batch_size: 4");
  EXPECT_EQ(run("runner export mlp --model out").err,
            "error: a folder for transformers needs a model of type gpt, llama or encoder, but this one is of type "
            "linear; write FILE.safetensors\n");
  EXPECT_FALSE(fs::exists(path() / "out"));
  EXPECT_EQ(run("runner export mlp --model out --fold-normalization").exit_code, 2);
  write_letters();
  const std::string data = "train: {format: text, path: text.txt, sequence_length: 8}, batch_size: 4";
  train("odd", "type: gpt, layers: 1, heads: 2, width: 4, activation: sigmoid", data);
  EXPECT_EQ(run("runner export odd --model out").err,
            "error: model.activation is sigmoid, which models of this type in transformers do not compute; write "
            "FILE.safetensors\n");
  train("gpt", "type: gpt, layers: 1, heads: 2, width: 4", data);
  write_text(path() / "full/file", "x");
  EXPECT_EQ(run("runner export gpt --model full").err,
            "error: full exists and is not an empty folder; choose another one\n");
}

}  // namespace
}  // namespace runner::cli::testing
