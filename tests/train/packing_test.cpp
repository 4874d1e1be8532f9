// Texts and numbers that ranks exchange: their bytes, and rejection of incomplete data.
#include "runner/train/step/packing.h"

#include <limits>

#include <gtest/gtest.h>

#include "tests/support/thrown_text.h"

namespace runner::train {
namespace {

const std::string kSizeOfTwo("\x02\0\0\0\0\0\0\0", 8);      // little-endian, 64 bits
const std::string kOneAndAHalf("\0\0\0\0\0\0\xF8\x3F", 8);  // IEEE 754, little-endian

TEST(Packing, WritesSizesAndNumbersInEightBytes) {
  std::string packed;
  append(packed, "ab");
  append_number(packed, 1.5);
  EXPECT_EQ(packed, kSizeOfTwo + "ab" + kOneAndAHalf);
}

TEST(Packing, TakesWhatWasAppendedInOrder) {
  const std::string binary("\0\xFF\n", 3);
  std::string packed;
  append(packed, binary);
  append_number(packed, -std::numeric_limits<double>::infinity());
  append(packed, "");
  append(packed, "last");
  std::string_view rest = packed;
  EXPECT_EQ(take(rest), binary);
  EXPECT_EQ(take_number(rest), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(take(rest), "");
  EXPECT_EQ(take(rest), "last");
  EXPECT_TRUE(rest.empty());
}

TEST(Packing, RejectsIncompleteData) {
  const std::string text = kSizeOfTwo + "ab";
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_EQ(support::thrown_text(
                  [&] {
                    std::string_view rest = std::string_view(text).substr(0, size);
                    take(rest);
                  },
                  ErrorKind::kRun),
              "received unexpected data from another rank")
        << size;
  for (size_t size = 0; size < kOneAndAHalf.size(); ++size)
    EXPECT_EQ(support::thrown_text(
                  [&] {
                    std::string_view rest = std::string_view(kOneAndAHalf).substr(0, size);
                    take_number(rest);
                  },
                  ErrorKind::kRun),
              "received unexpected data from another rank")
        << size;
}

// A size near 2^64 must not wrap around.
TEST(Packing, RejectsASizeBeyondTheData) {
  const std::string text = std::string(8, '\xFF') + "ab";
  EXPECT_EQ(support::thrown_text([&] {
              std::string_view rest = text;
              take(rest);
            }),
            "received unexpected data from another rank");
}

}  // namespace
}  // namespace runner::train
