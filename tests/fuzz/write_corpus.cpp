// Regenerates tests/fuzz/corpus from the valid inputs of each reader's tests. Usage: fuzz_write_corpus FOLDER.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backends/ir/program_bytes.h"
#include "runner/formats/npy.h"
#include "runner/text/piece_model.h"
#include "tests/backends/support/random_program.h"
#include "tests/formats/files.h"
#include "tests/schema/case_file.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace {

namespace fs = std::filesystem;
using runner::formats::bytes_of;
using runner::formats::gzip;
using runner::schema::testing::Case;
using runner::support::read_text;
using runner::support::write_text;

class Corpus {
 public:
  Corpus(const fs::path& root, const std::string& name) : folder_(root / name) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void add(const std::string& bytes) { write_text(folder_ / fmt::format("{:02}", count_++), bytes); }

 private:
  fs::path folder_;
  int count_ = 0;
};

// The cases that need neither another file nor the environment.
void write_recipes(Corpus corpus) {
  for (const std::string& path : runner::schema::testing::case_files()) {
    for (const Case& c : runner::schema::testing::read_cases(path)) {
      if (c.expects_errors || !c.files.empty() || !c.environment.empty()) continue;
      std::string text = c.recipe;
      for (size_t i = 0; i < c.overrides.size(); ++i) text += (i == 0 ? "\n==\n" : "\n") + c.overrides[i];
      corpus.add(text);
    }
  }
  for (const char* name : {"digits", "regression", "wine"}) {
    corpus.add(read_text(fmt::format("{}/recipes/{}.yaml", runner::support::source_path(), name)));
  }
}

void write_npy(Corpus corpus) {
  const auto file = [](const char* descr, std::vector<int64_t> shape, const std::string& elements) {
    return runner::formats::npy_header(descr, shape) + elements;
  };
  corpus.add(file("<f4", {3, 2}, bytes_of<float>({1, 2, 3, 4, 5, 6.5})));
  corpus.add(file(">f8", {2, 1, 2}, bytes_of<double>({1, 2, 3, 1e30}, true)));
  corpus.add(file("<f8", {4}, bytes_of<double>({0.5, 1.5, -2, 8})));
  corpus.add(file("<i4", {4}, bytes_of<int32_t>({0, 1, 2, 1})));
  corpus.add(file("<i8", {3}, bytes_of<int64_t>({2, 0, 1})));
  corpus.add(file("|u1", {2, 4}, "abcdefgh"));
  corpus.add(gzip(file("<i8", {3}, bytes_of<int64_t>({2, 0, 1}))));
  corpus.add(
      runner::formats::npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }\n", std::string(24, '?')));
  corpus.add(runner::formats::npy("{'shape': (2,), 'fortran_order': False, 'descr': '=u1'}", "ab", 2));
}

void write_idx(Corpus corpus) {
  const auto file = [](char type, const std::vector<int32_t>& shape, const std::string& elements) {
    return std::string{0, 0, type, static_cast<char>(shape.size())} + bytes_of(shape, true) + elements;
  };
  corpus.add(file(0x08, {3, 2, 2}, "abcdefghijkl"));
  corpus.add(file(0x08, {4}, std::string("\0\1\2\1", 4)));
  corpus.add(file(0x09, {3}, std::string("\0\1\2", 3)));
  corpus.add(file(0x0b, {2, 2}, bytes_of<int16_t>({1, -2, 300, 4}, true)));
  corpus.add(file(0x0c, {3}, bytes_of<int32_t>({0, 1, 2}, true)));
  corpus.add(file(0x0d, {2, 3}, bytes_of<float>({1, 2.5, -3, 4, 5, 1e30F}, true)));
  corpus.add(file(0x0e, {2}, bytes_of<double>({1, -0.25}, true)));
  corpus.add(gzip(file(0x08, {3, 2, 2}, "abcdefghijkl")));
}

void write_cifar(Corpus corpus) {
  const std::string image(3072, 'x');
  corpus.add("\1" + image + "\2" + image);
  corpus.add("\t" + std::string(3072, '\xff'));
  corpus.add("\1\2" + image + "\3\x63" + image);
  corpus.add(gzip("\1\2" + image));
  corpus.add(gzip("\1" + image + "\1" + image + "\1" + image));
}

void write_safetensors(Corpus corpus) {
  using runner::formats::safetensors;
  using runner::formats::tensor_entry;
  const std::string features = tensor_entry("features", "F32", "[3,2]", "[0,24]");
  const std::string data = bytes_of<float>({1, 2, 3, 4, 5, 6});
  corpus.add(safetensors("{" + features + "," + tensor_entry("labels", "U8", "[3]", "[24,27]") + "}",
                         data + std::string("\0\1\2", 3)));
  corpus.add(safetensors("{" + features + "," + tensor_entry("labels", "F64", "[3,1]", "[24,48]") + "}",
                         data + bytes_of<double>({1, 2, 3})));
  corpus.add(safetensors(
      "{\"__metadata__\":{\"format\":\"pt\"}," + features + "," + tensor_entry("labels", "I64", "[3]", "[24,48]") + "}",
      data + bytes_of<int64_t>({2, 1, 0})));
  corpus.add(safetensors("{" + tensor_entry("0.bias", "BF16", "[2]", "[0,4]") + "," +
                             tensor_entry("0.weight", "F16", "[2,2]", "[4,12]") + "," +
                             tensor_entry("mask", "BOOL", "[]", "[12,13]") + "," +
                             tensor_entry("none", "I32", "[0,7]", "[13,13]") + "}",
                         "abcdefghijklm"));
  corpus.add(safetensors("{}", ""));
  corpus.add(gzip(safetensors("{" + features + "}", data)));
}

void write_shard_index(Corpus corpus) {
  corpus.add(R"({"metadata": {"total_size": 24}, "weight_map": {"0.bias": "m-00001-of-00002.safetensors",
"0.weight": "m-00002-of-00002.safetensors", "2.bias": "m-00001-of-00002.safetensors"}})");
  corpus.add(R"({"weight_map": {"a": "parts/x.safetensors", "b": "./x.safetensors"}})");
  corpus.add(R"({"weight_map": {}})");
  corpus.add(R"({"weight_map": {"\u00e4": "\u6771.safetensors"}, "weight_map": {"x": 1}, "n": [null, 1e3]})");
  corpus.add(gzip(R"({"weight_map": {"a": "x.safetensors"}})"));
}

// The first byte selects how the file is read (csv_spec in data_files.cpp).
void write_csv(Corpus corpus) {
  const std::string names =
      "x,\"y, z\",label\n1.5,2,cat\r\n-3e2,\"4\",\"a \"\"dog\"\"\"\n7,8,\"two\nlines\"\n9.125,10,cat\n";
  corpus.add('\x40' + names);
  corpus.add('\x44' + names + "1,,cat\n");
  corpus.add('\x42' + names + "1,,cat\n2,3,\n");
  corpus.add(
      "\x40\xef\xbb\xbf"
      "a,b,label\n1,2,0\n\n3,4,1\n5,6,2");
  corpus.add(
      "\x69"
      "1;2;0.5\n3;4;0.25\n");
  corpus.add(
      "\x61"
      "1,2,3\n4,5,6\n7,8,9\n");
  corpus.add(
      "\x50"
      "a,b,label\n1,2,0\n3,4,1\n5,6,1\n");
  corpus.add('\x40' + gzip("a,b,label\n1,2,0\n3,4,1\n"));
}

void write_graph_entries(Corpus corpus) {
  using namespace runner::backends;
  for (uint32_t seed = 0; seed < 8; ++seed) {
    ByteWriter to;
    write_program(to, runner::backends::testing::RandomProgram(seed, 3).program);
    corpus.add({reinterpret_cast<const char*>(to.written().data()), to.written().size()});
  }
}

// The first byte selects how the text is divided (data_files.cpp).
void write_text(Corpus corpus) {
  corpus.add("\x06hello world, hello text");
  corpus.add(
      "\x12"
      "\xc3\xbc\xe2\x86\x92\xf0\x9d\x84\x9e\na\xc3\xbc");
  corpus.add(
      "\x43"
      "\xff\x80 any bytes");
  corpus.add('\x04' + gzip("a text that was packed"));
  corpus.add('\xff' + std::string(100, 'x') + std::string(1, '\0'));
}

// The first byte selects the format, the columns, the tokenizer and the length (data_files.cpp).
void write_token_rows(Corpus corpus) {
  const std::string lines =
      "{\"a\": \"one text\", \"b\": \"two\", \"label\": \"yes\"}\n\n"
      "{\"b\": \"\", \"label\": \"no\", \"a\": \"\\u00fc\\ud834\\udd1e \\\"\\n\"}\n"
      "{\"a\": \"x\", \"b\": \"y\", \"label\": \"yes\", \"more\": [1, {\"c\": null}]}";
  corpus.add('\x74' + lines);
  corpus.add('\x38' + lines);
  corpus.add("\x10{\"a\":\"1\",\"label\":0.5}\r\n{\"a\":\"2\",\"label\":-1e3}");
  corpus.add('\x73' + gzip(lines));
  corpus.add(
      "\x75"
      "a\tlabel\tb\nit's \"so\"\t1\t\xc3\xbc\n\"\t0\tb\n");
  corpus.add(
      "\x7e"
      "label,a,b\nyes,\"one, \"\"two\"\"\",three\r\nno,\"two\nlines\",\n");
  corpus.add(
      "\xf5"
      "\xef\xbb\xbf"
      "a\tb\tlabel\nc\td\t1\ne\tf\t\ng\th\t2\n");
}

void write_lua_patterns(Corpus corpus) {
  const auto add = [&](const std::string& pattern, const std::string& subject, const std::string& replacement) {
    corpus.add(pattern + '\x1f' + subject + '\x1f' + replacement);
  };
  add("(%w+)%s*(%w+)", "hello world from Lua", "%2 %1");
  add("%$(%w+)", "home = $HOME, user = $USER", "<%0>");
  add("%$(.-)%$", "4+5 = $return 4+5$", "%1%%");
  add("(%w+)=(%w+)", "from=world, to=Lua", "%1");
  add("()aa()", "flaaap", "%1-%2");
  add("%b()", "f(a(b)c)d", "");
  add("%f[%a]%a+%f[%A]", "THE (quick) fox", "w");
  add("([\"'])(.-)%1", "say 'it', \"so\"", "[%2]");
  add("^(%d+)-(%d%d)-?([^-]*)$", "2026-11-21", "%3");
  add("[]%-a-c^]*x?", "a-b]^]x", "%0%0");
  add("[\"-%%]", "\"-]", ")$]");  // a range that ends with an escape: the bracket after it closes the set
  add("a-b", "aaab", "c");
  add("a.b", "a.b", "plain");
}

void write_images(Corpus corpus) {
  for (const char* name :
       {"grey_1.png", "grey_2_interlaced.png", "grey_16_trns.png", "palette_4_trns.png", "palette_8_interlaced.png",
        "rgb_16.png", "rgba_8_interlaced.png", "exif_6.png", "xmp_compressed.png", "raw_profile_compressed.png",
        "1x1.jpg", "grey_progressive.jpg", "progressive.jpg", "restarts.jpg", "cmyk_progressive.jpg", "ycck_red.jpg",
        "exif_split.jpg", "exif_before_xmp.jpg"})
    corpus.add(read_text(fmt::format("{}/tests/images/files/{}", runner::support::source_path(), name)));
}

// The conditions, orders and columns of docs/cli.md and of tests/cli/cases/select.test.
void write_where(Corpus corpus) {
  corpus.add("best(eval/accuracy) > 0.85 and optimizer.lr < 1e-3\n");
  corpus.add("status = done and (name like 'digits%' or tag = baseline)\nbest(eval/loss)\n");
  corpus.add("not has(parent)\nbest(eval/accuracy), optimizer.lr desc\nname,eval/accuracy,best(train/loss),tag,seed");
  corpus.add("status not in (failed, crashed) and name ~ w?n*\ncreated desc\nrun");
  corpus.add("seed = 42 and (name = wine or optimizer.lr = 0.5)\nname asc\nstatus,host");
  corpus.add("n(train/loss) = 3 and nans(train/loss) >= 1\n\nmean(train/loss)");
  corpus.add("min(train/loss) < max(train/loss) and first(train/loss) > 0.7\nseconds\nlast(train/loss)");
  corpus.add("0.01 < optimizer.lr or name != \"digits\" or created > 2020-01-01\n\n");
  corpus.add("\nname\nattempts,exit_code,reason");
}

// A report of 1.7, those of 2.9 in tests/report, the format of older releases, and reports in logs.
void write_metrics_report(Corpus corpus) {
  for (const char* name :
       {"recipes/data/bert_metrics_report", "tests/report/samples/mlp_2.9", "tests/report/samples/mlp_2.9_short"}) {
    corpus.add(read_text(fmt::format("{}/{}.txt", runner::support::source_path(), name)));
  }
  const std::string old = "Metric: CompileTime\n  TotalSamples: 24\n  Counter: 07s501ms263.438us\n";
  corpus.add(old + "  Rate: 1.53144 / second\n  Percentiles: 1%=092ms776.335us; 90%=191ms81.607us\n");
  corpus.add(old +
             "[MetricsData; step=2]\r\nMetric: OutboundData\r\n  TotalSamples: 3\r\n  Accumulator: 1024.00KB\r\n");
  corpus.add("[rank0]: Counter: aten::nonzero\n[rank1]: Counter: MarkStep\n[rank0]:   Value: 3\n[rank1]:   Value: 4\n");
  corpus.add(
      "\x1b[1mMetric: XrtRead\x1b[0m\\n  TotalSamples: 2\\n  Accumulator: nanB\\n  Mean: 4.00B\\n  StdDev: nanB\\n");
  corpus.add(
      "log\n  Accumulator: 1.00\nCounter: A\n  Value: 1\nlog\nMetric: B\n  TotalSamples: 1\n  Accumulator: "
      "1d02h60m60s000ms1000.000us\n");
}

// A file and, after a zero byte, a text.
void write_tokenizers(Corpus corpus) {
  const std::string text = std::string(1, '\0') + "Hello [MASK] w\xC3\xB6rld's <|end|>  ab ##a";
  const std::string bert =
      R"("model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "[MASK]": 1, "he": 2, "##llo": 3, "w": 4}})";
  const std::string mask =
      R"("added_tokens": [{"id": 1, "content": "[MASK]", "lstrip": true, "normalized": false, "special": true}, {"id": 5, "content": "W\u00f6rld", "single_word": true, "rstrip": true, "normalized": true}])";
  const std::string bpe =
      R"("model": {"type": "BPE", "unk_token": "?", "fuse_unk": true, "vocab": {"?": 0, "a": 1, "b": 2, "ab": 3, "\u0120": 4}, "merges": ["a b"]})";
  corpus.add(R"({"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"}, )" + bert +
             ", " + mask + "}" + text);
  corpus.add(
      R"({"version": "1.0", "truncation": {"max_length": 8}, "padding": {"strategy": {"Fixed": 9}}, "normalizer": {"type": "BertNormalizer", "strip_accents": false, "lowercase": false}, "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[MASK]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"[MASK]": {"ids": [1]}}}, "decoder": {"type": "WordPiece", "cleanup": true}, )" +
      bert + "}" + text);
  corpus.add(
      R"({"pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": {"type": "BertProcessing", "sep": ["[UNK]", 0], "cls": ["[MASK]", 1]}, )" +
      bert + "}" + text);
  corpus.add(
      R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}, "decoder": {"type": "ByteLevel"}, )" + bpe +
      "}" + text);
  corpus.add(
      R"({"pre_tokenizer": {"type": "ByteLevel", "use_regex": false}, "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "RobertaProcessing", "sep": ["a", 1], "cls": ["b", 2]}]}, "added_tokens": [{"id": 5, "content": "<|end|>", "special": true}], )" +
      bpe + "}" + text);
  corpus.add("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhe\n##llo\nw\nworld\n#\n" + text);
}

void write_sentence_pieces(Corpus corpus) {
  using runner::text::Piece;
  using runner::text::PieceModel;
  using runner::text::PieceType;
  const auto add = [&](const PieceModel& model, const std::string& text) {
    corpus.add(runner::text::bytes_of(model) + "TEXT" + text);
  };
  PieceModel model;
  model.pieces = {{"<unk>", 0, PieceType::kUnknown}, {"<s>", 0, PieceType::kControl}, {"</s>", 0, PieceType::kControl}};
  float score = -1;
  for (const char* const text :
       {"\u2581", "\u2581the", "e", "t", "h", "th", "\u2581t", "he", "\u00e9", "\u4e2d", "1", "12"})
    model.pieces.push_back({text, score--, PieceType::kNormal});
  model.pieces.push_back({"<|user|>", 0, PieceType::kUserDefined});
  model.pieces.push_back({"\u2581\u2581", 0, PieceType::kUnused});
  const std::string text = " the 12 t\u00e9h <s>\u4e2d<|user|>  \u2581x\U0001f600\n";
  add(model, text);
  model.kind = PieceModel::kBpe;
  add(model, text);
  model.adds_prefix = model.removes_blanks = false;
  add(model, text);
  model.kind = PieceModel::kUnigram;
  add(model, "");
  const std::string figures = runner::support::source_path("tests/text/figures/sentence_piece/unigram.model");
  model.characters_map = runner::text::read_piece_model(read_text(figures)).characters_map;
  add(model, text + "\uff21e\u0301\u2026\ufb01\u200b\u00a0");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const fs::path root = argv[1];
  write_recipes(Corpus(root, "recipe"));
  write_npy(Corpus(root, "npy"));
  write_idx(Corpus(root, "idx"));
  write_cifar(Corpus(root, "cifar"));
  write_safetensors(Corpus(root, "safetensors"));
  write_shard_index(Corpus(root, "shard_index"));
  write_csv(Corpus(root, "csv"));
  write_text(Corpus(root, "text"));
  write_token_rows(Corpus(root, "token_rows"));
  write_lua_patterns(Corpus(root, "lua_patterns"));
  write_where(Corpus(root, "where"));
  write_metrics_report(Corpus(root, "metrics_report"));
  write_graph_entries(Corpus(root, "graph_entries"));
  write_tokenizers(Corpus(root, "tokenizer"));
  write_sentence_pieces(Corpus(root, "sentence_piece"));
  write_images(Corpus(root, "image"));
  return 0;
}
