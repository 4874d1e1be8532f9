#include "runner/train/loop/hook_tensors.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runner/train/engine/rank_list.h"
#include "schema/base/error.h"
#include "schema/base/sha256.h"

namespace runner::train {
namespace {

constexpr size_t kDigestDigits = 2 * sizeof(Sha256Digest);

// `answers`: of each rank, '-' and its error, or the digest and the path of its weights.
void check_same_weights(std::span<const std::string> answers) {
  std::vector<size_t> odd;
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    RUN_CHECK(answers[rank].front() != '-', ErrorKind::kRun, "acc:load_model: rank {} failed: {}", rank,
              answers[rank].substr(1));
    if (answers[rank].substr(0, kDigestDigits) != answers[0].substr(0, kDigestDigits)) odd.push_back(rank);
  }
  RUN_CHECK(odd.empty(), ErrorKind::kRun,
            "acc:load_model: {} read other weights ({}) than rank 0 ({}); load the same file with the same renames on "
            "every rank",
            rank_list(odd), answers[odd.front()].substr(kDigestDigits), answers[0].substr(kDigestDigits));
}

}  // namespace

HookTensors::HookTensors(TrainState& state, Hooks& hooks)
    : state_(state), session_(state.session), trainer_(session_.trainer), hooks_(hooks), eval_(session_) {}

// ---- the region ----------------------------------------------------------------------------------------------------

TracedRegion& HookTensors::region() {
  if (!region_) require_region();
  return *region_;
}

void HookTensors::start_region(TracedRegion::RegionOptions options) {
  const data::Batch* const on = batch();
  options.batch = on != nullptr ? std::optional(on->shape()) : std::nullopt;
  options.padded = on != nullptr && (on->repeats > 0 || eval_.pads());  // the same graph for every batch
  if (on != nullptr && options.training) options.counted = trainer_.builder().counted_in(*on);
  trainer_.regions().begin();
  region_.emplace(trainer_.builder(), std::move(options));
  reads_ = 0;
  collectives_run_ = 0;
  region_->inputs().read = [this, on](Value value) {
    count_reading();
    return compute([&] { return trainer_.regions().read_value(*region_, value.id, on); });
  };
  hooks_.record(&region_->inputs());
}

void HookTensors::run_program(std::string_view name) {
  compute([&] { trainer_.regions().run(name, *region_, batch()); });
}

void HookTensors::drop_region() {
  hooks_.record(nullptr);
  region_.reset();
}

void HookTensors::mark_step() {
  end_region();
  trainer_.on_host_event(backends::HostEvent::kStepMark);
  begin_region();
}

const backends::tpu::TpuDeviceModel& HookTensors::tpu(std::string_view what) const {
  const backends::tpu::TpuDeviceModel* const model = backends::tpu::find_tpu_model(*session_.device);
  RUN_CHECK(model != nullptr, ErrorKind::kRun, "acc:{}: the backend is {}, not tpu", what,
            name_of(session_.recipe.backend));
  return *model;
}

std::string HookTensors::ir(Value value) const {
  const backends::tpu::TpuDeviceModel& model = tpu("ir");
  backends::Program shown = *value.program;
  shown.output({.name = "ir", .value = value.id});
  return model.ir_text(shown);
}

void HookTensors::load_model(const nn::WeightSource& source) {
  const nn::InitialWeights weights = read_weights(source);
  mark_step();  // traced operations compute with the old weights
  trainer_.on_host_event(backends::HostEvent::kStateUse);
  trainer_.arrays().write_weights(weights, {"load_model", trainer_.counters.steps});
}

// Reads them on all ranks and compares them.
nn::InitialWeights HookTensors::read_weights(const nn::WeightSource& source) {
  if (session_.ranks == nullptr) return {source, parameters()};
  run_pending_collectives();
  nn::InitialWeights weights;
  std::optional<Error> error;
  try {
    weights = nn::InitialWeights(source, parameters());
  } catch (const Error& found) {
    error = found;
  }
  const std::string mine = error ? "-" + error->message() : hex(weights.digest()) + source.path;
  const std::vector<std::string> all = session_.ranks->gather_objects(mine, {"load_model", trainer_.counters.steps});
  if (error) throw Error(*error);
  check_same_weights(all);
  return weights;
}

// ---- reads ---------------------------------------------------------------------------------------------------------

void HookTensors::count_reading() {
  constexpr int kMaxReads = 1000;
  RUN_CHECK(++reads_ <= kMaxReads, ErrorKind::kRun,
            "more than {} values are read in one step: tensor:item(), tensor:tolist() and collectives on tensors such "
            "as acc:gather execute the recorded operations each time; stack the values to read, or call "
            "acc:mark_step() in between",
            kMaxReads);
  collectives_run_ = region_->collectives();
}

HostTensor HookTensors::read(Value value) {
  RUN_ASSERT(region_.has_value());
  count_reading();
  return {value.type(), compute([&] { return trainer_.regions().read_bytes(*region_, value.id, batch()); })};
}

void HookTensors::run_pending_collectives() {
  if (!region_ || region_->collectives() == std::exchange(collectives_run_, region_->collectives())) return;
  backends::Program& program = region_->inputs().forward.program;
  const Value nothing{&program, program.constant(0, {backends::DType::kF32, {}})};
  compute([&] { return trainer_.regions().read_bytes(*region_, nothing.id, batch()); });
}

// ---- batches -------------------------------------------------------------------------------------------------------

std::optional<HookTensors::Rows> HookTensors::rows() const {
  if (batch() == nullptr) return std::nullopt;
  return Rows{batch()->size, batch()->real()};
}

const StepInputs& HookTensors::inputs(int64_t number) {
  RUN_CHECK(batch() != nullptr && number == current().number, ErrorKind::kRun,
            "this batch has ended; keep its values as numbers, with tensor:item() or tensor:tolist()");
  return region().inputs();
}

void HookTensors::check_split(Split split) const {
  RUN_CHECK(split == Split::kEval, ErrorKind::kRun,
            "acc:batches(\"train\"): only the hook entry train takes training batches; an event can take those of the "
            "evaluation data, acc:batches(\"eval\")");
  RUN_CHECK(session_.data.eval.has_value(), ErrorKind::kRun,
            "acc:batches(\"eval\"): the recipe has no evaluation data; add data.eval or data.split");
}

int64_t HookTensors::count_batches(Split split) const {
  check_split(split);
  return eval_.count();
}

void HookTensors::begin_batches(Split split) {
  check_split(split);
  end_region();
  trainer_.arrays().share_buffers({"running statistics", trainer_.counters.steps});
  eval_.begin(even_batches_);
  begin_region();
}

std::optional<int64_t> HookTensors::next_batch(Split /*split*/) {
  end_region();
  const bool had_loader = eval_.in_progress(), over = !eval_.take();
  if (!over) {
    trainer_.marks().begin_batch(/*training=*/false);
  } else {
    if (had_loader) trainer_.marks().end_batches(/*training=*/false);
    eval_.end();
  }
  begin_region();
  return over ? std::nullopt : std::optional(eval_.current().number);
}

}  // namespace runner::train
