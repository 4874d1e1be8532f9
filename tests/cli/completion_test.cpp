// Completion in zsh and fish: types a line, completes it, and checks the result. cases/help.test covers bash.

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/cli/sample_store.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;

class Completion : public ::testing::Test {
 protected:
  void SetUp() override {
    make_sample_store(path() / "runner.db");
    write_text(path() / "recipe.yaml", "");
    write_text(path() / "my data.csv", "");
  }

  const fs::path& path() const { return folder_.path(); }
  bool has(const std::string& shell) const { return run_command(shell + " -c exit", path()).exit_code == 0; }

 private:
  Folder folder_;
};

// Types each line of standard input and a tab into an interactive zsh, and writes the resulting line to `typed`.
constexpr const char* kType = R"(zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; autoload -Uz compinit; $1; "'report() { print -r -- "$BUFFER" >>typed; BUFFER=; print -r rep""orted }; zle -N report; bindkey "^X" report; print -r re""ady'
zpty -r shell answer '*ready*'
while IFS= read -r line; do
  zpty -w -n shell "$line"$'\t\C-x'
  zpty -r shell answer '*reported*'
done
)";

TEST_F(Completion, InZsh) {
  if (!has("zsh")) GTEST_SKIP() << "zsh is not installed";
  const std::pair<const char*, const char*> kLines[] = {
      {"runner exe", "runner exec "},
      {"runner show wi", "runner show wine "},
      {"runner show 'wi", "runner show 'wine' "},
      {"runner show 0000000a", "runner show 0000000aaa "},
      {"runner ls --wh", "runner ls --where "},
      {"runner ls --color al", "runner ls --color always "},
      {"runner ls --color=al", "runner ls --color=always "},
      {"runner ls --db=runn", "runner ls --db=runner.db "},
      {"runner --db=runner.db show wi", "runner --db=runner.db show wine "},
      {"runner exec rec", "runner exec recipe.yaml "},
      {"runner exec x.yaml optimizer.ty", "runner exec x.yaml optimizer.type="},
      {"runner exec x.yaml optimizer.type=adag", "runner exec x.yaml optimizer.type=adagrad "},
      {"runner metrics wine eval/a", "runner metrics wine eval/accuracy "},
      {"runner eval wine my", "runner eval wine my\\ data.csv "},
      {"runner show nothere", "runner show nothere"}};
  std::string lines, expected;
  for (const auto& [typed, became] : kLines) {
    lines += std::string(typed) + '\n';
    expected += std::string(became) + '\n';
  }
  write_text(path() / "type.zsh", kType);
  write_text(path() / "lines", lines);
  // Loaded by hand, and from the place where `make install` puts it.
  run_command("mkdir functions; runner completion zsh >functions/_runner", path());
  for (const char* set_up :
       {"compinit -D -u; source <(runner completion zsh)", "fpath=(functions $fpath); compinit -D -u"}) {
    const Result result = run_command(std::string("zsh -f type.zsh '") + set_up + "' <lines", path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(read_text(path() / "typed"), expected) << set_up;
    fs::remove(path() / "typed");
  }
}

TEST_F(Completion, InFish) {
  if (!has("fish")) GTEST_SKIP() << "fish is not installed";
  const std::pair<const char*, const char*> kLines[] = {
      {"runner ex", "exec explain export "},
      {"runner show w", "wine "},
      {"runner show ", "0000000aaa 0000000bbb 0000000ccc @last digits wine "},  // and no files
      {"runner ls --wh", "--where "},
      {"runner ls --color ", "always auto never "},
      {"runner ls --color=al", "--color=always "},
      {"runner ls --db=runner.d", "--db=runner.db "},
      {"runner --db=runner.db show w", "wine "},
      {"runner exec r", "recipe.yaml runner.db runner.yaml "},
      {"runner exec x.yaml optimizer.ty", "optimizer.type= "},
      {"runner exec x.yaml optimizer.type=adag", "optimizer.type=adagrad "},
      {"runner metrics wine eval/a", "eval/accuracy "},
      {"runner eval wine my", "my data.csv "},
      {"runner show nothere", ""}};
  write_text(path() / "runner.yaml", "");
  for (const auto& [typed, offered] : kLines) {
    const Result result =
        run_command(std::string("fish --no-config -c 'runner completion fish | source; complete -C $argv[1]' '") +
                        typed + "' | cut -f1 | tr '\\n' ' '",
                    path());
    EXPECT_EQ(result.out, offered) << typed << result.err;
  }
}

}  // namespace
}  // namespace runner::cli::testing
