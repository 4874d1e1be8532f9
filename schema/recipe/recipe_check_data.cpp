// Rules about data sets, labels and metrics.
#include <algorithm>

#include "schema/base/suggest.h"
#include "schema/recipe/causal_models.h"
#include "schema/recipe/check_context.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/losses.h"
#include "schema/recipe/metric_names.h"

namespace runner::schema {
namespace {

void check_eval_data(const CheckContext& c) {
  if (c.has_eval_data()) return;
  constexpr std::string_view kHint = "add data.eval, or data.split: {eval: 0.2}";
  for (const std::string_view path : {"eval.every", "eval.metrics", "eval.batch_size", "eval.batches", "eval.pad_last",
                                      "train.early_stopping", "checkpoint.keep_best"}) {
    if (c.has(path)) c.fault(ErrorId::kNoEvalData, path, fmt::format("{} needs evaluation data", path), kHint);
  }
  for (const std::string_view path : {"eval.at_start", "eval.drop_last"})
    if (c.settings.is_true(path))
      c.fault(ErrorId::kNoEvalData, path, fmt::format("{} needs evaluation data", path), kHint);
  if (c.settings.text("scheduler.type") == "plateau") {
    c.fault(ErrorId::kNoEvalData, "scheduler.type", "scheduler.type plateau needs evaluation data", kHint);
  }
}

// Without a header, columns have no names.
void check_headless(const CheckContext& c, const std::string& path) {
  for (const std::string& key : {path + ".label", path + ".features", path + ".text"}) {
    const Setting* setting = c.settings.find(key);
    if (setting == nullptr) continue;
    const ValueList* list = setting->value.list();
    const auto named = [](const Value& column) { return column.text() != nullptr; };
    if (list != nullptr ? std::any_of(list->begin(), list->end(), named) : named(setting->value)) {
      c.fault(ErrorId::kNeedsOption, key, fmt::format("{} names a column, but {}.header is false", key, path),
              "give the column's index, from 0");
    }
  }
}

// Whether the labels of data that have tokens are the next tokens.
bool predicts_next_tokens(const CheckContext& c) {
  const std::string_view model = c.settings.text("model.type").value_or("");
  return predicts_next_token(model) || c.settings.text("train.objective.type") == "causal_lm";
}

// Whether the section has texts in rows or lines, which data.tokens makes samples of.
bool has_text_rows(const CheckContext& c, const std::string& path) {
  return c.has(path + ".text") || c.settings.text(path + ".format") == "lines";
}

// Labels of files that need them, unless the model predicts its inputs.
void check_targets(const CheckContext& c, const std::string& path) {
  const std::string labels = path + ".labels", targets = path + ".targets";
  const bool reconstructs = c.settings.text("data.train.targets") == "features";
  if (path != "data.train" && reconstructs && c.settings.is_written(labels))
    c.fault(ErrorId::kConflictingKeys, labels,
            fmt::format("{} is not read, because data.train.targets is features", labels), "remove it");
  if (path != "data.train" && !reconstructs && c.settings.text(targets) == "features")
    c.fault(ErrorId::kNeedsOption, targets, fmt::format("{} is features, but data.train has labels", targets),
            "set data.train.targets: features, or remove this");
  const bool predicts_inputs = c.has(path + ".inputs") && predicts_next_tokens(c);
  if (c.applies(labels) && !reconstructs && !predicts_inputs && !c.has(labels) && !c.has(targets))
    c.fault(ErrorId::kMissingKey, path, fmt::format("{} is missing", labels),
            fmt::format("a path: file with the labels; an autoencoder, which needs none, has {}: features", targets));
}

void check_decimal(const CheckContext& c, const std::string& path) {
  const std::string decimal(c.settings.text(path + ".decimal").value_or("."));
  if (decimal != "." && decimal != ",")
    c.fault(ErrorId::kOutOfRange, path + ".decimal", fmt::format("{}.decimal must be . or ,; got {}", path, decimal));
}

void check_columns(const CheckContext& c, const std::string& path) {
  const Setting* const columns = c.settings.find(path + ".text");
  if (columns == nullptr) return;
  constexpr size_t kMost = 2;
  const size_t count = columns->value.list()->size();
  if (count > kMost)
    c.fault(ErrorId::kOutOfRange, path + ".text",
            fmt::format("{}.text must have one column, or two for pairs; got {}", path, count));
  if (c.settings.text(path + ".missing") == "mean")
    c.fault(ErrorId::kConflictingKeys, path + ".missing", "texts have no mean", "use missing: drop");
}

// Texts in rows or lines, and what has no effect on them.
void check_texts(const CheckContext& c, const std::string& path) {
  check_columns(c, path);
  if (path != "data.train" || !has_text_rows(c, path)) return;
  const Setting* const columns = c.settings.find(path + ".text");
  if (!c.has("data.tokens"))
    c.fault(ErrorId::kMissingKey, columns != nullptr ? path + ".text" : path + ".format",
            "data.tokens is missing, which says how texts become tokens", "add data.tokens: {tokenizer: PATH}");
  if (c.changes_default("data.normalize"))
    c.fault(ErrorId::kConflictingKeys, "data.normalize", "data.normalize needs numbers, but data.train has texts",
            "remove it");
  if (c.settings.is_true("data.stream"))
    c.fault(ErrorId::kConflictingKeys, "data.stream", "data.stream does not support text columns and lines",
            "remove it");
  const bool has_pairs = columns != nullptr && columns->value.list()->size() > 1;
  if (!has_pairs && c.settings.text("data.tokens.truncation") == "only_second")
    c.fault(ErrorId::kConflictingKeys, "data.tokens.truncation",
            "data.tokens.truncation is only_second, but samples of data.train have one text", "use longest_first");
}

// Keys of format: text that fit some kinds of tokens only.
void check_text_file(const CheckContext& c, const std::string& path) {
  const std::string tokens(c.settings.text(path + ".tokens").value_or(""));
  if (tokens.empty()) return;
  const std::string vocabulary = path + ".vocabulary", separator = path + ".document_separator";
  if (tokens == "ids" && !c.has(vocabulary))
    c.fault(ErrorId::kMissingKey, path, fmt::format("{} is missing", vocabulary),
            "the number of token ids, such as 50257 for those of GPT-2");
  const bool is_planned = c.has(path + ".planned_samples");
  if (is_planned && !c.has(vocabulary))
    c.fault(ErrorId::kMissingKey, path, fmt::format("{} is missing, which planned_samples needs", vocabulary),
            "the number of tokens of the tokenizer, such as 30522 for that of BERT");
  if (tokens != "ids" && c.has(vocabulary) && !is_planned)
    c.fault(ErrorId::kConflictingKeys, vocabulary, fmt::format("{} needs tokens: ids", vocabulary), "remove it");
  const bool has_end = tokens != "ids" && tokens != "bytes" && tokens != "characters";
  if (!has_end && c.has(separator))
    c.fault(ErrorId::kConflictingKeys, separator,
            fmt::format("{} needs a tokenizer, which has an end token; {}.tokens is {}", separator, path, tokens),
            "set tokens to a tokenizer, or remove it");
}

void check_planned_images(const CheckContext& c, const std::string& path) {
  const std::string classes = path + ".classes";
  if (c.settings.text(path + ".format") == "cifar" && c.has(path + ".planned_samples") && !c.has(classes))
    c.fault(ErrorId::kMissingKey, path, fmt::format("{} is missing, which planned_samples needs", classes),
            "10 for CIFAR-10 or 100 for CIFAR-100");
}

// Both sections are planned without their files, or neither.
void check_planned(const CheckContext& c) {
  constexpr std::string_view kEval = "data.eval.planned_samples";
  if (c.has("data.train.planned_samples") && c.has("data.eval") && !c.has(kEval) && !c.broken("data.eval"))
    c.fault(ErrorId::kMissingKey, "data.eval", fmt::format("{} is missing, which data.train has", kEval),
            "add it, or remove data.train.planned_samples");
}

// A masked token becomes the mask token of a tokenizer.
void check_masking(const CheckContext& c) {
  const bool has_rows = has_text_rows(c, "data.train");
  const std::string key = has_rows ? "data.tokens.tokenizer" : "data.train.tokens";
  if (c.has("model.pretrained") && !c.settings.is_written(key)) return;  // its tokenizer is the default
  const std::string tokens(c.settings.text(key).value_or(has_rows ? "" : "characters"));
  if (tokens == "characters" || tokens == "bytes" || tokens == "ids")
    c.fault(ErrorId::kNeedsOption, "train.objective.type",
            fmt::format("train.objective masked_lm needs a tokenizer, which has a mask token; {} is {}", key, tokens),
            fmt::format("set {} to a tokenizer, such as the vocab.txt of a BERT", key));
}

// Keys that have no effect if the labels of rows are their tokens.
void check_rows_without_labels(const CheckContext& c) {
  if (c.has("train.ignore_index"))
    c.fault(ErrorId::kConflictingKeys, "train.ignore_index",
            "train.ignore_index cannot be set: the labels are the tokens of texts, and those without a label have -100",
            "remove it");
  for (const std::string_view label : {"data.train.label", "data.eval.label"})
    if (c.settings.is_written(label))
      c.fault(ErrorId::kConflictingKeys, label,
              fmt::format("{} is not read: the labels are tokens of the texts", label), "remove it");
}

// Texts without labels, whose tokens are the labels.
void check_objective(const CheckContext& c) {
  if (c.broken("data.train")) return;
  const std::optional<std::string_view> format = c.settings.text("data.train.format");
  if (format == "lines" && !c.has("train.objective") && !predicts_next_tokens(c))
    c.fault(ErrorId::kMissingKey, "data.train.format", "train.objective is missing: lines have no labels",
            "causal_lm to predict each next token, or masked_lm as BERT is trained");
  const bool has_rows = has_text_rows(c, "data.train");
  if (has_rows && (c.has("train.objective") || predicts_next_tokens(c))) check_rows_without_labels(c);
  const std::string type(c.settings.text("train.objective.type").value_or(""));
  if (type.empty()) return;
  const bool is_masked = type == "masked_lm";
  const bool are_arrays = format == "npy" || format == "safetensors";
  if (is_masked ? are_arrays : format == "npy" && !c.has("data.train.inputs"))
    c.fault(ErrorId::kNeedsOption, "train.objective.type",
            fmt::format("train.objective {} needs {}, but data.train.format is {}", type,
                        is_masked ? "texts" : "data.train.inputs or texts", *format),
            is_masked ? "remove it: the labels of prepared arrays say which tokens are masked" : "remove it");
  else if (!has_rows && !are_arrays && format != "text")
    c.fault(ErrorId::kNeedsOption, "train.objective.type",
            fmt::format("train.objective {} needs texts, but data.train has none", type),
            "name their column with data.train.text");
  else if (is_masked)
    check_masking(c);
  if (is_masked && !has_rows && c.has("train.ignore_index"))
    c.fault(ErrorId::kConflictingKeys, "train.ignore_index",
            "train.ignore_index cannot be set with train.objective masked_lm, whose tokens without a label have -100",
            "remove it");
}

// An npy section has features, or the named inputs of a model.
void check_arrays(const CheckContext& c, const std::string& path) {
  if (c.settings.text(path + ".format") == "npy")
    c.missing_one_of(path, path + ".features", path + ".inputs", "a model of tokens needs inputs: {input_ids: FILE}");
}

void check_tokens(const CheckContext& c) {
  constexpr std::string_view kGrouped = "data.group_by_length";
  const bool lacks_texts = !has_text_rows(c, "data.train") && !c.broken("data.train");
  if (c.settings.is_true(kGrouped) && lacks_texts)
    c.fault(ErrorId::kNeedsOption, kGrouped,
            "data.group_by_length needs text columns or lines, but data.train has none", "remove it");
  constexpr std::string_view kTokenizer = "data.tokens.tokenizer";
  const bool has_folder = c.has("model.pretrained") || c.broken("model.pretrained");
  if (c.complete && c.has("data.tokens") && !c.has(kTokenizer) && !c.broken(kTokenizer) && !has_folder)
    c.report.add(ErrorId::kMissingKey, c.settings.section("data.tokens")->place, kTokenizer,
                 fmt::format("{} is missing", kTokenizer),
                 "a folder, tokenizer.json or vocab.txt, or the word characters or bytes; model.pretrained needs none");
  if (c.has("data.tokens") && lacks_texts)
    c.fault(ErrorId::kNeedsOption, "data.tokens", "data.tokens needs text columns, but data.train has none",
            "name them with data.train.text");
}

constexpr std::string_view kOfCrop[] = {"padding"};
constexpr std::string_view kOfResizedCrop[] = {"scale", "ratio"};
constexpr Variant kAugmentations[] = {{"flip", {}},   {"crop", kOfCrop}, {"random_resized_crop", kOfResizedCrop},
                                      {"rotate", {}}, {"color", {}},     {"cutout", {}},
                                      {"mixup", {}}};

// Two ascending numbers.
void check_bounds(const CheckContext& c, const std::string& path) {
  const Setting* const setting = c.settings.find(path);
  if (setting == nullptr) return;
  const ValueList& bounds = *setting->value.list();
  if (bounds.size() != 2 || *bounds[0].number() > *bounds[1].number())
    c.fault(ErrorId::kOutOfRange, path, fmt::format("{} must be [least, largest]", path), "such as [0.5, 1]");
}

// A part of the image that a file has, instead of the sample that is made of it.
void check_cut(const CheckContext& c, const std::string& step, std::string_view kind, bool is_first) {
  const std::string key = child_path(step, kind);
  const bool is_crop = kind == "crop";
  const bool has_files = c.settings.text("data.train.format") == "images" || c.broken("data.train.format");
  if (!has_files || (is_crop && c.complete && !c.has("data.center_crop") && !c.broken("data.center_crop")))
    return c.fault(
        is_crop ? ErrorId::kMissingKey : ErrorId::kNeedsOption, key,
        is_crop ? fmt::format("{}.padding is missing", step) : fmt::format("{} needs data.train.format: images", key),
        is_crop ? "samples keep their size, so a crop needs a border, such as padding: 4; or, with format: "
                  "images, data.resize and data.center_crop, which evaluations crop to"
                : "files of images have pixels outside of the samples; others have crop with padding");
  if (!is_first)
    c.fault(ErrorId::kConflictingKeys, key, fmt::format("{} must be the first entry of data.train.augment", key),
            "it decides which part of the file is read");
}

void check_augment_step(const CheckContext& c, const std::string& step, bool is_first) {
  const std::string_view kind = c.variant(step, kAugmentations);
  for (const std::string_view bounds : {"scale", "ratio"}) check_bounds(c, child_path(step, bounds));
  const std::string padding = step + ".padding";
  if (kind == "random_resized_crop" || (kind == "crop" && !c.has(padding) && !c.broken(padding)))
    check_cut(c, step, kind, is_first);
  if (kind == "mixup" && c.has("train.ignore_index"))
    c.fault(ErrorId::kConflictingKeys, step + ".mixup",
            fmt::format("{}.mixup cannot be used with train.ignore_index", step),
            "remove one of them: a mixed sample has probabilities of two classes, of which none can be ignored");
}

void check_augmentation(const CheckContext& c, const std::string& path) {
  const std::string first = path + ".augment[0]";
  if (!c.has(first)) return;
  constexpr std::string_view kFormats[] = {"idx", "npy", "safetensors", "cifar", "images"};
  const std::string format(c.settings.text(path + ".format").value_or(""));
  if (path != "data.train")
    return c.fault(ErrorId::kIgnoredOption, first,
                   fmt::format("{}.augment is ignored: only training is augmented", path),
                   "remove it, or move it to data.train");
  if (!c.broken(path + ".format") && std::ranges::find(kFormats, format) == std::end(kFormats))
    return c.fault(ErrorId::kNeedsOption, first,
                   fmt::format("data.train.augment needs images, but data.train.format is {}", format),
                   fmt::format("remove it; formats of images: {}", fmt::join(kFormats, ", ")));
  if (c.settings.text("data.train.targets") == "features")
    c.fault(ErrorId::kConflictingKeys, first, "data.train.augment cannot be used with data.train.targets: features",
            "remove one of them: the targets would be the features before augmentation");
  int mixed = 0;
  for (int i = 0; c.has(fmt::format("{}.augment[{}]", path, i)); ++i) {
    const std::string step = fmt::format("{}.augment[{}]", path, i);
    check_augment_step(c, step, i == 0);
    if (c.has(step + ".mixup") && ++mixed == 2)
      c.fault(ErrorId::kConflictingKeys, step + ".mixup", "data.train.augment has mixup twice", "remove one of them");
  }
}

// One number, or height and width.
void check_image_size(const CheckContext& c, const std::string& path) {
  const Setting* size = c.settings.find(path);
  if (size == nullptr || size->value.list()->size() <= 2) return;
  c.fault(ErrorId::kOutOfRange, path,
          fmt::format("{} must be one number or [height, width], got {} numbers", path, size->value.list()->size()));
}

void check_images(const CheckContext& c) {
  check_image_size(c, "data.resize");
  check_image_size(c, "data.center_crop");
  for (int i = 0; c.has(fmt::format("data.train.augment[{}]", i)); ++i)
    for (const std::string_view key : {"crop", "random_resized_crop"})
      check_image_size(c, fmt::format("data.train.augment[{}].{}", i, key));
  const std::string_view format = c.settings.text("data.train.format").value_or("");
  const std::string normalize(c.settings.text("data.normalize").value_or("none"));
  if ((format == "cifar" || format == "images") && (normalize == "standard" || normalize == "min_max"))
    c.fault(ErrorId::kNeedsOption, "data.normalize",
            fmt::format("data.normalize: {} would normalise each pixel by itself", normalize), "write channels");
  for (const auto& [one, other] : {std::pair("data.mean", "data.std"), std::pair("data.std", "data.mean")})
    if (c.complete && c.has(one) && !c.has(other) && !c.broken(other))
      c.fault(ErrorId::kNeedsOption, one, fmt::format("{} needs {}", one, other),
              fmt::format("write both, or neither to compute them from the training part"));
}

void check_dataset(const CheckContext& c, const std::string& path) {
  if (!c.has(path)) return;
  if (c.settings.text(path + ".format") == "synthetic") c.missing_one_of(path, path + ".classes", path + ".targets");
  check_targets(c, path);
  if (c.settings.text(path + ".header") == "false") check_headless(c, path);
  check_decimal(c, path);
  check_texts(c, path);
  check_arrays(c, path);
  check_text_file(c, path);
  check_planned_images(c, path);
  check_augmentation(c, path);
}

void check_shares(const CheckContext& c) {
  const std::optional<int64_t> processes = c.settings.integer("num_processes");
  if (!c.settings.is_true("data.strict") || !processes) return;
  for (const std::string_view path : {"data.batch_size", "eval.batch_size"}) {
    const std::optional<int64_t> batch = c.settings.integer(path);
    if (!batch || *batch % *processes == 0) continue;
    c.fault(
        ErrorId::kNeedsOption, path,
        fmt::format("{} {} is not divisible by num_processes {}, which data.strict requires", path, *batch, *processes),
        fmt::format("the next divisible size is {}; without data.strict the parts may differ by one sample",
                    (*batch / *processes + 1) * *processes));
  }
}

void check_stream(const CheckContext& c) {
  if (c.settings.is_true("data.stream") && c.has("data.split"))
    c.fault(ErrorId::kConflictingKeys, "data.split", "data.split needs all samples in memory, which data.stream avoids",
            "put the evaluation data in a separate file, data.eval, or remove data.stream");
}

// Whether the labels are always classes of images.
bool has_image_classes(const CheckContext& c) {
  const std::string_view format = c.settings.text("data.train.format").value_or("");
  return (format == "cifar" || format == "images") && !c.has("data.train.targets");
}

// Kind of labels, if the recipe alone determines it.
Labels labels(const CheckContext& c) {
  const std::string_view loss = c.settings.text("train.loss").value_or("");
  if (c.has("hooks") || c.broken("data.train") || c.broken("train.loss")) return Labels::kAny;
  if (loss.empty()) return Labels::kAny;
  if (const Labels needed = labels_of_loss(loss); needed != Labels::kAny) return needed;
  if (c.settings.text("train.task") == "classification") return Labels::kClasses;
  if (c.settings.text("train.task") == "regression") return Labels::kNumbers;
  if (c.has("data.train.classes") || has_image_classes(c)) return Labels::kClasses;
  return c.has("data.train.targets") ? Labels::kNumbers : Labels::kAny;
}

void check_metrics(const CheckContext& c, Labels known) {
  const Setting* metrics = c.settings.find("eval.metrics");
  if (metrics == nullptr) return;
  const ValueList& list = *metrics->value.list();
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string& name = *list[i].text();
    if (std::count(list.begin(), list.begin() + static_cast<ptrdiff_t>(i), list[i]) > 0) {
      c.fault(ErrorId::kConflictingKeys, "eval.metrics", fmt::format("eval.metrics lists {} twice", name));
    }
    if (known == Labels::kNumbers && labels_of(name) == Labels::kClasses) {
      c.fault(ErrorId::kTaskMismatch, "eval.metrics", fmt::format("{} needs classes, but the labels are numbers", name),
              "use mse or mae");
    } else if (known == Labels::kClasses && labels_of(name) == Labels::kNumbers) {
      c.fault(ErrorId::kTaskMismatch, "eval.metrics", fmt::format("{} needs numbers, but the labels are classes", name),
              "use accuracy, top_K or f1_macro");
    }
  }
}

// train.task against the loss and synthetic data, which also say what the labels are.
void check_task(const CheckContext& c) {
  const std::string task(c.settings.text("train.task").value_or("auto"));
  if (task == "auto") return;
  const std::string loss(c.settings.text("train.loss").value_or("auto"));
  const bool classes = task == "classification";
  const Labels needed = labels_of_loss(loss);
  if (needed != Labels::kAny && classes != (needed == Labels::kClasses))
    c.fault(ErrorId::kTaskMismatch, "train.task", fmt::format("train.task {} does not fit train.loss {}", task, loss),
            "remove one of them");
  if (c.has(classes ? "data.train.targets" : "data.train.classes"))
    c.fault(ErrorId::kTaskMismatch, "train.task",
            fmt::format("train.task {} does not fit data.train.{}", task, classes ? "targets" : "classes"),
            classes ? "use data.train.classes" : "use data.train.targets");
}

void check_labels(const CheckContext& c) {
  check_task(c);
  const std::string loss(c.settings.text("train.loss").value_or("auto"));
  if (labels_of_loss(loss) == Labels::kClasses && c.has("data.train.targets")) {
    c.fault(ErrorId::kTaskMismatch, "train.loss",
            fmt::format("train.loss {} needs classes, but data.train has targets", loss),
            fmt::format("use {}, or data.train.classes", losses_for(Labels::kNumbers)));
  }
  const Labels known = labels(c);
  if (known == Labels::kNumbers) {
    for (const std::string_view path : {"train.class_weights", "train.label_smoothing", "train.ignore_index"}) {
      if (c.settings.is_written(path) && c.settings.number(path) != 0.0) {
        c.fault(ErrorId::kTaskMismatch, path, fmt::format("{} needs classes, but the labels are numbers", path));
      }
    }
  }
  check_metrics(c, known);
}

// Names of the metrics that an evaluation records: those of eval.metrics, else loss, and accuracy for classes.
std::vector<std::string> recorded_metrics(const CheckContext& c) {
  const Setting* metrics = c.settings.find("eval.metrics");
  std::vector<std::string> names;
  if (metrics == nullptr) {
    names = {"eval/loss"};
    if (labels(c) != Labels::kNumbers) names.emplace_back("eval/accuracy");
  } else {
    for (const Value& name : *metrics->value.list()) names.push_back("eval/" + *name.text());
  }
  const bool is_plain = !c.has("train.class_weights") && c.settings.number("train.label_smoothing").value_or(0) == 0;
  if (!is_plain && std::ranges::find(names, "eval/loss") != names.end()) names.emplace_back("eval/objective");
  return names;
}

void check_watched_metrics(const CheckContext& c) {
  if (c.has("hooks") || c.broken("eval.metrics") || !c.has_eval_data()) return;
  const std::vector<std::string> names = recorded_metrics(c);
  for (const std::string_view path :
       {"scheduler.metric", "train.early_stopping.metric", "checkpoint.keep_best.metric"}) {
    const auto name = c.settings.text(path);
    if (!name || std::find(names.begin(), names.end(), *name) != names.end()) continue;
    const std::vector<std::string> near = nearest(*name, names);
    c.fault(ErrorId::kMetricNotRecorded, path, fmt::format("{} {} is not recorded", path, *name),
            near.empty() ? fmt::format("recorded: {}; add others with eval.metrics", fmt::join(names, ", "))
                         : did_you_mean(near));
  }
}

}  // namespace

void check_data(const CheckContext& c) {
  check_eval_data(c);
  for (const char* dataset : {"data.train", "data.eval"}) check_dataset(c, dataset);
  check_images(c);
  check_tokens(c);
  check_objective(c);
  check_planned(c);
  check_shares(c);
  check_stream(c);
  check_labels(c);
  check_watched_metrics(c);
}

}  // namespace runner::schema
