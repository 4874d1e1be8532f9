#include "schema/recipe/field_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/metric_names.h"
#include "schema/recipe/other_names.h"

namespace runner::schema {
namespace {

// "12 steps" -> 12, "steps".
struct Quantity {
  std::optional<int64_t> count;  // none without digits; the largest number if there are too many
  bool leading_zero = false;
  std::string_view unit;
};

Quantity split_quantity(std::string_view text) {
  Quantity quantity;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits > 0) {
    const auto error = std::from_chars(text.data(), text.data() + digits, quantity.count.emplace()).ec;
    if (error != std::errc()) quantity.count = INT64_MAX;
  }
  quantity.leading_zero = digits > 1 && text[0] == '0';
  const size_t unit = std::min(text.find_first_not_of(' ', digits), text.size());
  quantity.unit = text.substr(unit);
  return quantity;
}

// "1.5 GiB" -> 1.5, "GiB".
struct Size {
  std::optional<double> count;
  std::string_view unit;
};

Size split_size(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, digits);
  const size_t unit = std::min(text.find_first_not_of(' ', digits), text.size());
  Size size{std::nullopt, text.substr(unit)};
  const bool is_whole_text = !number.empty() && number.front() != '.' && number.back() != '.';
  double count = 0;
  if (is_whole_text && std::from_chars(number.data(), number.data() + digits, count, std::chars_format::fixed).ptr ==
                           number.data() + digits)
    size.count = count;
  return size;
}

// Returns the unit meant by "GB", "g", "gib", "bytes"; empty if unknown.
std::string_view meant_size_unit(std::string_view unit) {
  const std::string lower = lower_case(unit);
  if (lower == "b" || lower == "byte" || lower == "bytes") return "B";
  for (const SizeUnit& known : kSizeUnits) {
    const std::string first = lower_case(known.name.substr(0, 1));
    for (const char* rest : {"", "b", "i", "ib"})
      if (known.name.size() > 1 && lower == first + rest) return known.name;
  }
  return {};
}

// "steps" for step and steps.
// A length that need not be a whole number: "0.5 epochs", "12.5 %".
struct Fraction {
  std::string number;  // without unneeded zeros
  bool is_percent = false;
};

// Returns none for any other text. Six decimals keep all products of lengths within 64 bits.
std::optional<Fraction> split_fraction(std::string_view text) {
  constexpr size_t kMaxDigits = 9, kMaxDecimals = 6;
  constexpr std::string_view kDigits = "0123456789";
  const size_t point = std::min(text.find_first_not_of(kDigits), text.size());
  const bool has_point = text.substr(point).starts_with('.');
  const size_t end = has_point ? std::min(text.find_first_not_of(kDigits, point + 1), text.size()) : point;
  const std::string_view unit = text.substr(std::min(text.find_first_not_of(' ', end), text.size()));
  const bool is_percent = unit == "%", is_epochs = has_point && (unit == "epochs" || unit == "epoch");
  const size_t decimals = has_point ? end - point - 1 : 0;
  if (point == 0 || point > kMaxDigits || decimals > kMaxDecimals || (has_point && decimals == 0)) return std::nullopt;
  if (!is_percent && !is_epochs) return std::nullopt;
  if (point > 1 && text[0] == '0') return std::nullopt;
  std::string number(text.substr(0, end));
  if (has_point) number.erase(number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) number.pop_back();
  return Fraction{number, is_percent};
}

// Returns a part of the run without a unit, such as 0.1, the warmup_ratio of transformers.
std::optional<double> share_of_run(const std::string& text) {
  const std::optional<Fraction> fraction = split_fraction(text + "%");
  const double number = fraction ? std::strtod(fraction->number.c_str(), nullptr) : 0;
  return number > 0 && number < 1 ? std::optional(number) : std::nullopt;
}

std::string_view plural_unit(std::string_view unit) {
  for (const std::string_view name : {"steps", "epochs", "samples"})
    if (unit == name || unit == name.substr(0, name.size() - 1)) return name;
  return {};
}

class ValueReader {
 public:
  ValueReader(const Field& field, const YamlNode& node, const std::string& path, Report& report)
      : field_(field), node_(node), path_(path), report_(report) {}

  std::optional<Value> read() {
    if (node_.kind == YamlNode::Kind::kInvalid) return std::nullopt;
    if (node_.kind == YamlNode::Kind::kEmpty) {
      return fault(ErrorId::kMissingValue, path_ + " has no value", "write a value, or null for the default");
    }
    if (field_.type == FieldType::kClassWeights) return read_class_weights();
    if (field_.type == FieldType::kRenames) return read_renames();
    return field_.is_list ? read_list() : read_one();
  }

 private:
  std::nullopt_t fault(ErrorId id, const std::string& message, std::string_view hint = "") {
    report_.add(id, node_.place, path_, message, hint);
    return std::nullopt;
  }

  std::nullopt_t wrong_type(std::string_view hint = "") {
    return fault(ErrorId::kWrongType, fmt::format("{} must be {}, got {}", path_, type_phrase(field_), describe(node_)),
                 hint);
  }

  std::nullopt_t out_of_range(const std::string& got) {
    return fault(ErrorId::kOutOfRange, fmt::format("{} must be {}, got {}", path_, range_phrase(field_), got));
  }

  std::nullopt_t unknown_choice(std::span<const std::string> names) {
    constexpr size_t kShortest = 3;
    const std::string text = lower_case(node_.text);
    const auto has_it = [&](const std::string& name) {
      return text.size() < kShortest ? name.starts_with(text) : name.find(text) != std::string::npos;
    };
    std::vector<std::string> near;  // "a100-40g" for "A100", "rtx4090" for "4090"
    if (const std::string_view known = choice_of_other_name(path_, node_.text); !known.empty()) {
      near.emplace_back(known);
    } else if (!node_.text.empty()) {
      std::ranges::copy_if(names, std::back_inserter(near), has_it);
    }
    if (near.empty()) near = nearest(node_.text, names);
    return fault(ErrorId::kUnknownChoice, fmt::format("{} must be {}, got {}", path_, join_or(names), describe(node_)),
                 did_you_mean(near));
  }

  // For a single value instead of a list.
  std::string hint_of_list() const {
    if (field_.count <= 1 || field_.defaults.empty()) return fmt::format("write [{}]", node_.text);
    return fmt::format("write {} of them, such as {}", field_.count, field_.defaults.back().value);
  }

  // For `backend: {cpu: true}` instead of `backend: cpu`.
  std::string hint_of_choice_as_key() const {
    if (node_.kind != YamlNode::Kind::kMap || node_.members.size() != 1) return "";
    const std::string& name = node_.members[0].key;
    const bool is_known = std::ranges::find(field_.choices, name, &Choice::name) != field_.choices.end();
    return is_known ? fmt::format("write {}: {}", path_, name) : "";
  }

  std::optional<Value> read_list() {
    Field element = field_;
    element.is_list = false;
    if (field_.is_scalar && node_.kind == YamlNode::Kind::kScalar) {
      std::optional<Value> value = ValueReader(element, node_, path_, report_).read();
      return value ? std::optional<Value>(ValueList{std::move(*value)}) : std::nullopt;
    }
    if (node_.kind != YamlNode::Kind::kList) {
      return wrong_type(node_.kind == YamlNode::Kind::kScalar ? hint_of_list() : "");
    }
    if (field_.nonempty && node_.items.empty()) return fault(ErrorId::kOutOfRange, path_ + " must not be empty");
    if (field_.count > 0 && node_.items.size() != static_cast<size_t>(field_.count)) {
      return fault(ErrorId::kOutOfRange,
                   fmt::format("{} must have {} elements, got {}", path_, field_.count, node_.items.size()));
    }
    ValueList values;
    for (size_t i = 0; i < node_.items.size(); ++i) {
      std::optional<Value> value =
          ValueReader(element, node_.items[i], fmt::format("{}[{}]", path_, i), report_).read();
      if (value) values.push_back(std::move(*value));
    }
    if (values.size() != node_.items.size()) return std::nullopt;
    return values;
  }

  std::optional<Value> read_one() {
    if (node_.kind != YamlNode::Kind::kScalar) return wrong_type(hint_of_choice_as_key());
    if (field_.has_words() && std::ranges::find(field_.choices, node_.text, &Choice::name) != field_.choices.end())
      return node_.text;
    switch (field_.type) {
      case FieldType::kBoolean: return read_boolean();
      case FieldType::kInteger: return read_integer();
      case FieldType::kNumber: return read_number();
      case FieldType::kText:
      case FieldType::kPath: return read_text();
      case FieldType::kChoice: return read_choice();
      case FieldType::kLength: return read_length();
      case FieldType::kSize: return read_size();
      case FieldType::kCharacter: return read_character();
      case FieldType::kColumn: return read_column();
      case FieldType::kMetric: return read_metric();
      case FieldType::kSection:
      case FieldType::kFree:
      case FieldType::kClassWeights:
      case FieldType::kRenames: break;
    }
    return wrong_type();
  }

  PlainScalar plain() const { return node_.quoted ? PlainScalar{node_.text} : read_plain_scalar(node_.text); }

  // `as_text`: the field could also contain the digits as a text.
  std::nullopt_t leading_zero(std::string_view text, bool as_text) {
    const std::string_view digits = text.substr(std::min(text.find_first_not_of("+-0"), text.size() - 1));
    const std::string number = (text[0] == '-' ? "-" : "") + std::string(digits);
    return fault(ErrorId::kLeadingZero, fmt::format("{}: the number {} has a leading zero", path_, text),
                 as_text ? fmt::format("write {}, or \"{}\" for a text", number, text) : "write " + number);
  }

  std::optional<Value> read_boolean() {
    const PlainScalar scalar = plain();
    if (scalar.value.boolean() != nullptr) return scalar.value;
    const std::string word = lower_case(node_.text);
    if (word == "yes" || word == "on" || word == "true") return wrong_type("write true");
    if (word == "no" || word == "off" || word == "false") return wrong_type("write false");
    return wrong_type();
  }

  // Returns the number of a plain scalar, or reports its fault.
  std::optional<PlainScalar> numeric() {
    const PlainScalar scalar = plain();
    if (scalar.leading_zero) return leading_zero(node_.text, field_.name.empty());
    if (scalar.not_finite)
      return fault(ErrorId::kNotFinite, fmt::format("{} must be finite, got {}", path_, node_.text));
    if (scalar.too_small)
      return fault(ErrorId::kOutOfRange,
                   fmt::format("{} is too small for a number of 64 bits: got {}", path_, node_.text), "write 0");
    if (scalar.value.integer() != nullptr || scalar.value.number() != nullptr) return scalar;
    return wrong_type(number_hint());
  }

  // For numbers in quotes and with digit separators.
  std::string number_hint() const {
    std::string digits;
    for (const char c : node_.text)
      if (c != '_' && c != ',') digits += c;
    const PlainScalar scalar = read_plain_scalar(digits);
    const bool number = scalar.value.integer() != nullptr || scalar.value.number() != nullptr;
    return number ? "write " + digits : "";
  }

  std::optional<Value> read_integer() {
    const std::optional<PlainScalar> scalar = numeric();
    if (!scalar) return std::nullopt;
    if (scalar->too_large) return out_of_range(node_.text);
    constexpr double kExact = 9007199254740992.0;  // 2^53: integers up to here are exact in a double
    int64_t integer = 0;
    if (const double* number = scalar->value.number()) {
      if (std::floor(*number) != *number) return wrong_type();
      if (std::abs(*number) > kExact) return out_of_range(node_.text);
      integer = static_cast<int64_t>(*number);
    } else {
      integer = *scalar->value.integer();
    }
    if (integer < field_.range.least || integer > field_.range.most) return out_of_range(node_.text);
    return integer;
  }

  std::optional<Value> read_number() {
    const std::optional<PlainScalar> scalar = numeric();
    if (!scalar) return std::nullopt;
    const int64_t* integer = scalar->value.integer();
    const double number = integer != nullptr ? static_cast<double>(*integer) : *scalar->value.number();
    if (!field_.range.has(number)) return out_of_range(node_.text);
    constexpr float kMaxFloat = std::numeric_limits<float>::max();
    if (std::abs(number) > kMaxFloat)
      return fault(ErrorId::kOutOfRange,
                   fmt::format("{} exceeds the largest f32, {:.6g}: got {}", path_, kMaxFloat, node_.text));
    return number == 0 ? 0.0 : number;  // -0 is 0
  }

  std::optional<Value> read_text() {
    const PlainScalar scalar = plain();
    // Quotes are awkward to type in a shell.
    const bool anything = node_.loose || report_.source(node_.place.source).kind() == OriginKind::kCommandLine;
    if (!anything && scalar.leading_zero) return leading_zero(node_.text, true);
    if (!anything && (scalar.value.text() == nullptr || scalar.not_finite)) {
      return wrong_type(fmt::format("write \"{}\"", node_.text));
    }
    if (node_.text.empty())
      return fault(ErrorId::kOutOfRange, path_ + " must not be empty",
                   field_.required ? "" : "remove it for its default");
    if (path_ == "name" && !report_.source(node_.place.source).is_recorded()) return read_name();
    return node_.text;
  }

  // For a new run; an existing run with such a name keeps it.
  std::optional<Value> read_name() {
    if (node_.text.starts_with('@')) {
      return fault(ErrorId::kOutOfRange, "name must not begin with @, which is reserved for selectors such as @last",
                   "write " + node_.text.substr(1));
    }
    constexpr int kLongestName = 200;
    if (count_characters(node_.text) > kLongestName) {
      return fault(
          ErrorId::kOutOfRange,
          fmt::format("name must have at most {1} characters, got {0}", count_characters(node_.text), kLongestName),
          "use a shorter name, and `runner note` for longer text");
    }
    return node_.text;
  }

  std::optional<Value> read_choice() {
    for (const Choice& choice : field_.choices)
      if (choice.name == node_.text) return node_.text;
    return unknown_choice(choice_names(field_));
  }

  // "10 %", "0.5 epochs".
  std::optional<Value> read_fraction(const Fraction& fraction) {
    const double number = std::strtod(fraction.number.c_str(), nullptr);
    const bool fits = (number > 0 || field_.range.least == 0) && (!fraction.is_percent || number <= 100);
    if (!fits)
      return fault(ErrorId::kOutOfRange,
                   fmt::format("{} must be {}, got {}", path_,
                               fraction.is_percent ? "above 0 %, at most 100 %" : "above 0 epochs", node_.text));
    return fmt::format("{} {}", fraction.number, fraction.is_percent ? "%" : number == 1 ? "epoch" : "epochs");
  }

  std::optional<Value> read_length() {
    if (const std::optional<Fraction> fraction = split_fraction(node_.text)) return read_fraction(*fraction);
    const Quantity quantity = split_quantity(node_.text);
    if (quantity.leading_zero) return leading_zero(node_.text.substr(0, node_.text.find(' ')), false);
    if (quantity.count && quantity.unit.empty()) {
      const int64_t n = *quantity.count;
      return fault(ErrorId::kUnitMissing, fmt::format("{} needs a unit, got {}", path_, node_.text),
                   fmt::format("write {}, {}, {} or {} %", length_text(n, "steps"), length_text(n, "epochs"),
                               length_text(n, "samples"), n));
    }
    const std::string_view unit = plural_unit(quantity.unit);
    if (unit.empty() || !quantity.count) {
      const std::string known[] = {"steps", "epochs", "samples"};
      const auto near = nearest(quantity.unit, known);
      const bool word = quantity.unit.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string_view::npos;
      const bool guess = quantity.count && word && !near.empty();
      const std::optional<double> share = share_of_run(node_.text);
      return fault(ErrorId::kBadLength,
                   fmt::format("{} must be N steps, N epochs, N samples or N %, got {}", path_, describe(node_)),
                   guess                       ? "did you mean " + length_text(*quantity.count, near[0]) + "?"
                   : share                     ? fmt::format("write {:g} % for this part of the run", 100 * *share)
                   : node_.text.find('.') < 20 ? "epochs and % may have up to 6 decimals"
                                               : "");
    }
    if (*quantity.count < field_.range.least || *quantity.count > field_.range.most) return out_of_range(node_.text);
    return length_text(*quantity.count, unit);
  }

  std::optional<Value> read_size() {
    const Size size = split_size(node_.text);
    const std::string number = node_.text.substr(0, node_.text.find_first_not_of("0123456789."));
    if (size.count && number.size() > 1 && number[0] == '0' && number[1] != '.') return leading_zero(number, false);
    const auto too_small_or_large = [&] {
      return fault(ErrorId::kOutOfRange, fmt::format("{} must be between 1 B and 1024 TiB, got {}", path_, node_.text));
    };
    if (size.count == 0.0) return too_small_or_large();
    if (size.count && size.unit.empty()) {
      constexpr int kMaxMiB = 1 << 20;  // 1 TiB; a larger number without a unit is probably in bytes
      const bool are_bytes = *size.count >= kMaxMiB;
      return fault(ErrorId::kUnitMissing, fmt::format("{} needs a unit, got {}", path_, node_.text),
                   are_bytes ? fmt::format("write {} B", number) : fmt::format("write {0} MiB or {0} GiB", number));
    }
    for (const SizeUnit& unit : kSizeUnits) {
      if (unit.name != size.unit || !size.count) continue;
      constexpr double kMaxBytes = int64_t{1} << 50;
      const double bytes = std::round(*size.count * static_cast<double>(unit.bytes));
      if (bytes >= 1 && bytes <= kMaxBytes) return static_cast<int64_t>(bytes);
      return too_small_or_large();
    }
    const std::string_view meant = size.count ? meant_size_unit(size.unit) : std::string_view();
    return fault(ErrorId::kBadSize,
                 fmt::format("{} must be N B, N KiB, N MiB, N GiB or N TiB, got {}", path_, describe(node_)),
                 meant.empty() ? "write digits and a unit, such as 0.5 GiB"
                               : fmt::format("write {} {}; units are powers of 1024", number, meant));
  }

  std::optional<Value> read_character() {
    const bool usable =
        node_.text.size() == 1 && node_.text[0] != '"' && node_.text[0] != '\n' && node_.text[0] != '\r';
    if (usable) return node_.text;
    return wrong_type("write one ASCII character, such as \";\" or \"\\t\"");
  }

  std::optional<Value> read_column() {
    const PlainScalar scalar = plain();
    if (scalar.leading_zero) return leading_zero(node_.text, true);
    if (scalar.value.text() != nullptr && !scalar.not_finite && !node_.text.empty()) return node_.text;
    if (scalar.value.integer() == nullptr) return wrong_type();
    const int64_t index = *scalar.value.integer();
    if (std::abs(index) <= INT32_MAX) return index;
    return fault(ErrorId::kOutOfRange,
                 fmt::format("{} must be between -2147483647 and 2147483647, got {}", path_, index));
  }

  std::optional<Value> read_metric() {
    if (node_.text.starts_with("top_")) {
      const Quantity quantity = split_quantity(std::string_view(node_.text).substr(4));
      const bool good = quantity.count && *quantity.count > 0 && *quantity.count <= INT32_MAX;
      if (good && quantity.unit.empty() && !quantity.leading_zero) return node_.text;
    }
    std::vector<std::string> names;
    for (const MetricName& metric : kMetricNames) {
      if (metric.name == node_.text && metric.name != "top_K") return node_.text;
      names.emplace_back(metric.name);
    }
    return unknown_choice(names);
  }

  std::optional<Value> read_class_weights() {
    if (node_.kind == YamlNode::Kind::kScalar) {
      const std::string words[] = {"balanced"};
      if (node_.text == words[0]) return node_.text;
      if (plain().value.text() != nullptr && !nearest(node_.text, words).empty()) return unknown_choice(words);
      return wrong_type(plain().value.number() != nullptr || plain().value.integer() != nullptr ? hint_of_list() : "");
    }
    Field weight = field_;
    weight.type = FieldType::kNumber;
    const auto read_weight = [&](const YamlNode& node, const std::string& path) {
      return ValueReader(weight, node, path, report_).read();
    };
    ValueList list;
    for (size_t i = 0; i < node_.items.size(); ++i)
      if (std::optional<Value> value = read_weight(node_.items[i], fmt::format("{}[{}]", path_, i)))
        list.push_back(std::move(*value));
    ValueMap map;
    for (const YamlNode::Member& member : node_.members)
      if (std::optional<Value> value = read_weight(member.value, fmt::format("{}.{}", path_, member.key)))
        map.emplace_back(member.key, std::move(*value));
    if (node_.items.empty() && node_.members.empty()) return fault(ErrorId::kOutOfRange, path_ + " must not be empty");
    if (list.size() != node_.items.size() || map.size() != node_.members.size()) return std::nullopt;
    return list.empty() ? Value(std::move(map)) : Value(std::move(list));
  }

  std::optional<Value> read_renames() {
    if (node_.kind != YamlNode::Kind::kMap) return wrong_type("write {PATTERN: TEXT}");
    if (node_.members.empty()) return fault(ErrorId::kOutOfRange, path_ + " must not be empty");
    Field text = field_;
    text.type = FieldType::kText;
    ValueMap map;
    for (const YamlNode::Member& member : node_.members) {
      const std::string path = fmt::format("{}.{}", path_, member.key);
      std::optional<Value> value = ValueReader(text, member.value, path, report_).read();
      if (!value) continue;
      const auto got = std::ranges::count(*value->text(), '*'), most = std::ranges::count(member.key, '*');
      if (got > most) {
        report_.add(ErrorId::kOutOfRange, member.value.place, path,
                    fmt::format("{} has {} *, but its pattern has {}", path, got, most));
        continue;
      }
      map.emplace_back(member.key, std::move(*value));
    }
    if (map.size() != node_.members.size()) return std::nullopt;
    return map;
  }

  const Field& field_;
  const YamlNode& node_;
  std::string path_;
  Report& report_;
};

}  // namespace

std::optional<Value> read_field_value(const Field& field, const YamlNode& node, const std::string& path,
                                      Report& report) {
  return ValueReader(field, node, path, report).read();
}

std::optional<Value> read_free_value(const YamlNode& node, const std::string& path, Report& report) {
  static constexpr Field kAnyNumber{
      .parent = "", .name = "", .type = FieldType::kNumber, .range = {0, 0, -HUGE_VAL, HUGE_VAL, true, true}};
  switch (node.kind) {
    case YamlNode::Kind::kInvalid: return std::nullopt;
    case YamlNode::Kind::kEmpty:
    case YamlNode::Kind::kNull: return Value();
    case YamlNode::Kind::kScalar: {
      if (node.quoted) return node.text;
      const PlainScalar scalar = read_plain_scalar(node.text);
      if (scalar.leading_zero || scalar.not_finite || scalar.too_small)
        return read_field_value(kAnyNumber, node, path, report);
      return scalar.value;
    }
    case YamlNode::Kind::kList: {
      ValueList values;
      for (size_t i = 0; i < node.items.size(); ++i) {
        std::optional<Value> value = read_free_value(node.items[i], fmt::format("{}[{}]", path, i), report);
        if (!value) return std::nullopt;
        values.push_back(std::move(*value));
      }
      return values;
    }
    case YamlNode::Kind::kMap: break;
  }
  ValueMap map;
  for (const YamlNode::Member& member : node.members) {
    std::optional<Value> value = read_free_value(member.value, path + "." + member.key, report);
    if (!value) return std::nullopt;
    map.emplace_back(member.key, std::move(*value));
  }
  return map;
}

Value read_default(const Field& field, const FieldDefault& fallback) {
  Report report;
  report.add_source({OriginKind::kDefault, "", "", ""});
  YamlNode node;
  node.kind = field.is_list ? YamlNode::Kind::kList : YamlNode::Kind::kScalar;
  node.text = fallback.value;
  if (field.is_list) {
    std::string_view rest = fallback.value.substr(1, fallback.value.size() - 2);
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(", "), rest.size());
      YamlNode& item = node.items.emplace_back();
      item.kind = YamlNode::Kind::kScalar;
      item.text = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 2, rest.size()));
    }
  }
  std::optional<Value> value = read_field_value(field, node, field.path(), report);
  RUN_ASSERT(value.has_value());
  return std::move(*value);
}

}  // namespace runner::schema
