// Process group through SharedMemory, between processes or threads.
//
// Values are passed in pieces that fit into the caches, so that a large reduction reads and writes each rank's values
// once in memory. Each piece is folded in place: a small one by every rank for itself, a large one by all ranks
// together, each folding a part.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/dist/call_record.h"
#include "backends/dist/folding_group.h"
#include "backends/dist/shared_memory.h"
#include "backends/runtime/backoff.h"

namespace runner::backends {

class SharedMemoryGroup final : public FoldingGroup {
 public:
  struct Options {
    std::chrono::milliseconds timeout = std::chrono::seconds(600);  // of one wait for other ranks
    bool spin = true;  // before sleeping; false if there are more ranks than cores
    // For messages, if these are some of the ranks of a run: the number of the first, and the host.
    int first_rank = 0;
    std::string host = {};
    int cores = 0;  // see ProcessGroup::cores()
  };

  // Options for ranks on this machine: they spin if each has a core.
  static Options options_for(int size, std::chrono::milliseconds timeout);

  // Size of the shared memory for `size` ranks.
  static size_t memory_bytes(int size);
  // `memory`: at least memory_bytes(size), zeroed before the first rank starts; must outlive the ranks.
  SharedMemoryGroup(SharedMemory& memory, int rank, int size, const Options& options);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int cores() const override { return options_.cores; }
  const Options& options() const { return options_; }
  bool any(bool mine, const Site& site) override;
  void all_gather(const TensorType& type, std::span<const std::byte> mine, std::span<std::byte> all,
                  const Site& site) override;
  void broadcast(const TensorType& type, std::span<std::byte> values, int root, const Site& site) override;
  std::vector<std::string> gather_objects(std::string_view mine, const Site& site) override;
  bool has_symmetric_memory() const override { return true; }
  std::shared_ptr<std::byte> symmetric_alloc(const TensorType& type, Pages pages, const Site& site) override;
  void fail(std::string_view reason, const SourceMark& where) noexcept override;
  bool has_failed() const override;
  void throw_failure() const override;

  // Like fail(), because a process or a host is lost, which is no error of the run.
  void fail_by_loss(std::string_view reason) noexcept { set_failure(reason, {}, /*is_loss=*/true); }
  // Whether the first failure is the loss of a process or a host.
  bool has_failed_by_loss() const;

  // A barrier for a call of a group that this one is part of: throws if the ranks' calls do not match. Returns whether
  // `flag` is true on any rank. `grace`: added to the limit.
  bool call_barrier(const CallRecord& record, bool flag, std::chrono::milliseconds grace = {});

  // The newest call of a rank, to report where it was when it died. The value may be slightly out of date.
  CallRecord newest_call(int rank) const;
  // "rank 3" or "rank 3 on host b".
  std::string name_of(int rank) const;

 private:
  friend class HostsGroup;
  struct Reason;
  struct CommonArea;
  struct RankArea;
  struct Tally;

  static size_t area_bytes(int size);
  CommonArea& common() const;
  RankArea& area(int rank) const;
  std::byte* slot(int side, int rank) const;
  std::byte* stage(int rank) const;
  std::byte* folded() const;
  [[noreturn]] void throw_disagreement();
  void wait_for_all(std::chrono::milliseconds grace = {});
  template <class Stage, class Take>
  void pass(const CallRecord& record, size_t bytes, const Stage& stage, const Take& take);
  void fold_all(const CallRecord& record, std::span<const std::byte> values, size_t first,
                std::span<std::byte> wanted) override;
  void gather(const CallRecord& record, std::span<const std::byte> mine, std::span<std::byte> all);
  [[noreturn]] void give_up(std::string_view reason);
  void set_failure(std::string_view reason, const SourceMark& where, bool is_loss) noexcept;
  std::string who_is_missing() const;

  SharedMemory& memory_;
  const int rank_, size_;
  const size_t piece_;  // bytes of a stage
  const Options options_;
  std::mutex failing_;  // guards the failure reason of this rank
  Backoff backoff_;     // used if there are more ranks than cores
  uint64_t calls_ = 0;
  uint64_t digests_[2] = {}, flags_[2] = {};  // the tallies after their last call
  int side_ = 0;                              // which of the two stages the next piece uses
  bool fits_slots_ = false;                   // whether the values of the call in progress are in slots
  size_t shared_end_;                         // end of the memory that ranks have shared
  std::vector<const std::byte*> sources_;     // sources of a fold, by rank
};

}  // namespace runner::backends
