#include "runner/train/engine/traced_graphs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "backends/ir/needed.h"
#include "backends/ir/print.h"
#include "runner/train/engine/rank_list.h"
#include "runner/train/step/digest.h"
#include "schema/base/error.h"
#include "schema/base/packing.h"

namespace runner::train {
namespace {

using backends::Program;
using backends::Site;
using backends::TracedScalar;
using backends::ValueId;
using backends::tpu::ScalarRules;

// Which graph of a rank: the subject, and its number among the graphs of this subject, from 0 on.
struct GraphKey {
  GraphSubject subject;
  int64_t ordinal;
  bool operator==(const GraphKey&) const = default;
};

// Identity of a graph as sent to other ranks.
struct Traced {
  GraphKey key;
  uint64_t digest;

  bool differs(const Traced& other) const { return key == other.key && digest != other.digest; }
};

// The nodes that roots depend on, renumbered, with the scalars that are part of the graph. Other nodes may differ,
// because a rank may have traced them for values that it reads. Nodes that only rank 0 has are replaced by those of
// other ranks.
class LiveNodes {
 public:
  LiveNodes(const Program& program, std::span<const ValueId> roots, std::span<const TracedScalar> scalars,
            std::span<const RankZeroAddition> of_rank_0, const ScalarRules& rules)
      : program_(program),
        numbers_(static_cast<size_t>(program.size()), backends::kNoValue),
        of_others_(static_cast<size_t>(program.size())) {
    std::iota(of_others_.begin(), of_others_.end(), 0);
    for (const RankZeroAddition& here : of_rank_0) of_others_[static_cast<size_t>(here.value)] = here.of_others;
    const std::vector<char> live = needed_by(roots);
    number_nodes(live);
    find_scalars(backends::scalars_in(program, live, scalars), rules);
  }

  const std::vector<ValueId>& nodes() const { return nodes_; }

  // Calls each(word) for the words that identify a node.
  template <class Each>
  void words(ValueId id, const Each& each) const {
    const backends::Node& node = program_.node(id);
    each(static_cast<int64_t>(node.op));
    each(static_cast<int64_t>(node.type.dtype));
    for (const int64_t size : node.type.shape.dims()) each(size);
    for (const ValueId operand : program_.operands(id)) each(numbers_[at(operand)]);
    const std::span<const int64_t> attrs = program_.attrs(id);  // of an input: its kind and index
    for (const int64_t attr : node.op == backends::Op::kInput ? attrs.first(1) : attrs) each(attr);
    if (const auto number = numbers_of_host_.find(node.origin); number != numbers_of_host_.end())
      for (const int64_t word : number->second.signature) each(word);
  }

  // Text for error messages.
  std::string text(ValueId id) const {
    const auto number = numbers_of_host_.find(program_.node(id).origin);
    const std::string value =
        number == numbers_of_host_.end() ? "" : fmt::format(", the number {}", number->second.value);
    return to_string(program_, id) + value;
  }

  uint64_t digest() const {
    uint64_t digest = 0;
    for (const ValueId id : nodes_)
      words(id, [&](int64_t word) { digest = mixed(digest, static_cast<uint64_t>(word)); });
    return digest;
  }

 private:
  struct Number {
    double value = 0;
    std::vector<int64_t> signature;
  };

  size_t at(ValueId id) const { return static_cast<size_t>(of_others_[static_cast<size_t>(id)]); }

  std::vector<char> needed_by(std::span<const ValueId> roots) const {
    std::vector<char> needed(numbers_.size(), 0);
    for (const ValueId root : roots) needed[at(root)] = 1;
    for (ValueId id = program_.size(); id-- > 0;)
      if (needed[static_cast<size_t>(id)])
        for (const ValueId operand : program_.operands(id)) needed[at(operand)] = 1;
    return needed;
  }

  void number_nodes(const std::vector<char>& live) {
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (!live[static_cast<size_t>(id)]) continue;
      numbers_[static_cast<size_t>(id)] = static_cast<ValueId>(nodes_.size());
      nodes_.push_back(id);
    }
  }

  // Signatures are computed among live scalars, because they depend on which of them are equal.
  void find_scalars(const std::vector<TracedScalar>& live, const ScalarRules& rules) {
    const backends::tpu::ScalarSignature signature = backends::tpu::signature_of(live, rules);
    for (size_t i = 0; i < live.size(); ++i) {
      Number& number = numbers_of_host_[live[i].origin];
      number.value = live[i].value;
      for (const size_t word : {2 * i, 2 * i + 1}) number.signature.push_back(signature[word]);
    }
  }

  const Program& program_;
  std::vector<ValueId> numbers_, nodes_;
  std::vector<ValueId> of_others_;  // by ValueId: itself, or what other ranks have where only rank 0 adds to a sum
  std::map<backends::Origin, Number> numbers_of_host_;  // by origin
};

std::string bytes_of(const std::vector<Traced>& traced) {
  return {reinterpret_cast<const char*>(traced.data()), traced.size() * sizeof(Traced)};
}

std::vector<Traced> traced_in(const std::string& text) {
  std::vector<Traced> traced(text.size() / sizeof(Traced));
  if (!text.empty()) std::memcpy(traced.data(), text.data(), text.size());
  return traced;
}

// A node, to be compared between ranks and to be shown.
struct NodeText {
  std::string compared, shown, file;
  int line = 0;

  static auto parts(auto& self) { return std::tie(self.compared, self.shown, self.file, self.line); }
};

std::vector<NodeText> nodes_of(const Program& program, const LiveNodes& live) {
  std::vector<NodeText> nodes;
  for (const ValueId id : live.nodes()) {
    const SourceMark& mark = program.mark_of(id);
    NodeText& node =
        nodes.emplace_back(NodeText{.compared = {}, .shown = live.text(id), .file = mark.file, .line = mark.line});
    live.words(id, [&](int64_t word) { node.compared += fmt::format("{} ", word); });
  }
  return nodes;
}

// A rank and the nodes of its graph.
struct RankNodes {
  size_t rank;
  std::vector<NodeText> nodes;
};

// Ranks with the same node at the first difference.
struct Party {
  std::vector<size_t> ranks;
  const NodeText* node;  // null: the graph has ended

  std::string to_string() const {
    const std::string who = rank_list(ranks);
    if (node == nullptr) return fmt::format("missing on {}", who);
    const std::string where = node->file.empty() ? "" : fmt::format(" ({}:{})", node->file, node->line);
    return fmt::format("\"{}\"{} on {}", node->shown, where, who);
  }
};

std::vector<Party> parties_at(size_t id, const std::vector<RankNodes>& graphs) {
  std::vector<Party> parties;
  for (const auto& [rank, nodes] : graphs) {
    const NodeText* const node = id < nodes.size() ? &nodes[id] : nullptr;
    const auto same = std::ranges::find_if(parties, [&](const Party& party) {
      return (party.node == nullptr) == (node == nullptr) &&
             (node == nullptr || party.node->compared == node->compared);
    });
    if (same == parties.end()) {
      parties.push_back({{rank}, node});
    } else {
      same->ranks.push_back(rank);
    }
  }
  return parties;
}

std::string time_text(int64_t step, const std::optional<BatchPlace>& place) {
  const bool evaluates = place && place->of == BatchPlace::Of::kEvaluation;
  return fmt::format("{}step {}", evaluates ? "the evaluation after " : "", step);
}

// Throws for graphs that differ. `step`: the optimizer step, during or after which they were traced.
[[noreturn]] void throw_difference(const std::vector<RankNodes>& graphs, int64_t step,
                                   const std::optional<BatchPlace>& place) {
  size_t longest = 0, id = 0;
  for (const RankNodes& graph : graphs) longest = std::max(longest, graph.nodes.size());
  while (id < longest && parties_at(id, graphs).size() == 1) ++id;
  RUN_ASSERT(id < longest);
  std::vector<Party> parties = parties_at(id, graphs);
  std::ranges::stable_sort(parties, std::ranges::greater(), [](const Party& party) { return party.ranks.size(); });
  std::vector<std::string> texts;
  for (const Party& party : parties) texts.push_back(party.to_string());
  const NodeText* const odd = parties.back().node;
  Error error(ErrorKind::kRun,
              fmt::format("ranks traced different graphs in {}: the first node that differs is {}; on a TPU all ranks "
                          "must run the same graph, or they deadlock: base decisions on values that are equal on all "
                          "ranks (acc:reduce, acc:broadcast)",
                          time_text(step, place), fmt::join(texts, ", ")),
              odd == nullptr ? SourceMark{} : SourceMark{odd->file, odd->line, 0});
  if (place) error.note(place->text());
  throw error;
}

// Returns the key of the first graph that differs from that of another rank; none if all agree. `all`: by rank.
std::optional<GraphKey> first_that_differs(const std::vector<std::vector<Traced>>& all) {
  for (const std::vector<Traced>& graphs : all)
    for (const Traced& graph : graphs)
      for (const std::vector<Traced>& others : all)
        if (std::ranges::any_of(others, [&](const Traced& other) { return other.differs(graph); })) return graph.key;
  return std::nullopt;
}

}  // namespace

void TracedGraphs::compare(backends::ProcessGroup& ranks, const Site& site) {
  const std::vector<Graph> graphs = std::exchange(graphs_, {});
  const auto live_nodes = [this](const Graph& graph) {
    return LiveNodes(*graph.program, graph.roots, graph.numbers, graph.of_rank_0, rules_);
  };
  std::vector<Traced> mine;
  for (const Graph& graph : graphs) {
    const int64_t ordinal =
        std::ranges::count_if(mine, [&](const Traced& other) { return other.key.subject == graph.subject; });
    mine.push_back({{graph.subject, ordinal}, live_nodes(graph).digest()});
  }
  std::vector<std::vector<Traced>> all;
  for (const std::string& text : ranks.gather_objects(bytes_of(mine), site)) all.push_back(traced_in(text));
  const std::optional<GraphKey> differs = first_that_differs(all);
  if (!differs) return;
  const auto i = static_cast<size_t>(std::ranges::find(mine, *differs, &Traced::key) - mine.begin());
  const bool has_graph = i < mine.size();
  const std::string in_full =
      pack(has_graph ? nodes_of(*graphs[i].program, live_nodes(graphs[i])) : std::vector<NodeText>());
  const std::vector<std::string> texts = ranks.gather_objects(in_full, site);
  std::vector<RankNodes> nodes;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (std::ranges::find(all[rank], *differs, &Traced::key) != all[rank].end())
      nodes.push_back({rank, unpack<std::vector<NodeText>>(texts[rank])});
  throw_difference(nodes, site.step, has_graph ? graphs[i].place : std::nullopt);
}

}  // namespace runner::train
