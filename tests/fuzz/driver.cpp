// Replaces libFuzzer if the compiler has none: mutates the corpus without measuring coverage.
//
//   usage: fuzz_NAME [-max_total_time=SECONDS] [-runs=N] [-seed=N] [-max_len=N] [-timeout=SECONDS] [-dict=FILE]
//                    [-artifact_prefix=PREFIX] FILE|FOLDER…
//
// The options have libFuzzer's meaning. Without a folder, each file is run once, unchanged. An input that ends the
// process is saved in PREFIXcrash-NAME or PREFIXtimeout-NAME.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "tests/fuzz/mutator.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

struct Options {
  double seconds = 0;  // 0: no limit
  uint64_t runs = UINT64_MAX;
  uint32_t seed = 1;
  size_t longest = 4096;
  unsigned timeout = 60;
  std::string dictionary, prefix, name;
  std::vector<std::string> paths;
};

// The input being run, for the handlers.
const std::string* current = nullptr;
std::string crash_path, timeout_path;

void save(const std::string& path) {
  if (current == nullptr) return;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || write(file, current->data(), current->size()) < 0) return;
  close(file);
  const std::string_view text = "fuzz: the input is in ";
  for (const std::string_view part : {text, std::string_view(path), std::string_view("\n")}) {
    if (write(STDERR_FILENO, part.data(), part.size()) < 0) return;
  }
  current = nullptr;
}

void save_crash() {
  save(crash_path);
}

void on_signal(int signal) {
  save(signal == SIGALRM ? timeout_path : crash_path);
  _exit(signal == SIGALRM ? 70 : 77);  // libFuzzer's exit codes
}

void install_handlers() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_set_death_callback(save_crash);
  for (const int signal : {SIGABRT, SIGALRM}) std::signal(signal, on_signal);
#else
  std::atexit(save_crash);  // for an exit within a run
  for (const int signal : {SIGABRT, SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, on_signal);
#endif
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "fuzz: cannot read %s\n", path.c_str());
    std::exit(1);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

Options parse(int argc, char** argv) {
  Options options;
  options.name = fs::path(argv[0]).filename();
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = argument.substr(std::min(argument.find('=') + 1, argument.size()));
    const auto is = [&](std::string_view name) { return argument.starts_with("-" + std::string(name) + "="); };
    if (is("max_total_time"))
      options.seconds = std::stod(value);
    else if (is("runs"))
      options.runs = std::stoull(value);
    else if (is("seed"))
      options.seed = static_cast<uint32_t>(std::stoul(value));
    else if (is("max_len"))
      options.longest = std::stoul(value);
    else if (is("timeout"))
      options.timeout = static_cast<unsigned>(std::stoul(value));
    else if (is("dict"))
      options.dictionary = value;
    else if (is("artifact_prefix"))
      options.prefix = value;
    else if (!argument.starts_with("-"))
      options.paths.push_back(argument);
  }
  return options;
}

void run(const std::string& input, unsigned timeout) {
  // A copy of the exact size, so that a sanitizer detects reads past the end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  current = &input;
  alarm(timeout);
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  alarm(0);
  current = nullptr;
}

// The files of all folders; empty if there is no folder.
std::vector<std::string> read_corpus(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) continue;
    for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const fs::path& file : files) corpus.push_back(read_file(file));
  return corpus;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  crash_path = options.prefix + "crash-" + options.name;
  timeout_path = options.prefix + "timeout-" + options.name;
  install_handlers();

  std::vector<std::string> corpus = read_corpus(options.paths);
  if (corpus.empty()) {
    for (const std::string& path : options.paths) run(read_file(path), options.timeout);
    std::printf("%s: ran %zu files\n", options.name.c_str(), options.paths.size());
    return options.paths.empty() ? 1 : 0;
  }
  for (const std::string& input : corpus) run(input, options.timeout);
  const auto tokens = options.dictionary.empty() ? std::vector<std::string>{}
                                                 : runner::fuzz::parse_dictionary(read_file(options.dictionary));
  runner::fuzz::Mutator mutator(options.seed, std::move(corpus), tokens);
  const auto started = std::chrono::steady_clock::now();
  double seconds = 0;
  uint64_t runs = 0;
  while (runs < options.runs && (options.seconds == 0 || seconds < options.seconds)) {
    run(mutator.next(options.longest), options.timeout);
    ++runs;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  }
  std::printf("%s: %llu executions in %.0f s, nothing found\n", options.name.c_str(),
              static_cast<unsigned long long>(runs), seconds);
  return 0;
}
