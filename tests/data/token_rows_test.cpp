// Text columns of CSV, TSV and JSON lines files as tokens, and batches of samples of different lengths.
#include "runner/data/token_rows.h"

#include <algorithm>
#include <map>

#include "runner/data/loader.h"
#include "runner/data/order.h"
#include "runner/data/storage.h"
#include "tests/data/load_fixture.h"

namespace runner::data {
namespace {

using schema::DataFormat;
using schema::TokenPadding;
using schema::Truncation;

using Row = std::vector<int64_t>;

class TokenRowsTest : public LoadTest {
 protected:
  // A section with text columns, given by name.
  schema::DataSpec texts(DataFormat format, const std::string& path, const std::vector<std::string>& columns,
                         const std::string& tokenizer = "bytes", int64_t max_length = 16) {
    schema::DataSpec spec;
    spec.train.format = format;
    spec.train.path = path;
    for (const std::string& name : columns) spec.train.text_columns.push_back({name, 0});
    spec.train.label = schema::Column{"label", 0};
    spec.tokens = schema::TokensSpec{.tokenizer = tokenizer, .max_length = max_length};
    return spec;
  }

  // A vocabulary of BERT: word n of "a b c …" has id n + 4.
  std::string vocabulary() { return write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n##s\n"); }
};

// An input of all samples, padded to the largest length.
std::vector<Row> input_of(const Dataset& set, size_t input = 0) {
  const auto width = static_cast<size_t>(set.feature_shape().elements());
  std::vector<Row> rows;
  for (int64_t id = 0; id < set.size(); ++id) {
    Row& row = rows.emplace_back(width);
    set.gather_input(input, std::vector{id}, std::as_writable_bytes(std::span(row)));
  }
  return rows;
}

TEST_F(TokenRowsTest, EachFormatGivesTheSameSamples) {
  const std::string csv = write("a.csv", "label,x,y\nno,ab,c\nyes,\"d, \"\"e\"\"\",\n");
  const std::string tsv = write("a.tsv", "label\tx\ty\nno\tab\tc\nyes\td, \"e\"\t\n");
  const std::string jsonl = write(
      "a.jsonl",
      "{\"x\": \"ab\", \"y\": \"c\", \"label\": \"no\"}\n\n{\"label\":\"yes\",\"x\":\"d, \\\"e\\\"\",\"y\":\"\"}");
  for (const auto& [format, path] :
       {std::pair(DataFormat::kCsv, csv), std::pair(DataFormat::kTsv, tsv), std::pair(DataFormat::kJsonl, jsonl)}) {
    SCOPED_TRACE(path);
    const Data data = load(texts(format, path, {"x", "y"}, "bytes", 8), 0);
    EXPECT_EQ(input_of(data.train, 0),
              (std::vector<Row>{{'a', 'b', 'c', 0, 0, 0, 0, 0}, {'d', ',', ' ', '"', 'e', '"', 0, 0}}));
    EXPECT_EQ(input_of(data.train, 1), (std::vector<Row>{{1, 1, 1, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 0, 0}}));
    EXPECT_EQ(input_of(data.train, 2), (std::vector<Row>{{0, 0, 1, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}}));
    EXPECT_EQ(classes_of(data.train), (LargeArray<int64_t>{0, 1}));
    EXPECT_EQ(data.encoding.classes(), (std::vector<std::string>{"no", "yes"}));
    EXPECT_EQ(data.encoding.vocabulary, 256);
    EXPECT_EQ(Encoding::from_json(data.encoding.to_json()), data.encoding);
  }
}

// Without a label, the tokens of a row are its labels; padding has none.
TEST_F(TokenRowsTest, TokensMayBeTheLabels) {
  const std::string tokenizer = vocabulary();
  schema::DataSpec columns = texts(DataFormat::kTsv, write("a.tsv", "x\tz\na bs\t1\nc\t2\n"), {"x"}, tokenizer, 6);
  columns.train.label.reset();
  schema::DataSpec lines = columns;
  lines.train = {.format = DataFormat::kLines, .path = write("a.txt", "a bs\n\n \t\nc\n")};
  for (const schema::DataSpec& spec : {columns, lines}) {
    const Data next = load(spec, 0, LabelsAs::kNextTokens);
    EXPECT_EQ(input_of(next.train), (std::vector<Row>{{2, 4, 5, 7, 3, 0}, {2, 6, 3, 0, 0, 0}}));
    EXPECT_EQ(classes_of(next.train), (LargeArray<int64_t>{4, 5, 7, 3, -100, -100, 6, 3, -100, -100, -100, -100}));
    EXPECT_EQ(next.encoding.token_labels, TokenLabels::kNext);
    EXPECT_EQ(next.encoding.outputs, 8);
    EXPECT_EQ(next.encoding.ignored_label, -100);
    EXPECT_EQ(Encoding::from_json(next.encoding.to_json()), next.encoding);
    const Data own = load(spec, 0, LabelsAs::kTokens);
    EXPECT_EQ(classes_of(own.train), (LargeArray<int64_t>{2, 4, 5, 7, 3, -100, 2, 6, 3, -100, -100, -100}));
    const Dataset again = load_encoded(spec.train, next.encoding, 0, "again", false, 0, spec.tokens);
    EXPECT_EQ(classes_of(again), classes_of(next.train));
  }
}

TEST_F(TokenRowsTest, CausalRowsEndWithTheEndTokenUnlessTheyAreCut) {
  const std::string tokenizer = write("tokenizer.json", R"({"model":{"type":"WordPiece","unk_token":"[UNK]",
    "continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"a":0,"b":1,"<|endoftext|>":2,"[UNK]":3}},
    "pre_tokenizer":{"type":"BertPreTokenizer"},"added_tokens":[{"id":2,"content":"<|endoftext|>","special":true,
    "single_word":false,"lstrip":false,"rstrip":false,"normalized":false}]})");
  schema::DataSpec spec;
  spec.train = {.format = DataFormat::kLines, .path = write("a.txt", "a b\na b a b\nb<|endoftext|>\n")};
  spec.tokens = schema::TokensSpec{.tokenizer = tokenizer, .max_length = 3};
  const Data data = load(spec, 0, LabelsAs::kNextTokens);
  EXPECT_EQ(input_of(data.train), (std::vector<Row>{{0, 1, 2}, {0, 1, 0}, {1, 2, 0}}));
  EXPECT_EQ(classes_of(data.train), (LargeArray<int64_t>{1, 2, -100, 1, 0, -100, 2, -100, -100}));
}

TEST_F(TokenRowsTest, MaskedRowsKeepTheirPadding) {
  const Masking all{.probability = 1};
  schema::DataSpec spec;
  spec.train = {.format = DataFormat::kLines, .path = write("a.txt", "a b\nc\n")};
  spec.tokens = schema::TokensSpec{.tokenizer = write("v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n")};
  const Data data = load(spec, 0, LabelsAs::kTokens, std::nullopt, nullptr, true, all);
  ASSERT_TRUE(data.train.is_masked());
  EXPECT_EQ(data.encoding.token_labels, TokenLabels::kOwn);
  const Row ids{0, 1};
  Row tokens(2 * 5), labels(2 * 5);
  data.train.gather_tokens(ids, tokens);
  data.train.gather_classes(ids, labels);
  data.train.mask({1, 0}, ids, tokens, labels);
  EXPECT_EQ(labels, (Row{-100, 5, 6, -100, -100, -100, 7, -100, -100, -100}));
  EXPECT_EQ((Row{tokens[0], tokens[3], tokens[4], tokens[7], tokens[8], tokens[9]}), (Row{2, 3, 0, 3, 0, 0}));
}

TEST_F(TokenRowsTest, QuotesInTsvAreText) {
  schema::DataSpec spec = texts(DataFormat::kTsv, write("q.tsv", "a \" b\tc\n\"a \" b\tc\na \" b\"\tc\n"), {});
  spec.train.text_columns = {{"", 0}};
  spec.train.label = schema::Column{"", 1};
  EXPECT_EQ(message_of([&] { load(spec, 0); }),
            "q.tsv:1: is the first row a header or data? set header: true or header: false");
  spec.train.header = schema::Header::kFalse;
  const Data data = load(spec, 0);
  EXPECT_EQ(data.train.size(), 3);
  EXPECT_EQ(data.train.storage().rows->length(0), 5);
  EXPECT_EQ(data.train.storage().rows->length(1), 6);
}

// Values of truncate_encodings() of Hugging Face's tokenizers.
TEST_F(TokenRowsTest, TruncatesLikeTheReference) {
  struct Case {
    size_t first, second;
    int64_t kept_first, kept_second;
  };
  for (const Case& each : {Case{7, 7, 3, 4}, {6, 5, 4, 3}, {9, 4, 4, 3}, {10, 3, 4, 3}, {2, 12, 2, 5}, {0, 12, 0, 7}}) {
    const std::string row = std::string(each.first, 'a') + "\t" + std::string(each.second, 'b') + "\t1\n";
    const Data data =
        load(texts(DataFormat::kTsv, write("t.tsv", "x\ty\tlabel\n" + row + "a\tb\t0\n"), {"x", "y"}, "bytes", 7), 0);
    const Row tokens = input_of(data.train)[0];
    EXPECT_EQ(std::ranges::count(tokens, 'a'), each.kept_first) << each.first;
    EXPECT_EQ(std::ranges::count(tokens, 'b'), each.kept_second) << each.first;
    EXPECT_EQ(data.train.storage().rows->truncated, 1);
    EXPECT_EQ(data.warnings, (std::vector<std::string>{"data.train: 1 of 2 rows was cut to 7 tokens"}));
  }
  schema::DataSpec spec =
      texts(DataFormat::kTsv, write("t.tsv", "x\ty\tlabel\naaaaaaaaa\tb\t1\n"), {"x", "y"}, "bytes", 7);
  spec.tokens->truncation = Truncation::kOnlySecond;
  EXPECT_EQ(message_of([&] { load(spec, 0); }).substr(0, 9), "t.tsv:2: ");
}

TEST_F(TokenRowsTest, SpecialTokensAreCounted) {
  const std::string path = write("s.tsv", "x\ty\tlabel\na bs\tc\t1.5\nb\ta b c\t-2\n");
  const Data data = load(texts(DataFormat::kTsv, path, {"x", "y"}, vocabulary(), 7), 0);
  EXPECT_EQ(input_of(data.train, 0), (std::vector<Row>{{2, 4, 5, 7, 3, 6, 3}, {2, 5, 3, 4, 5, 6, 3}}));
  EXPECT_EQ(input_of(data.train, 2), (std::vector<Row>{{0, 0, 0, 0, 0, 1, 1}, {0, 0, 0, 1, 1, 1, 1}}));
  EXPECT_EQ(targets_of(data.train), (LargeArray<float>{1.5, -2}));
  EXPECT_EQ(message_of([&] {
              load(texts(DataFormat::kTsv, path, {"x", "y"}, vocabulary(), 3), 0);
            }),
            "data.tokens.max_length is 3, but the tokenizer adds 3 special tokens to a pair");
}

TEST_F(TokenRowsTest, CharactersOfBothSectionsAreTheVocabulary) {
  schema::DataSpec spec = texts(DataFormat::kJsonl,
                                write("t.jsonl", R"({"x":"bé","label":1})"
                                                 "\n"),
                                {"x"}, "characters", 2);
  spec.eval = spec.train;
  spec.eval->path = write("e.jsonl", R"({"x":"ab","label":1})"
                                     "\n");
  const Data data = load(spec, 0);
  EXPECT_EQ(data.encoding.texts->characters, (std::vector<std::string>{"a", "b", "é"}));
  EXPECT_EQ(data.encoding.vocabulary, 3);
  EXPECT_EQ(input_of(data.train), (std::vector<Row>{{1, 2}}));
  EXPECT_EQ(input_of(*data.eval), (std::vector<Row>{{0, 1}}));
  const auto read = [&](const char* text) {
    schema::DatasetSpec other = spec.train;
    other.path = write("o.jsonl", text);
    return load_encoded(other, data.encoding, 0, "o.jsonl", true, 0, spec.tokens);
  };
  EXPECT_EQ(input_of(read(R"({"x":"éa"})")), (std::vector<Row>{{2, 0}}));
  EXPECT_EQ(message_of([&] { read(R"({"x":"q"})"); }),
            "o.jsonl: unknown character 'q': the model was not trained with it");
}

TEST_F(TokenRowsTest, ATokenizerThatHasChangedIsRefused) {
  const schema::DataSpec spec = texts(DataFormat::kTsv, write("c.tsv", "x\tlabel\na\t0\nb\t1\n"), {"x"}, vocabulary());
  const Data data = load(spec, 0);
  const auto read = [&] { load_encoded(spec.train, data.encoding, 0, "c.tsv", false, 0, spec.tokens); };
  read();
  write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nb\na\nc\n##s\n");
  const std::string changed = message_of(read);
  EXPECT_TRUE(
      changed.starts_with("vocab.txt of the tokenizer vocab.txt has changed since the run was trained: sha256 "))
      << changed;
  std::filesystem::remove(spec.tokens->tokenizer);
  EXPECT_EQ(message_of(read), "cannot open vocab.txt: No such file or directory");
  schema::TokensSpec bytes = *spec.tokens;
  bytes.tokenizer = "bytes";
  EXPECT_EQ(message_of([&] { load_encoded(spec.train, data.encoding, 0, "c.tsv", false, 0, bytes); }),
            "the run was trained with the tokenizer vocab.txt, but data.tokens.tokenizer is bytes");
}

TEST_F(TokenRowsTest, FaultsNameTheLine) {
  const auto message = [&](DataFormat format, const std::string& text) {
    const std::string path = write("f", text);
    return message_of([&] { load(texts(format, path, {"x"}, vocabulary()), 0); });
  };
  EXPECT_EQ(message(DataFormat::kTsv, "x\tlabel\na\t0\nb\n"), "f:3: expected 2 fields like the header, got 1");
  EXPECT_EQ(message(DataFormat::kTsv, "text\tlabel\na\t0\n"),
            "f:1: unknown column 'x'; the columns are 'text', 'label'");
  EXPECT_EQ(message(DataFormat::kJsonl, "{\"x\": \"a\", \"label\": 0}\n[1]\n"),
            "f:2: expected a JSON object, got '[1]'");
  EXPECT_EQ(message(DataFormat::kJsonl, "{\"x\": \"a\\\\ud800 \\ud83d\\ude00 \\ud800\\u0041\", \"label\": 0}\n"),
            "f:1: \\ud800 is one half of a surrogate pair: expected both, such as \\ud83d\\ude00; the text was cut "
            "within a character");
  EXPECT_EQ(message(DataFormat::kJsonl, "{\"x\": \"\\uDE00\", \"label\": 0}\n").substr(0, 38),
            "f:1: \\uDE00 is one half of a surrogate");
  EXPECT_EQ(message(DataFormat::kJsonl, "{\"x\": \"a\", \"label\": 0}\n{\"x\": \"a\", \"label\": 0, \"x\": \"b\"}\n"),
            "f:2: the object has the member 'x' twice; remove one");
  EXPECT_EQ(
      message(DataFormat::kJsonl, std::string("{\"x\": \"a\0\"}\n", 12)),
      "f:1: byte 8 of the line is NUL (0x00): the file is damaged, or is UTF-16 text that must be saved as UTF-8");
  EXPECT_EQ(message(DataFormat::kJsonl, "{\"y\": \"a\", \"label\": 0}\n"),
            "f:1: the object has no member 'x'; did you mean 'y'?");
  EXPECT_EQ(message(DataFormat::kJsonl, "{\"text\\nof\": \"a\", \"label\": 0}\n"),
            "f:1: the object has no member 'x'; it has 'text\\x0aof', 'label'");
  EXPECT_EQ(message(DataFormat::kJsonl, "{\"x\": 3, \"label\": 0}\n"), "f:1: 'x': expected a text, got 3");
  EXPECT_EQ(message(DataFormat::kJsonl, "{\"x\": \"a\", \"label\": null}\n"),
            "f:1: the label 'label' has no value; set missing: drop");
  EXPECT_EQ(message(DataFormat::kTsv, "x\tlabel\na\xff\t0\n").substr(0, 5), "f:2: ");
}

TEST_F(TokenRowsTest, PredictKeepsRowsThatCannotBeUsed) {
  const schema::DataSpec spec = texts(DataFormat::kTsv, write("p.tsv", "x\tlabel\na\t0\nb\t1\n"), {"x"}, vocabulary());
  const Data data = load(spec, 0);
  schema::DatasetSpec other = spec.train;
  other.path = write("o.tsv", "x\na\n\xff\nb\n");
  const Dataset set = load_encoded(other, data.encoding, 0, "o.tsv", true, 0, spec.tokens);
  EXPECT_EQ(set.size(), 3);
  ASSERT_EQ(set.storage().rejected.size(), 1u);
  EXPECT_EQ(set.storage().rejected[0].row, 1);
  EXPECT_EQ(input_of(set)[2], input_of(data.train)[1]);
}

TEST_F(TokenRowsTest, LabelsMayBeDropped) {
  schema::DataSpec spec =
      texts(DataFormat::kJsonl, write("d.jsonl", "{\"x\":\"a\"}\n{\"x\":\"b\",\"label\":true}\n"), {"x"});
  spec.train.missing = schema::Missing::kDrop;
  const Data data = load(spec, 0);
  EXPECT_EQ(data.train.size(), 1);
  EXPECT_EQ(data.train.file_row(0), 1);
  EXPECT_EQ(data.encoding.classes(), (std::vector<std::string>{"true"}));
}

TEST(PaddedLength, OfEachKind) {
  for (const auto& [longest, bucket] : std::map<int64_t, int64_t>{{1, 16}, {16, 16}, {17, 32}, {65, 100}, {100, 100}}) {
    EXPECT_EQ(padded_length(TokenPadding::kLongest, longest, 100), longest);
    EXPECT_EQ(padded_length(TokenPadding::kMaxLength, longest, 100), 100);
    EXPECT_EQ(padded_length(TokenPadding::kBucket, longest, 100), bucket);
  }
  EXPECT_EQ(padded_length(TokenPadding::kLongest, 0, 100), 1);
}

// Every batch has the length of the longest sample of its step on any rank, and its samples as in the file: computed
// from the plan and the file, sample by sample. A loader that starts later yields the same batches.
TEST_F(TokenRowsTest, BatchesAreAsLongAsTheLongestSampleOfTheStep) {
  constexpr int64_t kSamples = 23, kMost = 40;
  std::string file = "x\tlabel\n";
  std::vector<std::string> rows;
  for (int64_t i = 0; i < kSamples; ++i) {
    rows.emplace_back(static_cast<size_t>(1 + i * 7 % 31), static_cast<char>('a' + i));
    file += fmt::format("{}\t{}\n", rows.back(), i % 2);
  }
  schema::DataSpec spec = texts(DataFormat::kTsv, write("b.tsv", file), {"x"}, "bytes", kMost);
  for (const TokenPadding padding : {TokenPadding::kLongest, TokenPadding::kBucket, TokenPadding::kMaxLength}) {
    spec.tokens->padding = padding;
    const Data data = load(spec, 0);
    for (const int64_t ranks : {1, 2, 3}) {
      const DataPlan plan({.samples = kSamples, .batch_size = 4, .processes = ranks});
      for (int64_t rank = 0; rank < ranks; ++rank) {
        Loader loader(data.train, plan, {.seed = 5, .rank = rank});
        Loader later(data.train, plan, {.seed = 5, .rank = rank, .from = {.epoch = 1, .step = 1}});
        Order order(kSamples, 5, true);
        for (int64_t step = 0; step < 2 * plan.steps_per_epoch(); ++step) {
          const Position at{step / plan.steps_per_epoch(), step % plan.steps_per_epoch()};
          order.set_epoch(at.epoch);
          int64_t longest = 0;
          for (int64_t r = 0; r < ranks; ++r)
            for (int64_t i = 0; i < plan.slice(r, at.step).size(); ++i)
              longest =
                  std::max(longest, std::ssize(rows[static_cast<size_t>(order[plan.slice(r, at.step).position(i)])]));
          const int64_t length = padded_length(padding, longest, kMost);
          const Batch& batch = loader.next();
          EXPECT_EQ(batch.length, padding == TokenPadding::kMaxLength ? 0 : length);
          Row tokens, mask;
          for (const int64_t id : batch.ids) {
            const std::string& row = rows[static_cast<size_t>(id)];
            for (int64_t i = 0; i < length; ++i) {
              tokens.push_back(i < std::ssize(row) ? row[static_cast<size_t>(i)] : 0);
              mask.push_back(i < std::ssize(row));
            }
          }
          EXPECT_TRUE(std::ranges::equal(batch.tokens(), tokens));
          EXPECT_TRUE(std::ranges::equal(values_of<int64_t>(batch.inputs[1]), mask));
          if (at.epoch == 0 || at.step == 0) continue;
          const Batch& same = later.next();
          EXPECT_EQ(same.length, batch.length);
          EXPECT_TRUE(std::ranges::equal(same.tokens(), batch.tokens()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace runner::data
