// Helpers of kernels that call oneDNN 2.x. Only these include this header, the only one that includes oneDNN's.
//
// Primitives are created when a Plan is built, and run as single-threaded calls on parts of the work that depend on the
// shape only. oneDNN's own OpenMP pool is not used: each thread that creates or runs primitives is first limited to one
// OpenMP thread. The memory objects that hold the pointers of a call come from a free list (OneDnnCalls), so that
// several threads may run a kernel at the same time.
#pragma once

#include <list>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "backends/tensor/dtype.h"

namespace runner::backends {

void use_one_openmp_thread();
const dnnl::engine& onednn_engine();

// f32 or bf16.
dnnl::memory::data_type onednn_type(DType dtype);

// Memory without a buffer.
dnnl::memory onednn_memory(const dnnl::memory::desc& desc);
// Throws Error(kRun) if oneDNN rejects the buffer.
void point(dnnl::memory& object, std::byte* data);

// Throws Error(kRun) with the name of the op if oneDNN fails.
void execute(const dnnl::primitive& primitive, const dnnl::stream& stream, std::span<const dnnl_exec_arg_t> arguments,
             std::string_view op);

// The free list of a kernel. Calls: the memory objects of one execution.
template <class Calls>
class OneDnnCalls {
 public:
  // Returned to the list at the end of its life.
  class Borrowed {
   public:
    template <class Make>
    Borrowed(OneDnnCalls& list, const Make& make) : list_(list) {
      {
        const std::lock_guard lock(list_.mutex_);
        if (!list_.idle_.empty()) calls_.splice(calls_.end(), list_.idle_, list_.idle_.begin());
      }
      if (calls_.empty()) calls_.push_back(make());
    }
    ~Borrowed() { list_.give(calls_); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    Calls& operator*() { return calls_.front(); }

   private:
    OneDnnCalls& list_;
    std::list<Calls> calls_;  // one
  };

  void add(Calls calls) {
    std::list<Calls> one;
    one.push_back(std::move(calls));
    give(one);
  }

 private:
  // Does not allocate.
  void give(std::list<Calls>& calls) noexcept {
    const std::lock_guard lock(mutex_);
    idle_.splice(idle_.begin(), calls);
  }

  std::mutex mutex_;
  std::list<Calls> idle_;
};

}  // namespace runner::backends
