#include "runner/train/engine/device_arrays.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "backends/dist/fold.h"
#include "backends/runtime/available_memory.h"
#include "runner/model/model_def.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/optimizer_step.h"
#include "schema/base/error.h"
#include "schema/base/large_array.h"
#include "schema/recipe/field_words.h"

namespace runner::train {
namespace {

std::vector<backends::Buffer*> pointers_to(const std::vector<std::shared_ptr<backends::Buffer>>& buffers) {
  std::vector<backends::Buffer*> pointers;
  for (const auto& buffer : buffers) pointers.push_back(buffer.get());
  return pointers;
}

nn::InitialWeights initial_weights(const schema::ModelSpec& model, const nn::ParameterSet& parameters,
                                   const data::Encoding& encoding) {
  if (!model.pretrained.empty()) {
    const nn::PretrainedSource source{
        .def = nn::find_model(model.type)->pretrained(),
        .path = model.pretrained,
        .has_new_outputs = model.new_head,
        .classes = encoding.has_names() ? encoding.classes() : std::vector<std::string>{}};
    return about_key("model.pretrained", [&] { return nn::InitialWeights(source, parameters); });
  }
  if (model.init_from.empty()) return {};
  const nn::ModelDef* const def = nn::find_model(model.type);
  const nn::WeightSource source{.path = model.init_from,
                                .renames = model.rename,
                                .output_layer = def == nullptr ? nn::kNoNewHead : *def->output_layer,
                                .has_new_outputs = model.new_head};
  return about_key("model.init_from", [&] { return nn::InitialWeights(source, parameters); });
}

}  // namespace

DeviceArrays::DeviceArrays(const StepBuilder& builder, backends::ModelledDevice& device, backends::ProcessGroup* ranks,
                           bool together)
    : builder_(builder),
      layout_(builder.layout()),
      parameters_(builder.model().parameters),
      device_(device),
      ranks_(ranks),
      weights_(initial_weights(builder.recipe().model, parameters_, builder.encoding())),
      gradients_(parameters_.buffers().size()) {
  device.describe_arrays(layout_.descriptions());
  if (together) share_updates();
  const bool has_rows = together && sum_source() == SumSource::kRows;
  if (has_rows && may_factor_gradients(builder.recipe(), builder)) factored_.emplace(builder, device, *ranks);
  if (together && device.streams() != nullptr && may_reduce_in_buckets(builder.recipe()))
    buckets_.emplace(builder, builder.recipe().gpu.bucket_cap);
  if (has_rows && buckets_ && buckets_->size() > 1) reducer_.emplace(builder, *buckets_, *shard_, device, *ranks);
}

// Ranks that share memory update one copy of the weights together. Ranks that reduce first need no gradients of others,
// so each host has such a copy.
void DeviceArrays::share_updates() {
  RUN_ASSERT(ranks_->size() == builder_.recipe().num_processes);  // the norm of the gradients relies on it
  backends::ProcessGroup* const host = ranks_->host_ranks();
  const bool reduces_first = sum_source() == SumSource::kReducedInPlace;
  if (reduces_first ? host != nullptr && host->size() > 1 : ranks_->has_symmetric_memory()) sharing_ranks_ = host;
  const backends::ProcessGroup* const together = reduces_first ? sharing_ranks_ : ranks_;
  const int rank = together != nullptr ? together->rank() : 0, size = together != nullptr ? together->size() : 1;
  shard_.emplace(parameters_, builder_.optimizers(), builder_.recipe().comm, rank, size);
}

void DeviceArrays::allocate(FirstWeights weights, const std::function<void()>& halt) {
  check_machine_memory(/*temporary=*/0);
  if (are_shared()) {
    announce();
    SharedArrays shared = share_arrays(layout_, *shard_, device_, *sharing_ranks_, sum_source());
    if (reducer_) reducer_->allocate(shared);
    arrays_ = std::move(shared.arrays);
    reduction_arrays_ = std::move(shared.reduction);
    rows_ = std::move(shared.rows);
    states_ = pointers_to(arrays_);
    if (sum_source() == SumSource::kFoldedRows) allocate_sums();
  } else {
    allocate_added();
  }
  if (reduces_between_hosts()) overlapped_.emplace(builder_, gradients_of_rank(), *ranks_);
  for (const DeviceArray& array : layout_.arrays())  // for the device model only
    if (buckets_ && array.role == ArrayRole::kGradients)
      buckets_of_device_.push_back(device_.wrap(nullptr, array.type.bytes(), GradientBuckets::kName));
  reduction_states_ = pointers_to(reduction_arrays_);
  if (rounds_weights()) rounded_.emplace(layout_, *shard_, device_, *ranks_, reduction_states_);
  write_initial_values();
  if (weights == FirstWeights::kInitial) write_initial_weights(halt);
  write_initial_qs();
  if (are_shared()) sharing_ranks_->barrier({"initial weights", 1});
}

void DeviceArrays::allocate_sums() {
  for (size_t i = 0; i < layout_.arrays().size(); ++i) {
    const DeviceArray& array = layout_.arrays()[i];
    if (array.role != ArrayRole::kGradients || shard_->of(array.buffer).count == 0) continue;
    const auto [first, count] = shard_->of(array.buffer);
    const auto sum = std::make_shared<backends::Arena>(static_cast<size_t>(count) * sizeof(float));
    folded_.push_back(
        {i, static_cast<size_t>(first) * sizeof(float), sum, device_.wrap({sum, sum->data()}, sum->bytes())});
  }
}

// Announces the arrays to a device model, for the advice in its errors.
void DeviceArrays::announce() const {
  if (!device_.has_own_memory()) return;
  DeviceLayout in_parts = layout_;
  in_parts.keep_gradients();
  std::vector<backends::ArrayBytes> for_parts;
  for (size_t i = layout_.arrays().size(); i < in_parts.arrays().size(); ++i)
    for_parts.push_back({in_parts.arrays()[i].name, static_cast<int64_t>(in_parts.arrays()[i].type.bytes())});
  device_.expect_arrays(sizes(), for_parts);
}

void DeviceArrays::allocate_added() {
  announce();
  for (size_t i = arrays_.size(); i < layout_.arrays().size(); ++i) {
    const DeviceArray& array = layout_.arrays()[i];
    arrays_.push_back(allocated(array));
  }
  states_ = pointers_to(arrays_);
}

// Gradients of a host with one rank are sent in place.
std::shared_ptr<backends::Buffer> DeviceArrays::allocated(const DeviceArray& array) {
  const size_t bytes = array.type.bytes();
  if (array.role != ArrayRole::kGradients || !reduces_between_hosts()) return device_.allocate(bytes, array.name);
  const auto arena = std::make_shared<backends::Arena>(bytes);
  const std::shared_ptr<std::byte> memory(arena, arena->data());
  rows_.resize(layout_.arrays().size());
  rows_[arrays_.size()] = {memory, 0};
  ranks_->use_in_place(memory, bytes);
  return device_.wrap(memory, bytes);
}

OverlappedReducer::Gradients DeviceArrays::gradients_of_rank() const {
  OverlappedReducer::Gradients gradients(parameters_.buffers().size());
  for (size_t i = 0; i < rows_.size(); ++i)
    if (const DeviceArray& array = layout_.arrays()[i]; array.role == ArrayRole::kGradients)
      gradients[static_cast<size_t>(array.buffer)] = rows_[i].of(are_shared() ? sharing_ranks_->rank() : 0).get();
  return gradients;
}

// ---- initial contents ----------------------------------------------------------------------------------------------

void DeviceArrays::write_initial_values() {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const DeviceArray& array = layout_.arrays()[i];
    if (array.initial == 0) continue;
    const std::vector<float> filled(static_cast<size_t>(array.type.shape.elements()),
                                    static_cast<float>(array.initial));
    write(static_cast<int32_t>(i), std::as_bytes(std::span(filled)));
  }
}

void DeviceArrays::write_initial_weights(const std::function<void()>& halt) {
  write_parameters([&](const nn::Parameter& parameter, std::span<float> values, int64_t begin) {
    halt();
    if (!weights_.read(parameter, values, begin))
      nn::initialise(parameter, static_cast<uint64_t>(builder_.recipe().seed), values, begin);
  });
  write_buffers(weights_);
}

// Ranks that share one copy write one part of each parameter each.
void DeviceArrays::write_parameters(const ValuesOf& values_of) {
  const int64_t parts = are_shared() ? shard_->size() : 1, part = are_shared() ? shard_->rank() : 0;
  LargeArray<float> values;
  for (const nn::Parameter& parameter : parameters_.parameters()) {
    const int64_t first = parameter.elements() * part / parts, end = parameter.elements() * (part + 1) / parts;
    values.resize(static_cast<size_t>(end - first));
    values_of(parameter, values, first);
    for (const int32_t array :
         std::set{layout_.find(ArrayRole::kParameters, parameter.buffer), layout_.evaluated_weights(parameter.buffer)})
      write_bytes(array, static_cast<size_t>(parameter.offset + first) * sizeof(float),
                  std::as_bytes(std::span(values)));
  }
}

void DeviceArrays::write_buffers(const nn::InitialWeights& weights) {
  for (nn::BufferId id = 0; id < std::ssize(parameters_.model_buffers()); ++id) {
    const std::vector<std::byte> contents = weights.contents_of(parameters_.model_buffer(id));
    for (const int32_t array : std::set{layout_.find(ArrayRole::kBuffer, 0, id), layout_.evaluated_buffer(id)})
      write(array, contents);
  }
}

void DeviceArrays::write_initial_qs() {
  for (const DeviceArray& array : layout_.arrays()) {
    if (array.role != ArrayRole::kCompression || array.index != kQs) continue;
    std::vector<float> qs(static_cast<size_t>(array.type.shape.elements()));
    const nn::Parameter drawn{
        .name = "comm/" + array.name, .shape = array.type.shape, .init = {nn::Initialiser::Kind::kNormal, 1.0}};
    nn::initialise(drawn, static_cast<uint64_t>(builder_.recipe().seed), qs);
    write(layout_.find(array.role, array.buffer, array.index), std::as_bytes(std::span(qs)));
  }
}

// ---- contents ------------------------------------------------------------------------------------------------------

// The first rank writes what ranks share; rank 0 writes what must count only once.
bool DeviceArrays::writes(const DeviceArray& array) const {
  const bool logged = array.role == ArrayRole::kSum && array.index == kLoggedSum;
  const bool with_rank_0 = are_shared() ? array.is_common() : trains_locally(builder_.recipe(), ranks_) && logged;
  return !with_rank_0 || (are_shared() ? sharing_ranks_ : ranks_)->rank() == 0;
}

std::vector<std::byte> DeviceArrays::read(int32_t array) const {
  std::vector<std::byte> contents(arrays_[static_cast<size_t>(array)]->bytes());
  read(array, 0, contents);
  return contents;
}

void DeviceArrays::read(int32_t array, size_t offset, std::span<std::byte> target) const {
  device_.read(*arrays_[static_cast<size_t>(array)], offset, target);
}

void DeviceArrays::write(int32_t array, std::span<const std::byte> contents) {
  if (writes(layout_.arrays()[static_cast<size_t>(array)])) write_bytes(array, 0, contents);
}

void DeviceArrays::write_bytes(int32_t array, size_t offset, std::span<const std::byte> contents) {
  device_.write(*arrays_[static_cast<size_t>(array)], offset, contents);
  if (rounded_) rounded_->write(array, offset, contents);
}

void DeviceArrays::write_weights(const nn::InitialWeights& weights, const backends::Site& site) {
  if (are_shared()) sharing_ranks_->barrier(site);  // other ranks may still compute with the old weights
  write_parameters([&](const nn::Parameter& parameter, std::span<float> values, int64_t begin) {
    weights.read(parameter, values, begin);
  });
  write_buffers(weights);
  if (are_shared()) sharing_ranks_->barrier(site);
}

void DeviceArrays::share_buffers(const backends::Site& site) {
  if (ranks_ == nullptr || parameters_.model_buffers().empty()) return;
  const backends::ModelPause pause = pause_model();
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const DeviceArray& array = layout_.arrays()[i];
    if (!array.is_of_model_buffer()) continue;
    std::vector<std::byte> contents = read(static_cast<int32_t>(i));
    ranks_->broadcast(array.type, contents, /*root=*/0, site);
    write(static_cast<int32_t>(i), contents);
  }
}

std::array<double, 2> DeviceArrays::logged_sums() const {
  std::array<double, 2> sums{};
  read(layout_.find(ArrayRole::kSum, 0, kLoggedSum), 0, std::as_writable_bytes(std::span(sums)));
  return sums;
}

std::array<double, 2> DeviceArrays::take_logged_sums() {
  const std::array<double, 2> sums = logged_sums();
  set_logged_sums({});
  return sums;
}

void DeviceArrays::set_logged_sums(const std::array<double, 2>& sums) {
  const backends::ModelPause pause = pause_model();
  write_bytes(layout_.find(ArrayRole::kSum, 0, kLoggedSum), 0, std::as_bytes(std::span(sums)));
}

// ---- gradients -----------------------------------------------------------------------------------------------------

void DeviceArrays::set_gradients(std::vector<GradientState> held) {
  gradients_ = std::move(held);
}

void DeviceArrays::hold(GradientState held) {
  for (size_t b = 0; b < gradients_.size(); ++b)
    if (parameters_.buffers()[b].group >= 0) gradients_[b] = held;
}

bool DeviceArrays::holds_any_gradients() const {
  return std::ranges::any_of(gradients_, [](GradientState held) { return held != GradientState::kNothing; });
}

bool DeviceArrays::holds_sums_of_rank() const {
  return std::ranges::count(gradients_, GradientState::kLocalSum) > 0;
}

bool DeviceArrays::is_of_parameters(const DeviceArray& array) const {
  return array.is_like_parameters && (array.role != ArrayRole::kGradients || holds_gradients(array.buffer));
}

// ---- for Programs --------------------------------------------------------------------------------------------------

std::span<backends::Buffer* const> DeviceArrays::states_of_step(bool writes_factored) {
  joined_states_ = states_;
  if (writes_factored) joined_states_.push_back(&factored_->mine());
  if (rounded_)
    for (const auto& copy : rounded_->states()) joined_states_.push_back(copy.get());
  return joined_states_;
}

std::span<backends::Buffer* const> DeviceArrays::states_of_reduction(SumSource source, bool reads_factored) {
  if (source == SumSource::kAllReduce || !are_shared()) return states_;
  joined_states_ = reduction_states_;
  if (reads_factored)
    for (const auto& factored : factored_->of_all_ranks()) joined_states_.push_back(factored.get());
  if (source == SumSource::kBuckets)
    for (const auto& sum : reducer_->sums()) joined_states_.push_back(sum.get());
  for (const FoldedRows& rows : folded_) joined_states_.push_back(rows.buffer.get());
  return joined_states_;
}

// A Program that adds up the rows of all ranks grows with their number, and each rank would compile its own. A device
// that rounds would round each partial sum. A hook of `comm` rounds each row, so it needs the Program.
SumSource DeviceArrays::sum_source() const {
  constexpr int kMaxRows = 64;
  if (!ranks_->has_symmetric_memory())
    return OverlappedReducer::fits(builder_, device_) ? SumSource::kReducedInPlace : SumSource::kAllReduce;
  const schema::Recipe& recipe = builder_.recipe();
  const bool folds = ranks_->size() > kMaxRows || rounds_to_bf16(recipe);
  return folds && recipe.comm.hook == schema::CommHook::kNone ? SumSource::kFoldedRows : SumSource::kRows;
}

void DeviceArrays::fold_rows() {
  std::vector<const std::byte*> sources(static_cast<size_t>(ranks_->size()));
  for (const FoldedRows& rows : folded_) {
    for (int rank = 0; rank < ranks_->size(); ++rank)
      sources[static_cast<size_t>(rank)] = rows_[rows.array].of(rank, rows.first).get();
    backends::fold(backends::DType::kF32, backends::Reduction::kSum, sources, rows.sum->bytes(), rows.sum->data());
  }
}

std::span<const std::shared_ptr<backends::Buffer>> DeviceArrays::factored_of_all(const FactoredLayout* factored) const {
  if (factored == nullptr) return {};
  return factored_->of_all_ranks();
}

const FactoredLayout* DeviceArrays::begin_batch(int64_t largest, bool may_factor) {
  const FactoredLayout* const factored = may_factor && factored_ ? factored_->begin_batch(largest) : nullptr;
  if (factored == nullptr) take_gradients();
  return factored;
}

void DeviceArrays::take_gradients() {
  if (!are_shared() || std::exchange(has_taken_gradients_, true)) return;
  for (size_t i = 0; i < rows_.size(); ++i)
    if (layout_.arrays()[i].role == ArrayRole::kGradients)
      take_rows(rows_[i], layout_.arrays()[i].name, *sharing_ranks_);
}

void DeviceArrays::declare_rounded_weights(backends::Program& step) const {
  if (rounds_weights()) RoundedWeights::declare(layout_, step);
}

void DeviceArrays::clear_step(const FactoredLayout* factored) {
  const backends::ModelPause pause = pause_model();
  if (factored != nullptr) factored_->write_zeros(*factored);
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const DeviceArray& array = layout_.arrays()[i];
    if (!array.is_read_by_all() || (factored != nullptr && array.role == ArrayRole::kGradients)) continue;
    const std::vector<std::byte> zeros(array.type.bytes());
    device_.write(*arrays_[i], 0, zeros);
  }
}

void DeviceArrays::round_shard() {
  if (rounded_) rounded_->round_shard();
}

// ---- memory --------------------------------------------------------------------------------------------------------

MemoryUse DeviceArrays::memory() const {
  MemoryUse use;
  for (const DeviceArray& array : layout_.arrays()) {
    const auto bytes = static_cast<int64_t>(array.type.bytes());
    int64_t& kind = array.role == ArrayRole::kParameters  ? use.parameters
                    : array.role == ArrayRole::kSlot      ? use.optimizer
                    : array.role == ArrayRole::kGradients ? use.gradients
                                                          : use.other;
    kind += bytes;
    const bool in_common = are_shared() && !device_.has_own_memory();
    if (buckets_ && array.role == ArrayRole::kGradients) use.gradients += bytes;
    if (in_common && array.is_common()) use.common += bytes;
    if (rounds_weights() && array.role == ArrayRole::kParameters) {
      use.other += bytes / 2;
      use.common += bytes / 2;
    }
    use.largest_array = std::max(use.largest_array, bytes);
  }
  return use;
}

std::vector<backends::ArrayBytes> DeviceArrays::sizes() const {
  std::vector<backends::ArrayBytes> sizes;
  for (const DeviceArray& array : layout_.arrays())
    sizes.push_back({array.name, static_cast<int64_t>(array.type.bytes())});
  for (const DeviceArray& array : layout_.arrays())
    if (buckets_ && array.role == ArrayRole::kGradients)
      sizes.push_back({GradientBuckets::kName, static_cast<int64_t>(array.type.bytes())});
  return sizes;
}

std::optional<int64_t> DeviceArrays::memory_left() const {
  const auto limit = device_.process_memory_limit();
  if (!limit) return std::nullopt;
  const int64_t arrays = memory().total();
  RUN_CHECK(
      arrays <= *limit, ErrorKind::kRun,
      "out of memory: parameters, gradients and optimizer state need {}, limit {} per process; use a smaller model",
      schema::readable_size(arrays), schema::readable_size(*limit));
  return *limit - arrays;
}

void DeviceArrays::check_machine_memory(int64_t temporary) const {
  backends::ProcessGroup* const host = ranks_ != nullptr ? ranks_->host_ranks() : nullptr;
  if (host != nullptr && host->rank() > 0) return;
  const int64_t processes = host != nullptr ? host->size() : 1;
  MemoryUse use = memory();
  const int64_t taken = arrays_.empty() ? 0 : use.total_of(processes);
  use.activations += temporary;
  backends::check_available(static_cast<size_t>(use.total_of(processes)), static_cast<size_t>(taken));
}

}  // namespace runner::train
