// Shards of the weight update: which elements each rank updates, and the memory that ranks share.
#include "runner/train/step/shard.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tests/backends/support/on_threads.h"

namespace runner::train {
namespace {

using Range = std::pair<int64_t, int64_t>;  // first element and number

// A frozen parameter of 7 elements, one of 43 in group 0, and one of `rest` in the default group 1.
nn::ParameterSet parameters(int64_t rest) {
  nn::ParameterSet set;
  set.add("frozen", {7}, {});
  set.add("a", {43}, {});
  set.add("b", {rest}, {});
  const std::vector<std::string> frozen{"frozen"};
  const std::vector<std::vector<std::string>> groups{{"a"}};
  set.lay_out(frozen, groups);
  return set;
}

Optimizers optimizers(schema::OptimizerType first = schema::OptimizerType::kSgd) {
  Optimizers all{.names = {""}, .groups = {}};
  all.groups.resize(2);
  all.groups[0].rule.type = first;
  return all;
}

// The ranges of a group's buffer, by rank.
std::vector<Range> ranges(const nn::ParameterSet& set, const std::vector<Shard>& shards, int32_t group) {
  const auto buffer = std::ranges::find(set.buffers(), group, &nn::FlatBuffer::group) - set.buffers().begin();
  std::vector<Range> all;
  for (const Shard& shard : shards) {
    const Shard::Range& range = shard.of(static_cast<int32_t>(buffer));
    all.emplace_back(range.first, range.count);
  }
  return all;
}

// 43 floats are 3 cache lines of 16, the last one with 11.
TEST(ShardTest, ConsistsOfWholeCacheLines) {
  const nn::ParameterSet set = parameters(100);
  const auto of_group_0 = [&](int size) { return ranges(set, all_shards(set, optimizers(), {}, size), 0); };
  EXPECT_EQ(of_group_0(1), (std::vector<Range>{{0, 43}}));
  EXPECT_EQ(of_group_0(2), (std::vector<Range>{{0, 16}, {16, 27}}));
  EXPECT_EQ(of_group_0(3), (std::vector<Range>{{0, 16}, {16, 16}, {32, 11}}));
}

TEST(ShardTest, RanksShareAllElementsEvenly) {
  for (const int64_t elements : {1, 15, 16, 17, 100, 1000}) {
    const nn::ParameterSet set = parameters(elements);
    for (int size = 1; size <= 9; ++size) {
      SCOPED_TRACE(std::to_string(elements) + " elements, " + std::to_string(size) + " ranks");
      std::vector<int> owners(static_cast<size_t>(elements));
      int64_t fewest = elements, most = 0;
      for (const auto& [first, count] : ranges(set, all_shards(set, optimizers(), {}, size), 1)) {
        for (int64_t i = first; i < first + count; ++i) ++owners.at(static_cast<size_t>(i));
        EXPECT_EQ(first % kFloatsOfLine, 0);
        const int64_t lines = (count + kFloatsOfLine - 1) / kFloatsOfLine;
        fewest = std::min(fewest, lines);
        most = std::max(most, lines);
      }
      EXPECT_EQ(std::ranges::count(owners, 1), elements);
      EXPECT_LE(most - fewest, 1) << "cache lines";
    }
  }
}

TEST(ShardTest, OfFrozenParametersIsEmpty) {
  const nn::ParameterSet set = parameters(100);
  EXPECT_EQ(ranges(set, all_shards(set, optimizers(), {}, 3), -1), (std::vector<Range>(3, Range{0, 0})));
}

// Rules of hooks see whole arrays; other buffers are still divided.
TEST(ShardTest, OfAHooksRuleIsTheWholeBufferOfOneRank) {
  const nn::ParameterSet set = parameters(48);
  const std::vector<Shard> shards = all_shards(set, optimizers(schema::OptimizerType::kHook), {}, 3);
  std::vector<Range> of_hook = ranges(set, shards, 0);
  std::ranges::sort(of_hook);
  EXPECT_EQ(of_hook, (std::vector<Range>{{0, 0}, {0, 0}, {0, 43}}));
  EXPECT_EQ(ranges(set, shards, 1), (std::vector<Range>{{0, 16}, {16, 16}, {32, 16}}));
}

// PowerSGD and comm.unused: skip need all elements; the buffers belong to different ranks.
TEST(ShardTest, OfWholeBuffersGoToDifferentRanks) {
  const nn::ParameterSet set = parameters(100);
  schema::CommSpec power_sgd, skip;
  power_sgd.hook = schema::CommHook::kPowerSgd;
  skip.unused = schema::Unused::kSkip;
  for (const schema::CommSpec& comm : {power_sgd, skip}) {
    const std::vector<Shard> shards = all_shards(set, optimizers(), comm, 2);
    const std::vector<Range> a = ranges(set, shards, 0), b = ranges(set, shards, 1);
    EXPECT_EQ(std::max(a[0].second, a[1].second), 43);
    EXPECT_EQ(std::min(a[0].second, a[1].second), 0);
    EXPECT_EQ(std::max(b[0].second, b[1].second), 100);
    EXPECT_EQ(std::min(b[0].second, b[1].second), 0);
    EXPECT_NE(a[0].second == 0, b[0].second == 0) << "one rank has both buffers";
  }
}

// Rows are zero, begin at cache lines of 64 bytes, and each rank reads what the others have written.
TEST(SharedRowsTest, HaveALineForEachRank) {
  for (const auto& share : {share_rows, reserve_rows})
    backends::testing::on_threads(3, [&](backends::SharedMemoryGroup& ranks) {
      const SharedRows rows = share({backends::DType::kF32, {5}}, "numbers", ranks);
      EXPECT_EQ(rows.stride, 64u) << "20 bytes in a line of 64";
      const auto number = [&](int rank, size_t i) -> float& {
        return reinterpret_cast<float*>(rows.of(rank, i * sizeof(float)).get())[0];
      };
      for (size_t i = 0; i < 5; ++i) EXPECT_EQ(number(ranks.rank(), i), 0);
      ranks.barrier({"zeros"});
      for (size_t i = 0; i < 5; ++i)
        number(ranks.rank(), i) = static_cast<float>(10 * ranks.rank()) + static_cast<float>(i);
      ranks.barrier({"numbers"});
      for (int rank = 0; rank < 3; ++rank)
        for (size_t i = 0; i < 5; ++i)
          EXPECT_EQ(number(rank, i), static_cast<float>(10 * rank) + static_cast<float>(i));
      ranks.barrier({"end"});
    });
}

}  // namespace
}  // namespace runner::train
