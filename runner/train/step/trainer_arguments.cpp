// What a Trainer hands to an execution: arrays, the batch, numbers; and the values that a hook reads of a recording.
#include <algorithm>

#include "backends/graph/needed.h"
#include "backends/graph/passes/passes.h"
#include "backends/tensor/float16.h"
#include "runner/optim/traced_scalars.h"
#include "runner/train/step/trainer.h"
#include "schema/error.h"

namespace runner::train {
void Trainer::set_scalars(const WindowRates& rates) {
  if (device_.keeps_graphs()) trace_scalars(rates);
  find_absent_states();
  if (clock_) return;
  size_t next = 0;
  for (const nn::FlatBuffer& buffer : model_.parameters.buffers()) {
    if (buffer.group < 0) continue;
    const optim::Rule& rule = optimizers_.rule(buffer.group);
    const size_t count = optim::scalar_names(rule.type).size();
    scalars_.resize(next + count);
    optim::step_scalars(rule, rates.of(rule),
                        updates_of(optimizers_.groups[static_cast<size_t>(buffer.group)].optimizer) + 1,
                        std::span(scalars_).subspan(next, count));
    next += count;
  }
}

// Of an update as torch.optim and torch.nn.utils have it.  Where the device counts, its numbers are on it.
void Trainer::trace_scalars(const WindowRates& rates) {
  traced_.clear();
  if (const auto limit = recipe_.train.clip_grad_norm) optim::trace_clip_grad_norm(*limit, traced_);
  if (const auto limit = recipe_.train.clip_grad_value) optim::trace_clip_grad_value(*limit, traced_);
  if (clock_) return;
  size_t scalar = 0;
  for (const OptimizerGroup& group : optimizers_.groups) {
    const size_t first = traced_.size();
    optim::trace_scalars(group.rule, rates.of(group.rule), updates_of(group.optimizer) + 1, traced_);
    for (size_t i = first; i < traced_.size(); ++i) optimizers_.mark_owner(traced_[i], group);
    const size_t count = optim::scalar_names(group.rule.type).size();
    if (group.rule.custom)
      for (size_t i = 0; i < count; ++i) traced_[first + i].origin = builder_.origin_of_scalar(scalar + i);
    scalar += count;
  }
}

// An optimizer makes its slots in its first update.
void Trainer::find_absent_states() {
  absent_.clear();
  if (!device_.keeps_graphs()) return;
  for (size_t i = 0; i < layout_.arrays().size(); ++i) {
    const DeviceArray& array = layout_.arrays()[i];
    if (!array.from_start && updates_of(builder_.group_of(array.buffer).optimizer) + pending() == 0)
      absent_.push_back(static_cast<int32_t>(i));
  }
}

backends::Arguments Trainer::arguments(const data::Batch* batch, const backends::SourceLines* lines,
                                       std::span<const std::vector<std::byte>> given) {
  RUN_ASSERT(!states_.empty());  // allocate() comes first
  settle();                      // what is under way reads the keys below, and leaves its outputs where others come
  if (failure_) std::rethrow_exception(failure_);
  const bool goes_on = !ended_ || ended_->finite || recipe_.train.on_nan == schema::OnNan::kSkip;
  RUN_CHECK(goes_on, ErrorKind::kRun, "the window before is not finite");
  batch_inputs_.resize(kBatchInputCount);
  for (const std::vector<std::byte>& bytes : given) batch_inputs_.push_back(bytes.data());
  draw_key_[1] = hooks_ != nullptr ? hooks_->draw() : 0;
  const auto bytes = [](const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); };
  batch_inputs_[kDrawKey] = bytes(draw_key_);
  const std::span<const std::byte* const> inputs(batch_inputs_);
  backends::Exchange* const exchange = exchange_ ? &*exchange_ : nullptr;
  backends::Arguments arguments{.states = states_,
                                .batch = inputs.subspan(kDrawKey),
                                .scalars = scalars_,
                                .lines = lines,
                                .absent = absent_,
                                .step = batches_,
                                .exchange = exchange};
  if (batch == nullptr) return arguments;
  random_key_[1] = batch->position.epoch;
  const bool classes = encoding_.label_kind == data::LabelKind::kClass;
  batch_inputs_[kFeatures] = bytes(batch->features);
  batch_inputs_[kLabels] = classes ? bytes(batch->classes) : bytes(batch->targets);
  batch_inputs_[kMask] = bytes(batch->weights);
  batch_inputs_[kSampleIds] = bytes(batch->ids);
  batch_inputs_[kRandomKey] = bytes(random_key_);
  arguments.batch = inputs;
  return arguments;
}

backends::Arguments Trainer::arguments(const Segment& segment, const data::Batch* batch) {
  if (clock_) clock_->begin_segment(segment);
  const nn::HostValues& host = segment.host();
  backends::Arguments arguments = this->arguments(batch, &segment.program().lines(), host.given);
  arguments.scalars = host.scalars;
  arguments.traced = host.traced;
  return arguments;
}

// As PyTorch traces them: those of the user's code, then the division by the batches of a window, then the update's.
backends::Arguments Trainer::arguments(const data::Batch& batch, const StepBuilder::Recorded* recorded, Traced traced) {
  const nn::HostValues none;
  const nn::HostValues& host = recorded != nullptr ? recorded->host : none;
  step_scalars_ = scalars_;
  step_scalars_.insert(step_scalars_.end(), host.scalars.begin(), host.scalars.end());
  step_traced_ = host.traced;
  if (traced != Traced::kForward) optim::trace_accumulation(accumulation_, step_traced_);
  if (traced == Traced::kUpdate)
    for (const auto* numbers : {&rule_numbers_, &traced_})
      step_traced_.insert(step_traced_.end(), numbers->begin(), numbers->end());
  backends::Arguments arguments =
      this->arguments(&batch, recorded != nullptr ? &recorded->program.lines() : nullptr, host.given);
  arguments.scalars = step_scalars_;
  arguments.traced = step_traced_;
  return arguments;
}

// The one at hand, where there was one for this step.
const StepBuilder::Recorded* Trainer::recording_of_step(bool training) const {
  return builder_.varies(training) ? recorded_ : nullptr;
}

// ---- values of a recording under way --------------------------------------------------------------------------------

StepBuilder::Read Trainer::reader(const data::Batch* batch) {
  return [this, batch](const StepBuilder::Recorded& recorded, backends::ValueId value) {
    RUN_CHECK(batch != nullptr, ErrorKind::kRun,
              "item: the first step is being compiled, and there is no batch yet: read values in a later step");
    return read_value(recorded.program, value, arguments(*batch, &recorded));
  };
}

std::vector<double> Trainer::read_value(const Segment& segment, backends::ValueId value, const data::Batch* batch) {
  return read_value(segment.program(), value, arguments(segment, batch));
}

std::vector<std::byte> Trainer::read_bytes(const Segment& segment, backends::ValueId value, const data::Batch* batch) {
  return read_bytes(segment.program(), value, arguments(segment, batch));
}

namespace {

// Of the numbers, those that a value is computed with: a lazy device looks at no more of what was recorded.
std::vector<backends::TracedScalar> traced_for(const backends::Program& program, backends::ValueId value,
                                               std::span<const backends::TracedScalar> traced) {
  std::vector<char> needed(static_cast<size_t>(program.size()), 0);
  needed[static_cast<size_t>(value)] = 1;
  backends::mark_operands(program, needed);
  return backends::scalars_in(program, needed, traced);
}

}  // namespace

std::vector<std::byte> Trainer::read_bytes(const backends::Program& program, backends::ValueId value,
                                           const backends::Arguments& arguments) {
  const Step step = cache_.find_or_make(program, read_specification(value), [&] {
    backends::Program wanted = program;
    wanted.output(std::string(backends::kReadOutput), value);
    return device_.compile_graph(wanted, backends::part_for_outputs(wanted));
  });
  begin_exchange(/*again=*/true);
  backends::Arguments reading = arguments;
  std::vector<backends::TracedScalar> traced;
  if (device_.keeps_graphs()) traced = traced_for(program, value, arguments.traced);
  reading.traced = traced;
  reading.reads = true;
  execute("read", *step, reading);
  std::vector<std::byte> bytes(program.type(value).bytes());
  device_.read_output(*step, 0, bytes);
  return bytes;
}

std::vector<double> Trainer::read_value(const backends::Program& program, backends::ValueId value,
                                        const backends::Arguments& arguments) {
  device_.note(backends::HostEvent::kScalarRead);
  const std::vector<std::byte> bytes = read_bytes(program, value, arguments);
  const backends::DType dtype = program.type(value).dtype;
  std::vector<double> elements;
  elements.reserve(bytes.size() / backends::size_of(dtype));
  for (size_t at = 0; at < bytes.size(); at += backends::size_of(dtype))
    elements.push_back(backends::load_element(dtype, bytes.data() + at));
  return elements;
}

}  // namespace runner::train
