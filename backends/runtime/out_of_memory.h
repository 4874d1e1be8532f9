// Error of a device that runs out of memory. The caller may retry with less (train.auto_batch_size).
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "schema/base/error.h"

namespace runner::backends {

class OutOfMemory : public Error {
 public:
  // `bytes`: needed; `limit`: available.
  OutOfMemory(std::string message, int64_t bytes, int64_t limit)
      : Error(ErrorKind::kRun, std::move(message)), bytes_(bytes), limit_(limit) {}

  int64_t bytes() const { return bytes_; }
  int64_t limit() const { return limit_; }

 private:
  int64_t bytes_, limit_;
};

}  // namespace runner::backends
