#include "runner/data/csv_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>

#include "schema/base/error.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::data {
namespace {

using schema::Column;
using schema::Header;
using schema::Missing;

constexpr size_t kListedColumns = 10;

// In a TSV file, fields are cut at tabs, and quotes are text.
bool is_tsv(const schema::DatasetSpec& spec) {
  return spec.format == schema::DataFormat::kTsv;
}

std::string columns_text(const std::vector<std::string>& names) {
  std::string text = "the columns are ";
  for (size_t i = 0; i < std::min(names.size(), kListedColumns); ++i) text += (i > 0 ? ", " : "") + in_quotes(names[i]);
  return text + (names.size() > kListedColumns ? ", …" : "");
}

bool is_number(std::string_view text) {
  float value = 0;
  const Field field = parse_number(text, value);
  return field == Field::kNumber || field == Field::kNotFinite;
}

std::string percent_text(int64_t part, int64_t whole) {
  const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
  return percent < 0.1 ? "less than 0.1 %" : fmt::format("{:.{}f} %", percent, percent < 10 ? 1 : 0);
}

}  // namespace

CsvRows::CsvRows(const schema::DatasetSpec& spec, const ReadOptions& options)
    : spec_(spec),
      options_(options),
      input_(spec.path),
      lexer_(input_, is_tsv(spec) ? '\t' : spec.delimiter, is_tsv(spec) ? Quotes::kAsText : Quotes::kEnclose),
      delimiter_(is_tsv(spec) ? '\t' : spec.delimiter) {
  if (!lexer_.next(record_)) fail(ErrorKind::kData, "{} is empty", spec_.path);
  skip_separator_line();
  refuse_carriage_returns();
  width_ = record_.size();
  has_header_ = first_row_is_header();
  has_first_row_ = !has_header_;
  if (has_header_) read_header(record_);
  choose_columns();
  values_.resize(features_.size());
  narrowing_.emplace(features_.size(), options.normalized, options.offsets);
}

template <class... Args>
[[noreturn]] void CsvRows::refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::kData, "{}:{}: {}", spec_.path, lexer_.line(), fmt::format(format, std::forward<Args>(args)...));
}

void CsvRows::skip_separator_line() {
  constexpr std::string_view kKey = "sep=";
  const std::string_view first = record_[0];
  const bool is_own = first == kKey && record_.size() == 2 && record_[1].empty();  // cut at the delimiter that it names
  if (!is_own && !(record_.size() == 1 && first.size() == kKey.size() + 1 && first.starts_with(kKey))) return;
  if (!is_own)
    refuse("the file says {}; {}", in_quotes(first),
           options_.remedy(
               "set delimiter to " + in_quotes(first.substr(kKey.size())),
               fmt::format("write it with the delimiter {} of the training data", in_quotes({&delimiter_, 1}))));
  if (!lexer_.next(record_)) fail(ErrorKind::kData, "{} is empty", spec_.path);
}

// A file whose lines end in CR is one record.
void CsvRows::refuse_carriage_returns() {
  if (lexer_.has_quotes()) return;  // a quoted field may have line breaks
  for (const std::string_view field : record_)
    if (field.find('\r') != std::string_view::npos) refuse("lines end in CR only; save the file with LF or CRLF");
}

// Names of columns in the recipe and the training data.
std::vector<std::string> CsvRows::wanted_names() const {
  std::vector<std::string> wanted = options_.feature_names;
  for (const Column& column : spec_.features) wanted.push_back(column.name);
  for (const Column& column : spec_.text_columns) wanted.push_back(column.name);
  if (spec_.label) wanted.push_back(spec_.label->name);
  std::erase(wanted, "");
  return wanted;
}

// Whether all columns that the recipe or the training data name are in a row.
bool CsvRows::are_columns_named(const Record& names) const {
  const auto is_there = [&](const std::string& name) {
    return std::ranges::any_of(names, [&](std::string_view field) { return trim(field) == name; });
  };
  const std::vector<std::string> wanted = wanted_names();
  return !wanted.empty() && std::ranges::all_of(wanted, is_there);
}

// With `header: auto`, the first row has names unless it has numbers. The label decides only if it is the only column.
bool CsvRows::first_row_is_header() {
  if (spec_.header != Header::kAuto) return spec_.header == Header::kTrue;
  if (are_columns_named(record_)) return true;
  if (!spec_.text_columns.empty()) {
    if (!wanted_names().empty()) return true;
    refuse("is the first row a header or data? set header: true or header: false");
  }
  const auto last = static_cast<int64_t>(width_) - 1;
  int64_t label = !have_labels(options_.labels) || width_ == 1 ? -1 : last;
  if (spec_.label && spec_.label->name.empty())
    label = spec_.label->index < 0 ? spec_.label->index + last + 1 : spec_.label->index;
  size_t numbers = 0, texts = 0;
  for (size_t column = 0; column < width_; ++column) {
    if (static_cast<int64_t>(column) == label) continue;
    const std::string_view text = trim(field(column, number_buffer_));
    if (!is_missing(text)) ++(is_number(text) ? numbers : texts);
  }
  if (numbers > 0 && texts > 0 && spec_.features.empty())
    refuse("is the first row a header or data? It has {} and {}; {}", numbers == 1 ? "a number" : "numbers",
           texts == 1 ? "a text" : "texts",
           options_.remedy("set header: true or header: false", "give the file the columns of the training data"));
  return numbers == 0 || texts > 0;
}

void CsvRows::read_header(const Record& record) {
  for (size_t column = 0; column < record.size(); ++column) {
    const std::string_view name = trim(record[column]);
    if (!is_utf8(name)) refuse("the name of column {} is not UTF-8: {}", column, in_quotes(name));
    names_.emplace_back(name);
  }
}

// Returns the index of a column. If it does not exist: none if it is optional, otherwise throws.
std::optional<size_t> CsvRows::locate(const Column& column, bool required) {
  if (!column.name.empty()) return locate(column.name, required);
  const auto width = static_cast<int64_t>(width_);
  const int64_t index = column.index < 0 ? column.index + width : column.index;
  if (index >= 0 && index < width) return static_cast<size_t>(index);
  if (!required) return std::nullopt;
  refuse("column {} does not exist; the file has {} {}{}", column.index, width, width == 1 ? "column" : "columns",
         delimiter_hint());
}

std::optional<size_t> CsvRows::locate(const std::string& name, bool required) {
  if (!has_header_ && !required) return std::nullopt;
  if (!has_header_)
    refuse("column {} is given by name, but {}", in_quotes(name),
           spec_.header == Header::kFalse
               ? "header is false"
               : "the first row has numbers; " + options_.remedy("if it is a header, set header: true",
                                                                 "give the file the header of the training data"));
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<size_t>(found - names_.begin());
  if (!required) return std::nullopt;
  std::vector<std::string> free = names_;
  std::vector<std::string> used = wanted_names();
  used.push_back(options_.label_name);
  std::erase_if(free, [&](const std::string& other) { return std::ranges::find(used, other) != used.end(); });
  refuse("unknown column {}; {}{}", in_quotes(name), schema::did_you_mean(name, free, columns_text(names_)),
         delimiter_hint());
}

// Says at which character a file with a single column is cut, and the one that it seems to need.
std::string CsvRows::delimiter_hint() const {
  if (width_ > 1) return "";
  std::string text = fmt::format("; fields are cut at {}", in_quotes({&delimiter_, 1}));
  const std::string_view line = names_.empty() ? record_[0] : names_[0];
  for (const char other : {';', '\t', '|', ','})
    if (!is_tsv(spec_) && line.find(other) != line.npos)
      return text +
             options_.remedy(fmt::format(": set delimiter: \"{}\"", other == '\t' ? "\\t" : std::string(1, other)),
                             ", as in the training data: change the delimiter of the file");
  return text;
}

std::vector<size_t> CsvRows::columns_of(const std::vector<Column>& columns) {
  std::vector<size_t> indices;
  for (const Column& column : columns) indices.push_back(*locate(column, true));
  return indices;
}

void CsvRows::choose_columns() {
  texts_ = columns_of(spec_.text_columns);
  if (has_header_ && !options_.feature_names.empty()) {
    for (const std::string& name : options_.feature_names) features_.push_back(*locate(name, true));
  } else {
    features_ = columns_of(spec_.features);
  }
  label_ = choose_label();
  const bool all = features_.empty() && texts_.empty();
  const std::optional<size_t> left_out = label_;
  if (!options_.reads_labels()) label_.reset();
  for (size_t column = 0; all && column < width_; ++column) {
    if (column != left_out) features_.push_back(column);
  }
  if (features_.empty() && texts_.empty()) refuse("the file has no column except the label{}", delimiter_hint());
  check_names(all);
  std::vector<size_t> sorted = used_columns();
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return;
  const bool by_default = !texts_.empty() && label_ == *twice && !spec_.label;
  refuse("column {} is used twice{}", name_of(*twice),
         by_default ? ": the label is the last column by default; name it with label" : "");
}

std::vector<size_t> CsvRows::used_columns() const {
  std::vector<size_t> used = features_;
  used.insert(used.end(), texts_.begin(), texts_.end());
  if (label_) used.push_back(*label_);
  return used;
}

// Columns that are not used may share a name or have none.
void CsvRows::check_names(bool all) {
  if (names_.empty()) return;
  for (const size_t column : used_columns()) {
    const auto same = [&](size_t from) {
      return static_cast<size_t>(
          std::find(names_.begin() + static_cast<ptrdiff_t>(from), names_.end(), names_[column]) - names_.begin());
    };
    if (names_[column].empty() && all)
      refuse("column {} has no name; {}", column,
             options_.remedy(fmt::format("give it one, or list the columns to use: features: [{}, …]",
                                         in_quotes(names_[column + 1 < width_ ? column + 1 : 0])),
                             "give it one"));
    if (const size_t first = same(0); !names_[column].empty() && same(first + 1) < width_)
      refuse("columns {} and {} are both named {}; rename one", first, same(first + 1), in_quotes(names_[column]));
  }
}

// Returns the label column: spec.label, the label of the training data, or the last column. The last column is no label
// if it is a chosen feature. In a file that needs no labels, it is no label either if all columns are needed as
// features. Without labels, only the column that the recipe names is none of the features.
std::optional<size_t> CsvRows::choose_label() {
  const bool is_read = have_labels(options_.labels);
  const bool required = is_read && !options_.predicts;
  if (spec_.label.has_value()) return locate(*spec_.label, required);
  if (!is_read) return std::nullopt;
  if (has_header_ && !options_.label_name.empty()) return locate(options_.label_name, required);
  const size_t last = width_ - 1;
  const auto has = [&](const std::vector<size_t>& columns) {
    return std::ranges::find(columns, last) != columns.end();
  };
  const bool taken =
      has(features_) || has(texts_) || (features_.empty() && static_cast<int64_t>(width_) == options_.feature_count);
  if (taken && !required) return std::nullopt;
  return last;
}

LabelColumn CsvRows::label_column(LabelColumn::Keep keep) const {
  return LabelColumn(spec_.path, label_ ? fmt::format("{}: column {}", spec_.path, name_of(*label_)) : spec_.path,
                     options_, keep);
}

std::string CsvRows::name_of(size_t column) const {
  return names_.empty() ? std::to_string(column) : in_quotes(names_[column]);
}

bool CsvRows::next() {
  for (;;) {
    if (!has_first_row_ && !lexer_.next(record_)) return false;
    has_first_row_ = false;
    if (options_.predicts) {
      read_any_row();
      break;
    }
    if (read_row()) break;
    ++dropped_;
  }
  RUN_CHECK(++samples_ < INT32_MAX, ErrorKind::kData, "{}: more than {} samples", spec_.path, INT32_MAX - 1);
  return true;
}

bool CsvRows::skip(int64_t dropped) {
  if (has_first_row_) return next();
  for (int64_t row = 0; row <= dropped; ++row)
    if (!lexer_.skip()) return false;
  ++samples_;
  return true;
}

void CsvRows::go_to(const SamplePlace& place, int64_t sample) {
  lexer_.go_to(place);
  has_first_row_ = false;
  samples_ = sample;
}

// Returns false if a value is missing and the row is dropped.
bool CsvRows::read_row() {
  if (record_.size() != width_) refuse_width();
  text_values_.clear();
  for (const size_t column : texts_) text_values_.emplace_back(record_[column]);
  return read_features() && read_label();
}

void CsvRows::read_any_row() {
  rejection_.clear();
  try {
    read_row();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    const std::string place = fmt::format("{}:{}: ", spec_.path, lexer_.line());
    rejection_ = error.message().substr(error.message().starts_with(place) ? place.size() : 0);
    std::ranges::fill(values_, 0.0f);
  }
}

void CsvRows::refuse_width() {
  refuse("expected {1} fields like the {2}, got {0}{3}", record_.size(), width_, has_header_ ? "header" : "first row",
         delimiter_hint());
}

std::string_view CsvRows::field(size_t column, std::string& buffer) {
  const std::string_view text = record_[column];
  if (spec_.decimal == '.' || text.find_first_of(".,") == text.npos) return text;
  if (is_number(text)) refuse_text(column);
  buffer.assign(text);
  for (char& c : buffer) c = c == '.' ? ',' : c == ',' ? '.' : c;
  return is_number(buffer) ? std::string_view(buffer) : text;
}

bool CsvRows::read_features() {
  for (size_t i = 0; i < features_.size(); ++i) {
    const std::string_view text = field(features_[i], number_buffer_);
    float& value = values_[i];
    switch (parse_number(text, value)) {
      case Field::kNumber:
        if (!narrowing_->needs(i, value)) break;
        value = narrowing_->narrow(i, parse_wide(text));
        if (std::isinf(value))
          refuse("column {}: {} {}", name_of(features_[i]), in_quotes(record_[features_[i]]), kTooFar);
        break;
      case Field::kMissing:
        if (options_.predicts && spec_.missing != Missing::kMean)
          refuse("column {} has no value", name_of(features_[i]));
        if (spec_.missing == Missing::kDrop) return false;
        if (spec_.missing == Missing::kError) refuse_missing();
        value = std::numeric_limits<float>::quiet_NaN();
        break;
      case Field::kNotFinite:
        refuse("column {}: {} {}", name_of(features_[i]), in_quotes(record_[features_[i]]), why_not_finite(text));
      case Field::kText: refuse_text(features_[i]);
    }
  }
  if (options_.predicts && spec_.scale) check_scaled(static_cast<float>(*spec_.scale));
  return true;
}

// Other data sets report the sample (scale_sample) and are not used; here the row is left out.
void CsvRows::check_scaled(float scale) {
  for (size_t i = 0; i < features_.size(); ++i)
    if (std::isinf(values_[i] * scale))
      refuse("column {}: {} times scale {} is not finite", name_of(features_[i]), in_quotes(record_[features_[i]]),
             *spec_.scale);
}

void CsvRows::refuse_text(size_t column) {
  const std::string_view text = trim(record_[column]);
  std::string swapped(text);
  std::ranges::replace(swapped, ',', '.');
  std::string hint;
  if (spec_.decimal == ',') {
    hint = text.find('.') == text.npos ? "" : "; the decimal separator is ',', and thousands have none";
  } else if (is_number(swapped)) {
    hint = options_.remedy(
        "; if the comma is the decimal separator, set decimal: \",\"; separators of thousands must be removed",
        "; write numbers with a decimal point and without separators of thousands");
  } else if (!has_header_ && samples_ == 0) {
    hint = "; if the first row is a header, " + options_.remedy("set header: true", "remove it");
  } else if (spec_.features.empty() && samples_ == 0 && options_.has_recipe) {
    hint = has_number_feature() ? "; list the columns to use with features"
                                : "; features are numbers, and no column except the label has any";
  }
  refuse("column {}: expected a number, got {}{}", name_of(column), in_quotes(text), hint);
}

// Whether a feature of the current row is a number.
bool CsvRows::has_number_feature() {
  return std::ranges::any_of(features_, [&](size_t column) { return is_number(trim(field(column, number_buffer_))); });
}

// Reports all columns with missing values. Reads the rest of the file to count them.
void CsvRows::refuse_missing() {
  std::vector<int64_t> gaps(width_);  // rows without a value, by column
  std::vector<size_t> used = used_columns();
  std::erase_if(used, [&](size_t column) { return std::ranges::find(texts_, column) != texts_.end(); });
  const int64_t here = lexer_.line();
  int64_t rows = samples_;
  do {
    ++rows;
    for (const size_t column : used)
      if (column < record_.size() && is_missing(trim(record_[column]))) ++gaps[column];
  } while (lexer_.next(record_));
  std::vector<std::string> texts;
  for (const size_t column : used)
    if (gaps[column] > 0)
      texts.push_back(fmt::format("{}{} in {} of {} {} ({})", column == label_ ? "the label " : "column ",
                                  name_of(column), gaps[column], rows, rows == 1 ? "row" : "rows",
                                  percent_text(gaps[column], rows)));
  const bool of_label = label_ && gaps[*label_] > 0;
  const size_t listed = std::min(texts.size(), kListedColumns);
  fail(ErrorKind::kData, "{}:{}: values are missing: {}{}; {}", spec_.path, here,
       fmt::join(texts.begin(), texts.begin() + static_cast<ptrdiff_t>(listed), ", "),
       texts.size() > listed ? fmt::format(", … ({} columns)", texts.size()) : "",
       options_.remedy(of_label || !texts_.empty() ? "set missing: drop" : "set missing: drop or missing: mean",
                       "fill them in, or remove the rows"));
}

bool CsvRows::read_label() {
  if (!label_.has_value()) return true;
  label_text_ = trim(field(*label_, label_buffer_));
  if (!is_missing(label_text_)) return true;
  if (spec_.missing == Missing::kDrop) return false;
  refuse_missing();
}

void CsvRows::describe(Storage& storage) const {
  storage.feature_shape = backends::Shape{static_cast<int64_t>(features_.size())};
  storage.offsets = offsets();
  for (double& offset : storage.offsets) offset *= spec_.scale.value_or(1);
  for (std::string& text :
       narrowing_->warnings(options_.has_recipe, [this](size_t feature) { return name_of(features_[feature]); }))
    storage.warnings.push_back(std::move(text));
  if (!has_header_ && spec_.header == Header::kAuto)
    storage.warnings.push_back(
        "the first row has numbers, so it is read as data" +
        options_.remedy("; set header: false if that is right, header: true if it has the column names", ""));
  if (names_.empty()) return;
  if (label_.has_value()) storage.label_name = names_[*label_];
  for (const size_t column : features_) storage.feature_names.push_back(names_[column]);
}

}  // namespace runner::data
