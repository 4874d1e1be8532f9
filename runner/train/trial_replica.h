// A replica that is laid out and compiles, and has neither memory nor the others: to learn what training would take.
#pragma once

#include <optional>

#include "backends/collectives/shared_collectives.h"
#include "runner/train/trainer.h"

namespace runner::train {

class TrialReplica {
 public:
  // All must outlive it.  Throws as Trainer does.
  TrialReplica(const schema::Recipe& recipe, const data::Encoding& encoding, backends::Device& device, Hooks* hooks)
      : others_(recipe.num_processes > 1 ? std::make_optional<Others>(static_cast<int>(recipe.num_processes))
                                         : std::nullopt),
        trainer_(recipe, encoding, device, hooks, ranks()) {}

  Trainer& trainer() { return trainer_; }
  // Null: it is the only one.
  backends::Collectives* ranks() { return others_ ? &others_->ranks : nullptr; }

 private:
  struct Others {
    explicit Others(int size) : memory(backends::SharedCollectives::memory_bytes(size)), ranks(memory, 0, size, {}) {}
    backends::SharedMemory memory;
    backends::SharedCollectives ranks;
  };

  std::optional<Others> others_;
  Trainer trainer_;
};

}  // namespace runner::train
