#include "backends/tpu/scalar_signature.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "backends/graph/program.h"
#include "backends/tensor/float16.h"

namespace runner::backends::tpu {
namespace {

double rounded(double value, DType dtype = DType::kF32) {
  std::array<std::byte, sizeof(double)> element;
  store_element(dtype, value, element.data());
  return load_element(dtype, element.data());
}

class Scalars {
 public:
  Scalars(std::span<const TracedScalar> scalars, const ScalarRules& rules) : scalars_(scalars), rules_(rules) {}

  std::string_view name(size_t i) const { return scalars_[i].name; }

  bool is_baked(size_t i) const {
    const bool as_written = rules_.one_type || scalars_[i].use != ScalarUse::kOperand;
    const double seen = as_written ? scalars_[i].value : rounded(scalars_[i].value);
    return rules_.bakes && (seen == 0 || std::fabs(seen) == 1);
  }

  // As it is uploaded.
  double value(size_t i) const {
    if (rules_.one_type) return rounded(scalars_[i].value, *rules_.one_type);
    return scalars_[i].use == ScalarUse::kValue ? scalars_[i].value : rounded(scalars_[i].value);
  }

  // The first scalar that shares a parameter with scalar `i`.
  size_t first_of_class(size_t i) const {
    size_t first = 0;
    while (first < i && (is_baked(first) || !share(first, i))) ++first;
    return first;
  }

  std::string text(size_t i) const { return fmt::format("{:.9g}", value(i) + 0.0); }

  // A parameter is the index of the first of its class; a constant is its bits, none of which is as small.
  int64_t word(size_t i) const {
    return is_baked(i) ? ~pack_f64(rounded(scalars_[i].value) + 0.0) : static_cast<int64_t>(first_of_class(i));
  }

 private:
  // Equal numbers are one parameter where they are uploaded in one dtype.
  bool share(size_t a, size_t b) const {
    const bool one_dtype =
        rules_.one_type || (scalars_[a].use == ScalarUse::kValue) == (scalars_[b].use == ScalarUse::kValue);
    return rules_.shares && one_dtype && value(a) == value(b);
  }

  const std::span<const TracedScalar> scalars_;
  const ScalarRules& rules_;
};

}  // namespace

ScalarSignature signature_of(std::span<const TracedScalar> scalars, const ScalarRules& rules) {
  const Scalars all(scalars, rules);
  ScalarSignature signature;
  for (size_t i = 0; i < scalars.size(); ++i) signature.push_back(all.word(i));
  return signature;
}

std::string difference(std::span<const TracedScalar> before, std::span<const TracedScalar> now,
                       const ScalarRules& rules) {
  const Scalars were(before, rules), are(now, rules);
  for (size_t i = 0; i < now.size(); ++i) {
    if (are.is_baked(i) && (!were.is_baked(i) || were.value(i) != are.value(i)))
      return fmt::format("{} was {} and is {} now, which is part of the graph (0, 1 and -1 are)", are.name(i),
                         were.text(i), are.text(i));
    if (are.is_baked(i)) continue;
    if (were.is_baked(i))
      return fmt::format("{} was {}, a part of the graph (0, 1 and -1 are), and is {} now, an input", are.name(i),
                         were.text(i), are.text(i));
    const size_t was = were.first_of_class(i), is = are.first_of_class(i);
    if (is != i && was != is)
      return fmt::format("{} has become equal to {}, {}: they are one input now", are.name(i), are.name(is),
                         are.text(i));
    if (is == i && was != i)
      return fmt::format("{} and {}, which were equal, {}, are {} and {} now: they are two inputs", are.name(was),
                         are.name(i), were.text(i), are.text(was), are.text(i));
  }
  return "";
}

}  // namespace runner::backends::tpu
