#include "backends/tpu/scalar_signature.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "backends/tpu/numerics.h"

namespace runner::backends::tpu {
namespace {

// Shortest text that distinguishes the number from others of its type; bf16 is printed as f32.
std::string digits(double value, DType dtype) {
  const bool is_double = dtype == DType::kF64 || dtype == DType::kI64;
  return is_double ? fmt::format("{}", value + 0.0) : fmt::format("{}", static_cast<float>(value) + 0.0f);
}

// ---- one number ----------------------------------------------------------------------------------------------------

enum Kind : int64_t { kConstant, kIntegerConstant, kAttribute, kIntegerAttribute, kParameter };

// Contribution of a single scalar: its kind (for parameters including the dtype), and the bits of a baked value.
using Words = std::pair<int64_t, int64_t>;

class Scalar {
 public:
  Scalar(const TracedScalar& scalar, const ScalarRules& rules) : scalar_(scalar), rules_(rules) {}

  std::string_view name() const { return scalar_.name; }
  // The name; if `other` has the same name, with optimizer, group or batch to distinguish them.
  std::string distinguishing_name(const Scalar& other) const {
    std::string text(name());
    if (other.name() != name()) return text;
    if (scalar_.optimizer != other.scalar_.optimizer) text += fmt::format(" of optimizer {}", scalar_.optimizer);
    if (scalar_.group != other.scalar_.group) text += fmt::format(" of parameter group {}", scalar_.group);
    if (scalar_.batch != other.scalar_.batch) text += fmt::format(" in batch {}", scalar_.batch);
    return text;
  }

  bool is_baked() const {
    const double value = scalar_.value;
    const bool special = rules_.one_type ? value == 0 || std::fabs(value) == 1 : is_special(scalar_);
    return rules_.bakes && (special || is_attribute());
  }
  bool is_attribute() const { return scalar_.use == ScalarUse::kAttribute; }

  // Dtype and value as uploaded.
  DType dtype() const { return as_uploaded(scalar_, rules_).dtype; }
  double value() const { return as_uploaded(scalar_, rules_).value; }

  // 1 and 1.0 are different constants unless they are first converted to tensors of the other operand's type.
  Words words() const {
    if (!is_baked()) return {kParameter + (rules_.bakes ? static_cast<int64_t>(dtype()) : 0), 0};
    if (is_attribute()) return {scalar_.is_integer ? kIntegerAttribute : kAttribute, pack_f64(scalar_.value + 0.0)};
    const double value = held_in(DType::kF32, scalar_.value) + 0.0;
    const bool has_type = scalar_.use == ScalarUse::kValue || (scalar_.use == ScalarUse::kFactor && value != 0);
    return {scalar_.is_integer && has_type ? kIntegerConstant : kConstant, pack_f64(value)};
  }

  // A baked scalar as written, with the value the graph sees if that differs; a parameter as uploaded.
  std::string text() const {
    if (!is_baked()) return digits(value(), dtype());
    const double seen = is_attribute() ? scalar_.value : held_in(DType::kF32, scalar_.value);
    const std::string written = digits(scalar_.value, DType::kF64);
    return seen == scalar_.value ? written : fmt::format("{} ({} as f32)", written, digits(seen, DType::kF32));
  }
  // The same with the type: of the source text for baked scalars, else as uploaded.
  std::string text_with_type() const {
    const DType written = scalar_.is_integer ? DType::kI64 : DType::kF64;
    return fmt::format("{} {}", text(), backends::name_of(is_baked() ? written : dtype()));
  }

 private:
  const TracedScalar& scalar_;
  const ScalarRules& rules_;
};

// ---- all numbers ---------------------------------------------------------------------------------------------------

class Scalars {
 public:
  Scalars(std::span<const TracedScalar> scalars, const ScalarRules& rules) {
    for (const TracedScalar& scalar : scalars) scalars_.emplace_back(scalar, rules);
    find_classes(rules);
  }

  size_t size() const { return scalars_.size(); }
  const Scalar& operator[](size_t i) const { return scalars_[i]; }
  // The first scalar that shares a parameter with scalar `i`; `i` itself if there is none.
  size_t first_of_class(size_t i) const { return first_[i]; }

 private:
  // Equal scalars share a parameter if they are uploaded in the same dtype.
  void find_classes(const ScalarRules& rules) {
    std::vector<std::tuple<DType, int64_t, size_t>> parameters;
    for (size_t i = 0; i < size(); ++i) {
      first_.push_back(i);
      if (!scalars_[i].is_baked() && rules.shares)
        parameters.emplace_back(scalars_[i].dtype(), pack_f64(scalars_[i].value() + 0.0), i);
    }
    std::sort(parameters.begin(), parameters.end());
    for (size_t k = 1; k < parameters.size(); ++k) {
      const auto& [dtype, bits, i] = parameters[k];
      const auto& [dtype_before, bits_before, before] = parameters[k - 1];
      if (dtype == dtype_before && bits == bits_before) first_[i] = first_[before];
    }
  }

  std::vector<Scalar> scalars_;
  std::vector<size_t> first_;
};

std::string difference_of_one(const Scalar& before, const Scalar& now) {
  if (before.words() == now.words()) return "";
  if (now.is_baked() && now.is_attribute())
    return fmt::format(
        "{} changed from {} to {}, which is a constant of the graph because it is an attribute of the op", now.name(),
        before.text_with_type(), now.text_with_type());
  if (now.is_baked()) {
    const bool same = before.value() == now.value();
    return fmt::format("{} changed from {} to {}; the numbers 0, 1 and -1 are constants of the graph", now.name(),
                       same ? before.text_with_type() : before.text(), same ? now.text_with_type() : now.text());
  }
  if (before.is_baked())
    return fmt::format("{} changed from {}, a constant of the graph like 0, 1 and -1, to {}, an input", now.name(),
                       before.text(), now.text());
  return fmt::format("{} changed from {} to {}, an input of another type", now.name(), before.text_with_type(),
                     now.text_with_type());
}

}  // namespace

bool is_parameter(const TracedScalar& scalar, const ScalarRules& rules) {
  return !Scalar(scalar, rules).is_baked();
}

UploadedNumber as_uploaded(const TracedScalar& scalar, const ScalarRules& rules) {
  if (rules.one_type) return {*rules.one_type, held_in(*rules.one_type, scalar.value)};
  return {dtype_of(scalar), value_of(scalar)};
}

ScalarSignature signature_of(std::span<const TracedScalar> scalars, const ScalarRules& rules) {
  const Scalars all(scalars, rules);
  ScalarSignature signature;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto [kind, bits] = all[i].words();
    signature.push_back(kind);
    signature.push_back(all[i].is_baked() ? bits : static_cast<int64_t>(all.first_of_class(i)));
  }
  return signature;
}

std::optional<size_t> parameter_of(const ScalarSignature& signature, size_t scalar) {
  if (signature[2 * scalar] < kParameter) return std::nullopt;
  return static_cast<size_t>(signature[2 * scalar + 1]);
}

Difference difference(std::span<const TracedScalar> before, std::span<const TracedScalar> now,
                      const ScalarRules& rules) {
  if (before.size() != now.size())
    return {fmt::format("the graph has {} scalar inputs, {} before", now.size(), before.size())};
  const Scalars were(before, rules), are(now, rules);
  for (size_t i = 0; i < now.size(); ++i) {
    if (std::string text = difference_of_one(were[i], are[i]); !text.empty())
      return {std::move(text), i, are[i].is_attribute()};
    const size_t was = were.first_of_class(i), is = are.first_of_class(i);
    if (is != i && was != is)
      return {fmt::format("{} became equal to {}, {}: they are one input now", are[i].distinguishing_name(are[is]),
                          are[is].distinguishing_name(are[i]), are[i].text()),
              i};
    if (is == i && was != i)
      return {fmt::format("{} and {} were equal, {}, and are {} and {} now: they are two inputs",
                          are[was].distinguishing_name(are[i]), are[i].distinguishing_name(are[was]), were[i].text(),
                          are[was].text(), are[i].text()),
              i};
  }
  return {};
}

}  // namespace runner::backends::tpu
