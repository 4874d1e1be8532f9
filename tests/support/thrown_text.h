// Text of the error that a call throws.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include "schema/base/error.h"

namespace runner::support {

// Returns what() of the exception of type `E` that `call` throws, or "" if it throws none. `kind`: the expected kind,
// if given.
template <class E = Error>
std::string thrown_text(const std::function<void()>& call, std::optional<ErrorKind> kind = std::nullopt) {
  try {
    call();
  } catch (const E& error) {
    if constexpr (std::is_base_of_v<Error, E>) {
      EXPECT_EQ(error.kind(), kind.value_or(error.kind()));
    }
    return error.what();
  }
  return "";
}

}  // namespace runner::support
