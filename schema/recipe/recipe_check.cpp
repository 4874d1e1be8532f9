#include "schema/recipe/recipe_check.h"

#include <algorithm>

#include "schema/base/suggest.h"
#include "schema/recipe/check_context.h"
#include "schema/recipe/field_words.h"

namespace runner::schema {
namespace {

void check_exclusion(const CheckContext& c, const std::string& a, const std::string& b) {
  if (!c.has(a) || !c.has(b)) return;
  c.fault(ErrorId::kConflictingKeys, b, fmt::format("{} and {} exclude each other", a, b), "remove one of them");
}

void check_required(const CheckContext& c) {
  c.missing_one_of("", "model", "hooks", "write model: {type: mlp, hidden: [128]}");
  c.missing_one_of("train", "train.epochs", "train.steps");
  for (const Field& field : fields()) {
    if (field.name < field.excludes) check_exclusion(c, field.path(), child_path(field.parent, field.excludes));
  }
}

void check_kept_states(const CheckContext& c) {
  constexpr std::string_view kEvery = "checkpoint.keep_every";
  if (!c.complete || !c.has(kEvery) || c.has("checkpoint.every") || c.broken("checkpoint.every")) return;
  c.fault(ErrorId::kNeedsOption, kEvery, "checkpoint.keep_every needs checkpoint.every", "set it, such as 1 epoch");
}

void check_renames(const CheckContext& c) {
  constexpr std::string_view kRename = "model.rename";
  if (!c.complete || !c.has(kRename) || c.has("model.init_from") || c.broken("model.init_from")) return;
  c.fault(ErrorId::kNeedsOption, kRename, "model.rename needs model.init_from", "set it, or remove model.rename");
}

void check_new_head(const CheckContext& c) {
  constexpr std::string_view kNewHead = "model.new_head";
  if (!c.complete || !c.applies(kNewHead) || !c.settings.is_true(kNewHead)) return;
  const std::string_view source = c.applies("model.pretrained") ? "model.pretrained" : "model.init_from";
  if (c.has(source) || c.broken(source)) return;
  c.fault(ErrorId::kNeedsOption, kNewHead, fmt::format("model.new_head needs {}", source),
          "set it, or remove model.new_head");
}

void check_sizes_of_transformer(const CheckContext& c) {
  constexpr std::string_view kPretrained = "model.pretrained";
  const bool has_folder = c.has(kPretrained) || c.broken(kPretrained);
  for (const std::string_view path : {"model.layers", "model.heads", "model.width"}) {
    if (!c.complete || !c.applies(path) || c.has(path) || c.broken(path) || has_folder) continue;
    c.report.add(ErrorId::kMissingKey, c.settings.section("model")->place, path, fmt::format("{} is missing", path),
                 "an integer; a pretrained model, model.pretrained, needs none");
  }
}

void check_lora(const CheckContext& c) {
  constexpr std::string_view kLora = "model.lora";
  if (!c.complete || !c.has(kLora)) return;
  const auto has = [&](std::string_view path) { return c.has(path) || c.broken(path); };
  if (!has("model.pretrained") && !has("model.init_from")) {
    c.fault(ErrorId::kNeedsOption, kLora, "model.lora needs weights to freeze",
            "set model.pretrained or model.init_from");
  }
}

// With local SGD, ranks exchange no gradients and take no common decisions between averages.
void check_local_sgd(const CheckContext& c) {
  if (!c.has("train.local_sgd") || c.settings.integer("num_processes") == 1) return;
  const auto refuse = [&](std::string_view path, std::string_view value, std::string_view why) {
    c.fault(ErrorId::kConflictingKeys, path,
            fmt::format("{} {} cannot be combined with train.local_sgd: {}", path, value, why),
            fmt::format("remove {} or train.local_sgd", path));
  };
  if (c.settings.is_true("sync_each_batch")) refuse("sync_each_batch", "true", "no gradients are all-reduced");
  if (const auto hook = c.settings.text("comm.hook"); hook && *hook != "none")
    refuse("comm.hook", *hook, "no gradients are exchanged");
  if (c.settings.text("comm.unused") == "skip")
    refuse("comm.unused", "skip", "one process would skip a parameter that the others update");
  if (c.settings.text("train.on_nan") == "skip")
    refuse("train.on_nan", "skip", "one process would skip a step that the others execute");
  if (c.settings.text("mixed_precision") == "fp16" && c.settings.is_true("scaler.enabled"))
    refuse("mixed_precision", "fp16", "the loss scaler of one process would skip a step that the others execute");
}

void add_default(Settings& settings, const std::string& path, std::string value) {
  const auto at = std::lower_bound(settings.values.begin(), settings.values.end(), path,
                                   [](const Setting& setting, const std::string& p) { return setting.path < p; });
  settings.values.insert(at, {path, find_fields(path).data(), Value(std::move(value)), OriginKind::kDefault, {}});
}

}  // namespace

void check_together(const Settings& settings, bool complete, Report& report) {
  const CheckContext context{settings, complete, report};
  check_required(context);
  check_data(context);
  check_schedule(context);
  check_kept_states(context);
  check_renames(context);
  check_sizes_of_transformer(context);
  check_new_head(context);
  check_stack(context);
  check_lora(context);
  check_local_sgd(context);
  check_devices(context);
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
