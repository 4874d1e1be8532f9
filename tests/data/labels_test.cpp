// From labels in files to classes: every way to write them, in every format and in streams.
#include "runner/data/labels.h"

#include "runner/data/load.h"
#include "tests/data/batches.h"
#include "tests/data/load_fixture.h"
#include "tests/golden/golden.h"

namespace runner::data {
namespace {

using Classes = std::vector<int64_t>;
using Texts = std::vector<std::string>;

class LabelsTest : public LoadTest {
 protected:
  schema::DataSpec csv(const Texts& labels, const Texts& eval = {}) {
    return LoadTest::csv(text_of(labels), eval.empty() ? "" : text_of(eval));
  }

  static std::string text_of(const Texts& labels) {
    std::string text = "x,y\n";
    for (const std::string& label : labels) text += "1," + label + "\n";
    return text;
  }

  // Classes of the training data, which must be the same if it is streamed.
  Classes classes(const Texts& labels, LabelsAs as = LabelsAs::kAuto, std::optional<int64_t> ignore_index = {}) {
    schema::DataSpec spec = csv(labels);
    const Data data = load(spec, 0, as, ignore_index);
    EXPECT_EQ(data.encoding, Encoding::from_json(data.encoding.to_json()));
    encoding = data.encoding;
    if (data.encoding.label_kind != LabelKind::kClass) return {};
    Classes ids(labels.size()), found(labels.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
    data.train.gather_classes(ids, found);
    spec.stream = true;
    const Data stream = load(spec, 0, as, ignore_index);
    EXPECT_EQ(stream.encoding, data.encoding);
    Loader loader(stream.train, DataPlan({.samples = std::ssize(labels), .batch_size = std::ssize(labels)}),
                  {.shuffle = false});
    const Batch& batch = loader.next();
    EXPECT_EQ(Classes(batch.classes.begin(), batch.classes.end()), found);
    return found;
  }

  std::string error(const schema::DataSpec& spec, LabelsAs as = LabelsAs::kAuto) {
    return message_of([&] { load(spec, 0, as); });
  }

  Encoding encoding;  // of the last classes()
};

TEST_F(LabelsTest, AreTheValuesThatOccur) {
  EXPECT_EQ(classes({"0", "2", "1"}), (Classes{0, 2, 1}));
  EXPECT_EQ(encoding.class_names, Texts{}) << "0 to 2 are themselves";
  EXPECT_EQ(classes({"1", "3", "2"}), (Classes{0, 2, 1})) << "from 1";
  EXPECT_EQ(encoding.class_names, (Texts{"1", "2", "3"}));
  EXPECT_EQ(labels_text(encoding), "3 classes: 1, 2, 3");
  EXPECT_EQ(classes({"-1", "+1", "1"}), (Classes{0, 1, 1}));
  EXPECT_EQ(classes({"10", "9", "16777216"}), (Classes{1, 0, 2})) << "in numeric order";
  EXPECT_EQ(encoding.outputs, 3);
  EXPECT_EQ(classes({"0.0", "1.0", "1"}), (Classes{0, 1, 1})) << "as pandas writes integers with gaps";
  EXPECT_EQ(encoding.class_names, Texts{});
  EXPECT_EQ(classes({"true", "false"}), (Classes{1, 0}));
  EXPECT_EQ(classes({"10", "9", "b"}), (Classes{0, 1, 2})) << "with a name, all labels are names";
  EXPECT_EQ(classes({"9007199254740993", "9007199254740992"}), (Classes{1, 0})) << "not rounded to f64";
}

TEST_F(LabelsTest, FractionsAreTargets) {
  EXPECT_EQ(classes({"1e15", "1"}), Classes{});
  EXPECT_EQ(classes({"0.5", "1"}), Classes{});
  EXPECT_EQ(encoding.label_kind, LabelKind::kTarget);
  EXPECT_EQ(labels_text(encoding), "1 target");
  EXPECT_EQ(error(csv({"1", "0.5"}), LabelsAs::kClasses),
            "train.csv:3: label '0.5' is not a class; expected a whole number, or names only");
}

TEST_F(LabelsTest, ManyWholeNumbersAreDoubtful) {
  Texts prices, years;
  for (int i = 0; i < 100; ++i) prices.push_back(std::to_string(1000 + i % 21));
  for (int i = 0; i < 420; ++i) years.push_back(std::to_string(2000 + i % 21));
  EXPECT_EQ(
      error(csv(prices)),
      "train.csv: column 'y': the labels are whole numbers with 21 different values in 100 rows: are they classes, "
      "or numbers to predict? Set train.task: regression, or train.task: classification");
  EXPECT_EQ(error(csv(years)), "") << "20 rows for each";
  classes(prices, LabelsAs::kTargets);
  EXPECT_EQ(encoding.label_kind, LabelKind::kTarget);
  classes(prices, LabelsAs::kClasses);
  EXPECT_EQ(encoding.outputs, 21);
  for (std::string& price : prices) price += ".0";
  classes(prices);
  EXPECT_EQ(encoding.label_kind, LabelKind::kTarget) << "numbers with a decimal point are no codes";
  Texts ids;
  for (size_t i = 0; i < kMaxLabels + 10; ++i) ids.push_back(std::to_string(i));
  EXPECT_EQ(
      error(csv(ids)),
      "train.csv: column 'y': the labels are whole numbers with more than 65536 different values in 65546 rows: are "
      "they classes, or numbers to predict? Set train.task: regression, or train.task: classification");
  EXPECT_EQ(error(csv(ids), LabelsAs::kClasses),
            "train.csv: column 'y': the labels have more than 65536 different values, too many for classes; set "
            "train.task: regression if they are numbers to predict");
}

TEST_F(LabelsTest, AnIgnoredLabelIsNoClass) {
  EXPECT_EQ(classes({"0", "-100", "1"}, LabelsAs::kAuto, -100), (Classes{0, -100, 1}));
  EXPECT_EQ(encoding.outputs, 2);
  EXPECT_EQ(encoding.ignored_label, -100);
  EXPECT_EQ(labels_text(encoding), "2 classes: 0 to 1; label -100 is ignored");
  EXPECT_EQ(classes({"0", "255", "1"}, LabelsAs::kAuto, 255), (Classes{0, 255, 1}));
  EXPECT_EQ(classes({"0", "1", "2"}, LabelsAs::kAuto, 0), (Classes{-100, 0, 1})) << "0 is a class now";
  EXPECT_EQ(encoding.class_names, (Texts{"1", "2"}));
  EXPECT_EQ(classes({"a", "-100", "b"}, LabelsAs::kAuto, -100), (Classes{0, -100, 1}));
  EXPECT_EQ(encoding.class_names, (Texts{"a", "b"}));
  EXPECT_EQ(message_of([&] {
              load(csv({"3", "3"}), 0, LabelsAs::kAuto, 3);
            }),
            "data.train: every label is train.ignore_index, 3");
}

TEST_F(LabelsTest, OfBothPartsAreClasses) {
  const Data data = load(csv({"1", "5"}, {"3", "5"}), 0);
  EXPECT_EQ(data.encoding.class_names, (Texts{"1", "3", "5"}));
  Classes ids = {0, 1}, found(2);
  data.eval->gather_classes(ids, found);
  EXPECT_EQ(found, (Classes{1, 2}));
  EXPECT_EQ(data.warnings, (Texts{"1 class without a sample for evaluation: 1 (1 for training); no metric "
                                  "measures it: evaluate on more data",
                                  "1 class without a sample for training: 3 (1 for evaluation); the model "
                                  "cannot learn it"}));
}

TEST_F(LabelsTest, WithoutACommonClassAreAnError) {
  EXPECT_EQ(error(csv({"1", "2"}, {"3", "4"})),
            "data.eval has no class of data.train: data.train has 1, 2; data.eval has 3, 4; check data.train.label and "
            "data.eval.label, or use other evaluation data");
  EXPECT_EQ(error(csv({"cat", "dog"}, {"tree"})),
            "data.eval has no class of data.train: data.train has 'cat', 'dog'; data.eval has 'tree'; check "
            "data.train.label and data.eval.label, or use other evaluation data");
  EXPECT_EQ(error(csv({"cat", "dog"}, {"tree", "dog"})), "");
}

TEST_F(LabelsTest, InTwoSpellingsAreAnError) {
  EXPECT_EQ(error(csv({">50K", "<=50K"}, {">50K.", "<=50K."})),
            "data.eval has the label '<=50K.', and data.train has '<=50K': the same class in two spellings? data.train "
            "has '<=50K', '>50K'; data.eval has '<=50K.', '>50K.'; change one of the files");
  EXPECT_NE(error(csv({"Ham", "spam"}, {"ham"})), "");
  EXPECT_EQ(error(csv({"Ham", "ham"}, {"ham"})), "") << "both spellings are trained";
}

TEST_F(LabelsTest, OfOtherDataFollowTheEncoding) {
  const Encoding of_numbers = load(csv({"1", "5", "-7"}), 0, LabelsAs::kAuto, -7).encoding;
  const Dataset set = load_encoded(csv({"5", "1.0", "-7"}).train, of_numbers, 0, "new");
  Classes ids = {0, 1, 2}, found(3);
  set.gather_classes(ids, found);
  EXPECT_EQ(found, (Classes{1, 0, -7}));
  EXPECT_EQ(message_of([&] { load_encoded(csv({"2"}).train, of_numbers, 0, "new"); }),
            "new: unknown class 2; the classes of the model are 1, 5");
  EXPECT_EQ(message_of([&] { load_encoded(csv({"a"}).train, of_numbers, 0, "new"); }),
            "new: expected numbers as labels like the training data, got names");
}

// ---- data.classes

TEST_F(LabelsTest, FollowTheOrderOfTheRecipe) {
  schema::DataSpec spec = csv({"ham", "spam", "ham"});
  spec.classes = {"spam", "eggs", "ham"};
  const Data data = load(spec, 0);
  EXPECT_EQ(data.encoding.classes(), spec.classes);
  EXPECT_EQ(data.encoding.outputs, 3);
  Classes ids = {0, 1}, found(2);
  data.train.gather_classes(ids, found);
  EXPECT_EQ(found, (Classes{2, 0}));
  spec.classes = {"ham", "eggs"};
  EXPECT_EQ(
      error(spec),
      "data.train: unknown class 'spam'; the classes of the model are 'ham', 'eggs'; add it to data.classes, or, with "
      "model.pretrained, set model.new_head: true");
  spec.classes = {"ham", "spam", "ham"};
  EXPECT_EQ(error(spec), "data.classes has 'ham' twice");
}

TEST_F(LabelsTest, ThatAreNumbersGetNamesByTheRecipe) {
  schema::DataSpec spec = csv({"2", "0", "0"});
  spec.classes = {"bad", "neutral", "good"};
  const Encoding named = load(spec, 0).encoding;
  EXPECT_EQ(named.classes(), spec.classes);
  EXPECT_EQ(named.class_values, (Classes{0, 1, 2}));
  EXPECT_EQ(load(spec, 0).warnings, Texts{"1 class of data.classes without a sample for training: neutral; the labels "
                                          "are numbers, and label 0 is bad"});
  spec.classes = {"2", "7", "0"};
  const Data data = load(spec, 0);
  EXPECT_EQ(data.warnings, Texts{"1 class of data.classes without a sample for training: 7"});
  EXPECT_EQ(data.encoding.class_values, (Classes{2, 7, 0}));
  Classes ids = {0, 1}, found(2);
  data.train.gather_classes(ids, found);
  EXPECT_EQ(found, (Classes{0, 2}));
}

TEST_F(LabelsTest, ThatAreNoClassesHaveNoNames) {
  schema::DataSpec spec = csv({"0.5", "0.25"});
  spec.classes = {"low", "high"};
  EXPECT_NE(error(spec), "");
  EXPECT_EQ(message_of([&] { load(spec, 0, LabelsAs::kTargets); }),
            "data.classes has names of classes, but the labels of the data are no classes; remove it");
}

// ---- classes of the run that is continued

TEST_F(LabelsTest, OfAContinuedRunAreKept) {
  const Encoding parent = load(csv({"1", "2", "5"}), 0).encoding;
  const Data fewer = load(csv({"5", "1"}), 0, LabelsAs::kAuto, {}, &parent);
  EXPECT_EQ(fewer.encoding.class_names, parent.class_names);
  EXPECT_EQ(fewer.encoding.outputs, 3);
  Classes ids = {0, 1}, found(2);
  fewer.train.gather_classes(ids, found);
  EXPECT_EQ(found, (Classes{2, 0}));
  EXPECT_EQ(load(csv({"5", "7"}), 0, LabelsAs::kAuto, {}, &parent).encoding.class_names, (Texts{"5", "7"}))
      << "7 is no class of the run";
  EXPECT_EQ(load(csv({"1"}, {"7"}), 0, LabelsAs::kAuto, {}, &parent).encoding.class_names, (Texts{"1", "7"}));
  EXPECT_EQ(load(csv({"a"}), 0, LabelsAs::kAuto, {}, &parent).encoding.class_names, Texts{"a"});
  schema::DataSpec other = csv({"1", "2"});
  other.classes = {"2", "1"};
  EXPECT_EQ(load(other, 0, LabelsAs::kAuto, {}, &parent).encoding.class_names, other.classes) << "the recipe decides";
  other.classes = parent.class_names;
  EXPECT_EQ(load(other, 0, LabelsAs::kAuto, {}, &parent).encoding.class_names, parent.class_names);
  EXPECT_EQ(load(csv({"1"}), 0, LabelsAs::kTargets, {}, &parent).encoding.label_kind, LabelKind::kTarget);
}

// Older versions padded classes up to the largest label, and floats were targets.
TEST_F(LabelsTest, OfAnOlderRunAreKept) {
  Encoding old = load(csv({"0", "1", "2", "3"}), 0).encoding;
  const Data data = load(csv({"3", "1"}), 0, LabelsAs::kAuto, {}, &old);
  EXPECT_EQ(data.train.fingerprint().outputs, 4);
  EXPECT_EQ(data.encoding.class_names, Texts{});
  Classes ids = {0, 1}, found(2);
  data.train.gather_classes(ids, found);
  EXPECT_EQ(found, (Classes{3, 1}));

  Encoding many = old;
  many.outputs = 30;
  Texts labels;
  for (int i = 1; i < 30; ++i) labels.push_back(std::to_string(i));
  EXPECT_EQ(load(csv(labels), 0, LabelsAs::kAuto, {}, &many).encoding.outputs, 30) << "no longer doubtful";

  const Encoding targets = load(csv({"0.0", "1.0"}), 0, LabelsAs::kTargets).encoding;
  EXPECT_EQ(load(csv({"0.0", "1.0"}), 0, LabelsAs::kAuto, {}, &targets).encoding.label_kind, LabelKind::kTarget);
}

TEST_F(LabelsTest, AnOlderRunIgnoredAClass) {
  schema::TrainSpec train;
  train.ignore_index = 2;
  const Encoding old = completed(load(csv({"0", "1", "2"}), 0).encoding, train);
  EXPECT_EQ(old.ignored_label, 2);
  const Data data = load(csv({"2", "1", "0"}), 0, LabelsAs::kAuto, 2, &old);
  EXPECT_EQ(data.encoding.outputs, 3);
  EXPECT_EQ(data.encoding.ignored_label, 2);
  EXPECT_EQ(data.class_counts, (Classes{1, 1, 0}));
  EXPECT_EQ(completed(data.encoding, {}).ignored_label, 2);

  train.ignore_index = 1;  // the second class, not the label 1
  const Encoding named = completed(load(csv({"1", "2", "b"}), 0).encoding, train);
  EXPECT_EQ(load(csv({"1", "2", "b"}), 0, LabelsAs::kAuto, 1, &named).class_counts, (Classes{1, 0, 1}));
}

TEST_F(LabelsTest, OfSyntheticDataAreNumbersFrom0) {
  schema::DataSpec spec = csv({"0", "1", "1"});
  schema::DatasetSpec synthetic;
  synthetic.format = schema::DataFormat::kSynthetic;
  synthetic.samples = 4;
  synthetic.feature_shape = {1};
  synthetic.classes = 2;
  spec.eval = synthetic;
  EXPECT_EQ(error(spec), "");
  spec.train = csv({"1", "2"}).train;
  EXPECT_EQ(error(spec), "data.eval is synthetic with labels 0 to 1, but the classes of the data are 1, 2");
  spec.eval = spec.train;
  spec.train = synthetic;
  EXPECT_EQ(error(spec), "data.eval: unknown class 2; the classes of the model are 0 to 1");
}

// ---- doubtful labels, weights

TEST_F(LabelsTest, ThatMayBeDamagedAreReported) {
  Texts labels(30, "0");
  for (size_t i = 0; i < labels.size(); i += 2) labels[i] = "1";
  EXPECT_EQ(load(csv(labels), 0).warnings, Texts{});
  labels[17] = "16777216";
  const Data data = load(csv(labels), 0);
  EXPECT_EQ(data.encoding.outputs, 3) << "no empty classes";
  EXPECT_EQ(data.warnings,
            Texts{"data.train: 1 class has a single sample: 16777216 (sample 17); is the label damaged?"});
  labels[17] = "1";
  for (size_t i = 0; i < labels.size(); i += 3) labels[i] = "-100";
  EXPECT_EQ(load(csv(labels), 0).warnings,
            Texts{"label -100 is a class; if it marks samples to ignore, set train.ignore_index: -100"});
  EXPECT_EQ(load(csv(labels), 0, LabelsAs::kAuto, -100).warnings, Texts{});
  EXPECT_EQ(load(csv({"yes", "Yes ", "no", "'no'"}), 0).warnings,
            Texts{"different classes have names that differ only in spelling: ''no'' and 'no', 'Yes' and 'yes'"});
  Texts names;
  for (int i = 0; i < 30; ++i) names.push_back("name" + std::to_string(i));
  EXPECT_EQ(load(csv(names), 0).warnings,
            Texts{"data.train has 30 classes for 30 samples; check which column is the label"});
}

TEST_F(LabelsTest, OneFarNumberIsReportedInFewSamples) {
  const auto warnings = [&](Texts labels) { return load(csv(labels), 0).warnings; };
  EXPECT_EQ(warnings({"0", "1", "2", "0", "1", "255"}),
            Texts{"data.train: 1 class has a single sample: 255 (sample 5); is the label damaged?"});
  EXPECT_EQ(warnings({"-99", "1", "2", "3", "1", "2", "3"}),
            Texts{"data.train: 1 class has a single sample: -99 (sample 0); is the label damaged?"});
  EXPECT_EQ(warnings({"0", "1", "2", "0", "1", "4"}), Texts{}) << "not far";
  EXPECT_EQ(warnings({"0", "1", "2", "0", "255", "255"}), Texts{}) << "not alone";
  EXPECT_EQ(warnings({"10", "20", "10", "20", "30"}), Texts{});
}

TEST_F(LabelsTest, AFractionAmongClassesIsRefused) {
  Texts labels(29, "0");
  for (size_t i = 0; i < labels.size(); i += 2) labels[i] = "1";
  labels.push_back("1.5");
  const auto task = [&](LabelsAs as) { return load(csv(labels), 0, as).encoding.label_kind; };
  EXPECT_EQ(
      error(csv(labels)),
      "train.csv:31: label '1.5' is no class, but 29 other labels are whole numbers with 2 different values; correct "
      "it, or set train.task: regression if the labels are numbers to predict");
  EXPECT_EQ(task(LabelsAs::kTargets), LabelKind::kTarget);
  std::swap(labels[3], labels[29]);
  EXPECT_NE(error(csv(labels)).find(":5: label '1.5' is no class, but 29 other"), std::string::npos);
  labels.assign({"1", "2", "1", "2", "1", "2", "1.5"});
  EXPECT_EQ(task(LabelsAs::kAuto), LabelKind::kTarget) << "few rows";
  labels.assign(30, "1.5");
  for (size_t i = 0; i < 28; ++i) labels[i] = std::to_string(i % 2);
  EXPECT_EQ(task(LabelsAs::kAuto), LabelKind::kTarget) << "two fractions in 30 rows";
}

TEST(ClassWeights, BalancedAreThoseOfScikitLearn) {
  for (const testing::Golden& item : testing::Golden::load("class_weights.json").cases())
    EXPECT_EQ(balanced_weights(item["counts"].integers()), item["weights"].numbers()) << item.name();
  EXPECT_EQ(balanced_weights({3, 0, 1}), (std::vector<double>{4.0 / 6, 0, 2})) << "of the classes that occur";
}

TEST_F(LabelsTest, AreCountedInTheTrainingPart) {
  Texts labels;
  for (int i = 0; i < 60; ++i) labels.push_back(i % 3 == 0 ? "5" : i % 7 == 0 ? "-1" : "4");
  schema::DataSpec spec = csv(labels);
  spec.split = schema::SplitSpec{0.25};
  const Data data = load(spec, 1, LabelsAs::kAuto, -1);
  EXPECT_EQ(data.class_counts, data.train.count_classes(data.encoding.ignored_label));
  spec.split.reset();
  spec.stream = true;
  const Data stream = load(spec, 1, LabelsAs::kAuto, -1);
  EXPECT_EQ(stream.class_counts, stream.train.count_classes(stream.encoding.ignored_label));
  EXPECT_EQ(stream.class_counts, (Classes{34, 20}));
}

}  // namespace
}  // namespace runner::data
