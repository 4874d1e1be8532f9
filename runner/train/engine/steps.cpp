#include "runner/train/engine/steps.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/exec/backend.h"
#include "backends/runtime/spans.h"
#include "runner/train/engine/in_flight_step.h"
#include "runner/train/step/declared_step.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/parameter_use.h"
#include "runner/train/step/step_specification.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

std::optional<TracedGraphs> traced_graphs_of(const EngineParts& parts) {
  const schema::Recipe& recipe = parts.builder.recipe();
  const bool compares = parts.ranks != nullptr && parts.hooks != nullptr && device_rules(recipe).ranks_run_one_graph;
  return compares ? std::make_optional<TracedGraphs>(scalar_rules_of(recipe)) : std::nullopt;
}

GraphSubject subject_of(const StepKind& kind) {
  return {kind.training, kind.shape.batch, kind.shape.length, kind.shape.counted.has_value()};
}

}  // namespace

Steps::Steps(const EngineParts& parts) : parts_(parts), traced_graphs_(traced_graphs_of(parts)) {}

SharedStep Steps::find(const StepKind& requested, const data::Batch* batch) {
  const StepKind kind = parts_.user.seen(requested, batch);
  if (parts_.builder.varies(kind.training) && !replays(kind.training)) return make(kind, batch);
  for (HeldStep& held : held_) {
    if (held.kind != kind) continue;
    ++replayed_;
    if (held.trace) use_trace(held, batch);
    return held.step;
  }
  held_.push_back({kind, make(kind, batch)});
  if (replays(kind.training)) keep_trace(held_.back());
  return held_.back().step;
}

void Steps::keep_trace(HeldStep& held) {
  held.trace = KeptTrace{*recorded_};
}

void Steps::use_trace(HeldStep& held, const data::Batch* batch) {
  const StepKind& kind = held.kind;
  if (held.trace->is_checked()) {
    begin_recording();
    parts_.builder.record_into(*recorded_, kind.shape.batch_shape(), kind.training, reader(batch, kind.training),
                               kind.shape.counted);
    check_same_trace(held.trace->recorded, *recorded_, kind.training ? "training_step" : "evaluation_step");
  } else {
    recorded_ = &held.trace->recorded;
    if (recorded_->random_tensors > 0) parts_.hooks->draw_again();
  }
  if (!traced_graphs_) return;
  const std::shared_ptr<const backends::Program> unowned(std::shared_ptr<void>(), &held.trace->recorded.program);
  traced_graphs_->add(subject_of(kind), known_place(batch, kind.training), unowned, recorded_->results(),
                      recorded_->host.traced);
}

// Records into the recording that the submission in flight does not read.
void Steps::begin_recording() {
  parts_.device.on_host_event(backends::HostEvent::kRecording);
  recorded_ = &recordings_[parts_.in_flight.reads(recordings_[0])];
}

BatchPlace Steps::place_of(const data::Batch& batch, bool training, bool labelled) const {
  if (training) return {BatchPlace::Of::kTraining, parts_.counters.batches, batch.position.epoch};
  return {labelled ? BatchPlace::Of::kEvaluation : BatchPlace::Of::kPrediction, batch.position.step + 1};
}

std::optional<BatchPlace> Steps::known_place(const data::Batch* batch, bool training) const {
  return batch != nullptr ? std::make_optional(place_of(*batch, training)) : std::nullopt;
}

StepBuilder::Read Steps::reader(const data::Batch* batch, bool training) {
  return [this, batch, training](const StepBuilder::Recorded& recorded, backends::ValueId value) {
    if (batch == nullptr) {
      lacked_batch_ = true;
      fail(ErrorKind::kRun, "item: a value of a tensor is known only in a run");
    }
    StepSubmission submission = arguments(*batch, &recorded);
    submission.info.evaluates = !training;
    return in_batch(place_of(*batch, training),
                    [&] { return parts_.executor.read_value(recorded.program, value, submission); });
  };
}

void Steps::wait_for_batch() {
  parts_.in_flight.wait();
  parts_.in_flight.check();
}

// The submission in flight reads the same keys, and its outputs would be overwritten.
StepSubmission Steps::arguments(const data::Batch& batch, const StepBuilder::Recorded* recorded, TracedUntil traced,
                                std::span<const backends::TracedScalar> rule_numbers) {
  wait_for_batch();
  return parts_.arguments.of_step(batch, recorded, traced, rule_numbers);
}

SharedStep Steps::make(const StepKind& kind, const data::Batch* batch) {
  parts_.executor.check_halt();
  begin_recording();
  {
    const backends::ScopedSpan span(backends::SpanKind::kCompile, "record");
    parts_.builder.record_into(*recorded_, kind.shape.batch_shape(), kind.training, reader(batch, kind.training),
                               kind.shape.counted);
  }
  backends::StepSpecification step = kind.training ? training_specification(parts_.builder, *recorded_, kind.shape)
                                                   : forward_specification(*recorded_, kind.labelled, kind.shape.first);
  // The number of elements identifies the layout: it grows with the batch that it has room for.
  step.insert(step.end(), {kind.closes_step, kind.padded, kind.factored != nullptr ? kind.factored->elements : 0});
  SharedStep made = parts_.executor.cache().find_or_make(recorded_->program, step, [&] {
    const auto compile = [&] { return kind.training ? compile_training_step(kind) : compile_forward_step(kind); };
    if (batch == nullptr) return compile();
    // A device may report that its memory is too small before it runs.
    return in_batch<backends::OutOfMemory>(place_of(*batch, kind.training, kind.labelled), compile);
  });
  if (traced_graphs_)
    traced_graphs_->add(subject_of(kind), known_place(batch, kind.training), parts_.executor.cache().newest_recorded(),
                        recorded_->results(), recorded_->host.traced);
  return made;
}

void Steps::compare_graphs() {
  if (traced_graphs_) traced_graphs_->compare(*parts_.ranks, {"traced graphs", parts_.counters.steps});
}

SharedStep Steps::compile_training_step(const StepKind& kind) {
  const CompletedStep completed = complete_step(parts_.builder, *recorded_, kind.shape,
                                                kind.factored != nullptr ? *kind.factored : FactoredLayout());
  note_unused(unused_parameters(completed.reached, parts_.builder.model().parameters));
  backends::Program program = completed.program;
  parts_.arrays.declare_rounded_weights(program);
  const bool loses = measures_lost_gradient(parts_.builder.recipe(), parts_.ranks) && !completed.additions.empty();
  const int lost_output = loses ? output_lost_gradient(program, completed.additions) : -1;
  std::vector<backends::TracedScalar> numbers;
  std::shared_ptr<backends::Executable> executable =
      parts_.device.compile(program, parts_.user.of_training(kind, *recorded_, completed, program, numbers));
  return compiled_step(std::move(executable), std::move(numbers), lost_output);
}

SharedStep Steps::compile_forward_step(const StepKind& kind) {
  return compiled_step(parts_.device.compile(parts_.builder.forward(*recorded_, kind.labelled),
                                             parts_.user.of_forward(kind, *recorded_)));
}

void Steps::note_unused(const std::string& names) {
  if (names.empty()) return;
  if (parts_.builder.recipe().comm.unused == schema::Unused::kError)
    fail(
        ErrorKind::kRun,
        "the loss does not depend on {}, but comm.unused is error; use these parameters, or freeze them (model.freeze)",
        names);
  if (unused_.empty()) unused_ = names;
}

void Steps::record(const data::Batch& batch, bool training) {
  if (batch.size == 0 || !parts_.builder.varies(training) || replays(training)) return;
  parts_.arguments.set_any_rates();
  begin_recording();
  parts_.builder.record_into(*recorded_, batch.shape(), training, reader(&batch, training),
                             training ? parts_.builder.counted_in(batch) : std::nullopt);
}

void Steps::try_forward(const StepShape& shape) {
  const HookMark mark = parts_.hooks != nullptr ? HookMark{parts_.hooks->state(), parts_.hooks->drawn()} : HookMark{};
  parts_.builder.record(shape.batch_shape(), /*training=*/true, reader(nullptr, /*training=*/true), shape.counted);
  if (parts_.hooks != nullptr) rewind(mark, *parts_.hooks);
}

}  // namespace runner::train
