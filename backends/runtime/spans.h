// Spans of activity per thread: the data of traces.
//
// Code opens a ScopedSpan and does not know whether it is recorded. A thread records if it has a recorder
// (RecordingThread) that is recording; otherwise a span costs two loads and a branch. Times are CLOCK_MONOTONIC, which
// all processes of a machine share. Thread safety: several threads may record into one recorder concurrently.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace runner::backends {

enum class SpanKind : uint8_t {
  kStep,        // an optimizer step of the run, with everything that follows from it
  kData,        // a batch is prepared, or waited for
  kCompile,     // a step is recorded, or a Plan is built
  kExecute,     // a Plan runs
  kKernel,      // one kernel of a Plan
  kOptimizer,   // a Plan that updates weights shared by ranks runs
  kTransfer,    // arrays are copied to or from the device
  kCollective,  // a collective, including waiting for other ranks
  kEvaluation,
  kState,  // a checkpoint is saved
};
std::string_view name_of(SpanKind kind);

// Work of a span; 0 and "": none, or unknown.
struct SpanWork {
  int64_t bytes = 0, flops = 0;
  std::string_view what = {};
};

struct Span {
  SpanKind kind = SpanKind::kStep;
  int thread = 0;  // index of SpanRecorder::threads()
  std::string name;
  int64_t begin_ns = 0, end_ns = 0;
  int64_t bytes = 0, flops = 0;
  std::string what;
};

int64_t monotonic_ns();

class SpanRecorder {
 public:
  // `most`: maximum number of spans kept.
  explicit SpanRecorder(size_t most = size_t{1} << 20) : most_(most) {}

  // Discards all spans, including open ones, and starts recording.
  void begin();
  // Stops recording. Returns the spans in the order in which they ended.
  std::vector<Span> end();
  bool is_recording() const { return recording_.load(std::memory_order_relaxed); }
  // Number of calls of begin(). A span is recorded only if it ends in the round in which it began.
  uint64_t round() const { return round_.load(std::memory_order_relaxed); }

  // Add a track and return its number: for a thread, or for predicted times.
  int add_thread(std::string name);
  int add_predicted(std::string name);
  void add(Span span, uint64_t round);

  // Names of all tracks, in the order of their numbers.
  std::vector<std::string> threads() const;
  // Numbers of the tracks with predicted times.
  std::vector<int> predicted() const;
  // Spans since begin() that exceeded the maximum.
  int64_t left_out() const;

 private:
  const size_t most_;
  std::atomic<bool> recording_{false};
  std::atomic<uint64_t> round_{0};
  mutable std::mutex mutex_;  // guards the members below
  std::vector<Span> spans_;
  std::vector<std::string> threads_;
  std::vector<int> predicted_;
  int64_t left_out_ = 0;
};

// While an object exists, the calling thread records into `recorder` (null: not at all), which must outlive it.
class RecordingThread {
 public:
  RecordingThread(SpanRecorder* recorder, std::string name);
  // Records to a track returned by add_thread().
  RecordingThread(SpanRecorder& recorder, int thread) : before_(here_) { here_ = {&recorder, thread}; }
  ~RecordingThread();
  RecordingThread(const RecordingThread&) = delete;
  RecordingThread& operator=(const RecordingThread&) = delete;

  // Recorder of the calling thread, to be passed on to its helper threads; null: none.
  static SpanRecorder* recorder() { return here_.recorder; }

 private:
  friend class ScopedSpan;
  struct Here {
    SpanRecorder* recorder = nullptr;
    int thread = 0;
  };
  static constinit thread_local Here here_;

  const Here before_;
};

// Records a span from construction to destruction. `name` and `work.what` must outlive it.
class ScopedSpan {
 public:
  ScopedSpan(SpanKind kind, std::string_view name, const SpanWork& work = {}) {
    SpanRecorder* const recorder = RecordingThread::here_.recorder;
    if (recorder != nullptr && recorder->is_recording()) open(*recorder, kind, name, work);
  }
  ~ScopedSpan() {
    if (recorder_ != nullptr) close();
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  void open(SpanRecorder& recorder, SpanKind kind, std::string_view name, const SpanWork& work);
  void close();

  SpanRecorder* recorder_ = nullptr;  // null: not recorded, and the members below are not set
  SpanKind kind_;
  std::string_view name_;
  SpanWork work_;
  uint64_t round_;
  int64_t begin_ns_;
};

}  // namespace runner::backends
