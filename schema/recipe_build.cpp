#include "schema/recipe_build.h"

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "schema/compose.h"

namespace runner::schema {
namespace {

// Enumerators stand in the order of their field's choices.
template <class Enum>
requires std::is_enum_v<Enum>
void convert(const Setting& setting, Enum& out) {
  const std::span<const Choice> choices = setting.field->choices;
  const auto at =
      std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.name == *setting.value.text(); });
  out = static_cast<Enum>(at - choices.begin());
}

void convert(const Setting& setting, bool& out) {
  out = *setting.value.boolean();
}
void convert(const Setting& setting, int64_t& out) {
  out = *setting.value.integer();
}
void convert(const Setting& setting, double& out) {
  const int64_t* integer = setting.value.integer();
  out = integer != nullptr ? static_cast<double>(*integer) : *setting.value.number();
}
void convert(const Setting& setting, std::string& out) {
  out = *setting.value.text();
}
void convert(const Setting& setting, char& out) {
  out = setting.value.text()->front();
}
void convert(const Setting& setting, Length& out) {
  out = parse_length(*setting.value.text());
}

Column column_of(const Value& value) {
  return value.text() != nullptr ? Column{*value.text(), 0} : Column{"", *value.integer()};
}
void convert(const Setting& setting, Column& out) {
  out = column_of(setting.value);
}

template <class Element>
void convert(const Setting& setting, std::vector<Element>& out) {
  out.clear();
  for (const Value& value : *setting.value.list()) {
    if constexpr (std::is_same_v<Element, Column>) {
      out.push_back(column_of(value));
    } else if constexpr (std::is_same_v<Element, Metric>) {
      const std::string& name = *value.text();
      Metric metric{name, 0};
      if (name.starts_with("top_")) std::from_chars(name.data() + 4, name.data() + name.size(), metric.k);
      out.push_back(metric);
    } else {
      out.push_back(std::get<Element>(value));
    }
  }
}

template <class Plain>
void convert(const Setting& setting, std::optional<Plain>& out) {
  convert(setting, out.emplace());
}

// Reads the fields of one section.
class Section {
 public:
  Section(const Settings& settings, std::string path, const std::string& folder)
      : settings_(settings), path_(std::move(path)), folder_(folder) {}

  bool exists() const { return settings_.section(path_) != nullptr; }
  Section sub(std::string_view name) const { return {settings_, full(name), folder_}; }

  // Leaves `out` alone where the field has no value.
  template <class T>
  const Section& get(std::string_view name, T& out) const {
    if (const Setting* setting = settings_.find(full(name))) convert(*setting, out);
    return *this;
  }

  const Section& get_path(std::string_view name, std::string& out) const {
    if (const auto text = settings_.text(full(name))) out = join_path(folder_, std::string(*text));
    return *this;
  }

  // True if the choice has this name.
  bool is(std::string_view name, std::string_view choice) const { return settings_.text(full(name)) == choice; }

 private:
  std::string full(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }

  const Settings& settings_;
  std::string path_;
  const std::string& folder_;
};

void build(const Section& s, ModelSpec& model) {
  s.get("type", model.type).get("hidden", model.hidden).get("activation", model.activation);
  s.get("dropout", model.dropout).get("layer_norm", model.layer_norm).get("bias", model.bias);
  s.get_path("init_from", model.init_from).get("freeze", model.freeze);
}

void build(const Section& s, DatasetSpec& dataset) {
  s.get("format", dataset.format).get_path("path", dataset.path).get("scale", dataset.scale);
  s.get("label", dataset.label).get("header", dataset.header);
  s.get("delimiter", dataset.delimiter).get("missing", dataset.missing);
  s.get("samples", dataset.samples).get("classes", dataset.classes).get("targets", dataset.targets);
  s.get("sequence_length", dataset.sequence_length).get("stride", dataset.stride).get("tokens", dataset.tokens);
  s.get_path("labels", dataset.labels_file);
  switch (dataset.format) {
    case DataFormat::kCsv: s.get("features", dataset.features); break;
    case DataFormat::kSynthetic: s.get("features", dataset.feature_shape); break;
    default: s.get_path("features", dataset.features_file); break;
  }
}

void build(const Section& s, DataSpec& data) {
  build(s.sub("train"), data.train);
  if (s.sub("eval").exists()) build(s.sub("eval"), data.eval.emplace());
  s.sub("split").get("eval", data.split_eval);
  s.get("seed", data.seed).get("batch_size", data.batch_size).get("shuffle", data.shuffle);
  s.get("drop_last", data.drop_last).get("even_batches", data.even_batches);
  s.get("strict", data.strict).get("stream", data.stream).get("shuffle_buffer", data.shuffle_buffer);
  s.get("dispatch_batches", data.dispatch_batches).get("normalize", data.normalize).get("prefetch", data.prefetch);
}

void build(const Section& s, OptimizerHyper& hyper) {
  s.get("lr", hyper.lr).get("weight_decay", hyper.weight_decay);
  s.get("momentum", hyper.momentum).get("dampening", hyper.dampening).get("nesterov", hyper.nesterov);
  s.get("eps", hyper.eps).get("amsgrad", hyper.amsgrad).get("alpha", hyper.alpha).get("centered", hyper.centered);
  s.get("lr_decay", hyper.lr_decay).get("initial_accumulator_value", hyper.initial_accumulator_value);
  std::vector<double> betas;
  s.get("betas", betas);
  if (betas.size() == 2) hyper.beta1 = betas[0], hyper.beta2 = betas[1];
}

void build(const Section& s, OptimizerSpec& optimizer) {
  s.get("type", optimizer.type);
  build(s, optimizer.hyper);
  if (optimizer.type == OptimizerType::kHook) s.get("lr", optimizer.hook_lr);
  for (int i = 0;; ++i) {
    const Section group = s.sub(fmt::format("groups[{}]", i));
    if (!group.exists()) return;
    ParameterGroup& spec = optimizer.groups.emplace_back();
    spec.hyper = optimizer.hyper;
    group.get("params", spec.params);
    build(group, spec.hyper);
  }
}

void build(const Section& s, SchedulerSpec& scheduler) {
  s.get("type", scheduler.type).get("warmup", scheduler.warmup).get("length", scheduler.length);
  s.get("cycles", scheduler.cycles).get("power", scheduler.power).get("end", scheduler.end);
  s.get("max_lr", scheduler.max_lr).get("pct_start", scheduler.pct_start).get("div_factor", scheduler.div_factor);
  s.get("final_div_factor", scheduler.final_div_factor).get("three_phase", scheduler.three_phase);
  s.get("cycle_momentum", scheduler.cycle_momentum).get("base_momentum", scheduler.base_momentum);
  s.get("max_momentum", scheduler.max_momentum).get("every", scheduler.every).get("gamma", scheduler.gamma);
  s.get("metric", scheduler.metric).get("factor", scheduler.factor).get("patience", scheduler.patience);
  s.get("threshold", scheduler.threshold).get("cooldown", scheduler.cooldown);
  s.get("min_lr", scheduler.min_lr).get("eps", scheduler.eps);
  scheduler.cosine_anneal = !s.is("anneal_strategy", "linear");
  scheduler.maximize = s.is("mode", "max");
  scheduler.threshold_relative = !s.is("threshold_mode", "abs");
  scheduler.compat_accelerate = s.is("compat", "accelerate");
}

void build(const Section& s, TrainSpec& train) {
  s.get("epochs", train.epochs).get("steps", train.steps).get("loss", train.loss);
  s.get("class_weights", train.class_weights).get("label_smoothing", train.label_smoothing);
  s.get("ignore_index", train.ignore_index).get("huber_delta", train.huber_delta);
  s.get("clip_grad_norm", train.clip_grad_norm).get("clip_grad_value", train.clip_grad_value);
  s.get("auto_batch_size", train.auto_batch_size);
  s.get("on_nan", train.on_nan).get("local_sgd.every", train.average_every);
  const Section stop = s.sub("early_stopping");
  if (!stop.exists()) return;
  EarlyStopping& early = train.early_stopping.emplace();
  stop.get("metric", early.metric).get("patience", early.patience).get("min_delta", early.min_delta);
  early.maximize = stop.is("mode", "max");
}

void build(const Section& s, CheckpointSpec& checkpoint) {
  s.get("every", checkpoint.every).get("keep_last", checkpoint.keep_last).get("keep_every", checkpoint.keep_every);
  const Section best = s.sub("keep_best");
  if (!best.exists()) return;
  KeepBest& keep = checkpoint.keep_best.emplace();
  best.get("metric", keep.metric).get("count", keep.count);
  keep.maximize = best.is("mode", "max");
}

void build(const Section& s, ScalerSpec& scaler) {
  s.get("enabled", scaler.enabled).get("init_scale", scaler.init_scale).get("growth_factor", scaler.growth_factor);
  s.get("backoff_factor", scaler.backoff_factor).get("growth_interval", scaler.growth_interval);
}

void build(const Section& s, CommSpec& comm) {
  s.get("hook", comm.hook).get("rank", comm.rank).get("wrapper", comm.wrapper).get("start", comm.start);
  s.get("min_compression_rate", comm.min_compression_rate).get("error_feedback", comm.error_feedback);
  s.get("warm_start", comm.warm_start).get("unused", comm.unused).get("check_every", comm.check_every);
}

void build(const Section& s, ProfileSpec& profile) {
  s.get("wait", profile.wait).get("warmup", profile.warmup).get("active", profile.active);
  s.get("repeat", profile.repeat).get("skip_first", profile.skip_first).get_path("out", profile.out);
}

}  // namespace

Length parse_length(std::string_view text) {
  Length length;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length.count);
  RUN_ASSERT(error == std::errc() && end + 1 < text.data() + text.size());
  const char unit = end[1];
  length.unit = unit == 'e' ? Unit::kEpochs : unit == 's' && end[2] == 'a' ? Unit::kSamples : Unit::kSteps;
  return length;
}

Recipe build_recipe(const Settings& settings, const std::string& folder) {
  Recipe r;
  const Section s(settings, "", folder);
  s.get("schema_version", r.schema_version).get("name", r.name).get("seed", r.seed).get("backend", r.backend);
  s.get("device_specific_seed", r.device_specific_seed);
  s.get("collective_timeout", r.collective_timeout).get("max_restarts", r.max_restarts);
  s.get("num_processes", r.num_processes).get("threads", r.threads).get("mixed_precision", r.mixed_precision);
  s.get("enable_cpu_affinity", r.enable_cpu_affinity);
  s.get("downcast_bf16", r.downcast_bf16).get("split_batches", r.split_batches);
  s.get("gradient_accumulation_steps", r.gradient_accumulation_steps);
  s.get("sync_each_batch", r.sync_each_batch).get("sync_with_dataloader", r.sync_with_dataloader);
  s.get_path("hooks", r.hooks);
  for (const Setting& setting : settings.values)
    if (setting.path.starts_with("vars.")) r.vars.emplace_back(setting.path.substr(5), setting.value);
  build(s.sub("model"), r.model);
  build(s.sub("data"), r.data);
  build(s.sub("optimizer"), r.optimizer);
  build(s.sub("scheduler"), r.scheduler);
  build(s.sub("train"), r.train);
  build(s.sub("checkpoint"), r.checkpoint);
  build(s.sub("scaler"), r.scaler);
  build(s.sub("comm"), r.comm);
  s.sub("cpu").get("memory", r.cpu_memory);
  s.sub("gpu").get("model", r.gpu.model).get("memory", r.gpu.memory);
  s.sub("gpu").get("capture", r.gpu.capture);
  s.sub("gpu").get("allow_tf32", r.gpu.allow_tf32);
  s.sub("gpu").get("launch_blocking", r.gpu.launch_blocking).get("bucket_cap", r.gpu.bucket_cap);
  s.sub("tpu")
      .get("generation", r.tpu.generation)
      .get("max_graphs", r.tpu.max_graphs)
      .get("persistent_cache", r.tpu.persistent_cache);
  s.sub("tpu").get("dialect", r.tpu.dialect);
  s.sub("tpu").get("loader_prefetch_size", r.tpu.loader_prefetch_size);
  s.sub("tpu").get("device_prefetch_size", r.tpu.device_prefetch_size);
  s.sub("tpu").get("host_to_device_transfer_threads", r.tpu.host_to_device_transfer_threads);
  s.sub("tpu").get("matmul_precision", r.tpu.matmul_precision).get("rounding", r.tpu.rounding);
  s.sub("tpu").get("start_method", r.tpu.start_method).get("auto_mark_step", r.tpu.auto_mark_step);
  s.sub("tpu").get("batches_per_execution", r.tpu.batches_per_execution);
  s.sub("tpu").get("sync_wait", r.tpu.sync_wait).get("trace_once", r.tpu.trace_once).get("eager", r.tpu.eager);
  if (s.sub("profile").exists()) build(s.sub("profile"), r.profile.emplace());
  s.sub("eval").get("every", r.eval.every).get("metrics", r.eval.metrics).get("batch_size", r.eval.batch_size);
  s.sub("log").get("every", r.log.every).get_path("tensorboard", r.log.tensorboard);
  s.sub("log").get_path("jsonl", r.log.jsonl).get_path("csv", r.log.csv);
  return r;
}

}  // namespace runner::schema
