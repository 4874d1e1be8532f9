#include "runner/train/loop/train_control.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/train/engine/rank_list.h"
#include "runner/train/step/device_rules.h"
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

TrainControl::TrainControl(const Session& session, Hooks* hooks, const std::atomic<int>& stop)
    : session_(session), hooks_(hooks), stop_(stop) {}

bool TrainControl::must_end() const {
  return asked_to_stop() || (session_.rank() != 0 && session_.ranks->has_failed());
}

void TrainControl::agree_to_stop(const char* where) {
  if (session_.ranks != nullptr) agreed_to_stop_ |= session_.ranks->any(asked_to_stop(), {where, step()});
}

bool TrainControl::stops_evaluation() {
  if (session_.has_custom_loop) return false;
  if (session_.ranks == nullptr) return asked_to_stop();
  constexpr int64_t kSyncEvery = 8;  // batches: makes the cost of synchronising negligible
  if (evaluated_batches_++ % kSyncEvery != 0) return false;
  agree_to_stop("interrupts of an evaluation");
  return agreed_to_stop_;
}

void TrainControl::request_save(bool in_step, const std::string& name) {
  ++saves_requested_;
  if (!name.empty()) state_names_.insert(name);
  if (in_step) {
    save_requested_ = true;
  } else {
    save_reason_ = "hook";
  }
}

std::vector<std::string> TrainControl::take_state_names() {
  const std::set<std::string> names = std::exchange(state_names_, {});
  return {names.begin(), names.end()};
}

// Rank 0 saves, but any rank may have named the checkpoint. A name is one line.
void TrainControl::share_state_names() {
  const std::string mine = fmt::format("{}", fmt::join(state_names_, "\n"));
  for (const std::string& names : session_.ranks->gather_objects(mine, {"names of states", step()}))
    for (std::string_view rest = names; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      state_names_.emplace(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
}

void TrainControl::check_saves() const {
  if (session_.ranks == nullptr || !saves_together(session_.recipe)) return;
  std::vector<int64_t> asked(static_cast<size_t>(session_.ranks->size()));
  session_.ranks->all_gather({backends::DType::kI64, {}}, std::as_bytes(std::span(&saves_requested_, 1)),
                             std::as_writable_bytes(std::span(asked)), {"save_state", step()});
  const int64_t most = std::ranges::max(asked);
  std::vector<size_t> absent;
  for (size_t rank = 0; rank < asked.size(); ++rank)
    if (asked[rank] < most) absent.push_back(rank);
  RUN_CHECK(absent.empty(), ErrorKind::kRun,
            "acc:save_state: {1} did not call it in step {0}, so the other ranks would deadlock: in "
            "PyTorch/XLA 1.7 all ranks save together (tpu.dialect: xla-1.7); call it on every rank",
            step(), rank_list(absent));
}

void TrainControl::sync(int64_t accumulation, uint64_t call_digest) {
  check_saves();
  const ControlFlags all = sync_flags({.interrupted = asked_to_stop(),
                                       .stop = stop_requested_,
                                       .save = save_requested_,
                                       .drawn = hooks_ != nullptr ? hooks_->drawn() : 0,
                                       .accumulation = accumulation,
                                       .call_digest = call_digest},
                                      *session_.ranks, step());
  agreed_to_stop_ = all.interrupted;
  stopped_by_hook_ |= all.stop;  // also set by end_by_hook()
  save_requested_ = all.save;
  if (all.save) share_state_names();
  if (hooks_ != nullptr) hooks_->set_drawn(all.drawn);
}

}  // namespace runner::train
