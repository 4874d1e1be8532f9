#include "backends/tpu/scalar_signature.h"

#include <cmath>

#include <fmt/format.h>

#include "backends/graph/program.h"

namespace runner::backends::tpu {
namespace {

double rounded(double value) {
  return static_cast<double>(static_cast<float>(value));
}

bool is_baked(const TracedScalar& scalar) {
  const double seen = scalar.use == ScalarUse::kOperand ? rounded(scalar.value) : scalar.value;
  return seen == 0 || std::fabs(seen) == 1;
}

// As it is uploaded.
double value_of(const TracedScalar& scalar) {
  return scalar.use == ScalarUse::kValue ? scalar.value : rounded(scalar.value);
}

// Equal numbers are one parameter where they are uploaded in one dtype.
bool share(const TracedScalar& a, const TracedScalar& b) {
  return (a.use == ScalarUse::kValue) == (b.use == ScalarUse::kValue) && value_of(a) == value_of(b);
}

// The first scalar that shares a parameter with scalar `i`.
size_t first_of_class(std::span<const TracedScalar> scalars, size_t i) {
  size_t first = 0;
  while (first < i && (is_baked(scalars[first]) || !share(scalars[first], scalars[i]))) ++first;
  return first;
}

std::string text(const TracedScalar& scalar) {
  return fmt::format("{:.9g}", value_of(scalar) + 0.0);
}

}  // namespace

ScalarSignature signature_of(std::span<const TracedScalar> scalars) {
  // A parameter is the index of the first of its class; a constant is its bits, none of which is as small.
  ScalarSignature signature;
  for (size_t i = 0; i < scalars.size(); ++i)
    signature.push_back(is_baked(scalars[i]) ? ~pack_f64(rounded(scalars[i].value) + 0.0)
                                             : static_cast<int64_t>(first_of_class(scalars, i)));
  return signature;
}

std::string difference(std::span<const TracedScalar> before, std::span<const TracedScalar> now) {
  for (size_t i = 0; i < now.size(); ++i) {
    if (is_baked(now[i]) && (!is_baked(before[i]) || value_of(before[i]) != value_of(now[i])))
      return fmt::format("{} was {} and is {} now, which is part of the graph (0, 1 and -1 are)", now[i].name,
                         text(before[i]), text(now[i]));
    if (is_baked(now[i])) continue;
    if (is_baked(before[i]))
      return fmt::format("{} was {}, a part of the graph (0, 1 and -1 are), and is {} now, an input", now[i].name,
                         text(before[i]), text(now[i]));
    const size_t was = first_of_class(before, i), is = first_of_class(now, i);
    if (is != i && was != is)
      return fmt::format("{} has become equal to {}, {}: they are one input now", now[i].name, now[is].name,
                         text(now[i]));
    if (is == i && was != i)
      return fmt::format("{} and {}, which were equal, {}, are {} and {} now: they are two inputs", now[was].name,
                         now[i].name, text(before[i]), text(now[was]), text(now[i]));
  }
  return "";
}

}  // namespace runner::backends::tpu
