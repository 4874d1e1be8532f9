// Comparison of weights between ranks.
#include "runner/train/engine/rank_weights.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runner/train/loop/session.h"
#include "schema/base/error.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

constexpr const char* kDrifting = R"(schema_version: 1
name: check
num_processes: 4
data:
  train: {format: synthetic, samples: 24, features: [5], classes: 3}
  batch_size: 4
model: {type: mlp, hidden: [4]}
optimizer: {type: adam, lr: 0.01}
train: {epochs: 1, local_sgd: {every: 2 steps}}
)";

class WeightCheckTest : public RunFixture {
 protected:
  // Returns rank 0's error if an array of `odd_rank` differs.
  std::string error_with_odd_rank(int odd_rank, const std::string& array) {
    write("recipe.yaml", kDrifting);
    const schema::ReadResult read = schema::read_recipe(path("recipe.yaml").string());
    std::string text = "nothing";
    backends::testing::on_threads(4, [&](backends::SharedMemoryGroup& ranks) {
      Session session(read.recipe, nullptr, &ranks);
      session.trainer.allocate();
      DeviceArrays& arrays = session.trainer.arrays();
      const std::vector<DeviceArray>& layout = arrays.layout().arrays();
      for (size_t i = 0; i < layout.size() && ranks.rank() == odd_rank; ++i) {
        if (layout[i].name != array) continue;
        std::vector<std::byte> bytes = arrays.read(static_cast<int32_t>(i));
        bytes.back() ^= std::byte{1};  // of the last element
        arrays.write(static_cast<int32_t>(i), bytes);
      }
      try {
        check_identical(digests_of(arrays, session.trainer.model().parameters), ranks, {"digests of weights", 7});
      } catch (const Error& error) {
        if (ranks.rank() == 0) text = error.message();
      }
    });
    return text;
  }
};

TEST_F(WeightCheckTest, ReportsTheTensorAndTheRankThatDiffers) {
  const std::string why =
      " (comm.check_every); all ranks applied the same updates, so memory is damaged or cores compute differently: "
      "resume "
      "from an earlier state on another machine";
  EXPECT_EQ(error_with_odd_rank(2, "parameters 0"),
            "weights diverged after step 7: 2.bias on rank 2 differs from ranks 0, 1, 3" + why);
  EXPECT_EQ(error_with_odd_rank(0, "exp_avg_sq 0"),
            "weights diverged after step 7: exp_avg_sq of 2.bias on rank 0 differs from ranks 1, 2, 3" + why);
  EXPECT_EQ(error_with_odd_rank(-1, ""), "nothing");
}

}  // namespace
}  // namespace runner::train
