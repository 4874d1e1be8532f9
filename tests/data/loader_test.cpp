#include "runner/data/loader.h"

#include <atomic>
#include <filesystem>
#include <iterator>
#include <map>
#include <thread>
#include <utility>

#include "runner/data/load.h"
#include "runner/data/order.h"
#include "runner/data/plan.h"
#include "tests/data/batches.h"
#include "tests/data/files.h"
#include "tests/support/allocations.h"
#include "tests/support/json.h"
#include "tests/support/page_faults.h"
#include "tests/support/threads.h"

namespace runner::data {
namespace {

using LoaderTest = CountingTest;

// Returns the batches that a loader has to yield, computed from the plan.
std::vector<Copy> planned(const DataPlan& plan, const LoaderSpec& spec, int64_t epochs) {
  std::vector<Copy> batches;
  Order order(plan.spec().samples, spec.seed, spec.shuffle);
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    order.set_epoch(epoch);
    for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      batches.push_back(planned_batch(plan, order, spec.rank, {epoch, step}));
    }
  }
  return batches;
}

// Counts the samples that it transforms.
class Counting : public Transform {
 public:
  void apply(const Sample&) override { ++samples; }
  int64_t samples = 0;
};

TEST_F(LoaderTest, AbandonsABatchWhenTheConsumerGivesUp) {
  const Dataset data = counting(50);
  const auto counted = std::make_shared<Counting>();
  Loader loader(data, DataPlan({.samples = 50, .batch_size = 20}), {.prefetch = 0, .transform = counted});
  EXPECT_TRUE(loader.wait([] { return false; }));
  EXPECT_TRUE(loader.wait([] { return true; })) << "the batch is ready";
  EXPECT_EQ(loader.next().size, 20);
  EXPECT_EQ(counted->samples, 20) << "each sample once";
  EXPECT_EQ(loader.next().size, 20) << "without waiting";
  EXPECT_FALSE(loader.wait([&] { return counted->samples == 43; }));
  EXPECT_EQ(counted->samples, 43);
}

TEST_F(LoaderTest, WaitReturnsWhenABatchIsReady) {
  const Dataset data = counting(50);
  Loader loader(data, DataPlan({.samples = 50, .batch_size = 20}), {.epochs = 1});
  for (const int64_t size : {20, 20, 10}) {
    EXPECT_TRUE(loader.wait([] { return false; }));
    EXPECT_EQ(loader.next().size, size);
  }
  EXPECT_TRUE(loader.wait([] { return false; })) << "the error is ready";
  EXPECT_THROW(loader.next(), Error);
}

// A transform that blocks batches from number `allowed` on.
class Lagging : public Transform {
 public:
  void apply(const Sample& sample) override {
    while (sample.batch >= allowed.load()) std::this_thread::yield();
  }
  std::atomic<int64_t> allowed{0};
};

TEST_F(LoaderTest, WaitCanGiveUp) {
  const Dataset data = counting(50);
  const DataPlan plan({.samples = 50, .batch_size = 10});
  const auto lagging = std::make_shared<Lagging>();
  Loader loader(data, plan, {.transform = lagging});
  EXPECT_FALSE(loader.wait([] { return true; }));
  lagging->allowed = 1000;
}

TEST_F(LoaderTest, CountsReadyBatchesAndWaitTime) {
  const Dataset data = counting(50);
  const DataPlan plan({.samples = 50, .batch_size = 10});
  InputUse alone, served;
  Loader sequential(data, plan, {.epochs = 1, .prefetch = 0, .use = &alone});
  for (int i = 0; i < 5; ++i) sequential.next();
  EXPECT_EQ(alone.batches, 5);
  EXPECT_EQ(alone.ready, 0);
  EXPECT_EQ(alone.ahead, 0);
  EXPECT_GT(alone.wait_ns, 0);

  const auto lagging = std::make_shared<Lagging>();
  Loader threaded(data, plan, {.epochs = 1, .prefetch = 2, .transform = lagging, .use = &served});
  bool asked = false;
  EXPECT_TRUE(threaded.wait([&] {
    if (std::exchange(asked, true)) lagging->allowed = 1;
    return false;
  }));
  threaded.next();
  EXPECT_EQ(served.batches, 1);
  EXPECT_EQ(served.ahead, 2) << "although the queue has room for more";
  EXPECT_EQ(served.ready, 0) << "the consumer had to wait";
  EXPECT_GT(served.wait_ns, 0);
  const int64_t waited = served.wait_ns;
  lagging->allowed = 100;
  EXPECT_TRUE(threaded.wait([] { return false; }));
  for (int i = 1; i < 5; ++i) threaded.next();
  EXPECT_EQ(served.batches, 5);
  EXPECT_GE(served.wait_ns, waited);
  EXPECT_GE(served.mean_ready(), 0);
  EXPECT_LE(served.mean_ready(), static_cast<double>(served.ahead));
}

// Values of `prefetch` and `threads`.
constexpr std::pair<int64_t, int64_t> kWays[] = {{0, 1}, {1, 1}, {4, 1}, {100, 1}, {1, 2}, {4, 2}, {24, 4}, {1, 8}};

TEST_F(LoaderTest, YieldsThePlanWithAnyNumberOfThreads) {
  const Dataset data = counting(53);
  for (const int64_t batch_size : {1, 4, 60}) {
    for (const int64_t processes : {1, 3}) {
      for (const bool even : {false, true}) {
        const DataPlan plan({.samples = 53, .batch_size = batch_size, .processes = processes, .even_batches = even});
        for (int64_t rank = 0; rank < processes; ++rank) {
          for (const bool shuffle : {false, true}) {
            LoaderSpec spec{.shuffle = shuffle, .seed = 9, .rank = rank, .epochs = 3};
            const std::vector<Copy> expected = planned(plan, spec, 3);
            for (const auto& [prefetch, threads] : kWays) {
              spec.prefetch = prefetch;
              spec.threads = threads;
              Loader loader(data, plan, spec);
              ASSERT_EQ(take(loader, std::ssize(expected)), expected) << prefetch << ", threads " << threads;
            }
          }
        }
      }
    }
  }
}

// A device may still use a batch while the next one is taken.
TEST_F(LoaderTest, PreviousBatchStaysValid) {
  const Dataset data = counting(50);
  for (const auto& [prefetch, threads] : kWays) {
    InputUse use;
    Loader loader(data, DataPlan({.samples = 50, .batch_size = 5}),
                  {.seed = 3, .prefetch = prefetch, .threads = threads, .use = &use});
    Batch before = loader.next();
    // Continues until the threads were ahead of the consumer as far as they may ten times.
    int64_t ahead = prefetch > 0 ? 0 : 10;
    for (int64_t step = 1; step < 40 || ahead < 10; ++step) {
      const Copy as_it_was = copy_of(before);
      const int64_t ready = use.ready;
      const Batch now = loader.next();
      if (use.ready - ready == prefetch) ++ahead;
      std::this_thread::yield();
      EXPECT_EQ(copy_of(before), as_it_was) << "step " << step << ", prefetch " << prefetch;
      before = now;
    }
  }
}

TEST_F(LoaderTest, StartsAtAnyPosition) {
  const Dataset data = counting(20);
  const DataPlan plan({.samples = 20, .batch_size = 3});
  LoaderSpec spec{.seed = 4, .epochs = 3};
  const std::vector<Copy> all = planned(plan, spec, 3);
  for (size_t done = 0; done < all.size(); ++done) {
    for (const auto& [prefetch, threads] : kWays) {
      spec.from = all[done].position;
      spec.prefetch = prefetch;
      spec.threads = threads;
      Loader loader(data, plan, spec);
      ASSERT_EQ(take(loader, std::ssize(all) - static_cast<int64_t>(done)),
                std::vector<Copy>(all.begin() + static_cast<ptrdiff_t>(done), all.end()));
    }
  }
  spec.from = {1, plan.steps_per_epoch()};  // after the last step, which means the next epoch
  Loader loader(data, plan, spec);
  EXPECT_EQ(loader.next().position, (Position{2, 0}));
}

// The first batch from the end of an epoch of 2^31 - 1 samples is available at once, without reading other samples.
TEST_F(LoaderTest, SkippingReadsNoSamples) {
  schema::DataSpec spec;
  spec.train.format = schema::DataFormat::kSynthetic;
  spec.train.samples = INT32_MAX;
  spec.train.feature_shape = {2};
  spec.train.classes = 2;
  const Dataset data = load(spec, 0).train;
  const DataPlan plan({.samples = data.size(), .batch_size = 64, .processes = 8});
  struct Count : Transform {
    void apply(const Sample&) override { ++samples; }
    int64_t samples = 0;
  };
  const auto count = std::make_shared<Count>();
  const int64_t last = plan.steps_per_epoch() - 1;
  LoaderSpec where{.shuffle = false, .rank = 7, .from = {1'000'000'000, last}, .prefetch = 0};
  where.transform = count;
  Loader loader(data, plan, where);
  const Copy batch = copy_of(loader.next());
  EXPECT_EQ(batch.position, where.from);
  EXPECT_EQ(batch.ids.front(), last * 512 + int64_t{7} * 64);
  EXPECT_EQ(batch.ids[62], INT32_MAX - 1);
  EXPECT_EQ(batch.ids[63], 0) << "a repeated sample";
  EXPECT_EQ(batch.weights[63], 0.0f);
  EXPECT_EQ(count->samples, 64);
}

// `runner plan --json --batches` prints what the loaders of a run yield, with padding marked.
TEST_F(LoaderTest, YieldsTheBatchesThatThePlanPrints) {
  schema::Recipe recipe;
  std::string text = "a,l\n";
  for (int i = 0; i < 23; ++i) text += fmt::format("{},{}\n", i, i % 3);
  recipe.data.train = csv_spec(write("x.csv", text));
  recipe.data.batch_size = 4;
  recipe.seed = 8;
  for (const bool stream : {false, true}) {
    recipe.data.stream = recipe.data.dispatch_batches = stream;
    recipe.data.shuffle_buffer = 5;
    const Dataset data = load(recipe).train;
    for (recipe.num_processes = 1; recipe.num_processes <= 5; ++recipe.num_processes) {
      for (const bool split : {false, true}) {
        recipe.split_batches = split;
        const DataPlan plan(train_plan(recipe, data.size()));
        Order order(data.size(), data_seed(recipe), true, data.shuffle_buffer());
        const auto document = support::Json::parse(plan_json(plan, order, 3, true));
        for (int64_t rank = 0; rank < recipe.num_processes; ++rank) {
          std::string ids, repeats;
          Loader loader(data, plan, {.seed = data_seed(recipe), .rank = rank, .threads = stream ? 1 : 1 + rank});
          for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) loader.next();
          for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {  // of epoch 1
            const Copy batch = copy_of(loader.next());
            if (batch.ids.empty()) continue;
            std::vector<int64_t> masked;
            for (size_t i = 0; i < batch.ids.size(); ++i) {
              if (batch.weights[i] == 0) masked.push_back(static_cast<int64_t>(i));
            }
            ids += fmt::format("{}[{}]", ids.empty() ? "" : ",", fmt::join(batch.ids, ","));
            repeats += fmt::format("{}[{}]", repeats.empty() ? "" : ",", fmt::join(masked, ","));
          }
          const auto epoch = document["epochs"][1];
          ASSERT_EQ(epoch["batches"][static_cast<size_t>(rank)].dump(), "[" + ids + "]");
          ASSERT_EQ(epoch["padding"][static_cast<size_t>(rank)].dump(), "[" + repeats + "]");
        }
      }
    }
  }
}

// Continues with batches of 3 after 7 samples that were consumed in batches of another size.
TEST_F(LoaderTest, ContinuesAfterBatchesOfAnotherSize) {
  const Dataset data = counting(20);
  const DataPlan plan({.samples = 20, .batch_size = 3});
  const LoaderSpec whole{.seed = 4, .epochs = 3};
  std::vector<int64_t> expected;
  for (const Copy& batch : planned(plan, whole, 3)) expected.insert(expected.end(), batch.ids.begin(), batch.ids.end());
  expected.erase(expected.begin(), expected.begin() + 20 + 7);
  for (const auto& [prefetch, threads] : kWays) {
    LoaderSpec spec = whole;
    spec.from = {1, 0, 7};
    spec.prefetch = prefetch;
    spec.threads = threads;
    Loader loader(data, plan, spec);
    std::vector<int64_t> ids;
    const std::vector<Copy> batches = take(loader, 5 + 7);
    for (const Copy& batch : batches) ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    EXPECT_EQ(ids, expected);
    EXPECT_EQ(batches[4].position, (Position{1, 4, 7}));
    EXPECT_EQ(batches[5].position, (Position{2, 0}));
  }
}

// Compares `repeats` with the padding samples counted over all ranks.
TEST_F(LoaderTest, CountsThePaddingOfAllRanks) {
  const Dataset data = counting(13);
  int64_t seen = 0;
  for (const int flags : {0, 1, 2, 3, 4, 5, 6, 7}) {
    for (const int64_t batch : {2, 3, 5}) {
      PlanSpec spec{.samples = 13, .batch_size = batch, .processes = 4};
      spec.split_batches = (flags & 1) != 0;
      spec.even_batches = (flags & 2) != 0;
      spec.dispatch_batches = (flags & 4) != 0;
      const DataPlan plan(spec);
      for (const bool without : {false, true}) {
        for (const bool never_empty : {false, true}) {
          std::vector<int64_t> counted, reported;
          for (int64_t rank = 0; rank < 4; ++rank) {
            Loader loader(data, plan,
                          {.rank = rank, .threads = batch, .without_repeats = without, .never_empty = never_empty});
            counted.resize(static_cast<size_t>(plan.steps_per_epoch()));
            reported.clear();
            for (int64_t& count : counted) {
              const Batch& got = loader.next();
              for (const float weight : got.weights) count += weight == 0;
              reported.push_back(got.repeats);
            }
          }
          EXPECT_EQ(counted, reported) << flags << " batch " << batch << without << never_empty;
          for (const int64_t count : reported) seen += count;
        }
      }
    }
  }
  EXPECT_GT(seen, 0);
}

TEST_F(LoaderTest, YieldsTargets) {
  const Dataset data = counting(10, true);
  const DataPlan plan({.samples = 10, .batch_size = 4});
  Loader loader(data, plan, {.shuffle = false, .epochs = 1});
  const std::vector<Copy> batches = take(loader, 3);
  EXPECT_EQ(batches[2].targets, (std::vector<float>{16, 18}));
  EXPECT_TRUE(batches[2].classes.empty());
}

TEST_F(LoaderTest, EndsAfterTheLastEpoch) {
  const Dataset data = counting(10);
  const DataPlan plan({.samples = 10, .batch_size = 4});
  for (const auto& [prefetch, threads] : kWays) {
    Loader loader(data, plan, {.epochs = 2, .prefetch = prefetch, .threads = threads});
    EXPECT_EQ(take(loader, 6).back().position, (Position{1, 2}));
    EXPECT_EQ(message_of([&] { loader.next(); }), "the data ends after 2 epochs");
    EXPECT_EQ(message_of([&] { loader.next(); }), "the data ends after 2 epochs");
  }
}

TEST_F(LoaderTest, RethrowsAnErrorAtItsBatch) {
  const Dataset data = counting(10);
  const DataPlan plan({.samples = 12, .batch_size = 4});  // a plan for more samples than there are
  for (const auto& [prefetch, threads] : kWays) {
    Loader loader(data, plan, {.shuffle = false, .prefetch = prefetch, .threads = threads});
    take(loader, 2);
    EXPECT_TRUE(loader.wait([] { return false; }));
    EXPECT_EQ(message_of([&] { loader.next(); }), "sample 10 does not exist in data.train, which has 10");
    EXPECT_EQ(message_of([&] { loader.next(); }), "sample 10 does not exist in data.train, which has 10");
  }
}

TEST_F(LoaderTest, CanBeDestroyedAtAnyTime) {
  const int64_t before = support::threads_of_process();
  const Dataset data = counting(50);
  const DataPlan plan({.samples = 50, .batch_size = 4});
  for (int64_t taken = 0; taken < 200; ++taken) {
    Loader loader(data, plan, {.prefetch = 1 + taken % 5, .threads = 1 + taken % 4});
    take(loader, taken);
  }
  // The system may still list the last threads for a moment after they were joined.
  EXPECT_LE(support::threads_of_process(), before + 4) << "threads of 200 loaders";
}

// Without prefetching, wait() itself shuffles the samples of the epoch.
TEST_F(LoaderTest, LeavesTheShuffleOfAnEpoch) {
  const Dataset data = counting(50);
  const DataPlan plan({.samples = 50, .batch_size = 4});
  Loader loader(data, plan, {.prefetch = 0});
  EXPECT_FALSE(loader.wait([] { return true; }));
}

TEST_F(LoaderTest, NoAllocationOrPageFaultInSteadyState) {
  const Dataset data = counting(1000);
  const DataPlan plan({.samples = 1000, .batch_size = 32});
  for (const auto& [prefetch, threads] : kWays) {
    Loader loader(data, plan, {.seed = 1, .prefetch = prefetch, .threads = threads});
    float sum = 0;
    const auto epoch = [&] {
      for (int64_t i = 0; i < plan.steps_per_epoch(); ++i) sum += loader.next().features()[0];
    };
    for (int i = 0; i < 10; ++i) epoch();
    const int64_t faults = support::page_faults();
    const int64_t allocated = support::allocations();
    for (int i = 0; i < 100; ++i) epoch();
    EXPECT_EQ(support::allocations(), allocated) << prefetch;
    // One fault per batch would give 3200 faults. A stack page that the system reclaimed faults once.
    EXPECT_LE(support::page_faults(), faults + 16) << prefetch;
    EXPECT_NE(sum, 0);
  }
}

// Adds 1000 (epoch + 1) to the features and records its calls; throws for one sample.
struct Shift : Transform {
  void apply(const Sample& sample) override {
    if (sample.id == thrown_at.first && sample.epoch == thrown_at.second) fail(ErrorKind::kRun, "at {}", sample.id);
    EXPECT_EQ(sample.shape, (backends::Shape{2}));
    EXPECT_EQ(sample.features[0], static_cast<float>(sample.id));
    EXPECT_EQ(sample.label, sample.targets.empty() ? sample.id % 5 : 0);
    if (!sample.targets.empty()) {
      EXPECT_EQ(sample.targets[0], static_cast<float>(2 * sample.id));
    }
    for (float& feature : sample.features) feature += static_cast<float>(1000 * (sample.epoch + 1));
    ++seen[sample.batch];
  }
  void pass_on(int64_t batch) override { passed.push_back(batch); }

  std::pair<int64_t, int64_t> thrown_at{-1, -1};
  std::map<int64_t, int64_t> seen;  // number of samples per batch
  std::vector<int64_t> passed;
};

TEST_F(LoaderTest, TransformsEverySampleOfItsBatch) {
  for (const bool targets : {false, true}) {
    const Dataset data = counting(53, targets);
    for (const int64_t prefetch : {0, 1, 9}) {
      const DataPlan plan({.samples = 53, .batch_size = 4, .processes = 3});
      const auto shift = std::make_shared<Shift>();
      const LoaderSpec plain{.seed = 7, .rank = 2, .prefetch = prefetch};
      LoaderSpec spec = plain;
      spec.transform = shift;
      spec.epochs = 2;
      const int64_t count = 2 * plan.steps_per_epoch();
      std::vector<Copy> wanted;
      {
        Loader loader(data, plan, plain);
        wanted = take(loader, count);
      }
      for (Copy& batch : wanted)
        for (float& feature : batch.features) feature += static_cast<float>(1000 * (batch.position.epoch + 1));
      Loader loader(data, plan, spec);
      EXPECT_EQ(take(loader, count), wanted);
      for (int64_t batch = 0; batch < count; ++batch) {
        EXPECT_EQ(shift->passed.at(static_cast<size_t>(batch)), batch);
        EXPECT_EQ(shift->seen[batch], std::ssize(wanted[static_cast<size_t>(batch)].ids));
      }
    }
  }
}

TEST_F(LoaderTest, RethrowsTransformErrorWithItsBatch) {
  const Dataset data = counting(20);
  const DataPlan plan({.samples = 20, .batch_size = 4});
  for (const int64_t prefetch : {0, 8}) {
    const auto shift = std::make_shared<Shift>();
    shift->thrown_at = {9, 1};
    LoaderSpec spec{.shuffle = false, .prefetch = prefetch};
    spec.transform = shift;
    Loader loader(data, plan, spec);
    EXPECT_EQ(take(loader, 7).size(), 7U);
    for (int again = 0; again < 2; ++again) EXPECT_THROW(loader.next(), Error);
    EXPECT_EQ(shift->passed.at(7), 7) << "output of the batch is printed when it is taken";
  }
}

}  // namespace
}  // namespace runner::data
