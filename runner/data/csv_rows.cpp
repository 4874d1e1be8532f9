#include "runner/data/csv_rows.h"

#include <algorithm>
#include <limits>
#include <map>

#include "runner/data/csv_value.h"
#include "schema/base/error.h"
#include "schema/base/source_text.h"
#include "schema/base/suggest.h"

namespace runner::data {
namespace {

using schema::Column;
using schema::Missing;

constexpr const char* kHeaderHint = "if the first row is data, set header: false";
constexpr size_t kListedColumns = 10;

std::string columns_text(const std::vector<std::string>& names) {
  std::string text = "the columns are ";
  for (size_t i = 0; i < std::min(names.size(), kListedColumns); ++i)
    text += (i > 0 ? ", " : "") + formats::in_quotes(names[i]);
  return text + (names.size() > kListedColumns ? ", …" : "");
}

}  // namespace

CsvRows::CsvRows(const schema::DatasetSpec& spec, const ReadOptions& options)
    : spec_(spec), options_(options), input_(spec.path), lexer_(input_, spec.delimiter) {
  if (!lexer_.next(record_)) fail(ErrorKind::kData, "{} is empty", spec_.path);
  width_ = record_.size();
  if (spec_.header) read_header(record_);
  has_first_row_ = !spec_.header;
  choose_columns();
  values_.resize(features_.size());
}

template <class... Args>
[[noreturn]] void CsvRows::refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::kData, "{}:{}: {}", spec_.path, lexer_.line(), fmt::format(format, std::forward<Args>(args)...));
}

void CsvRows::read_header(const Record& record) {
  bool numbers = true;
  std::map<std::string_view, size_t> seen;
  for (size_t column = 0; column < record.size(); ++column) {
    const std::string_view name = trim(record[column]);
    if (name.find('\r') != std::string_view::npos) refuse("lines end in CR only; save the file with LF or CRLF");
    float value = 0;
    numbers = numbers && parse_number(name, value) == Field::kNumber;
    if (!schema::is_utf8(name)) refuse("the name of column {} is not UTF-8: {}", column, formats::in_quotes(name));
    names_.emplace_back(name);
  }
  if (numbers) refuse("the header has only numbers; {}", kHeaderHint);
  for (size_t column = 0; column < names_.size(); ++column) {
    const auto [first, fresh] = seen.emplace(names_[column], column);
    if (!fresh)
      refuse("columns {} and {} are both named {}", first->second, column, formats::in_quotes(names_[column]));
  }
}

// Returns the index of a column. If it does not exist: none if it is optional, otherwise throws.
std::optional<size_t> CsvRows::locate(const Column& column, bool required) {
  if (!column.name.empty()) return locate(column.name, required);
  const auto width = static_cast<int64_t>(width_);
  const int64_t index = column.index < 0 ? column.index + width : column.index;
  if (index >= 0 && index < width) return static_cast<size_t>(index);
  if (!required) return std::nullopt;
  refuse("column {} does not exist; the file has {} columns", column.index, width);
}

std::optional<size_t> CsvRows::locate(const std::string& name, bool required) {
  if (!spec_.header) refuse("column {} is given by name, but header is false", formats::in_quotes(name));
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<size_t>(found - names_.begin());
  if (!required) return std::nullopt;
  refuse("unknown column {}; {}", formats::in_quotes(name), schema::did_you_mean(name, names_, columns_text(names_)));
}

void CsvRows::choose_columns() {
  if (spec_.header && !options_.feature_names.empty()) {
    for (const std::string& name : options_.feature_names) features_.push_back(*locate(name, true));
  } else {
    for (const Column& column : spec_.features) features_.push_back(*locate(column, true));
  }
  label_ = choose_label();
  const bool all = features_.empty();
  const std::optional<size_t> left_out = label_;
  if (options_.labels == LabelsAs::kFeatures) label_.reset();
  for (size_t column = 0; all && column < width_; ++column) {
    if (column != left_out) features_.push_back(column);
  }
  if (features_.empty())
    refuse("the file has no column except the label; check the delimiter {}",
           formats::in_quotes({&spec_.delimiter, 1}));
  std::vector<size_t> sorted = features_;
  if (label_.has_value()) sorted.push_back(*label_);
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) refuse("column {} is used twice", name_of(*twice));
}

// Returns the label column: spec.label, the label of the training data, or the last column. The last column is no label
// if it is a chosen feature. In a file that needs no labels, it is no label either if all columns are needed as
// features. Without labels, only the column that the recipe names is none of the features.
std::optional<size_t> CsvRows::choose_label() {
  const bool is_read = options_.labels != LabelsAs::kFeatures;
  const bool required = options_.labels_required && is_read;
  if (spec_.label.has_value()) return locate(*spec_.label, required);
  if (!is_read) return std::nullopt;
  if (spec_.header && !options_.label_name.empty()) return locate(options_.label_name, required);
  const size_t last = width_ - 1;
  const bool taken = std::find(features_.begin(), features_.end(), last) != features_.end() ||
                     (features_.empty() && static_cast<int64_t>(width_) == options_.feature_count);
  if (taken && !required) return std::nullopt;
  return last;
}

std::string CsvRows::place_of_label() const {
  return label_ ? fmt::format("{}: column {}", spec_.path, name_of(*label_)) : spec_.path;
}

std::string CsvRows::name_of(size_t column) const {
  return names_.empty() ? std::to_string(column) : formats::in_quotes(names_[column]);
}

bool CsvRows::next() {
  for (;;) {
    if (!has_first_row_ && !lexer_.next(record_)) return false;
    has_first_row_ = false;
    if (read_row()) break;
    ++dropped_;
  }
  RUN_CHECK(++samples_ < INT32_MAX, ErrorKind::kData, "{}: more than {} samples", spec_.path, INT32_MAX - 1);
  return true;
}

void CsvRows::go_to(const CsvPlace& place, int64_t sample) {
  lexer_.go_to(place);
  has_first_row_ = false;
  samples_ = sample;
}

// Returns false if a value is missing and the row is dropped.
bool CsvRows::read_row() {
  if (record_.size() != width_) {
    refuse("expected {2} fields like the {1}, got {0}{3}", record_.size(), spec_.header ? "header" : "first row",
           width_, spec_.header && samples_ == 0 ? fmt::format("; {}", kHeaderHint) : "");
  }
  return read_features() && read_label();
}

bool CsvRows::read_features() {
  float* values = values_.data();
  for (const size_t column : features_) {
    float& value = *values++;
    const std::string_view text = record_[column];
    switch (parse_number(text, value)) {
      case Field::kNumber: break;
      case Field::kMissing:
        if (spec_.missing == Missing::kDrop) return false;
        if (spec_.missing == Missing::kError) {
          refuse("column {} has no value; set missing: drop or missing: mean", name_of(column));
        }
        value = std::numeric_limits<float>::quiet_NaN();
        break;
      case Field::kNotFinite: refuse("column {}: {} is not finite", name_of(column), formats::in_quotes(text));
      case Field::kText:
        refuse("column {}: expected a number, got {}{}", name_of(column), formats::in_quotes(text),
               spec_.header || samples_ > 0 ? "" : "; if the first row is a header, set header: true");
    }
  }
  return true;
}

bool CsvRows::read_label() {
  if (!label_.has_value()) return true;
  label_text_ = trim(record_[*label_]);
  if (!is_missing(label_text_)) return true;
  if (spec_.missing == Missing::kDrop) return false;
  refuse("the label has no value; set missing: drop");
}

void CsvRows::describe(Storage& storage) const {
  storage.feature_shape = backends::Shape{static_cast<int64_t>(features_.size())};
  if (names_.empty()) return;
  if (label_.has_value()) storage.label_name = names_[*label_];
  for (const size_t column : features_) storage.feature_names.push_back(names_[column]);
}

}  // namespace runner::data
