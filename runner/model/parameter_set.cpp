#include "runner/model/parameter_set.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/kernels/random.h"
#include "backends/tensor/float16.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::nn {
namespace {

bool any_selects(std::span<const std::string> patterns, const Parameter& parameter) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return selects(pattern, parameter); });
}

bool is_frozen(std::span<const std::string> freeze, const Parameter& parameter) {
  return parameter.fixed || any_selects(freeze, parameter);
}

// FNV-1a hash of the parameter name, which selects its random stream.
uint64_t stream_of(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace

bool selects(std::string_view pattern, const Parameter& parameter) {
  const ParameterRole role = parameter.role;
  if (pattern == "norms") return role == ParameterRole::kNormWeight || role == ParameterRole::kNormBias;
  if (pattern == "biases") return role == ParameterRole::kBias || role == ParameterRole::kNormBias;
  return matches(pattern, parameter.name);
}

std::string ModelBuffer::fault_in(std::span<const std::byte> contents) const {
  const size_t size = backends::size_of(type.dtype);
  for (size_t at = 0; at < contents.size(); at += size) {
    const double element = backends::load_element(type.dtype, contents.data() + at);
    if (std::isfinite(element) && element >= least) continue;
    return fmt::format("element {} is {}, expected finite numbers{}", at / size,
                       std::isnan(element) ? "nan" : fmt::to_string(element),
                       std::isfinite(least) ? fmt::format(" of at least {}", least) : "");
  }
  return "";
}

void ParameterSet::check_new(std::string_view name) const {
  RUN_CHECK(find(name) == nullptr && find_buffer(name) == nullptr, ErrorKind::kRun,
            "model: two parameters are named {}", name);
}

BufferId ParameterSet::add_buffer(ModelBuffer buffer) {
  check_new(buffer.name);
  model_buffers_.push_back(std::move(buffer));
  return static_cast<BufferId>(model_buffers_.size() - 1);
}

bool ParameterSet::moves_buffers() const {
  return std::ranges::any_of(model_buffers_, &ModelBuffer::moves);
}

ParameterId ParameterSet::add(std::string name, const backends::Shape& shape, Initialiser init, ParameterRole role) {
  check_new(name);
  parameters_.push_back({.name = std::move(name), .shape = shape, .init = init, .role = role});
  return static_cast<ParameterId>(parameters_.size() - 1);
}

// Throws if a group is ignored because all its parameters that are not frozen belong to earlier groups.
void ParameterSet::check_none_idle(std::span<const std::string> freeze,
                                   std::span<const std::vector<std::string>> groups) const {
  for (size_t later = 1; later < groups.size(); ++later) {
    std::set<size_t> owners;
    bool some_frozen = false;
    for (const Parameter& parameter : parameters_) {
      if (!any_selects(groups[later], parameter)) continue;
      if (is_frozen(freeze, parameter)) {
        some_frozen = true;
        continue;
      }
      const auto first =
          std::find_if(groups.begin(), groups.end(), [&](const auto& p) { return any_selects(p, parameter); });
      owners.insert(static_cast<size_t>(first - groups.begin()));
    }
    if (owners.empty() || *owners.rbegin() >= later) continue;
    std::vector<std::string> names;
    for (const size_t owner : owners) names.push_back(fmt::format("optimizer.groups[{}]", owner));
    fail(ErrorKind::kRecipe,
         "optimizer.groups[{}] has no effect: {} before it match{} all its parameters{}; put the narrower group first",
         later, fmt::join(names, " and "), names.size() == 1 ? "es" : "", some_frozen ? " that are not frozen" : "");
  }
}

void ParameterSet::check_used(std::span<const std::string> freeze,
                              std::span<const std::vector<std::string>> groups) const {
  std::vector<std::string> unused;
  const auto look = [&](const std::string& pattern, const std::string& key) {
    if (std::ranges::none_of(parameters_, [&](const Parameter& p) { return selects(pattern, p); }))
      unused.push_back(fmt::format("{}: '{}'", key, pattern));
  };
  for (const std::string& pattern : freeze) look(pattern, "model.freeze");
  for (size_t i = 0; i < groups.size(); ++i)
    for (const std::string& pattern : groups[i]) look(pattern, fmt::format("optimizer.groups[{}].params", i));
  constexpr size_t kNamed = 4;
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters_)
    if (names.size() < kNamed) names.push_back(parameter.name);
  const std::string known = names.empty()
                                ? "the model has none"
                                : fmt::format("the names are {}{}; `runner parameters RECIPE` lists all",
                                              fmt::join(names, ", "), parameters_.size() > kNamed ? ", …" : "");
  RUN_CHECK(unused.empty(), ErrorKind::kRecipe, "{} no parameter of the model: {}; {}",
            unused.size() == 1 ? "a pattern matches" : fmt::format("{} patterns match", unused.size()),
            fmt::join(unused, ", "), known);
}

// Returns all parameters: first those that `names` lists, in its order, then the others as they were declared.
std::vector<ParameterId> ParameterSet::in_order_of(std::span<const std::string> names) const {
  std::map<std::string_view, size_t> place;
  for (size_t i = 0; i < names.size(); ++i) place.emplace(names[i], i);
  std::vector<ParameterId> ids(parameters_.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, {}, [&](ParameterId id) {
    const auto found = place.find((*this)[id].name);
    return found == place.end() ? names.size() : found->second;
  });
  return ids;
}

void ParameterSet::lay_out(std::span<const std::string> freeze, std::span<const std::vector<std::string>> groups) {
  check_used(freeze, groups);
  const auto group_of = [&](const Parameter& parameter) {
    if (is_frozen(freeze, parameter)) return -1;
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& p) { return any_selects(p, parameter); });
    return static_cast<int32_t>(group - groups.begin());
  };
  check_none_idle(freeze, groups);
  const std::vector<std::string> no_names;
  buffers_.clear();
  // Groups in order, then the frozen parameters. Empty groups have no buffer.
  for (int32_t step = 0; step <= static_cast<int32_t>(groups.size()) + 1; ++step) {
    const int32_t group = step <= static_cast<int32_t>(groups.size()) ? step : -1;
    FlatBuffer buffer{.elements = 0, .group = group};
    const bool has_list = group >= 0 && group < std::ssize(groups);
    for (const ParameterId id : in_order_of(has_list ? groups[static_cast<size_t>(group)] : no_names)) {
      Parameter& parameter = parameters_[static_cast<size_t>(id)];
      if (group_of(parameter) != group) continue;
      parameter.trainable = group >= 0;
      parameter.buffer = static_cast<int32_t>(buffers_.size());
      parameter.offset = buffer.elements;
      buffer.elements += parameter.elements();
    }
    if (buffer.elements > 0) buffers_.push_back(buffer);
  }
  in_buffers_.clear();
  for (int32_t buffer = 0; buffer < std::ssize(buffers_); ++buffer) in_buffers_.push_back(find_in_buffer(buffer));
  RUN_CHECK(trainable_elements() > 0, ErrorKind::kRecipe, "model.freeze leaves no parameter to train");
}

const Parameter* ParameterSet::find(std::string_view name) const {
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  return found == parameters_.end() ? nullptr : &*found;
}

const ModelBuffer* ParameterSet::find_buffer(std::string_view name) const {
  const auto found = std::ranges::find(model_buffers_, name, &ModelBuffer::name);
  return found == model_buffers_.end() ? nullptr : &*found;
}

int64_t ParameterSet::elements() const {
  int64_t n = 0;
  for (const Parameter& parameter : parameters_) n += parameter.elements();
  return n;
}

int64_t ParameterSet::trainable_elements() const {
  int64_t n = 0;
  for (const Parameter& parameter : parameters_)
    if (parameter.trainable) n += parameter.elements();
  return n;
}

int64_t ParameterSet::buffer_elements() const {
  int64_t n = 0;
  for (const ModelBuffer& buffer : model_buffers_)
    if (!buffer.is_internal) n += buffer.type.shape.elements();
  return n;
}

std::vector<ParameterId> ParameterSet::find_in_buffer(int32_t buffer) const {
  std::vector<ParameterId> ids;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].buffer == buffer) ids.push_back(static_cast<ParameterId>(i));
  std::ranges::sort(ids, {}, [&](ParameterId id) { return (*this)[id].offset; });
  return ids;
}

void initialise(const Parameter& parameter, uint64_t seed, std::span<float> values, int64_t begin) {
  using Kind = Initialiser::Kind;
  const Kind kind = parameter.init.kind;
  if (kind == Kind::kZeros || kind == Kind::kOnes)
    return std::fill(values.begin(), values.end(), kind == Kind::kOnes ? 1.0f : 0.0f);
  const backends::ElementStream stream{.key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
                                       .upper = stream_of(parameter.name)};
  backends::draw_initial(kind == Kind::kNormal ? backends::Distribution::kNormal : backends::Distribution::kUniform,
                         stream, begin, static_cast<float>(parameter.init.scale), values);
  const auto [zero, end] = parameter.init.zeros;
  for (int64_t i = std::max(zero, begin); i < std::min(end, begin + std::ssize(values)); ++i)
    values[static_cast<size_t>(i - begin)] = 0;
}

}  // namespace runner::nn
