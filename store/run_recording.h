// What the writer thread of a RunWriter does, without the thread: records one run in one store.
//
// Everything given is kept until a commit has it, so that any call that throws may be repeated.
// Thread safety: none.
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
#include "store/device_account.h"
#include "store/provenance.h"
#include "store/removal.h"
#include "store/series_writer.h"
#include "store/state_store.h"

namespace runner::store {

struct WriterOptions {
  std::chrono::milliseconds flush_every{250};
  std::chrono::milliseconds heartbeat_every{10'000};
  size_t ring_points = size_t{1} << 15;  // a power of two; 32 bytes each
  size_t state_chunk_bytes = kStateChunkBytes;
  int64_t checkpoint_pages = 2048;  // growth of the log, in pages of 4 KiB, after which it is folded into the file
};

enum class Level { kInfo, kWarning, kError };
std::string_view to_string(Level level);  // "info", "warning", "error"

class RunRecording {
 public:
  struct Event {
    int64_t time_ms = 0;
    Level level = Level::kInfo;
    std::string kind, json;
  };

  // `run`: a run to create, or one that is there.
  RunRecording(Store store, std::variant<RunInfo, RunHandle> run, const WriterOptions& options);

  // Makes sure that the run is in the store; costs nothing afterwards.  Call it before series() is used.
  const RunHandle& begin();
  bool begun() const { return series_.has_value(); }
  SeriesWriter& series() { return *series_; }

  void add_event(Event event) { events_.push_back(std::move(event)); }
  void add_provenance(Provenance provenance) { provenance_ = std::move(provenance); }
  void add_device_account(DeviceAccount account) { device_account_ = std::move(account); }
  void add_compiled_graphs(CompiledGraphs graphs);

  // Writes points, events, provenance, a device's account, what it has compiled and, when it is due, a sign of life, in
  // one transaction; nothing if there is nothing to write. `durable`: synced when it returns, and written in any case.
  // Returns whether it wrote.
  bool commit(int64_t dropped_points, bool durable = false);

  StateInfo save(const StateSnapshot& snapshot);
  void prune(const Retention& retention);
  ArtifactInfo save(const ArtifactHeader& header, const ArtifactSource& source);
  void finish(const RunEnd& end);
  // The end alone, which there is room for on a full disk; what waits to be written counts as dropped.
  void give_up(const RunEnd& end, int64_t dropped_points);

  // Folds the log into the file when it has grown enough.
  void checkpoint();
  // The same however short the log is.
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
  std::optional<DeviceAccount> device_account_;
  CompiledGraphs compiled_graphs_;
  std::chrono::steady_clock::time_point last_heartbeat_ = std::chrono::steady_clock::now();
  bool finished_ = false;
};

}  // namespace runner::store
