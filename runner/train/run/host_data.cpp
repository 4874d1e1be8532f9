#include "runner/train/run/host_data.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include "backends/runtime/abandoned.h"
#include "backends/runtime/affinity.h"
#include "runner/data/packed_data.h"
#include "runner/formats/reading_watch.h"
#include "runner/train/run/run.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/gathering.h"
#include "schema/base/error.h"
#include "schema/base/packing.h"
#include "schema/base/signals_blocked.h"

namespace runner::train {
namespace {

using Clock = std::chrono::steady_clock;

// Cores of all ranks of this host: the others wait while one reads.
std::vector<int> cores_of_host(backends::ProcessGroup& host) {
  std::set<int> all;
  for (const std::vector<int>& cores : gather_values(backends::usable_core_ids(), host, {"the cores"}))
    all.insert(cores.begin(), cores.end());
  return {all.begin(), all.end()};
}

// Reads on a thread of its own, so that the rank can go on when reading hangs.
class Reader {
 public:
  // `cores`: that the thread may use.
  Reader(const std::vector<int>& cores, std::function<data::Data()> load)
      : shared_(std::make_shared<Shared>()), last_progress_(Clock::now()) {
    const SignalsBlocked blocked;
    thread_ = std::thread([shared = shared_, cores, load = std::move(load)] { shared->read(cores, load); });
  }
  // A thread that computes or waits for a disk may take longer to stop.
  ~Reader() {
    shared_->asked_to_stop = true;
    const bool ended = has_ended(std::chrono::seconds(3));
    ended ? thread_.join() : thread_.detach();
    if (!ended) backends::abandon(shared_, "the data are still being read");
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  bool has_ended(Clock::duration wait) const {
    std::unique_lock lock(shared_->mutex);
    return shared_->changed.wait_for(lock, wait, [&] { return shared_->has_ended; });
  }
  // Whether the thread, which has not ended, has used no processor for so long: a disk does not answer.
  bool hangs(Clock::duration limit) {
    if (const auto used = processor_time(); used != last_used_) {
      last_used_ = used;
      last_progress_ = Clock::now();
    }
    return Clock::now() - last_progress_ > limit;
  }
  // Returns the data, or throws what `load` has thrown. Call it once, when the thread has ended.
  data::Data take() {
    if (shared_->error) std::rethrow_exception(shared_->error);
    return std::move(*shared_->data);
  }

 private:
  // The thread and its owner share it.
  struct Shared {
    void read(const std::vector<int>& cores, const std::function<data::Data()>& load) {
      try {
        const formats::ReadingStop stop([this] { return asked_to_stop.load(); });
        const std::optional<backends::PinnedThread> pinned = pinned_to(cores);
        data = load();
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      has_ended = true;
      changed.notify_all();
    }
    // The system may keep the rank on its own cores.
    static std::optional<backends::PinnedThread> pinned_to(const std::vector<int>& cores) try {
      return std::optional<backends::PinnedThread>(std::in_place, cores);
    } catch (const Error&) {
      return std::nullopt;
    }

    std::atomic<bool> asked_to_stop = false;
    std::optional<data::Data> data;  // with `error`: used by the thread until it has ended
    std::exception_ptr error;
    std::mutex mutex;  // guards the members below
    std::condition_variable changed;
    bool has_ended = false;
  };

  std::chrono::nanoseconds processor_time() {
    clockid_t clock{};
    timespec used{};
    if (::pthread_getcpuclockid(thread_.native_handle(), &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  }

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
  std::chrono::nanoseconds last_used_{};
  Clock::time_point last_progress_;
};

// Returns what `reader` reads. Until then the ranks meet in a barrier again and again, so that they see that this one
// is alive, and this one sees that another has failed. A rank that hangs stays away. `reader`: none on ranks that do
// not read; they return none.
std::optional<data::Data> read_while_others_wait(backends::ProcessGroup& ranks, std::optional<Reader>& reader,
                                                 Clock::duration hang_limit, const std::atomic<int>& stop) {
  constexpr auto kMeetEvery = std::chrono::milliseconds(10);
  std::optional<data::Data> data;
  const auto is_reading = [&] {
    if (!reader || data) return false;
    while (!reader->has_ended(kMeetEvery)) {
      RUN_CHECK(ranks.rank() != 0 || stop <= 0, ErrorKind::kInterrupted, kInterruptedAtStart);
      if (!reader->hangs(hang_limit)) return true;
      ranks.throw_failure();
    }
    data = reader->take();
    return false;
  };
  while (ranks.any(is_reading(), {"reading the data"})) {
  }
  return data;
}

// Moves what the first rank of a host has read to memory that all its ranks use. `data`: none on the other ranks.
data::SharedData shared_by_host(backends::ProcessGroup& host, std::optional<data::Data> data,
                                const schema::Recipe& recipe) {
  const backends::Site site{"the data"};
  std::optional<Packer> packer;
  if (data) packer = data::pack_data(*data);
  const std::string mine = packer ? pack(std::pair(packer->array_bytes(), packer->bytes())) : "";
  const auto [size, packed] = unpack<std::pair<size_t, std::string>>(host.gather_objects(mine, site).front());
  const backends::TensorType type{backends::DType::kBool, {static_cast<int64_t>(std::max<size_t>(size, 1))}};
  const std::shared_ptr<std::byte> memory = host.symmetric_alloc(type, backends::ProcessGroup::Pages::kOnTouch, site);
  if (packer) packer->move_arrays({memory.get(), size});
  packer.reset();
  data.reset();
  host.barrier(site);
  return std::make_shared<const data::Data>(data::unpack_data(packed, {memory, size}, recipe));
}

}  // namespace

bool reads_data(backends::ProcessGroup& ranks) {
  const backends::ProcessGroup* const host = ranks.host_ranks();
  return host == nullptr || host->rank() == 0;
}

data::SharedData read_once_per_host(backends::ProcessGroup& ranks, const schema::Recipe& recipe,
                                    const std::atomic<int>& stop, std::function<data::Data()> load) {
  backends::ProcessGroup* const host = ranks.host_ranks();
  const std::vector<int> cores = host != nullptr ? cores_of_host(*host) : backends::usable_core_ids();
  std::optional<Reader> reader;
  if (reads_data(ranks)) reader.emplace(cores, std::move(load));
  std::optional<data::Data> data = read_while_others_wait(ranks, reader, collective_timeout(recipe), stop);
  reader.reset();
  if (host != nullptr && host->size() > 1) return shared_by_host(*host, std::move(data), recipe);
  return std::make_shared<const data::Data>(std::move(*data));
}

}  // namespace runner::train
