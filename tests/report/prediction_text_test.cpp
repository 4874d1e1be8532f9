#include "runner/report/prediction_text.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "runner/formats/npy.h"
#include "runner/formats/write.h"

namespace runner::report {
namespace {

// Two samples of 4 tokens. The first ends with a token of padding. The second has padding before and after its token.
train::Prediction of_tokens(train::OutputsAs as) {
  return {.samples = 2,
          .outputs = 2,
          .as = as,
          .values = {1, 2, 4, 3, 5, 6, 8, 7},
          .length = 4,
          .tokens = {{0, 0}, {0, 1}, {0, 2}, {1, 1}},
          .names = {"a", "b"},
          .has_classes = true,
          .files = {},
          .rejected = {}};
}

template <class T>
std::vector<T> values_of(const std::string& npy, size_t count) {
  std::vector<T> values(count);
  const size_t bytes = count * sizeof(T);
  EXPECT_GT(npy.size(), bytes);
  std::memcpy(values.data(), npy.data() + npy.size() - bytes, bytes);
  return values;
}

TEST(PredictionText, OfTokensHasALineForEach) {
  EXPECT_EQ(prediction_csv(of_tokens(train::OutputsAs::kLogits)),
            "class,logit_a,logit_b,row,token\n"
            "b,1,2,0,0\n"
            "a,4,3,0,1\n"
            "b,5,6,0,2\n"
            "a,8,7,1,1\n");
  EXPECT_EQ(prediction_csv(of_tokens(train::OutputsAs::kClasses)), "class,row,token\nb,0,0\na,0,1\nb,0,2\na,1,1\n");
}

TEST(PredictionText, OfImagesNamesTheFiles) {
  const train::Prediction prediction{.samples = 2,
                                     .outputs = 2,
                                     .as = train::OutputsAs::kClasses,
                                     .values = {1, 2, 4, 3},
                                     .length = 0,
                                     .tokens = {},
                                     .names = {"a", "b"},
                                     .has_classes = true,
                                     .files = {"in/1, 2.png", "in/3.png"},
                                     .rejected = {{1, "in/3.png is empty"}}};
  const std::string csv = prediction_csv(prediction);
  EXPECT_EQ(csv, "class,file,row,error\nb,\"in/1, 2.png\",0,\n,in/3.png,1,in/3.png is empty\n");
  EXPECT_EQ(formats::kind_of(csv), formats::FileKind::kPredictions);
  EXPECT_NE(prediction_document("r", 1, prediction).find(R"("files":["in/1, 2.png","in/3.png"])"), std::string::npos);
}

TEST(PredictionText, OfTokensIsAListForEachRow) {
  EXPECT_EQ(
      prediction_document("r", 1, of_tokens(train::OutputsAs::kLogits)),
      R"({"run":"r","state":1,"samples":2,"files":null,"content":"logits","classes":["a","b"],)"
      R"("predictions":[["b","a","b"],["a"]],"outputs":[[[1.0,2.0],[4.0,3.0],[5.0,6.0]],[[8.0,7.0]]],"errors":[]})"
      "\n");
}

TEST(PredictionText, OfTokensFillsArraysWhereThereIsPadding) {
  EXPECT_EQ(values_of<int64_t>(prediction_npy(of_tokens(train::OutputsAs::kClasses)), 8),
            (std::vector<int64_t>{1, 0, 1, -1, -1, 0, -1, -1}));
  const std::string npy = prediction_npy(of_tokens(train::OutputsAs::kLogits));
  EXPECT_NE(npy.find("(2, 4, 2)"), std::string::npos);
  const std::vector<float> values = values_of<float>(npy, 16);
  EXPECT_EQ((std::vector(values.begin(), values.begin() + 6)), (std::vector<float>{1, 2, 4, 3, 5, 6}));
  for (const size_t padding : {6, 7, 8, 9, 12, 13, 14, 15}) EXPECT_TRUE(std::isnan(values[padding])) << padding;
  EXPECT_EQ(values[10], 8);
  EXPECT_EQ(values[11], 7);
}

TEST(PredictionText, OfTokensThatAreAllPaddingHasItsShape) {
  train::Prediction prediction = of_tokens(train::OutputsAs::kClasses);
  prediction.values.clear();
  prediction.tokens.clear();
  EXPECT_EQ(prediction_csv(prediction), "class,row,token\n");
  EXPECT_EQ(values_of<int64_t>(prediction_npy(prediction), 8), std::vector<int64_t>(8, -1));
  EXPECT_NE(prediction_document("r", 1, prediction).find(R"("predictions":[[],[]])"), std::string::npos);
}

}  // namespace
}  // namespace runner::report
