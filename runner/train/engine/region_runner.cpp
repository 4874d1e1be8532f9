#include "runner/train/engine/region_runner.h"

#include <array>
#include <span>

#include "backends/tensor/float16.h"
#include "runner/train/engine/in_flight_step.h"
#include "runner/train/engine/steps.h"
#include "runner/train/engine/update_clock.h"
#include "runner/train/step/step_specification.h"
#include "runner/train/step/traced_region.h"

namespace runner::train {
namespace {

std::vector<backends::ValueId> roots_of(const backends::Program& program) {
  std::vector<backends::ValueId> roots;
  for (const backends::Output& output : program.outputs()) roots.push_back(output.value);
  return roots;
}

}  // namespace

StepSubmission RegionRunner::reading(const TracedRegion& region, const data::Batch* batch) {
  StepSubmission submission = arguments(region, batch);
  submission.info.evaluates = batch != nullptr && !region.is_training();
  return submission;
}

StepSubmission RegionRunner::arguments(const TracedRegion& region, const data::Batch* batch) {
  if (parts_.clock != nullptr) parts_.clock->begin_region(region);
  return parts_.arguments.of_region(region, batch);
}

void RegionRunner::run(std::string_view name, const TracedRegion& region, const data::Batch* batch) {
  const backends::Program& program = region.program();
  newest_ = parts_.executor.cache().find_or_make(program, region_specification(), [&] { return compiled(region); });
  if (TracedGraphs* const traced = parts_.steps.traced_graphs(); traced != nullptr && region.collectives() > 0)
    traced->add({.batch = batch != nullptr ? batch->size : 0, .length = batch != nullptr ? batch->length : 0},
                /*place=*/{}, parts_.executor.cache().newest_recorded(), roots_of(program), region.host().traced,
                region.of_rank_0());
  parts_.executor.begin_exchange(/*again=*/false);
  parts_.executor.execute(name, *newest_, arguments(region, batch));
  add_lost_gradient(parts_.device, *newest_, lost_gradient_);
}

// The device model sees the region without the outputs that are added to it.
SharedStep RegionRunner::compiled(const TracedRegion& region) {
  const backends::Program& program = region.program();
  if (region.additions().empty() || !measures_lost_gradient(parts_.builder.recipe(), parts_.ranks))
    return compiled_step(parts_.device.compile(program));
  backends::Program with_lost = program;
  const int lost_output = output_lost_gradient(with_lost, region.additions());
  return compiled_step(parts_.device.compile(with_lost, [&program] { return program; }), {}, lost_output);
}

double RegionRunner::read_output(const TracedRegion& region, int output) {
  const backends::Program& program = region.program();
  const backends::DType dtype = program.type(program.outputs()[static_cast<size_t>(output)].value).dtype;
  std::array<std::byte, 8> value{};
  parts_.device.read_output(*newest_->executable, output, std::span(value).first(backends::size_of(dtype)));
  return backends::load_element(dtype, value.data());
}

std::vector<double> RegionRunner::read_value(const TracedRegion& region, backends::ValueId value,
                                             const data::Batch* batch) {
  const bool is_applied = region.applied() && region.applied().id == value;
  return parts_.executor.read_value(region.program(), value, reading(region, batch),
                                    is_applied ? backends::kStepWasSkipped : backends::kReadItem);
}

std::vector<std::byte> RegionRunner::read_bytes(const TracedRegion& region, backends::ValueId value,
                                                const data::Batch* batch) {
  return parts_.executor.read_bytes(region.program(), value, reading(region, batch));
}

std::optional<NotFinite> RegionRunner::explain_not_finite(const TracedRegion& region, const data::Batch* batch) {
  StepSubmission alone = arguments(region, batch);
  alone.exchange = nullptr;
  return first_not_finite(parts_.device, region.forward_pass(), parts_.builder.model().parameters, alone,
                          parts_.executor.memory());
}

}  // namespace runner::train
