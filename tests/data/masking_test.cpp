// Masked tokens: the rule against a plain loop, rates, and that ranks, batches and the position of a start do not
// matter.
#include "runner/data/masking.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "runner/data/random.h"
#include "tests/data/batches.h"

namespace runner::data {
namespace {

using Kind = MaskVocabulary::Kind;
using Ids = std::vector<int64_t>;

constexpr int64_t kMask = 4;

// 5 special tokens, then words and continuations in turns.
MaskVocabulary vocabulary_of(size_t tokens) {
  MaskVocabulary vocabulary{.mask_id = kMask};
  for (size_t id = 0; id < tokens; ++id)
    vocabulary.kinds.push_back(id < 5 ? Kind::kSpecial : id % 2 == 1 ? Kind::kWord : Kind::kContinuation);
  return vocabulary;
}

// Tokens of a row, different for each.
Ids row_of(int64_t row, size_t length, size_t vocabulary) {
  RandomSequence random(7, Stream::kSyntheticTrain, static_cast<uint64_t>(row));
  Ids tokens;
  for (size_t i = 0; i < length; ++i) tokens.push_back(random.below(static_cast<uint32_t>(vocabulary)));
  return tokens;
}

std::pair<Ids, Ids> masked(const TokenMasker& masker, const SampleKey& key, int64_t row, Ids tokens) {
  Ids labels(tokens.size());
  masker.apply(key, row, tokens, labels);
  return {tokens, labels};
}

double fraction(uint32_t bits) {
  return static_cast<double>(bits) / 0x1p32;
}

// The words of a row: positions of their pieces, without special tokens.
std::vector<std::vector<size_t>> words_of(const Ids& tokens, const MaskVocabulary& vocabulary, bool whole_word) {
  std::vector<std::vector<size_t>> words;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const auto kind = [&](size_t at) { return vocabulary.kinds[static_cast<size_t>(tokens[at])]; };
    if (kind(t) == Kind::kSpecial) continue;
    const bool joins = whole_word && kind(t) == Kind::kContinuation && t > 0 && kind(t - 1) != Kind::kSpecial;
    if (!joins) words.emplace_back();
    words.back().push_back(t);
  }
  return words;
}

TEST(Masking, FollowsItsRuleOnAnyRow) {
  constexpr size_t kTokens = 23, kLength = 40;
  const MaskVocabulary vocabulary = vocabulary_of(kTokens);
  for (const bool whole_word : {false, true}) {
    for (const double probability : {0.15, 0.5, 1.0}) {
      const TokenMasker masker({probability, whole_word}, vocabulary);
      for (int64_t row = 0; row < 20; ++row) {
        const SampleKey key{.seed = 3, .epoch = row % 4};
        const Ids tokens = row_of(row, kLength, kTokens);
        Ids inputs = tokens, labels(kLength, kNoLabel);
        const auto bits = [&](size_t t) {
          return random_block(3, Stream::kMasks, static_cast<uint64_t>(key.epoch << 32 | row),
                              static_cast<uint32_t>(t));
        };
        for (const std::vector<size_t>& word : words_of(tokens, vocabulary, whole_word)) {
          if (fraction(bits(word.front())[0]) >= probability) continue;
          for (const size_t t : word) {
            labels[t] = tokens[t];
            const double choice = fraction(bits(t)[1]);
            if (choice < 0.8) inputs[t] = kMask;
            if (choice >= 0.8 && choice < 0.9)
              inputs[t] = static_cast<int64_t>((fraction(bits(t)[2]) + fraction(bits(t)[3]) / 0x1p32) * kTokens);
          }
        }
        EXPECT_EQ(masked(masker, key, row, tokens), std::pair(inputs, labels)) << row << ' ' << probability;
      }
    }
  }
}

// `count` of `trials` is within 5 standard deviations of a binomial distribution.
void expect_rate(int64_t count, int64_t trials, double probability, const char* what) {
  const auto n = static_cast<double>(trials);
  EXPECT_NEAR(static_cast<double>(count), n * probability, 5 * std::sqrt(n * probability * (1 - probability))) << what;
}

TEST(Masking, RatesAreThoseOfBert) {
  constexpr size_t kTokens = 50, kLength = 128;
  const MaskVocabulary vocabulary = vocabulary_of(kTokens);
  for (const bool whole_word : {false, true}) {
    const TokenMasker masker({0.15, whole_word}, vocabulary);
    int64_t units = 0, selected_units = 0, selected = 0, hidden = 0, kept = 0, others = 0;
    std::vector<int64_t> random_ids(kTokens);
    for (int64_t row = 0; row < 3000; ++row) {
      const Ids tokens = row_of(row, kLength, kTokens);
      const auto [inputs, labels] = masked(masker, {.seed = 11, .epoch = 2}, row, tokens);
      for (const std::vector<size_t>& word : words_of(tokens, vocabulary, whole_word)) {
        ++units;
        selected_units += labels[word.front()] != kNoLabel;
        for (const size_t t : word) EXPECT_EQ(labels[t] != kNoLabel, labels[word.front()] != kNoLabel);
      }
      for (size_t t = 0; t < kLength; ++t) {
        if (labels[t] == kNoLabel) {
          EXPECT_EQ(inputs[t], tokens[t]);
          continue;
        }
        EXPECT_EQ(labels[t], tokens[t]);
        EXPECT_NE(vocabulary.kinds[static_cast<size_t>(tokens[t])], Kind::kSpecial);
        ++selected;
        hidden += inputs[t] == kMask;
        kept += inputs[t] == tokens[t];
        if (inputs[t] == kMask || inputs[t] == tokens[t]) continue;
        ++others;
        ++random_ids[static_cast<size_t>(inputs[t])];
      }
    }
    expect_rate(selected_units, units, 0.15, "selected");
    // A random token may be the mask token or the token itself.
    expect_rate(hidden, selected, 0.8 + 0.1 / kTokens, "masked");
    expect_rate(kept, selected, 0.1 + 0.1 / kTokens, "kept");
    EXPECT_EQ(hidden + kept + others, selected);
    for (size_t id = 0; id < kTokens; ++id) {
      if (id == kMask) continue;
      // Words and continuations are tokens themselves in one of 45 cases, special ones never.
      const double share = id < 5 ? 1.0 : 44.0 / 45;
      expect_rate(random_ids[id], others, share / (4 + 45 * 44.0 / 45), "random token");
    }
  }
}

TEST(Masking, DependsOnSeedEpochRowAndNothingElse) {
  const TokenMasker masker({}, vocabulary_of(30));
  const Ids tokens = row_of(1, 200, 30);
  const auto once = masked(masker, {.seed = 1, .epoch = 0}, 5, tokens);
  EXPECT_EQ(masked(masker, {.seed = 1, .epoch = 0}, 5, tokens), once);
  EXPECT_NE(masked(masker, {.seed = 2, .epoch = 0}, 5, tokens), once);
  EXPECT_NE(masked(masker, {.seed = 1, .epoch = 1}, 5, tokens), once);
  EXPECT_NE(masked(masker, {.seed = 1, .epoch = 0}, 6, tokens), once);
  // A token is masked alike in a longer row.
  const auto part = masked(masker, {.seed = 1, .epoch = 0}, 5, Ids(tokens.begin(), tokens.begin() + 50));
  EXPECT_TRUE(std::equal(part.second.begin(), part.second.end(), once.second.begin()));
}

// ---- data sets ------------------------------------------------------------------------------------------------------

class MaskedText : public FileTest {
 protected:
  static schema::DatasetSpec spec_of(const std::string& path, const std::string& tokenizer) {
    schema::DatasetSpec spec;
    spec.format = schema::DataFormat::kText;
    spec.path = path;
    spec.sequence_length = 16;
    spec.tokens = tokenizer;
    spec.document_separator = "\n";
    return spec;
  }
  // 41 documents of words, pieces and unknown words.
  Data data_of(const Masking& masking = {.probability = 0.3}) {
    std::string text;
    for (int i = 0; i < 41; ++i) text += fmt::format("a b ab{} c x bb a ab abb c b a zz a\n", i % 3 == 0 ? "b" : "");
    schema::DataSpec spec;
    spec.train =
        spec_of(write("x.txt", text), write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n##a\n##b\n"));
    return load(spec, 0, LabelsAs::kAuto, std::nullopt, nullptr, true, masking);
  }
  std::string refusal(const std::string& tokenizer, const Masking& masking) {
    schema::DataSpec spec;
    spec.train = spec_of(write("x.txt", "a a a a a a a a a a a a a a a a a a"), tokenizer);
    return message_of([&] { load(spec, 0, LabelsAs::kAuto, std::nullopt, nullptr, true, masking); });
  }
};

// A sample in an epoch.
using Where = std::pair<int64_t, int64_t>;
using Samples = std::map<Where, std::pair<Ids, Ids>>;

// The samples of all ranks. A sample that occurs twice, as padding, must be the same.
Samples samples_of(const Dataset& set, const PlanSpec& spec, const LoaderSpec& where) {
  const DataPlan plan(spec);
  Samples samples;
  for (int64_t rank = 0; rank < spec.processes; ++rank) {
    LoaderSpec of_rank = where;
    of_rank.rank = rank;
    Loader loader(set, plan, of_rank);
    for (Position at = where.from; at.epoch < where.epochs;) {
      const Batch& batch = loader.next();
      const auto width = static_cast<size_t>(set.label_width());
      for (size_t i = 0; i < batch.ids.size(); ++i) {
        const auto part = [&](std::span<const int64_t> all) {
          const auto row = all.subspan(i * width, width);
          return Ids(row.begin(), row.end());
        };
        const auto [found, is_new] =
            samples.try_emplace(Where(batch.position.epoch, batch.ids[i]), part(batch.tokens()), part(batch.classes));
        EXPECT_TRUE(is_new || found->second == std::pair(part(batch.tokens()), part(batch.classes)));
      }
      at = batch.next();
    }
  }
  return samples;
}

TEST_F(MaskedText, LabelsAreTheTokensThemselves) {
  const Data data = data_of({.probability = 1});
  ASSERT_EQ(data.encoding.masking, (Masking{.probability = 1}));
  EXPECT_EQ(data.encoding.ignored_label, kNoLabel);
  EXPECT_EQ(data.encoding.outputs, 10);
  EXPECT_EQ(Encoding::from_json(data.encoding.to_json()), data.encoding);
  Ids all, labels(16);
  for (int64_t id = 0; id < data.train.size(); ++id) {
    Ids tokens(16);
    data.train.gather_tokens(std::vector{id}, tokens);
    const Ids before = tokens;
    data.train.gather_classes(std::vector{id}, labels);
    EXPECT_EQ(labels, before);
    data.train.mask({}, std::vector{id}, tokens, labels);
    for (size_t t = 0; t < 16; ++t) EXPECT_EQ(labels[t], before[t] < 5 ? kNoLabel : before[t]);
    all.insert(all.end(), before.begin(), before.end());
  }
  EXPECT_EQ(Ids(all.begin(), all.begin() + 8), (Ids{5, 6, 5, 9, 9, 7, 1, 6}));
  EXPECT_NE(std::ranges::find(all, 3), all.end()) << "an end token between documents";
}

// The tokens of the last sample need no token after them.
TEST_F(MaskedText, ATextOfOneSampleIsEnough) {
  schema::DataSpec spec;
  spec.train = spec_of(write("y.txt", "a b c a b c a b c a b c a b c a"),
                       write("v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n"));
  EXPECT_EQ(load(spec, 0, LabelsAs::kAuto, std::nullopt, nullptr, true, Masking{}).train.size(), 1);
  EXPECT_EQ(message_of([&] { load(spec, 0); }),
            "y.txt has 16 tokens, but a sample of sequence_length 16 and its labels need 17");
}

TEST_F(MaskedText, MasksAreNewInEachEpochAndTheSameForAnyRanksBatchesAndStart) {
  for (const bool whole_word : {false, true}) {
    const Data data = data_of({.probability = 0.3, .whole_word = whole_word});
    const int64_t size = data.train.size();
    const LoaderSpec where{.seed = 8, .epochs = 2};
    const Samples all = samples_of(data.train, {.samples = size, .batch_size = 4}, where);
    ASSERT_EQ(std::ssize(all), 2 * size);
    int64_t same = 0;
    for (int64_t id = 0; id < size; ++id) same += all.at({0, id}).second == all.at({1, id}).second;
    EXPECT_LT(same, size / 4);
    EXPECT_EQ(samples_of(data.train, {.samples = size, .batch_size = 7}, where), all);
    EXPECT_EQ(samples_of(data.train, {.samples = size, .batch_size = 3, .processes = 3}, where), all);
    LoaderSpec later = where;
    later.from = {0, 5};
    const Samples rest =
        samples_of(data.train, {.samples = size, .batch_size = 2, .processes = 3, .even_batches = false}, later);
    EXPECT_EQ(std::ssize(rest), 2 * size - 30);
    for (const auto& [at, sample] : rest) EXPECT_EQ(sample, all.at(at));
  }
}

// A part of the samples, as eval.batches takes it, has the masks that they have in the whole set.
TEST_F(MaskedText, MasksOfSomeSamplesAreThoseOfAll) {
  const Data data = data_of();
  const Dataset some = data.train.thinned(10);
  for (int64_t id = 0; id < 10; ++id) {
    const int64_t row = id * data.train.size() / 10;
    Ids tokens(16), labels(16), whole(16), all_labels(16);
    some.gather_tokens(std::vector{id}, tokens);
    data.train.gather_tokens(std::vector{row}, whole);
    some.mask({1, 1}, std::vector{id}, tokens, labels);
    data.train.mask({1, 1}, std::vector{row}, whole, all_labels);
    EXPECT_EQ(std::pair(tokens, labels), std::pair(whole, all_labels));
  }
}

TEST_F(MaskedText, LaterFilesAreMaskedToo) {
  const Data data = data_of();
  const Dataset later = load_encoded(spec_of(path("x.txt"), path("vocab.txt")), data.encoding, 0, "x.txt");
  Ids labels(16), tokens(16);
  ASSERT_TRUE(later.is_masked());
  later.gather_tokens(std::vector<int64_t>{0}, tokens);
  later.mask({}, std::vector<int64_t>{0}, tokens, labels);
  EXPECT_NE(std::ranges::count(labels, kNoLabel), 0);
}

TEST_F(MaskedText, TokenizersWithoutAMaskTokenOrWordsAreRefused) {
  const std::string plain = write("plain.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n");
  EXPECT_EQ(
      refusal(plain, {}),
      "train.objective masked_lm needs a mask token, but the tokenizer plain.txt (WordPiece) has neither [MASK] nor "
      "<mask>; use one that has it, as BERT's, or train.objective: {type: causal_lm}");
  const std::string bpe = write(
      "bpe.json",
      R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "added_tokens": [{"id": 1, "content": "<mask>",
          "special": true}], "model": {"type": "BPE", "unk_token": "a", "vocab": {"a": 0, "<mask>": 1}, "merges": []}})");
  EXPECT_EQ(refusal(bpe, {}), "");
  EXPECT_EQ(
      refusal(bpe, {.whole_word = true}),
      "train.objective.whole_word needs a tokenizer that marks the pieces of a word, as BERT's WordPiece does with "
      "## and SentencePiece with \u2581, but bpe.json is byte-level BPE; use whole_word: false");
}

}  // namespace
}  // namespace runner::data
