// ft verify zero.
#include <array>

#include "app/commands/list.h"
#include "app/commands/run_options.h"
#include "app/train/verify_zero.h"

namespace ft::commands {
namespace {

Use verify_zero_options(CLI::App& app) {
  const auto args = std::make_shared<VerifyZeroArgs>();
  add_run_options(app, *args);
  app.add_option("--ranks", args->ranks, "Numbers of ranks to try.")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--steps", args->steps, "Steps per run.")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return {.run = [args] { return verify_zero(*args); }};
}

const Command kVerifyZero{
    "zero",
    "Run a few steps under each ZeRO stage and check losses, memory per rank and bytes sent; exit 0 or 11.",
    "  ft verify zero --config run.json\n"
    "  ft verify zero --config run.json --ranks 1,2,4 --steps 5",
    verify_zero_options};
constexpr std::array kVerifications{&kVerifyZero};

}  // namespace

const Command kVerify{.name = "verify",
                      .help = "Check ft's guarantees on your own model: zero.",
                      .examples = "  ft verify zero --config run.json",
                      .below = kVerifications};

}  // namespace ft::commands
