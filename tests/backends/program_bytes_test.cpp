// Serialisation of Programs and plans: round trips, and rejection of anything else.
#include "backends/ir/program_bytes.h"

#include <random>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/print.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/random_program.h"

namespace runner::backends::testing {
namespace {

std::vector<std::byte> bytes_of_program(const Program& program) {
  ByteWriter to;
  write_program(to, program);
  return to.take();
}

Program program_of_bytes(std::span<const std::byte> bytes, const Program& lines_of) {
  ByteReader from(bytes);
  Program program = read_program(from, lines_of);
  from.end();
  return program;
}

void expect_round_trip(const Program& program) {
  const std::vector<std::byte> bytes = bytes_of_program(program);
  const Program read = program_of_bytes(bytes, program);
  EXPECT_TRUE(read.same_structure(program));
  EXPECT_EQ(to_string(read), to_string(program));
  EXPECT_EQ(bytes_of_program(read), bytes);
  for (ValueId id = 0; id < program.size(); ++id)
    ASSERT_EQ(read.mark_of(id).to_string(), program.mark_of(id).to_string());
}

TEST(ProgramBytes, RoundTrip) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const RandomProgram random(seed, 40);
    expect_round_trip(random.program);
    expect_round_trip(legalise(optimise(random.program)));
  }
  expect_round_trip(GptStep({}).program());
  expect_round_trip(MlpStep({.batch = 6, .widths = {5, 4, 3}, .layer_norm = true, .dropout = 0.2}).program());
  expect_round_trip({});
}

TEST(ProgramBytes, AnyPrefixIsRefused) {
  const Program program = RandomProgram(7, 20).program;
  const std::vector<std::byte> bytes = bytes_of_program(program);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(program_of_bytes(std::span(bytes).first(size), program), Error) << size;
}

// Reading damaged bytes gives a well-formed Program or an error.
TEST(ProgramBytes, DamagedBytesAreRefusedOrWellFormed) {
  std::mt19937 random(3);
  int refused = 0;
  constexpr int kRounds = 4000;
  for (int round = 0; round < kRounds; ++round) {
    const Program program = RandomProgram(static_cast<uint32_t>(round % 20), 15).program;
    std::vector<std::byte> bytes = bytes_of_program(program);
    bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    try {
      const Program read = program_of_bytes(bytes, program);
      EXPECT_EQ(verify(read), "");
      EXPECT_EQ(bytes_of_program(read), bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      ++refused;
    }
  }
  EXPECT_GT(refused, kRounds / 2);
}

TEST(ProgramBytes, NumbersHaveAUniqueEncoding) {
  ByteWriter to;
  const int64_t integers[] = {0, 1, -1, 63, -64, 64, INT64_MAX, INT64_MIN};
  for (const int64_t value : integers) to.integer(value);
  ByteReader from(to.written());
  for (const int64_t value : integers) EXPECT_EQ(from.integer(), value);
  from.end();
  for (const std::initializer_list<int> wrong :
       {std::initializer_list<int>{0x80, 0x00}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, {0x80}}) {
    std::vector<std::byte> bytes;
    for (const int byte : wrong) bytes.push_back(static_cast<std::byte>(byte));
    EXPECT_THROW(ByteReader(bytes).number(), Error);
  }
}

// A restored plan computes the same as the plan that the image was made from.
TEST(PlanImages, RestoreEquivalentPlans) {
  const auto device = make_cpu_device(1);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const RandomProgram random(seed, 30);
    Plan plan = build_plan(random.program);
    const Plan restored = restore_plan({plan.program, plan.offsets});
    EXPECT_EQ(to_string(restored), to_string(plan)) << seed;
    EXPECT_EQ(restored.arena_bytes, plan.arena_bytes);
  }
  const Program program = RandomProgram(1, 30).program;
  Plan plan = build_plan(program);
  plan.offsets.push_back(0);
  EXPECT_THROW(restore_plan({plan.program, plan.offsets}), Error);
}

// Against a loop over all pairs.
TEST(PlanImages, OffsetsThatOverlapAreRefused) {
  std::mt19937 random(5);
  int taken = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<ArenaBlock> blocks(1 + random() % 6);
    for (ArenaBlock& block : blocks) {
      block.bytes = random() % 4 * 64;
      block.first = static_cast<int>(random() % 5);
      block.last = block.first + static_cast<int>(random() % 3);
    }
    std::vector<size_t> offsets;
    size_t all = 0;
    for (const ArenaBlock& block : blocks) all += block.bytes;
    bool good = true;
    for (const ArenaBlock& block : blocks) {
      offsets.push_back(random() % 7 * 64);
      good &= offsets.back() + block.bytes <= all;
    }
    for (size_t i = 0; i < blocks.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
        const bool over = offsets[i] < offsets[j] + blocks[j].bytes && offsets[j] < offsets[i] + blocks[i].bytes &&
                          blocks[i].bytes > 0 && blocks[j].bytes > 0;
        good &= !(together && over);
      }
    bool accepted = true;
    try {
      set_offsets(blocks, offsets);
    } catch (const Error&) {
      accepted = false;
    }
    ASSERT_EQ(accepted, good) << round;
    (good ? taken : refused)++;
  }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 100);
  std::vector<ArenaBlock> block{{.bytes = 64, .first = 0, .last = 0}};
  EXPECT_THROW(set_offsets(block, std::vector<size_t>{32}), Error) << "not aligned";
}

}  // namespace
}  // namespace runner::backends::testing
