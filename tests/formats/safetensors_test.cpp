// Files written byte by byte and damaged in every possible way, and the output of the writer.
#include "runner/formats/safetensors.h"

#include "runner/formats/input_file.h"
#include "tests/formats/files.h"
#include "tests/support/bytes.h"

namespace runner::formats {
namespace {

using SafetensorsTest = FileTest;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

TEST_F(SafetensorsTest, ReportsDamagedFiles) {
  const auto st_error = [&](const std::string& file) {
    return message_of([&] { SafetensorsFile tensors(write("f", file)); });
  };
  const std::string four = bytes_of(Floats{1});
  const auto header_error = [&](const std::string& header) { return st_error(safetensors(header, four)); };
  EXPECT_EQ(st_error("1234567"), "f: the file is too short for safetensors: expected at least 8 bytes, got 7");
  EXPECT_EQ(st_error(bytes_of(std::vector<uint64_t>{uint64_t{1} << 60}) + "{}"),
            "f: not a safetensors file, or cut off: its header would be longer than the file");
  EXPECT_EQ(st_error("PK\3\4 0123456789"),
            "f: not a safetensors file, but a zip archive, as torch.save writes; save the tensors with "
            "safetensors.torch.save_file");
  st_error(bytes_of(std::vector<uint64_t>{100'000'001}));
  std::filesystem::resize_file(path("f"), 100'000'009);  // a sparse file, which takes no disk space
  EXPECT_EQ(message_of([&] { SafetensorsFile tensors(path("f")); }),
            "f: the safetensors header has more than 100000000 bytes");
  EXPECT_EQ(header_error("nonsense"),
            "f: the safetensors header is not a JSON object, or is nested too deep: 'nonsense'");
  EXPECT_EQ(header_error("[1]"), "f: the safetensors header is not a JSON object, or is nested too deep: '[1]'");
  EXPECT_EQ(header_error("{}"), "f: the data has a gap or overlap at byte 0 after the header");
  EXPECT_EQ(header_error("{\"w\":1}"), "f: tensor 'w': dtype, shape or data_offsets is missing");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "U16", "[1]", "[0,4]") + "}"),
            "f: tensor 'w': shape [1] of U16 needs 2 bytes, data_offsets [0,4] span 4");
  EXPECT_EQ(header_error(R"({"w":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})"),
            "f: tensor 'w': dtype is 7, expected a text");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "7", "[0,4]") + "}"), "f: tensor 'w': shape is not a list");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "[-1]", "[0,4]") + "}"),
            "f: tensor 'w': expected integers of at least 0 in shape");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "[18446744073709551615]", "[0,4]") + "}"),
            "f: tensor 'w': expected integers of at least 0 in shape");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "[1]", "[0]") + "}"),
            "f: tensor 'w': data_offsets is not a pair");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "[1]", "[0,8]") + "}"),
            "f: tensor 'w': data_offsets [0,8] are outside the 4 bytes of data");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "[1]", "[4,0]") + "}"),
            "f: tensor 'w': data_offsets [4,0] are outside the 4 bytes of data");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "[2]", "[0,4]") + "}"),
            "f: tensor 'w': shape [2] of F32 needs 8 bytes, data_offsets [0,4] span 4");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "[4611686018427387904,4611686018427387904]", "[0,4]") + "}"),
            "f: tensor 'w': shape [4611686018427387904,4611686018427387904] of F32 needs 9223372036854775807 bytes, "
            "data_offsets [0,4] span 4");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") + "}"),
            "f: tensor 'w': expected at most 8 axes, got 9");
  EXPECT_EQ(
      st_error(safetensors(
          "{" + tensor_entry("a", "F32", "[1]", "[0,4]") + "," + tensor_entry("b", "F32", "[1]", "[0,4]") + "}", four)),
      "f: the data has a gap or overlap at byte 4 after the header");
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "[0]", "[2,2]") + "," +
                         tensor_entry("x", "F32", "[1]", "[0,4]") + "}"),
            "f: the data has a gap or overlap at byte 4 after the header");
  const std::string deep(100000, '[');
  EXPECT_TRUE(header_error("{" + tensor_entry("w", "F32", deep + std::string(deep.size(), ']'), "[0,4]") + "}")
                  .starts_with("f: the safetensors header is not a JSON object, or is nested too deep"));
  EXPECT_EQ(header_error("{" + tensor_entry("w", "F32", "[1]", "[0,4]") + "," +
                         tensor_entry("w", "F32", "[1]", "[0,4]") + "}"),
            "f: the header lists tensor 'w' twice");
}

TEST_F(SafetensorsTest, RoundTrip) {
  using backends::DType;
  const std::string f = bytes_of(Floats{1, 2, 3, 4, 5, 6}), h = bytes_of(std::vector<uint16_t>{1, 2, 3}),
                    i = bytes_of(Ints{7}), none;
  const std::string file = path("w.safetensors");
  write_safetensors(file, {{"2.weight", DType::kF32, {2, 3}, support::bytes_of(f)},
                           {"0.half", DType::kBf16, {3}, support::bytes_of(h)},
                           {"scalar", DType::kI64, {}, support::bytes_of(i)},
                           {"empty", DType::kF32, {0, 4}, support::bytes_of(none)}});
  const SafetensorsFile read(file);
  ASSERT_EQ(read.tensors().size(), 4u);
  const auto text = [](const NamedTensor& t) { return fmt::format("{} {} {}", t.name, t.type, t.shape.to_string()); };
  EXPECT_EQ(text(read.tensors()[0]), "0.half BF16 (3)");
  EXPECT_EQ(text(read.tensors()[1]), "2.weight F32 (2, 3)");
  EXPECT_EQ(text(read.tensors()[2]), "empty F32 (0, 4)");
  EXPECT_EQ(text(read.tensors()[3]), "scalar I64 ()");
  const NamedTensor* weight = read.find("2.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(support::text_of(weight->bytes), f);
  EXPECT_EQ(read.find("absent"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(file + ".tmp"));
}

TEST_F(SafetensorsTest, OtherTypesAreReadByNameAndDoNotHinderTheOthers) {
  const std::string header = "{" + tensor_entry("a", "F8_E4M3", "[3]", "[0,3]") + "," +
                             tensor_entry("b", "NEW_7", "[5]", "[3,4]") + "," +
                             tensor_entry("c", "U16", "[1]", "[4,6]") + "}";
  const SafetensorsFile read(write("f", safetensors(header, "abcdef")));
  ASSERT_EQ(read.tensors().size(), 3u);
  for (const NamedTensor& tensor : read.tensors()) EXPECT_FALSE(tensor.dtype) << tensor.name;
  EXPECT_EQ(read.find("b")->type, "NEW_7");
  EXPECT_EQ(tensor_names_text(read.tensors()), "it has 'a', 'b', 'c'");
}

TEST_F(SafetensorsTest, OutputIsDeterministic) {
  using backends::DType;
  const std::string a = bytes_of(Floats{1}), b = bytes_of(Floats{2});
  const auto contents = [&](const char* name) {
    std::string bytes;
    InputFile input(path(name));
    bytes.resize(static_cast<size_t>(input.most_left()));
    input.read_exactly(std::as_writable_bytes(std::span(bytes)), "all");
    return bytes;
  };
  write_safetensors(path("1"),
                    {{"a", DType::kF32, {1}, support::bytes_of(a)}, {"b", DType::kF32, {1}, support::bytes_of(b)}});
  write_safetensors(path("2"),
                    {{"b", DType::kF32, {1}, support::bytes_of(b)}, {"a", DType::kF32, {1}, support::bytes_of(a)}});
  EXPECT_EQ(contents("1"), contents("2"));
  const std::string header =
      "{\"a\":{\"data_offsets\":[0,4],\"dtype\":\"F32\",\"shape\":[1]},"
      "\"b\":{\"data_offsets\":[4,8],\"dtype\":\"F32\",\"shape\":[1]}}";
  EXPECT_EQ(contents("1"), safetensors(header + std::string(8 - header.size() % 8, ' '), a + b));
}

TEST_F(SafetensorsTest, ReportsAFileThatCannotBeWritten) {
  EXPECT_EQ(message_of([&] { write_safetensors(path("no/folder"), {}); }),
            "cannot write no/folder: No such file or directory");
}

}  // namespace
}  // namespace runner::formats
