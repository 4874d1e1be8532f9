// The recipes of the repository: each trains, is recorded, and reaches its goal.
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;

struct Goal {
  const char* recipe;
  const char* metric;
  double least, most;  // limits of the last point; eval/… is computed on held-out samples
  const char* overrides = "";
};

// Baselines for values that are not from the recipe itself: 40 % of the wines are of the most frequent cultivar, and
// predicting the mean alcohol for all wines has a squared error of 0.66, which is its variance.
constexpr Goal kGoals[] = {
    {"digits", "eval/accuracy", 0.97, 1},
    {"digits_lua", "eval/accuracy", 0.97, 1},
    {"wine", "eval/accuracy", 0.93, 1},
    {"wine", "eval/f1_macro", 0.93, 1},
    {"regression", "eval/mse", 0, 0.4},
    {"regression", "eval/mae", 0, 0.5},
    {"transfer", "eval/accuracy", 0.8, 0.96},  // random features
    {"gan_lua", "gan/modes", 6, 8},
    {"tpu_bf16", "eval/accuracy", 0.97, 1},
    {"gpu_fp16", "eval/accuracy", 0.97, 1},
    {"shakespeare_gpt", "eval/loss", 2, 2.8,
     "train.steps=60 scheduler.warmup=null data.split.eval=0.01"},             // 4.2 before the first step
    {"bert_mlm", "eval/loss", 5, 6.4, "train.steps=60 data.split.eval=0.02"},  // 6.9 before the first step
    {"loop", "accuracy", 0.96, 1},
    {"loop", "reverted", 1, 19},  // load_state
};

// A BERT of 12 features, its tokenizer, and pairs of words that are equal or not.
void write_small_bert(const fs::path& folder) {
  fs::copy(support::source_path("tests/golden/pretrained/bert"), folder / "bert");
  write_text(folder / "bert/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\nd\ne\nf\ng\nh\ni\n");
  std::string config = read_text(folder / "bert/config.json");
  for (const auto& [from, to] : {std::pair{"neutral", "0"}, {"good", "1"}})
    for (size_t at; (at = config.find(from)) != std::string::npos;) config.replace(at, std::strlen(from), to);
  write_text(folder / "bert/config.json", config);
}

// The recipes for pretrained models, with a small one and new classes.
TEST(Recipes, OfPretrainedModelsTrain) {
  const Folder folder;
  write_small_bert(folder.path());
  std::string pairs = "sentence1\tsentence2\tlabel\n", messages = "Label\tSMS\n";
  for (const char a : std::string_view("abcdefghi"))
    for (const char b : std::string_view("abcdefghi")) {
      pairs += fmt::format("{}\t{}\t{}\n", a, b, a == b ? "equal" : "different");
      messages += fmt::format("{}\t{} {}\n", a == 'a' || b == 'a' ? "spam" : "ham", a, b);
    }
  fs::create_directory(folder.path() / "pairs");
  for (const char* file : {"train.tsv", "validation.tsv"}) write_text(folder.path() / "pairs" / file, pairs);
  write_text(folder.path() / "messages.tsv", messages);
  for (const std::string recipe : {"finetune_bert", "minilm_sms"}) {
    const Result result = run_command(
        fmt::format("runner exec '{}' vars.model=$PWD/bert vars.pairs=$PWD/pairs vars.messages=$PWD/messages.tsv "
                    "model.new_head=true data.tokens.max_length=8 train.epochs=1 scheduler.warmup=1step --quiet --json",
                    support::source_path("recipes/" + recipe + ".yaml")),
        folder.path());
    ASSERT_EQ(result.exit_code, 0) << recipe << ": " << result.err;
    EXPECT_EQ(support::Json::parse(result.out)["status"], "done");
  }
}

TEST(Recipes, ReachTheirGoals) {
  std::set<std::string> run{"finetune_bert", "minilm_sms"};  // by OfPretrainedModelsTrain
  for (const Goal& goal : kGoals) {
    const Folder folder;
    const std::string path = support::source_path(fmt::format("recipes/{}.yaml", goal.recipe));
    const Result result =
        run_command(fmt::format("runner exec '{}' {} --json --quiet", path, goal.overrides), folder.path());
    ASSERT_EQ(result.exit_code, 0) << path << ": " << result.err;
    EXPECT_EQ(result.err, "") << path;
    const auto document = support::Json::parse(result.out);
    EXPECT_EQ(document["status"], "done") << path;
    const double last = document["metrics"][goal.metric]["last"].number();
    EXPECT_GE(last, goal.least) << path << ' ' << goal.metric;
    EXPECT_LE(last, goal.most) << path << ' ' << goal.metric;
    run.insert(goal.recipe);
  }
  run.insert("bert_large_wikitext");  // planned below
  for (const auto& entry : fs::directory_iterator(support::source_path("recipes"))) {
    if (entry.path().extension() == ".yaml") {
      EXPECT_TRUE(run.contains(entry.path().stem())) << entry.path() << " has no expected accuracy";
    }
  }
}

// The benchmark of BERT-large on eight TPU cores: 64 samples per step, three epochs.
TEST(Recipes, BertLargeIsCheckedAndPlannedWithoutItsData) {
  const Folder folder;
  const std::string path = support::source_path("recipes/bert_large_wikitext.yaml");
  const Result check = run_command(fmt::format("runner check '{}'", path), folder.path());
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_NE(check.err.find("wiki.train.raw does not exist; planned for 230000 samples"), std::string::npos)
      << check.err;
  const Result plan = run_command(fmt::format("runner plan '{}' --json", path), folder.path());
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  const auto document = support::Json::parse(plan.out);
  EXPECT_EQ(document["num_processes"].integer(), 8);
  EXPECT_EQ(document["global_batch_size"].integer(), 32);
  EXPECT_EQ(document["optimizer_steps_per_epoch"].integer(), 3594);  // 230,000 / 64, rounded up
  const Result exec = run_command(fmt::format("runner exec '{}'", path), folder.path());
  EXPECT_EQ(exec.exit_code, 2);
  EXPECT_NE(exec.err.find("vocab.txt"), std::string::npos) << exec.err;
}

TEST(Recipes, TransferKeepsFrozenWeights) {
  const Folder folder;
  fs::create_symlink(support::source_path("recipes"), folder.path() / "recipes");
  const Result result = run_command(
      "set -e; runner exec recipes/digits.yaml --quiet >a; runner export digits --model digits.safetensors 2>a\n"
      "runner exec recipes/transfer.yaml model.init_from=$PWD/digits.safetensors --quiet >a\n"
      "runner fork digits --restart 'model.freeze=[0.*]' data.split.eval=0.9 train.epochs=20 name=forked --quiet >a\n"
      "runner export transfer --model transfer.safetensors 2>a; runner export forked --model forked.safetensors 2>a\n"
      "runner ls --where 'name != digits' --columns name,parent,eval/accuracy --json",
      folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string before = read_text(folder.path() / "digits.safetensors");
  const auto tensor = [](const std::string& file, const char* name) {
    uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    const support::Json offsets = support::Json::parse(file.substr(8, header))[name]["data_offsets"];
    const auto begin = static_cast<size_t>(offsets[0].integer()), end = static_cast<size_t>(offsets[1].integer());
    return file.substr(8 + header + begin, end - begin);
  };
  EXPECT_EQ(tensor(before, "0.weight").size(), 128U * 64U * 4U);
  for (const char* name : {"transfer.safetensors", "forked.safetensors"}) {
    const std::string after = read_text(folder.path() / name);
    for (const char* frozen : {"0.weight", "0.bias"}) EXPECT_EQ(tensor(after, frozen), tensor(before, frozen)) << name;
    EXPECT_NE(tensor(after, "3.weight"), tensor(before, "3.weight")) << name;
  }
  const auto runs = support::Json::parse(result.out);
  ASSERT_EQ(runs.size(), 2U);
  for (const auto& run : runs.items()) EXPECT_GT(run["columns"]["eval/accuracy"].number(), 0.96) << run;
  EXPECT_NE(runs[0]["parent"], nullptr);
}

// Runs the installation of `make install` with another prefix.
TEST(Install, InstalledProgramTrainsInstalledRecipes) {
  const Folder folder;
  const fs::path build = support::build_path("");
  const Result result = run_command(
      fmt::format(
          "cmake --install '{}' --prefix here >/dev/null && here/bin/runner exec "
          "here/share/runner/recipes/digits.yaml train.epochs=1 --quiet >/dev/null && find here -maxdepth 3 | sort",
          build.string()),
      folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      "here\nhere/bin\nhere/bin/runner\nhere/share\nhere/"
      "share/bash-completion\n"
      "here/share/bash-completion/completions\nhere/share/fish\nhere/share/fish/"
      "vendor_completions.d\nhere/share/man\n"
      "here/share/man/man1\nhere/share/runner\nhere/share/runner/docs\nhere/share/runner/recipes\nhere/share/runner/"
      "schema\nhere/share/zsh\n"
      "here/share/zsh/site-functions\n");
  const fs::path share = folder.path() / "here/share";
  EXPECT_EQ(read_text(share / "runner/docs/README.md"), read_text(support::source_path("docs/README.md")));
  EXPECT_EQ(read_text(share / "man/man1/runner.1").substr(0, 11), ".TH RUNNER ");
  EXPECT_EQ(read_text(share / "bash-completion/completions/runner").substr(0, 6), "# bash");
  EXPECT_EQ(read_text(share / "zsh/site-functions/_runner").substr(0, 8), "#compdef");
  EXPECT_EQ(read_text(share / "fish/vendor_completions.d/runner.fish").substr(0, 6), "# fish");
  const fs::path recipes = folder.path() / "here/share/runner/recipes";
  for (const char* recipe : {"digits.yaml", "wine.yaml", "regression.yaml"}) {
    const std::string text = read_text(recipes / recipe);
    constexpr std::string_view kMark = "$schema=";
    const size_t at = text.find(kMark) + kMark.size();
    EXPECT_TRUE(fs::is_regular_file(recipes / text.substr(at, text.find('\n') - at))) << text.substr(0, 80);
  }
}

}  // namespace
}  // namespace runner::cli::testing
