#include "backends/dist/fold.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "schema/base/error.h"

namespace runner::backends {
namespace {

constexpr size_t kBlock = 2048;  // elements; the block being folded stays in the L1 cache

// Combines the fold of earlier ranks with the value of the next. NaN takes precedence in kMin and kMax.
template <Reduction reduction, class T>
T combine(T before, T value) {
  if constexpr (reduction == Reduction::kSum) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(before) + static_cast<Unsigned>(value));
    } else {
      return before + value;
    }
  } else if constexpr (reduction == Reduction::kMin) {
    return value < before || value != value ? value : before;
  } else {
    return value > before || value != value ? value : before;
  }
}

template <Reduction reduction, class T>
void fold_block(std::span<const std::byte* const> sources, size_t first, size_t count, T* target) {
  const auto from = [&](size_t source) { return reinterpret_cast<const T*>(sources[source]) + first; };
  if (sources.size() == 1) {
    std::memmove(target, from(0), count * sizeof(T));
    return;
  }
  const T* before = from(0);
  for (size_t s = 1; s < sources.size(); ++s, before = target) {
    const T* const value = from(s);
    for (size_t i = 0; i < count; ++i) target[i] = combine<reduction>(before[i], value[i]);
  }
}

template <Reduction reduction, class T>
void fold_as(std::span<const std::byte* const> sources, size_t bytes, std::byte* target) {
  const size_t count = bytes / sizeof(T);
  for (size_t first = 0; first < count; first += kBlock)
    fold_block<reduction>(sources, first, std::min(kBlock, count - first), reinterpret_cast<T*>(target) + first);
}

template <class T>
void fold_by(Reduction reduction, std::span<const std::byte* const> sources, size_t bytes, std::byte* target) {
  switch (reduction) {
    case Reduction::kSum: return fold_as<Reduction::kSum, T>(sources, bytes, target);
    case Reduction::kMin: return fold_as<Reduction::kMin, T>(sources, bytes, target);
    case Reduction::kMax: return fold_as<Reduction::kMax, T>(sources, bytes, target);
  }
}

}  // namespace

void fold(DType dtype, Reduction reduction, std::span<const std::byte* const> sources, size_t bytes,
          std::byte* target) {
  switch (dtype) {
    case DType::kF32: return fold_by<float>(reduction, sources, bytes, target);
    case DType::kF64: return fold_by<double>(reduction, sources, bytes, target);
    case DType::kI32: return fold_by<int32_t>(reduction, sources, bytes, target);
    case DType::kI64: return fold_by<int64_t>(reduction, sources, bytes, target);
    default: RUN_ASSERT(false && "a type that is not reduced");
  }
}

}  // namespace runner::backends
