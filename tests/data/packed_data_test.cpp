// Data of every kind that another process reads from shared memory: the same batches, facts and fingerprint.
#include "runner/data/packed_data.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/data/loader.h"
#include "runner/data/storage.h"
#include "tests/data/image_fixture.h"

namespace runner::data {
namespace {

using schema::DataFormat;

// The bytes of the batches of two epochs.
std::string batches_of(const Dataset& set, const std::shared_ptr<const Augmenter>& augmenter) {
  Loader loader(set, DataPlan({.samples = set.size(), .batch_size = 3}), {.epochs = 2, .augmenter = augmenter});
  std::string all;
  const auto add = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (int64_t i = 0; i < 2 * ((set.size() + 2) / 3); ++i) {
    const Batch& batch = loader.next();
    for (const auto& input : batch.inputs) add(input);
    add(batch.classes);
    add(batch.targets);
    add(batch.ids);
  }
  return all;
}

struct Options {
  LabelsAs labels = LabelsAs::kAuto;
  std::optional<Masking> masking = {};
};

class PackedDataTest : public ImageFixture {
 protected:
  // Loads data, moves them to other memory, and expects the same there.
  void expect_same(const schema::DataSpec& spec, const Options& options = {}) {
    schema::Recipe recipe;
    recipe.data = spec;
    std::optional<Data> data = load(spec, 1, options.labels, std::nullopt, nullptr, true, options.masking);
    const Packer packer = pack_data(*data);
    const std::shared_ptr<std::byte> memory(new std::byte[packer.array_bytes()], std::default_delete<std::byte[]>());
    const std::string train = batches_of(data->train, data->augmenter);
    const std::string eval = data->eval ? batches_of(*data->eval, nullptr) : "";
    const std::string print = data->train.fingerprint().to_string();
    const std::string eval_print = data->eval ? data->eval->fingerprint().to_string() : "";
    const Encoding encoding = data->encoding;
    const std::vector<std::string> warnings = data->warnings;
    const LabelCounts counts = data->train.storage().label_counts;
    const std::string contents = data->train.storage().contents;
    const size_t files = data->train.storage().files.size();
    packer.move_arrays({memory.get(), packer.array_bytes()});
    data.reset();

    const Data same = unpack_data(packer.bytes(), {memory, packer.array_bytes()}, recipe);
    EXPECT_EQ(batches_of(same.train, same.augmenter), train);
    EXPECT_EQ(same.eval ? batches_of(*same.eval, nullptr) : "", eval);
    EXPECT_EQ(same.train.fingerprint().to_string(), print);
    EXPECT_EQ(same.eval ? same.eval->fingerprint().to_string() : "", eval_print);
    EXPECT_EQ(same.encoding, encoding);
    EXPECT_EQ(same.warnings, warnings);
    const Storage& storage = same.train.storage();
    EXPECT_EQ(storage.label_counts, counts);
    EXPECT_EQ(storage.contents, contents);
    EXPECT_EQ(storage.files.size(), files);
    EXPECT_TRUE(pack_data(same).bytes().size() == packer.bytes().size());
    EXPECT_EQ(pack_data(same).array_bytes(), packer.array_bytes());
  }

  schema::DataSpec file(DataFormat format, const std::string& name, const std::string& contents) {
    schema::DataSpec spec;
    spec.train.format = format;
    spec.train.path = write(name, contents);
    return spec;
  }
};

constexpr const char* kTable = "x,y,l\n1,2.5,a\n,3,b\n4,1e9,a\n5,,b\n6,7,a\n8,9,c\n";

TEST_F(PackedDataTest, OfTables) {
  schema::DataSpec spec = file(DataFormat::kCsv, "x.csv", kTable);
  spec.train.missing = schema::Missing::kMean;
  spec.normalize = schema::Normalize::kStandard;
  spec.split = schema::SplitSpec{.eval = 0.5};
  expect_same(spec);
  spec.split.reset();
  spec.eval = file(DataFormat::kCsv, "y.csv", "x,y,l\n3,4,b\n7,8,a\n").train;
  spec.train.missing = schema::Missing::kDrop;
  expect_same(spec);
  expect_same(file(DataFormat::kCsv, "z.csv", "x,t\n1,0.5\n2,0.25\n3,7\n"));
}

TEST_F(PackedDataTest, OfStreams) {
  schema::DataSpec spec = file(DataFormat::kCsv, "x.csv", kTable);
  spec.train.missing = schema::Missing::kMean;
  spec.normalize = schema::Normalize::kStandard;
  spec.stream = true;
  spec.shuffle_buffer = 3;
  spec.eval = file(DataFormat::kCsv, "y.csv", "x,y,l\n3,4,b\n7,8,a\n").train;
  expect_same(spec);
  schema::DataSpec text = file(DataFormat::kText, "x.txt", "to be or not to be, that is the question");
  text.train.sequence_length = 5;
  text.stream = true;
  text.shuffle_buffer = 2;
  expect_same(text);
  std::filesystem::create_directory(path("texts"));
  std::filesystem::rename(path("x.txt"), path("texts/x.txt"));
  text.train.path = path("texts");
  expect_same(text);
}

TEST_F(PackedDataTest, OfTexts) {
  schema::DataSpec text = file(DataFormat::kText, "x.txt", "to be or not to be, that is the question");
  text.train.sequence_length = 5;
  text.split = schema::SplitSpec{.eval = 0.4};
  expect_same(text);

  schema::DataSpec ids = file(DataFormat::kText, "x.bin", std::string("\1\0\2\0\3\0\4\0\5\0\6\0\7\0\1\0\1\0\2\0", 20));
  ids.train.tokens = "ids";
  ids.train.vocabulary = 9;
  ids.train.sequence_length = 2;
  ids.split = schema::SplitSpec{.eval = 0.5};
  expect_same(ids);

  schema::DataSpec rows = file(DataFormat::kLines, "lines.txt", "a b\nc\nb a b\n");
  rows.tokens =
      schema::TokensSpec{.tokenizer = write("v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n"), .max_length = 6};
  expect_same(rows, {.labels = LabelsAs::kNextTokens});
  expect_same(rows, {.labels = LabelsAs::kTokens, .masking = Masking{.probability = 0.5}});
}

TEST_F(PackedDataTest, OfArraysAndSyntheticSamples) {
  schema::DataSpec spec;
  spec.train = numbered_images(8, 2, 3);
  spec.train.augment = {schema::AugmentStep{.flip = schema::Flip::kHorizontal}};
  spec.normalize = schema::Normalize::kMinMax;
  expect_same(spec);
  spec = synthetic(7, {3}, 2);
  spec.split = schema::SplitSpec{.eval = 0.3};
  expect_same(spec);
  expect_same(synthetic(5, {4}, 0, 2));
}

TEST_F(PackedDataTest, OfImageFiles) {
  for (const auto& [name, color] : {std::pair("a/1.png", 10), {"a/2.png", 90}, {"b/1.png", 160}, {"b/2.png", 230}}) {
    const auto tone = static_cast<uint8_t>(color);
    write_image("photos/" + std::string(name), 4, 6, {tone, 1, tone});
  }
  schema::DataSpec spec;
  spec.train.format = DataFormat::kImages;
  spec.train.path = path("photos");
  spec.resize = {3, 3};
  spec.normalize = schema::Normalize::kChannels;
  spec.split = schema::SplitSpec{.eval = 0.5};
  expect_same(spec);
  spec.train.augment = {schema::AugmentStep{.random_resized_crop = {3}}};
  expect_same(spec);
}

TEST_F(PackedDataTest, OfCifar) {
  std::string records;
  for (int i = 0; i < 5; ++i)
    records += static_cast<char>(i % 3) + counting_bytes(3072 - i) + std::string(size_t(i), '\7');
  schema::DataSpec spec = file(DataFormat::kCifar, "c.bin", records);
  spec.train.classes = 10;
  spec.split = schema::SplitSpec{.eval = 0.4};
  expect_same(spec);
}

TEST_F(PackedDataTest, OfPreparedTokens) {
  schema::DataSpec spec;
  spec.train.format = DataFormat::kNpy;
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 3), }\n";
  spec.train.inputs.input_ids = write("ids.npy", formats::npy(header, "abcdefghiabc"));
  spec.train.inputs.attention_mask =
      write("mask.npy", formats::npy(header, std::string("\1\1\1\1\1\0\1\0\0\1\1\1", 12)));
  spec.train.labels_file = write(
      "y.npy", formats::npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }\n", std::string("\0\1\1\0", 4)));
  expect_same(spec, {.labels = LabelsAs::kClasses});
}

// The others open it again.
TEST_F(PackedDataTest, ATokenFileThatHasBecomeShorterIsReported) {
  schema::DataSpec spec = file(DataFormat::kText, "x.bin", std::string("\1\0\2\0\3\0\4\0\5\0\6\0", 12));
  spec.train.tokens = "ids";
  spec.train.vocabulary = 9;
  spec.train.sequence_length = 2;
  schema::Recipe recipe;
  recipe.data = spec;
  const Data data = load(spec, 1);
  const Packer packer = pack_data(data);
  write("shorter.bin", std::string("\1\0\2\0", 4));
  std::filesystem::rename(path("shorter.bin"), path("x.bin"));
  EXPECT_EQ(message_of([&] { unpack_data(packer.bytes(), {}, recipe); }), "x.bin has changed since it was loaded");
}

}  // namespace
}  // namespace runner::data
