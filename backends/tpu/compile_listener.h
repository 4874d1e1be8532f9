// Callback interface for graph compilations, which may take long.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace runner::backends::tpu {

class CompileListener {
 public:
  virtual ~CompileListener() = default;
  // Called when a compilation begins, on the compiling thread. `what`: returns which graph is compiled and why; it is
  // expensive, and any thread may call it until ended().
  virtual void begun(std::function<std::string()> what) = 0;
  virtual void ended() = 0;
};

// Calls begun() and ended() of a listener for the duration of a compilation, also if it throws.
class NotifiedCompilation {
 public:
  // `listener`: null if there is none.
  NotifiedCompilation(CompileListener* listener, std::function<std::string()> what) : listener_(listener) {
    if (listener_ != nullptr) listener_->begun(std::move(what));
  }
  ~NotifiedCompilation() {
    if (listener_ != nullptr) listener_->ended();
  }
  NotifiedCompilation(const NotifiedCompilation&) = delete;
  NotifiedCompilation& operator=(const NotifiedCompilation&) = delete;

 private:
  CompileListener* const listener_;
};

}  // namespace runner::backends::tpu
