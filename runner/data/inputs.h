// The inputs that a data set gives a model: named tensors, the same for every batch.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>

#include "backends/tensor/dtype.h"
#include "backends/tensor/shape.h"

namespace runner::data {

// A batch contains (B, …) values of each input.
struct SampleInput {
  std::string name;                               // as in hooks and Programs: "features"
  backends::DType dtype = backends::DType::kF32;  // f32, or i64 for ids
  backends::Shape shape;                          // of one sample
  int64_t vocabulary = 0;                         // ids are in [0, vocabulary); 0 for f32

  static auto parts(auto& self) { return std::tie(self.name, self.dtype, self.shape, self.vocabulary); }
  size_t bytes() const { return static_cast<size_t>(shape.elements()) * backends::size_of(dtype); }  // of one sample
  bool operator==(const SampleInput&) const = default;
};

// Shape of a batch, from which the shapes of its inputs follow.
struct BatchShape {
  int64_t samples = 0;
  int64_t length = 0;  // tokens per sample if they differ between batches (Encoding::has_lengths()); 0: those of
                       // SampleInput::shape

  explicit(false) BatchShape(int64_t samples_ = 0, int64_t length_ = 0) : samples(samples_), length(length_) {}
  auto operator<=>(const BatchShape&) const = default;
};

// The first input has this name: the features of a sample, or the tokens of a text.
inline constexpr const char* kFeaturesName = "features";

// The name of the tokens in prepared files.
inline constexpr const char* kIdsName = "input_ids";
// The inputs of texts in addition to the tokens: 1, or 0 for a padding token; and the number of the text in a pair.
inline constexpr const char* kMaskName = "attention_mask";
inline constexpr const char* kSegmentsName = "token_type_ids";

// Largest number of inputs.
inline constexpr size_t kMaxInputs = 4;

// The bytes of an input as values of its dtype.
template <class T>
std::span<T> values_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}
template <class T>
std::span<const T> values_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace runner::data
