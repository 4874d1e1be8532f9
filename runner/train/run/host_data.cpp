#include "runner/train/run/host_data.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/runtime/affinity.h"
#include "runner/data/packed_data.h"
#include "schema/base/error.h"
#include "schema/base/packing.h"
#include "schema/base/signals_blocked.h"

namespace runner::train {
namespace {

// Cores of all ranks of this host: the others wait while one reads.
std::vector<int> cores_of_host(backends::ProcessGroup& host) {
  std::set<int> all;
  for (const std::string& text : host.gather_objects(pack(backends::usable_core_ids()), {"the cores"}))
    for (const int core : unpack<std::vector<int>>(text)) all.insert(core);
  return {all.begin(), all.end()};
}

data::Data load_with(const std::vector<int>& cores, const std::function<data::Data()>& load) {
  std::optional<backends::PinnedThread> pinned;
  try {
    pinned.emplace(cores);
  } catch (const Error&) {  // the system keeps this rank on its own cores
  }
  return load();
}

// Reads on a thread of its own, so that the other ranks see that this one is alive, however long that takes. Returns
// none on ranks that do not read.
std::optional<data::Data> read_while_others_wait(backends::ProcessGroup& ranks, bool reads,
                                                 const std::function<data::Data()>& load) {
  constexpr auto kSignOfLifeEvery = std::chrono::milliseconds(100);
  std::optional<data::Data> data;
  std::future<data::Data> reading;
  if (reads) {
    const SignalsBlocked blocked;
    reading = std::async(std::launch::async, load);
  }
  const auto is_reading = [&] {
    if (!reading.valid()) return false;
    if (reading.wait_for(kSignOfLifeEvery) != std::future_status::ready) return true;
    data = reading.get();
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
  if (data) packer = data::packed(*data);
  int64_t words = packer ? static_cast<int64_t>(packer->array_bytes() / sizeof(int64_t)) : 0;
  host.broadcast({backends::DType::kI64, {1}}, std::as_writable_bytes(std::span(&words, 1)), 0, site);
  const std::string text = host.gather_objects(packer ? packer->text() : "", site).front();
  const backends::TensorType type{backends::DType::kI64, {std::max<int64_t>(words, 1)}};
  const std::shared_ptr<std::byte> memory = host.symmetric_alloc(type, backends::ProcessGroup::Pages::kNow, site);
  if (packer) packer->copy_arrays({memory.get(), type.bytes()});
  data.reset();
  host.barrier(site);
  return std::make_shared<const data::Data>(data::unpacked(text, memory, recipe));
}

}  // namespace

data::SharedData read_once_per_host(backends::ProcessGroup& ranks, const schema::Recipe& recipe,
                                    const std::function<data::Data()>& load) {
  backends::ProcessGroup* const host = ranks.host_ranks();
  const bool reads = host == nullptr || host->rank() == 0;
  const std::vector<int> cores = host != nullptr ? cores_of_host(*host) : std::vector<int>();
  std::optional<data::Data> data = read_while_others_wait(ranks, reads, [&] { return load_with(cores, load); });
  if (host != nullptr && host->size() > 1) return shared_by_host(*host, std::move(data), recipe);
  return std::make_shared<const data::Data>(std::move(*data));
}

}  // namespace runner::train
