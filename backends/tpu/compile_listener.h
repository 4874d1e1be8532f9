// Who is told that a graph is being compiled, which may take long.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace runner::backends::tpu {

class CompileListener {
 public:
  virtual ~CompileListener() = default;
  // A graph is compiled from now on until ended(), on the thread that calls.  `what`: which, and why; it takes a search
  // to tell, and any thread may ask until then.
  virtual void begun(std::function<std::string()> what) = 0;
  virtual void ended() = 0;
};

// Tells of a compilation, also of one that fails.
class ToldCompilation {
 public:
  // `listener`: null, or who is told.
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
