#include "schema/recipe/resume_check.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schema/recipe/field_words.h"

namespace runner::schema {
namespace {

std::string text_of(const Leaf& leaf) {
  return display_text(as_written(*leaf.field, leaf.value));
}

// Returns the override as one word of a command line.
std::string override_of(const std::string& path, const Leaf* leaf) {
  const std::string text = fmt::format("{}={}", path, leaf != nullptr ? text_of(*leaf) : "null");
  const bool is_one_word = text.find_first_of(" \"[]{}()<>|&;*?$~#!\\\t\n") == std::string::npos;
  return is_one_word ? text : fmt::format("'{}'", text);
}

bool may_change(const Field& field, const Leaf* before, const Leaf* after) {
  switch (field.on_resume) {
    case OnResume::kFixed:
    case OnResume::kShapesModel: return false;
    case OnResume::kAny:
    case OnResume::kSameStep: return true;  // see check_step_size()
    case OnResume::kLarger: break;
  }
  const bool both = before != nullptr && after != nullptr;
  return both && *after->value.integer() > *before->value.integer();
}

// Whether the key exists for one backend only, such as downcast_bf16.
bool is_of_a_backend(const Field& field) {
  return std::ranges::find(field.when, std::string_view("backend"), &Condition::path) != field.when.end();
}

// Changes of a run that is resumed.
struct Changes {
  const ReadResult &before, &after;
  bool is_finished;  // the run has trained for the length of `before`

  const char* length_key() const { return after.recipe.train.steps ? "train.steps" : "train.epochs"; }
  bool has_steps_left() const {
    const TrainSpec &was = before.recipe.train, &is = after.recipe.train;
    return !is_finished || is.epochs > was.epochs || is.steps > was.steps;
  }
};

// Returns the commands that work instead of resuming with `overrides`. `instead`: a change that works too; empty if
// there is none.
std::string hint_of(const Changes& changes, const Field& field, const std::string& overrides,
                    const std::string& instead) {
  if (field.on_resume == OnResume::kShapesModel)
    return "use `runner exec` to start a new run, because no state of this one fits another model";
  const std::string longer =
      changes.has_steps_left()
          ? ""
          : fmt::format(" with a larger {} (or with --restart, to use only the weights)", changes.length_key());
  return fmt::format(
      "{}use `runner fork RUN {}`{} to continue from its state in a new run, or `runner exec` to start from the "
      "beginning",
      instead.empty() ? "" : fmt::format("set {} as well, or ", instead), overrides, longer);
}

// Returns the diagnostic of a changed field, with the commands that work instead.
Diagnostic refused(const Changes& changes, const Field& field, const std::string& path, std::string message,
                   const std::string& overrides, const std::string& instead = "") {
  Diagnostic d;
  d.id = ErrorId::kResumeChange;
  d.where = changes.after.mark_of(path);
  d.key = path;
  d.message = std::move(message);
  d.hint = hint_of(changes, field, overrides, instead);
  return d;
}

constexpr const char *kBatchSize = "data.batch_size", *kAccumulation = "gradient_accumulation_steps";

int64_t product(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

// Number of samples of all processes in a batch of `size`.
int64_t global_batch(const Recipe& recipe, int64_t size) {
  return recipe.split_batches ? size : product(size, recipe.num_processes);
}

int64_t samples_per_step(const Recipe& recipe) {
  return product(global_batch(recipe, recipe.data.batch_size), recipe.gradient_accumulation_steps);
}

// Returns a value of the other field with which an optimizer step keeps its `samples`; "" if there is none.
std::string other_field_for(int64_t samples, const Recipe& after, bool batch_changed) {
  const int64_t divisor = batch_changed ? global_batch(after, after.data.batch_size)
                                        : product(global_batch(after, 1), after.gradient_accumulation_steps);
  if (samples % divisor != 0) return "";
  return fmt::format("{}={}", batch_changed ? kAccumulation : kBatchSize, samples / divisor);
}

// Returns why a run of this recipe depends on how optimizer steps are divided into batches; "" if it does not.
std::string dependence_on_batches(const Recipe& before, const Recipe& after) {
  const bool one_process = before.num_processes == 1 && after.num_processes == 1;
  if (after.train.local_sgd && !one_process) return "with train.local_sgd, each process would train on other samples";
  if ((after.comm.hook == CommHook::kPowerSgd || after.comm.hook == CommHook::kBatchedPowerSgd) && !one_process)
    return "comm.hook compresses the gradients of each process, which would have other samples";
  if (after.scheduler.compat == Compat::kAccelerate && !after.split_batches &&
      before.num_processes != after.num_processes)
    return "with scheduler.compat: accelerate, the schedule depends on num_processes";
  const auto evaluated = [](const Recipe& r) { return global_batch(r, r.eval.batch_size.value_or(r.data.batch_size)); };
  if (after.eval.batches && evaluated(before) != evaluated(after))
    return "with eval.batches, evaluations would use another number of samples";
  return "";
}

// Checks changes of the fields of OnResume::kSameStep. A changed num_processes alone may change the samples of a step.
void check_step_size(const Changes& changed, std::vector<Diagnostic>& diagnostics) {
  const Recipe &was = changed.before.recipe, &is = changed.after.recipe;
  const bool batch_changed = was.data.batch_size != is.data.batch_size;
  const bool accumulation_changed = was.gradient_accumulation_steps != is.gradient_accumulation_steps;
  if (!batch_changed && !accumulation_changed) return;
  std::vector<std::string> overrides;
  if (was.num_processes != is.num_processes) overrides.push_back(fmt::format("num_processes={}", is.num_processes));
  if (batch_changed) overrides.push_back(fmt::format("{}={}", kBatchSize, is.data.batch_size));
  if (accumulation_changed) overrides.push_back(fmt::format("{}={}", kAccumulation, is.gradient_accumulation_steps));
  const std::string changes = fmt::format("{}", fmt::join(overrides, " "));
  const char* const path = batch_changed ? kBatchSize : kAccumulation;
  const Field& field = find_fields(path)[0];
  const int64_t samples = samples_per_step(was), now = samples_per_step(is);
  if (samples != now) {
    diagnostics.push_back(refused(
        changed, field, path,
        fmt::format("{} may only change when a run is resumed if an optimizer step keeps its number of samples ({}{} × "
                    "{}): {} -> {}",
                    path, kBatchSize, is.split_batches ? "" : " × num_processes", kAccumulation, samples, now),
        changes, other_field_for(samples, is, batch_changed)));
  } else if (const std::string why = dependence_on_batches(was, is); !why.empty()) {
    diagnostics.push_back(refused(changed, field, path,
                                  fmt::format("{} cannot change when this run is resumed: {}", path, why), changes));
  }
}

}  // namespace

std::vector<Diagnostic> check_resume_overrides(const ReadResult& before, const ReadResult& after, bool is_finished) {
  const Changes changes{before, after, is_finished};
  std::set<std::string> paths;
  for (const Leaf& leaf : before.leaves) paths.insert(leaf.path);
  for (const Leaf& leaf : after.leaves) paths.insert(leaf.path);
  std::vector<Diagnostic> diagnostics;
  for (const std::string& path : paths) {
    const Leaf* was = before.find(path);
    const Leaf* is = after.find(path);
    if (was != nullptr && is != nullptr && was->value == is->value) continue;
    // Another backend adds its own section, and another device model may lack fields; defaults do not matter.
    if (was == nullptr && is->value == after.default_of(*is->field)) continue;
    if (is == nullptr && was->value == before.default_of(*was->field)) continue;
    const Field& field = *(is != nullptr ? is : was)->field;
    if (may_change(field, was, is)) continue;
    if (is == nullptr && is_of_a_backend(field)) continue;
    // Removed because of the key that excludes it, which is reported.
    if (is == nullptr && !field.excludes.empty() && after.find(child_path(field.parent, field.excludes)) != nullptr)
      continue;
    const bool larger = field.on_resume == OnResume::kLarger;
    diagnostics.push_back(
        refused(changes, field, path,
                fmt::format("{} {} when a run is resumed: {} -> {}", path, larger ? "can only grow" : "cannot change",
                            was != nullptr ? text_of(*was) : "not set", is != nullptr ? text_of(*is) : "not set"),
                override_of(path, is)));
  }
  check_step_size(changes, diagnostics);
  return diagnostics;
}

std::optional<std::vector<std::string>> settings_for_processes(const Recipe& recipe, int64_t processes) {
  Recipe after = recipe;
  after.num_processes = processes;
  std::vector<std::string> settings{fmt::format("num_processes={}", processes)};
  const int64_t samples = samples_per_step(recipe);
  if (samples == samples_per_step(after)) return settings;
  for (const bool keeps_batch : {true, false})
    if (const std::string other = other_field_for(samples, after, keeps_batch); !other.empty()) {
      settings.push_back(other);
      return settings;
    }
  return std::nullopt;
}

}  // namespace runner::schema
