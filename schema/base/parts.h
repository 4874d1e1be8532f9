// Members of a class, listed once for all who visit them.
//
// A class lists them by `static auto parts(auto& self) { return std::tie(self.a_, self.b_); }`. It has PartsAccess as a
// friend if that function or its default constructor is private.
#pragma once

#include <tuple>
#include <type_traits>

namespace runner {

class PartsAccess {
 public:
  template <class T>
  static auto of(T& value) -> decltype(std::remove_const_t<T>::parts(value)) {
    return std::remove_const_t<T>::parts(value);
  }
  template <class T>
  static T make() {
    return T();
  }
};

}  // namespace runner
