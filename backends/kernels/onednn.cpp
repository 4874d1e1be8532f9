#include "backends/kernels/onednn.h"

#include <fmt/format.h>

#include "backends/kernels/kernel_choices.h"
#include "schema/base/error.h"

extern "C" void omp_set_num_threads(int threads);

namespace runner::backends {

void use_one_openmp_thread() {
  thread_local const bool done = (omp_set_num_threads(1), true);
  static_cast<void>(done);
}

const dnnl::engine& onednn_engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

dnnl::memory::data_type onednn_type(DType dtype) {
  RUN_ASSERT(dtype == DType::kF32 || dtype == DType::kBf16);
  return dtype == DType::kF32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

dnnl::memory onednn_memory(const dnnl::memory::desc& desc) {
  return dnnl::memory(desc, onednn_engine(), nullptr);
}

void point(dnnl::memory& object, std::byte* data) {
  if (dnnl_memory_set_data_handle_v2(object.get(), data, nullptr) != dnnl_success)
    fail(ErrorKind::kRun, "oneDNN rejects a buffer");
}

void execute(const dnnl::primitive& primitive, const dnnl::stream& stream, std::span<const dnnl_exec_arg_t> arguments,
             std::string_view op) {
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data());
  RUN_CHECK(status == dnnl_success, ErrorKind::kRun, "{}: oneDNN failed with status {}", op, static_cast<int>(status));
}

OneDnnLimit onednn_limit() {
  const auto allowed =
      static_cast<unsigned>(dnnl_get_effective_cpu_isa());  // each includes the bits of the smaller ones
  const auto has = [&](dnnl_cpu_isa_t isa) { return (allowed & isa) == static_cast<unsigned>(isa); };
  OneDnnLimit limit;
  limit.avx2 = has(dnnl_cpu_isa_avx2);
  limit.avx512 = has(dnnl_cpu_isa_avx512_core);
  limit.avx512_bf16 = has(dnnl_cpu_isa_avx512_core_bf16);
  limit.amx = has(dnnl_cpu_isa_avx512_core_amx);
  limit.instructions = limit.amx           ? "amx"
                       : limit.avx512_bf16 ? "avx512_bf16"
                       : limit.avx512      ? "avx512"
                       : limit.avx2        ? "avx2"
                                           : "sse41";
  return limit;
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace runner::backends
