#include "runner/model/initial_weights.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/tensor/float16.h"
#include "runner/formats/model_files.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::nn {

namespace {

// The name of a tensor for messages, with that in the file if it is another one.
std::string full_name(const std::string& name, const formats::NamedTensor& tensor) {
  return name == tensor.name ? name : fmt::format("{} ({} in the file)", name, in_quotes(tensor.name));
}

constexpr const char* kHookCall = "acc:load_model";

const char* reader_of(const WeightSource& source) {
  return source.is_of_hook ? kHookCall : "model.init_from";
}

const char* renamer_of(const WeightSource& source) {
  return source.is_of_hook ? kHookCall : "model.rename";
}

}  // namespace

InitialWeights::InitialWeights(const WeightSource& source, const ParameterSet& parameters)
    : file_(std::make_unique<formats::ModelTensors>(source.path, source.root)) {
  const char* const caller = reader_of(source);
  const std::string& path = source.path;
  for (const formats::NamedTensor& tensor : file_->tensors()) entries_.push_back({tensor.name, &tensor});
  rename(source);
  for (const Parameter& parameter : parameters.parameters()) {
    const formats::NamedTensor* tensor = find(parameter.name);
    RUN_CHECK(tensor, ErrorKind::kData, "{}: {} has no tensor {}, expected one of shape {}; {}{}", caller, path,
              parameter.name, parameter.shape.to_string(), names_text(), prefix_hint(source, parameter.name));
    const std::string name = full_name(parameter.name, *tensor);
    RUN_CHECK(tensor->shape == parameter.shape, ErrorKind::kData, "{}: expected shape {} of {} in {}, got {}", caller,
              parameter.shape.to_string(), name, path, tensor->shape.to_string());
    RUN_CHECK(tensor->dtype && backends::is_float(*tensor->dtype), ErrorKind::kData,
              "{}: expected floats in {} in {}, got {}", caller, name, path, tensor->type);
  }
  for (const Entry& entry : entries_)
    RUN_CHECK(std::ranges::find(parameters.parameters(), entry.name, &Parameter::name) != parameters.parameters().end(),
              ErrorKind::kData, "{}: {} has a tensor {}, which the model does not have", caller, path,
              full_name(entry.name, *entry.tensor));
}

InitialWeights::InitialWeights() = default;
InitialWeights::~InitialWeights() = default;
InitialWeights::InitialWeights(InitialWeights&&) noexcept = default;
InitialWeights& InitialWeights::operator=(InitialWeights&&) noexcept = default;

void InitialWeights::rename(const WeightSource& source) {
  const char* const renamer = renamer_of(source);
  for (const schema::Rename& rename : source.renames) {
    const auto most = std::ranges::count(rename.pattern, '*'), got = std::ranges::count(rename.text, '*');
    RUN_CHECK(got <= most, ErrorKind::kRun, "{}: {} has {} *, but its pattern {} has {}", renamer,
              in_quotes(rename.text), got, in_quotes(rename.pattern), most);
    bool is_used = false;
    for (Entry& entry : entries_) {
      std::optional<std::string> name = matched_text(rename.pattern, entry.name, rename.text);
      is_used = is_used || name;
      if (name) entry.name = *std::move(name);
    }
    RUN_CHECK(is_used, ErrorKind::kData, "{}: {} matches no tensor of {}; {}", renamer, in_quotes(rename.pattern),
              source.path, names_text());
  }
  std::ranges::sort(entries_, {}, &Entry::name);
  const auto twice = std::ranges::adjacent_find(entries_, {}, &Entry::name);
  RUN_CHECK(twice == entries_.end(), ErrorKind::kData, "{}: {} and {} of {} both become {}", renamer,
            in_quotes(twice->tensor->name), in_quotes(std::next(twice)->tensor->name), source.path,
            in_quotes(twice->name));
}

const formats::NamedTensor* InitialWeights::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
  return found == entries_.end() || found->name != name ? nullptr : found->tensor;
}

std::string InitialWeights::names_text() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : entries_)
    names.push_back(name == tensor->name
                        ? in_quotes(name)
                        : fmt::format("{} ({} in the file)", in_quotes(name), in_quotes(tensor->name)));
  return formats::tensor_names_text(names);
}

// The advice if the file has the parameter under a prefix: wrappers such as DataParallel and torch.compile add one.
std::string InitialWeights::prefix_hint(const WeightSource& source, const std::string& parameter) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.name.ends_with("." + parameter); });
  if (found == entries_.end()) return "";
  const std::string prefix = found->name.substr(0, found->name.size() - parameter.size());
  return source.is_of_hook ? fmt::format("; remove the prefix with {{{{\"{}*\", \"*\"}}}} as second argument", prefix)
                           : fmt::format("; remove the prefix with model.rename: {{\"{}*\": \"*\"}}", prefix);
}

bool InitialWeights::read(const Parameter& parameter, std::span<float> values, int64_t begin) const {
  if (!file_) return false;
  const formats::NamedTensor& tensor = *find(parameter.name);
  const size_t size = backends::size_of(*tensor.dtype);
  const std::byte* const first = tensor.bytes.data() + static_cast<size_t>(begin) * size;
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(backends::load_element(*tensor.dtype, first + i * size));
  return true;
}

Sha256Digest InitialWeights::digest() const {
  Sha256 hash;
  for (const Entry& entry : entries_)
    hash.update(entry.name + ' ' + entry.tensor->type + ' ').update(entry.tensor->bytes);
  return hash.finish();
}

}  // namespace runner::nn
