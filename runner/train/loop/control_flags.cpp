#include "runner/train/loop/control_flags.h"

#include <array>
#include <span>

#include "schema/base/error.h"

namespace runner::train {

// Reduces the maximum of a number and of its complement: if the results are not complements, the ranks' numbers differ.
ControlFlags sync_flags(const ControlFlags& mine, backends::ProcessGroup& ranks, int64_t step) {
  const auto call_digest = static_cast<int64_t>(mine.call_digest);
  std::array<int64_t, 8> all{mine.interrupted, mine.stop,    mine.save,         mine.drawn,
                             call_digest,      ~call_digest, mine.accumulation, ~mine.accumulation};
  ranks.all_reduce({backends::DType::kI64, backends::Shape{std::ssize(all)}}, std::as_writable_bytes(std::span(all)),
                   backends::Reduction::kMax, {"requests to stop or save", step});
  RUN_CHECK(all[4] == ~all[5], ErrorKind::kRun,
            "processes differ in step {}: different learning rates, clipping, losses, shapes of losses, updates or "
            "acc:join; every process must make the same calls with the same numbers",
            step);
  RUN_CHECK(all[6] == ~all[7], ErrorKind::kRun,
            "processes differ: acc.gradient_accumulation_steps is {} in one process and {} in another; set it to the "
            "same number in every process",
            ~all[7], all[6]);
  return {all[0] != 0, all[1] != 0, all[2] != 0, all[3], all[6], mine.call_digest};
}

}  // namespace runner::train
