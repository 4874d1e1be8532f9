// Rules about the options of emulated devices.
#include "schema/recipe/check_context.h"
#include "schema/recipe/choice_table.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/recipe_build.h"
#include "schema/recipe/recipe_check.h"

namespace runner::schema {
namespace {

// Several copying threads need prefetched batches whose rows are independent.
void check_transfer_threads(const CheckContext& c) {
  constexpr std::string_view kThreads = "tpu.host_to_device_transfer_threads";
  if (c.settings.text("backend") != "tpu" || c.settings.integer(kThreads).value_or(1) == 1) return;
  const auto refuse = [&](std::string_view value, std::string_view why) {
    c.fault(ErrorId::kConflictingKeys, kThreads,
            fmt::format("{} {} cannot be combined with {}: {}", kThreads, *c.settings.integer(kThreads), value, why),
            fmt::format("remove {} or {}", kThreads, value));
  };
  if (c.settings.integer("data.prefetch") == 0) refuse("data.prefetch: 0", "no batches are prefetched");
  if (c.settings.is_true("data.stream")) refuse("data.stream: true", "the samples of a stream are read sequentially");
}

// Each rank is a device on the board of one host.
void check_board(const CheckContext& c) {
  const Setting* generation = c.settings.find("tpu.generation");
  const std::optional<int64_t> processes = c.settings.integer("num_processes");
  if (c.settings.text("backend") != "tpu" || generation == nullptr || !processes) return;
  const int devices = devices_on_board(static_cast<TpuGeneration>(choice_index(*generation)));
  if (*processes <= devices) return;
  c.fault(ErrorId::kConflictingKeys, "num_processes",
          fmt::format("num_processes is {}, but a board of TPU {} has {} devices", *processes,
                      *generation->value.text(), devices),
          fmt::format("use at most {}, or another tpu.generation", devices));
}

void check_gpu_memory(const CheckContext& c) {
  constexpr int64_t kMinMemory = int64_t{2} * (2 << 20);  // segments of PyTorch's allocator, which streams do not share
  const std::optional<int64_t> memory = c.settings.integer("gpu.memory");
  if (!memory || *memory >= kMinMemory) return;
  c.fault(ErrorId::kOutOfRange, "gpu.memory",
          fmt::format("gpu.memory must be at least {}, the minimum for a model and a batch on a GPU, got {}",
                      size_text(kMinMemory), readable_size(*memory)));
}

void check_loader_queue(const CheckContext& c) {
  constexpr std::string_view kQueue = "tpu.loader_prefetch_size";
  if (c.settings.text("backend") != "tpu" || c.settings.integer("data.prefetch") != 0 || !c.changes_default(kQueue))
    return;
  if (c.are_recorded(kQueue, "data.prefetch")) return;
  c.fault(ErrorId::kIgnoredOption, kQueue, fmt::format("{} is ignored with data.prefetch: 0", kQueue),
          fmt::format("remove {} or data.prefetch: 0", kQueue));
}

// One pass is exact for bf16 and fp16. A hook's f64 stays f32 with downcast_bf16, and so do its ops outside autocast.
void check_matmul_precision(const CheckContext& c) {
  constexpr std::string_view kPrecision = "tpu.matmul_precision";
  const auto mixed = c.settings.text("mixed_precision");
  if (c.settings.text("backend") != "tpu" || !mixed || *mixed == "no" || !c.changes_default(kPrecision)) return;
  if (c.has("hooks") && (*mixed == "fp16" || c.settings.is_true("downcast_bf16"))) return;
  c.ignored(kPrecision, "mixed_precision",
            fmt::format("mixed_precision: {}, whose matrix products are exact in one pass", *mixed));
}

// With mixed precision, tf32 represents the operands of the built-in models' products exactly.
void check_tf32(const CheckContext& c) {
  constexpr std::string_view kTf32 = "gpu.allow_tf32";
  const auto mixed = c.settings.text("mixed_precision"), hook = c.settings.text("comm.hook");
  if (c.settings.text("backend") != "gpu" || !mixed || *mixed == "no" || !c.changes_default(kTf32)) return;
  if (c.has("hooks") || hook == "power_sgd" || hook == "batched_power_sgd") return;
  c.ignored(kTf32, "mixed_precision",
            fmt::format("mixed_precision: {}, which has no matrix products in float32", *mixed));
}

// A single rank reduces no gradients in any mode.
void check_bucket_cap(const CheckContext& c) {
  constexpr std::string_view kCap = "gpu.bucket_cap", kHook = "comm.hook", kLocal = "train.local_sgd";
  if (c.settings.text("backend") != "gpu" || c.settings.integer("num_processes") == 1 || !c.changes_default(kCap))
    return;
  const auto hook = c.settings.text(kHook);
  if (c.has(kLocal)) {
    c.ignored(kCap, kLocal, "train.local_sgd, which all-reduces no gradients");
  } else if (hook && *hook != "none") {
    c.ignored(kCap, kHook, fmt::format("comm.hook: {}, which compresses all gradients at once", *hook));
  }
}

}  // namespace

namespace {

constexpr ChoiceRow<TpuGeneration, int> kBoards[] = {{TpuGeneration::kV2, 8},  {TpuGeneration::kV3, 8},
                                                     {TpuGeneration::kV4, 4},  {TpuGeneration::kV5e, 8},
                                                     {TpuGeneration::kV5p, 4}, {TpuGeneration::kV6e, 8}};
static_assert(has_all_choices(kBoards));

}  // namespace

int devices_on_board(TpuGeneration generation) {
  return value_of(kBoards, generation);
}

void check_devices(const CheckContext& c) {
  check_transfer_threads(c);
  check_board(c);
  check_gpu_memory(c);
  check_loader_queue(c);
  check_matmul_precision(c);
  check_tf32(c);
  check_bucket_cap(c);
}

}  // namespace runner::schema
