// A process group without symmetric memory: ranks are threads that give each other copies of their values.
//
// Every collective is built from one exchange, in which each rank receives what all ranks have sent. Reductions are the
// left fold of the received values.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "backends/dist/call_record.h"
#include "backends/dist/fold.h"
#include "backends/dist/folding_group.h"
#include "backends/dist/rank_error.h"

namespace runner::backends::testing {

// What the ranks of a group have in common. Thread-safe.
class CopyingHub {
 public:
  using Values = std::vector<std::vector<std::byte>>;  // by rank

  explicit CopyingHub(int size) : size_(static_cast<size_t>(size)), calls_(size_) { begin(); }

  size_t size() const { return size_; }

  std::shared_ptr<const Values> exchange(size_t rank, const CallRecord& call, std::span<const std::byte> mine) {
    std::unique_lock lock(mutex_);
    throw_failure_locked();
    std::shared_ptr<const Values> values = values_;
    const uint64_t round = round_;
    (*values_)[rank].assign(mine.begin(), mine.end());
    calls_[rank] = call;
    if (++arrived_ == size_) {
      end();
    } else {
      changed_.wait(lock, [&] { return round_ != round || failed_; });
    }
    if (round_ == round) throw_failure_locked();
    return values;
  }

  void fail(std::string_view reason, const SourceMark& where) {
    const std::lock_guard lock(mutex_);
    fail_locked(std::string(reason), where);
  }
  bool has_failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }
  void throw_failure() const {
    const std::lock_guard lock(mutex_);
    throw_failure_locked();
  }

 private:
  void begin() {
    values_ = std::make_shared<Values>(size_);
    arrived_ = 0;
  }
  void end() {
    for (const CallRecord& call : calls_)
      if (!call.matches(calls_[0])) return fail_locked(describe_disagreement(calls_), {});
    begin();
    ++round_;
    changed_.notify_all();
  }
  void fail_locked(std::string reason, const SourceMark& where) {
    if (failed_) return;
    failed_ = true;
    reason_ = std::move(reason);
    where_ = where;
    changed_.notify_all();
  }
  void throw_failure_locked() const {
    if (failed_) throw RankError(ErrorKind::kRun, reason_, where_);
  }

  const size_t size_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::shared_ptr<Values> values_;  // of the round in progress
  std::vector<CallRecord> calls_;
  size_t arrived_ = 0;
  uint64_t round_ = 0;
  bool failed_ = false;
  std::string reason_;
  SourceMark where_;
};

class CopyingGroup final : public FoldingGroup {
 public:
  CopyingGroup(CopyingHub& hub, int rank) : hub_(hub), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_.size()); }

  bool any(bool mine, const Site& site) override {
    const std::byte flag{mine};
    const auto all = exchange(CallRecord::of(CallKind::kBarrier, {}, site), {&flag, 1});
    return std::any_of(all->begin(), all->end(), [](const auto& each) { return each[0] != std::byte{}; });
  }
  void all_gather(const TensorType& type, std::span<const std::byte> mine, std::span<std::byte> all,
                  const Site& site) override {
    const auto values = exchange(CallRecord::of(CallKind::kAllGather, type, site), mine);
    std::byte* target = all.data();
    for (const auto& each : *values) target = std::copy(each.begin(), each.end(), target);
  }
  void broadcast(const TensorType& type, std::span<std::byte> values, int root, const Site& site) override {
    CallRecord call = CallRecord::of(CallKind::kBroadcast, type, site);
    call.root = root;
    const auto all = exchange(call, rank_ == root ? values : std::span<std::byte>());
    std::ranges::copy((*all)[static_cast<size_t>(root)], values.begin());
  }
  std::vector<std::string> gather_objects(std::string_view mine, const Site& site) override {
    const auto values = exchange(CallRecord::of(CallKind::kGatherObjects, {}, site), std::as_bytes(std::span(mine)));
    std::vector<std::string> texts;
    for (const auto& each : *values) texts.emplace_back(reinterpret_cast<const char*>(each.data()), each.size());
    return texts;
  }

  void fail(std::string_view reason, const SourceMark& where) noexcept override { hub_.fail(reason, where); }
  bool has_failed() const override { return hub_.has_failed(); }
  void throw_failure() const override { hub_.throw_failure(); }

 private:
  std::shared_ptr<const CopyingHub::Values> exchange(const CallRecord& call, std::span<const std::byte> mine) {
    return hub_.exchange(static_cast<size_t>(rank_), call, mine);
  }
  void fold_all(const CallRecord& record, std::span<const std::byte> values, size_t first,
                std::span<std::byte> wanted) override {
    const auto all = exchange(record, values);
    if (wanted.empty()) return;
    std::vector<const std::byte*> sources;
    for (const auto& each : *all) sources.push_back(each.data() + first);
    fold(record.type.dtype, record.reduction, sources, wanted.size(), wanted.data());
  }

  CopyingHub& hub_;
  const int rank_;
};

// Runs `body` on one thread per rank and waits for all of them.
inline void on_copying_threads(int size, const std::function<void(ProcessGroup&)>& body) {
  CopyingHub hub(size);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      CopyingGroup ranks(hub, rank);
      body(ranks);
    });
}

}  // namespace runner::backends::testing
