#include "tests/backends/golden_ops.h"

#include <functional>
#include <stdexcept>

#include "backends/ir/autograd.h"

namespace runner::backends::testing {
namespace {

using runner::testing::Golden;

// Arguments of a case's function.
struct Call {
  const std::map<std::string, Value>& inputs;
  Golden attrs;

  Value operator()(const char* name) const { return inputs.at(name); }
  Value x() const { return inputs.at("x"); }
  Value a() const { return inputs.at("a"); }
  Value b() const { return inputs.at("b"); }
  int64_t integer(const char* name) const { return attrs[name].integer(); }
  double number(const char* name) const { return attrs[name].number(); }
  bool flag(const char* name) const { return attrs[name].flag(); }
  std::vector<int64_t> integers(const char* name) const { return attrs[name].integers(); }
  std::optional<double> optional(const char* name) const {
    return attrs.has(name) ? std::optional(number(name)) : std::nullopt;
  }

  Value reduced(Value losses) const {
    const std::string reduction = attrs["reduction"].text();
    return reduction == "none" ? losses : reduction == "sum" ? ops::sum(losses) : ops::mean(losses);
  }
};

// Total weight of the samples that are not ignored: the divisor of torch's mean.
Value counted_weight(const Call& call, const ops::CrossEntropyOptions& options) {
  const Value logits = call("logits"), labels = call("labels");
  const Value counts = ops::ne(labels, ops::full_like(labels, static_cast<double>(options.ignore_index)));
  const Value rows = ops::where(counts, labels, ops::full_like(labels, 0.0));
  const Value ones = ops::full_like(ops::sum(logits, std::vector<int64_t>{1}), 1.0);
  const Value weights = options.class_weights ? ops::gather(options.class_weights, 0, rows) : ones;
  return ops::sum(ops::where(counts, weights, ops::full_like(weights, 0.0)));
}

Value cross_entropy(const Call& call) {
  ops::CrossEntropyOptions options{.ignore_index = call.integer("ignore_index"),
                                   .label_smoothing = call.number("label_smoothing"),
                                   .class_weights = {}};
  if (call.inputs.count("class_weights") > 0) options.class_weights = call("class_weights");
  const Value losses = ops::cross_entropy(call("logits"), call("labels"), options);
  if (call.attrs["reduction"].text() != "mean") return call.reduced(losses);
  return ops::div(ops::sum(losses), counted_weight(call, options));
}

Value attention(const Call& call) {
  ops::AttentionOptions options{.causal = call.attrs.has("causal"), .scale = call.optional("scale")};
  if (call.inputs.count("mask") > 0) options.mask = call("mask");
  return ops::attention(call("q"), call("k"), call("v"), options);
}

DType dtype_named(const std::string& name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  throw std::runtime_error("no dtype " + name);
}

using Function = std::function<Value(const Call&)>;

const std::map<std::string, Function>& functions() {
  using C = const Call&;
  static const std::map<std::string, Function> kFunctions = {
      {"exp", [](C c) { return ops::exp(c.x()); }},
      {"log", [](C c) { return ops::log(c.x()); }},
      {"log1p", [](C c) { return ops::log1p(c.x()); }},
      {"sqrt", [](C c) { return ops::sqrt(c.x()); }},
      {"rsqrt", [](C c) { return ops::unary(Op::kRsqrt, c.x()); }},
      {"tanh", [](C c) { return ops::tanh(c.x()); }},
      {"sigmoid", [](C c) { return ops::sigmoid(c.x()); }},
      {"erf", [](C c) { return ops::erf(c.x()); }},
      {"relu", [](C c) { return ops::relu(c.x()); }},
      {"gelu", [](C c) { return ops::gelu(c.x()); }},
      {"gelu_tanh", [](C c) { return ops::gelu_tanh(c.x()); }},
      {"silu", [](C c) { return ops::silu(c.x()); }},
      {"abs", [](C c) { return ops::abs(c.x()); }},
      {"neg", [](C c) { return ops::neg(c.x()); }},
      {"sign", [](C c) { return ops::sign(c.x()); }},
      {"cast", [](C c) { return ops::cast(c.x(), dtype_named(c.attrs["dtype"].text())); }},
      {"add", [](C c) { return ops::add(c.a(), c.b()); }},
      {"sub", [](C c) { return ops::sub(c.a(), c.b()); }},
      {"mul", [](C c) { return ops::mul(c.a(), c.b()); }},
      {"div", [](C c) { return ops::div(c.a(), c.b()); }},
      {"pow",
       [](C c) { return c.attrs.has("exponent") ? ops::pow(c.a(), c.number("exponent")) : ops::pow(c.a(), c.b()); }},
      {"minimum", [](C c) { return ops::minimum(c.a(), c.b()); }},
      {"maximum", [](C c) { return ops::maximum(c.a(), c.b()); }},
      {"eq", [](C c) { return ops::eq(c.a(), c.b()); }},
      {"ne", [](C c) { return ops::ne(c.a(), c.b()); }},
      {"lt", [](C c) { return ops::lt(c.a(), c.b()); }},
      {"le", [](C c) { return ops::le(c.a(), c.b()); }},
      {"gt", [](C c) { return ops::gt(c.a(), c.b()); }},
      {"ge", [](C c) { return ops::ge(c.a(), c.b()); }},
      {"where", [](C c) { return ops::where(c("condition"), c("x"), c("y")); }},
      {"clamp", [](C c) { return ops::clamp(c.x(), c.optional("low"), c.optional("high")); }},
      {"sum", [](C c) { return ops::sum(c.x(), c.integers("axes"), c.flag("keep_dims")); }},
      {"mean", [](C c) { return ops::mean(c.x(), c.integers("axes"), c.flag("keep_dims")); }},
      {"reduce_max", [](C c) { return ops::reduce_max(c.x(), c.integers("axes"), c.flag("keep_dims")); }},
      {"reduce_min", [](C c) { return ops::reduce_min(c.x(), c.integers("axes"), c.flag("keep_dims")); }},
      {"norm", [](C c) { return ops::norm(c.x(), c.integers("axes"), c.flag("keep_dims")); }},
      {"argmax", [](C c) { return ops::argmax(c.x(), c.integer("axis"), c.flag("keep_dims")); }},
      {"reshape", [](C c) { return ops::reshape(c.x(), Shape(c.integers("shape"))); }},
      {"permute", [](C c) { return ops::permute(c.x(), c.integers("axes")); }},
      {"expand", [](C c) { return ops::expand(c.x(), Shape(c.integers("shape"))); }},
      {"slice",
       [](C c) {
         return ops::slice(c.x(), c.integer("axis"), c.integer("start"), c.integer("stop"), c.integer("step"));
       }},
      {"pad", [](C c) { return ops::pad(c.x(), c.integer("axis"), c.integer("before"), c.integer("after")); }},
      {"concat",
       [](C c) {
         const Value parts[] = {c.a(), c.b()};
         return ops::concat(parts, c.integer("axis"));
       }},
      {"gather", [](C c) { return ops::gather(c.x(), c.integer("axis"), c("index")); }},
      {"scatter_add", [](C c) { return ops::scatter_add(c.x(), c.integer("axis"), c("index"), c("src")); }},
      {"one_hot", [](C c) { return ops::one_hot(c("index"), c.integer("classes")); }},
      {"embedding", [](C c) { return ops::embedding(c("table"), c("ids")); }},
      {"matmul", [](C c) { return ops::matmul(c.a(), c.b(), c.flag("transpose_a"), c.flag("transpose_b")); }},
      {"softmax", [](C c) { return ops::softmax(c.x(), c.integer("axis")); }},
      {"log_softmax", [](C c) { return ops::log_softmax(c.x(), c.integer("axis")); }},
      {"layer_norm", [](C c) { return ops::layer_norm(c.x(), c("gamma"), c("beta"), c.number("eps")); }},
      {"attention", attention},
      {"rms_norm", [](C c) { return ops::rms_norm(c.x(), c("weight"), c.number("eps")); }},
      {"rotary", [](C c) { return ops::rotary(c.x(), ops::rotary_table(c("positions"), c("frequencies"))); }},
      {"top_k", [](C c) { return ops::top_k(c.x(), c.integer("k")); }},
      {"swiglu", [](C c) { return ops::swiglu(c("gate"), c.x()); }},
      {"geglu", [](C c) { return ops::geglu(c("gate"), c.x()); }},
      {"cross_entropy", cross_entropy},
      {"mse", [](C c) { return c.reduced(ops::mse(c("prediction"), c("target"))); }},
      {"l1", [](C c) { return c.reduced(ops::l1(c("prediction"), c("target"))); }},
      {"huber", [](C c) { return c.reduced(ops::huber(c("prediction"), c("target"), c.number("delta"))); }},
      {"bce_with_logits_pos_weight",
       [](C c) { return c.reduced(ops::bce_with_logits(c("logits"), c("target"), c("pos_weight"))); }},
      {"bce_with_logits", [](C c) { return c.reduced(ops::bce_with_logits(c("logits"), c("target"))); }},
  };
  return kFunctions;
}

}  // namespace

HostTensor to_host(const runner::testing::GoldenTensor& tensor) {
  return HostTensor({tensor.dtype, tensor.shape}, tensor.as<double>());
}

GoldenOp record_golden(const Golden& item) {
  const auto function = functions().find(item["op"].text());
  if (function == functions().end()) throw std::runtime_error("no function " + item["op"].text());
  GoldenOp op;
  std::map<std::string, Value> values;
  const auto add_input = [&](const std::string& name, const Golden& tensor) {
    op.inputs.push_back(to_host(tensor.tensor()));
    return Value{&op.program, op.program.input(InputKind::kBatch, name, op.inputs.back().type)};
  };
  for (const std::string& name : item["inputs"].keys()) values[name] = add_input(name, item["inputs"][name]);

  const Value result = function->second({values, item["attrs"]});
  op.program.output("output", result.id);
  op.expected.emplace_back("output", to_host(item["output"].tensor()));
  if (!item.has("grads")) return op;

  const std::vector<std::string> names = item["grads"].keys();
  std::vector<Value> wrt;
  for (const std::string& name : names) wrt.push_back(values[name]);
  const Value seed = add_input("grad_output", item["grad_output"]);
  const std::vector<Value> grads = differentiate(result, seed, wrt);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!grads[i]) throw std::runtime_error("no gradient of " + names[i]);
    op.program.output("d " + names[i], grads[i].id);
    op.expected.emplace_back("d " + names[i], to_host(item["grads"][names[i]].tensor()));
  }
  return op;
}

}  // namespace runner::backends::testing
