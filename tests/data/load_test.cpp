// Loading the data sets of a recipe: sections, classes, splits, and the data sets in the repository.
#include "runner/data/load.h"

#include <algorithm>

#include "runner/data/random.h"
#include "tests/data/load_fixture.h"
#include "tests/support/paths.h"

namespace runner::data {
namespace {

using schema::DataSpec;
using schema::Normalize;
using Floats = LargeArray<float>;
using Ints = LargeArray<int64_t>;
using Texts = std::vector<std::string>;

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
  const Data data = load(csv("x,y,l\n1,2,0\n3,4,1\n", "x,y,l\n5,6,2\n7,8,1\n"), 0);
  EXPECT_EQ(data.train.name(), "data.train");
  EXPECT_EQ(features_of(data.train), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(classes_of(data.train), (Ints{0, 1}));
  ASSERT_TRUE(data.eval.has_value());
  EXPECT_EQ(features_of(*data.eval), (Floats{5, 6, 7, 8}));
  EXPECT_EQ(classes_of(*data.eval), (Ints{2, 1}));
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
  EXPECT_EQ(features_of(*load(csv("x,y,l\n1,2,1\n", "l,y,x\n1,7,8\n"), 0).eval), (Floats{8, 7}));
  const auto error = [&](std::string_view train, std::string_view eval) {
    return message_of([&] { load(csv(train, eval), 0); });
  };
  EXPECT_EQ(error("x,l\n1,0\n", "x,l\n1,0.5\n"),
            "eval.csv:2: label '0.5' is not a class; expected a whole number, or names only");
  EXPECT_EQ(error("x,l\n1,0\n", "x,l\n1,cat\n"),
            "data.eval: expected numbers as labels like the training data, got names");
  EXPECT_EQ(error("x,y,l\n1,2,0\n", "x,l\n1,0\n"), "eval.csv:1: unknown column 'y'; the columns are 'x', 'l'");
  DataSpec spec = csv("1,2,0\n", "1,0\n");
  spec.train.header = spec.eval->header = schema::Header::kFalse;
  EXPECT_EQ(message_of([&] { load(spec, 0); }), "data.eval: expected features (2) like the training data, got (1)");
}

TEST_F(LoadTest, CountsTheClassesOfBothSections) {
  EXPECT_EQ(load(csv("x,l\n1,0\n2,0\n"), 0).encoding.outputs, 1);
  EXPECT_EQ(load(csv("x,l\n1,0\n2,0\n", "x,l\n1,1\n2,0\n"), 0).encoding.outputs, 2);
  EXPECT_EQ(load(csv("x,l\n1,1\n2,1\n"), 0).encoding.outputs, 1) << "class 0 does not occur";
  EXPECT_EQ(load(csv("x,l\n1,0\n2,0\n"), 0, LabelsAs::kTargets).encoding.outputs, 1);
}

TEST_F(LoadTest, ErrorNamesTheSection) {
  try {
    load(csv("x,l\n1,0\n", "x,l\n1\n"), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what())
                    .ends_with("eval.csv:2: expected 2 fields like the header, got 1\n  "
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
  EXPECT_EQ(message_of([&] { load(spec, 0); }),
            "data.split.eval: 0.1 of 4 samples holds out 0; both parts need at least one");
  for (const double fraction : {0.0, 0.9, 1.0}) {
    spec.split = schema::SplitSpec{fraction};
    EXPECT_EQ(message_of([&] { load(spec, 0); }),
              fmt::format("data.split.eval: {} of 4 samples holds out {}; both parts need at least one", fraction,
                          fraction > 0.5 ? 4 : 0));
  }
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
