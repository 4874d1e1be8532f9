// Who is told that a graph is being compiled, which may take long.
#pragma once

#include <string>

namespace runner::backends::tpu {

class CompileListener {
 public:
  virtual ~CompileListener() = default;
  // A graph is compiled from now on until ended(): which, and why.  On the thread that compiles.
  virtual void begun(std::string what) = 0;
  virtual void ended() = 0;
};

}  // namespace runner::backends::tpu
