// Rounds the features of a file to f32 without losing the digits of large numbers.
//
// f32 has 24 bits: above 2^24 neighbouring whole numbers, such as time stamps in ms, become equal. If the data are
// normalised, a column that begins with such a number is therefore stored relative to it, and normalisation subtracts
// the mean relative to it too. All other columns are stored as they are. f64 has 53 bits, which time stamps in ns
// exceed: whole numbers stay exact until they are subtracted. Thread safety: none.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace runner::data {

// A number of a file: high + low. `low` is the part of a whole number above 2^53 that f64 does not hold; otherwise 0.
struct WideNumber {
  double high = 0, low = 0;

  WideNumber() = default;
  explicit WideNumber(double value) : high(value) {}
  explicit WideNumber(int64_t value);
  explicit WideNumber(uint64_t value);
};

// Whether a number above 2^24 has digits that f32 does not hold. Numbers above 2^64 are no ids or time stamps, but
// magnitudes, for which 24 bits are enough.
bool loses_digits(const WideNumber& number);

// Returns the offset of a column, given its first value or its center: the value if it is above 2^24, else 0.
double offset_for(double value);

// Message if narrow() returns infinity for a finite f32.
inline constexpr const char* kTooFar = "is too far from the other values for f32";

class Narrowing {
 public:
  // `relative`: whether large columns may have an offset. `offsets` (width): those of an earlier pass; empty: none yet.
  Narrowing(size_t width, bool relative, std::span<const double> offsets);

  // Whether a value, already rounded to f32, needs narrow() with the number of the file. Column: index among the
  // features.
  bool needs(size_t column, float rounded) const { return std::fabs(rounded) >= kExact || offsets_[column] != 0; }
  // Returns the f32 to store. Call it in the order of the rows.
  float narrow(size_t column, const WideNumber& number);

  // The value of each column that is stored as 0; empty if that is 0 for all.
  std::vector<double> offsets() const;
  // Describes each column whose numbers lost digits. `has_recipe`: as in ReadOptions. `name_of` returns the name of a
  // feature for messages.
  template <class NameOf>
  std::vector<std::string> warnings(bool has_recipe, NameOf name_of) const {
    std::vector<std::string> texts;
    for (size_t column = 0; column < rounded_.size(); ++column)
      if (rounded_[column] > 0) texts.push_back(warning(name_of(column), rounded_[column], has_recipe));
    return texts;
  }

 private:
  static constexpr float kExact = 0x1p24f;  // whole numbers up to this are f32 numbers

  std::string warning(const std::string& column, int64_t count, bool has_recipe) const;

  bool relative_;
  std::vector<double> offsets_;   // NaN until the first value
  std::vector<int64_t> rounded_;  // number of values that lost digits
};

}  // namespace runner::data
