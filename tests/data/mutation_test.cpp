// Fuzzes files of every format with thousands of random edits. Each file must give data or throw Error(kData), without
// a crash, a leak or a large allocation. Seeds are fixed; a failure prints the round.
#include <functional>
#include <random>

#include "runner/data/data_format.h"
#include "runner/data/load.h"
#include "tests/data/files.h"
#include "tests/support/allocations.h"

namespace runner::data {
namespace {

using schema::DataFormat;
using schema::DatasetSpec;

class MutationTest : public FileTest {
 protected:
  // Calls `read` with the path of each of `rounds` edited copies of `file`.
  void mutate(const std::string& name, const std::string& file, int rounds,
              const std::function<void(const std::string&)>& read) {
    std::mt19937 random(2024);
    const auto below = [&](size_t bound) { return random() % bound; };
    support::take_largest_allocation();
    int read_fine = 0, refused = 0;
    for (int round = 0; round < rounds; ++round) {
      std::string bytes = file;
      for (size_t edits = 1 + below(4); edits-- > 0 && !bytes.empty();) {
        const size_t at = below(bytes.size());
        switch (below(6)) {
          case 0: bytes[at] = static_cast<char>(random()); break;
          case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
          case 2: bytes.resize(at); break;
          case 3: bytes.erase(at, 1 + below(8)); break;
          case 4: bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(16))); break;
          case 5: bytes[at] = std::string("\xff\x00\"\n,9[{}-.e", 12)[below(12)]; break;
        }
      }
      const std::string path = write(name, bytes);
      try {
        read(path);
        ++read_fine;
      } catch (const Error& error) {
        ++refused;
        ASSERT_EQ(error.kind(), ErrorKind::kData) << "round " << round << ": " << error.what();
        ASSERT_NE(error.message().find(name), std::string::npos) << "round " << round << ": " << error.what();
      } catch (const std::exception& error) {
        FAIL() << "round " << round << ": " << error.what();
      }
    }
    EXPECT_LT(support::take_largest_allocation(), 4u << 20);
    EXPECT_GT(refused, rounds / 20);
    EXPECT_EQ(read_fine + refused, rounds);
  }

  void mutate_section(const std::string& name, const std::string& file, int rounds, DatasetSpec spec) {
    mutate(name, file, rounds, [&](const std::string& path) {
      const std::span<const Source> sources = definition_of(spec.format).sources;
      sources.front().path_in(spec) = path;
      schema::DataSpec data;
      data.train = spec;
      data.normalize = schema::Normalize::kStandard;
      const Data loaded = load(data, 0);
      std::vector<float> sample(static_cast<size_t>(loaded.train.feature_shape().elements()));
      loaded.train.gather_features(std::vector<int64_t>{loaded.train.size() - 1}, sample);
    });
  }
};

const char* const kCsv =
    "x,\"y, z\",label\n1.5,2,cat\r\n-3e2,\"4\",\"a \"\"dog\"\"\"\n0.25,,cat\n7,8,\"two\nlines\"\n9.125,10,bee\n";

TEST_F(MutationTest, Csv) {
  DatasetSpec spec;
  spec.missing = schema::Missing::kDrop;
  mutate_section("m.csv", kCsv, 4000, spec);
  mutate_section("m.csv.gz", gzip(kCsv), 2000, spec);
  mutate_section("m.csv", "a,b,c\n1,2,3\n4,5,6\n7,8,9\n", 2000, {});
}

TEST_F(MutationTest, Idx) {
  const std::string features = std::string("\0\0\x0d\x03\0\0\0\x03\0\0\0\x02\0\0\0\x02", 16) + std::string(48, '?');
  const std::string labels = std::string("\0\0\x08\x01\0\0\0\x03", 8) + "\1\2\3";
  DatasetSpec spec;
  spec.format = DataFormat::kIdx;
  spec.labels_file = write("l", labels);
  mutate_section("m.idx", features, 3000, spec);
  mutate_section("m.idx.gz", gzip(features), 2000, spec);
}

TEST_F(MutationTest, Npy) {
  const std::string dict = "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }\n";
  const std::string features =
      "\x93NUMPY" + std::string{1, 0, static_cast<char>(dict.size()), 0} + dict + std::string(24, '?');
  const std::string label_dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n";
  DatasetSpec spec;
  spec.format = DataFormat::kNpy;
  spec.labels_file =
      write("l", "\x93NUMPY" + std::string{1, 0, static_cast<char>(label_dict.size()), 0} + label_dict + "abc");
  mutate_section("m.npy", features, 4000, spec);
}

TEST_F(MutationTest, Safetensors) {
  const std::string header =
      "{\"features\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
      "\"labels\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[24,27]}}";
  const std::string file =
      std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} + header + std::string(24, '?') + "abc";
  DatasetSpec spec;
  spec.format = DataFormat::kSafetensors;
  mutate_section("m.safetensors", file, 4000, spec);
}

}  // namespace
}  // namespace runner::data
