// The error of a device that has not the memory for something: what may be tried again with less
// (train.auto_batch_size).
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "schema/error.h"

namespace runner::backends {

class OutOfMemory : public Error {
 public:
  // bytes: that are needed; limit: that there are.
  OutOfMemory(std::string message, int64_t bytes, int64_t limit)
      : Error(ErrorKind::kRun, std::move(message)), bytes_(bytes), limit_(limit) {}

  int64_t bytes() const { return bytes_; }
  int64_t limit() const { return limit_; }

 private:
  int64_t bytes_, limit_;
};

}  // namespace runner::backends
