// npy headers as NumPy reads and writes them. tests/data/array_test.cpp covers damaged files.
#include "runner/formats/npy.h"

#include "tests/formats/files.h"

namespace runner::formats {
namespace {

using NpyTest = FileTest;
using Dims = std::vector<int64_t>;

TEST_F(NpyTest, WritesTheSameAsNumPy) {
  const auto numpys = [](const std::string& dict) {
    return std::string("\x93NUMPY\1\0v\0", 10) + dict + std::string(117 - dict.size(), ' ') + "\n";
  };
  EXPECT_EQ(npy_header("<f4", Dims{2, 3}), numpys("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
  EXPECT_EQ(npy_header("|u1", Dims{5}), numpys("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }"));
  EXPECT_EQ(npy_header("<f4", Dims{0, 1}), numpys("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1), }"));
}

TEST_F(NpyTest, RoundTrip) {
  for (const Dims& shape : {Dims{}, Dims{7}, Dims{2, 3}, Dims(8, 1'234'567'890)}) {
    const std::string header = npy_header("<f8", shape);
    EXPECT_EQ(header.size() % 64, 0u);
    InputFile input(write("a.npy", header + "rest"));
    const NpyHeader read = read_npy_header(input);
    EXPECT_EQ(read.descr, "<f8");
    EXPECT_FALSE(read.fortran_order);
    EXPECT_EQ(read.shape, shape);
    EXPECT_EQ(input.most_left(), 4);
  }
}

TEST_F(NpyTest, ReadsKeysInAnyOrderAndEitherQuotes) {
  InputFile input(write("a.npy", npy("{\"shape\": (3, 2), 'fortran_order': True,'descr':\"<f4\"}", "")));
  const NpyHeader read = read_npy_header(input);
  EXPECT_EQ(read.descr, "<f4");
  EXPECT_TRUE(read.fortran_order);
  EXPECT_EQ(read.shape, (Dims{3, 2}));
}

}  // namespace
}  // namespace runner::formats
