#include "runner/train/engine/executor.h"

#include <span>
#include <string>

#include "backends/ir/needed.h"
#include "backends/tensor/float16.h"
#include "runner/train/engine/user_work.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/step_specification.h"
#include "schema/base/error.h"
#include "schema/recipe/field_words.h"

namespace runner::train {
namespace {

// Returns the scalars that `value` is computed from: a lazy device sees no others of the recording.
std::vector<backends::TracedScalar> traced_for(const backends::Program& program, backends::ValueId value,
                                               std::span<const backends::TracedScalar> traced) {
  if (traced.empty()) return {};
  return backends::scalars_in(program, backends::needed_by(program, std::span(&value, 1)), traced);
}

}  // namespace

Executor::Executor(backends::ModelledDevice& device, backends::ProcessGroup* ranks, const Counters& counters)
    : device_(device), counters_(counters) {
  if (ranks != nullptr) exchange_.emplace(*ranks);
}

void Executor::check_memory(std::string_view name, const backends::Executable& step, backends::SpanKind kind) const {
  const auto needed = static_cast<int64_t>(step.arena_bytes());
  const bool of_batch = kind != backends::SpanKind::kOptimizer;
  RUN_CHECK(!memory_ || needed <= *memory_, ErrorKind::kRun,
            "out of memory: \"{}\" needs {} in addition to parameters, gradients and optimizer state, {} available per "
            "process; {}",
            name, schema::readable_size(needed), schema::readable_size(*memory_),
            of_batch ? "reduce data.batch_size, or set train.auto_batch_size" : "use a smaller model");
}

void Executor::execute(std::string_view name, const CompiledStep& step, const StepSubmission& submission,
                       backends::SpanKind kind) {
  StepSubmission awaited = submission;
  awaited.waits = true;
  device_.wait(submit(name, step, awaited, kind));
}

backends::Ticket Executor::submit(std::string_view name, const CompiledStep& step, StepSubmission submission,
                                  backends::SpanKind kind) {
  check_memory(name, *step.executable, kind);
  submission.name = name;
  submission.span = kind;
  return device_.submit(*step.executable, submission, submission.info);
}

std::vector<std::byte> Executor::read_bytes(const backends::Program& program, backends::ValueId value,
                                            const StepSubmission& submission, std::string_view name) {
  const SharedStep step = cache_.find_or_make(program, read_specification(value), [&] {
    backends::Program requested = program;
    requested.output({.name = std::string(name), .value = value, .is_read = true});
    return compiled_step(device_.compile(requested, UserWork::of_read(requested)));
  });
  begin_exchange(/*again=*/true);
  const std::vector<backends::TracedScalar> traced = traced_for(program, value, submission.info.traced);
  StepSubmission reading = submission;
  reading.info.traced = traced;
  reading.info.reads = true;
  execute("read", *step, reading);
  std::vector<std::byte> bytes(program.type(value).bytes());
  device_.read_output(*step->executable, 0, bytes);
  return bytes;
}

std::vector<double> Executor::read_value(const backends::Program& program, backends::ValueId value,
                                         const StepSubmission& submission, std::string_view name) {
  device_.on_host_event(submission.info.evaluates ? backends::HostEvent::kEvaluationRead
                                                  : backends::HostEvent::kScalarRead);
  const std::vector<std::byte> bytes = read_bytes(program, value, submission, name);
  const backends::DType dtype = program.type(value).dtype;
  std::vector<double> elements;
  elements.reserve(bytes.size() / backends::size_of(dtype));
  for (size_t at = 0; at < bytes.size(); at += backends::size_of(dtype))
    elements.push_back(backends::load_element(dtype, bytes.data() + at));
  return elements;
}

void Executor::begin_exchange(bool again) {
  if (exchange_) exchange_->begin(counters_.steps + 1, again);
}

void Executor::forget_exchanged() {
  if (exchange_) exchange_->discard_recording();
}

}  // namespace runner::train
