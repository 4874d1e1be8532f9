#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "backends/kernels/eltwise_kernels.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/scalar_ops.h"
#include "backends/kernels/prepare.h"
#include "backends/tensor/rounding.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

constexpr int64_t kMaxBlock = 1024;
constexpr size_t kSlotBytes = 32 << 10;  // of all slots together, so that they stay in the L1 cache
constexpr size_t kStagger = 192;         // between slots, which at multiples of 4 KiB would share cache sets
constexpr int64_t kMinBlock = 16;        // with the most registers a group may have
static_assert(kSlotBytes / (kMinBlock * 8) >= EltwiseGroup::kMaxRegisters);

// Location of a register while a block runs.
struct RegisterPlace {
  enum class Kind : uint8_t { kSlot, kOperand, kResult } kind = Kind::kSlot;
  int index = 0;
};

struct Step {
  EltwiseLoops::Apply apply = nullptr;   // null: a cast
  EltwiseLoops::Convert cast = nullptr;  // of the only source, or rounding of the result (null: none)
  int target = 0;
  std::array<int, 3> sources{};  // registers; absent ones repeat the first
};

// An input that is copied to a slot: before each block, or once per chunk if all blocks see the same values.
struct LoadedInput {
  size_t operand;
  int slot;
  EltwiseLoops::Load load;
  int64_t element_bytes, register_bytes;
  std::array<int64_t, Shape::kMaxRank> strides;
};

struct Constant {
  double value;
  Compute compute;
  int slot;
};

struct StoredOutput {
  EltwiseLoops::Convert store;
  int source;
  size_t result;
};

struct Vm {
  int rank = 1;
  std::array<int64_t, Shape::kMaxRank> dims{};
  int64_t elements = 0, block = 0, chunks = 0;
  size_t slot_bytes = 0;
  std::vector<Constant> constants;
  std::vector<LoadedInput> resident, loaded;
  std::vector<RegisterPlace> places;   // of each register
  std::vector<int64_t> operand_bytes;  // of one element
  std::vector<int64_t> result_bytes;
  std::vector<Step> steps;
  std::vector<StoredOutput> stored;
};

// ---- compilation ---------------------------------------------------------------------------------------------------

// Free list of slots.
class Slots {
 public:
  int take() {
    if (free_.empty()) return used_++;
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(int slot) { free_.push_back(slot); }
  int used() const { return used_; }

 private:
  std::vector<int> free_;
  int used_ = 0;
};

class Compiler {
 public:
  explicit Compiler(const EltwiseGroup& group)
      : group_(group),
        space_(collapse(group)),
        loops_(loops().eltwise),
        first_constant_(group.inputs.size()),
        first_result_(first_constant_ + group.constants.size()) {
    const size_t registers = first_result_ + group.code.size();
    computes_.resize(registers);
    last_use_.assign(registers, -1);
    vm_.places.resize(registers);
  }

  Vm compile() {
    find_computes();
    find_uses();
    place_inputs();
    for (size_t k = 0; k < group_.code.size(); ++k) emit(k);
    for (size_t k = 0; k < group_.outputs.size(); ++k) emit_store(k);
    // A stored result may share its buffer with an operand, so results that are stored from operands come first.
    std::stable_partition(vm_.stored.begin(), vm_.stored.end(), [&](const StoredOutput& output) {
      return vm_.places[static_cast<size_t>(output.source)].kind == RegisterPlace::Kind::kOperand;
    });
    size_space();
    return std::move(vm_);
  }

 private:
  bool is_constant(size_t reg) const { return reg >= first_constant_ && reg < first_result_; }
  const EltwiseInstruction& code_of(size_t reg) const { return group_.code[reg - first_result_]; }
  bool is_native(DType dtype) const { return size_of(dtype) == size_of(compute_of(dtype)) && dtype != DType::kI32; }

  // Register type of the operands of an instruction. The condition of where is always f32.
  Compute operand_compute(const EltwiseInstruction& code) const {
    for (size_t s = code.op == Op::kWhere ? 1 : 0; s < 3; ++s)
      if (code.sources[s] >= 0 && !is_constant(static_cast<size_t>(code.sources[s])))
        return computes_[static_cast<size_t>(code.sources[s])];
    return compute_of(code.dtype);
  }

  void find_computes() {
    for (size_t k = 0; k < group_.inputs.size(); ++k) computes_[k] = compute_of(group_.inputs[k].dtype);
    for (size_t k = 0; k < group_.code.size(); ++k) {
      const EltwiseInstruction& code = group_.code[k];
      computes_[first_result_ + k] = compute_of(code.dtype);
      for (const int16_t source : code.sources)
        if (source >= 0 && is_constant(static_cast<size_t>(source)))
          computes_[static_cast<size_t>(source)] = operand_compute(code);
    }
  }

  void find_uses() {
    for (size_t k = 0; k < group_.code.size(); ++k)
      for (const int16_t source : group_.code[k].sources)
        if (source >= 0) last_use_[static_cast<size_t>(source)] = static_cast<int>(k);
    is_read_.resize(last_use_.size());
    for (size_t r = 0; r < last_use_.size(); ++r) is_read_[r] = last_use_[r] >= 0;
    for (const int16_t output : group_.outputs) keep_to_the_end(static_cast<size_t>(output));
    for (size_t k = 0; k < group_.code.size(); ++k)
      if (only_stored(k)) keep_to_the_end(static_cast<size_t>(group_.code[k].sources[0]));
  }
  void keep_to_the_end(size_t reg) { last_use_[reg] = static_cast<int>(group_.code.size()); }

  // Whether a cast within one register type is only stored. The store rounds, so it takes the source of the cast.
  bool only_stored(size_t k) const {
    const EltwiseInstruction& code = group_.code[k];
    return code.op == Op::kCast && code.dtype != DType::kBool && !is_native(code.dtype) &&
           !is_read_[first_result_ + k] && operand_compute(code) == compute_of(code.dtype);
  }

  // Whether every row has the same values: no strides except along the last axis.
  bool is_periodic(size_t input) const {
    const auto& strides = space_.strides[input];
    return std::all_of(strides.begin(), strides.begin() + space_.rank - 1, [](int64_t s) { return s == 0; });
  }
  bool is_walked_in_order(size_t input) const {
    int64_t expected = 1;
    for (int axis = space_.rank; axis-- > 0;) {
      if (space_.strides[input][static_cast<size_t>(axis)] != expected) return false;
      expected *= space_.dims[static_cast<size_t>(axis)];
    }
    return true;
  }

  void place_inputs() {
    for (size_t k = 0; k < group_.inputs.size(); ++k) {
      const DType dtype = group_.inputs[k].dtype;
      vm_.operand_bytes.push_back(static_cast<int64_t>(size_of(dtype)));
      if (is_native(dtype) && is_walked_in_order(k)) {
        vm_.places[k] = {RegisterPlace::Kind::kOperand, static_cast<int>(k)};
        last_operand_read_ = std::max(last_operand_read_, last_use_[k]);
        continue;
      }
      const LoadedInput input{k,
                              slots_.take(),
                              loops_.load[static_cast<int>(dtype)],
                              vm_.operand_bytes[k],
                              static_cast<int64_t>(size_of(computes_[k])),
                              space_.strides[k]};
      vm_.places[k] = {RegisterPlace::Kind::kSlot, input.slot};
      (is_periodic(k) && (space_.rank > 1 || space_.inner_stride(k) == 0) ? vm_.resident : vm_.loaded).push_back(input);
    }
    for (size_t k = first_constant_; k < first_result_; ++k) {
      vm_.places[k] = {RegisterPlace::Kind::kSlot, slots_.take()};
      vm_.constants.push_back({group_.constants[k - first_constant_], computes_[k], vm_.places[k].index});
    }
  }

  // Frees the slot of a register at its last use. Only results are freed: inputs are loaded once per block or chunk.
  void release(size_t reg, int step) {
    if (reg >= first_result_ && last_use_[reg] == step && vm_.places[reg].kind == RegisterPlace::Kind::kSlot)
      slots_.give_back(vm_.places[reg].index);
  }
  void release_sources(const EltwiseInstruction& code, int step) {
    for (size_t s = 0; s < 3; ++s) {
      const int16_t source = code.sources[s];
      const bool repeated = std::find(code.sources.begin(), code.sources.begin() + static_cast<std::ptrdiff_t>(s),
                                      source) != code.sources.begin() + static_cast<std::ptrdiff_t>(s);
      if (source >= 0 && !repeated) release(static_cast<size_t>(source), step);
    }
  }

  // Output into which a result is written directly, or −1. Only if no later step reads an operand in place, since the
  // output may share its buffer.
  int direct_output(size_t reg, int step) const {
    if (!is_native(code_of(reg).dtype) || step < last_operand_read_) return -1;
    for (size_t k = 0; k < group_.outputs.size(); ++k)
      if (static_cast<size_t>(group_.outputs[k]) == reg) return static_cast<int>(k);
    return -1;
  }

  void emit(size_t k) {
    const EltwiseInstruction& code = group_.code[k];
    const size_t reg = first_result_ + k;
    const int index = static_cast<int>(k);
    if (only_stored(k)) {
      vm_.places[reg] = vm_.places[static_cast<size_t>(code.sources[0])];
      return;
    }
    const Compute from = operand_compute(code), to = compute_of(code.dtype);
    const auto from_at = static_cast<size_t>(from), to_at = static_cast<size_t>(to),
               dtype_at = static_cast<size_t>(code.dtype);
    Step step{.target = static_cast<int>(reg)};
    for (size_t s = 0; s < 3; ++s) step.sources[s] = code.sources[s] >= 0 ? code.sources[s] : code.sources[0];
    if (code.op == Op::kCast) {
      step.cast = loops_.cast[from_at][dtype_at];
    } else {
      step.apply = loops_.apply[static_cast<size_t>(code.op)][from_at];
      RUN_CHECK(step.apply != nullptr, ErrorKind::kRun, "{}: {} is not supported", name_of(code.op),
                name_of(code.dtype));
      const bool rounds =
          code.dtype != DType::kBool && !is_native(code.dtype) && is_read_[reg];  // else the store rounds
      step.cast = rounds ? loops_.cast[to_at][dtype_at] : nullptr;
    }
    // A loop may overwrite a source only if both have the same element size.
    const bool in_place = from == to && (code.op != Op::kWhere || from == Compute::kF32);
    if (in_place) release_sources(code, index);
    const int output = direct_output(reg, index);
    vm_.places[reg] = output >= 0 ? RegisterPlace{RegisterPlace::Kind::kResult, output}
                                  : RegisterPlace{RegisterPlace::Kind::kSlot, slots_.take()};
    if (!in_place) release_sources(code, index);
    if (last_use_[reg] < 0 && output < 0) slots_.give_back(vm_.places[reg].index);
    vm_.steps.push_back(step);
  }

  void emit_store(size_t k) {
    const auto reg = static_cast<size_t>(group_.outputs[k]);
    const DType dtype = code_of(reg).dtype;
    vm_.result_bytes.push_back(static_cast<int64_t>(size_of(dtype)));
    const RegisterPlace& place = vm_.places[reg];
    if (place.kind == RegisterPlace::Kind::kResult && place.index == static_cast<int>(k)) return;
    vm_.stored.push_back({loops_.store[static_cast<size_t>(dtype)], static_cast<int>(reg), k});
  }

  void size_space() {
    vm_.rank = space_.rank;
    vm_.dims = space_.dims;
    vm_.elements = group_.shape.elements();
    const bool wide = std::any_of(computes_.begin(), computes_.end(), [](Compute c) { return size_of(c) == 8; });
    const int64_t element_bytes = wide ? 8 : 4;
    const int64_t fits = static_cast<int64_t>(kSlotBytes) / (std::max(slots_.used(), 1) * element_bytes);
    const int64_t largest = std::min(kMaxBlock, fits / kMinBlock * kMinBlock);
    vm_.slot_bytes = static_cast<size_t>(largest * element_bytes) + kStagger;
    vm_.block = largest;
    // Blocks are whole rows, so that inputs with the same values in every row stay in their slots. Longer rows are
    // loaded block by block.
    if (space_.rank > 1 && space_.inner() <= largest && space_.inner() > 0) {
      vm_.block = largest / space_.inner() * space_.inner();
    } else if (space_.rank > 1) {
      const auto varies = [](const LoadedInput& input) {
        return std::any_of(input.strides.begin(), input.strides.end(), [](int64_t s) { return s != 0; });
      };
      const auto split = std::stable_partition(vm_.resident.begin(), vm_.resident.end(), std::not_fn(varies));
      vm_.loaded.insert(vm_.loaded.end(), split, vm_.resident.end());
      vm_.resident.erase(split, vm_.resident.end());
    }
    const int64_t blocks = ceil_div(vm_.elements, vm_.block);
    vm_.chunks = chunk_count(element_cost_ns(group_) * static_cast<double>(vm_.elements), blocks);
  }

  const EltwiseGroup& group_;
  const CollapsedSpace space_;
  const EltwiseLoops& loops_;
  const size_t first_constant_, first_result_;
  std::vector<Compute> computes_;
  std::vector<int> last_use_;  // last step that reads a register; code.size() for outputs, −1 for none
  std::vector<bool> is_read_;  // by an instruction
  int last_operand_read_ = -1;
  Slots slots_;
  Vm vm_;
};

// ---- execution -----------------------------------------------------------------------------------------------------

// Loads elements [first, first + n) of a broadcast or strided input, run by run along the last axis.
void load_input(const Vm& vm, const LoadedInput& input, const std::byte* data, int64_t first, int64_t n,
                std::byte* slot) {
  std::array<int64_t, Shape::kMaxRank> index{};
  int64_t rest = first, offset = 0;
  for (int axis = vm.rank; axis-- > 0;) {
    const auto at = static_cast<size_t>(axis);
    index[at] = rest % vm.dims[at];
    rest /= vm.dims[at];
    offset += index[at] * input.strides[at];
  }
  const auto inner = static_cast<size_t>(vm.rank - 1);
  while (n > 0) {
    const int64_t run = std::min(n, vm.dims[inner] - index[inner]);
    input.load(slot, data + offset * input.element_bytes, input.strides[inner], run);
    slot += run * input.register_bytes;
    n -= run;
    offset += run * input.strides[inner];
    index[inner] += run;
    for (size_t axis = inner; axis > 0 && index[axis] == vm.dims[axis]; --axis) {
      offset += input.strides[axis - 1] - vm.dims[axis] * input.strides[axis];
      index[axis] = 0;
      ++index[axis - 1];
    }
  }
}

void fill(const Constant& constant, std::byte* slot, int64_t n) {
  switch (constant.compute) {
    case Compute::kF32: std::fill_n(reinterpret_cast<float*>(slot), n, static_cast<float>(constant.value)); break;
    case Compute::kF64: std::fill_n(reinterpret_cast<double*>(slot), n, constant.value); break;
    case Compute::kI64: std::fill_n(reinterpret_cast<int64_t*>(slot), n, static_cast<int64_t>(constant.value)); break;
  }
}

void run_blocks(const Vm& vm, const KernelArguments& arguments, int64_t begin, int64_t end) {
  alignas(64) std::byte slots[kSlotBytes + EltwiseGroup::kMaxRegisters * kStagger];
  std::array<std::byte*, EltwiseGroup::kMaxRegisters> registers;
  const auto slot_at = [&](int slot) { return slots + static_cast<size_t>(slot) * vm.slot_bytes; };
  const auto load = [&](const LoadedInput& input, int64_t first, int64_t n) {
    load_input(vm, input, arguments.operands[input.operand], first, n, slot_at(input.slot));
  };
  for (size_t r = 0; r < vm.places.size(); ++r)
    if (vm.places[r].kind == RegisterPlace::Kind::kSlot) registers[r] = slot_at(vm.places[r].index);
  const int64_t largest = std::min(vm.block, end - begin);
  for (const Constant& constant : vm.constants) fill(constant, slot_at(constant.slot), largest);
  for (const LoadedInput& input : vm.resident) load(input, begin, largest);
  for (int64_t first = begin; first < end; first += vm.block) {
    const int64_t n = std::min(vm.block, end - first);
    for (const LoadedInput& input : vm.loaded) load(input, first, n);
    for (size_t r = 0; r < vm.places.size(); ++r) {
      const auto at = static_cast<size_t>(vm.places[r].index);
      if (vm.places[r].kind == RegisterPlace::Kind::kOperand)
        registers[r] = arguments.operands[at] + first * vm.operand_bytes[at];
      if (vm.places[r].kind == RegisterPlace::Kind::kResult)
        registers[r] = arguments.results[at] + first * vm.result_bytes[at];
    }
    for (const Step& step : vm.steps) {
      std::byte* target = registers[static_cast<size_t>(step.target)];
      const auto source = [&](size_t s) { return registers[static_cast<size_t>(step.sources[s])]; };
      if (step.apply != nullptr) step.apply(target, source(0), source(1), source(2), n);
      if (step.cast != nullptr) step.cast(target, step.apply != nullptr ? target : source(0), n);
    }
    for (const StoredOutput& output : vm.stored)
      output.store(arguments.results[output.result] + first * vm.result_bytes[output.result],
                   registers[static_cast<size_t>(output.source)], n);
  }
}

void run_vm(const Vm& vm, const KernelArguments& arguments) {
  const int64_t blocks = ceil_div(vm.elements, vm.block);
  arguments.pool.parallel_for(vm.chunks, [&](int64_t chunk) {
    run_blocks(vm, arguments, blocks * chunk / vm.chunks * vm.block,
               std::min(vm.elements, blocks * (chunk + 1) / vm.chunks * vm.block));
  });
}

}  // namespace

namespace {

template <Op op>
constexpr double nanoseconds_of() {
  if constexpr (is_elementwise(op))
    return scalar_ops::Scalar<op>::kNanoseconds;
  else
    return 0;
}

// Per element in f32, by op.
constexpr double kNanoseconds[kOpCount] = {
#define RUNNER_OP(id, name, kind, least, most) nanoseconds_of<Op::id>(),
#include "backends/ir/op_list.def"
};

}  // namespace

double element_cost_ns(const EltwiseGroup& group) {
  double cost = 0.02 * static_cast<double>(group.inputs.size() + group.outputs.size());
  for (const EltwiseInstruction& code : group.code) {
    const double f32 = kNanoseconds[static_cast<size_t>(code.op)];
    cost += compute_of(code.dtype) == Compute::kF64 ? f32 * (f32 > 0.1 ? 20 : 2) : f32;
  }
  return cost;
}

Kernel prepare_eltwise_vm(const EltwiseGroup& group) {
  RUN_ASSERT(group.inputs.size() + group.constants.size() + group.code.size() <= EltwiseGroup::kMaxRegisters);
  return make_kernel<run_vm>(fmt::format("eltwise.vm{}", group.code.size()), Compiler(group).compile());
}

}  // namespace runner::backends
