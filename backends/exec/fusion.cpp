#include "backends/exec/fusion.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "backends/ir/print.h"
#include "backends/ir/views.h"
#include "backends/kernels/eltwise.h"

namespace runner::backends {
namespace {

// Maximum number of nodes in a group: with more, the registers of a block exceed the L1 cache.
constexpr size_t kMaxNodes = 48;

// Groups are ordered by position. Merging keeps every group after those it reads, so no cycle can arise: either the
// later group moves to the earlier position, if it reads nothing from groups in between, or the earlier group moves to
// the later position, if no group in between reads it.
class Fuser {
 public:
  Fuser(const Program& program, Fusion fusion)
      : program_(program),
        fusion_(fusion),
        flat_sizes_(fusion == Fusion::kFlat ? flat_sizes(program) : std::set<int64_t>()),
        group_of_(static_cast<size_t>(program.size()), kNone),
        materialised_(static_cast<size_t>(program.size()), 0),
        readers_(static_cast<size_t>(program.size())) {}

  std::vector<Group> run() {
    find_materialised();
    find_readers();
    for (ValueId id = 0; id < program_.size(); ++id) place(id);
    for (ValueId id = program_.size(); id-- > 0;) sink(id);
    return ordered();
  }

 private:
  static constexpr int kNone = -1;

  static std::set<int64_t> flat_sizes(const Program& program) {
    std::set<int64_t> sizes;
    for (const Input& input : program.inputs())
      if (const Shape& shape = program.type(input.value).shape; input.kind == InputKind::kState && shape.rank() == 1)
        sizes.insert(shape[0]);
    return sizes;
  }

  struct Building {
    Group group;
    int position;
  };

  int group_of(ValueId id) const { return group_of_[static_cast<size_t>(id)]; }
  Building& building(int group) { return groups_[static_cast<size_t>(group)]; }

  // Marks expands and constants that are read as a tensor in memory. Element-wise nodes look through an expand.
  void find_materialised() {
    const auto need = [this](ValueId id) {
      if (is_broadcast(program_.node(id).op)) materialised_[static_cast<size_t>(id)] = 1;
    };
    for (ValueId id = 0; id < program_.size(); ++id)
      if (!is_elementwise(program_.node(id).op))
        for (const ValueId operand : program_.operands(id)) need(operand);
    for (const Output& output : program_.outputs()) need(output.value);
  }

  // Whether the value is in no group, but looked through by its readers.
  bool is_transparent(ValueId id) const { return is_free(program_, id) && !materialised_[static_cast<size_t>(id)]; }

  // Returns the computed value or input that an operand is derived from; kNoValue for a constant.
  ValueId source_of(ValueId operand) const {
    while (is_transparent(operand)) {
      if (program_.node(operand).op == Op::kConstant) return kNoValue;
      operand = program_.operands(operand)[0];
    }
    return operand;
  }

  void find_readers() {
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (is_transparent(id)) continue;
      for (const ValueId operand : program_.operands(id))
        if (const ValueId source = source_of(operand); source != kNoValue)
          readers_[static_cast<size_t>(source)].push_back(id);
    }
  }

  void place(ValueId id) {
    const Op op = program_.node(id).op;
    if (op == Op::kInput || is_transparent(id)) return;
    const bool copy = is_broadcast(op);
    group_of_[static_cast<size_t>(id)] = static_cast<int>(groups_.size());
    groups_.push_back({.group = {is_elementwise(op) || copy ? GroupKind::kEltwise : GroupKind::kKernel, {id}, {}, {}},
                       .position = static_cast<int>(groups_.size())});
    if (!may_fuse(id)) return;
    for (const ValueId operand : program_.operands(id))
      if (group_of(operand) != kNone) try_merge(group_of(operand), group_of(id));
  }

  bool may_fuse(ValueId id) const {
    if (fusion_ == Fusion::kNone || !is_elementwise(program_.node(id).op)) return false;
    const Shape& shape = program_.type(id).shape;
    return fusion_ == Fusion::kAll || (shape.rank() == 1 && flat_sizes_.contains(shape[0]));
  }

  void try_merge(int a, int b) {
    if (a == b || !fits(building(a).group, building(b).group) || reads_view(a, b) || reads_view(b, a)) return;
    const int early = building(a).position < building(b).position ? a : b;
    const int late = early == a ? b : a;
    if (last_source(late, early) < building(early).position) {
      merge(early, late);
    } else if (first_reader(early, late) > building(late).position) {
      merge(late, early);
    }
  }

  bool fits(const Group& a, const Group& b) const {
    return a.nodes.size() + b.nodes.size() <= kMaxNodes && alike(a, b);
  }

  bool alike(const Group& a, const Group& b) const {
    const auto fusible = [this](const Group& g) { return is_elementwise(program_.node(g.nodes[0]).op); };
    return fusible(a) && fusible(b) && program_.type(a.nodes[0]).shape == program_.type(b.nodes[0]).shape &&
           same_compute_type(compute_dtype(a), compute_dtype(b));
  }

  // Compute type of a group: the dtype of its first node that is not bool, or of the operands of a bool node.
  DType compute_dtype(const Group& group) const {
    for (const ValueId id : group.nodes)
      if (const DType dtype = compute_dtype(id); dtype != DType::kBool) return dtype;
    return DType::kBool;
  }
  DType compute_dtype(ValueId id) const {
    const Node& node = program_.node(id);
    if (node.op == Op::kCast || node.type.dtype != DType::kBool) return node.type.dtype;
    return program_.type(program_.operands(id)[0]).dtype;
  }

  // Whether `reader` reads a result of `group` through transparent nodes, that is, not element by element.
  bool reads_view(int reader, int group) {
    for (const ValueId id : building(reader).group.nodes)
      for (const ValueId operand : program_.operands(id))
        if (is_transparent(operand))
          if (const ValueId source = source_of(operand); source != kNoValue && group_of(source) == group) return true;
    return false;
  }

  // Last position that `group` reads from, apart from `except`.
  int last_source(int group, int except) {
    int last = -1;
    for (const ValueId id : building(group).group.nodes)
      for (const ValueId operand : program_.operands(id)) {
        const ValueId source = source_of(operand);
        const int from = source == kNoValue ? kNone : group_of(source);
        if (from != kNone && from != group && from != except) last = std::max(last, building(from).position);
      }
    return last;
  }

  // First position that reads from `group`, apart from `except`.
  int first_reader(int group, int except) {
    int first = static_cast<int>(groups_.size());
    for (const ValueId id : building(group).group.nodes)
      for (const ValueId reader : readers_[static_cast<size_t>(id)]) {
        const int by = group_of(reader);  // kNone: not placed yet
        if (by != kNone && by != group && by != except) first = std::min(first, building(by).position);
      }
    return first;
  }

  void merge(int into, int from) {
    std::vector<ValueId>& target = building(into).group.nodes;
    std::vector<ValueId>& source = building(from).group.nodes;
    for (const ValueId id : source) group_of_[static_cast<size_t>(id)] = into;
    const auto middle = target.insert(target.end(), source.begin(), source.end());
    std::inplace_merge(target.begin(), middle, target.end());
    source.clear();
  }

  // Moves a node to the later group that alone reads it, with the nodes that only lead to it. They must read one value
  // of this size. Their group must store it anyway. Keeping it until then must not take more bytes times groups than
  // keeping the result.
  void sink(ValueId id) {
    const int from = group_of(id), to = only_reader(id);
    if (to == kNone || !alike(building(from).group, building(to).group) || reads_view(to, from)) return;
    std::vector<ValueId> moved{id};
    ValueId read = only_operand(id);
    while (read != kNoValue && group_of(read) == from && readers_[static_cast<size_t>(read)].size() == 1 &&
           !is_output(read)) {
      moved.push_back(read);
      read = only_operand(read);
    }
    if (read == kNoValue || group_of(read) != from) return;
    const int last = last_reader(read, from), end = building(to).position;
    const auto cost = [&](ValueId value, int begin) {
      return static_cast<int64_t>(program_.type(value).bytes()) * std::max(end - begin, 0);
    };
    if (last == kNone || cost(read, last) > cost(id, building(from).position)) return;
    if (building(to).group.nodes.size() + moved.size() > kMaxNodes) return;
    for (const ValueId each : moved) move(each, to);
  }

  void move(ValueId id, int to) {
    std::erase(building(group_of(id)).group.nodes, id);
    std::vector<ValueId>& nodes = building(to).group.nodes;
    nodes.insert(std::ranges::upper_bound(nodes, id), id);
    group_of_[static_cast<size_t>(id)] = to;
  }

  // The value that a node reads element by element, if there is one; the others are broadcast.
  ValueId only_operand(ValueId id) const {
    ValueId only = kNoValue;
    for (const ValueId operand : program_.operands(id)) {
      if (is_transparent(operand)) continue;
      if (only != kNoValue && only != operand) return kNoValue;
      only = operand;
    }
    return only;
  }

  // The group other than its own that alone reads a node of an element-wise group, element by element; or kNone.
  int only_reader(ValueId id) const {
    const std::vector<ValueId>& readers = readers_[static_cast<size_t>(id)];
    if (group_of(id) == kNone || readers.empty() || is_output(id)) return kNone;
    const int only = group_of(readers.front());
    const auto reads = [&](ValueId reader) {
      return group_of(reader) == only &&
             std::ranges::find(program_.operands(reader), id) != program_.operands(reader).end();
    };
    return only != group_of(id) && std::ranges::all_of(readers, reads) ? only : kNone;
  }

  // The last position at which another group than `group` reads a value; kNone if none does.
  int last_reader(ValueId id, int group) const {
    if (is_output(id)) return static_cast<int>(groups_.size());
    int last = kNone;
    for (const ValueId reader : readers_[static_cast<size_t>(id)])
      if (group_of(reader) != group) last = std::max(last, groups_[static_cast<size_t>(group_of(reader))].position);
    return last;
  }

  bool is_output(ValueId id) const {
    return std::ranges::find(program_.outputs(), id, &Output::value) != program_.outputs().end();
  }

  std::vector<Group> ordered() {
    find_results();
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) find_operands(g);
    std::sort(groups_.begin(), groups_.end(),
              [](const Building& a, const Building& b) { return a.position < b.position; });
    std::vector<Group> groups;
    for (Building& each : groups_)
      if (!each.group.nodes.empty()) groups.push_back(std::move(each.group));
    return groups;
  }

  // Finds results: nodes that a node of another group or an output reads. A collective always is a result, since its
  // kernel works in place.
  void find_results() {
    std::vector<char> needed(static_cast<size_t>(program_.size()), 0);
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (is_collective(program_.node(id).op)) needed[static_cast<size_t>(id)] = 1;
      for (const ValueId operand : program_.operands(id))
        if (group_of(operand) != group_of(id)) needed[static_cast<size_t>(operand)] = 1;
    }
    for (const Output& output : program_.outputs()) needed[static_cast<size_t>(output.value)] = 1;
    for (Building& each : groups_)
      for (const ValueId id : each.group.nodes)
        if (needed[static_cast<size_t>(id)]) each.group.results.push_back(id);
  }

  void find_operands(int g) {
    std::vector<ValueId>& operands = building(g).group.operands;
    for (const ValueId id : building(g).group.nodes)
      for (ValueId operand : program_.operands(id)) {
        if (group_of(operand) == g) continue;
        const Op op = program_.node(operand).op;
        const bool looks_through = is_elementwise(program_.node(id).op);
        if (looks_through && op == Op::kConstant) continue;
        if (looks_through && op == Op::kExpand) operand = program_.operands(operand)[0];
        if (std::find(operands.begin(), operands.end(), operand) == operands.end()) operands.push_back(operand);
      }
  }

  const Program& program_;
  const Fusion fusion_;
  const std::set<int64_t> flat_sizes_;  // sizes of vector states; only for kFlat
  std::vector<int> group_of_;
  std::vector<char> materialised_;
  std::vector<std::vector<ValueId>> readers_;  // by value, looking through transparent nodes
  std::vector<Building> groups_;
};

}  // namespace

std::vector<Group> make_groups(const Program& program, Fusion fusion) {
  return Fuser(program, fusion).run();
}

std::string to_string(const Program& program, const std::vector<Group>& groups) {
  std::string text;
  for (size_t g = 0; g < groups.size(); ++g) {
    text += fmt::format("group {} {}\n", g, groups[g].kind == GroupKind::kEltwise ? "eltwise" : "kernel");
    for (const ValueId id : groups[g].nodes) {
      const bool result = std::count(groups[g].results.begin(), groups[g].results.end(), id) > 0;
      text += fmt::format("  {}{}\n", to_string(program, id), result ? "  -> memory" : "");
    }
  }
  return text;
}

}  // namespace runner::backends
