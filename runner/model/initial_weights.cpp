#include "runner/model/initial_weights.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/tensor/float16.h"
#include "runner/formats/model_files.h"
#include "runner/model/lora.h"
#include "runner/model/pretrained_folder.h"
#include "runner/model/pretrained_tensors.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::nn {

namespace {

using backends::Shape;

// The name of a tensor for messages, with that in the file if it is another one.
std::string full_name(const std::string& name, const formats::NamedTensor& tensor) {
  return name == tensor.name ? name : fmt::format("{} ({} in the file)", name, in_quotes(tensor.name));
}

constexpr const char* kHookCall = "acc:load_model";
constexpr const char* kNewHeadHint = "; model.new_head: true starts with a new output layer";

const char* reader_of(const WeightSource& source) {
  return source.is_of_hook ? kHookCall : "model.init_from";
}

const char* renamer_of(const WeightSource& source) {
  return source.is_of_hook ? kHookCall : "model.rename";
}

}  // namespace

InitialWeights::InitialWeights(const WeightSource& source, const ParameterSet& parameters)
    : file_(std::make_unique<formats::ModelTensors>(source.path, source.root)),
      report_(LoadReport{.key = reader_of(source), .file = source.path, .missing = {}, .unused = {}, .untied = {}}) {
  for (const formats::NamedTensor& tensor : file_->tensors()) entries_.push_back({tensor.name, &tensor});
  rename(source);
  if (source.has_new_outputs) leave_out_outputs(source);
  for (const Parameter& parameter : parameters.parameters()) {
    if (source.has_new_outputs && matches(source.output_layer, parameter.name)) {
      report_->missing.push_back(parameter.name);
    } else if (find(parameter.name) != nullptr || source.is_of_hook || !is_of_adapter(parameter.name)) {
      check(source, {parameter.name, parameter.shape});
      ++report_->loaded;
    }
  }
  for (const ModelBuffer& buffer : parameters.model_buffers())
    if (!buffer.is_internal && (find(buffer.name) != nullptr || !buffer.is_count())) check(source, buffer);
  const auto is_of_model = [&](const std::string& name) {
    const ModelBuffer* const buffer = parameters.find_buffer(name);
    return parameters.find(name) != nullptr || (buffer != nullptr && !buffer->is_internal);
  };
  for (const Entry& entry : entries_)
    RUN_CHECK(is_of_model(entry.name), ErrorKind::kData, "{}: {} has a tensor {}, which the model does not have",
              report_->key, source.path, full_name(entry.name, *entry.tensor));
}

// Training would not repair them, and a frozen norm would use them.
void InitialWeights::check(const WeightSource& source, const ModelBuffer& buffer) const {
  check(source, {buffer.name, buffer.type.shape, buffer.is_count()});
  const std::string fault = buffer.fault_in(contents_of(buffer));
  RUN_CHECK(fault.empty(), ErrorKind::kData,
            "{}: {} in {}: {}; the training that made them has diverged, or the file is damaged: use another file",
            report_->key, full_name(buffer.name, *find(buffer.name)->tensor), source.path, fault);
}

void InitialWeights::leave_out_outputs(const WeightSource& source) {
  const auto is_output = [&](const Entry& entry) { return matches(source.output_layer, entry.name); };
  for (const Entry& entry : entries_)
    if (is_output(entry)) report_->unused.push_back(entry.tensor->name);
  std::erase_if(entries_, is_output);
}

void InitialWeights::check(const WeightSource& source, const Expected& expected) const {
  const std::string wanted = expected.shape.to_string();
  const char* const hint = matches(source.output_layer, expected.name) ? kNewHeadHint : "";
  const Entry* const entry = find(expected.name);
  RUN_CHECK(entry, ErrorKind::kData, "{}: {} has no tensor {}, expected one of shape {}; {}{}{}", report_->key,
            source.path, expected.name, wanted, names_text(), prefix_hint(source, expected.name), hint);
  const formats::NamedTensor& tensor = *entry->tensor;
  const std::string name = full_name(entry->name, tensor);
  RUN_CHECK(tensor.shape == expected.shape, ErrorKind::kData, "{}: expected shape {} of {} in {}, got {}{}",
            report_->key, wanted, name, source.path, tensor.shape.to_string(), hint);
  const bool fits =
      tensor.dtype && (expected.is_count ? *tensor.dtype == backends::DType::kI64 : backends::is_float(*tensor.dtype));
  RUN_CHECK(fits, ErrorKind::kData, "{}: expected {} in {} in {}, got {}", report_->key,
            expected.is_count ? "I64" : "floats", name, source.path, tensor.type);
}

// ---- pretrained models ----------------------------------------------------------------------------------------------

namespace {

constexpr const char* kPretrained = "model.pretrained";

// Checks the number of classes. Shapes of a parameter of the output layer: `wanted` by the data, `got` in the file.
void check_class_count(const std::vector<std::string>& classes, const Shape& wanted, const Shape& got,
                       const PretrainedFiles& files) {
  if (got.rank() == 0 || wanted[0] == got[0]) return;
  const auto list = [](const std::vector<std::string>& names) {
    return names.empty() ? "" : fmt::format(" ({})", fmt::join(names, ", "));
  };
  fail(ErrorKind::kRecipe, "{}: the output layer of {} has {}{}, but data.train has {}{}{}", kPretrained, files.weights,
       count_text(got[0], "class"), list(class_names_of(read_hub_config(files))), count_text(wanted[0], "class"),
       list(classes), kNewHeadHint);
}

std::string count_of(const std::vector<std::string>& names) {
  constexpr size_t kNamed = 6;
  const std::span<const std::string> first(names.data(), std::min(names.size(), kNamed));
  return fmt::format("{} ({}{})", names.size(), fmt::join(first, ", "), names.size() > kNamed ? ", …" : "");
}

}  // namespace

InitialWeights::InitialWeights(const PretrainedSource& source, const ParameterSet& parameters) {
  const PretrainedFiles files = find_pretrained(source.path);
  file_ = std::make_unique<formats::ModelTensors>(files.weights);
  PretrainedTensors matched =
      match_tensors(source.def, files.weights, file_->tensors(), parameters, source.has_new_outputs);
  for (auto& [parameter, tensor] : matched.matches) entries_.push_back({std::move(parameter), tensor});
  report_ = LoadReport{.key = kPretrained,
                       .file = files.weights,
                       .missing = {},
                       .unused = std::move(matched.unused),
                       .untied = std::move(matched.untied)};
  const Entry* const sample = find(source.def.conv1d_sample);
  const Parameter* const like = sample == nullptr ? nullptr : parameters.find(sample->name);
  const bool is_conv1d = like != nullptr && sample->tensor->shape == Shape{like->shape[1], like->shape[0]};
  for (const Parameter& parameter : parameters.parameters()) {
    const auto found = std::ranges::lower_bound(entries_, parameter.name, {}, &Entry::name);
    const bool is_output = any_matches(source.def.outputs, parameter.name);
    if (found == entries_.end() || found->name != parameter.name) {
      if (is_of_adapter(parameter.name)) continue;
      RUN_CHECK(any_matches(source.def.head, parameter.name), ErrorKind::kData,
                "{}: {} has no tensor {}, expected one of shape {}; {}", kPretrained, files.weights, parameter.name,
                parameter.shape.to_string(), names_text());
      report_->missing.push_back(parameter.name);
      continue;
    }
    const std::string name = full_name(parameter.name, *found->tensor);
    found->is_transposed = is_conv1d && any_matches(source.def.conv1d, parameter.name);
    const Shape shape = found->is_transposed ? Shape{parameter.shape[1], parameter.shape[0]} : parameter.shape;
    if (is_output) check_class_count(source.classes, parameter.shape, found->tensor->shape, files);
    RUN_CHECK(found->tensor->shape == shape, ErrorKind::kData, "{}: expected shape {} of {} in {}, got {}{}",
              kPretrained, shape.to_string(), name, files.weights, found->tensor->shape.to_string(),
              is_output ? kNewHeadHint : "");
    RUN_CHECK(found->tensor->dtype && backends::is_float(*found->tensor->dtype), ErrorKind::kData,
              "{}: expected floats in {} in {}, got {}", kPretrained, name, files.weights, found->tensor->type);
    ++report_->loaded;
  }
}

std::string LoadReport::text() const {
  std::string text = fmt::format("{} of {} parameters come from {}", loaded, loaded + missing.size(), file);
  if (!missing.empty()) text += "; newly initialized: " + count_of(missing);
  if (!unused.empty()) text += "; not used: " + count_of(unused);
  if (!untied.empty())
    text += fmt::format("; {} differ{} from the embedding that the model shares with the output layer, and {} not used",
                        fmt::join(untied, ", "), untied.size() == 1 ? "s" : "", untied.size() == 1 ? "is" : "are");
  return text;
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

const InitialWeights::Entry* InitialWeights::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
  return found == entries_.end() || found->name != name ? nullptr : &*found;
}

std::string InitialWeights::names_text() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_)
    names.push_back(entry.name == entry.tensor->name
                        ? in_quotes(entry.name)
                        : fmt::format("{} ({} in the file)", in_quotes(entry.name), in_quotes(entry.tensor->name)));
  return formats::tensor_names_text(names);
}

// Returns the hint if the file has the parameter with a prefix, as wrappers such as DataParallel and torch.compile add.
std::string InitialWeights::prefix_hint(const WeightSource& source, const std::string& parameter) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.name.ends_with("." + parameter); });
  if (found == entries_.end()) return "";
  const std::string prefix = found->name.substr(0, found->name.size() - parameter.size());
  return source.is_of_hook ? fmt::format("; remove the prefix with {{{{\"{}*\", \"*\"}}}} as second argument", prefix)
                           : fmt::format("; remove the prefix with model.rename: {{\"{}*\": \"*\"}}", prefix);
}

bool InitialWeights::read(const Parameter& parameter, std::span<float> values, int64_t begin) const {
  const Entry* const entry = file_ ? find(parameter.name) : nullptr;
  if (entry == nullptr) return false;
  const formats::NamedTensor& tensor = *entry->tensor;
  const size_t size = backends::size_of(*tensor.dtype);
  const int64_t rows = parameter.shape.rank() == 0 ? 1 : parameter.shape[0], width = parameter.elements() / rows;
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t at = begin + static_cast<int64_t>(i);
    if (entry->is_transposed) at = at % width * rows + at / width;
    values[i] =
        static_cast<float>(backends::load_element(*tensor.dtype, tensor.bytes.data() + static_cast<size_t>(at) * size));
  }
  return true;
}

std::vector<std::byte> InitialWeights::contents_of(const ModelBuffer& buffer) const {
  const Entry* const entry = file_ ? find(buffer.name) : nullptr;
  const size_t size = backends::size_of(buffer.type.dtype);
  std::vector<std::byte> contents(buffer.type.bytes());
  for (size_t at = 0; at < contents.size(); at += size) {
    double value = buffer.initial;
    if (entry != nullptr) {
      const backends::DType dtype = *entry->tensor->dtype;
      value = backends::load_element(dtype, entry->tensor->bytes.data() + at / size * backends::size_of(dtype));
    }
    backends::store_element(buffer.type.dtype, value, contents.data() + at);
  }
  return contents;
}

Sha256Digest InitialWeights::digest() const {
  Sha256 hash;
  for (const Entry& entry : entries_)
    hash.update(entry.name + ' ' + entry.tensor->type + ' ').update(entry.tensor->bytes);
  return hash.finish();
}

}  // namespace runner::nn
