#include "runner/text/character_ids.h"

#include <algorithm>

#include "schema/base/utf8.h"

namespace runner::text {

CharacterIds::CharacterIds(std::span<const std::string> names) {
  direct_.fill(-1);
  for (const std::string& name : names) {
    const char32_t code = character_at(name, 0).code;
    if (code < kDirect) direct_[code] = static_cast<int32_t>(codes_.size());
    codes_.push_back(code);
  }
}

int64_t CharacterIds::searched(char32_t code) const {
  const auto at = std::ranges::lower_bound(codes_, code);
  return at != codes_.end() && *at == code ? at - codes_.begin() : -1;
}

}  // namespace runner::text
