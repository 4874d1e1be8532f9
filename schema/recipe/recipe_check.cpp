#include "schema/recipe/recipe_check.h"

#include <algorithm>

#include "schema/base/suggest.h"
#include "schema/recipe/field_value.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/metric_names.h"
#include "schema/recipe/recipe_build.h"
#include "schema/recipe/tpu_boards.h"

namespace runner::schema {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Checker {
 public:
  Checker(const Settings& settings, bool complete, Report& report)
      : settings_(settings), complete_(complete), report_(report) {}

  void run() {
    check_required();
    check_eval_data();
    for (const std::string_view dataset : {"data.train", "data.eval"}) check_dataset(std::string(dataset));
    check_shares();
    check_stream();
    check_labels();
    check_watched_metrics();
    check_momentum("optimizer");
    for (int i = 0; settings_.section(group(i)) != nullptr; ++i) check_momentum(group(i));
    check_scheduler();
    check_warmup();
    check_kept_states();
    check_local_sgd();
    check_transfer_threads();
    check_board();
    check_gpu_memory();
    check_loader_queue();
    check_matmul_precision();
    check_tf32();
    check_bucket_cap();
  }

 private:
  static std::string group(int index) { return fmt::format("optimizer.groups[{}]", index); }

  bool has(std::string_view path) const {
    return settings_.find(path) != nullptr || settings_.section(path) != nullptr;
  }
  bool broken(std::string_view path) const { return settings_.is_broken(path); }

  const Place& place(std::string_view path) const {
    const Setting* setting = settings_.find(path);
    return setting != nullptr ? setting->place : settings_.section(path)->place;
  }

  void fault(ErrorId id, std::string_view path, const std::string& message, std::string_view hint = "") {
    report_.add(id, place(path), path, message, hint);
  }

  void both(const std::string& a, const std::string& b) {
    if (!has(a) || !has(b)) return;
    fault(ErrorId::kConflictingKeys, b, fmt::format("{} and {} exclude each other", a, b), "remove one of them");
  }

  void missing_one_of(std::string_view section, const std::string& a, const std::string& b,
                      std::string_view hint = "") {
    if (!complete_ || has(a) || has(b) || broken(a) || broken(b)) return;
    report_.add(ErrorId::kMissingKey, place(section), a, fmt::format("{} or {} is missing", a, b), hint);
  }

  void check_required() {
    missing_one_of("", "model", "hooks", "write model: {type: mlp, hidden: [128]}");
    missing_one_of("train", "train.epochs", "train.steps");
    for (const Field& field : fields()) {
      if (field.name < field.excludes) both(field.path(), child_path(field.parent, field.excludes));
    }
  }

  bool has_eval_data() const {
    return has("data.eval") || has("data.split") || broken("data.eval") || broken("data.split");
  }

  void check_eval_data() {
    if (has_eval_data()) return;
    constexpr std::string_view kHint = "add data.eval, or data.split: {eval: 0.2}";
    for (const std::string_view path : {"eval.every", "eval.metrics", "eval.batch_size"}) {
      if (has(path)) fault(ErrorId::kNoEvalData, path, fmt::format("{} needs evaluation data", path), kHint);
    }
    for (const std::string_view path : {"train.early_stopping", "checkpoint.keep_best"}) {
      if (has(path)) fault(ErrorId::kNoEvalData, path, fmt::format("{} needs evaluation data", path), kHint);
    }
    if (settings_.text("scheduler.type") == "plateau") {
      fault(ErrorId::kNoEvalData, "scheduler.type", "scheduler.type plateau needs evaluation data", kHint);
    }
  }

  void check_dataset(const std::string& path) {
    if (!has(path)) return;
    if (settings_.text(path + ".format") == "synthetic") {
      missing_one_of(path, path + ".classes", path + ".targets");
    }
    if (settings_.text(path + ".format") == "csv" && has(path + ".header") && !settings_.is_true(path + ".header")) {
      check_headless(path);
    }
  }

  // Without a header, columns have no names.
  void check_headless(const std::string& path) {
    for (const std::string& key : {path + ".label", path + ".features"}) {
      const Setting* setting = settings_.find(key);
      if (setting == nullptr) continue;
      const ValueList* list = setting->value.list();
      const auto named = [](const Value& column) { return column.text() != nullptr; };
      if (list != nullptr ? std::any_of(list->begin(), list->end(), named) : named(setting->value)) {
        fault(ErrorId::kNeedsOption, key, fmt::format("{} names a column, but {}.header is false", key, path),
              "give the column's index, from 0");
      }
    }
  }

  void check_shares() {
    const std::optional<int64_t> processes = settings_.integer("num_processes");
    if (!settings_.is_true("data.strict") || !processes) return;
    for (const std::string_view path : {"data.batch_size", "eval.batch_size"}) {
      const std::optional<int64_t> batch = settings_.integer(path);
      if (!batch || *batch % *processes == 0) continue;
      fault(ErrorId::kNeedsOption, path,
            fmt::format("{} {} is not divisible by num_processes {}, which data.strict requires", path, *batch,
                        *processes),
            fmt::format("the next divisible size is {}; without data.strict the parts may differ by one sample",
                        (*batch / *processes + 1) * *processes));
    }
  }

  void check_stream() {
    if (!settings_.is_true("data.stream")) return;
    const auto format = settings_.text("data.train.format");
    if (format && *format != "csv" && *format != "text") {
      fault(ErrorId::kNeedsOption, "data.train.format",
            fmt::format("data.stream needs data.train.format csv or text, got {}", *format), "remove data.stream");
    }
    if (has("data.split")) {
      fault(ErrorId::kConflictingKeys, "data.split", "data.split needs all samples in memory, which data.stream avoids",
            "put the evaluation data in a separate file, data.eval, or remove data.stream");
    }
  }

  // Kind of labels, if the recipe alone determines it.
  Labels labels() const {
    const std::string_view loss = settings_.text("train.loss").value_or("");
    if (has("hooks") || broken("data.train") || broken("train.loss")) return Labels::kAny;
    if (loss == "cross_entropy") return Labels::kClasses;
    if (is_one_of(loss, {"mse", "l1", "huber"})) return Labels::kNumbers;
    if (loss != "auto") return Labels::kAny;
    if (has("data.train.classes")) return Labels::kClasses;
    return has("data.train.targets") ? Labels::kNumbers : Labels::kAny;
  }

  void check_labels() {
    if (settings_.text("train.loss") == "cross_entropy" && has("data.train.targets")) {
      fault(ErrorId::kTaskMismatch, "train.loss", "train.loss cross_entropy needs classes, but data.train has targets",
            "use mse, l1 or huber, or data.train.classes");
    }
    const Labels known = labels();
    if (known == Labels::kNumbers) {
      for (const std::string_view path : {"train.class_weights", "train.label_smoothing", "train.ignore_index"}) {
        if (settings_.is_written(path) && settings_.number(path) != 0.0) {
          fault(ErrorId::kTaskMismatch, path, fmt::format("{} needs classes, but the labels are numbers", path));
        }
      }
    }
    check_metrics(known);
  }

  void check_metrics(Labels known) {
    const Setting* metrics = settings_.find("eval.metrics");
    if (metrics == nullptr) return;
    const ValueList& list = *metrics->value.list();
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string& name = *list[i].text();
      if (std::count(list.begin(), list.begin() + static_cast<ptrdiff_t>(i), list[i]) > 0) {
        fault(ErrorId::kConflictingKeys, "eval.metrics", fmt::format("eval.metrics lists {} twice", name));
      }
      if (known == Labels::kNumbers && labels_of(name) == Labels::kClasses) {
        fault(ErrorId::kTaskMismatch, "eval.metrics", fmt::format("{} needs classes, but the labels are numbers", name),
              "use mse or mae");
      } else if (known == Labels::kClasses && labels_of(name) == Labels::kNumbers) {
        fault(ErrorId::kTaskMismatch, "eval.metrics", fmt::format("{} needs numbers, but the labels are classes", name),
              "use accuracy, top_K or f1_macro");
      }
    }
  }

  // Names of the metrics that an evaluation records: those of eval.metrics, else loss, and accuracy for classes.
  std::vector<std::string> recorded_metrics() const {
    const Setting* metrics = settings_.find("eval.metrics");
    if (metrics == nullptr && labels() == Labels::kNumbers) return {"eval/loss"};
    if (metrics == nullptr) return {"eval/loss", "eval/accuracy"};
    std::vector<std::string> names;
    for (const Value& name : *metrics->value.list()) names.push_back("eval/" + *name.text());
    return names;
  }

  void check_watched_metrics() {
    if (has("hooks") || broken("eval.metrics") || !has_eval_data()) return;
    const std::vector<std::string> names = recorded_metrics();
    for (const std::string_view path :
         {"scheduler.metric", "train.early_stopping.metric", "checkpoint.keep_best.metric"}) {
      const auto name = settings_.text(path);
      if (!name || std::find(names.begin(), names.end(), *name) != names.end()) continue;
      const std::vector<std::string> near = nearest(*name, names);
      fault(ErrorId::kMetricNotRecorded, path, fmt::format("{} {} is not recorded", path, *name),
            near.empty() ? fmt::format("recorded: {}; add others with eval.metrics", fmt::join(names, ", "))
                         : did_you_mean(near));
    }
  }

  // Whether the schedule sets momentum, or the first of betas, and overrides the optimizer's.
  bool cycles_momentum() const { return settings_.is_true("scheduler.cycle_momentum"); }

  // torch.optim.SGD refuses nesterov without momentum or with dampening; dampening damps momentum.
  void check_momentum(const std::string& section) {
    const auto value_of = [&](std::string_view name) {
      const std::string own = section + "." + std::string(name);
      return settings_.number(has(own) || broken(own) ? own : "optimizer." + std::string(name));
    };
    const std::optional<double> momentum = value_of("momentum"), dampening = value_of("dampening");
    if (!momentum || !dampening) return;
    const std::string nesterov = section + ".nesterov";
    const bool has_momentum = *momentum != 0 || cycles_momentum();
    if (settings_.is_true(nesterov) && !has_momentum) {
      fault(ErrorId::kNeedsOption, nesterov, nesterov + " needs momentum above 0", "set momentum, such as 0.9");
    } else if (settings_.is_true(nesterov) && *dampening != 0) {
      fault(ErrorId::kNeedsOption, nesterov,
            fmt::format("{} needs dampening 0, got {}", nesterov, number_text(*dampening)),
            "remove dampening or nesterov");
    } else if (settings_.is_written(section + ".dampening") && *dampening != 0 && !has_momentum) {
      fault(ErrorId::kIgnoredOption, section + ".dampening",
            fmt::format("{0}.dampening is ignored with {0}.momentum 0", section), "remove it, or set momentum");
    }
  }

  void check_scheduler() {
    const std::optional<double> lr = settings_.number("optimizer.lr"), end = settings_.number("scheduler.end");
    if (lr && end && *end >= *lr) {
      const std::string_view path = settings_.is_written("scheduler.end") ? "scheduler.end" : "optimizer.lr";
      fault(ErrorId::kOutOfRange, path,
            fmt::format("scheduler.end must be less than optimizer.lr, got {} and {}", number_text(*end),
                        number_text(*lr)));
    }
    if (lr && *lr == 0 && has("scheduler.max_lr")) {
      fault(ErrorId::kOutOfRange, "optimizer.lr",
            "optimizer.lr must be greater than 0 with scheduler.type one_cycle, got 0");
    }
    if (cycles_momentum() && settings_.text("optimizer.type") == "adagrad") {
      fault(ErrorId::kNeedsOption, "scheduler.type",
            "scheduler.cycle_momentum needs an optimizer with momentum or betas",
            "set scheduler.cycle_momentum: false");
    }
  }

  // Length of the schedule, if it is written.
  std::optional<Length> schedule_length() const {
    if (const auto length = settings_.text("scheduler.length")) return parse_length(*length);
    if (broken("scheduler.length")) return std::nullopt;
    if (const auto epochs = settings_.integer("train.epochs")) return Length{*epochs, Unit::kEpochs};
    if (const auto steps = settings_.integer("train.steps")) return Length{*steps, Unit::kSteps};
    return std::nullopt;
  }

  void check_kept_states() {
    constexpr std::string_view kEvery = "checkpoint.keep_every";
    if (!complete_ || !has(kEvery) || has("checkpoint.every") || broken("checkpoint.every")) return;
    fault(ErrorId::kNeedsOption, kEvery, "checkpoint.keep_every needs checkpoint.every", "set it, such as 1 epoch");
  }

  // With local SGD, ranks exchange no gradients and take no common decisions between averages.
  void check_local_sgd() {
    if (!has("train.local_sgd") || settings_.integer("num_processes") == 1) return;
    const auto refuse = [&](std::string_view path, std::string_view value, std::string_view why) {
      fault(ErrorId::kConflictingKeys, path,
            fmt::format("{} {} cannot be combined with train.local_sgd: {}", path, value, why),
            fmt::format("remove {} or train.local_sgd", path));
    };
    if (settings_.is_true("sync_each_batch")) refuse("sync_each_batch", "true", "no gradients are all-reduced");
    if (const auto hook = settings_.text("comm.hook"); hook && *hook != "none")
      refuse("comm.hook", *hook, "no gradients are exchanged");
    if (settings_.text("comm.unused") == "skip")
      refuse("comm.unused", "skip", "one process would skip a parameter that the others update");
    if (settings_.text("train.on_nan") == "skip")
      refuse("train.on_nan", "skip", "one process would skip a step that the others execute");
    if (settings_.text("mixed_precision") == "fp16" && settings_.is_true("scaler.enabled"))
      refuse("mixed_precision", "fp16", "the loss scaler of one process would skip a step that the others execute");
  }

  // Several copying threads need prefetched batches whose rows are independent.
  void check_transfer_threads() {
    constexpr std::string_view kThreads = "tpu.host_to_device_transfer_threads";
    if (settings_.text("backend") != "tpu" || settings_.integer(kThreads).value_or(1) == 1) return;
    const auto refuse = [&](std::string_view value, std::string_view why) {
      fault(ErrorId::kConflictingKeys, kThreads,
            fmt::format("{} {} cannot be combined with {}: {}", kThreads, *settings_.integer(kThreads), value, why),
            fmt::format("remove {} or {}", kThreads, value));
    };
    if (settings_.integer("data.prefetch") == 0) refuse("data.prefetch: 0", "no batches are prefetched");
    if (settings_.is_true("data.stream")) refuse("data.stream: true", "the samples of a stream are read sequentially");
  }

  // Each rank is a device on the board of one host.
  void check_board() {
    const auto generation = settings_.text("tpu.generation");
    const std::optional<int64_t> processes = settings_.integer("num_processes");
    if (settings_.text("backend") != "tpu" || !generation || !processes) return;
    const int devices = devices_on_board(*generation);
    if (*processes <= devices) return;
    const bool written = settings_.is_written("num_processes");
    fault(ErrorId::kConflictingKeys, written ? "num_processes" : "tpu.generation",
          fmt::format("num_processes is {}{}, but a board of TPU {} has {} devices", *processes,
                      written ? "" : " by default", *generation, devices),
          fmt::format("use at most {}, or another tpu.generation", devices));
  }

  void check_gpu_memory() {
    constexpr int64_t kLeast = 2 * (2 << 20);  // segments of PyTorch's allocator, which streams do not share
    const std::optional<int64_t> memory = settings_.integer("gpu.memory");
    if (!memory || *memory >= kLeast) return;
    fault(ErrorId::kOutOfRange, "gpu.memory",
          fmt::format("gpu.memory must be at least {}, the minimum for a model and a batch on a GPU, got {}",
                      size_text(kLeast), readable_size(*memory)));
  }

  bool changes_default(std::string_view path) const {
    const Setting* setting = settings_.find(path);
    return setting != nullptr && setting->origin != OriginKind::kDefault &&
           read_default(*setting->field, setting->field->defaults.back()) != setting->value;
  }

  // Whether both values come from the recorded recipe of a resumed run. If one then makes the other unused, the run has
  // only changed its backend, which must not prevent resuming.
  bool are_recorded(std::string_view a, std::string_view b) const {
    const auto is_recorded = [this](std::string_view path) {
      return has(path) && report_.source(place(path).source).is_recorded();
    };
    return is_recorded(a) && is_recorded(b);
  }

  void check_loader_queue() {
    constexpr std::string_view kQueue = "tpu.loader_prefetch_size";
    if (settings_.text("backend") != "tpu" || settings_.integer("data.prefetch") != 0 || !changes_default(kQueue))
      return;
    if (are_recorded(kQueue, "data.prefetch")) return;
    fault(ErrorId::kIgnoredOption, kQueue, fmt::format("{} is ignored with data.prefetch: 0", kQueue),
          fmt::format("remove {} or data.prefetch: 0", kQueue));
  }

  // Reports that `option` has no effect because of the key `by`, described by `what`, unless both are recorded.
  void ignored(std::string_view option, std::string_view by, std::string_view what) {
    if (are_recorded(option, by)) return;
    fault(ErrorId::kIgnoredOption, option, fmt::format("{} is ignored with {}", option, what),
          fmt::format("remove {} or {}", option, by));
  }

  // One pass is exact for bf16 and fp16. A hook's f64 stays f32 with downcast_bf16, and so do its ops outside autocast.
  void check_matmul_precision() {
    constexpr std::string_view kPrecision = "tpu.matmul_precision";
    const auto mixed = settings_.text("mixed_precision");
    if (settings_.text("backend") != "tpu" || !mixed || *mixed == "no" || !changes_default(kPrecision)) return;
    if (has("hooks") && (*mixed == "fp16" || settings_.is_true("downcast_bf16"))) return;
    ignored(kPrecision, "mixed_precision",
            fmt::format("mixed_precision: {}, whose matrix products are exact in one pass", *mixed));
  }

  // With mixed precision, tf32 represents the operands of the built-in models' products exactly.
  void check_tf32() {
    constexpr std::string_view kTf32 = "gpu.allow_tf32";
    const auto mixed = settings_.text("mixed_precision"), hook = settings_.text("comm.hook");
    if (settings_.text("backend") != "gpu" || !mixed || *mixed == "no" || !changes_default(kTf32)) return;
    if (has("hooks") || (hook && is_one_of(*hook, {"power_sgd", "batched_power_sgd"}))) return;
    ignored(kTf32, "mixed_precision",
            fmt::format("mixed_precision: {}, which has no matrix products in float32", *mixed));
  }

  // A single rank reduces no gradients in any mode.
  void check_bucket_cap() {
    constexpr std::string_view kCap = "gpu.bucket_cap", kHook = "comm.hook", kLocal = "train.local_sgd";
    if (settings_.text("backend") != "gpu" || settings_.integer("num_processes") == 1 || !changes_default(kCap)) return;
    const auto hook = settings_.text(kHook);
    if (has(kLocal)) {
      ignored(kCap, kLocal, "train.local_sgd, which all-reduces no gradients");
    } else if (hook && *hook != "none") {
      ignored(kCap, kHook, fmt::format("comm.hook: {}, which compresses all gradients at once", *hook));
    }
  }

  void check_warmup() {
    const auto warmup = settings_.text("scheduler.warmup");
    const std::optional<Length> length = schedule_length();
    if (!warmup || !length) return;
    const Length rise = parse_length(*warmup);
    if (rise.unit != length->unit || rise.count <= length->count) return;
    constexpr std::string_view kUnits[] = {"steps", "epochs", "samples"};
    fault(ErrorId::kWarmupTooLong, "scheduler.warmup",
          fmt::format("scheduler.warmup, {}, is longer than the schedule, {}", *warmup,
                      length_text(length->count, kUnits[static_cast<size_t>(length->unit)])));
  }

  const Settings& settings_;
  bool complete_;
  Report& report_;
};

void add_default(Settings& settings, const std::string& path, std::string value) {
  const auto at = std::lower_bound(settings.values.begin(), settings.values.end(), path,
                                   [](const Setting& setting, const std::string& p) { return setting.path < p; });
  settings.values.insert(at, {path, find_fields(path).data(), Value(std::move(value)), OriginKind::kDefault, {}});
}

}  // namespace

void check_together(const Settings& settings, bool complete, Report& report) {
  Checker(settings, complete, report).run();
}

void derive_defaults(Settings& settings, const std::string& file) {
  if (settings.find("name") == nullptr) {
    std::string stem = file.substr(file.rfind('/') + 1);
    stem = stem.substr(0, stem.rfind('.'));
    stem.erase(0, stem.find_first_not_of('@'));  // a name with @ in front is a selector, such as @last
    add_default(settings, "name", stem.empty() ? "run" : stem);
  }
  const bool evaluates = settings.section("data.eval") != nullptr || settings.section("data.split") != nullptr;
  if (evaluates && settings.find("eval.every") == nullptr) add_default(settings, "eval.every", "1 epoch");
}

}  // namespace runner::schema
