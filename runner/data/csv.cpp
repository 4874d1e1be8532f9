// csv data sets: which columns, which rows, and what is wrong with them.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "runner/data/csv_lexer.h"
#include "runner/data/csv_value.h"
#include "runner/data/storage.h"
#include "runner/formats/input.h"
#include "schema/error.h"
#include "schema/source_text.h"
#include "schema/suggest.h"

namespace runner::data {
namespace {

using schema::Column;
using schema::Missing;
using Record = std::vector<std::string_view>;

constexpr const char* kHeaderHint = "if the header is a row of data, set header: false";

class CsvReader {
 public:
  CsvReader(const schema::DatasetSpec& spec, const ReadOptions& options)
      : spec_(spec),
        options_(options),
        input_(spec.path),
        lexer_(input_, spec.delimiter),
        labels_(spec.path, options.labels) {}

  Storage read() {
    Record record;
    if (!lexer_.next(record)) fail(ErrorKind::kData, "{} is empty", spec_.path);
    width_ = record.size();
    if (spec_.header) read_header(record);
    choose_columns();
    bool more = !spec_.header || lexer_.next(record);
    for (; more; more = lexer_.next(record)) add_row(record);
    return finish();
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
    fail(ErrorKind::kData, "{}:{}: {}", spec_.path, lexer_.line(), fmt::format(format, std::forward<Args>(args)...));
  }

  void read_header(const Record& record) {
    bool numbers = true;
    std::map<std::string_view, size_t> seen;
    for (size_t column = 0; column < record.size(); ++column) {
      const std::string_view name = trim(record[column]);
      if (name.find('\r') != std::string_view::npos) refuse("lines end in CR alone; save the file with LF or CRLF");
      float value = 0;
      numbers = numbers && parse_number(name, value) == Field::kNumber;
      if (!schema::is_utf8(name)) refuse("the name of column {} is not UTF-8: {}", column, formats::in_quotes(name));
      names_.emplace_back(name);
    }
    if (numbers) refuse("the header holds only numbers; {}", kHeaderHint);
    for (size_t column = 0; column < names_.size(); ++column) {
      const auto [first, fresh] = seen.emplace(names_[column], column);
      if (!fresh)
        refuse("columns {} and {} are both named {}", first->second, column, formats::in_quotes(names_[column]));
    }
  }

  // The position of a column; none if it is missing and need not be there.
  std::optional<size_t> locate(const Column& column, bool required) {
    if (!column.name.empty()) return locate(column.name, required);
    const auto width = static_cast<int64_t>(width_);
    const int64_t index = column.index < 0 ? column.index + width : column.index;
    if (index >= 0 && index < width) return static_cast<size_t>(index);
    if (!required) return std::nullopt;
    refuse("column {} does not exist; there are {}", column.index, width);
  }

  std::optional<size_t> locate(const std::string& name, bool required) {
    if (!spec_.header) refuse("column {} is asked for by name, but header is false", formats::in_quotes(name));
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found != names_.end()) return static_cast<size_t>(found - names_.begin());
    if (!required) return std::nullopt;
    const std::string near = schema::did_you_mean(schema::nearest(name, names_));
    refuse("no column is named {}{}{}", formats::in_quotes(name), near.empty() ? "" : "; ", near);
  }

  void choose_columns() {
    if (spec_.header && !options_.feature_names.empty()) {
      for (const std::string& name : options_.feature_names) features_.push_back(*locate(name, true));
    } else {
      for (const Column& column : spec_.features) features_.push_back(*locate(column, true));
    }
    label_ = choose_label();
    const bool all = features_.empty();
    for (size_t column = 0; all && column < width_; ++column) {
      if (column != label_) features_.push_back(column);
    }
    if (features_.empty())
      refuse("there is no column beside the label; fields are cut at {}", formats::in_quotes({&spec_.delimiter, 1}));
    std::vector<size_t> sorted = features_;
    if (label_.has_value()) sorted.push_back(*label_);
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) refuse("column {} is chosen twice", describe(*twice));
  }

  // spec.label, the known label, or the last column unless that is a feature or, in a file that needs no labels, the
  // last feature.
  std::optional<size_t> choose_label() {
    const bool required = options_.labels_required;
    if (spec_.label.has_value()) return locate(*spec_.label, required);
    if (spec_.header && !options_.label_name.empty()) return locate(options_.label_name, required);
    const size_t last = width_ - 1;
    const bool taken = std::find(features_.begin(), features_.end(), last) != features_.end() ||
                       (features_.empty() && static_cast<int64_t>(width_) == options_.feature_count);
    if (taken && !required) return std::nullopt;
    return last;
  }

  std::string describe(size_t column) const {
    return names_.empty() ? std::to_string(column) : formats::in_quotes(names_[column]);
  }

  void add_row(const Record& record) {
    if (record.size() != width_) {
      refuse("{} fields, the {} has {}{}", record.size(), spec_.header ? "header" : "first row", width_,
             spec_.header && storage_.samples == 0 ? fmt::format("; {}", kHeaderHint) : "");
    }
    const size_t start = storage_.values.size();
    storage_.values.resize(start + features_.size());
    const bool complete = add_features(record, storage_.values.data() + start) && add_label(record);
    if (complete) {
      RUN_CHECK(++storage_.samples < INT32_MAX, ErrorKind::kData, "{}: more than {} samples", spec_.path,
                INT32_MAX - 1);
    } else {
      storage_.values.resize(start);
      ++storage_.dropped_rows;
    }
  }

  // False: the row has a gap and is dropped.
  bool add_features(const Record& record, float* values) {
    for (const size_t column : features_) {
      float& value = *values++;
      const std::string_view text = record[column];
      switch (parse_number(text, value)) {
        case Field::kNumber: break;
        case Field::kMissing:
          if (spec_.missing == Missing::kDrop) return false;
          if (spec_.missing == Missing::kError) {
            refuse("column {} has no value; set missing: drop or missing: mean", describe(column));
          }
          value = std::numeric_limits<float>::quiet_NaN();
          break;
        case Field::kNotFinite: refuse("column {}: {} is not finite", describe(column), formats::in_quotes(text));
        case Field::kText:
          refuse("column {}: {} is not a number, as features are{}", describe(column), formats::in_quotes(text),
                 spec_.header || storage_.samples > 0 ? "" : "; if the first row is a header, set header: true");
      }
    }
    return true;
  }

  // The same for the label.
  bool add_label(const Record& record) {
    if (!label_.has_value() || labels_.add(trim(record[*label_]), lexer_.line())) return true;
    if (spec_.missing == Missing::kDrop) return false;
    refuse("the label has no value; set missing: drop");
  }

  Storage finish() {
    RUN_CHECK(storage_.samples > 0, ErrorKind::kData, "{} has no complete row of data", spec_.path);
    if (label_.has_value()) {
      labels_.finish(storage_);
      if (!names_.empty()) storage_.label_name = names_[*label_];
    }
    storage_.feature_shape = backends::Shape{static_cast<int64_t>(features_.size())};
    for (const size_t column : features_) {
      if (!names_.empty()) storage_.feature_names.push_back(names_[column]);
    }
    scale_values(storage_, spec_.scale, spec_.path);
    return std::move(storage_);
  }

  const schema::DatasetSpec& spec_;
  const ReadOptions& options_;
  formats::Input input_;
  CsvLexer lexer_;
  size_t width_ = 0;
  std::vector<std::string> names_;  // of all columns; empty without a header
  std::vector<size_t> features_;
  std::optional<size_t> label_;
  LabelColumn labels_;
  Storage storage_;
};

}  // namespace

Storage read_csv(const schema::DatasetSpec& spec, const ReadOptions& options) {
  return CsvReader(spec, options).read();
}

}  // namespace runner::data
