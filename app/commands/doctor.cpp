// ft doctor.
#include "app/doctor/doctor.h"

#include "app/commands/list.h"
#include "app/commands/run_options.h"

namespace ft::commands {
namespace {

Use doctor_options(CLI::App& app) {
  const auto args = std::make_shared<DoctorArgs>();
  app.add_option("--config", args->config, "Also check the output folder of this run.")->type_name("FILE");
  add_overrides(app, args->overrides);
  app.add_option("--hostfile", args->hostfile,
                 "Also check these machines over ssh: one HOST slots=N per line.")
      ->type_name("FILE");
  app.add_option("-i,--include", args->include, "Use only these hosts of the hostfile: HOST[@HOST...].")
      ->type_name("HOSTS");
  app.add_option("-e,--exclude", args->exclude, "Use all hosts of the hostfile but these.")
      ->type_name("HOSTS");
  app.add_option("--ssh_port", args->ssh_port, "Port of ssh (default: ssh's own).")
      ->type_name("N")
      ->check(CLI::Range(1, 65535));
  app.add_flag("--json", args->json, "One JSON object on stdout.");
  return {.run = [args] { return doctor(*args); }};
}

}  // namespace

const Command kDoctor{"doctor", "Check that this machine, or the machines of a hostfile, are ready to train.",
                      "  ft doctor\n"
                      "  ft doctor --config run.json                 its output folder too\n"
                      "  ft doctor --hostfile hosts --config run.json",
                      doctor_options};

}  // namespace ft::commands
