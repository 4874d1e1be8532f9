// The rules about the layers of model.stack.
#include <algorithm>

#include "schema/base/text.h"
#include "schema/recipe/check_context.h"

namespace runner::schema {
namespace {

constexpr std::string_view kOfConv[] = {"kernel", "stride", "padding", "dilation", "groups", "bias"};
constexpr std::string_view kOfMaxPool[] = {"stride", "padding", "dilation", "ceil_mode"};
constexpr std::string_view kOfAvgPool[] = {"stride", "padding", "ceil_mode", "count_include_pad"};
constexpr std::string_view kOfLinear[] = {"bias"};
constexpr std::string_view kOfGroupNorm[] = {"eps"};
constexpr Variant kLayers[] = {
    {"layer", {}},         {"conv", kOfConv}, {"max_pool", kOfMaxPool}, {"avg_pool", kOfAvgPool},
    {"linear", kOfLinear}, {"dropout", {}},   {"batch_norm", {}},       {"group_norm", kOfGroupNorm}};

// A number, or one for each of two axes.
void check_sizes(const CheckContext& c, const std::string& path) {
  const Setting* const setting = c.settings.find(path);
  if (setting == nullptr) return;
  const ValueList& sizes = *setting->value.list();
  if (sizes.size() > 2)
    return c.fault(ErrorId::kOutOfRange, path,
                   fmt::format("{} must be one number or [height, width], got {} numbers", path, sizes.size()));
  const bool has_word = std::ranges::any_of(sizes, [](const Value& size) { return size.text() != nullptr; });
  if (has_word && sizes.size() > 1)
    c.fault(ErrorId::kOutOfRange, path, fmt::format("{} has same for one of two axes", path), "write padding: same");
}

bool is_same(const Setting* padding) {
  return padding != nullptr && padding->value.list()->front().text() != nullptr;
}

void check_pool(const CheckContext& c, const std::string& layer, std::string_view kind) {
  const std::string padding = layer + ".padding";
  if (is_same(c.settings.find(padding)))
    c.fault(ErrorId::kConflictingKeys, padding, fmt::format("{}: same is for conv; {} needs a number", padding, kind));
}

void check_conv(const CheckContext& c, const std::string& layer) {
  const std::string kernel = layer + ".kernel", padding = layer + ".padding", stride = layer + ".stride";
  if (!c.has(kernel)) {
    if (c.complete && !c.broken(kernel))
      c.fault(ErrorId::kMissingKey, layer + ".conv", fmt::format("{} is missing", kernel),
              "the size of the windows, such as kernel: 3");
    return;
  }
  const Setting* const step = c.settings.find(stride);
  const auto is_one = [](const Value& value) { return value.integer() != nullptr && *value.integer() == 1; };
  if (is_same(c.settings.find(padding)) && step != nullptr && !std::ranges::all_of(*step->value.list(), is_one))
    c.fault(ErrorId::kConflictingKeys, padding, fmt::format("{}: same cannot be used with a stride above 1", padding),
            "write the padding as a number");
}

}  // namespace

void check_stack(const CheckContext& c) {
  constexpr std::string_view kStack = "model.stack";
  for (int i = 0; c.has(fmt::format("{}[{}]", kStack, i)); ++i) {
    const std::string layer = fmt::format("{}[{}]", kStack, i);
    const std::string_view kind = c.variant(layer, kLayers);
    for (const std::string_view key : {"max_pool", "avg_pool", "kernel", "stride", "padding", "dilation"})
      check_sizes(c, fmt::format("{}.{}", layer, key));
    if (kind == "conv") check_conv(c, layer);
    if (kind == "max_pool" || kind == "avg_pool") check_pool(c, layer, kind);
  }
}

}  // namespace runner::schema
