#include "schema/recipe/resume_check.h"

#include <gtest/gtest.h>

#include "schema/recipe/recipe_identity.h"

namespace runner::schema {
namespace {

constexpr const char* kStored = R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: d.csv}, batch_size: 4, split: {eval: 0.1}}
optimizer: {type: sgd}
train: {epochs: 3}
)";

std::string refused(const std::vector<std::string>& overrides) {
  const std::string stored = resolved_json(read_recipe_text(kStored, "r.yaml"));
  return render_text(check_resume_overrides(read_resolved(stored), read_resolved(stored, overrides)));
}

TEST(ResumeCheck, AllowsChangesThatKeepResults) {
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({"log.every=1 step", "checkpoint.every=1 epoch", "checkpoint.keep_last=2",
                     "checkpoint.keep_best={metric: eval/loss}", "train.epochs=4", "num_processes=1", "backend=cpu",
                     "tpu.host_to_device_transfer_threads=4"}),
            "");
  // The path of the data may change; a fingerprint detects changed contents.
  EXPECT_EQ(refused({"data.train.path=moved/d.csv", "model.init_from=w.safetensors"}), "");
  EXPECT_EQ(refused({"optimizer.lr=1e-3", "data.shuffle=true", "gpu.capture=false"}), "");
}

// Keys that exist for one backend only disappear with it and may be set with it.
TEST(ResumeCheck, AllowsAnotherBackend) {
  const auto refused_of = [](const char* keys, const std::vector<std::string>& overrides) {
    const std::string stored = resolved_json(read_recipe_text(std::string(kStored) + keys, "r.yaml"));
    try {
      return render_text(check_resume_overrides(read_resolved(stored), read_resolved(stored, overrides)));
    } catch (const RecipeError& error) {
      return render_text(error.diagnostics());
    }
  };
  const char* const kBf16 = "backend: tpu\nmixed_precision: bf16\n";
  EXPECT_EQ(refused_of(kBf16, {"backend=cpu"}), "");
  EXPECT_EQ(refused_of("mixed_precision: bf16\n", {"backend=tpu"}), "");
  const std::string downcast = std::string(kBf16) + "downcast_bf16: true\n";
  EXPECT_EQ(refused_of(downcast.c_str(), {"backend=cpu", "downcast_bf16=null"}), "");
  const std::string text = refused_of(downcast.c_str(), {"backend=cpu"});
  EXPECT_NE(text.find("hint: write downcast_bf16: null to unset it; it needs backend: tpu\n"), std::string::npos)
      << text;
}

// The hint names commands that work: states fit only the model that they were saved from, and a finished run has no
// steps left.
TEST(ResumeCheck, OffersCommandsThatWork) {
  const std::string stored = resolved_json(read_recipe_text(kStored, "r.yaml"));
  const auto hint = [&](const std::vector<std::string>& overrides, bool is_finished) {
    const std::vector<Diagnostic> found =
        check_resume_overrides(read_resolved(stored), read_resolved(stored, overrides), is_finished);
    return found.empty() ? std::string() : found[0].hint;
  };
  for (const bool is_finished : {false, true})
    for (const char* change : {"model.bias=false", "model={type: mlp, hidden: [8]}"})
      EXPECT_EQ(hint({change}, is_finished),
                "use `runner exec` to start a new run, because no state of this one fits another model")
          << change;
  EXPECT_EQ(hint({"name=other"}, true),
            "use `runner fork RUN name=other` with a larger train.epochs (or with --restart, to use only the weights) "
            "to continue from its state in a new run, or `runner exec` to start from the beginning");
  EXPECT_EQ(hint({"name=other", "train.epochs=9"}, true), hint({"name=other"}, false));
}

// Another device model may add or remove fields that have defaults.
TEST(ResumeCheck, AllowsAnotherGpuModel) {
  const auto refused_of = [](const char* gpu, const std::vector<std::string>& overrides) {
    const std::string stored = resolved_json(read_recipe_text(std::string(kStored) + gpu, "r.yaml"));
    return render_text(check_resume_overrides(read_resolved(stored), read_resolved(stored, overrides)));
  };
  EXPECT_EQ(refused_of("backend: gpu\n", {"gpu.model=t4"}), "");
  EXPECT_EQ(refused_of("backend: gpu\n", {"backend=cpu", "gpu.model=v100"}), "");
  EXPECT_EQ(refused_of("backend: gpu\ngpu: {model: t4}\n", {"gpu.model=a100-40g"}), "");
  EXPECT_NE(refused_of("backend: gpu\n", {"gpu.allow_tf32=true"}), "");
}

TEST(ResumeCheck, ErrorsShowValuesAsInARecipe) {
  EXPECT_EQ(refused({"gpu.bucket_cap=1MiB"}),
            "command line:1:16: error: gpu.bucket_cap cannot change when a run is resumed: not set -> 1 MiB "
            "[resume-change]\nhint: use `runner fork RUN 'gpu.bucket_cap=1 MiB'` to continue from its state in a new "
            "run, or `runner exec` to start from the beginning\n");
}

// A recorded recipe may have options that conflict on the new backend; new overrides may not.
TEST(ResumeCheck, AllowsRecordedOptionsIgnoredOnAnotherBackend) {
  const auto resumed = [](const char* keys, const std::vector<std::string>& overrides) {
    const std::vector<std::string> no_queue{"data.prefetch=0"};
    return read_resolved(resolved_json(read_recipe_text(std::string(kStored) + keys, "r.yaml", no_queue)), overrides);
  };
  const char* const kPasses = "mixed_precision: fp16\ntpu: {matmul_precision: highest}\n";
  EXPECT_EQ(resumed(kPasses, {"backend=tpu"}).recipe.backend, Backend::kTpu);
  EXPECT_EQ(resumed("tpu: {loader_prefetch_size: 3}\n", {"backend=tpu"}).recipe.backend, Backend::kTpu);
  EXPECT_THROW(resumed(kPasses, {"backend=tpu", "tpu.matmul_precision=high"}), RecipeError);
  EXPECT_THROW(resumed("tpu: {matmul_precision: highest}\n", {"backend=tpu", "mixed_precision=fp16"}), RecipeError);
  const char* const kProducts = "mixed_precision: fp16\ngpu: {allow_tf32: true}\n";
  EXPECT_EQ(resumed(kProducts, {"backend=gpu"}).recipe.backend, Backend::kGpu);
  EXPECT_THROW(resumed("gpu: {allow_tf32: true}\n", {"backend=gpu", "mixed_precision=fp16"}), RecipeError);
  const char* const kBuckets = "num_processes: 2\ncomm: {hook: fp16}\ngpu: {bucket_cap: 1 MiB}\n";
  EXPECT_EQ(resumed(kBuckets, {"backend=gpu"}).recipe.backend, Backend::kGpu);
  EXPECT_THROW(resumed(kBuckets, {"backend=gpu", "gpu.bucket_cap=2MiB"}), RecipeError);
}

TEST(ResumeCheck, RejectsChangesThatNeedAFork) {
  EXPECT_EQ(refused({"optimizer.lr=0.5", "seed=1"}),
            "command line:1:14: error: optimizer.lr cannot change when a run is resumed: 0.001 -> 0.5 "
            "[resume-change]\nhint: use `runner fork RUN optimizer.lr=0.5` to continue from its state in a new run, or "
            "`runner exec` to start from the beginning\ncommand line:2:6: error: seed cannot change when a run is "
            "resumed: 0 -> 1 [resume-change]\nhint: use `runner fork RUN seed=1` to continue from its state in a new "
            "run, or `runner exec` to start from the beginning\n");
  EXPECT_EQ(refused({"train.epochs=2"}),
            "command line:1:14: error: train.epochs can only grow when a run is resumed: 3 -> 2 [resume-change]\nhint: "
            "use `runner fork RUN train.epochs=2` to continue from its state in a new run, or `runner exec` to start "
            "from the beginning\n");
  EXPECT_EQ(refused({"train.clip_grad_norm=1"}),
            "command line:1:22: error: train.clip_grad_norm cannot change when a run is resumed: not set -> 1 "
            "[resume-change]\nhint: use `runner fork RUN train.clip_grad_norm=1` to continue from its state in a new "
            "run, or `runner exec` to start from the beginning\n");
  EXPECT_EQ(refused({"train.steps=10"}),  // which removes train.epochs
            "command line:1:13: error: train.steps can only grow when a run is resumed: not set -> 10 "
            "[resume-change]\nhint: use `runner fork RUN train.steps=10` to continue from its state in a new run, or "
            "`runner exec` to start from the beginning\n");
  EXPECT_NE(refused({"data.split=null", "eval.every=null"}).find("`runner fork RUN data.split.eval=null`"),
            std::string::npos);
  EXPECT_NE(refused({"data.train.label=x"}), "");
}

std::string refused_with(const char* keys, const std::vector<std::string>& overrides) {
  const std::string stored = resolved_json(read_recipe_text(std::string(kStored) + keys, "r.yaml"));
  return render_text(check_resume_overrides(read_resolved(stored), read_resolved(stored, overrides)));
}

TEST(ResumeCheck, AllowsOtherBatchesWithAsManySamplesPerStep) {
  EXPECT_EQ(refused({"data.batch_size=1", "gradient_accumulation_steps=4"}), "");
  EXPECT_EQ(refused({"data.batch_size=2", "num_processes=2"}), "");
  EXPECT_EQ(refused({"data.batch_size=1", "num_processes=2", "gradient_accumulation_steps=2"}), "");
  EXPECT_EQ(
      refused_with("split_batches: true\n", {"data.batch_size=2", "gradient_accumulation_steps=2", "num_processes=2"}),
      "");
  EXPECT_EQ(refused_with("gradient_accumulation_steps: 2\n", {"gradient_accumulation_steps=1", "num_processes=2"}), "");
  EXPECT_EQ(refused({"num_processes=2"}), "");  // changes the steps, with a warning
}

TEST(ResumeCheck, RejectsOtherSamplesPerStep) {
  EXPECT_EQ(
      refused({"data.batch_size=2"}),
      "command line:1:17: error: data.batch_size may only change when a run is resumed if an optimizer step keeps "
      "its number of samples (data.batch_size × num_processes × gradient_accumulation_steps): 4 -> 2 "
      "[resume-change]\nhint: set gradient_accumulation_steps=2 as well, or use `runner fork RUN "
      "data.batch_size=2` to continue from its state in a new run, or `runner exec` to start from the beginning\n");
  EXPECT_EQ(
      refused_with("split_batches: true\n", {"gradient_accumulation_steps=2", "num_processes=2"}),
      "command line:1:29: error: gradient_accumulation_steps may only change when a run is resumed if an optimizer "
      "step keeps its number of samples (data.batch_size × gradient_accumulation_steps): 4 -> 8 "
      "[resume-change]\nhint: set data.batch_size=2 as well, or use `runner fork RUN num_processes=2 "
      "gradient_accumulation_steps=2` to continue from its state in a new run, or `runner exec` to start from the "
      "beginning\n");
  EXPECT_NE(refused({"data.batch_size=3"}).find("\nhint: use `runner fork RUN data.batch_size=3`"), std::string::npos);
}

// The samples of a step are the same, but its result depends on the batches.
TEST(ResumeCheck, RejectsOtherBatchesOnWhichTheResultDepends) {
  const auto reason = [](const char* keys, const std::vector<std::string>& overrides) {
    const std::string text = refused_with(keys, overrides);
    const std::string from = "cannot change when this run is resumed: ", to = " [resume-change]";
    const size_t begin = text.find(from), end = text.find(to);
    return begin == std::string::npos ? text : text.substr(begin + from.size(), end - begin - from.size());
  };
  const std::vector<std::string> halves{"data.batch_size=2", "gradient_accumulation_steps=2"};
  const std::vector<std::string> two{"data.batch_size=2", "num_processes=2"};
  const char* const kCompressed = "num_processes: 2\ncomm: {hook: power_sgd}\n";
  EXPECT_EQ(reason(kCompressed, halves),
            "comm.hook compresses the gradients of each process, which would have other samples");
  const char* const kAccelerate = "scheduler: {type: linear, compat: accelerate}\n";
  EXPECT_EQ(reason(kAccelerate, two), "with scheduler.compat: accelerate, the schedule depends on num_processes");
  EXPECT_EQ(reason(kAccelerate, halves), "");
  const char* const kSomeBatches = "eval: {batches: 2}\n";
  EXPECT_EQ(reason(kSomeBatches, halves), "with eval.batches, evaluations would use another number of samples");
  EXPECT_EQ(reason(kSomeBatches, two), "");
  EXPECT_EQ(reason("eval: {batches: 2, batch_size: 4}\n", halves), "");
}

// The section train is in kStored, so the interval is set on the command line of the run.
TEST(ResumeCheck, RejectsOtherBatchesOfRanksThatTrainAlone) {
  const std::vector<std::string> local{"num_processes=2", "train.local_sgd={every: 2 steps}"};
  const std::string stored = resolved_json(read_recipe_text(kStored, "r.yaml", local));
  const std::vector<std::string> halves{"data.batch_size=2", "gradient_accumulation_steps=2"};
  const std::string text = render_text(check_resume_overrides(read_resolved(stored), read_resolved(stored, halves)));
  EXPECT_NE(text.find("with train.local_sgd, each process would train on other samples"), std::string::npos) << text;
}

TEST(SettingsForProcesses, KeepTheSamplesOfAStep) {
  const auto settings = [](const char* keys, int64_t processes) {
    return settings_for_processes(read_recipe_text(std::string(kStored) + keys, "r.yaml").recipe, processes);
  };
  using Settings = std::vector<std::string>;
  EXPECT_EQ(settings("num_processes: 4", 2), (Settings{"num_processes=2", "gradient_accumulation_steps=2"}));
  EXPECT_EQ(settings("num_processes: 4", 1), (Settings{"num_processes=1", "gradient_accumulation_steps=4"}));
  EXPECT_EQ(settings("num_processes: 6\ngradient_accumulation_steps: 2", 4),
            (Settings{"num_processes=4", "gradient_accumulation_steps=3"}));
  EXPECT_EQ(settings("num_processes: 3", 2), (Settings{"num_processes=2", "data.batch_size=6"}));
  EXPECT_EQ(settings("num_processes: 4", 3), std::nullopt);  // 16 samples
  EXPECT_EQ(settings("num_processes: 4\nsplit_batches: true", 3), (Settings{"num_processes=3"}));
}

}  // namespace
}  // namespace runner::schema
