// The persistent cache of an emulated TPU in the run's store: finds entries there, and gathers new ones for the writer.
//
// Entries are found by the SHA-256 of the binary and of what they were made from, so that another binary, which may
// plan otherwise, has entries of its own.  Not thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "backends/tpu/graph_store.h"
#include "store/compiled_graphs.h"

namespace runner::train {

class PersistentGraphs : public backends::tpu::GraphStore {
 public:
  // `store`: the file, which need not be there yet.  `binary`: names this program and the machine that it runs on.
  PersistentGraphs(std::filesystem::path store, std::string binary);

  // Throws Error(kData) for a damaged entry and Error(kStore) where the file cannot be used.
  std::optional<std::vector<std::byte>> find(backends::tpu::EntryBytes made_from) override;
  std::string name_of(backends::tpu::EntryBytes made_from) const override;
  void put(backends::tpu::EntryBytes made_from, backends::tpu::EntryBytes entry) override;

  // What is new since the last call.
  store::CompiledGraphs take();

 private:
  Sha256Digest key_of(backends::tpu::EntryBytes made_from) const;

  const std::filesystem::path path_;
  const std::string binary_;
  std::optional<store::Store> store_;
  store::CompiledGraphs gathered_;
};

}  // namespace runner::train
