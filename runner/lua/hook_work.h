// Counts the work of a hook's steps, and reports work that keeps growing: such a run takes time that grows with the
// square of its steps.
//
// Decided from counts alone: values read and operations recorded per batch, and operations that each read executes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "backends/ir/program.h"

struct lua_State;

namespace runner::lua {

// Detects counts that keep growing.
//
// Compares the smallest counts of windows that double in length: counts 8 to 15, 16 to 31, and so on. A large count now
// and then, as of an evaluation or of a short epoch, therefore does not matter. The counts grow if the smallest one
// increases by a quarter or more in three windows in a row.
class GrowthWatch {
 public:
  // `least`: the count must have grown by at least as much.
  explicit GrowthWatch(double least) : least_(least) {}

  struct Growth {
    double from, to;  // smallest counts of the first and the last window
  };
  // Returns the growth, if this is the count that shows it.
  std::optional<Growth> add(double count);

 private:
  static constexpr double kFactor = 1.25;
  static constexpr int64_t kFirst = 8;

  const double least_;
  int64_t counts_ = 0;
  double smallest_ = 0;              // of the current window
  std::array<double, 4> windows_{};  // smallest counts of the last windows, newest last; 0: none
};

class HookWork {
 public:
  // Call when a recording begins, and when it ends.
  void begin_recording(const backends::Program& program);
  void end_recording(const backends::Program& program);
  // Call before a value of the recording is read.
  void count_read(lua_State* state, const backends::Program& program, backends::ValueId value);

  // Ends an optimizer step. Returns a warning the first time that the work of steps keeps growing.
  std::optional<std::string> end_step(int64_t batches);

 private:
  // Work of a kind per batch. Once it grows, the lines of the next step are counted for the warning.
  struct Kind {
    explicit Kind(double least) : watch(least) {}
    GrowthWatch watch;
    int64_t count = 0;  // in this step
    std::optional<GrowthWatch::Growth> growth;
    std::map<std::string, int64_t> lines;  // by line of the hook
    void end_step(int64_t batches);
    std::string at_busiest_line() const;
  };

  static constexpr double kMinReads = 16, kMinNodes = 100;

  Kind reads_{kMinReads}, nodes_{kMinNodes};
  std::optional<GrowthWatch> reads_of_recording_;  // operations by read
  std::optional<std::string> found_;               // a warning about reads of one recording
  int first_node_ = 0;                             // of this recording
  bool has_warned_ = false;
};

}  // namespace runner::lua
