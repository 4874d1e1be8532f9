#include <algorithm>
#include <functional>

#include "backends/ir/op_def.h"
#include "backends/ir/windows.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

// How many numbers an attribute takes; `left`: those that the attributes before it have not taken.
size_t numbers_of(AttributeType type, int rank, size_t left) {
  const auto axes = static_cast<size_t>(rank);
  switch (type) {
    case AttributeType::kInt:
    case AttributeType::kF64:
    case AttributeType::kAxis: return 1;
    case AttributeType::kAxes: return left;
    case AttributeType::kPermutation: return axes;
    case AttributeType::kSlices: return 3 * axes;
    case AttributeType::kMargins: return 2 * axes;
    case AttributeType::kWindows: return Window::kNumbers * (axes - std::min<size_t>(axes, 2));
    case AttributeType::kShape: return 0;
  }
  RUN_ASSERT(false);
}

bool are_within(const Bounds& bounds, std::span<const int64_t> numbers) {
  return std::ranges::all_of(numbers, [&](int64_t number) { return bounds.least <= number && number <= bounds.most; });
}

bool are_ascending(std::span<const int64_t> numbers) {
  return std::ranges::adjacent_find(numbers, std::greater_equal<>()) == numbers.end();
}

bool are_windows(std::span<const int64_t> numbers) {
  constexpr Bounds kPadding{0, INT32_MAX}, kOther{1, INT32_MAX};  // so that their products are numbers
  for (; !numbers.empty(); numbers = numbers.subspan(Window::kNumbers))
    if (!are_within(kOther, numbers.first(3)) || !are_within(kPadding, numbers.subspan(3, 2))) return false;
  return true;
}

bool takes_numbers(const Attribute& attribute, int rank, std::span<const int64_t> numbers) {
  const Bounds axes = one_of(rank);
  switch (attribute.type) {
    case AttributeType::kF64:
    case AttributeType::kShape: return true;
    case AttributeType::kAxis:
    case AttributeType::kPermutation: return are_within(axes, numbers);
    case AttributeType::kAxes: return are_within(axes, numbers) && are_ascending(numbers);
    case AttributeType::kWindows: return are_windows(numbers);
    case AttributeType::kInt:
    case AttributeType::kSlices:
    case AttributeType::kMargins: return are_within(attribute.bounds, numbers);
  }
  RUN_ASSERT(false);
}

int rank_of_first(std::span<const TensorType> operands) {
  return operands.empty() ? 0 : operands[0].shape.rank();
}

}  // namespace

bool takes_attributes(Op op, std::span<const TensorType> operands, std::span<const int64_t> attrs) {
  const int rank = rank_of_first(operands);
  const Attributes& attributes = def_of(op).attributes;
  for (const Attribute& attribute : attributes) {
    if (attrs.empty() && attribute.presence == Presence::kOptional) return true;
    const size_t size = numbers_of(attribute.type, rank, attrs.size());
    if (attrs.size() < size || !takes_numbers(attribute, rank, attrs.first(size))) return false;
    attrs = attrs.subspan(size);
  }
  return attrs.empty();
}

std::vector<AttributeValue> attributes_of(const Program& program, ValueId id) {
  const std::span<const ValueId> operands = program.operands(id);
  const int rank = operands.empty() ? 0 : program.type(operands[0]).shape.rank();
  std::span<const int64_t> attrs = program.attrs(id);
  std::vector<AttributeValue> values;
  const Attributes& attributes = def_of(program.node(id).op).attributes;
  for (const Attribute& attribute : attributes) {
    if (attrs.empty() && attribute.presence == Presence::kOptional) break;
    const size_t size = numbers_of(attribute.type, rank, attrs.size());
    RUN_ASSERT(size <= attrs.size());
    values.push_back({&attribute, attrs.first(size)});
    attrs = attrs.subspan(size);
  }
  return values;
}

size_t attribute_index(Op op, std::string_view name) {
  const Attributes& attributes = def_of(op).attributes;
  const auto found = std::ranges::find_if(attributes, [&](const Attribute& each) { return each.name == name; });
  RUN_ASSERT(found != attributes.end());
  return static_cast<size_t>(found - attributes.begin());
}

}  // namespace runner::backends
