#include "runner/train/step/traced_graphs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "backends/graph/print.h"
#include "backends/graph/type_text.h"
#include "backends/tpu/scalar_signature.h"
#include "runner/train/replicas/packing.h"
#include "runner/train/step/digest.h"
#include "schema/error.h"

namespace runner::train {
namespace {

using backends::Program;
using backends::Site;
using backends::ValueId;

// As a graph travels: what says whether it is another's.
struct Traced {
  int64_t batch;
  uint64_t structure[2];
  uint64_t ops;  // and what they take, whatever the sizes
  uint64_t numbers;

  bool operator==(const Traced&) const = default;
  bool matches(const Traced& other) const {
    return batch == other.batch ? *this == other : ops == other.ops && numbers == other.numbers;
  }
};

uint64_t digest_of_ops(const Program& program) {
  uint64_t digest = 0;
  for (ValueId id = 0; id < program.size(); ++id) {
    digest = mixed(digest, static_cast<uint64_t>(program.node(id).op));
    for (const ValueId operand : program.operands(id)) digest = mixed(digest, static_cast<uint64_t>(operand));
  }
  return digest;
}

std::vector<Traced> traced_in(const std::string& text) {
  std::vector<Traced> traced(text.size() / sizeof(Traced));
  if (!text.empty()) std::memcpy(traced.data(), text.data(), text.size());
  return traced;
}

// A node as ranks compare it, and as people read it.
struct NodeText {
  std::string compared, shown, file;
  int line = 0;
};

std::string compared_text(const Program& program, ValueId id, bool with_sizes) {
  std::string text = fmt::format("{} {}", name_of(program.node(id).op), fmt::join(program.operands(id), " "));
  if (with_sizes) text += fmt::format(" {} {}", program.type(id), fmt::join(program.attrs(id), " "));
  return text;
}

std::vector<NodeText> nodes_of(std::string_view text) {
  std::vector<NodeText> nodes;
  while (!text.empty()) {
    NodeText& node = nodes.emplace_back();
    node.compared = take(text);
    node.shown = take(text);
    node.file = take(text);
    node.line = static_cast<int>(take_number(text));
  }
  return nodes;
}

// Ranks that have one node at the place where graphs part.
struct Party {
  std::vector<size_t> ranks;
  const NodeText* node;  // null: the graph has ended

  std::string to_string() const {
    const std::string who = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
    if (node == nullptr) return fmt::format("missing on {}", who);
    const std::string where = node->file.empty() ? "" : fmt::format(" ({}:{})", node->file, node->line);
    return fmt::format("\"{}\"{} on {}", node->shown, where, who);
  }
};

std::vector<Party> parties_at(size_t id, const std::vector<std::vector<NodeText>>& graphs) {
  std::vector<Party> parties;
  for (size_t rank = 0; rank < graphs.size(); ++rank) {
    const NodeText* const node = id < graphs[rank].size() ? &graphs[rank][id] : nullptr;
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

[[noreturn]] void throw_difference(const std::vector<std::vector<NodeText>>& graphs, int64_t step) {
  const size_t longest = std::ranges::max(graphs, {}, [](const auto& nodes) { return nodes.size(); }).size();
  size_t id = 0;
  while (id < longest && parties_at(id, graphs).size() == 1) ++id;
  RUN_ASSERT(id < longest);
  std::vector<Party> parties = parties_at(id, graphs);
  std::ranges::stable_sort(parties, std::ranges::greater(), [](const Party& party) { return party.ranks.size(); });
  std::vector<std::string> texts;
  for (const Party& party : parties) texts.push_back(party.to_string());
  const NodeText* const odd = parties.back().node;
  throw Error(
      ErrorKind::kRun,
      fmt::format("the replicas have traced different graphs in step {}: node {} is {}; all replicas of a TPU run "
                  "one graph, and would wait for each other for ever here: decide by numbers that all have alike "
                  "(acc:reduce, acc:broadcast)",
                  step, id, fmt::join(texts, ", ")),
      odd == nullptr ? SourceMark{} : SourceMark{odd->file, odd->line, 0});
}

}  // namespace

void TracedGraphs::add(int64_t batch, const Program& program, std::span<const backends::TracedScalar> numbers) {
  const backends::tpu::ScalarSignature signature = backends::tpu::signature_of(numbers);
  Graph& graph = graphs_.emplace_back(Graph{batch, &program, {}});
  for (size_t i = 0; i < numbers.size(); ++i)
    graph.numbers.push_back({numbers[i].origin, {signature[2 * i], signature[2 * i + 1]}});
}

uint64_t TracedGraphs::digest_of(const std::vector<Number>& numbers) {
  uint64_t digest = 0;
  for (const Number& number : numbers)
    for (const int64_t word : number.words) digest = mixed(digest, static_cast<uint64_t>(word));
  return digest;
}

std::string TracedGraphs::packed_nodes(const Graph& graph, bool with_sizes) {
  const Program& program = *graph.program;
  std::map<backends::Origin, std::string> numbers;
  for (const auto& [origin, words] : graph.numbers) numbers[origin] += fmt::format(" {}", fmt::join(words, " "));
  std::string text;
  for (ValueId id = 0; id < program.size(); ++id) {
    append(text, compared_text(program, id, with_sizes) + numbers[program.node(id).origin]);
    append(text, to_string(program, id));
    append(text, program.mark_of(id).file);
    append_number(text, program.mark_of(id).line);
  }
  return text;
}

void TracedGraphs::compare(backends::Collectives& ranks, const Site& site) {
  std::string mine;
  for (const auto& [batch, program, numbers] : graphs_) {
    const backends::ProgramHash hash = program->hash();
    const Traced traced{batch, {hash.lo, hash.hi}, digest_of_ops(*program), digest_of(numbers)};
    mine.append(reinterpret_cast<const char*>(&traced), sizeof(traced));
  }
  std::vector<std::vector<Traced>> all;
  for (const std::string& text : ranks.gather_objects(mine, site)) all.push_back(traced_in(text));
  const std::vector<Graph> graphs = std::exchange(graphs_, {});
  for (size_t i = 0; std::ranges::all_of(all, [&](const auto& traced) { return i < traced.size(); }); ++i) {
    const Traced& first = all.front()[i];
    if (std::ranges::all_of(all, [&](const auto& traced) { return traced[i].matches(first); })) continue;
    const bool one_size = std::ranges::all_of(all, [&](const auto& traced) { return traced[i].batch == first.batch; });
    std::vector<std::vector<NodeText>> nodes;
    for (const std::string& text : ranks.gather_objects(packed_nodes(graphs[i], one_size), site))
      nodes.push_back(nodes_of(text));
    throw_difference(nodes, site.step);
  }
}

}  // namespace runner::train
