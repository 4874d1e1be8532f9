#include <cmath>

#include "runner/data/csv_lexer.h"
#include "runner/data/csv_value.h"
#include "runner/data/data_format.h"
#include "tests/data/files.h"

namespace runner::data {
namespace {

using schema::Column;
using schema::DatasetSpec;
using schema::Missing;

class CsvTest : public FileTest {
 protected:
  // Returns the lexer's records with the line of each.
  std::vector<std::pair<int64_t, std::vector<std::string>>> records(std::string_view text, char delimiter = ',') {
    formats::InputFile input(write("x.csv", text));
    CsvLexer lexer(input, delimiter);
    std::vector<std::pair<int64_t, std::vector<std::string>>> result;
    for (std::vector<std::string_view> fields; lexer.next(fields);) {
      result.push_back({lexer.line(), {fields.begin(), fields.end()}});
    }
    return result;
  }

  Storage read(std::string_view text, DatasetSpec spec = {}, const ReadOptions& options = {}) {
    spec.format = schema::DataFormat::kCsv;
    spec.path = write("x.csv", text);
    return kCsvFormat.read(spec, options);
  }

  std::string error(std::string_view text, const DatasetSpec& spec = {}, const ReadOptions& options = {}) {
    return message_of([&] { read(text, spec, options); });
  }
};

using Records = std::vector<std::pair<int64_t, std::vector<std::string>>>;
using Floats = LargeArray<float>;
using Ints = LargeArray<int64_t>;
using Texts = std::vector<std::string>;

// ---- Lexing

TEST_F(CsvTest, SplitsRecordsIntoFields) {
  EXPECT_EQ(records("a,b\n1,2\n"), (Records{{1, {"a", "b"}}, {2, {"1", "2"}}}));
  EXPECT_EQ(records("a,b\r\n1,2\r\n"), (Records{{1, {"a", "b"}}, {2, {"1", "2"}}}));
  EXPECT_EQ(records("a,b\n1,2"), (Records{{1, {"a", "b"}}, {2, {"1", "2"}}}));
  EXPECT_EQ(records("a;b,c\n", ';'), (Records{{1, {"a", "b,c"}}}));
  EXPECT_EQ(records(",\n,,\n"), (Records{{1, {"", ""}}, {2, {"", "", ""}}}));
  EXPECT_EQ(records(""), (Records{}));
  EXPECT_EQ(records("\n\n\r\n"), (Records{}));
  EXPECT_EQ(records("a\n\n\nb\n"), (Records{{1, {"a"}}, {4, {"b"}}}));
}

TEST_F(CsvTest, ParsesQuotedFields) {
  EXPECT_EQ(records("\"a,b\",c\n"), (Records{{1, {"a,b", "c"}}}));
  EXPECT_EQ(records("\"a\"\"b\",\"\"\"\"\n"), (Records{{1, {"a\"b", "\""}}}));
  EXPECT_EQ(records("\"a\nb\",c\nd,e\n"), (Records{{1, {"a\nb", "c"}}, {3, {"d", "e"}}}));
  EXPECT_EQ(records("\"\"\"a\"\"\"\r\n"), (Records{{1, {"\"a\""}}}));
  EXPECT_EQ(records("\"\",x\n"), (Records{{1, {"", "x"}}}));
  EXPECT_EQ(records("a\"b,c\n"), (Records{{1, {"a\"b", "c"}}}));  // a quote inside an unquoted field is an ordinary
                                                                  // character
  EXPECT_EQ(records("\"a\""), (Records{{1, {"a"}}}));
}

TEST_F(CsvTest, SkipsByteOrderMarkAndRejectsUtf16) {
  EXPECT_EQ(records("\xEF\xBB\xBF"
                    "a,b\n"),
            (Records{{1, {"a", "b"}}}));
  EXPECT_EQ(message_of([&] {
              records(
                  std::string_view("\xFF\xFE"
                                   "a\0",
                                   4));
            }),
            "x.csv is UTF-16 text; save it as UTF-8");
}

// A file with a hole after a crash of the system, or UTF-16 without a byte order mark.
TEST_F(CsvTest, RejectsNulBytesWhereverTheyAre) {
  using namespace std::string_view_literals;
  const auto at = [](int line, int64_t byte) {
    return fmt::format(
        "x.csv:{}: byte {} of the file is NUL (0x00): the file is damaged, or is UTF-16 text that must be "
        "saved as UTF-8",
        line, byte);
  };
  EXPECT_EQ(error("a,label\n1,x\n2,y\0\n"sv), at(3, 15));   // class name
  EXPECT_EQ(error("a\0,label\n1,x\n"sv), at(1, 1));         // column name
  EXPECT_EQ(error("a,label\n1\0,x\n"sv), at(2, 9));         // number
  EXPECT_EQ(error("a,label\n1,\"x\n\0\"\n"sv), at(3, 13));  // quoted, on the second line of its record
  EXPECT_EQ(error("a,label\n1,x\n\0\0\0\0"sv), at(3, 12));  // after the last record
  EXPECT_EQ(error("\xEF\xBB\xBF\0"sv), at(1, 3));
  DatasetSpec spec;
  spec.features = {Column{.name = "a"}};
  EXPECT_EQ(error("a,b,label\n1,\0,x\n"sv, spec), at(2, 12));  // column that is not used
  std::string large = "a,label\n";                             // more than one window
  for (int i = 0; i < 200000; ++i) large += "1,x\n";
  EXPECT_EQ(error(large + std::string("2,y\0\n", 5)), at(200002, std::ssize(large) + 3));
}

// Passing over a record leads to the same place as reading it, whatever its lines, quotes and line ends are, also where
// the window of the lexer ends.
TEST_F(CsvTest, SkipsTheRecordsThatItWouldRead) {
  std::string text = "\n\r\n";
  for (int i = 0; i < 6000; ++i)
    text += std::array{"1,22,333\n",
                       "\"a\nb\",c\r\n",
                       "\n",
                       "x\"y,\"\"\n",
                       "\r\n",
                       "\"\"\n",
                       "long,field,of,a,row\r\n",
                       "\"p,q\"\"\",r\n",
                       "z\n"}[static_cast<size_t>(i * i % 11 % 9)];
  text += std::string(300'000, 'w') + ",1\nlast,row";
  const auto all = records(text);
  ASSERT_GT(all.size(), 3000u);
  for (const size_t period : {size_t{2}, size_t{3}, size_t{1000}, all.size()}) {
    formats::InputFile input(write("x.csv", text));
    CsvLexer lexer(input, ',');
    std::vector<std::string_view> fields;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool reads = (i + 1) % period == 0;
      ASSERT_TRUE(reads ? lexer.next(fields) : lexer.skip()) << i;
      ASSERT_EQ(lexer.line(), all[i].first) << i;
      if (!reads) continue;
      ASSERT_EQ(std::vector<std::string>(fields.begin(), fields.end()), all[i].second) << i;
    }
    EXPECT_FALSE(lexer.skip());
  }
}

TEST_F(CsvTest, ReadsRecordsLargerThanTheWindow) {
  const std::string field(100'000, 'x');
  std::string text;
  Records expected;
  for (int64_t i = 1; i <= 20; ++i) {
    text += field + ",\"" + field + "\"\"" + field + field + "\"," + std::to_string(i) + "\n";
    expected.push_back({i, {field, field + "\"" + field + field, std::to_string(i)}});
  }
  EXPECT_EQ(records(text), expected);
}

TEST_F(CsvTest, ReportsDamagedQuotes) {
  EXPECT_EQ(message_of([&] { records("a,b\n1,\"2\n3,4\n"); }), "x.csv:2: a quote in this record is never closed");
  EXPECT_EQ(message_of([&] { records("a,b\n1,\"2\"x\n"); }),
            "x.csv:2: text after the closing quote of field 2; expected ',' or the end of the line");
  const std::string endless = "\"" + std::string(70'000'000, 'x');
  EXPECT_EQ(message_of([&] { records(endless); }),
            "x.csv:1: the record is larger than 64 MiB; is there an unclosed quote?");
}

// ---- Numbers

TEST(ParseNumber, RoundsLikeStrtof) {
  const auto check = [](const std::string& text) {
    float value = 0;
    ASSERT_EQ(parse_number(text, value), Field::kNumber) << text;
    EXPECT_EQ(value, std::strtof(text.c_str(), nullptr)) << text;
    EXPECT_EQ(std::signbit(value), text[0] == '-') << text;
  };
  for (const char* text : {"0",
                           "-0",
                           "7",
                           "-7",
                           "16777215",
                           "16777216",
                           "16777217",
                           "123456789",
                           "0.1",
                           "-0.1",
                           ".5",
                           "5.",
                           "0.006399",
                           "1e3",
                           "1E-3",
                           "+2.5",
                           "3.4028234e38",
                           "1.17549435e-38",
                           "1e-40",
                           "1e-45",
                           "0.00000000001",
                           "0.3333333333333333",
                           "9007199254740993",
                           "1.000000059604644775390625",
                           "0.1e1"}) {
    check(text);
  }
  uint64_t state = 1;
  for (int i = 0; i < 100000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto digits = static_cast<int64_t>(state >> 34) - (1 << 29);
    std::string text = std::to_string(digits);
    text.insert(text.size() - state % std::min<size_t>(text.size() - (digits < 0 ? 1 : 0), 9), ".");
    check(text);
  }
}

TEST(ParseNumber, DistinguishesMissingInfiniteAndText) {
  float value = 0;
  for (const char* text : {"", "NA", "na", "N/A", "NaN", "nan", "null", "NULL", "?"}) {
    EXPECT_EQ(parse_number(text, value), Field::kMissing) << text;
  }
  for (const char* text :
       {"inf", "-inf", "Infinity", "1e39", "-1e999", "nan(1)", "1000000000000000000000000000000000000000"}) {
    EXPECT_EQ(parse_number(text, value), Field::kNotFinite) << text;
  }
  for (const char* text :
       {"a", "1a", "1,5", "1 2", "0x10", "--1", "++1", "+-1", "-", "+", ".", "-.", "1e", "none", "1.2.3"}) {
    EXPECT_EQ(parse_number(text, value), Field::kText) << text;
  }
  for (const char* text : {"1e-60", "-1e-400", "0.00000000000000000000000000000000000000000000000000000000001"}) {
    EXPECT_EQ(parse_number(text, value), Field::kNumber) << text;
    EXPECT_EQ(value, 0.0f) << text;
  }
}

// ---- Columns

TEST_F(CsvTest, LabelIsTheLastColumnByDefault) {
  const Storage s = read("x,y,label\n1,2,0\n3,4,2\n");
  EXPECT_EQ(s.samples, 2);
  EXPECT_EQ(s.feature_shape, backends::Shape{2});
  EXPECT_EQ(s.values, (Floats{1, 2, 3, 4}));
  EXPECT_EQ(s.label_kind, LabelKind::kClass);
  EXPECT_EQ(s.classes, (Ints{0, 2}));
  EXPECT_EQ(s.outputs, 2);
  EXPECT_EQ(s.feature_names, (Texts{"x", "y"}));
}

TEST_F(CsvTest, SelectsColumnsByNameAndIndex) {
  DatasetSpec spec;
  spec.label = Column{"a"};
  EXPECT_EQ(read("a,b,c\n1,2,3\n", spec).values, (Floats{2, 3}));
  spec.features = {Column{"c"}};
  EXPECT_EQ(read("a,b,c\n1,2,3\n", spec).values, (Floats{3}));
  spec.features = {Column{"", -1}, Column{"", 1}};
  EXPECT_EQ(read("a,b,c\n1,2,3\n", spec).values, (Floats{3, 2}));
  spec.label = Column{"", -2};
  spec.features = {};
  EXPECT_EQ(read("a,b,c\n1,2,3\n", spec).values, (Floats{1, 3}));
  EXPECT_EQ(read("a , b ,c\n 1 ,\t2, 3\n", spec).feature_names, (Texts{"a", "c"}));
}

TEST_F(CsvTest, ReadsWithoutAHeader) {
  DatasetSpec spec;
  spec.header = schema::Header::kFalse;
  const Storage s = read("1,2,0\n3,4,1\n", spec);
  EXPECT_EQ(s.values, (Floats{1, 2, 3, 4}));
  EXPECT_EQ(s.classes, (Ints{0, 1}));
  EXPECT_TRUE(s.feature_names.empty());
  spec.delimiter = ';';
  EXPECT_EQ(read("1.5;0\n", spec).values, (Floats{1.5}));
}

TEST_F(CsvTest, FindsOutWhetherThereIsAHeader) {
  const Storage data = read("1,2,0\n3,4,1\n");
  EXPECT_EQ(data.values, (Floats{1, 2, 3, 4}));
  EXPECT_TRUE(data.feature_names.empty());
  EXPECT_EQ(data.warnings,
            (Texts{"the first row has numbers, so it is read as data; set header: false if that is right, "
                   "header: true if it has the column names"}));
  EXPECT_EQ(read("5.1,3.5,setosa\n4.9,3,virginica\n").samples, 2);
  EXPECT_EQ(read("?,3.5,0\n4.9,3,1\n", {.missing = Missing::kMean}).samples, 2);
  EXPECT_EQ(read("inf,label\n1,0\n", {.header = schema::Header::kTrue}).feature_names, (Texts{"inf"}));
  EXPECT_EQ(read("2019,2020,2021\n1,2,0\n", {.header = schema::Header::kTrue}).feature_names, (Texts{"2019", "2020"}));
  EXPECT_EQ(
      error("id,2019,label\n1,2,0\n"),
      "x.csv:1: is the first row a header or data? It has a number and a text; set header: true or header: false");
  DatasetSpec spec;
  spec.features = {Column{"2019"}};
  EXPECT_EQ(read("id,2019,label\n1,2,0\n", spec).feature_names, (Texts{"2019"}));
  spec.features = {Column{"x"}};
  EXPECT_EQ(error("1,2,0\n", spec),
            "x.csv:1: column 'x' is given by name, but the first row has numbers; if it is a header, set header: true");
  spec.features = {Column{"", 1}};
  spec.header = schema::Header::kFalse;
  EXPECT_EQ(read("A17,2,0\nB3,4,1\n", spec).values, (Floats{2, 4}));
}

TEST_F(CsvTest, ColumnsThatAreNotUsedNeedNoName) {
  DatasetSpec spec;
  spec.features = {Column{"x"}};
  EXPECT_EQ(read(",x,a,a,label\n7,1,8,9,0\n", spec).values, (Floats{1}));
  spec.features = {Column{"a"}};
  EXPECT_EQ(error(",x,a,a,label\n7,1,8,9,0\n", spec), "x.csv:1: columns 2 and 3 are both named 'a'; rename one");
}

// ---- Large numbers

TEST_F(CsvTest, KeepsTheDigitsOfLargeNumbers) {
  const char* text = "ts,x,y\n1550083467346,1,0.5\n1550083468346.25,2,0.5\n?,16777217,0.5\n";
  const DatasetSpec spec{.missing = Missing::kMean};
  const Storage relative = read(text, spec, {.normalized = true});
  EXPECT_EQ(relative.offsets, (std::vector<double>{1550083467346, 0}));
  EXPECT_EQ((Floats{relative.values[0], relative.values[2]}), (Floats{0, 1000.25}));
  EXPECT_TRUE(std::isnan(relative.values[4]));
  EXPECT_EQ(relative.warnings, (Texts{"column 'x': 1 value above 2^24 lost digits, because f32 has 24 bits"}));
  const Storage rounded = read(text, spec, {});
  EXPECT_TRUE(rounded.offsets.empty());
  EXPECT_EQ(rounded.values[0], 1550083467346.0f);
  EXPECT_EQ(rounded.warnings.at(0),
            "column 'ts': 2 values above 2^24 lost digits, because f32 has 24 bits; data.normalize keeps them: it "
            "subtracts before it rounds");
  EXPECT_TRUE(read("x,y\n16777216,0.5\n4294967296,0.5\n").warnings.empty());
  for (const char* start : {"9007199254740992\n9007199254740993", "1152921504606846976\n+1152921504606846977",
                            "-9007199254740992\n-9007199254740993", "9223372036854775808\n9223372036854775809"}) {
    std::string rows = "x,y\n";
    for (const char* c = start; *c != '\0'; ++c) rows += *c == '\n' ? std::string(",0.5\n") : std::string(1, *c);
    rows += ",0.5\n";
    EXPECT_TRUE(read(rows).warnings.at(0).starts_with("column 'x': 1 value above 2^24 lost digits")) << start;
    const Storage kept = read(rows, {}, {.normalized = true});
    EXPECT_TRUE(kept.warnings.empty()) << start;
    EXPECT_EQ(kept.values, (Floats{0, *start == '-' ? -1.0f : 1.0f})) << start;
  }
  const Storage targets = read("x,y\n0,9007199254740993.5\n1,3\n");
  EXPECT_TRUE(targets.warnings.at(0).ends_with("column 'y': 1 number above 2^24 lost digits, because f32 has 24 bits"));
}

// eval and predict take no KEY=VALUE.
TEST_F(CsvTest, RemediesChangeTheFileWhereNoKeyCanBeSet) {
  const ReadOptions fixed{.has_recipe = false, .feature_names = {"a"}, .label_name = "y"};
  EXPECT_EQ(error("a,y\n,0\n", {}, fixed),
            "x.csv:2: values are missing: column 'a' in 1 of 1 row (100 %); fill them in, or remove the rows");
  EXPECT_EQ(
      error("a;y\n1;0\n", {}, fixed),
      "x.csv:1: unknown column 'a'; the columns are 'a;y'; fields are cut at ',', as in the training data: change "
      "the delimiter of the file");
  EXPECT_EQ(error("a,y\n\"1,5\",0\n", {}, fixed),
            "x.csv:2: column 'a': expected a number, got '1,5'; write numbers with a decimal point and without "
            "separators of thousands");
  DatasetSpec named;
  named.label = Column{"y"};
  EXPECT_EQ(error("1,2\n3,4\n", named, fixed),
            "x.csv:1: column 'y' is given by name, but the first row has numbers; give the file the header of the "
            "training data");
  EXPECT_EQ(error(",y\n1,2\n", {}, {.has_recipe = false}), "x.csv:1: column 0 has no name; give it one");
  EXPECT_EQ(read("a,y\n16777217,0\n", {}, fixed).warnings.at(0),
            "column 'a': 1 value above 2^24 lost digits, because f32 has 24 bits");
  ReadOptions classes = fixed;
  classes.labels = LabelsAs::kClasses;
  EXPECT_EQ(error("a,y\n1,\"0,5\"\n", {}, classes),
            "x.csv:2: label '0,5' is a text; write numbers with a decimal point");
  EXPECT_EQ(error("a,y\n1,0.5\n", {}, classes), "x.csv:2: label '0.5' is not a class; expected a whole number");
  std::string many = "a,y\n";
  for (int i = 0; i < 65537; ++i) many += fmt::format("0,{}\n", i);
  EXPECT_EQ(error(many, {}, classes),
            "x.csv: column 'y': the labels have more than 65536 different values, too many for classes; give the file "
            "the labels of the training data");
  ReadOptions predicts = fixed;
  predicts.predicts = true;
  predicts.feature_count = 1;
  EXPECT_EQ(read("1\n3\n", named, predicts).values, (Floats{1, 3}));
}

TEST_F(CsvTest, SuggestsNoColumnThatIsAlreadyUsed) {
  const ReadOptions options{.feature_names = {"a", "b"}, .label_name = "y"};
  EXPECT_EQ(error("a,c,y\n1,2,0\n", {}, options), "x.csv:1: unknown column 'b'; did you mean c?");
}

TEST_F(CsvTest, ATextAsOnlyFeatureHasNoOtherColumns) {
  EXPECT_EQ(error("message,kind\nhello,spam\n"),
            "x.csv:2: column 'message': expected a number, got 'hello'; features are numbers, and no column except the "
            "label has any");
}

TEST_F(CsvTest, ReportsInvalidColumns) {
  DatasetSpec spec;
  spec.label = Column{"alchol"};
  EXPECT_EQ(error("alcohol,ash\n1,2\n", spec), "x.csv:1: unknown column 'alchol'; did you mean alcohol?");
  spec.label = Column{"zzz"};
  EXPECT_EQ(error("alcohol,ash\n1,2\n", spec), "x.csv:1: unknown column 'zzz'; the columns are 'alcohol', 'ash'");
  spec.label = Column{"", 2};
  EXPECT_EQ(error("alcohol,ash\n1,2\n", spec), "x.csv:1: column 2 does not exist; the file has 2 columns");
  spec.label = Column{"", -3};
  EXPECT_EQ(error("alcohol,ash\n1,2\n", spec), "x.csv:1: column -3 does not exist; the file has 2 columns");
  spec.label = Column{"ash"};
  spec.header = schema::Header::kFalse;
  EXPECT_EQ(error("1,2\n", spec), "x.csv:1: column 'ash' is given by name, but header is false");
  spec = {};
  spec.features = {Column{"ash"}};
  EXPECT_EQ(error("alcohol,ash\n1,2\n", spec), "x.csv:1: column 'ash' is used twice");
  spec.features = {Column{"", 0}, Column{"alcohol"}};
  EXPECT_EQ(error("alcohol,ash\n1,2\n", spec), "x.csv:1: column 'alcohol' is used twice");
  EXPECT_EQ(error("ash\n1\n"), "x.csv:1: the file has no column except the label; fields are cut at ','");
}

TEST_F(CsvTest, NamesTheDelimiterOfAFileWithOneColumn) {
  EXPECT_EQ(error("alcohol;ash\n1;2\n"),
            "x.csv:1: the file has no column except the label; fields are cut at ',': set delimiter: \";\"");
  DatasetSpec spec;
  spec.label = Column{"ash"};
  EXPECT_EQ(error("alcohol\tash\n1\t2\n", spec),
            "x.csv:1: unknown column 'ash'; the columns are 'alcohol\\x09ash'; fields are cut at ',': set delimiter: "
            "\"\\t\"");
  spec.label = Column{"", 1};
  EXPECT_EQ(error("alcohol|ash\n1|2\n", spec),
            "x.csv:1: column 1 does not exist; the file has 1 column; fields are cut at ',': set delimiter: \"|\"");
  spec = {};
  spec.delimiter = ';';
  EXPECT_EQ(read("sep=;\nalcohol;label\n1.5;0\n2.5;1\n", spec).values, (Floats{1.5, 2.5}));
  EXPECT_EQ(error("sep=;\n", spec), "x.csv is empty");
  EXPECT_EQ(error("sep=;\nalcohol;label\n1;0\n"), "x.csv:1: the file says 'sep=;'; set delimiter to ';'");
}

// ---- Decimal commas

TEST_F(CsvTest, ReadsDecimalCommas) {
  DatasetSpec spec;
  spec.delimiter = ';';
  spec.decimal = ',';
  const Storage s = read("a;b;y\n28,83;-1;0,5\n+1e3;,5;2\n", spec);
  EXPECT_EQ(s.values, (Floats{28.83f, -1, 1000, 0.5f}));
  EXPECT_EQ(s.targets, (Floats{0.5f, 2}));
  EXPECT_EQ(read("a;y\n1;x,y.z\n2;q\n", spec).class_names, (Texts{"q", "x,y.z"}));
  EXPECT_EQ(read("1,5;0\n2,5;1\n", spec).values, (Floats{1.5f, 2.5f}));  // no header
  EXPECT_EQ(
      error("a;y\n1.234;0\n", spec),
      "x.csv:2: column 'a': expected a number, got '1.234'; the decimal separator is ',', and thousands have none");
  EXPECT_EQ(
      error("a;y\n1.234,5;0\n", spec),
      "x.csv:2: column 'a': expected a number, got '1.234,5'; the decimal separator is ',', and thousands have none");
  EXPECT_EQ(error("a;y\n1;1.5\n", spec),
            "x.csv:2: column 'y': expected a number, got '1.5'; the decimal separator is ',', and thousands have none");
  spec.delimiter = ',';
  EXPECT_EQ(read("a,y\n\"28,83\",1\n\"2,5\",0\n", spec).values, (Floats{28.83f, 2.5f}));
}

TEST_F(CsvTest, HintsAtDecimalCommas) {
  DatasetSpec spec;
  spec.delimiter = ';';
  EXPECT_EQ(error("a;y\n28,83;0\n", spec),
            "x.csv:2: column 'a': expected a number, got '28,83'; if the comma is the decimal separator, set decimal: "
            "\",\"; separators of thousands must be removed");
  EXPECT_EQ(error("a;y\n1;28,83\n2;7\n3;-0,5\n", spec),
            "x.csv:2: label '28,83' is a text; if the comma is the decimal separator, set decimal: \",\"");
  EXPECT_EQ(read("a;y\n1;28,83\n2;b\n", spec).class_names, (Texts{"28,83", "b"}));
}

TEST_F(CsvTest, ReportsInvalidHeaders) {
  EXPECT_EQ(error("178,13,class_0\n1,2,3,0\n"), "x.csv:2: expected 3 fields like the first row, got 4");
  EXPECT_EQ(error("a,b,a\n1,2,3\n"), "x.csv:1: columns 0 and 2 are both named 'a'; rename one");
  EXPECT_EQ(error(",b,label\n1,2,3\n"),
            "x.csv:1: column 0 has no name; give it one, or list the columns to use: features: ['b', …]");
  EXPECT_EQ(error("a,\xff\n1,2\n"), "x.csv:1: the name of column 1 is not UTF-8: '\\xff'");
  for (const char* text : {"a,b\r1,2\r", "1,2\r3,4\r"})
    EXPECT_EQ(error(text), "x.csv:1: lines end in CR only; save the file with LF or CRLF");
  EXPECT_EQ(error("\"a\",\"b\"\r1,2\r"), "x.csv:1: a line ends in CR only; save the file with LF or CRLF");
  DatasetSpec spec;
  spec.header = schema::Header::kFalse;
  EXPECT_EQ(error("a,b\n1,2\n", spec),
            "x.csv:1: column 0: expected a number, got 'a'; if the first row is a header, set header: true");
  EXPECT_EQ(error(""), "x.csv is empty");
  EXPECT_EQ(error("\xEF\xBB\xBF"), "x.csv is empty");
  EXPECT_EQ(error("a,b\n"), "x.csv has no complete row of data");
}

TEST_F(CsvTest, ReportsInvalidRows) {
  EXPECT_EQ(error("a,b\n1,2\n3\n"), "x.csv:3: expected 2 fields like the header, got 1");
  EXPECT_EQ(error("a,b\n1,2\n3,4,5\n"), "x.csv:3: expected 2 fields like the header, got 3");
  DatasetSpec spec;
  spec.header = schema::Header::kFalse;
  EXPECT_EQ(error("1,2\n3,4,5\n", spec), "x.csv:2: expected 2 fields like the first row, got 3");
  EXPECT_EQ(error("1,2\nx,5\n", spec), "x.csv:2: column 0: expected a number, got 'x'");
  EXPECT_EQ(error("a,b\nsetosa,2\n"),
            "x.csv:2: column 'a': expected a number, got 'setosa'; features are numbers, and no column except the "
            "label has any");
  EXPECT_EQ(error("a,b,c\nsetosa,1,2\n"),
            "x.csv:2: column 'a': expected a number, got 'setosa'; list the columns to use with features");
  EXPECT_EQ(error("a,b\n1,2\ninf,2\n"), "x.csv:3: column 'a': 'inf' is not finite");
  EXPECT_EQ(error("a,b\n1e99,2\n"), "x.csv:2: column 'a': '1e99' is too large for f32, which ends at 3.4e38");
  EXPECT_EQ(error("a,b\n-1e999,2\n"), "x.csv:2: column 'a': '-1e999' is too large for f32, which ends at 3.4e38");
  EXPECT_EQ(error("a,b\n2,1e99\n"), "x.csv:2: label '1e99' is too large for f32, which ends at 3.4e38");
}

// ---- Missing values

TEST_F(CsvTest, RejectsDropsOrMarksMissingValues) {
  const char* text = "a,b,label\n1,2,0\n,3,1\n4,NA,2\n5,6,\n7,8,1\n";
  EXPECT_EQ(
      error(text),
      "x.csv:3: values are missing: column 'a' in 1 of 5 rows (20 %), column 'b' in 1 of 5 rows (20 %), the label "
      "'label' in 1 of 5 rows (20 %); set missing: drop");
  DatasetSpec spec;
  spec.missing = Missing::kDrop;
  const Storage dropped = read(text, spec);
  EXPECT_EQ(dropped.values, (Floats{1, 2, 7, 8}));
  EXPECT_EQ(dropped.classes, (Ints{0, 1}));
  EXPECT_EQ(dropped.samples, 2);
  spec.missing = Missing::kMean;
  EXPECT_EQ(error(text, spec),
            "x.csv:5: values are missing: the label 'label' in 1 of 5 rows (20 %); set missing: drop");
  const Storage marked = read("a,b,label\n1,2,0\n,3,1\n", spec);
  EXPECT_TRUE(std::isnan(marked.values[2]));
  EXPECT_EQ(error("a,label\n,1\n"),
            "x.csv:2: values are missing: column 'a' in 1 of 1 row (100 %); set missing: drop or missing: mean");
  std::string long_text = "a,label\n";
  for (int i = 0; i < 2000; ++i) long_text += i == 1000 ? "?,1\n" : "2,1\n";
  EXPECT_EQ(
      error(long_text),
      "x.csv:1002: values are missing: column 'a' in 1 of 2000 rows (less than 0.1 %); set missing: drop or missing: "
      "mean");
  spec.missing = Missing::kDrop;
  EXPECT_EQ(error("a,label\n,1\n1,\n", spec), "x.csv has no complete row of data");
}

TEST_F(CsvTest, IgnoresMissingValuesInUnusedColumns) {
  DatasetSpec spec;
  spec.features = {Column{"b"}};
  EXPECT_EQ(read("a,b,label\n,2,0\nx,3,1\n", spec).values, (Floats{2, 3}));
}

// ---- Labels

TEST_F(CsvTest, DetectsTheKindOfLabels) {
  EXPECT_EQ(read("a,l\n1,3\n1,+1\n1,0\n").classes, (Ints{3, 1, 0}));
  const Storage targets = read("a,l\n1,3\n1,0.5\n1,-2\n");
  EXPECT_EQ(targets.label_kind, LabelKind::kTarget);
  EXPECT_EQ(targets.targets, (Floats{3, 0.5, -2}));
  EXPECT_EQ(targets.outputs, 1);
  const Storage names = read("a,l\n1,dog\n1,cat\n1,dog\n1,\"a, b\"\n");
  EXPECT_EQ(names.class_names, (Texts{"a, b", "cat", "dog"}));
  EXPECT_EQ(names.classes, (Ints{2, 1, 2, 0}));
  EXPECT_EQ(names.outputs, 3);
  const Storage mixed = read("a,l\n1,250\n1,V27\n1,401\n1,250\n");
  EXPECT_EQ(mixed.class_names, (Texts{"250", "401", "V27"}));
  EXPECT_EQ(mixed.classes, (Ints{0, 2, 1, 0}));
}

TEST_F(CsvTest, LabelKindFollowsTheLoss) {
  const ReadOptions targets{.labels = LabelsAs::kTargets}, classes{.labels = LabelsAs::kClasses},
      names{.labels = LabelsAs::kNames};
  EXPECT_EQ(read("a,l\n1,3\n1,-1\n", {}, targets).targets, (Floats{3, -1}));
  EXPECT_EQ(error("a,l\n1,3\n1,dog\n", {}, targets), "x.csv:3: label 'dog' is not a number; regression needs numbers");
  EXPECT_EQ(error("a,l\n1,3\n1,1.5\n", {}, classes),
            "x.csv:3: label '1.5' is not a class; expected a whole number, or names only");
  EXPECT_EQ(read("a,l\n1,10\n1,9\n", {}, names).class_names, (Texts{"10", "9"}));
}

TEST_F(CsvTest, ReportsInvalidLabels) {
  EXPECT_EQ(error("a,l\n1,inf\n"), "x.csv:2: label 'inf' is not finite");
  EXPECT_EQ(error("a,l\n1,\xff\n"), "x.csv:2: label '\\xff' is not UTF-8");
}

TEST_F(CsvTest, DiscardsTextsOfManyNumericLabels) {
  std::string text = "a,l\n";
  for (int i = 0; i < 70000; ++i) text += "0," + std::to_string(i) + ".5\n";
  EXPECT_EQ(read(text).targets.size(), 70000u);
  EXPECT_EQ(error(text + "0,dog\n"), "x.csv:70002: label 'dog' is not a number, but all labels before it are");
}

// ---- Reading for an existing model

TEST_F(CsvTest, FindsKnownFeaturesByName) {
  const ReadOptions known{.feature_names = {"y", "x"}, .feature_count = 2};
  const Storage s = read("x,z,y,label\n1,2,3,0\n", {}, known);
  EXPECT_EQ(s.values, (Floats{3, 1}));
  EXPECT_EQ(error("x,zz,label\n1,2,0\n", {}, known), "x.csv:1: unknown column 'y'; the columns are 'x', 'zz', 'label'");
}

TEST_F(CsvTest, ReadsFilesWithoutLabels) {
  const ReadOptions unlabelled{.predicts = true, .feature_names = {"x", "y"}, .feature_count = 2};
  const Storage s = read("y,x\n1,2\n", {}, unlabelled);
  EXPECT_EQ(s.values, (Floats{2, 1}));
  EXPECT_EQ(s.label_kind, LabelKind::kNone);
  EXPECT_EQ(read("x,y,label\n1,2,3\n", {}, unlabelled).label_kind, LabelKind::kNone);
  DatasetSpec spec;
  spec.label = Column{"label"};
  EXPECT_EQ(read("x,y\n1,2\n", spec, unlabelled).label_kind, LabelKind::kNone);
  spec = {};
  spec.header = schema::Header::kFalse;
  EXPECT_EQ(read("1,2\n3,4\n", spec, {.predicts = true, .feature_count = 2}).values, (Floats{1, 2, 3, 4}));
  EXPECT_EQ(read("1,2,0\n", spec, {.predicts = true, .feature_count = 2}).values, (Floats{1, 2}));
}

TEST_F(CsvTest, KeepsRowsThatCannotBeUsedForPredictions) {
  const ReadOptions predicts{.predicts = true, .feature_names = {"x", "y"}, .label_name = "l", .feature_count = 2};
  const char* text = "y,x,l\n1,2,?\n3,,a\n5\n7,b,c\n9,inf,d\n11,12,\xff\n";
  const auto reasons = [](const Storage& storage) {
    Texts texts;
    for (const RejectedRow& each : storage.rejected) texts.push_back(fmt::format("{} {}", each.row, each.reason));
    return texts;
  };
  const Storage s = read(text, {}, predicts);
  EXPECT_EQ(s.values, (Floats{2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 12, 11}));
  EXPECT_EQ(reasons(s), (Texts{"1 column 'x' has no value", "2 expected 3 fields like the header, got 1",
                               "3 column 'x': expected a number, got 'b'", "4 column 'x': 'inf' is not finite"}));
  const Storage filled = read(text, {.missing = Missing::kMean}, predicts);
  EXPECT_TRUE(std::isnan(filled.values[2]));
  EXPECT_EQ(filled.rejected.size(), 3u);
}

TEST_F(CsvTest, AppliesTheScale) {
  DatasetSpec spec;
  spec.scale = 1.0 / 16;
  EXPECT_EQ(read("a,l\n8,0\n1,1\n", spec).values, (Floats{0.5f, 0.0625f}));
  spec.scale = 1e30;
  EXPECT_EQ(error("a,b,l\n8,1,0\n1,1e20,1\n", spec),
            "x.csv: sample 1, column 'b': 1e+20 times scale 1e+30 is not finite");
}

TEST_F(CsvTest, ReadsGzippedFiles) {
  DatasetSpec spec;
  EXPECT_EQ(read(gzip("a,l\n8,0\n1,1\n"), spec).values, (Floats{8, 1}));
}

}  // namespace
}  // namespace runner::data
