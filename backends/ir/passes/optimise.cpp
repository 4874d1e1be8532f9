#include <fmt/format.h>

#include "backends/ir/passes/passes.h"
#include "backends/ir/print.h"
#include "backends/runtime/debug.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

void show(const char* stage, const Program& program) {
  if (debug_level() < kDebugPasses) return;
  debug_print(fmt::format("-- {} ({} nodes)\n{}", stage, program.size(), to_string(program)));
  const std::string fault = verify(program);
  if (!fault.empty()) debug_print(fmt::format("-- after {}: {}\n", stage, fault));
  RUN_ASSERT(fault.empty());
}

}  // namespace

Program optimise(const Program& program) {
  show("recorded", program);
  Program folded = fold(program);
  show("fold", folded);
  Program merged = cse(folded);
  show("cse", merged);
  Program live = dce(merged);
  show("dce", live);
  return live;
}

}  // namespace runner::backends
