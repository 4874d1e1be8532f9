// Reads the samples of a CSV file row by row: selects columns, drops rows and validates values.
//
// Keeps only one row in memory. Every fault of the file throws Error(kData) "FILE:LINE: …". Thread safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "runner/data/csv_lexer.h"
#include "runner/data/csv_value.h"
#include "runner/data/narrowing.h"
#include "runner/data/storage.h"
#include "runner/formats/input_file.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

class CsvRows {
 public:
  // Opens the file, reads its header and selects the columns. Both arguments must outlive this object.
  CsvRows(const schema::DatasetSpec& spec, const ReadOptions& options);

  // Advances to the next sample. Returns false at the end. With `missing: drop`, skips rows with missing values.
  bool next();
  // As next(), for a sample that is not used: its values are undefined. `dropped`: number of dropped rows before it.
  bool skip(int64_t dropped);
  // place(): position of the sample after this row. go_to(): continues at such a position with sample number `sample`.
  // Requires an uncompressed file (has_places()) and at least one call of next() before place().
  bool has_places() const { return !input_.compressed(); }
  SamplePlace place() const { return lexer_.place(); }
  void go_to(const SamplePlace& place, int64_t sample);

  // Values of the current row: features before `scale`, less offsets(), NaN if missing; the trimmed label text with a
  // decimal point, empty if there is no label.
  std::span<const float> features() const { return values_; }
  std::string_view label() const { return label_text_; }
  // The fields of the text columns; empty without spec.text_columns.
  const std::vector<std::string>& texts() const { return text_values_; }
  int64_t line() const { return lexer_.line(); }

  // With options.predicts: why the row cannot be used; empty if it can.
  const std::string& rejection() const { return rejection_; }

  bool has_label() const { return label_.has_value(); }
  // Returns a column for the labels of this file.
  LabelColumn label_column(LabelColumn::Keep keep) const;
  int64_t dropped() const { return dropped_; }
  // Offsets of the rows read so far, before `scale`.
  std::vector<double> offsets() const { return narrowing_->offsets(); }
  // Sets what is known after the last row: the shape of a sample, column names, offsets and warnings.
  void describe(Storage& storage) const;

 private:
  using Record = std::vector<std::string_view>;

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args);
  // Reads the first line if it is "sep=;", as spreadsheets write it.
  void skip_separator_line();
  void refuse_carriage_returns();
  std::vector<std::string> wanted_names() const;
  bool first_row_is_header();
  bool are_columns_named(const Record& names) const;
  void read_header(const Record& record);
  std::optional<size_t> locate(const schema::Column& column, bool required);
  std::optional<size_t> locate(const std::string& name, bool required);
  void choose_columns();
  void check_names(bool all);
  std::optional<size_t> choose_label();
  std::string name_of(size_t column) const;
  std::string delimiter_hint() const;
  std::vector<size_t> used_columns() const;  // features or texts, then the label
  std::vector<size_t> columns_of(const std::vector<schema::Column>& columns);

  bool read_row();
  void read_any_row();
  bool read_features();
  bool read_label();
  // Returns the text of a field; a number with a decimal comma gets a decimal point, in `buffer`. Throws if a number
  // has a decimal point where the separator is a comma.
  std::string_view field(size_t column, std::string& buffer);
  [[noreturn]] void refuse_width();
  [[noreturn]] void refuse_missing();
  void check_scaled(float scale);
  bool has_number_feature();
  [[noreturn]] void refuse_text(size_t column);

  const schema::DatasetSpec& spec_;
  const ReadOptions& options_;
  formats::InputFile input_;
  CsvLexer lexer_;
  Record record_;
  bool has_header_ = false;
  bool has_first_row_ = false;  // record_ is the unread first row of a file without a header
  size_t width_ = 0;
  std::vector<std::string> names_;  // of all columns; empty without a header
  char delimiter_;
  std::vector<size_t> features_, texts_;
  std::vector<std::string> text_values_;
  std::optional<size_t> label_;
  std::optional<Narrowing> narrowing_;
  std::vector<float> values_;
  std::string_view label_text_;
  std::string number_buffer_, label_buffer_;
  int64_t samples_ = 0, dropped_ = 0;
  std::string rejection_;
};

}  // namespace runner::data
