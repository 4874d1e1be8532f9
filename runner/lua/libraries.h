// Libraries that every Lua state with a hook file provides in addition to the sandbox, so that a file which runs in one
// state runs in all.
#pragma once

namespace runner::lua {

class Runtime;

// Registers tensors, modules, optimizers, and the built-in modules of `require`.
void open_libraries(Runtime& runtime);

}  // namespace runner::lua
