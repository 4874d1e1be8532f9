// Compares streams with the same file in memory, and their order with the definition of a shuffle buffer.
#include "runner/data/stream.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "runner/data/load.h"
#include "runner/data/loader.h"
#include "tests/data/batches.h"
#include "tests/data/files.h"
#include "tests/support/allocations.h"

namespace runner::data {
namespace {

class StreamTest : public FileTest {
 protected:
  std::string counting(int64_t samples) { return write("x.csv", counting_csv(samples)); }

  static schema::DataSpec stream_of(const std::string& path, int64_t buffer) {
    schema::DataSpec spec;
    spec.train = csv_spec(path);
    spec.stream = true;
    spec.shuffle_buffer = buffer;
    return spec;
  }
};

// Reference shuffle buffer: holds the next `buffer` samples, draws one of them, and replaces it with the next sample.
std::vector<int64_t> drawn(int64_t samples, int64_t buffer, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> held(static_cast<size_t>(std::min(samples, buffer))), order;
  std::iota(held.begin(), held.end(), 0);
  int64_t next = std::ssize(held);
  RandomSequence random(seed, Stream::kBuffer, static_cast<uint64_t>(epoch));
  while (!held.empty()) {
    const size_t slot = random.below(static_cast<uint32_t>(held.size()));
    order.push_back(held[slot]);
    if (next < samples) {
      held[slot] = next++;
    } else {
      held[slot] = held.back();
      held.pop_back();
    }
  }
  return order;
}

TEST(OrderOfAStream, MatchesAShuffleBuffer) {
  for (const int64_t buffer : {1, 2, 7, 40, 1000}) {
    Order order(40, 9, true, buffer);
    for (const int64_t epoch : {0, 1, 5}) {
      order.set_epoch(epoch);
      std::vector<int64_t> got;
      for (int64_t i = 0; i < 40; ++i) got.push_back(order[i]);
      EXPECT_EQ(got, drawn(40, buffer, 9, epoch)) << buffer;
    }
  }
}

TEST(OrderOfAStream, YieldsEverySampleOnceAndOnlyAfterReadingIt) {
  constexpr int64_t kSamples = 500, kBuffer = 20;
  Order order(kSamples, 3, true, kBuffer);
  order.set_epoch(2);
  std::vector<int> seen(kSamples);
  int64_t moved = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    EXPECT_LT(order[i], i + kBuffer);
    ++seen[static_cast<size_t>(order[i])];
    moved += order[i] != i;
  }
  EXPECT_EQ(seen, std::vector<int>(kSamples, 1));
  EXPECT_GT(moved, kSamples / 2);
}

// All 6 orders of 3 samples are equally likely: in 6000 epochs, each order occurs 1000 times within 5 standard
// deviations.
TEST(OrderOfAStream, BufferOfStreamSizeMakesAllOrdersEquallyLikely) {
  std::map<std::vector<int64_t>, int> counts;
  Order order(3, 1, true, 3);
  for (int64_t epoch = 0; epoch < 6000; ++epoch) {
    order.set_epoch(epoch);
    ++counts[{order[0], order[1], order[2]}];
  }
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [permutation, count] : counts) EXPECT_NEAR(count, 1000, 5 * std::sqrt(6000 / 6.0 * 5 / 6));
}

// A stream yields the same samples as a data set in memory with the same order.
TEST_F(StreamTest, YieldsThePlanForEveryRank) {
  const std::string path = counting(53);
  const Data data = load(stream_of(path, 10), 0);
  EXPECT_EQ(data.train.size(), 53);
  for (const int64_t batch_size : {4, 60}) {
    for (const int64_t processes : {1, 2, 3, 60}) {
      for (int flags = 0; flags < 8; ++flags) {
        const DataPlan plan({.samples = 53,
                             .batch_size = batch_size,
                             .processes = processes,
                             .split_batches = (flags & 1) != 0,
                             .even_batches = (flags & 2) != 0,
                             .dispatch_batches = (flags & 4) != 0});
        for (const bool shuffle : {false, true}) {
          Order order(53, 9, shuffle, 10);
          for (int64_t rank = 0; rank < processes; rank += processes < 10 ? 1 : 13) {
            Loader loader(data.train, plan, {.shuffle = shuffle, .seed = 9, .rank = rank, .epochs = 2});
            for (int64_t epoch = 0; epoch < 2; ++epoch) {
              order.set_epoch(epoch);
              for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
                ASSERT_EQ(take(loader, 1)[0], planned_batch(plan, order, rank, {epoch, step}))
                    << plan_json(plan, order, 0, false) << rank << " " << epoch << " " << step;
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(StreamTest, ResumesAtAnyPosition) {
  const Data data = load(stream_of(counting(20), 6), 0);
  const DataPlan plan({.samples = 20, .batch_size = 3});
  LoaderSpec spec{.seed = 4, .epochs = 3};
  const int64_t count = 3 * plan.steps_per_epoch();
  Loader whole(data.train, plan, spec);
  const std::vector<Copy> all = take(whole, count);
  for (int64_t done = 0; done < count; ++done) {
    for (const int64_t prefetch : {0, 4}) {
      spec.from = all[static_cast<size_t>(done)].position;
      spec.prefetch = prefetch;
      Loader loader(data.train, plan, spec);
      ASSERT_EQ(take(loader, count - done), std::vector<Copy>(all.begin() + done, all.end()));
    }
  }
}

// 20,000 samples in several windows of the file. The steps tested are in the middle, the last full one, and the last
// one, which has padding.
class LongStreamTest : public StreamTest {
 protected:
  // `is_damaged`: whether the first value of a row is no number. `gap`: a row without values follows each gap-th row.
  static std::string rows(
      const std::function<bool(int64_t)>& is_damaged = [](int64_t) { return false; }, int64_t gap = INT64_MAX) {
    std::string text = "a,b,l\n";
    for (int64_t i = 0; i < 20'000; ++i) {
      const std::string number = std::to_string(i);
      text += fmt::format("{},\"{}\",{}\n", is_damaged(i) ? std::string(number.size(), 'x') : number, -i, i % 5);
      if ((i + 1) % gap == 0) text += ",,\n";
    }
    return text;
  }

  // Replaces the contents of the file that `data` was loaded from, which still looks unchanged.
  void replace(const Data& data, std::string_view text) {
    const std::filesystem::path path = data.train.storage().files[0].path;
    const auto time = std::filesystem::last_write_time(path);
    write(path.filename().string(), text);
    std::filesystem::last_write_time(path, time);
  }

  static std::vector<Copy> from(const Data& data, int64_t step, int64_t count) {
    Loader loader(data.train, DataPlan({.samples = 20'000, .batch_size = 50, .processes = 3}),
                  {.seed = 4, .rank = 2, .from = {0, step}, .prefetch = 0});
    return take(loader, count);
  }
};

TEST_F(LongStreamTest, ResumesFarFromTheStart) {
  const auto same_as_in_one_go = [](const schema::DataSpec& spec) {
    const Data data = load(spec, 0);
    ASSERT_EQ(data.train.size(), 20'000);
    const std::vector<Copy> all = from(data, 0, 134);
    for (const int64_t step : {7, 60, 132, 133}) EXPECT_EQ(from(data, step, 1)[0], all[static_cast<size_t>(step)]);
  };
  same_as_in_one_go(stream_of(write("x.csv", rows()), 100));
  same_as_in_one_go(stream_of(write("x.csv.gz", gzip(rows())), 100));
  schema::DataSpec headless = stream_of(write("y.csv", rows().substr(6)), 100);
  headless.train.header = schema::Header::kFalse;
  same_as_in_one_go(headless);
  std::string gaps = rows();
  for (size_t at = 0; (at = gaps.find("99,", at)) != std::string::npos; at += 10)
    gaps.insert(gaps.find('\n', at), "\n,,");
  schema::DataSpec dropping = stream_of(write("z.csv", gaps), 100);
  dropping.train.missing = schema::Missing::kDrop;
  same_as_in_one_go(dropping);
}

// Damages a row after counting. A loader that starts after this row does not read it.
TEST_F(LongStreamTest, ResumeDoesNotReadEarlierRows) {
  const Data data = load(stream_of(write("x.csv", rows()), 100), 0);
  const std::vector<Copy> whole = from(data, 60, 10);
  const int64_t earlier = from(data, 40, 1)[0].ids[0];
  replace(data, rows([&](int64_t row) { return row == earlier; }));
  EXPECT_EQ(from(data, 60, 10), whole);
  EXPECT_EQ(message_of([&] { from(data, 40, 30); }),
            fmt::format("x.csv:{}: column 'a': expected a number, got 'xxxx'", earlier + 2));
}

// Damages all rows that only other ranks read, after counting.
TEST_F(LongStreamTest, ARankReadsOnlyItsRows) {
  for (const int64_t gap : {INT64_MAX, int64_t{7}}) {
    schema::DataSpec spec = stream_of(write("x.csv", rows([](int64_t) { return false; }, gap)), 100);
    spec.train.missing = gap == 7 ? schema::Missing::kDrop : schema::Missing::kError;
    const Data data = load(spec, 0);
    const auto of_one_rank = [&] {
      const DataPlan plan({.samples = 20'000, .batch_size = 50, .processes = 3, .drop_last = true});
      Loader loader(data.train, plan, {.seed = 4, .rank = 2, .prefetch = 0});
      return take(loader, plan.steps_per_epoch());
    };
    const std::vector<Copy> whole = of_one_rank();
    std::vector<bool> is_read(20'000);
    for (const Copy& batch : whole)
      for (size_t i = 0; i < batch.ids.size(); ++i) is_read[static_cast<size_t>(batch.features[2 * i])] = true;
    EXPECT_EQ(std::ranges::count(is_read, true), 133 * 50);
    replace(data, rows([&](int64_t row) { return !is_read[static_cast<size_t>(row)]; }, gap));
    EXPECT_EQ(of_one_rank(), whole);
  }
}

// Continues with two ranks after 7 samples that were consumed in other batches.
TEST_F(StreamTest, ResumesWithAnotherNumberOfRanks) {
  const Data data = load(stream_of(counting(20), 6), 0);
  const DataPlan plan({.samples = 20, .batch_size = 3, .processes = 2});
  Order order(20, 4, true, 6);
  order.set_epoch(1);
  for (int64_t rank = 0; rank < 2; ++rank) {
    Loader loader(data.train, plan, {.seed = 4, .rank = rank, .from = {1, 0, 7}});
    const DataPlan rest = plan.from(7);
    for (int64_t step = 0; step < rest.steps_per_epoch(); ++step) {
      const Slice slice = rest.slice(rank, step);
      std::vector<int64_t> ids(static_cast<size_t>(slice.size()));
      sample_ids(slice, order, ids);
      EXPECT_EQ(take(loader, 1)[0].ids, ids);
    }
  }
}

// Missing values, class names, another column order in the eval file, scale and statistics: bit-identical to data in
// memory.
TEST_F(StreamTest, EncodingEqualsThatOfDataInMemory) {
  std::string train = "a,b,kind\n", eval = "kind,b,a\n";
  for (int i = 0; i < 300; ++i) {
    const std::string a = i % 7 == 3 ? "" : fmt::format("{}", 0.1 * i * i);
    train += fmt::format("{},{},{}\n", a, 1.0 / (i + 1), i % 3 == 0 ? "red" : "blue");
    eval += fmt::format("{},{},{}\n", i % 4 == 0 ? "green" : "red", -0.3 * i, a);
  }
  for (const schema::Missing missing : {schema::Missing::kDrop, schema::Missing::kMean}) {
    for (const schema::Normalize normalize :
         {schema::Normalize::kNone, schema::Normalize::kStandard, schema::Normalize::kMinMax}) {
      schema::DataSpec spec = stream_of(write("train.csv.gz", gzip(train)), 16);
      spec.eval = csv_spec(write("eval.csv", eval));
      spec.train.missing = spec.eval->missing = missing;
      spec.train.label = spec.eval->label = schema::Column{.name = "kind"};
      spec.train.scale = spec.eval->scale = 0.125;
      spec.normalize = normalize;
      const Data streamed = load(spec, 7);
      spec.stream = false;
      const Data loaded = load(spec, 7);
      EXPECT_EQ(streamed.encoding, loaded.encoding);
      EXPECT_EQ(streamed.encoding.class_names, (std::vector<std::string>{"blue", "green", "red"}));
      EXPECT_EQ(streamed.warnings, loaded.warnings);
      EXPECT_EQ(streamed.warnings.size(), 4u) << "also about the classes blue and green";
      for (const bool evaluates : {false, true}) {
        const Dataset& a = evaluates ? *streamed.eval : streamed.train;
        const Dataset& b = evaluates ? *loaded.eval : loaded.train;
        ASSERT_EQ(a.size(), b.size());
        const DataPlan plan({.samples = a.size(), .batch_size = 32});
        Loader stream(a, plan, {.shuffle = false}), memory(b, plan, {.shuffle = false});
        EXPECT_EQ(take(stream, plan.steps_per_epoch()), take(memory, plan.steps_per_epoch()));
        Fingerprint fingerprint = a.fingerprint();
        fingerprint.contents = b.fingerprint().contents;
        EXPECT_EQ(fingerprint, b.fingerprint());
      }
    }
  }
}

TEST_F(StreamTest, ReadsTargets) {
  const Data data = load(stream_of(write("x.csv", "a,y\n1,0.1\n2,7\n3,-1e-3\n"), 2), 0);
  const DataPlan plan({.samples = 3, .batch_size = 3});
  Loader loader(data.train, plan, {.shuffle = false});
  const Copy batch = take(loader, 1)[0];
  EXPECT_EQ(batch.targets, (std::vector<float>{0.1f, 7.0f, -1e-3f}));
  EXPECT_TRUE(batch.classes.empty());
}

TEST_F(StreamTest, FingerprintDependsOnContents) {
  const auto fingerprint = [&](const std::string& text) {
    return load(stream_of(write("x.csv", text), 4), 0).train.fingerprint().contents;
  };
  const std::string base = fingerprint("a,l\n1,0\n2,1\n");
  EXPECT_EQ(base.size(), 64u);
  EXPECT_EQ(fingerprint("a,l\n1.0, 0\n2,1\n"), base);
  EXPECT_NE(fingerprint("a,l\n1,1\n2,1\n"), base);
  EXPECT_NE(fingerprint("a,l\n1.5,0\n2,1\n"), base);
  EXPECT_NE(fingerprint("a,l\n2,1\n1,0\n"), base);
}

TEST_F(StreamTest, RejectsAModifiedFile) {
  const std::string refusal =
      "x.csv has changed since its samples were counted; a stream reads the file again in every epoch: do not change "
      "it during the run, or set data.stream to false";
  const std::string one = "a,b,l\n1,2000004,0\n", two = "a,b,l\n1,2,0\n3,4,0\n", longer = two + "5,6,0\n";
  ASSERT_EQ(one.size(), two.size());
  struct Change {
    std::string before, after;
    int seconds;  // difference between the modification times
  };
  for (const auto& [before, after, seconds] :
       {Change{two, longer, 0}, Change{two, two, 1}, Change{two, one, 0}, Change{one, two, 0}, Change{two, two, 0}}) {
    const std::string path = write("x.csv", before);
    const auto time = std::filesystem::last_write_time(path);
    const Data data = load(stream_of(path, 4), 0);
    write("x.csv", after);
    std::filesystem::last_write_time(path, time + std::chrono::seconds(seconds));
    const DataPlan plan({.samples = data.train.size(), .batch_size = 2});
    Loader loader(data.train, plan, {.prefetch = 0});
    EXPECT_EQ(message_of([&] { loader.next(); }), before == after && seconds == 0 ? "" : refusal);
  }
}

// Loading this file into memory takes 8 MB.
TEST_F(StreamTest, MemoryDoesNotDependOnTheFileSize) {
  std::string text = "a,b,c,d,l\n";
  for (int i = 0; i < 500'000; ++i) text += "1,2,3,4,0\n";
  const std::string path = write("large.csv", text);
  support::take_largest_allocation();
  const Data data = load(stream_of(path, 100), 0);
  const DataPlan plan({.samples = data.train.size(), .batch_size = 1000, .processes = 2});
  Loader loader(data.train, plan, {.prefetch = 0});
  float sum = 0;
  for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) sum += loader.next().features()[3];
  EXPECT_EQ(sum, 4 * static_cast<float>(plan.steps_per_epoch()));
  EXPECT_LT(support::take_largest_allocation(), size_t{1} << 20);
}

TEST_F(StreamTest, ErrorNamesTheLine) {
  const std::string path = write("x.csv", "a,b,l\n1,2,0\n3,4\n");
  EXPECT_EQ(message_of([&] { load(stream_of(path, 4), 0); }), "x.csv:3: expected 3 fields like the header, got 2");
}

}  // namespace
}  // namespace runner::data
