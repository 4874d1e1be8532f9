#include "runner/train/step/device_rules.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include <unistd.h>

#include "backends/exec/cpu_device.h"
#include "backends/gpu/gpu_device.h"
#include "backends/runtime/affinity.h"
#include "backends/tpu/tpu_device_model.h"
#include "schema/base/signals_blocked.h"
#include "schema/recipe/choice_table.h"

namespace runner::train {

namespace tpu = backends::tpu;

namespace {

// Whether each rank has a core for its device in addition to the one for recording.
bool has_core_for_device(const schema::Recipe& recipe, const backends::ProcessGroup* ranks) {
  if (ranks != nullptr && ranks->cores() > 0) return ranks->cores() > 1;
  return backends::usable_cores() > (recipe.enable_cpu_affinity ? 1 : recipe.num_processes);
}

// Whether each rank has a core at all. With affinity, usable_cores() counts only this rank's share, so all cores are
// counted.
bool has_core_for_rank(const schema::Recipe& recipe, const backends::ProcessGroup* ranks) {
  if (ranks != nullptr && ranks->cores() > 0) return true;
  const int64_t cores = recipe.enable_cpu_affinity ? sysconf(_SC_NPROCESSORS_ONLN) : backends::usable_cores();
  return recipe.num_processes <= cores;
}

// Added to the collective timeout, because a collective reports which rank is missing, whereas the device reports only
// where it waits.
constexpr auto kGraceAfterCollectives = std::chrono::seconds(5);

std::chrono::milliseconds patience_of(const schema::Recipe& recipe) {
  return kGraceAfterCollectives + collective_timeout(recipe);
}

int rank_of(const backends::ProcessGroup* ranks) {
  return ranks != nullptr ? ranks->rank() : 0;
}

using tpu::MatmulPrecision, tpu::Rounding;
constexpr schema::ChoiceRow<schema::MatmulPrecision, MatmulPrecision> kPrecisions[] = {
    {schema::MatmulPrecision::kDefault, MatmulPrecision::kDefault},
    {schema::MatmulPrecision::kHigh, MatmulPrecision::kHigh},
    {schema::MatmulPrecision::kHighest, MatmulPrecision::kHighest},
};
constexpr schema::ChoiceRow<schema::Rounding, Rounding> kRoundings[] = {
    {schema::Rounding::kPerOp, Rounding::kPerOp},
    {schema::Rounding::kFused, Rounding::kFused},
};
constexpr schema::ChoiceRow<schema::TpuDialect, const tpu::Dialect*> kDialects[] = {
    {schema::TpuDialect::kXla2X, &tpu::kXla2},
    {schema::TpuDialect::kXla1_7, &tpu::kXla17},
    {schema::TpuDialect::kClean, &tpu::kClean},
};

static_assert(schema::has_all_choices(kPrecisions) && schema::has_all_choices(kRoundings) &&
              schema::has_all_choices(kDialects));

tpu::Hardware hardware_of(const schema::Recipe& recipe) {
  return {.machine = {.generation = generation_of(recipe),
                      .devices = static_cast<int>(recipe.num_processes),
                      .precision = schema::value_of(kPrecisions, recipe.tpu.matmul_precision)},
          .types = device_types_of(recipe),
          .rounding = schema::value_of(kRoundings, recipe.tpu.rounding),
          .prefetched_batches = recipe.tpu.device_prefetch_size};
}

std::unique_ptr<backends::ModelledDevice> make_cpu(const schema::Recipe& recipe, backends::ProcessGroup* ranks,
                                                   std::optional<bool>) {
  const SignalsBlocked blocked;
  return std::make_unique<backends::ModelledDevice>(
      backends::make_cpu_device(threads_of(recipe, ranks), recipe.cpu.memory));
}

// Called by the host while the device may be in a collective.
void check(const backends::ProcessGroup* ranks) {
  if (ranks != nullptr) ranks->throw_failure();
}

std::unique_ptr<backends::ModelledDevice> make_gpu(const schema::Recipe& recipe, backends::ProcessGroup* ranks,
                                                   std::optional<bool> own_thread) {
  const SignalsBlocked blocked;
  return backends::gpu::make_gpu_device({.index = rank_of(ranks),
                                         .threads = threads_of(recipe, ranks),
                                         .own_thread = own_thread.value_or(has_core_for_device(recipe, ranks)),
                                         .spins = has_core_for_rank(recipe, ranks),
                                         .launch_blocking = recipe.gpu.launch_blocking,
                                         .model = static_cast<backends::gpu::GpuProduct>(recipe.gpu.model),
                                         .memory = recipe.gpu.memory,
                                         .gpus = static_cast<int>(recipe.num_processes),
                                         .capture = recipe.gpu.capture,
                                         .allow_tf32 = recipe.gpu.allow_tf32,
                                         .patience = patience_of(recipe),
                                         .check_others = [ranks] { check(ranks); }});
}

bool pads_to_longest(const schema::Recipe& recipe) {
  return recipe.data.tokens && recipe.data.tokens->padding == schema::TokenPadding::kLongest;
}

std::unique_ptr<backends::ModelledDevice> make_tpu(const schema::Recipe& recipe, backends::ProcessGroup* ranks,
                                                   std::optional<bool> own_thread) {
  const SignalsBlocked blocked;
  return tpu::make_tpu_device({.threads = threads_of(recipe, ranks),
                               .hardware = hardware_of(recipe),
                               .batches_per_mark = recipe.tpu.auto_mark_step ? recipe.tpu.batches_per_execution : 0,
                               .tracks_graphs = rank_of(ranks) == 0,
                               .own_thread = own_thread.value_or(has_core_for_device(recipe, ranks)),
                               .waits_at_mark_step = recipe.tpu.sync_wait,
                               .eager = recipe.tpu.eager,
                               .dialect = dialect_of(recipe),
                               .max_graphs = recipe.tpu.max_graphs,
                               .short_batches = {.dropped_in_training = recipe.data.drop_last,
                                                 .filled_in_evaluations = recipe.eval.pad_last.value_or(false),
                                                 .lengths_differ = pads_to_longest(recipe)}});
}

// By schema::Backend.
constexpr DeviceRules kRules[] = {
    {.ranks_are_processes = true,
     .traces_graphs = false,
     .ranks_run_one_graph = false,
     .has_loader = false,
     .has_bf16_floats = false,
     .has_bucket_cap = false,
     .has_allocator = false,
     .has_start_method = false,
     .make = make_cpu},
    {.ranks_are_processes = false,
     .traces_graphs = false,
     .ranks_run_one_graph = false,
     .has_loader = false,
     .has_bf16_floats = false,
     .has_bucket_cap = true,
     .has_allocator = true,
     .has_start_method = false,
     .make = make_gpu},
    {.ranks_are_processes = false,
     .traces_graphs = true,
     .ranks_run_one_graph = true,
     .has_loader = true,
     .has_bf16_floats = true,
     .has_bucket_cap = false,
     .has_allocator = false,
     .has_start_method = true,
     .make = make_tpu},
};
static_assert(std::size(kRules) == static_cast<size_t>(schema::Backend::kTpu) + 1);

}  // namespace

int threads_of(const schema::Recipe& recipe, const backends::ProcessGroup* ranks) {
  if (recipe.threads > 0) return static_cast<int>(recipe.threads);
  if (ranks != nullptr && ranks->cores() > 0) return ranks->cores();
  if (recipe.enable_cpu_affinity) return backends::usable_cores();  // already only the cores of this rank
  return static_cast<int>(std::max<int64_t>(1, backends::usable_cores() / recipe.num_processes));
}

std::chrono::milliseconds collective_timeout(const schema::Recipe& recipe) {
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(recipe.collective_timeout));
}

const DeviceRules& device_rules(const schema::Recipe& recipe) {
  return kRules[static_cast<size_t>(recipe.backend)];
}

// A device loader has a queue on the host and one on the device.
int64_t batches_ahead(const schema::Recipe& recipe) {
  const bool queues = device_rules(recipe).has_loader && recipe.data.prefetch > 0;
  const int64_t queued = recipe.tpu.loader_prefetch_size + recipe.tpu.device_prefetch_size;
  return queues ? std::max(recipe.data.prefetch, queued) : recipe.data.prefetch;
}

int64_t loader_threads(const schema::Recipe& recipe) {
  return device_rules(recipe).has_loader ? recipe.tpu.host_to_device_transfer_threads : 1;
}

// xm.save of PyTorch/XLA 1.7 ends with a barrier, so a call on one rank alone would deadlock.
bool saves_together(const schema::Recipe& recipe) {
  return device_rules(recipe).traces_graphs && dialect_of(recipe).saves_together;
}

tpu::Generation generation_of(const schema::Recipe& recipe) {
  return static_cast<tpu::Generation>(recipe.tpu.generation);
}

const tpu::Dialect& dialect_of(const schema::Recipe& recipe) {
  return *schema::value_of(kDialects, recipe.tpu.dialect);
}

tpu::DeviceTypes device_types_of(const schema::Recipe& recipe) {
  if (recipe.mixed_precision == schema::Precision::kBf16)
    return recipe.downcast_bf16 ? tpu::kDowncastBf16Types : tpu::kBf16Types;
  return dialect_of(recipe).has_f64 ? tpu::kFullTypes : tpu::DeviceTypes{.f64 = backends::DType::kF32};
}

bool rounds_to_bf16(const schema::Recipe& recipe) {
  return device_rules(recipe).has_bf16_floats && device_types_of(recipe).f32 == backends::DType::kBf16;
}

tpu::ScalarRules scalar_rules_of(const schema::Recipe& recipe) {
  return tpu::scalar_rules(dialect_of(recipe), device_types_of(recipe));
}

}  // namespace runner::train
