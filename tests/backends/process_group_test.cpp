// Process groups: every transport computes the same, for few ranks and for many.
#include "backends/dist/process_group.h"

#include <cmath>
#include <functional>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/dist/shared_memory_group.h"
#include "schema/base/error.h"
#include "tests/backends/support/copying_group.h"
#include "tests/backends/support/memory_network.h"
#include "tests/backends/support/on_threads.h"

namespace runner::backends {
namespace {

using testing::on_copying_threads;
using testing::on_hosts;
using testing::on_threads;

// Values whose sum depends on the order.
std::vector<float> floats_of(int rank, size_t count) {
  std::mt19937 random(static_cast<uint32_t>(rank) + 1);
  std::vector<float> values(count);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(static_cast<int32_t>(random())), static_cast<int>(random() % 40) - 20);
  return values;
}

std::vector<float> left_fold(int size, size_t count) {
  std::vector<float> sum = floats_of(0, count);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<float> next = floats_of(rank, count);
    for (size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
  return sum;
}

TensorType type_of_floats(size_t count) {
  return {DType::kF32, Shape{static_cast<int64_t>(count)}};
}

std::span<std::byte> bytes_of_floats(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}

// Elements of each rank: uneven, and none for rank 1.
std::vector<int64_t> uneven_counts(int size, size_t count) {
  std::vector<int64_t> counts(static_cast<size_t>(size), static_cast<int64_t>(count) / size);
  counts.back() += static_cast<int64_t>(count) % size;
  if (size > 1) counts[0] += std::exchange(counts[1], 0);
  return counts;
}

void check_reductions(ProcessGroup& ranks, size_t count, const std::vector<float>& sum) {
  const TensorType type = type_of_floats(count);
  const std::vector<float> mine = floats_of(ranks.rank(), count);

  std::vector<float> values = mine;
  ranks.all_reduce(type, bytes_of_floats(values), Reduction::kSum, {"sum"});
  EXPECT_EQ(values, sum);

  const std::vector<int64_t> counts = uneven_counts(ranks.size(), count);
  const auto own = counts.begin() + ranks.rank();
  std::vector<float> part(static_cast<size_t>(*own));
  ranks.reduce_scatter(type, std::as_bytes(std::span(mine)), counts, bytes_of_floats(part), Reduction::kSum, {"parts"});
  const auto first = sum.begin() + std::accumulate(counts.begin(), own, int64_t{0});
  EXPECT_EQ(part, std::vector<float>(first, first + *own));
}

void check_copies(ProcessGroup& ranks, size_t count) {
  const TensorType type = type_of_floats(count);
  const std::vector<float> mine = floats_of(ranks.rank(), count);

  std::vector<float> values = mine;
  ranks.broadcast(type, bytes_of_floats(values), ranks.size() / 2, {"copy"});
  EXPECT_EQ(values, floats_of(ranks.size() / 2, count));

  std::vector<float> all(count * static_cast<size_t>(ranks.size())), expected;
  ranks.all_gather(type, std::as_bytes(std::span(mine)), bytes_of_floats(all), {"copy"});
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<float> theirs = floats_of(rank, count);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  EXPECT_EQ(all, expected);
}

void check_texts_and_flags(ProcessGroup& ranks) {
  const std::vector<std::string> texts =
      ranks.gather_objects(std::string(static_cast<size_t>(ranks.rank()) * 3, 'x'), {"texts"});
  ASSERT_EQ(std::ssize(texts), ranks.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) EXPECT_EQ(texts[rank].size(), rank * 3);
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(ranks.any(false, {"none"}));
    EXPECT_TRUE(ranks.any(ranks.rank() == ranks.size() - 1, {"the last"}));
    ranks.barrier({"all"});
  }
}

using Body = std::function<void(ProcessGroup&)>;
struct Transport {
  const char* name;
  std::function<void(int size, const Body& body)> run;
};

const Transport kTransports[] = {
    {"shared memory", [](int size, const Body& body) { on_threads(size, body, {.spin = false}); }},
    {"copies", [](int size, const Body& body) { on_copying_threads(size, body); }},
    {"one host", [](int size, const Body& body) { on_hosts({size}, body); }},
    {"a host for each rank",
     [](int size, const Body& body) { on_hosts(std::vector<int>(static_cast<size_t>(size), 1), body); }},
    {"two hosts",
     [](int size, const Body& body) {
       size == 1 ? on_hosts({1}, body) : on_hosts({size / 2 + size % 2, size / 2}, body);
     }},
};

// 100 floats are folded by each rank or, if there are many ranks, once; 20,001 floats in one piece or in several; more
// pieces of 400,003 floats than are on their way between hosts.
TEST(ProcessGroup, ComputesTheSameOnEveryTransport) {
  for (const Transport& transport : kTransports)
    for (const int size : {1, 2, 5, 40})
      for (const size_t count : {1u, 100u, 20'001u, 400'003u}) {
        if (size > 5 && count > 100'000) continue;
        SCOPED_TRACE(fmt::format("{}, {} ranks, {} floats", transport.name, size, count));
        const std::vector<float> sum = left_fold(size, count);
        transport.run(size, [&](ProcessGroup& ranks) {
          check_reductions(ranks, count, sum);
          check_copies(ranks, count);
          check_texts_and_flags(ranks);
        });
      }
}

TEST(ProcessGroup, ReportsTheCallsThatDoNotMatch) {
  for (const Transport& transport : kTransports)
    for (const int size : {2, 40}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", transport.name, size));
      std::mutex mutex;
      std::set<std::string> errors;
      transport.run(size, [&](ProcessGroup& ranks) {
        try {
          ranks.barrier({"start", 1});
          ranks.barrier({"end", ranks.rank() == 1 ? 3 : 2});
        } catch (const Error& error) {
          const std::lock_guard lock(mutex);
          errors.insert(error.what());
        }
      });
      ASSERT_EQ(errors.size(), 1u);
      EXPECT_NE(errors.begin()->find("rank 1 calls barrier of end, at step 3"), std::string::npos) << *errors.begin();
    }
}

TEST(ProcessGroup, HasSymmetricMemoryIfTheTransportOffersIt) {
  on_threads(2, [](ProcessGroup& ranks) {
    EXPECT_TRUE(ranks.has_symmetric_memory());
    EXPECT_NE(ranks.symmetric_alloc(type_of_floats(3), ProcessGroup::Pages::kNow, {"x"}), nullptr);
  });
  on_hosts({1, 1}, [](ProcessGroup& ranks) { EXPECT_FALSE(ranks.has_symmetric_memory()); });
  on_copying_threads(2, [](ProcessGroup& ranks) {
    EXPECT_FALSE(ranks.has_symmetric_memory());
    EXPECT_EQ(ranks.symmetric_alloc(type_of_floats(3), ProcessGroup::Pages::kNow, {"x"}), nullptr);
  });
}

}  // namespace
}  // namespace runner::backends
