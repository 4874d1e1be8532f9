// Loading the data sets of a recipe: splits, classes, statistics, fingerprints, synthetic data, and the data sets in
// the repository.
#include "runner/data/load.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "runner/data/random.h"
#include "runner/data/synthetic.h"
#include "tests/data/files.h"
#include "tests/support/paths.h"

namespace runner::data {
namespace {

using schema::DataSpec;
using schema::Normalize;
using Floats = LargeArray<float>;
using Ints = LargeArray<int64_t>;
using Texts = std::vector<std::string>;

class LoadTest : public FileTest {
 protected:
  DataSpec csv(std::string_view train, std::string_view eval = "") {
    DataSpec spec;
    spec.train = csv_spec(write("train.csv", train));
    if (!eval.empty()) spec.eval = csv_spec(write("eval.csv", eval));
    return spec;
  }
};

Ints all_ids(const Dataset& set) {
  Ints ids(static_cast<size_t>(set.size()));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

Floats features_of(const Dataset& set) {
  Floats values(static_cast<size_t>(set.size() * set.feature_shape().elements()));
  set.gather_features(all_ids(set), values);
  return values;
}

Ints classes_of(const Dataset& set) {
  Ints values(static_cast<size_t>(set.size()));
  set.gather_classes(all_ids(set), values);
  return values;
}

Floats targets_of(const Dataset& set) {
  Floats values(static_cast<size_t>(set.size() * set.outputs()));
  set.gather_targets(all_ids(set), values);
  return values;
}

// CSV with columns x and l, where x = row and l = row mod 3.
std::string counting(int rows) {
  std::string text = "x,l\n";
  for (int i = 0; i < rows; ++i) text += fmt::format("{},{}\n", i, i % 3);
  return text;
}

DataSpec synthetic(int64_t samples, std::vector<int64_t> shape, int64_t classes, int64_t targets = 0) {
  DataSpec spec;
  spec.train.format = schema::DataFormat::kSynthetic;
  spec.train.samples = samples;
  spec.train.feature_shape = std::move(shape);
  if (classes > 0) spec.train.classes = classes;
  if (targets > 0) spec.train.targets = targets;
  return spec;
}

// ---- Sections and classes

TEST_F(LoadTest, EvaluationsOfFewerBatchesTakeSamplesAtEqualDistances) {
  schema::Recipe recipe;
  recipe.data = csv(counting(4), counting(10));
  recipe.data.batch_size = 2;
  const Data whole = load(recipe);
  recipe.eval.batches = 2;
  const Data part = load(recipe);
  EXPECT_EQ(features_of(*part.eval), (Floats{0, 2, 5, 7}));
  EXPECT_EQ(classes_of(*part.eval), (Ints{0, 2, 2, 1}));
  EXPECT_EQ(part.eval->file_row(3), 7);
  EXPECT_EQ(part.eval->fingerprint(), whole.eval->fingerprint());
  EXPECT_EQ(part.train.size(), 4);
  recipe.eval.batch_size = 3;
  EXPECT_EQ(features_of(*load(recipe).eval), (Floats{0, 1, 3, 5, 6, 8}));
  recipe.eval.batches = 4;
  EXPECT_EQ(load(recipe).eval->size(), 10);
}

TEST_F(LoadTest, LoadsBothSections) {
  const Data data = load(csv("x,y,l\n1,2,0\n3,4,1\n", "x,y,l\n5,6,2\n"), 0);
  EXPECT_EQ(data.train.name(), "data.train");
  EXPECT_EQ(features_of(data.train), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(classes_of(data.train), (Ints{0, 1}));
  ASSERT_TRUE(data.eval.has_value());
  EXPECT_EQ(features_of(*data.eval), (Floats{5, 6}));
  EXPECT_EQ(classes_of(*data.eval), (Ints{2}));
  EXPECT_EQ(data.encoding.outputs, 3);  // the largest label is in eval
  EXPECT_EQ(data.train.outputs(), 3);
  EXPECT_EQ(data.encoding.feature_names, (Texts{"x", "y"}));
  EXPECT_EQ(data.encoding.label_name, "l");
}

TEST_F(LoadTest, NumbersClassNamesOfBothSections) {
  const Data data = load(csv("x,l\n1,dog\n2,cat\n", "x,l\n3,bee\n4,dog\n"), 0);
  EXPECT_EQ(data.encoding.class_names, (Texts{"bee", "cat", "dog"}));
  EXPECT_EQ(classes_of(data.train), (Ints{2, 1}));
  EXPECT_EQ(classes_of(*data.eval), (Ints{0, 2}));
  EXPECT_EQ(classes_of(*load(csv("x,l\n1,3A\n2,10\n", "x,l\n3,10\n"), 0).eval), (Ints{0}));
}

TEST_F(LoadTest, EvalSectionMustMatchTheTrainingData) {
  EXPECT_EQ(targets_of(*load(csv("x,l\n1,0.5\n", "x,l\n3,2\n"), 0).eval), (Floats{2}));
  EXPECT_EQ(features_of(*load(csv("x,y,l\n1,2,1\n", "l,y,x\n0,7,8\n"), 0).eval), (Floats{8, 7}));
  const auto error = [&](std::string_view train, std::string_view eval) {
    return message_of([&] { load(csv(train, eval), 0); });
  };
  EXPECT_EQ(error("x,l\n1,0\n", "x,l\n1,0.5\n"),
            "eval.csv:2: label '0.5' is not a class; expected a whole number, or names only");
  EXPECT_EQ(error("x,l\n1,0\n", "x,l\n1,cat\n"),
            "data.eval: expected numbers as labels like the training data, got names");
  EXPECT_EQ(error("x,y,l\n1,2,0\n", "x,l\n1,0\n"), "eval.csv:1: unknown column 'y'; did you mean x or l?");
  DataSpec spec = csv("1,2,0\n", "1,0\n");
  spec.train.header = spec.eval->header = schema::Header::kFalse;
  EXPECT_EQ(message_of([&] { load(spec, 0); }), "data.eval: expected features (2) like the training data, got (1)");
}

TEST_F(LoadTest, CountsTheClassesOfBothSections) {
  EXPECT_EQ(load(csv("x,l\n1,0\n2,0\n"), 0).encoding.outputs, 1);
  EXPECT_EQ(load(csv("x,l\n1,0\n2,0\n", "x,l\n1,1\n"), 0).encoding.outputs, 2);
  EXPECT_EQ(load(csv("x,l\n1,1\n2,1\n"), 0).encoding.outputs, 1) << "class 0 does not occur";
  EXPECT_EQ(load(csv("x,l\n1,0\n2,0\n"), 0, LabelsAs::kTargets).encoding.outputs, 1);
}

TEST_F(LoadTest, ErrorNamesTheSection) {
  try {
    load(csv("x,l\n1,0\n", "x,l\n1\n"), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(
        std::string(error.what())
            .ends_with(
                "eval.csv:2: expected 2 fields like the header, got 1; if the first row is data, set header: false\n  "
                "note: while reading data.eval"))
        << error.what();
  }
}

TEST(LabelsAs, FollowTheTaskAndTheLoss) {
  const auto of = [](schema::Loss loss, schema::Task task = schema::Task::kAuto) {
    schema::TrainSpec train;
    train.loss = loss;
    train.task = task;
    return labels_as(train);
  };
  EXPECT_EQ(of(schema::Loss::kAuto), LabelsAs::kAuto);
  EXPECT_EQ(of(schema::Loss::kAuto, schema::Task::kClassification), LabelsAs::kClasses);
  EXPECT_EQ(of(schema::Loss::kAuto, schema::Task::kRegression), LabelsAs::kTargets);
  EXPECT_EQ(of(schema::Loss::kCrossEntropy), LabelsAs::kClasses);
  for (const schema::Loss loss :
       {schema::Loss::kMse, schema::Loss::kL1, schema::Loss::kHuber, schema::Loss::kBceWithLogits}) {
    EXPECT_EQ(of(loss), LabelsAs::kTargets);
  }
}

// ---- Splits

TEST_F(LoadTest, SplitHoldsOutSmallestHashes) {
  DataSpec spec = csv(counting(100));
  spec.split = schema::SplitSpec{0.256};
  const Data data = load(spec, 7);
  std::vector<std::pair<uint64_t, float>> hashes;
  for (uint64_t i = 0; i < 100; ++i) {
    const Block bits = random_block(7, Stream::kSplit, i, 0);
    hashes.push_back({uint64_t{bits[0]} << 32 | bits[1], static_cast<float>(i)});
  }
  std::sort(hashes.begin(), hashes.end());
  Floats eval, train;
  for (size_t i = 0; i < 100; ++i) (i < 26 ? eval : train).push_back(hashes[i].second);  // 26 = round(25.6)
  std::sort(eval.begin(), eval.end());
  std::sort(train.begin(), train.end());
  EXPECT_EQ(features_of(*data.eval), eval);
  EXPECT_EQ(features_of(data.train), train);
  const Ints classes = classes_of(data.train);
  for (size_t i = 0; i < train.size(); ++i) EXPECT_EQ(classes[i], static_cast<int64_t>(train[i]) % 3);
}

TEST_F(LoadTest, SplitDependsOnTheSeed) {
  DataSpec spec = csv(counting(50));
  spec.split = schema::SplitSpec{0.5};
  EXPECT_EQ(features_of(load(spec, 1).train), features_of(load(spec, 1).train));
  EXPECT_NE(features_of(load(spec, 1).train), features_of(load(spec, 2).train));
}

TEST_F(LoadTest, UsesSeedAndLossOfTheRecipe) {
  schema::Recipe recipe;
  recipe.seed = 5;
  recipe.data = csv(counting(50));
  recipe.data.split = schema::SplitSpec{0.5};
  recipe.train.loss = schema::Loss::kMse;
  EXPECT_EQ(data_seed(recipe), 5u);
  EXPECT_EQ(features_of(load(recipe).train), features_of(load(recipe.data, 5).train));
  EXPECT_EQ(load(recipe).encoding.label_kind, LabelKind::kTarget);
  recipe.data.seed = 6;
  EXPECT_EQ(data_seed(recipe), 6u);
  EXPECT_EQ(features_of(load(recipe).train), features_of(load(recipe.data, 6).train));
}

TEST_F(LoadTest, RejectsASplitWithAnEmptyPart) {
  DataSpec spec = csv(counting(4));
  spec.split = schema::SplitSpec{0.1};
  EXPECT_EQ(message_of([&] { load(spec, 0); }), "data.split.eval: 0.1 of 4 samples makes one part empty");
  for (const double fraction : {0.0, 0.9, 1.0}) {
    spec.split = schema::SplitSpec{fraction};
    EXPECT_EQ(message_of([&] { load(spec, 0); }),
              fmt::format("data.split.eval: {} of 4 samples makes one part empty", fraction));
  }
}

// ---- Statistics

// Mean and population standard deviation in long double.
std::pair<long double, long double> moments(const Floats& values) {
  long double mean = 0, variance = 0;
  for (const float v : values) mean += v;
  mean /= static_cast<long double>(values.size());
  for (const float v : values) variance += (v - mean) * (v - mean);
  return {mean, std::sqrt(variance / static_cast<long double>(values.size()))};
}

TEST_F(LoadTest, StandardizesWithStatisticsOfTheTrainingPart) {
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
TEST_F(LoadTest, LargeNumbersAreNormalisedLikeSmallOnes) {
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

// The inverse of such a spread is infinite in f32.
TEST_F(LoadTest, TreatsATinySpreadAsConstant) {
  DataSpec spec = csv("a,b,l\n0,1e-45,0\n1e-45,0,1\n");
  for (const Normalize normalize : {Normalize::kStandard, Normalize::kMinMax}) {
    spec.normalize = normalize;
    const Data data = load(spec, 0);
    EXPECT_EQ(data.encoding.spread, (std::vector<double>{1, 1}));
    for (const float value : features_of(data.train)) EXPECT_NEAR(value, 0, 1e-44);
  }
}

TEST_F(LoadTest, MinMaxUsesTheRangeOfTheTrainingPart) {
  DataSpec spec = csv("a,b,l\n2,7,0\n4,7,1\n10,7,0\n", "a,b,l\n0,8,0\n6,7,1\n");
  spec.normalize = Normalize::kMinMax;
  const Data data = load(spec, 0);
  EXPECT_EQ(data.encoding.center, (std::vector<double>{2, 7}));
  EXPECT_EQ(data.encoding.spread, (std::vector<double>{8, 1}));
  EXPECT_EQ(features_of(data.train), (Floats{0, 0, 0.25, 0, 1, 0}));
  EXPECT_EQ(features_of(*data.eval), (Floats{-0.25, 1, 0.5, 0}));
}

TEST_F(LoadTest, NormalizesScaledBytes) {
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

TEST_F(LoadTest, FillsMissingValuesWithTheMean) {
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
            "train.csv: feature 'b' has no values in the training part, so it has no mean to fill in; remove it from "
            "features");
}

TEST_F(LoadTest, CountsDroppedRows) {
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

TEST_F(LoadTest, FillUsesOnlyTheTrainingPartOfASplit) {
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

// ---- Encodings

TEST_F(LoadTest, AppliesAnEncodingToOtherFiles) {
  DataSpec spec = csv("a,b,l\n1,,cat\n3,4,dog\n5,8,cat\n");
  spec.train.missing = schema::Missing::kMean;
  spec.normalize = Normalize::kMinMax;
  const Encoding encoding = load(spec, 0).encoding;
  schema::DatasetSpec other = spec.train;
  other.path = write("other.csv", "l,b,a\ndog,,3\n");
  const Dataset set = load_encoded(other, encoding, 0, "other.csv");
  EXPECT_EQ(features_of(set), (Floats{0.5, 0.5}));
  EXPECT_EQ(classes_of(set), (Ints{1}));
  EXPECT_EQ(set.outputs(), 2);

  other.path = write("unlabelled.csv", "a,b\n5,8\n");
  const Dataset unlabelled = load_encoded(other, encoding, 0, "unlabelled.csv", true);
  EXPECT_EQ(unlabelled.label_kind(), LabelKind::kNone);
  EXPECT_EQ(unlabelled.outputs(), 0);
  EXPECT_EQ(features_of(unlabelled), (Floats{1, 1}));
}

TEST_F(LoadTest, RejectsFilesThatDoNotMatchTheEncoding) {
  const auto error = [&](std::string_view train, std::string_view other) {
    DataSpec spec = csv(train);
    const Encoding encoding = load(spec, 0).encoding;
    spec.train.path = write("other.csv", other);
    spec.train.missing = schema::Missing::kMean;
    return message_of([&] { load_encoded(spec.train, encoding, 0, "other.csv"); });
  };
  EXPECT_EQ(error("x,l\n1,cat\n2,bee\n", "x,l\n1,dog\n"),
            "other.csv: unknown class 'dog'; the classes of the model are 'bee', 'cat'");
  EXPECT_EQ(error("x,l\n1,1\n", "x,l\n1,2\n"), "other.csv: unknown class 2; the classes of the model are 1");
  EXPECT_EQ(error("x,l\n1,1\n", "x,l\n,1\n"),
            "other.csv: feature 'x' of sample 0 is missing, but the training data was not read with missing: mean");
}

TEST_F(LoadTest, EncodingKeepsFurtherInputs) {
  Encoding encoding;
  encoding.feature_shape = {8};
  encoding.more_inputs = {{"attention_mask", backends::DType::kI64, {8}, 2},
                          {"segments", backends::DType::kI64, {8}, 3}};
  EXPECT_EQ(Encoding::from_json(encoding.to_json()), encoding);
  EXPECT_EQ(encoding.inputs()[2].name, "segments");
  encoding.more_inputs.resize(kMostInputs);
  EXPECT_EQ(message_of([&] { Encoding::from_json(encoding.to_json()); }),
            "the data encoding is damaged: more_inputs has 4 inputs, expected at most 3");
}

TEST_F(LoadTest, EncodingRoundTripIsExact) {
  DataSpec spec = csv("a,b,l\n0.1,,\"c\xC3\xA4t\"\n0.3,4,dog\n7e-20,8,dog\n");
  spec.train.missing = schema::Missing::kMean;
  spec.normalize = Normalize::kStandard;
  const Encoding encoding = load(spec, 0).encoding;
  EXPECT_EQ(Encoding::from_json(encoding.to_json()), encoding);
}

TEST_F(LoadTest, EncodingIsReadableJson) {
  DataSpec spec = csv("a,l\n1,cat\n3,dog\n");
  spec.normalize = Normalize::kMinMax;
  EXPECT_EQ(load(spec, 0).encoding.to_json(),
            R"({"center":[1.0],"class_names":["cat","dog"],"feature_names":["a"],"feature_shape":[1],"fill":[],)"
            R"("label_kind":"class","label_name":"l","normalize":"min_max","outputs":2,"spread":[2.0]})");
  Encoding encoding;
  for (const LabelKind kind : {LabelKind::kNone, LabelKind::kClass, LabelKind::kTarget}) {
    encoding.label_kind = kind;
    EXPECT_EQ(Encoding::from_json(encoding.to_json()).label_kind, kind);
  }
  encoding.center = encoding.spread = {1};
  for (const Normalize normalize : {Normalize::kStandard, Normalize::kMinMax}) {
    encoding.normalize = normalize;
    EXPECT_EQ(Encoding::from_json(encoding.to_json()).normalize, normalize);
  }
}

TEST_F(LoadTest, ReportsADamagedEncoding) {
  DataSpec spec = csv("a,b,l\n1,2,cat\n3,5,dog\n");
  spec.normalize = Normalize::kStandard;
  const std::string good = load(spec, 0).encoding.to_json();
  const auto damaged = [&](const std::string& part, const std::string& instead) -> std::string {
    std::string text = good;
    const size_t at = text.find(part);
    if (at == std::string::npos) return "no " + part + " in " + good;
    text.replace(at, part.size(), instead);
    try {
      Encoding::from_json(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kStore);
      const std::string start = "the data encoding is damaged: ";
      EXPECT_TRUE(error.message().starts_with(start)) << error.message();
      return error.message().substr(start.size());
    }
    return "";
  };
  EXPECT_EQ(damaged("\"class\"", "1"), "label_kind is 1, expected one of none, class, target");
  EXPECT_EQ(damaged("\"class\"", "\"clas\""), "label_kind is \"clas\", expected one of none, class, target");
  EXPECT_EQ(damaged("\"outputs\":2", "\"output\":2"), "outputs is missing");
  EXPECT_EQ(damaged("\"outputs\":2", "\"outputs\":2.5"), "outputs is 2.5, expected an integer");
  EXPECT_EQ(damaged("\"standard\"", "7"), "normalize is 7, expected one of none, standard, min_max");
  EXPECT_EQ(damaged("\"standard\"", "\"none\""), "center has 2 values, expected 0");
  EXPECT_EQ(damaged("\"spread\":[1.0,1.5]", "\"spread\":[1.0]"), "spread has 1 values, expected 2");
  EXPECT_EQ(damaged("\"fill\":[]", "\"fill\":[1]"), "fill has 1 values, expected 2");
  EXPECT_EQ(damaged("\"outputs\":2", "\"outputs\":3"), "class_names has 2 values, expected 3");
  EXPECT_EQ(damaged("\"outputs\":2", "\"outputs\":-2"), "outputs is -2, expected 0 or more");
  EXPECT_EQ(damaged("[\"a\",\"b\"]", "[\"a\"]"), "feature_names has 1 values, expected 2");
  EXPECT_EQ(damaged("\"feature_shape\":[2]", "\"feature_shape\":[-2]"), "a dimension cannot be negative: (-2)");
  EXPECT_NE(damaged("\"label_name\"", "\"label\"").find("label_name"), std::string::npos);
  EXPECT_EQ(damaged("[2]", "\"x\""), "feature_shape is \"x\", expected a list of integers");
  EXPECT_NE(damaged("}", ""), "");
  EXPECT_NE(damaged("{", "nonsense{"), "");
}

// ---- Fingerprints

TEST_F(LoadTest, FingerprintDetectsEveryChange) {
  const auto print = [&](std::string_view text, double split = 0) {
    DataSpec spec = csv(text);
    if (split > 0) spec.split = schema::SplitSpec{split};
    return load(spec, 0).train.fingerprint();
  };
  const Fingerprint base = print("x,y,l\n1,2,0\n3,4,1\n");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,0\n3,4,1\n")), "");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,0\n3,5,1\n")), "the contents differ");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,1\n3,4,0\n")), "the contents differ");
  EXPECT_EQ(difference(base, print("x,y,l\n3,4,1\n1,2,0\n")), "the contents differ");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,0\n3,4,1\n5,6,1\n")), "2 samples -> 3");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,0\n3,4,2\n")), "the contents differ");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,0.5\n3,4,1\n")), "classes -> targets");
  EXPECT_EQ(difference(base, print("x,y,z,l\n1,2,0,0\n3,4,1,1\n5,6,1,1\n")), "2 samples -> 3, features (2) -> (3)");
  EXPECT_NE(difference(print("x,l\n1,a\n1,b\n"), print("x,l\n1,a\n1,c\n")), "");
  const Fingerprint part = print(counting(30), 0.5);
  EXPECT_EQ(part.samples, 15);
  EXPECT_EQ(difference(part, print(counting(30), 0.5)), "");
}

TEST_F(LoadTest, FingerprintTextRoundTrip) {
  const Fingerprint print = load(csv(counting(7)), 0).train.fingerprint();
  EXPECT_TRUE(print.to_string().starts_with("7 samples, features (1), 3 classes, sha256 ")) << print.to_string();
  EXPECT_EQ(Fingerprint::parse(print.to_string()), print);
  Fingerprint images{60000, {28, 28}, LabelKind::kTarget, 4, "abc"};
  EXPECT_EQ(Fingerprint::parse(images.to_string()), images);
  images.label_kind = LabelKind::kNone;
  images.outputs = 0;
  EXPECT_EQ(Fingerprint::parse(images.to_string()), images);
  for (const char* text :
       {"", "7", "7 samples, features (1), 3 cats, sha256 0", "7 samples, features (x), no labels, sha256 0"}) {
    EXPECT_THROW(Fingerprint::parse(text), Error) << text;
  }
}

// ---- Synthetic data

TEST_F(LoadTest, SyntheticSamplesDependOnlyOnTheirIndex) {
  const Data small = load(synthetic(10, {3, 5}, 4), 11), large = load(synthetic(1000, {3, 5}, 4), 11);
  EXPECT_EQ(small.train.feature_shape(), (backends::Shape{3, 5}));
  EXPECT_EQ(small.train.outputs(), 4);
  const Floats a = features_of(small.train), b = features_of(large.train);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
  Floats alone(15);
  large.train.gather_features(Ints{7}, alone);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), b.begin() + 105));
  EXPECT_NE(features_of(load(synthetic(10, {3, 5}, 4), 12).train), a);
}

TEST_F(LoadTest, SyntheticSectionsShareTheRuleOnly) {
  DataSpec spec = synthetic(2000, {16}, 5);
  spec.eval = spec.train;
  spec.eval->samples = 1000;
  const Data data = load(spec, 3);
  const Floats train = features_of(data.train), eval = features_of(*data.eval);
  EXPECT_FALSE(std::equal(eval.begin(), eval.begin() + 16, train.begin()));
  // Classifies the eval part by the nearest class centre of the training part.
  std::vector<std::vector<double>> centre(5, std::vector<double>(16));
  std::vector<double> count(5);
  const Ints labels = classes_of(data.train), eval_labels = classes_of(*data.eval);
  for (size_t i = 0; i < labels.size(); ++i) {
    ++count[static_cast<size_t>(labels[i])];
    for (size_t f = 0; f < 16; ++f) centre[static_cast<size_t>(labels[i])][f] += double{train[i * 16 + f]};
  }
  for (size_t c = 0; c < 5; ++c) EXPECT_NEAR(count[c], 400, 90);
  int right = 0;
  for (size_t i = 0; i < eval_labels.size(); ++i) {
    std::vector<double> distance(5);
    for (size_t c = 0; c < 5; ++c) {
      for (size_t f = 0; f < 16; ++f) distance[c] += std::pow(double{eval[i * 16 + f]} - centre[c][f] / count[c], 2);
    }
    right += std::min_element(distance.begin(), distance.end()) - distance.begin() == eval_labels[i] ? 1 : 0;
  }
  EXPECT_GT(right, 930);
}

TEST_F(LoadTest, SyntheticTargetsAreLinearInTheFeatures) {
  const Data data = load(synthetic(3000, {6}, 0, 2), 3);
  const Floats x = features_of(data.train), y = targets_of(data.train);
  const auto [mean, deviation] = moments(y);
  EXPECT_NEAR(static_cast<double>(mean), 0, 0.1);
  EXPECT_GT(deviation, 0.4L);
  EXPECT_LT(deviation, 1.7L);
  // u has variance 1/3 and independent features, so w = 3 E[u y].
  for (size_t k = 0; k < 2; ++k) {
    std::vector<double> w(6);
    for (size_t i = 0; i < 3000; ++i) {
      for (size_t f = 0; f < 6; ++f) w[f] += 3.0 / 3000 * double{x[i * 6 + f]} * double{y[i * 2 + k]};
    }
    double error = 0;
    for (size_t i = 0; i < 3000; ++i) {
      double guess = 0;
      for (size_t f = 0; f < 6; ++f) guess += w[f] * double{x[i * 6 + f]};
      error += std::pow(guess - double{y[i * 2 + k]}, 2) / 3000;
    }
    EXPECT_LT(error, 0.02);
  }
}

TEST_F(LoadTest, SyntheticDataSplitsAndHasAFingerprint) {
  DataSpec spec = synthetic(100, {4}, 3);
  spec.split = schema::SplitSpec{0.3};
  const Data data = load(spec, 1);
  EXPECT_EQ(data.train.size(), 70);
  EXPECT_EQ(data.eval->size(), 30);
  EXPECT_EQ(difference(data.train.fingerprint(), load(spec, 1).train.fingerprint()), "");
  EXPECT_EQ(difference(data.train.fingerprint(), load(spec, 2).train.fingerprint()), "the contents differ");
}

TEST_F(LoadTest, SyntheticDataIsNotStored) {
  const Data data = load(synthetic(INT32_MAX, {3, 224, 224}, 1000), 1);
  EXPECT_EQ(data.train.size(), INT32_MAX);
  Ints label(1);
  data.train.gather_classes(Ints{INT32_MAX - 1}, label);
  EXPECT_LT(label[0], 1000);
}

TEST_F(LoadTest, SyntheticDataMustSuitTheLoss) {
  EXPECT_EQ(message_of([&] { load(synthetic(1, {1}, 0), 0); }),
            "synthetic data needs samples, and either classes or targets");
  EXPECT_EQ(message_of([&] { load(synthetic(1, {1}, 2), 0, LabelsAs::kTargets); }),
            "synthetic classes cannot be used with a regression loss; set targets instead of classes");
  EXPECT_EQ(message_of([&] { load(synthetic(1, {1}, 0, 2), 0, LabelsAs::kClasses); }),
            "synthetic targets cannot be used with a classification loss; set classes instead of targets");
}

// ---- The data sets of the recipes

TEST_F(LoadTest, ReadsTheDigits) {
  DataSpec spec;
  spec.train = csv_spec(support::source_path("recipes/data/digits.csv.gz"));
  spec.split = schema::SplitSpec{0.2};
  const Data data = load(spec, 42);
  EXPECT_EQ(data.train.size(), 1438);
  EXPECT_EQ(data.eval->size(), 359);
  EXPECT_EQ(data.train.feature_shape(), backends::Shape{64});
  EXPECT_EQ(data.encoding.outputs, 10);
  EXPECT_EQ(data.encoding.feature_names.front(), "p0");
  const Floats pixels = features_of(data.train);
  EXPECT_EQ(*std::max_element(pixels.begin(), pixels.end()), 16);
  EXPECT_EQ(*std::min_element(pixels.begin(), pixels.end()), 0);
  const Ints labels = classes_of(data.train);
  EXPECT_EQ(std::set<int64_t>(labels.begin(), labels.end()).size(), 10u);
}

TEST_F(LoadTest, ReadsTheWines) {
  DataSpec spec;
  spec.train = csv_spec(support::source_path("recipes/data/wine.csv"));
  spec.normalize = Normalize::kStandard;
  const Data wine = load(spec, 0);
  EXPECT_EQ(wine.train.size(), 178);
  EXPECT_EQ(wine.encoding.outputs, 3);
  EXPECT_NEAR(wine.encoding.center[0], 13.0006, 1e-4);  // mean alcohol; the notes of the source repository state 13.0
  spec.train.label = schema::Column{"flavanoids"};
  for (const char* name : {"alcohol", "malic_acid", "ash"}) spec.train.features.push_back({name});
  const Data regression = load(spec, 0);
  EXPECT_EQ(regression.encoding.label_kind, LabelKind::kTarget);
  EXPECT_EQ(regression.train.feature_shape(), backends::Shape{3});
}

}  // namespace
}  // namespace runner::data
