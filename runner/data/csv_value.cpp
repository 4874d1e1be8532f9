#include "runner/data/csv_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "runner/data/labels.h"
#include "schema/base/error.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::data {
namespace {

// Parses numbers of up to 24 bits with up to 10 decimals. Both operands of the division are exact floats, so the
// quotient is correctly rounded.
bool parse_short(std::string_view text, float& value) {
  constexpr float kPowers[] = {1, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  at += negative ? 1 : 0;
  if (at == end || end - at > 11) return false;
  uint64_t mantissa = 0;
  const auto take_digits = [&] {
    const char* const first = at;
    for (; at != end; ++at) {
      const auto digit = static_cast<unsigned>(*at) - '0';
      if (digit > 9) break;
      mantissa = mantissa * 10 + digit;
    }
    return at - first;
  };
  const auto digits = take_digits();
  ptrdiff_t decimals = 0;
  if (at != end) {
    if (*at++ != '.') return false;
    decimals = take_digits();
    if (at != end || digits + decimals == 0) return false;
  }
  if (mantissa >= 1u << 24) return false;
  const auto integer = static_cast<float>(static_cast<int32_t>(mantissa));
  const float magnitude = decimals == 0 ? integer : integer / kPowers[decimals];
  value = negative ? -magnitude : magnitude;
  return true;
}

// Parses with from_chars, and accepts a leading plus. Numbers too small for f32 become 0.
Field parse_long(std::string_view text, float& value) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) return Field::kText;
  }
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  if (stop != end || status == std::errc::invalid_argument) return Field::kText;
  if (status == std::errc::result_out_of_range) {
    const size_t exponent = text.find_first_of("eE");
    const bool tiny = exponent == std::string_view::npos ? text.starts_with("0") || text.starts_with("-0")
                                                         : text[exponent + 1] == '-';
    value = 0;
    return tiny ? Field::kNumber : Field::kNotFinite;
  }
  return std::isfinite(value) ? Field::kNumber : Field::kNotFinite;
}

bool has_decimal_comma(std::string_view text) {
  if (text.find(',') == text.npos) return false;
  std::string swapped(text);
  std::ranges::replace(swapped, ',', '.');
  float value = 0;
  return parse_number(swapped, value) == Field::kNumber;
}

template <class Integer>
std::optional<Integer> parse_integer(std::string_view text) {
  Integer integer = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data() + (text[0] == '+' ? 1 : 0), end, integer);
  if (status != std::errc() || stop != end) return std::nullopt;
  return integer;
}

}  // namespace

bool is_missing(std::string_view text) {
  if (text.empty()) return true;
  if (text.size() > 4 || std::string_view("nN?").find(text[0]) == std::string_view::npos) return false;
  const std::string lower = lower_case(text);
  for (const char* word : {"na", "n/a", "nan", "null", "?"}) {
    if (lower == word) return true;
  }
  return false;
}

Field parse_number(std::string_view text, float& value) {
  if (parse_short(text, value)) return Field::kNumber;
  text = trim(text);
  if (is_missing(text)) return Field::kMissing;
  return parse_long(text, value);
}

const char* why_not_finite(std::string_view text) {
  const bool has_digits = text.find_first_of("0123456789") != text.npos;
  return has_digits ? kIsTooLarge : kIsNotFinite;
}

WideNumber parse_wide(std::string_view text) {
  text = trim(text);
  if (const auto integer = parse_integer<int64_t>(text)) return WideNumber(*integer);
  if (const auto integer = parse_integer<uint64_t>(text)) return WideNumber(*integer);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return WideNumber(value);
}

std::optional<int64_t> parse_whole(std::string_view text) {
  const size_t point = text.find('.');
  if (point != text.npos && text.find_first_not_of('0', point + 1) != text.npos) return std::nullopt;
  const std::string_view digits = text.substr(0, point);
  return digits.empty() ? std::nullopt : parse_integer<int64_t>(digits);
}

void LabelColumn::add(std::string_view text, int64_t line) {
  ++rows_;
  float number = 0;
  const Field field = parse_number(text, number);
  if (field == Field::kNotFinite) refuse({std::string(text), line}, why_not_finite(text));
  if (field == Field::kText) {
    if (!is_utf8(text)) refuse({std::string(text), line}, "is not UTF-8");
    if (text_.line == 0) text_ = {std::string(text), line};
    all_have_commas_ = all_have_commas_ && has_decimal_comma(text);
  } else if (text_.line == 0) {
    add_number(text, number, line);
  }
  if (!has_names_) return;
  auto found = names_.find(text);
  if (found == names_.end()) {
    found = names_.emplace(text, static_cast<int32_t>(names_.size())).first;
    name_counts_.push_back(0);
  }
  ++name_counts_[static_cast<size_t>(found->second)];
  if (keep_ == Keep::kLabels) name_ids_.push_back(found->second);
  if (names_.size() > kMaxLabels && text_.line == 0 && options_.labels != LabelsAs::kNames) {
    has_names_ = false;
    names_.clear();
    name_ids_ = {};
  }
}

void LabelColumn::add_number(std::string_view text, float rounded, int64_t line) {
  const auto is_magnitude = [&] { return text.find_first_of("eE") != text.npos; };
  if (std::fabs(rounded) >= 0x1p24f && !is_magnitude() && loses_digits(parse_wide(text))) ++rounded_;
  const std::optional<int64_t> whole = parse_whole(text);
  if (!whole && fractions_++ == 0) {
    fraction_ = {std::string(text), line};
    numbers_.assign(wholes_.begin(), wholes_.end());
    wholes_ = {};
  }
  if (keep_ == Keep::kLabels)
    fractions_ > 0 ? numbers_.push_back(static_cast<double>(parse_target(text))) : wholes_.push_back(*whole);
  if (!whole) return;
  if (counts_.size() <= kMaxLabels) ++counts_[*whole];
  as_floats_ = as_floats_ || text.find('.') != text.npos;
}

void LabelColumn::finish(Storage& storage) {
  if (text_.line > 0 || options_.labels == LabelsAs::kNames) {
    if (options_.labels == LabelsAs::kTargets) refuse(text_, "is not a number; regression needs numbers");
    if (!has_names_) refuse(text_, "is not a number, but all labels before it are");
    if (text_.line > 0 && all_have_commas_)
      refuse(text_, "is a text; " + options_.remedy("if the comma is the decimal separator, set decimal: \",\"",
                                                    "write numbers with a decimal point"));
    return finish_names(storage);
  }
  if (fraction_.line > 0) {
    if (options_.labels == LabelsAs::kClasses)
      refuse(fraction_,
             std::string("is not a class; expected a whole number") + options_.remedy(", or names only", ""));
    if (options_.labels == LabelsAs::kAuto)
      if (const auto why = why_no_class(fractions_, {.counts = counts_, .rows = rows_})) refuse(fraction_, *why);
    return finish_targets(storage);
  }
  if (!are_classes(options_, {.counts = counts_, .rows = rows_, .as_floats = as_floats_}, where_))
    return finish_targets(storage);
  storage.label_kind = LabelKind::kClass;
  storage.classes.assign(wholes_.begin(), wholes_.end());
  storage.outputs = std::ssize(counts_);
  storage.label_counts = std::move(counts_);
}

void LabelColumn::finish_targets(Storage& storage) {
  storage.label_kind = LabelKind::kTarget;
  storage.outputs = 1;
  if (rounded_ > 0)
    storage.warnings.push_back(fmt::format("{}: {} {} above 2^24 lost digits, because f32 has 24 bits", where_,
                                           rounded_, rounded_ == 1 ? "number" : "numbers"));
  for (const int64_t number : wholes_) storage.targets.push_back(static_cast<float>(static_cast<double>(number)));
  for (const double number : numbers_) storage.targets.push_back(static_cast<float>(number));
}

void LabelColumn::finish_names(Storage& storage) {
  std::vector<std::pair<std::string, int32_t>> sorted(names_.begin(), names_.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> class_of(sorted.size());
  for (const auto& [name, id] : sorted) {
    const auto index = static_cast<int64_t>(storage.class_names.size());
    class_of[static_cast<size_t>(id)] = index;
    storage.label_counts[index] = name_counts_[static_cast<size_t>(id)];
    storage.class_names.push_back(name);
  }
  storage.label_kind = LabelKind::kClass;
  storage.outputs = static_cast<int64_t>(sorted.size());
  storage.classes.reserve(name_ids_.size());
  for (const int32_t id : name_ids_) storage.classes.push_back(class_of[static_cast<size_t>(id)]);
}

float parse_target(std::string_view text) {
  if (const std::optional<int64_t> integer = parse_integer<int64_t>(text))
    return static_cast<float>(static_cast<double>(*integer));
  float number = 0;
  parse_number(text, number);
  return number;
}

void LabelColumn::refuse(const Example& label, std::string_view why) const {
  fail(ErrorKind::kData, "{}:{}: label {} {}", path_, label.line, in_quotes(label.text), why);
}

}  // namespace runner::data
