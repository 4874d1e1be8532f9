#include "runner/data/labels.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/data/csv_value.h"
#include "runner/data/masking.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

// Whole numbers with more values than kFewLabels, and fewer rows than kFewRows for each, may be measurements.
constexpr int64_t kFewLabels = 20, kFewRows = 20, kManyLabels = 1000;
constexpr size_t kListed = 10;

bool is_doubtful(const WholeNumbers& labels) {
  const auto count = static_cast<int64_t>(labels.counts.size());
  return count > kManyLabels || (count > kFewLabels && labels.rows < kFewRows * count);
}

std::string list_of(const std::vector<std::string>& names) {
  const size_t shown = names.size() <= kListed + 1 ? names.size() : kListed;
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string class_name(const Encoding& encoding, size_t index) {
  if (encoding.class_names.empty()) return std::to_string(index);
  const std::string& name = encoding.class_names[index];
  return encoding.has_names() ? in_quotes(name) : name;
}

// A name without what people often spell differently: case, blanks, and quotes or a dot at its ends.
std::string plain_name(std::string_view name) {
  constexpr std::string_view kEnds = " \t.\"'";
  while (!name.empty() && kEnds.find(name.front()) != kEnds.npos) name.remove_prefix(1);
  while (!name.empty() && kEnds.find(name.back()) != kEnds.npos) name.remove_suffix(1);
  return lower_case(name);
}

std::vector<std::string> quoted(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(in_quotes(name));
  return texts;
}

void check_spelling(const std::vector<std::string>& train, const std::vector<std::string>& eval) {
  std::map<std::string, std::string> plain;
  for (const std::string& name : train) plain.emplace(plain_name(name), name);
  for (const std::string& name : eval) {
    if (std::ranges::binary_search(train, name)) continue;
    const auto found = plain.find(plain_name(name));
    RUN_CHECK(found == plain.end(), ErrorKind::kData,
              "data.eval has the label {}, and data.train has {}: the same class in two spellings? data.train has {}; "
              "data.eval has {}; change one of the files",
              in_quotes(name), in_quotes(found->second), list_of(quoted(train)), list_of(quoted(eval)));
  }
}

bool has_labels(const Storage& storage) {
  return storage.label_kind == LabelKind::kClass && !storage.rule && storage.token_labels == TokenLabels::kNone;
}

// Whole numbers that occur, ascending, without `ignore_index`.
std::vector<int64_t> numbers_in(const Storage& train, const Storage* eval, std::optional<int64_t> ignore_index) {
  std::set<int64_t> numbers;
  for (const auto& [number, rows] : train.label_counts) numbers.insert(number);
  if (eval != nullptr)
    for (const auto& [number, rows] : eval->label_counts) numbers.insert(number);
  if (ignore_index) numbers.erase(*ignore_index);
  return {numbers.begin(), numbers.end()};
}

bool counts_from_zero(const std::vector<int64_t>& numbers) {
  return numbers.empty() || (numbers.front() == 0 && numbers.back() == std::ssize(numbers) - 1);
}

void find_numbers(Encoding& encoding, const Storage& train, const Storage* eval) {
  const std::vector<int64_t> numbers = numbers_in(train, eval, encoding.ignore_index);
  encoding.outputs = std::ssize(numbers);
  if (counts_from_zero(numbers)) return;
  encoding.class_values = numbers;
  for (const int64_t number : numbers) encoding.class_names.push_back(std::to_string(number));
}

void find_names(Encoding& encoding, const Storage& train, const Storage* eval) {
  std::vector<std::string> names = train.class_names;
  if (eval != nullptr) {
    check_spelling(train.class_names, eval->class_names);
    names.clear();
    std::ranges::set_union(train.class_names, eval->class_names, std::back_inserter(names));
  }
  if (encoding.ignore_index) std::erase(names, std::to_string(*encoding.ignore_index));
  encoding.class_names = std::move(names);
  encoding.outputs = std::ssize(encoding.class_names);
}

// Sets the classes of data.classes. If the labels are numbers and the names are not, label i is name i.
void declare_classes(Encoding& encoding, std::span<const std::string> declared, const Storage& train) {
  encoding.class_names.assign(declared.begin(), declared.end());
  encoding.outputs = std::ssize(encoding.class_names);
  if (!train.class_names.empty()) return;
  std::vector<int64_t>& values = encoding.class_values;
  for (const std::string& name : declared)
    if (const auto number = parse_whole(name)) {
      RUN_CHECK(std::ranges::find(values, *number) == values.end(), ErrorKind::kRecipe,
                "data.classes has the number {} twice", *number);
      values.push_back(*number);
    }
  if (std::ssize(values) == encoding.outputs) return;
  values.resize(declared.size());
  std::iota(values.begin(), values.end(), 0);
}

void check_declared(std::span<const std::string> declared, const Storage& train) {
  std::set<std::string_view> names;
  for (const std::string& name : declared)
    RUN_CHECK(names.insert(name).second, ErrorKind::kRecipe, "data.classes has {} twice", in_quotes(name));
  RUN_CHECK(declared.empty() || has_labels(train), ErrorKind::kRecipe,
            "data.classes has names of classes, but the labels of the data are {}; remove it",
            train.rule                                 ? "synthetic"
            : train.token_labels != TokenLabels::kNone ? "tokens"
                                                       : "no classes");
}

// Whether an encoding has a class for each label.
bool knows(const Encoding& known, const Storage& storage) {
  if (!has_labels(storage) || known.label_kind != LabelKind::kClass || known.predicts_tokens()) return false;
  const LabelMap map(known);
  return std::ranges::all_of(storage.label_counts, [&](const auto& entry) {
    return storage.class_names.empty() ? !known.has_names() && map.find(entry.first)
                                       : map.find(storage.class_names[static_cast<size_t>(entry.first)]).has_value();
  });
}

// Labels of synthetic data are numbers of classes.
void check_synthetic(const Encoding& encoding, const Storage& storage, const std::string& name) {
  if (!storage.rule || storage.label_kind != LabelKind::kClass) return;
  RUN_CHECK(encoding.class_names.empty() && storage.outputs <= encoding.outputs, ErrorKind::kData,
            "{} is synthetic with labels 0 to {}, but the classes of the data are {}", name, storage.outputs - 1,
            class_list(encoding));
}

// Synthetic training data declare their classes. Those of synthetic evaluation data are added.
void join_synthetic(Encoding& encoding, const Storage& train, Storage& eval) {
  if (train.label_kind != LabelKind::kClass) return;
  if (eval.rule) encoding.outputs = std::max(train.outputs, eval.outputs);
  use_classes(eval, encoding, "data.eval");
}

}  // namespace

std::string class_list(const Encoding& encoding) {
  if (encoding.class_names.empty()) return encoding.outputs == 1 ? "0" : fmt::format("0 to {}", encoding.outputs - 1);
  std::vector<std::string> names;
  for (size_t i = 0; i < encoding.class_names.size(); ++i) names.push_back(class_name(encoding, i));
  return list_of(names);
}

bool are_classes(const ReadOptions& options, const WholeNumbers& labels, const std::string& where) {
  const LabelsAs as = options.labels;
  if (as == LabelsAs::kTargets) return false;
  RUN_CHECK(labels.counts.size() <= kMaxLabels || as == LabelsAs::kAuto, ErrorKind::kData,
            "{}: the labels have more than {} different values, too many for classes; {}", where, kMaxLabels,
            options.remedy("set train.task: regression if they are numbers to predict",
                           "give the file the labels of the training data"));
  if (as != LabelsAs::kAuto || !is_doubtful(labels)) return true;
  if (labels.as_floats) return false;
  const bool more = labels.counts.size() > kMaxLabels;
  fail(ErrorKind::kData,
       "{}: the labels are whole numbers with {}{} different values in {} rows: are they classes, or numbers to "
       "predict? Set train.task: regression, or train.task: classification",
       where, more ? "more than " : "", std::min(labels.counts.size(), kMaxLabels), labels.rows);
}

std::optional<std::string> why_no_class(int64_t fractions, const WholeNumbers& labels) {
  constexpr int64_t kManyTimes = 100, kRowsPerClass = 5;
  const auto classes = static_cast<int64_t>(labels.counts.size()), wholes = labels.rows - fractions;
  const bool are_few = fractions == 1 || fractions * kManyTimes <= wholes;
  if (fractions == 0 || !are_few || classes < 2 || classes > kFewLabels || wholes < kRowsPerClass * classes)
    return std::nullopt;
  return fmt::format(
      "is no class, but {} other labels are whole numbers with {} different values; correct it, or set train.task: "
      "regression if the labels are numbers to predict",
      wholes, classes);
}

LabelMap::LabelMap(const Encoding& encoding)
    : has_names_(!encoding.class_names.empty() && encoding.class_values.empty()),
      classes_(encoding.outputs),
      ignore_index_(encoding.ignore_index),
      ignored_label_(encoding.ignored_label) {
  for (size_t i = 0; has_names_ && i < encoding.class_names.size(); ++i)
    names_.emplace(encoding.class_names[i], static_cast<int64_t>(i));
  for (size_t i = 0; i < encoding.class_values.size(); ++i)
    numbers_.emplace(encoding.class_values[i], static_cast<int64_t>(i));
  list_ = class_list(encoding);
}

std::optional<int64_t> LabelMap::find(int64_t number) const {
  if (ignore_index_ && number == *ignore_index_) return ignored_label_;
  if (numbers_.empty()) return number >= 0 && number < classes_ ? std::optional(number) : std::nullopt;
  const auto found = numbers_.find(number);
  return found != numbers_.end() ? std::optional(found->second) : std::nullopt;
}

std::optional<int64_t> LabelMap::find(std::string_view text) const {
  const std::optional<int64_t> number = parse_whole(text);
  if (!has_names_) return number ? find(*number) : std::nullopt;
  if (ignore_index_ && number == ignore_index_) return ignored_label_;
  const auto found = names_.find(std::string(text));
  return found != names_.end() ? std::optional(found->second) : std::nullopt;
}

void encode_labels(Encoding& encoding, Storage& train, Storage* eval, std::optional<int64_t> ignore_index,
                   std::span<const std::string> declared, const Encoding* known) {
  check_declared(declared, train);
  encoding.ignore_index = encoding.ignored_label = ignore_index;
  if (encoding.predicts_tokens() && !train.is_every_token_labelled()) encoding.ignored_label = kNoLabel;
  if (!has_labels(train)) {
    if (eval != nullptr && train.rule) join_synthetic(encoding, train, *eval);
    return;
  }
  const bool keeps = known != nullptr && knows(*known, train) && (eval == nullptr || knows(*known, *eval)) &&
                     (declared.empty() || std::ranges::equal(declared, known->class_names));
  if (keeps) {
    encoding.outputs = known->outputs;
    encoding.class_names = known->class_names;
    encoding.class_values = known->class_values;
  } else if (!declared.empty()) {
    declare_classes(encoding, declared, train);
  } else {
    train.class_names.empty() ? find_numbers(encoding, train, eval) : find_names(encoding, train, eval);
  }
  RUN_CHECK(encoding.outputs > 0, ErrorKind::kData, "data.train: every label is train.ignore_index, {}",
            ignore_index.value_or(0));
  // The label of ignored samples must be no class.
  if (ignore_index && *ignore_index >= 0 && *ignore_index < encoding.outputs) encoding.ignored_label = kNoLabel;
  // An older run ignored a class by its number, which is no label if classes have names.
  const bool by_number = keeps && known->ignored_label && !known->ignore_index;
  if (keeps && (by_number || known->ignore_index == ignore_index)) {
    encoding.ignore_index = known->ignore_index;
    encoding.ignored_label = known->ignored_label;
  }
  const std::string_view remedy =
      declared.empty() || keeps ? "" : "; add it to data.classes, or, with model.pretrained, set model.new_head: true";
  use_classes(train, encoding, "data.train", remedy);
  if (eval == nullptr) return;
  check_synthetic(encoding, *eval, "data.eval");
  use_classes(*eval, encoding, "data.eval", remedy);
}

void use_classes(Storage& storage, const Encoding& encoding, const std::string& name, std::string_view remedy) {
  if (!has_labels(storage)) return;
  const auto map = std::make_shared<const LabelMap>(encoding);
  std::set<std::string> unknown;
  const auto class_of = [&](const auto& label, const std::string& text) {
    const std::optional<int64_t> found = map->find(label);
    if (!found) unknown.insert(text);
    return found.value_or(0);
  };
  LabelCounts counts;
  std::unordered_map<int64_t, int64_t> classes;  // by label in the file
  for (const auto& [label, rows] : storage.label_counts) {
    const std::string text =
        storage.class_names.empty() ? std::to_string(label) : storage.class_names[static_cast<size_t>(label)];
    const int64_t found =
        storage.class_names.empty() ? class_of(label, text) : class_of(std::string_view(text), in_quotes(text));
    classes[label] = found;
    counts[found] += rows;
  }
  RUN_CHECK(unknown.empty(), ErrorKind::kData, "{}: unknown {} {}; the classes of the model are {}{}", name,
            unknown.size() == 1 ? "class" : "classes", list_of({unknown.begin(), unknown.end()}), map->list(), remedy);
  const bool same = std::ranges::all_of(classes, [](const auto& entry) { return entry.first == entry.second; });
  for (int64_t& label : storage.classes)
    if (!same) label = classes.at(label);
  storage.label_counts = std::move(counts);
  storage.class_names = encoding.class_names;
  storage.outputs = encoding.outputs;
  storage.label_map = map;
}

std::vector<int64_t> class_counts(const Storage& storage, const Encoding& encoding, std::span<const int32_t> rows) {
  std::vector<int64_t> counts(static_cast<size_t>(encoding.outputs));
  const auto add = [&](int64_t label, int64_t count) {
    if (label >= 0 && label < encoding.outputs && label != encoding.ignored_label)
      counts[static_cast<size_t>(label)] += count;
  };
  if (rows.empty())
    for (const auto& [label, count] : storage.label_counts) add(label, count);
  for (const int32_t row : rows) add(storage.classes[static_cast<size_t>(row)], 1);
  return counts;
}

namespace {

// Whether the number of a class is farther from all others than these are from each other, as 255 from 0, 1 and 2.
// `numbers`: of all classes, ascending.
bool is_far(const std::vector<int64_t>& numbers, int64_t number) {
  const auto index = static_cast<size_t>(std::ranges::lower_bound(numbers, number) - numbers.begin());
  if (numbers.size() < 3 || (index > 0 && index + 1 < numbers.size())) return false;
  const auto distance = [&](size_t from, size_t to) {
    return static_cast<uint64_t>(numbers[to]) - static_cast<uint64_t>(numbers[from]);
  };
  const size_t last = numbers.size() - 1;
  const uint64_t gap = index == 0 ? distance(0, 1) : distance(last - 1, last);
  return gap > numbers.size() && gap > (index == 0 ? distance(1, last) : distance(0, last - 1));
}

// One sample of a class where others have many, or whose number is far from theirs.
void warn_of_single(const Encoding& encoding, const Storage& train, std::vector<std::string>& warnings) {
  constexpr int64_t kMany = 10;  // samples of the other classes on average
  const bool are_many = train.samples >= kMany * encoding.outputs;
  std::vector<int64_t> numbers = encoding.class_values;
  std::ranges::sort(numbers);
  const auto is_alone = [&](size_t i) { return !numbers.empty() && is_far(numbers, encoding.class_values[i]); };
  std::vector<std::string> single;
  const std::vector<int64_t> counts = class_counts(train, encoding, {});
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 1 || !(are_many || is_alone(i))) continue;
    const auto at = std::ranges::find(train.classes, static_cast<int64_t>(i));
    const std::string place = at == train.classes.end() ? "" : fmt::format(" (sample {})", at - train.classes.begin());
    single.push_back(class_name(encoding, i) + place);
  }
  if (!single.empty())
    warnings.push_back(fmt::format("data.train: {} a single sample{}: {}; is the label damaged?",
                                   single.size() == 1 ? "1 class has" : fmt::format("{} classes have", single.size()),
                                   single.size() == 1 ? "" : " each", list_of(single)));
}

// Names of one file that differ only in spelling.
void warn_of_alike(const Encoding& encoding, std::vector<std::string>& warnings) {
  if (!encoding.has_names()) return;
  std::map<std::string, std::vector<std::string>> names;
  for (const std::string& name : encoding.class_names) names[plain_name(name)].push_back(in_quotes(name));
  std::vector<std::string> alike;
  for (const auto& [plain, spellings] : names)
    if (spellings.size() > 1) alike.push_back(fmt::format("{}", fmt::join(spellings, " and ")));
  if (!alike.empty())
    warnings.push_back(fmt::format("different classes have names that differ only in spelling: {}", list_of(alike)));
}

// PyTorch ignores this label by default, and data made for it mark samples with it.
void warn_of_ignored(const Encoding& encoding, std::vector<std::string>& warnings) {
  if (encoding.ignore_index ||
      std::ranges::find(encoding.class_names, std::to_string(kNoLabel)) == encoding.class_names.end())
    return;
  warnings.push_back(
      fmt::format("label {0} is a class; if it marks samples to ignore, set train.ignore_index: {0}", kNoLabel));
}

}  // namespace

std::vector<std::string> label_warnings(const Encoding& encoding, const Storage& train) {
  std::vector<std::string> warnings;
  if (encoding.outputs > kFewLabels && train.samples < 2 * encoding.outputs)
    warnings.push_back(fmt::format("data.train has {} for {}; check which column is the label",
                                   count_text(encoding.outputs, "class"), count_text(train.samples, "sample")));
  warn_of_ignored(encoding, warnings);
  warn_of_single(encoding, train, warnings);
  warn_of_alike(encoding, warnings);
  return warnings;
}

std::vector<double> balanced_weights(const std::vector<int64_t>& counts) {
  const auto samples = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  const auto classes = static_cast<double>(std::ranges::count_if(counts, [](int64_t count) { return count > 0; }));
  std::vector<double> weights;
  for (const int64_t count : counts)
    weights.push_back(count > 0 ? samples / (classes * static_cast<double>(count)) : 0);
  return weights;
}

void check_common_classes(const Encoding& encoding, const std::vector<int64_t>& train,
                          const std::vector<int64_t>& eval) {
  const auto classes_of = [&](const std::vector<int64_t>& counts) {
    std::vector<std::string> names;
    for (size_t i = 0; i < counts.size(); ++i)
      if (counts[i] > 0) names.push_back(class_name(encoding, i));
    return names;
  };
  for (size_t i = 0; i < train.size(); ++i)
    if (train[i] > 0 && eval[i] > 0) return;
  const std::vector<std::string> of_train = classes_of(train), of_eval = classes_of(eval);
  RUN_CHECK(of_train.empty() || of_eval.empty(), ErrorKind::kData,
            "data.eval has no class of data.train: data.train has {}; data.eval has {}; check data.train.label and "
            "data.eval.label, or use other evaluation data",
            list_of(of_train), list_of(of_eval));
}

std::vector<std::string> class_warnings(const Encoding& encoding, const std::vector<int64_t>& train,
                                        const std::vector<int64_t>& eval, bool is_split) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::vector<int64_t>& here, const std::vector<int64_t>& there, const char* part,
                        const char* other, const char* effect) {
    std::vector<std::string> missing;
    for (size_t i = 0; i < here.size(); ++i)
      if (here[i] > 0 && there[i] == 0)
        missing.push_back(fmt::format("{} ({} for {})", class_name(encoding, i), here[i], other));
    if (missing.empty()) return;
    warnings.push_back(fmt::format("{} without a sample for {}: {}; {}", count_text(std::ssize(missing), "class"), part,
                                   list_of(missing), effect));
  };
  warn(train, eval, "evaluation", "training",
       is_split ? "no metric measures it: evaluate on more data, or split with another data.seed"
                : "no metric measures it: evaluate on more data");
  warn(eval, train, "training", "evaluation", "the model cannot learn it");
  return warnings;
}

std::optional<std::string> declared_class_warning(const Encoding& encoding, const std::vector<int64_t>& train) {
  std::vector<std::string> missing;
  for (size_t i = 0; i < train.size(); ++i)
    if (train[i] == 0) missing.push_back(class_name(encoding, i));
  if (missing.empty()) return std::nullopt;
  std::string text = fmt::format("{} of data.classes without a sample for training: {}",
                                 count_text(std::ssize(missing), "class"), list_of(missing));
  if (!encoding.class_values.empty() && encoding.class_names[0] != std::to_string(encoding.class_values[0]))
    text +=
        fmt::format("; the labels are numbers, and label {} is {}", encoding.class_values[0], class_name(encoding, 0));
  return text;
}

std::string labels_text(const Encoding& encoding) {
  if (encoding.label_kind == LabelKind::kTarget)
    return count_text(encoding.outputs, "target") + (encoding.reconstructs ? ": the normalised features" : "");
  std::string text = count_text(encoding.outputs, "class");
  if (encoding.masking) return text + fmt::format(", of {:.4g} % of the tokens", 100 * encoding.masking->probability);
  if (encoding.predicts_tokens()) return text;
  text += ": " + class_list(encoding);
  if (encoding.ignore_index) text += fmt::format("; label {} is ignored", *encoding.ignore_index);
  return text;
}

}  // namespace runner::data
