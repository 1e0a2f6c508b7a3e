// ft launch.
#include "app/launch/launch.h"

#include <algorithm>

#include "app/cli/parser.h"
#include "app/commands/list.h"
#include "app/launch/launcher_flags.h"
#include "engine/core/suggest.h"

namespace ft::commands {
namespace {

// Adds the flags that have no effect or are refused, under a heading.
void add_launcher_flags(CLI::App& app, Names& typed) {
  for (const LauncherFlag& flag : launcher_flags()) {
    const std::string names = flag.names, name = names.substr(names.find("--"));
    const std::string help = (flag.refused ? "Refused: " : "No effect: ") + std::string(flag.why) + ".";
    const auto note = [&typed, name] { typed.push_back(name); };
    CLI::Option* option = *flag.type ? app.add_option_function<std::string>(
                                              names, [note](const std::string&) { note(); }, help)
                                           ->type_name(flag.type)
                                     : app.add_flag_callback(names, note, help);
    option->group("Other options of DeepSpeed's launcher");
  }
}

void add_launch_options(CLI::App& app, LaunchArgs& args) {
  const auto number = [&](const char* name, int& to, const char* what, int low, int high) {
    app.add_option(name, to, what)->type_name("N")->check(CLI::Range(low, high));
  };
  const auto text = [&](const char* name, std::string& to, const char* what, const char* type) {
    app.add_option(name, to, what)->type_name(type);
  };
  number("-n,--nproc_per_node,--num_gpus,--num_accelerators", args.ranks,
         "Ranks per machine (default: the hostfile's slots, distributed.nproc_per_node, or all GPUs).", 1,
         1024);
  number("--num_nodes", args.nodes, "Number of machines (default: all in the hostfile).", 1, 4096);
  text("-H,--hostfile", args.hostfile, "File with the machines, as for DeepSpeed and OpenMPI: HOST slots=N.",
       "FILE");
  text("-i,--include", args.include,
       "Use only HOST[:SLOT,...][@HOST...] of the hostfile, or localhost:SLOT,... without one. A slot is a "
       "rank, "
       "and the GPU that it takes.",
       "HOSTS");
  text("-e,--exclude", args.exclude, "Use all hosts of the hostfile, or all GPUs of this machine, but these.",
       "HOSTS");
  text("--master_addr", args.master_addr,
       "Address where rank 0 listens (default: the first machine's name, or loopback on one machine).",
       "ADDRESS");
  number("--master_port", args.master_port, "Port where rank 0 listens (default: any free one).", 0, 65535);
  number("--node_rank", args.node_rank,
         "Without ssh: the number of this machine, from 0; start ft launch on each of --num_nodes.", 0, 4095);
  app.add_flag("--no_ssh", args.no_ssh,
               "With --hostfile and --node_rank: ft launch is started on each machine of the file.");
  number("--ssh_port", args.ssh_port, "Port of ssh (default: ssh's own).", 1, 65535);
  text("--launcher", args.launcher,
       "Launcher of several machines. pdsh, DeepSpeed's default, means ssh here; for any other, ft launch "
       "prints the command to type.",
       "NAME");
  text("--log-dir,--enable_each_rank_log", args.log_dir,
       "Folder for rank-0.log, rank-1.log, ... (default: OUTPUT_DIR/ranks).", "DIR");
}

[[noreturn]] void refuse_command(const std::string& word) {
  std::string known;
  for (const Command* command : kRankCommands) known += str(known.empty() ? "" : ", ", command->name);
  throw UserError(Exit::config,
                  str("ft launch ", printable(word), " is not available yet; available: ", known));
}

Exit launch_command(const CLI::App& app, const LaunchArgs& args) {
  const Names& words = args.command;
  if (words.empty()) throw UserError(Exit::config, "ft launch: give a command: ft launch -n 2 train ...");
  if (words[0].ends_with(".py"))
    throw UserError(Exit::config,
                    str("ft launch ", printable(words[0]), ": ft runs no Python; ft import -- deepspeed ",
                        printable(words[0]), " ... prints the command to type instead"));
  if (words[0][0] == '-') {
    Names options;
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    const std::string near = nearest(words[0].substr(0, words[0].find('=')), options);
    throw UserError(Exit::config,
                    str("ft launch: there is no option ", printable(words[0]),
                        near.empty() ? "; see " : "; do you mean " + near + "? See ", "ft launch --help"));
  }
  const auto is_named = [&](const Command* command) { return words[0] == command->name; };
  if (std::none_of(kRankCommands.begin(), kRankCommands.end(), is_named)) refuse_command(words[0]);
  return Parser().launch(args, words);
}

Use launch_options(CLI::App& app) {
  const auto args = std::make_shared<LaunchArgs>();
  add_launch_options(app, *args);
  add_launcher_flags(app, args->others);
  app.prefix_command();
  app.callback([args, &app] { args->command = app.remaining(); });
  return {.run = [args, &app] { return launch_command(app, *args); }};
}

}  // namespace

const Command kLaunch{
    "launch", "Train, evaluate or generate with several processes, on one machine or more.",
    "  ft launch -n 4 train --config run.json zero_stage=2\n"
    "  ft launch --hostfile hosts train --config run.json      over ssh, one HOST slots=N per line\n"
    "  ft launch --hostfile hosts --include node1@node2:0,1 train --config run.json\n"
    "  ft launch --include localhost:2,3 train --config run.json   these GPUs of this machine\n"
    "  ft doctor --hostfile hosts                              are they ready?",
    launch_options};

}  // namespace ft::commands
