#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"
#include "backends/ir/views.h"

namespace runner::backends {
namespace {

// A tensor that a pad puts into elements [begin, end) of an axis of zeros.
struct Piece {
  ValueId tensor;
  int axis;
  int64_t begin, end;
};

bool has_pad(const Program& program) {
  for (ValueId id = 0; id < program.size(); ++id)
    if (program.node(id).op == Op::kPad) return true;
  return false;
}

// Nothing if the node is no pad of a single axis.
std::optional<Piece> piece_of(const Program& program, ValueId id) {
  if (program.node(id).op != Op::kPad) return std::nullopt;
  const std::span<const int64_t> margins = program.attrs(id);  // before and after, for each axis
  const Shape& shape = program.type(id).shape;
  std::optional<Piece> piece;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t before = margins[static_cast<size_t>(2 * axis)], after = margins[static_cast<size_t>(2 * axis + 1)];
    if (before == 0 && after == 0) continue;
    if (piece) return std::nullopt;
    piece = Piece{program.operands(id)[0], axis, before, shape[axis] - after};
  }
  return piece;
}

// The pieces whose sum a node is; empty if a term of the sum is none, or if there are many.
std::vector<Piece> pieces_of_sum(const Program& program, ValueId sum) {
  constexpr size_t kMost = 64;
  std::vector<Piece> pieces;
  std::vector<ValueId> terms{sum};
  while (!terms.empty()) {
    const ValueId term = terms.back();
    terms.pop_back();
    if (program.type(term) != program.type(sum) || pieces.size() + terms.size() > kMost) return {};
    if (const std::optional<Piece> piece = piece_of(program, term)) {
      pieces.push_back(*piece);
    } else if (program.node(term).op == Op::kAdd) {
      const std::span<const ValueId> operands = program.operands(term);
      terms.insert(terms.end(), operands.begin(), operands.end());
    } else {
      return {};
    }
  }
  std::ranges::sort(pieces, {}, &Piece::begin);
  return pieces;
}

// Whether the pieces, in order, are the whole of one axis.
bool cover_an_axis(const std::vector<Piece>& pieces, const Shape& shape) {
  if (pieces.empty()) return false;
  int64_t end = 0;
  for (const Piece& piece : pieces) {
    if (piece.axis != pieces[0].axis || piece.begin != end) return false;
    end = piece.end;
  }
  return end == shape[pieces[0].axis];
}

// The tensor that a value is a view of, and the element at which it begins there.
std::pair<ValueId, int64_t> viewed(const Program& program, ValueId id) {
  int64_t first = 0;
  for (; program.node(id).op != Op::kBarrier && is_view(program, id); id = program.operands(id)[0])
    first += view_start(program, id);
  return {id, first};
}

// The tensor whose elements the pieces are, one after the other; none if there is no such tensor.
std::optional<ValueId> whole_of(const Program& program, const std::vector<Piece>& pieces, const Shape& shape) {
  for (int axis = 0; axis < pieces[0].axis; ++axis)
    if (shape[axis] != 1) return std::nullopt;
  const ValueId whole = viewed(program, pieces[0].tensor).first;
  int64_t end = 0;
  for (const Piece& piece : pieces) {
    if (viewed(program, piece.tensor) != std::pair(whole, end)) return std::nullopt;
    end += program.type(piece.tensor).shape.elements();
  }
  return end == program.type(whole).shape.elements() ? std::optional(whole) : std::nullopt;
}

}  // namespace

Program join_pads(const Program& program) {
  if (!has_pad(program)) return program;
  Rewriter rewriter(program);
  for (ValueId id = 0; id < program.size(); ++id) {
    const bool is_sum = program.node(id).op == Op::kAdd;
    const std::vector<Piece> pieces = is_sum ? pieces_of_sum(program, id) : std::vector<Piece>();
    if (!cover_an_axis(pieces, program.type(id).shape)) {
      rewriter.copy(id);
      continue;
    }
    rewriter.make_from(id);
    if (const std::optional<ValueId> whole = whole_of(program, pieces, program.type(id).shape)) {
      const ValueId operand[] = {rewriter.mapped(*whole)};
      rewriter.map(id, rewriter.to().record(Op::kReshape, operand, {}, program.type(id)));
      continue;
    }
    std::vector<ValueId> tensors;
    for (const Piece& piece : pieces) tensors.push_back(rewriter.mapped(piece.tensor));
    const int64_t axis[] = {pieces[0].axis};
    rewriter.map(id, rewriter.to().record(Op::kConcat, tensors, axis, program.type(id)));
  }
  return dce(rewriter.finish());
}

}  // namespace runner::backends
