// Fingerprints of data sets.
#include "runner/data/dataset.h"

#include "tests/data/load_fixture.h"

namespace runner::data {
namespace {

using schema::DataSpec;
using DatasetTest = LoadTest;

TEST_F(DatasetTest, DetectsEveryChange) {
  const auto print = [&](std::string_view text, double split = 0) {
    DataSpec spec = csv(text);
    if (split > 0) spec.split = schema::SplitSpec{split};
    return load(spec, 0).train.fingerprint();
  };
  const Fingerprint base = print("x,y,l\n1,2,0\n3,4,1\n");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,0\n3,4,1\n")), "");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,0\n3,5,1\n")), "the contents differ");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,1\n3,4,0\n")), "the contents differ");
  EXPECT_EQ(difference(base, print("x,y,l\n3,4,1\n1,2,0\n")), "the contents differ");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,0\n3,4,1\n5,6,1\n")), "2 samples -> 3");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,0\n3,4,2\n")), "the contents differ");
  EXPECT_EQ(difference(base, print("x,y,l\n1,2,0.5\n3,4,1\n")), "classes -> targets");
  EXPECT_EQ(difference(base, print("x,y,z,l\n1,2,0,0\n3,4,1,1\n5,6,1,1\n")), "2 samples -> 3, features (2) -> (3)");
  EXPECT_NE(difference(print("x,l\n1,a\n1,b\n"), print("x,l\n1,a\n1,c\n")), "");
  const Fingerprint part = print(counting(30), 0.5);
  EXPECT_EQ(part.samples, 15);
  EXPECT_EQ(difference(part, print(counting(30), 0.5)), "");
}

TEST_F(DatasetTest, TextRoundTrip) {
  const Fingerprint print = load(csv(counting(7)), 0).train.fingerprint();
  EXPECT_TRUE(print.to_string().starts_with("7 samples, features (1), 3 classes, sha256 ")) << print.to_string();
  EXPECT_EQ(Fingerprint::parse(print.to_string()), print);
  Fingerprint images{60000, {28, 28}, LabelKind::kTarget, 4, "abc"};
  EXPECT_EQ(Fingerprint::parse(images.to_string()), images);
  images.label_kind = LabelKind::kNone;
  images.outputs = 0;
  EXPECT_EQ(Fingerprint::parse(images.to_string()), images);
  for (const char* text :
       {"", "7", "7 samples, features (1), 3 cats, sha256 0", "7 samples, features (x), no labels, sha256 0"}) {
    EXPECT_THROW(Fingerprint::parse(text), Error) << text;
  }
}

}  // namespace
}  // namespace runner::data
