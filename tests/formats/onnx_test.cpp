// ONNX files of all ops, as text (onnx.txt). With RUNNER_ONNX_FOLDER, the files are also written to that folder, with
// inputs and outputs of this program, for onnx_check.py.
#include "runner/formats/onnx.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/ir/ops.h"
#include "backends/tensor/float16.h"
#include "schema/base/error.h"
#include "tests/support/expected_text.h"
#include "tests/support/paths.h"

namespace runner::formats {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::InputKind;
using backends::Pooling;
using backends::Program;
using backends::Shape;
using backends::Value;
using backends::Window;

// ---- models --------------------------------------------------------------------------------------------------------

// Inputs of a model for B samples: x (B, 4) and positive p (B, 4) f32, ids (B, 2) i64; weights w (3, 4), b (4) f32.
struct Inputs {
  Value x, p, ids, w, b;
};
using Model = std::function<Value(const Inputs&)>;

constexpr int64_t kColumns[] = {1}, kSwapped[] = {1, 0};

Value is_positive(Value x) {
  return ops::gt(x, 0.0);
}
Value negated(Value x) {
  return ops::unary(backends::Op::kNot, x);
}
Value either(Value a, Value b) {
  return ops::binary(backends::Op::kOr, a, b);
}
Value as_float(Value x) {
  return ops::cast(x, DType::kF32);
}

const std::vector<std::pair<std::string, Model>>& models() {
  static const std::vector<std::pair<std::string, Model>> kModels = {
      {"neg abs sign", [](const Inputs& in) { return ops::mul(ops::neg(in.x), ops::sign(ops::abs(in.x))); }},
      {"exp log log1p", [](const Inputs& in) { return ops::add(ops::log(in.p), ops::log1p(ops::exp(in.x))); }},
      {"sqrt rsqrt",
       [](const Inputs& in) { return ops::add(ops::sqrt(in.p), ops::unary(backends::Op::kRsqrt, in.p)); }},
      {"tanh sigmoid erf", [](const Inputs& in) { return ops::tanh(ops::sigmoid(ops::erf(in.x))); }},
      {"relu gelu", [](const Inputs& in) { return ops::add(ops::relu(in.x), ops::gelu(in.x)); }},
      {"gelu_tanh silu", [](const Inputs& in) { return ops::add(ops::gelu_tanh(in.x), ops::silu(in.x)); }},
      {"is_finite not", [](const Inputs& in) { return as_float(negated(ops::is_finite(ops::log(in.x)))); }},
      {"sub div pow", [](const Inputs& in) { return ops::pow(ops::div(ops::sub(in.p, 0.1), in.b), ops::abs(in.x)); }},
      {"min max", [](const Inputs& in) { return ops::minimum(in.x, ops::maximum(in.p, ops::neg(in.x))); }},
      {"eq ne lt le gt ge",
       [](const Inputs& in) {
         const Value equal = either(ops::eq(in.x, in.p), ops::ne(in.x, ops::abs(in.x)));
         const Value less = ops::logical_and(ops::lt(in.x, in.p), ops::le(in.x, in.p));
         return as_float(either(ops::logical_and(equal, less), ops::ge(in.x, in.p)));
       }},
      {"where", [](const Inputs& in) { return ops::where(is_positive(in.x), in.x, ops::full_like(in.x, -7)); }},
      {"sum", [](const Inputs& in) { return ops::sum(in.x, kColumns); }},
      {"reduce_max reduce_min argmax",
       [](const Inputs& in) {
         const Value range = ops::sub(ops::reduce_max(in.x, kColumns), ops::reduce_min(in.x, kColumns));
         return ops::add(range, as_float(ops::argmax(in.x, 1)));
       }},
      {"reshape to rows of two",
       [](const Inputs& in) {
         return ops::reshape(in.x, Shape{2 * in.x.shape()[0], 2});
       }},
      {"permute", [](const Inputs& in) { return ops::permute(in.x, kSwapped); }},
      {"expand",
       [](const Inputs& in) {
         const Value rows = ops::expand(in.b, in.x.shape());  // only the product looks through it
         return ops::concat(std::array{ops::mul(rows, in.x), rows}, 1);
       }},
      {"slice", [](const Inputs& in) { return ops::slice(in.x, 1, 1, 4, 2); }},
      {"first sample", [](const Inputs& in) { return ops::slice(in.x, 0, 0, 1); }},
      {"pad", [](const Inputs& in) { return ops::pad(in.x, 1, 1, 2); }},
      {"gather one_hot",
       [](const Inputs& in) {
         return ops::add(ops::gather(in.x, 1, in.ids), ops::sum(ops::one_hot(in.ids, 3), std::array<int64_t, 1>{2}));
       }},
      {"embedding", [](const Inputs& in) { return ops::embedding(in.w, in.ids); }},
      {"matmul", [](const Inputs& in) { return ops::matmul(in.x, in.w, false, true); }},
      {"add_matmul",
       [](const Inputs& in) {
         const Value features = ops::matmul(in.x, in.w, false, true);
         return ops::add_matmul(ops::expand(in.b, in.x.shape()), features, in.w);
       }},
      {"matmul of a batch of matrices",
       [](const Inputs& in) {
         const Shape square{in.x.shape()[0], 2, 2};
         return ops::matmul(ops::reshape(in.x, square), ops::reshape(in.p, square), true, true);
       }},
      {"softmax log_softmax", [](const Inputs& in) { return ops::add(ops::softmax(in.x), ops::log_softmax(in.p)); }},
      {"layer_norm", [](const Inputs& in) { return ops::layer_norm(in.x, in.b, in.b, 1e-3); }},
      {"rms_norm", [](const Inputs& in) { return ops::rms_norm(in.x, in.b, 1e-3); }},
      {"rotary",
       [](const Inputs& in) {
         const Value heads = ops::reshape(in.x, Shape{in.x.shape()[0], 1, 2, 2});
         const Value table = ops::rotary_table(in.ids, ops::slice(in.b, 0, 1, 2));
         return ops::rotary(heads, table);
       }},
      {"top_k", [](const Inputs& in) { return ops::gather(in.x, -1, ops::top_k(ops::mul(in.x, in.b), 3)); }},
      {"attention",
       [](const Inputs& in) {
         const Shape heads{in.x.shape()[0], 2, 2, 1};
         const Value k = ops::reshape(ops::slice(in.p, 1, 0, 2), heads.with(1, 1));
         return ops::attention(ops::reshape(in.x, heads), k, ops::neg(k), {.causal = true});
       }},
      {"conv",
       [](const Inputs& in) {
         const Value image = ops::reshape(in.x, Shape{in.x.shape()[0], 1, 2, 2});
         const Value weights = ops::reshape(in.w, Shape{3, 1, 2, 2});
         const Window windows[] = {{.stride = 2, .before = 1}, {.dilation = 1, .before = 1, .after = 1}};
         return ops::conv(image, weights, windows);
       }},
      {"conv_grad_x",
       [](const Inputs& in) {
         const Value rows = ops::reshape(in.x, Shape{in.x.shape()[0], 2, 2});
         const Value weights = ops::reshape(ops::slice(in.w, 0, 0, 2), Shape{2, 1, 4});
         const Window windows[] = {{.stride = 2, .before = 1, .after = 1}};
         const int64_t sizes[] = {5};
         return ops::conv_transpose(rows, weights, windows, sizes);
       }},
      {"max_pool window_sum",
       [](const Inputs& in) {
         const Value row = ops::reshape(in.x, Shape{in.x.shape()[0], 1, 4});
         const Pooling pools[] = {{.size = 3, .stride = 2, .padding = 1, .ceil_mode = true}};
         return ops::add(ops::max_pool(row, pools), ops::avg_pool(row, pools, false));
       }},
      {"batch_norm",
       [](const Inputs& in) {
         const Value image = ops::reshape(in.x, Shape{in.x.shape()[0], 4, 1});
         return ops::batch_norm(image, in.b, ops::add(in.b, 1.0), in.b);
       }},
      {"types", [](const Inputs& in) { return ops::cast(ops::cast(in.x, DType::kF16), DType::kF64); }},
  };
  return kModels;
}

struct Recorded {
  Program program;
  Value w, b;
};

// `sample`: shape of x without B, of 4 elements.
std::unique_ptr<Recorded> record(const Model& model, int64_t batch, const Shape& sample = {4}) {
  auto recorded = std::make_unique<Recorded>();
  Program& program = recorded->program;
  const auto input = [&](InputKind kind, const char* name, DType dtype, const Shape& shape) {
    return Value{&program, program.input(kind, name, {dtype, shape})};
  };
  recorded->w = input(InputKind::kState, "w", DType::kF32, {3, 4});
  recorded->b = input(InputKind::kState, "b", DType::kF32, {4});
  std::vector<int64_t> dims = {batch};
  dims.insert(dims.end(), sample.dims().begin(), sample.dims().end());
  const Value x = input(InputKind::kBatch, "features", DType::kF32, Shape(dims));
  const Value p = input(InputKind::kBatch, "p", DType::kF32, {batch, 4});
  const Value ids = input(InputKind::kBatch, "ids", DType::kI64, {batch, 2});
  program.output("outputs", model({x, p, ids, recorded->w, recorded->b}).id);
  return recorded;
}

std::vector<float> values(size_t count, float step, float first) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = first + step * static_cast<float>(i * 7 % count);
  return all;
}

const std::vector<float> kW = values(12, 0.25F, -1.5F), kB = values(4, 0.5F, 0.25F);

std::string exported(const Model& model, std::optional<OnnxScaling> scaling = {}, const Shape& sample = {4}) {
  const auto two = record(model, 2, sample), three = record(model, 3, sample);
  return onnx_model({.first = {two->program, 2},
                     .second = {three->program, 3},
                     .weights = {{two->w.id, "layer.w", {3, 4}, std::as_bytes(std::span(kW))},
                                 {two->b.id, "layer.b", {4}, std::as_bytes(std::span(kB))}},
                     .inputs = {"features", "p", "ids"},
                     .output = "outputs",
                     .scaling = std::move(scaling),
                     .metadata = {{"classes", R"(["a"])"}}});
}

// ---- text of a file ------------------------------------------------------------------------------------------------

// Field of a protobuf message: a number, or bytes.
struct Field {
  uint64_t number, value;
  std::string_view bytes;
};

uint64_t varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<Field> fields(std::string_view bytes) {
  std::vector<Field> all;
  while (!bytes.empty()) {
    const uint64_t key = varint(bytes), type = key & 7;
    Field field{key >> 3, 0, {}};
    if (type == 0) field.value = varint(bytes);
    const size_t size = type == 2 ? varint(bytes) : type == 5 ? 4 : type == 1 ? 8 : 0;
    field.bytes = bytes.substr(0, size);
    bytes.remove_prefix(size);
    all.push_back(field);
  }
  return all;
}

std::string_view part_of(std::string_view message, uint64_t number) {
  for (const Field& field : fields(message))
    if (field.number == number) return field.bytes;
  return {};
}

std::vector<std::string> texts_of(std::string_view message, uint64_t number) {
  std::vector<std::string> texts;
  for (const Field& field : fields(message))
    if (field.number == number) texts.emplace_back(field.bytes.empty() ? fmt::format("{}", field.value) : field.bytes);
  return texts;
}

std::string attribute_text(std::string_view attribute) {
  const std::string_view number = part_of(attribute, 2);
  float value = 0;
  if (!number.empty()) std::memcpy(&value, number.data(), sizeof value);
  std::vector<std::string> values = number.empty() ? std::vector<std::string>() : std::vector{fmt::format("{}", value)};
  for (const Field& field : fields(attribute))
    if (field.number == 3 || field.number == 8) values.push_back(fmt::format("{}", static_cast<int64_t>(field.value)));
  return fmt::format(" {}={}", part_of(attribute, 1), fmt::join(values, ","));
}

std::string value_text(std::string_view info) {
  const std::string_view tensor = part_of(part_of(info, 2), 1);
  std::vector<std::string> dims;
  for (const Field& dim : fields(part_of(tensor, 2)))
    dims.push_back(fields(dim.bytes)[0].bytes.empty() ? std::to_string(fields(dim.bytes)[0].value)
                                                      : std::string(fields(dim.bytes)[0].bytes));
  return fmt::format("{}: type {} ({})", part_of(info, 1), fields(tensor)[0].value, fmt::join(dims, ", "));
}

std::string tensor_text(std::string_view tensor) {
  int64_t type = 0;
  for (const Field& field : fields(tensor))
    if (field.number == 2) type = static_cast<int64_t>(field.value);
  const std::string_view raw = part_of(tensor, 9);
  std::vector<std::string> numbers;
  const auto read = [&](auto number) {
    for (size_t at = 0; at + sizeof number <= raw.size(); at += sizeof number) {
      std::memcpy(&number, raw.data() + at, sizeof number);
      numbers.push_back(fmt::format("{}", number));
    }
  };
  if (type == 1) read(float{});
  if (type == 7) read(int64_t{});
  return fmt::format("{}: type {} ({}) = {}", part_of(tensor, 8), type, fmt::join(texts_of(tensor, 1), ", "),
                     fmt::join(numbers, " "));
}

std::string text_of(std::string_view model) {
  const std::string_view graph = part_of(model, 7);
  std::string text;
  for (const Field& field : fields(graph)) {
    if (field.number == 11) text += "  input " + value_text(field.bytes) + '\n';
    if (field.number == 5) text += "  tensor " + tensor_text(field.bytes) + '\n';
    if (field.number == 12) text += "  output " + value_text(field.bytes) + '\n';
    if (field.number != 1) continue;
    std::string attributes;
    for (const Field& part : fields(field.bytes))
      if (part.number == 5) attributes += attribute_text(part.bytes);
    text += fmt::format("  {} = {}({}){}\n", texts_of(field.bytes, 2)[0], texts_of(field.bytes, 4)[0],
                        fmt::join(texts_of(field.bytes, 1), ", "), attributes);
  }
  return text;
}

// ---- tests ---------------------------------------------------------------------------------------------------------

std::string all_texts() {
  std::string text;
  for (const auto& [name, model] : models()) text += name + '\n' + text_of(exported(model));
  const OnnxScaling scaling{.scale = 0.5, .center = {1, 2, 3, 4}, .spread = {2, 2, 2, 4}};
  const auto features = [](const Inputs& in) { return in.x; };
  text += "scaled features\n" + text_of(exported(features, scaling));
  const OnnxScaling of_channels{.center = {1, 2}, .spread = {2, 4}}, of_grey{.center = {0.5}, .spread = {0.25}};
  text += "scaled channels of (C, H, W)\n" + text_of(exported(features, of_channels, {2, 1, 2}));
  text += "scaled image (H, W)\n" + text_of(exported(features, of_grey, {2, 2}));
  return text;
}

TEST(Onnx, TranslatesEveryOp) {
  const std::filesystem::path file = support::source_path("tests/formats/onnx.txt");
  const std::string actual = all_texts();
  if (support::should_update()) std::ofstream(file) << actual;
  std::ifstream in(file);
  EXPECT_EQ(actual, std::string(std::istreambuf_iterator<char>(in), {}));
}

std::string error_of(const Model& model) {
  try {
    exported(model);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Onnx, RefusesWhatAModelFileCannotHave) {
  EXPECT_EQ(error_of([](const Inputs& in) { return ops::slice(in.x, 0, 0, in.x.shape()[0] - 1); }),
            "the model computes (1, 4) f32 of a batch of 2, which is no multiple of it");
  EXPECT_EQ(error_of([](const Inputs& in) { return ops::full_like(in.x, 2.5); }),
            "the outputs of the model do not depend on its inputs");
  EXPECT_EQ(
      error_of([](const Inputs& in) { return ops::mul(in.x, static_cast<double>(in.x.shape()[0])); }),
      "the operation constant of the model contains the batch size, but an ONNX model must accept any batch size");
  EXPECT_EQ(error_of([](const Inputs& in) { return in.x.shape()[0] == 2 ? ops::neg(in.x) : ops::exp(in.x); }),
            "the model computes something else for another batch size");
  EXPECT_EQ(error_of([](const Inputs& in) { return ops::scatter_add(in.x, 1, in.ids, ops::slice(in.x, 1, 0, 2)); }),
            "the model computes scatter_add, which ONNX models do not have");
  EXPECT_EQ(error_of([](const Inputs& in) {
              Program& program = *in.x.program;
              return Value{&program, program.input(InputKind::kBatch, "mask", in.x.type())};
            }),
            "the model needs mask to predict, which an exported model does not get");
}

// Not a comparison: the files and what this program computes, for onnx_check.py.
TEST(Onnx, WritesFilesToCheck) {
  const char* const folder = std::getenv("RUNNER_ONNX_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "set RUNNER_ONNX_FOLDER to write the files";
  constexpr int64_t kBatch = 5;
  const std::vector<float> x = values(20, 0.3F, -2.5F), p = values(20, 0.25F, 0.5F);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 2 * kBatch; ++i) ids.push_back(i % 3);
  const auto device = backends::make_cpu_device(1);
  for (const auto& [name, model] : models()) {
    const auto recorded = record(model, kBatch);
    const auto step = device->compile(recorded->program);
    const auto w = device->allocate(48), b = device->allocate(16);
    device->write(*w, 0, std::as_bytes(std::span(kW)));
    device->write(*b, 0, std::as_bytes(std::span(kB)));
    backends::Buffer* const states[] = {w.get(), b.get()};
    const std::byte* const batch[] = {std::as_bytes(std::span(x)).data(), std::as_bytes(std::span(p)).data(),
                                      std::as_bytes(std::span(ids)).data()};
    device->submit(*step, {.states = states, .batch = batch, .scalars = {}});
    const backends::TensorType type = recorded->program.type(recorded->program.outputs()[0].value);
    std::vector<std::byte> bytes(type.bytes());
    device->read_output(*step, 0, bytes);
    std::vector<double> outputs;
    for (size_t at = 0; at < bytes.size(); at += size_of(type.dtype))
      outputs.push_back(backends::load_element(type.dtype, bytes.data() + at));
    const std::filesystem::path file = std::filesystem::path(folder) / (name + ".onnx");
    std::ofstream(file, std::ios::binary) << exported(model);
    std::ofstream(std::filesystem::path(file).replace_extension(".json"))
        << fmt::format("{{\"features\": [{}], \"p\": [{}], \"ids\": [{}], \"outputs\": [{}]}}\n", fmt::join(x, ","),
                       fmt::join(p, ","), fmt::join(ids, ","), fmt::join(outputs, ","));
  }
}

}  // namespace
}  // namespace runner::formats
