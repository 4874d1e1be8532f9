// A member of an aggregate that must be initialised.
#pragma once

#include <concepts>

namespace runner {

// Has no default constructor, so that an initialiser that leaves out the member does not compile.
template <class T>
class Required {
 public:
  template <std::convertible_to<T> From>
  constexpr explicit(false) Required(const From& value) : value_(value) {}
  constexpr explicit(false) operator const T&() const { return value_; }
  constexpr const T& operator*() const { return value_; }
  constexpr const T* operator->() const { return &value_; }

 private:
  T value_;
};

}  // namespace runner
