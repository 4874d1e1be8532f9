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

// 28 × 28 pixels in the format idx, and labels 0 to 9.
void write_small_mnist(const fs::path& folder) {
  constexpr int kSamples = 40;
  const auto big_endian = [](int number) {
    return std::string{0, 0, static_cast<char>(number >> 8), static_cast<char>(number & 255)};
  };
  fs::create_directory(folder);
  for (const std::string part : {"train", "t10k"}) {
    std::string images = std::string("\0\0\x08\x03", 4) + big_endian(kSamples) + big_endian(28) + big_endian(28);
    std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(kSamples);
    for (int i = 0; i < kSamples; ++i) {
      labels += static_cast<char>(i % 10);
      for (int pixel = 0; pixel < 28 * 28; ++pixel) images += static_cast<char>((pixel * (i % 10 + 1)) % 251);
    }
    write_text(folder / (part + "-images-idx3-ubyte"), images);
    write_text(folder / (part + "-labels-idx1-ubyte"), labels);
  }
}

// Records of CIFAR-10.
void write_small_cifar(const fs::path& folder) {
  fs::create_directory(folder);
  for (const char* file : {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"}) {
    std::string records;
    for (int i = 0; i < 20; ++i) {
      records += static_cast<char>(i % 10);
      for (int byte = 0; byte < 3072; ++byte) records += static_cast<char>((byte * (i + 3)) % 253);
    }
    write_text(folder / file, records);
  }
}

// Two classes of photographs.
void write_small_photos(const fs::path& folder) {
  for (const char* part : {"train", "eval"})
    for (const auto& [name, file] : {std::pair{"cats", "rgb.jpg"}, {"dogs", "rgb_8.png"}}) {
      fs::create_directories(folder / part / name);
      for (const char* copy : {"a", "b"})
        fs::copy(support::source_path(fmt::format("tests/images/files/{}", file)),
                 folder / part / name / (std::string(copy) + fs::path(file).extension().string()));
    }
}

TEST(Recipes, OfImagesTrain) {
  const Folder folder;
  write_small_mnist(folder.path() / "mnist");
  write_small_cifar(folder.path() / "cifar");
  write_small_photos(folder.path() / "photos");
  ASSERT_EQ(run_command("gzip mnist/*", folder.path()).exit_code, 0);
  const std::pair<std::string, std::string> recipes[] = {
      {"mnist_cnn", "vars.folder=$PWD/mnist"},
      {"fashion_cnn", "vars.folder=$PWD/mnist data.batch_size=20"},
      {"cifar_resnet", "vars.folder=$PWD/cifar data.batch_size=20"},
      {"photos",
       "vars.photos=$PWD/photos model.init_from=null model.new_head=null data.resize=40 data.center_crop=32 "
       "'data.train.augment=[{random_resized_crop: 32}, {flip: horizontal}, {color: 0.2}]' data.batch_size=2"}};
  for (const auto& [recipe, overrides] : recipes) {
    const std::string path = support::source_path("recipes/" + recipe + ".yaml");
    const Result result =
        run_command(fmt::format("runner exec '{}' {} train.epochs=1 --quiet --json", path, overrides), folder.path());
    ASSERT_EQ(result.exit_code, 0) << recipe << ": " << result.err;
    EXPECT_EQ(support::Json::parse(result.out)["status"], "done") << recipe;
  }
}

TEST(Recipes, CifarIsCheckedAndPlannedWithoutItsData) {
  const Folder folder;
  const std::string path = support::source_path("recipes/cifar_resnet.yaml");
  const Result check = run_command(fmt::format("runner check '{}'", path), folder.path());
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_NE(check.err.find("planned for 50000 samples"), std::string::npos) << check.err;
  const Result plan = run_command(fmt::format("runner plan '{}' --json", path), folder.path());
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_EQ(support::Json::parse(plan.out)["optimizer_steps_per_epoch"].integer(), 391);  // 50,000 / 128, rounded up
  EXPECT_NE(run_command(fmt::format("runner exec '{}'", path), folder.path()).exit_code, 0);
}

TEST(Recipes, ReachTheirGoals) {
  std::set<std::string> run{"finetune_bert", "minilm_sms"};            // by OfPretrainedModelsTrain
  run.insert({"mnist_cnn", "fashion_cnn", "cifar_resnet", "photos"});  // by OfImagesTrain
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
  const Result result = run_command(fmt::format("cmake --install '{}' --prefix here >/dev/null && here/bin/runner exec "
                                                "here/share/runner/recipes/digits.yaml train.epochs=1 --quiet "
                                                ">/dev/null && find here -maxdepth 3 ! -path '*/lib*' | sort",
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
