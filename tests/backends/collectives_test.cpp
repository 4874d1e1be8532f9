// ProcessGroup between threads and processes: values against a plain fold, mismatched calls, failures, time-outs.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/dist/rank_error.h"
#include "backends/dist/shared_memory.h"
#include "backends/dist/shared_memory_group.h"
#include "backends/exec/cpu_device.h"
#include "backends/ir/ops.h"
#include "schema/base/error.h"
#include "tests/backends/support/on_processes.h"
#include "tests/backends/support/on_threads.h"
#include "tests/backends/support/op_by_op_device.h"
#include "tests/support/sanitizers.h"

namespace runner::backends {
namespace {

using namespace std::chrono_literals;
using testing::errors_of;
using testing::on_processes;
using testing::on_threads;

template <class T>
constexpr DType kTypeOf = std::is_same_v<T, float>     ? DType::kF32
                          : std::is_same_v<T, double>  ? DType::kF64
                          : std::is_same_v<T, int32_t> ? DType::kI32
                                                       : DType::kI64;

// Values of a rank: a function of (seed, rank, index), of very different magnitudes, so that the order of a sum
// matters.
template <class T>
std::vector<T> values_of(int rank, size_t count, uint32_t seed = 1) {
  std::mt19937 random(seed * 1000 + static_cast<uint32_t>(rank));
  std::vector<T> values(count);
  for (T& value : values) {
    const auto draw = static_cast<int32_t>(random());
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(draw);
    } else {
      value = static_cast<T>(std::ldexp(static_cast<double>(draw), static_cast<int>(random() % 40) - 20));
    }
  }
  return values;
}

template <class T>
std::vector<T> folded(int size, size_t count, Reduction reduction, uint32_t seed = 1) {
  std::vector<T> result = values_of<T>(0, count, seed);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<T> next = values_of<T>(rank, count, seed);
    for (size_t i = 0; i < count; ++i) {
      if (reduction == Reduction::kMin) result[i] = std::min(result[i], next[i]);
      if (reduction == Reduction::kMax) result[i] = std::max(result[i], next[i]);
      if (reduction != Reduction::kSum) continue;
      if constexpr (std::is_integral_v<T>) {
        result[i] = static_cast<T>(static_cast<uint64_t>(result[i]) + static_cast<uint64_t>(next[i]));
      } else {
        result[i] += next[i];
      }
    }
  }
  return result;
}

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

template <class T>
TensorType type_of(const std::vector<T>& values) {
  return {kTypeOf<T>, Shape{static_cast<int64_t>(values.size())}};
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void check_reductions(int size, size_t count) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMin, Reduction::kMax}) {
    SCOPED_TRACE(
        fmt::format("{} ranks, {} of {} bytes, reduction {}", size, count, sizeof(T), static_cast<int>(reduction)));
    const std::vector<T> expected = folded<T>(size, count, reduction);
    std::atomic<int> good = 0;
    on_threads(size, [&](SharedMemoryGroup& ranks) {
      std::vector<T> values = values_of<T>(ranks.rank(), count);
      ranks.all_reduce(type_of(values), bytes_of(values), reduction, {"x"});
      good += same_bits(values, expected);
    });
    EXPECT_EQ(good, size);
  }
}

// Each rank folds 4096 floats by itself. 140,001 floats take three pieces, folded jointly, the last one incomplete.
TEST(ProcessGroup, ReduceLikeAPlainFold) {
  for (const int size : {1, 2, 3, 5, 8}) {
    for (const size_t count : {0u, 1u, 7u, 4096u, 4097u, 140'001u}) check_reductions<float>(size, count);
    for (const size_t count : {3u, 70'001u}) {
      check_reductions<double>(size, count);
      check_reductions<int32_t>(size, count);
      check_reductions<int64_t>(size, count);
    }
  }
}

TEST(ProcessGroup, PropagateNaNInEveryReduction) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMin, Reduction::kMax})
    for (int sick = 0; sick < 3; ++sick)
      on_threads(3, [&](SharedMemoryGroup& ranks) {
        std::vector<float> values{ranks.rank() == sick ? std::numeric_limits<float>::quiet_NaN() : 1.0f};
        ranks.all_reduce(type_of(values), bytes_of(values), reduction, {"x"});
        EXPECT_TRUE(std::isnan(values[0]));
      });
}

TEST(ProcessGroup, GatherInRankOrder) {
  for (const int size : {1, 2, 5})
    for (const size_t count : {0u, 3u, 150'000u})
      on_threads(size, [&](SharedMemoryGroup& ranks) {
        const std::vector<float> mine = values_of<float>(ranks.rank(), count);
        std::vector<float> all(count * static_cast<size_t>(size)), expected;
        ranks.all_gather(type_of(mine), std::as_bytes(std::span(mine)), bytes_of(all), {"x"});
        for (int rank = 0; rank < size; ++rank) {
          const std::vector<float> part = values_of<float>(rank, count);
          expected.insert(expected.end(), part.begin(), part.end());
        }
        EXPECT_TRUE(same_bits(all, expected)) << size << " " << count;
      });
}

TEST(ProcessGroup, BroadcastFromAnyRank) {
  for (int root = 0; root < 3; ++root)
    for (const size_t count : {1u, 70'000u})
      on_threads(3, [&](SharedMemoryGroup& ranks) {
        std::vector<float> values = values_of<float>(ranks.rank(), count);
        ranks.broadcast(type_of(values), bytes_of(values), root, {"x"});
        EXPECT_TRUE(same_bits(values, values_of<float>(root, count)));
      });
}

TEST(ProcessGroup, GatherObjectsOfAnyLength) {
  on_threads(4, [](SharedMemoryGroup& ranks) {
    const auto text = [](int rank) {
      return std::string(static_cast<size_t>(rank) * 200'000, static_cast<char>('a' + rank));
    };
    const std::vector<std::string> all = ranks.gather_objects(text(ranks.rank()), {"texts"});
    ASSERT_EQ(all.size(), 4u);
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(all[static_cast<size_t>(rank)], text(rank));
    EXPECT_EQ(ranks.gather_objects("", {"nothing"}), std::vector<std::string>(4));
  });
}

// Any sequence of calls, with small and large values, at different speeds: data that one rank reads must not yet be
// overwritten by another.
TEST(ProcessGroup, RunInAnySequence) {
  for (const bool spin : {true, false}) {
    std::atomic<int> wrong = 0;
    on_threads(3,
               [&](SharedMemoryGroup& ranks) {
                 std::mt19937 random(7), pace(static_cast<uint32_t>(ranks.rank()));
                 for (uint32_t call = 0; call < 300; ++call) {
                   const size_t count = random() % 3 == 0 ? random() % 180'000 : random() % 100;
                   const uint32_t kind = random() % 4;
                   if (pace() % 16 == 0) std::this_thread::yield();
                   std::vector<float> values = values_of<float>(ranks.rank(), count, call);
                   const int root = static_cast<int>(call % 3);
                   if (kind == 0) {
                     ranks.all_reduce(type_of(values), bytes_of(values), Reduction::kSum, {"x"});
                     wrong += !same_bits(values, folded<float>(3, count, Reduction::kSum, call));
                   } else if (kind == 1) {
                     ranks.broadcast(type_of(values), bytes_of(values), root, {"x"});
                     wrong += !same_bits(values, values_of<float>(root, count, call));
                   } else if (kind == 2) {
                     const std::string text(count, static_cast<char>('0' + call % 10));
                     wrong += ranks.gather_objects(text, {"x"}) != std::vector<std::string>(3, text);
                   } else if (call % 3 == 0) {
                     ranks.barrier({"x"});
                   } else {
                     wrong += ranks.any(call % 3 == 1 && ranks.rank() == root, {"x"}) != (call % 3 == 1);
                   }
                 }
               },
               {.spin = spin});
    EXPECT_EQ(wrong, 0);
  }
}

// ---- what goes wrong -----------------------------------------------------------------------------------------------

TEST(ProcessGroup, ReportMismatchedCalls) {
  const auto body = [](SharedMemoryGroup& ranks) {
    std::vector<float> values(6), all(18);
    if (ranks.rank() == 1) {
      ranks.all_gather(type_of(values), bytes_of(values), bytes_of(all), {"x", 3});
    } else {
      ranks.all_reduce({DType::kF32, Shape{2, 3}}, bytes_of(values), Reduction::kSum,
                       {"gradients", 3, {"h.lua", 7, 0}});
    }
  };
  const std::string expected =
      "ranks called different collectives: ranks 0 and 2 call all_reduce of gradients, (2, 3) f32, at step 3, h.lua:7; "
      "rank 1 calls all_gather of x, (6) f32, at step 3";
  EXPECT_EQ(errors_of(3, body), std::vector<std::string>(3, expected));
}

TEST(ProcessGroup, ReportMismatchedShapes) {
  const std::vector<std::string> errors = errors_of(3, [](SharedMemoryGroup& ranks) {
    std::vector<float> values(static_cast<size_t>(ranks.rank()) + 4);
    ranks.all_reduce(type_of(values), bytes_of(values), Reduction::kSum, {"loss", 1});
  });
  EXPECT_EQ(errors,
            std::vector<std::string>(
                3,
                "ranks called different collectives: rank 0 calls all_reduce of loss, (4) f32, at step 1; rank 1 calls "
                "all_reduce of loss, (5) f32, at step 1; rank 2 calls all_reduce of loss, (6) f32, at step 1"));
}

// The host of a device does so while the device reduces. Thread sanitizer checks for races between the two threads.
TEST(ProcessGroup, ReportFailuresToOtherThreadsOfARank) {
  SharedMemory memory(SharedMemoryGroup::memory_bytes(2));
  std::string of_call, of_host;
  on_threads(memory, 2, [&](SharedMemoryGroup& ranks) {
    if (ranks.rank() == 1) {
      while (ranks.newest_call(0).kind != CallKind::kAllReduce) std::this_thread::yield();
      EXPECT_NO_THROW(ranks.throw_failure());
      return ranks.fail("rank 1: no more", {});
    }
    std::thread device([&] {
      std::vector<float> values(8);
      try {
        ranks.all_reduce(type_of(values), bytes_of(values), Reduction::kSum, {"gradients", 3});
      } catch (const Error& error) {
        of_call = error.what();
      }
    });
    while (of_host.empty()) {
      try {
        ranks.throw_failure();
      } catch (const RankError& error) {
        of_host = error.what();
      }
    }
    device.join();
    EXPECT_EQ(ranks.newest_call(0).to_string(), "all_reduce of gradients, (8) f32, at step 3");
  });
  EXPECT_EQ(of_call, "rank 1: no more");
  EXPECT_EQ(of_host, "rank 1: no more");
}

TEST(ProcessGroup, FailOnAllRanksWhenOneFails) {
  for (const bool spin : {true, false}) {
    const std::vector<std::string> errors = errors_of(3,
                                                      [](SharedMemoryGroup& ranks) {
                                                        ranks.barrier({"start"});
                                                        if (ranks.rank() == 1)
                                                          return ranks.fail("rank 1: boom", {"h.lua", 3, 0});
                                                        ranks.barrier({"end"});
                                                      },
                                                      {.spin = spin});
    EXPECT_EQ(errors, (std::vector<std::string>{"h.lua:3: rank 1: boom", "no error", "h.lua:3: rank 1: boom"}));
  }
}

TEST(ProcessGroup, TimeOut) {
  const std::vector<std::string> errors =
      errors_of(2,
                [](SharedMemoryGroup& ranks) {
                  ranks.barrier({"start", 4});
                  if (ranks.rank() == 0) return;
                  std::vector<float> values(3);
                  ranks.all_reduce(type_of(values), bytes_of(values), Reduction::kSum, {"gradients", 5});
                },
                {.timeout = 1000ms});
  EXPECT_EQ(errors[1],
            "rank 0 did not reach all_reduce of gradients, (3) f32, at step 5 within 1 s (collective_timeout); it "
            "last called barrier of start, at step 4");
}

TEST(ProcessGroup, TimeOutBeforeTheFirstCall) {
  const std::vector<std::string> errors = errors_of(2,
                                                    [](SharedMemoryGroup& ranks) {
                                                      if (ranks.rank() == 0) ranks.barrier({"start", 4});
                                                    },
                                                    {.timeout = 1ms});
  EXPECT_EQ(errors[0],
            "rank 1 did not reach barrier of start, at step 4 within 1 ms (collective_timeout); it has called no "
            "collective yet");
}

TEST(ProcessGroup, SleepWhileWaiting) {
  on_threads(2,
             [](SharedMemoryGroup& ranks) {
               if (ranks.rank() == 1) std::this_thread::sleep_for(300ms);
               timespec before{}, after{};
               ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
               ranks.barrier({"x"});
               ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
               const double seconds = static_cast<double>(after.tv_sec - before.tv_sec) +
                                      static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
               EXPECT_LT(seconds, 0.1) << "CPU seconds while waiting 0.3 s";
             },
             {.spin = true});
}

// ---- devices -------------------------------------------------------------------------------------------------------

// x (1000) becomes its fold, in place; then 2 · x is reduced too, and another reduction has no reader.
Program two_reductions() {
  Program program;
  program.set_mark({"h.lua", 7, 1});
  const Value x{&program, program.input(InputKind::kState, "x", {DType::kF32, Shape{1000}})};
  const Value all = ops::all_reduce(x, Reduction::kSum, Subject::kGradients);
  const Value twice = ops::mul(all, 2.0);
  ops::all_reduce(ops::neg(twice), Reduction::kSum, Subject::kLoss);
  program.output("x", all.id, 0);
  program.output("y", ops::all_reduce(twice, Reduction::kMax, Subject::kLoss).id);
  return program;
}

// On a synchronous device and on one with a queue.
TEST(ProcessGroup, ReduceInsidePrograms) {
  const Program program = two_reductions();
  const std::vector<float> want = folded<float>(3, 1000, Reduction::kSum);
  on_threads(3, [&](SharedMemoryGroup& ranks) {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(make_cpu_device(1));
    devices.push_back(std::make_unique<testing::OpByOpDevice>());
    for (const auto& device : devices) {
      std::vector<float> values = values_of<float>(ranks.rank(), 1000);
      const std::shared_ptr<Buffer> buffer = device->allocate(values.size() * sizeof(float));
      device->write(*buffer, 0, bytes_of(values));
      Buffer* const states[] = {buffer.get()};
      Exchange exchange(ranks);
      exchange.begin(1, /*again=*/false);
      const std::shared_ptr<Executable> executable = device->compile(program);
      device->wait(device->submit(*executable, {.states = states, .batch = {}, .scalars = {}, .exchange = &exchange}));
      device->read(*buffer, 0, bytes_of(values));
      EXPECT_TRUE(same_bits(values, want));
      device->read_output(*executable, 1, bytes_of(values));
      for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 2 * want[i]);
    }
  });
}

// One rank runs a part ahead, and has then already done its reduction.
TEST(ProcessGroup, RunOncePerRecording) {
  on_threads(3, [](SharedMemoryGroup& ranks) {
    const std::vector<float> want = folded<float>(3, 10, Reduction::kSum);
    const auto reduce = [&](Exchange& exchange) {
      std::vector<float> values = values_of<float>(ranks.rank(), 10);
      exchange.all_reduce(type_of(values), bytes_of(values), Reduction::kSum, "gradients", {});
      EXPECT_TRUE(same_bits(values, want));
    };
    Exchange exchange(ranks);
    for (int64_t step = 1; step <= 2; ++step) {
      for (int part = 0; ranks.rank() == 1 && part < 2; ++part) {
        exchange.begin(step, /*again=*/true);
        reduce(exchange);
      }
      exchange.begin(step, /*again=*/false);
      reduce(exchange);
      reduce(exchange);
    }
  });
}

TEST(ProcessGroup, ReportTheLineOfTheNode) {
  const Program program = two_reductions();
  const std::vector<std::string> errors = errors_of(2, [&](SharedMemoryGroup& ranks) {
    if (ranks.rank() == 1) return ranks.barrier({"the end", 4});
    const auto device = make_cpu_device(1);
    const std::shared_ptr<Buffer> buffer = device->allocate(4000);
    Buffer* const states[] = {buffer.get()};
    Exchange exchange(ranks);
    exchange.begin(4, /*again=*/false);
    device->submit(*device->compile(program), {.states = states, .batch = {}, .scalars = {}, .exchange = &exchange});
  });
  const std::string text =
      "h.lua:7:1: ranks called different collectives: rank 0 calls all_reduce of gradients, (1000) f32, at step 4, "
      "h.lua:7:1; rank 1 calls barrier of the end, at step 4";
  EXPECT_EQ(errors[0], text);
}

// ---- processes -----------------------------------------------------------------------------------------------------

TEST(ProcessGroup, RunBetweenProcesses) {
  on_processes(4, [](SharedMemoryGroup& ranks, SharedMemory&) {
    for (uint32_t round = 0; round < 20; ++round) {
      std::vector<float> values = values_of<float>(ranks.rank(), 50'000, round);
      ranks.all_reduce(type_of(values), bytes_of(values), Reduction::kSum, {"x"});
      if (!same_bits(values, folded<float>(ranks.size(), values.size(), Reduction::kSum, round))) return false;
    }
    return true;
  });
}

// x (2²⁰) · 2 is computed by all threads, then reduced.
Program reduction_after_parallel_work() {
  Program program;
  const Value x{&program, program.input(InputKind::kState, "x", {DType::kF32, Shape{1 << 20}})};
  program.output("x", ops::all_reduce(ops::mul(x, 2.0), Reduction::kSum, Subject::kGradients).id, 0);
  return program;
}

double cpu_seconds_of_process() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The threads of the device sleep too.
TEST(ProcessGroup, SleepWhileProgramsWait) {
  if (support::kSanitized) GTEST_SKIP() << "a forked process cannot start threads under a sanitizer";
  on_processes(2, [](SharedMemoryGroup& ranks, SharedMemory&) {
    const auto device = make_cpu_device(4);
    const std::shared_ptr<Buffer> buffer = device->allocate(sizeof(float) << 20);
    const std::shared_ptr<Executable> executable = device->compile(reduction_after_parallel_work());
    Buffer* const states[] = {buffer.get()};
    Exchange exchange(ranks);
    exchange.begin(1, /*again=*/false);
    const double before = cpu_seconds_of_process();
    if (ranks.rank() == 1) std::this_thread::sleep_for(1s);
    device->submit(*executable, {.states = states, .batch = {}, .scalars = {}, .exchange = &exchange});
    const double used = cpu_seconds_of_process() - before;
    EXPECT_LT(used, 0.5) << "CPU seconds while waiting one second";
    return used < 0.5;
  });
}

// A string whose second half is unreadable: the rank that reports it dies half-way.
std::string_view deadly_text() {
  const size_t page = SharedMemory::page_bytes();
  void* const pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const text = static_cast<char*>(pages);
  std::memset(text, 'x', page);
  ::mprotect(text + page, page, PROT_NONE);
  return {text + page - 1000, 2000};
}

TEST(ProcessGroup, FailWhenARankDiesWhileReportingFailure) {
  SharedMemory memory(SharedMemoryGroup::memory_bytes(2));
  const pid_t child = ::fork();
  if (child == 0) {
    SharedMemoryGroup(memory, 1, 2, {}).fail(deadly_text(), {});
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_NE(status, 0) << "the process was expected to die";
  SharedMemoryGroup ranks(memory, 0, 2, {.timeout = 1000ms});
  ranks.fail("rank 1 has died", {"h.lua", 3, 0});
  try {
    ranks.barrier({"end"});
    ADD_FAILURE() << "no rank reached the barrier";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "h.lua:3: rank 1 has died");
  }
}

}  // namespace
}  // namespace runner::backends
