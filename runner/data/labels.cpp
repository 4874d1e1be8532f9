#include "runner/data/labels.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/data/csv_value.h"
#include "runner/formats/input.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

// Whole numbers with more values than kFewLabels, and fewer rows than kFewRows for each, may be measurements.
constexpr int64_t kFewLabels = 20, kFewRows = 20, kManyLabels = 1000;
constexpr size_t kListed = 10;

// PyTorch's default of ignore_index.
constexpr int64_t kIgnored = -100;

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
  return encoding.has_names() ? formats::in_quotes(name) : name;
}

// Returns "0 to 9", "1, 2, 3", "'ham', 'spam'".
std::string class_list(const Encoding& encoding) {
  if (encoding.class_names.empty()) return fmt::format("0 to {}", encoding.outputs - 1);
  std::vector<std::string> names;
  for (size_t i = 0; i < encoding.class_names.size(); ++i) names.push_back(class_name(encoding, i));
  return list_of(names);
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
  for (const std::string& name : names) texts.push_back(formats::in_quotes(name));
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
              formats::in_quotes(name), formats::in_quotes(found->second), list_of(quoted(train)),
              list_of(quoted(eval)));
  }
}

bool has_labels(const Storage& storage) {
  return storage.label_kind == LabelKind::kClass && !storage.rule && storage.sequence == 0;
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

}  // namespace

bool are_classes(LabelsAs as, const WholeNumbers& labels, const std::string& where) {
  if (as == LabelsAs::kTargets) return false;
  RUN_CHECK(
      labels.counts.size() <= kMostLabels || as == LabelsAs::kAuto, ErrorKind::kData,
      "{}: the labels have more than {} different values, too many for classes; set train.task: regression if they "
      "are numbers to predict",
      where, kMostLabels);
  if (as != LabelsAs::kAuto || !is_doubtful(labels)) return true;
  if (labels.as_floats) return false;
  const bool more = labels.counts.size() > kMostLabels;
  fail(ErrorKind::kData,
       "{}: the labels are whole numbers with {}{} different values in {} rows: are they classes, or numbers to "
       "predict? Set train.task: regression, or train.task: classification",
       where, more ? "more than " : "", std::min(labels.counts.size(), kMostLabels), labels.rows);
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

void encode_labels(Encoding& encoding, Storage& train, Storage* eval, std::optional<int64_t> ignore_index) {
  encoding.ignore_index = encoding.ignored_label = ignore_index;
  if (!has_labels(train)) return;
  train.class_names.empty() ? find_numbers(encoding, train, eval) : find_names(encoding, train, eval);
  RUN_CHECK(encoding.outputs > 0, ErrorKind::kData, "data.train: every label is train.ignore_index, {}",
            ignore_index.value_or(0));
  // The label of ignored samples must be no class.
  if (ignore_index && *ignore_index >= 0 && *ignore_index < encoding.outputs) encoding.ignored_label = kIgnored;
  use_classes(train, encoding, "data.train");
  if (eval != nullptr) use_classes(*eval, encoding, "data.eval");
}

void use_classes(Storage& storage, const Encoding& encoding, const std::string& name) {
  if (!has_labels(storage)) return;
  const auto map = std::make_shared<const LabelMap>(encoding);
  const auto class_of = [&](const auto& label, const std::string& text) {
    const std::optional<int64_t> found = map->find(label);
    RUN_CHECK(found, ErrorKind::kData, "{}: unknown class {}; the classes of the model are {}", name, text,
              map->list());
    return *found;
  };
  LabelCounts counts;
  std::unordered_map<int64_t, int64_t> classes;  // by label in the file
  for (const auto& [label, rows] : storage.label_counts) {
    const std::string text =
        storage.class_names.empty() ? std::to_string(label) : storage.class_names[static_cast<size_t>(label)];
    const int64_t found = storage.class_names.empty() ? class_of(label, text)
                                                      : class_of(std::string_view(text), formats::in_quotes(text));
    classes[label] = found;
    counts[found] += rows;
  }
  const bool same = std::ranges::all_of(classes, [](const auto& entry) { return entry.first == entry.second; });
  for (int64_t& label : storage.classes)
    if (!same) label = classes.at(label);
  storage.label_counts = std::move(counts);
  storage.class_names = encoding.class_names;
  storage.outputs = encoding.outputs;
  storage.label_map = map;
}

std::vector<int64_t> class_counts(const Storage& storage, const Encoding& encoding, const std::vector<int32_t>& rows) {
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

std::vector<std::string> class_warnings(const Encoding& encoding, const std::vector<int64_t>& train,
                                        const std::vector<int64_t>& eval) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::vector<int64_t>& here, const std::vector<int64_t>& there, const char* lack,
                        const char* effect) {
    std::vector<std::string> missing;
    for (size_t i = 0; i < here.size(); ++i)
      if (here[i] > 0 && there[i] == 0) missing.push_back(fmt::format("{} ({})", class_name(encoding, i), here[i]));
    if (missing.empty()) return;
    warnings.push_back(fmt::format("{} without a sample for {} (in parentheses: those in the other part): {}; {}",
                                   count_text(std::ssize(missing), "class"), lack, list_of(missing), effect));
  };
  warn(train, eval, "evaluation", "no metric measures it: evaluate on more data, or split with another data.seed");
  warn(eval, train, "training", "the model cannot learn it");
  return warnings;
}

std::string labels_text(const Encoding& encoding) {
  if (encoding.label_kind == LabelKind::kTarget) return count_text(encoding.outputs, "target");
  std::string text = count_text(encoding.outputs, "class");
  if (encoding.sequence > 0) return text;
  text += ": " + class_list(encoding);
  if (encoding.ignore_index) text += fmt::format("; label {} is ignored", *encoding.ignore_index);
  return text;
}

}  // namespace runner::data
