// Process group of ranks on several hosts: shared memory between the ranks of a host, messages between the hosts.
//
// The ranks of a host follow each other, and its first rank is its leader, which alone sends values. Small values go
// from each host to each other host, and every rank folds them. Large ones go through the hosts in order: each adds its
// ranks to the sum of those before it and passes it on; the last host has the sum, which returns the same way. Several
// pieces are in flight at the same time, so both directions of a connection are busy. Two hosts of one rank each
// exchange all values instead. A reduction is the left fold over all ranks, as in one shared memory, so the bits
// do not depend on how ranks are divided among hosts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/dist/folding_group.h"
#include "backends/dist/network.h"
#include "backends/dist/shared_memory_group.h"

namespace runner::backends {

// A host of a run and its ranks: first … first + count − 1.
struct RankHost {
  std::string name;
  int first = 0, count = 1;
};

class HostsGroup final : public FoldingGroup {
 public:
  // `network`: of all ranks. `local`: of the ranks of this host, with names as in `hosts`; its limit, cores and way of
  // waiting are those of this group. `failures`: of two groups that follow each other on a network, each has its own.
  // Both must outlive the group. Collective on each host.
  HostsGroup(Network& network, SharedMemoryGroup& local, std::vector<RankHost> hosts,
             Network::Channel failures = Network::Channel::kFailure);
  ~HostsGroup() override;
  HostsGroup(const HostsGroup&) = delete;
  HostsGroup& operator=(const HostsGroup&) = delete;

  int rank() const override { return network_.rank(); }
  int size() const override { return network_.size(); }
  std::string name() const override { return local_.name_of(local_.rank()); }
  bool spans_hosts() const override { return hosts_.size() > 1; }
  int cores() const override { return local_.cores(); }
  ProcessGroup* host_ranks() override { return &local_; }
  bool any(bool mine, const Site& site) override;
  void all_gather(const TensorType& type, std::span<const std::byte> mine, std::span<std::byte> all,
                  const Site& site) override;
  void broadcast(const TensorType& type, std::span<std::byte> values, int root, const Site& site) override;
  std::vector<std::string> gather_objects(std::string_view mine, const Site& site) override;
  void use_in_place(std::shared_ptr<std::byte> memory, size_t bytes) override;
  void fail(std::string_view reason, const SourceMark& where) noexcept override;
  bool has_failed() const override;
  void throw_failure() const override;

  // As in SharedMemoryGroup.
  void fail_by_loss(std::string_view reason) noexcept { set_failure(reason, {}, /*is_loss=*/true); }
  bool has_failed_by_loss() const { return has_failed() && local_.has_failed_by_loss(); }

 private:
  struct Area;
  struct Header;
  struct Peer;
  struct FailureMessage;
  struct Messages;
  class Chain;
  struct InPlace {
    std::shared_ptr<std::byte> memory;
    size_t bytes;
  };

  bool is_leader() const { return rank() == here().first; }
  const RankHost& here() const { return hosts_[here_]; }
  bool call_barrier(const CallRecord& record, bool flag, std::chrono::milliseconds grace = {});
  bool exchange_flags(const CallRecord& record, bool flag);
  std::chrono::milliseconds timeout() const { return local_.options().timeout; }
  bool exchange(const CallRecord& record, bool flag, std::span<const size_t> bytes, std::span<const std::byte> mine);
  bool exchange_between_hosts(const CallRecord& record, bool flag, std::span<std::byte> all);
  void check_calls(const CallRecord& record);
  void publish();
  void wait_for_leader(const CallRecord& record);
  std::span<const std::byte> received_from(int rank) const;
  bool is_in_place(std::span<const std::byte> values, std::span<const std::byte> wanted) const;
  void fold_all(const CallRecord& record, std::span<const std::byte> values, size_t first,
                std::span<std::byte> wanted) override;
  void exchange_and_fold(const CallRecord& record, std::span<std::byte> values);
  void gather(const CallRecord& record, std::span<const size_t> sizes, std::span<const std::byte> mine,
              std::span<std::byte* const> targets);
  void wait(Network::Request& request, size_t host, const CallRecord& record);
  [[noreturn]] void give_up(std::string_view reason, bool is_loss = false);
  void set_failure(std::string_view reason, const SourceMark& where, bool is_loss) noexcept;
  void send_failure(std::string_view reason, const SourceMark& where, bool is_loss) const noexcept;
  std::string who_is_missing(size_t host, const CallRecord& record) const;

  Network& network_;
  SharedMemoryGroup& local_;
  const std::vector<RankHost> hosts_;
  const size_t here_;  // index of this host
  const Network::Channel failures_;
  std::shared_ptr<std::byte> memory_;
  Area& area_;
  int side_ = 0;                              // which half of the exchanged values is in use
  uint64_t published_ = 0;                    // what this rank expects in the area
  std::vector<InPlace> in_place_;             // see use_in_place()
  std::vector<size_t> offsets_;               // of the ranks' values in the exchange in progress, and their end
  const std::shared_ptr<Messages> messages_;  // outlives this object, as memory_ does

  mutable std::atomic<bool> others_know_ = false;  // this rank has told the other hosts of a failure, or one told it
  mutable std::mutex failure_mutex_;               // guards the members below
  mutable Network::Request next_failure_;
  mutable bool awaits_failure_ = false;  // next_failure_ has not been received yet
};

}  // namespace runner::backends
