// Encodings: other files with the encoding of the training data, and encodings as JSON.
#include "runner/data/encoding.h"

#include "runner/data/labels.h"
#include "tests/data/load_fixture.h"

namespace runner::data {
namespace {

using schema::DataSpec;
using schema::Normalize;
using EncodingTest = LoadTest;
using Floats = LargeArray<float>;
using Ints = LargeArray<int64_t>;

TEST_F(EncodingTest, AppliesAnEncodingToOtherFiles) {
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

TEST_F(EncodingTest, RejectsFilesThatDoNotMatchTheEncoding) {
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
            "other.csv: column 'x' of sample 0 is missing, but the training data was not read with missing: mean");
}

TEST_F(EncodingTest, KeepsFurtherInputs) {
  Encoding encoding;
  encoding.feature_shape = {8};
  encoding.more_inputs = {{"attention_mask", backends::DType::kI64, {8}, 2},
                          {"segments", backends::DType::kI64, {8}, 3}};
  EXPECT_EQ(Encoding::from_json(encoding.to_json()), encoding);
  EXPECT_EQ(encoding.inputs()[2].name, "segments");
  encoding.more_inputs.resize(kMaxInputs);
  EXPECT_EQ(message_of([&] { Encoding::from_json(encoding.to_json()); }),
            "the data encoding is damaged: more_inputs has 4 inputs, expected at most 3");
}

TEST_F(EncodingTest, FeaturesLabelsAndClassesMayEachBeOfTokens) {
  for (const int64_t vocabulary : {0, 10}) {
    for (const int64_t sequence : {0, 4}) {
      for (const TokenLabels labels : {TokenLabels::kNone, TokenLabels::kNext, TokenLabels::kOwn}) {
        Encoding encoding;
        encoding.feature_shape = {4};
        encoding.label_kind = LabelKind::kClass;
        encoding.outputs = 2;
        encoding.vocabulary = vocabulary;
        encoding.sequence = sequence;
        encoding.token_labels = labels;
        const SampleInput features{
            kFeaturesName, vocabulary > 0 ? backends::DType::kI64 : backends::DType::kF32, {4}, vocabulary};
        EXPECT_EQ(encoding.inputs(), std::vector{features});
        EXPECT_EQ(encoding.label_width(0), sequence > 0 ? 4 : 1);
        EXPECT_EQ(encoding.label_width(2), sequence > 0 ? 2 : 1);
        EXPECT_EQ(labels_text(encoding), labels == TokenLabels::kNone ? "2 classes: 0 to 1" : "2 classes");
        EXPECT_EQ(Encoding::from_json(encoding.to_json()), encoding);
      }
    }
  }
}

TEST_F(EncodingTest, OfATextHasTheMembersOfOlderVersions) {
  DataSpec spec;
  spec.train.format = schema::DataFormat::kText;
  spec.train.path = write("x.txt", "abab");
  spec.train.sequence_length = 3;
  EXPECT_EQ(load(spec, 0).encoding.to_json(),
            R"({"center":[],"class_names":["a","b"],"feature_names":[],"feature_shape":[3],"fill":[],)"
            R"("label_kind":"class","label_name":"","normalize":"none","outputs":2,"sequence":3,"spread":[]})");
}

TEST_F(EncodingTest, RoundTripIsExact) {
  DataSpec spec = csv("a,b,l\n0.1,,\"c\xC3\xA4t\"\n0.3,4,dog\n7e-20,8,dog\n");
  spec.train.missing = schema::Missing::kMean;
  spec.normalize = Normalize::kStandard;
  const Encoding encoding = load(spec, 0).encoding;
  EXPECT_EQ(Encoding::from_json(encoding.to_json()), encoding);
}

TEST_F(EncodingTest, IsReadableJson) {
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

TEST_F(EncodingTest, ReportsADamagedEncoding) {
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
  EXPECT_EQ(damaged("\"standard\"", "7"), "normalize is 7, expected one of none, standard, min_max, channels");
  EXPECT_EQ(damaged("\"standard\"", "\"none\""), "center has 2 values, expected 0");
  EXPECT_EQ(damaged("\"spread\":[1.0,1.5]", "\"spread\":[1.0]"), "spread has 1 values, expected 2");
  EXPECT_EQ(damaged("\"fill\":[]", "\"fill\":[1]"), "fill has 1 values, expected 2");
  EXPECT_EQ(damaged("\"outputs\":2", "\"outputs\":3"), "class_names has 2 values, expected 3");
  EXPECT_EQ(damaged("\"outputs\":2", "\"outputs\":-2"), "outputs is -2, expected 0 or more");
  EXPECT_EQ(damaged("\"outputs\":2", "\"outputs\":2,\"vocabulary\":-1"), "vocabulary is -1, expected 0 or more");
  EXPECT_EQ(damaged("[\"a\",\"b\"]", "[\"a\"]"), "feature_names has 1 values, expected 2");
  EXPECT_EQ(damaged("\"feature_shape\":[2]", "\"feature_shape\":[-2]"), "a dimension cannot be negative: (-2)");
  EXPECT_NE(damaged("\"label_name\"", "\"label\"").find("label_name"), std::string::npos);
  EXPECT_EQ(damaged("[2]", "\"x\""), "feature_shape is \"x\", expected a list of integers");
  EXPECT_NE(damaged("}", ""), "");
  EXPECT_NE(damaged("{", "nonsense{"), "");
}

}  // namespace
}  // namespace runner::data
