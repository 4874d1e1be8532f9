// The shared rounded copy of the weights, written by all ranks, contains the rounding of each weight.
#include "runner/train/engine/rounded_weights.h"

#include <bit>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "tests/backends/support/on_threads.h"
#include "tests/train/step_fixture.h"

namespace runner::train {
namespace {

// Weights whose bf16 is known without arithmetic. Around them are weights that bf16 cannot represent.
struct RoundedNumber {
  uint32_t weight;
  uint16_t rounded;
};
constexpr RoundedNumber kNumbers[] = {
    {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80},
    {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82},  // 1, and ties after it
    {0xbf808001, 0xbf81}, {0x00800000, 0x0080},
    {0x007fffff, 0x0080}, {0x007f8000, 0x0080},  // subnormal, and rounded up
    {0x007f7fff, 0x0000}, {0x807f7fff, 0x8000},
    {0x80000001, 0x8000}, {0x7f7fffff, 0x7f80},  // underflow, overflow
};

std::vector<uint32_t> weights_from(int64_t first, int64_t count) {
  std::vector<uint32_t> weights;
  for (int64_t i = first; i < first + count; ++i) weights.push_back(kNumbers[i % std::ssize(kNumbers)].weight);
  return weights;
}

// One rank with the shared copy.
class RoundingRank {
 public:
  RoundingRank(const schema::Recipe& recipe, backends::ProcessGroup& ranks)
      : steps_(recipe),
        shard_(steps_.shard(ranks.rank(), ranks.size())),
        arrays_(share_arrays(layout(), shard_, *device_, ranks, SumSource::kRows)),
        states_(pointers()),
        rounded_(layout(), shard_, *device_, ranks, states_) {}

  void write_from(int64_t first) {
    const std::vector<uint32_t> weights = weights_from(first, steps_.parameters() - first);
    rounded_.write(parameters(), static_cast<size_t>(first) * sizeof(float), std::as_bytes(std::span(weights)));
  }
  // Writes like the update of an optimizer step.
  void update_share(int64_t shift) {
    const auto [first, count] = shard_.of(0);
    if (count == 0) return;
    const std::vector<uint32_t> weights = weights_from(first + shift, count);
    device_->write(*states_[static_cast<size_t>(parameters())], 0, std::as_bytes(std::span(weights)));
    rounded_.round_shard();
  }
  void expect_rounded(int64_t begin, int64_t shift) const {
    std::vector<uint16_t> copy(static_cast<size_t>(steps_.parameters()));
    device_->read(*rounded_.states().front(), 0, std::as_writable_bytes(std::span(copy)));
    for (int64_t i = 0; i < std::ssize(copy); ++i)
      EXPECT_EQ(copy[static_cast<size_t>(i)], i < begin ? 0 : kNumbers[(i + shift) % std::ssize(kNumbers)].rounded)
          << i;
  }
  // Gradients are never rounded.
  void write_to_other_array() {
    const std::vector<uint32_t> ones(static_cast<size_t>(steps_.parameters()), 0x3f800000);
    rounded_.write(layout().find(ArrayRole::kGradients), 0, std::as_bytes(std::span(ones)));
  }

 private:
  const DeviceLayout& layout() const { return steps_.builder.layout(); }
  int32_t parameters() const { return layout().find(ArrayRole::kParameters); }
  std::vector<backends::Buffer*> pointers() const {
    std::vector<backends::Buffer*> found;
    for (const auto& buffer : arrays_.reduction) found.push_back(buffer.get());
    return found;
  }

  const StepFixture steps_;
  const std::unique_ptr<backends::ModelledDevice> device_ =
      std::make_unique<backends::ModelledDevice>(backends::make_cpu_device(1));
  const Shard shard_;
  const SharedArrays arrays_;
  const std::vector<backends::Buffer*> states_;
  RoundedWeights rounded_;
};

class RoundedWeightsOf : public ::testing::TestWithParam<int> {
 protected:
  template <class Work>
  void on_each(const Work& work) const {
    schema::Recipe recipe = StepFixture::recipe();
    recipe.num_processes = GetParam();
    recipe.gradient_accumulation_steps = 2;  // so that a single process keeps gradients too
    backends::testing::on_threads(GetParam(), [&](backends::SharedMemoryGroup& ranks) {
      RoundingRank rank(recipe, ranks);
      work(rank, ranks);
    });
  }
};

TEST_P(RoundedWeightsOf, RanksHaveTheCopyWrittenByOneRank) {
  constexpr int64_t kFirst = 7;  // starts in the middle of the array
  on_each([](RoundingRank& rank, backends::ProcessGroup& ranks) {
    rank.expect_rounded(/*begin=*/1 << 20, 0);
    ranks.barrier({"zeros"});
    if (ranks.rank() == 0) rank.write_from(kFirst), rank.write_to_other_array();
    ranks.barrier({"weights"});
    rank.expect_rounded(kFirst, 0);
  });
}

TEST_P(RoundedWeightsOf, RanksHaveTheUpdatesOfEachRank) {
  on_each([](RoundingRank& rank, backends::ProcessGroup& ranks) {
    for (const int64_t shift : {0, 5}) {
      rank.update_share(shift);
      ranks.barrier({"the update"});
      rank.expect_rounded(0, shift);
      ranks.barrier({"reading"});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(AnyNumber, RoundedWeightsOf, ::testing::Values(1, 2, 3, 8));

}  // namespace
}  // namespace runner::train
