# The headers that most of our sources include, parsed once for all libraries of the product.  A source still includes
# what it uses: the preset `tidy` compiles without this.
function(use_headers_of precompiled target)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${precompiled})
  endif()
endfunction()

add_library(runner_headers OBJECT cmake/headers.cpp)
target_link_libraries(runner_headers PRIVATE runner_flags fmt::fmt)
target_precompile_headers(
  runner_headers
  PRIVATE <algorithm>
          <array>
          <cmath>
          <cstdint>
          <cstring>
          <filesystem>
          <functional>
          <map>
          <memory>
          <optional>
          <set>
          <span>
          <string>
          <string_view>
          <utility>
          <variant>
          <vector>
          <fmt/format.h>)
