// Compares every tensor function in Lua with plain loops over doubles, and checks the messages about wrong arguments.
#include "runner/lua/tensor.h"

#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/lua/accelerator.h"
#include "runner/lua/bind.h"
#include "runner/lua/document.h"
#include "runner/lua/modules.h"
#include "tests/lua/lua_step.h"
#include "tests/support/pattern.h"

namespace runner::lua {
namespace {

using backends::DType;
using backends::Shape;
using backends::TensorType;
using Doubles = std::vector<double>;

constexpr DType f32 = DType::kF32, i64 = DType::kI64, b8 = DType::kBool;

const Doubles kX = {-2, -0.5, 0, 0.75, 1.5, 3}, kY = {0.5, 2, -1, 0.75, 4, -3}, kP = {0.25, 0.5, 1, 1.5, 2, 4};
const Doubles kW = {1, -1, 2, 0.5, -3, 4}, kB = {1, 0, 0, 1, 1, 0}, kC = {1, 1, 0, 0, 1, 0}, kN = {7, -3, 2, 0, 5, 1};

// x, y, p (positive): (2, 3); w: (3, 2); b, c: (2, 3) bool; n: (2, 3) i64; i: (2) i64; z: (2, 1, 3).
struct Step : LuaStep {
  Step() {
    const Shape shape{2, 3};
    input("x", HostTensor({f32, shape}, kX));
    input("y", HostTensor({f32, shape}, kY));
    input("p", HostTensor({f32, shape}, kP));
    input("w", HostTensor({f32, Shape{3, 2}}, kW));
    input("b", HostTensor({b8, shape}, kB));
    input("c", HostTensor({b8, shape}, kC));
    input("n", HostTensor({i64, shape}, kN));
    input("i", HostTensor({i64, Shape{2}}, Doubles{2, 0}));
    input("z", HostTensor({f32, Shape{2, 1, 3}}, kX));
  }
};

struct Row {
  std::string code;
  TensorType type;
  Doubles values;
};

Doubles each(const Doubles& x, const std::function<double(double)>& f) {
  Doubles result;
  for (const double v : x) result.push_back(f(v));
  return result;
}
Doubles both(const Doubles& x, const Doubles& y, const std::function<double(double, double)>& f) {
  Doubles result;
  for (size_t k = 0; k < x.size(); ++k) result.push_back(f(x[k], y[k]));
  return result;
}
// Applies f to each row (axis 1) of a (2, 3) tensor, and to each column.
Doubles rows(const Doubles& x, const std::function<double(const Doubles&)>& f) {
  return {f({x[0], x[1], x[2]}), f({x[3], x[4], x[5]})};
}
Doubles columns(const Doubles& x, const std::function<double(const Doubles&)>& f) {
  return {f({x[0], x[3]}), f({x[1], x[4]}), f({x[2], x[5]})};
}

double sigmoid(double v) {
  return 1 / (1 + std::exp(-v));
}
double gelu_tanh(double v) {
  return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
}

double sum(const Doubles& v) {
  double total = 0;
  for (const double e : v) total += e;
  return total;
}
double mean(const Doubles& v) {
  return sum(v) / static_cast<double>(v.size());
}
double variance(const Doubles& v) {
  double total = 0;
  for (const double e : v) total += (e - mean(v)) * (e - mean(v));
  return total / (static_cast<double>(v.size()) - 1);
}
double deviation(const Doubles& v) {
  return std::sqrt(variance(v));
}
double norm(const Doubles& v) {
  return std::sqrt(sum(each(v, [](double e) { return e * e; })));
}
double logsumexp(const Doubles& v) {
  return std::log(sum(each(v, [](double e) { return std::exp(e); })));
}
double largest(const Doubles& v) {
  return *std::max_element(v.begin(), v.end());
}
double smallest(const Doubles& v) {
  return *std::min_element(v.begin(), v.end());
}
double place_of_largest(const Doubles& v) {
  return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin());
}
double place_of_smallest(const Doubles& v) {
  return static_cast<double>(std::min_element(v.begin(), v.end()) - v.begin());
}
Doubles softmax(const Doubles& x, bool log) {
  Doubles result;
  for (size_t k = 0; k < 6; ++k) {
    const size_t row = k / 3 * 3;
    const double value = x[k] - logsumexp({x[row], x[row + 1], x[row + 2]});
    result.push_back(log ? value : std::exp(value));
  }
  return result;
}

Doubles elementwise_of(const Doubles& x, const char* name) {
  const std::string_view f = name;
  return each(x, [f](double v) {
    if (f == "softplus") return std::log(1 + std::exp(v));
    if (f == "log_sigmoid") return std::log(sigmoid(v));
    if (f == "leaky_relu") return v > 0 ? v : 0.2 * v;
    return v > 0 ? v : 1.5 * (std::exp(v) - 1);
  });
}

std::vector<Row> elementwise() {
  const TensorType same{f32, Shape{2, 3}}, truth{b8, Shape{2, 3}};
  const auto x = [&](std::string code, double (*f)(double)) { return Row{std::move(code), same, each(kX, f)}; };
  const auto p = [&](std::string code, double (*f)(double)) { return Row{std::move(code), same, each(kP, f)}; };
  const auto xy = [&](std::string code, double (*f)(double, double)) {
    return Row{std::move(code), same, both(kX, kY, f)};
  };
  const auto test = [&](std::string code, bool (*f)(double, double)) {
    return Row{std::move(code), truth, both(kX, kY, f)};
  };
  return {
      xy("x + y", [](double a, double b) { return a + b; }),
      xy("x:add(y)", [](double a, double b) { return a + b; }),
      xy("nn.add(x, y)", [](double a, double b) { return a + b; }),
      x("2 + x", [](double a) { return a + 2; }),
      x("x + 2", [](double a) { return a + 2; }),
      {"x + n", same, both(kX, kN, [](double a, double b) { return a + b; })},
      {"n + n", {i64, Shape{2, 3}}, both(kN, kN, [](double a, double b) { return a + b; })},
      {"n + 0.5", same, each(kN, [](double a) { return a + 0.5; })},
      {"n + 2", {i64, Shape{2, 3}}, each(kN, [](double a) { return a + 2; })},
      {"n / 2", same, each(kN, [](double a) { return a / 2; })},
      {"x + i:cast('f32'):reshape(2, 1)", same, {0, 1.5, 2, 0.75, 1.5, 3}},
      xy("x - y", [](double a, double b) { return a - b; }),
      x("1 - x", [](double a) { return 1 - a; }),
      xy("x:sub(y)", [](double a, double b) { return a - b; }),
      xy("x * y", [](double a, double b) { return a * b; }),
      xy("x:mul(y)", [](double a, double b) { return a * b; }),
      xy("x / y", [](double a, double b) { return a / b; }),
      xy("x:div(y)", [](double a, double b) { return a / b; }),
      p("p ^ 1.5", [](double a) { return std::pow(a, 1.5); }),
      p("p:pow(3)", [](double a) { return a * a * a; }),
      p("2 ^ p", [](double a) { return std::exp2(a); }),
      xy("x:minimum(y)", [](double a, double b) { return std::min(a, b); }),
      x("x:maximum(0.5)", [](double a) { return std::max(a, 0.5); }),
      test("x:eq(y)", [](double a, double b) { return a == b; }),
      test("x:ne(y)", [](double a, double b) { return a != b; }),
      test("x:lt(y)", [](double a, double b) { return a < b; }),
      test("x:le(y)", [](double a, double b) { return a <= b; }),
      test("x:gt(y)", [](double a, double b) { return a > b; }),
      test("x:ge(y)", [](double a, double b) { return a >= b; }),
      {"b:logical_and(c)", truth, both(kB, kC, [](double a, double b) { return a * b; })},
      {"b:logical_or(c)", truth, both(kB, kC, [](double a, double b) { return std::max(a, b); })},
      {"b:logical_not()", truth, each(kB, [](double a) { return 1 - a; })},
      x("-x", [](double a) { return -a; }),
      x("x:neg()", [](double a) { return -a; }),
      x("x:abs()", [](double a) { return std::fabs(a); }),
      x("x:sign()", [](double a) { return a > 0   ? 1.0
                                          : a < 0 ? -1.0
                                                  : 0.0; }),
      x("x:exp()", [](double a) { return std::exp(a); }),
      p("p:log()", [](double a) { return std::log(a); }),
      p("p:log1p()", [](double a) { return std::log1p(a); }),
      p("p:sqrt()", [](double a) { return std::sqrt(a); }),
      p("p:rsqrt()", [](double a) { return 1 / std::sqrt(a); }),
      x("x:square()", [](double a) { return a * a; }),
      x("x:tanh()", [](double a) { return std::tanh(a); }),
      x("x:sigmoid()", sigmoid),
      x("x:erf()", [](double a) { return std::erf(a); }),
      x("x:relu()", [](double a) { return std::max(a, 0.0); }),
      x("nn.relu(x)", [](double a) { return std::max(a, 0.0); }),
      x("x:gelu()", [](double a) { return a * std::erfc(-a / std::sqrt(2.0)) / 2; }),
      x("x:gelu_tanh()", gelu_tanh),
      x("x:silu()", [](double a) { return a * sigmoid(a); }),
      {"x:leaky_relu(0.2)", same, elementwise_of(kX, "leaky_relu")},
      {"nn.LeakyReLU(0.2)(x)", same, elementwise_of(kX, "leaky_relu")},
      {"x:leaky_relu()", same, {-0.02, -0.005, 0, 0.75, 1.5, 3}},
      {"x:elu(1.5)", same, elementwise_of(kX, "elu")},
      {"nn.ELU(1.5)(x)", same, elementwise_of(kX, "elu")},
      {"x:elu() * 1.5", same, {1.5 * std::expm1(-2), 1.5 * std::expm1(-0.5), 0, 1.125, 2.25, 4.5}},
      {"(x * 100):elu()", same, {-1, -1, 0, 75, 150, 300}},
      {"x:softplus()", same, elementwise_of(kX, "softplus")},
      {"nn.Softplus()(x)", same, elementwise_of(kX, "softplus")},
      {"(x * 100):softplus()", same, {0, 0, std::log(2), 75, 150, 300}},
      {"x:log_sigmoid()", same, elementwise_of(kX, "log_sigmoid")},
      {"(x * 100):log_sigmoid()", same, {-200, -50, -std::log(2), 0, 0, 0}},
      {"(x / 0):is_finite()", truth, {0, 0, 0, 0, 0, 0}},
      {"x:is_finite()", truth, {1, 1, 1, 1, 1, 1}},
      {"x:clamp(-1, 1)", same, {-1, -0.5, 0, 0.75, 1, 1}},
      {"x:clamp(nil, 1)", same, {-2, -0.5, 0, 0.75, 1, 1}},
      {"nn.where(b, x, y)", same, {-2, 2, -1, 0.75, 1.5, -3}},
      {"nn.where(b, x, 9)", same, {-2, 9, 9, 0.75, 1.5, 9}},
      {"b * 2", {i64, Shape{2, 3}}, {2, 0, 0, 2, 2, 0}},
      {"1 - b", {i64, Shape{2, 3}}, {0, 1, 1, 0, 0, 1}},
      {"b * 2.0", same, {2, 0, 0, 2, 2, 0}},
      {"b + 0.5", same, {1.5, 0.5, 0.5, 1.5, 1.5, 0.5}},
      {"b / 2", same, {0.5, 0, 0, 0.5, 0.5, 0}},
      {"b:eq(2)", truth, {0, 0, 0, 0, 0, 0}},
      {"b:logical_and(1)", truth, kB},
      {"b * x:gt(0)", truth, {0, 0, 0, 1, 1, 0}},
      {"b + x:gt(0)", truth, {1, 0, 0, 1, 1, 1}},
      {"b:minimum(x:gt(0))", truth, {0, 0, 0, 1, 1, 0}},
      {"b:maximum(x:gt(0))", truth, {1, 0, 0, 1, 1, 1}},
      {"nn.where(b, b, 3)", {i64, Shape{2, 3}}, {1, 3, 3, 1, 1, 3}},
      {"nn.where(b, 0.5, n * 0)", same, {0.5, 0, 0, 0.5, 0.5, 0}},
      {"x:masked_fill(b, -7)", same, {-7, -0.5, 0, -7, -7, 3}},
      {"x:masked_fill(x:gt(1), 0)", same, {-2, -0.5, 0, 0.75, 0, 0}},
      {"x:cast('i64')", {i64, Shape{2, 3}}, {-2, 0, 0, 0, 1, 3}},
      {"b:cast('f32')", same, kB},
      {"x:detach()", same, kX},
  };
}

std::vector<Row> reductions() {
  const TensorType one{f32, {}}, two{f32, Shape{2}}, three{f32, Shape{3}}, kept{f32, Shape{2, 1}};
  const TensorType index{i64, Shape{2}};
  return {
      {"x:sum()", one, {sum(kX)}},
      {"x:sum(2)", two, rows(kX, sum)},
      {"x:sum(-1, true)", kept, rows(kX, sum)},
      {"x:sum(1)", three, columns(kX, sum)},
      {"x:sum(1, 2)", one, {sum(kX)}},
      {"x:sum({1, 2})", one, {sum(kX)}},
      {"x:mean()", one, {mean(kX)}},
      {"x:mean(2)", two, rows(kX, mean)},
      {"x:max(2)", two, rows(kX, largest)},
      {"x:min(1)", three, columns(kX, smallest)},
      {"x:norm(2)", two, rows(kX, norm)},
      {"x:var()", one, {variance(kX)}},
      {"x:var(2)", two, rows(kX, variance)},
      {"x:var(1)", three, columns(kX, variance)},
      {"x:var(2, true)", kept, rows(kX, variance)},
      {"x:std(2)", two, rows(kX, deviation)},
      {"x:std()", one, {deviation(kX)}},
      {"x:logsumexp()", one, {logsumexp(kX)}},
      {"x:logsumexp(2)", two, rows(kX, logsumexp)},
      {"x:logsumexp(1, true)", {f32, Shape{1, 3}}, columns(kX, logsumexp)},
      {"(x * 1000):logsumexp(2) / 1000", two, {0, 3}},
      {"nn.full({2}, -1 / 0):logsumexp()", one, {-INFINITY}},
      {"nn.full({2}, 1 / 0):logsumexp()", one, {INFINITY}},
      {"x:slice(1, 1, 1):var(1)", three, {NAN, NAN, NAN}},
      {"x:argmax()", index, rows(kX, place_of_largest)},
      {"y:argmax(1)", {i64, Shape{3}}, columns(kY, place_of_largest)},
      {"y:argmax(2, true)", {i64, Shape{2, 1}}, rows(kY, place_of_largest)},
      {"y:argmin()", index, rows(kY, place_of_smallest)},
      {"n:argmin(1)", {i64, Shape{3}}, columns(kN, place_of_smallest)},
      {"x:softmax()", {f32, Shape{2, 3}}, softmax(kX, false)},
      {"x:softmax(2)", {f32, Shape{2, 3}}, softmax(kX, false)},
      {"x:log_softmax()", {f32, Shape{2, 3}}, softmax(kX, true)},
      {"nn.rms_norm(x, nn.ones(3), 0)", {f32, Shape{2, 3}}, {-1.680336, -0.420084, 0, 0.377964, 0.755929, 1.511858}},
      {"nn.batch_norm(nn.tensor{1, 2, 3, 6}:reshape(4, 1), nil, nil, {training = true})",
       {f32, Shape{4, 1}},
       {-1.0690434, -0.5345217, 0.0, 1.6035652}},
      {"nn.batch_norm(nn.tensor{1, 3}:reshape(1, 2), nn.tensor{1, 1}, nn.tensor{4, 4}, {eps = 0, bias = nn.tensor{1, "
       "2}})",
       {f32, Shape{1, 2}},
       {1, 3}},
      {"nn.group_norm(nn.tensor{1, 2, 3, 6}:reshape(1, 4), 2)",
       {f32, Shape{1, 4}},
       {-0.9999800, 0.9999800, -0.9999978, 0.9999978}},
      {"nn.conv1d(nn.tensor{1, 2, 3, 4, 5}:reshape(1, 1, 5), nn.tensor{1, 10, 100, 1000}:reshape(1, 1, 4), {padding = "
       "'same'})",
       {f32, Shape{1, 1, 5}},
       {3210, 4321, 5432, 543, 54}},
      {"nn.conv2d(x:reshape(1, 1, 2, 3), nn.ones(1, 1, 2, 2), {bias = nn.tensor{1}})",
       {f32, Shape{1, 1, 1, 2}},
       {0.75, 5}},
      {"nn.conv_transpose1d(nn.tensor{1, 2, 3}:reshape(1, 1, 3), nn.tensor{1, 2, 4}:reshape(1, 1, 3), {stride = 2, "
       "padding = 1, output_padding = 1})",
       {f32, Shape{1, 1, 6}},
       {2, 6, 4, 11, 6, 12}},
      {"nn.conv_transpose2d(nn.tensor{1, 2}:reshape(1, 2, 1, 1), nn.ones(2, 1, 1, 3), {groups = 2})",
       {f32, Shape{1, 2, 1, 3}},
       {1, 1, 1, 2, 2, 2}},
      {"nn.max_pool1d(x:reshape(1, 1, 6), 2, {padding = 1})", {f32, Shape{1, 1, 4}}, {-2, 0, 1.5, 3}},
      {"nn.max_pool2d(x:reshape(1, 1, 2, 3), {2, 1})", {f32, Shape{1, 1, 1, 3}}, {0.75, 1.5, 3}},
      {"nn.avg_pool1d(x:reshape(1, 1, 6), 2, {padding = 1, count_include_pad = false})",
       {f32, Shape{1, 1, 4}},
       {-2, -0.25, 1.125, 3}},
      {"nn.avg_pool2d(x:reshape(1, 1, 2, 3), 2, {stride = 1})", {f32, Shape{1, 1, 1, 2}}, {-0.0625, 1}},
      {"nn.adaptive_avg_pool1d(nn.tensor{1, 2, 3, 4, 5}:reshape(1, 1, 5), 3)", {f32, Shape{1, 1, 3}}, {1.5, 3, 4.5}},
      {"nn.adaptive_max_pool1d(nn.tensor{1, 2, 3, 4, 5}:reshape(1, 1, 5), 3)", {f32, Shape{1, 1, 3}}, {2, 4, 5}},
      {"nn.adaptive_avg_pool2d(x:reshape(1, 1, 2, 3), {2, 1})", {f32, Shape{1, 1, 2, 1}}, rows(kX, mean)},
      {"nn.adaptive_max_pool2d(x:reshape(1, 1, 2, 3), 1)", {f32, Shape{1, 1, 1, 1}}, {3}},
      {"nn.interpolate(nn.tensor{1, 2, 3}:reshape(1, 1, 3), {size = 5})", {f32, Shape{1, 1, 5}}, {1, 1, 2, 2, 3}},
      {"nn.interpolate(nn.tensor{0, 10}:reshape(1, 1, 2), {scale_factor = 2, mode = 'linear'})",
       {f32, Shape{1, 1, 4}},
       {0, 2.5, 7.5, 10}},
      {"(x:topk(2))", {f32, Shape{2, 2}}, {0, -0.5, 3, 1.5}},
      {"({x:topk(2)})[2]", {i64, Shape{2, 2}}, {2, 1, 2, 1}},
      {"nn.scaled_dot_product_attention(nn.zeros(1, 1, 2, 1), nn.zeros(1, 1, 2, 1), nn.tensor{1, 3}:reshape(1, 1, 2, "
       "1), "
       "{is_causal = true})",
       {f32, Shape{1, 1, 2, 1}},
       {1, 2}},
      {"nn.scaled_dot_product_attention(nn.zeros(1, 1, 2, 1), nn.zeros(1, 1, 2, 1), nn.tensor{1, 3}:reshape(1, 1, 2, "
       "1), "
       "{attn_mask = nn.tensor{1, 1, 0, 0}:gt(0.5):reshape(2, 2)})",
       {f32, Shape{1, 1, 2, 1}},
       {2, 0}},
      {"nn.scaled_dot_product_attention(nn.ones(1, 2, 1, 1), nn.tensor{0, 0, 0, 0}:reshape(1, 2, 2, 1), "
       "nn.tensor{1, 3, 5, 7}:reshape(1, 2, 2, 1), {scale = 2, attn_mask = nn.tensor{-1 / 0, 0}})",
       {f32, Shape{1, 2, 1, 1}},
       {3, 7}},
      // PyTorch's figures: erf, and the approximation by tanh.
      {"nn.tensor{-1, 0.5, 1, 3}:gelu()", {f32, Shape{4}}, {-0.1586553, 0.3457312, 0.8413447, 2.9959497}},
      {"nn.tensor{-1, 0.5, 1, 3}:gelu_tanh()", {f32, Shape{4}}, {-0.1588080, 0.3457140, 0.8411920, 2.9963627}},
      // transformers' figures at place 1, and the row itself at place 0. Frequencies are 1 and 1/100, or 1 and 1/2.
      {"nn.rotary(nn.tensor{1, 2, 3, 4, 1, 2, 3, 4}:reshape(1, 1, 2, 4), nn.tensor{0, 1}:cast('i64'))",
       {f32, Shape{1, 1, 2, 4}},
       {1, 2, 3, 4, -1.9841106, 1.9599006, 2.4623780, 4.0197997}},
      {"nn.rotary(nn.tensor{1, 2, 3, 4, 1, 2, 3, 4}:reshape(2, 1, 1, 4), nn.tensor{1, 3}:cast('i64'):reshape(2, 1), 4)",
       {f32, Shape{2, 1, 1, 4}},
       {std::cos(1.0) - 3 * std::sin(1.0), 2 * std::cos(0.5) - 4 * std::sin(0.5), 3 * std::cos(1.0) + std::sin(1.0),
        4 * std::cos(0.5) + 2 * std::sin(0.5), std::cos(3.0) - 3 * std::sin(3.0), 2 * std::cos(1.5) - 4 * std::sin(1.5),
        3 * std::cos(3.0) + std::sin(3.0), 4 * std::cos(1.5) + 2 * std::sin(1.5)}},
      {"x:matmul(w)", {f32, Shape{2, 2}}, {-3, 1.75, -5.25, 12}},
      {"x:mm(w)", {f32, Shape{2, 2}}, {-3, 1.75, -5.25, 12}},
  };
}

std::vector<Row> layouts() {
  const Doubles transposed = {-2, 0.75, -0.5, 1.5, 0, 3};
  const TensorType flat{f32, Shape{6}}, square{f32, Shape{2, 3}};
  return {
      {"x:reshape(3, 2)", {f32, Shape{3, 2}}, kX},
      {"x:reshape({-1, 2})", {f32, Shape{3, 2}}, kX},
      {"x:flatten()", flat, kX},
      {"z:flatten(1)", flat, kX},
      {"z:flatten(2)", square, kX},
      {"z:flatten(-1)", {f32, Shape{2, 1, 3}}, kX},
      {"x:transpose()", {f32, Shape{3, 2}}, transposed},
      {"z:transpose(1, 3)", {f32, Shape{3, 1, 2}}, transposed},
      {"x:t()", {f32, Shape{3, 2}}, transposed},
      {"z:permute(3, 2, 1)", {f32, Shape{3, 1, 2}}, transposed},
      {"i:expand(2, 2)", {i64, Shape{2, 2}}, {2, 0, 2, 0}},
      {"x:unsqueeze(1)", {f32, Shape{1, 2, 3}}, kX},
      {"x:unsqueeze(3)", {f32, Shape{2, 3, 1}}, kX},
      {"x:unsqueeze(-1)", {f32, Shape{2, 3, 1}}, kX},
      {"z:squeeze()", square, kX},
      {"z:squeeze(2)", square, kX},
      {"x:slice(2, 2, 3)", {f32, Shape{2, 2}}, {-0.5, 0, 1.5, 3}},
      {"x:slice(2, 1, -1, 2)", {f32, Shape{2, 2}}, {-2, 0, 0.75, 3}},
      {"nn.concat({x, y})", {f32, Shape{4, 3}}, {-2, -0.5, 0, 0.75, 1.5, 3, 0.5, 2, -1, 0.75, 4, -3}},
      {"nn.concat({x, y}, 2)", {f32, Shape{2, 6}}, {-2, -0.5, 0, 0.5, 2, -1, 0.75, 1.5, 3, 0.75, 4, -3}},
      {"nn.stack({x, y})", {f32, Shape{2, 2, 3}}, {-2, -0.5, 0, 0.75, 1.5, 3, 0.5, 2, -1, 0.75, 4, -3}},
      {"nn.stack({x, y}, 2)", {f32, Shape{2, 2, 3}}, {-2, -0.5, 0, 0.5, 2, -1, 0.75, 1.5, 3, 0.75, 4, -3}},
      {"nn.stack({x, y}, -1)", {f32, Shape{2, 3, 2}}, {-2, 0.5, -0.5, 2, 0, -1, 0.75, 0.75, 1.5, 4, 3, -3}},
      {"x:chunk(2)[2]", {f32, Shape{1, 3}}, {0.75, 1.5, 3}},
      {"x:chunk(2, 2)[1]", {f32, Shape{2, 2}}, {-2, -0.5, 0.75, 1.5}},
      {"x:chunk(2, 2)[2]", {f32, Shape{2, 1}}, {0, 3}},
      {"x:pad(2, 1, 2)", {f32, Shape{2, 6}}, {0, -2, -0.5, 0, 0, 0, 0, 0.75, 1.5, 3, 0, 0}},
      {"x:tril()", square, {-2, 0, 0, 0.75, 1.5, 0}},
      {"x:tril(1)", square, {-2, -0.5, 0, 0.75, 1.5, 3}},
      {"x:triu()", square, {-2, -0.5, 0, 0, 1.5, 3}},
      {"n:triu(1)", {i64, Shape{2, 3}}, {0, -3, 2, 0, 0, 1}},
      {"x:triu(-1)", square, kX},
      {"x:gather(2, i:reshape(2, 1))", {f32, Shape{2, 1}}, {0, 0.75}},
      {"x:scatter_add(2, i:reshape(2, 1), nn.ones(2, 1))", square, {-2, -0.5, 1, 1.75, 1.5, 3}},
      {"i:one_hot(3)", square, {0, 0, 1, 1, 0, 0}},
      {"nn.embedding(i, w)", {f32, Shape{2, 2}}, {-3, 4, 1, -1}},
  };
}

std::vector<Row> creations() {
  return {
      {"nn.tensor{1, -2.5, 3}", {f32, Shape{3}}, {1, -2.5, 3}},
      {"nn.full({2, 2}, 0.5)", {f32, Shape{2, 2}}, {0.5, 0.5, 0.5, 0.5}},
      {"nn.full({2}, 3, 'i64')", {i64, Shape{2}}, {3, 3}},
      {"x:full_like(4)", {f32, Shape{2, 3}}, {4, 4, 4, 4, 4, 4}},
      {"nn.zeros(2, 2)", {f32, Shape{2, 2}}, {0, 0, 0, 0}},
      {"nn.zeros({3}, 'i64')", {i64, Shape{3}}, {0, 0, 0}},
      {"nn.ones(2, 'bool')", {b8, Shape{2}}, {1, 1}},
      {"nn.ones()", {f32, {}}, {1}},
      {"n:zeros_like()", {i64, Shape{2, 3}}, {0, 0, 0, 0, 0, 0}},
      {"x:ones_like()", {f32, Shape{2, 3}}, {1, 1, 1, 1, 1, 1}},
      {"nn.arange(5)", {i64, Shape{5}}, {0, 1, 2, 3, 4}},
      {"nn.arange(1)", {i64, Shape{1}}, {0}},
      {"nn.arange(0)", {i64, Shape{0}}, {}},
      {"nn.eye(3)", {f32, Shape{3, 3}}, {1, 0, 0, 0, 1, 0, 0, 0, 1}},
  };
}

constexpr std::pair<const char*, const char*> kTexts[] = {
    {"table.concat(z:shape(), ' ')", "2 1 3"},
    {"x:size(2) .. ' ' .. x:size(-2)", "3 2"},
    {"z:dim()", "3"},
    {"z:numel()", "6"},
    {"n:dtype()", "i64"},
    {"x:max():item()", "3.0"},
    {"n:max():item()", "7"},
    {"x:max():gt(1):item()", "true"},
    {"nn.tensor({1, 2, 3}):reshape(3, 1):tolist()[3][1]", "3.0"},
    {"nn.tensor({1, 2, 3}):gt(2):tolist()[3]", "true"},
    {"nn.tensor({4}):sum():tolist()", "4.0"},
    {"(nn.rand(4000):mean() - 0.5):abs():lt(0.02):item()", "true"},
    {"(nn.randn(4000):norm() / 4000 ^ 0.5 - 1):abs():lt(0.05):item()", "true"},
    {"nn.randn(2, 3):eq(nn.randn(2, 3)):cast('i64'):sum():item()", "0"},
    {"x", "tensor (2, 3) f32"},
    {"#x", "2"},
};

std::vector<Row> all_rows() {
  std::vector<Row> all;
  for (const auto& some : {elementwise(), reductions(), layouts(), creations()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

TEST(LuaTensors, FunctionsComputeTheExpectedValues) {
  Step step;
  for (const Row& row : all_rows()) {
    const HostTensor got = step.compute(row.code);
    ASSERT_EQ(got.type, row.type) << row.code;
    for (int64_t k = 0; k < got.size(); ++k) {
      const double wanted = row.values[static_cast<size_t>(k)];
      if (got[k] == wanted || (std::isnan(wanted) && std::isnan(got[k]))) continue;
      EXPECT_NEAR(got[k], wanted, 2e-6 * std::max(1.0, std::fabs(wanted))) << row.code << ", element " << k;
    }
  }
}

TEST(LuaTensors, QueriesReturnShapesAndValues) {
  Step step;
  for (const auto& [code, text] : kTexts) EXPECT_EQ(step.text(code), text) << code;
}

TEST(LuaTensors, EveryFunctionHasARow) {
  std::string codes;
  for (const Row& row : all_rows()) codes += row.code + "\n";
  for (const auto& [code, text] : kTexts) codes += std::string(code) + "\n";
  for (const TensorFunction& function : tensor_functions()) {
    const std::string_view loss_usage = function.usage;
    if (loss_usage.find("{reduction") != loss_usage.npos || loss_usage.find("options") != loss_usage.npos) continue;
    EXPECT_TRUE(support::Pattern("[:.]" + std::string(function.name) + "[({]").occurs_in(codes)) << function.name;
  }
}

// Products are in bf16 and softmax in f32, as in torch's autocast.
TEST(LuaTensors, FollowAutocast) {
  LuaStep step({DType::kBf16});
  step.input("x", HostTensor({f32, Shape{2, 2}}, [](int64_t) { return 1.001; }));
  EXPECT_EQ(step.compute("x:matmul(x)").values(), (Doubles{2, 2, 2, 2}));
  EXPECT_EQ(step.record("x:matmul(x)").dtype(), DType::kBf16);
  EXPECT_EQ(step.record("x:matmul(x):softmax()").dtype(), f32);
}

TEST(LuaTensors, NoFunctionIgnoresAnArgument) {
  Step step;
  for (const TensorFunction& function : tensor_functions()) {
    const int most = most_arguments(function.usage);
    if (most == kAnyNumber) continue;
    std::string arguments = "x";
    for (int i = 1; i < most; ++i) arguments += ", nil";
    const std::string called =
        function.is_function ? fmt::format("nn.{}", function.name) : fmt::format("(x).{}", function.name);
    const std::string error = step.error(fmt::format("{}({}, 5)", called, arguments));
    EXPECT_NE(error.find(fmt::format("argument {} is number, expected at most {} argument", most + 1, most)),
              error.npos)
        << called << ": " << error;
    EXPECT_EQ(step.error(fmt::format("{}({}, nil)", called, arguments)).find("expected at most"), error.npos);
  }
}

TEST(LuaTensors, UsageShowsTheNumberOfArguments) {
  const std::pair<const char*, int> cases[] = {{"acc:check_trigger()", 1},
                                               {"nn.ReLU()", 0},
                                               {"x:slice(axis, first, last [, step])", 5},
                                               {"x:sum([axis..., keep])", kAnyNumber},
                                               {"nn.full({size...}, value [, dtype])", 3},
                                               {"acc:join({even_batches = true or false}, f)", 3},
                                               {"nn.Module{name = module..., forward = f(x) ... end}", 1},
                                               {"x + y", 2},
                                               {"-x", 1}};
  for (const auto& [usage, most] : cases) EXPECT_EQ(most_arguments(usage), most) << usage;
}

// most_arguments() reads these texts.
TEST(LuaTensors, UsageHasAFormThatCanBeCounted) {
  const support::Pattern form(R"(x [-+*/^] y|-x|(x|acc):[a-z_0-9]+\([^()]*\)|(nn|optim)\.\w+(\([^()]*\)|\{.*\}))");
  const auto check = [&](const std::string& usage) { EXPECT_TRUE(form.matches(usage)) << usage; };
  for (const TensorFunction& function : tensor_functions()) check(function.usage);
  for (const ModuleFunction& function : module_functions()) check(function.usage);
  for (const OptimizerFunction& function : optimizer_functions()) check(function.usage);
  for (const AcceleratorName& name : accelerator_names())
    if (*name.usage != '\0') check(name.usage);
  EXPECT_FALSE(form.matches("x:sum"));
  EXPECT_FALSE(form.matches("not x"));
}

TEST(LuaTensors, ErrorsExplainWrongArguments) {
  Step step;
  const std::pair<const char*, const char*> cases[] = {
      {"x:sum('a')", "step:1: sum: argument 1 is string, expected an integer"},
      {"x:sum({1, 'a'})", "step:1: entry 2 of the list is string, expected an integer"},
      {"x:reshape(4)", "step:1: reshape: cannot reshape (2, 3) f32 with 6 elements to (4) with 4"},
      {"x:reshape(-1, -1)", "step:1: reshape: invalid size -1; only one may be -1"},
      {"x:unsqueeze(5)",
       "step:1: unsqueeze: axis 5 is out of range for (2, 3) f32; axes count from 1, or from -1 at the end"},
      {"nn.stack({x, y}, 0)",
       "step:1: stack: axis 0 is out of range for (2, 3) f32; axes count from 1, or from -1 at the end"},
      {"nn.stack({x, w})", "step:1: stack: expected tensors of equal type, got (2, 3) f32 and (3, 2) f32"},
      {"nn.stack({})", "step:1: the list of tensors is empty"},
      {"nn.stack(x)", "step:1: stack: argument 1 is tensor, expected a list of tensors"},
      {"x:chunk(3)", "step:1: chunk: cannot split 2 elements of (2, 3) f32 into 3 parts"},
      {"x:pad(1, -1, 0)", "step:1: pad: expected at least 0 elements at both ends of axis 1, got -1 and 0"},
      {"x:pad(-1, -1, 0)", "step:1: pad: expected at least 0 elements at both ends of axis 2, got -1 and 0"},
      {"nn.concat({x, x:slice(1, 1, 1)}, 2)",
       "step:1: concat: cannot concatenate (2, 3) f32 and (1, 3) f32 along axis 2"},
      {"x:gather(2, nn.zeros(3, 3, 'i64'))", "step:1: gather: index (3, 3) i64 does not match (2, 3) f32 at axis 2"},
      {"x:scatter_add(1, nn.zeros(2, 4, 'i64'), nn.zeros(2, 4))",
       "step:1: scatter_add: index (2, 4) i64 does not match (2, 3) f32 at axis 1"},
      {"x:slice(1, 1, 0):max(1)", "step:1: reduce_max: axis 1 of (0, 3) f32 is empty"},
      {"x:permute(2, 2)", "step:1: permute: axis 2 occurs twice"},
      {"x:reshape(-1, 2^32 // 1 | 0, 2^31 // 1 | 0)",
       "step:1: a tensor of shape (1, 4294967296, 2147483648) is too large"},
      {"x:clamp()", "step:1: clamp: expected low, high or both: x:clamp(low, high)"},
      {"x:clamp(5, 1)", "step:1: clamp: low 5 is greater than high 1"},
      {"i:tril()", "step:1: tril: expected at least two axes, got (2) i64"},
      {"x:masked_fill(y, 0)", "step:1: where: expected a bool condition, got (2, 3) f32"},
      {"nn.zeros(2, 'f8')", "step:1: unknown dtype 'f8'; expected one of f32, f64, bf16, f16, i32, i64, bool"},
      {"nn.zeros(-1)", "step:1: a dimension cannot be negative: (-1)"},
      {"nn.arange(-1)", "step:1: arange: expected a size of at least 0, got -1"},
      {"nn.eye(0)", "step:1: eye: expected a size of at least 1, got 0"},
      {"n:var()", "step:1: mean: expected a float tensor, got (2, 3) i64"},
      {"nn.tensor{}", "step:1: expected a list of 1 to 1024 numbers, got 0"},
      {"nn.tensor{'a'}", "step:1: entry 1 of the list is string, expected a number"},
      {"x:cosh()", "step:1: a tensor has no method 'cosh'; docs/lua.md lists them"},
      {"x:view(3)", "step:1: a tensor has no method 'view'; write x:reshape(size...)"},
      {"x:backward()", "step:1: a tensor has no method 'backward'; write acc:backward(x)"},
  };
  for (const auto& [code, message] : cases) EXPECT_EQ(step.error(code), message);
}

// Each node has the line that created it, including casts of arguments.
TEST(LuaTensors, NodesHaveTheLineOfTheCall) {
  Step step;
  const auto first = step.program().size();
  step.record("(function() local a = x:exp()\n return nn.mse(a, n) end)()");
  std::vector<std::string> lines;
  for (backends::ValueId id = first; id < step.program().size(); ++id)
    lines.push_back(fmt::format("{} {}", name_of(step.program().node(id).op), step.program().mark_of(id).to_string()));
  EXPECT_EQ(lines, (std::vector<std::string>{"exp step:1", "cast step:2", "sub step:2", "mul step:2", "sum step:2",
                                             "constant step:2", "div step:2"}));
}

// An activation exists as a module and as a function; other tests check the values of the function.
TEST(LuaModules, ActivationsMatchTheFunctionsOfTheSameName) {
  Step step;
  const std::pair<std::string, std::string> kActivations[] = {
      {"ReLU", "relu"}, {"GELU", "gelu"},         {"GELUTanh", "gelu_tanh"},
      {"SiLU", "silu"}, {"Tanh", "tanh"},         {"LeakyReLU", "leaky_relu"},
      {"ELU", "elu"},   {"Softplus", "softplus"}, {"Sigmoid", "sigmoid"}};
  for (const auto& [module, function] : kActivations)
    EXPECT_EQ(step.compute(fmt::format("nn.{}()(x)", module)).values(),
              step.compute(fmt::format("nn.{}(x)", function)).values())
        << module;
}

TEST(LuaModules, PrintAsTheirConstructorCall) {
  LuaStep step;
  for (const char* call :
       {"nn.Linear(2, 3)",
        "nn.Linear(2, 3, {bias = false})",
        "nn.Dropout(0.25)",
        "nn.ReLU()",
        "nn.GELUTanh()",
        "nn.Identity()",
        "nn.Flatten()",
        "nn.Softplus()",
        "nn.LeakyReLU(0.5)",
        "nn.ELU(2)",
        "nn.LayerNorm(4, 0.5)",
        "nn.RMSNorm(4, 0.5)",
        "nn.Conv1d(4, 8, 3)",
        "nn.Conv2d(4, 8, 3, {padding = \"same\"})",
        "nn.Conv2d(4, 8, {3, 5}, {stride = {2, 1}, padding = 1, dilation = 2, groups = 4, bias = false})",
        "nn.ConvTranspose1d(4, 2, 3)",
        "nn.ConvTranspose2d(4, 2, 3, {stride = 2, padding = 1, output_padding = 1})",
        "nn.MaxPool1d(2)",
        "nn.MaxPool2d(3, {stride = 2, padding = 1, dilation = 2, ceil_mode = true})",
        "nn.AvgPool1d(2)",
        "nn.AvgPool2d({2, 3}, {padding = 1, count_include_pad = false})",
        "nn.AdaptiveAvgPool1d(3)",
        "nn.AdaptiveAvgPool2d({1, 2})",
        "nn.AdaptiveMaxPool1d(3)",
        "nn.AdaptiveMaxPool2d(2)",
        "nn.Upsample({size = {3, 4}, mode = \"bilinear\", align_corners = true})",
        "nn.Upsample({scale_factor = 1.5})",
        "nn.MultiheadAttention(8, 2)",
        "nn.TransformerEncoderLayer(8, 2)",
        "nn.Embedding(3, 4)"})
    EXPECT_EQ(step.text(std::string("tostring(") + call + ")"), call);
  EXPECT_EQ(step.text("tostring(nn.Sequential{nn.ReLU()}[1])"), "nn.ReLU()");
}

TEST(LuaModules, RefuseWrongArgumentsOfTransformers) {
  LuaStep step;
  EXPECT_EQ(step.error("nn.MultiheadAttention(8, 3)"),
            "step:1: nn.MultiheadAttention: 3 heads do not divide the width 8");
  EXPECT_EQ(step.error("nn.TransformerEncoderLayer(8, 2, {activation = 'tanh'})"),
            "step:1: TransformerEncoderLayer: unknown activation 'tanh'; expected relu or gelu");
  EXPECT_EQ(step.error("nn.MultiheadAttention(8, 2)(nn.zeros(2, 3))"),
            "step:1: nn.MultiheadAttention: expected sequences (B, T, width) of floats, got (2, 3) f32");
  EXPECT_EQ(step.error(
                "nn.TransformerEncoderLayer(3, 1)(nn.zeros(2, 1, 3), {src_key_padding_mask = nn.zeros(3, 2, 'bool')})"),
            "step:1: src_key_padding_mask: expected a mask (2, 1), true for keys to ignore, got (3, 2) bool");
  EXPECT_EQ(step.error("nn.rotary(nn.zeros(2, 4), nn.zeros(2))"),
            "step:1: nn.rotary: expected x (B, H, T, D), got (2, 4) f32");
  EXPECT_EQ(step.error("nn.rotary(nn.zeros(1, 1, 2, 4), nn.zeros(2):cast('i64'), 0)"),
            "step:1: nn.rotary: expected theta above 0, got 0");
  EXPECT_EQ(step.error("(function(x) nn.scaled_dot_product_attention(x, x, x) end)(nn.zeros(2, 3))"),
            "step:1: attention: expected q (B, H, T, D), got (2, 3) f32");
}

TEST(LuaModules, PrintTheirSubmodules) {
  LuaStep step;
  EXPECT_EQ(step.text("tostring(nn.Sequential{nn.Linear(2, 3), function(x) return x end, nn.Sequential{nn.ReLU()}})"),
            "nn.Sequential(\n"
            "  (0): nn.Linear(2, 3)\n"
            "  (1): a function\n"
            "  (2): nn.Sequential(\n"
            "    (0): nn.ReLU()\n"
            "  )\n"
            ")");
  EXPECT_EQ(step.text("tostring(nn.Module{forward = print, heads = {nn.ReLU()}, body = nn.Module{forward = print}})"),
            "nn.Module(\n"
            "  (body): nn.Module\n"
            "  (heads.0): nn.ReLU()\n"
            ")");
  EXPECT_EQ(step.text("tostring(nn.Module{forward = print, a = setmetatable({}, {__tostring = error})})"), "nn.Module");
}

// The structure has 2^40 modules.
TEST(LuaModules, PrintAtMostAThousandModules) {
  LuaStep step;
  EXPECT_EQ(
      step.text("(function() local m = nn.ReLU() for i = 1, 40 do m = nn.Sequential{m, m} end "
                "local _, lines = tostring(m):gsub('\\n', '') return lines < 2100 and tostring(m):find('...', 1, true) "
                "~= nil end)()"),
      "true");
}

TEST(LuaTensors, ErrorsNameTheTypesBeforePromotion) {
  LuaStep step;
  const std::string made = "nn.ones(2, 3)";
  EXPECT_EQ(step.error(made + " + nn.zeros(4, 'i64')"),
            "step:1: add: cannot broadcast (2, 3) f32 and (4) i64: sizes 3 and 4 at axis -1");
  EXPECT_EQ(step.error("nn.zeros(4, 'i32') / nn.zeros(3, 'i64')"),
            "step:1: div: cannot broadcast (4) i32 and (3) i64: sizes 4 and 3 at axis -1");
  EXPECT_EQ(step.error(made + " + nn.ones(4)"),
            "step:1: add: cannot broadcast (2, 3) f32 and (4) f32: sizes 3 and 4 at axis -1");
  EXPECT_EQ(step.error("nn.where(nn.zeros(2, 'bool'), nn.ones(3), nn.zeros(4, 'i64'))"),
            "step:1: where: cannot broadcast (3) f32 and (4) i64: sizes 3 and 4 at axis -1");
}

TEST(LuaModules, LibraryIsReadOnly) {
  LuaStep step;
  const std::string wanted = " cannot be set; keep your own values in a local table";
  EXPECT_EQ(step.error("(function() nn.relu = 5 end)()"), "step:1: nn.relu" + wanted);
  EXPECT_EQ(step.error("(function() nn.mine = 5 end)()"), "step:1: nn.mine" + wanted);
  EXPECT_EQ(step.text("getmetatable(nn)"), "false");
  EXPECT_EQ(step.text("(function() local n = 0 for k, v in pairs(nn) do n = n + 1 assert(nn[k] == v) end "
                      "return n > 50 end)()"),
            "true");
}

TEST(LuaModules, FunctionalHasTheFunctions) {
  LuaStep step;
  EXPECT_EQ(step.text("(function() local F = nn.functional for k, f in pairs(F) do assert(nn[k] == f) end "
                      "return F.conv2d == nn.conv2d end)()"),
            "true");
  EXPECT_EQ(step.error("nn.functional.conv3d"),
            "step:1: nn.functional has no 'conv3d'; did you mean conv1d or conv2d?");
  EXPECT_EQ(step.error("nn.functional.Linear"), "step:1: nn.functional has no 'Linear'; docs/lua.md lists its entries");
  EXPECT_EQ(step.error("(function() nn.functional.relu = 5 end)()"),
            "step:1: nn.functional.relu cannot be set; keep your own values in a local table");
}

}  // namespace
}  // namespace runner::lua
