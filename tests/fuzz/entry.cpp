// Entry point for libFuzzer or our own driver. FUZZ_TARGET: name of a target.
#include <algorithm>
#include <string_view>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const runner::fuzz::Target& target =
      *std::find_if(runner::fuzz::targets().begin(), runner::fuzz::targets().end(),
                    [](const auto& row) { return std::string_view(row.name) == FUZZ_TARGET; });
  runner::fuzz::run(target, {data, size});
  return 0;
}
