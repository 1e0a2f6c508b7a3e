// The command line: the frozen list of options, exit codes, and what is said about mistakes.
#include "app/command_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "app/help_config.h"

namespace ft {
namespace {

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_command_line(arguments);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

void expect_refusal(const std::vector<std::string>& arguments, const std::string& text) {
  const Outcome o = run(arguments);
  EXPECT_EQ(o.code, 2) << o.err;
  EXPECT_EQ(o.err, text + "\n");
  EXPECT_EQ(o.out, "");
}

// A new option is a decision: it is added here on purpose.
TEST(CommandLine, TheOptionsAreFrozen) {
  const std::vector<std::string> frozen {
    "--version", "--json", "train --config", "train overrides", "train --overwrite", "eval --config",
        "eval overrides", "eval --adapter", "eval --answers", "eval --json", "plan --config", "plan --model",
        "plan overrides", "plan --json", "validate --config", "validate overrides", "merge --model",
        "merge --adapter", "merge --output", "merge --dtype", "merge --overwrite", "export --to",
        "export --from", "export --output", "export --dtype", "export --overwrite", "inspect path",
        "inspect --json", "init --config", "init --output", "init --seed", "init --dtype", "tokenize --model",
        "tokenize --no-special-tokens", "tokenize --decode", "tokenize --skip-special-tokens",
        "data show --config", "data show overrides", "data show --json", "data show --limit",
