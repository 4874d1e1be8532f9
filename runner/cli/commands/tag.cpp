#include <algorithm>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "schema/base/json.h"
#include "schema/base/utf8.h"
#include "store/queries.h"

namespace runner::cli {
namespace {

struct TagOptions : RunOptions {
  std::string tag;
  bool remove = false;
};

constexpr Argument kTagArguments[] = {
    kRunArgument, {"TAG", "", "one word", &TagOptions::tag}, {"--remove", "", "remove the tag", &TagOptions::remove}};

// A tag must not contain blanks, because `ls` and the view `runs` separate tags by blanks.
bool is_word(std::string_view text) {
  const auto separates = [](unsigned char c) { return c <= ' ' || c == 0x7F; };
  return !text.empty() && is_utf8(text) && std::none_of(text.begin(), text.end(), separates);
}

void untag(store::Store& store, const store::RunRow& run, const std::string& tag) {
  RUN_CHECK(std::find(run.tags.begin(), run.tags.end(), tag) != run.tags.end(), ErrorKind::kNotFound,
            "run {} has no tag {}; its tags: {}", run.uid, tag,
            run.tags.empty() ? "none" : fmt::format("{}", fmt::join(run.tags, ", ")));
  store::remove_tag(store, run.id, tag);
}

int tag(const TagOptions& options, report::Output& out) {
  RUN_CHECK(
      options.remove || is_word(options.tag), ErrorKind::kUsage,
      "invalid tag: expected one word in UTF-8 without spaces or control characters; `runner note` stores longer text");
  constexpr int kLongest = 200;
  const int length = count_characters(options.tag);
  RUN_CHECK(options.remove || length <= kLongest, ErrorKind::kUsage,
            "invalid tag: expected at most {} characters, got {}; `runner note` stores longer text", kLongest, length);
  store::Store store = open_store(options, store::Access::kEdit);
  const store::RunRow run = store::find_run(store, options.run);
  options.remove ? untag(store, run, options.tag) : store::add_tag(store, run.id, options.tag);
  out.say(fmt::format("run {} {} {}", run.uid, options.remove ? "no longer has the tag" : "has the tag", options.tag));
  if (options.json) out.data(json::text(json::Object{{"run", run.uid}, {"tag", options.tag}}));
  return 0;
}

}  // namespace

const Command kTagCommand{
    .name = "tag",
    .group = Group::kStore,
    .summary = "add a tag to a run",
    .details = "Removing a tag that the run does not have gives exit code 3.",
    .arguments = kTagArguments,
    .examples =
        "runner tag @last baseline\n"
        "runner tag @last baseline --remove",
    .has_json = true,
    .action = action<tag>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
