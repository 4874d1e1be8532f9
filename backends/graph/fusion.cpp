#include "backends/graph/fusion.h"

#include <algorithm>
#include <queue>

#include <fmt/format.h>

#include "backends/graph/print.h"
#include "backends/kernels/eltwise.h"

namespace runner::backends {
namespace {

// A group may hold so many nodes: beyond it the registers of a block leave the first-level cache.
constexpr size_t kMaxNodes = 48;

// A set of groups by number.
class GroupSet {
 public:
  void insert(size_t group) {
    if (group / 64 >= words_.size()) words_.resize(group / 64 + 1);
    words_[group / 64] |= uint64_t{1} << (group % 64);
  }
  bool contains(size_t group) const { return group / 64 < words_.size() && (words_[group / 64] >> (group % 64) & 1u); }
  void insert_all(const GroupSet& other) {
    if (other.words_.size() > words_.size()) words_.resize(other.words_.size());
    for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  }

 private:
  std::vector<uint64_t> words_;
};

class Fuser {
 public:
  Fuser(const Program& program, bool fuse)
      : program_(program), fuse_(fuse), group_of_(static_cast<size_t>(program.size()), kNone) {}

  std::vector<Group> run() {
    find_materialised();
    for (ValueId id = 0; id < program_.size(); ++id) place(id);
    return ordered();
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  struct Building {
    Group group;
    GroupSet depends;   // on these groups, directly or not; itself excluded
    GroupSet reshaped;  // it reads results of these through free nodes, so not element by element
    bool alive = true;
  };

  size_t& group_of(ValueId id) { return group_of_[static_cast<size_t>(id)]; }

  // Expands and constants that something reads as a tensor in memory.
  void find_materialised() {
    materialised_.assign(static_cast<size_t>(program_.size()), 0);
    const auto need = [this](ValueId id) {
      const Op op = program_.node(id).op;
      if (op == Op::kExpand || op == Op::kConstant) materialised_[static_cast<size_t>(id)] = 1;
    };
    for (ValueId id = 0; id < program_.size(); ++id) {
      const Op op = program_.node(id).op;
      for (const ValueId operand : program_.operands(id)) {
        // An element-wise node reads through an expand, an expand through nothing: its operand is in memory.
        if (!is_elementwise(op)) need(operand);
      }
    }
    for (const Output& output : program_.outputs()) need(output.value);
  }

  void place(ValueId id) {
    const Op op = program_.node(id).op;
    if (op == Op::kInput) return;
    if (is_elementwise(op)) return place_elementwise(id);
    if (is_free(program_, id) && !materialised_[static_cast<size_t>(id)]) return;
    const bool copy = op == Op::kExpand || op == Op::kConstant;
    new_group(copy ? GroupKind::kEltwise : GroupKind::kKernel, id);
  }

  // The groups that a node's operands come from, looking through free nodes.
  void collect_sources(ValueId id, std::vector<size_t>& sources) {
    for (const ValueId operand : program_.operands(id)) {
      if (group_of(operand) != kNone) {
        sources.push_back(group_of(operand));
      } else {
        collect_sources(operand, sources);
      }
    }
  }

  void new_group(GroupKind kind, ValueId id) {
    Building building{.group = {kind, {id}, {}}, .depends = {}, .reshaped = {}};
    for (const ValueId operand : program_.operands(id)) {
      if (group_of(operand) != kNone) {
        depend(building, group_of(operand));
        continue;
      }
      std::vector<size_t> sources;
      collect_sources(operand, sources);
      for (const size_t source : sources) {
        depend(building, source);
        building.reshaped.insert(source);
      }
    }
    group_of(id) = groups_.size();
    groups_.push_back(std::move(building));
  }

  void depend(Building& building, size_t source) {
    building.depends.insert(source);
    building.depends.insert_all(groups_[source].depends);
  }

  void place_elementwise(ValueId id) {
    new_group(GroupKind::kEltwise, id);
    if (!fuse_) return;
    for (const ValueId operand : program_.operands(id)) {
      const size_t candidate = group_of(operand);
      if (candidate != kNone) try_merge(candidate, group_of(id));
    }
  }

  bool fits(const Building& a, const Building& b) const {
    const auto is_copy = [this](const Building& g) { return !is_elementwise(program_.node(g.group.nodes[0]).op); };
    if (a.group.kind != GroupKind::kEltwise || b.group.kind != GroupKind::kEltwise || is_copy(a) || is_copy(b))
      return false;
    if (a.group.nodes.size() + b.group.nodes.size() > kMaxNodes) return false;
    const TensorType& x = program_.type(a.group.nodes[0]);
    const TensorType& y = program_.type(b.group.nodes[0]);
    return x.shape == y.shape && same_compute_type(compute_dtype(a), compute_dtype(b));
  }

  // The dtype in which a group computes: that of its first node that is not bool, or of that node's operands.
  DType compute_dtype(const Building& building) const {
    for (const ValueId id : building.group.nodes) {
      const DType dtype = eltwise_dtype(program_, id);
      if (dtype != DType::kBool) return dtype;
    }
    return DType::kBool;
  }

  static DType eltwise_dtype(const Program& program, ValueId id) {
    const Node& node = program.node(id);
    if (node.op == Op::kCast || node.type.dtype != DType::kBool) return node.type.dtype;
    return program.type(program.operands(id)[0]).dtype;
  }

  // Merges b into a unless something between them would then wait for itself.
  void try_merge(size_t a, size_t b) {
    if (a == b || !fits(groups_[a], groups_[b]) || path_between(a, b)) return;
    if (groups_[a].reshaped.contains(b) || groups_[b].reshaped.contains(a)) return;
    Building& target = groups_[a];
    Building& source = groups_[b];
    for (const ValueId id : source.group.nodes) group_of(id) = a;
    target.group.nodes.insert(target.group.nodes.end(), source.group.nodes.begin(), source.group.nodes.end());
    std::sort(target.group.nodes.begin(), target.group.nodes.end());
    source.alive = false;
    GroupSet merged = without(target.depends, source.depends, a, b);
    target.depends = merged;
    target.reshaped.insert_all(source.reshaped);
    for (Building& other : groups_) {
      if (other.alive && other.reshaped.contains(b)) other.reshaped.insert(a);
      if (other.alive && (other.depends.contains(a) || other.depends.contains(b))) {
        other.depends.insert(a);
        other.depends.insert_all(merged);
      }
    }
  }

  GroupSet without(const GroupSet& x, const GroupSet& y, size_t a, size_t b) const {
    GroupSet result;
    for (size_t g = 0; g < groups_.size(); ++g)
      if (g != a && g != b && groups_[g].alive && (x.contains(g) || y.contains(g))) result.insert(g);
    return result;
  }

  // Does a path from a to b, or from b to a, run through a third group?
  bool path_between(size_t a, size_t b) const {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (g == a || g == b || !groups_[g].alive) continue;
      if (groups_[g].depends.contains(a) && groups_[b].depends.contains(g)) return true;
      if (groups_[g].depends.contains(b) && groups_[a].depends.contains(g)) return true;
    }
    return false;
  }

  // Kahn's algorithm; among ready groups the one whose last node was recorded first.
  std::vector<Group> ordered() {
    find_results();
    std::vector<std::vector<size_t>> readers(groups_.size());
    std::vector<size_t> waiting(groups_.size(), 0);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!groups_[g].alive) continue;
      std::vector<size_t> sources;
      for (const ValueId id : groups_[g].group.nodes) collect_sources(id, sources);
      std::sort(sources.begin(), sources.end());
      sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
      for (const size_t source : sources)
        if (source != g) {
          readers[source].push_back(g);
          ++waiting[g];
        }
    }
    using Entry = std::pair<ValueId, size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    const auto push = [&](size_t g) { ready.emplace(groups_[g].group.nodes.back(), g); };
    for (size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].alive && waiting[g] == 0) push(g);
    std::vector<Group> order;
    while (!ready.empty()) {
      const size_t g = ready.top().second;
      ready.pop();
      order.push_back(std::move(groups_[g].group));
      for (const size_t reader : readers[g])
        if (--waiting[reader] == 0) push(reader);
    }
    return order;
  }

  // A node is a result if a node of another group reads it, a free node does, or an output names it.
  void find_results() {
    std::vector<char> needed(static_cast<size_t>(program_.size()), 0);
    for (ValueId id = 0; id < program_.size(); ++id)
      for (const ValueId operand : program_.operands(id))
        if (group_of(operand) != kNone && group_of(operand) != group_of(id)) needed[static_cast<size_t>(operand)] = 1;
    for (const Output& output : program_.outputs()) needed[static_cast<size_t>(output.value)] = 1;
    for (Building& building : groups_)
      for (const ValueId id : building.group.nodes)
        if (needed[static_cast<size_t>(id)]) building.group.results.push_back(id);
  }

  const Program& program_;
  const bool fuse_;
  std::vector<size_t> group_of_;
  std::vector<char> materialised_;
  std::vector<Building> groups_;
};

}  // namespace

bool is_contiguous_slice(const Program& program, ValueId id) {
  if (program.node(id).op != Op::kSlice) return false;
  const Shape& from = program.type(program.operands(id)[0]).shape;
  const Shape& to = program.type(id).shape;
  const std::span<const int64_t> cuts = program.attrs(id);
  // All axes before the first cut one must have size 1 in the result, and the cut must have step 1.
  bool leading = true;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const bool whole = to[axis] == from[axis];
    if (!whole && (!leading || cuts[static_cast<size_t>(axis) * 3 + 2] != 1)) return false;
    if (to[axis] != 1) leading = false;
  }
  return true;
}

bool is_free(const Program& program, ValueId id) {
  const Op op = program.node(id).op;
  return op == Op::kReshape || op == Op::kExpand || op == Op::kConstant || is_contiguous_slice(program, id);
}

std::vector<Group> make_groups(const Program& program, bool fuse) {
  return Fuser(program, fuse).run();
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
