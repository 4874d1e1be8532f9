// The recipes of the tree on two backends: in fp32 an emulated TPU whose products are exact gives the cpu's bits, and
// each goes on from the other's states.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExact = "mixed_precision=no tpu.matmul_precision=highest --quiet 2>/dev/null >&2";

class TpuParity : public ::testing::Test {
 protected:
  TpuParity() { fs::create_symlink(RUNNER_SOURCE_DIR "/recipes", folder_.path() / "recipes"); }

  std::string out_of(const std::string& command) const {
    const Result result = run_command("set -e; " + command, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << command << '\n' << result.err;
    return result.out;
  }

  // A recipe's run of so many epochs, by the name NAME.
  void train(const std::string& recipe, const std::string& name, const std::string& keys) const {
    out_of(fmt::format("runner exec recipes/{}.yaml name={} {} {}", recipe, name, keys, kExact));
  }

  // What a run has come to: all points of its loss, and the weights.
  std::string loss_of(const std::string& name) const {
    return out_of(fmt::format("runner metrics {} train/loss --json | grep -o '\"points\".*'", name));
  }
  std::string weights_of(const std::string& name) const {
    out_of(fmt::format("runner export {0} --model {0}.safetensors 2>/dev/null", name));
    return read_text(folder_.path() / (name + ".safetensors"));
  }

  const Folder folder_;
};

TEST_F(TpuParity, RecipesGiveTheBitsOfTheCpu) {
  std::vector<std::string> recipes;
  for (const auto& entry : fs::directory_iterator(RUNNER_SOURCE_DIR "/recipes"))
    if (entry.path().extension() == ".yaml") recipes.push_back(entry.path().stem());
  ASSERT_GE(recipes.size(), 6u);
  for (const std::string& recipe : recipes) {
    SCOPED_TRACE(recipe);
    for (const char* backend : {"cpu", "tpu"})
      train(recipe, recipe + backend, fmt::format("backend={} num_processes=1 train.epochs=1", backend));
    EXPECT_GT(loss_of(recipe + "cpu").size(), 20u);
    EXPECT_EQ(loss_of(recipe + "cpu"), loss_of(recipe + "tpu"));
    EXPECT_GT(weights_of(recipe + "cpu").size(), 100u);
    EXPECT_TRUE(weights_of(recipe + "cpu") == weights_of(recipe + "tpu"));
  }
}

// (The end of a run is a point of its loss, which the whole run may not have.)
TEST_F(TpuParity, EachBackendGoesOnFromTheStatesOfTheOther) {
  for (const char* recipe : {"wine", "regression"})
    for (const int replicas : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} with {} replicas", recipe, replicas));
      const std::string processes = fmt::format("num_processes={}", replicas);
      const std::string whole = fmt::format("{}{}", recipe, replicas);
      train(recipe, whole, fmt::format("backend=cpu {} train.epochs=2", processes));
      for (const auto& [first, second] : {std::pair{"cpu", "tpu"}, std::pair{"tpu", "cpu"}}) {
        const std::string name = whole + first;
        train(recipe, name, fmt::format("backend={} {} train.epochs=1", first, processes));
        out_of(fmt::format("runner resume {} backend={} train.epochs=2 --quiet 2>/dev/null >&2", name, second));
        EXPECT_TRUE(weights_of(name) == weights_of(whole)) << first;
      }
    }
}

}  // namespace
}  // namespace runner::cli::testing
