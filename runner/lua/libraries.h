// What every state that runs a hook file has beyond the sandbox, so that a file that runs in one runs in all.
#pragma once

namespace runner::lua {

class Runtime;

// Registers tensors, modules and optimizers, and the built-in modules of `require`.
void open_libraries(Runtime& runtime);

}  // namespace runner::lua
