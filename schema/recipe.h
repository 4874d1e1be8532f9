// A recipe after reading: plain values, every default filled in, every name checked against schema/fields.yaml.
//
// The structs mirror the sections of the recipe; the field table holds types, defaults, units, ranges and texts. Fields
// without a default are std::optional.  Paths are as resolved against the recipe's folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schema/value.h"

namespace runner::schema {

enum class Backend { kCpu, kGpu, kTpu };
enum class Precision { kNo, kFp16, kBf16 };

enum class Unit { kSteps, kEpochs, kSamples };

// "100 steps", "1 epoch", "5000 samples"; a step is an optimizer window.
struct Length {
  int64_t count = 0;
  Unit unit = Unit::kSteps;
  bool operator==(const Length&) const = default;
};

enum class ModelType { kMlp, kLinear, kCnn, kGpt, kEncoder, kHook };
enum class Activation { kRelu, kGelu, kGeluTanh, kSilu, kTanh, kSigmoid, kIdentity };

struct ModelSpec {
  ModelType type = ModelType::kHook;
  std::vector<int64_t> hidden;
  Activation activation = Activation::kRelu;
  double dropout = 0;       // after each activation
  bool layer_norm = false;  // before each activation
  bool bias = true;
  std::string init_from;            // safetensors file, empty: PyTorch's default initialisers
  std::vector<std::string> freeze;  // glob patterns of parameter names
};

enum class DataFormat { kCsv, kIdx, kText, kNpy, kSafetensors, kSynthetic };
enum class Tokens { kCharacters, kBytes };
enum class Missing { kError, kDrop, kMean };
enum class Normalize { kNone, kStandard, kMinMax };  // standard: (x − mean) / std per feature, of the training part

// A csv column: by name, or by index from 0 (negative from the end).
struct Column {
  std::string name;  // empty: by index
  int64_t index = 0;
};

struct DatasetSpec {
  DataFormat format = DataFormat::kCsv;
  std::string path;           // csv, safetensors, text
  std::string features_file;  // idx, npy
  std::string labels_file;    // idx, npy
  // csv
  std::optional<Column> label;   // default: the last column
  std::vector<Column> features;  // empty: all columns but the label
  bool header = true;
  char delimiter = ',';
  Missing missing = Missing::kError;
  // synthetic
  int64_t samples = 0;
  std::vector<int64_t> feature_shape;
  std::optional<int64_t> classes;
  std::optional<int64_t> targets;
  // text
  int64_t sequence_length = 0;
  std::optional<int64_t> stride;  // default: sequence_length
  Tokens tokens = Tokens::kCharacters;
  // every array format
  std::optional<double> scale;  // features are multiplied by it first (1/255 for byte images)
};

struct DataSpec {
  DatasetSpec train;
  std::optional<DatasetSpec> eval;
  std::optional<double> split_eval;  // split: {eval: 0.2}: fraction of train held out
  std::optional<int64_t> seed;       // order and split; default: the recipe's seed
  int64_t batch_size = 0;
  bool shuffle = true;
  bool drop_last = false;
  bool even_batches = true;
  bool dispatch_batches = false;
  bool strict = false;  // refuse a batch that the processes do not divide; split_batches
  bool stream = false;
  int64_t shuffle_buffer = 10000;  // samples; stream
  Normalize normalize = Normalize::kNone;
  int64_t prefetch = 4;  // batches prepared ahead
};

enum class OptimizerType { kSgd, kAdam, kAdamW, kRmsprop, kAdagrad, kLion, kHook };

// Key names and defaults of torch.optim; keys of other types keep their default and may not be written.
struct OptimizerHyper {
  double lr = 0;
  double weight_decay = 0;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  bool amsgrad = false;
  double alpha = 0.99;                   // rmsprop
  bool centered = false;                 // rmsprop
  double lr_decay = 0;                   // adagrad
  double initial_accumulator_value = 0;  // adagrad
};

struct ParameterGroup {
  std::vector<std::string> params;  // glob patterns; a parameter belongs to the first group that matches
  OptimizerHyper hyper;             // the optimizer's own values, overridden by what the group writes
};

struct OptimizerSpec {
  OptimizerType type = OptimizerType::kSgd;
  OptimizerHyper hyper;
  std::vector<ParameterGroup> groups;  // what no pattern matches uses `hyper`
  std::optional<double> hook_lr = {};  // type hook: of optimizers for which the hook gives none
};

enum class SchedulerType {
  kConstant,
  kLinear,
  kCosine,
  kCosineRestarts,
  kPolynomial,
  kOneCycle,
  kStep,
  kExponential,
  kPlateau,
  kHook,
};

struct SchedulerSpec {
  SchedulerType type = SchedulerType::kConstant;
  std::optional<Length> warmup;
  std::optional<Length> length;  // default: the whole run
  double cycles = 0.5;           // cosine: half waves as in transformers; cosine_restarts: default 1
  double power = 1.0;            // polynomial
  double end = 1e-7;             // polynomial: the final rate
  // one_cycle, torch.optim.lr_scheduler.OneCycleLR
  std::optional<double> max_lr;
  double pct_start = 0.3;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  bool three_phase = false;
  bool cosine_anneal = true;
  bool cycle_momentum = true;  // sgd, rmsprop: momentum; adam, adamw, lion: beta1
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  // step, exponential: torch.optim.lr_scheduler.StepLR / ExponentialLR
  std::optional<Length> every;  // the length of one decay interval
  double gamma = 0.1;
  // plateau, torch.optim.lr_scheduler.ReduceLROnPlateau; looked at after each evaluation
  std::string metric = "eval/loss";
  bool maximize = false;
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  bool threshold_relative = true;
  int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;
  bool compat_accelerate = false;
};

enum class Loss { kAuto, kCrossEntropy, kMse, kL1, kHuber, kBceWithLogits };
enum class OnNan { kStop, kSkip };

struct EarlyStopping {
  std::string metric = "eval/loss";
  bool maximize = false;
  int64_t patience = 3;  // evaluations without improvement
  double min_delta = 0;
};

struct TrainSpec {
  std::optional<int64_t> epochs;  // exactly one of epochs and steps
  std::optional<int64_t> steps;   // optimizer windows
  Loss loss = Loss::kAuto;
  std::vector<double> class_weights;    // cross_entropy
  double label_smoothing = 0;           // cross_entropy
  std::optional<int64_t> ignore_index;  // cross_entropy
  double huber_delta = 1.0;
  std::optional<double> clip_grad_norm;
  std::optional<double> clip_grad_value;
  OnNan on_nan = OnNan::kStop;
  std::optional<EarlyStopping> early_stopping;
  bool auto_batch_size = false;
  std::optional<Length> average_every;  // local_sgd: what replicas do between averages is their own
};

// loss, accuracy, top_k, f1 (macro, micro, binary), mse, mae, perplexity.
struct Metric {
  std::string name;  // as recorded: "accuracy", "top_3", "f1_macro", …
  int64_t k = 0;     // top_k
};

struct EvalSpec {
  std::optional<Length> every;        // default: 1 epoch where there is eval data
  std::vector<Metric> metrics;        // default: loss, and accuracy for classes
  std::optional<int64_t> batch_size;  // default: data.batch_size
};

struct KeepBest {
  std::string metric;
  bool maximize = false;
  int64_t count = 1;
};

struct CheckpointSpec {
  std::optional<Length> every;  // none: one state at the end
  std::optional<int64_t> keep_last;
  std::optional<KeepBest> keep_best;
  std::optional<int64_t> keep_every;
};

struct LogSpec {
  Length every{10, Unit::kSteps};
  std::string tensorboard;  // a folder; files besides the store, "" where not wanted
  std::string jsonl, csv;
};

// As torch.profiler.schedule; in steps.
struct ProfileSpec {
  int64_t wait = 0, warmup = 0, active = 0;
  int64_t repeat = 0;  // cycles; 0: until the end
  int64_t skip_first = 0;
  std::string out;  // a file besides the store; empty: none
};

// As torch.amp.GradScaler.
struct ScalerSpec {
  bool enabled = true;
  double init_scale = 65536, growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // optimizer steps
};

enum class CommHook { kNone, kFp16, kBf16, kPowerSgd, kBatchedPowerSgd };

enum class Unused { kZero, kSkip, kError };

enum class CommWrapper { kNone, kFp16, kBf16 };

struct CommSpec {
  CommHook hook = CommHook::kNone;
  // Of PowerSGD, as torch.distributed's PowerSGDState.
  int64_t rank = 1;
  CommWrapper wrapper = CommWrapper::kNone;
  int64_t start = 1000;  // reductions
  double min_compression_rate = 2;
  bool error_feedback = true, warm_start = true;
  Unused unused = Unused::kZero;
  std::optional<Length> check_every;  // weights; none: never
};

enum class GpuModel { kA100With40g, kA100With80g, kH100, kH200, kL4, kT4, kV100, kRtx3090, kRtx4090 };
enum class TpuGeneration { kV2, kV3, kV4, kV5e, kV5p, kV6e };
enum class MatmulPrecision { kDefault, kHigh, kHighest };
enum class Rounding { kPerOp, kFused };
enum class StartMethod { kFork, kSpawn };

// The emulated GPUs.
struct GpuSpec {
  GpuModel model = GpuModel::kA100With40g;
  std::optional<int64_t> memory;                   // bytes of each device; none: the model's
  bool launch_blocking = false;                    // the host waits for each kernel
  bool capture = false;                            // what has run twice is launched as one
  bool allow_tf32 = false;                         // products of float32 read operands in tf32
  int64_t bucket_cap = int64_t{25} * 1024 * 1024;  // bytes of gradients that are reduced together
};

// Whose rules an emulated TPU follows.
enum class TpuDialect { kXla2, kXla17, kClean };

// The emulated TPU.
struct TpuSpec {
  TpuGeneration generation = TpuGeneration::kV3;
  TpuDialect dialect = TpuDialect::kXla2;
  int64_t loader_prefetch_size = 16;  // batches that wait on the host
  int64_t device_prefetch_size = 8;   // batches that wait on the device
  int64_t host_to_device_transfer_threads = 1;
  MatmulPrecision matmul_precision = MatmulPrecision::kDefault;
  Rounding rounding = Rounding::kPerOp;
  bool auto_mark_step = true;  // before each batch, or each batches_per_execution of them
  int64_t batches_per_execution = 1;
  bool sync_wait = false;   // at each cut
  bool eager = false;       // operations run one by one
  bool trace_once = false;  // a hook's steps, for each shape
  StartMethod start_method = StartMethod::kFork;
  std::optional<int64_t> max_graphs;  // none: any number
  bool persistent_cache = false;
};

struct Recipe {
  int64_t schema_version = 1;
  std::string name;  // default: the recipe file's stem
  int64_t seed = 0;
  Backend backend = Backend::kCpu;
  int64_t num_processes = 1;
  bool device_specific_seed = false;
  double collective_timeout = 600;  // seconds
  int64_t max_restarts = 0;
  int64_t threads = 0;  // of the worker pool; 0: all cores
  bool enable_cpu_affinity = false;
  Precision mixed_precision = Precision::kNo;
  bool downcast_bf16 = false;
  bool split_batches = false;
  int64_t gradient_accumulation_steps = 1;
  bool sync_each_batch = false;
  bool sync_with_dataloader = true;
  std::string hooks;
  ValueMap vars;  // as substituted
  ModelSpec model;
  DataSpec data;
  OptimizerSpec optimizer;
  SchedulerSpec scheduler;
  TrainSpec train;
  EvalSpec eval;
  CheckpointSpec checkpoint;
  LogSpec log;
  ScalerSpec scaler;
  CommSpec comm;
  std::optional<ProfileSpec> profile;
  GpuSpec gpu;
  TpuSpec tpu;
  std::optional<int64_t> cpu_memory;  // cpu: {memory}; bytes for tensors of each process
};

}  // namespace runner::schema
