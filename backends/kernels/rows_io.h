// Elements of tensors in the type that a kernel computes in: in place, or converted from and to 16-bit storage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/prepare.h"

namespace runner::backends {

// Whether kernels compute in the type of the storage.
inline bool is_native(DType dtype) {
  return size_of(dtype) == size_of(compute_of(dtype));
}

// Returns elements [first, first + n) of `data` as T: in place, or converted in `room`, which is not read if they are
// native.
template <class T>
const T* read_elements(const std::byte* data, DType dtype, int64_t first, int64_t n, T* room) {
  const std::byte* const source = data + static_cast<size_t>(first) * size_of(dtype);
  if (is_native(dtype)) return reinterpret_cast<const T*>(source);
  loops().eltwise.load[static_cast<size_t>(dtype)](room, source, 1, n);
  return room;
}

// Returns where to write elements [first, first + n) of `data`: in place, or `room`. store_elements() stores the
// latter.
template <class T>
T* place_of_elements(std::byte* data, DType dtype, int64_t first, T* room) {
  return is_native(dtype) ? reinterpret_cast<T*>(data + static_cast<size_t>(first) * size_of(dtype)) : room;
}

// Converts `values` to elements [first, first + n) of `data`.
template <class T>
void store_elements(std::byte* data, DType dtype, int64_t first, const T* values, int64_t n) {
  loops().eltwise.store[static_cast<size_t>(dtype)](data + static_cast<size_t>(first) * size_of(dtype), values, n);
}

}  // namespace runner::backends
