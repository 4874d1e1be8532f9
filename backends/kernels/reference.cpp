#include "backends/kernels/reference.h"

#include <limits>

#include "backends/kernels/eltwise.h"
#include "backends/kernels/op_kernels.h"
#include "backends/kernels/prepare.h"
#include "backends/tensor/float16.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace reference {

int64_t flat_index(const Shape& shape, const Index& index) {
  int64_t flat = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) flat = flat * shape[axis] + index[static_cast<size_t>(axis)];
  return flat;
}

int64_t checked(int64_t index, int64_t size, const char* op, int64_t at) {
  RUN_CHECK(index >= 0 && index < size, ErrorKind::kRun, "{}: index {} at position {} is out of range, size {}", op,
            index, at, size);
  return index;
}

namespace {

// ---- storage -------------------------------------------------------------------------------------------------------

Real load(const std::byte* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32: return reinterpret_cast<const float*>(data)[i];
    case DType::kF64: return reinterpret_cast<const double*>(data)[i];
    case DType::kBf16: return bf16_to_f32(reinterpret_cast<const uint16_t*>(data)[i]);
    case DType::kF16: return f16_to_f32(reinterpret_cast<const uint16_t*>(data)[i]);
    case DType::kI32: return reinterpret_cast<const int32_t*>(data)[i];
    case DType::kI64: return static_cast<Real>(reinterpret_cast<const int64_t*>(data)[i]);
    case DType::kBool: return reinterpret_cast<const uint8_t*>(data)[i];
  }
  return 0;
}

// Truncates; NaN and numbers that do not fit give the smallest i64, as the hardware does.
int64_t to_integer(Real value) {
  constexpr Real kLimit = 9223372036854775808.0L;
  return value >= -kLimit && value < kLimit ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min();
}

void store(std::byte* data, DType dtype, int64_t i, Real value) {
  switch (dtype) {
    case DType::kF32: reinterpret_cast<float*>(data)[i] = static_cast<float>(value); break;
    case DType::kF64: reinterpret_cast<double*>(data)[i] = static_cast<double>(value); break;
    case DType::kBf16: reinterpret_cast<uint16_t*>(data)[i] = f32_to_bf16(static_cast<float>(value)); break;
    case DType::kF16: reinterpret_cast<uint16_t*>(data)[i] = f32_to_f16(static_cast<float>(value)); break;
    case DType::kI32: reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(to_integer(value)); break;
    case DType::kI64: reinterpret_cast<int64_t*>(data)[i] = to_integer(value); break;
    case DType::kBool: reinterpret_cast<uint8_t*>(data)[i] = value != 0; break;
  }
}

// ---- one op --------------------------------------------------------------------------------------------------------

void run_call(const Call& call, const KernelArguments& arguments) {
  std::vector<Tensor> in;
  for (size_t k = 0; k < call.operand_types.size(); ++k) {
    const TensorType& type = call.operand_types[k];
    Tensor& tensor = in.emplace_back(Tensor{type, std::vector<Real>(static_cast<size_t>(type.shape.elements()))});
    for (int64_t i = 0; i < type.shape.elements(); ++i) tensor[i] = load(arguments.operands[k], type.dtype, i);
  }
  Tensor out{call.result, std::vector<Real>(static_cast<size_t>(call.result.shape.elements()))};
  kernels_of(call.op)->reference(call, in, out);
  for (int64_t i = 0; i < call.result.shape.elements(); ++i) store(arguments.results[0], call.result.dtype, i, out[i]);
}

// ---- element-wise groups -------------------------------------------------------------------------------------------

// One element at a time; each instruction rounds to its dtype by storing and loading.
void run_group(const EltwiseGroup& group, const KernelArguments& arguments) {
  std::vector<Real> registers(group.inputs.size());
  registers.insert(registers.end(), group.constants.begin(), group.constants.end());
  const size_t first_result = registers.size();
  registers.resize(first_result + group.code.size());
  for_each(group.shape, [&](int64_t flat, const Index& index) {
    for (size_t k = 0; k < group.inputs.size(); ++k) {
      int64_t at = 0;
      for (size_t axis = 0; axis < Shape::kMaxRank; ++axis) at += index[axis] * group.inputs[k].strides[axis];
      registers[k] = load(arguments.operands[k], group.inputs[k].dtype, at);
    }
    for (size_t k = 0; k < group.code.size(); ++k) {
      const EltwiseInstruction& code = group.code[k];
      std::array<Real, 3> x{};
      for (size_t s = 0; s < 3; ++s)
        if (code.sources[s] >= 0) x[s] = registers[static_cast<size_t>(code.sources[s])];
      alignas(8) std::array<std::byte, 8> rounded;
      store(rounded.data(), code.dtype, 0, kernels_of(code.op)->scalar(x[0], x[1], x[2]));
      registers[first_result + k] = load(rounded.data(), code.dtype, 0);
    }
    for (size_t k = 0; k < group.outputs.size(); ++k) {
      const auto source = static_cast<size_t>(group.outputs[k]);
      store(arguments.results[k], group.code[source - first_result].dtype, flat, registers[source]);
    }
  });
}

}  // namespace
}  // namespace reference

Kernel prepare_reference_eltwise(const EltwiseGroup& group) {
  return make_kernel<reference::run_group>("reference.eltwise", group);
}

Kernel prepare_reference_kernel(const KernelRequest& request) {
  RUN_ASSERT(kernels_of(request.op) != nullptr);
  reference::Call call{.op = request.op,
                       .operand_types = {request.operands.begin(), request.operands.end()},
                       .attrs = {request.attrs.begin(), request.attrs.end()},
                       .result = request.result};
  return make_kernel<reference::run_call>(fmt::format("reference.{}", name_of(request.op)), std::move(call));
}

}  // namespace runner::backends
