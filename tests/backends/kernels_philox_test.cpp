#include <gtest/gtest.h>

#include "backends/kernels/philox.h"

namespace runner::backends {
namespace {

// Known answers published with the Random123 library for philox4x32-10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DropoutDependsOnEveryPartOfItsKey) {
  const auto draw = [](uint64_t seed, uint64_t epoch, uint64_t sample, uint32_t layer) {
    return DropoutStream(seed, epoch, sample, layer).block(0);
  };
  const PhiloxCounter base = draw(1, 2, 3, 4);
  EXPECT_EQ(base, draw(1, 2, 3, 4));
  EXPECT_NE(base, draw(2, 2, 3, 4));
  EXPECT_NE(base, draw(1 | 1ull << 40, 2, 3, 4));
  EXPECT_NE(base, draw(1, 3, 3, 4));
  EXPECT_NE(base, draw(1, 2 | 1ull << 40, 3, 4));
  EXPECT_NE(base, draw(1, 2, 2, 4));
  EXPECT_NE(base, draw(1, 2, 3 | 1ull << 40, 4));
  EXPECT_NE(base, draw(1, 2, 3, 5));
  EXPECT_NE(base, DropoutStream(1, 2, 3, 4).block(1));
}

}  // namespace
}  // namespace runner::backends
