#include "runner/cli/program.h"

int main(int argc, char** argv) {
  return runner::cli::run_program(argc, argv);
}
