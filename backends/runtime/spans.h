// What a thread does, and when: the raw material of traces.
//
// Code that is worth a span opens one (ScopedSpan) and knows nothing of who records.  A thread records where it has
// been given a recorder (RecordingThread) that is recording; elsewhere a span costs two loads and a branch.  Times are
// those of CLOCK_MONOTONIC, which all processes of a machine share. Thread safety: threads may record into one recorder
// at the same time.
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
  kStep,        // of the run: an optimizer window, with all that follows from it
  kData,        // a batch is made, or waited for
  kCompile,     // a step is recorded, or a Plan is built
  kExecute,     // a Plan runs
  kKernel,      // one kernel of it
  kOptimizer,   // a Plan runs that updates what replicas have together
  kTransfer,    // arrays are copied to or from the device
  kCollective,  // with the other replicas, waiting for them included
  kEvaluation,
  kState,  // a state is saved
};
std::string_view name_of(SpanKind kind);

// What a span deals with; 0 and "": nothing, or not known.
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
  // Keeps so many spans at most.
  explicit SpanRecorder(size_t most = size_t{1} << 20) : most_(most) {}

  // Forgets all spans, those that are open as well, and records.
  void begin();
  // Records no more; gives what has been recorded, as spans have ended.
  std::vector<Span> end();
  bool is_recording() const { return recording_.load(std::memory_order_relaxed); }
  // Counts the calls of begin(): a span is recorded where it ends in the one that it began in.
  uint64_t round() const { return round_.load(std::memory_order_relaxed); }

  // Numbers a thread; or what takes its place where times are predicted, not what has come to pass.
  int add_thread(std::string name);
  int add_predicted(std::string name);
  void add(Span span, uint64_t round);

  // Names, as they were added.
  std::vector<std::string> threads() const;
  // Of these, the numbers of those that are predicted.
  std::vector<int> predicted() const;
  // Spans since begin() that there was no room for.
  int64_t left_out() const;

 private:
  const size_t most_;
  std::atomic<bool> recording_{false};
  std::atomic<uint64_t> round_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Span> spans_;
  std::vector<std::string> threads_;
  std::vector<int> predicted_;
  int64_t left_out_ = 0;
};

// While one lives, the calling thread records into `recorder` (null: nowhere), which must outlive it.
class RecordingThread {
 public:
  RecordingThread(SpanRecorder* recorder, std::string name);
  // As one that add_thread() has numbered.
  RecordingThread(SpanRecorder& recorder, int thread) : before_(here_) { here_ = {&recorder, thread}; }
  ~RecordingThread();
  RecordingThread(const RecordingThread&) = delete;
  RecordingThread& operator=(const RecordingThread&) = delete;

  // That of the calling thread, for threads that work for it; null: none.
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

// From its beginning to its end.  `name` and `work.what` must outlive it.
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

  SpanRecorder* recorder_ = nullptr;  // null: nothing is recorded; the rest is not set then
  SpanKind kind_;
  std::string_view name_;
  SpanWork work_;
  uint64_t round_;
  int64_t begin_ns_;
};

}  // namespace runner::backends
