// Statistics of the training part: normalisation, and replacements of missing values.
#include "runner/data/fit.h"

#include <algorithm>
#include <cmath>

#include "runner/data/storage.h"
#include "runner/data/stream.h"
#include "tests/data/load_fixture.h"

namespace runner::data {
namespace {

using schema::DataSpec;
using schema::Normalize;
using FitTest = LoadTest;
using Floats = LargeArray<float>;

TEST_F(FitTest, StandardizesWithStatisticsOfTheTrainingPart) {
  std::string text = "a,b,c,l\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("{},{},0.1,{}\n", i * i, 1000.5 + 0.25 * (i % 7), i % 2);
  DataSpec raw = csv(text);
  raw.split = schema::SplitSpec{0.25};
  DataSpec spec = raw;
  spec.normalize = Normalize::kStandard;
  const Data before = load(raw, 3), after = load(spec, 3);
  const Floats train = features_of(before.train);
  for (size_t f = 0; f < 3; ++f) {
    Floats column;
    for (size_t i = f; i < train.size(); i += 3) column.push_back(train[i]);
    const auto [mean, deviation] = moments(column);
    EXPECT_NEAR(after.encoding.center[f], static_cast<double>(mean), 1e-9);
    EXPECT_NEAR(after.encoding.spread[f], f == 2 ? 1 : static_cast<double>(deviation), 1e-9);
  }
  EXPECT_EQ(after.encoding.center[2], double{0.1f});  // exact: a constant feature becomes 0
  EXPECT_EQ(after.encoding.spread[2], 1);
  for (const auto& [plain, normal] : {std::pair(&before.train, &after.train), std::pair(&*before.eval, &*after.eval)}) {
    const Floats x = features_of(*plain), y = features_of(*normal);
    ASSERT_EQ(x.size(), y.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const auto center = static_cast<float>(after.encoding.center[i % 3]);
      EXPECT_EQ(y[i], (x[i] - center) * (1 / static_cast<float>(after.encoding.spread[i % 3])));
    }
  }
}

// Time stamps give the same inputs, to rounding, as the time since any other moment: in both parts, with missing
// values, a scale and another file, in memory and streamed.
TEST_F(FitTest, LargeNumbersAreNormalisedLikeSmallOnes) {
  const auto table = [](double start, int rows) {
    std::string text = "t,x,l\n";
    for (int i = 0; i < rows; ++i)
      text +=
          i % 9 == 4 ? fmt::format(",{},{}\n", i, i % 2) : fmt::format("{:.2f},{},{}\n", start + i * i / 4.0, i, i % 2);
    return text;
  };
  for (const Normalize normalize : {Normalize::kStandard, Normalize::kMinMax}) {
    for (const std::optional<double> scale : {std::optional<double>(), std::optional(1e-3)}) {
      const auto load_from = [&](double start, bool stream) {
        DataSpec spec = csv(table(start, 40), table(start + 7, 9));
        spec.stream = stream;
        spec.normalize = normalize;
        for (schema::DatasetSpec* part : {&spec.train, &*spec.eval}) {
          part->missing = schema::Missing::kMean;
          part->scale = scale;
        }
        return load(spec, 0);
      };
      const Data small = load_from(0, false), large = load_from(1550083467346, false);
      for (const auto& [a, b] : {std::pair(&small.train, &large.train), std::pair(&*small.eval, &*large.eval)}) {
        const Floats x = features_of(*a), y = features_of(*b);
        ASSERT_EQ(x.size(), y.size());
        for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 2e-6) << i;
      }
      const Data streamed = load_from(1550083467346, true);
      EXPECT_EQ(streamed.encoding, large.encoding);
      EXPECT_NE(streamed.train.fingerprint().contents, load_from(1550083467347, true).train.fingerprint().contents);
      EXPECT_NE(large.train.fingerprint(), load_from(1550083467347, false).train.fingerprint());
    }
  }
}

// f64 has 53 bits, and time stamps in ns need 61.
TEST_F(FitTest, WholeNumbersBeyondF64AreNormalisedExactly) {
  const auto table = [](int64_t start) {
    std::string text = "t,l\n";
    for (int i = 0; i < 200; ++i) text += fmt::format("{},{}\n", start + i, i % 2);
    return text;
  };
  for (const Normalize normalize : {Normalize::kStandard, Normalize::kMinMax}) {
    for (const bool stream : {false, true}) {
      const auto load_from = [&](int64_t start) {
        DataSpec spec = csv(table(start), table(start + 77));
        spec.stream = stream;
        spec.normalize = normalize;
        return load(spec, 0);
      };
      const Data small = load_from(0);
      for (const int64_t start : {1700000000000000001, -1700000000000000301}) {
        const Data large = load_from(start);
        EXPECT_TRUE(large.warnings.empty());
        const Encoding stored = Encoding::from_json(large.encoding.to_json());
        EXPECT_EQ(stored, large.encoding);
        const auto predicted = [&](const Encoding& encoding, int64_t from) {
          return features_of(load_encoded(csv_spec(write("new.csv", table(from))), encoding, 0, "new.csv", true));
        };
        const Floats x = predicted(small.encoding, 33), y = predicted(stored, start + 33);
        for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-6) << i;
        if (stream) continue;
        for (const auto& [a, b] : {std::pair(&small.train, &large.train), std::pair(&*small.eval, &*large.eval)}) {
          const Floats of_small = features_of(*a), of_large = features_of(*b);
          for (size_t i = 0; i < of_small.size(); ++i) ASSERT_NEAR(of_small[i], of_large[i], 1e-6) << i;
        }
      }
    }
  }
}

// Missing time stamps in ns get the mean exactly, as small numbers do.
TEST_F(FitTest, FillsWithMeansBeyondF64) {
  const auto table = [](int64_t start) {
    std::string text = "t,l\n";
    for (int i = 0; i < 200; ++i)
      text += i % 9 == 4 ? fmt::format(",{}\n", i % 2) : fmt::format("{},{}\n", start + i * i / 64, i % 2);
    return text;
  };
  for (const Normalize normalize : {Normalize::kStandard, Normalize::kMinMax}) {
    const auto load_from = [&](int64_t start, bool stream) {
      DataSpec spec = csv(table(start), table(start + 77));
      spec.stream = stream;
      spec.normalize = normalize;
      spec.train.missing = spec.eval->missing = schema::Missing::kMean;
      return load(spec, 0);
    };
    const auto features_in = [&](const Encoding& encoding, int64_t from, bool predicts) {
      schema::DatasetSpec spec = csv_spec(write("new.csv", table(from)));
      spec.missing = schema::Missing::kMean;
      return features_of(load_encoded(spec, encoding, 0, "new.csv", predicts));
    };
    const Data small = load_from(0, false);
    for (const int64_t start : {int64_t{1} << 53, int64_t{1700000000000000001}, int64_t{-1700000000000000301}}) {
      const Data large = load_from(start, false);
      const Encoding stored = Encoding::from_json(large.encoding.to_json());
      EXPECT_EQ(stored, large.encoding);
      EXPECT_EQ(load_from(start, true).encoding, large.encoding);
      const auto expect_same = [&](const Floats& x, const Floats& y) {
        ASSERT_EQ(x.size(), y.size());
        for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-6) << start << ": " << i;
      };
      expect_same(features_of(small.train), features_of(large.train));
      expect_same(features_of(*small.eval), features_of(*large.eval));
      for (const bool predicts : {false, true})
        expect_same(features_in(small.encoding, 33, predicts), features_in(stored, start + 33, predicts));
    }
  }
}

// The inverse of such a spread is infinite in f32.
TEST_F(FitTest, TreatsATinySpreadAsConstant) {
  DataSpec spec = csv("a,b,l\n0,1e-45,0\n1e-45,0,1\n");
  for (const Normalize normalize : {Normalize::kStandard, Normalize::kMinMax}) {
    spec.normalize = normalize;
    const Data data = load(spec, 0);
    EXPECT_EQ(data.encoding.spread, (std::vector<double>{1, 1}));
    for (const float value : features_of(data.train)) EXPECT_NEAR(value, 0, 1e-44);
  }
}

TEST_F(FitTest, RefusesValuesThatNormalizationMakesTooLarge) {
  DataSpec spec = csv("a,b,l\n0,1,0\n0.001,2,1\n", "a,b,l\n0,1,0\n0,1,1\n3e38,2,0\n");
  for (const Normalize normalize : {Normalize::kStandard, Normalize::kMinMax}) {
    spec.normalize = normalize;
    const std::string text = message_of([&] { load(spec, 0); });
    EXPECT_TRUE(text.starts_with("eval.csv: sample 2, column 'a': 3e+38 is too large for f32 after normalisation: "))
        << text;
  }
  DataSpec wide = csv("a,l\n1,0\n-3e38,0\n3e38,1\n");
  wide.normalize = Normalize::kMinMax;
  EXPECT_EQ(message_of([&] { load(wide, 0); }),
            "data.train: the values of column 'a' differ by more than f32 holds; reduce them with scale");
  wide.normalize = Normalize::kStandard;
  EXPECT_NEAR(features_of(load(wide, 0).train)[2], std::sqrt(1.5), 1e-6);
  wide = csv("a,l\n3e38,0\n-3e38,1\n");
  wide.normalize = Normalize::kStandard;
  EXPECT_EQ(message_of([&] { load(wide, 0); }),
            "train.csv:3: column 'a': '-3e38' is too far from the other values for f32");
}

TEST_F(FitTest, RefusesThemInStreams) {
  DataSpec spec = csv("a,l\n0,0\n0.001,1\n", "a,l\n0,0\n0,0\n3e38,1\n");
  spec.stream = true;
  spec.normalize = Normalize::kStandard;
  const Data data = load(spec, 0);
  StreamReader reader(*data.eval, 0, false, 0, 0);
  std::vector<int64_t> ids(3), classes(3);
  std::vector<float> features(3);
  const BatchRows out{.ids = ids, .inputs = {std::as_writable_bytes(std::span(features))}, .classes = classes};
  const std::string text =
      message_of([&] { reader.read(DataPlan({.samples = 3, .batch_size = 3}), 0, {.begin = 0, .real = 3}, out); });
  EXPECT_TRUE(text.starts_with("eval.csv: sample 2, column 'a': 3e+38 is too large for f32 after normalisation: "))
      << text;
}

TEST_F(FitTest, RefusesBytesThatNormalizationMakesTooLarge) {
  const auto images = [](std::string pixels) { return std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x01", 12) + pixels; };
  const std::string labels = std::string("\0\0\x08\x01\0\0\0\x02", 8) + std::string{0, 1};
  DataSpec spec;
  spec.train = file_spec(schema::DataFormat::kIdx, write("f", images({1, 2})), write("l", labels));
  spec.train.scale = 2e36;
  EXPECT_EQ(features_of(load(spec, 0).train), (Floats{2e36f, 4e36f}));
  spec.train = file_spec(schema::DataFormat::kIdx, write("f", images({1, '\xff'})), write("l", labels));
  spec.train.scale = 2e36;
  EXPECT_TRUE(
      message_of([&] { load(spec, 0); }).starts_with("f: sample 1, feature 0: 255 times scale 2e+36 is not finite"));
}

// Each row is rounded alike, whatever the first row of the file is.
TEST_F(FitTest, RowsToPredictDoNotDependOnOthers) {
  DataSpec spec = csv("a,b,l\n1550083467346,1,0\n1550083467350,3,1\n");
  spec.normalize = Normalize::kStandard;
  const Data data = load(spec, 0);
  const auto predicted = [&](std::string_view text) {
    return features_of(load_encoded(csv_spec(write("new.csv", text)), data.encoding, 0, "new.csv", true));
  };
  const Floats one = predicted("a,b\n1550083467350,3\n");
  EXPECT_NEAR(one[0], 1, 1e-6);
  const Floats after = predicted("a,b\n3e30,1e30\n1550083467350,3\n");
  EXPECT_EQ((Floats{after[2], after[3]}), one);
}

TEST_F(FitTest, RowsToPredictStayIfNormalizationMakesThemTooLarge) {
  DataSpec spec = csv("a,b,l\n0,1,0\n0.001,2,1\n");
  spec.normalize = Normalize::kStandard;
  const Data data = load(spec, 0);
  const Dataset set =
      load_encoded(csv_spec(write("new.csv", "a,b\n0,1\n3e38,1\nx,1\n1e99,1\n")), data.encoding, 0, "new.csv", true);
  std::vector<std::string> reasons;
  for (const RejectedRow& each : set.storage().rejected)
    reasons.push_back(fmt::format("{} {}", each.row, each.reason.substr(0, each.reason.find(" after"))));
  EXPECT_EQ(reasons, (std::vector<std::string>{"1 column 'a': 3e+38 is too large for f32",
                                               "2 column 'a': expected a number, got 'x'",
                                               "3 column 'a': '1e99' is too large for f32, which ends at 3.4e38"}));
}

TEST_F(FitTest, MinMaxUsesTheRangeOfTheTrainingPart) {
  DataSpec spec = csv("a,b,l\n2,7,0\n4,7,1\n10,7,0\n", "a,b,l\n0,8,0\n6,7,1\n");
  spec.normalize = Normalize::kMinMax;
  const Data data = load(spec, 0);
  EXPECT_EQ(data.encoding.center, (std::vector<double>{2, 7}));
  EXPECT_EQ(data.encoding.spread, (std::vector<double>{8, 1}));
  EXPECT_EQ(features_of(data.train), (Floats{0, 0, 0.25, 0, 1, 0}));
  EXPECT_EQ(features_of(*data.eval), (Floats{-0.25, 1, 0.5, 0}));
}

TEST_F(FitTest, NormalizesScaledBytes) {
  DataSpec spec;
  const std::string images = std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x01", 12) + std::string{10, 30};
  const std::string labels = std::string("\0\0\x08\x01\0\0\0\x02", 8) + std::string{0, 1};
  spec.train = file_spec(schema::DataFormat::kIdx, write("f", images), write("l", labels));
  spec.train.scale = 0.5;
  EXPECT_EQ(features_of(load(spec, 0).train), (Floats{5, 15}));
  spec.normalize = Normalize::kStandard;
  const Data data = load(spec, 0);
  EXPECT_EQ(data.encoding.center, (std::vector<double>{10}));
  EXPECT_EQ(data.encoding.spread, (std::vector<double>{5}));
  EXPECT_EQ(features_of(data.train), (Floats{-1, 1}));
}

TEST_F(FitTest, FillsMissingValuesWithTheMean) {
  DataSpec spec = csv("a,b,l\n1,,0\n3,4,0\n,8,0\n", "a,b,l\n,,0\n");
  spec.train.missing = spec.eval->missing = schema::Missing::kMean;
  const Data data = load(spec, 0);
  EXPECT_EQ(data.encoding.fill, (std::vector<double>{2, 6}));
  EXPECT_EQ(features_of(data.train), (Floats{1, 6, 3, 4, 2, 8}));
  EXPECT_EQ(features_of(*data.eval), (Floats{2, 6}));
  EXPECT_EQ(data.warnings,
            (std::vector<std::string>{"data.train: 2 missing values were filled with the mean of their column",
                                      "data.eval: 2 missing values were filled with the mean of their column"}));
  DataSpec empty = csv("a,b,l\n1,,0\n3,,1\n");
  empty.train.missing = schema::Missing::kMean;
  EXPECT_EQ(message_of([&] { load(empty, 0); }),
            "train.csv: column 'b' has no values in the training part, so it has no mean to fill in; remove it from "
            "features");
}

TEST_F(FitTest, CountsDroppedRows) {
  DataSpec spec = csv("a,b,l\n1,,0\n3,4,0\n,8,0\n5,6,0\n7,8,\n", "a,b,l\n,,0\n1,2,0\n");
  spec.train.missing = spec.eval->missing = schema::Missing::kDrop;
  EXPECT_EQ(load(spec, 0).warnings,
            (std::vector<std::string>{"data.train: 3 of 5 rows were dropped: a value is missing",
                                      "data.eval: 1 of 2 rows was dropped: a value is missing"}));
  DataSpec parts = csv("a,l\n,0\n1,0\n2,0\n");
  parts.train.missing = schema::Missing::kDrop;
  parts.split = schema::SplitSpec{0.5};
  EXPECT_EQ(load(parts, 0).warnings,
            (std::vector<std::string>{"data.train: 1 of 3 rows was dropped: a value is missing"}));
  EXPECT_TRUE(load(csv("a,l\n1,1\n"), 0).warnings.empty());
}

TEST_F(FitTest, FillUsesOnlyTheTrainingPartOfASplit) {
  std::string text = "a,l\n";
  for (int i = 0; i < 20; ++i) text += i % 4 == 3 ? ",1\n" : fmt::format("{},1\n", i);
  DataSpec spec = csv(text);
  spec.train.missing = schema::Missing::kMean;
  spec.split = schema::SplitSpec{0.5};
  const Data data = load(spec, 5);
  double sum = 0, count = 0;
  const Floats train = features_of(data.train);
  for (const float v : train) {
    if (v == std::floor(v) && static_cast<int>(v) % 4 != 3) sum += double{v}, ++count;
  }
  EXPECT_DOUBLE_EQ(data.encoding.fill[0], sum / count);
}

}  // namespace
}  // namespace runner::data
