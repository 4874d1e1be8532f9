// Interface of the run to a hook: queries and requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/dist/process_group.h"

namespace runner::train {

// The defaults are those of a run of one process that records nothing.
class HookRun {
 public:
  virtual ~HookRun() = default;
  virtual std::string_view run() const { return {}; }
  virtual int64_t epoch() const { return 0; }  // finished epochs
  virtual int64_t step() const { return 0; }   // finished optimizer steps
  virtual int64_t steps() const { return 0; }  // of the whole run
  // Returns the latest point of a metric.
  virtual std::optional<double> metric(const std::string& /*name*/) const { return std::nullopt; }
  virtual void log(const std::string& /*name*/, double /*value*/) {}  // records a point at step()
  virtual int64_t accumulation() const { return 1; }                  // batches per optimizer step
  virtual void set_accumulation(int64_t /*batches*/) {}               // takes effect with the next optimizer step
  // Requests a checkpoint after the current optimizer step. `name`: its name; empty for none.
  virtual void save(const std::string& /*name*/) {}
  // Call after the weights have been replaced. `from_file`: not by those of a checkpoint of the run.
  virtual void weights_loaded(bool /*from_file*/) {}
  virtual void stop() {}  // ends the run after the current optimizer step
  // Whether a call in progress must end: a signal has arrived, or another rank has ended the run.
  virtual bool must_end() const { return false; }
  virtual void print(std::string_view /*text*/) {}
  virtual backends::ProcessGroup* ranks() const { return nullptr; }  // null: this process trains alone
  // Stores bytes with the run under a relative path. Throws Error(kRun) for an invalid name.
  virtual void save_artifact(const std::string& /*name*/, std::string_view /*kind*/, std::vector<std::byte> /*bytes*/) {
  }
  // Stores the current parameters like save_artifact(), in the files of formats::model_files.
  virtual void save_model(const std::string& /*name*/, int64_t /*max_shard_size*/) {}
};

}  // namespace runner::train
