// JSON lines: each line is an object with the texts and the label of a sample.
#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "runner/data/csv_value.h"
#include "runner/data/data_format.h"
#include "runner/data/row_texts.h"
#include "runner/formats/line_reader.h"
#include "schema/base/error.h"
#include "schema/base/json.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

constexpr const char* kDefaultLabel = "label";

// Returns the first escape of half a surrogate pair, such as \ud800; "" if there is none.
std::string_view half_of_pair(std::string_view line) {
  const auto code_at = [&](size_t at) {
    unsigned code = 0;
    if (!line.substr(at).starts_with("\\u") || line.size() < at + 6) return code;
    std::from_chars(line.data() + at + 2, line.data() + at + 6, code, 16);
    return code;
  };
  for (size_t at = line.find('\\'); at < line.size(); at = line.find('\\', at)) {
    const unsigned half = code_at(at) >> 10, next = at + 6 < line.size() ? code_at(at + 6) >> 10 : 0;
    const bool is_high = half == 0xD800 >> 10, is_low = half == 0xDC00 >> 10;
    const bool is_pair = is_high && next == 0xDC00 >> 10;
    if (is_low || (is_high && !is_pair)) return line.substr(at, 6);
    at += is_pair ? 12 : 2;
  }
  return "";
}

class JsonRows {
 public:
  JsonRows(const schema::DatasetSpec& spec, const ReadOptions& options)
      : spec_(spec),
        options_(options),
        label_(spec.label ? spec.label->name : kDefaultLabel),
        input_(spec.path),
        lines_(input_) {
    for (const schema::Column& column : spec.text_columns) texts_.push_back(column.name);
  }

  // Advances to the next sample; empty lines do not count. Returns false at the end.
  bool next() {
    std::string_view line;
    while (lines_.next(line)) {
      if (trim(line).empty()) continue;
      rejection_.clear();
      if (!options_.predicts) {
        if (read(line)) return true;
        ++dropped_;
        continue;
      }
      try {
        read(line);
      } catch (const Error& error) {
        const std::string place = fmt::format("{}:{}: ", spec_.path, lines_.number());
        rejection_ = error.message().substr(error.message().starts_with(place) ? place.size() : 0);
      }
      return true;
    }
    return false;
  }

  const std::vector<std::string>& texts() const { return values_; }
  const std::string& label() const { return label_value_; }
  const std::string& label_name() const { return label_; }
  const std::string& rejection() const { return rejection_; }
  int64_t line() const { return lines_.number(); }
  int64_t dropped() const { return dropped_; }
  bool has_label() const { return options_.reads_labels(); }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kData, "{}:{}: {}", spec_.path, lines_.number(), fmt::format(format, std::forward<Args>(args)...));
  }

  // Returns false if the label is missing and the row is dropped.
  bool read(std::string_view line) {
    const json::Value document = json::parse(line);
    if (document.map() == nullptr) refuse_line(line);
    refuse_repeated(document);
    values_.clear();
    for (const std::string& name : texts_) values_.push_back(text_of(document, name));
    return !has_label() || read_label(document);
  }

  [[noreturn]] void refuse_line(std::string_view line) const {
    const std::string_view half = half_of_pair(line);
    if (!half.empty())
      refuse(
          "{} is one half of a surrogate pair: expected both, such as \\ud83d\\ude00; the text was cut within a "
          "character",
          half);
    refuse("expected a JSON object, got {}", in_quotes(line.substr(0, kShown)));
  }

  void refuse_repeated(const json::Value& document) const {
    std::vector<std::string_view> names;
    for (const auto& [key, value] : json::members_of(document)) names.push_back(key);
    std::ranges::sort(names);
    const auto repeated = std::ranges::adjacent_find(names);
    if (repeated != names.end()) refuse("the object has the member {} twice; remove one", in_quotes(*repeated));
  }

  const json::Value* find(const json::Value& document, const std::string& name) const {
    const auto& members = json::members_of(document);
    const auto found = std::ranges::find_if(members, [&](const auto& member) { return member.first == name; });
    return found != members.end() ? &found->second : nullptr;
  }

  [[noreturn]] void refuse_missing(const json::Value& document, const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& [key, value] : json::members_of(document)) names.push_back(in_quotes(key));
    refuse("the object has no member {}; {}", in_quotes(name),
           schema::did_you_mean(in_quotes(name), names, fmt::format("it has {}", fmt::join(names, ", "))));
  }

  std::string text_of(const json::Value& document, const std::string& name) const {
    const json::Value* const value = find(document, name);
    if (value == nullptr) refuse_missing(document, name);
    if (value->text() == nullptr) refuse("{}: expected a text, got {}", in_quotes(name), json::compact(*value));
    return *value->text();
  }

  bool read_label(const json::Value& document) {
    const json::Value* const value = find(document, label_);
    label_value_ = value == nullptr || value->is_null() ? ""
                   : value->text() != nullptr           ? std::string(trim(*value->text()))
                                                        : json::compact(*value);
    if (value != nullptr && (value->map() != nullptr || value->list() != nullptr))
      refuse("{}: expected a text or a number, got {}", in_quotes(label_), label_value_);
    if (!is_missing(label_value_)) return true;
    if (spec_.missing == schema::Missing::kDrop) return false;
    if (value == nullptr) refuse_missing(document, label_);
    refuse("the label {} has no value; {}", in_quotes(label_),
           options_.remedy("set missing: drop", "fill it in, or remove the row"));
  }

  static constexpr size_t kShown = 60;  // bytes of a line in a message

  const schema::DatasetSpec& spec_;
  const ReadOptions& options_;
  const std::string label_;
  std::vector<std::string> texts_, values_;
  formats::InputFile input_;
  formats::LineReader lines_;
  std::string label_value_, rejection_;
  int64_t dropped_ = 0;
};

Storage read_jsonl(const schema::DatasetSpec& spec, const ReadOptions& options) {
  JsonRows rows(spec, options);
  Storage storage;
  RowTexts texts(storage, options, spec.path);
  LabelColumn labels(spec.path, fmt::format("{}: member {}", spec.path, in_quotes(rows.label_name())), options,
                     LabelColumn::Keep::kLabels);
  const auto mark_dropped = [&] {
    storage.dropped_before.resize(static_cast<size_t>(rows.dropped()), storage.samples);
  };
  for (; rows.next(); ++storage.samples) {
    mark_dropped();
    texts.add(rows.texts(), rows.line(), rows.rejection());
    if (rows.has_label()) labels.add(rows.label(), rows.line());
  }
  RUN_CHECK(storage.samples > 0, ErrorKind::kData, "{} has no complete row of data", spec.path);
  if (rows.has_label()) labels.finish(storage);
  mark_dropped();
  storage.label_name = rows.label_name();
  texts.finish();
  return storage;
}

}  // namespace

const DataFormatDef kJsonlFormat{.format = schema::DataFormat::kJsonl,
                                 .sources = kOnePath,
                                 .read = read_jsonl,
                                 .stream = kNotStreamed,
                                 .sample_count = kNoSampleCount};

}  // namespace runner::data
