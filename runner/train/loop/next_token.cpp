#include "runner/train/loop/next_token.h"

#include <algorithm>
#include <bit>

#include "backends/ir/ops.h"
#include "runner/model/key_cache.h"
#include "runner/model/transformer_sizes.h"
#include "schema/base/error.h"
#include "schema/recipe/causal_models.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::InputKind;
using backends::Program;
using backends::Shape;

constexpr int64_t kLeastCapacity = 64;

bool is_of_hook(const StepBuilder& builder) {
  return builder.recipe().model.type == schema::ModelType::kHook;
}

}  // namespace

std::vector<backends::Buffer*> evaluated_weights(const Trainer& trainer) {
  const std::span<backends::Buffer* const> arrays = trainer.arrays().states();
  std::vector<backends::Buffer*> weights;
  const auto count = static_cast<int32_t>(trainer.model().parameters.buffers().size());
  for (int32_t buffer = 0; buffer < count; ++buffer)
    weights.push_back(arrays[static_cast<size_t>(trainer.layout().evaluated_weights(buffer))]);
  const auto model_buffers = static_cast<nn::BufferId>(trainer.model().parameters.model_buffers().size());
  for (nn::BufferId id = 0; id < model_buffers; ++id)
    weights.push_back(arrays[static_cast<size_t>(trainer.layout().evaluated_buffer(id))]);
  return weights;
}

void NextToken::check(const StepBuilder& builder) {
  const data::Encoding& encoding = builder.encoding();
  RUN_CHECK(encoding.token_labels == data::TokenLabels::kNext, ErrorKind::kUsage,
            "generate needs a model that predicts the next token, but data.train has {} as labels",
            encoding.predicts_tokens()                       ? "masked tokens"
            : encoding.label_kind == data::LabelKind::kClass ? "classes"
                                                             : "numbers");
  const schema::ModelType type = builder.recipe().model.type;
  RUN_CHECK(is_of_hook(builder) || schema::predicts_next_token(type), ErrorKind::kUsage,
            "generate needs a model whose tokens see only those before them, but model.type is {}", name_of(type));
}

NextToken::NextToken(const StepBuilder& builder, backends::Device& device, std::vector<backends::Buffer*> weights)
    : builder_(builder),
      device_(device),
      weights_(std::move(weights)),
      context_(is_of_hook(builder) ? builder.encoding().sequence
                                   : nn::context_of(builder.recipe().model, builder.encoding())),
      has_cache_(!is_of_hook(builder)) {
  check(builder);
}

std::span<const float> NextToken::logits_after(std::span<const int32_t> text) {
  RUN_ASSERT(!text.empty());
  const bool continues = std::ranges::equal(known_, text.first(std::min(known_.size(), text.size()))) &&
                         text.size() == known_.size() + 1 && std::ssize(text) <= capacity_;
  if (has_cache_ && continues && !known_.empty()) {
    run(compiled(Form::kNext, 1), text.last(1), std::ssize(known_));
    known_.push_back(text.back());
  } else {
    begin(text.last(static_cast<size_t>(std::min(std::ssize(text), context_))));
    known_.assign(text.begin(), text.end());
  }
  return std::span(logits_).first(static_cast<size_t>(builder_.encoding().vocabulary));
}

// The capacity doubles, up to the context. A text that is longer begins again with each token, because the positions of
// all tokens change.
void NextToken::begin(std::span<const int32_t> text) {
  if (!has_cache_) return run(compiled(Form::kWhole, context_), text, std::ssize(text) - 1);
  const int64_t needed = std::max(std::ssize(text), kLeastCapacity);
  const int64_t capacity = std::min(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(needed))), context_);
  if (capacity > capacity_) {
    capacity_ = capacity;
    caches_.clear();
  }
  run(compiled(Form::kFirst, std::ssize(text)), text, 0);
}

const NextToken::Compiled& NextToken::compiled(Form form, int64_t tokens) {
  const auto [entry, is_new] = compiled_.try_emplace({form, tokens, capacity_});
  if (is_new) entry->second = compile(form, tokens);
  return entry->second;
}

NextToken::Compiled NextToken::compile(Form form, int64_t tokens) {
  const Program program = record(form, tokens);
  backends::Hoisted parts = backends::hoist(backends::optimise(program), static_cast<int>(weights_.size()));
  Compiled compiled{.executable = device_.compile(parts.rest), .hoisted = {}, .caches = {}, .logits = 0};
  for (Program& value : parts.values) compiled.hoisted.push_back(&find_or_add(std::move(value)));
  for (const backends::Output& output : parts.rest.outputs())
    if (output.state >= 0) compiled.caches.push_back(parts.rest.type(output.value));
  compiled.logits = static_cast<int>(parts.rest.outputs().size()) - 1;
  return compiled;
}

NextToken::HoistedValue& NextToken::find_or_add(Program value) {
  for (HoistedValue& known : hoisted_)
    if (known.program.same_structure(value)) return known;
  HoistedValue& added = hoisted_.emplace_back();
  added.executable = device_.compile(value);
  added.buffer = device_.allocate(value.type(value.outputs()[0].value).bytes());
  added.program = std::move(value);
  return added;
}

void NextToken::compute(HoistedValue& value) {
  if (value.is_current) return;
  std::vector<backends::Buffer*> states = {value.buffer.get()};
  states.insert(states.end(), weights_.begin(), weights_.end());
  device_.wait(device_.submit(*value.executable, {.states = states, .batch = {}, .scalars = {}}));
  value.is_current = true;
}

void NextToken::forget() {
  known_.clear();
  for (HoistedValue& value : hoisted_) value.is_current = false;
}

// Inputs: the weights, the tokens (1, T), and the position (1) of the one token, or of the last before the padding. The
// logits are the last output.
Program NextToken::record(Form form, int64_t tokens) const {
  Program program;
  const nn::ParameterSet& parameters = builder_.model().parameters;
  std::vector<Value> buffers;
  for (const nn::FlatBuffer& buffer : parameters.buffers())
    buffers.push_back({&program, program.input(InputKind::kState, "weights", {DType::kF32, Shape{buffer.elements}})});
  StepFrame frame;
  for (const nn::ModelBuffer& buffer : parameters.model_buffers())
    frame.buffers.push_back({&program, program.input(InputKind::kState, buffer.name, buffer.type)});
  const Value ids{&program, program.input(InputKind::kBatch, "tokens", {DType::kI64, Shape{1, tokens}})};
  const Value position{&program, program.input(InputKind::kBatch, "position", {DType::kI64, Shape{1}})};
  for (nn::ParameterId id = 0; id < std::ssize(parameters.parameters()); ++id)
    frame.parameters.push_back(builder_.parameter(buffers[static_cast<size_t>(parameters[id].buffer)], id));
  const std::string name = builder_.encoding().inputs().front().name;
  frame.model_inputs.push_back({.name = name, .value = ids});
  nn::HostValues host{.fixed = true};
  nn::ForwardContext forward = builder_.forward_of(program, frame, /*training=*/false, host);
  nn::KeyCache cache(capacity_, form == Form::kNext ? position : Value{});
  if (has_cache_) forward.cache = &cache;
  Value logits = nn::Autocast::raise(builder_.model().module->forward(forward, ids));
  const int64_t outputs = builder_.encoding().outputs, rows = has_cache_ ? 1 : tokens;
  RUN_CHECK(logits.shape() == (Shape{1, rows, outputs}), ErrorKind::kUsage,
            "generate needs a model that returns logits (1, {}, {}), but this one returns {} for {} tokens", rows,
            outputs, logits.type().to_string(), tokens);
  logits = ops::reshape(logits, Shape{rows, outputs});
  if (!has_cache_) logits = ops::embedding(logits, position);
  program.output("logits", logits.id);
  return program;
}

void NextToken::run(const Compiled& step, std::span<const int32_t> tokens, int64_t position) {
  for (size_t i = caches_.size(); i < step.caches.size(); ++i)
    caches_.push_back(device_.allocate(step.caches[i].bytes()));
  std::vector<backends::Buffer*> states;
  for (HoistedValue* const value : step.hoisted) {
    compute(*value);
    states.push_back(value->buffer.get());
  }
  states.insert(states.end(), weights_.begin(), weights_.end());
  for (size_t i = 0; i < step.caches.size(); ++i) states.push_back(caches_[i].get());
  ids_.assign(static_cast<size_t>(has_cache_ ? std::ssize(tokens) : context_), 0);
  std::ranges::copy(tokens, ids_.begin());
  const std::byte* const batch[] = {reinterpret_cast<const std::byte*>(ids_.data()),
                                    reinterpret_cast<const std::byte*>(&position)};
  device_.wait(device_.submit(*step.executable, {.states = states, .batch = batch, .scalars = {}, .waits = true}));
  logits_.resize(static_cast<size_t>(builder_.encoding().outputs));
  device_.read_output(*step.executable, step.logits, std::as_writable_bytes(std::span(logits_)));
}

}  // namespace runner::train
