#include "runner/train/engine/region_runner.h"

#include <array>
#include <span>

#include "backends/tensor/float16.h"
#include "runner/train/engine/step_specification.h"
#include "runner/train/engine/traced_region.h"

namespace runner::train {
namespace {

std::vector<backends::ValueId> roots_of(const backends::Program& program) {
  std::vector<backends::ValueId> roots;
  for (const backends::Output& output : program.outputs()) roots.push_back(output.value);
  return roots;
}

}  // namespace

RegionRunner::RegionRunner(const StepBuilder& builder, backends::ModelledDevice& device, Executor& executor,
                           StepArguments& arguments, UpdateClock* clock, TracedGraphs* traced)
    : parameters_(builder.model().parameters),
      device_(device),
      executor_(executor),
      arguments_(arguments),
      clock_(clock),
      traced_(traced) {}

StepSubmission RegionRunner::arguments(const TracedRegion& region, const data::Batch* batch) {
  if (clock_ != nullptr) clock_->begin_region(region);
  return arguments_.of_region(region, batch);
}

void RegionRunner::run(std::string_view name, const TracedRegion& region, const data::Batch* batch) {
  const backends::Program& program = region.program();
  newest_ = executor_.cache().find_or_make(program, region_specification(),
                                           [&] { return compiled_step(device_.compile(program)); });
  if (traced_ != nullptr && region.collectives() > 0)
    traced_->add(batch != nullptr ? batch->size : 0, /*place=*/{}, executor_.cache().newest_recorded(),
                 roots_of(program), region.host().traced, region.of_rank_0());
  executor_.begin_exchange(/*again=*/false);
  executor_.execute(name, *newest_, arguments(region, batch));
}

double RegionRunner::read_output(const TracedRegion& region, int output) {
  const backends::Program& program = region.program();
  const backends::DType dtype = program.type(program.outputs()[static_cast<size_t>(output)].value).dtype;
  std::array<std::byte, 8> value{};
  device_.read_output(*newest_->executable, output, std::span(value).first(backends::size_of(dtype)));
  return backends::load_element(dtype, value.data());
}

std::vector<double> RegionRunner::read_value(const TracedRegion& region, backends::ValueId value,
                                             const data::Batch* batch) {
  return executor_.read_value(region.program(), value, arguments(region, batch));
}

std::vector<std::byte> RegionRunner::read_bytes(const TracedRegion& region, backends::ValueId value,
                                                const data::Batch* batch) {
  return executor_.read_bytes(region.program(), value, arguments(region, batch));
}

std::optional<NotFinite> RegionRunner::explain_not_finite(const TracedRegion& region, const data::Batch* batch) {
  StepSubmission alone = arguments(region, batch);
  alone.exchange = nullptr;
  return first_not_finite(device_, region.forward_pass(), parameters_, alone, executor_.memory());
}

}  // namespace runner::train
