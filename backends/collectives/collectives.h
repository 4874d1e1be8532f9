// What replicas do together.  Processes that share memory and threads of one process implement it alike; nothing above
// knows which.
//
// Every rank makes the same calls in the same order, with the same types.  Where it does not, each call that meets
// another throws Error(kRun), on every rank, with what each of them does.  A reduction is the left fold over ranks
// 0 … size − 1 in the type's own arithmetic, so that its bits depend on neither pieces nor timing.
// Thread safety: one thread of each rank calls; fail(), has_failed() and throw_failure() may be called from any, also
// while that one does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tensor/shape.h"
#include "schema/source_mark.h"

namespace runner::backends {

// Why a rank makes a call, for messages.
struct Site {
  std::string_view what;  // "gradients"; at most 39 characters are kept
  int64_t step = 0;
  SourceMark line = {};  // of the hook; unknown: none
};

enum class Reduction : uint8_t { kSum, kMin, kMax };

// What a Program reduces, for messages.
enum class Subject : uint8_t { kGradients, kLoss };
constexpr std::string_view name_of(Subject subject) {
  return subject == Subject::kGradients ? "gradients" : "the loss";
}

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;  // 0 … size() − 1
  virtual int size() const = 0;

  virtual void barrier(const Site& site) = 0;
  // The same; whether any rank has come with `mine`.
  virtual bool any(bool mine, const Site& site) = 0;
  // `values`, of `type` (f32, f64, i32 or i64), become the fold over all ranks: everywhere, or on `root` alone.
  virtual void all_reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction,
                          const Site& site) = 0;
  virtual void reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction, int root,
                      const Site& site) = 0;
  // `all` gets `mine` of every rank, of `type`, in the order of ranks.
  virtual void all_gather(const TensorType& type, std::span<const std::byte> mine, std::span<std::byte> all,
                          const Site& site) = 0;
  // `values` become those of `root`.
  virtual void broadcast(const TensorType& type, std::span<std::byte> values, int root, const Site& site) = 0;
  // The texts of all ranks, of any lengths.
  virtual std::vector<std::string> gather_objects(std::string_view mine, const Site& site) = 0;

  // Zeroed memory for values of `type`, the same for all ranks: what one writes, another reads once both have met.
  // Freed when the last rank lets go.  Throws Error(kRun) when the system has not so much.
  virtual std::shared_ptr<std::byte> share(const TensorType& type, const Site& site) = 0;
  // The same for what may never be written: the system gives it where it is touched.  Whoever is about to write much of
  // it calls take_pages() (shared_memory.h).
  virtual std::shared_ptr<std::byte> reserve(const TensorType& type, const Site& site) = 0;

  // This rank ends, because of `reason`, at `where` if that is known: the others throw Error(kRun) with both as soon as
  // they wait for it.
  virtual void fail(std::string_view reason, const SourceMark& where) noexcept = 0;
  // Whether a rank has: what this one does is for nothing.
  virtual bool has_failed() const = 0;
  // Throws Error(kRun) with what a rank has failed with; does nothing where none has.
  virtual void throw_failure() const = 0;
};

}  // namespace runner::backends
