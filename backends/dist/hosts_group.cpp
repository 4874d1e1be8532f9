#include "backends/dist/hosts_group.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "backends/dist/call_record.h"
#include "backends/dist/collective_span.h"
#include "backends/dist/fold.h"
#include "backends/dist/rank_error.h"
#include "backends/runtime/event_count.h"
#include "backends/tensor/rounding.h"
#include "schema/base/duration.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes of all ranks that are exchanged at a time. Up to kMaxFolded, every rank folds all values itself.
constexpr size_t kExchanged = size_t{512} << 10, kMaxFolded = size_t{128} << 10;
// First bytes of a host's values, sent with its header. Such a message is below the eager limit of MPI libraries.
constexpr size_t kCarried = size_t{3} << 10;
// Bytes of a piece of a large reduction, and how many pieces are in flight.
constexpr size_t kPiece = size_t{64} << 10, kPieces = 16;
// Extra time before these waits give up, so that the host of the late rank times out first and names it.
constexpr auto kGraceForHosts = std::chrono::seconds(1), kGraceForLeader = std::chrono::seconds(2);
// How long a failing rank tries to tell the other hosts.
constexpr auto kFailureSendLimit = std::chrono::seconds(1);

size_t host_of(int rank, const std::vector<RankHost>& hosts) {
  const auto after = std::ranges::upper_bound(hosts, rank, {}, &RankHost::first);
  RUN_ASSERT(after != hosts.begin());
  return static_cast<size_t>(after - hosts.begin()) - 1;
}

// Pause between polls: spins, then yields, then sleeps 50 µs.
class Poll {
 public:
  explicit Poll(bool spins) : spins_(spins) {}

  Clock::duration waited() const { return now_ - start_; }
  void pause() {
    now_ = Clock::now();
    if (spins_ && waited() < std::chrono::microseconds(100)) return;
    if (waited() < std::chrono::milliseconds(5)) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  const bool spins_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point now_ = start_;
};

// Receives in flight. Withdraws those that an error has interrupted; their memory is not used again.
template <size_t count>
class Receives {
 public:
  explicit Receives(Network& network) : network_(network) {}
  ~Receives() {
    for (Network::Request& request : requests_) network_.cancel(request);
  }
  Receives(const Receives&) = delete;
  Receives& operator=(const Receives&) = delete;

  Network::Request& operator[](size_t piece) { return requests_[piece % count]; }

 private:
  Network& network_;
  std::array<Network::Request, count> requests_{};
};

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

// First message of a leader in each call. It carries the first values of the host.
struct HostsGroup::Header {
  CallRecord record;
  bool flag = false;
  std::byte values[kCarried];

  // The bytes to send with `count` bytes of values.
  std::span<const std::byte> message(size_t count) const {
    return std::as_bytes(std::span(this, 1)).first(offsetof(Header, values) + count);
  }
};

// Another host and the messages of an exchange with it.
struct HostsGroup::Peer {
  size_t host;
  Network::Request header = {}, values = {}, sent_header = {}, sent_values = {};
};

struct HostsGroup::FailureMessage {
  bool is_loss;  // of a process or a host
  int32_t line;
  char file[256];
  char text[2048];
};

// Memory of messages that an error may leave in flight.
struct HostsGroup::Messages {
  std::vector<Header> headers;  // of the newest call, by host; only on the leader
  std::vector<Peer> peers;      // the other hosts; only on the leader
  FailureMessage failure;       // the next one
};

// Shared memory of one host; a staging piece for each rank follows.
struct HostsGroup::Area {
  EventCount changed;               // notified when the leader has published
  std::atomic<uint64_t> published;  // number of results of the leader
  bool flags[2];                    // of the two newest calls
  alignas(64) std::byte exchanged[2][kExchanged];
  std::byte before[kPieces][kPiece];  // sums of the hosts before this one
  std::byte sums[kPieces][kPiece];    // of these and the ranks of this host
  std::byte totals[kPieces][kPiece];  // of all hosts
  // Followed by a piece of each rank.
  std::byte* staged(int local_rank) {
    return reinterpret_cast<std::byte*>(this + 1) + static_cast<size_t>(local_rank) * kPiece;
  }
};

HostsGroup::HostsGroup(Network& network, SharedMemoryGroup& local, std::vector<RankHost> hosts,
                       Network::Channel failures)
    : network_(network),
      local_(local),
      hosts_(std::move(hosts)),
      here_(host_of(network.rank(), hosts_)),
      failures_(failures),
      memory_(local.symmetric_alloc(
          {DType::kBool, Shape{static_cast<int64_t>(sizeof(Area) + static_cast<size_t>(local.size()) * kPiece)}},
          Pages::kNow, {"messages"})),
      area_(*reinterpret_cast<Area*>(memory_.get())),
      offsets_(static_cast<size_t>(network.size()) + 1),
      messages_(std::make_shared<Messages>()) {
  RUN_ASSERT(local.size() == here().count && local.rank() == rank() - here().first);
  if (!is_leader()) return;
  messages_->headers.resize(hosts_.size());
  next_failure_ = network_.receive(Network::kAnyone, failures_, bytes_of(messages_->failure));
  awaits_failure_ = true;
  for (size_t i = 1; i < hosts_.size(); ++i)  // the next host first, so that not all send to the same one
    messages_->peers.push_back({.host = (here_ + i) % hosts_.size()});
}

HostsGroup::~HostsGroup() {
  network_.cancel(next_failure_);
  for (Peer& peer : messages_->peers)
    for (Network::Request* request : {&peer.header, &peer.values}) network_.cancel(*request);
  network_.keep(messages_);
  network_.keep(memory_);
  for (InPlace& used : in_place_) network_.keep(std::move(used.memory));
}

void HostsGroup::use_in_place(std::shared_ptr<std::byte> memory, size_t bytes) {
  std::erase_if(in_place_, [](const InPlace& used) { return used.memory.use_count() == 1; });
  in_place_.push_back({std::move(memory), bytes});
}

// Only a host of one rank: the others are added up in shared memory.
bool HostsGroup::is_in_place(std::span<const std::byte> values, std::span<const std::byte> wanted) const {
  if (here().count > 1 || values.data() != wanted.data() || values.size() != wanted.size()) return false;
  return std::ranges::any_of(in_place_, [&](const InPlace& used) {
    const std::byte* const first = used.memory.get();
    return first <= values.data() && values.data() + values.size() <= first + used.bytes;
  });
}

// ---- failures ------------------------------------------------------------------------------------------------------

void HostsGroup::fail(std::string_view reason, const SourceMark& where) noexcept {
  set_failure(reason, where, /*is_loss=*/false);
}

void HostsGroup::set_failure(std::string_view reason, const SourceMark& where, bool is_loss) noexcept {
  if (local_.has_failed()) return;
  local_.set_failure(reason, where, is_loss);
  send_failure(reason, where, is_loss);
}

void HostsGroup::send_failure(std::string_view reason, const SourceMark& where, bool is_loss) const noexcept {
  others_know_ = true;
  try {
    const auto message = std::make_shared<FailureMessage>();
    network_.keep(message);
    set_fixed_text(message->text, reason);
    set_fixed_text(message->file, where.file);
    message->line = where.line;
    message->is_loss = is_loss;
    std::vector<Network::Request> sends;
    for (const RankHost& host : hosts_)
      if (host.first != here().first) sends.push_back(network_.send(host.first, failures_, bytes_of(*message)));
    Poll poll(/*spins=*/false);
    for (Network::Request& send : sends)
      while (!network_.is_done(send) && poll.waited() < kFailureSendLimit) poll.pause();
  } catch (const std::exception&) {  // a host that cannot be reached learns of the end by its own limit
  }
}

// The leader receives failures of other hosts for all ranks of its host. It also passes on one of its host: the rank
// that has failed may have died before it could.
bool HostsGroup::has_failed() const {
  const std::lock_guard lock(failure_mutex_);
  if (awaits_failure_) {
    try {
      awaits_failure_ = !network_.is_done(next_failure_);
      if (!awaits_failure_) {
        others_know_ = true;
        const FailureMessage& failure = messages_->failure;
        local_.set_failure(failure.text, {failure.file, failure.line, 0}, failure.is_loss);
      }
    } catch (const Error& error) {
      awaits_failure_ = false;
      local_.fail(error.what(), {});
    }
  }
  if (local_.has_failed() && is_leader() && !others_know_) {
    try {
      local_.throw_failure();
    } catch (const Error& error) {
      send_failure(error.message(), error.where(), local_.has_failed_by_loss());
    }
  }
  return local_.has_failed();
}

void HostsGroup::throw_failure() const {
  if (has_failed()) local_.throw_failure();
}

void HostsGroup::give_up(std::string_view reason, bool is_loss) {
  set_failure(reason, {}, is_loss);
  throw Error(ErrorKind::kRun, std::string(reason));
}

std::string HostsGroup::who_is_missing(size_t host, const CallRecord& record) const {
  const RankHost& there = hosts_[host];
  const std::string ranks = there.count == 1
                                ? fmt::format("rank {}", there.first)
                                : fmt::format("ranks {} to {}", there.first, there.first + there.count - 1);
  return fmt::format("host {} ({}) did not reach {} within {} (collective_timeout); it {}", there.name, ranks,
                     record.to_string(), limit_text(timeout()), messages_->headers[host].record.as_last_call());
}

// ---- waiting -------------------------------------------------------------------------------------------------------

void HostsGroup::wait(Network::Request& request, size_t host, const CallRecord& record) {
  for (Poll poll(local_.options().spin); !network_.is_done(request); poll.pause()) {
    throw_failure();
    if (poll.waited() > timeout() + kGraceForHosts) give_up(who_is_missing(host, record), /*is_loss=*/true);
  }
}

void HostsGroup::publish() {
  area_.published.store(++published_, std::memory_order_release);
  area_.changed.notify_all();
}

// A failure does not notify `changed`, so the wait checks for one every 50 ms.
void HostsGroup::wait_for_leader(const CallRecord& record) {
  ++published_;
  constexpr auto kLook = std::chrono::milliseconds(50);
  const auto has_published = [&] { return area_.published.load(std::memory_order_acquire) >= published_; };
  const Clock::time_point end = Clock::now() + timeout() + kGraceForLeader;
  while (!area_.changed.wait_until(has_published, kLook)) {
    local_.throw_failure();
    if (Clock::now() > end)
      give_up(fmt::format("{} did not return from {} within {} (collective_timeout); it {}", local_.name_of(0),
                          record.to_string(), limit_text(timeout()), local_.newest_call(0).as_last_call()),
              /*is_loss=*/true);
  }
}

// A barrier of this host that compares the calls of its ranks.
bool HostsGroup::call_barrier(const CallRecord& record, bool flag, std::chrono::milliseconds grace) {
  try {
    return local_.call_barrier(record, flag, grace);
  } catch (const RankError&) {
    throw;
  } catch (const Error& error) {  // this rank detected the error; other hosts do not know it yet
    send_failure(error.message(), error.where(), /*is_loss=*/false);
    throw;
  }
}

// ---- exchange ------------------------------------------------------------------------------------------------------

std::span<const std::byte> HostsGroup::received_from(int rank) const {
  const size_t from = offsets_[static_cast<size_t>(rank)], to = offsets_[static_cast<size_t>(rank) + 1];
  return {area_.exchanged[side_] + from, to - from};
}

// Every rank gives `mine`, of bytes[rank] bytes, and sees the values of all ranks until its next call, by
// received_from(). Returns whether the flag of any rank was set.
bool HostsGroup::exchange(const CallRecord& record, bool flag, std::span<const size_t> bytes,
                          std::span<const std::byte> mine) {
  side_ ^= 1;
  offsets_[0] = 0;
  std::inclusive_scan(bytes.begin(), bytes.end(), offsets_.begin() + 1);
  RUN_ASSERT(offsets_.back() <= kExchanged && bytes[static_cast<size_t>(rank())] == mine.size());
  std::byte* const all = area_.exchanged[side_];
  if (!mine.empty()) std::memcpy(all + offsets_[static_cast<size_t>(rank())], mine.data(), mine.size());
  const bool any_here = call_barrier(record, flag);
  if (is_leader()) {
    area_.flags[side_] = exchange_between_hosts(record, any_here, {all, offsets_.back()});
    publish();
  } else {
    wait_for_leader(record);
  }
  return area_.flags[side_];
}

bool HostsGroup::exchange_between_hosts(const CallRecord& record, bool flag, std::span<std::byte> all) {
  const auto values_of = [&](const RankHost& host) {
    const size_t from = offsets_[static_cast<size_t>(host.first)];
    return all.subspan(from, offsets_[static_cast<size_t>(host.first + host.count)] - from);
  };
  std::vector<Header>& headers = messages_->headers;
  const auto carried = [](std::span<std::byte> values) { return values.first(std::min(values.size(), kCarried)); };
  const auto rest = [](std::span<std::byte> values) { return values.subspan(std::min(values.size(), kCarried)); };
  const std::span<std::byte> ours = values_of(here());
  headers[here_].record = record;
  headers[here_].flag = flag;
  std::ranges::copy(carried(ours), headers[here_].values);
  for (Peer& peer : messages_->peers) {
    const int leader = hosts_[peer.host].first;
    peer.header = network_.receive(leader, Network::Channel::kCall, bytes_of(headers[peer.host]));
    peer.sent_header = network_.send(leader, Network::Channel::kCall, headers[here_].message(carried(ours).size()));
    if (!rest(ours).empty()) peer.sent_values = network_.send(leader, Network::Channel::kValues, rest(ours));
  }
  for (Peer& peer : messages_->peers) wait(peer.header, peer.host, record);
  check_calls(record);
  for (Peer& peer : messages_->peers) {
    const std::span<std::byte> theirs = values_of(hosts_[peer.host]);
    std::ranges::copy_n(headers[peer.host].values, std::ssize(carried(theirs)), theirs.begin());
    if (!rest(theirs).empty())
      peer.values = network_.receive(hosts_[peer.host].first, Network::Channel::kValues, rest(theirs));
  }
  for (Peer& peer : messages_->peers)
    for (Network::Request* request : {&peer.values, &peer.sent_header, &peer.sent_values})
      wait(*request, peer.host, record);
  return std::ranges::any_of(headers, &Header::flag);
}

void HostsGroup::check_calls(const CallRecord& record) {
  const std::vector<Header>& headers = messages_->headers;
  if (std::ranges::all_of(headers, [&](const Header& header) { return header.record.matches(record); })) return;
  std::vector<CallRecord> calls;
  for (size_t host = 0; host < hosts_.size(); ++host)
    calls.insert(calls.end(), static_cast<size_t>(hosts_[host].count), headers[host].record);
  give_up(describe_disagreement(calls));
}

// A call without values.
bool HostsGroup::exchange_flags(const CallRecord& record, bool flag) {
  return exchange(record, flag, std::vector<size_t>(static_cast<size_t>(size())), {});
}

bool HostsGroup::any(bool mine, const Site& site) {
  const ScopedSpan span = collective_span("barrier", 0, site);
  return exchange_flags(CallRecord::of(CallKind::kBarrier, {}, site), mine);
}

// Gives `mine` to all ranks, in as many exchanges as needed. Writes the values of each rank, sizes[rank] bytes, to its
// target.
void HostsGroup::gather(const CallRecord& record, std::span<const size_t> sizes, std::span<const std::byte> mine,
                        std::span<std::byte* const> targets) {
  std::vector<size_t> done(sizes.size()), now(sizes.size());
  do {
    size_t senders = 0;
    for (size_t i = 0; i < sizes.size(); ++i) senders += done[i] < sizes[i] ? 1 : 0;
    const size_t share = kExchanged / std::max<size_t>(senders, 1);
    for (size_t i = 0; i < sizes.size(); ++i) now[i] = std::min(sizes[i] - done[i], share);
    const auto own = static_cast<size_t>(rank());
    exchange(record, false, now, mine.subspan(done[own], now[own]));
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (now[i] > 0) std::memcpy(targets[i] + done[i], received_from(static_cast<int>(i)).data(), now[i]);
      done[i] += now[i];
    }
  } while (!std::ranges::equal(done, sizes));
}

void HostsGroup::all_gather(const TensorType& type, std::span<const std::byte> mine, std::span<std::byte> all,
                            const Site& site) {
  const ScopedSpan span = collective_span("all_gather", mine.size(), site);
  const auto ranks = static_cast<size_t>(size());
  RUN_ASSERT(mine.size() == type.bytes() && all.size() == mine.size() * ranks);
  std::vector<std::byte*> targets;
  for (size_t i = 0; i < ranks; ++i) targets.push_back(all.data() + i * mine.size());
  gather(CallRecord::of(CallKind::kAllGather, type, site), std::vector<size_t>(ranks, mine.size()), mine, targets);
}

void HostsGroup::broadcast(const TensorType& type, std::span<std::byte> values, int root, const Site& site) {
  const ScopedSpan span = collective_span("broadcast", values.size(), site);
  RUN_ASSERT(values.size() == type.bytes());
  CallRecord record = CallRecord::of(CallKind::kBroadcast, type, site);
  record.root = root;
  const auto ranks = static_cast<size_t>(size());
  std::vector<size_t> sizes(ranks);
  sizes[static_cast<size_t>(root)] = values.size();
  gather(record, sizes, rank() == root ? std::span<const std::byte>(values) : std::span<const std::byte>(),
         std::vector<std::byte*>(ranks, values.data()));
}

std::vector<std::string> HostsGroup::gather_objects(std::string_view mine, const Site& site) {
  const ScopedSpan span = collective_span("gather_objects", mine.size(), site);
  const CallRecord record = CallRecord::of(CallKind::kGatherObjects, {}, site);
  const auto ranks = static_cast<size_t>(size());
  const size_t size = mine.size();
  exchange(record, false, std::vector<size_t>(ranks, sizeof(size)), std::as_bytes(std::span(&size, 1)));
  std::vector<size_t> sizes(ranks);
  for (size_t i = 0; i < ranks; ++i) std::memcpy(&sizes[i], received_from(static_cast<int>(i)).data(), sizeof(size));
  std::vector<std::string> all;
  std::vector<std::byte*> targets;
  for (const size_t bytes : sizes) all.emplace_back(bytes, '\0');
  for (std::string& text : all) targets.push_back(reinterpret_cast<std::byte*>(text.data()));
  gather(record, sizes, std::as_bytes(std::span(mine)), targets);
  return all;
}

// ---- reductions ----------------------------------------------------------------------------------------------------

// The pieces of a large reduction on their way through the hosts. Only the leader has messages.
class HostsGroup::Chain {
 public:
  // `in_place`: memory of all pieces, for a host of one rank that reduces its values in place; otherwise null, and the
  // ranks of the host share memory of some pieces.
  Chain(HostsGroup& group, const CallRecord& record, size_t bytes, std::byte* in_place)
      : group_(group),
        record_(record),
        bytes_(bytes),
        pieces_((bytes + kPiece - 1) / kPiece),
        in_place_(in_place),
        before_(group.network_),
        totals_(group.network_) {
    for (size_t piece = 0; piece < kPieces; ++piece) expect_sum_before(piece);
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  size_t pieces() const { return pieces_; }
  size_t bytes_of(size_t piece) const { return std::min(kPiece, bytes_ - piece * kPiece); }
  bool is_first() const { return group_.here_ == 0; }
  bool is_last() const { return group_.here_ + 1 == group_.hosts_.size(); }

  // Call before the ranks fold a piece. Waits for the previous hosts' sum and for earlier sends from this place.
  void begin(size_t piece) {
    if (!leads()) return;
    group_.wait(before_[piece], previous(), record_);
    group_.wait(sent_sums_[piece % kPieces], receiver_of_sums(), record_);
    group_.wait(sent_totals_[piece % kPieces], previous(), record_);
  }
  // Call when all ranks have taken their totals of the pieces that had the places of those up to `piece`.
  void expect_totals(size_t piece) {
    if (!leads() || is_last()) return;
    for (; expected_ <= piece && expected_ < pieces_; ++expected_) {
      // The total replaces the sum, which must have left.
      if (in_place_ != nullptr && !group_.network_.is_done(sent_sums_[expected_ % kPieces])) return;
      expect_total();
    }
  }
  // Call when the ranks have added up a piece.
  void pass_on(size_t piece) {
    if (!leads() || group_.hosts_.size() == 1) return;
    const auto channel = is_last() ? Network::Channel::kTowardsFirst : Network::Channel::kTowardsLast;
    sent_sums_[piece % kPieces] = send(receiver_of_sums(), channel, {sum(piece), bytes_of(piece)});
    expect_sum_before(piece + kPieces);
  }
  // Waits for the total of a piece and passes it on.
  void take_total(size_t piece) {
    if (!leads() || is_last()) return;
    for (; expected_ <= piece; ++expected_) {
      group_.wait(sent_sums_[expected_ % kPieces], next(), record_);
      expect_total();
    }
    group_.wait(totals_[piece], next(), record_);
    if (!is_first())
      sent_totals_[piece % kPieces] =
          send(previous(), Network::Channel::kTowardsFirst, {total(piece), bytes_of(piece)});
  }
  void finish() {
    if (!leads()) return;
    for (Network::Request& request : sent_sums_) group_.wait(request, receiver_of_sums(), record_);
    for (Network::Request& request : sent_totals_) group_.wait(request, previous(), record_);
  }
  // Where the sum of the hosts up to this one is, and the total of all hosts.
  std::byte* sum(size_t piece) const {
    return in_place_ != nullptr ? in_place_ + piece * kPiece : group_.area_.sums[piece % kPieces];
  }
  std::byte* total(size_t piece) const {
    return in_place_ != nullptr || is_last() ? sum(piece) : group_.area_.totals[piece % kPieces];
  }

 private:
  using Requests = std::array<Network::Request, kPieces>;

  bool leads() const { return group_.is_leader(); }
  size_t next() const { return group_.here_ + 1; }
  size_t previous() const { return group_.here_ - 1; }
  size_t receiver_of_sums() const { return is_last() ? previous() : next(); }
  void expect_total() {
    totals_[expected_] = receive(next(), Network::Channel::kTowardsFirst, {total(expected_), bytes_of(expected_)});
  }
  void expect_sum_before(size_t piece) {
    if (!leads() || is_first() || piece >= pieces_) return;
    before_[piece] =
        receive(previous(), Network::Channel::kTowardsLast, {group_.area_.before[piece % kPieces], bytes_of(piece)});
  }
  Network::Request send(size_t host, Network::Channel channel, std::span<const std::byte> data) {
    return group_.network_.send(group_.hosts_[host].first, channel, data);
  }
  Network::Request receive(size_t host, Network::Channel channel, std::span<std::byte> data) {
    return group_.network_.receive(group_.hosts_[host].first, channel, data);
  }

  HostsGroup& group_;
  const CallRecord& record_;
  const size_t bytes_, pieces_;
  std::byte* const in_place_;
  size_t expected_ = 0;  // pieces whose totals are expected
  Receives<kPieces> before_, totals_;
  Requests sent_sums_{}, sent_totals_{};
};

// Two hosts of one rank each exchange all values, in pieces. Each folds them itself, so nothing is sent back.
void HostsGroup::exchange_and_fold(const CallRecord& record, std::span<std::byte> values) {
  constexpr size_t kSlots = 4;  // pieces in flight, larger than those of a chain, which has more hosts to keep busy
  constexpr size_t kLargest = sizeof area_.before / kSlots;
  const size_t bytes = std::clamp(round_up(values.size() / kSlots, kPiece), kPiece, kLargest);
  const size_t other = 1 - here_, pieces = (values.size() + bytes - 1) / bytes;
  const int peer = hosts_[other].first;
  Receives<kSlots> received(network_);
  std::array<Network::Request, kSlots> sent{};
  const auto part = [&](size_t piece) {
    return values.subspan(piece * bytes, std::min(bytes, values.size() - piece * bytes));
  };
  const auto theirs = [&](size_t piece) { return area_.before[0] + piece % kSlots * kLargest; };
  const auto start = [&](size_t piece) {
    received[piece] = network_.receive(peer, Network::Channel::kTowardsLast, {theirs(piece), part(piece).size()});
    sent[piece % kSlots] = network_.send(peer, Network::Channel::kTowardsLast, part(piece));
  };
  for (size_t piece = 0; piece < std::min(kSlots, pieces); ++piece) start(piece);
  for (size_t piece = 0; piece < pieces; ++piece) {
    wait(received[piece], other, record);
    wait(sent[piece % kSlots], other, record);
    std::array<const std::byte*, 2> by_rank{part(piece).data(), theirs(piece)};
    if (here_ == 1) std::swap(by_rank[0], by_rank[1]);
    fold(record.type.dtype, record.reduction, by_rank, part(piece).size(), part(piece).data());
    if (piece + kSlots < pieces) start(piece + kSlots);
  }
}

// Folds `values` of all ranks and writes the bytes from `first` on of the result to `wanted`.
void HostsGroup::fold_all(const CallRecord& record, std::span<const std::byte> values, size_t first,
                          std::span<std::byte> wanted) {
  RUN_ASSERT(values.size() == record.type.bytes());
  const auto ranks = static_cast<size_t>(size());
  std::vector<const std::byte*> sources;
  if (values.size() * ranks <= kMaxFolded) {
    exchange(record, false, std::vector<size_t>(ranks, values.size()), values);
    if (wanted.empty()) return;
    for (int rank = 0; rank < size(); ++rank) sources.push_back(received_from(rank).data() + first);
    return fold(record.type.dtype, record.reduction, sources, wanted.size(), wanted.data());
  }
  const bool in_place = is_in_place(values, wanted);
  const bool all_in_place = !exchange_flags(record, !in_place);
  if (all_in_place && hosts_.size() == 2) return exchange_and_fold(record, wanted);
  Chain chain(*this, record, values.size(), in_place ? wanted.data() : nullptr);
  const auto stage = [&](size_t piece) {
    if (here().count > 1)
      std::memcpy(area_.staged(local_.rank()), values.data() + piece * kPiece, chain.bytes_of(piece));
  };
  const auto add_up = [&](size_t piece) {
    constexpr size_t kLine = 64;
    const auto [begin, end] = part_of(chain.bytes_of(piece), local_.rank(), local_.size(), kLine);
    if (begin >= end || (in_place && chain.is_first())) return;
    sources.clear();
    if (!chain.is_first()) sources.push_back(area_.before[piece % kPieces] + begin);
    for (int rank = 0; rank < here().count; ++rank)
      sources.push_back(here().count == 1 ? values.data() + piece * kPiece + begin : area_.staged(rank) + begin);
    fold(record.type.dtype, record.reduction, sources, end - begin, chain.sum(piece) + begin);
  };
  const auto take = [&](size_t piece) {
    if (in_place) return;
    const size_t offset = piece * kPiece;
    const size_t from = std::max(offset, first);
    const size_t to = std::min(offset + chain.bytes_of(piece), first + wanted.size());
    if (from < to) std::memcpy(wanted.data() + (from - first), chain.total(piece) + (from - offset), to - from);
  };
  const size_t delay = chain.is_last() ? 0 : kPieces - 1;  // pieces until a total is due
  for (size_t at = 0; at < chain.pieces() + delay; ++at) {
    if (at < chain.pieces()) {
      stage(at);
      chain.begin(at);
      call_barrier(record, false, kGraceForLeader);
      if (!in_place) chain.expect_totals(at);
      add_up(at);
      call_barrier(record, false);
      chain.pass_on(at);
    }
    if (in_place) chain.expect_totals(at);
    if (at < delay) continue;
    chain.take_total(at - delay);
    if (!chain.is_last()) call_barrier(record, false, kGraceForLeader);
    take(at - delay);
  }
  chain.finish();
  call_barrier(record, false, kGraceForLeader);  // no rank waits in the next call while the leader finishes this one
}

}  // namespace runner::backends
