#include "runner/train/run/gpu_use.h"

#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

namespace runner::train {
namespace {

using backends::gpu::LaunchClass;
using backends::gpu::Picoseconds;
using backends::gpu::PoolStatistics;
using backends::gpu::PredictedTime;
using backends::gpu::Statistic;

static_assert(std::is_trivially_copyable_v<GpuDeviceUse>);

constexpr std::pair<const char*, Statistic PoolStatistics::*> kFigures[] = {
    {"allocated", &PoolStatistics::allocated_bytes},
    {"requested", &PoolStatistics::requested_bytes},
    {"reserved", &PoolStatistics::reserved_bytes},
    {"fragmented", &PoolStatistics::split_bytes}};

json::Object memory_json(int64_t device, const GpuDeviceUse& use) {
  json::Object figures{{"device", device}, {"limit", use.memory_limit}};
  for (const auto& [name, figure] : kFigures) {
    const Statistic& statistic = use.memory.all.*figure;
    figures.emplace_back(name, json::Object{{"current", statistic.current}, {"peak", statistic.peak}});
  }
  figures.emplace_back("segments", use.memory.all.segments.current);
  figures.emplace_back("retries", use.memory.retries);
  figures.emplace_back("refused", use.memory.ooms);
  return figures;
}

double seconds(Picoseconds time) {
  return backends::gpu::to_seconds(time);
}

// Busy time by class of launches, without classes that had none.
json::Object classes_json(const PredictedTime& time) {
  json::Object classes;
  for (int i = 0; i < backends::gpu::kLaunchClassCount; ++i) {
    const auto cls = static_cast<LaunchClass>(i);
    if (time.of(cls) > 0) classes.emplace_back(name_of(cls), seconds(time.of(cls)));
  }
  return classes;
}

// Returns all / wholes, or null if `wholes` is 0.
json::Value part_of(double all, int64_t wholes) {
  return wholes == 0 ? json::Value() : json::Value(all / static_cast<double>(wholes));
}

// `steps`: number of steps that the time covers.
json::Object time_json(const PredictedTime& time, int64_t steps) {
  const auto share = [&](double of_it) { return time.elapsed == 0 ? json::Value() : json::Value(of_it); };
  return {{"seconds", seconds(time.elapsed)},
          {"seconds_per_step", part_of(seconds(time.elapsed), steps)},
          {"launches_per_step", part_of(static_cast<double>(time.launches), steps)},
          {"host_launches_per_step", part_of(static_cast<double>(time.host_launches), steps)},
          {"class_seconds", classes_json(time)},
          {"exposed_communication_seconds", seconds(time.exposed_communication())},
          {"exposed_copies_seconds", seconds(time.exposed_copies())},
          {"host_bound_share", share(time.host_bound_share())},
          {"peak_share", share(time.peak_share())}};
}

json::Object predicted_json(const GpuDeviceUse& use) {
  json::Object predicted{{"steps", use.steps}};
  for (auto& [name, value] : time_json(use.training, use.steps)) predicted.emplace_back(name, value);
  predicted.emplace_back("evaluation_seconds", seconds(use.evaluation.elapsed));
  predicted.emplace_back("saving_seconds", seconds(use.saving.elapsed));
  return predicted;
}

json::Value capture_json(const std::optional<backends::gpu::CaptureCounters>& captures) {
  if (!captures) return {};
  return json::Object{{"graphs", captures->graphs}, {"replays", captures->replays}, {"fallbacks", captures->fallbacks}};
}

}  // namespace

GpuUse gpu_use(const backends::gpu::GpuDeviceModel& device, const GpuDeviceUse& counted) {
  GpuDeviceUse use = counted;
  use.memory_limit = *device.memory_limit();
  use.memory = device.memory_statistics();
  use.captures = device.captures();
  return {.model = std::string(device.hardware().name), .devices = {use}};
}

GpuUse gpu_use_of_step(const backends::ModelledDevice& device, const PredictedTime& time) {
  GpuDeviceUse step;
  step.steps = 1;
  step.training = time;
  return gpu_use(backends::gpu::model_of_gpu(device), step);
}

GpuUse gpu_use_of_all(const backends::gpu::GpuDeviceModel& device, const GpuDeviceUse& counted,
                      backends::ProcessGroup& ranks, const backends::Site& site) {
  GpuUse use = gpu_use(device, counted);
  const std::string_view mine(reinterpret_cast<const char*>(use.devices.data()), sizeof(GpuDeviceUse));
  const std::vector<std::string> all = ranks.gather_objects(mine, site);
  use.devices.resize(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank)
    std::memcpy(&use.devices[rank], all[rank].data(), sizeof(GpuDeviceUse));
  return use;
}

json::Value gpu_json(const GpuUse& use) {
  json::List memory;
  for (const GpuDeviceUse& device : use.devices) memory.push_back(memory_json(std::ssize(memory), device));
  const GpuDeviceUse& first = use.devices.front();
  return json::Object{{"model", use.model},
                      {"memory", std::move(memory)},
                      {"predicted", predicted_json(first)},
                      {"capture", capture_json(first.captures)}};
}

std::string gpu_document(const GpuUse& use) {
  return json::line(json::Object{{"gpu", gpu_json(use)}});
}

int64_t gpus_in(const json::Value& gpu) {
  return std::ssize(json::elements_of(json::member(gpu, "memory")));
}

json::Value gpu_of_document(const std::string& document) {
  return json::member(json::parse(document), "gpu");
}

}  // namespace runner::train
