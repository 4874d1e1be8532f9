#include <cstring>

#include "backends/kernels/op_kernels.h"
#include "backends/kernels/prepare.h"

namespace runner::backends {
namespace {

struct AllReduce {
  TensorType type;
  Reduction reduction;
  Subject subject;
};

// With a single rank the result is the operand.
void run_all_reduce(const AllReduce& r, const KernelArguments& arguments) {
  std::byte* const values = arguments.results[0];
  if (values != arguments.operands[0]) std::memcpy(values, arguments.operands[0], r.type.bytes());
  if (arguments.exchange != nullptr)
    arguments.exchange->all_reduce(r.type, {values, r.type.bytes()}, r.reduction, name_of(r.subject), *arguments.line);
}

Kernel prepare_all_reduce(const KernelRequest& request) {
  return make_kernel<run_all_reduce>("all_reduce", AllReduce{.type = request.result,
                                                             .reduction = static_cast<Reduction>(request.attrs[0]),
                                                             .subject = static_cast<Subject>(request.attrs[1])});
}

}  // namespace

namespace reference {
namespace {

// For a single rank.
void all_reduce_loop(const Call&, Operands in, Tensor& out) {
  out.values = in[0].values;
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kAllReduce = {.reference = reference::all_reduce_loop, .prepare = prepare_all_reduce};

}  // namespace runner::backends
