// Sharded models, read back by an independent reader of the format.
#include "runner/formats/model_files.h"

#include <filesystem>
#include <map>
#include <set>

#include "tests/formats/files.h"
#include "tests/support/full_disk.h"
#include "tests/support/json.h"

namespace runner::formats {
namespace {

using support::Json;
using support::read_text;
namespace fs = std::filesystem;

class ModelFilesTest : public FileTest {
 protected:
  // Returns tensors of `floats[i]` elements each, with different values.
  std::vector<NamedTensor> tensors(const std::vector<int64_t>& floats) {
    std::vector<NamedTensor> made;
    for (size_t i = 0; i < floats.size(); ++i) {
      values_.emplace_back(static_cast<size_t>(floats[i]), static_cast<float>(i) + 0.5f);
      made.push_back({fmt::format("layer.{}", i), backends::DType::kF32, backends::Shape{floats[i]},
                      std::as_bytes(std::span(values_.back()))});
    }
    return made;
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }

  // Reads one file into a map from name to values.
  std::map<std::string, std::vector<float>> read_model(const std::string& file) const {
    const std::string bytes = read_text(path(file));
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const Json header = Json::parse(bytes.substr(8, length));
    std::map<std::string, std::vector<float>> found;
    for (const std::string& name : header.keys()) {
      EXPECT_EQ(header[name]["dtype"], "F32");
      const auto begin = static_cast<size_t>(header[name]["data_offsets"][0].integer());
      const auto end = static_cast<size_t>(header[name]["data_offsets"][1].integer());
      std::vector<float>& values = found[name];
      values.resize((end - begin) / sizeof(float));
      std::memcpy(values.data(), bytes.data() + 8 + length + begin, end - begin);
      EXPECT_EQ(header[name]["shape"][0], std::ssize(values));
    }
    return found;
  }

  std::vector<std::vector<float>> values_;
};

// Same split as split_torch_state_dict_into_shards of huggingface_hub 0.36 for the same sizes: 40, 40, 40, 400, 4 and
// 36 bytes, with at most 80 bytes per file.
TEST_F(ModelFilesTest, SplitsLikeHuggingFace) {
  const std::vector<ModelFile> parts = model_files(tensors({10, 10, 10, 100, 1, 9}), "model.safetensors", 80);
  ASSERT_EQ(parts.size(), 5u);
  const std::vector<size_t> counts{2, 1, 1, 2, 0};
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(parts[i].tensors.size(), counts[i]) << i;
  EXPECT_EQ(parts[0].name, "model-00001-of-00004.safetensors");
  EXPECT_EQ(parts[3].name, "model-00004-of-00004.safetensors");
  EXPECT_EQ(parts[4].name, "model.safetensors.index.json");
  const Json index = Json::parse(parts[4].index);
  EXPECT_EQ(index["metadata"]["total_size"], 560);
  EXPECT_EQ(index["weight_map"], Json::parse(R"({
    "layer.0": "model-00001-of-00004.safetensors", "layer.1": "model-00001-of-00004.safetensors",
    "layer.2": "model-00002-of-00004.safetensors", "layer.3": "model-00003-of-00004.safetensors",
    "layer.4": "model-00004-of-00004.safetensors", "layer.5": "model-00004-of-00004.safetensors"})"));
}

TEST_F(ModelFilesTest, SmallModelIsOneFileWithoutIndex) {
  const std::vector<ModelFile> whole = model_files(tensors({10, 10}), "model.safetensors", 80);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].name, "model.safetensors");
  EXPECT_EQ(model_files(tensors({10, 10}), "weights.st", 1).size(), 1u);  // its name does not allow shards
}

TEST_F(ModelFilesTest, IndexNamesTheFileOfEveryTensor) {
  const std::vector<std::string> written = write_model(path("model.safetensors"), tensors({3, 5, 2, 7, 1}), 32);
  EXPECT_EQ(written.back(), path("model.safetensors.index.json"));
  const Json index = Json::parse(read_text(written.back()));
  const Json map = index["weight_map"];
  ASSERT_EQ(map.size(), 5u);
  for (size_t i = 0; i < values_.size(); ++i) {
    const std::string name = fmt::format("layer.{}", i);
    EXPECT_EQ(read_model(map[name].text()).at(name), values_[i]) << name;
  }
}

TEST_F(ModelFilesTest, RemovesFilesOfAnEarlierModel) {
  write("model-notes.txt", "");
  write("model-00001-of-00002.safetensors.bak", "");
  write("other-00001-of-00002.safetensors", "");
  const std::set<std::string> others = files();
  write_model(path("model.safetensors"), tensors({10, 10, 10}), 40);
  EXPECT_EQ(files().size(), others.size() + 4);
  write_model(path("model.safetensors"), tensors({10, 10}), 40);
  EXPECT_EQ(files().size(), others.size() + 3);
  EXPECT_TRUE(files().contains("model-00002-of-00002.safetensors"));
  write_model(path("model.safetensors"), tensors({10}), 40);
  std::set<std::string> wanted = others;
  wanted.insert("model.safetensors");
  EXPECT_EQ(files(), wanted);
  write_model(path("model.safetensors"), tensors({10, 10}), 40);  // must remove the single file, which would be
                                                                  // mistaken for the whole model
  EXPECT_FALSE(files().contains("model.safetensors"));
}

// The second of three files does not fit.
TEST_F(ModelFilesTest, AFullDiskLeavesNoPartOfAModel) {
  write_model(path("old.safetensors"), tensors({10, 1000, 1}), 100);
  const std::set<std::string> before = files();
  for (const char* const name : {"new.safetensors", "old.safetensors"}) {
    const std::string message = [&] {
      const support::FullDisk full(2000);
      return message_of([&] { write_model(path(name), tensors({10, 1000, 1}), 100); });
    }();
    EXPECT_NE(message.find("-00002-of-00003.safetensors: "), std::string::npos) << message;
    EXPECT_EQ(files(), before);
  }
}

TEST_F(ModelFilesTest, Sizes) {
  for (const auto& [text, bytes] : std::map<std::string, int64_t>{{"4096", 4096},
                                                                  {"1B", 1},
                                                                  {"5GB", 5'000'000'000},
                                                                  {"200MiB", 200 << 20},
                                                                  {"1.5 KB", 1500},
                                                                  {"2TiB", int64_t{2} << 40}})
    EXPECT_EQ(shard_size(text, "--max-shard-size"), bytes) << text;
  for (const char* text : {"", "GB", "0", "-1GB", "5 gigabytes", "5gb", "nan", "inf", "1e30", "1GB "})
    EXPECT_EQ(message_of([&] { shard_size(text, "--max-shard-size"); }),
              fmt::format("--max-shard-size: expected a size such as 5GB, 200MiB or 4096, got '{}'", text));
}

// Returns the names and values that are read back.
std::map<std::string, std::vector<float>> values_of(const ModelTensors& read) {
  std::map<std::string, std::vector<float>> values;
  for (const NamedTensor& tensor : read.tensors()) {
    std::vector<float>& out = values[tensor.name];
    out.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return values;
}

TEST_F(ModelFilesTest, ReadsWhatWasWritten) {
  write_model(path("one.safetensors"), tensors({3, 1}), kDefaultShardSize);
  write_model(path("m.safetensors"), tensors({3, 1, 20, 2}), 16);
  const std::vector<float> first(3, 0.5f), second(1, 1.5f), third(20, 2.5f), fourth(2, 3.5f);
  EXPECT_EQ(values_of(ModelTensors(path("one.safetensors"))),
            (std::map<std::string, std::vector<float>>{{"layer.0", first}, {"layer.1", second}}));
  EXPECT_EQ(values_of(ModelTensors(path("m.safetensors.index.json"))),
            (std::map<std::string, std::vector<float>>{
                {"layer.0", first}, {"layer.1", second}, {"layer.2", third}, {"layer.3", fourth}}));
}

TEST_F(ModelFilesTest, ReportsAnIndexThatItsFilesDoNotFit) {
  write_safetensors(path("a.safetensors"), tensors({1, 1}));  // layer.0, layer.1
  const auto error = [&](std::string_view map) {
    write("i.json", fmt::format(R"({{"metadata": {{}}, "weight_map": {}}})", map));
    return message_of([&] { ModelTensors(path("i.json")); });
  };
  EXPECT_EQ(error(R"({"layer.0": "a.safetensors", "layer.1": "a.safetensors"})"), "");
  EXPECT_EQ(error(R"({"layer.0": "a.safetensors", "layer.1": "b.safetensors"})"),
            "i.json: 'a.safetensors' has a tensor 'layer.1', which the index does not list for this file");
  EXPECT_EQ(error(R"({"x": "b.safetensors"})"),
            "i.json: the file 'b.safetensors' of tensor 'x' does not exist; put it into the folder of the index");
  EXPECT_EQ(error(R"({"layer.0": "a.safetensors", "layer.1": "a.safetensors", "layer.2": "a.safetensors"})"),
            "i.json: 'a.safetensors' has no tensor 'layer.2', which the index lists");
  EXPECT_EQ(error(R"({"layer.0": "a.safetensors", "layer.1": "a.safetensors", "layer.0": "a.safetensors"})"),
            "i.json: weight_map lists tensor 'layer.0' twice");
  for (const char* const inside : {"x/b.safetensors", "..b.safetensors", "x..y/b.safetensors"})
    EXPECT_EQ(
        error(fmt::format(R"({{"x": "{}"}})", inside)),
        fmt::format("i.json: the file '{}' of tensor 'x' does not exist; put it into the folder of the index", inside));
  for (const char* const outside : {"../a.safetensors", "/a.safetensors", "x/../../a.safetensors"})
    EXPECT_EQ(error(fmt::format(R"({{"x": "{}"}})", outside)),
              fmt::format("i.json: the file '{}' of tensor 'x' is outside the folder of the index", outside));
  EXPECT_EQ(error(R"({"x": "pytorch_model.bin"})"),
            "i.json: the file 'pytorch_model.bin' of tensor 'x' is not a .safetensors file; save the model as "
            "safetensors");
  EXPECT_EQ(error(R"({"x": 1})"), "i.json: weight_map has no file name for tensor 'x'");
  for (const char* const map : {"[]", "1"})
    EXPECT_EQ(
        error(map),
        "i.json: expected an index of safetensors files, a JSON object with a map weight_map of tensors to files");
  write("i.json", "{");
  EXPECT_EQ(message_of([&] { ModelTensors(path("i.json")); }),
            "i.json: expected an index of safetensors files, a JSON object with a map weight_map of tensors to files");
}

TEST_F(ModelFilesTest, ReadsShardsBelowTheIndex) {
  fs::create_directory(path("parts"));
  write_safetensors(path("parts/a.safetensors"), tensors({2}));
  write("i.json", R"({"weight_map": {"layer.0": "parts/a.safetensors"}})");
  EXPECT_EQ(values_of(ModelTensors(path("i.json"))).size(), 1u);
}

}  // namespace
}  // namespace runner::formats
