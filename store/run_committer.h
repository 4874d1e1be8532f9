// Records one run in one store; the part of RunWriter that runs on the writer thread.
//
// Everything added is kept until it is committed, so any call that throws may be repeated. Thread safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/artifacts.h"
#include "store/compiled_graphs.h"
#include "store/device_report.h"
#include "store/provenance.h"
#include "store/removal.h"
#include "store/series_writer.h"
#include "store/state_store.h"

namespace runner::store {

struct WriterOptions {
  std::chrono::milliseconds flush_every{250};
  std::chrono::milliseconds heartbeat_every{10'000};
  size_t ring_points = size_t{1} << 15;  // a power of two; each point takes 32 bytes
  size_t state_chunk_bytes = kStateChunkBytes;
  int64_t checkpoint_pages = 2048;  // log growth, in pages of 4 KiB, after which the log is checkpointed
};

enum class Level { kInfo, kWarning, kError };
std::string_view to_string(Level level);

class RunCommitter {
 public:
  struct Event {
    int64_t time_ms = 0;
    Level level = Level::kInfo;
    std::string kind, json;
  };

  // `run`: a run to create, or an existing run.
  RunCommitter(Store store, std::variant<RunInfo, RunHandle> run, const WriterOptions& options);

  // Creates the run in the store if it is not there yet. Later calls return at once. Call it before series().
  const RunHandle& begin();
  bool begun() const { return series_.has_value(); }
  SeriesWriter& series() { return *series_; }

  void add_event(Event event) { events_.push_back(std::move(event)); }
  void add_provenance(Provenance provenance) { provenance_ = std::move(provenance); }
  void add_device_report(DeviceReport report) { device_report_ = std::move(report); }
  void add_compiled_graphs(CompiledGraphs graphs);

  // Writes points, events, provenance, the device report, compiled graphs and, when due, a heartbeat in one
  // transaction. Does nothing if there is nothing to write. `durable`: always writes, and syncs before returning.
  // Returns whether it wrote.
  bool commit(int64_t dropped_points, bool durable = false);

  StateInfo save(const StateSnapshot& snapshot);
  void prune(const Retention& retention);
  ArtifactInfo save(const ArtifactHeader& header, const ArtifactSource& source);
  void finish(const RunEnd& end);
  // Records only the end, for which log space is reserved even on a full disk. Uncommitted points count as dropped.
  void give_up(const RunEnd& end, int64_t dropped_points);

  // Checkpoints the write-ahead log if it has grown enough.
  void checkpoint();
  // Checkpoints the write-ahead log, however short it is.
  void fold_log();

 private:
  bool heartbeat_due() const;
  void write_events();

  Store store_;
  std::variant<RunInfo, RunHandle> run_;
  WriterOptions options_;
  std::optional<SeriesWriter> series_;
  std::vector<Event> events_;
  std::optional<Provenance> provenance_;
  std::optional<DeviceReport> device_report_;
  CompiledGraphs compiled_graphs_;
  std::chrono::steady_clock::time_point last_heartbeat_ = std::chrono::steady_clock::now();
  bool finished_ = false;
};

}  // namespace runner::store
