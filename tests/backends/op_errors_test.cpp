// Error messages of ops: the message of every type rule, and its source line. The calls and messages are in
// op_errors.txt.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "schema/base/error.h"
#include "tests/backends/support/run_program.h"
#include "tests/support/expected_text.h"
#include "tests/support/paths.h"
#include "tests/support/pattern.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_text.h"

namespace runner::backends::testing {
namespace {

constexpr DType f32 = DType::kF32, i64 = DType::kI64;

// Records inputs on line 1 and the op under test on line 2.
struct Recorder {
  Program program;

  Value operator()(DType dtype, const Shape& shape) {
    program.set_mark({"model.lua", 1, 0});
    const Value value{&program, program.input(InputKind::kBatch, "x", {dtype, shape})};
    program.set_mark({"model.lua", 2, 0});
    return value;
  }
  Value record(Op op, const std::vector<Value>& operands, const std::vector<int64_t>& attrs = {}) {
    std::vector<ValueId> ids;
    for (const Value operand : operands) ids.push_back(operand.id);
    return {&program, program.record(op, ids, attrs)};
  }
};

// One call of op_errors.txt, recorded: "slice (2, 3) f32, 1, 2, 4".
struct CallArgument {
  Value tensor;               // "(2, 3) f32"
  Shape shape;                // "(2, 3)"
  std::vector<int64_t> list;  // "[0, 2]"
  double number = 0;          // "-3", "0.5"
};
struct ParsedCall {
  std::vector<CallArgument> arguments;

  Value x(size_t i) const { return i < arguments.size() ? arguments[i].tensor : Value{}; }
  const Shape& shape(size_t i) const { return arguments[i].shape; }
  std::span<const int64_t> list(size_t i) const {
    return i < arguments.size() ? std::span<const int64_t>(arguments[i].list) : std::span<const int64_t>();
  }
  int64_t n(size_t i) const { return i < arguments.size() ? static_cast<int64_t>(arguments[i].number) : 0; }
  std::vector<Value> tensors() const {
    std::vector<Value> all;
    for (const CallArgument& each : arguments)
      if (each.tensor) all.push_back(each.tensor);
    return all;
  }
};

// Stride, dilation and padding before and after, for each spatial axis.
std::vector<Window> windows_in(std::span<const int64_t> list) {
  std::vector<Window> windows;
  for (; list.size() >= 4; list = list.subspan(4))
    windows.push_back({.stride = list[0], .dilation = list[1], .before = list[2], .after = list[3]});
  return windows;
}
// Size, stride, padding and dilation, for each spatial axis.
std::vector<Pooling> poolings_in(std::span<const int64_t> list) {
  std::vector<Pooling> pools;
  for (; list.size() >= 4; list = list.subspan(4)) pools.push_back({list[0], list[1], list[2], list[3]});
  return pools;
}

using P = const ParsedCall&;
const std::map<std::string, void (*)(P)> kCallFunctions = {
    {"all_reduce", [](P c) { ops::all_reduce(c.x(0), Reduction::kSum, Subject::kGradients); }},
    {"where", [](P c) { ops::where(c.x(0), c.x(1), c.x(2)); }},
    {"sum", [](P c) { ops::sum(c.x(0), c.list(1)); }},
    {"mean", [](P c) { ops::mean(c.x(0)); }},
    {"reduce_max", [](P c) { ops::reduce_max(c.x(0), c.list(1)); }},
    {"reduce_min", [](P c) { ops::reduce_min(c.x(0), c.list(1)); }},
    {"argmax", [](P c) { ops::argmax(c.x(0), c.n(1)); }},
    {"reshape", [](P c) { ops::reshape(c.x(0), c.shape(1)); }},
    {"permute", [](P c) { ops::permute(c.x(0), c.list(1)); }},
    {"transpose", [](P c) { ops::transpose(c.x(0), c.n(1), c.n(2)); }},
    {"expand", [](P c) { ops::expand(c.x(0), c.shape(1)); }},
    {"slice", [](P c) { ops::slice(c.x(0), c.n(1), c.n(2), c.n(3), c.n(4)); }},
    {"pad", [](P c) { ops::pad(c.x(0), c.n(1), c.n(2), c.n(3)); }},
    {"concat", [](P c) { ops::concat(c.tensors(), c.n(c.arguments.size() - 1)); }},
    {"gather", [](P c) { ops::gather(c.x(0), c.n(1), c.x(2)); }},
    {"scatter_add", [](P c) { ops::scatter_add(c.x(0), c.n(1), c.x(2), c.x(3)); }},
    {"index_copy", [](P c) { ops::index_copy(c.x(0), c.n(1), c.x(2), c.x(3)); }},
    {"one_hot", [](P c) { ops::one_hot(c.x(0), c.n(1)); }},
    {"embedding", [](P c) { ops::embedding(c.x(0), c.x(1)); }},
    {"matmul", [](P c) { ops::matmul(c.x(0), c.x(1), c.n(2) != 0, c.n(3) != 0); }},
    {"add_matmul", [](P c) { ops::add_matmul(c.x(0), c.x(1), c.x(2)); }},
    {"attention", [](P c) { ops::attention(c.x(0), c.x(1), c.x(2), {.mask = c.x(3)}); }},
    {"dropout_attention",
     [](P c) {
       ops::attention(c.x(0), c.x(1), c.x(2),
                      {.dropout = c.arguments[5].number, .dropout_key = c.x(3), .sample_ids = c.x(4)});
     }},
    {"conv", [](P c) { ops::conv(c.x(0), c.x(1), windows_in(c.list(2)), c.n(3)); }},
    {"conv_transpose", [](P c) { ops::conv_transpose(c.x(0), c.x(1), windows_in(c.list(2)), c.list(3), c.n(4)); }},
    {"max_pool", [](P c) { ops::max_pool(c.x(0), poolings_in(c.list(1))); }},
    {"avg_pool", [](P c) { ops::avg_pool(c.x(0), poolings_in(c.list(1))); }},
    {"adaptive_avg_pool", [](P c) { ops::adaptive_avg_pool(c.x(0), c.list(1)); }},
    {"adaptive_max_pool", [](P c) { ops::adaptive_max_pool(c.x(0), c.list(1)); }},
    {"upsample", [](P c) { ops::upsample(c.x(0), c.list(1)); }},
    {"channel_sum", [](P c) { ops::channel_sum(c.x(0)); }},
    {"channel_sum_of_squares", [](P c) { ops::channel_sum_of_squares(c.x(0), c.x(1)); }},
    {"channel_sum_of_products", [](P c) { ops::channel_sum_of_products(c.x(0), c.x(1), c.x(2)); }},
    {"batch_norm", [](P c) { ops::batch_norm(c.x(0), c.x(1), c.x(2), c.x(3)); }},
    {"softmax", [](P c) { ops::softmax(c.x(0)); }},
    {"log_softmax", [](P c) { ops::log_softmax(c.x(0), c.n(1)); }},
    {"cross_entropy", [](P c) { ops::cross_entropy(c.x(0), c.x(1), {.class_weights = c.x(2)}); }},
    {"label_rank", [](P c) { ops::label_rank(c.x(0), c.x(1)); }},
    {"layer_norm", [](P c) { ops::layer_norm(c.x(0), c.x(1), c.x(2)); }},
    {"rms_norm", [](P c) { ops::rms_norm(c.x(0), c.x(1), 1e-6); }},
    {"rotary_table", [](P c) { ops::rotary_table(c.x(0), c.x(1)); }},
    {"rotary", [](P c) { ops::rotary(c.x(0), c.x(1)); }},
    {"top_k", [](P c) { ops::top_k(c.x(0), c.n(1)); }},
    {"dropout_mask", [](P c) { ops::dropout_mask(c.x(0), c.x(1), c.shape(2), c.n(3), c.arguments[4].number); }},
    {"random_uniform", [](P c) { ops::random_uniform(c.x(0), c.shape(1), c.n(2)); }},
    {"random_normal", [](P c) { ops::random_normal(c.x(0), c.shape(1), c.n(2)); }},
};

std::vector<int64_t> numbers_of(const std::string& text) {
  static const support::Pattern number("-?[0-9]+");
  std::vector<int64_t> numbers;
  for (const support::Pattern::Groups& groups : number.find_all(text)) numbers.push_back(std::stoll(groups[0]));
  return numbers;
}

DType dtype_of_name(const std::string& name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  throw std::invalid_argument(name);
}

Op op_named(const std::string& name) {
  return static_cast<Op>(std::ranges::find(kOpNames, name) - std::begin(kOpNames));
}

ParsedCall parse_arguments(Recorder& recorder, const std::string& text) {
  static const support::Pattern argument(R"(\(([0-9, ]*)\)(?: ([a-z][a-z0-9]*))?|\[([-0-9, ]*)\]|-?[0-9.]+)");
  ParsedCall call;
  for (const support::Pattern::Groups& groups : argument.find_all(text)) {
    CallArgument& parsed = call.arguments.emplace_back();
    if (groups[0][0] == '(') parsed.shape = Shape(numbers_of(groups[1]));
    if (!groups[2].empty()) parsed.tensor = recorder(dtype_of_name(groups[2]), parsed.shape);
    if (groups[0][0] == '[') parsed.list = numbers_of(groups[3]);
    if (groups[0][0] != '(' && groups[0][0] != '[') parsed.number = std::stod(groups[0]);
  }
  return call;
}

// Records a call of a function of ir/ops.h, or of the op itself: an element-wise op, or after the word "record".
void record_call(Recorder& recorder, const std::string& text) {
  const bool is_raw = text.starts_with("record ");
  const std::string rest = is_raw ? text.substr(7) : text;
  const std::string name = rest.substr(0, rest.find(' '));
  const ParsedCall call = parse_arguments(recorder, rest.substr(name.size()));
  if (const auto function = kCallFunctions.find(name); function != kCallFunctions.end() && !is_raw)
    return function->second(call);
  const Op op = op_named(name);
  const std::vector<Value> tensors = call.tensors();
  if (is_raw) {
    recorder.record(op, tensors, call.arguments.back().list);
  } else if (tensors.size() == 1) {
    ops::unary(op, tensors[0]);
  } else {
    ops::binary(op, tensors[0], tensors[1]);
  }
}

struct ErrorCase {
  std::string call, message;
};

std::string cases_path() {
  return support::source_path("tests/backends/op_errors.txt");
}

std::vector<ErrorCase> all_cases() {
  std::vector<ErrorCase> cases;
  std::istringstream lines(support::read_text(cases_path()));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with("  "))
      cases.back().message = line.substr(2);
    else
      cases.push_back({line, ""});
  }
  return cases;
}

std::string error_of_call(const std::string& call) {
  Recorder recorder;
  return support::thrown_text([&] { record_call(recorder, call); }, ErrorKind::kRun);
}

const std::string kLine = "model.lua:2: ";

// Rewrites the messages in the file of cases.
void update_messages() {
  std::string text, call;
  std::istringstream lines(support::read_text(cases_path()));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) line = "  " + error_of_call(call).substr(kLine.size());
    text += line + "\n";
    call = line;
  }
  support::write_text(cases_path(), text);
}

TEST(OpErrors, NameTheRuleTheTypesAndTheLine) {
  if (support::should_update()) return update_messages();
  for (const ErrorCase& c : all_cases()) EXPECT_EQ(error_of_call(c.call), kLine + c.message) << c.call;
}

TEST(OpErrors, EveryOpThatCanFailHasACase) {
  std::set<std::string> covered = {"input", "constant", "cast", "detach", "barrier"};  // these accept anything
  for (const ErrorCase& c : all_cases()) covered.insert(c.message.substr(0, c.message.find(':')));
  for (int op = 0; op < kOpCount; ++op)
    EXPECT_EQ(covered.count(std::string(name_of(static_cast<Op>(op)))), 1u) << name_of(static_cast<Op>(op));
}

TEST(OpErrors, AProgramStaysUsableAfterAnError) {
  Recorder x;
  const Value a = x(f32, {2});
  const Program before = x.program;
  EXPECT_NE(support::thrown_text([&] { x.record(Op::kMatmul, {a, a}, {0, 0}); }, ErrorKind::kRun), "");
  EXPECT_TRUE(x.program.same_structure(before));
  EXPECT_EQ(x.program.hash(), before.hash());
  ops::neg(a);
}

// ---- when a Program runs -------------------------------------------------------------------------------------------

using R = Recorder&;

// Runs the Program of `record` on indices that all equal `index`, with a plan of fast or reference kernels.
std::string run_error(const std::function<Value(Recorder&, Value)>& record, const Shape& shape, double index,
                      const KernelSource& kernels) {
  Recorder recorder;
  Inputs inputs;
  const Value indices = recorder(i64, shape);
  const Value result = record(recorder, indices);
  recorder.program.output("y", result.id);
  for (const Input& input : recorder.program.inputs()) inputs.emplace_back(recorder.program.type(input.value));
  inputs[0] = HostTensor(indices.type(), [index](int64_t) { return index; });
  WorkerPool pool(1);
  return support::thrown_text([&] { run_plan_once(recorder.program, inputs, {.kernels = kernels}, pool); },
                              ErrorKind::kRun);
}

TEST(OpErrors, IndicesOutOfRangeHaveTheLine) {
  struct RunCase {
    std::function<Value(Recorder&, Value)> record;
    Shape shape;
    double index;
    std::string message;
  };
  const RunCase cases[] = {
      {[](R x, Value at) {
         return ops::embedding(x(f32, {5, 3}), at);
       },
       {2},
       5,
       "embedding: index 5 at position 0 is out of range, size 5"},
      {[](R x, Value at) {
         return x.record(Op::kEmbeddingGrad, {at, x(f32, {2, 3})}, {5});
       },
       {2},
       -1,
       "embedding_grad: index -1 at position 0 is out of range, size 5"},
      {[](R x, Value at) {
         return ops::gather(x(f32, {2, 3}), 1, at);
       },
       {2, 1},
       3,
       "gather: index 3 at position 0 is out of range, size 3"},
      {[](R x, Value at) {
         return ops::scatter_add(x(f32, {2, 3}), 0, at, x(f32, {1, 3}));
       },
       {1, 3},
       2,
       "scatter_add: index 2 at position 0 is out of range, size 2"},
      {[](R x, Value at) {
         return ops::index_copy(x(f32, {2, 3}), 1, at, x(f32, {2, 2}));
       },
       {2},
       3,
       "index_copy: index 3 at position 0 is out of range, size 3"},
      {[](R, Value at) { return ops::one_hot(at, 4); },
       {2},
       4,
       "one_hot: index 4 at position 0 is out of range, size 4"},
      {[](R x, Value at) {
         return ops::cross_entropy(x(f32, {2, 3}), at);
       },
       {2},
       7,
       "cross_entropy: label 7 at row 0 is out of range, the model has 3 classes"},
      {[](R x, Value at) {
         return ops::cross_entropy(x(f32, {2, 3}), at);
       },
       {2},
       -1,
       "cross_entropy: label -1 at row 0 is out of range, the model has 3 classes"},
      {[](R x, Value at) {
         return x.record(Op::kCrossEntropyGrad, {x(f32, {2, 3}), at, x(f32, {2})}, {-100, 0});
       },
       {2},
       3,
       "cross_entropy: label 3 at row 0 is out of range, the model has 3 classes"},
  };
  for (const RunCase& c : cases) {
    EXPECT_EQ(run_error(c.record, c.shape, c.index, kFastKernels), "model.lua:2: " + c.message);
    EXPECT_EQ(run_error(c.record, c.shape, c.index, kReferenceKernels), "model.lua:2: " + c.message);
  }
}

}  // namespace
}  // namespace runner::backends::testing
