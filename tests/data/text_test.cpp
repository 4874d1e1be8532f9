// Compares text data with strings split by hand: samples and labels, vocabularies, splits, streams, and rejected files.
#include "runner/data/text.h"

#include <filesystem>
#include <set>

#include "runner/data/load.h"
#include "runner/data/loader.h"
#include "runner/formats/npy.h"
#include "schema/base/error.h"
#include "tests/data/batches.h"
#include "tests/data/files.h"

namespace runner::data {
namespace {

using Characters = std::vector<std::string>;

// Splits UTF-8 at each byte that begins a character.
Characters characters_of(const std::string& text) {
  Characters characters;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) characters.emplace_back();
    characters.back() += c;
  }
  return characters;
}

class TextTest : public FileTest {
 protected:
  static schema::DatasetSpec spec_of(const std::string& path, int64_t length) {
    schema::DatasetSpec spec;
    spec.format = schema::DataFormat::kText;
    spec.path = path;
    spec.sequence_length = length;
    return spec;
  }
  Data data_of(const std::string& text, int64_t length) {
    schema::DataSpec spec;
    spec.train = spec_of(write("x.txt", text), length);
    return load(spec, 0);
  }

  // Returns features and labels of a sample as characters.
  static std::pair<std::string, std::string> sample(const Data& data, const Dataset& set, int64_t id) {
    const auto width = static_cast<size_t>(set.label_width());
    std::vector<int64_t> tokens(width), classes(width);
    set.gather_tokens(std::vector{id}, tokens);
    set.gather_classes(std::vector{id}, classes);
    std::pair<std::string, std::string> text;
    for (size_t i = 0; i < width; ++i) {
      text.first += data.encoding.class_names.at(static_cast<size_t>(tokens[i]));
      text.second += data.encoding.class_names.at(static_cast<size_t>(classes[i]));
    }
    return text;
  }
};

TEST_F(TextTest, LabelsAreTheNextTokens) {
  const Data data = data_of("hello world", 4);
  EXPECT_EQ(data.train.size(), 2);
  EXPECT_EQ(data.encoding.class_names, (Characters{" ", "d", "e", "h", "l", "o", "r", "w"}));  // sorted, as in nanoGPT
  EXPECT_EQ(data.encoding.outputs, 8);
  EXPECT_EQ(data.encoding.sequence, 4);
  EXPECT_EQ(sample(data, data.train, 0), (std::pair<std::string, std::string>("hell", "ello")));
  EXPECT_EQ(sample(data, data.train, 1), (std::pair<std::string, std::string>("o wo", " wor")));
  EXPECT_EQ(Encoding::from_json(data.encoding.to_json()), data.encoding);
}

TEST_F(TextTest, YieldsAllCompleteSamplesForEveryLengthAndStride) {
  const std::string text = "Ünïcödé → 3 €, 𝄞!";
  const Characters characters = characters_of(text);
  for (int64_t length = 1; length < std::ssize(characters); ++length) {
    for (int64_t stride = 1; stride <= 20; ++stride) {
      schema::DataSpec spec;
      spec.train = spec_of(write("x.txt", text), length);
      spec.train.stride = stride;
      const Data data = load(spec, 0);
      int64_t count = 0;
      for (int64_t start = 0; start + length + 1 <= std::ssize(characters); start += stride, ++count) {
        std::string features, labels;
        for (int64_t i = start; i < start + length; ++i) {
          features += characters[static_cast<size_t>(i)];
          labels += characters[static_cast<size_t>(i + 1)];
        }
        ASSERT_LT(count, data.train.size());
        EXPECT_EQ(sample(data, data.train, count), (std::pair(features, labels)));
      }
      EXPECT_EQ(data.train.size(), count);
    }
  }
}

TEST_F(TextTest, ByteTokenIdsAreByteValues) {
  schema::DataSpec spec;
  spec.train = spec_of(write("x.bin", std::string("\x00\xFF\x80"
                                                  "a\n",
                                                  5)),
                       2);
  spec.train.tokens = "bytes";
  const Data data = load(spec, 0);
  EXPECT_EQ(data.train.size(), 2);
  EXPECT_EQ(data.encoding.outputs, 256);
  EXPECT_TRUE(data.encoding.class_names.empty());
  std::vector<int64_t> tokens(4), classes(4);
  data.train.gather_tokens(std::vector<int64_t>{0, 1}, tokens);
  data.train.gather_classes(std::vector<int64_t>{0, 1}, classes);
  EXPECT_EQ(tokens, (std::vector<int64_t>{0, 255, 128, 97}));
  EXPECT_EQ(classes, (std::vector<int64_t>{255, 128, 97, 10}));
}

TEST_F(TextTest, EvalDataSharesTheVocabulary) {
  schema::DataSpec spec;
  spec.train = spec_of(write("a.txt", "abcabcabc"), 2);
  spec.eval = spec_of(write("b.txt", "cbzcbz"), 2);
  const Data data = load(spec, 0);
  EXPECT_EQ(data.encoding.class_names, (Characters{"a", "b", "c", "z"}));
  EXPECT_EQ(sample(data, *data.eval, 0), (std::pair<std::string, std::string>("cb", "bz")));
  EXPECT_EQ(sample(data, data.train, 1), (std::pair<std::string, std::string>("ca", "ab")));
  // Files read later must use the same vocabulary.
  const Dataset later = load_encoded(spec_of(write("c.txt", "zzb"), 2), data.encoding, 0, "data");
  EXPECT_EQ(sample(data, later, 0), (std::pair<std::string, std::string>("zz", "zb")));
  EXPECT_EQ(message_of([&] { load_encoded(spec_of(write("d.txt", "zzq"), 2), data.encoding, 0, "data"); }),
            "data: unknown character 'q': the model was not trained with it");
}

TEST_F(TextTest, SplitHoldsOutTheEnd) {
  schema::DataSpec spec;
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>('0' + i % 10);
  text[95] = 'x';  // occurs only in the eval part, but is in the vocabulary
  spec.train = spec_of(write("x.txt", text), 3);
  spec.split = schema::SplitSpec{0.1};
  const Data data = load(spec, 0);
  EXPECT_EQ(data.train.size(), 29);  // from 90 characters
  EXPECT_EQ(data.eval->size(), 3);   // from 10 characters
  EXPECT_EQ(data.encoding.outputs, 11);
  EXPECT_EQ(sample(data, data.train, 28), (std::pair<std::string, std::string>("456", "567")));
  EXPECT_EQ(sample(data, *data.eval, 0), (std::pair<std::string, std::string>("012", "123")));
  EXPECT_EQ(sample(data, *data.eval, 2), (std::pair<std::string, std::string>("678", "789")));
  spec.split = schema::SplitSpec{0.01};
  EXPECT_EQ(message_of([&] { load(spec, 0); }),
            "data.split.eval: 0.01 of the 100 tokens of x.txt leaves one part without a sample of 3 tokens");
}

TEST_F(TextTest, FingerprintsDiffer) {
  const auto print = [&](const std::string& text, int64_t length) {
    return data_of(text, length).train.fingerprint().to_string();
  };
  EXPECT_EQ(print("abcabcabc", 2), print("abcabcabc", 2));
  std::set<std::string> prints{print("abcabcabc", 2), print("abcabcabd", 2), print("xyzxyzxyz", 2),
                               print("abcabcabc", 4)};
  EXPECT_EQ(prints.size(), 4u);
}

// A text long enough to have recorded positions (StreamedFile::places), with characters of 1 to 4 bytes.
std::string long_text() {
  const Characters alphabet{"a", "b", "é", "→", "𝄞", "\n", "z"};
  std::string text;
  uint32_t state = 1;
  for (int i = 0; i < 150'000; ++i) {
    state = state * 1664525 + 1013904223;
    text += alphabet[(state >> 24) % alphabet.size()];
  }
  return text;
}

TEST_F(TextTest, StreamYieldsTheSameAsMemory) {
  const std::string text = long_text();
  for (const char* name : {"x.txt", "x.txt.gz"}) {
    const bool zipped = std::string(name).ends_with("gz");
    const std::string path = write(name, zipped ? gzip(text) : text);
    for (const auto& [length, stride, tokens] : {std::tuple(5, 5, "characters"), std::tuple(5, 2, "characters"),
                                                 std::tuple(5, 9, "characters"), std::tuple(16, 16, "bytes")}) {
      schema::DataSpec spec;
      spec.train = spec_of(path, length);
      spec.train.stride = stride;
      spec.train.tokens = tokens;
      const Data held = load(spec, 0);
      spec.stream = true;
      spec.shuffle_buffer = 100;
      const Data streamed = load(spec, 0);
      ASSERT_EQ(streamed.train.size(), held.train.size());
      EXPECT_EQ(streamed.encoding, held.encoding);
      const DataPlan plan({.samples = held.train.size(), .batch_size = 64, .processes = 2});
      Order order(held.train.size(), 4, true, 100);
      order.set_epoch(0);
      const auto check = [&](const Copy& batch) {
        const auto width = static_cast<size_t>(spec.train.sequence_length);
        std::vector<int64_t> tokens_held(batch.ids.size() * width), classes(batch.ids.size() * width);
        held.train.gather_tokens(batch.ids, tokens_held);
        held.train.gather_classes(batch.ids, classes);
        EXPECT_EQ(tokens_of(batch), tokens_held);
        EXPECT_EQ(batch.classes, classes);
      };
      for (const int64_t rank : {0, 1}) {
        Loader whole(streamed.train, plan, {.seed = 4, .rank = rank});
        const std::vector<Copy> all = take(whole, plan.steps_per_epoch());
        for (const Copy& batch : all) {
          const Slice slice = plan.slice(rank, batch.position.step);
          for (int64_t i = 0; i < slice.size(); ++i)
            ASSERT_EQ(batch.ids[static_cast<size_t>(i)], order[slice.position(i)]);
          check(batch);
        }
        // Resume far from the start.
        for (const int64_t step : {int64_t{1}, plan.steps_per_epoch() / 2, plan.steps_per_epoch() - 1}) {
          Loader later(streamed.train, plan, {.seed = 4, .rank = rank, .from = {0, step}});
          EXPECT_EQ(take(later, 1)[0], all[static_cast<size_t>(step)]);
        }
      }
    }
  }
}

TEST_F(TextTest, StreamRejectsAModifiedFile) {
  const std::string path = write("x.txt", "abcdefghij");
  schema::DataSpec spec;
  spec.train = spec_of(path, 3);
  spec.stream = true;
  const Data data = load(spec, 0);
  const auto time = std::filesystem::last_write_time(path);
  write("x.txt", "abcdefgXij");  // a character that is not in the vocabulary
  std::filesystem::last_write_time(path, time);
  Loader loader(data.train, DataPlan({.samples = 3, .batch_size = 3}), {.shuffle = false, .prefetch = 0});
  EXPECT_EQ(message_of([&] { loader.next(); }),
            "x.txt has changed since its samples were counted; a stream reads the file again in every epoch: do not "
            "change it during the run, or set data.stream to false");
}

// eval takes no KEY=VALUE.
TEST_F(TextTest, RemediesChangeTheFileWhereNoKeyCanBeSet) {
  const Data data = data_of("abcdefghij", 3);
  for (const int64_t buffer : {0, 2}) {
    const auto refusal = [&](std::string_view text) {
      return message_of(
          [&] { load_encoded(spec_of(write("y.txt", text), 3), data.encoding, 0, "y.txt", false, buffer); });
    };
    EXPECT_EQ(refusal("abcd\xFF"), "y.txt: byte 4 is 0xff, which is not valid UTF-8; save the file as UTF-8");
    EXPECT_EQ(refusal(std::string_view("abcd\0e", 6)),
              "y.txt: byte 4 is NUL (0x00): the file is damaged, no text, or UTF-16 text that must be saved as UTF-8; "
              "expected UTF-8 text");
  }
  const std::string path = write("y.txt", "abcde");
  const Dataset streamed = load_encoded(spec_of(path, 3), data.encoding, 0, "y.txt", false, 2);
  write("y.txt", "abc");
  Loader loader(streamed, DataPlan({.samples = 1, .batch_size = 1}), {.shuffle = false, .prefetch = 0});
  EXPECT_EQ(message_of([&] { loader.next(); }),
            "y.txt has changed since its samples were counted; do not change the file while it is read");
}

TEST_F(TextTest, AByteOrderMarkIsNoToken) {
  const std::string text = "hello world, hello words";
  const Data plain = data_of(text, 4), marked = data_of("\xEF\xBB\xBF" + text, 4);
  EXPECT_EQ(marked.encoding, plain.encoding);
  EXPECT_EQ(marked.train.fingerprint(), plain.train.fingerprint());
  schema::DataSpec spec;
  spec.stream = true;
  spec.train = spec_of(write("plain.txt", text), 4);
  const Fingerprint streamed = load(spec, 0).train.fingerprint();
  spec.train = spec_of(write("marked.txt", "\xEF\xBB\xBF" + text), 4);
  EXPECT_EQ(load(spec, 0).train.fingerprint(), streamed);
  spec.train.tokens = "bytes";
  EXPECT_EQ(load(spec, 0).train.size(), plain.train.size() + 1);
}

TEST_F(TextTest, RejectsUnreadableText) {
  const auto message = [&](const std::string& text, int64_t length, bool bytes = false, bool stream = false) {
    schema::DataSpec spec;
    spec.train = spec_of(write("x.txt", text), length);
    if (bytes) spec.train.tokens = "bytes";
    spec.stream = stream;
    return message_of([&] { load(spec, 0); });
  };
  const std::string note = "";
  for (const bool stream : {false, true}) {
    EXPECT_EQ(message("abc\xFF"
                      "def",
                      2, false, stream),
              "x.txt: byte 3 is 0xff, which is not valid UTF-8; set `tokens: bytes` to read any file");
    EXPECT_EQ(message(std::string("\xFF\xFE"
                                  "a\0b\0",
                                  6),
                      2, false, stream),
              "x.txt is UTF-16 text; save it as UTF-8");
    EXPECT_EQ(message("abc\xE2\x82", 2, false, stream),
              "x.txt: byte 3 is 0xe2, which is not valid UTF-8; set `tokens: bytes` to read any file");
    EXPECT_EQ(message(std::string("abc\0def", 7), 2, false, stream),
              "x.txt: byte 3 is NUL (0x00): the file is damaged, no text, or UTF-16 text that must be saved as UTF-8; "
              "set `tokens: bytes` to read any file");
    EXPECT_EQ(message(std::string("abc\0def", 7), 2, true, stream), note);
    EXPECT_EQ(message("", 2, false, stream),
              "x.txt has 0 characters, but a sample of sequence_length 2 and its labels need 3");
    EXPECT_EQ(message("né", 2, false, stream),
              "x.txt has 2 characters, but a sample of sequence_length 2 and its labels need 3");
    EXPECT_EQ(message("é", 2, true, stream),
              "x.txt has 2 bytes, but a sample of sequence_length 2 and its labels need 3");
  }
  schema::DataSpec mixed;
  mixed.train = spec_of(write("x.txt", "abcdef"), 2);
  mixed.eval = csv_spec(write("y.csv", "a,b,l\n1,2,0\n"));
  EXPECT_EQ(message_of([&] { load(mixed, 0); }), "data.eval is not text, but the training data is");
  std::swap(mixed.train, *mixed.eval);
  EXPECT_EQ(message_of([&] { load(mixed, 0); }), "data.eval is text, but the training data is not");
}

// ---- tokenizers and token ids ---------------------------------------------------------------------------------------

// All tokens of a data set whose samples do not overlap, from its samples and the last label.
std::vector<int64_t> tokens_of(const Dataset& set) {
  const auto width = static_cast<size_t>(set.label_width());
  std::vector<int64_t> all;
  for (int64_t id = 0; id < set.size(); ++id) {
    std::vector<int64_t> tokens(width), labels(width);
    set.gather_tokens(std::vector{id}, tokens);
    set.gather_classes(std::vector{id}, labels);
    if (id == 0) all.push_back(tokens[0]);
    EXPECT_EQ(all.back(), tokens[0]);
    for (size_t i = 1; i < width; ++i) EXPECT_EQ(labels[i - 1], tokens[i]);
    all.insert(all.end(), labels.begin(), labels.end());
  }
  return all;
}

class DocumentsTest : public TextTest {
 protected:
  // Words a, b, c have the ids 4, 5, 6; the end token [SEP] has 3.
  std::string vocabulary() { return write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n"); }
};

TEST_F(DocumentsTest, AreJoinedByTheEndToken) {
  schema::DataSpec spec;
  spec.train = spec_of(write("x.txt", "a b\n--\nc c\n--\n--\na"), 1);
  spec.train.tokens = vocabulary();
  spec.train.document_separator = "--\n";
  const Data data = load(spec, 0);
  EXPECT_EQ(tokens_of(data.train), (std::vector<int64_t>{4, 5, 3, 6, 6, 3, 4}));
  EXPECT_EQ(data.encoding.vocabulary, 7);
  EXPECT_EQ(data.encoding.outputs, 7);
  EXPECT_EQ(Encoding::from_json(data.encoding.to_json()), data.encoding);
  write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nb\na\nc\n");
  EXPECT_NE(message_of([&] { load_encoded(spec.train, data.encoding, 0, "x.txt"); }).find("has changed"),
            std::string::npos);
}

TEST_F(DocumentsTest, ByteOrderMarksAreSkippedAndUtf16AndNulRefused) {
  schema::DataSpec spec;
  spec.train = spec_of(path("x.txt"), 1);
  spec.train.tokens = vocabulary();
  write("x.txt",
        "\xEF\xBB\xBF"
        "a b");
  EXPECT_EQ(tokens_of(load(spec, 0).train), (std::vector<int64_t>{4, 5}));
  write("x.txt", std::string_view("\xFF\xFE"
                                  "a\0",
                                  4));
  EXPECT_EQ(message_of([&] { load(spec, 0); }), "x.txt is UTF-16 text; save it as UTF-8");
  write("x.txt", std::string_view("a b\0", 4));
  EXPECT_EQ(message_of([&] { load(spec, 0); }),
            "x.txt: byte 3 is NUL (0x00): the file is damaged, or is UTF-16 text that must be saved as UTF-8");
}

TEST_F(DocumentsTest, NeedATokenBetweenThem) {
  schema::DataSpec spec;
  spec.train = spec_of(write("x.txt", "a a--a a"), 1);
  spec.train.tokens = write("t.json", R"({"model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1}},
                                          "pre_tokenizer": {"type": "BertPreTokenizer"}})");
  EXPECT_EQ(tokens_of(load(spec, 0).train), (std::vector<int64_t>{1, 1, 0, 0, 1, 1}));
  spec.train.document_separator = "--";
  EXPECT_EQ(
      message_of([&] { load(spec, 0); }),
      "x.txt: the tokenizer t.json has no end token to put between documents; expected <|endoftext|>, </s>, <eos> "
      "or [SEP]");
}

TEST_F(DocumentsTest, AFolderOrPatternHasSeveral) {
  const std::string first = write("t1.txt", "b"), vocab = vocabulary();
  const std::filesystem::path folder = std::filesystem::path(first).parent_path() / "texts";
  std::filesystem::create_directories(folder / "more");
  write("texts/b.txt", "b b");
  write("texts/a.txt", "a");
  write("texts/more/c.md", "c");
  write("texts/.hidden", "a a a");
  const auto read = [&](const std::string& path, const std::string& tokens) {
    schema::DataSpec spec;
    spec.train = spec_of(path, 1);
    spec.train.tokens = tokens;
    return load(spec, 0);
  };
  EXPECT_EQ(tokens_of(read(folder.string(), vocab).train), (std::vector<int64_t>{4, 3, 5, 5, 3, 6}));
  EXPECT_EQ(tokens_of(read((folder / "*.txt").string(), vocab).train), (std::vector<int64_t>{4, 3, 5, 5}));
  EXPECT_EQ(tokens_of(read((folder / "*.txt").string(), "bytes").train), (std::vector<int64_t>{'a', 'b', ' ', 'b'}));
  EXPECT_EQ(read(folder.string(), vocab).files.size(), 4u);
  EXPECT_EQ(message_of([&] { read((folder / "*.csv").string(), "bytes"); }), "texts/*.csv: no file matches");
}

TEST_F(DocumentsTest, ATokenFileThatIsTruncatedIsReported) {
  schema::DataSpec spec;
  spec.train = spec_of(write("t.bin", std::string(4000, '\1')), 8);
  spec.train.tokens = "ids";
  spec.train.vocabulary = 300;
  const Data data = load(spec, 0);
  std::filesystem::resize_file(spec.train.path, 100);
  EXPECT_EQ(message_of([&] { tokens_of(data.train); }),
            "t.bin has changed since it was loaded: it ends at byte 100; do not change data while they are used");
}

TEST_F(DocumentsTest, TokenIdsStayInTheirFile) {
  std::vector<uint16_t> ids;
  for (int i = 0; i < 41; ++i) ids.push_back(static_cast<uint16_t>(i * 1000 % 50001));
  const std::vector<int64_t> expected(ids.begin(), ids.end());
  const std::string raw(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0]));
  std::string wide, word;
  for (const int64_t id : expected) {
    wide.append(reinterpret_cast<const char*>(&id), sizeof(id));
    word.append(reinterpret_cast<const char*>(&id), sizeof(int32_t));  // little-endian
  }
  const auto npy = [&](const char* type, const std::string& elements) {
    const int64_t shape[] = {41};
    return formats::npy_header(type, shape) + elements;
  };
  for (const std::string& path :
       {write("t.bin", raw), write("u2.npy", npy("<u2", raw)), write("i4.npy", npy("<i4", word)),
        write("u4.npy", npy("<u4", word)), write("i8.npy", npy("<i8", wide)), write("u8.npy", npy("<u8", wide))}) {
    SCOPED_TRACE(path);
    schema::DataSpec spec;
    spec.train = spec_of(path, 8);
    spec.train.tokens = "ids";
    spec.train.vocabulary = 50001;
    const Data data = load(spec, 0);
    EXPECT_EQ(tokens_of(data.train), expected);
    EXPECT_EQ(data.encoding.outputs, 50001);
    spec.split = schema::SplitSpec{.eval = 0.5};
    const Data parts = load(spec, 0);
    EXPECT_EQ(tokens_of(parts.train), std::vector(expected.begin(), expected.begin() + 17));
    EXPECT_EQ(tokens_of(*parts.eval), std::vector(expected.begin() + 20, expected.begin() + 37));
    EXPECT_NE(parts.train.fingerprint().contents, parts.eval->fingerprint().contents);
    spec.train.vocabulary = 30000;
    EXPECT_EQ(message_of([&] { load(spec, 0); }),
              std::filesystem::path(path).filename().string() +
                  ": token 30 is 30000, but vocabulary is 30000: ids are from 0 to 29999");
  }
  const auto refused = [&](const std::string& path) {
    schema::DataSpec spec;
    spec.train = spec_of(path, 8);
    spec.train.tokens = "ids";
    spec.train.vocabulary = 10;
    return message_of([&] { load(spec, 0); }).substr(std::filesystem::path(path).filename().string().size());
  };
  const int64_t matrix[] = {41, 1};
  EXPECT_EQ(refused(write("two.npy", formats::npy_header("<u2", matrix) + raw)),
            ": token ids have 2 axes; expected one");
  // 50000 is negative in 16 bits.
  EXPECT_EQ(refused(write("i2.npy", npy("<i2", std::string("\x50\xC3", 2) + raw.substr(2)))),
            ": token 0 is -15536, but vocabulary is 10: ids are from 0 to 9");
  EXPECT_EQ(refused(write("t.bin", std::string("\x1F\x8B\x08\0\0\0\0\0\0\0", 10))),
            ": token ids must not be compressed: the file is not read into memory");
  EXPECT_EQ(refused(write("odd.bin", "abc")), " has 3 bytes, which is no number of 16-bit token ids");
  EXPECT_EQ(refused(write("empty.bin", "")), " has no tokens");
  EXPECT_EQ(refused(write("f4.npy", npy("<f4", raw + raw))),
            ": token ids have the type '<f4'; expected <u2, <i2, <u4, <i4, <u8 or <i8");
  EXPECT_EQ(refused(write("short.npy", npy("<u2", raw.substr(2)))),
            ": ends after " + std::to_string(npy("<u2", raw).size() - 2) + " bytes, but 41 tokens are expected");
}

// A text that is not there yet has as many samples as the recipe says, and no tokenizer.
TEST_F(DocumentsTest, CanBePlanned) {
  schema::DataSpec spec;
  spec.train = spec_of(path("later.txt"), 3);
  spec.train.tokens = path("later");
  spec.train.vocabulary = 7;
  spec.train.planned_samples = 10;
  for (const std::optional<Masking>& masking : {std::optional<Masking>(), std::optional(Masking())}) {
    const Data data = load(spec, 0, LabelsAs::kAuto, std::nullopt, nullptr, true, masking);
    EXPECT_EQ(data.train.size(), 10);
    EXPECT_EQ(data.encoding.vocabulary, 7);
    EXPECT_EQ(data.encoding.masking, masking);
    EXPECT_EQ(data.warnings,
              std::vector{fmt::format("data.train: {} does not exist; planned for 10 samples by planned_samples",
                                      path("later.txt"))});
    Loader loader(data.train, DataPlan({.samples = 10, .batch_size = 4}), {});
    EXPECT_EQ(loader.next().tokens().size(), 12U);
  }
  spec.split.emplace().eval = 0.3;
  EXPECT_EQ(load(spec, 0).eval->size(), 2);
  // A run reads the files, which must have the vocabulary that was planned.
  schema::Recipe recipe;
  recipe.data = spec;
  EXPECT_EQ(load(recipe, nullptr, true, WithoutFiles::kPlan).train.size(), 7);
  EXPECT_NE(message_of([&] { load(recipe); }).find("cannot open"), std::string::npos);
  recipe.data.train.path = write("later.txt", "a b c a b c a b c a b c a b c a b c a b c a b c");
  recipe.data.train.tokens = vocabulary();
  EXPECT_EQ(load(recipe, nullptr, true, WithoutFiles::kPlan).train.size(), 5);
  recipe.data.train.vocabulary = 8;
  EXPECT_EQ(message_of([&] { load(recipe); }), "later.txt: vocabulary is 8, but the tokenizer vocab.txt has 7 tokens");
}

}  // namespace
}  // namespace runner::data
