#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/kernels/eltwise_kernels.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/prepare.h"
#include "backends/tensor/rounding.h"

namespace runner::backends {

namespace {

const NamedLoop* find_loop(const EltwiseGroup& group) {
  const std::string text = group.to_string();
  for (const NamedLoop& loop : loops().named)
    if (loop.text == text) return &loop;
  return nullptr;
}

// Number of instructions of the longest compiled loop.
int longest_loop() {
  static const int longest = [] {
    ptrdiff_t most = 0;
    for (const NamedLoop& loop : loops().named)
      most = std::max(most, std::ranges::count(std::string_view(loop.text), ';') + 1);
    return static_cast<int>(most);
  }();
  return longest;
}

// Pieces of a row start at multiples of this many elements, so that adjacent pieces share no cache line.
constexpr int64_t kGrain = 64;

// Chunk `chunk` of `chunks` of [0, elements), cut at multiples of `grain`.
IndexRange<int64_t> grained_part(int64_t elements, int64_t chunk, int64_t chunks, int64_t grain) {
  const IndexRange<int64_t> units = part_of(ceil_div(elements, grain), chunk, chunks);
  return {std::min(elements, units.begin * grain), std::min(elements, units.end * grain)};
}

// A compiled loop takes about a quarter of the time of the interpreter.
int64_t chunks_of(const EltwiseGroup& group, int64_t pieces) {
  return chunk_count(element_cost_ns(group) / 4 * static_cast<double>(group.shape.elements()), pieces);
}

std::vector<int64_t> output_bytes_of(const EltwiseGroup& group) {
  std::vector<int64_t> bytes;
  for (const int16_t output : group.outputs) {
    const size_t at = static_cast<size_t>(output) - group.inputs.size() - group.constants.size();
    bytes.push_back(static_cast<int64_t>(size_of(group.code[at].dtype)));
  }
  return bytes;
}

// Bytes from one element of an input to the next; 0 for one value per row.
std::vector<int64_t> element_bytes_of(const EltwiseGroup& group, const CollapsedSpace& space) {
  std::vector<int64_t> bytes;
  for (size_t k = 0; k < group.inputs.size(); ++k)
    bytes.push_back(space.inner_stride(k) * static_cast<int64_t>(size_of(group.inputs[k].dtype)));
  return bytes;
}

// ---- one loop for the whole group ----------------------------------------------------------------------------------

// Bytes from one element of an input to the next along an axis of the space; 0 where it is broadcast.
using InputBytes = std::vector<int64_t>;

// A call of one compiled loop on planes × rows × cols elements.
struct NamedCall {
  const NamedLoop* loop;
  std::vector<double> constants;
  InputBytes plane_bytes, row_bytes, element_bytes;
  std::vector<int64_t> output_bytes;  // size of an element, by output
  int64_t planes, rows, cols;
  int64_t chunks;

  // Rows [begin, end) of a plane, and columns of them.
  void run(const KernelArguments& arguments, int64_t plane, const IndexRange<int64_t>& of_rows,
           const IndexRange<int64_t>& of_cols) const {
    NamedLoop::Arguments part;
    for (size_t k = 0; k < row_bytes.size(); ++k) {
      part.inputs[k] = arguments.operands[k] + plane * plane_bytes[k] + of_rows.begin * row_bytes[k] +
                       of_cols.begin * element_bytes[k];
      part.row_bytes[k] = row_bytes[k];
    }
    for (size_t k = 0; k < output_bytes.size(); ++k)
      part.outputs[k] =
          arguments.results[k] + ((plane * rows + of_rows.begin) * cols + of_cols.begin) * output_bytes[k];
    part.constants = constants.data();
    part.rows = of_rows.size();
    part.cols = of_cols.size();
    loop->run(part);
  }
};

// A single row is cut into chunks; otherwise a chunk is a range of the rows of all planes.
void run_named(const NamedCall& call, const KernelArguments& arguments) {
  const int64_t all_rows = call.planes * call.rows;
  arguments.pool.parallel_for(call.chunks, [&](int64_t chunk) {
    if (all_rows == 1) return call.run(arguments, 0, {0, 1}, grained_part(call.cols, chunk, call.chunks, kGrain));
    const IndexRange<int64_t> part = part_of(all_rows, chunk, call.chunks);
    for (int64_t row = part.begin; row < part.end;) {
      const int64_t plane = row / call.rows, first = row % call.rows;
      const int64_t end = std::min(call.rows, first + part.end - row);
      call.run(arguments, plane, {first, end}, {0, call.cols});
      row += end - first;
    }
  });
}

Kernel prepare_named(const NamedLoop& loop, const EltwiseGroup& group, const CollapsedSpace& space) {
  // `axis`: from the last one.
  const auto size = [&](int axis) {
    return axis < space.rank ? space.dims[static_cast<size_t>(space.rank - 1 - axis)] : 1;
  };
  const auto bytes = [&](int axis) {
    InputBytes all;
    for (size_t k = 0; k < group.inputs.size(); ++k)
      all.push_back(axis < space.rank ? space.strides[k][static_cast<size_t>(space.rank - 1 - axis)] *
                                            static_cast<int64_t>(size_of(group.inputs[k].dtype))
                                      : 0);
    return all;
  };
  NamedCall call{.loop = &loop,
                 .constants = group.constants,
                 .plane_bytes = bytes(2),
                 .row_bytes = bytes(1),
                 .element_bytes = bytes(0),
                 .output_bytes = output_bytes_of(group),
                 .planes = size(2),
                 .rows = size(1),
                 .cols = size(0),
                 .chunks = 1};
  const int64_t all_rows = call.planes * call.rows;
  call.chunks = chunks_of(group, all_rows > 1 ? all_rows : ceil_div(call.cols, kGrain));
  return make_kernel<run_named>(fmt::format("eltwise.{}", loop.name), std::move(call));
}

// ---- a chain of loops ----------------------------------------------------------------------------------------------

// One loop of a chain. Its inputs are inputs of the group and the value that the link before it passes on.
struct Link {
  static constexpr int kHanded = -1;
  const NamedLoop* loop = nullptr;
  std::vector<double> constants;
  std::vector<int> inputs;
};

struct Chain {
  std::vector<Link> links;  // the last computes the outputs of the group, each other one f32 value
  std::vector<int64_t> element_bytes;
  std::vector<int64_t> output_bytes;
  int64_t elements;
  int64_t chunks;
};

// Elements passed on at a time: 4 KB.
constexpr int64_t kBlock = 1024;

void run_link(const Chain& chain, const Link& link, const KernelArguments& arguments, const IndexRange<int64_t>& block,
              float* handed) {
  NamedLoop::Arguments loop;
  for (size_t k = 0; k < link.inputs.size(); ++k) {
    const int input = link.inputs[k];
    const auto at = static_cast<size_t>(input);
    loop.inputs[k] = input == Link::kHanded ? reinterpret_cast<const std::byte*>(handed)
                                            : arguments.operands[at] + block.begin * chain.element_bytes[at];
    loop.row_bytes[k] = 0;
  }
  if (&link != &chain.links.back()) {
    loop.outputs[0] = reinterpret_cast<std::byte*>(handed);
  } else {
    for (size_t k = 0; k < chain.output_bytes.size(); ++k)
      loop.outputs[k] = arguments.results[k] + block.begin * chain.output_bytes[k];
  }
  loop.constants = link.constants.data();
  loop.rows = 1;
  loop.cols = block.size();
  link.loop->run(loop);
}

void run_chain(const Chain& chain, const KernelArguments& arguments) {
  arguments.pool.parallel_for(chain.chunks, [&](int64_t chunk) {
    alignas(64) float handed[kBlock];
    const IndexRange<int64_t> part = grained_part(chain.elements, chunk, chain.chunks, kGrain);
    for (int64_t first = part.begin; first < part.end; first += kBlock)
      for (const Link& link : chain.links)
        run_link(chain, link, arguments, {first, std::min(first + kBlock, part.end)}, handed);
  });
}

// Instructions [first, end) of a group with one row, as a group of its own. Inputs and constants are numbered by first
// use, as in every group.
class Part {
 public:
  // `handed`: a register before `first` that it may read in addition to inputs and constants.
  Part(const EltwiseGroup& group, const CollapsedSpace& space, int first, int end, int handed)
      : group_(group),
        space_(space),
        inputs_(static_cast<int>(group.inputs.size())),
        first_result_(inputs_ + static_cast<int>(group.constants.size())),
        first_(first_result_ + first),
        end_(first_result_ + end),
        handed_(handed) {
    part_.shape = Shape{space.inner()};
  }

  // Returns the compiled loop that computes registers `outputs`. Returns nullopt if the table has none, or if the part
  // would read or return registers of other parts.
  std::optional<Link> link(std::span<const int16_t> outputs) {
    if (!std::all_of(outputs.begin(), outputs.end(), [this](int reg) { return is_inside(reg); }) || !number_sources())
      return {};
    for (int reg = first_; reg < end_; ++reg) {
      EltwiseInstruction instruction = group_.code[static_cast<size_t>(reg - first_result_)];
      for (int16_t& source : instruction.sources) source = renumbered(source);
      part_.code.push_back(instruction);
    }
    for (const int16_t output : outputs) part_.outputs.push_back(renumbered(output));
    link_.loop = find_loop(part_);
    if (link_.loop == nullptr) return {};
    link_.constants = part_.constants;
    return std::move(link_);
  }

 private:
  bool is_inside(int reg) const { return reg >= first_ && reg < end_; }
  bool is_constant(int reg) const { return reg >= inputs_ && reg < first_result_; }

  bool number_sources() {
    for (int reg = first_; reg < end_; ++reg)
      for (const int source : group_.code[static_cast<size_t>(reg - first_result_)].sources) {
        if (source < 0 || is_inside(source)) continue;
        if (source >= first_result_ && source != handed_) return false;
        add_source(source);
      }
    return true;
  }

  void add_source(int reg) {
    if (is_constant(reg)) {
      if (std::count(constants_.begin(), constants_.end(), reg) > 0) return;
      constants_.push_back(reg);
      part_.constants.push_back(group_.constants[static_cast<size_t>(reg - inputs_)]);
      return;
    }
    const int input = reg == handed_ ? Link::kHanded : reg;
    if (std::count(link_.inputs.begin(), link_.inputs.end(), input) > 0) return;
    link_.inputs.push_back(input);
    const auto at = static_cast<size_t>(reg);
    part_.inputs.push_back(input == Link::kHanded ? EltwiseInput{DType::kF32, {1}}
                                                  : EltwiseInput{group_.inputs[at].dtype, {space_.inner_stride(at)}});
  }

  int16_t renumbered(int reg) const {
    const auto position = [](const std::vector<int>& all, int what) {
      return std::find(all.begin(), all.end(), what) - all.begin();
    };
    if (reg < 0) return static_cast<int16_t>(reg);
    const auto inputs = std::ssize(link_.inputs), constants = std::ssize(constants_);
    if (is_inside(reg)) return static_cast<int16_t>(inputs + constants + reg - first_);
    if (is_constant(reg)) return static_cast<int16_t>(inputs + position(constants_, reg));
    return static_cast<int16_t>(position(link_.inputs, reg == handed_ ? Link::kHanded : reg));
  }

  const EltwiseGroup& group_;
  const CollapsedSpace& space_;
  const int inputs_, first_result_;  // of the group
  const int first_, end_, handed_;   // registers of the group
  std::vector<int> constants_;       // of the part; registers of the group
  EltwiseGroup part_{};
  Link link_{};
};

// Cuts the code of a group with one row into links. Each reads inputs, constants, its own registers and the value of
// the link before it. The last link computes all outputs.
class ChainCutter {
 public:
  ChainCutter(const EltwiseGroup& group, const CollapsedSpace& space)
      : group_(group),
        space_(space),
        first_result_(static_cast<int>(group.inputs.size() + group.constants.size())),
        size_(static_cast<int>(group.code.size())),
        last_read_(group.code.size(), -1) {
    for (int k = 0; k < size_; ++k)
      for (const int16_t source : group.code[static_cast<size_t>(k)].sources)
        if (source >= first_result_) last_read_[static_cast<size_t>(source - first_result_)] = k;
    for (const int16_t output : group.outputs) last_read_[static_cast<size_t>(output - first_result_)] = size_;
  }

  // Returns no links if the group cannot be cut.
  std::vector<Link> run() && {
    cut(0, kNothing);
    return std::move(links_);
  }

 private:
  static constexpr int16_t kNothing = -1;
  // Sums over 16 ranks, scaling, clamping, decay, update.
  static constexpr size_t kMaxLinks = 20;

  // Adds links for all instructions from `first`, preferring long ones. The first may read register `handed`.
  bool cut(int first, int16_t handed) {
    if (first == size_) return true;
    const int most = static_cast<int>(kMaxLinks - links_.size()) * longest_loop();
    if (size_ - first > most || !tried_.insert({first, handed, links_.size()}).second) return false;
    for (int end = std::min(size_, first + longest_loop()); end > first; --end) {
      const int16_t result = end == size_ ? kNothing : handed_over(first, end);
      if (end < size_ && result == kNothing) continue;
      const std::span<const int16_t> outputs = end == size_ ? std::span(group_.outputs) : std::span(&result, 1);
      std::optional<Link> link = Part(group_, space_, first, end, handed).link(outputs);
      if (!link) continue;
      links_.push_back(std::move(*link));
      if (cut(end, result)) return true;
      links_.pop_back();
    }
    return false;
  }

  // Returns the register of [first, end) that later instructions read, if there is only one, and it is f32 and no
  // output.
  int16_t handed_over(int first, int end) const {
    int16_t found = kNothing;
    for (int k = first; k < end; ++k) {
      const int last_read = last_read_[static_cast<size_t>(k)];
      if (last_read < end) continue;
      if (found != kNothing || last_read == size_ || group_.code[static_cast<size_t>(k)].dtype != DType::kF32)
        return kNothing;
      found = static_cast<int16_t>(first_result_ + k);
    }
    return found;
  }

  const EltwiseGroup& group_;
  const CollapsedSpace& space_;
  const int first_result_, size_;
  std::vector<int> last_read_;  // by instruction: the last one that reads its result; size_: it is an output
  std::vector<Link> links_;
  std::set<std::tuple<int, int16_t, size_t>> tried_;  // arguments of cut() and links before it, which failed
};

Kernel prepare_chain(std::vector<Link> links, const EltwiseGroup& group, const CollapsedSpace& space) {
  std::vector<std::string_view> names;
  for (const Link& link : links) names.push_back(link.loop->name);
  Chain chain{.links = std::move(links),
              .element_bytes = element_bytes_of(group, space),
              .output_bytes = output_bytes_of(group),
              .elements = space.inner(),
              .chunks = chunks_of(group, ceil_div(space.inner(), kGrain))};
  return make_kernel<run_chain>(fmt::format("eltwise.{}", fmt::join(names, "+")), std::move(chain));
}

}  // namespace

std::optional<Kernel> prepare_eltwise_named(const EltwiseGroup& group, const CollapsedSpace& space) {
  if (space.rank > 3) return {};
  if (const NamedLoop* loop = find_loop(group)) return prepare_named(*loop, group, space);
  if (space.rank > 1) return {};
  std::vector<Link> links = ChainCutter(group, space).run();
  if (links.empty()) return {};
  return prepare_chain(std::move(links), group, space);
}

}  // namespace runner::backends
