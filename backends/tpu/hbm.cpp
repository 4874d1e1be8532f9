#include "backends/tpu/hbm.h"

#include <algorithm>

#include "backends/ir/op_def.h"

namespace runner::backends::tpu {
namespace {

class HbmPlanner {
 public:
  HbmPlanner(const DeviceProgram& device, const HbmOptions& options)
      : program_(device.program),
        groups_(device.groups),
        options_(options),
        traced_(trace_tensors(device)),
        end_(static_cast<int>(device.groups.size())) {}

  HbmPlan run() {
    make_buffers();
    find_reads();
    for (const Output& output : program_.outputs()) place_output(output);
    take_over_operands();
    pack();
    count_arguments();
    for (const char idle : traced_.idle) plan_.code += idle ? 0 : kCodeOfGroup;
    for (size_t t = 0; t < buffers_.size(); ++t)
      if (!in_argument_[t]) plan_.buffers.push_back(buffers_[t]);
    return std::move(plan_);
  }

 private:
  // A group reads a tensor as a piece of a value.
  struct Read {
    int group;
    int place;         // index in the value's list of pieces
    int64_t elements;  // elements of the value; kPartOfTensor if the value has only a part of a tensor
  };
  static constexpr int64_t kPartOfTensor = -1;

  const std::vector<Piece>& pieces(ValueId id) const { return traced_.pieces[static_cast<size_t>(id)]; }
  HbmBuffer& buffer(const Piece& piece) { return buffers_[static_cast<size_t>(piece.tensor)]; }
  const Input& input(const Output& output) const { return program_.inputs()[static_cast<size_t>(output.state)]; }

  void make_buffers() {
    for (const DeviceTensor& tensor : traced_.tensors) {
      const bool argument = tensor.group < 0;
      buffers_.push_back({.tensor = tensor,
                          .allocation = argument ? Allocation::kArgument : Allocation::kTemporary,
                          .first = tensor.group,
                          .last = argument ? end_ : tensor.group});
    }
    in_argument_.assign(buffers_.size(), 0);
  }

  // Records the reads of each tensor. Idle groups read nothing; the readers of their results do.
  void find_reads() {
    reads_.resize(buffers_.size());
    for (int g = 0; g < end_; ++g)
      if (!traced_.idle[static_cast<size_t>(g)])
        for (const ValueId operand : groups_[static_cast<size_t>(g)].operands) add_reads(operand, g);
  }

  void add_reads(ValueId id, int group) {
    const int64_t elements = traced_.whole(id) ? program_.type(id).shape.elements() : kPartOfTensor;
    int place = 0;
    for (const Piece& piece : pieces(id)) {
      reads_[static_cast<size_t>(piece.tensor)].push_back({group, place++, elements});
      buffer(piece).last = std::max(buffer(piece).last, group);
    }
  }

  void place_output(const Output& output) {
    if (output.state < 0) {
      for (const Piece& piece : pieces(output.value)) return_tensor(piece);
      return;
    }
    const std::vector<Piece>& old = pieces(input(output).value);
    for (const Piece& piece : old) {
      plan_.outputs += buffer(piece).padded();
      if (options_.donate) plan_.aliased += buffer(piece).padded();
    }
    const std::vector<Piece>& now = pieces(output.value);
    for (size_t i = 0; i < now.size(); ++i) {
      if (now.size() == old.size() && is_like(now[i], old[i])) replace(now[i], old[i]);
      keep_until_end(now[i]);
    }
  }

  bool is_like(const Piece& a, const Piece& b) {
    return a.elements == b.elements && buffer(a).tensor.type == buffer(b).tensor.type;
  }

  // Computes a tensor directly into the output's memory. The output is a copy if another output already has the tensor
  // or if it is an argument.
  void return_tensor(const Piece& piece) {
    HbmBuffer& own = buffer(piece);
    plan_.outputs += own.padded();
    keep_until_end(piece);
    if (is_free_temporary(piece)) own.allocation = Allocation::kOutput;
  }

  void keep_until_end(const Piece& piece) { buffer(piece).last = end_; }

  bool is_free_temporary(const Piece& piece) {
    return buffer(piece).allocation == Allocation::kTemporary && !in_argument_[static_cast<size_t>(piece.tensor)];
  }

  // Computes the new value of a state into the memory of the old one or, without donation, into the output. It gets the
  // layout of the old value, even if it must be a temporary first.
  void replace(const Piece& now, const Piece& old) {
    HbmBuffer& own = buffer(now);
    if (!is_free_temporary(now)) return;
    own.tensor.layout = buffer(old).tensor.layout;
    if (options_.donate) {
      const std::vector<Read>& reads = reads_[static_cast<size_t>(old.tensor)];
      const int last = reads.empty() ? -1 : reads.back().group;
      if (last > own.first || (last == own.first && !element_by_element(now.tensor, old.tensor))) return;
      in_argument_[static_cast<size_t>(now.tensor)] = 1;
    } else {
      own.allocation = Allocation::kOutput;
    }
  }

  bool works_in_place(const Group& group) const {
    return def_of(program_.node(group.nodes[0]).op).in_place == InPlaceRule::kSameElement;
  }

  // Index of a computed tensor in the piece list of its value.
  int place_of(int tensor) const {
    const ValueId value = buffers_[static_cast<size_t>(tensor)].tensor.value;
    return tensor - pieces(value).front().tensor;
  }

  // Whether the group that computes `result` reads `operand` only at the element that it writes.
  bool element_by_element(int result, int operand) const {
    const HbmBuffer &to = buffers_[static_cast<size_t>(result)], &from = buffers_[static_cast<size_t>(operand)];
    if (!works_in_place(groups_[static_cast<size_t>(to.first)]) || to.tensor.unpadded() != from.tensor.unpadded())
      return false;
    const int64_t elements = program_.type(to.tensor.value).shape.elements();
    const std::vector<Read>& reads = reads_[static_cast<size_t>(operand)];
    return std::all_of(reads.begin(), reads.end(), [&](const Read& read) {
      return read.group != to.first || (read.place == place_of(result) && read.elements == elements);
    });
  }

  // Lets results of element-wise groups and collectives reuse the memory of operands that die there.
  void take_over_operands() {
    for (size_t t = 0; t < buffers_.size(); ++t)
      if (is_free_temporary({static_cast<int>(t), 0})) buffers_[t].block = static_cast<int>(t);
    for (int g = 0; g < end_; ++g)
      for (const ValueId result : groups_[static_cast<size_t>(g)].results)
        for (const Piece& piece : pieces(result))
          if (buffer(piece).block >= 0 && buffer(piece).tensor.value == result) take_over_operand(piece.tensor);
  }

  void take_over_operand(int result) {
    HbmBuffer& own = buffers_[static_cast<size_t>(result)];
    const auto place = static_cast<size_t>(place_of(result));
    for (const ValueId id : groups_[static_cast<size_t>(own.first)].operands) {
      if (place >= pieces(id).size()) continue;
      const int operand = pieces(id)[place].tensor;
      HbmBuffer& old = buffers_[static_cast<size_t>(operand)];
      const bool dies = old.block >= 0 && old.first < own.first && old.last == own.first;
      if (!dies || old.padded() != own.padded() || !element_by_element(result, operand)) continue;
      own.block = old.block;
      old.last = own.first - 1;
      return;
    }
  }

  void pack() {
    std::vector<HeapBlock> blocks(buffers_.size());
    for (const HbmBuffer& own : buffers_)
      if (own.block >= 0) {
        HeapBlock& block = blocks[static_cast<size_t>(own.block)];
        const int first = block.bytes == 0 ? own.first : std::min(block.first, own.first);
        block = {.bytes = own.padded(), .first = first, .last = std::max(block.last, own.last)};
      }
    plan_.temporaries = pack_best_fit(blocks);
    const Peak peak = peak_step(blocks, end_ + 1);
    plan_.peak_group = peak.step;
    plan_.peak_bytes = peak.bytes;
    for (HbmBuffer& own : buffers_)
      if (own.block >= 0) {
        own.offset = blocks[static_cast<size_t>(own.block)].offset;
        if (own.lives_at(peak.step)) plan_.peak_unpadded += own.tensor.unpadded();
      }
  }

  void count_arguments() {
    const TpuDataSheet& row = row_of(options_.generation);
    plan_.reserved = row.reserved_bytes;
    plan_.capacity = row.hbm_bytes;
    for (const Input& each : program_.inputs())
      for (const Piece& piece : pieces(each.value)) {
        plan_.arguments += buffer(piece).padded();
        plan_.arguments_unpadded += buffer(piece).tensor.unpadded();
        if (each.kind == InputKind::kBatch) plan_.prefetched += options_.prefetched_batches * buffer(piece).padded();
      }
  }

  const Program& program_;
  const std::vector<Group>& groups_;
  const HbmOptions options_;
  const DeviceTensors traced_;
  const int end_;  // index after the last group
  HbmPlan plan_;
  std::vector<HbmBuffer> buffers_;        // by tensor
  std::vector<std::vector<Read>> reads_;  // by tensor, in group order
  std::vector<char> in_argument_;         // by tensor: is computed into the memory of a state
};

bool lives_at_peak(const HbmPlan& plan, const HbmBuffer& buffer) {
  return buffer.allocation != Allocation::kTemporary || buffer.lives_at(plan.peak_group);
}

}  // namespace

HbmPlan plan_hbm(const DeviceProgram& device, const HbmOptions& options) {
  return HbmPlanner(device, options).run();
}

TensorBytes tensors_at_peak(const HbmPlan& plan) {
  TensorBytes bytes;
  for (const HbmBuffer& buffer : plan.buffers)
    if (lives_at_peak(plan, buffer)) {
      bytes.unpadded += buffer.tensor.unpadded();
      bytes.padded += buffer.padded();
    }
  return bytes;
}

std::vector<HbmBuffer> largest_at_peak(const HbmPlan& plan, size_t count) {
  std::vector<HbmBuffer> live;
  for (const HbmBuffer& buffer : plan.buffers)
    if (lives_at_peak(plan, buffer)) live.push_back(buffer);
  std::stable_sort(live.begin(), live.end(),
                   [](const HbmBuffer& a, const HbmBuffer& b) { return a.padded() > b.padded(); });
  live.resize(std::min(count, live.size()));
  return live;
}

}  // namespace runner::backends::tpu
