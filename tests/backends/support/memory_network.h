// A network whose processes are threads, and groups of ranks on several hosts over it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/dist/hosts_group.h"
#include "backends/dist/network.h"
#include "schema/base/error.h"

namespace runner::backends::testing {

// The messages of a network. A message waits for its receive or a receive for its message. Thread-safe.
class MessageHub {
 public:
  using Channel = Network::Channel;

  uint64_t send(int from, int to, Channel channel, std::span<const std::byte> data) {
    const std::lock_guard lock(mutex_);
    for (auto receive = receives_.begin(); receive != receives_.end(); ++receive) {
      const Receive& r = receive->second;
      if (r.to != to || r.channel != channel || (r.from != Network::kAnyone && r.from != from)) continue;
      std::ranges::copy(data, r.memory.begin());
      receives_.erase(receive);
      return 0;
    }
    messages_.push_back({from, to, channel, {data.begin(), data.end()}});
    return 0;
  }
  uint64_t receive(int from, int to, Channel channel, std::span<std::byte> memory) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(messages_, [&](const Message& message) {
      return message.to == to && message.channel == channel && (from == Network::kAnyone || message.from == from);
    });
    if (found == messages_.end()) {
      receives_[++last_] = {from, to, channel, memory};
      return last_;
    }
    std::ranges::copy(found->data, memory.begin());
    messages_.erase(found);
    return 0;
  }
  bool is_done(uint64_t ticket) const {
    const std::lock_guard lock(mutex_);
    return !receives_.contains(ticket);
  }
  void cancel(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    receives_.erase(ticket);
  }

 private:
  struct Message {
    int from, to;
    Channel channel;
    std::vector<std::byte> data;
  };
  struct Receive {
    int from, to;
    Channel channel;
    std::span<std::byte> memory;
  };

  mutable std::mutex mutex_;  // guards the members below
  std::deque<Message> messages_;
  std::map<uint64_t, Receive> receives_;  // oldest first
  uint64_t last_ = 0;
};

class MemoryNetwork final : public Network {
 public:
  MemoryNetwork(MessageHub& hub, int rank, int size) : hub_(hub), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Ticket send(int to, Channel channel, std::span<const std::byte> data) override {
    return {hub_.send(rank_, to, channel, data)};
  }
  Ticket receive(int from, Channel channel, std::span<std::byte> data) override {
    return {hub_.receive(from, rank_, channel, data)};
  }
  bool is_done(Ticket& ticket) override {
    if (ticket.value != 0 && hub_.is_done(ticket.value)) ticket.value = 0;
    return ticket.value == 0;
  }
  void cancel(Ticket& ticket) noexcept override { hub_.cancel(std::exchange(ticket.value, 0)); }

 private:
  MessageHub& hub_;
  const int rank_, size_;
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
  std::vector<std::jthread> threads;
  for (size_t host = 0; host < hosts.size(); ++host)
    for (int i = 0; i < hosts[host].count; ++i)
      threads.emplace_back([&, host, i] {
        MemoryNetwork network(hub, hosts[host].first + i, size);
        SharedMemoryGroup local(
            *memories[host], i, hosts[host].count,
            {.timeout = timeout, .spin = false, .first_rank = hosts[host].first, .host = hosts[host].name});
        HostsGroup ranks(network, local, hosts, {.timeout = timeout, .spin = false});
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
