// The batch that a hook's loop over batches is at.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "runner/data/loader.h"

namespace runner::train {

struct HookBatch {
  const data::Batch* batch = nullptr;  // null: none
  int64_t number = 0;                  // never used again in this process

  explicit operator bool() const { return batch != nullptr; }
  const data::Batch* operator->() const { return batch; }

  void take(data::Loader& loader) {
    static std::atomic<int64_t> taken = 0;
    batch = &loader.next();
    number = ++taken;
  }
};

}  // namespace runner::train
