// model.init_from: matching tensors are read exactly, and errors name mismatches.
#include "runner/model/initial_weights.h"

#include <cmath>

#include "runner/formats/model_files.h"
#include "runner/formats/safetensors.h"
#include "tests/formats/files.h"
#include "tests/support/bytes.h"

namespace runner::nn {
namespace {

using backends::DType;
using backends::Shape;
using formats::NamedTensor;
using Floats = std::vector<float>;

class InitialWeightsTest : public formats::FileTest {
 protected:
  InitialWeightsTest() {
    parameters_.add("0.weight", {2, 3}, {});
    parameters_.add("0.bias", {2}, {});
  }

  NamedTensor weight(DType dtype = DType::kF32, const Shape& shape = {2, 3},
                     const std::string& name = "0.weight") const {
    static const std::string zeros(64, '\0');
    return {name, dtype, shape, support::bytes_of(zeros).first(static_cast<size_t>(shape.elements()) * size_of(dtype))};
  }
  NamedTensor bias() const { return weight(DType::kF32, {2}, "0.bias"); }

  // Returns a file in a new folder, because a file that was read cannot be replaced.
  std::string new_file() {
    const std::string folder = path(std::to_string(++files_));
    std::filesystem::create_directory(folder);
    return folder + "/w";
  }

  // A file with all tensors.
  std::string new_weights() {
    std::string file = new_file();
    formats::write_safetensors(file, {weight(), bias()});
    return file;
  }

  // The error names the file "w".
  std::string error(std::vector<NamedTensor> tensors, const std::vector<schema::Rename>& renames = {}) {
    const std::string file = new_file();
    formats::write_safetensors(file, std::move(tensors));
    std::string message = message_of([&] { InitialWeights({file, renames}, parameters_); });
    const std::string folder = fmt::format("{}/", files_);
    if (const size_t at = message.find(folder + "w"); at != std::string::npos) message.erase(at, folder.size());
    return message;
  }

  ParameterSet parameters_;
  int files_ = 0;
};

TEST_F(InitialWeightsTest, ReadsEveryFloatType) {
  const std::string f32 = formats::bytes_of(Floats{0.1f, -2}), f64 = formats::bytes_of(std::vector<double>{0.1, -2}),
                    bf16 = formats::bytes_of(std::vector<uint16_t>{0x3f80, 0xc000}),
                    f16 = formats::bytes_of(std::vector<uint16_t>{0x3c00, 0xc000});
  const struct {
    DType dtype;
    const std::string& bytes;
    Floats expected;
  } cases[] = {{DType::kF32, f32, {0.1f, -2}},
               {DType::kF64, f64, {0.1f, -2}},
               {DType::kBf16, bf16, {1, -2}},
               {DType::kF16, f16, {1, -2}}};
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(name_of(c.dtype)));
    const std::string file = new_file();
    formats::write_safetensors(file, {weight(), {"0.bias", c.dtype, {2}, support::bytes_of(c.bytes)}});
    const InitialWeights weights({file}, parameters_);
    Floats values(2);
    EXPECT_TRUE(weights.read(parameters_[1], values));
    EXPECT_EQ(values, c.expected);
  }
}

TEST_F(InitialWeightsTest, LeavesOutTheOutputLayerForANewOne) {
  const NamedTensor other_bias = weight(DType::kF32, {4}, "0.bias");
  for (const bool has_bias : {true, false}) {
    const std::string file = new_file();
    formats::write_safetensors(file, has_bias ? std::vector{weight(), other_bias} : std::vector{weight()});
    const InitialWeights weights({.path = file, .output_layer = "*.bias", .has_new_outputs = true}, parameters_);
    Floats values(6);
    EXPECT_TRUE(weights.read(parameters_[0], values));
    EXPECT_FALSE(weights.read(parameters_[1], std::span(values).first(2)));
    EXPECT_EQ(weights.report()->text(), fmt::format("1 of 2 parameters come from {}; newly initialized: 1 (0.bias){}",
                                                    file, has_bias ? "; not used: 1 (0.bias)" : ""));
    const std::string text = message_of([&] { InitialWeights({.path = file, .output_layer = "*.bias"}, parameters_); });
    EXPECT_TRUE(text.ends_with("; model.new_head: true starts with a new output layer")) << text;
    EXPECT_FALSE(InitialWeights({.path = new_weights()}, parameters_).report()->has_news());
  }
}

TEST_F(InitialWeightsTest, ReadsElementsInOrder) {
  const std::string bytes = formats::bytes_of(Floats{1, 2, 3, 4, 5, 6});
  formats::write_safetensors(path("w"), {{"0.weight", DType::kF32, {2, 3}, support::bytes_of(bytes)}, bias()});
  Floats values(6);
  EXPECT_TRUE(InitialWeights({path("w")}, parameters_).read(parameters_[0], values));
  EXPECT_EQ(values, (Floats{1, 2, 3, 4, 5, 6}));
  Floats part(3);
  EXPECT_TRUE(InitialWeights({path("w")}, parameters_).read(parameters_[0], part, 2));
  EXPECT_EQ(part, (Floats{3, 4, 5}));
}

TEST_F(InitialWeightsTest, KeepsValuesWithoutAFile) {
  Floats values = {7, 8};
  EXPECT_FALSE(InitialWeights().read(parameters_[1], values));
  EXPECT_EQ(values, (Floats{7, 8}));
}

TEST_F(InitialWeightsTest, ReportsMismatches) {
  EXPECT_EQ(error({weight()}), "model.init_from: w has no tensor 0.bias, expected one of shape (2); it has '0.weight'");
  EXPECT_EQ(error({}), "model.init_from: w has no tensor 0.weight, expected one of shape (2, 3); it has no tensors");
  EXPECT_EQ(error({weight(DType::kF32, {2, 3}, "module.0.weight")}),
            "model.init_from: w has no tensor 0.weight, expected one of shape (2, 3); it has 'module.0.weight'; remove "
            "the prefix with model.rename: {\"module.*\": \"*\"}");
  EXPECT_EQ(error({weight(DType::kF32, {3, 2}), bias()}),
            "model.init_from: expected shape (2, 3) of 0.weight in w, got (3, 2)");
  EXPECT_EQ(error({weight(DType::kF32, {6}), bias()}),
            "model.init_from: expected shape (2, 3) of 0.weight in w, got (6)");
  EXPECT_EQ(error({weight(DType::kI64), bias()}), "model.init_from: expected floats in 0.weight in w, got I64");
  EXPECT_EQ(error({weight(), bias(), weight(DType::kF32, {2}, "2.bias")}),
            "model.init_from: w has a tensor 2.bias, which the model does not have");
  write("w", formats::safetensors("{" + formats::tensor_entry("0.weight", "U8", "[2,3]", "[0,6]") + "," +
                                      formats::tensor_entry("0.bias", "F32", "[2]", "[6,14]") + "}",
                                  std::string(14, 'a')));
  EXPECT_EQ(message_of([&] { InitialWeights({path("w")}, parameters_); }),
            "model.init_from: expected floats in 0.weight in w, got U8");
}

TEST_F(InitialWeightsTest, RefusesImpossibleRunningStatistics) {
  parameters_.add_buffer({.name = "1.running_mean", .type = {DType::kF32, {2}}});
  parameters_.add_buffer({.name = "1.running_var", .type = {DType::kF32, {2}}, .initial = 1, .least = 0});
  parameters_.add_buffer({.name = "1.num_batches_tracked", .type = {DType::kI64, {}}, .least = 0});
  parameters_.add_buffer({.name = "1.num_batches_not_finite", .type = {DType::kI64, {}}, .is_internal = true});
  const auto error_of = [&](const Floats& mean, const std::vector<double>& variance, int64_t count) {
    const std::string means = formats::bytes_of(mean), variances = formats::bytes_of(variance),
                      counts = formats::bytes_of(std::vector<int64_t>{count});
    return error({weight(), bias(), NamedTensor{"1.running_mean", DType::kF32, {2}, support::bytes_of(means)},
                  NamedTensor{"1.running_var", DType::kF64, {2}, support::bytes_of(variances)},
                  NamedTensor{"1.num_batches_tracked", DType::kI64, {}, support::bytes_of(counts)}});
  };
  constexpr const char* kEnd = "; the training that made them has diverged, or the file is damaged: use another file";
  EXPECT_EQ(error_of({-1, 2}, {0, 3}, 5), "");
  EXPECT_EQ(error_of({0, NAN}, {1, 1}, 0),
            std::string("model.init_from: 1.running_mean in w: element 1 is nan, expected finite numbers") + kEnd);
  EXPECT_EQ(error_of({-INFINITY, 0}, {1, 1}, 0),
            std::string("model.init_from: 1.running_mean in w: element 0 is -inf, expected finite numbers") + kEnd);
  EXPECT_EQ(
      error_of({0, 0}, {1, -0.5}, 0),
      std::string("model.init_from: 1.running_var in w: element 1 is -0.5, expected finite numbers of at least 0") +
          kEnd);
  EXPECT_EQ(
      error_of({0, 0}, {1, 1e300}, 0),
      std::string("model.init_from: 1.running_var in w: element 1 is inf, expected finite numbers of at least 0") +
          kEnd);
  EXPECT_EQ(error_of({0, 0}, {1, 1}, -1),
            std::string("model.init_from: 1.num_batches_tracked in w: element 0 is -1, expected finite numbers of at "
                        "least 0") +
                kEnd);
}

TEST_F(InitialWeightsTest, RenamesInOrder) {
  const std::string bytes = formats::bytes_of(Floats{1, -2});
  const std::string file = new_file();
  formats::write_safetensors(file, {weight(DType::kF32, {2, 3}, "module.net.fc.weight"),
                                    {"module.net.fc.bias", DType::kF32, {2}, support::bytes_of(bytes)}});
  Floats values(2);
  InitialWeights({file, {{"module.*", "*"}, {"net.fc.*", "0.*"}}}, parameters_).read(parameters_[1], values);
  EXPECT_EQ(values, (Floats{1, -2}));
  EXPECT_EQ(error({weight(DType::kF32, {2, 3}, "m.0.weight"), weight(DType::kF32, {2}, "m.0.bias")},
                  {{"m.1.*", "m.0.*"}, {"m.*", "*"}}),
            "model.rename: 'm.1.*' matches no tensor of w; it has 'm.0.bias', 'm.0.weight'");
  EXPECT_EQ(error({weight(DType::kF32, {2, 3}, "m.weight"), bias()}, {{"m.*", "1.*"}}),
            "model.init_from: w has no tensor 0.weight, expected one of shape (2, 3); it has '0.bias', '1.weight' "
            "('m.weight' in the file)");
  EXPECT_EQ(error({weight(DType::kF32, {2, 3}, "m.weight"), bias()}, {{"m.*", "0.*"}, {"m.*", "0.*"}}),
            "model.rename: 'm.*' matches no tensor of w; it has '0.bias', '0.weight' ('m.weight' in the file)");
  EXPECT_EQ(error({weight(), bias(), weight(DType::kF32, {2}, "m.bias")}, {{"m.*", "0.*"}}),
            "model.rename: '0.bias' and 'm.bias' of w both become '0.bias'");
  EXPECT_EQ(error({weight(), bias(), weight(DType::kF32, {2}, "m.scale")}, {{"m.*", "2.*"}}),
            "model.init_from: w has a tensor 2.scale ('m.scale' in the file), which the model does not have");
  EXPECT_EQ(error({weight(DType::kF32, {3, 2}, "m.weight"), bias()}, {{"m.*", "0.*"}}),
            "model.init_from: expected shape (2, 3) of 0.weight ('m.weight' in the file) in w, got (3, 2)");
}

TEST_F(InitialWeightsTest, SwapsNamesByAThird) {
  const std::string bytes = formats::bytes_of(Floats{1, -2});
  const std::string file = new_file();
  formats::write_safetensors(
      file, {weight(DType::kF32, {2, 3}, "0.bias"), {"0.weight", DType::kF32, {2}, support::bytes_of(bytes)}});
  Floats values(2);
  InitialWeights({file, {{"0.bias", "x"}, {"0.weight", "0.bias"}, {"x", "0.weight"}}}, parameters_)
      .read(parameters_[1], values);
  EXPECT_EQ(values, (Floats{1, -2}));
}

TEST_F(InitialWeightsTest, ReadsTheShardsOfAnIndex) {
  const std::string bytes = formats::bytes_of(Floats{1, -2});
  formats::write_model(path("m.safetensors"), {weight(), {"0.bias", DType::kF32, {2}, support::bytes_of(bytes)}}, 24);
  Floats values(2);
  InitialWeights({path("m.safetensors.index.json")}, parameters_).read(parameters_[1], values);
  EXPECT_EQ(values, (Floats{1, -2}));
}

TEST_F(InitialWeightsTest, ReportsAFileThatCannotBeRead) {
  EXPECT_EQ(message_of([&] { InitialWeights({path("absent")}, parameters_); }),
            "cannot open absent: No such file or directory");
  EXPECT_EQ(message_of([&] { InitialWeights({write("w", "x,y\n1,2\n3,4\n")}, parameters_); }),
            "w: not a safetensors file, or cut off: its header would be longer than the file");
}

}  // namespace
}  // namespace runner::nn
