// Runs the recipes of the repository on all backends. Emulated GPUs, and an emulated TPU in fp32 with exact products,
// give the same bits as the CPU. Each backend can resume from checkpoints of the others.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/support/paths.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kQuiet = "tpu.matmul_precision=highest --quiet 2>/dev/null >&2";

class BackendParity : public ::testing::Test {
 protected:
  BackendParity() { fs::create_symlink(support::source_path("recipes"), folder_.path() / "recipes"); }

  std::string out_of(const std::string& command) const {
    const Result result = run_command("set -e; " + command, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << command << '\n' << result.err;
    return result.out;
  }

  // Trains a recipe under the name `name`. `keys`: settings such as the number of epochs.
  void train(const std::string& recipe, const std::string& name, const std::string& keys) const {
    out_of(fmt::format("runner exec recipes/{}.yaml name={} {} {}", recipe, name, keys, kQuiet));
  }

  // Results of a run: all points of its loss, and its weights.
  std::string loss_of(const std::string& name) const {
    return out_of(fmt::format("runner metrics {} train/loss --json | grep -o '\"points\".*'", name));
  }
  std::string weights_of(const std::string& name) const {
    out_of(fmt::format("runner export {0} --model {0}.safetensors 2>/dev/null", name));
    return read_text(folder_.path() / (name + ".safetensors"));
  }

  const Folder folder_;
};

TEST_F(BackendParity, RecipesAreBitIdenticalToTheCpu) {
  std::vector<std::string> recipes;
  const std::set<std::string> need_files = {"bert_large_wikitext", "finetune_bert", "minilm_sms", "mnist_cnn",
                                            "fashion_cnn",         "cifar_resnet",  "photos"};  // not in the repository
  for (const auto& entry : fs::directory_iterator(support::source_path("recipes")))
    if (entry.path().extension() == ".yaml" && !need_files.contains(entry.path().stem()))
      recipes.push_back(entry.path().stem());
  ASSERT_GE(recipes.size(), 6u);
  for (const std::string& recipe : recipes) {
    SCOPED_TRACE(recipe);
    const bool is_text = recipe == "shakespeare_gpt" || recipe == "bert_mlm";
    const char* const length = is_text ? "train.steps=20 scheduler.warmup=null data.split.eval=0.01" : "train.epochs=1";
    for (const char* backend : {"cpu", "gpu", "tpu"})
      train(recipe, recipe + backend, fmt::format("backend={} num_processes=1 mixed_precision=no {}", backend, length));
    EXPECT_GT(loss_of(recipe + "cpu").size(), 20u);
    EXPECT_GT(weights_of(recipe + "cpu").size(), 100u);
    for (const char* backend : {"gpu", "tpu"}) {
      EXPECT_EQ(loss_of(recipe + "cpu"), loss_of(recipe + backend)) << backend;
      EXPECT_TRUE(weights_of(recipe + "cpu") == weights_of(recipe + backend)) << backend;
    }
  }
}

TEST_F(BackendParity, LlamasAreBitIdenticalToTheCpu) {
  fs::create_symlink(support::source_path("tests/golden/language"), folder_.path() / "language");
  for (const std::string name : {"llama", "llama_tied"}) {
    SCOPED_TRACE(name);
    for (const char* backend : {"cpu", "gpu", "tpu"})
      out_of(fmt::format("runner exec language/{0}.yaml name={0}{1} backend={1} num_processes=1 {2}", name, backend,
                         kQuiet));
    EXPECT_GT(loss_of(name + "cpu").size(), 20u);
    for (const char* backend : {"gpu", "tpu"}) {
      EXPECT_EQ(loss_of(name + "cpu"), loss_of(name + backend)) << backend;
      EXPECT_TRUE(weights_of(name + "cpu") == weights_of(name + backend)) << backend;
    }
  }
}

TEST_F(BackendParity, GpusAreBitIdenticalToAsManyCpuProcesses) {
  const char* const settings[] = {"num_processes=8",
                                  "num_processes=2 gradient_accumulation_steps=3",
                                  "num_processes=3 train.clip_grad_norm=0.5 split_batches=true data.batch_size=48",
                                  "num_processes=2 mixed_precision=fp16",
                                  "num_processes=2 mixed_precision=bf16 comm.hook=bf16",
                                  "num_processes=2 'train.local_sgd.every=4 steps'",
                                  "num_processes=1 mixed_precision=fp16 gradient_accumulation_steps=2",
                                  "num_processes=2 gpu.launch_blocking=true",
                                  "num_processes=2 gpu.model=t4 gpu.memory=24MiB"};
  int number = 0;
  for (const char* setting : settings) {
    SCOPED_TRACE(setting);
    const std::string name = fmt::format("run{}", ++number);
    for (const char* backend : {"cpu", "gpu"})
      train("digits", name + backend, fmt::format("backend={} train.epochs=2 {}", backend, setting));
    EXPECT_GT(loss_of(name + "cpu").size(), 20u);
    EXPECT_EQ(loss_of(name + "cpu"), loss_of(name + "gpu"));
    EXPECT_TRUE(weights_of(name + "cpu") == weights_of(name + "gpu"));
  }
}

// Compares only the weights, because the end of a run adds a point of its loss that the whole run may not have.
TEST_F(BackendParity, EachBackendResumesCheckpointsOfTheOthers) {
  for (const char* recipe : {"wine", "regression"})
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} with {} ranks", recipe, ranks));
      const std::string processes = fmt::format("num_processes={}", ranks);
      const std::string whole = fmt::format("{}{}", recipe, ranks);
      train(recipe, whole, fmt::format("backend=cpu {} train.epochs=2", processes));
      for (const auto& [first, second] :
           {std::pair{"cpu", "tpu"}, std::pair{"tpu", "cpu"}, std::pair{"gpu", "cpu"}, std::pair{"tpu", "gpu"}}) {
        const std::string name = whole + first;
        train(recipe, name, fmt::format("backend={} {} train.epochs=1", first, processes));
        out_of(fmt::format("runner resume {} backend={} train.epochs=2 --quiet 2>/dev/null >&2", name, second));
        EXPECT_TRUE(weights_of(name) == weights_of(whole)) << first;
      }
    }
}

TEST_F(BackendParity, RunMovedToTpuAndBackIsBitIdenticalToTheCpu) {
  for (const int ranks : {1, 4}) {
    SCOPED_TRACE(ranks);
    const std::string whole = fmt::format("whole{}", ranks), chain = fmt::format("chain{}", ranks);
    train("wine", whole, fmt::format("backend=cpu num_processes={} train.epochs=3", ranks));
    train("wine", chain, fmt::format("backend=gpu num_processes={} train.epochs=1", ranks));
    out_of(fmt::format("runner resume {} backend=tpu train.epochs=2 --quiet 2>/dev/null >&2", chain));
    out_of(fmt::format("runner resume {} backend=gpu train.epochs=3 --quiet 2>/dev/null >&2", chain));
    EXPECT_TRUE(weights_of(chain) == weights_of(whole));
  }
}

}  // namespace
}  // namespace runner::cli::testing
