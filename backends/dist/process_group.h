// The ranks of a run and their collective operations. Callers do not know the transport.
//
// Every rank makes the same calls in the same order with the same types. If calls do not match, each of them throws
// Error(kRun) on every rank, with the call of each rank. A reduction is the left fold over ranks 0 … size − 1 in the
// arithmetic of the type, so its bits depend on neither chunking nor timing. Thread safety: one thread of each rank
// at a time makes calls; fail(), has_failed() and throw_failure() may be called from any thread at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tensor/shape.h"
#include "schema/base/source_mark.h"

namespace runner::backends {

// Source of a call, for messages.
struct Site {
  std::string_view what;  // "gradients"; at most 39 characters are kept
  int64_t step = 0;
  SourceMark line = {};  // line of the hook; unknown if there is none
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;  // 0 … size() − 1
  virtual int size() const = 0;
  // For messages: "rank 3", or "rank 3 on host b" if there are several hosts.
  virtual std::string name() const;
  virtual bool spans_hosts() const { return false; }
  // Number of cores that only this rank uses, as its launcher has bound it; 0: the ranks share those of this process.
  virtual int cores() const { return 0; }

  virtual void barrier(const Site& site) = 0;
  // A barrier that returns whether `mine` is true on any rank.
  virtual bool any(bool mine, const Site& site) = 0;
  // Replaces `values`, of `type` (f32, f64, i32 or i64), by the fold over all ranks.
  virtual void all_reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction,
                          const Site& site) = 0;
  // Writes this rank's part of the fold of all ranks' `values`, of `type`, to `mine`. `counts`: elements of each rank's
  // part, the same on all ranks; the parts follow each other and cover the values. The engine does not call this: with
  // symmetric memory, each rank folds its shard in place. Between machines it sends less than all_reduce().
  virtual void reduce_scatter(const TensorType& type, std::span<const std::byte> values,
                              std::span<const int64_t> counts, std::span<std::byte> mine, Reduction reduction,
                              const Site& site) = 0;
  // Writes the `mine` of all ranks, each of `type`, to `all` in rank order.
  virtual void all_gather(const TensorType& type, std::span<const std::byte> mine, std::span<std::byte> all,
                          const Site& site) = 0;
  // Replaces `values` by those of `root`.
  virtual void broadcast(const TensorType& type, std::span<std::byte> values, int root, const Site& site) = 0;
  // Returns the strings of all ranks, of any lengths.
  virtual std::vector<std::string> gather_objects(std::string_view mine, const Site& site) = 0;

  // The ranks of this host, which have symmetric memory; null if there is none.
  virtual ProcessGroup* host_ranks() { return has_symmetric_memory() ? this : nullptr; }
  // Memory that all ranks can address, a fast path that a transport may lack.
  virtual bool has_symmetric_memory() const { return false; }
  // When pages of symmetric memory are committed. For memory that may never be written, use kOnTouch, and call
  // take_pages() (shared_memory.h) before writing much of it.
  enum class Pages : uint8_t { kNow, kOnTouch };
  // Returns zeroed memory for values of the type, the same on all ranks; null if there is no symmetric memory.
  // Collective. Writes are visible to other ranks after the next collective. Freed when the last rank releases it.
  // Throws Error(kRun) if memory is exhausted.
  virtual std::shared_ptr<std::byte> symmetric_alloc(const TensorType&, Pages, const Site&) { return nullptr; }

  // Lets reductions of values in this memory send and receive them in place. A transport may ignore it, and ranks may
  // differ in it. The group keeps the memory while messages may be in flight.
  virtual void use_in_place(std::shared_ptr<std::byte> /*memory*/, size_t /*bytes*/) {}

  // Declares this rank failed because of `reason`, at `where` if known. Other ranks throw Error(kRun) with both in
  // their current or next collective.
  virtual void fail(std::string_view reason, const SourceMark& where) noexcept = 0;
  // Whether any rank has failed, so that the work of this one is useless.
  virtual bool has_failed() const = 0;
  // Throws Error(kRun) with the reason of the failed rank; does nothing if no rank has failed.
  virtual void throw_failure() const = 0;
};

}  // namespace runner::backends
