// A network whose processes are threads, and groups of ranks on several hosts over it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/dist/hosts_group.h"
#include "backends/dist/network.h"
#include "schema/base/error.h"

namespace runner::backends::testing {

// The messages of a network. A message is copied when its receiver polls for the third time, so that memory that is
// used too early has other bytes by then. Thread-safe.
class MessageHub {
 public:
  using Channel = Network::Channel;

  uint64_t send(int from, int to, Channel channel, std::span<const std::byte> data) {
    const std::lock_guard lock(mutex_);
    sends_[++last_] = {from, to, channel, data};
    return last_;
  }
  uint64_t receive(int from, int to, Channel channel, std::span<std::byte> memory) {
    const std::lock_guard lock(mutex_);
    receives_[++last_] = {from, to, channel, memory};
    return last_;
  }
  // `rank`: which polls. All its messages make progress, as in MPI.
  bool is_done(int rank, uint64_t request) {
    const std::lock_guard lock(mutex_);
    for (auto next = receives_.begin(); next != receives_.end();) {
      const auto receive = next++;
      if (receive->second.to == rank && ++receive->second.polls >= 3) deliver(receive);
    }
    return !receives_.contains(request) && !sends_.contains(request);
  }
  void cancel(uint64_t request) {
    const std::lock_guard lock(mutex_);
    receives_.erase(request);
  }

 private:
  struct Send {
    int from, to;
    Channel channel;
    std::span<const std::byte> data;
  };
  struct Receive {
    int from, to;
    Channel channel;
    std::span<std::byte> memory;
    int polls = 0;

    bool takes(const Send& send) const {
      return send.to == to && send.channel == channel && (from == Network::kAnyone || send.from == from);
    }
  };
  using Receives = std::map<uint64_t, Receive>;  // oldest first

  // Delivers the oldest message that it takes, unless an older receive takes it.
  void deliver(Receives::iterator receive) {
    for (auto send = sends_.begin(); send != sends_.end(); ++send) {
      if (!receive->second.takes(send->second)) continue;
      const bool is_of_older =
          std::any_of(receives_.begin(), receive, [&](const auto& older) { return older.second.takes(send->second); });
      if (is_of_older) return;
      if (send->second.data.size() > receive->second.memory.size()) throw std::runtime_error("a message is too long");
      std::ranges::copy(send->second.data, receive->second.memory.begin());
      sends_.erase(send);
      receives_.erase(receive);
      return;
    }
  }

  std::mutex mutex_;  // guards the members below
  std::map<uint64_t, Send> sends_;
  Receives receives_;
  uint64_t last_ = 0;
};

class MemoryNetwork final : public Network {
 public:
  MemoryNetwork(MessageHub& hub, int rank, int size) : hub_(hub), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Request send(int to, Channel channel, std::span<const std::byte> data) override {
    return {hub_.send(rank_, to, channel, data)};
  }
  Request receive(int from, Channel channel, std::span<std::byte> data) override {
    return {hub_.receive(from, rank_, channel, data)};
  }
  bool is_done(Request& request) override {
    if (request.value != 0 && hub_.is_done(rank_, request.value)) request.value = 0;
    return request.value == 0;
  }
  void cancel(Request& request) noexcept override { hub_.cancel(std::exchange(request.value, 0)); }
  void keep(std::shared_ptr<const void> memory) override {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(memory));
  }

 private:
  MessageHub& hub_;
  const int rank_, size_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const void>> kept_;
};

// Runs `body` on one thread per rank and waits for all of them. `counts`: ranks of hosts a, b, …
inline void on_hosts(const std::vector<int>& counts, const std::function<void(HostsGroup&)>& body,
                     std::chrono::milliseconds timeout = std::chrono::seconds(600)) {
  const int size = std::accumulate(counts.begin(), counts.end(), 0);
  MessageHub hub;
  std::vector<RankHost> hosts;
  std::vector<std::unique_ptr<SharedMemory>> memories;
  for (const int count : counts) {
    const int first = hosts.empty() ? 0 : hosts.back().first + hosts.back().count;
    hosts.push_back({std::string(1, static_cast<char>('a' + hosts.size())), first, count});
    memories.push_back(std::make_unique<SharedMemory>(SharedMemoryGroup::memory_bytes(count)));
  }
  std::vector<std::unique_ptr<MemoryNetwork>> networks;  // longer than all threads: one may still read what it kept
  for (int rank = 0; rank < size; ++rank) networks.push_back(std::make_unique<MemoryNetwork>(hub, rank, size));
  std::vector<std::jthread> threads;
  for (size_t host = 0; host < hosts.size(); ++host)
    for (int i = 0; i < hosts[host].count; ++i)
      threads.emplace_back([&, host, i] {
        MemoryNetwork& network = *networks[static_cast<size_t>(hosts[host].first + i)];
        SharedMemoryGroup local(
            *memories[host], i, hosts[host].count,
            {.timeout = timeout, .spin = false, .first_rank = hosts[host].first, .host = hosts[host].name});
        HostsGroup ranks(network, local, hosts);
        body(ranks);
      });
}

// Returns the error of each rank's `body`.
inline std::vector<std::string> errors_on_hosts(const std::vector<int>& counts,
                                                const std::function<void(HostsGroup&)>& body,
                                                std::chrono::milliseconds timeout = std::chrono::seconds(600)) {
  std::vector<std::string> errors(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), 0)), "no error");
  on_hosts(
      counts,
      [&](HostsGroup& ranks) {
        try {
          body(ranks);
        } catch (const Error& error) {
          errors[static_cast<size_t>(ranks.rank())] = error.what();
        }
      },
      timeout);
  return errors;
}

}  // namespace runner::backends::testing
