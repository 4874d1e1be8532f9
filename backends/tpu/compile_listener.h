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
class ToldCompilation {
 public:
  // `listener`: null if there is none.
  ToldCompilation(CompileListener* listener, std::function<std::string()> what) : listener_(listener) {
    if (listener_ != nullptr) listener_->begun(std::move(what));
  }
  ~ToldCompilation() {
    if (listener_ != nullptr) listener_->ended();
  }
  ToldCompilation(const ToldCompilation&) = delete;
  ToldCompilation& operator=(const ToldCompilation&) = delete;

 private:
  CompileListener* const listener_;
};

}  // namespace runner::backends::tpu
