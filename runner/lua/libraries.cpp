#include "runner/lua/libraries.h"

#include "runner/lua/modules.h"
#include "runner/lua/optimizers.h"
#include "runner/lua/runtime.h"
#include "runner/lua/tensor.h"

namespace runner::lua {

void open_libraries(Runtime& runtime) {
  open_tensors(runtime.state());
  open_modules(runtime.state());
  open_optimizers(runtime.state());
  runtime.add_module("nn", open_nn);
  runtime.add_module("optim", open_optim);
}

}  // namespace runner::lua
