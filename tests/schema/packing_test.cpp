// Values that another process of the program reads.
#include "schema/base/packing.h"

#include <gtest/gtest.h>

#include "tests/support/thrown_text.h"

namespace runner {
namespace {

class Closed {
 public:
  explicit Closed(int value) : value_(value) {}
  bool operator==(const Closed&) const = default;

 private:
  friend class runner::PartsAccess;
  Closed() = default;
  static auto parts(auto& self) { return std::tie(self.value_); }
  int value_ = 0;
};

struct Record {
  std::string name;
  std::vector<std::string> names;
  std::optional<std::string> absent, present;
  std::optional<int64_t> number;
  std::unordered_map<int64_t, int64_t> counts;
  LargeArray<double> values;
  LargeArray<uint8_t> bytes, none;
  std::vector<Closed> closed;

  static auto parts(auto& self) {
    return std::tie(self.name, self.names, self.absent, self.present, self.number, self.counts, self.values, self.bytes,
                    self.none, self.closed);
  }
  bool operator==(const Record&) const = default;
};

Record example() {
  return {.name = std::string("a\0b", 3),
          .names = {"x", "", "yz"},
          .absent = {},
          .present = "here",
          .number = -7,
          .counts = {{3, 4}, {-5, 6}},
          .values = {1.5, -2, 3},
          .bytes = {1, 2, 3, 4, 5},
          .none = {},
          .closed = {Closed(8), Closed(9)}};
}

std::shared_ptr<std::byte> arrays_of(const Packer& packer) {
  std::shared_ptr<std::byte> memory(new std::byte[packer.array_bytes()], std::default_delete<std::byte[]>());
  packer.move_arrays({memory.get(), packer.array_bytes()});
  return memory;
}

TEST(Packing, ReadsWhatWasWritten) {
  const Record record = example();
  Packer packer;
  packer.write(record);
  packer.write(42);
  Unpacker unpacker(packer.bytes(), {arrays_of(packer), packer.array_bytes()});
  EXPECT_EQ(unpacker.read<Record>(), example());
  EXPECT_EQ(unpacker.read<int>(), 42);
}

TEST(Packing, ArraysStayInTheGivenMemory) {
  const Record record = example();
  Packer packer;
  packer.write(record);
  std::shared_ptr<std::byte> memory = arrays_of(packer);
  const std::byte* const start = memory.get();
  auto read = std::make_optional(Unpacker(packer.bytes(), {memory, packer.array_bytes()}).read<Record>());
  EXPECT_EQ(reinterpret_cast<const std::byte*>(read->values.data()), start);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(read->bytes.data()), start + 64);
  memory.reset();  // the arrays keep it
  Record copy = *read, moved = std::move(*read);
  read.reset();
  EXPECT_EQ(reinterpret_cast<const std::byte*>(moved.values.data()), start);
  EXPECT_NE(reinterpret_cast<const std::byte*>(copy.values.data()), start);
  EXPECT_EQ(moved, example());
  copy.values.push_back(4);  // a copy may grow
  EXPECT_EQ(copy.values, (LargeArray<double>{1.5, -2, 3, 4}));
}

// Of several pages, neither whole nor aligned.
TEST(Packing, LargeArraysAreMoved) {
  std::vector<LargeArray<uint8_t>> arrays;
  for (const size_t size : {size_t{3}, size_t{40'000'001}, size_t{5000}}) {
    LargeArray<uint8_t>& array = arrays.emplace_back(size);
    for (size_t i = 0; i < size; ++i) array[i] = static_cast<uint8_t>(i * 7 + size);
  }
  const std::vector<LargeArray<uint8_t>> expected = arrays;
  Packer packer;
  packer.write(arrays);
  Unpacker unpacker(packer.bytes(), {arrays_of(packer), packer.array_bytes()});
  EXPECT_TRUE(unpacker.read<std::vector<LargeArray<uint8_t>>>() == expected);
}

TEST(Packing, RejectsArraysThatAreMissing) {
  Packer packer;
  const LargeArray<float> array{1, 2};
  packer.write(array);
  EXPECT_EQ(support::thrown_text([&] { Unpacker(packer.bytes()).read<LargeArray<float>>(); }, ErrorKind::kRun),
            "received unexpected data from another rank");
  EXPECT_EQ(support::thrown_text([&] { unpack<int>(pack(int64_t{7})); }, ErrorKind::kRun),
            "received unexpected data from another rank");
}

TEST(Packing, RejectsTextThatEndsEarly) {
  Packer packer;
  packer.write(std::string("abc"));
  for (size_t size = 0; size < packer.bytes().size(); ++size)
    EXPECT_EQ(
        support::thrown_text([&] { Unpacker(packer.bytes().substr(0, size)).read<std::string>(); }, ErrorKind::kRun),
        "received unexpected data from another rank")
        << size;
}

}  // namespace
}  // namespace runner
