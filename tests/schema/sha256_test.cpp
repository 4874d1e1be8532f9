#include "schema/base/sha256.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

std::string digest_of(std::string_view text, Sha256::Kernel kernel = Sha256::Kernel::kFastest) {
  return hex(Sha256(kernel).update(text).finish());
}

// Vectors of the example documents of FIPS 180-4.
constexpr std::pair<std::string_view, std::string_view> kVectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

TEST(Sha256, PublishedVectors) {
  for (const auto& [text, want] : kVectors) {
    EXPECT_EQ(digest_of(text), want);
    EXPECT_EQ(digest_of(text, Sha256::Kernel::kPortable), want);
    EXPECT_EQ(hex(sha256(text)), want);
  }
  EXPECT_EQ(digest_of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, KernelsAndSplitsAgreeAtEveryLength) {
  std::string text;
  for (int length = 0; length <= 200; ++length) {
    const std::string whole = digest_of(text);
    EXPECT_EQ(whole, digest_of(text, Sha256::Kernel::kPortable)) << length;
    const std::string_view view = text;
    const size_t cut = view.size() / 3;
    EXPECT_EQ(whole, hex(Sha256().update(view.substr(0, cut)).update("").update(view.substr(cut)).finish())) << length;
    text += static_cast<char>(length * 37 + 11);
  }
}

}  // namespace
}  // namespace runner
