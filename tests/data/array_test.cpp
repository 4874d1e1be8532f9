// IDX, npy and safetensors: files written byte by byte, and damaged in every possible way.
#include "runner/data/array.h"

#include <array>
#include <limits>

#include "backends/tensor/float16.h"
#include "tests/data/files.h"

namespace runner::data {
namespace {

using schema::DataFormat;
using schema::DatasetSpec;
using Bytes = LargeArray<uint8_t>;
using Dims = std::vector<uint32_t>;
using Floats = LargeArray<float>;
using Ints = LargeArray<int64_t>;
using formats::npy;
using formats::safetensors;
using formats::tensor_entry;

std::string idx(uint8_t type, const Dims& dims, const std::string& elements) {
  std::string file = {0, 0, static_cast<char>(type), static_cast<char>(dims.size())};
  return file + bytes_of(dims, true) + elements;
}

std::string dict(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape +
         ", }\n";
}

class ArrayTest : public FileTest {
 protected:
  Storage read(DataFormat format, const std::string& features, const std::string& labels,
               const ReadOptions& options = {}, std::optional<double> scale = {}) {
    DatasetSpec spec = file_spec(format, write("f", features), labels.empty() ? "" : write("l", labels));
    spec.path = spec.features_file;
    spec.scale = scale;
    return definition_of(format).read(spec, options);
  }

  std::string error(DataFormat format, const std::string& features, const std::string& labels = "",
                    const ReadOptions& options = {}) {
    const std::string some = labels.empty() && format == DataFormat::kIdx   ? idx(8, {1}, std::string(1, 0))
                             : labels.empty() && format == DataFormat::kNpy ? npy(dict("|u1", "(1,)"), "\1")
                                                                            : labels;
    return message_of([&] { read(format, features, some, options); });
  }
};

// Ids, a mask of floats and segments of bytes; labels of samples, of tokens, and tokens.
class NamedInputsTest : public ArrayTest {
 protected:
  Storage read_inputs(const std::string& ids, const std::string& mask, const std::string& labels,
                      LabelsAs as = LabelsAs::kAuto) {
    return definition_of(DataFormat::kNpy).read(inputs(ids, mask, labels), {.labels = as});
  }
  // Without labels if they are empty.
  DatasetSpec inputs(const std::string& ids, const std::string& mask, const std::string& labels) {
    DatasetSpec spec = file_spec(DataFormat::kNpy, "", labels.empty() ? "" : write("l", labels));
    spec.inputs = {.input_ids = write("i", ids),
                   .attention_mask = write("m", mask),
                   .token_type_ids = write("s", npy(dict("|u1", "(2, 3)"), {0, 0, 1, 0, 2, 2}))};
    return spec;
  }
  std::string error_of(const std::string& ids, const std::string& mask, const std::string& labels) {
    return message_of([&] { read_inputs(ids, mask, labels); });
  }
  static std::string numbers(const Ints& values, const char* shape = "(2, 3)") {
    return npy(dict("<i8", shape), bytes_of(values));
  }

  const std::string ids_ = numbers({5, 6, 7, 9, 8, 0});
  const std::string mask_ = npy(dict("<f4", "(2, 3)"), bytes_of(Floats{1, 1, 1, 1, 1, 0}));
  const std::string labels_ = numbers({1, 0}, "(2,)");
};

TEST_F(NamedInputsTest, AreTokensAndFurtherInputs) {
  const Storage s = read_inputs(ids_, mask_, labels_);
  EXPECT_EQ(s.samples, 2);
  EXPECT_EQ(s.vocabulary, 10);
  EXPECT_EQ(s.sequence, 0);
  EXPECT_EQ(s.classes, (Ints{1, 0}));
  std::array<int64_t, 3> row{};
  s.read_tokens(1, row);
  EXPECT_EQ(row, (std::array<int64_t, 3>{9, 8, 0}));
  const std::vector<SampleInput> more = s.further_inputs();
  ASSERT_EQ(more.size(), 2u);
  EXPECT_EQ(more[0], (SampleInput{"attention_mask", backends::DType::kI64, {3}, 2}));
  EXPECT_EQ(more[1], (SampleInput{"token_type_ids", backends::DType::kI64, {3}, 3}));
  s.read_further(0, 1, row);
  EXPECT_EQ(row, (std::array<int64_t, 3>{1, 1, 0}));
  s.read_further(1, 1, row);
  EXPECT_EQ(row, (std::array<int64_t, 3>{0, 2, 2}));
}

TEST_F(NamedInputsTest, MayHaveALabelForEachToken) {
  const std::string labels = numbers({-100, 6, -100, 9, -100, -100});
  const Storage classes = read_inputs(ids_, mask_, labels);
  EXPECT_EQ(classes.sequence, 3);
  EXPECT_EQ(classes.label_counts, (LabelCounts{{-100, 4}, {6, 1}, {9, 1}}));
  EXPECT_EQ(classes.token_labels, TokenLabels::kNone);
  const Storage tokens = read_inputs(ids_, mask_, labels, LabelsAs::kTokens);
  EXPECT_EQ(tokens.token_labels, TokenLabels::kOwn);  // keep their numbers
  EXPECT_EQ(tokens.classes, (Ints{-100, 6, -100, 9, -100, -100}));
}

// As in causal models of transformers: the label at t belongs to the output at t - 1.
TEST_F(NamedInputsTest, LabelsOfNextTokensAreShifted) {
  const Storage given = read_inputs(ids_, mask_, numbers({5, -100, 7, 9, 8, -100}), LabelsAs::kNextTokens);
  EXPECT_EQ(given.token_labels, TokenLabels::kNext);
  EXPECT_EQ(given.classes, (Ints{-100, 7, -100, 8, -100, -100}));
  const Storage without = read_inputs(ids_, mask_, "", LabelsAs::kNextTokens);
  EXPECT_EQ(without.classes, (Ints{6, 7, -100, 8, -100, -100}));
  EXPECT_TRUE(message_of([&] {
                read_inputs(ids_, mask_, numbers({6, 7, -100, 8, 0, -100}), LabelsAs::kNextTokens);
              })
                  .ends_with("the label of each token is the next token; expected the token itself, as transformers "
                             "takes it, which is shifted when it is read; leave labels out if every next token is to "
                             "be predicted"));
  EXPECT_TRUE(message_of([&] {
                read_inputs(ids_, mask_, labels_, LabelsAs::kNextTokens);
              }).ends_with("expected integers of shape (2, 3), the label of each token, got shape (2)"));
}

// As a user of transformers pads texts on the left. An encoder reads any mask.
TEST_F(NamedInputsTest, CausalModelsCannotHideEarlierTokens) {
  const std::string left = numbers({1, 1, 1, 0, 1, 1}), hole = numbers({1, 0, 1, 1, 1, 1});
  for (const auto& [mask, text] : {std::pair(left, "sample 1: the mask hides token 0, but shows token 1"),
                                   std::pair(hole, "sample 0: the mask hides token 1, but shows token 2")})
    for (const std::string& labels : {std::string(), numbers({5, 6, 7, 9, 8, -100})}) {
      const std::string message =
          message_of([&, &seen = mask] { read_inputs(ids_, seen, labels, LabelsAs::kNextTokens); });
      EXPECT_NE(message.find(text), message.npos) << message;
    }
  EXPECT_EQ(read_inputs(ids_, left, labels_).samples, 2);
}

// Masks of any type are the same.
TEST_F(NamedInputsTest, MasksOfAnyTypeAreTheSame) {
  const Ints want{1, 1, 1, 1, 1, 0};
  const std::string bytes{1, 1, 1, 1, 1, 0};
  for (const std::string& mask :
       {npy(dict("<i8", "(2, 3)"), bytes_of(want)), npy(dict("<i4", "(2, 3)"), bytes_of<int32_t>({1, 1, 1, 1, 1, 0})),
        npy(dict("|u1", "(2, 3)"), bytes), npy(dict("|b1", "(2, 3)"), bytes), mask_}) {
    const Storage s = read_inputs(ids_, mask, labels_);
    EXPECT_TRUE(std::ranges::equal(s.more_inputs.at(0).ids, want));
  }
}

TEST_F(NamedInputsTest, LabelsWithoutAClassAreIgnored) {
  schema::DataSpec spec;
  spec.train = inputs(ids_, mask_, numbers({0, 1, -100, 1, -100, -100}));
  const Data by_default = load(spec, 0);
  EXPECT_EQ(by_default.encoding.ignored_label, -100);
  EXPECT_EQ(by_default.encoding.outputs, 2);
  EXPECT_EQ(by_default.class_counts, (std::vector<int64_t>{1, 2}));
  const Data padding_is_class = load(spec, 0, LabelsAs::kAuto, 0);
  EXPECT_EQ(padding_is_class.encoding.ignore_index, 0);
  const Data tokens = load(spec, 0, LabelsAs::kTokens, 1);
  EXPECT_EQ(tokens.train.storage().classes, (Ints{0, -100, -100, -100, -100, -100}));
  EXPECT_EQ(tokens.encoding.ignored_label, -100);
}

TEST_F(NamedInputsTest, Errors) {
  const auto expect = [&](const std::string& got, const std::string& end) { EXPECT_TRUE(got.ends_with(end)) << got; };
  expect(error_of(numbers({1, 2}, "(2,)"), mask_, labels_), "expected shape (N, T) of token ids, got (2)");
  expect(error_of(numbers({1, 2, 3, 4, -1, 0}), mask_, labels_),
         "sample 1: token id -1 is not a whole number from 0 to 2147483646");
  expect(error_of(ids_, numbers({1, 1}, "(2, 1)"), labels_), "expected shape (2, 3) like the token ids, got (2, 1)");
  expect(error_of(ids_, numbers({1, 1, 1, 1, 2, 0}), labels_),
         "sample 1: attention_mask 2 is not a whole number from 0 to 1");
  expect(error_of(ids_, npy(dict("<f4", "(2, 3)"), bytes_of(Floats{1, 0.5, 1, 1, 1, 0})), labels_),
         "sample 0: attention_mask 0.5 is not a whole number from 0 to 1");
  expect(error_of(ids_, mask_, numbers({1, 0, 1}, "(3,)")), "expected 2 labels, one per sample, got 3");
}

TEST_F(NamedInputsTest, OfSafetensorsHaveTheSameNames) {
  const std::string header = "{" + tensor_entry("input_ids", "I64", "[2,3]", "[0,48]") + "," +
                             tensor_entry("labels", "I64", "[2]", "[48,64]") + "}";
  const std::string file = safetensors(header, bytes_of(Ints{5, 6, 7, 9, 8, 0, 1, 0}));
  const Storage s = read(DataFormat::kSafetensors, file, "");
  EXPECT_EQ(s.vocabulary, 10);
  EXPECT_EQ(s.classes, (Ints{1, 0}));
}

TEST_F(ArrayTest, KeepsTheDigitsOfLargeNumbers) {
  const std::string features = npy(dict("<i8", "(2, 2)"), bytes_of(Ints{1550083467346, 1, 1550083467847, 16777217}));
  const std::string labels = npy(dict("<i8", "(2,)"), bytes_of(Ints{1, 0}));
  const Storage relative = read(DataFormat::kNpy, features, labels, {.normalized = true}, 0.5);
  EXPECT_EQ(relative.values, (Floats{0, 0.5, 250.5, 8388608}));
  EXPECT_EQ(relative.offsets, (std::vector<double>{775041733673, 0}));
  EXPECT_EQ(relative.warnings.size(), 1u);
  const Storage rounded = read(DataFormat::kNpy, features, labels);
  EXPECT_EQ(rounded.values[2], 1550083467847.0f);
  EXPECT_TRUE(rounded.offsets.empty());
  EXPECT_TRUE(rounded.warnings.at(0).starts_with("column 0 of ")) << rounded.warnings[0];
  EXPECT_EQ(rounded.warnings.size(), 2u);
}

TEST_F(ArrayTest, KeepsTheDigitsOfWholeNumbersBeyondF64) {
  for (const char* type : {"<i8", "<u8"}) {
    for (const int64_t first : {int64_t{1} << 53, int64_t{1} << 60, int64_t{1700000000000000001}}) {
      const std::string features = npy(dict(type, "(2,)"), bytes_of(Ints{first, first + 1}));
      const std::string labels = npy(dict("<i8", "(2,)"), bytes_of(Ints{1, 0}));
      const Storage relative = read(DataFormat::kNpy, features, labels, {.normalized = true});
      EXPECT_EQ(relative.values[1] - relative.values[0], 1) << type << first;
      EXPECT_TRUE(relative.warnings.empty());
      EXPECT_EQ(read(DataFormat::kNpy, features, labels).warnings.size(), 1u) << type << first;
    }
  }
}

// ---- idx

TEST_F(ArrayTest, ReadsIdxImagesAsBytes) {
  const std::string images = idx(0x08, {2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, '\xff'});
  const Storage s = read(DataFormat::kIdx, images, idx(0x08, {2}, {7, 1}));
  EXPECT_EQ(s.samples, 2);
  EXPECT_EQ(s.feature_shape, (backends::Shape{2, 3}));
  EXPECT_EQ(s.bytes, (Bytes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255}));
  EXPECT_TRUE(s.values.empty());
  EXPECT_EQ(s.classes, (Ints{7, 1}));
  EXPECT_EQ(s.outputs, 2);
  Floats row(6);
  s.read_row(1, row);
  EXPECT_EQ(row, (Floats{6, 7, 8, 9, 10, 255}));
  read(DataFormat::kIdx, gzip(images), gzip(idx(0x08, {2}, {7, 1})), {}, 1.0 / 255).read_row(1, row);
  EXPECT_EQ(row[5], 255 * static_cast<float>(1.0 / 255));
}

TEST_F(ArrayTest, ReadsEveryIdxType) {
  const auto features = [&](uint8_t type, const std::string& elements) {
    return read(DataFormat::kIdx, idx(type, {2, 2}, elements), idx(8, {2}, {0, 1})).values;
  };
  EXPECT_EQ(features(0x09, bytes_of(std::vector<int8_t>{-128, -1, 0, 127})), (Floats{-128, -1, 0, 127}));
  EXPECT_EQ(features(0x0B, bytes_of(std::vector<int16_t>{-32768, -1, 258, 32767}, true)),
            (Floats{-32768, -1, 258, 32767}));
  EXPECT_EQ(features(0x0C, bytes_of(std::vector<int32_t>{-65536, -1, 16909060, 7}, true)),
            (Floats{-65536, -1, 16909060, 7}));
  EXPECT_EQ(features(0x0D, bytes_of(Floats{-1.5f, 0.1f, 1e30f, -0.0f}, true)), (Floats{-1.5f, 0.1f, 1e30f, -0.0f}));
  EXPECT_EQ(features(0x0E, bytes_of(std::vector<double>{-1.5, 0.1, 1e30, 0}, true)), (Floats{-1.5f, 0.1f, 1e30f, 0}));
}

TEST_F(ArrayTest, ReadsArraysLargerThanTheBuffer) {
  std::vector<int16_t> values(200'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int16_t>(i * 7919);
  const Storage s =
      read(DataFormat::kIdx, idx(0x0B, {200, 1000}, bytes_of(values, true)), idx(8, {200}, std::string(200, '\1')));
  EXPECT_EQ(s.values, Floats(values.begin(), values.end()));
}

TEST_F(ArrayTest, ReportsDamagedIdxFiles) {
  const auto idx_error = [&](const std::string& features) { return error(DataFormat::kIdx, features); };
  EXPECT_EQ(idx_error(""), "f: unexpected end of file at byte 0, in the idx header");
  EXPECT_EQ(idx_error({0, 0, 8}), "f: unexpected end of file at byte 3, in the idx header");
  EXPECT_EQ(idx_error("label,x\n"), "f is not an idx file: its first bytes are 6c 61, expected 00 00");
  EXPECT_EQ(idx_error(idx(0x0A, {1}, "x")),
            "f: unknown idx element type 0x0a; expected one of 0x08, 0x09, 0x0b, 0x0c, 0x0d, 0x0e");
  EXPECT_EQ(idx_error(std::string{0, 0, 8, 3} + "abcd"), "f: unexpected end of file at byte 8, in the idx header");
  EXPECT_EQ(idx_error(idx(8, {2, 3}, "12345")), "f: shape (2, 3) needs more than the 5 bytes after the header");
  EXPECT_EQ(idx_error(idx(8, {2, 3}, "1234567")), "f: expected the end of the file at byte 18, but more bytes follow");
  EXPECT_EQ(idx_error(idx(8, {0, 3}, "")), "f: shape (0, 3) has no elements");
  EXPECT_EQ(idx_error(idx(8, {}, "1")), "f: expected shape (N, …) with 1 to 8 axes, got () with 0");
  EXPECT_EQ(idx_error(idx(8, Dims(9, 1), "1")),
            "f: expected shape (N, …) with 1 to 8 axes, got (1, 1, 1, 1, 1, 1, 1, 1, 1) with 9");
  EXPECT_EQ(idx_error(idx(8, {UINT32_MAX, UINT32_MAX, UINT32_MAX}, "1")),
            "f: shape (4294967295, 4294967295, 4294967295) needs more than the 1 bytes after the header");
}

TEST_F(ArrayTest, MemoryIsLimitedByTheFileSize) {
  const std::string bomb = gzip(idx(8, {60000, 28, 28}, std::string(1000, '\0')));
  const std::string message = error(DataFormat::kIdx, bomb);
  EXPECT_TRUE(message.starts_with("f: shape (60000, 28, 28) needs more than the ")) << message;
}

TEST_F(ArrayTest, ReportsInvalidLabels) {
  const std::string features = idx(0x08, {2, 2}, "abcd");
  const auto label_error = [&](const std::string& labels, const ReadOptions& options = {}) {
    return error(DataFormat::kIdx, features, labels, options);
  };
  EXPECT_EQ(label_error(idx(8, {3}, "abc")), "l: expected 2 labels, one per sample, got 3");
  EXPECT_EQ(label_error(idx(8, {2, 2}, "abcd"), {.labels = LabelsAs::kClasses}),
            "l: expected shape (N) of class labels, got (2, 2); an array (N, K) has K targets for each sample");
  EXPECT_EQ(label_error(idx(0x0D, {2}, bytes_of(Floats{1, 2.5}, true)), {.labels = LabelsAs::kClasses}),
            "l: sample 1: label 2.5 is not a class; expected a whole number");
  EXPECT_EQ(label_error(idx(0x0D, {2, 1, 1}, bytes_of(Floats{1, 2}, true))),
            "l: expected shape (N) of labels, or (N, K) of targets, got (2, 1, 1)");
  EXPECT_EQ(label_error(idx(0x0D, {2, 1}, bytes_of(Floats{1, std::numeric_limits<float>::infinity()}, true))),
            "l: sample 1, label 0: inf is not finite");
  EXPECT_EQ(message_of([&] { read(DataFormat::kIdx, features, "", {}); }), "cannot open : No such file or directory");
}

// Labels that differ in the file are different classes, or are refused.
TEST_F(ArrayTest, LargeClassLabelsAreExactOrRefused) {
  const std::string features = npy(dict("|u1", "(2, 1)"), "ab");
  const auto labels = [&](const char* type, const std::string& elements) { return npy(dict(type, "(2,)"), elements); };
  const auto classes = [&](const std::string& file) {
    return read(DataFormat::kNpy, features, file, {.labels = LabelsAs::kClasses}).classes;
  };
  const auto refusal = [&](const std::string& file) {
    return error(DataFormat::kNpy, features, file, {.labels = LabelsAs::kClasses});
  };
  const Ints large{(int64_t{1} << 53) + 1, int64_t{1} << 53};
  for (const char* type : {"<i8", "<u8"}) EXPECT_EQ(classes(labels(type, bytes_of(large))), large);
  for (const char* type : {"I64", "U64"}) {
    const std::string header = "{" + tensor_entry("labels", type, "[2]", "[2,18]") + "," +
                               tensor_entry("features", "U8", "[2,1]", "[0,2]") + "}";
    const std::string file = safetensors(header, "ab" + bytes_of(large));
    EXPECT_EQ(read(DataFormat::kSafetensors, file, "", {.labels = LabelsAs::kClasses}).classes, large) << type;
  }
  EXPECT_EQ(refusal(labels("<u8", bytes_of(std::vector<uint64_t>{1, UINT64_MAX}))),
            "l: sample 1: label 18446744073709551615 is too large; expected at most 9223372036854775807");
  EXPECT_EQ(classes(labels("<f8", bytes_of(std::vector<double>{0x1p24 + 1, 0x1p24}))), (Ints{16777217, 16777216}));
  EXPECT_EQ(refusal(labels("<f8", bytes_of(std::vector<double>{3, 0x1p53 + 2}))),
            "l: sample 1: label 9007199254740994 is above 2^53, and f64 rounds such numbers; write the labels as "
            "integers");
  EXPECT_EQ(refusal(labels("<f4", bytes_of(Floats{0x1p24f + 2, 3}))),
            "l: sample 0: label 16777218 is above 2^24, and f32 rounds such numbers; write the labels as integers");
  for (const auto& file : {labels("<f4", bytes_of(Floats{0x1p24f + 2, 3})),
                           labels("<f8", bytes_of(std::vector<double>{0x1p24 + 1, 0x1p24}))})
    EXPECT_EQ(read(DataFormat::kNpy, features, file).label_kind, LabelKind::kTarget);
}

TEST_F(ArrayTest, ReadsTargets) {
  const std::string features = idx(0x08, {2, 2}, "abcd");
  Storage s = read(DataFormat::kIdx, features, idx(0x0D, {2, 3}, bytes_of(Floats{1, 2, 3, 4, 5, 6}, true)));
  EXPECT_EQ(s.label_kind, LabelKind::kTarget);
  EXPECT_EQ(s.targets, (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(s.outputs, 3);
  s = read(DataFormat::kIdx, features, idx(0x0E, {2}, bytes_of(std::vector<double>{0.5, -1}, true)));
  EXPECT_EQ(s.targets, (Floats{0.5, -1}));
  s = read(DataFormat::kIdx, features, idx(8, {2}, {3, 0}), {.labels = LabelsAs::kTargets});
  EXPECT_EQ(s.targets, (Floats{3, 0}));
  s = read(DataFormat::kIdx, features, "", {.predicts = true});
  EXPECT_EQ(s.label_kind, LabelKind::kNone);
}

// ---- npy

TEST_F(ArrayTest, ReadsEveryNpyTypeAndVersion) {
  const std::string labels = npy(dict("<i8", "(2,)"), bytes_of(Ints{1, 0}));
  const auto features = [&](const std::string& descr, const std::string& elements, int version) {
    return read(DataFormat::kNpy, npy(dict(descr, "(2, 2)"), elements, version), labels).values;
  };
  const Floats expected = {1, -2, 3, 4};
  EXPECT_EQ(features("<f4", bytes_of(expected), 1), expected);
  EXPECT_EQ(features(">f4", bytes_of(expected, true), 2), expected);
  EXPECT_EQ(features("<f8", bytes_of(std::vector<double>{1, -2, 3, 4}), 3), expected);
  EXPECT_EQ(features("<i4", bytes_of(std::vector<int32_t>{1, -2, 3, 4}), 1), expected);
  EXPECT_EQ(features("=i8", bytes_of(Ints{1, -2, 3, 4}), 1), expected);
  EXPECT_EQ(features(">f8", bytes_of(std::vector<double>{1, -2, 3, 4}, true), 1), expected);
  EXPECT_EQ(features(">i4", bytes_of(std::vector<int32_t>{1, -2, 3, 4}, true), 1), expected);
  EXPECT_EQ(features(">i8", bytes_of(Ints{1, -2, 3, 4}, true), 1), expected);
  const auto halves = [](bool big) {
    std::vector<uint16_t> bits;
    for (const float value : {1.0f, -2.0f, 3.0f, 4.0f}) bits.push_back(backends::f32_to_f16(value));
    return bytes_of(bits, big);
  };
  EXPECT_EQ(features("<f2", halves(false), 1), expected);
  EXPECT_EQ(features(">f2", halves(true), 1), expected);
  EXPECT_EQ(features("|i1", {1, '\xfe', 3, 4}, 1), expected);
  EXPECT_EQ(features("<i2", bytes_of(std::vector<int16_t>{1, -2, 3, 4}), 1), expected);
  EXPECT_EQ(features(">i2", bytes_of(std::vector<int16_t>{1, -2, 3, 4}, true), 1), expected);
  EXPECT_EQ(features("<u2", bytes_of(std::vector<uint16_t>{1, 65535, 3, 4}), 1), (Floats{1, 65535, 3, 4}));
  EXPECT_EQ(features(">u4", bytes_of(std::vector<uint32_t>{1, 1u << 31, 3, 4}, true), 1), (Floats{1, 0x1p31f, 3, 4}));
  EXPECT_EQ(features("<u8", bytes_of(std::vector<uint64_t>{1, uint64_t{1} << 63, 3, 4}), 1),
            (Floats{1, 0x1p63f, 3, 4}));
  EXPECT_EQ(features("|b1", {1, 0, 0, 1}, 1), (Floats{1, 0, 0, 1}));
  const Storage s = read(DataFormat::kNpy, npy(dict("|u1", "(2, 2)"), {1, 2, 3, 4}), labels);
  EXPECT_EQ(s.bytes, (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(s.classes, (Ints{1, 0}));
}

TEST_F(ArrayTest, ReadsColumnMajorArrays) {
  // a[i, j, k] = 100 i + 10 j + k, with i fastest in the file.
  Floats columns, rows;
  Bytes column_bytes;
  for (int k = 0; k < 2; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) {
        columns.push_back(static_cast<float>(100 * i + 10 * j + k));
        column_bytes.push_back(static_cast<uint8_t>(100 * i + 10 * j + k));
      }
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 2; ++k) rows.push_back(static_cast<float>(100 * i + 10 * j + k));
    }
  }
  const std::string labels = npy(dict("<f4", "(2, 2)", true), bytes_of(Floats{1, 2, 3, 4}));
  const Storage s = read(DataFormat::kNpy, npy(dict("<f4", "(2, 3, 2)", true), bytes_of(columns)), labels);
  EXPECT_EQ(s.feature_shape, (backends::Shape{3, 2}));
  EXPECT_EQ(s.values, rows);
  EXPECT_EQ(s.targets, (Floats{1, 3, 2, 4}));
  EXPECT_EQ(read(DataFormat::kNpy, npy(dict("|u1", "(2, 3, 2)", true), bytes_of(column_bytes)), labels).bytes,
            Bytes(rows.begin(), rows.end()));
}

TEST_F(ArrayTest, AnNpyVectorIsOneFeature) {
  const Storage s = read(DataFormat::kNpy, npy(dict("<f4", "(3,)"), bytes_of(Floats{1, 2, 3})),
                         npy(dict("<f4", "(3,)"), bytes_of(Floats{4, 5, 6})), {}, 2.0);
  EXPECT_EQ(s.feature_shape, backends::Shape{1});
  EXPECT_EQ(s.values, (Floats{2, 4, 6}));
}

TEST_F(ArrayTest, ReportsDamagedNpyFiles) {
  const auto npy_error = [&](const std::string& features) { return error(DataFormat::kNpy, features); };
  const std::string one = bytes_of(Floats{1});
  EXPECT_EQ(npy_error("\x93NUM"), "f: unexpected end of file at byte 4, in the npy header");
  EXPECT_EQ(npy_error("\x93NUMPX\1"), "f: unexpected end of file at byte 7, in the npy header");
  EXPECT_EQ(npy_error("PK\3\4xxxx"), "f is an npz archive, expected an npy file; save each array with numpy.save");
  EXPECT_EQ(npy_error("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
            "f is a Git LFS pointer, not the file itself; run `git lfs pull` to fetch it");
  EXPECT_EQ(message_of([&] {
              read(DataFormat::kNpy, npy(dict("<f4", "(1,)"), one), npy(dict("<u8", "(1,)"), std::string(8, '\xff')));
            }),
            "l: sample 0: label 18446744073709551615 is too large; expected at most 9223372036854775807");
  EXPECT_EQ(npy_error("label,x,y\n"), "f is not an npy file: it starts with 'label,', expected '\\x93NUMPY'");
  EXPECT_EQ(npy_error(npy(dict("<f4", "(1,)"), one, 9)), "f: unknown npy version 9; expected 1, 2 or 3");
  EXPECT_EQ(npy_error(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12)),
            "f: the npy header should have 4294967295 bytes, but at most 0 follow");
  const auto header_error = [&](const std::string& text) { return npy_error(npy(text, one)); };
  const std::string damaged = "f: damaged npy header: ";
  EXPECT_EQ(header_error("hello"), damaged + "expected '{' before 'hello'");
  EXPECT_EQ(header_error("{'descr': '<f4', 'shape': (1,)}"), damaged + "descr, fortran_order or shape is missing");
  EXPECT_EQ(header_error("{'descr': '<f4', 'descr': '<f4'}"), damaged + "unexpected key 'descr'");
  EXPECT_EQ(header_error("{'x': 1}"), damaged + "unexpected key 'x'");
  EXPECT_EQ(header_error("{'descr' '<f4'}"), damaged + "expected ':' before ''<f4'}'");
  EXPECT_EQ(header_error("{'descr': '<f4"), damaged + "unterminated string");
  EXPECT_EQ(header_error("{'fortran_order': true}"), damaged + "expected True or False before 'true}'");
  EXPECT_EQ(header_error("{'shape': (x,)}"), damaged + "expected an axis length before 'x,)}'");
  EXPECT_EQ(header_error("{'shape': (99999999999999999999,)}"),
            damaged + "expected an axis length before '99999999999999999999,)}'");
  EXPECT_EQ(header_error("{'shape': (1 2)}"), damaged + "expected ')' before '2)}'");
  EXPECT_EQ(header_error("{'shape': (1,) 'x'}"), damaged + "expected '}' before ''x'}'");
  EXPECT_EQ(header_error(dict("<f4", "(1,)") + "x"), damaged + "unexpected text after the dict");
  const std::string types = "; expected one of f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8, b1";
  EXPECT_EQ(header_error(dict("<c8", "(1,)")), "f: unsupported element type '<c8'" + types);
  EXPECT_EQ(header_error(dict("|O", "(1,)")), "f: unsupported element type '|O'" + types);
  EXPECT_EQ(header_error(dict("", "(1,)")), "f: unsupported element type ''" + types);
  EXPECT_EQ(header_error("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
            "f: unsupported record array: '[('a', '<f4')], 'fortran_order': False, ...'");
  EXPECT_EQ(header_error(dict("f4", "(1,)")), "f: unsupported element type 'f4'" + types);
  EXPECT_EQ(header_error(dict("<f4", "()")), "f: expected shape (N, …) with 1 to 8 axes, got () with 0");
  EXPECT_EQ(header_error(dict("<f4", "(-1,)")), "f: shape (-1) has a negative axis");
  EXPECT_EQ(header_error(dict("<f4", "(1152921504606846976,)")),
            "f: shape (1152921504606846976) needs more than the 4 bytes after the header");
  EXPECT_EQ(header_error(dict("<f4", "(4294967296, 4294967296, 4294967296)")),
            "f: shape (4294967296, 4294967296, 4294967296) needs more than the 4 bytes after the header");
  EXPECT_EQ(npy_error(npy(dict("<f4", "(1,)"), "")), "f: shape (1) needs more than the 0 bytes after the header");
  EXPECT_EQ(npy_error(npy(dict("<f4", "(1,)"), one + "x")), "f: expected the end of the file at byte " +
                                                                std::to_string(10 + dict("<f4", "(1,)").size() + 4) +
                                                                ", but more bytes follow");
  EXPECT_EQ(npy_error(npy(dict("<f4", "(1, 3)"), bytes_of(Floats{1, 2, std::numeric_limits<float>::quiet_NaN()}))),
            "f: sample 0, feature 2: nan is not finite");
  EXPECT_EQ(npy_error(npy(dict("<f8", "(2, 2)"), bytes_of(std::vector<double>{1, 2, 3, 1e99}))),
            "f: sample 1, feature 1: 1e+99 is too large for f32, which ends at 3.4e38");
}

// As in CSV files (CsvTest.KeepsRowsThatCannotBeUsedForPredictions).
TEST_F(ArrayTest, KeepsRowsThatCannotBeUsedForPredictions) {
  const auto rejected = [&](const char* type, const std::string& elements, double scale) {
    schema::DatasetSpec spec = file_spec(DataFormat::kNpy, write("f", npy(dict(type, "(3, 2)"), elements)), "");
    spec.scale = scale;
    const Storage s = definition_of(DataFormat::kNpy).read(spec, {.predicts = true});
    std::vector<std::string> texts;
    for (const RejectedRow& each : s.rejected) texts.push_back(fmt::format("{} {}", each.row, each.reason));
    return texts;
  };
  using Texts = std::vector<std::string>;
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(rejected("<f4", bytes_of(Floats{1e20f, 2, 3, inf, 5, 6}), 1e30),
            (Texts{"0 feature 0: 1e+20 times scale 1e+30 is not finite", "1 feature 1: inf is not finite"}));
  EXPECT_EQ(rejected("<f8", bytes_of(std::vector<double>{1, 2, 3, 4, -1e99, 6}), 1),
            (Texts{"2 feature 0: -1e+99 is too large for f32, which ends at 3.4e38"}));
  EXPECT_EQ(rejected("|u1", std::string("\1\2\3\377\5\6"), 1e37),
            (Texts{"1 feature 1: 255 times scale 1e+37 is not finite"}));
}

// ---- safetensors

TEST_F(ArrayTest, ReadsSafetensorsData) {
  const std::string header = "{\"__metadata__\":{\"by\":\"hand\"}," + tensor_entry("labels", "I32", "[2]", "[16,24]") +
                             "," + tensor_entry("features", "F32", "[2,2]", "[0,16]") + "}";
  const std::string file = safetensors(header, bytes_of(Floats{1, 2, 3, 4}) + bytes_of(std::vector<int32_t>{1, 0}));
  const Storage s = read(DataFormat::kSafetensors, file, "");
  EXPECT_EQ(s.values, (Floats{1, 2, 3, 4}));
  EXPECT_EQ(s.classes, (Ints{1, 0}));
  EXPECT_EQ(read(DataFormat::kSafetensors, gzip(file), "").values, (Floats{1, 2, 3, 4}));
}

TEST_F(ArrayTest, ReadsEverySafetensorsType) {
  const auto features = [&](const std::string& type, const std::string& elements) {
    const std::string size = std::to_string(elements.size());
    const std::string header = "{" + tensor_entry("features", type, "[2,1]", "[0," + size + "]") + "}";
    const Storage s = read(DataFormat::kSafetensors, safetensors(header, elements), "", {.predicts = true});
    EXPECT_EQ(s.bytes.empty(), type != "U8");
    return s.bytes.empty() ? s.values : Floats(s.bytes.begin(), s.bytes.end());
  };
  EXPECT_EQ(features("F32", bytes_of(Floats{1.5, -2})), (Floats{1.5, -2}));
  EXPECT_EQ(features("F64", bytes_of(std::vector<double>{1.5, -2})), (Floats{1.5, -2}));
  EXPECT_EQ(features("BF16", bytes_of(std::vector<uint16_t>{backends::f32_to_bf16(1.5f), backends::f32_to_bf16(-2)})),
            (Floats{1.5, -2}));
  EXPECT_EQ(features("F16", bytes_of(std::vector<uint16_t>{backends::f32_to_f16(1.5f), backends::f32_to_f16(-2)})),
            (Floats{1.5, -2}));
  EXPECT_EQ(features("I32", bytes_of(std::vector<int32_t>{3, -2})), (Floats{3, -2}));
  EXPECT_EQ(features("I64", bytes_of(Ints{3, -2})), (Floats{3, -2}));
  EXPECT_EQ(features("BOOL", std::string{1, 0}), (Floats{1, 0}));
  EXPECT_EQ(features("I8", std::string{3, '\xfe'}), (Floats{3, -2}));
  EXPECT_EQ(features("I16", bytes_of(std::vector<int16_t>{3, -2})), (Floats{3, -2}));
  EXPECT_EQ(features("U16", bytes_of(std::vector<uint16_t>{3, 65535})), (Floats{3, 65535}));
  EXPECT_EQ(features("U32", bytes_of(std::vector<uint32_t>{3, 1u << 31})), (Floats{3, 0x1p31f}));
  EXPECT_EQ(features("U64", bytes_of(std::vector<uint64_t>{3, 1})), (Floats{3, 1}));
  EXPECT_EQ(features("U8", std::string{1, '\xff'}), (Floats{1, 255}));
}

TEST_F(ArrayTest, ReportsMissingTensors) {
  const std::string four = bytes_of(Floats{1});
  EXPECT_EQ(message_of([&] { read(DataFormat::kSafetensors, safetensors("{}", ""), ""); }),
            "f: no tensor named features; it has no tensors");
  EXPECT_EQ(message_of([&] {
              read(DataFormat::kSafetensors,
                   safetensors("{" + tensor_entry("features", "F8_E4M3", "[4]", "[0,4]") + "}", four), "");
            }),
            "f: tensor features has the unsupported type 'F8_E4M3'; expected one of F16, F32, F64, BF16, I8, I16, I32, "
            "I64, U8, U16, U32, U64, BOOL");
  EXPECT_EQ(message_of([&] {
              read(DataFormat::kSafetensors,
                   safetensors("{" + tensor_entry("features", "F32", "[1]", "[0,4]") + "}", four), "");
            }),
            "f: no tensor named labels; it has 'features'");
}

}  // namespace
}  // namespace runner::data
