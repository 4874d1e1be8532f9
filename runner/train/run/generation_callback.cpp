#include "runner/train/run/generation_callback.h"

#include <fmt/format.h>

#include "backends/exec/cpu_device.h"
#include "schema/base/error.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::train {
namespace {

constexpr std::string_view kSampleKind = "sample";

// The beginning of a text, on one line.
std::string excerpt(std::string_view text) {
  constexpr int kLongest = 100;
  std::string line;
  int characters = 0;
  for_each_character(text, [&](const Character& /*character*/, std::string_view bytes) {
    if (++characters <= kLongest) line += bytes == "\n" ? "\\n" : bytes;
  });
  return characters > kLongest ? line + "…" : line;
}

}  // namespace

GenerationCallback::GenerationCallback(const schema::Generate& spec, TrainState& state, RunRecord& record,
                                       Observer& observer)
    : spec_(spec),
      state_(state),
      record_(record),
      observer_(observer),
      every_(spec.every, state.session.length),
      codec_(checked_codec(spec, state.session.trainer.builder())) {}

void GenerationCallback::copy_weights() {
  const DeviceArrays& arrays = state_.session.trainer.arrays();
  const backends::ModelPause pause = arrays.pause_model();
  const auto flat = static_cast<int32_t>(state_.session.trainer.model().parameters.buffers().size());
  for (int32_t i = 0; i < std::ssize(weights_); ++i) {
    const int32_t array = i < flat ? arrays.layout().evaluated_weights(i) : arrays.layout().evaluated_buffer(i - flat);
    device_->write(*weights_[static_cast<size_t>(i)], 0, arrays.read(array));
  }
}

void GenerationCallback::on_step_done() {
  if (!std::exchange(due_, false)) return;
  const Session& session = state_.session;
  if (!model_) {
    device_ = backends::make_cpu_device(static_cast<int>(session.recipe.threads));
    std::vector<backends::Buffer*> weights;
    const auto allocate = [&](size_t bytes) {
      weights.push_back(weights_.emplace_back(device_->allocate(bytes)).get());
    };
    const nn::ParameterSet& parameters = session.trainer.model().parameters;
    for (const nn::FlatBuffer& buffer : parameters.buffers())
      allocate(static_cast<size_t>(buffer.elements) * sizeof(float));
    for (const nn::ModelBuffer& buffer : parameters.model_buffers()) allocate(buffer.type.bytes());
    model_.emplace(session.trainer.builder(), *device_, std::move(weights));
  }
  copy_weights();
  model_->forget();
  try {
    keep(generate(*model_, codec_, spec_.prompt, generation_of(spec_, session.recipe)));
  } catch (const Error& error) {
    record_.warn(fmt::format("no text could be generated at step {}: {}", state_.step(), error.message()));
  }
}

void GenerationCallback::keep(const Generated& made) {
  const std::string text = spec_.prompt + made.text;
  const auto bytes = std::as_bytes(std::span(text));
  record_.save_artifact(fmt::format("samples/step-{}.txt", state_.step()), kSampleKind, {bytes.begin(), bytes.end()});
  observer_.on_notice(
      fmt::format("step {}/{}  sample: {}", state_.step(), state_.session.length.total_steps, excerpt(text)));
}

}  // namespace runner::train
