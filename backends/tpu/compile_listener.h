// Who is told that a graph is being compiled, which may take long.
#pragma once

#include <functional>
#include <string>

namespace runner::backends::tpu {

class CompileListener {
 public:
  virtual ~CompileListener() = default;
  // A graph is compiled from now on until ended(), on the thread that calls.  `what`: which, and why; it takes a search
  // to tell, and any thread may ask until then.
  virtual void begun(std::function<std::string()> what) = 0;
  virtual void ended() = 0;
};

}  // namespace runner::backends::tpu
